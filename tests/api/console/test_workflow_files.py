"""Workflow files as the page shows them: which there are, how right they are, and what one text is (spec console.md
9.1, 9.2)."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

import pytest

from Middleware.api.console import workflow_files as module
from Middleware.api.console.view_contract import ViewRefused
from Middleware.api.console.workflow_files import MOST_CHARS, FileEntry, Homes, WorkflowFiles, workflow_files
from tests.api.console.config_house import house
from tests.patience import PATIENCE_S

assert house
MAIN = "Workflows/mira/Main.json"
SAY = [{"type": "StaticResponse", "content": "x"}]
USER = {"customWorkflowOverride": True, "customWorkflow": "Main"}
UNUSED = "no setting, route or node names this workflow"


@pytest.fixture
def files(house):
    return WorkflowFiles(house.root)


class TestEntries:
    @pytest.mark.parametrize(
        ("document", "kind", "nodes", "errors"),
        [
            (SAY, "workflow", 1, 0),
            ({"nodes": [*SAY, *SAY], "size": 4}, "workflow", 2, 0),
            ([{"type": "Standard", "endpointName": 5}], "workflow", 1, 1),
            ({"chunkSize": 4}, "settings", 0, 0),
            ("[{", "unreadable", 0, 1),
        ],
        ids=["a-list-of-nodes", "with-variables", "with-an-error", "settings", "no-json"],
    )
    def test_what_a_file_is(self, house, files, document, kind, nodes, errors):
        house.write("Workflows/mira/Other.json", document)
        entry = files.entries()["Workflows/mira/Other.json"]
        assert (entry.kind, entry.nodes, entry.errors) == (kind, nodes, errors)

    def test_its_facts(self, house, files):
        house.write(MAIN, [{"type": "Standrad", "endpointName": "Big"}, {"type": "Standard"}])
        assert files.entries()[MAIN] == FileEntry(MAIN, "workflow", 2, 1, 1, False)

    def test_all_below_workflows_and_no_other(self, house, files):
        """Whosever they are, and however deep."""
        house.write("Workflows/_shared/novel/_DefaultWorkflow.json", SAY)
        house.write("Workflows/lost/deep/X.json", SAY)
        assert sorted(files.entries()) == [
            "Workflows/_shared/novel/_DefaultWorkflow.json",
            "Workflows/lost/deep/X.json",
            MAIN,
        ]

    def test_one_that_nobody_names(self, house, files):
        """That is a note, no warning."""
        house.write("Workflows/mira/Lost.json", SAY)
        entries = files.entries()
        assert (entries["Workflows/mira/Lost.json"].unused, entries[MAIN].unused) == (True, False)
        assert entries["Workflows/mira/Lost.json"].warnings == 0
        assert [one.message for one in files.findings("Workflows/mira/Lost.json")] == [UNUSED]

    def test_a_broken_edit_counts(self, house, files):
        """The server goes on with the version before it; here it is what it is."""
        assert house.hub.snapshot().read(MAIN) and files.entries()[MAIN].kind == "workflow"
        house.write(MAIN, "[{")
        assert (files.entries()[MAIN].kind, files.entries()[MAIN].errors) == ("unreadable", 1)


class TestFindings:
    def test_of_any_file_of_the_tree(self, house, files):
        """As `--validate` has them."""
        house.write("Endpoints/Big.json", {"endpoint": 5, "apiTypeConfigFileName": "Demo"})
        [finding] = files.findings("Endpoints/Big.json")
        assert (finding.pointer, finding.level) == ("/endpoint", "error")
        assert str(finding) in house.findings()

    @pytest.mark.parametrize("path", [MAIN, "Workflows/mira/None.json", "../x.json"])
    def test_of_what_is_right_or_not_there(self, files, path):
        assert files.findings(path) == []


class TestMemory:
    def test_a_tree_that_has_settled_is_checked_once(self, house, files, monkeypatch):
        """Until any file of it changes: a name may lead elsewhere then."""
        monkeypatch.setattr(files._tree, "is_settled", lambda marks: True)
        first = files.entries()
        assert files.entries() is first
        house.write("Endpoints/Another.json", {"endpoint": "", "apiTypeConfigFileName": "Demo"})
        second = files.entries()
        assert second is not first and files.entries() is second
        house.write("Workflows/mira/New.json", SAY)
        assert "Workflows/mira/New.json" in files.entries()

    def test_what_may_change_unseen_is_not_kept(self, files):
        """Two edits of the same size within one tick of the file system's clock."""
        assert files.entries() is not files.entries()

    def test_a_config_root_has_one(self, house, tmp_path):
        """In this process."""
        assert workflow_files(house.root) is workflow_files(house.root)
        assert workflow_files(house.root) is not workflow_files(tmp_path)


