"""Which model servers answer on this machine, and on hosts that somebody named.

Asks when it is called and never by itself: 127.0.0.1 at the usual ports, and the given hosts. It sends no
key, follows no redirect, asks no proxy and writes nothing. Source: spec workbench.md 6.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from Middleware.common.constants import KEY_CHALLENGE, USER_AGENT
from Middleware.common.errors import ConfigError
from Middleware.config.endpoints import why_no_address
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.paths import EXAMPLE
from Middleware.llmapis.dialects.model_lists import root_url

LIMIT_S = 2.0
"""For everything together."""
SPACING_S = 5.0
"""From the begin of one search to that of the next; whoever searches sees to it."""
MOST_HOSTS = 4
MOST_BYTES = 256 * 1024
HERE = "127.0.0.1"
LOOPBACK = (HERE, "localhost", "::1")
HEADRACE = "Headrace"
ANY_SERVER = "OpenAI-compatible server"
OPENAI_TYPE = "Open-AI-API"
"""The API type of what is no other kind."""
EXAMPLES = "Endpoints/examples/"
DEMO_TYPE = "BuiltInDemo"
"""The API type of the model inside this program: it has no server."""
_MOST_LETTERS = 200
"""Of a name or a version. What is longer, or cannot be shown, is none."""


@dataclass(frozen=True, slots=True)
class FoundServer:
    """A server that answered. `url`: its base address. `api_type`: the file in ApiTypes/ that fits it, empty
    for another Headrace, which is no model server. `models`: the names that it lists. `wants_key`: it
    answered 401 or 403. What it says of itself is on one line, as a terminal may show it.
    """

    url: str
    kind: str
    api_type: str
    version: str = ""
    models: tuple[str, ...] = ()
    wants_key: bool = False


@dataclass(frozen=True, slots=True)
class ServerSearch:
    """`servers`: in the order of `asked`, the base addresses that were asked. `took_s`: seconds."""

    servers: tuple[FoundServer, ...]
    asked: tuple[str, ...]
    took_s: float


# --------------------------------------------------------------------------
# How each kind is known by what it answers. Pure, but for what `ask(path)` does.


Ask = Callable[[str], Any]
"""path -> the JSON value that the server has there; None: it has none."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """`known_by(ask)`: version and names of models of a server of this kind; None: it is none."""

    name: str
    api_type: str
    known_by: Callable[[Ask], tuple[str, tuple[str, ...]] | None]


def _text(body: Any, key: str) -> str:
    """Empty for a body that has no such text, or one that a terminal cannot show."""
    value = body.get(key) if isinstance(body, Mapping) else None
    if not isinstance(value, str) or len(value) > _MOST_LETTERS or not value.isprintable():
        return ""
    return value


def _entries(body: Any, key: str) -> list[Mapping[str, Any]] | None:
    """The objects of a list; None for a body without that list."""
    listed = body.get(key) if isinstance(body, Mapping) else None
    return [entry for entry in listed if isinstance(entry, Mapping)] if isinstance(listed, list) else None


def _names(entries: Iterable[Mapping[str, Any]] | None, key: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, (_text(entry, key) for entry in entries or ()))))


def _openai_names(ask: Ask) -> tuple[str, ...]:
    return _names(_entries(ask("/v1/models"), "data"), "id")


def _as_ollama(ask: Ask) -> tuple[str, tuple[str, ...]] | None:
    version = _text(ask("/api/version"), "version")
    return (version, _names(_entries(ask("/api/tags"), "models"), "name")) if version else None


def _as_llamacpp(ask: Ask) -> tuple[str, tuple[str, ...]] | None:
    """By its settings; where these are closed, by the owner of its model."""
    props, models = ask("/props"), _entries(ask("/v1/models"), "data")
    is_known = isinstance(props, Mapping) and "default_generation_settings" in props
    if is_known or any(_text(model, "owned_by") == "llamacpp" for model in models or ()):
        return _text(props, "build_info"), _names(models, "id")
    return None


def _as_lmstudio(ask: Ask) -> tuple[str, tuple[str, ...]] | None:
    body = ask("/api/v0/models")
    return ("", _openai_names(ask)) if _text(body, "object") == "list" else None


def _as_koboldcpp(ask: Ask) -> tuple[str, tuple[str, ...]] | None:
    body = ask("/api/extra/version")
    return (_text(body, "version"), ()) if _text(body, "result") == "KoboldCpp" else None


def _as_vllm(ask: Ask) -> tuple[str, tuple[str, ...]] | None:
    version = _text(ask("/version"), "version")
    models = _entries(ask("/v1/models"), "data") if version else None
    return (version, _names(models, "id")) if models is not None else None


def _as_any(ask: Ask) -> tuple[str, tuple[str, ...]] | None:
    models = _entries(ask("/v1/models"), "data")
    return ("", _names(models, "id")) if models is not None else None


OLLAMA = _Kind("Ollama", "OllamaApiChat", _as_ollama)
LLAMACPP = _Kind("llama.cpp", "LlamaCppServer", _as_llamacpp)
LMSTUDIO = _Kind("LM Studio", OPENAI_TYPE, _as_lmstudio)
KOBOLDCPP = _Kind("KoboldCpp", "KoboldCpp", _as_koboldcpp)
VLLM = _Kind("vLLM", "vLLM", _as_vllm)
OTHERS = _Kind(ANY_SERVER, OPENAI_TYPE, _as_any)

USUAL_PORTS: Mapping[int, Sequence[_Kind]] = {
    11434: (OLLAMA,),
    8080: (LLAMACPP, OTHERS),
    1234: (LMSTUDIO,),
    5001: (KOBOLDCPP, OTHERS),
    8000: (VLLM, OTHERS),
    5000: (OTHERS,),
}
"""Port -> the kinds that are looked for there."""
_ALL_KINDS = (KOBOLDCPP, LLAMACPP, LMSTUDIO, VLLM, OLLAMA, OTHERS)
"""At any other port. KoboldCpp first: it answers like llama.cpp and like Ollama, too."""


# --------------------------------------------------------------------------
# Which addresses are asked. Pure.


def addresses_to_ask(hosts: Sequence[str], own_ports: Collection[int] = ()) -> list[str]:
    """Base addresses, each once: this machine at the usual ports, and `hosts` (`host`, `host:port`,
    `http(s)://host:port`). `own_ports` of this machine are left out.

    Raises ValueError, a sentence, for more than `MOST_HOSTS` hosts or for what is no host.
    """
    named = [host.strip() for host in hosts if host.strip()]
    if len(named) > MOST_HOSTS:
        raise ValueError(f"at most {MOST_HOSTS} hosts can be asked, found {len(named)}")
    urls = [url for host in (HERE, *named) for url in _urls_of(host)]
    return [url for url in dict.fromkeys(urls) if not _is_own(url, own_ports)]


def _urls_of(host: str) -> list[str]:
    if "://" in host:
        return [_checked(host.rstrip("/"), host)]
    bracketed = f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host
    if urlsplit(_checked(f"http://{bracketed}", host)).port:
        return [f"http://{bracketed}"]
    return [_checked(f"http://{bracketed}:{port}", host) for port in USUAL_PORTS]


def _checked(url: str, host: str) -> str:
    """Raises ValueError."""
    why = why_no_address(url)
    if why is None and ("@" in url or "?" in url or "#" in url):
        why = "it has more than a host, a port and a path"
    if why is not None:
        raise ValueError(f"{host!r} is not the address of a server: {why}")
    return url


def _is_own(url: str, own_ports: Collection[int]) -> bool:
    parts = urlsplit(url)
    return _is_here(parts.hostname or "") and parts.port in own_ports


def _is_here(host: str) -> bool:
    """Whether a name or an address leads to this machine, however it is spelt."""
    name = host.rstrip(".")
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name in LOOPBACK
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback or address.is_unspecified


# --------------------------------------------------------------------------
# Asking.


def find_servers(
    hosts: Sequence[str] = (), own_ports: Collection[int] = (), limit_s: float = LIMIT_S
) -> ServerSearch:
    """Ask all addresses side by side, for `limit_s` seconds in all. Raises ValueError as
    `addresses_to_ask`.
    """
    return search_addresses(addresses_to_ask(hosts, own_ports), limit_s)


def search_addresses(asked: Sequence[str], limit_s: float = LIMIT_S) -> ServerSearch:
    """As `find_servers`, of these base addresses."""
    began = time.monotonic()
    answers: queue.SimpleQueue[tuple[str, FoundServer | None]] = queue.SimpleQueue()
    addresses = [_Address(url, began + limit_s) for url in asked]
    for (
        one
    ) in addresses:  # threads that nobody waits for: a name may take longer to look up than there is time
        threading.Thread(target=_look, args=(one, answers), daemon=True).start()
    found: dict[str, FoundServer | None] = {}
    while len(found) < len(asked):
        try:
            url, server = answers.get(timeout=max(0.0, began + limit_s - time.monotonic()))
        except queue.Empty:
            break
        found[url] = server
    for one in addresses:
        one.hang_up()
    servers: dict[object, FoundServer] = {}
    for url in asked:
        if (server := found.get(url)) is not None:
            servers.setdefault(_place(url), server)  # `localhost` is the server at 127.0.0.1
    return ServerSearch(tuple(servers.values()), tuple(asked), time.monotonic() - began)


def _look(address: _Address, answers: queue.SimpleQueue[tuple[str, FoundServer | None]]) -> None:
    answers.put((address.url, _server_at(address)))


def _server_at(address: _Address) -> FoundServer | None:
    try:
        parts = urlsplit(address.url)
        for kind in USUAL_PORTS.get(parts.port or 0, _ALL_KINDS):
            known = kind.known_by(address.ask)
            if known is not None:
                version, models = known
                found = FoundServer(address.url, kind.name, kind.api_type, version, models, address.wants_key)
                return _as_headrace(found, address)
    except OSError:
        return None
    if not address.wants_key:
        return None
    return _as_headrace(FoundServer(address.url, ANY_SERVER, OPENAI_TYPE, wants_key=True), address)


def _as_headrace(found: FoundServer, address: _Address) -> FoundServer:
    """Another Headrace speaks the language of every kind. Only it says its version at /health, or, where it
    wants a key, asks for it so."""
    try:
        health = address.ask("/health")
    except OSError:
        return found
    if isinstance(health, Mapping) and health.keys() == {"status", "version"} and health["status"] == "ok":
        return replace(found, kind=HEADRACE, api_type="", version=_text(health, "version"), models=())
    if address.refuses_as_headrace:
        return replace(found, kind=HEADRACE, api_type="", version="", models=())
    return found


class _Address:
    """A base address that is asked for JSON until `end` (monotonic). `wants_key`: an answer was 401 or 403;
    `refuses_as_headrace`: as this program does.

    What it was asked is remembered, so that several kinds may look at the same page. A server that goes on
    sending, piece by piece or without an end, would hold its thread: `hang_up` ends that.
    """

    def __init__(self, url: str, end: float) -> None:
        self.url, self.wants_key, self.refuses_as_headrace = url, False, False
        self._end = end
        self._answers: dict[str, Any] = {}
        self._guard = threading.Lock()
        self._socket: socket.socket | None = None
        self._is_over = False

    def hang_up(self) -> None:
        """The search is over, for a thread that still reads too."""
        with self._guard:
            self._is_over = True
            if self._socket is not None:
                _shut(self._socket)

    def ask(self, path: str) -> Any:
        """The JSON value at `path`; None for another answer. Raises OSError without any."""
        if path not in self._answers:
            try:
                self._answers[path] = self._get(path)
            except (http.client.HTTPException, ValueError):  # it speaks, but no HTTP
                self._answers[path] = None
        return self._answers[path]

    def _get(self, path: str) -> Any:
        target = urlsplit(root_url(self.url, path))
        kind = http.client.HTTPSConnection if target.scheme == "https" else http.client.HTTPConnection
        connection = kind(target.hostname or "", target.port, timeout=self._time_left())
        try:
            connection.sock = self._opened(connection, is_safe=target.scheme == "https")
            connection.request(
                "GET", target.path, headers={"Accept": "application/json", "User-Agent": USER_AGENT}
            )
            response = connection.getresponse()
            value = _json_of(self._read(response))
            if response.status in (401, 403) and value is not None:
                self.wants_key = True
                self.refuses_as_headrace |= KEY_CHALLENGE in response.headers.get("WWW-Authenticate", "")
            return value if response.status == 200 else None
        finally:
            connection.close()
            with self._guard:
                held, self._socket = self._socket, None
            if held is not None:  # the handshake failed
                held.close()

    def _opened(self, connection: http.client.HTTPConnection, *, is_safe: bool) -> socket.socket:
        """A socket that `hang_up` knows before anything is read from it, the handshake of TLS too."""
        sock = socket.create_connection((connection.host, connection.port), self._time_left())
        if is_safe:
            context = ssl.create_default_context()
            sock = context.wrap_socket(sock, server_hostname=connection.host, do_handshake_on_connect=False)
        with self._guard:
            self._socket = sock
            if self._is_over:
                _shut(sock)
        if isinstance(sock, ssl.SSLSocket):
            sock.do_handshake()
        return sock

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        """So much of the body as may be; a larger one is cut, and no JSON any more."""
        data = b""
        while (room := MOST_BYTES - len(data)) and self._time_left() and (piece := response.read1(room)):
            data += piece
        return data

    def _time_left(self) -> float:
        """Raises TimeoutError when there is none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


