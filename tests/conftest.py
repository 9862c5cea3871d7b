"""What holds for every test: all tables of plug-ins are full; hypothesis judges no example by the clock and
draws the same ones each time, unless `--hypothesis-profile=fresh` asks for others.
"""

from __future__ import annotations

import gc
import time

import pytest
from hypothesis import HealthCheck, settings

from Middleware.api import commands
from Middleware.api.api_server import load_front_ends
from Middleware.cleaning import rules
from Middleware.common.registry import load_all
from Middleware.llmapis.handlers import impl as backends
from Middleware.workflows.handlers import impl as nodes

load_front_ends()
for package in (commands, rules, backends, nodes):
    load_all(package)

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fresh", unhurried)
settings.register_profile("same", unhurried, derandomize=True, database=None)
settings.load_profile("same")


def pytest_collection_finish() -> None:
    """What is loaded by now stays: a collection of garbage in a test looks at what that test made."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def berlin(monkeypatch):
    """The system's zone, in which the clock changes on 29 March and 25 October 2026."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
