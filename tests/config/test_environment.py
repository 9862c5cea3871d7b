"""Secrets come from the environment when they are used."""

from __future__ import annotations

import pytest

from Middleware.common.errors import ConfigError
from Middleware.config.endpoints import expand, expand_all, from_environment, secrets_in_use


def test_references_are_replaced(monkeypatch):
    monkeypatch.setenv("TOKEN_A", "s3cret")
    assert expand("Bearer ${ENV:TOKEN_A}!") == "Bearer s3cret!"
    assert expand("no ${reference} here") == "no ${reference} here"
    assert expand_all({"A": "${ENV:TOKEN_A}", "B": "b"}) == {"A": "s3cret", "B": "b"}


def test_a_missing_variable_is_a_config_error_with_its_place(monkeypatch):
    monkeypatch.delenv("TOKEN_A", raising=False)
    with pytest.raises(ConfigError, match="TOKEN_A") as caught:
        expand_all({"Authorization": "${ENV:TOKEN_A}"}, file="Endpoints/x.json", pointer="/extraHeaders")
    assert (caught.value.file, caught.value.pointer) == ("Endpoints/x.json", "/extraHeaders/Authorization")
    with pytest.raises(ConfigError):
        from_environment("TOKEN_A")


def test_values_that_were_read_are_known_to_the_log(monkeypatch):
    """The longest first, so that none is left in part."""
    monkeypatch.setenv("TOKEN_A", "only-here")
    monkeypatch.setenv("TOKEN_B", "only-here-and-more")
    expand("${ENV:TOKEN_A} ${ENV:TOKEN_B}")
    known = [value for value in secrets_in_use() if value.startswith("only-here")]
    assert known == ["only-here-and-more", "only-here"]
