"""`--backup`, `--backup-dir`: what is taken, what is told, what is deleted. Source: spec operate.md 3."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import sqlite3
import stat
import zipfile
from contextlib import closing

import pytest

from Middleware.api.commands import backup as command
from Middleware.services.backup.archive import Archive
from Middleware.services.discussion_store import VECTOR_DATABASE
from Middleware.workflows.memory.vector_store import ChunkRecord, VectorDatabase

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has other links and modes")


def names(target):
    with zipfile.ZipFile(target) as archive:
        return sorted(archive.namelist())


def text_of(target, name):
    with zipfile.ZipFile(target) as archive:
        return archive.read(name).decode()


def left_out(target):
    with Archive(target) as archive:
        return {each.path: each.why for each in archive.manifest.left_out}


class TestWhatIsTaken:
    def test_configuration_discussions_and_scripts(self, installation, tmp_path):
        status, said = installation.run("--backup", tmp_path / "a.zip")
        assert (status, said) == (0, f"{tmp_path / 'a.zip'}: 7 files, 0.3 kB\n")
        assert names(tmp_path / "a.zip") == [
            "config/ApiTypes/Chat.json",
            "config/Endpoints/cloud.json",
            "config/Users/_current-user.json",
            "config/Users/ana.json",
            "config/Workflows/ana/_DefaultWorkflow.json",
            "discussions/trip/memories.json",
            "manifest.json",
            "public/workflow_python_scripts/a.py",
        ]

    def test_the_manifest_says_what_it_is(self, installation, tmp_path):
        """Version, time, folders, and a digest of each file."""
        installation.run("--backup", tmp_path / "a.zip")
        document = json.loads(text_of(tmp_path / "a.zip", "manifest.json"))
        assert document["format"] == 1
        assert document["version"]
        assert document["time"].endswith("Z")
        assert document["roots"]["discussions"]["path"] == str(installation.discussions)
        script = document["files"]["public/workflow_python_scripts/a.py"]
        assert (script["size"], script["sha256"]) == (6, hashlib.sha256(b"x = 1\n").hexdigest())

    def test_flat_files_and_folders_of_keys(self, installation, tmp_path):
        installation.remember("story", key_hash="62af8704764faf8e")
        (installation.discussions / "old_memories.json").write_text("[]")
        installation.run("--backup", tmp_path / "a.zip")
        assert [name for name in names(tmp_path / "a.zip") if name.startswith("discussions")] == [
            "discussions/62af8704764faf8e/story/memories.json",
            "discussions/old_memories.json",
            "discussions/trip/memories.json",
        ]

    def test_what_a_discussion_keeps_below_its_folder(self, installation, tmp_path):
        kept = installation.discussions / "trip" / ".undo" / "20261129T110954Z"
        kept.mkdir(parents=True)
        (kept / "memories.json").write_text("[]")
        installation.run("--backup", tmp_path / "a.zip")
        assert "discussions/trip/.undo/20261129T110954Z/memories.json" in names(tmp_path / "a.zip")

    def test_folders_that_user_files_name(self, installation, tmp_path):
        """Wherever they are; each has a name of its own in the backup."""
        installation.write("Users/bob", {"discussionDirectory": str(tmp_path / "bobs")})
        (tmp_path / "bobs" / "chat").mkdir(parents=True)
        (tmp_path / "bobs" / "chat" / "timestamps.json").write_text("{}")
        installation.run("--backup", tmp_path / "a.zip")
        assert "discussions-2/chat/timestamps.json" in names(tmp_path / "a.zip")

    def test_encrypted_files_stay_as_they_are(self, installation, tmp_path):
        """No key is needed."""
        file = installation.discussions / "62af8704764faf8e" / "x" / "memories.json"
        file.parent.mkdir(parents=True)
        file.write_bytes(b"gAAAAABnot-to-be-read")
        installation.run("--backup", tmp_path / "a.zip")
        name = "discussions/62af8704764faf8e/x/memories.json"
        assert text_of(tmp_path / "a.zip", name) == "gAAAAABnot-to-be-read"

    def test_a_database_is_copied_whole(self, installation, tmp_path):
        """Also what is still in the file beside it, which is not taken itself."""
        store = installation.store("trip")
        VectorDatabase(store).save(ChunkRecord("h", ("h",)), [{"summary": "s"}], after=None)
        with closing(sqlite3.connect(store.path(VECTOR_DATABASE))) as writer:
            writer.execute("PRAGMA wal_autocheckpoint = 0")
            writer.execute("CREATE TABLE late (x)")
            writer.commit()
            assert (installation.discussions / "trip" / f"{VECTOR_DATABASE}-wal").stat().st_size
            installation.run("--backup", tmp_path / "a.zip")
        taken = [name for name in names(tmp_path / "a.zip") if VECTOR_DATABASE in name]
        assert taken == [f"discussions/trip/{VECTOR_DATABASE}"]
        with zipfile.ZipFile(tmp_path / "a.zip") as archive:
            copy = archive.extract(taken[0], tmp_path)
        with closing(sqlite3.connect(copy)) as reader:
            assert reader.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert reader.execute("SELECT count(*) FROM late").fetchone() == (0,)

    @posix
    def test_only_its_owner_reads_it(self, installation, tmp_path):
        installation.run("--backup", tmp_path / "a.zip")
        assert stat.S_IMODE((tmp_path / "a.zip").stat().st_mode) == 0o600


class TestWhatIsLeftOut:
    @pytest.mark.parametrize(
        "name",
        [
            "SqlLiteDBs/WilmerDb.ana.sqlite",
            "SqlLiteDBs/ana_routes.db",
            "logs/wilmerai.log",
            "workflow_python_scripts/__pycache__/a.pyc",
            "notes/draft.tmp",
            "DiscussionIds/trip/.lock",
            "DiscussionIds/.making-1/memories.json",
            "headrace-20261129T110954Z.zip",
            ".headrace-backup-1.partial/backup.zip",
        ],
    )
    def test_what_is_made_anew(self, installation, tmp_path, name):
        """Locks, route vectors, logs, caches, unfinished files and other backups."""
        file = installation.public / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
        before = names_without(installation, tmp_path, name)
        installation.run("--backup", tmp_path / "a.zip")
        assert names(tmp_path / "a.zip") == before

    def test_the_backup_itself(self, installation):
        target = installation.public / "mine.zip"
        assert installation.run("--backup", target)[0] == 0
        assert "public/mine.zip" not in names(target)

    def test_discussions_on_request(self, installation, tmp_path):
        (installation.public / "old_vector_memory.db").write_text("x")
        installation.run("--backup", tmp_path / "a.zip", "--no-discussions")
        assert [name for name in names(tmp_path / "a.zip") if "trip" in name or "vector" in name] == []

    @posix
    def test_a_link_out_of_the_folders(self, installation, tmp_path):
        """It is named; a link that stays inside is taken as what it leads to."""
        (tmp_path / "out.txt").write_text("x")
        (installation.public / "out").symlink_to(tmp_path / "out.txt")
        (installation.public / "gone").symlink_to(tmp_path / "nothing")
        (installation.public / "inside").symlink_to(installation.public / "workflow_python_scripts" / "a.py")
        (installation.public / "circle").symlink_to(installation.public)
        _, said = installation.run("--backup", tmp_path / "a.zip")
        assert (
            f"not in the backup: {installation.public / 'out'}: a link to {tmp_path / 'out.txt'}, outside"
            in said
        )
        assert "public/inside" in names(tmp_path / "a.zip")
        assert {name for name in names(tmp_path / "a.zip") if name.startswith("public/")} == {
            "public/inside",
            "public/workflow_python_scripts/a.py",
        }

    @posix
    def test_the_folder_itself_may_be_a_link(self, installation, tmp_path, capsys):
        link = tmp_path / "linked"
        link.symlink_to(installation.public)
        installation.public = link
        assert installation.run("--backup", tmp_path / "a.zip")[0] == 0
        assert "config/Users/ana.json" in names(tmp_path / "a.zip")

    @posix
    def test_what_is_no_plain_file(self, installation, tmp_path, monkeypatch):
        monkeypatch.chdir(installation.public)
        with closing(socket.socket(socket.AF_UNIX)) as listener:
            listener.bind("door")
            _, said = installation.run("--backup", tmp_path / "a.zip")
        assert f"{installation.public / 'door'}: not a plain file" in said

    def test_what_the_configuration_names_elsewhere_is_listed(self, installation, tmp_path):
        (tmp_path / "far.py").write_text("def Invoke(): return 1\n")
        node = {"type": "PythonModule", "module_path": str(tmp_path / "far.py")}
        installation.write("Workflows/ana/_DefaultWorkflow", [node])
        _, said = installation.run("--backup", tmp_path / "a.zip")
        assert f"not in the backup: {tmp_path / 'far.py'}, which the configuration names" in said

    def test_a_folder_that_nobody_named_as_public(self, installation, tmp_path):
        """It may be somebody's home: of it only scripts and old versions of config files are taken."""
        home = tmp_path / "home"
        installation.public.rename(home)
        (home / "private.txt").write_text("x")
        command_line = ["--ConfigDirectory", home / "Configs", "--backup", tmp_path / "a.zip"]
        installation.public = home
        words = [str(word) for word in command_line]
        assert run_unnamed(words) == 0
        assert [name for name in names(tmp_path / "a.zip") if "private" in name] == []


