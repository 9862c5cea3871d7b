"""Texts of the page written into the config tree, over an old one or as a new file (spec console.md 9.6, 9.7, 16.8 to
16.10)."""

from __future__ import annotations

import json
import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from Middleware.api.console import config_files
from Middleware.api.console import file_views as config_saving
from Middleware.api.console.config_files import version_of
from Middleware.api.console.file_views import CHANGED, make, save
from Middleware.api.console.view_contract import ViewRefused
from tests.api.console.config_house import house as house

MAIN, BIG = "Workflows/mira/Main.json", "Endpoints/Big.json"
FOLDERS = ("Workflows", "Endpoints")
"""Those that may be written."""
NODE = {"title": "Answer", "type": "Standard", "endpointName": "Big", "prompt": "say it"}
SECRETS = """{"apiKey": "sk-1234567890abcdef", "endpoint": "http://u:pw123456@h:1", "apiTypeConfigFileName": "Demo",
 "extraHeaders": {"X-Team": "a", "Authorization": "Bearer zzz"}} // mine
"""
MASKED = SECRETS.replace("sk-1234567890abcdef", "***").replace("pw123456", "***").replace("Bearer zzz", "***")


def nodes(prompt="new", **fields):
    return json.dumps([{**NODE, "prompt": prompt, **fields}])


def as_written(path):
    """What a write would change of a file; reading it may change the rest."""
    now = path.stat()
    return now.st_ino, now.st_size, now.st_mtime_ns, now.st_mode


@pytest.fixture
def write(house):
    """`write(file, text)` saves a text over the file as it is now, or over this version of it."""

    def write(file, text, version=None):
        known = house.version(file) if version is None else version
        return save(house.hub.snapshot(), file, FOLDERS, text, known)

    return write


@pytest.fixture
def refused(house, write):
    """The same, of a text that is refused: why. Nothing is written then, and no copy made."""

    def tree():
        return {path: path.read_bytes() for path in house.root.rglob("*.json")}

    def refused(file, text, version=None):
        before = tree()
        with pytest.raises(ViewRefused) as refusal:
            write(file, text, version)
        assert (tree(), house.backups()) == (before, [])
        return refusal.value

    return refused


class TestSave:
    def test_the_text_is_on_the_disk(self, house, write, caplog):
        """One line tells of it, the old bytes are kept, and what is given back is what stands there."""
        old = house.bytes_of(MAIN)
        with caplog.at_level(logging.INFO):
            saved = write(MAIN, nodes())
        assert (saved.raw, saved.version) == (house.bytes_of(MAIN), house.version(MAIN))
        assert house.bytes_of(MAIN) == nodes().encode()
        assert [path.read_bytes() for path in house.backups()] == [old]
        assert [line for line in caplog.messages if "console" in line] == [f"console: saved {MAIN}"]

    def test_mark_and_line_ends_stay(self, house, write):
        """Spec 16.10."""
        house.write(MAIN, b"\xef\xbb\xbf" + json.dumps([NODE], indent=1).replace("\n", "\r\n").encode())
        text = json.dumps([{**NODE, "prompt": "new"}], indent=1)
        write(MAIN, text)
        assert house.bytes_of(MAIN) == b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()

    def test_equal_bytes_write_nothing(self, house, write, caplog):
        """No copy, no line, the same file."""
        before = as_written(house.root / MAIN)
        with caplog.at_level(logging.INFO):
            saved = write(MAIN, house.bytes_of(MAIN).decode())
        assert saved.version == house.version(MAIN)
        assert as_written(house.root / MAIN) == before
        assert house.backups() == [] and "console" not in caplog.text

    def test_the_next_request_uses_it(self, house, write):
        """The loader sees it at once."""
        assert house.hub.snapshot().read(MAIN) == [NODE]
        write(MAIN, nodes("another"))
        assert house.hub.snapshot().read(MAIN)[0]["prompt"] == "another"

    def test_a_broken_file_can_be_mended(self, house, write):
        """Its old bytes are kept like any others."""
        house.write(MAIN, "[{,")
        write(MAIN, nodes())
        assert house.backups()[0].read_bytes() == b"[{,"

    @pytest.mark.parametrize(
        "field",
        [{"type": "Standrad"}, {"endpointName": "Nobody"}, {"prompt": "{agent7Output}"}],
        ids=["a-warning", "a-name-that-leads-nowhere", "a-variable"],
    )
    def test_what_is_only_warned_of_hinders_nothing(self, house, write, field):
        """What the loader would use is saved."""
        text = json.dumps([{**NODE, **field}])
        write(MAIN, text)
        assert house.bytes_of(MAIN) == text.encode()

    def test_faults_of_other_files_hinder_nothing(self, house, write):
        """The tree may be broken elsewhere."""
        house.write("Workflows/mira/Broken.json", "[")
        house.write("Users/jo.json", "{")
        assert write(MAIN, nodes()).raw == house.bytes_of(MAIN) == nodes().encode()

    def test_a_link_stays_a_link(self, house, write):
        """Where it leads is written."""
        link = house.root / "Workflows/mira/linked.json"
        link.symlink_to(house.root / MAIN)
        write("Workflows/mira/linked.json", nodes())
        assert link.is_symlink() and house.bytes_of(MAIN) == nodes().encode()

    def test_a_long_name_is_written(self, house, write):
        """Of as many bytes as a copy's name leaves room for."""
        file = f"Workflows/mira/{'ü' * 110}.json"
        house.write(file, [NODE])
        assert write(file, nodes()).raw == house.bytes_of(file)


