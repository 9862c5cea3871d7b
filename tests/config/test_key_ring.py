"""A keys file that is edited while it is in force (keys.md 1): seen after a second, never open."""

from __future__ import annotations

import json
import logging
import os
from types import SimpleNamespace

import pytest

from Middleware.common.errors import ConfigError
from Middleware.common.instance_global_variables import LaunchFacts
from Middleware.config import key_ring
from Middleware.config.key_file import digest_of
from Middleware.config.key_ring import KeysInForce, has_keys_file, keys_path


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def entry(name, users=("*",)):
    return {"name": name, "sha256": digest_of(f"key of {name}"), "users": list(users)}


class KeysFileAtWork:
    """A keys file with the clock of whoever looks at it."""

    def __init__(self, path):
        self.path, self.clock = path, Clock()

    def write(self, *names, users=("*",)):
        self.write_text(json.dumps({"keys": [entry(name, users) for name in names]}))

    def write_text(self, text):
        self.path.write_text(text)
        self.path.chmod(0o600)

    def open(self, **more):
        self.keys = KeysInForce(self.path, clock=self.clock, **more)
        return self.keys

    def names_after(self, seconds):
        self.clock.now += seconds
        ring = self.keys.ring()
        return None if ring is None else [entry.name for entry in ring.entries]


@pytest.fixture
def file(tmp_path):
    return KeysFileAtWork(tmp_path / "Keys.json")


def messages(caplog, level):
    return [record.getMessage() for record in caplog.records if record.levelno == level]


def errors(caplog):
    return messages(caplog, logging.ERROR)


def test_without_a_file_no_key_is_needed(file):
    file.open()
    assert file.names_after(5) is None


def test_a_key_is_found_by_its_digest(file):
    file.write("ann", "bob")
    ring = file.open().ring()
    assert ring.find(digest_of("key of bob")).name == "bob" and ring.find("0" * 64) is None
    assert ring.named("ann").name == "ann" and ring.named("zoe") is None


def test_a_file_without_entries_is_a_file(file):
    file.write()
    file.open()
    assert file.names_after(0) == []


def test_an_edit_is_seen_after_a_second_and_not_before(file):
    file.write("ann")
    file.open()
    file.write("ann", "bob")
    assert file.names_after(0.99) == ["ann"]
    assert file.names_after(0.01) == ["ann", "bob"]


def test_a_file_is_looked_at_once_a_second(file, monkeypatch):
    file.write("ann")
    file.open()
    looks = []
    stat = os.stat
    monkeypatch.setattr(os, "stat", lambda path, **more: looks.append(path) or stat(path, **more))
    file.names_after(0.5)
    file.names_after(0.4)
    assert not looks
    file.names_after(0.2)
    assert looks
    looks.clear()
    file.names_after(0.9)
    assert not looks


BROKEN = {"half": '{"keys": [', "empty": "", "misspelt": '{"keys": [{"nam": "x"}]}', "list": "[]"}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_broken_edit_leaves_the_last_good_version(file, text, caplog):
    file.write("ann")
    file.open()
    file.write_text(text)
    assert [file.names_after(1), file.names_after(1), file.names_after(1)] == [["ann"]] * 3
    (said,) = errors(caplog)
    assert "last good version" in said


def test_a_file_that_vanished_leaves_the_last_good_version(file, caplog):
    file.write("ann")
    file.open()
    file.path.unlink()
    assert [file.names_after(1), file.names_after(1)] == [["ann"]] * 2
    assert len(errors(caplog)) == 1
    file.write("bob")
    assert file.names_after(1) == ["bob"]
    file.path.unlink()
    file.names_after(1)
    assert len(errors(caplog)) == 2


def test_a_file_that_appears_closes_the_server(file):
    file.open()
    file.write("ann")
    assert file.names_after(1) == ["ann"]


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_one_that_appears_broken_closes_it_for_everybody(file, text, caplog):
    file.open()
    file.write_text(text)
    assert file.names_after(1) == [] and file.keys.ring().broken
    assert "nobody is let in" in errors(caplog)[0]
    file.path.unlink()
    assert file.names_after(1) == [] and file.keys.ring().broken
    file.write("ann")
    assert file.names_after(1) == ["ann"] and not file.keys.ring().broken


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_faulty_file_stops_the_start(file, text):
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"Keys\.json"):
        file.open()


def test_a_file_that_was_named_and_is_not_there_stops_the_start(file):
    with pytest.raises(ConfigError, match=r"Keys\.json"):
        file.open(must_exist=True)


@pytest.mark.parametrize("make", ["mkdir", "dangling link"])
def test_what_is_there_and_is_no_file_stops_the_start(file, make):
    """A container makes a folder where the file that it is to see is missing."""
    if make == "mkdir":
        file.path.mkdir()
    else:
        file.path.symlink_to("nowhere.json")
    with pytest.raises(ConfigError, match=r"Keys\.json") as caught:
        file.open()
    why = "cannot be read: Is a directory" if make == "mkdir" else "is a link that leads nowhere"
    assert str(caught.value).endswith(why)


def test_an_edit_within_the_same_tick_is_seen(file):
    """Two edits of the same size may leave the same time: what was just written is read again."""
    file.write("ann")
    stamp = os.stat(file.path).st_mtime_ns
    file.open()
    file.path.write_text(file.path.read_text().replace('"ann"', '"bob"'))
    os.utime(file.path, ns=(stamp, stamp))
    assert file.names_after(1) == ["bob"]


