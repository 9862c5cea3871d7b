"""The real servers of the end-to-end tests."""

from tests.e2e.conftest import backend, launch  # noqa: F401