class TestHomes:
    def test_of_users(self, house, files):
        """The folder that their settings name, as it is spelled on disk; one without files has one too."""
        house.write("Users/jo.json", {**USER, "workflowConfigsSubDirectoryOverride": "team"})
        house.write("Users/ana.json", USER)
        house.write("Workflows/team/A.json", SAY)
        assert files.homes(["mira", "jo", "ana"]).users == {"mira": "mira", "jo": "team", "ana": "ana"}

    def test_of_shared_workflows(self, house, files):
        """Each with the model that a client picks: of the first user who has it."""
        house.write("Users/jo.json", USER)
        for name in ("novel", "poem"):
            house.write(f"Workflows/_shared/{name}/_DefaultWorkflow.json", SAY)
        assert files.homes(["jo", "mira"]).shared == {
            "_shared/novel": "jo:novel",
            "_shared/poem": "jo:poem",
        }

    def test_of_a_user_whose_file_is_faulty(self, house, files):
        """None; the others keep theirs."""
        house.write("Users/jo.json", "{")
        assert files.homes(["jo", "nobody", "mira"]).users == {"mira": "mira"}

    @pytest.mark.parametrize(
        ("path", "home"),
        [
            ("Workflows/mira/Main.json", "mira"),
            ("Workflows/mira/deep/er/X.json", "mira"),
            ("Workflows/mira/own/X.json", "mira/own"),
            ("Workflows/_shared/novel/X.json", "_shared/novel"),
            ("Workflows/_shared/X.json", None),
            ("Workflows/_common/X.json", "_common"),
            ("Workflows/miranda/X.json", None),
            ("Workflows/X.json", None),
        ],
    )
    def test_where_a_file_lives(self, path, home):
        """In the innermost folder that is one."""
        homes = Homes({"mira": "mira", "jo": "mira/own"}, {"_shared/novel": "mira:novel"})
        assert homes.of(path) == home


class TestUserOf:
    @pytest.mark.parametrize(
        ("path", "names", "user"),
        [
            ("Workflows/jo/X.json", ["mira", "jo"], "jo"),
            ("Workflows/mira/X.json", ["mira", "twin"], "mira"),
            ("Workflows/mira/X.json", ["twin", "mira"], "twin"),
            ("Workflows/_common/X.json", ["mira", "jo"], "mira"),
            ("Workflows/lost/X.json", ["jo", "mira"], "jo"),
            ("Workflows/mira/X.json", [], None),
        ],
        ids=["its-own", "the-first-of-two", "in-their-order", "the-common-folder", "nobody-s", "no-user"],
    )
    def test_whose_names_a_file_means(self, house, files, path, names, user):
        """The first whose folder it lies in, else the first."""
        house.write("Users/jo.json", USER)
        house.write("Users/twin.json", {**USER, "workflowConfigsSubDirectoryOverride": "mira"})
        assert files.user_of(path, names) == user


def reading(files, document, *, path=MAIN, user="mira"):
    text = document if isinstance(document, str) else json.dumps(document)
    return files.read_file(path, text, text.encode(), user)