@pytest.mark.parametrize(("age_s", "reads"), [(0.09, 2), (0.11, 1)])
def test_one_that_is_old_enough_is_not_read_again(file, monkeypatch, age_s, reads):
    """A tenth of a second: then the next edit leaves another time."""
    read, load = [], key_ring.load_key_file
    monkeypatch.setattr(key_ring, "load_key_file", lambda path: read.append(path) or load(path))
    file.write("ann")
    facts = os.stat(file.path)
    changed_s = max(facts.st_mtime_ns, facts.st_ctime_ns) / 1e9
    monkeypatch.setattr(key_ring, "time", SimpleNamespace(time=lambda: changed_s + age_s))
    file.open()
    assert file.names_after(1) == ["ann"]
    assert len(read) == reads


def test_a_file_that_appears_is_a_warning(file, caplog):
    file.open(served_users=lambda: ["ann"])
    file.write("ann")
    file.names_after(1)
    assert messages(caplog, logging.WARNING) == [
        f"keys file {file.path} has appeared: from now on every request needs a key"
    ]


def test_an_edit_is_reported_with_the_number_of_keys_and_a_file_like_before_is_not(file, caplog):
    caplog.set_level(logging.INFO)
    file.write("ann")
    file.open(served_users=lambda: ["ann"])
    file.write("ann", "bob")
    file.names_after(1)
    file.write("ann", "bob")
    file.names_after(1)
    assert messages(caplog, logging.INFO) == [f"keys file {file.path} has been read again: 2 keys"]


def test_a_repair_is_reported_even_if_all_keys_are_those_of_before(file, caplog):
    caplog.set_level(logging.INFO)
    file.write("ann")
    file.open(served_users=lambda: ["ann"])
    file.write_text("")
    file.names_after(1)
    assert messages(caplog, logging.INFO) == []
    file.write("ann")
    file.names_after(1)
    assert messages(caplog, logging.INFO) == [f"keys file {file.path} has been read again: 1 keys"]


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such modes")
def test_a_mode_that_others_can_read_is_a_warning_at_the_start(file, caplog):
    file.write("ann")
    file.path.chmod(0o644)
    file.open(served_users=lambda: ["ann"])
    assert messages(caplog, logging.WARNING) == [
        f"keys file {file.path} has mode 0644, so that others can read it; set it to 0600"
    ]


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such modes")
def test_each_mode_is_reported_once(file, caplog):
    """A mode that changes while the server runs, too."""
    file.write("ann")
    file.open(served_users=lambda: ["ann"])
    for mode in (0o640, 0o640, 0o604, 0o600, 0o640):
        file.path.chmod(mode)
        file.names_after(1)
    first, second = messages(caplog, logging.WARNING)
    assert "has mode 0640" in first and "has mode 0604" in second


def test_a_pattern_that_fits_no_served_user_is_a_warning(file, caplog):
    file.write("ann", users=("bo",))
    file.open(served_users=lambda: ["ann", "bob"])
    assert "'bo'" in caplog.text


def test_a_pattern_is_reported_once_however_often_the_file_is_read(file, caplog):
    file.write("ann", users=("bo",))
    file.open(served_users=lambda: ["ann"])
    file.write("ann", users=("bo", "al"))
    file.names_after(1)
    first, second = messages(caplog, logging.WARNING)
    assert "'bo'" in first and "'al'" in second


@pytest.mark.parametrize(("count", "more"), [(10, []), (12, ["and 2 more of this kind"])])
def test_of_many_patterns_ten_are_reported_and_the_rest_counted(file, caplog, count, more):
    file.write("ann", users=[f"lost{n:02}" for n in range(count)])
    file.open(served_users=lambda: ["ann"])
    warned = messages(caplog, logging.WARNING)
    assert all(f"'lost{n:02}'" in text for n, text in enumerate(warned[:10]))
    assert warned[10:] == [f"keys file {file.path}: {words}" for words in more]


def test_no_digest_is_in_a_message(file, caplog):
    file.write("ann")
    file.open()
    file.write_text(file.path.read_text().replace("]}]", "]}"))
    file.names_after(1)
    assert errors(caplog) and digest_of("key of ann") not in caplog.text


class TestWhereTheFileIs:
    def test_as_the_command_line_says(self, tmp_path):
        """There or not; then keys are needed."""
        facts = LaunchFacts(config_directory=tmp_path, keys_file=tmp_path / "mine.json")
        assert keys_path(facts) == tmp_path / "mine.json"
        assert has_keys_file(facts)

    def test_beside_the_config(self, tmp_path):
        """Keys are needed if it is there."""
        facts = LaunchFacts(config_directory=tmp_path)
        assert keys_path(facts) == tmp_path / "Keys.json"
        assert not has_keys_file(facts)
        (tmp_path / "Keys.json").touch()
        assert keys_path(facts) == tmp_path / "Keys.json"
        assert has_keys_file(facts)

    def test_one_that_is_only_spelled_otherwise_is_a_fault(self, tmp_path):
        """A server that passed it over would be open to everybody."""
        (tmp_path / "keys.JSON").touch()
        facts = LaunchFacts(config_directory=tmp_path)
        with pytest.raises(ConfigError, match=r"must be called Keys\.json; rename it") as caught:
            keys_path(facts)
        assert caught.value.file == "keys.JSON" and has_keys_file(facts)
