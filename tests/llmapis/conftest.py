"""A scripted HTTP server on a real socket, and configs on disk: the two seams of this floor."""

from __future__ import annotations

import datetime
import ipaddress
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from Middleware.config.loader import ConfigTree
from Middleware.config.users import UserSettings
from Middleware.llmapis.call import outgoing_call
from Middleware.llmapis.wire import http
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.node_trace import NodeTrace
from Middleware.services.run_trace import Observers, TracedNode
from tests.patience import PATIENCE_S

PUBLIC = Path(__file__).parents[2] / "Public" / "Configs"


class Peer:
    """One accepted connection, seen from the server. Scripts read requests from it and write bytes to it."""

    def __init__(self, sock: socket.socket, server: StandIn) -> None:
        self.sock, self.server = sock, server
        self._file = sock.makefile("rb")

    def request(self) -> dict[str, Any] | None:
        """The next request: `{"line", "headers" (lower case), "body"}`; None when the client has closed."""
        line = self._file.readline().decode()
        if not line:
            return None
        headers = {}
        while head := self._file.readline().decode().rstrip("\r\n"):
            name, _, value = head.partition(":")
            headers[name.lower()] = value.strip()
        body = self._file.read(int(headers.get("content-length", 0)))
        found = {"line": line.strip(), "headers": headers, "body": body}
        self.server.requests.append(found)
        return found

    def send(self, *parts: bytes | str) -> None:
        for part in parts:
            self.sock.sendall(part.encode() if isinstance(part, str) else part)

    def closed(self, within: float = PATIENCE_S) -> bool:
        """Whether the client closes (or resets) within so many seconds."""
        self.sock.settimeout(within)
        try:
            return self.sock.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False

    def reset(self) -> None:
        """Break the connection without a word."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self._file.close()
        self.sock.close()

    def close(self) -> None:
        self._file.close()
        self.sock.close()


Script = Callable[[Peer], None]


class StandIn:
    """Runs one script for each connection, in its own thread."""

    def __init__(self, script: Script, wrap: Callable[[socket.socket], socket.socket] | None = None) -> None:
        self.requests: list[dict[str, Any]] = []
        self.accepted = 0
        self.errors: list[BaseException] = []
        self._script, self._wrap = script, wrap
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []
        self._over = False
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def kill(self) -> None:
        """As a process that is killed: it listens no more, and every connection breaks."""
        self.stop()
        for sock in self._open:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def stop(self) -> None:
        if self._over:
            return
        self._over = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join(PATIENCE_S)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            self._open.append(sock)
            thread = threading.Thread(target=self._serve, args=(sock,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        try:
            peer = Peer(self._wrap(sock) if self._wrap else sock, self)
        except OSError:
            sock.close()
            return
        try:
            self._script(peer)
        except OSError:
            return
        except BaseException as error:
            self.errors.append(error)
        finally:
            peer.close()


@pytest.fixture
def serve() -> Iterator[Callable[..., StandIn]]:
    """`serve(script, wrap=None)` starts a StandIn; all are stopped at the end."""
    running: list[StandIn] = []

    def start(script: Script, wrap: Any = None) -> StandIn:
        running.append(StandIn(script, wrap))
        return running[-1]

    yield start
    for server in running:
        server.stop()
        assert server.errors == []


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A file with a key and a certificate for localhost that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    file.write_bytes(pem + made.public_bytes(serialization.Encoding.PEM))
    return file


@pytest.fixture
def tls(serve, certificate):
    """`tls(script)`: a server behind TLS; gives its URL."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def start(script):
        server = serve(script, lambda sock: context.wrap_socket(sock, server_side=True))
        return server, f"https://127.0.0.1:{server.port}"

    return start


class Holding:
    """A script that answers with `sent` and then holds on. `asked`: it has come so far; `closed`: the client has
    gone.
    """

    def __init__(self, *sent: bytes | str) -> None:
        self.asked, self.closed = threading.Event(), threading.Event()
        self._sent = sent

    def __call__(self, peer: Peer) -> None:
        peer.request()
        peer.send(*self._sent)
        self.asked.set()
        if peer.closed():
            self.closed.set()


def interrupt(run: Callable[[], object], ready: threading.Event, by: Callable[[], object]) -> None:
    """Call `by` once `ready` is set by what `run` does in a thread, and wait until that has ended."""
    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(PATIENCE_S)
    by()
    thread.join(PATIENCE_S)


