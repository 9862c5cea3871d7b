"""One writer at a time, over threads and processes, and nothing left of it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from Middleware.utilities import file_locks
from Middleware.utilities.file_locks import hold_folder, hold_lock, lock_file_for, locked_in_time
from Middleware.utilities.file_utils import atomic_write
from tests.patience import PATIENCE_S

HOLDER = """
import sys
from pathlib import Path
from Middleware.utilities.file_locks import hold_lock
with hold_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


class TestLocks:
    """One writer at a time."""

    def test_threads_wait_for_each_other(self, tmp_path):
        file, rounds = tmp_path / "n", 20
        file.write_text("0")

        def count():
            for _ in range(rounds):
                with hold_lock(tmp_path / ".lock"):
                    atomic_write(file, str(int(file.read_text()) + 1).encode())

        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert file.read_text() == str(4 * rounds)

    def test_processes_wait_for_each_other(self, tmp_path):
        file = tmp_path / "n"
        file.write_text("0")
        code = (
            "import sys\nfrom pathlib import Path\n"
            "from Middleware.utilities.file_locks import hold_lock\n"
            "from Middleware.utilities.file_utils import atomic_write\n"
            "folder = Path(sys.argv[1])\n"
            "for _ in range(15):\n"
            "    with hold_lock(folder / '.lock'):\n"
            "        file = folder / 'n'\n"
            "        atomic_write(file, str(int(file.read_text()) + 1).encode())\n"
        )
        root = Path(file_locks.__file__).parents[2]
        workers = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=root) for _ in range(3)]
        assert [worker.wait() for worker in workers] == [0, 0, 0]
        assert file.read_text() == "45"

    def test_the_holder_may_take_it_again(self, tmp_path):
        with hold_lock(tmp_path / ".lock"), hold_lock(tmp_path / ".lock"):
            assert (tmp_path / ".lock").exists()

    def test_nothing_is_left_when_nobody_holds_it(self, tmp_path):
        with hold_lock(tmp_path / ".lock"):
            assert os.listdir(tmp_path) == [".lock"]
        assert os.listdir(tmp_path) == []

    def test_a_failure_gives_it_back(self, tmp_path):
        with pytest.raises(ZeroDivisionError), hold_lock(tmp_path / ".lock"):
            _ = 1 // 0
        assert os.listdir(tmp_path) == []

    def test_another_process_is_waited_for(self, tmp_path):
        """The new holder has a file that others can find, not the one that the old holder removed."""
        holder = start_holder(tmp_path / ".lock")
        taken, go_on = threading.Event(), threading.Event()

        def take():
            with hold_lock(tmp_path / ".lock"):
                taken.set()
                go_on.wait(PATIENCE_S)

        waiter = threading.Thread(target=take)
        waiter.start()
        waits = not taken.wait(0.2)
        holder.communicate("")
        assert waits and taken.wait(PATIENCE_S)
        assert os.listdir(tmp_path) == [".lock"]
        go_on.set()
        waiter.join()

    def test_the_lock_of_a_process_that_was_killed_is_free(self, tmp_path):
        """Its file is used again."""
        holder = start_holder(tmp_path / ".lock")
        holder.kill()
        holder.communicate()
        with hold_lock(tmp_path / ".lock"):
            assert os.listdir(tmp_path) == [".lock"]

    def test_a_file_that_was_removed_under_our_hands_is_no_lock(self, tmp_path, monkeypatch):
        """It is found when the lock is taken, and the one that stands there now is taken."""
        flock, between = file_locks.fcntl.flock, [remove, replace, leave]

        def beside_a_rival(handle, how):
            flock(handle, how)
            between.pop(0)(tmp_path / ".lock")

        monkeypatch.setattr(file_locks.fcntl, "flock", beside_a_rival)
        with hold_lock(tmp_path / ".lock"):
            assert between == []

    def test_a_file_system_without_locks_is_an_error(self, tmp_path, monkeypatch):
        """Not an endless wait, and no open file is left."""

        def unknown(handle, how):
            raise OSError(errno.ENOLCK, "No locks available")

        before = set(os.listdir("/proc/self/fd"))
        monkeypatch.setattr(file_locks.fcntl, "flock", unknown)
        with pytest.raises(OSError, match="No locks available"), hold_lock(tmp_path / ".lock"):
            raise AssertionError("it was taken")
        assert len(set(os.listdir("/proc/self/fd")) - before) <= 1

    def test_links_are_not_followed(self, tmp_path):
        """A file that somebody else chose is not opened, and not made."""
        folder = tmp_path / "locks"
        folder.mkdir()
        (folder / ".lock").symlink_to(tmp_path / "made")
        with pytest.raises(OSError):
            file_locks._try_to_hold(str(folder / ".lock"))
        assert not (tmp_path / "made").exists()


