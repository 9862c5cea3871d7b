"""`--keys`: keys are made, listed, revoked and exchanged, and no memory is lost by it (keys.md 7)."""

from __future__ import annotations

import io
import json
import os
import re
import stat
from argparse import Namespace
from dataclasses import replace

import pytest

from Middleware.api.commands.keys import Keys
from Middleware.api.commands.memory_desk import Wishes, desk_of
from Middleware.common.asker import Asker
from Middleware.common.instance_global_variables import launch_facts, set_launch_facts
from Middleware.common.request_context import RequestContext
from Middleware.config.key_file import digest_of, read_keys
from Middleware.services.discussion_folders import ArchiveRefused
from Middleware.utilities.encryption_utils import api_key_hash, derive_key
from Middleware.utilities.install_layout import quote_words, tree_words
from Middleware.workflows.processors.run import ProcessServices, RequestState


@pytest.fixture
def keys(house, capsys, monkeypatch):
    """`keys("add", ...)`: exit status, standard output, standard error. `stdin`: what is piped in."""
    house.write("Users/bob", {})

    def run(*words, stdin=""):
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        status = Keys().run(Namespace(keys=list(words)))
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    run.path = house.folder / "Configs/Keys.json"
    run.entries = lambda: {one.name: one for one in read_keys(run.path.read_bytes())}
    return run


@pytest.fixture
def plain(house):
    """Alice does not encrypt."""
    house.write("Users/alice", {"discussionIdMemoryFileWorkflowSettings": "Memory"})
    return house


WRONG = {
    "no name": ((), 2),
    "no users": (("a",), 2),
    "unknown field": (("a", "users=bob", "user=x"), 2),
    "field twice": (("a", "users=bob", "users=x"), 2),
    "wrong limit": (("a", "users=bob", "concurrent=many"), 2),
    "wrong day": (("a", "users=bob", "expires=tomorrow"), 2),
    "wrong flag": (("a", "users=bob", "metrics=1"), 2),
    "key in the command line": (("a", "users=bob", "key=secret"), 2),
    "no key on stdin": (("a", "users=bob", "key=-"), 2),
    "currency twice": (("a", "users=bob", "costPerDay=USD:1,EUR:1,USD:2"), 2),
    "currency twice, once without a name": (("a", "users=bob", "costPerDay=1,USD:2"), 2),
    "name in use": (("ONE", "users=bob"), 1),
}


