"""Encrypted files get another key, or none. Source: spec memory.md 15, 18.6 (3)."""

from __future__ import annotations

import pytest

from Middleware.services import rekeying
from Middleware.services.rekeying import holds_files_of, move_folder, rekey
from Middleware.utilities.encryption_utils import TOKEN_START, decrypt, derive_key, encrypt

OLD, NEW, OTHER = (derive_key(name, "alice") for name in ("old", "new", "other"))
FILES = {
    "trip/memories.json": b"[]",
    "trip/memories.json.bak": b"[1]",
    "trip/memory_ends.json": b"[]",
    "trip/memory_ends.json.bak": b"[]",
    "trip/state_document.md": b"# State",
    "trip/state_document.md.bak": b"",
    "deep/er/timestamps.json": b"{}",
    "trip/Memories.JSON": b"[]",
    "trip/memories.json.corrupt-20310504-102030-123456": b'[{"text',
    ".making-x/memories.json": b"[]",
}


@pytest.fixture
def folder(tmp_path):
    """All kinds of files, with the old key; beside them what is never touched."""
    root = tmp_path / "62af8704764faf8e"
    for name, data in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(encrypt(data, OLD))
    (root / "trip/vector_memory.db").write_bytes(b"SQLite format 3\0")
    (root / ".rekey_journal.json").write_bytes(b"{}")
    return root


def contents(folder, key):
    return {name: decrypt((folder / name).read_bytes(), key) for name in FILES}


def test_every_file_of_every_kind_gets_the_new_key(folder):
    """Backups, what was put aside as damaged and nested folders too; the database and dotted files stay."""
    told = []
    result = rekey(folder, OLD, NEW, told=lambda done, whole: told.append((done, whole)))
    assert contents(folder, NEW) == FILES
    assert (len(result.changed), result.kept, result.unreadable) == (10, [], {})
    assert told == [(number, 10) for number in range(1, 11)]
    assert (folder / ".rekey_journal.json").read_bytes() == b"{}"


def test_without_a_new_key_files_become_plain(folder):
    rekey(folder, OLD, None)
    assert {name: (folder / name).read_bytes() for name in FILES} == FILES


def test_running_again_changes_nothing(folder):
    """After a crash the rest is done."""
    (folder / "trip/memories.json").write_bytes(encrypt(b"[]", NEW))
    assert len(rekey(folder, OLD, NEW).changed) == 9
    again = rekey(folder, OLD, NEW)
    assert (again.changed, len(again.kept)) == ([], 10)
    assert len(rekey(folder, NEW, None).changed) == 10
    assert len(rekey(folder, NEW, None).kept) == 10


def test_plain_files_are_encrypted(folder):
    (folder / "trip/memories.json").write_bytes(b"[]")
    rekey(folder, OLD, NEW)
    assert contents(folder, NEW) == FILES


def test_with_the_same_key_all_is_done_already(folder):
    result = rekey(folder, OLD, OLD)
    assert (result.changed, len(result.kept), result.unreadable) == ([], 10, {})


def test_a_document_may_be_any_text_and_nothing_else(folder):
    """Unlike a list it need not be JSON."""
    (folder / "trip/state_document.md").write_bytes(b"{broken")
    (folder / "trip/state_document.md.bak").write_bytes(b"\xff")
    result = rekey(folder, OLD, NEW)
    assert decrypt((folder / "trip/state_document.md").read_bytes(), NEW) == b"{broken"
    assert list(result.unreadable) == [folder / "trip/state_document.md.bak"]


def test_an_error_without_a_reason_of_the_system_is_told_by_itself(folder, monkeypatch):
    def write(path, data):
        raise OSError("odd")

    monkeypatch.setattr(rekeying, "atomic_write", write)
    assert set(rekey(folder, OLD, NEW).unreadable.values()) == {"odd"}


