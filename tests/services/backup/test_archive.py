"""The file of a backup: what is written comes back, and nothing is believed that is read. Source: spec operate.md 3."""

from __future__ import annotations

import json
import os
import stat
import zipfile
from io import BytesIO
from types import SimpleNamespace

import pytest

from Middleware.services.backup import archive as archive_module
from Middleware.services.backup.archive import Archive, BackupRefused, LeftOut, Manifest, writing

ROOTS = {"public": {"path": "/data", "written": ""}}
TEXT = b"The tide turns at six."
NAME = "public/notes/tide.txt"


def refuse_link(source, target):
    raise OSError(95, "Operation not supported")


@pytest.fixture
def backup(tmp_path):
    """A backup of one file, and what it says of itself."""
    source = tmp_path / "tide.txt"
    source.write_bytes(TEXT)
    os.utime(source, (1759990000, 1759990000))
    source.chmod(0o640)
    manifest = Manifest("1.2.3", "1.2.0", "now", ROOTS)
    with writing(tmp_path / "a.zip", manifest) as writer:
        writer.add(NAME, BytesIO(TEXT), source.stat())
        writer.leave_out("/data/.lock", "a lock")
        writer.leave_out("/data/odd", "Permission denied", trouble=True)
        manifest.folders["public"] = 0o750
        manifest.masked["config/x.json"] = ["/apiKey"]
        manifest.elsewhere.append("/srv/scripts")
        manifest.errors.append("Users/ann.json")
    return tmp_path / "a.zip"


@pytest.fixture
def forge(backup, tmp_path):
    """The same with something changed in what it says, or in what it holds."""

    def make(change=None, **files):
        with zipfile.ZipFile(backup) as archive:
            held = {name: archive.read(name) for name in archive.namelist()}
        said = json.loads(held["manifest.json"])
        if change is not None:
            change(said)
        held |= {"manifest.json": json.dumps(said).encode(), **files}
        with zipfile.ZipFile(tmp_path / "forged.zip", "w") as archive:
            for name, data in held.items():
                if data is not None:
                    archive.writestr(name, data)
        return tmp_path / "forged.zip"

    return make