class TestAdd:
    def test_the_key_is_printed_once_and_alone(self, keys):
        status, out, err = keys("add", "ann-laptop", "users=alice")
        key = out.strip()
        assert status == 0 and re.fullmatch(r"hr-[A-Za-z0-9_-]{32}", key)
        assert keys.entries()["ann-laptop"].sha256 == digest_of(key)
        assert key not in err and key not in keys.path.read_text()

    @pytest.mark.skipif(os.name != "posix", reason="the system has no modes")
    def test_a_new_file_is_its_owners_and_another_keeps_its_mode(self, keys):
        keys("add", "one", "users=alice")
        assert stat.S_IMODE(keys.path.stat().st_mode) == 0o600
        keys.path.chmod(0o640)
        keys("add", "two", "users=alice")
        assert stat.S_IMODE(keys.path.stat().st_mode) == 0o640

    def test_every_field(self, keys):
        fields = "folder=ann expires=2099-06-30 priority=background turnsBy=X-User metrics=true"
        limits = "concurrent=2 queued=0 requestsPerMinute=30 tokensPerDay=200000 costPerDay=USD:2.5,EUR:1"
        assert keys("add", "a", "users=bob,shared*", *fields.split(), *limits.split())[0] == 0
        entry = keys.entries()["a"]
        assert (entry.users, entry.folder, entry.priority, entry.turns_by, entry.metrics) == (
            ("bob", "shared*"),
            "ann",
            "background",
            "X-User",
            True,
        )
        given = entry.limits
        assert (given.concurrent, given.queued, given.requests_per_minute, given.tokens_per_day) == (
            2,
            0,
            30,
            200000,
        )
        assert given.cost_per_day == {"USD": 2.5, "EUR": 1}

    def test_a_limit_with_an_exponent_is_written_as_a_whole_number(self, keys):
        assert keys("add", "a", "users=bob", "tokensPerDay=1e6", "concurrent=2.0")[0] == 0
        assert '"limits": {"tokensPerDay": 1000000, "concurrent": 2}' in keys.path.read_text()

    def test_comments_and_other_entries_stay(self, keys):
        keys("add", "one", "users=bob")
        keys.path.write_text("// ours\n" + keys.path.read_text())
        keys("add", "two", "users=bob")
        assert keys.path.read_text().startswith("// ours\n") and list(keys.entries()) == ["one", "two"]

    def test_a_key_that_exists_is_read_from_stdin_and_not_printed(self, keys):
        status, out, err = keys("add", "old", "users=bob", "key=-", stdin="a-key-that-was-there-before\n")
        assert (status, out) == (0, "") and "WARNING" not in err
        assert keys.entries()["old"].sha256 == digest_of("a-key-that-was-there-before")

    @pytest.mark.parametrize(
        "stdin", ["\ufeffa-key-that-was-there-before\r\n", " a-key-that-was-there-before"]
    )
    def test_what_stands_around_it_in_its_file_is_no_part_of_it(self, keys, stdin):
        """The mark that editors of Windows put in front, blanks, the end of the line."""
        keys("add", "old", "users=bob", "key=-", stdin=stdin)
        assert keys.entries()["old"].sha256 == digest_of("a-key-that-was-there-before")

    @pytest.mark.parametrize("stdin", ["one-key-of-two\ntwo-keys\n", "k\0e\0y\0", "one\u2028two"])
    def test_what_no_client_can_send_is_no_key(self, keys, stdin):
        """Its digest would open the server to nobody."""
        status, _, said = keys("add", "old", "users=bob", "key=-", stdin=stdin)
        assert status == 2 and "allowed: one key in UTF-8" in said and "two" not in said
        assert not keys.path.exists()

    def test_a_short_one_is_a_warning(self, keys):
        assert "WARNING" in keys("add", "old", "users=bob", "key=-", stdin="secret")[2]

    @pytest.mark.parametrize(("words", "status"), WRONG.values(), ids=WRONG)
    def test_what_is_wrong_changes_nothing(self, keys, words, status):
        keys("add", "one", "users=bob")
        before = keys.path.read_bytes()
        found = keys("add", *words)
        assert (found[0], found[1]) == (status, "") and found[2]
        assert keys.path.read_bytes() == before

    def test_a_key_is_in_the_file_once(self, keys):
        keys("add", "one", "users=bob", "key=-", stdin="the-same-long-secret")
        status, _, err = keys("add", "two", "users=bob", "key=-", stdin="the-same-long-secret")
        assert status == 1 and "it is called one" in err

    def test_a_faulty_file_is_left_alone(self, keys):
        keys.path.write_text('{"keys": [')
        for words in (("add", "a", "users=bob"), ("list",), ("revoke", "a"), ("rotate", "a")):
            assert keys(*words)[0] == 1
        assert keys.path.read_text() == '{"keys": ['

    @pytest.mark.parametrize("words", [["make"], ["list", "x"], ["revoke"], ["rotate", "a", "b"]], ids=str)
    def test_wrong_words(self, keys, words):
        assert keys(*words)[0] == 2


class TestMemories:
    def test_it_is_said_where_chats_are(self, keys, plain):
        plain.remember()
        plain.remember(discussion_id="walk", key_hash=api_key_hash("old"))
        err = keys("add", "a", "users=alice")[2]
        assert "holds 0 discussions" in err
        assert "1 discussion without a key" in err and api_key_hash("old") in err
        assert "holds 1 discussion" in keys("add", "b", "users=alice", "folder=")[2]
        err = keys("add", "c", "users=alice", "key=-", stdin="old")[2]
        assert "holds 1 discussion" in err and "in no entry" not in err

    def test_a_folder_that_is_a_discussion_is_refused(self, keys, plain):
        plain.remember()
        status, _, err = keys("add", "a", "users=alice", "folder=trip")
        assert status == 1 and "trip" in err and not keys.path.exists()

    def test_the_list(self, keys, plain):
        plain.remember(key_hash=api_key_hash("lost"))
        keys("add", "a", "users=alice,bob", "concurrent=2", "priority=background", "expires=2020-01-01")
        keys("add", "b", "users=", "folder=", "metrics=true")
        status, out, _ = keys("list")
        assert status == 0
        assert re.search(r"^a: users alice,bob, folder [0-9a-f]{16}, concurrent 2, background, expired ", out)
        assert "b: users none, folder of chats without a key, metrics" in out
        assert f"folder {api_key_hash('lost')} of a key in no entry holds 1 discussion" in out
        assert digest_of("lost") not in out


