"""What holds for every test: all tables of plug-ins are full, and hypothesis judges no example by the clock."""

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

settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


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