def names_without(installation, tmp_path, name):
    """The names in a backup from before the file was there."""
    file = installation.public / name
    moved = tmp_path / "moved"
    file.rename(moved)
    installation.run("--backup", tmp_path / "before.zip")
    moved.rename(file)
    return names(tmp_path / "before.zip")


def run_unnamed(words):
    """Of a program in a wheel: the folder above a named config root is the Public root."""
    from dataclasses import replace
    from pathlib import Path

    from Middleware.api.launch_arguments import parse
    from Middleware.common.instance_global_variables import set_launch_facts

    launch = parse(words)
    set_launch_facts(replace(launch.facts, public_directory=Path(words[1]).parent))
    return launch.command.run(launch.arguments)


class TestSecrets:
    def test_they_are_masked_in_place(self, installation, tmp_path):
        """Comments and all else stay; an old version of a file is a config file, too."""
        old = installation.public / "ConfigBackups" / "Endpoints" / "cloud.20261129T110954Z.json"
        old.parent.mkdir(parents=True)
        old.write_text('{"apiKey": "abcdef-123456"}')
        _, said = installation.run("--backup", tmp_path / "a.zip", "--no-secrets")
        before = (installation.configs / "Endpoints" / "cloud.json").read_text()
        after = text_of(tmp_path / "a.zip", "config/Endpoints/cloud.json")
        assert after == before.replace("abcdef-123456", "***")
        assert "abcdef" not in text_of(tmp_path / "a.zip", "public/ConfigBackups/Endpoints/" + old.name)
        assert "2 secrets in 2 files became ***" in said

    def test_a_file_of_unknown_form_is_left_out(self, installation, tmp_path):
        (installation.configs / "odd.bin").write_bytes(b"\xff\xfe\x00")
        _, said = installation.run("--backup", tmp_path / "a.zip", "--no-secrets")
        assert "config/odd.bin" not in names(tmp_path / "a.zip")
        assert "odd.bin: it is no text" in said

    def test_without_the_wish_they_are_taken(self, installation, tmp_path):
        installation.run("--backup", tmp_path / "a.zip")
        assert "abcdef-123456" in text_of(tmp_path / "a.zip", "config/Endpoints/cloud.json")