@pytest.mark.parametrize("preview", [True, False])
def test_nobody_writes_meanwhile(folder, monkeypatch, preview):
    """Each file changes under the lock of its folder; a preview leaves no trace of one."""
    locked, hold = [], rekeying.hold_lock
    monkeypatch.setattr(rekeying, "hold_lock", lambda path: locked.append(path) or hold(path))
    rekey(folder, OLD, NEW, preview=preview)
    assert sorted(set(locked)) == (
        [] if preview else [folder / ".making-x/.lock", folder / "deep/er/.lock", folder / "trip/.lock"]
    )


def test_a_file_that_cannot_be_looked_at_is_of_no_key(folder, monkeypatch):
    monkeypatch.setattr(rekeying, "files_of", lambda folder: [folder / "gone.json"])
    assert not holds_files_of(folder, OLD)


def test_the_same_key_encrypts_what_is_plain(folder):
    (folder / "trip/memories.json").write_bytes(b"[]")
    assert len(rekey(folder, OLD, OLD).changed) == 1
    assert contents(folder, OLD) == FILES


@pytest.mark.parametrize(
    "data",
    [encrypt(b"[]", OTHER), b"{broken", b"\xff\xfe", b"[" * 100_000],
    ids=["other-key", "json", "bytes", "deep"],
)
def test_what_cannot_be_read_is_left_and_told(folder, data):
    (folder / "trip/memories.json").write_bytes(data)
    result = rekey(folder, OLD, NEW)
    assert result.unreadable == {folder / "trip/memories.json": "neither key can decrypt it"}
    assert len(result.changed) == 9
    assert (folder / "trip/memories.json").read_bytes() == data


def test_a_disk_that_refuses_one_file_costs_the_others_nothing(folder, monkeypatch):
    """The work goes on, and what is left is told with the reason."""
    real = rekeying.atomic_write

    def write(path, data):
        if path.name == "state_document.md":
            raise PermissionError(13, "Permission denied", str(path))
        real(path, data)

    monkeypatch.setattr(rekeying, "atomic_write", write)
    result = rekey(folder, OLD, NEW)
    assert result.unreadable == {folder / "trip/state_document.md": "Permission denied"}
    assert len(result.changed) == 9


def test_a_folder_that_cannot_be_looked_into_is_told(folder, monkeypatch):
    """Beside the files of the others, which get the key."""
    real = rekeying.os.scandir

    def scandir(place):
        if str(place).endswith("deep"):
            raise PermissionError(13, "Permission denied", place)
        return real(place)

    monkeypatch.setattr(rekeying.os, "scandir", scandir)
    result = rekey(folder, OLD, NEW)
    assert result.unreadable == {folder / "deep": "Permission denied"}
    assert len(result.changed) == 9


def test_what_was_put_aside_may_be_anything(folder):
    """As it is, it becomes what the new key opens; no byte is lost."""
    aside = folder / "trip/memories.json.corrupt-20310504-102030-123456"
    aside.write_bytes(b"\xff{")
    rekey(folder, OLD, NEW)
    assert decrypt(aside.read_bytes(), NEW) == b"\xff{"


def test_whether_a_folder_has_files_of_a_key(folder, tmp_path):
    assert (holds_files_of(folder, OLD), holds_files_of(folder, NEW)) == (True, False)
    assert not holds_files_of(tmp_path / "nothing", OLD)


def test_a_preview_changes_nothing(folder):
    result = rekey(folder, OLD, NEW, preview=True)
    assert len(result.changed) == 10
    assert contents(folder, OLD) == FILES


def test_what_was_written_is_read_again(folder, monkeypatch):
    """A disk that lies is told."""
    monkeypatch.setattr(rekeying, "atomic_write", lambda path, data: path.write_bytes(b"x"))
    with pytest.raises(OSError, match="does not contain what was written"):
        rekey(folder, OLD, None)


def test_a_folder_is_renamed_if_the_name_is_free(folder, tmp_path):
    assert move_folder(folder, folder)
    assert not move_folder(folder, tmp_path)
    assert move_folder(folder, tmp_path / "new")
    assert (tmp_path / "new/trip/memories.json").read_bytes().startswith(TOKEN_START)