class TestMade:
    def test_what_it_says_comes_back(self, backup):
        with Archive(backup) as archive:
            said = archive.manifest
        assert (said.version, said.data_version, said.time, said.roots) == ("1.2.3", "1.2.0", "now", ROOTS)
        assert (said.folders, said.elsewhere, said.errors) == (
            {"public": 0o750},
            ["/srv/scripts"],
            ["Users/ann.json"],
        )
        assert said.masked == {"config/x.json": ["/apiKey"]}
        assert said.left_out == [
            LeftOut("/data/.lock", "a lock"),
            LeftOut("/data/odd", "Permission denied", True),
        ]
        assert said.troubles == said.left_out[1:] and not said.has_discussions

    def test_a_file_comes_back_with_its_mode_and_time(self, backup, tmp_path):
        with Archive(backup) as archive:
            archive.unpack(NAME, tmp_path / "out.txt")
        facts = (tmp_path / "out.txt").stat()
        assert (tmp_path / "out.txt").read_bytes() == TEXT and facts.st_mtime == 1759990000
        if os.name == "posix":
            assert stat.S_IMODE(facts.st_mode) == 0o640

    def test_nothing_is_written_over(self, backup, tmp_path):
        (tmp_path / "out.txt").write_text("mine")
        with Archive(backup) as archive, pytest.raises(FileExistsError):
            archive.unpack(NAME, tmp_path / "out.txt")
        with pytest.raises(BackupRefused, match="already exists and is not overwritten"):
            writing(backup, Manifest("1", "", "", {})).__enter__()

    def test_a_check_tells_how_far_it_is(self, backup):
        read = []
        with Archive(backup) as archive:
            archive.check(read.append)
        assert read == [len(TEXT)]

    def test_no_folder_is_made_for_it(self, tmp_path):
        with (
            pytest.raises(BackupRefused, match="there is no folder"),
            writing(tmp_path / "gone" / "a.zip", Manifest("1", "", "", {})),
        ):
            pass

    def test_one_that_fails_leaves_nothing(self, tmp_path):
        with pytest.raises(ZeroDivisionError), writing(tmp_path / "a.zip", Manifest("1", "", "", {})):
            raise ZeroDivisionError
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.skipif(os.name == "nt", reason="Windows knows no permission bits")
    def test_it_is_its_owners_alone(self, tmp_path):
        """While it is made and then."""
        with writing(tmp_path / "a.zip", Manifest("1", "", "", {})) as writer:
            made = [writer.work, writer.work / "backup.zip"]
            assert [stat.S_IMODE(path.stat().st_mode) for path in made] == [0o700, 0o600]
        assert stat.S_IMODE((tmp_path / "a.zip").stat().st_mode) == 0o600

    @pytest.mark.parametrize("names", ["two", "one"])
    def test_a_name_that_somebody_took_meanwhile(self, tmp_path, monkeypatch, names):
        """Is theirs, also on a file system where a file has one name only."""
        if names == "one":
            monkeypatch.setattr(os, "link", refuse_link)
        with (
            pytest.raises(BackupRefused, match=r"a\.zip already exists and is not overwritten"),
            writing(tmp_path / "a.zip", Manifest("1", "", "", {})),
        ):
            (tmp_path / "a.zip").write_text("theirs")
        assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]
        assert (tmp_path / "a.zip").read_text() == "theirs"

    def test_a_file_system_without_second_names(self, tmp_path, monkeypatch):
        """The finished file is renamed."""
        monkeypatch.setattr(os, "link", refuse_link)
        with writing(tmp_path / "a.zip", Manifest("1", "", "", {})):
            pass
        assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]
        with Archive(tmp_path / "a.zip") as archive:
            assert archive.manifest.version == "1"

    def test_one_that_another_process_makes_is_left_alone(self, tmp_path):
        first = writing(tmp_path / "a.zip", Manifest("1", "", "", {}))
        with first, writing(tmp_path / "b.zip", Manifest("2", "", "", {})):
            pass
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip", "b.zip"]

    @pytest.mark.parametrize(("seconds", "year"), [(0, 1980), (1759990000, 2025), (1 << 36, 2107)])
    def test_the_zip_file_says_the_nearest_year_that_it_can(self, tmp_path, seconds, year):
        """The manifest knows the true time."""
        source = tmp_path / "tide.txt"
        source.write_bytes(TEXT)
        facts = SimpleNamespace(st_mtime=seconds, st_mode=0o100640)
        with writing(tmp_path / "a.zip", Manifest("1", "", "", ROOTS)) as writer:
            writer.add(NAME, BytesIO(TEXT), facts)
        with zipfile.ZipFile(tmp_path / "a.zip") as archive:
            info = archive.getinfo(NAME)
        assert info.date_time[0] == year and info.external_attr >> 16 == stat.S_IFREG | 0o640
        assert info.compress_type == zipfile.ZIP_DEFLATED
        with Archive(tmp_path / "a.zip") as archive:
            assert archive.manifest.files[NAME].time == seconds

    def test_what_is_left_out_for_one_reason_is_named_once(self, tmp_path):
        manifest = Manifest("1", "", "", {})
        with writing(tmp_path / "a.zip", manifest) as writer:
            for why in ("a lock", "a lock", "a log"):
                writer.leave_out("/data/x", why)
        assert [one.why for one in manifest.left_out] == ["a lock", "a log"]

    def test_what_a_killed_one_left_goes_with_the_next(self, tmp_path):
        (tmp_path / ".headrace-backup-0011.partial").mkdir()
        with writing(tmp_path / "a.zip", Manifest("1", "", "", {})):
            pass
        assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


