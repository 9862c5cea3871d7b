"""A server without keys gets some: every chat finds its memory, and again when a key is exchanged (keys.md 9, row 9).

The tree is as the peer leaves it: chats of clients that send no key, in a folder and in flat files of old; chats in
the folder of a key; and those of a user that encrypts with the key itself.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys

import pytest
from cryptography.fernet import Fernet

from tests.e2e.conftest import HOUSE, NODE, Server, write_tree
from tests.e2e.keyed import Doors
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.e2e

RECALL = [
    {"title": "Memories", "type": "GetCurrentMemoryFromFile"},
    {"title": "Summary", "type": "GetCurrentSummaryFromFile"},
    {**NODE, "systemPrompt": "{agent1Output} and {agent2Output}"},
]
USERS = {
    "ann": {"workflows": {"Chat": RECALL}},
    "ben": {"workflows": {"Chat": RECALL}, "user": {"encryptUsingApiKey": True}},
}
OWN, LOST, CIPHER = "ann's own long key", "a key that nobody knows", "ben's own long key"


def folder_of(key):
    """As the peer names it."""
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def cipher_of(key, user):
    """As the peer makes it."""
    salt = "WilmerAI-v1-" + hashlib.sha256(user.encode()).hexdigest()
    raw = hashlib.pbkdf2_hmac("sha256", key.encode(), salt.encode(), 100_000, 32)
    return Fernet(base64.urlsafe_b64encode(raw))


def texts_of(chat):
    """Name of a file -> its text."""
    blocks = {"memories": f"memory of the {chat}", "chat_summary": f"summary of the {chat}"}
    return {
        name: json.dumps([{"text_block": text, "hash": "0" * 64}], indent=4) for name, text in blocks.items()
    }


@pytest.fixture
def public(tmp_path, backend):
    public = tmp_path / "public"
    write_tree(public, USERS, backend.url)
    root = public / "DiscussionIds"
    places = {
        "beach": root / "beach",
        "walk": root / folder_of(OWN) / "walk",
        "cellar": root / folder_of(LOST) / "cellar",
        "vault": root / folder_of(CIPHER) / "vault",
    }
    for chat, folder in places.items():
        folder.mkdir(parents=True)
        for name, text in texts_of(chat).items():
            data = text.encode()
            if chat == "vault":
                data = cipher_of(CIPHER, "ben").encrypt(data)
            (folder / f"{name}.json").write_bytes(data)
    for name, text in texts_of("attic").items():
        (root / f"attic_{name}.json").write_text(text)
    return public


class House:
    """The server, its commands, and who remembers what."""

    def __init__(self, public, backend):
        self.public, self.backend, self.asked = public, backend, 0
        self.server = Server(public, {"ann": {}, "ben": {}}, ("--concurrency", "0"))
        self.doors = Doors(self.server, public / "Configs" / "Keys.json")

    def run(self, *words, stdin="", **environment):
        """Standard output and standard error of a command that succeeds."""
        words = [sys.executable, "server.py", "--PublicDirectory", str(self.public), *words]
        done = subprocess.run(
            words,
            cwd=HOUSE,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            env={**os.environ, **environment},
        )
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout.strip(), done.stderr

    def keys(self, *words, stdin=""):
        """What `--keys` printed; it is in force."""
        out, err = self.run("--User", "ann", "--User", "ben", "--keys", *words, stdin=stdin)
        key = stdin or out
        wait_until(lambda: self.doors.status(key) == 200, self.server.process, lambda: self.server.log)
        return key, err

    def recalls(self, user, chat, key):
        """Whether a request for this chat finds its memory and its summary. The answer is a 200 in any case."""
        self.asked += 1
        mark = f"asks {self.asked} of {self.public}"
        said = f"[DiscussionId]{chat}[/DiscussionId]{mark}"
        body = {"model": user, "messages": [{"role": "user", "content": said}]}
        status, _, raw = self.doors.ask("POST", "/v1/chat/completions", key, body)
        assert status == 200, raw
        (call,) = self.backend.calls(mark)
        return f"memory of the {chat} and summary of the {chat}" in call.text


@pytest.fixture
def house(public, backend):
    made = House(public, backend)
    yield made
    made.server.stop()


def test_every_chat_finds_its_memory(house):
    before = [("ann", "beach", None), ("ann", "attic", None), ("ann", "walk", OWN), ("ben", "vault", CIPHER)]
    assert [house.recalls(*one) for one in before] == [True] * 4

    cipher, _ = house.keys("add", "ben", "users=ben", "key=-", stdin=CIPHER)
    own, said = house.keys("add", "laptop", "users=ann", "key=-", stdin=OWN)
    assert "2 discussions without a key stay out of reach" in said and folder_of(LOST) in said
    phone, said = house.keys("add", "phone", "users=ann", "folder=")
    assert "holds 2 discussions" in said
    tablet, _ = house.keys("add", "tablet", "users=ann", "folder=")
    lost, _ = house.keys("add", "lost", "users=ann", f"folder={folder_of(LOST)}")

    def check():
        found = {
            ("ann", chat, key): house.recalls("ann", chat, key)
            for key in (own, phone, tablet, lost)
            for chat in ("beach", "attic", "walk", "cellar")
        }
        there = {("ann", chat, key) for key in (phone, tablet) for chat in ("beach", "attic")}
        there |= {("ann", "walk", own), ("ann", "cellar", lost)}
        assert {one for one, is_found in found.items() if is_found} == there
        assert house.recalls("ben", "vault", cipher)

    check()
    assert house.doors.status(None) == 401
    for _ in range(2):
        old = {OWN, own, phone, tablet, lost}
        own, phone, tablet, lost = (
            house.keys("rotate", name)[0] for name in ("laptop", "phone", "tablet", "lost")
        )
        wait_until(lambda old=old: {house.doors.status(key) for key in old} == {401})
        check()
    exchanged, said = house.keys("rotate", "ben")
    assert "--memory rekey" in said
    house.run("--User", "ben", "--memory", "rekey", HEADRACE_API_KEY=cipher, HEADRACE_NEW_API_KEY=exchanged)
    cipher = exchanged
    check()


def test_chats_without_a_key_of_a_user_that_encrypts(house, tmp_path):
    """No key may share their folder: they are copied into the key's own, as `add` says, and nobody is told to
    name a folder.
    """
    assert house.recalls("ben", "beach", None)
    key, said = house.keys("add", "ben", "users=ben")
    assert "--memory export <ID> <FILE>" in said and "--memory import <FILE>" in said
    assert "folder=" not in said
    for chat in ("beach", "attic"):
        archive = str(tmp_path / f"{chat}.zip")
        house.run("--User", "ben", "--memory", "export", chat, archive)
        house.run("--User", "ben", "--memory", "import", archive, HEADRACE_API_KEY=key)
        assert house.recalls("ben", chat, key)
        copied = house.public / "DiscussionIds" / folder_of(key) / chat / "memories.json"
        assert copied.read_bytes().startswith(b"gAAAAA")


def test_a_folder_for_a_user_that_encrypts_is_warned_of(house):
    """A request of such a pair is a 500."""
    _, said = house.keys("add", "ben", "users=ben", "folder=")
    assert "WARNING" in said and "encryptUsingApiKey" in said