class TestWhatGoesWrong:
    def test_a_file_is_never_written_over(self, installation, tmp_path):
        (tmp_path / "a.zip").write_text("mine")
        status, said = installation.run("--backup", tmp_path / "a.zip")
        assert (status, "already exists and is not overwritten" in said) == (1, True)
        assert (tmp_path / "a.zip").read_text() == "mine"

    @pytest.mark.parametrize("flag", ["--backup", "--backup-dir"])
    def test_a_folder_that_is_not_there(self, installation, tmp_path, flag):
        """It may be a disk that is not plugged in."""
        status, said = installation.run(flag, tmp_path / "gone" / "a.zip")
        assert (status, "there is no folder" in said) == (1, True)

    def test_a_damaged_database_is_taken_as_it_lies(self, installation, tmp_path):
        """And is an error, every time."""
        damaged = b"SQLite format 3\0" + b"x" * 5000
        (installation.discussions / "trip" / VECTOR_DATABASE).write_bytes(damaged)
        status, said = installation.run("--backup", tmp_path / "a.zip")
        assert (status, f"{VECTOR_DATABASE}: a damaged database, which was taken as it lies" in said) == (
            1,
            True,
        )
        with zipfile.ZipFile(tmp_path / "a.zip") as archive:
            assert archive.read(f"discussions/trip/{VECTOR_DATABASE}") == damaged

    def test_a_broken_user_file_may_hide_discussions(self, installation, tmp_path):
        """The rest is backed up; the exit status says that something is missing."""
        installation.write("Users/bob", "{")
        status, said = installation.run("--backup", tmp_path / "a.zip")
        assert (status, "Users/bob.json is missing: this user file cannot be read" in said) == (1, True)
        assert (tmp_path / "a.zip").exists()

    @posix
    @pytest.mark.skipif(os.name != "nt" and os.geteuid() == 0, reason="root may read everything")
    def test_what_cannot_be_read_is_missing(self, installation, tmp_path):
        (installation.public / "closed").write_text("x")
        (installation.public / "closed").chmod(0)
        status, said = installation.run("--backup", tmp_path / "a.zip")
        assert (status, "closed is missing: Permission denied" in said) == (1, True)

    def test_a_full_disk_leaves_nothing(self, installation, tmp_path, monkeypatch):
        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("Middleware.services.backup.archive.ArchiveWriter.add", full)
        status, said = installation.run("--backup", tmp_path / "a.zip")
        told = f"no backup was written: {tmp_path / 'a.zip'}: No space left on device"
        assert (status, told in said) == (1, True)
        assert [path.name for path in tmp_path.iterdir()] == ["one"]


