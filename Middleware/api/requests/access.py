"""Who may ask: origins of browsers, names of the host, API keys. Pure rules over header values.

Source: spec frontend-api.md 6.1, 6.4 and 12.5.
"""

from __future__ import annotations

import base64
import hmac
import ipaddress
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import urlsplit

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})
APP_SCHEMES = frozenset(
    {
        "app",
        "capacitor",
        "chrome-extension",
        "file",
        "ionic",
        "moz-extension",
        "tauri",
        "vscode-file",
        "vscode-webview",
    }
)
LOCAL_ENDINGS = (".local", ".localhost", ".internal", ".lan", ".home.arpa")
_NETLOC = re.compile(r"(\[[^\s\[\]@/\\?#,]+\]|[^\s\[\]@/\\?#,:]+)(?::\d*)?")
"""A name, or an IPv6 address in brackets, and perhaps a port: nothing before, between or behind."""
_KEYS_IN_QUERY = frozenset({"key", "api_key", "apikey", "token", "access_token"})
OPEN_PATHS = frozenset({"/", "/health", "/v1/health"})


@dataclass(frozen=True, slots=True)
class AccessRules:
    """What the command line said:

    Allowed origins (as browsers send them: `scheme://host[:port]`, lower case), required keys, and whether
    the server is bound to loopback.
    """

    cors_origins: tuple[str, ...] = ()
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    loopback: bool = True

    def allows_origin(self, origin: str, host: str) -> bool:
        """`origin`: value of the header; `host`: value of the `Host` header."""
        if "*" in self.cors_origins or origin.lower() in self.cors_origins:
            return True
        try:
            parts = urlsplit(origin)
            name = parts.hostname
        except ValueError:
            return False
        if parts.scheme in APP_SCHEMES:
            return True
        if parts.scheme not in ("http", "https") or not name:
            return False
        own = name in LOOPBACK_NAMES or name.endswith(".localhost")
        return own or parts.netloc.lower() == host.lower()

    def allows_host(self, host: str) -> bool:
        """While bound to loopback only names that cannot be another site's (DNS rebinding), and those of the
        allowed origins.

        None is no name.
        """
        return not self.loopback or not host or "*" in self.cors_origins or self.knows_host(host)

    def knows_host(self, host: str) -> bool:
        """Whether no page of another site can be shown under this name: it is near, or an allowed
        origin's.
        """
        name = _name_of(host)
        allowed = {_name_of(origin) for origin in self.cors_origins}
        return _is_local(host) or (name is not None and name in allowed)

    def allows_key(self, path: str, key: str | None) -> bool:
        """Without required keys everyone may ask. Compared in constant time."""
        return path in OPEN_PATHS or self.knows_key(key)

    def knows_key(self, key: str | None) -> bool:
        """Whether whoever sent this key may be told more than that a server is here."""
        if not self.api_keys:
            return True
        return any([same_key(key or "", wanted) for wanted in self.api_keys])


@lru_cache(maxsize=64)
def _is_local(host: str) -> bool:
    """Whether the value of a `Host` header names no public site."""
    name = _name_of(host)
    if name is None:
        return False
    if "." not in name and ":" not in name:
        return True  # no public site has a name of one word; containers and local machines do
    return name in LOOPBACK_NAMES or _is_near(name) or name.endswith(LOCAL_ENDINGS) or name == _own_name()


def _name_of(place: str) -> str | None:
    """The bare name of an origin or of a `Host` header, without a port; None when it has no such form."""
    is_origin = "://" in place
    try:
        netloc = urlsplit(place if is_origin else f"//{place}").netloc
    except ValueError:
        return None
    if not is_origin and netloc != place:
        return None
    form = _NETLOC.fullmatch(netloc)
    return form[1].strip("[]").lower().rstrip(".") if form else None if netloc else ""


