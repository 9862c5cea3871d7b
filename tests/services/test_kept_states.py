"""States of a discussion's files that are kept and put back. Source: spec operate.md 6."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from Middleware.services import kept_states
from Middleware.services.discussion_store import DiscussionStore
from Middleware.services.kept_states import KeptStates

NAMES = ("a.json", "b.json", "facts.db")


def at(second):
    return lambda: datetime(2031, 5, 4, 10, 20, second, tzinfo=UTC)


@pytest.fixture
def states(tmp_path):
    (tmp_path / "a.json").write_text("old")
    return KeptStates(tmp_path, lambda name: tmp_path / name, at(30))


def rows(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT * FROM facts").fetchall()


def make_database(path, value):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS facts (value)")
        connection.execute("INSERT INTO facts VALUES (?)", (value,))


class TestKeeping:
    """A state is a folder of copies, named by the UTC time."""

    def test_files_are_what_they_were(self, states, tmp_path):
        """One that was not there is not there again."""
        state = states.keep(NAMES)
        (tmp_path / "a.json").write_text("new")
        (tmp_path / "b.json").write_text("new")
        states.put_back(state)
        assert state == "20310504T102030.000000Z"
        assert (tmp_path / "a.json").read_text() == "old"
        assert not (tmp_path / "b.json").exists()

    def test_a_database_is_what_it_was_under_whoever_has_it_open(self, states, tmp_path):
        make_database(tmp_path / "facts.db", 1)
        state = states.keep(NAMES)
        make_database(tmp_path / "facts.db", 2)
        with closing(sqlite3.connect(tmp_path / "facts.db")) as reader:
            assert reader.execute("SELECT count(*) FROM facts").fetchone() == (2,)
            states.put_back(state)
            assert reader.execute("SELECT value FROM facts").fetchall() == [(1,)]

    def test_a_database_that_was_not_there_becomes_empty(self, states, tmp_path):
        state = states.keep(NAMES)
        make_database(tmp_path / "facts.db", 2)
        states.put_back(state)
        with closing(sqlite3.connect(tmp_path / "facts.db")) as connection:
            assert connection.execute("SELECT * FROM sqlite_master").fetchall() == []

    def test_what_no_correction_changes_is_kept_and_not_put_back(self, states, tmp_path):
        """The chat went on: when its messages were sent is known nowhere else."""
        state = states.keep(("b.json",), ("a.json",))
        (tmp_path / "a.json").write_text("later")
        states.put_back(state)
        assert (tmp_path / "a.json").read_text() == "later"
        assert (tmp_path / ".undo" / state / "a.json").read_text() == "old"

    def test_only_the_owner_may_look(self, states, tmp_path):
        kept = tmp_path / ".undo" / states.keep(NAMES)
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (kept, kept / "a.json")]
        assert modes == [0o700, 0o600]
        states.begin(kept.name)
        paths = [tmp_path / ".undo", kept / "names", tmp_path / ".undo" / "unfinished"]
        assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o700, 0o600, 0o600]
        (tmp_path / "a.json").unlink()
        states.put_back(kept.name)
        assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) == 0o600

    def test_the_disk_knows_of_a_state_when_it_is_made_and_when_it_counts_no_more(
        self, states, tmp_path, monkeypatch
    ):
        """Else it could be gone after a power cut, or a whole correction be undone."""
        synced = []
        monkeypatch.setattr(kept_states, "sync_folder", synced.append)
        states.keep(NAMES)
        assert synced == [tmp_path / ".undo"]
        states.end()
        assert synced == [tmp_path / ".undo"] * 2

    def test_a_database_that_never_was_is_not_made(self, states, tmp_path):
        states.put_back(states.keep(NAMES))
        assert not (tmp_path / "facts.db").exists()

    def test_all_go(self, states, tmp_path):
        """Also what is unfinished; where there is nothing, nothing happens."""
        states.remove()
        states.begin(states.keep(NAMES))
        states.remove()
        assert not (tmp_path / ".undo").exists() and states.states == []

    def test_the_last_one_that_is_put_back_leaves_no_folder(self, states, tmp_path):
        first, second = states.keep(NAMES), states.keep(NAMES)
        states.drop(second)
        assert states.states == [first]
        states.drop(first)
        assert not (tmp_path / ".undo").exists()

    def test_five_stay(self, states):
        kept = [states.keep(NAMES) for _ in range(7)]
        states.end()
        assert states.states == kept[2:]

    def test_the_newest_is_the_newest_whatever_the_clock_says(self, states, tmp_path):
        """A clock that went back, or that stood still."""
        first = states.keep(NAMES)
        earlier = KeptStates(tmp_path, lambda name: tmp_path / name, at(10))
        assert earlier.keep(NAMES) > first
        assert len(earlier.states) == 2


class TestKilled:
    """Until a change is whole, whoever takes the lock next puts back what was before."""

    @pytest.fixture
    def store(self, tmp_path):
        store = DiscussionStore(tmp_path, "d")
        store.update_json("a.json", lambda _: "old", "")
        return store

    @pytest.fixture
    def half(self, store):
        """A correction that stopped in the middle."""
        states = store.kept_states
        states.begin(states.keep(NAMES))
        store.path("a.json").write_text('"half"')
        return DiscussionStore(store.target.parent, "d")

    def test_the_next_writer_puts_it_back(self, half, caplog):
        half.update_json("b.json", lambda _: "mine", "")
        assert (half.read_json("a.json", ""), half.read_json("b.json", "")) == ("old", "mine")
        assert half.kept_states.states == []
        assert "was broken off, so it is undone" in caplog.text

    def test_so_does_one_that_only_waits(self, half):
        half.settle()
        assert half.read_json("a.json", "") == "old"

    def test_one_that_was_putting_back_is_finished(self, half):
        half.kept_states.undo_unfinished()
        half.settle()
        assert half.read_json("a.json", "") == "old"

    def test_where_nothing_is_unfinished_nothing_is_undone(self, store, tmp_path):
        """Nor where the folder cannot be one."""
        assert store.kept_states.undo_unfinished() is False
        (tmp_path / ".undo").write_text("mine")
        assert KeptStates(tmp_path, lambda name: tmp_path / name).undo_unfinished() is False

    def test_a_mark_that_names_no_state_is_removed_alone(self, store):
        """Nothing outside of the states goes with it."""
        state = store.kept_states.keep(NAMES)
        (store.folder / "mine").mkdir()
        store.kept_states.begin("../mine")
        assert store.kept_states.undo_unfinished() is True
        assert (store.folder / "mine").is_dir()
        assert (store.kept_states.states, store.kept_states.has_unfinished) == ([state], False)

    def test_whoever_corrects_may_read_and_write_meanwhile(self, store):
        """Nothing of it is undone for itself."""
        with store.correct(NAMES) as state:
            store.update_json("a.json", lambda _: "new", "")
            store.settle()
            store.undo_unfinished()
            assert store.read_json("a.json", "") == "new" and store.kept_states.states == [state]

    def test_what_raises_changes_nothing(self, store):
        with pytest.raises(ZeroDivisionError), store.correct(NAMES):
            store.update_json("a.json", lambda _: "new", "")
            raise ZeroDivisionError
        assert store.read_json("a.json", "") == "old"
        assert (store.kept_states.states, store.kept_states.has_unfinished) == ([], False)

    def test_what_ends_well_can_be_undone(self, store):
        with store.correct(NAMES):
            store.update_json("a.json", lambda _: "new", "")
        assert store.read_json("a.json", "") == "new"
        assert (len(store.kept_states.states), store.kept_states.has_unfinished) == (1, False)

    @pytest.fixture
    def dies(self, monkeypatch):
        """A folder's removal is killed when one of its files is gone."""

        def half(folder, ignore_errors=False):
            files = sorted(path for path in folder.rglob("*") if path.is_file()) if folder.exists() else []
            if files:
                files[0].unlink()
                raise SystemExit

        monkeypatch.setattr("Middleware.services.kept_states.shutil.rmtree", half)

    @pytest.mark.parametrize("action", ["undo", "five", "remove"])
    def test_what_was_half_removed_is_no_state(self, store, action, dies):
        """Else it would say that the files it has lost had not been there."""
        states = store.kept_states
        kept = [states.keep(NAMES) for _ in range(6)]
        act = {"undo": lambda: states.drop(kept[-1]), "five": states.end, "remove": states.remove}
        with pytest.raises(SystemExit):
            act[action]()
        assert states.states == (kept[:-1] if action == "undo" else kept[1:])
        assert all((store.folder / ".undo" / state / "a.json").exists() for state in states.states)

    def test_one_that_was_put_back_whole_is_not_asked_for_again(self, half, monkeypatch):
        """Killed between its state's end and its mark's."""
        states = half.kept_states

        unlink = Path.unlink

        def die(path, missing_ok=False):
            if path.name == "unfinished":
                raise SystemExit
            unlink(path, missing_ok=missing_ok)

        with monkeypatch.context() as patch:
            patch.setattr("Middleware.services.kept_states.Path.unlink", die)
            with pytest.raises(SystemExit):
                states.undo_unfinished()
        half.settle()
        assert (half.read_json("a.json", ""), states.has_unfinished) == ("old", False)

    def test_what_was_half_kept_is_no_state(self, states, tmp_path):
        (tmp_path / ".undo/.making").mkdir(parents=True)
        (tmp_path / ".undo/.making/a.json").write_text("odd")
        state = states.keep(("b.json",))
        assert not (tmp_path / ".undo" / state / "a.json").exists()