class TestRead:
    def test_the_text_counts_and_not_the_disk(self, house, files):
        """Nothing is written; a file need not be there yet."""
        before = house.bytes_of(MAIN)
        assert len(reading(files, [*SAY, *SAY]).graph["nodes"]) == 2
        assert reading(files, SAY, path="Workflows/mira/New.json").kind == "workflow"
        assert house.bytes_of(MAIN) == before and not (house.root / "Workflows/mira/New.json").exists()

    @pytest.mark.parametrize(
        ("document", "kind", "has_graph"),
        [(SAY, "workflow", True), ([], "workflow", False), ({"size": 4}, "settings", False), ("[{", "unreadable", False)],
    )  # fmt: skip
    def test_what_it_is(self, files, document, kind, has_graph):
        """Only nodes have a graph."""
        told = reading(files, document)
        assert (told.kind, told.graph is not None) == (kind, has_graph)

    def test_its_problems(self, files):
        """At their places, each marked at its node in the graph; never those of other files."""
        text = (
            '[\n {"type": "StaticResponse", "content": "x"},\n {"type": "Standrad", "endpointName": "Big"}\n]'
        )
        told = reading(files, text)
        [problem] = [one for one in told.problems if one["level"] == "warning"]
        assert (problem["line"], problem["column"], problem["node"]) == (3, 11, 2)
        assert [node["problems"] for node in told.graph["nodes"]] == [[], [told.problems.index(problem)]]
        assert [node["lines"] for node in told.graph["nodes"]] == [[2, 2], [3, 3]]

    def test_places_are_those_of_the_text_that_is_shown(self, files):
        """Secrets are masked there."""
        text = '{"password": "hunter22222", "nodes": [{"type": "Standrad", "endpointName": "Big"}]}'
        [problem] = [one for one in reading(files, text).problems if one["level"] == "warning"]
        shown = text.replace("hunter22222", "***")
        assert shown[problem["column"] - 1 :].startswith('"Standrad"')

    def test_where_its_names_lead(self, house, files):
        """For the user that is asked for: endpoints with their file and model, children with theirs."""
        house.write("Users/jo.json", USER)
        house.write("Workflows/jo/Prose.json", SAY)
        demo = {"endpoint": "", "apiTypeConfigFileName": "Demo", "modelNameToSendToAPI": "big-8b"}
        house.write("Endpoints/Big.json", demo)
        nodes = [
            {"type": "Standard", "endpointName": "Big"},
            {"type": "CustomWorkflow", "workflowName": "Prose"},
        ]
        seen = [reading(files, nodes, user=user).graph["nodes"] for user in ("mira", "jo", None)]
        endpoints = [(one[0]["endpoint"]["file"], one[0]["endpoint"]["model"]) for one in seen]
        assert endpoints == [("Endpoints/Big.json", "big-8b")] * 2 + [(None, None)]
        assert [one[1]["children"][0]["path"] for one in seen] == [None, "Workflows/jo/Prose.json", None]

    @pytest.mark.parametrize(
        ("name", "path"),
        [
            ("Near", "Workflows/_shared/novel/Near.json"),
            ("All", "Workflows/_common/All.json"),
            ("Main", MAIN),
            ("None", None),
        ],
    )
    def test_where_a_child_of_a_shared_workflow_lies(self, house, files, name, path):
        """Beside its caller, in the common folder, or in the user's own."""
        house.write("Workflows/_shared/novel/Near.json", SAY)
        house.write("Workflows/_common/All.json", SAY)
        calls = [{"type": "CustomWorkflow", "workflowName": name}]
        told = reading(files, calls, path="Workflows/_shared/novel/_DefaultWorkflow.json")
        assert told.graph["nodes"][0]["children"][0]["path"] == path

    def test_an_endpoint_whose_file_is_faulty(self, house, files):
        """It is there; its model is not known."""
        house.write("Endpoints/Big.json", "{")
        told = reading(files, [{"type": "Standard", "endpointName": "Big"}]).graph["nodes"][0]["endpoint"]
        assert (told["file"], told["model"]) == ("Endpoints/Big.json", None)

    def test_one_that_is_too_large(self, files):
        """Said in its one problem: it is not looked at."""
        told = reading(files, " " * (MOST_CHARS + 1))
        assert (told.kind, told.graph, [one["level"] for one in told.problems]) == (
            "workflow",
            None,
            ["warning"],
        )


class TestOneAtATime:
    def test_another_waits_for_a_while(self, files, monkeypatch):
        """Then it is told to come again: else as many as there are threads would hold the server together."""
        monkeypatch.setattr(module, "_PATIENCE_S", 0.01)
        with (
            files._reading,
            pytest.raises(ViewRefused, match="other texts are being checked; try again") as why,
        ):
            reading(files, SAY)
        assert (why.value.status, why.value.headers) == (503, {"Retry-After": "5"})
        assert reading(files, SAY).kind == "workflow"

    def test_many_at_once_are_all_read(self, files):
        """One after the other."""
        told = []
        threads = [threading.Thread(target=lambda: told.append(reading(files, SAY).kind)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert told == ["workflow"] * 8


def test_under_gevent_others_run_while_a_text_is_laid_out(tmp_path):
    """What needs no file is done beside the event loop. In a process of its own: patching cannot be undone."""
    for file, content in (("Users/mira.json", "{}"), ("Workflows/mira/Main.json", "[]")):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text(content)
    code = (
        "from gevent import monkey; monkey.patch_all()\n"
        "import gevent, pathlib\n"
        "real = monkey.get_original('threading', 'Event')()\n"
        "from Middleware.api.console import workflow_files as module\n"
        "waited = []\n"
        "module.problems = lambda *given: waited.append(real.wait(60)) or []\n"
        f"files = module.WorkflowFiles(pathlib.Path({str(tmp_path)!r}))\n"
        "gevent.spawn_later(0.01, real.set)\n"
        "reading = files.read_file('Workflows/mira/Main.json', '[{}]', b'[{}]', 'mira')\n"
        "assert waited == [True] and reading.kind == 'workflow', (waited, reading)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=PATIENCE_S).returncode == 0