def is_loopback(address: str) -> bool:
    """Whether the address of a peer is this machine's own."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return (getattr(parsed, "ipv4_mapped", None) or parsed).is_loopback


def bearer_of(headers: Mapping[str, str]) -> str | None:
    """The key of `Authorization: Bearer`, which may be empty; None: there is no such header."""
    scheme, _, key = _header_text(headers.get("HTTP_AUTHORIZATION", "")).strip().partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None


def same_key(given: str, wanted: str) -> bool:
    """Compared in constant time."""
    return hmac.compare_digest(
        given.encode("utf-8", "surrogatepass"), wanted.encode("utf-8", "surrogatepass")
    )


def _header_text(value: str) -> str:
    """What a header says. WSGI hands its bytes on as Latin-1; they are UTF-8 where they can be, else Latin-1.

    Source: memory.md 13.1.
    """
    if value.isascii():
        return value
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return value


def _is_near(name: str) -> bool:
    """Whether the name is a loopback, private or link-local address."""
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_private or address.is_loopback or address.is_link_local


@lru_cache(maxsize=1)
def _own_name() -> str:
    return socket.gethostname().lower()


def api_key_of(headers: Mapping[str, str]) -> str | None:
    """The bearer key of `Authorization`, else `X-API-Key`. Empty means none.

    `headers`: names as WSGI spells them.
    """
    if (key := bearer_of(headers)) is not None:
        return key or None
    return _header_text(headers.get("HTTP_X_API_KEY", "")).strip() or None


def keys_sent(headers: Mapping[str, str]) -> tuple[str, ...]:
    """All keys of a request where keys are checked, in the order in which they count; empty ones are absent.

    `Authorization: Bearer`, `x-api-key`, `api-key`, the password of `Authorization: Basic`. Elsewhere a
    proxy's own password would begin to choose folders. Source: keys.md 3.
    """
    bearer = bearer_of(headers)
    sent = [bearer or ""]
    for name in ("HTTP_X_API_KEY", "HTTP_API_KEY"):
        if value := headers.get(name):
            sent.append(_header_text(value).strip())
    if bearer is None:
        sent.append(_password_of(headers))
    return tuple(dict.fromkeys(filter(None, sent)))


def _password_of(headers: Mapping[str, str]) -> str:
    """Of `Authorization: Basic`; the name is not looked at. What is no such header has none."""
    scheme, _, coded = headers.get("HTTP_AUTHORIZATION", "").strip().partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        named = base64.b64decode(coded.strip(), validate=True)
    except ValueError:
        return ""
    return _header_text(named.decode("latin-1")).partition(":")[2].strip()


def names_key_in_query(query: str) -> bool:
    """Whether the query of an address seems to hold a key, which is never read. `query`: as it was sent."""
    names = (part.partition("=")[0].lower() for part in query.split("&"))
    return any(name in _KEYS_IN_QUERY for name in names)


def idempotency_key_of(headers: Mapping[str, str]) -> str | None:
    """`X-Idempotency-Key`, else `Idempotency-Key`: 1 to 128 characters, else it counts as absent."""
    key = headers.get("HTTP_X_IDEMPOTENCY_KEY")
    if key is None:
        key = headers.get("HTTP_IDEMPOTENCY_KEY", "")
    key = key.strip()
    return key if 1 <= len(key) <= 128 else None


# --------------------------------------------------------------------------
# What the command line says about the doors of the application, as one value.


MOST_BODY_BYTES = 64 * 1024 * 1024
"""How large the body of a request may be, where the command line says nothing."""
NEEDS_KEY = "the console is off: --require-api-key needs --console-key beside it"
NEEDS_KEY_BESIDE_FILE = "the console is off: a keys file needs --console-key beside it"


@dataclass(frozen=True, slots=True)
class ConsoleWish:
    """What was said of the console. `mode`: `off`, `view`, `edit`, None: nothing. `key`: of the command line
    or the environment, `""`: none. `memory_mb`: for the texts of runs.
    """

    mode: str | None = None
    key: str = field(default="", repr=False)
    memory_mb: int = 16


@dataclass(frozen=True, slots=True)
class ServerRules:
    """`max_queue`: how many requests may wait for the gate; 0: any number. `most_body_bytes`: how large the
    body of one may be.
    """

    access: AccessRules = field(default_factory=AccessRules)
    max_queue: int = 0
    console: ConsoleWish = field(default_factory=ConsoleWish)
    most_body_bytes: int = MOST_BODY_BYTES
