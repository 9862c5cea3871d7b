"""Where the files of a backup go, and which names a system refuses. Source: spec operate.md 3."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from Middleware.services.backup import restoring
from Middleware.services.backup.archive import BackupRefused, Manifest, StoredFile
from Middleware.services.backup.restoring import (
    kept_files,
    lacking_space,
    plan_restore,
    refused_names,
    run_restore,
    show_what_stays,
    unpack,
)
from Middleware.services.backup.tree_use import VERSION_FILE


def manifest(*names):
    roots = {name.partition("/")[0]: {"path": "", "written": ""} for name in names}
    files = {name: StoredFile("0" * 64, 1, 0o644, 0) for name in names}
    return Manifest("1.0.0", "1.0.0", "", roots, files)


@pytest.fixture
def plan(tmp_path):
    def make(*names, kept=(), **targets):
        places = {name: tmp_path / place for name, place in targets.items()}
        return plan_restore(manifest(*names), places, tmp_path / "P", [tmp_path / each for each in kept])

    return make


def units(plan):
    return sorted(str(plan.path(unit).relative_to(plan.home.parent)) for unit in plan.units)


class TestUnits:
    """What is exchanged as a whole."""

    def test_children_of_a_folder(self, plan):
        made = plan("config/Users/a.json", "config/Users/b.json", "config/x.json", config="P/Configs")
        assert units(made) == ["P/Configs/Users", "P/Configs/x.json"]

    def test_each_discussion_goes_by_itself(self, plan):
        """Also below the folder of a key, and with what it holds below itself."""
        made = plan(
            "discussions/trip/a.json",
            "discussions/trip/.undo/1/a.json",
            "discussions/62af8704764faf8e/story/a.json",
            "discussions/old_memories.json",
            discussions="P/D",
        )
        assert units(made) == ["P/D/62af8704764faf8e/story", "P/D/old_memories.json", "P/D/trip"]

    def test_what_holds_another_root_stays(self, plan):
        made = plan("public/data/notes/a", "discussions/trip/a", public="P", discussions="P/data/chats")
        assert units(made) == ["P/data/chats/trip", "P/data/notes"]

    def test_what_holds_logs_stays(self, plan):
        assert units(plan("public/a/b/c", kept=["P/a/logs"], public="P")) == ["P/a/b"]

    def test_another_file_system_below_has_its_own_exchange(self, plan, monkeypatch, tmp_path):
        monkeypatch.setattr(os.path, "ismount", lambda path: str(path) == str(tmp_path / "P" / "big"))
        made = plan("public/big/a/x", "public/b", public="P")
        assert units(made) == ["P/b", "P/big/a"]
        assert tmp_path / "P" / "big" in made.bases

    def test_a_root_that_is_named_has_the_say(self, plan):
        made = plan("public/Configs/old.json", "config/new.json", public="P", config="P/Configs")
        assert (units(made), made.aside) == (["P/Configs/new.json"], ["public/Configs/old.json"])

    def test_a_root_that_is_not_wanted_is_not_restored(self, plan):
        """Nor does it count."""
        made = plan("public/a", "config/x.json", "config/y.json", config="C")
        assert (units(made), made.size) == (["C/x.json", "C/y.json"], 2)

    def test_two_files_for_one_place(self, plan):
        with pytest.raises(BackupRefused, match="would both become"):
            plan("discussions/t/a", "discussions-2/t/a", **{"discussions": "D", "discussions-2": "D"})


class TestNames:
    @pytest.mark.parametrize(
        "name", ["a:b", "what?", "x|y", "CON", "nul.json", "dot.", "blank ", "back\\slash"]
    )
    def test_windows_refuses(self, plan, name):
        made = plan(f"config/{name}/x.json", config="C")
        assert refused_names(made, windows=True) == [
            f"config/{name}/x.json: Windows cannot have a file or folder of the name {name!r}"
        ]
        assert refused_names(made, windows=False) == []
        assert refused_names(made) == refused_names(made, windows=os.name == "nt")

    @pytest.mark.skipif(os.name == "nt", reason="Windows has names of another form")
    def test_a_name_that_no_bytes_can_hold(self, plan):
        assert refused_names(plan("config/\ud800", config="C")) == [
            "config/\ud800: this system cannot write such a name"
        ]

    @pytest.mark.parametrize(
        ("beside", "folds"), [("", False), ("a folder", False), ("the same folder", True)]
    )
    @pytest.mark.parametrize("place", ["Ab", "Ab/1", "Ab/1/Gone"], ids=["itself", "no-letters", "not-there"])
    def test_whether_letters_count_is_asked_of_the_disk(self, tmp_path, place, beside, folds):
        """By the nearest name above that has letters: is its other form the same folder?"""
        if restoring._folds_case(tmp_path):
            pytest.skip("this disk takes both for one name")
        (tmp_path / "Ab" / "1").mkdir(parents=True)
        if beside == "a folder":
            (tmp_path / "aB").mkdir()
        elif beside:
            (tmp_path / "aB").symlink_to("Ab")
        assert restoring._folds_case(tmp_path / place) is folds

    def test_two_names_that_are_one_here(self, plan, monkeypatch):
        monkeypatch.setattr(restoring, "_folds_case", lambda folder: True)
        made = plan("config/Users/Ana.json", "config/Users/ana.json", "config/B", config="C")
        assert refused_names(made) == [
            "config/Users/ana.json: here it is the same name as config/Users/Ana.json"
        ]

    def test_letters_count_where_they_count(self, plan):
        if not restoring._folds_case(plan("config/x", config="C").home):
            assert refused_names(plan("config/Ana", "config/ana", config="C")) == []


class TestRoom:
    """Files are a byte each."""

    @pytest.fixture
    def free(self, monkeypatch):
        def be(size):
            monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=size))

        return be

    @pytest.mark.parametrize("size", [2, 3])
    def test_enough(self, plan, free, size):
        free(size)
        assert lacking_space(plan("config/a", "discussions/trip/b", config="C", discussions="D")) == []

    def test_too_little_for_all_of_one_file_system_together(self, plan, free, tmp_path):
        """Told with a folder that is there."""
        free(1)
        made = plan("config/a", "discussions/trip/b", config="C", discussions="D")
        assert lacking_space(made) == [f"{tmp_path}: 2 bytes are needed, 1 are free"]


def test_logs_and_other_backups_stay_where_they_are(tmp_path):
    """However deep; nothing else does."""
    stay = ["wilmerai.log", "a/wilmerai.log.3", "a/b/headrace-20261129T110954Z.zip"]
    for name in (*stay, "notes.txt", "a/notes.log.txt", "a/b/memories.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert sorted(kept_files(tmp_path)) == sorted(tmp_path / name for name in stay)


def test_what_would_be_exchanged_and_is_there(plan, tmp_path):
    """Folders in which there is no file count for nothing; whatever else is there does."""
    made = plan(
        *[f"public/{name}/x" for name in ("gone", "empty", "deep", "full", "link", "file")], public="P"
    )
    for name in ("empty", "deep/er/est", "full/er"):
        (tmp_path / "P" / name).mkdir(parents=True)
    (tmp_path / "P/full/er/a").touch()
    (tmp_path / "P/file").touch()
    (tmp_path / "P/link").symlink_to(tmp_path / "P/empty")
    assert sorted(path.name for path in made.in_the_way()) == ["file", "full", "link"]


class Unpacking:
    """An archive whose files all hold `new`."""

    def unpack(self, name, target):
        target.write_text("new")


def tree(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


@pytest.fixture
def home(tmp_path):
    """A root with files of before."""
    for name in ("P/kept/a", "P/one/old", "P/one.db-wal", "elsewhere/far"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("old")
    return tmp_path / "P"


class TestTheExchange:
    NAMES = ("public/one/x", "public/one.db", "public/two/y")

    def test_what_the_backup_has_takes_the_place_of_what_was(self, plan, home):
        """The parts of an old database go with it; the rest stays."""
        assert run_restore(Unpacking(), plan(*self.NAMES, public="P"), None, lambda roots: True)
        assert tree(home) == {"kept/a": "old", "one/x": "new", "one.db": "new", "two/y": "new"}

    def test_the_version_is_written_with_it(self, plan, home):
        assert run_restore(Unpacking(), plan(*self.NAMES, public="P"), b"2.0.0", lambda roots: True)
        assert (home / VERSION_FILE).read_text() == "2.0.0"

    def test_what_is_not_fit_changes_nothing(self, plan, home, tmp_path):
        """It is looked at before; folders that were made for it go again."""
        before, seen = tree(tmp_path), []

        def is_fit(roots):
            seen.extend((name, tree(folder)) for name, folder in sorted(roots.items()))
            return False

        made = plan("public/one/x", "config/a", public="P", config="new/Configs")
        assert not run_restore(Unpacking(), made, b"2.0.0", is_fit)
        assert seen == [("config", {"a": "new"}), ("public", {"one/x": "new"})]
        assert tree(tmp_path) == before and not (tmp_path / "new").exists()

    def test_the_version_takes_the_place_of_the_one_before(self, plan, home):
        (home / VERSION_FILE).write_text("1.0.0")
        assert run_restore(Unpacking(), plan(*self.NAMES, public="P"), b"2.0.0", lambda roots: True)
        assert (home / VERSION_FILE).read_text() == "2.0.0"

    def test_a_part_of_a_database_that_the_backup_has_stays(self, plan, home):
        """Under its name comes what was backed up."""
        made = plan(*self.NAMES, "public/one.db-wal", public="P")
        assert run_restore(Unpacking(), made, None, lambda roots: True)
        assert tree(home)["one.db-wal"] == "new"

    def test_a_link_in_a_folder_that_the_backup_does_not_have_goes_along(self, plan, home, tmp_path):
        (home / "one/deep/er").mkdir(parents=True)
        for link, to in (("far", "elsewhere"), ("farther", "elsewhere/far")):
            (home / "one/deep/er" / link).symlink_to(tmp_path / to)
        run_restore(Unpacking(), plan(*self.NAMES, public="P"), None, lambda roots: True)
        assert sorted(path.name for path in (home / "one/deep/er").iterdir()) == ["far", "farther"]

    def test_a_link_that_is_exchanged_itself_is_not_walked(self, plan, home, tmp_path):
        """What lies where it leads stays as it is."""
        (tmp_path / "elsewhere/inner").symlink_to(tmp_path / "elsewhere/far")
        shutil.rmtree(home / "one")
        (home / "one").symlink_to(tmp_path / "elsewhere")
        run_restore(Unpacking(), plan(*self.NAMES, public="P"), None, lambda roots: True)
        assert not (home / "one").is_symlink()
        assert [path.name for path in (home / "one").iterdir()] == ["x"]

    def test_an_error_changes_nothing(self, plan, home, tmp_path):
        before = tree(tmp_path)

        def is_fit(roots):
            raise BackupRefused("no")

        with pytest.raises(BackupRefused):
            run_restore(Unpacking(), plan(*self.NAMES, public="P", config="new"), None, is_fit)
        assert tree(tmp_path) == before and not (tmp_path / "new").exists()

    @pytest.mark.skipif(os.name == "nt", reason="Windows knows no permission bits")
    def test_folders_have_their_bits(self, plan, home):
        """And may be written by their owner, whatever they were."""
        made = plan("public/two/er/y", public="P")
        made.manifest.folders.update({"public/two": 0o500, "public/two/er": 0o755})
        run_restore(Unpacking(), made, None, lambda roots: True)
        assert [stat.S_IMODE((home / name).stat().st_mode) for name in ("two", "two/er")] == [0o700, 0o755]

    def test_each_folder_is_made_once(self, plan, tmp_path, monkeypatch):
        """However many files it has: a large folder is unpacked in no more time than a small one a file."""
        new, made, mkdir = tmp_path / "new", [], Path.mkdir
        new.mkdir()
        monkeypatch.setattr(Path, "mkdir", lambda self, **how: made.append(self.name) or mkdir(self, **how))
        unpack(
            Unpacking(), plan("public/a/b/x", "public/a/b/y", "public/a/z", public="P"), lambda number: new
        )
        assert made == ["a", "b"]

    def test_a_link_out_of_all_roots_goes_along(self, plan, home, tmp_path):
        """It is in no backup. One within them is; and what the backup has comes first."""
        (home / "one/far").symlink_to(tmp_path / "elsewhere")
        (home / "one/near").symlink_to(home / "kept")
        (home / "one/x").symlink_to(tmp_path / "elsewhere" / "far")
        run_restore(Unpacking(), plan(*self.NAMES, public="P"), None, lambda roots: True)
        assert sorted(path.name for path in (home / "one").iterdir()) == ["far", "x"]
        assert os.readlink(home / "one/far") == str(tmp_path / "elsewhere")
        assert (home / "one/x").read_text() == "new" and not (home / "one/x").is_symlink()

    def test_what_stays_shows_while_it_is_looked_at(self, plan, home, tmp_path):
        """Beside the unpacked files, as links; afterwards it does not."""
        unpacked = tmp_path / "unpacked"
        (unpacked / "one").mkdir(parents=True)
        (home / "gone").symlink_to(home / "nowhere")
        with show_what_stays(
            plan(*self.NAMES, public="P", config="none"), {"public": unpacked, "config": unpacked}
        ):
            assert sorted(path.name for path in unpacked.iterdir()) == ["gone", "kept", "one", "one.db-wal"]
            assert (unpacked / "kept/a").read_text() == "old"
        assert [path.name for path in unpacked.iterdir()] == ["one"]

    def test_nothing_shows_where_links_cannot_be_made(self, plan, home, tmp_path, monkeypatch):
        def refuse(self, target, target_is_directory=False):
            raise OSError(1, "Operation not permitted")

        monkeypatch.setattr(Path, "symlink_to", refuse)
        (tmp_path / "unpacked").mkdir()
        with show_what_stays(plan(*self.NAMES, public="P"), {"public": tmp_path / "unpacked"}):
            assert list((tmp_path / "unpacked").iterdir()) == []
