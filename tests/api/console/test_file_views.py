"""Files over the routes: read, saved, refused. Spec 9.6, 16.8 to 16.10."""

from __future__ import annotations

import json
import logging
import os
import random
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote_to_bytes

import pytest

from Middleware.api.console import config_saving
from Middleware.api.console.config_files import version_of
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

    def test_mark_and_line_ends_stay(self, house):
        """Spec 16.10."""
        house.write(MAIN, b"\xef\xbb\xbf" + json.dumps([NODE], indent=1).replace("\n", "\r\n").encode())
        text = json.dumps([{**NODE, "prompt": "new"}], indent=1)
        assert house.save(MAIN, text)[0] == 200
        assert house.bytes_of(MAIN) == b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()

    def test_equal_bytes_write_nothing(self, house, caplog):
        """No copy, no line, the same file."""
        before = (house.root / MAIN).stat()
        with caplog.at_level(logging.INFO):
            status, told = house.save(MAIN, house.bytes_of(MAIN).decode())
        assert (status, told["version"]) == (200, house.version(MAIN))
        assert (house.root / MAIN).stat() == before
        assert house.backups() == [] and "console" not in caplog.text

    def test_another_version_is_a_conflict(self, house):
        """With the text that is there now, masked, and its version; nothing is written."""
        house.write("Endpoints/Big.json", SECRETS)
        status, told = house.save("Endpoints/Big.json", "{}", version="0" * 16)
        assert (status, list(told)) == (409, ["error", "version", "text"])
        assert told["error"] == "the file was changed meanwhile"
        assert told["version"] == house.version("Endpoints/Big.json") and "zzz" not in told["text"]
        assert house.bytes_of("Endpoints/Big.json") == SECRETS.encode() and house.backups() == []

    @pytest.mark.parametrize(
        ("text", "place"),
        [
            ('[{"type": "Standard", "endpointName": 5}]', (1, 39, "/0/endpointName", 1)),
            ('[{"type": "Standard",}, x]', (1, 25, "", None)),
            ("[]", (1, 1, "", None)),
            ("{}", (1, 1, "", None)),
            ("", (1, 1, "", None)),
            ("[" * 200 + "]" * 200, (1, 1, "", None)),
        ],
        ids=["wrong-type", "no-json", "no-nodes", "no-workflow", "empty", "deep"],
    )
    def test_an_error_of_its_own_is_refused(self, house, text, place):
        """422 with the problems; nothing is written."""
        old = house.bytes_of(MAIN)
        status, told = house.save(MAIN, text)
        assert (status, list(told)) == (422, ["error", "problems"])
        first = told["problems"][0]
        assert (first["line"], first["column"], first["pointer"], first["node"]) == place
        assert first["message"] in told["error"]
        assert house.bytes_of(MAIN) == old and house.backups() == []

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

    def test_faults_of_other_files_hinder_nothing(self, house):
        """The tree may be broken elsewhere."""
        house.write("Workflows/mira/Broken.json", "[")
        house.write("Users/jo.json", "{")
        assert house.save(MAIN, json.dumps([{**NODE, "prompt": "new"}]))[0] == 200

    def test_a_broken_file_can_be_mended(self, house):
        """Its old bytes are kept like any others."""
        house.write(MAIN, "[{,")
        assert house.save(MAIN, json.dumps([NODE]))[0] == 200
        assert house.backups()[0].read_bytes() == b"[{,"

    def test_the_next_request_uses_it(self, house):
        """The loader sees it at once."""
        before = house.hub.snapshot()
        assert before.read(MAIN) == [NODE]
        house.save(MAIN, json.dumps([{**NODE, "prompt": "new"}]))
        assert house.hub.snapshot().read(MAIN)[0]["prompt"] == "new"

    @pytest.mark.parametrize(
        ("body", "words"),
        [
            ({"text": "[]"}, "version: found nothing, allowed: a text"),
            ({"text": 5, "version": ""}, "text: found 5, allowed: a text"),
            ({"text": "", "version": "", "force": True}, '"force" is no field of this body'),
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
            "text: found half of a character, allowed: a text of whole ones",
        )

    def test_a_large_body_is_refused(self, house):
        """413 over 1 MiB."""
        assert house.save(MAIN, "x" * (1 << 20))[0] == 413

    @pytest.mark.parametrize("route", ["workflows", "files"])
    def test_it_needs_the_right(self, house, route):
        """Whoever may only look or act is told which right."""
        status, told = house.ask("PUT", f"{route}/{MAIN}", body={}, rights=("look", "act"))
        assert (status, told["need"]) == (403, "save")

    def test_an_old_text_that_cannot_be_kept_saves_nothing(self, house):
        """500 with the reason."""
        (house.root.parent / "ConfigBackups").write_text("")
        old = house.bytes_of(MAIN)
        status, told = house.save(MAIN, json.dumps([{**NODE, "prompt": "new"}]))
        assert status == 500 and told["error"].startswith("the old text could not be kept: ")
        assert house.bytes_of(MAIN) == old

    def test_a_link_into_a_folder_of_hands_is_refused(self, house):
        """Its name is not what it is."""
        (house.root / "Workflows/mira/linked.json").symlink_to(house.root / "Users/mira.json")
        status, told = house.save("Workflows/mira/linked.json", "[]")
        assert status == 403 and "edited by hand" in told["error"]

    def test_a_link_stays_a_link(self, house):
        """Where it leads is written."""
        (house.root / "Workflows/mira/linked.json").symlink_to(house.root / MAIN)
        text = json.dumps([{**NODE, "prompt": "new"}])
        assert house.save("Workflows/mira/linked.json", text)[0] == 200
        assert (house.root / "Workflows/mira/linked.json").is_symlink() and house.bytes_of(
            MAIN
        ) == text.encode()

    def test_a_long_name_is_written(self, house):
        """Of as many bytes as a copy's name leaves room for."""
        file = f"Workflows/mira/{'ü' * 110}.json"
        house.write(file, [NODE])
        assert house.save(file, json.dumps([{**NODE, "prompt": "new"}]))[0] == 200

    def test_a_file_that_is_only_for_reading_is_told(self, house, monkeypatch):
        """403 with the reason, and the file stays."""
        old, place = house.bytes_of(MAIN), (house.root / MAIN).resolve()
        monkeypatch.setattr(os, "access", lambda path, mode: str(path) != str(place))
        status, told = house.save(MAIN, "[]")
        assert house.bytes_of(MAIN) == old and house.backups() == []
        assert (status, told["error"]) == (
            403,
            f"{MAIN} cannot be written: the server's account may not write to this file",
        )


class TestMasks:
    def test_an_untouched_file_keeps_its_bytes(self, house):
        """Spec 16.9."""
        old = house.write("Endpoints/Big.json", SECRETS)
        text = house.ask("GET", "files/Endpoints/Big.json")[1]["text"]
        assert house.save("Endpoints/Big.json", text)[0] == 200
        assert house.bytes_of("Endpoints/Big.json") == old and house.backups() == []

    def test_a_new_key_and_a_comment_are_saved(self, house):
        """All that is still masked stays."""
        house.write("Endpoints/Big.json", SECRETS)
        text = house.ask("GET", "files/Endpoints/Big.json")[1]["text"]
        text = text.replace('"apiKey": "***"', '"apiKey": "new"').replace("// mine", "// ours")
        assert house.save("Endpoints/Big.json", text)[0] == 200
        new = SECRETS.replace("sk-1234567890abcdef", "new").replace("// mine", "// ours")
        assert house.bytes_of("Endpoints/Big.json") == new.encode()

    def test_a_mask_of_nothing_is_refused(self, house):
        """Spec 16.9: 422 with its place."""
        status, told = house.save("Endpoints/Big.json", '{"apiTypeConfigFileName": "Demo", "apiKey": "***"}')
        assert (status, told["error"]) == (422, "/apiKey: *** stands for no old value")
        assert [one["pointer"] for one in told["problems"]] == ["/apiKey"]

    def test_stars_in_a_text_are_a_text(self, house):
        """Spec 16.9."""
        text = '[{"type": "StaticResponse", "content": "***"}]'
        assert house.save(MAIN, text)[0] == 200
        assert house.bytes_of(MAIN) == text.encode()


class TestAtOnce:
    def test_one_of_two_is_saved(self, house):
        """Spec 16.10: the other is told."""
        version = house.version(MAIN)
        texts = [json.dumps([{**NODE, "prompt": f"new {number}"}]) for number in range(2)]
        with ThreadPoolExecutor(2) as pool:
            said = list(pool.map(lambda text: house.save(MAIN, text, version)[0], texts))
        assert sorted(said) == [200, 409]
        assert house.bytes_of(MAIN).decode() == texts[said.index(200)]

    def test_the_answer_is_of_what_was_saved(self, house, monkeypatch):
        """Whoever writes right behind it is no part of it: the next save is a conflict."""
        written = config_saving.atomic_write

        def written_over(path, raw):
            written(path, raw)
            if path.name == "Main.json":
                written(path, b"[]")

        monkeypatch.setattr(config_saving, "atomic_write", written_over)
        text = json.dumps([{**NODE, "prompt": "new"}])
        status, told = house.save(MAIN, text)
        assert (status, told["version"]) == (200, version_of(text.encode()))
        assert house.save(MAIN, text, told["version"])[0] == 409

    def test_no_save_is_lost(self, house):
        """Many writers, each on top of what it has read: each text that was saved is kept or there."""
        house.write(MAIN, json.dumps([NODE]))

        def write(number: int) -> str:
            text = json.dumps([{**NODE, "prompt": f"new {number}"}])
            status, version = 409, house.version(MAIN)
            while status == 409:
                status, told = house.save(MAIN, text, version)
                version = told["version"]
            assert status == 200
            return text

        with ThreadPoolExecutor(8) as pool:
            texts = list(pool.map(write, range(16)))
        kept = {path.read_bytes().decode() for path in house.backups()} | {house.bytes_of(MAIN).decode()}
        assert kept == {json.dumps([NODE]), *texts}


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


def test_what_could_not_be_read_is_not_written_over_by_its_signs(house):
    """The bytes would be lost for a page that only changed another line."""
    old = house.write(
        "Workflows/mira/Main.json", '[{"type": "StaticResponse", "content": "é"}]'.encode("latin-1")
    )
    shown = house.ask("GET", "workflows/Workflows/mira/Main.json")[1]["text"]

    status, told = house.save("Workflows/mira/Main.json", shown + "\n\n")
    assert (status, house.bytes_of("Workflows/mira/Main.json")) == (422, old)
    assert told["error"].endswith("write what was meant, or save the file as UTF-8")

    assert house.save("Workflows/mira/Main.json", shown.replace("\ufffd", "é"))[0] == 200