def _shut(sock: socket.socket) -> None:
    """Whoever waits on it gets its end."""
    with suppress(OSError):  # the other side was quicker
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _json_of(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


# --------------------------------------------------------------------------
# Which endpoint files lead to a server already.


def files_that_use(snapshot: ConfigSnapshot, url: str) -> list[str]:
    """The endpoint files whose address is this one, sorted: `Endpoints/lan/Main.json`."""
    return [file for file in _endpoint_files(snapshot, "Endpoints") if _leads_to(snapshot, file, url)]


def own_files_that_use(snapshot: ConfigSnapshot, url: str) -> list[str]:
    """The same without the files to copy from: they say nothing of what is used."""
    return [
        file
        for file in files_that_use(snapshot, url)
        if not file.startswith(EXAMPLES) and not file.endswith(f"{EXAMPLE}.json")
    ]


def _endpoint_files(snapshot: ConfigSnapshot, folder: str) -> list[str]:
    files = [f"{folder}/{name}.json" for name in snapshot.files(folder)]
    for name in snapshot.folders(folder):
        files += _endpoint_files(snapshot, f"{folder}/{name}")
    return sorted(files)


def _leads_to(snapshot: ConfigSnapshot, file: str, url: str) -> bool:
    try:
        document = snapshot.read(file)
    except ConfigError:
        return False
    calls_out = _text(document, "apiTypeConfigFileName") != DEMO_TYPE
    return calls_out and _place(_text(document, "endpoint")) == _place(url)


def _place(url: str) -> tuple[str, str, int | None, str] | str:
    """What two spellings of an address have in common."""
    try:
        parts = urlsplit(root_url(url.strip(), ""))
        host = HERE if parts.hostname in LOOPBACK else parts.hostname or ""
        return parts.scheme, host, parts.port, parts.path
    except ValueError:
        return url