class TestRefused:
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
    def test_an_error_of_its_own(self, refused, text, place):
        """With its place in the sentence, and all problems."""
        why = refused(MAIN, text)
        first = why.fields["problems"][0]
        assert (why.status, list(why.fields)) == (422, ["problems"])
        assert (first["line"], first["column"], first["pointer"], first["node"]) == place
        assert why.sentence.startswith(f"{place[0]}:{place[1]}: {first['message']}")

    def test_several_errors(self, refused):
        """The first, and how many more there are."""
        why = refused(MAIN, json.dumps([{**NODE, "endpointName": 5}, {**NODE, "endpointName": 6}]))
        assert len(why.fields["problems"]) == 2 and why.sentence.endswith(" (and 1 more)")

    def test_another_version(self, house, refused):
        """With the text that is there now, masked, and its version."""
        house.write(BIG, SECRETS)
        why = refused(BIG, "{}", version="0" * 16)
        assert (why.status, why.sentence) == (409, CHANGED)
        assert why.fields == {"version": house.version(BIG), "text": MASKED}

    def test_half_a_character(self, refused):
        """It could be written by no one."""
        why = refused(MAIN, '[{"type": "StaticResponse", "content": "\ud800"}]')
        said = "text: found half of a character, allowed: whole characters"
        assert (why.status, why.sentence) == (400, said)

    @pytest.mark.parametrize(
        "file", ["Users/mira.json", "Workflows/mira/None.json", "Workflows/../Users/mira.json"]
    )
    def test_what_is_no_file_of_these_folders(self, refused, file):
        """One answer for all."""
        why = refused(file, "{}", version="")
        assert (why.status, why.sentence, why.fields) == (404, "no such file", {})

    def test_a_link_into_another_folder(self, house, refused):
        """Its name is not what it is."""
        (house.root / "Workflows/mira/linked.json").symlink_to(house.root / "Users/mira.json")
        why = refused("Workflows/mira/linked.json", "[]")
        said = "Workflows/mira/linked.json cannot be written: it is a link to Users/, which is only edited by hand"
        assert (why.status, why.sentence) == (403, said)

    def test_a_file_that_is_only_for_reading(self, house, refused, monkeypatch):
        """As the system tells."""
        place = str((house.root / MAIN).resolve())
        monkeypatch.setattr(os, "access", lambda path, mode: str(path) != place)
        why = refused(MAIN, nodes())
        said = f"{MAIN} cannot be written: the server has no permission to write to this file"
        assert (why.status, why.sentence) == (403, said)

    def test_a_text_whose_old_one_cannot_be_kept(self, house, refused):
        """A file stands where the folder of the copies should."""
        (house.root.parent / "ConfigBackups").write_text("")
        why = refused(MAIN, nodes())
        assert why.status == 500 and why.sentence.startswith("the old text could not be kept: ")


class TestMasks:
    def test_an_untouched_file_keeps_its_bytes(self, house, write):
        """Spec 16.9."""
        old = house.write(BIG, SECRETS)
        write(BIG, MASKED)
        assert house.bytes_of(BIG) == old and house.backups() == []

    def test_a_new_key_and_a_comment_are_saved(self, house, write):
        """All that is still masked stays."""
        house.write(BIG, SECRETS)
        write(BIG, MASKED.replace('"apiKey": "***"', '"apiKey": "new"').replace("// mine", "// ours"))
        new = SECRETS.replace("sk-1234567890abcdef", "new").replace("// mine", "// ours")
        assert house.bytes_of(BIG) == new.encode()

    def test_a_mask_of_nothing_is_refused(self, refused):
        """Spec 16.9: with its place."""
        why = refused(BIG, '{"apiTypeConfigFileName": "Demo", "apiKey": "***"}')
        assert (why.status, why.sentence) == (422, "/apiKey: *** stands for no old value")
        assert [one["pointer"] for one in why.fields["problems"]] == ["/apiKey"]

    @pytest.mark.parametrize(
        ("text", "place"),
        [
            ('{"apiKey": "***"\n "modelName": "b"}', "2:2: not JSON: a comma is missing before this"),
            ('{"other": {"apiKey": "***"', "1:27: not JSON: the file ends here; a closing ] or } is missing"),
        ],
    )
    def test_a_text_that_is_no_json_is_told_as_such(self, refused, text, place):
        """At its place in the page, not as masks that stand for nothing (workbench.md 16.5)."""
        why = refused(BIG, text)
        assert (why.status, why.sentence) == (422, place)

    def test_stars_in_a_text_are_a_text(self, house, write):
        """Spec 16.9."""
        text = '[{"type": "StaticResponse", "content": "***"}]'
        write(MAIN, text)
        assert house.bytes_of(MAIN) == text.encode()