class TestRevoke:
    def test_the_entry_goes(self, keys):
        keys("add", "a", "users=bob")
        keys("add", "b", "users=bob")
        assert keys("revoke", "a")[0] == 0 and list(keys.entries()) == ["b"]
        assert keys("revoke", "a")[0] == 1

    def test_the_last_one_leaves_a_file_that_opens_nothing(self, keys):
        keys("add", "a", "users=bob")
        keys("revoke", "a")
        assert keys.path.exists() and keys.entries() == {}


class TestRotate:
    def test_a_new_key_with_the_folder_of_the_old_one(self, keys, plain):
        old = keys("add", "a", "users=alice")[1].strip()
        status, out, _ = keys("rotate", "a")
        entry = keys.entries()["a"]
        assert status == 0 and entry.sha256 == digest_of(out) != digest_of(old)
        assert entry.folder == api_key_hash(old)
        assert keys("rotate", "a")[0] == 0 and keys.entries()["a"].folder == api_key_hash(old)

    def test_a_key_that_cannot_be_shown_replaces_none(self, keys, monkeypatch):
        """The old one stays valid; the same of a key that would be new."""

        class Full(io.StringIO):
            def flush(self):
                raise OSError(28, "No space left on device")

        keys("add", "ann", "users=alice")
        before = keys.path.read_bytes()
        monkeypatch.setattr("sys.stdout", Full())
        for words in (("rotate", "ann"), ("add", "bob", "users=bob")):
            status, _, err = keys(*words)
            assert status == 1 and keys.path.read_bytes() == before
            assert "nothing was changed, because the new key cannot be shown: No space left" in err

    def test_a_key_that_was_shown_but_not_written_is_said_to_be_none(self, keys, monkeypatch):
        def refuse(path, *more, **how):
            raise OSError(28, "No space left on device", str(path))

        monkeypatch.setattr("Middleware.api.commands.keys.atomic_write", refuse)
        status, out, err = keys("add", "ann", "users=alice")
        assert status == 1 and out.startswith("hr-")
        assert "the key that was printed is not valid" in err and "No space left on device" in err

    def test_a_user_that_encrypts_needs_a_rekey(self, keys):
        keys("add", "a", "users=alice")
        err = keys("rotate", "a")[2]
        assert "--memory rekey" in err and "--User alice" in err
        assert keys.entries()["a"].folder is None

    def test_the_rekey_that_is_told_is_for_the_same_tree(self, keys, house):
        """Whoever types it is in another folder, or has a tree of their own beside the program's."""
        keys("add", "a", "users=alice")
        tree = quote_words(*tree_words(launch_facts()))
        assert str(house.folder) in tree
        assert f"{tree} --User alice --memory rekey" in keys("rotate", "a")[2]


class TestMovingIn:
    """Acceptance row 9: every chat finds its memory, by the function that requests use, and by `--memory`."""

    def found(self, house, keys, key, *, monkeypatch=None):
        """The discussions that a request with this key would open, and those that `--memory` shows."""
        desk = self.desk(key, monkeypatch)
        entry = next((one for one in keys.entries().values() if one.sha256 == digest_of(key)), None)
        asker = Asker("x", key=key, entry=entry)
        request = RequestContext("id", "alice", "openaichatcompletion", api_key=key, asker=asker)
        state = RequestState(request, desk.user, desk.request.snapshot, services=self.services())
        there = [
            name
            for name in ("trip", "walk")
            if house.store(name, key_hash=state.api_key_hash).folder.is_dir()
        ]
        assert sorted(name for _, name in desk.discussions()) == there
        return there

    @staticmethod
    def desk(key, monkeypatch):
        monkeypatch.setenv("HEADRACE_API_KEY", key)
        return desk_of(Wishes())

    @staticmethod
    def services():
        return ProcessServices()

    def test_chats_without_a_key(self, keys, plain, monkeypatch):
        """Clients that send none get a key that goes on with them; two such keys share them."""
        plain.remember()
        first = keys("add", "a", "users=alice", "folder=")[1].strip()
        second = keys("add", "b", "users=alice", "folder=")[1].strip()
        for key in (first, second):
            assert self.found(plain, keys, key, monkeypatch=monkeypatch) == ["trip"]

    def test_chats_with_a_key(self, keys, plain, monkeypatch):
        """Clients keep the key that they send; then it is exchanged, twice."""
        plain.remember(discussion_id="walk", key_hash=api_key_hash("their own"))
        keys("add", "a", "users=alice", "key=-", stdin="their own")
        assert self.found(plain, keys, "their own", monkeypatch=monkeypatch) == ["walk"]
        for _ in range(2):
            key = keys("rotate", "a")[1].strip()
            assert self.found(plain, keys, key, monkeypatch=monkeypatch) == ["walk"]

    def test_chats_of_a_lost_key(self, keys, plain, monkeypatch):
        """The folder is taken over by its name."""
        plain.remember(discussion_id="walk", key_hash=api_key_hash("lost"))
        key = keys("add", "a", "users=alice", f"folder={api_key_hash('lost')}")[1].strip()
        assert self.found(plain, keys, key, monkeypatch=monkeypatch) == ["walk"]

    def test_encrypted_chats(self, keys, house, memory_of, monkeypatch):
        """The key is the cipher, so it stays; an exchange moves them with `--memory rekey`."""
        facts = {"key_hash": api_key_hash("their own"), "encryption_key": derive_key("their own", "alice")}
        house.remember(discussion_id="walk", **facts)
        keys("add", "a", "users=alice", "key=-", stdin="their own")
        assert self.found(house, keys, "their own", monkeypatch=monkeypatch) == ["walk"]
        key = keys("rotate", "a")[1].strip()
        monkeypatch.setenv("HEADRACE_API_KEY", "their own")
        monkeypatch.setenv("HEADRACE_NEW_API_KEY", key)
        assert memory_of("rekey")[0] == 0
        assert self.found(house, keys, key, monkeypatch=monkeypatch) == ["walk"]
        assert "memory 4" in memory_of("show", "walk")[1]


