"""Config files are read once, seen in one state by one request, and again when they change."""

from __future__ import annotations

import gc
import logging
import os
import threading
import time
import weakref

import pytest

from Middleware.common.errors import ConfigError, ConfigMissing
from Middleware.common.instance_global_variables import LaunchFacts, launch_facts, set_launch_facts
from Middleware.common.request_context import RequestContext, enter_request
from Middleware.config import endpoints, loader
from Middleware.config.loader import ConfigTree, default_snapshot, outdated_files, tree_of
from Middleware.config.validation import ERROR, WARNING, Finding
from tests.patience import PATIENCE_S

assert endpoints  # the module that hands in the fields of endpoint files
FILE = "PromptTemplates/x.json"


def template(text):
    return {"promptTemplateEndToken": text}


class TestReading:
    def test_a_file_is_parsed_once(self, configs):
        """Later snapshots share the very same value."""
        configs.put(FILE, template("a"))
        first = configs.snapshot().read(FILE)
        configs.later()
        assert configs.snapshot().read(FILE) is first

    def test_a_missing_file_is_named(self, configs):
        for ask in (configs.snapshot().read, configs.snapshot().inspect):
            with pytest.raises(ConfigMissing, match=r"^PromptTemplates/none\.json: no such file$"):
                ask("PromptTemplates/none.json")

    def test_a_missing_file_is_no_memory(self, configs):
        """Names that come from outside leave nothing behind."""
        configs.snapshot().find("PromptTemplates/none.json")
        assert configs.tree._files == {}

    def test_every_fault_is_in_one_message(self, configs):
        configs.put("Endpoints/x.json", {"endpoint": 5, "modelNameToSendToAPI": 6})
        with pytest.raises(ConfigError) as caught:
            configs.snapshot().read("Endpoints/x.json")
        said = str(caught.value)
        assert "Endpoints/x.json" in said
        assert all(name in said for name in ("apiTypeConfigFileName", "endpoint:", "modelNameToSendToAPI:"))

    def test_each_request_gets_an_error_of_its_own(self, configs):
        """Raised errors carry tracebacks, so they are never shared."""
        configs.put(FILE, "[")
        snapshot = configs.snapshot()
        caught = []
        for _ in range(2):
            with pytest.raises(ConfigError) as error:
                snapshot.read(FILE)
            caught.append(error.value)
        assert caught[0] is not caught[1]

    def test_a_folder_in_place_of_a_file_is_an_error(self, configs):
        (configs.root / FILE).mkdir(parents=True)
        with pytest.raises(ConfigError, match="cannot be read"):
            configs.snapshot().read(FILE)

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes in folders")
    def test_what_would_never_end_is_not_read(self, configs):
        """A pipe would hold its reader, and all others that wait for the tree."""
        (configs.root / FILE).parent.mkdir(parents=True)
        os.mkfifo(configs.root / FILE)
        caught = []

        def read():
            with pytest.raises(ConfigError) as error:
                configs.snapshot().read(FILE)
            caught.append(str(error.value))

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        reader.join(PATIENCE_S)
        assert caught == [f"{FILE}: cannot be read: it is not a regular file"]

    def test_a_name_that_no_file_can_have_is_missing(self, configs):
        snapshot = configs.snapshot()
        assert not snapshot.exists("Users/a\0.json")
        assert not snapshot.exists("Users/a\0")
        assert snapshot.files("Users/a\0") == []

    def test_what_a_request_has_looked_at(self, configs):
        """The files that were there, in order; looking for one counts."""
        for name in "cab":
            configs.put(f"PromptTemplates/{name}.json", template(name))
        snapshot = configs.snapshot()
        snapshot.read("PromptTemplates/b.json")
        assert snapshot.exists("PromptTemplates/a.json") and not snapshot.exists("PromptTemplates/none.json")
        assert snapshot.looked_at() == ["PromptTemplates/a.json", "PromptTemplates/b.json"]

    def test_derived_values_are_made_once_a_version(self, configs):
        """And once a key."""
        configs.put(FILE, template("a"))
        made = []

        def build(document):
            made.append(document)
            return len(made)

        assert [configs.snapshot().derive(FILE, "one", build) for _ in range(3)] == [1, 1, 1]
        assert configs.snapshot().derive(FILE, "two", build) == 2
        assert made == [template("a")] * 2

    def test_nodes_are_looked_at_in_workflows_alone(self, configs):
        """And not where the file as a whole is no workflow."""
        seen = []
        tree = ConfigTree(configs.root, lambda file, document: seen.append(file) or [])
        configs.put("Endpoints/x.json", {"endpoint": "http://h", "apiTypeConfigFileName": "A"})
        configs.put("Workflows/a/Main.json", [{"type": "Standard"}])
        configs.put("Workflows/a/Odd.json", '"text"')
        for file in ("Endpoints/x.json", "Workflows/a/Main.json"):
            tree.snapshot().read(file)
        with pytest.raises(ConfigError):
            tree.snapshot().read("Workflows/a/Odd.json")
        assert seen == ["Workflows/a/Main.json"]

    def test_readers_in_many_threads_share_one_value(self, configs):
        configs.put(FILE, template("a"))
        seen = []
        threads = [
            threading.Thread(target=lambda: seen.append(configs.snapshot().read(FILE))) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({id(value) for value in seen}) == 1


class TestHotReload:
    def test_an_edit_is_seen_by_the_next_request(self, configs):
        configs.put(FILE, template("old"))
        configs.snapshot().read(FILE)
        configs.put(FILE, template("newer"))
        assert configs.snapshot().read(FILE) == template("newer")

    def test_an_edit_of_the_same_size_within_one_tick_is_seen(self, configs):
        """Two writes may leave the same time and size behind; a fresh file is read again."""
        configs.put(FILE, template("a"))
        stat = os.stat(configs.root / FILE)
        configs.snapshot().read(FILE)
        configs.put(FILE, template("b"))
        os.utime(configs.root / FILE, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        assert configs.snapshot().read(FILE) == template("b")

    def test_a_faulty_edit_keeps_no_request_alive(self, configs):
        """Nor with it the versions that only that one might see."""
        configs.put(FILE, template("good"))
        configs.snapshot().read(FILE)
        configs.put(FILE, "[")
        request = configs.snapshot()
        seen = weakref.ref(request)
        request.read(FILE)
        del request
        gc.collect()
        assert seen() is None

    @pytest.mark.parametrize(("age_ns", "reads"), [(100_000_000, 2), (100_000_001, 1)])
    @pytest.mark.parametrize("moved", [-(10**10), 0, 10**10], ids=["set-back", "as-written", "set-ahead"])
    def test_a_file_is_read_again_as_long_as_it_may_change_unseen(self, configs, age_ns, reads, moved):
        """For a tenth of a second after the later of its two times."""
        configs.put(FILE, template("a"))
        path, read = configs.root / FILE, []
        written = os.stat(path).st_mtime_ns + moved
        os.utime(path, ns=(written, written))
        newest = max(written, os.stat(path).st_ctime_ns)
        tree = ConfigTree(configs.root, clock=lambda: newest + age_ns)
        bytes_of = tree.bytes_of
        tree.bytes_of = lambda relative: read.append(relative) or bytes_of(relative)
        for _ in range(2):
            assert tree.snapshot().read(FILE) == template("a")
        assert len(read) == reads

    def test_a_running_request_keeps_what_it_began_with_over_many_edits(self, configs):
        """However many other requests have read the newer ones."""
        configs.put(FILE, template("old"))
        configs.snapshot().read(FILE)
        configs.later(-60)
        running = configs.snapshot()
        configs.later(60)
        for text in ("newer", "newest"):
            configs.put(FILE, template(text))
            gc.collect()
            assert configs.snapshot().read(FILE) == template(text)
        assert running.read(FILE) == template("old")

    def test_a_running_request_keeps_what_it_began_with(self, configs):
        """Also for a file that it has not read yet."""
        configs.put(FILE, template("old"))
        configs.snapshot().read(FILE)
        configs.later(-60)
        running = configs.snapshot()
        configs.later(60)
        configs.put(FILE, template("new"))
        assert configs.snapshot().read(FILE) == template("new")
        assert running.read(FILE) == template("old")

    def test_a_file_that_was_never_loaded_is_read_as_it_is(self, configs):
        configs.later(-60)
        running = configs.snapshot()
        configs.later(60)
        configs.put(FILE, template("new"))
        assert running.read(FILE) == template("new")

    def test_a_file_from_the_future_is_believed_once_it_was_seen(self, configs):
        """A clock that is wrong elsewhere must not freeze a file."""
        configs.put(FILE, template("old"))
        configs.snapshot().read(FILE)
        configs.put(FILE, template("new"))
        future = os.stat(configs.root / FILE).st_mtime_ns + 10**15
        os.utime(configs.root / FILE, ns=(future, future))
        configs.snapshot().read(FILE)
        configs.later()
        assert configs.snapshot().read(FILE) == template("new")

    def test_old_versions_go_when_no_request_needs_them(self, configs):
        for text in ("one", "two--", "three----"):
            configs.put(FILE, template(text))
            configs.snapshot().read(FILE)
            configs.later()
            gc.collect()
        assert len(configs.tree._files[FILE].versions) <= 2

    def test_what_was_first_read_while_a_request_runs_is_kept_for_it(self, configs):
        """It sees that version as long as it runs, however often the file is edited."""
        configs.put(FILE, template("one"))
        running = configs.snapshot()
        configs.later(1)
        configs.snapshot().read(FILE)
        for text in ("two--", "three----"):
            configs.later(1)
            configs.put(FILE, template(text))
            configs.snapshot().read(FILE)
            gc.collect()
        assert running.read(FILE) == template("one")

    def test_a_deleted_file_is_missing_for_new_requests_only(self, configs):
        configs.put(FILE, template("old"))
        configs.snapshot().read(FILE)
        configs.later(-60)
        running = configs.snapshot()
        configs.later(60)
        os.unlink(configs.root / FILE)
        assert running.read(FILE) == template("old")
        configs.later()
        with pytest.raises(ConfigMissing):
            configs.snapshot().read(FILE)

    def test_a_file_that_comes_back_is_read(self, configs):
        configs.put(FILE, template("old"))
        configs.snapshot().read(FILE)
        os.rename(configs.root / FILE, configs.root / "kept")
        configs.later()
        assert not configs.snapshot().exists(FILE)
        os.rename(configs.root / "kept", configs.root / FILE)
        configs.later()
        assert configs.snapshot().read(FILE) == template("old")

    def test_a_deleted_folder_takes_its_files_along(self, configs):
        configs.put("Presets/A/x.json", {"top_p": 1})
        configs.snapshot().read("Presets/A/x.json")
        os.rename(configs.root / "Presets", configs.root / "Gone")
        configs.later()
        assert not configs.snapshot().exists("Presets/A/x.json")


class TestLastGoodVersion:
    def test_a_broken_edit_leaves_the_last_good_version(self, configs, caplog):
        """The error is logged once, however many requests come."""
        configs.put(FILE, template("good"))
        configs.snapshot().read(FILE)
        configs.put(FILE, '{"promptTemplateEndToken": ')
        for _ in range(3):
            configs.later()
            assert configs.snapshot().read(FILE) == template("good")
        errors = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
        assert len(errors) == 1
        assert FILE in errors[0] and "last good version" in errors[0]

    def test_whoever_used_it_is_told(self, configs):
        """A request that reads the file, in one sentence with the place; not one that only asks whether it is there."""
        configs.put(FILE, template("good"))
        configs.snapshot().read(FILE)
        configs.put(FILE, '{"promptTemplateEndToken": 5}')
        snapshot = configs.snapshot()
        assert snapshot.exists(FILE) and snapshot.outdated == {}
        snapshot.read(FILE)
        told = (
            f"{FILE}:1:28: promptTemplateEndToken: found 5, allowed: a string; the last good version was used"
        )
        assert snapshot.outdated == {FILE: told}

    def test_a_place_in_it_has_no_line(self, configs):
        """The text on disk is another one."""
        configs.put(FILE, template("good"))
        configs.snapshot().read(FILE)
        configs.put(FILE, '{\n\n"promptTemplateEndToken": 5}')
        snapshot = configs.snapshot()
        snapshot.read(FILE)
        assert snapshot.where(FILE, "/promptTemplateEndToken") == f"{FILE}: promptTemplateEndToken"

    def test_a_place_in_a_file_has_line_and_column(self, configs):
        """Whether or not the request has read the file."""
        configs.put(FILE, '{\n\n"promptTemplateEndToken": "e"}')
        unread, read = configs.snapshot(), configs.snapshot()
        read.read(FILE)
        told = {each.where(FILE, "/promptTemplateEndToken") for each in (unread, read)}
        assert told == {f"{FILE}:3:27: promptTemplateEndToken"}

    def test_an_edit_is_warned_of_as_a_start_warns(self, configs, caplog):
        """Once, with the line; the first read is not an edit."""
        tree = ConfigTree(
            configs.root, advise=lambda file, document: [Finding(file, "/Prompt", WARNING, "odd")]
        )
        configs.put(FILE, {"Prompt": "a"})
        tree.snapshot().read(FILE)
        assert caplog.text == ""
        configs.put(FILE, '{\n"Prompt": "b"}')
        tree.snapshot().read(FILE)
        tree.snapshot().read(FILE)
        warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
        assert warnings == [f"{FILE}:2:11: warning: Prompt: odd"]

    def test_a_request_that_began_before_the_edit_has_nothing_to_tell(self, configs):
        configs.put(FILE, template("good"))
        earlier = configs.snapshot()
        earlier.read(FILE)
        configs.put(FILE, "[")
        configs.snapshot().read(FILE)
        earlier.read(FILE)
        assert earlier.outdated == {}

    def test_a_repaired_file_is_used(self, configs):
        configs.put(FILE, template("good"))
        configs.snapshot().read(FILE)
        configs.put(FILE, "[")
        configs.snapshot().read(FILE)
        configs.put(FILE, template("better"))
        assert configs.snapshot().read(FILE) == template("better")

    def test_a_file_that_is_gone_was_not_edited(self, configs, caplog):
        caplog.set_level(logging.INFO)
        configs.put(FILE, template("good"))
        configs.snapshot().read(FILE)
        (configs.root / FILE).unlink()
        configs.later()
        with pytest.raises(ConfigMissing):
            configs.snapshot().read(FILE)
        assert [r.getMessage() for r in caplog.records] == [f"{FILE} was removed"]

    def test_the_last_good_one_survives_many_broken_edits(self, configs):
        configs.put(FILE, template("good"))
        configs.snapshot().read(FILE)
        for broken in ("[", "[[", '{"promptTemplateEndToken": 5}'):
            configs.put(FILE, broken)
            configs.later()
            assert configs.snapshot().read(FILE) == template("good")

    def test_without_a_good_version_the_request_fails(self, configs, caplog):
        """A second broken edit is logged too."""
        configs.put(FILE, "[")
        with pytest.raises(ConfigError, match=":1:2: "):
            configs.snapshot().read(FILE)
        configs.put(FILE, "[[")
        with pytest.raises(ConfigError):
            configs.snapshot().read(FILE)
        assert [r for r in caplog.records if r.levelno == logging.ERROR]

    def test_nodes_are_checked_by_those_who_know_them(self, configs):
        """A workflow with a fault in a node counts as broken when the tree was given the node check."""

        def no_colour(file, document):
            return [Finding(file, "/0/colour", ERROR, "found red")] if document[0].get("colour") else []

        tree = ConfigTree(configs.root, no_colour)
        configs.put("Workflows/a/Main.json", [{"colour": "red"}])
        with pytest.raises(ConfigError, match="found red"):
            tree.snapshot().read("Workflows/a/Main.json")
        configs.put("Workflows/a/Main.json", [{}])
        assert tree.snapshot().read("Workflows/a/Main.json") == [{}]

    @pytest.mark.parametrize(
        "emptied",
        [{}, [], {"nodes": []}, {"nodes": None}, {"node": [{}]}, {"model": "m"}],
        ids=["object", "list", "nodes", "null", "misspelt", "variables"],
    )
    def test_an_edit_that_loses_all_nodes_is_a_broken_one(self, configs, caplog, emptied):
        """An editor's half-way state, or a slip: the workflow stays as it was."""
        configs.put("Workflows/a/Main.json", [{"type": "Standard"}])
        configs.snapshot().read("Workflows/a/Main.json")
        configs.put("Workflows/a/Main.json", emptied)
        assert configs.snapshot().read("Workflows/a/Main.json") == [{"type": "Standard"}]
        assert "Workflows/a/Main.json" in caplog.text and "last good version" in caplog.text

    def test_settings_are_no_workflow_that_lost_its_nodes(self, configs):
        configs.put("Workflows/a/Memory.json", {"endpointName": "e"})
        configs.snapshot().read("Workflows/a/Memory.json")
        configs.put("Workflows/a/Memory.json", {"endpointName": "f"})
        assert configs.snapshot().read("Workflows/a/Memory.json") == {"endpointName": "f"}

    @pytest.mark.parametrize("file", ["Users/ana.json", "Routing/r.json"])
    def test_an_emptied_file_is_a_broken_one(self, configs, file):
        """A user file or a routing says something, or it is a fault."""
        good = {"port": 1} if file.startswith("Users") else {"A": {"description": "d", "workflow": "W"}}
        configs.put(file, good)
        configs.snapshot().read(file)
        configs.put(file, {})
        assert configs.snapshot().read(file) == good

    def test_the_checker_sees_the_newest_version(self, configs):
        """However wrong it is, or why it is no JSON."""
        configs.put("Endpoints/x.json", {"endpoint": "u", "apiTypeConfigFileName": "A"})
        configs.snapshot().read("Endpoints/x.json")
        configs.put("Endpoints/x.json", {"endpoint": 5})
        assert configs.snapshot().inspect("Endpoints/x.json") == ({"endpoint": 5}, None)
        configs.put("Endpoints/x.json", "{")
        document, error = configs.snapshot().inspect("Endpoints/x.json")
        assert document is None and ":1:2: " in str(error)
        with pytest.raises(ConfigMissing):
            configs.snapshot().inspect("Endpoints/none.json")


class TestVanished:
    """Editors rename the old file and then write the new one; between the two there is none."""

    @pytest.fixture
    def tree(self, configs):
        """`pauses`: what happens in each pause of the tree, in order."""

        class Tree(ConfigTree):
            pauses: list
            paused: float = 0

        def pause(seconds):
            tree.paused += seconds
            tree.pauses.pop(0)() if tree.pauses else None

        tree = Tree(configs.root, pause=pause)
        tree.pauses = []
        configs.put(FILE, template("old"))
        tree.snapshot().read(FILE)
        return tree

    def test_it_is_looked_for_again(self, configs, tree, caplog):
        """Found, it is an edit like any other: this request keeps the old one, the next sees the new."""
        caplog.set_level(logging.INFO)
        os.rename(configs.root / FILE, configs.root / "backup~")
        tree.pauses = [lambda: None, lambda: configs.put(FILE, template("new"))]
        assert tree.snapshot().read(FILE) == template("old")
        assert tree.snapshot().read(FILE) == template("new")
        assert tree.paused == pytest.approx(0.02)
        assert [r.getMessage() for r in caplog.records] == [f"{FILE} was edited and has been reloaded"]

    def test_a_file_that_stays_away_is_missing_after_a_moment(self, configs, tree):
        """At most 200 ms, and once: later requests do not wait."""
        os.unlink(configs.root / FILE)
        with pytest.raises(ConfigMissing):
            tree.snapshot().read(FILE)
        waited = tree.paused
        with pytest.raises(ConfigMissing):
            tree.snapshot().read(FILE)
        assert 0 < waited <= 0.2 and tree.paused == waited

    def test_it_is_waited_for_from_when_it_vanished(self, configs, tree):
        """A look each 10 ms, for 200 ms."""
        os.unlink(configs.root / FILE)
        vanished = os.stat((configs.root / FILE).parent).st_mtime_ns
        for since_ns, looks in ((0, 20), (95_000_000, 10), (195_000_000, 0), (200_000_000, 0)):
            tree._clock, tree.paused = (lambda since_ns=since_ns: vanished + since_ns), 0
            tree._looked_for_again(FILE, vanished)
            assert tree.paused == pytest.approx(looks / 100)

    def test_nobody_waits_for_what_was_never_there(self, tree):
        with pytest.raises(ConfigMissing):
            tree.snapshot().read("PromptTemplates/none.json")
        assert tree.paused == 0

    def test_nobody_waits_for_what_vanished_long_ago(self, configs, tree):
        os.unlink(configs.root / FILE)
        old = time.time_ns() - 10**9
        os.utime((configs.root / FILE).parent, ns=(old, old))
        with pytest.raises(ConfigMissing):
            tree.snapshot().read(FILE)
        assert tree.paused == 0

    def test_a_request_that_began_before_has_the_old_one_at_once(self, configs, tree):
        running = tree.snapshot()
        os.unlink(configs.root / FILE)
        later = time.time_ns() + 10**6
        os.utime((configs.root / FILE).parent, ns=(later, later))
        assert running.read(FILE) == template("old")
        assert tree.paused == 0


class TestCase:
    def test_the_only_other_spelling_is_used_with_one_warning(self, configs, caplog):
        configs.put("ApiTypes/Open-AI-API.json", {"type": "x"})
        told = (
            "apitypes/open-ai-api.json does not exist; ApiTypes/Open-AI-API.json is used instead, "
            "although its upper and lower case differ"
        )
        for _ in range(2):
            assert configs.snapshot().find("apitypes/open-ai-api.json") == "ApiTypes/Open-AI-API.json"
            assert [r.getMessage() for r in caplog.records] == [told]

    def test_it_is_named_where_it_is_written(self, configs, caplog):
        """Within, and not behind it."""
        configs.put("ApiTypes/Api.json", {"type": "x"})
        snapshot = configs.snapshot()
        snapshot.spelling.notes = []
        with snapshot.spelling.named_at("Endpoints/e.json", "/outer"):
            with snapshot.spelling.named_at("Endpoints/e.json", "/inner"):
                snapshot.find("ApiTypes/api.json")
            snapshot.find("ApiTypes/aPi.json")
        snapshot.find("ApiTypes/apI.json")
        places = [(note.file, note.pointer) for note in snapshot.spelling.notes]
        assert places == [
            ("Endpoints/e.json", "/inner"),
            ("Endpoints/e.json", "/outer"),
            ("ApiTypes/Api.json", ""),
        ]

    def test_every_part_of_a_path_may_differ(self, configs):
        configs.put("Workflows/Ana/Deep/Main.json", [])
        assert configs.snapshot().find("workflows/ana/deep/main.json") == "Workflows/Ana/Deep/Main.json"
        assert configs.snapshot().find("workflows/ana/other/main.json") is None

    def test_two_other_spellings_are_an_error(self, configs):
        configs.put("ApiTypes/ABC.json", {"type": "x"})
        configs.put("ApiTypes/abC.json", {"type": "x"})
        with pytest.raises(ConfigError, match="two spellings"):
            configs.snapshot().find("ApiTypes/abc.json")

    def test_the_exact_spelling_comes_first(self, configs, caplog):
        configs.put("ApiTypes/ABC.json", {"type": "x"})
        configs.put("ApiTypes/abc.json", {"type": "x"})
        assert configs.snapshot().find("ApiTypes/abc.json") == "ApiTypes/abc.json"
        assert caplog.text == ""

    def test_an_exact_second_place_beats_a_forgiven_first(self, configs):
        """What works without forgiveness goes on as it did."""
        configs.put("Presets/A/ana/Cold.json", {"n": 1})
        configs.put("Presets/A/cold.json", {"n": 2})
        tried = ["Presets/A/ana/cold.json", "Presets/A/cold.json"]
        assert configs.snapshot().first(tried) == "Presets/A/cold.json"
        assert configs.snapshot().first(tried[:1]) == "Presets/A/ana/Cold.json"
        assert configs.snapshot().first(["Presets/A/none.json"]) is None

    def test_folders_and_files_are_listed(self, configs):
        configs.put("Workflows/b/x.json", [])
        configs.put("Workflows/a/x.json", [])
        configs.put("Workflows/y.json", [])
        configs.put("Workflows/notes.txt", "n")
        snapshot = configs.snapshot()
        assert snapshot.folders("Workflows/") == ["a", "b"]
        assert snapshot.files("Workflows") == ["y"]
        assert snapshot.exists("Workflows/a") and not snapshot.exists("Workflows/c")

    def test_a_listing_is_kept_until_its_folder_changes(self, configs):
        configs.put("Users/a.json", {"port": 5000})
        configs.later()
        first = configs.tree.listing("Users")
        assert configs.tree.listing("Users") is first
        configs.put("Users/b.json", {"port": 5000})
        assert configs.snapshot().files("Users") == ["a", "b"]

    @pytest.mark.parametrize(("age_ns", "kept"), [(100_000_000, False), (100_000_001, True)])
    def test_a_listing_is_kept_when_its_folder_cannot_change_unseen(self, configs, age_ns, kept):
        """For a tenth of a second after a change it may."""
        configs.put("Users/a.json", {"port": 5000})
        changed = os.stat(configs.root / "Users").st_mtime_ns
        tree = ConfigTree(configs.root, clock=lambda: changed + age_ns)
        assert (tree.listing("Users") is tree.listing("Users")) is kept

    @pytest.mark.parametrize("to", [".", "..", "../..", "../../.."])
    def test_a_link_to_a_folder_above_is_not_followed(self, configs, to):
        """Who walks in would walk for ever."""
        configs.put("Workflows/ana/deep/Main.json", [])
        (configs.root / "Workflows/ana/deep/up").symlink_to(to)
        assert configs.snapshot().folders("Workflows/ana/deep") == []

    def test_a_link_to_another_folder_is(self, configs):
        configs.put("Workflows/ana/Main.json", [])
        configs.put("Workflows/bob/Main.json", [])
        (configs.root / "Workflows/ana/beside").symlink_to("../bob")
        assert configs.snapshot().folders("Workflows/ana") == ["beside"]

    def test_a_link_in_a_circle_hides_no_file_beside_it(self, configs):
        """It is listed as a file, and read as none."""
        configs.put("Users/a.json", {"port": 5000})
        (configs.root / "Users/b.json").symlink_to("b.json")
        snapshot = configs.snapshot()
        assert snapshot.files("Users") == ["a", "b"]
        with pytest.raises(ConfigMissing):
            snapshot.read("Users/b.json")

    def test_a_pipe_is_not_opened(self, configs):
        """Nobody may ever write into it, and its reader would wait."""
        configs.put("Users/a.json", {})
        os.mkfifo(configs.root / "Users/b.json")
        with pytest.raises(ConfigError, match=r"^Users/b\.json: cannot be read: it is not a regular file$"):
            configs.snapshot().read("Users/b.json")
        assert configs.tree.text("Users/b.json") == b""


class TestProcess:
    def test_a_note_is_new_once(self, configs):
        """For all requests of the process."""
        first, second = configs.snapshot(), configs.snapshot()
        assert [first.is_new("a"), second.is_new("a"), second.is_new("b")] == [True, False, True]

    def test_what_a_request_used_in_an_older_version(self, configs):
        """The very mapping of its view; none without one."""
        snapshot = configs.snapshot()
        request = RequestContext("r", "u", "openai", snapshot=snapshot)
        assert outdated_files(request) is snapshot.outdated
        assert outdated_files(RequestContext("r", "u", "openai")) == outdated_files(None) == {}

    def test_there_is_one_tree_for_a_root(self, configs):
        assert tree_of(configs.root) is tree_of(configs.root)
        assert loader.tree_of(configs.root).root == configs.root

    def test_names_that_are_called_without_a_snapshot_use_the_request(self, configs):
        snapshot = configs.snapshot()
        with enter_request(RequestContext("r", "u", "openai", snapshot=snapshot)):
            assert default_snapshot() is snapshot

    def test_or_the_launch_configuration(self, configs):
        before = launch_facts()
        set_launch_facts(LaunchFacts(config_directory=configs.root))
        try:
            assert default_snapshot().root == configs.root
        finally:
            set_launch_facts(before)
