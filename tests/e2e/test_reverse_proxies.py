"""The configurations that the page shows, in real proxies: words come at once, a hang-up reaches the model, a path in front works.

Skipped where nginx or Caddy is not installed.
"""

from __future__ import annotations

import http.client
import json
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import HOUSE, Server
from tests.e2e.fake_backend import FakeBackend, Reply
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.e2e

PAGE = (HOUSE / "docs/reverse-proxy.md").read_text("utf-8")
NAME = "llm.example.com"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def blocks(heading: str) -> list[str]:
    """The blocks of a section: at the root of the site, and below a path."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"```\w+\n(.*?)```", section, re.S)


def nginx(folder: Path, upstream: int) -> tuple[list[str], int, int]:
    """Its command and the ports of both blocks; TLS is left out."""
    port = free_port()
    root, below = (block.replace("127.0.0.1:5000", f"127.0.0.1:{upstream}") for block in blocks("nginx"))
    server = re.sub(r" *ssl_.*\n", "", root).replace("listen 443 ssl", f"listen 127.0.0.1:{port}")
    temporary = "\n".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    http = f"access_log off;\n{temporary}\n{server.rstrip().removesuffix('}')}{below}\n}}"
    start = f"daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log stderr;\nevents {{}}\n"
    (folder / "nginx.conf").write_text(f"{start}http {{\n{http}\n}}\n", "utf-8")
    return ["nginx", "-c", str(folder / "nginx.conf")], port, port


def caddy(folder: Path, upstream: int) -> tuple[list[str], int, int]:
    """The same for Caddy: a site for each block, without certificates."""
    ports = free_port(), free_port()
    sites = [
        block.replace(f"{NAME} {{", f"http://{NAME}:{port} {{\n    bind 127.0.0.1").replace(
            "127.0.0.1:5000", f"127.0.0.1:{upstream}"
        )
        for block, port in zip(blocks("Caddy"), ports, strict=True)
    ]
    (folder / "Caddyfile").write_text("{\n    admin off\n}\n" + "".join(sites), "utf-8")
    return ["caddy", "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"], *ports


@pytest.fixture(scope="module")
def server(launch: Callable[..., Server]) -> Server:
    return launch({"ana": {}}, "--cors-origin", f"https://{NAME}", "--concurrency", "0")


@pytest.fixture(scope="module", params=[nginx, caddy], ids=["nginx", "caddy"])
def proxy(
    request: pytest.FixtureRequest, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Any, Any]]:
    """The proxy at both ports, as two addresses: the root of the site, and the path in front."""
    if shutil.which(request.param.__name__) is None:
        pytest.skip(f"{request.param.__name__} is not installed")
    folder = tmp_path_factory.mktemp("proxy")
    command, *ports = request.param(folder, server.port)
    environment = {"HOME": str(folder), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    wait_for(ports, process, folder / "log")
    yield (ports[0], ""), (ports[1], "/llm")
    process.terminate()
    process.wait(PATIENCE_S)


def wait_for(ports: list[int], process: subprocess.Popen[bytes], log: Path) -> None:
    wait_until(lambda: all(map(is_open, ports)), process, lambda: log.read_text("utf-8"))


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("place", [0, 1], ids=["root", "path"])
@pytest.mark.parametrize("route", ["/v1/chat/completions", "/api/chat"])
def test_words_come_at_once_and_a_hang_up_reaches_the_model(
    proxy: Any, backend: FakeBackend, place: int, route: str
) -> None:
    """The first word is there while the model is silent behind it; who leaves then stops the model."""
    port, path = proxy[place]
    mark = f"through {port} {path} {route}"
    backend.on(mark, Reply(("first",), hangs=True))
    body = json.dumps({"model": "ana", "stream": True, "messages": [{"role": "user", "content": mark}]})
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as client:
        head = f"POST {path}{route} HTTP/1.1\r\nHost: {NAME}\r\nContent-Type: application/json\r\n"
        client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        came = b""
        while b"first" not in came:
            piece = client.recv(65536)
            assert piece, came
            came += piece
    assert came.startswith(b"HTTP/1.1 200")
    assert backend.wait_for_call(mark).hung_up.wait(PATIENCE_S)


@pytest.mark.parametrize("place", [0, 1], ids=["root", "path"])
def test_pictures_fit_through(proxy: Any, backend: FakeBackend, place: int) -> None:
    """A body of three megabytes is not refused, and arrives whole."""
    port, path = proxy[place]
    said = f"large {port} {path} " + "x" * 3_000_000
    backend.on(said[:30], Reply(("seen",)))
    body = json.dumps({"model": "ana", "messages": [{"role": "user", "content": said}]})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request("POST", f"{path}/v1/chat/completions", body, {"Host": NAME})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    assert (answer.status, json.loads(text)["choices"][0]["message"]["content"]) == (200, "seen")
    assert backend.calls(said[:30])[0].question == said


@pytest.mark.parametrize("place", [0, 1], ids=["root", "path"])
def test_the_console_sees_that_a_proxy_asks(proxy: Any, place: int) -> None:
    """Whoever comes through one is no browser of this machine: the header of the proxy reaches the console's door."""
    port, path = proxy[place]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    headers = {"Host": f"{NAME}:{port}", "X-Headrace-Console": "1", "X-Forwarded-For": "203.0.113.9"}
    connection.request("GET", f"{path}/console/api/state", headers=headers)
    answer = connection.getresponse()
    told = json.loads(answer.read())
    connection.close()
    assert (answer.status, told["need"]) == (403, "look")


@pytest.mark.parametrize("place", [0, 1], ids=["root", "path"])
def test_the_page_of_the_console_is_found(proxy: Any, place: int) -> None:
    """Every address of it is relative: a path in front stays in front."""
    port, path = proxy[place]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request("GET", f"{path}/console", headers={"Host": NAME})
    answer = connection.getresponse()
    answer.read()
    assert (answer.status, answer.headers["Location"]) == (308, "console/")
    connection.request("GET", f"{path}/console/", headers={"Host": NAME})
    answer = connection.getresponse()
    page = answer.read().decode("utf-8")
    connection.close()
    assert answer.status == 200 and "<!doctype html>" in page.lower()