class TestTimer:
    """`--backup-dir DIR --keep N`."""

    @pytest.fixture
    def folder(self, tmp_path, monkeypatch):
        made = tmp_path / "backups"
        made.mkdir()
        times = iter(f"2026112{day}T110954Z" for day in range(1, 9))
        real = command.time.strftime
        monkeypatch.setattr(
            command.time,
            "strftime",
            lambda form, *at: next(times) if "T%H%M" in form and "-" not in form else real(form, *at),
        )
        return made

    def test_the_name_has_the_time(self, installation, folder):
        assert installation.run("--backup-dir", folder)[0] == 0
        assert [path.name for path in folder.iterdir()] == ["headrace-20261121T110954Z.zip"]

    def test_the_oldest_go(self, installation, folder):
        """Of its own names alone."""
        for name in ("mine.zip", "headrace-before-restore-20200101T000000Z.zip"):
            (folder / name).write_text("x")
        for _ in range(3):
            status, said = installation.run("--backup-dir", folder, "--keep", 2)
        assert (status, f"deleted {folder / 'headrace-20261121T110954Z.zip'}" in said) == (0, True)
        assert sorted(path.name for path in folder.iterdir()) == [
            "headrace-20261122T110954Z.zip",
            "headrace-20261123T110954Z.zip",
            "headrace-before-restore-20200101T000000Z.zip",
            "mine.zip",
        ]

    def test_the_new_one_stays_whatever_the_clock_says(self, installation, folder):
        (folder / "headrace-20301121T110954Z.zip").write_text("x")
        installation.run("--backup-dir", folder, "--keep", 1)
        assert [path.name for path in folder.iterdir()] == ["headrace-20261121T110954Z.zip"]

    def test_nothing_is_deleted_after_a_backup_that_lacks_something(self, installation, folder):
        (folder / "headrace-20201121T110954Z.zip").write_text("x")
        installation.write("Users/bob", "{")
        assert installation.run("--backup-dir", folder, "--keep", 1)[0] == 1
        assert (folder / "headrace-20201121T110954Z.zip").exists()

    def test_two_in_a_second(self, installation, folder):
        (folder / "headrace-20261121T110954Z.zip").write_text("x")
        installation.run("--backup-dir", folder)
        assert (folder / "headrace-20261121T110954Z-2.zip").exists()

    def test_keep_alone_is_a_usage_error(self, installation, tmp_path):
        assert installation.run("--backup", tmp_path / "a.zip", "--keep", 1)[0] == 2

    def test_the_newest_backup_of_this_version_is_remembered(self, installation, folder):
        """For the sentence that says how to go back."""
        installation.run("--backup-dir", folder)
        known = json.loads((installation.public / "version.json").read_bytes())
        assert list(known["backups"].values()) == [str(folder / "headrace-20261121T110954Z.zip")]