class TestMemoryKey:
    def test_the_folder_of_a_name(self, keys, plain, memory_of):
        plain.remember(discussion_id="walk", key_hash="family")
        plain.remember()
        keys("add", "a", "users=alice", "folder=family")
        keys("add", "b", "users=alice", "folder=")
        assert "walk: memories 5" in memory_of("list", memory_key="a")[1]
        assert "trip: memories 5" in memory_of("list", memory_key="b")[1]

    def test_a_name_that_is_not_there(self, keys, plain, memory_of):
        keys("add", "a", "users=alice")
        status, said = memory_of("list", memory_key="b")
        assert status == 1 and "'b'" in said

    def test_a_user_that_encrypts_needs_the_key_itself(self, keys, house, memory_of, monkeypatch):
        key = keys("add", "a", "users=alice")[1].strip()
        assert memory_of("list", memory_key="a")[0] == 1
        monkeypatch.setenv("HEADRACE_API_KEY", key)
        assert memory_of("list", memory_key="a")[0] == 0
        monkeypatch.setenv("HEADRACE_API_KEY", "another")
        assert memory_of("list", memory_key="a")[0] == 1

    def test_a_mixed_pair_is_refused(self, keys, house):
        keys("add", "a", "users=bob", "folder=family")
        keys.path.write_text(keys.path.read_text().replace('"bob"', '"*"'))
        with pytest.raises(ArchiveRefused, match="encryptUsingApiKey"):
            desk_of(Wishes(key_name="a"))


def test_the_file_that_the_command_line_names(tmp_path, house, keys, monkeypatch):
    """`--keys-file`: it need not be there before."""
    set_launch_facts(replace(launch_facts(), keys_file=tmp_path / "elsewhere.json"))
    assert keys("add", "a", "users=bob")[0] == 0
    assert json.loads((tmp_path / "elsewhere.json").read_text())["keys"][0]["name"] == "a"


class TestBackups:
    """The keys file is in a backup, with its mode, wherever it lies (operate.md 3)."""

    @pytest.mark.parametrize("place", ["", "elsewhere/my-keys.json"], ids=["config folder", "named"])
    def test_it_comes_back(self, installation, elsewhere, tmp_path, place):
        named = ["--keys-file", tmp_path / place] if place else []
        if place:
            (tmp_path / place).parent.mkdir()
        installation.run(*named, "--keys", "add", "a", "users=ana")
        file = tmp_path / place if place else installation.configs / "Keys.json"
        held = file.read_bytes()
        assert installation.run(*named, "--backup", tmp_path / "all.zip")[0] == 0
        if place:
            file.unlink()
        assert elsewhere.run(*named, "--restore", tmp_path / "all.zip")[0] == 0
        back = file if place else elsewhere.configs / "Keys.json"
        assert back.read_bytes() == held
        assert os.name != "posix" or stat.S_IMODE(back.stat().st_mode) == 0o600
