"""Files over the routes: read, saved, refused. Spec 9.6, 16.8 to 16.10."""

from __future__ import annotations

import json
import logging
import random
from urllib.parse import unquote_to_bytes

import pytest

from Middleware.api.console.views import Views
from tests.api.console.config_house import RIGHTS
from tests.api.console.config_house import house as house
from tests.api.console.conftest import asking

MAIN = "Workflows/mira/Main.json"
NODE = {"title": "Answer", "type": "Standard", "endpointName": "Big", "prompt": "say it"}
SECRETS = '{"apiKey": "sk-1234567890abcdef", "endpoint": "http://u:pw123456@h:1", "apiTypeConfigFileName": "Demo",\n "extraHeaders": {"X-Team": "a", "Authorization": "Bearer zzz"}} // mine\n'


class TestRead:
    def test_a_file_is_shown_without_its_secrets(self, house):
        """Spec 16.9."""
        house.write("Endpoints/Big.json", SECRETS)
        status, told = house.ask("GET", "files/Endpoints/Big.json", rights=("look",))
        assert (status, list(told)) == (200, ["text", "version", "problems"])
        assert told["version"] == house.version("Endpoints/Big.json")
        assert told["text"] == SECRETS.replace("sk-1234567890abcdef", "***").replace(
            "pw123456", "***"
        ).replace("Bearer zzz", "***")

    def test_the_findings_of_the_file_come_with_it(self, house):
        """Those of `--validate`, of this file alone."""
        house.write("Endpoints/Big.json", {"endpoint": 5, "apiTypeConfigFileName": "Demo"})
        problems = house.ask("GET", "files/Endpoints/Big.json")[1]["problems"]
        assert [(one["pointer"], one["level"]) for one in problems] == [("/endpoint", "error")]
        assert any(problems[0]["message"] in finding for finding in house.findings())

    @pytest.mark.parametrize("folder", ["Users/mira", "ApiTypes/Demo"])
    def test_folders_edited_by_hand_can_be_read(self, house, folder):
        """But not be written."""
        assert house.ask("GET", f"files/{folder}.json")[0] == 200
        assert house.save(f"{folder}.json", "{}") == (403, {"error": "this folder is edited by hand"})


class TestSave:
    def test_the_text_is_on_the_disk(self, house, caplog):
        """One line tells of it, the answer has the new version, and the old bytes are kept."""
        old = house.bytes_of(MAIN)
        text = json.dumps([{**NODE, "prompt": "new"}])
        with caplog.at_level(logging.INFO):
            status, told = house.save(MAIN, text)
        assert (status, told) == (200, {"version": house.version(MAIN), "problems": []})
        assert house.bytes_of(MAIN) == text.encode()
        assert [path.read_bytes() for path in house.backups()] == [old]
        assert [line for line in caplog.messages if "console" in line] == [f"console: saved {MAIN}"]

    def test_what_was_shown_keeps_its_bytes(self, house):
        """Spec 16.9: each mask stands for what is behind it."""
        old = house.write("Endpoints/Big.json", SECRETS)
        text = house.ask("GET", "files/Endpoints/Big.json")[1]["text"]
        assert house.save("Endpoints/Big.json", text)[0] == 200
        assert house.bytes_of("Endpoints/Big.json") == old and house.backups() == []

    def test_another_version_is_a_conflict(self, house):
        """With the text that is there now, masked, and its version; nothing is written."""
        house.write("Endpoints/Big.json", SECRETS)
        status, told = house.save("Endpoints/Big.json", "{}", version="0" * 16)
        assert (status, list(told)) == (409, ["error", "version", "text"])
        assert told["error"] == "the file was changed meanwhile"
        assert told["version"] == house.version("Endpoints/Big.json") and "zzz" not in told["text"]
        assert house.bytes_of("Endpoints/Big.json") == SECRETS.encode() and house.backups() == []

    def test_an_error_of_its_own_is_refused(self, house):
        """422 with the problems."""
        status, told = house.save(MAIN, '[{"type": "Standard", "endpointName": 5}]')
        assert (status, list(told)) == (422, ["error", "problems"])
        [problem] = told["problems"]
        place = (problem["line"], problem["column"], problem["pointer"], problem["node"])
        assert place == (1, 39, "/0/endpointName", 1)
        assert told["error"] == f"1:39: {problem['message']}"

    @pytest.mark.parametrize(
        ("field", "level", "words"),
        [
            ({"type": "Standrad"}, "warning", "unknown node type"),
            ({"endpointName": "Nobody"}, "error", "no endpoint"),
            ({"prompt": "{agent7Output}"}, "warning", "not known yet"),
        ],
        ids=["type", "name", "variable"],
    )
    def test_a_warning_and_a_name_that_leads_nowhere_hinder_nothing(self, house, field, level, words):
        """They are told with the answer; what the loader would use is saved."""
        status, told = house.save(MAIN, json.dumps([{**NODE, **field}]))
        assert (status, [one["level"] for one in told["problems"]]) == (200, [level])
        assert words in told["problems"][0]["message"]

    @pytest.mark.parametrize(
        ("body", "words"),
        [
            ({"text": "[]"}, "version: found nothing, allowed: a string"),
            ({"text": 5, "version": ""}, "text: found 5, allowed: a string"),
            ({"text": "", "version": "", "force": True}, '"force" is not a field of this body'),
            ([], "must be a JSON object"),
        ],
    )
    def test_another_body_is_refused(self, house, body, words):
        """400, with what is allowed."""
        status, told = house.ask("PUT", f"workflows/{MAIN}", body=body)
        assert status == 400 and words in told["error"]

    def test_half_a_character_is_refused(self, house):
        """It could be written by no one."""
        status, told = house.save(MAIN, '[{"type": "StaticResponse", "content": "\ud800"}]')
        assert (status, told["error"]) == (
            400,
            "text: found half of a character, allowed: whole characters",
        )

    def test_a_large_body_is_refused(self, house):
        """413 over 1 MiB."""
        assert house.save(MAIN, "x" * (1 << 20))[0] == 413

    @pytest.mark.parametrize("route", ["workflows", "files"])
    def test_it_needs_the_right(self, house, route):
        """Whoever may only look or act is told which right."""
        status, told = house.ask("PUT", f"{route}/{MAIN}", body={}, rights=("look", "act"))
        assert (status, told["need"]) == (403, "save")