def cancel(run: Callable[[], object], ready: threading.Event, request_id: str) -> None:
    """`interrupt` by the cancellation of a request."""
    interrupt(run, ready, lambda: cancellation_service.request_cancellation(request_id))
    cancellation_service.acknowledge_cancellation(request_id)


class Unhurried(http.Transport):
    def __init__(self) -> None:
        self.pauses: list[float] = []
        super().__init__(pause=lambda handle, seconds: self.pauses.append(seconds))


@pytest.fixture
def transport(monkeypatch: pytest.MonkeyPatch) -> Iterator[http.Transport]:
    """A pool of its own, by which calls go out, and which waits for no retry. `pauses`: the seconds of each."""
    made = Unhurried()
    monkeypatch.setattr(outgoing_call, "default_transport", lambda: made)
    yield made
    made.close()


class Quiet:
    keeps_text = False

    def note_change(self, run: object, what: str, node: object) -> None:
        """It only observes."""


@pytest.fixture
def traced() -> Callable[[], TracedNode]:
    """`traced()`: a node of a run that somebody observes; its texts are not kept."""
    observers = Observers()
    observers.observe(Quiet())
    return lambda: observers.begin("r1", "/api/chat").node(NodeTrace("w", 1, "Standard"))


@pytest.fixture
def node(traced: Callable[[], TracedNode]) -> TracedNode:
    return traced()


def chunked(*pieces: bytes | str, end: bool = True) -> bytes:
    """A chunked body."""
    data = b""
    for piece in pieces:
        raw = piece.encode() if isinstance(piece, str) else piece
        data += b"%x\r\n%s\r\n" % (len(raw), raw)
    return data + (b"0\r\n\r\n" if end else b"")


def head(status: str = "200 OK", version: str = "1.1", **headers: str) -> bytes:
    """Status line and headers; `content_type="..."` becomes `content-type: ...`."""
    lines = [f"HTTP/{version} {status}"] + [f"{k.replace('_', '-')}: {v}" for k, v in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


SSE_HEAD = head(content_type="text/event-stream", transfer_encoding="chunked")
DONE = "data: [DONE]\n\n"


def token(text: str, **more: Any) -> str:
    """One OpenAI chunk as an SSE event."""
    return "data: " + json.dumps({"choices": [{"delta": {"content": text}, **more}]}) + "\n\n"


def json_answer(body: Any, status: str = "200 OK", **headers: str) -> bytes:
    data = json.dumps(body).encode()
    return head(status, content_type="application/json", content_length=str(len(data)), **headers) + data


@pytest.fixture
def configs(tmp_path: Path) -> Configs:
    return Configs(tmp_path)


class Configs:
    """A config tree on disk, with the shipped ApiTypes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.user = UserSettings(name="u", raw={})
        self._write("Users/u.json", {"port": 5000})
        for file in (PUBLIC / "ApiTypes").glob("*.json"):
            (root / "ApiTypes").mkdir(exist_ok=True)
            (root / "ApiTypes" / file.name).write_text(file.read_text())

    def endpoint(self, name: str, url: str, api_type: str = "Open-AI-API", **fields: Any) -> None:
        self._write(f"Endpoints/{name}.json", {"endpoint": url, "apiTypeConfigFileName": api_type, **fields})

    def preset(self, folder: str, name: str, **fields: Any) -> None:
        self._write(f"Presets/{folder}/{name}.json", fields)

    def given(self) -> dict[str, Any]:
        """The keyword arguments that tie a service to this tree."""
        return {"user": self.user, "snapshot": ConfigTree(self.root).snapshot()}

    def _write(self, relative: str, document: Any) -> None:
        path = self.root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document))


class Rig:
    """What tests of this floor say in one word each; a fixture, because test modules import nothing of each other."""

    head, chunked, token, json_answer = (
        staticmethod(head),
        staticmethod(chunked),
        staticmethod(token),
        staticmethod(json_answer),
    )
    interrupt, cancel, Holding = staticmethod(interrupt), staticmethod(cancel), Holding
    SSE_HEAD, DONE = SSE_HEAD, DONE


@pytest.fixture
def rig() -> type[Rig]:
    return Rig


from tests.llmapis.handler_fixtures import *  # noqa: E402, F403
