"""Packs by the page: the bytes and the files of the command, and what is refused (workbench.md 10, 11 rows 12 and 17)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from Middleware.api.console import pack_views
from Middleware.api.console.pack_views import MOST_ZIP, NOTES, ZIP
from Middleware.api.console.view_contract import Reply, json_bytes
from Middleware.api.console.views import Views
from Middleware.common.instance_global_variables import launch_facts, set_launch_facts
from Middleware.config.loader import ConfigTree
from Middleware.services.pack_archive import Pack, PackNeeds, pack_bytes
from tests.api.commands.pack_house import PackHouse, small_user
from tests.api.console.conftest import a_hub, asking
from tests.odd_zips import ODD, make_odd

RIGHTS = ("look", "act", "save")
MAPPED = [("map", "Main=Ollama"), ("map", "Vec=Nomic")]
LARGE = b" " * (1024 * 1024 + 1)


@dataclass
class Page:
    """A page over the tree of a house."""

    house: PackHouse

    def post(self, path: str, body: Any, query: Any = (), *, kind: str = ZIP) -> Reply:
        hub = a_hub(snapshot=lambda: ConfigTree(self.house.configs).snapshot(), mode="edit")
        environ = asking("POST", path, body=body, query=urlencode(query))
        return Views(hub).answer({**environ, "CONTENT_TYPE": kind}, RIGHTS)

    def pack(self, name: str, **fields: Any) -> Reply:
        return self.post("pack", {"name": name, **fields}, kind="application/json")

    def unpack(self, data: bytes, *query: tuple[str, str], kind: str = ZIP) -> tuple[int, Any]:
        reply = self.post("unpack", data, query, kind=kind)
        return reply.status, json.loads(json_bytes(reply.value))


@pytest.fixture
def home(tmp_path: Path, capsys, monkeypatch) -> Iterator[Page]:
    """Where packs come from."""
    before = launch_facts()
    house = PackHouse(tmp_path / "from" / "Public", capsys, monkeypatch)
    small_user(house)
    yield Page(house)
    set_launch_facts(before)


@pytest.fixture
def there(home: Page, tmp_path: Path, capsys, monkeypatch) -> Page:
    """Where they go: two endpoints in one folder, of which none has the name of a role."""
    house = PackHouse(tmp_path / "to" / "Public", capsys, monkeypatch)
    house.endpoint("box/Ollama")
    house.endpoint("box/Nomic", "Vectors")
    return Page(house)


@pytest.fixture
def packed(home: Page) -> bytes:
    made: bytes = home.pack("ann").value
    return made


def forged(**files: bytes) -> bytes:
    """A pack that no `--pack` made. `files`: name in the zip file -> bytes."""
    user = {"config/Users/eve.json": b'{"customWorkflowOverride": true, "customWorkflow": "M"}'}
    flow = {"config/Workflows/eve/M.json": b'[{"type": "StaticResponse", "content": "x"}]'}
    return pack_bytes(Pack("eve", "eve", "1.0.0", PackNeeds(), {**user, **flow, **files}))


class TestPack:
    @pytest.mark.parametrize(
        ("name", "user", "words"),
        [
            ("ann", None, ["ann"]),
            ("ann:Child", None, ["ann:Child"]),
            ("Child", "ann", ["Child", "--user", "ann"]),
        ],
    )
    def test_the_bytes_are_those_of_the_command(self, home, tmp_path, name, user, words):
        """Of a user, and of one workflow."""
        target = tmp_path / "by-command.zip"
        assert home.house.run("--pack", words[0], str(target), *words[1:])[0] == 0
        reply = home.pack(name, **({"user": user} if user else {}))
        assert (reply.status, reply.content_type) == (200, ZIP)
        assert reply.value == target.read_bytes()

    def test_it_is_a_download_with_notes(self, home):
        """As the command calls the file, and warns."""
        headers = home.pack("ann:Child").headers
        assert headers["Content-Disposition"] == "attachment; filename*=UTF-8''ann-Child.pack.zip"
        assert isinstance(json.loads(headers[NOTES]), list)

    def test_a_name_of_other_letters_is_a_header_all_the_same(self, home):
        home.house.write("Workflows/ann/Fête", [{"type": "StaticResponse", "content": "x"}])
        home.house.write("Users/ann", {"customWorkflowOverride": True, "customWorkflow": "Fête"})
        assert "F%C3%AAte.pack.zip" in home.pack("ann:Fête").headers["Content-Disposition"]

    @pytest.mark.parametrize(
        ("fields", "status", "said"),
        [
            ({"name": "nobody"}, 422, "there is no user and no user's workflow 'nobody'"),
            ({"name": "Nothing", "user": "ann"}, 422, "user ann has no workflow 'Nothing'"),
            ({"name": "../ann"}, 422, "there is no user"),
            ({"name": "Main", "user": "../ann"}, 422, ""),
            ({"name": 7}, 400, "name"),
            ({}, 400, "name"),
            ({"name": "ann", "path": "x"}, 400, "path"),
        ],
    )
    def test_what_cannot_be_packed(self, home, fields, status, said):
        reply = home.post("pack", fields, kind="application/json")
        assert reply.status == status and said in reply.value["error"]

    def test_a_body_of_over_one_mebibyte(self, home):
        assert home.post("pack", LARGE, kind="application/json").status == 413

    def test_nothing_is_written(self, home):
        before = home.house.files()
        home.pack("ann")
        assert home.house.files() == before


class TestLook:
    def test_it_says_what_would_be_written(self, there, packed):
        before = there.house.files()
        status, told = there.unpack(packed, *MAPPED)
        assert (status, told["written"], told["why"]) == (200, False, "")
        assert (told["name"], told["new_user"]) == ("ann", "ann")
        assert told["files"][-1] == "Users/ann.json" and "Workflows/ann/Main.json" in told["files"]
        assert sorted(told["roles"], key=lambda role: role["role"]) == [
            {
                "role": "Main",
                "abilities": ["chat", "tools", "json"],
                "model": "gemma3:4b",
                "endpoints": ["box/Ollama"],
                "endpoint": "box/Ollama",
            },
            {
                "role": "Vec",
                "abilities": ["embeddings"],
                "model": "nomic",
                "endpoints": ["box/Nomic"],
                "endpoint": "box/Nomic",
            },
        ]
        assert there.house.files() == before

    def test_what_is_in_the_way_is_named(self, there, packed):
        """The look answers; writing is refused, unless a prefix helps."""
        there.house.write("Workflows/ann/Main", [])
        status, told = there.unpack(packed)
        assert (status, told["in_the_way"]) == (200, ["Workflows/ann/Main.json"])
        assert told["why"].startswith("already there with another content: Workflows/ann/Main.json")
        assert there.unpack(packed, ("write", "1"))[0] == 409
        status, told = there.unpack(packed, ("prefix", "new-"), ("write", "1"))
        assert (status, told["new_user"], told["in_the_way"]) == (201, "new-ann", [])


class TestWrite:
    def test_the_files_are_those_of_the_command(self, home, there, packed, tmp_path, capsys, monkeypatch):
        """By page and by command the same bytes."""
        status, told = there.unpack(packed, *MAPPED, ("write", "1"))
        assert (status, told["written"]) == (201, True)
        other = PackHouse(tmp_path / "other" / "Public", capsys, monkeypatch)
        other.endpoint("box/Ollama")
        other.endpoint("box/Nomic", "Vectors")
        words = [word for _, pair in MAPPED for word in ("--map", pair)]
        assert other.run("--unpack", home.house.packed("ann"), *words)[0] == 0
        assert there.house.files() == other.files()

    def test_a_second_time_there_is_nothing_to_do(self, there, packed):
        there.unpack(packed, ("write", "1"))
        assert there.unpack(packed)[1]["why"] == "all of it is there already"
        status, told = there.unpack(packed, ("write", "1"))
        assert (status, told["error"]) == (409, "all of it is there already")

    def test_a_file_that_came_meanwhile_stays(self, there, packed, monkeypatch):
        """And nothing of the pack does."""
        before = there.house.files()

        def late(root):
            there.house.write("Users/ann", {"port": 1})

        monkeypatch.setattr(pack_views, "remove_stale_temporaries", late)
        status, told = there.unpack(packed, ("write", "1"))
        assert status == 409 and "was made meanwhile" in told["error"]
        assert there.house.files() == {**before, "Configs/Users/ann.json": b'{"port": 1}'}

    @pytest.mark.parametrize(("number", "status"), [(28, 500), (13, 403), (30, 500)])
    def test_a_disk_that_refuses_leaves_nothing(self, there, packed, monkeypatch, number, status):
        before = there.house.files()

        def refuse(*_: object) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "link", refuse)
        monkeypatch.setattr(os, "rename", refuse)
        answer, told = there.unpack(packed, ("write", "1"))
        assert (answer, os.strerror(number) in told["error"]) == (status, True)
        assert there.house.files() == before

    def test_the_shipped_examples_are_never_written(self, there, packed, monkeypatch):
        monkeypatch.setattr(pack_views, "is_shipped", lambda path: path == there.house.configs)
        assert there.unpack(packed)[0] == 403


class TestRefused:
    """Nothing is written, and the sentence says why."""

    def refusal(self, page: Page, data: bytes, *query: tuple[str, str], kind: str = ZIP) -> tuple[int, Any]:
        before = page.house.files()
        for write in ([], [("write", "1")]):
            status, told = page.unpack(data, *query, *write, kind=kind)
        assert page.house.files() == before
        return status, told

    @pytest.mark.parametrize(
        ("files", "program"),
        [
            ({"scripts/x.py": b"def Invoke(): ..."}, "the script x.py"),
            (
                {"config/Workflows/eve/C.json": b'[{"type": "CurlCommand", "command": "curl x"}]'},
                "Workflows/eve/C.json, node 1: curl",
            ),
            (
                {"config/MCPServers/s.json": b'{"transport": "stdio", "command": "npx", "args": ["x"]}'},
                "MCPServers/s.json: npx x",
            ),
        ],
        ids=["script", "curl", "server"],
    )
    def test_what_runs_programs(self, there, files, program):
        """That is for the command alone, and no word of the query changes it."""
        status, told = self.refusal(there, forged(**files))
        assert (status, told["programs"]) == (422, [program])
        assert "run --unpack FILE --with-programs" in told["error"]

    @pytest.mark.parametrize(
        ("data", "said"),
        [
            (b"", "the file cannot be read as a pack"),
            (b"{}", "the file cannot be read as a pack"),
            (b"PK\x05\x06" + bytes(18), "it is no pack: it has no pack.json"),
            (forged()[:-30], "the file cannot be read as a pack"),
            (LARGE, "the file cannot be read as a pack"),
            (
                forged(**{"config/Workflows/eve/M.json": b'[{"type": "Standard", "endpointName": "No"}]'}),
                "the pack would not work here",
            ),
            (forged(**{"config/Workflows/eve/Z.json": b"[]"}), "files that its user doesn't use"),
            (forged(**{"config/Workflows/eve/Z.json": b"7"}), "must be an object"),
        ],
        ids=["empty", "json", "empty-zip", "cut", "blanks", "errors", "strangers", "no-workflow"],
    )
    def test_odd_bodies(self, there, data, said):
        status, told = self.refusal(there, data)
        assert status == 422 and said in told["error"]

    @pytest.mark.parametrize("case", [case for case in ODD])
    def test_a_zip_file_that_means_ill(self, there, packed, tmp_path, case):
        good = tmp_path / "good.zip"
        good.write_bytes(packed)
        odd = make_odd(good, tmp_path / "odd.zip", ODD[case]).read_bytes()
        assert self.refusal(there, odd)[0] == 422

    def test_more_than_sixteen_mebibytes(self, there):
        """Not one byte of it is looked at."""
        status, told = self.refusal(there, b"PK" + bytes(MOST_ZIP))
        assert (status, told["error"]) == (413, "the body is too large, allowed: at most 16,777,216 bytes")

    @pytest.mark.parametrize("kind", ["", "application/json", "multipart/form-data", "text/plain"])
    def test_what_does_not_say_that_it_is_a_zip_file(self, there, packed, kind):
        """A form of another page can say only the others."""
        assert self.refusal(there, packed, kind=kind)[0] == 415

    @pytest.mark.parametrize(
        ("query", "status", "said"),
        [
            ([("map", "Main")], 400, "allowed: ROLE=ENDPOINT"),
            ([("map", "=Ollama")], 400, "allowed: ROLE=ENDPOINT"),
            ([("map", "Main=Nobody")], 422, "no endpoint for the role Main"),
            ([("map", "Main=Nomic")], 422, "no endpoint for the role Main"),
            ([("map", "Else=Ollama")], 422, "the pack has no role 'Else'"),
            ([("prefix", "../")], 422, "cannot be a prefix"),
            ([("with-programs", "1")], 400, "is not part of this query"),
        ],
    )
    def test_a_query_that_says_something_else(self, there, packed, query, status, said):
        answer, told = self.refusal(there, packed, *query)
        assert answer == status and said in told["error"]

    def test_write_is_yes_or_no(self, there, packed):
        assert there.unpack(packed, ("write", "yes"))[0] == 400

    def test_no_endpoint_at_all(self, home, packed, tmp_path, capsys, monkeypatch):
        empty = Page(PackHouse(tmp_path / "empty" / "Public", capsys, monkeypatch))
        status, told = self.refusal(empty, packed)
        assert status == 422 and "there are: none" in told["error"]