def spellings(count: int) -> list[str]:
    """Random spellings around real paths, percent-encoded by part."""
    chance = random.Random(16)
    words = [
        "..",
        ".",
        "",
        "Workflows",
        "workflows",
        "Endpoints",
        "Users",
        "mira",
        "Main.json",
        "Big.json",
        "mira.json",
    ]
    words += [
        "a\0.json",
        "C:a.json",
        "a\\b.json",
        "\u202e.json",
        "é.json",
        "x" * 300,
        "%2e%2e",
        "Main.json.",
        " ",
        "~",
    ]
    return ["/".join(chance.choice(words) for _ in range(chance.randint(1, 5))) for _ in range(count)]


class TestSpellings:
    @pytest.mark.parametrize("route", ["workflows", "files"])
    def test_no_spelling_leaves_the_tree_or_breaks_the_server(self, house, route):
        """300 of them, read and written, with and without the address as it was sent."""
        outside = house.root.parent / "Big.json"
        outside.write_text('{"apiKey": "outside-1234567"}')
        before = {path: path.read_bytes() for path in house.root.parent.rglob("*.json")}
        said = set()
        for spelling in spellings(300):
            for method in ("GET", "PUT"):
                body = {"text": "[", "version": ""} if method == "PUT" else None
                status, told = house.ask(method, f"{route}/{spelling}", body=body)
                assert "outside-1234567" not in json.dumps(told)
                said.add((method, status))
        assert {path: path.read_bytes() for path in house.root.parent.rglob("*.json")} == before
        assert said <= {("GET", 200), ("GET", 404), ("GET", 405), ("PUT", 404), ("PUT", 403), ("PUT", 409)}

    @pytest.mark.parametrize("part", ["..%2Fx.json", "a%5Cx.json", "a.json%00", "%ff.json"])
    @pytest.mark.parametrize("method", ["GET", "PUT"])
    def test_what_a_part_hides_is_refused(self, house, method, part):
        """Spec 16.8, in the address as it was sent."""
        environ = asking(method, "", body={"text": "[", "version": ""} if method == "PUT" else None)
        path = f"/console/api/files/Endpoints/{part}"
        environ |= {"PATH_INFO": unquoted(path), "REQUEST_URI": path}
        reply = Views(house.hub).answer(environ, RIGHTS)
        assert (reply.status, reply.value) == (404, {"error": "no such file"})


def unquoted(path: str) -> str:
    """As a WSGI server gives it: bytes in Latin-1."""
    return unquote_to_bytes(path).decode("latin-1")
