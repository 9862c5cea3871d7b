"""CPU time of a token that comes alone: many slow streams through one server on one core.

    python bench/lone_token.py [--streams 100 300] [--rounds 10] [--old FOLDER] [--targets NAME ...]

Targets: `waitress` (server.py), `gevent` (gunicorn's class), `worker` (ours, docs/server.md), each of this
folder and, with `--old`, of another checkout, in turn; nginx as a plain proxy is the base where it is
installed. Backend and clients run in this process, on the other core. What is measured begins when all
streams are open. Linux only: CPU times are those of the scheduler.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from one_chat import write_tree

HERE = Path(__file__).resolve().parents[1]
RATE = 20
"""Tokens a second and stream."""
RAMP_S, WINDOW_S, SECONDS = 1.0, 3.0, 5.0
BACKEND_PORT, FIRST_PORT = 18900, 18901
CLASSES = {"gevent": "gevent", "worker": "Middleware.api.serving.gevent_worker.Worker"}
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
NGINX = """daemon off; master_process off; worker_processes 1; pid {0}/pid; error_log {0}/log;
events {{ worker_connections 4000; }}
http {{ access_log off; client_body_temp_path {0}/a; proxy_temp_path {0}/b; fastcgi_temp_path {0}/c;
uwsgi_temp_path {0}/d; scgi_temp_path {0}/e; upstream u {{ server 127.0.0.1:{1}; keepalive 256; }}
server {{ listen 127.0.0.1:{2} backlog=4096; location / {{ proxy_pass http://u; proxy_http_version 1.1;
proxy_set_header Connection ""; proxy_buffering off; }} }} }}"""


def command(kind: str, port: int, folder: Path) -> list[str]:
    if kind == "nginx":
        (folder / "conf").write_text(NGINX.format(folder, BACKEND_PORT, port))
        return [str(nginx()), "-c", str(folder / "conf"), "-p", str(folder)]
    words = [
        "--PublicDirectory",
        str(write_tree(folder, BACKEND_PORT)),
        "--User",
        "ana",
        "--concurrency",
        "0",
    ]
    if kind == "waitress":
        return [sys.executable, "server.py", *words, "--port", str(port), "--threads", "340"]
    named = f"server:get_application({', '.join(map(repr, words))})"
    return [sys.executable, "-m", "gunicorn", "-k", CLASSES[kind], "-b", f"127.0.0.1:{port}", named]


def nginx() -> str | None:
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


async def backend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers each request of a connection with a slow stream."""
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
            await reader.readexactly(length)
            writer.write(HEAD)
            begun = time.monotonic()
            for number in range(int(RATE * SECONDS)):
                text = json.dumps({"choices": [{"delta": {"content": f" {number}"}}]})
                _chunk(writer, f"data: {text}\n\n".encode())
                await asyncio.sleep(begun + (number + 1) / RATE - time.monotonic())
            _chunk(writer, b"data: [DONE]\n\n")
            writer.write(b"0\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
        writer.close()


def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%X\r\n%s\r\n" % (len(data), data))


async def client(port: int, wait_s: float) -> tuple[list[float], bool]:
    """Gaps between the tokens of one stream, in milliseconds, and whether it ended as it should."""
    await asyncio.sleep(wait_s)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps(
        {"model": "ana", "stream": True, "messages": [{"role": "user", "content": "go"}]}
    ).encode()
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    )
    times: list[float] = []
    whole = False
    while line := await reader.readline():
        whole = whole or b"[DONE]" in line
        if b'"content"' in line:
            times.append(time.monotonic())
    writer.close()
    return [(b - a) * 1000 for a, b in pairwise(times)], whole


def cpu_us(pid: int) -> float:
    """CPU microseconds of a process and all below it."""
    used = 0.0
    for task in Path(f"/proc/{pid}/task").iterdir():
        used += int((task / "schedstat").read_text().split()[0]) / 1000
        used += sum(map(cpu_us, map(int, (task / "children").read_text().split())))
    return used


async def measured(pid: int, port: int, streams: int) -> tuple[float, float, int]:
    """(CPU microseconds a token, 99th percentile of the gaps in ms, streams that failed)."""
    waits = [RAMP_S * number / streams for number in range(streams)]
    jobs = [asyncio.create_task(client(port, wait)) for wait in waits]
    await asyncio.sleep(RAMP_S + 0.5)
    before, begun = cpu_us(pid), time.monotonic()
    await asyncio.sleep(WINDOW_S)
    cost = (cpu_us(pid) - before) / (streams * RATE * (time.monotonic() - begun))
    answers = await asyncio.gather(*jobs)
    gaps = sorted(gap for gaps, _ in answers for gap in gaps)
    return cost, gaps[int(len(gaps) * 0.99)], sum(not whole for _, whole in answers)


async def is_up(port: int) -> None:
    for _ in range(200):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.1)
        else:
            writer.close()
            return
    raise SystemExit(f"nothing listens on port {port}")


async def run(targets: dict[str, tuple[int, int]], streams: int, rounds: int) -> None:
    found: dict[str, list[tuple[float, float, int]]] = {name: [] for name in targets}
    for number in range(rounds):
        for name in list(targets)[:: 1 if number % 2 else -1]:
            found[name].append(await measured(*targets[name], streams))
    base = next(iter(found))
    for name, runs in found.items():
        ratio = statistics.median(one[0] / other[0] for one, other in zip(runs, found[base], strict=True))
        cost, gap = (statistics.median(run[i] for run in runs) for i in (0, 1))
        print(
            f"{streams} streams, {name}: {cost:.1f} us a token (x{ratio:.2f} of {base}), "
            f"gap p99 {gap:.0f} ms, {sum(run[2] for run in runs)} failed",
            flush=True,
        )


async def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--streams", type=int, nargs="+", default=[100, 300])
    arguments.add_argument("--rounds", type=int, default=10)
    arguments.add_argument("--old", type=Path)
    arguments.add_argument("--targets", nargs="+", default=["waitress", "gevent", "worker"])
    given = arguments.parse_args()
    os.sched_setaffinity(0, {1})
    kinds = [("nginx", HERE)] if nginx() else []
    kinds += [(kind, HERE) for kind in given.targets]
    kinds += [(kind, given.old) for kind in given.targets if given.old and kind != "worker"]
    server = await asyncio.start_server(backend, "127.0.0.1", BACKEND_PORT, backlog=1024)
    running: dict[str, tuple[subprocess.Popen[bytes], int]] = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            for port, (kind, root) in enumerate(kinds, FIRST_PORT):
                name = f"old {kind}" if root == given.old else kind
                own = Path(folder) / str(port)
                own.mkdir()
                started = subprocess.Popen(
                    ["taskset", "-c", "0", *command(kind, port, own)], cwd=root, stderr=subprocess.DEVNULL
                )
                running[name] = started, port
                await is_up(port)
            await asyncio.sleep(3)
            for streams in given.streams:
                targets = {name: (process.pid, port) for name, (process, port) in running.items()}
                await run(targets, streams, given.rounds)
        finally:
            for process, _ in running.values():
                process.terminate()
            for process, _ in running.values():
                process.wait(20)
            server.close()


if __name__ == "__main__":
    asyncio.run(main())
