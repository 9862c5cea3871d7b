"""`--restore`: into empty folders, over others, and what it refuses. Source: spec operate.md 3."""

from __future__ import annotations

import json
import os
import sqlite3
import zipfile
from contextlib import closing

import pytest

from Middleware.api.launch_arguments import parse
from Middleware.common.constants import VERSION
from Middleware.services.backup.tree_swap import Step, Swap
from Middleware.services.backup.tree_use import folders_of, use_together
from Middleware.services.history import history_file, open_history
from tests.odd_zips import ODD, make_odd

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has other links and modes")


def rewrite(source, target, change):
    """A copy of a backup whose manifest `change` has altered."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "manifest.json":
                document = json.loads(data)
                change(document)
                data = json.dumps(document).encode()
            new.writestr(name, data)
    return target


class TestIntoEmptyFolders:
    def test_all_is_there_again(self, installation, elsewhere, backup):
        status, said = elsewhere.run("--restore", backup)
        assert (status, "restored 7 files" in said) == (0, True)
        assert elsewhere.contents() == installation.contents()

    @posix
    def test_modes_and_times_are_those_of_before(self, installation, elsewhere, tmp_path):
        file = installation.configs / "Endpoints" / "cloud.json"
        file.chmod(0o600)
        os.utime(file, (1_700_000_000, 1_700_000_000))
        installation.run("--backup", tmp_path / "a.zip")
        elsewhere.run("--restore", tmp_path / "a.zip")
        facts = (elsewhere.configs / "Endpoints" / "cloud.json").stat()
        assert (facts.st_mode & 0o777, facts.st_mtime) == (0o600, 1_700_000_000)

    def test_named_folders(self, elsewhere, backup, tmp_path):
        """Each part goes where the command line says."""
        words = ["--ConfigDirectory", tmp_path / "conf", "--DiscussionDirectory", tmp_path / "chats"]
        assert elsewhere.run(*words, "--restore", backup)[0] == 0
        assert (tmp_path / "conf" / "Users" / "ana.json").exists()
        assert (tmp_path / "chats" / "trip" / "memories.json").exists()
        assert not elsewhere.configs.exists()

    def test_a_folder_that_a_user_file_names(self, installation, elsewhere, tmp_path):
        """It is where that user file says, or all goes where the command line says."""
        bobs = tmp_path / "bobs"
        installation.write("Users/bob", {"discussionDirectory": str(bobs)})
        (bobs / "chat").mkdir(parents=True)
        (bobs / "chat" / "timestamps.json").write_text("{}")
        installation.run("--backup", tmp_path / "a.zip")
        bobs.rename(tmp_path / "moved")
        assert elsewhere.run("--restore", tmp_path / "a.zip")[0] == 0
        assert (bobs / "chat" / "timestamps.json").exists()
        elsewhere.public = tmp_path / "three"
        words = ["--DiscussionDirectory", tmp_path / "all", "--restore", tmp_path / "a.zip"]
        assert elsewhere.run(*words)[0] == 0
        assert sorted(path.name for path in (tmp_path / "all").iterdir()) == ["chat", "trip"]

    def test_empty_folders_are_no_obstacle(self, elsewhere, backup):
        """As an image for containers has them."""
        for name in ("DiscussionIds", "SqlLiteDBs", "logs", "Configs/Users"):
            (elsewhere.public / name).mkdir(parents=True)
        assert elsewhere.run("--restore", backup)[0] == 0

    def test_other_discussions_stay(self, elsewhere, backup):
        elsewhere.remember("another")
        assert elsewhere.run("--restore", backup)[0] == 0
        assert (elsewhere.discussions / "another" / "memories.json").exists()

    def test_what_is_there_is_never_written_over(self, elsewhere, backup):
        elsewhere.remember("trip", "mine")
        before = elsewhere.contents()
        status, said = elsewhere.run("--restore", backup)
        assert (status, f"nothing was changed: already there: {elsewhere.discussions / 'trip'}" in said) == (
            1,
            True,
        )
        assert elsewhere.contents() == before

    def test_masked_keys_are_listed_and_are_errors_of_the_check(self, installation, elsewhere, tmp_path):
        installation.run("--backup", tmp_path / "a.zip", "--no-secrets")
        status, said = elsewhere.run("--restore", tmp_path / "a.zip")
        place = "config/Endpoints/cloud.json, apiKey: the backup has no secrets; write yours in place of ***"
        assert (status, place in said) == (0, True)
        status, said = elsewhere.run("--validate")
        assert (status, "Endpoints/cloud.json:5:13: error: apiKey: found ***" in said) == (1, True)

    def test_new_errors_are_told(self, installation, elsewhere, tmp_path):
        """What it names outside may not be on this machine; the files are there to be corrected."""
        script = tmp_path / "far.py"
        script.write_text("def Invoke(): return 1\n")
        node = {"type": "PythonModule", "module_path": str(script)}
        installation.write("Workflows/ana/_DefaultWorkflow", [node])
        installation.run("--backup", tmp_path / "a.zip")
        script.unlink()
        status, said = elsewhere.run("--restore", tmp_path / "a.zip")
        assert (status, "module_path: no file" in said, "restored" in said) == (1, True, True)

    def test_errors_of_before_are_no_news(self, installation, elsewhere, tmp_path):
        installation.write("Workflows/ana/Old", [{"type": "Standard", "endpointName": "gone"}])
        installation.run("--backup", tmp_path / "a.zip")
        assert elsewhere.run("--restore", tmp_path / "a.zip")[0] == 0


class TestPreview:
    def test_it_changes_nothing(self, installation, elsewhere, backup):
        status, said = elsewhere.run("--restore", backup, "--preview")
        assert (status, f"config: 5 files to {elsewhere.configs}" in said) == (0, True)
        assert not elsewhere.public.exists()

    def test_it_says_what_would_be_replaced(self, installation, backup):
        before = installation.contents()
        _, said = installation.run("--restore", backup, "--replace", "--preview")
        assert f"would be replaced: {installation.configs / 'Users'}" in said
        assert installation.contents() == before


class TestReplace:
    def test_the_old_state_is_back_and_the_other_is_kept(self, installation, backup, tmp_path):
        """Newer discussions stay. What was there is in a backup that can be restored as well."""
        old = installation.contents()
        installation.remember("trip", "changed")
        installation.write("Users/ana", {"port": 6000})
        installation.remember("newer")
        changed = installation.contents()
        status, said = installation.run("--restore", backup, "--replace")
        assert (status, "what was there is in" in said) == (0, True)
        newer = {name: data for name, data in changed.items() if "newer" in name}
        assert installation.contents() == old | newer
        (kept,) = tmp_path.glob("headrace-before-restore-*.zip")
        assert installation.run("--restore", kept, "--replace")[0] == 0
        assert installation.contents() == changed

    def test_newer_discussions_of_a_key_stay(self, installation, tmp_path):
        installation.remember("story", key_hash="62af8704764faf8e")
        installation.run("--backup", tmp_path / "a.zip")
        installation.remember("newer", key_hash="62af8704764faf8e")
        assert installation.run("--restore", tmp_path / "a.zip", "--replace")[0] == 0
        found = sorted(path.name for path in (installation.discussions / "62af8704764faf8e").iterdir())
        assert found == ["newer", "story"]

    @posix
    def test_a_link_out_of_the_folders_stays(self, installation, tmp_path):
        """It is in no backup, so it would be lost."""
        (tmp_path / "far.txt").write_text("x")
        link = installation.configs / "Workflows" / "far"
        link.symlink_to(tmp_path / "far.txt")
        installation.run("--backup", tmp_path / "a.zip")
        assert installation.run("--restore", tmp_path / "a.zip", "--replace")[0] == 0
        assert os.readlink(link) == str(tmp_path / "far.txt")

    @posix
    @pytest.mark.parametrize("folder", ["ApiTypes", "Workflows/ana"])
    @pytest.mark.parametrize("words", [(), ("--preview",)], ids=["replace", "preview"])
    def test_what_a_link_leads_to_is_no_new_error(self, installation, tmp_path, folder, words):
        """A folder that several installations share is in no backup, and is there afterwards as before."""
        shared = tmp_path / "shared"
        place = installation.configs / folder
        place.rename(shared)
        place.symlink_to(shared)
        installation.run("--backup", tmp_path / "a.zip")
        before = installation.contents()
        status, said = installation.run("--restore", tmp_path / "a.zip", "--replace", *words)
        assert (status, "error" in said) == (0, False)
        assert installation.contents() == before and place.is_symlink()
        assert not [path for path in installation.public.rglob("*") if "restore" in path.name]

    def test_a_refused_one_leaves_no_backup(self, installation, tmp_path):
        """What was there is still there."""
        script = tmp_path / "far.py"
        script.write_text("def Invoke(): return 1\n")
        node = {"type": "PythonModule", "module_path": str(script)}
        installation.write("Workflows/ana/_DefaultWorkflow", [node])
        (tmp_path / "kept").mkdir()
        installation.run("--backup", tmp_path / "kept" / "a.zip")
        script.unlink()
        assert installation.run("--restore", tmp_path / "kept" / "a.zip", "--replace")[0] == 1
        assert [path.name for path in (tmp_path / "kept").iterdir()] == ["a.zip"]

    def test_a_working_configuration_is_not_replaced_by_a_broken_one(self, installation, tmp_path):
        script = tmp_path / "far.py"
        script.write_text("def Invoke(): return 1\n")
        node = {"type": "PythonModule", "module_path": str(script)}
        installation.write("Workflows/ana/_DefaultWorkflow", [node])
        installation.run("--backup", tmp_path / "a.zip")
        script.unlink()
        installation.write("Workflows/ana/_DefaultWorkflow", [{"type": "StaticResponse", "content": "x"}])
        before = installation.contents()
        status, said = installation.run("--restore", tmp_path / "a.zip", "--replace")
        assert (
            status,
            "nothing was changed, because the configuration of the backup has errors" in said,
        ) == (1, True)
        assert installation.contents() == before

    def test_what_cannot_be_kept_is_not_replaced(self, installation, backup):
        (installation.discussions / "trip" / "vector_memory.db").write_bytes(
            b"SQLite format 3\0" + b"x" * 5000
        )
        before = installation.contents()
        status, said = installation.run("--restore", backup, "--replace")
        assert (status, "not all of what is there could be kept" in said) == (1, True)
        assert installation.contents() == before

    def test_it_needs_the_folders_alone(self, installation, backup):
        facts = parse(["--PublicDirectory", str(installation.public)]).facts
        use = use_together(facts.data_root, folders_of(facts))
        status, said = installation.run("--restore", backup, "--replace")
        use.give_back()
        assert (status, "a server or another command uses these folders; stop it first" in said) == (1, True)
        assert installation.run("--restore", backup, "--replace")[0] == 0

    def test_parts_of_an_old_database_go(self, installation, tmp_path):
        """SQLite would take them for a part of the new one."""
        with closing(sqlite3.connect(installation.public / "own.db")) as database:
            database.execute("CREATE TABLE t (x)")
        installation.run("--backup", tmp_path / "a.zip")
        (installation.public / "own.db-wal").write_bytes(b"old")
        assert installation.run("--restore", tmp_path / "a.zip", "--replace")[0] == 0
        assert not (installation.public / "own.db-wal").exists()

    def test_the_data_is_of_the_old_version_again(self, installation, backup):
        (installation.public / "version.json").write_text('{"version": "99.0.0", "backups": {"1.0.0": "x"}}')
        assert installation.run("--restore", backup, "--replace")[0] == 0
        known = json.loads((installation.public / "version.json").read_bytes())
        assert known == {"version": VERSION, "backups": {"1.0.0": "x"}}

    def test_data_that_stays_keeps_its_version(self, installation, tmp_path):
        installation.run("--backup", tmp_path / "a.zip", "--no-discussions")
        (installation.public / "version.json").write_text('{"version": "99.0.0", "backups": {}}')
        assert installation.run("--restore", tmp_path / "a.zip", "--replace")[0] == 0
        assert json.loads((installation.public / "version.json").read_bytes())["version"] == "99.0.0"


class TestRefused:
    """Nothing is changed, and the sentence says why."""

    def refusal(self, elsewhere, file):
        status, said = elsewhere.run("--restore", file)
        assert status == 1
        assert not elsewhere.public.exists() or list(elsewhere.public.iterdir()) == []
        return said

    def test_what_is_not_there(self, elsewhere, tmp_path):
        assert "gone.zip: No such file or directory" in self.refusal(elsewhere, tmp_path / "gone.zip")

    def test_what_is_no_zip_file(self, elsewhere, tmp_path):
        (tmp_path / "a.zip").write_text("x")
        assert "cannot be read as a backup" in self.refusal(elsewhere, tmp_path / "a.zip")

    def test_another_zip_file(self, elsewhere, tmp_path):
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
            archive.writestr("trip/memories.json", "[]")
        assert "is not a backup: it has no manifest.json" in self.refusal(elsewhere, tmp_path / "a.zip")

    def test_a_file_that_was_changed(self, elsewhere, backup, tmp_path):
        damaged = rewrite(
            backup, tmp_path / "a.zip", lambda d: d["files"]["config/Users/ana.json"].update(sha256="0" * 64)
        )
        assert "damaged: config/Users/ana.json is not what was backed up" in self.refusal(elsewhere, damaged)

    @pytest.mark.parametrize(
        "manifest",
        ["[]", "7", "[" * 100_000, '{"format": 1, "roots": []}', '{"format": 1, "roots": {"config": 7}}'],
        ids=["list", "number", "deep", "roots", "root"],
    )
    def test_a_manifest_of_another_form(self, elsewhere, tmp_path, manifest):
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
            archive.writestr("manifest.json", manifest)
        assert "cannot be read as a backup" in self.refusal(elsewhere, tmp_path / "a.zip")

    @pytest.mark.parametrize("time", [float("inf"), 10**30, -(10**15), "now"])
    def test_times_that_no_file_can_have(self, elsewhere, backup, tmp_path, time):
        odd = rewrite(
            backup, tmp_path / "a.zip", lambda d: d["files"]["config/Users/ana.json"].update(time=time)
        )
        assert "cannot be read as a backup" in self.refusal(elsewhere, odd)

    def test_a_backup_that_was_cut_off(self, elsewhere, backup, tmp_path):
        (tmp_path / "a.zip").write_bytes(backup.read_bytes()[:-200])
        assert "cannot be read as a backup" in self.refusal(elsewhere, tmp_path / "a.zip")

    @pytest.mark.parametrize(
        "name", ["config/../evil", "evil", "/evil", "other/evil", "config//evil", "config/."]
    )
    def test_names_that_lead_elsewhere(self, elsewhere, backup, tmp_path, name):
        def change(document):
            document["files"][name] = document["files"].pop("config/Users/ana.json")

        assert "cannot be read as a backup" in self.refusal(
            elsewhere, rewrite(backup, tmp_path / "a.zip", change)
        )
        assert not list(tmp_path.rglob("evil"))

    @pytest.mark.parametrize("case", [case for case in ODD])
    def test_a_zip_file_that_means_ill(self, elsewhere, backup, tmp_path, case):
        """Nothing of it is unpacked, in no folder."""
        self.refusal(elsewhere, make_odd(backup, tmp_path / "odd.zip", ODD[case]))
        assert [path for path in tmp_path.rglob("evil*")] == []

    @pytest.mark.parametrize("name", ["config/Users/a\0b.json", "config/" + "x" * 300 + ".json"])
    def test_names_that_no_system_can_hold(self, elsewhere, backup, tmp_path, name):
        """The manifest and the zip file agree on them."""

        def change(document):
            document["files"][name] = document["files"].pop("config/Users/ana.json")

        def rename(archive):
            archive.getinfo("config/Users/ana.json").filename = name

        forged = make_odd(rewrite(backup, tmp_path / "b.zip", change), tmp_path / "c.zip", rename)
        assert "cannot be read as a backup" in self.refusal(elsewhere, forged)

    def test_a_bomb_needs_more_room_than_there_is(self, elsewhere, backup, tmp_path):
        """Also one whose manifest is honest."""
        bomb = rewrite(
            backup,
            tmp_path / "a.zip",
            lambda d: d["files"]["config/Users/ana.json"].update(size=1 << 60),
        )
        assert "bytes are needed" in self.refusal(elsewhere, bomb)

    def test_files_that_the_manifest_does_not_name(self, elsewhere, backup, tmp_path):
        changed = rewrite(backup, tmp_path / "a.zip", lambda d: d["files"].pop("config/Users/ana.json"))
        assert "does not hold the files that its manifest.json names" in self.refusal(elsewhere, changed)

    @pytest.mark.parametrize("field", ["version", "data_version"])
    def test_a_newer_major_version(self, elsewhere, backup, tmp_path, field):
        newer = rewrite(backup, tmp_path / "a.zip", lambda d: d.update({field: "99.0.0"}))
        assert f"the backup is of version 99.0.0, which this one, {VERSION}" in self.refusal(elsewhere, newer)

    def test_a_form_of_later_versions(self, elsewhere, backup, tmp_path):
        newer = rewrite(backup, tmp_path / "a.zip", lambda d: d.update(format=2))
        assert "has a form of backup that this version does not know" in self.refusal(elsewhere, newer)

    def test_names_that_the_system_cannot_hold(self, elsewhere, backup, monkeypatch):
        """They are told before anything is written."""
        monkeypatch.setattr(
            "Middleware.api.commands.restore.refused_names", lambda plan: ["config/CON.json: Windows cannot"]
        )
        assert "nothing was changed: config/CON.json: Windows cannot" in self.refusal(elsewhere, backup)

    def test_too_little_room(self, elsewhere, backup, monkeypatch):
        monkeypatch.setattr("shutil.disk_usage", lambda place: type("Usage", (), {"free": 10}))
        assert "bytes are needed, 10 are free" in self.refusal(elsewhere, backup)


class TestHistory:
    """The history of runs: wherever `--history` says."""

    def test_it_is_taken_and_put_back(self, installation, elsewhere, tmp_path):
        with closing(open_history(tmp_path / "numbers")) as history:
            history.execute("PRAGMA user_version")
        (tmp_path / "numbers" / "other.txt").write_text("x")
        installation.run("--history", tmp_path / "numbers", "--backup", tmp_path / "a.zip")
        with zipfile.ZipFile(tmp_path / "a.zip") as archive:
            assert [name for name in archive.namelist() if name.startswith("history")] == [
                "history/history.db"
            ]
        words = ["--history", tmp_path / "mine", "--restore", tmp_path / "a.zip"]
        assert elsewhere.run(*words)[0] == 0
        assert history_file(tmp_path / "mine").exists()

    def test_without_a_folder_it_is_left(self, installation, elsewhere, tmp_path):
        open_history(tmp_path / "numbers").close()
        installation.run("--history", tmp_path / "numbers", "--backup", tmp_path / "a.zip")
        status, said = elsewhere.run("--restore", tmp_path / "a.zip")
        assert (status, "history: not restored, because the command line names no folder" in said) == (
            0,
            True,
        )


class TestWhatIsInNoBackup:
    """It stays, also where the folder that holds it is replaced."""

    @pytest.mark.parametrize("name", ["headrace-20200101T000000Z.zip", "wilmerai.log"])
    def test_other_backups_and_logs(self, installation, tmp_path, name):
        folder = installation.public / "kept"
        folder.mkdir()
        (folder / "readme.txt").write_text("old")
        installation.run("--backup", tmp_path / "a.zip")
        (folder / name).write_text("mine")
        (folder / "readme.txt").write_text("new")
        assert installation.run("--restore", tmp_path / "a.zip", "--replace")[0] == 0
        assert {path.name: path.read_text() for path in folder.iterdir()} == {
            name: "mine",
            "readme.txt": "old",
        }

    def test_the_backup_itself_and_the_one_before_it(self, installation):
        folder = installation.public / "kept"
        folder.mkdir()
        (folder / "readme.txt").write_text("old")
        installation.run("--backup", folder / "a.zip")
        assert installation.run("--restore", folder / "a.zip", "--replace")[0] == 0
        assert sorted(path.name.partition("-2")[0] for path in folder.iterdir()) == [
            "a.zip",
            "headrace-before-restore",
            "readme.txt",
        ]

    def test_a_killed_restore_is_undone_before_anybody_looks(self, installation, backup):
        swap = Swap(installation.public, [installation.public])
        swap.begin()
        swap.steps = [Step(0, "Configs", True, False)]
        swap._write("swapping")
        swap._do(swap.steps[0])
        assert not installation.configs.exists()
        assert installation.run("--restore", backup, "--replace", "--preview")[0] == 0
        assert installation.configs.exists()
