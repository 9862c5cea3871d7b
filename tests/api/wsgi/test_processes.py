"""Which other processes a server is one with: read from the environment and from its gunicorn."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from Middleware.api.wsgi import processes
from Middleware.api.wsgi.processes import act_as_one, worker_count, workers_file
from Middleware.common.instance_global_variables import LaunchFacts, launch_facts, set_launch_facts
from Middleware.services.shared_state.member import share_by, this_process


@pytest.fixture(autouse=True)
def _alone_again():
    yield
    this_process().leave()
    share_by(lambda owner: None)


@pytest.fixture
def folder(tmp_path):
    before = launch_facts()
    set_launch_facts(LaunchFacts(sqlite_directory=tmp_path))
    yield tmp_path
    set_launch_facts(before)


class Worker:
    """A worker as gunicorn makes it: its own method is the handler of SIGTERM."""

    def __init__(self, workers):
        self.cfg = SimpleNamespace(workers=workers)

    def handle_exit(self, number, frame):
        raise SystemExit


@pytest.fixture
def worker_of():
    """`worker_of(n)`: this process is one of so many workers."""
    before = signal.getsignal(signal.SIGTERM)
    yield lambda workers: signal.signal(signal.SIGTERM, Worker(workers).handle_exit)
    signal.signal(signal.SIGTERM, before)


class TestWorkers:
    def test_a_server_without_workers(self, folder):
        """Is the only process; nothing is written."""
        act_as_one({})
        assert worker_count() == 1
        assert not this_process().many_machines and list(folder.iterdir()) == []

    @pytest.mark.parametrize(("workers", "together"), [(1, False), (3, True)])
    def test_workers_are_counted(self, folder, worker_of, workers, together):
        """One alone needs no file; several meet in that of their master."""
        worker_of(workers)
        act_as_one({})
        this_process().put("running", "r", "")
        this_process().remove("running", "r", "")
        assert workers_file(folder, os.getppid()).exists() is together

    def test_our_handler_stands_before_the_workers(self, worker_of):
        """The number is found behind it."""
        worker_of(2)
        signal.signal(signal.SIGTERM, SimpleHandler(signal.getsignal(signal.SIGTERM)))
        assert worker_count() == 2

    @pytest.mark.skipif(os.name == "nt", reason="gunicorn does not run here")
    def test_files_of_masters_that_are_gone_go(self, folder, worker_of):
        """Those of living ones, and of other machines, stay."""
        gone = subprocess.Popen([sys.executable, "-c", ""])
        gone.wait()
        old, kept = workers_file(folder, gone.pid), workers_file(folder, os.getpid())
        strange = folder / f"workers.elsewhere.{gone.pid}.00000000.sqlite"
        recycled = kept.with_name(kept.name.replace(kept.name.split(".")[-2], "0" * 8))
        for file in (old, old.with_name(old.name + "-wal"), kept, strange, recycled):
            file.touch()
        worker_of(2)
        act_as_one({})
        this_process()
        assert {file for file in folder.iterdir() if "-" not in file.suffix} == {kept, strange}


class SimpleHandler:
    def __init__(self, theirs):
        self.theirs = theirs

    def __call__(self, number, frame):
        self.theirs(number, frame)


class TestRedis:
    def test_an_address_makes_it_one_of_many(self):
        """Nothing is asked before it is needed."""
        act_as_one({"HEADRACE_REDIS_URL": " redis://127.0.0.1:1/2 "})
        assert this_process().many_machines

    def test_a_blank_one_is_none(self):
        """As if it were not set."""
        act_as_one({"HEADRACE_REDIS_URL": "  "})
        assert not this_process().many_machines

    @pytest.mark.parametrize("url", ["localhost:6379", "http://127.0.0.1", "redis://h:port"])
    def test_what_is_no_address(self, url):
        """Stops the start with what is allowed, without showing what may hold a password."""
        with pytest.raises(
            SystemExit, match=r"HEADRACE_REDIS_URL is not the address.*redis://HOST:PORT/DB"
        ) as stop:
            act_as_one({"HEADRACE_REDIS_URL": url})
        assert url not in str(stop.value)

    def test_without_the_package(self, monkeypatch):
        """The extra is named."""
        monkeypatch.setitem(sys.modules, "redis", None)
        with pytest.raises(SystemExit, match="install the extra `redis`"):
            act_as_one({"HEADRACE_REDIS_URL": "redis://127.0.0.1"})

    def test_the_log_has_no_password(self, caplog):
        """It names the place."""
        with caplog.at_level("INFO", processes.__name__):
            act_as_one({"HEADRACE_REDIS_URL": "redis://ann:secret@127.0.0.1:7000/1"})
        assert "127.0.0.1:7000" in caplog.text and "secret" not in caplog.text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system makes no process that way")
def test_a_forked_process_is_one_of_its_own():
    """Also where the application was made before the workers were."""
    assert this_process() is this_process()
    read, write = os.pipe()
    mine = id(this_process())
    child = os.fork()
    if not child:
        os.write(write, b"other" if id(this_process()) != mine else b"same")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 10) == b"other"
    os.close(read)
    os.close(write)
