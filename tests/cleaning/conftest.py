"""Fixtures of the cleaning tests: the oracle as a module, and answers made of what the rules look for."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location(
    "cleaning_oracle", Path(__file__).with_name("cleaning_oracle.py")
)
_oracle = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_oracle)


@pytest.fixture(scope="session")
def oracle():
    return _oracle
