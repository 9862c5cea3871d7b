"""Encryption at rest: keys as every installation derives them, tokens that only their key opens."""

from __future__ import annotations

import builtins

import pytest

from Middleware.common.errors import ConfigError
from Middleware.utilities import encryption_utils
from Middleware.utilities.encryption_utils import (
    TOKEN_START,
    InvalidToken,
    KeyCache,
    api_key_hash,
    decrypt,
    derive_key,
    encrypt,
)


def test_the_folder_of_a_key_is_named_by_16_digits():
    """Check value of memory.md 13.2."""
    assert api_key_hash("test-key") == "62af8704764faf8e"


@pytest.mark.parametrize(
    ("user", "key"),
    [
        ("", b"C5Kg7fuFz4p_L07c1QKb3XEve_KosB2Sj9T_vzSL7wY="),
        ("alice", b"TkIbzePKSruxgXWEQ_oOm6xag4BxUJO83p_wdc8nu5U="),
    ],
    ids=["no-user", "alice"],
)
def test_keys_are_derived_from_api_key_and_user(user, key):
    """Check values of memory.md 13.2."""
    assert derive_key("test-key", user) == key


def test_a_token_gives_back_what_was_encrypted():
    """And begins as encrypted files do."""
    key = derive_key("k")
    token = encrypt("märz".encode(), key)
    assert token.startswith(TOKEN_START)
    assert decrypt(token, key).decode() == "märz"


@pytest.mark.parametrize("data", [b"[]", b"", b"gAAAAAxx"], ids=["json", "empty", "broken-token"])
def test_anything_else_is_no_token(data):
    """Plain bytes and broken tokens are told apart from what the key opens."""
    with pytest.raises(InvalidToken):
        decrypt(data, derive_key("k"))


def test_the_token_of_another_key_is_no_token():
    """Who has another key sees nothing."""
    with pytest.raises(InvalidToken):
        decrypt(encrypt(b"secret", derive_key("a")), derive_key("b"))


def test_without_the_package_the_message_names_the_extra(monkeypatch):
    """Encryption is optional; only its use needs the package."""
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("cryptography"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"'.\[encryption\]'"):
        encrypt(b"x", b"k")


class TestKeyCache:
    """The slow derivation runs once per key and user."""

    def test_a_key_is_derived_once_until_it_was_idle_for_15_minutes(self, monkeypatch):
        calls = []
        monkeypatch.setattr(encryption_utils, "derive_key", lambda *a: calls.append(a) or b"key")
        now = [0.0]
        cache = KeyCache(lambda: now[0])
        cache.derive("k", "u")
        now[0] = 899.0
        assert cache.derive("k", "u") == b"key"
        assert calls == [("k", "u")]
        now[0] += 900.0
        cache.derive("k", "u")
        assert calls == [("k", "u")] * 2

    def test_key_and_user_are_not_run_together(self, monkeypatch):
        monkeypatch.setattr(encryption_utils, "derive_key", lambda key, user: f"{key}|{user}".encode())
        cache = KeyCache()
        assert cache.derive("bc", "a") == b"bc|a"
        assert cache.derive("c", "ab") == b"c|ab"