class TestBytesThatAreNoText:
    """The page shows a sign for each; saved, the bytes would be lost though only another line was changed."""

    LATIN = '[{"type": "StaticResponse", "content": "é"}]'.encode("latin-1")

    def test_their_signs_are_not_written_over_them(self, house, refused):
        house.write(MAIN, self.LATIN)
        why = refused(MAIN, self.LATIN.decode("utf-8", "replace") + "\n\n")
        assert (why.status, house.bytes_of(MAIN)) == (422, self.LATIN)
        assert why.sentence.endswith("replace it with the right character, or save the file as UTF-8")

    def test_what_was_meant_is(self, house, write):
        house.write(MAIN, self.LATIN)
        write(MAIN, self.LATIN.decode("latin-1"))
        assert house.bytes_of(MAIN).decode("utf-8") == self.LATIN.decode("latin-1")

    def test_a_sign_that_was_there_stays(self, house, write):
        """Somebody wrote it."""
        house.write(MAIN, '[{"type": "StaticResponse", "content": "\ufffd"}]')
        text = '[{"type": "StaticResponse", "content": "\ufffd!"}]'
        write(MAIN, text)
        assert house.bytes_of(MAIN) == text.encode()


class TestEarlierTexts:
    """What saving has kept can be read, and so brought back (workbench.md 16.12)."""

    @pytest.fixture
    def earlier(self, house):
        """`earlier()`: the list; `earlier(at)`: one of them, as the server answers."""

        def ask(at="", file=MAIN):
            return house.ask("GET", f"workflows/{file}/earlier{at and '/' + at}", rights=("look",))

        return ask

    def test_the_newest_first(self, house, write, earlier):
        """With their time and size; a second one of the same second has a number."""
        before = house.bytes_of(MAIN)
        write(MAIN, nodes("one"))
        write(MAIN, nodes("two"))
        status, told = earlier()
        sizes = [one["bytes"] for one in told["texts"]]
        assert (status, sizes) == (200, [len(nodes("one")), len(before)])
        assert all(abs(one["saved"] - time.time()) < 3600 for one in told["texts"])
        names = [path.name.split(".")[1] for path in house.backups()]
        assert sorted(one["at"] for one in told["texts"]) == sorted(names)
        assert earlier(told["texts"][0]["at"]) == (
            200,
            {"at": told["texts"][0]["at"], "text": nodes("one")},
        )

    def test_of_a_file_that_was_never_saved(self, earlier):
        assert earlier() == (200, {"texts": []})

    def test_its_secrets_are_masked(self, house, write, earlier):
        """As in every text that the page is shown."""
        house.write(MAIN, '[{"type": "StaticResponse", "apiKey": "sk-1234567890abcdef"}]')
        write(MAIN, nodes())
        shown = earlier(earlier()[1]["texts"][0]["at"])[1]["text"]
        assert "sk-1234567890abcdef" not in shown and '"apiKey": "***"' in shown

    @pytest.mark.parametrize("at", ["20200101T000000Z", "..", "../../Users/mira", "x"])
    def test_what_is_none(self, write, earlier, at):
        write(MAIN, nodes())
        assert earlier(at)[0] == 404

    @pytest.mark.parametrize("file", ["Workflows/mira/None.json", "Users/mira.json", "Workflows/mira"])
    def test_of_no_workflow_file(self, earlier, file):
        assert earlier(file=file)[0] == 404

    def test_a_copy_that_goes_meanwhile(self, house, write, earlier, monkeypatch):
        """Another save prunes it."""
        write(MAIN, nodes())
        at = earlier()[1]["texts"][0]["at"]
        known = config_files.kept_copies(house.root, MAIN)
        house.backups()[0].unlink()
        monkeypatch.setattr(config_saving, "kept_copies", lambda *_: known)
        assert earlier(at) == (404, {"error": "there is no earlier text of that time"})


