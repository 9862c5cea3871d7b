"""New files take the place of old ones: all or none, and whoever comes next undoes the rest."""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from Middleware.services.backup import tree_swap
from Middleware.services.backup.tree_swap import (
    JOURNAL,
    Step,
    Swap,
    SwapUnclear,
    bases_of,
    undo_unfinished,
    unfinished,
)

STEPS = [
    Step(0, "a", True, True),
    Step(0, "b", False, True),
    Step(1, "c/d", True, True),
    Step(1, "e", True, False),
]
NAMES = {(0, "a"), (0, "b"), (1, "c/d")}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("one/a", "two/c/d", "two/e"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("old")
    return tmp_path / "one"


@pytest.fixture
def swap(home: Path) -> Swap:
    """One that has begun and has its new files."""
    made = Swap(home, [home, home.parent / "two"])
    made.begin()
    for base, name in NAMES:
        new = made.new(base) / name
        new.parent.mkdir(parents=True, exist_ok=True)
        new.write_text("new")
    return made


def state(home: Path) -> dict[str, str]:
    top = home.parent
    return {
        path.relative_to(top).as_posix(): path.read_text()
        for path in sorted(top.rglob("*"))
        if path.is_file()
    }


OLD = {"one/a": "old", "two/c/d": "old", "two/e": "old"}
NEW = {"one/a": "new", "one/b": "new", "two/c/d": "new"}


def test_all_is_exchanged_and_nothing_is_left(swap, home):
    swap.run(STEPS)
    swap.clean()
    assert state(home) == NEW


def test_without_a_run_all_is_as_it_was(swap, home):
    swap.clean()
    assert state(home) == OLD


@pytest.mark.parametrize("failing", range(7))
def test_an_error_puts_everything_back(swap, home, monkeypatch, failing):
    """Whichever of the renames fails."""
    rename, count = os.rename, iter(range(1000))

    def fails_once(*paths):
        if next(count) == failing:
            raise OSError(5, "Input/output error")
        rename(*paths)

    monkeypatch.setattr(os, "rename", fails_once)
    if failing < 6:
        with pytest.raises(OSError, match="Input/output"):
            swap.run(STEPS)
    else:
        swap.run(STEPS)
    swap.clean()
    assert state(home) == (OLD if failing < 6 else NEW)


def test_what_could_not_be_undone_is_kept(swap, home, monkeypatch):
    """The old files are the only ones; another start tries again."""
    rename, count = os.rename, iter(range(1000))

    def breaks_down(*paths):
        if next(count) >= 3:
            raise OSError(5, "Input/output error")
        rename(*paths)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", breaks_down)
        with pytest.raises(OSError, match="Input/output"):
            swap.run(STEPS)
        swap.clean()
    assert (home / JOURNAL).exists()
    assert undo_unfinished(home / JOURNAL, [home])
    assert state(home) == OLD


class TestOnTheDisk:
    """Renames count when the folders that hold them are written, in this order."""

    @pytest.fixture
    def events(self, monkeypatch):
        seen: list[str | Path] = []
        monkeypatch.setattr(tree_swap, "sync_folder", seen.append)
        write = Swap._write

        def note(self, state):
            write(self, state)
            seen.append(state)

        monkeypatch.setattr(Swap, "_write", note)
        return seen

    def test_new_files_before_the_renames_and_these_before_the_end(self, swap, home, events):
        swap.run(STEPS)
        two = home.parent / "two"
        before, after = (set(events[: events.index(word)]) for word in ("swapping", "done"))
        assert {swap.new(0), swap.stage(0), swap.new(1), swap.new(1) / "c", swap.old(1)} <= before
        assert not {home / "c", two / "c"} & before
        assert {home, two, two / "c"} <= after

    def test_what_is_put_back_before_the_end(self, swap, home, events):
        swap.run(STEPS[:3])
        swap.steps = [*STEPS[:3], Step(1, "gone/x", False, True)]
        events.clear()
        swap.undo()
        assert set(events[: events.index("done")]) >= {home, home.parent / "two" / "c"}
        assert home.parent / "two" / "gone" not in events and swap.steps == []

    def test_the_journals_end_is_the_last(self, swap, home, events):
        swap.clean()
        assert events[-1] == home and not swap.journal.exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows knows no permission bits")
def test_only_the_owner_may_look_at_what_waits(swap):
    assert [stat.S_IMODE(swap.stage(number).stat().st_mode) for number in (0, 1)] == [0o700, 0o700]


def test_new_files_of_the_top_folder_wait_in_a_folder_that_has_a_name(tmp_path):
    """Those of any other one are in a folder that is called like it."""
    swap = Swap(tmp_path, [tmp_path, Path(tmp_path.anchor)], "x")
    assert swap.new(0) == tmp_path / ".restoring-x" / "new" / tmp_path.name
    assert swap.new(1) == Path(tmp_path.anchor) / ".restoring-x" / "new" / "root"


class TestWhoComesNext:
    def interrupted(self, swap, done):
        """As a kill leaves it after some of the renames."""
        swap.steps = list(STEPS)
        swap._write("swapping")
        for step in STEPS[:done]:
            swap._do(step)

    @pytest.mark.parametrize("done", range(len(STEPS) + 1))
    def test_an_unfinished_exchange_is_undone(self, swap, home, done):
        self.interrupted(swap, done)
        (journal,) = unfinished(home, [home, home.parent / "two"])
        assert undo_unfinished(journal, [])
        assert state(home) == OLD

    @pytest.mark.parametrize("stopped", range(6))
    @pytest.mark.parametrize("done", range(len(STEPS) + 1))
    def test_an_undoing_that_was_stopped_is_undone_in_the_end(self, swap, home, monkeypatch, done, stopped):
        """Whichever of its renames did not happen."""
        self.interrupted(swap, done)
        rename, count = os.rename, iter(range(1000))

        def stop(*paths):
            if next(count) >= stopped:
                raise OSError(5, "Input/output error")
            rename(*paths)

        with monkeypatch.context() as patch, suppress(OSError):
            patch.setattr(os, "rename", stop)
            undo_unfinished(home / JOURNAL, [])
        if (home / JOURNAL).exists():
            assert undo_unfinished(home / JOURNAL, [])
        assert state(home) == OLD

    def test_several_folders_of_one_exchange_have_one_journal(self, swap, home):
        other = home.parent / "three"
        other.mkdir()
        assert unfinished(other, [home.parent / "two", home]) == [home / JOURNAL]

    def test_a_journal_that_was_half_written_goes(self, home):
        (home / ".restoring-journal.next").write_text("{")
        assert unfinished(home, [home]) == []
        assert not (home / ".restoring-journal.next").exists()

    def test_a_file_that_is_called_like_its_parts_is_none(self, home):
        (home / ".restoring-notes").write_text("mine")
        assert unfinished(home, [home]) == []

    def test_one_that_only_began_is_removed(self, swap, home):
        assert unfinished(home, [home]) == [home / JOURNAL]
        assert not undo_unfinished(home / JOURNAL, [])
        assert state(home) == OLD

    def test_one_that_was_done_stays_done(self, swap, home):
        swap.run(STEPS)
        assert not undo_unfinished(home / JOURNAL, [])
        assert state(home) == NEW

    def test_it_is_found_from_any_of_its_folders(self, swap, home):
        """A server may share one of them with another installation."""
        other = home.parent / "three"
        other.mkdir()
        assert unfinished(other, [home.parent / "two"]) == [home / JOURNAL]
        assert unfinished(other, [other]) == []

    def test_folders_may_have_other_names_in_a_container(self, swap, home):
        self.interrupted(swap, 3)
        moved = home.parent / "app"
        moved.mkdir()
        home.rename(moved / "one")
        (home.parent / "two").rename(moved / "two")
        own = [moved / "one", moved / "two"]
        assert unfinished(own[0], own) == [own[0] / JOURNAL]
        assert bases_of(own[0] / JOURNAL, own) == own
        assert undo_unfinished(own[0] / JOURNAL, own)
        assert state(moved / "one") == OLD

    def test_parts_without_their_journal_are_left_alone(self, swap, home):
        """They may be the only old files."""
        self.interrupted(swap, 3)
        (home / JOURNAL).unlink()
        said = f"{swap.stage(0)} holds parts of a restore that was interrupted, and its journal"
        with pytest.raises(SwapUnclear, match=rf"^{said} {home / JOURNAL} is not there$"):
            unfinished(home, [home])
        (swap.stage(0) / "journal").unlink()
        with pytest.raises(SwapUnclear, match=rf"^{said} is not there$"):
            unfinished(home, [home])

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("", "cannot be read: "),
            ("[" * 100_000, "cannot be read: "),
            ("[]", "is not the journal of a restore$"),
            ('{"id": "x"}', "is not the journal of a restore$"),
        ],
        ids=["empty", "deep", "list", "half"],
    )
    def test_a_journal_that_cannot_be_read_is_told(self, home, text, said):
        (home / JOURNAL).write_text(text)
        with pytest.raises(SwapUnclear, match=f"{JOURNAL} {said}"):
            undo_unfinished(home / JOURNAL, [])

    def test_old_files_that_are_gone_are_told(self, swap, home):
        self.interrupted(swap, 3)
        swap.stage(1).rename(home.parent / "elsewhere")
        with pytest.raises(SwapUnclear, match="names old files that are not there"):
            undo_unfinished(home / JOURNAL, [])
        assert json.loads((home / JOURNAL).read_bytes())["state"] == "swapping"