class TestWhere:
    """The lock of a user's file stands in a folder that is this user's alone."""

    @pytest.fixture
    def home(self, tmp_path, monkeypatch):
        """The run-time folder that the session names; the temporary folder is beside it."""
        home, temporary = tmp_path / "home", tmp_path / "tmp"
        home.mkdir(mode=0o700)
        temporary.mkdir()
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(home))
        monkeypatch.setattr(file_locks.tempfile, "gettempdir", lambda: str(temporary))
        return home

    def test_one_for_each_file_and_never_beside_it(self, home, tmp_path):
        one = lock_file_for(tmp_path / "a.txt")
        assert one.parent == home / "headrace"
        assert lock_file_for(tmp_path / "." / "a.txt") == one != lock_file_for(tmp_path / "b.txt")

    def test_nobody_else_may_look_into_it(self, home, tmp_path):
        assert lock_file_for(tmp_path / "a").parent.stat().st_mode & 0o777 == 0o700

    @pytest.mark.parametrize("mode", [0o755, 0o770], ids=["readable", "group"])
    def test_a_run_time_folder_of_everybody_is_none(self, home, tmp_path, mode):
        home.chmod(mode)
        assert lock_file_for(tmp_path / "a").parent != home / "headrace"

    def test_a_folder_that_others_can_enter_is_refused(self, home, tmp_path):
        """One sentence says which, and what it must be."""
        (home / "headrace").mkdir(mode=0o777)
        (home / "headrace").chmod(0o777)
        with pytest.raises(PermissionError, match="must belong to this user and have mode 0700"):
            lock_file_for(tmp_path / "a")

    def test_a_link_is_refused(self, home, tmp_path):
        """Whoever made it chose where it leads."""
        (tmp_path / "mine").mkdir(mode=0o700)
        (home / "headrace").symlink_to(tmp_path / "mine")
        with pytest.raises(PermissionError):
            lock_file_for(tmp_path / "a")

    def test_a_folder_of_another_user_is_refused(self, home, tmp_path, monkeypatch):
        lock_file_for(tmp_path / "a")
        monkeypatch.setattr(file_locks, "_is_private", lambda folder: folder == home)
        with pytest.raises(PermissionError):
            lock_file_for(tmp_path / "a")

    def test_without_a_run_time_folder_the_temporary_one_is_used(self, home, tmp_path, monkeypatch):
        """By a name that holds the user's."""
        monkeypatch.setattr(file_locks, "_is_private", lambda folder: folder.parent.name == "tmp")
        assert lock_file_for(tmp_path / "a").parent == tmp_path / "tmp" / f"headrace-{os.getuid()}"


def remove(file):
    file.unlink()


def replace(file):
    file.unlink()
    file.touch()


def leave(file):
    """It stands as it was."""


def start_holder(lock_file):
    """A process that holds the lock until its standard input ends."""
    root = Path(file_locks.__file__).parents[2]
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(lock_file)],
        cwd=root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout.readline() == "held\n"
    return holder


class TestLockedInTime:
    """A lock that is waited for only so long."""

    def test_a_free_lock_is_held_and_given_back(self, tmp_path):
        with locked_in_time(tmp_path / "l", 0) as first:
            assert first
        with locked_in_time(tmp_path / "l", 0) as second:
            assert second

    def test_the_lock_of_another_thread_is_not_free(self, tmp_path):
        """Neither at once nor later, nor when somebody calls the waiting off."""
        held, done = threading.Event(), threading.Event()

        def holder() -> None:
            with hold_lock(tmp_path / "l"):
                held.set()
                done.wait(PATIENCE_S)

        thread = threading.Thread(target=holder)
        thread.start()
        held.wait(PATIENCE_S)
        with locked_in_time(tmp_path / "l", 0.01) as late:
            assert not late
        with locked_in_time(tmp_path / "l", None, lambda: True) as called_off:
            assert not called_off
        done.set()
        thread.join()

    def test_the_lock_of_another_process_is_not_free(self, tmp_path):
        """It holds the file, not our lock object."""
        handle = file_locks._try_to_hold(str(tmp_path / "l"))
        with locked_in_time(tmp_path / "l", 0) as held:
            assert not held
        file_locks._let_go(str(tmp_path / "l"), handle)

    def test_a_lock_that_becomes_free_is_taken(self, tmp_path):
        """A waiter gets it as soon as the other one is done."""
        held = threading.Event()
        release = threading.Event()

        def holder() -> None:
            with hold_lock(tmp_path / "l"):
                held.set()
                release.wait(PATIENCE_S)

        thread = threading.Thread(target=holder)
        thread.start()
        held.wait(PATIENCE_S)
        asked = iter([False, False])
        with locked_in_time(tmp_path / "l", 60, lambda: bool(release.set()) or next(asked, False)) as taken:
            assert taken
        thread.join()

    def test_a_lock_file_that_cannot_be_made_is_an_error(self, tmp_path):
        """And the threads of this process can try again."""
        (tmp_path / "l").mkdir()
        with pytest.raises(OSError), locked_in_time(tmp_path / "l", 0):
            pass
        (tmp_path / "l").rmdir()
        with locked_in_time(tmp_path / "l", 0) as held:
            assert held


class TestFolders:
    """A whole folder, held by many or by one alone."""

    def test_alone_or_together(self, tmp_path):
        first, second = hold_folder(tmp_path), hold_folder(tmp_path)
        assert first is not None
        assert second is not None
        first.give_back()
        first.give_back()
        assert hold_folder(tmp_path, alone=True) is None
        second.give_back()
        alone = hold_folder(tmp_path, alone=True)
        assert alone is not None
        assert hold_folder(tmp_path) is None

    def test_a_value_that_is_gone_holds_nothing(self, tmp_path):
        hold_folder(tmp_path)
        assert hold_folder(tmp_path, alone=True) is not None

    @pytest.mark.skipif(os.name == "nt", reason="a file is in use there")
    def test_nothing_appears_in_the_folder(self, tmp_path):
        held = hold_folder(tmp_path)
        assert held is not None
        assert list(tmp_path.iterdir()) == []

    def test_a_folder_that_is_not_there(self, tmp_path):
        with pytest.raises(OSError, match="gone"):
            hold_folder(tmp_path / "gone")
