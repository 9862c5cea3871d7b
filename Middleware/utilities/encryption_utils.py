"""Encryption at rest with a key made from the caller's API key. The package `cryptography` is loaded on use
only.

Never stores or logs a key. Source: spec memory.md 13 and 18.6.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from Middleware.common.errors import ConfigError

TOKEN_START = b"gAAAAA"
"""Every encrypted file begins with this (base64 of the Fernet version byte and the high bytes of the time).
"""

_ROUNDS = 100_000
_IDLE_S = 15 * 60
_SALT_WITHOUT_USER = "WilmerAI-encryption-salt-v1"


class InvalidToken(ValueError):
    """The bytes are no text that was encrypted with this key."""


def api_key_hash(api_key: str) -> str:
    """Name of the folder that belongs to an API key: 16 hex digits."""
    return hash_of_digest(hashlib.sha256(api_key.encode("utf-8", "surrogatepass")).hexdigest())


def hash_of_digest(sha256: str) -> str:
    """The same of a key whose SHA-256 is known alone."""
    return sha256[:16]


def folder_of_key(api_key: str | None, named: str | None = None) -> str | None:
    """Below which folder of the discussions root the chats of a key lie; None: in the root itself.

    `named`: the folder that the key's entry in the keys file names, `""` for the root; None: it names none.
    Source: spec memory.md 2.2, keys.md 1.
    """
    if named is not None:
        return named or None
    return api_key_hash(api_key) if api_key else None


def key_readings(api_key: str) -> tuple[str, ...]:
    """The texts that a server may have made of the key's bytes: UTF-8, and Latin-1 as old programs did.

    Source: memory.md 13.1.
    """
    if api_key.isascii():
        return (api_key,)
    return api_key, api_key.encode("utf-8", "surrogatepass").decode("latin-1").strip()


def derive_key(api_key: str, user: str = "") -> bytes:
    """Fernet key for an API key and a user name (exactly as the server was started with); takes tens of
    milliseconds.
    """
    salt = _SALT_WITHOUT_USER
    if user:
        salt = "WilmerAI-v1-" + hashlib.sha256(user.encode("utf-8", "surrogatepass")).hexdigest()
    raw = hashlib.pbkdf2_hmac(
        "sha256", api_key.encode("utf-8", "surrogatepass"), salt.encode(), _ROUNDS, dklen=32
    )
    return base64.urlsafe_b64encode(raw)


class KeyCache:
    """Derived keys in memory, forgotten after 15 idle minutes. Holds no API key, only an HMAC of it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._secret = clock, os.urandom(32)
        self._keys: dict[bytes, tuple[bytes, float]] = {}
        self._lock = threading.Lock()

    def derive(self, api_key: str, user: str = "") -> bytes:
        """As `derive_key`, once per key and user."""
        text = f"{len(user)}:{user}{api_key}".encode("utf-8", "surrogatepass")
        name = hmac.digest(self._secret, text, "sha256")
        now = self._clock()
        with self._lock:
            self._keys = {k: entry for k, entry in self._keys.items() if now - entry[1] < _IDLE_S}
            found = self._keys.get(name)
            key = found[0] if found else derive_key(api_key, user)
            self._keys[name] = (key, now)
        return key


def encrypt(data: bytes, key: bytes) -> bytes:
    """A Fernet token. ConfigError when the package is not installed."""
    return bytes(_fernet().Fernet(key).encrypt(data))


def decrypt(token: bytes, key: bytes) -> bytes:
    """The bytes in a Fernet token. Raises InvalidToken for anything that was not encrypted with `key`."""
    fernet = _fernet()
    try:
        return bytes(fernet.Fernet(key).decrypt(token))
    except fernet.InvalidToken:
        raise InvalidToken("not encrypted with this key") from None


def _fernet() -> Any:
    try:
        from cryptography import fernet
    except ImportError as error:
        raise ConfigError(
            "encryptUsingApiKey needs the package 'cryptography': "
            ".venv/bin/python -m pip install -e '.[encryption]'"
        ) from error
    return fernet