class TestRead:
    """Whoever forges one cannot write outside of the folders of a restore."""

    @pytest.mark.parametrize(
        "name",
        [
            "public/../x",
            "public//x",
            "public/./x",
            "public/",
            "public",
            "",
            "/etc/x",
            "other/x",
            "public/a/..",
        ],
    )
    def test_a_name_that_leads_elsewhere(self, forge, name):
        def rename(said):
            said["files"][name] = said["files"].pop(NAME)

        with pytest.raises(BackupRefused, match="is not the name of a file in a backup"):
            Archive(forge(rename))

    @pytest.mark.parametrize(
        "name", ["public/a/b/c.txt", "public/a:b", "public/a\\b", "public/...", "public/ü"]
    )
    def test_a_name_that_some_system_can_hold(self, forge, name):
        """Whether this one can is asked later."""

        def rename(said):
            said["files"][name] = said["files"].pop(NAME)

        with Archive(forge(rename, **{NAME: None, name: TEXT})) as archive:
            assert list(archive.manifest.files) == [name]

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("sha256", "0" * 63),
            ("size", -1),
            ("mode", -1),
            ("mode", 0o10000),
            ("time", 1 << 41),
            ("time", -(1 << 41)),
        ],
    )
    def test_facts_that_cannot_be(self, forge, field, value):
        with pytest.raises(BackupRefused, match="cannot be"):
            Archive(forge(lambda said: said["files"][NAME].update({field: value})))

    @pytest.mark.parametrize(
        ("field", "value"),
        [("size", 0), ("mode", 0), ("mode", 0o7777), ("time", 1 << 40), ("time", -(1 << 40))],
    )
    def test_facts_that_only_just_can_be(self, forge, field, value):
        with Archive(forge(lambda said: said["files"][NAME].update({field: value}))) as archive:
            assert getattr(archive.manifest.files[NAME], field) == (
                value & 0o777 if field == "mode" else value
            )

    def test_a_time_that_is_a_second_too_large(self, forge):
        with pytest.raises(BackupRefused, match="cannot be"):
            Archive(forge(lambda said: said["files"][NAME].update(time=(1 << 40) + 1)))

    @pytest.mark.skipif(os.name == "nt", reason="Windows knows no permission bits")
    def test_its_owner_can_always_read_and_write_what_comes_back(self, forge, tmp_path):
        with Archive(forge(lambda said: said["files"][NAME].update(mode=0o040))) as archive:
            archive.unpack(NAME, tmp_path / "out.txt")
        assert stat.S_IMODE((tmp_path / "out.txt").stat().st_mode) == 0o640

    def test_no_more_is_written_than_it_says(self, forge, tmp_path, monkeypatch):
        """However long it is in truth."""
        monkeypatch.setattr(archive_module, "_BLOCK", 4)
        with Archive(forge(**{NAME: TEXT * 9})) as archive, pytest.raises(BackupRefused):
            archive.unpack(NAME, tmp_path / "out.txt")
        assert (tmp_path / "out.txt").stat().st_size <= len(TEXT)

    def test_the_file_is_closed(self, backup, forge, monkeypatch):
        """After its use, and where it is refused."""
        with Archive(backup) as archive:
            assert archive._zip.fp is not None
        assert archive._zip.fp is None
        closed, close = [], zipfile.ZipFile.close
        monkeypatch.setattr(
            zipfile.ZipFile, "close", lambda self: closed.append(self.filename) or close(self)
        )
        forged = forge(lambda said: said.update(format=2))
        closed.clear()
        with pytest.raises(BackupRefused) as caught:
            Archive(forged)
        assert str(forged) in closed and caught.tb

    def test_bits_that_give_rights_of_others_are_dropped(self, forge):
        with Archive(forge(lambda said: said["files"][NAME].update(mode=0o4755))) as archive:
            assert archive.manifest.files[NAME].mode == 0o755

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            (lambda said: said.update(format=2), "a form of backup that this version does not know"),
            (lambda said: said["files"].clear(), "does not hold the files that its"),
            (lambda said: said["roots"].update({"../x": {"path": ""}}), "a root whose name cannot be one"),
            (lambda said: said.pop("folders"), "cannot be read as a backup"),
        ],
        ids=["format", "files", "root", "half"],
    )
    def test_what_it_says_must_fit(self, forge, change, why):
        with pytest.raises(BackupRefused, match=why):
            Archive(forge(change))

    def test_a_zip_file_of_something_else(self, forge, tmp_path):
        with pytest.raises(BackupRefused, match="is not a backup"):
            Archive(forge(**{"manifest.json": None}))
        (tmp_path / "text.zip").write_text("no zip file")
        with pytest.raises(BackupRefused, match="cannot be read as a backup"):
            Archive(tmp_path / "text.zip")

    @pytest.mark.parametrize(
        "data", [TEXT[:-1], TEXT + b"!", TEXT.upper()], ids=["shorter", "longer", "other"]
    )
    def test_a_file_that_is_not_what_was_backed_up(self, forge, tmp_path, data):
        with Archive(forge(**{NAME: data})) as archive:
            with pytest.raises(BackupRefused, match=f"is damaged: {NAME} is not what was backed up"):
                archive.check()
            with pytest.raises(BackupRefused, match="is damaged"):
                archive.unpack(NAME, tmp_path / "out.txt")