class TestAtOnce:
    def test_one_of_two_is_saved(self, house, write):
        """Spec 16.10: the other is told."""
        version, texts = house.version(MAIN), [nodes(f"new {number}") for number in range(2)]

        def status(text):
            try:
                write(MAIN, text, version)
            except ViewRefused as why:
                return why.status
            return 200

        with ThreadPoolExecutor(2) as pool:
            said = list(pool.map(status, texts))
        assert sorted(said) == [200, 409]
        assert house.bytes_of(MAIN).decode() == texts[said.index(200)]

    def test_no_save_is_lost(self, house, write):
        """Many writers, each on top of what it has read: each text that was saved is kept or there."""

        def saved(number):
            text, version = nodes(f"new {number}"), house.version(MAIN)
            while True:
                try:
                    write(MAIN, text, version)
                    return text
                except ViewRefused as why:
                    assert why.status == 409
                    version = why.fields["version"]

        old = house.bytes_of(MAIN).decode()
        with ThreadPoolExecutor(8) as pool:
            texts = list(pool.map(saved, range(16)))
        kept = {path.read_bytes().decode() for path in house.backups()} | {house.bytes_of(MAIN).decode()}
        assert kept == {old, *texts}

    def test_what_is_given_back_is_what_was_saved(self, write, monkeypatch):
        """Whoever writes right behind it is no part of it: the next save is a conflict."""
        written = config_saving.atomic_write

        def written_over(path, raw):
            written(path, raw)
            if path.name == "Main.json":
                written(path, b"[]")

        monkeypatch.setattr(config_saving, "atomic_write", written_over)
        saved = write(MAIN, nodes())
        assert saved.version == version_of(nodes().encode())
        with pytest.raises(ViewRefused, match=CHANGED):
            write(MAIN, nodes(), saved.version)


class TestMake:
    NEW = "Workflows/_shared/novel/New.json"

    def test_a_new_file(self, house, caplog):
        """With the folder that it lies in; one line tells of it, and there is no old text."""
        with caplog.at_level(logging.INFO):
            make(house.hub.snapshot(), self.NEW, nodes().encode())
        assert house.bytes_of(self.NEW) == nodes().encode() and house.backups() == []
        assert [line for line in caplog.messages if "console" in line] == [f"console: created {self.NEW}"]

    @pytest.mark.parametrize("what", ["file", "folder", "dead-link"])
    def test_where_something_is(self, house, what):
        """Whatever it is, it stays."""
        place = house.root / "Workflows/mira/New.json"
        if what == "file":
            place.write_text("mine")
        elif what == "folder":
            place.mkdir()
        else:
            place.symlink_to("nowhere")
        with pytest.raises(ViewRefused, match=r"^Workflows/mira/New.json already exists$") as why:
            make(house.hub.snapshot(), "Workflows/mira/New.json", nodes().encode())
        assert why.value.status == 409 and (
            place.is_symlink() or place.is_dir() or place.read_text() == "mine"
        )

    def test_a_faulty_text(self, house):
        """Refused with its problems; neither file nor folder is made."""
        with pytest.raises(ViewRefused) as why:
            make(house.hub.snapshot(), self.NEW, b'[{"type": "Standard", "endpointName": 5}]')
        assert why.value.status == 422 and why.value.fields["problems"][0]["pointer"] == "/0/endpointName"
        assert not (house.root / self.NEW).parent.exists()

    def test_among_the_examples_of_the_program(self, house, monkeypatch):
        """They belong to the installer."""
        monkeypatch.setattr(config_files, "is_installed", lambda: True)
        monkeypatch.setattr(config_files, "SHIPPED_DIRECTORY", house.root)
        with pytest.raises(ViewRefused) as why:
            make(house.hub.snapshot(), self.NEW, nodes().encode())
        assert why.value.status == 403 and why.value.sentence.startswith(
            f"{self.NEW} cannot be created: the examples"
        )

    def test_one_of_many_at_once(self, house):
        """The others are told that it exists, and write nothing over it."""
        snapshot = house.hub.snapshot()

        def status(number):
            try:
                make(snapshot, self.NEW, nodes(f"new {number}").encode())
            except ViewRefused as why:
                return why.status
            return 201

        with ThreadPoolExecutor(8) as pool:
            said = list(pool.map(status, range(16)))
        assert sorted(said) == [201, *[409] * 15]
        assert house.bytes_of(self.NEW) == nodes(f"new {said.index(201)}").encode()

    def test_what_the_system_refuses(self, house):
        """A file stands where the folder should: told with its reason."""
        (house.root / "Workflows/_shared").write_text("")
        with pytest.raises(ViewRefused) as why:
            make(house.hub.snapshot(), self.NEW, nodes().encode())
        assert why.value.status == 500 and why.value.sentence.startswith(f"{self.NEW} cannot be written: ")
