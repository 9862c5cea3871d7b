"""Who works with the folders, and which version wrote there. Source: spec operate.md 3."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from Middleware.common.constants import VERSION
from Middleware.common.instance_global_variables import LaunchFacts
from Middleware.services.backup import tree_use
from Middleware.services.backup.tree_swap import Step, Swap, undo_unfinished
from Middleware.services.backup.tree_use import (
    DataVersion,
    TreeBusy,
    enter_data,
    folders_of,
    hold_all,
    newer_than_program,
    newest_backup,
    note_backup,
    note_version,
    numbers_of,
    read_data_version,
    use_together,
)


class TestFolders:
    def test_many_use_them_and_one_has_them_alone(self, tmp_path):
        first, second = use_together(tmp_path, [tmp_path]), use_together(tmp_path, [tmp_path])
        first.give_back()
        assert hold_all([tmp_path], alone=True) is None
        second.give_back()
        (alone,) = hold_all([tmp_path], alone=True)
        assert hold_all([tmp_path]) is None
        alone.give_back()

    def test_all_of_them_or_none(self, tmp_path):
        """What was held already is given back."""
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()
        used = use_together(tmp_path, [tmp_path / "b"])
        assert hold_all([tmp_path / "a", tmp_path / "b"], alone=True) is None
        (alone,) = hold_all([tmp_path / "a"], alone=True)
        alone.give_back()
        used.give_back()

    def test_a_folder_of_another_name_is_the_same(self, tmp_path):
        (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
        used = use_together(tmp_path, [tmp_path / "link"])
        assert hold_all([tmp_path], alone=True) is None
        used.give_back()

    def test_a_start_gives_up_while_a_restore_is_at_work(self, tmp_path):
        holds = hold_all([tmp_path], alone=True)
        with pytest.raises(TreeBusy, match=r"a restore is at work in .*; start again when it has ended"):
            use_together(tmp_path, [tmp_path], clock=itertools.count(0, 20).__next__)
        assert holds

    def test_it_waits_for_half_a_minute(self, tmp_path, monkeypatch):
        """And looks again and again, with a pause."""
        clock, pauses = itertools.count(0, 15), []
        monkeypatch.setattr(tree_use, "time", SimpleNamespace(sleep=pauses.append))
        holds = hold_all([tmp_path], alone=True)
        with pytest.raises(TreeBusy):
            use_together(tmp_path, [tmp_path], clock=clock.__next__)
        assert holds and next(clock) == 45 and pauses == [0.05]

    def test_a_folder_that_is_not_there_is_held_by_nobody(self, tmp_path):
        (hold,) = hold_all([tmp_path / "gone", tmp_path])
        assert hold_all([tmp_path], alone=True) is None
        hold.give_back()

    def test_parts_that_nobody_understands_stop_a_start(self, tmp_path):
        (tmp_path / ".restoring-x").mkdir()
        with pytest.raises(TreeBusy, match="holds parts of a restore that was interrupted"):
            use_together(tmp_path, [tmp_path])

    def test_so_does_a_restore_that_cannot_be_undone(self, tmp_path, monkeypatch):
        """With the reason; whoever comes next can try it again."""
        Swap(tmp_path, [tmp_path]).begin()

        def fail(journal, own):
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(tree_use, "undo_unfinished", fail)
        with pytest.raises(TreeBusy, match=r"an interrupted restore cannot be undone: .*Input/output error"):
            use_together(tmp_path, [tmp_path])
        (alone,) = hold_all([tmp_path], alone=True)
        alone.give_back()

    def test_one_that_somebody_else_has_undone_meanwhile_is_undone(self, tmp_path, monkeypatch, caplog):
        """What was read before may be gone."""
        Swap(tmp_path, [tmp_path]).begin()

        def be_late(journal, own):
            undo_unfinished(journal, own)
            raise FileNotFoundError(2, "No such file or directory")

        monkeypatch.setattr(tree_use, "undo_unfinished", be_late)
        use = use_together(tmp_path, [tmp_path])
        assert use.undone and "has been undone" not in caplog.text
        use.give_back()

    def test_a_killed_restore_is_undone_first(self, tmp_path, caplog):
        (tmp_path / "a").write_text("old")
        swap = Swap(tmp_path, [tmp_path])
        swap.begin()
        (swap.new(0) / "a").write_text("new")
        swap.steps = [Step(0, "a", True, True)]
        swap._write("swapping")
        swap._do(swap.steps[0])
        assert (tmp_path / "a").read_text() == "new"
        use = use_together(tmp_path, [tmp_path])
        assert use.undone
        use.give_back()
        assert [path.name for path in tmp_path.iterdir()] == ["a"]
        assert (tmp_path / "a").read_text() == "old"
        assert not use_together(tmp_path, [tmp_path]).undone
        assert "was interrupted and has been undone" in caplog.text

    def test_a_file_system_without_locks(self, tmp_path, monkeypatch, caplog):
        """A server starts, with a warning; nobody can have the folders alone."""

        def refuse(folder, *, alone=False):
            raise OSError(95, "Operation not supported")

        monkeypatch.setattr(tree_use, "hold_folder", refuse)
        assert use_together(tmp_path, [tmp_path]).holds == []
        assert "cannot be locked (Operation not supported)" in caplog.text
        with pytest.raises(TreeBusy, match="cannot be locked: Operation not supported"):
            hold_all([tmp_path], alone=True)


class TestVersions:
    @pytest.mark.parametrize(
        ("text", "numbers"),
        [
            ("1.2.3", (1, 2, 3)),
            ("10.0", (10, 0, 0)),
            ("1.2.3rc1", (1, 2, 3)),
            ("", (0, 0, 0)),
            ("x", (0, 0, 0)),
            ("9" * 5000, (0, 0, 0)),
            ("1." + "9" * 5000, (1, 0, 0)),
            ("\u0661.2", (0, 0, 0)),
        ],
    )
    def test_numbers(self, text, numbers):
        assert numbers_of(text) == numbers

    @pytest.mark.parametrize(
        ("written", "newer"),
        [
            ("1.2.0", ""),
            ("1.2.9", ""),
            ("1.1.0", ""),
            ("0.9.0", ""),
            ("", ""),
            ("1.3.0", "minor"),
            ("2.0.0", "major"),
        ],
    )
    def test_newer_than_this_one(self, written, newer):
        assert newer_than_program(written, version="1.2.3") == newer

    def test_the_highest_that_wrote_is_kept(self, tmp_path):
        for version in ("1.2.0", "1.10.0", "1.3.0"):
            note_version(tmp_path, version=version)
        assert read_data_version(tmp_path).version == "1.10.0"

    def test_the_file_is_one_that_people_can_read(self, tmp_path):
        """The folder is made if need be; where it cannot be written nothing is kept, and nobody stopped."""
        note_version(tmp_path / "new" / "P", version="1.2.0")
        note_backup(tmp_path / "new" / "P", tmp_path / "a.zip", version="1.1.0")
        text = (tmp_path / "new" / "P" / "version.json").read_text()
        assert (
            text
            == f'{{\n    "version": "1.2.0",\n    "backups": {{\n        "1.1.0": "{tmp_path / "a.zip"}"\n    }}\n}}'
        )
        (tmp_path / "file").write_text("mine")
        note_version(tmp_path / "file")
        note_backup(tmp_path / "file", tmp_path / "a.zip")
        assert (tmp_path / "file").read_text() == "mine"

    def test_a_backup_of_data_that_nobody_wrote_is_of_this_version(self, tmp_path):
        note_backup(tmp_path, tmp_path / "a.zip", version="1.1.0")
        assert read_data_version(tmp_path) == DataVersion("1.1.0", {"1.1.0": str(tmp_path / "a.zip")})

    def test_a_start_changes_the_file_only_for_a_new_version(self, tmp_path):
        note_version(tmp_path)
        before = (tmp_path / "version.json").stat()
        note_version(tmp_path)
        now = (tmp_path / "version.json").stat()  # a look at it changes its time of access
        assert (now.st_ino, now.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)

    @pytest.mark.parametrize("text", ["", "[]", '{"version": 1, "backups": []}', "{", "[" * 100_000])
    def test_a_damaged_file_says_nothing(self, tmp_path, text):
        (tmp_path / "version.json").write_text(text)
        assert read_data_version(tmp_path) == DataVersion()

    def test_the_last_backup_of_each_version(self, tmp_path):
        for version, name in (("1.0.0", "a.zip"), ("1.1.0", "b.zip"), ("2.0.0", "c.zip")):
            (tmp_path / name).write_text("x")
            note_backup(tmp_path, tmp_path / name, version=version)
        known = read_data_version(tmp_path)
        assert newest_backup(known, version="1.5.0") == str(tmp_path / "b.zip")
        (tmp_path / "b.zip").unlink()
        assert newest_backup(known, version="1.5.0") == str(tmp_path / "a.zip")
        assert newest_backup(known, version="0.1.0") == ""


class TestStart:
    def facts(self, folder):
        return LaunchFacts(public_directory=folder, config_directory=folder / "Configs")

    def write(self, folder, version, **backups):
        (folder / "version.json").write_text(json.dumps({"version": version, "backups": backups}))

    def test_the_folders_of_an_installation(self, tmp_path):
        """Those that are there, each once; discussions are below the data unless the command line says else."""
        for name in ("Configs", "DiscussionIds", "history", "chats"):
            (tmp_path / name).mkdir()
        facts = self.facts(tmp_path)
        configs = tmp_path / "Configs"
        assert folders_of(facts) == [tmp_path, configs, tmp_path / "DiscussionIds"]
        more = replace(facts, discussion_directory=tmp_path / "chats", history_directory=tmp_path / "history")
        assert folders_of(more) == [tmp_path, configs, tmp_path / "chats", tmp_path / "history"]
        configs.rmdir()
        assert folders_of(replace(facts, discussion_directory=tmp_path / "gone")) == [tmp_path]

    def test_it_notes_this_version(self, tmp_path):
        enter_data(self.facts(tmp_path))
        assert read_data_version(tmp_path).version == VERSION

    def test_a_newer_minor_version_is_a_warning(self, tmp_path, caplog):
        major, minor, _ = numbers_of(VERSION)
        self.write(tmp_path, f"{major}.{minor + 1}.0")
        enter_data(self.facts(tmp_path))
        assert f"version {major}.{minor + 1}.0 has written to {tmp_path}" in caplog.text
        assert read_data_version(tmp_path).version == f"{major}.{minor + 1}.0"

    def test_a_newer_major_version_is_refused_with_the_way_back(self, tmp_path):
        (tmp_path / "old.zip").write_text("x")
        self.write(tmp_path, "99.0.0", **{VERSION: str(tmp_path / "old.zip")})
        with pytest.raises(TreeBusy) as caught:
            enter_data(self.facts(tmp_path))
        assert f"--PublicDirectory {tmp_path} --restore {tmp_path / 'old.zip'} --replace" in str(caught.value)

    def test_without_a_known_backup_the_way_back_has_a_gap(self, tmp_path):
        self.write(tmp_path, "99.0.0")
        with pytest.raises(TreeBusy, match=r"--restore FILE\.zip --replace"):
            enter_data(self.facts(tmp_path))
