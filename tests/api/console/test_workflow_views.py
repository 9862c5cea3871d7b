"""The routes of the page Workflows: the tree, one file, a text that is not saved."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from Middleware.api.console.views import Views
from Middleware.common.instance_global_variables import INSTALL_DIRECTORY
from Middleware.common.secrets import MASK
from Middleware.config.loader import ConfigTree
from Middleware.services.node_trace import NodeTrace
from Middleware.services.run_trace import Observers, RunTrace
from Middleware.workflows.checks import workflow_check
from Middleware.workflows.checks.config_check import check_tree
from tests.api.console.config_house import House, house
from tests.api.console.conftest import a_hub, asking

assert house
REVIEWERS = "Workflows/mira/Reviewers.json"
TEXT = """{
  "writer": "Other",
  // who says what
  "nodes": [
    {"title": "Draft", "endpointName": "Small", "prompt": "{chat_user_prompt_last_one}"},
    {"title": "Facts", "type": "Standard", "parallelGroup": "critics", "endpointName": "Small",
      "prompt": "{agent1Output}"},
    {"title": "Style", "type": "Standard", "parallelGroup": "critics", "endpointName": "{writer}",
      "prompt": "{agent1Output}"},
    {"title": "Which way?", "type": "ConditionalCustomWorkflow", "conditionalKey": "{agent2Output}",
      "conditionalWorkflows": {"code": "CodeFix", "Default": "Prose"}},
    {"title": "Answer", "type": "Standard", "endpointName": "Big", "returnToUser": true,
      "prompt": "{agent3Output} {agent4Output} {agent6Output}"},
    {"title": "Notes", "type": "SaveCustomFile", "filepath": "notes.txt", "content": "{agent5Output}"}
  ]
}
"""
SAY = [{"type": "StaticResponse", "content": "x"}]


@pytest.fixture
def mira(house):
    """The house with the workflow of spec 16.5; `runs`: what was recorded, `users`: who is served."""
    house.runs, house.users = [], ["mira"]
    recorder = SimpleNamespace(runs=lambda: house.runs, kept=dict, seq=0)
    house.hub = replace(house.hub, recorder=recorder, served_users=lambda: house.users)
    demo = {"endpoint": "", "apiTypeConfigFileName": "Demo", "modelNameToSendToAPI": "other-8b"}
    for name in ("Endpoints/Small", "Endpoints/Other"):
        house.write(f"{name}.json", demo)
    house.write(REVIEWERS, TEXT)
    for file in ("Workflows/mira/CodeFix.json", "Workflows/mira/Main.json"):
        house.write(file, SAY)
    return house


def get(house: House, path: str, query: str = ""):
    status, value = house.ask("GET", f"workflows/{path}", query=query)
    assert status == 200, value
    return value


def checked(house: House, text: str, path: str = REVIEWERS, **fields: str):
    status, value = house.ask("POST", "check", body={"path": path, "text": text, **fields})
    assert status == 200, value
    return value


def validated(house: House, path: str) -> list[tuple[str, str, str]]:
    """(level, pointer, sentence) of what `--validate` says of one file."""
    tree = ConfigTree(house.root, workflow_check.own_errors)
    return [(f.level, f.pointer, f.message) for f in check_tree(tree.snapshot()) if f.file == path]


def said(answer) -> list[tuple[str, str, str]]:
    return [(problem["level"], problem["pointer"], problem["message"]) for problem in answer["problems"]]


def underlined(text: str, problem) -> str:
    lines = text.splitlines(keepends=True)
    start = sum(map(len, lines[: problem["line"] - 1])) + problem["column"] - 1
    end = sum(map(len, lines[: problem["end_line"] - 1])) + problem["end_column"] - 1
    return text[start:end]


class TestOneFile:
    def test_its_facts_stand_in_their_order(self, mira):
        value = get(mira, REVIEWERS)
        assert list(value) == [
            "path", "user", "kind", "text", "version", "writable", "problems", "graph", "last",
        ]  # fmt: skip
        assert (value["path"], value["user"], value["kind"]) == (REVIEWERS, "mira", "workflow")
        assert value["text"] == TEXT
        assert value["version"] == mira.version(REVIEWERS)
        assert value["writable"] is True
        assert value["last"] is None

    def test_the_vector_of_the_graph(self, mira):
        """Spec 16.5, with the places in the text."""
        graph = get(mira, REVIEWERS)["graph"]
        assert graph["rows"] == [[1], [2, 3], [4], [5], [6]]
        assert graph["responder"] == 5
        assert [node["lines"] for node in graph["nodes"]] == [
            [5, 5],
            [6, 7],
            [8, 9],
            [10, 11],
            [12, 13],
            [14, 14],
        ]
        assert graph["nodes"][2]["endpoint"] == {
            "name": "Other",
            "written": "{writer}",
            "file": "Endpoints/Other.json",
            "model": "other-8b",
            "addresses": [],
        }
        assert graph["nodes"][3]["children"] == [
            {"label": "code", "workflow": "CodeFix", "path": "Workflows/mira/CodeFix.json", "text": False},
            {"label": "Default", "workflow": "Prose", "path": None, "text": False},
        ]

    def test_the_addresses_of_an_endpoint_without_their_secrets(self, mira):
        """Those that another server has; an endpoint inside the program has none."""
        mira.write("ApiTypes/OpenAI.json", {"type": "openAIChatCompletion"})
        lan = {"endpoint": "http://ana:hunter22@lan:1", "moreEndpoints": ["http://lan:2"]}
        mira.write("Endpoints/Small.json", {**lan, "apiTypeConfigFileName": "OpenAI"})
        nodes = get(mira, REVIEWERS)["graph"]["nodes"]
        assert nodes[0]["endpoint"]["addresses"] == [f"http://ana:{MASK}@lan:1", "http://lan:2"]
        assert nodes[2]["endpoint"]["addresses"] == []

    def test_problems_are_those_of_validate_each_at_its_value(self, mira):
        mira.write("Users/mira.json", {"customWorkflowOverride": True, "customWorkflow": "Reviewers"})
        value = get(mira, REVIEWERS)
        assert said(value) == validated(mira, REVIEWERS)
        late = next(problem for problem in value["problems"] if problem["pointer"] == "/nodes/4/prompt")
        assert late["message"] == "{agent6Output} is not known yet: this is node 5"
        assert late["node"] == 5
        assert underlined(TEXT, late) == '"{agent3Output} {agent4Output} {agent6Output}"'
        assert value["graph"]["nodes"][4]["problems"] == [value["problems"].index(late)]

    def test_a_missing_field_is_at_the_opening_brace(self, mira):
        text = '[\n  {"title": "A",\n   "type": "Standard"}\n]\n'
        mira.write(REVIEWERS, text)
        (missing,) = [
            p for p in get(mira, REVIEWERS)["problems"] if p["message"] == "'endpointName' is missing"
        ]
        assert (missing["line"], missing["column"], missing["node"]) == (2, 3, 1)
        assert underlined(text, missing) == "{"

    def test_what_is_no_json_has_its_fault_and_no_graph(self, mira):
        """The server goes on with the version before; the page shows what is on the disk."""
        assert mira.hub.snapshot().read(REVIEWERS)
        mira.write(REVIEWERS, '{"nodes": [\n  {"type": Standard}]}')
        value = get(mira, REVIEWERS)
        assert (value["kind"], value["graph"]) == ("unreadable", None)
        (fault,) = value["problems"]
        assert (fault["line"], fault["column"]) == (2, 12)
        assert (fault["end_line"], fault["end_column"]) == (2, 13)
        assert fault["message"] == "not JSON: a value is missing here"

    @pytest.mark.parametrize(
        ("document", "kind"),
        [
            ({"size": 4}, "settings"),
            ({}, "settings"),
            (5, "settings"),
            ([], "workflow"),
            ({"nodes": 5}, "workflow"),
        ],
    )
    def test_what_has_no_nodes_has_no_graph(self, mira, document, kind):
        mira.write(REVIEWERS, document)
        value = get(mira, REVIEWERS)
        assert (value["kind"], value["graph"]) == (kind, None)

    def test_bytes_that_no_page_can_show_as_they_are(self, mira):
        """Byte order mark and line ends of Windows move no place; secrets are masked, and counted as shown."""
        raw = b'\xef\xbb\xbf{"password": "hunter22", "nodes": [\r\n  {"type": "Standrad", "endpointName": "Big"}]}'
        mira.write(REVIEWERS, raw)
        value = get(mira, REVIEWERS)
        assert value["text"].startswith('{"password": "***", "nodes": [\n')
        (unknown,) = [problem for problem in value["problems"] if problem["level"] == "warning"]
        assert underlined(value["text"], unknown) == '"Standrad"'

    def test_names_are_looked_up_for_the_user_that_is_asked_for(self, mira):
        mira.users = ["mira", "jo"]
        mira.write("Users/jo.json", {"customWorkflowOverride": True, "customWorkflow": "Main"})
        mira.write("Workflows/jo/Main.json", [{"type": "CustomWorkflow", "workflowName": "Prose"}])
        mira.write("Workflows/jo/Prose.json", SAY)
        value = get(mira, REVIEWERS)
        assert value["user"] == "mira"
        assert value["graph"]["nodes"][3]["children"][1]["path"] is None
        as_jo = get(mira, REVIEWERS, "user=jo")
        assert as_jo["graph"]["nodes"][3]["children"][1]["path"] == "Workflows/jo/Prose.json"
        assert get(mira, "Workflows/jo/Main.json")["user"] == "jo"

    def test_the_picture_is_that_of_the_user(self, mira):
        """What a user's variables bring, and how many nodes of a group run at once."""
        document = [
            {"parallelGroup": "g", "prompt": "{town}"},
            {"parallelGroup": "g", "prompt": "{town}"},
            {},
            {"prompt": "{notes}"},
        ]
        mira.write(REVIEWERS, document)
        mira.write(
            "Users/jo.json", {"maxParallelNodes": 1, "userWideWorkflowVariables": {"notes": "{agent1Output}"}}
        )
        mira.users.append("jo")
        assert get(mira, REVIEWERS)["graph"]["rows"] == [[1, 2], [3], [4]]
        graph = get(mira, REVIEWERS, "user=jo")["graph"]
        assert graph["rows"] == [[1], [2], [3], [4]]
        assert graph["nodes"][3]["uses"] == [{"n": 1, "what": "output", "field": "prompt"}]

    def test_a_user_who_is_not_served_is_refused(self, mira):
        status, value = mira.ask("GET", f"workflows/{REVIEWERS}", query="user=ana")
        assert (status, value) == (400, {"error": 'user: found "ana", allowed: mira'})

    def test_a_child_may_lie_beside_its_caller_or_in_the_common_folder(self, mira):
        calls = [{"type": "CustomWorkflow", "workflowName": name} for name in ("Near", "All", "Main")]
        mira.write("Workflows/_shared/novel/_DefaultWorkflow.json", calls)
        mira.write("Workflows/_shared/novel/Near.json", SAY)
        mira.write("Workflows/_common/All.json", SAY)
        value = get(mira, "Workflows/_shared/novel/_DefaultWorkflow.json")
        assert [node["children"][0]["path"] for node in value["graph"]["nodes"]] == [
            "Workflows/_shared/novel/Near.json",
            "Workflows/_common/All.json",
            "Workflows/mira/Main.json",
        ]

    @pytest.mark.parametrize(
        "path", ["Workflows/mira/None.json", "Endpoints/Big.json", "Workflows/../Users/mira.json"]
    )
    def test_a_path_that_is_none(self, mira, path):
        assert mira.ask("GET", f"workflows/{path}") == (404, {"error": "no such file"})
        status, value = mira.ask("POST", "check", body={"path": path, "text": "[]"})
        assert (status, value) == (404, {"error": "no such file"})


class TestCheck:
    def test_a_text_is_checked_in_place_of_the_file(self, mira):
        """As the file is once it is saved: the same problems, the same graph, and nothing is written."""
        before = mira.bytes_of(REVIEWERS)
        text = TEXT.replace("{agent6Output}", "{foo}").replace('"CodeFix"', '"Main"')
        answer = checked(mira, text)
        assert mira.bytes_of(REVIEWERS) == before
        mira.write(REVIEWERS, text)
        saved = get(mira, REVIEWERS)
        assert answer == {"problems": saved["problems"], "graph": saved["graph"]}
        assert said(answer) == validated(mira, REVIEWERS)

    @pytest.mark.parametrize(
        "text",
        ["[]", "{}", '{"nodes": []}', '{"size": 4}', "7", "[5]", "", "[{}]", '{"nodes": [{}], "nodes": []}'],
    )
    def test_a_text_without_nodes(self, mira, text):
        """What the server would not take over is told in the words of a check that knows no older version."""
        mira.write("Users/mira.json", {"customWorkflowOverride": True, "customWorkflow": "Reviewers"})
        assert mira.hub.snapshot().read(REVIEWERS)
        answer = checked(mira, text)
        mira.write(REVIEWERS, text)
        assert said(answer) == validated(mira, REVIEWERS)
        assert answer["problems"] == get(mira, REVIEWERS)["problems"]

    def test_faults_in_other_files_that_the_text_makes_are_not_told(self, mira):
        """Problems are those of this file."""
        mira.write("Users/mira.json", {"customWorkflowOverride": True, "customWorkflow": "Reviewers"})
        mira.write("Workflows/mira/CodeFix.json", [{"type": "CustomWorkflow", "workflowName": "Gone"}])
        assert all(problem["pointer"].startswith("/nodes/") for problem in checked(mira, TEXT)["problems"])

    def test_a_text_that_is_no_json(self, mira):
        answer = checked(mira, '[{"a": 1 "b": 2}]')
        assert answer["graph"] is None
        (fault,) = answer["problems"]
        assert (fault["line"], fault["column"], fault["level"]) == (1, 10, "error")

    def test_names_for_another_user(self, mira):
        mira.users = ["mira", "jo"]
        mira.write("Users/jo.json", {"customWorkflowOverride": True, "customWorkflow": "Main"})
        mira.write("Workflows/jo/Prose.json", SAY)
        text = json.dumps([{"type": "CustomWorkflow", "workflowName": "Prose"}])
        paths = [
            checked(mira, text, user=user)["graph"]["nodes"][0]["children"][0]["path"]
            for user in ("mira", "jo")
        ]
        assert paths == [None, "Workflows/jo/Prose.json"]

    @pytest.mark.parametrize(
        ("body", "error"),
        [
            ({"path": REVIEWERS}, "text: found nothing, allowed: a string"),
            ({"path": REVIEWERS, "text": 5}, "text: found 5, allowed: a string"),
            ({"path": REVIEWERS, "text": "", "user": "ana"}, 'user: found "ana", allowed: mira'),
        ],
    )
    def test_a_body_that_is_wrong(self, mira, body, error):
        assert mira.ask("POST", "check", body=body) == (400, {"error": error})

    def test_a_text_of_over_a_megabyte_is_refused(self, mira):
        status, _ = mira.ask("POST", "check", body={"path": REVIEWERS, "text": "x" * (1 << 20)})
        assert status == 413

    def test_a_look_is_enough(self, mira):
        status, _ = mira.ask("POST", "check", body={"path": REVIEWERS, "text": "[]"}, rights=("look",))
        assert status == 200

    def test_a_console_of_no_user_checks_too(self, mira):
        """Whatever the user files say: a name leads nowhere then."""
        mira.write("Users/mira.json", "{")
        graph = checked(mira, TEXT)["graph"]
        assert [node["children"] and node["children"][0]["path"] for node in graph["nodes"]][3] is None
        assert graph["nodes"][0]["endpoint"]["file"] is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("\ud83d"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
NODES = st.dictionaries(
    st.sampled_from(
        ["type", "title", "endpointName", "prompt", "parallelGroup", "workflowName", "returnToUser"]
    ),
    VALUES | st.sampled_from(["Standard", "CustomWorkflow", "{agent1Output}", "Big", "Main", "../x", "g"]),
)
TEXTS = (
    st.text(max_size=40)
    | st.lists(NODES | VALUES, max_size=3).map(json.dumps)
    | st.lists(NODES | VALUES, max_size=3).map(lambda nodes: json.dumps({"nodes": nodes}))
    | st.text(st.sampled_from('{}[],:"\\/* \n\ufeffa1'), max_size=40)
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXTS)
def test_any_text_has_an_answer(mira, text):
    """Never 500; each problem lies in the text."""
    answer = checked(mira, text)
    lines = (text.replace("\r\n", "\n").replace("\r", "\n")).split("\n")
    for problem in answer["problems"]:
        assert 1 <= problem["line"] <= problem["end_line"] <= len(lines)
        assert problem["column"] >= 1


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(VALUES | st.dictionaries(st.sampled_from(["path", "text", "user", "x"]), VALUES), st.text(max_size=9))
def test_any_body_and_query_has_an_answer(mira, body, query):
    for method, path in (("POST", "check"), ("GET", "workflows"), ("GET", f"workflows/{REVIEWERS}")):
        status, _ = mira.ask(method, path, body=json.dumps(body).encode(), query=query)
        assert status in (200, 400, 404)


class TestTree:
    def test_files_stand_where_they_belong(self, mira):
        mira.users = ["mira", "jo"]
        mira.write("Users/jo.json", {"workflowConfigsSubDirectoryOverride": "team"})
        for file in (
            "team/deep/B",
            "_shared/novel/_DefaultWorkflow",
            "_shared/loose",
            "_common/All",
            "lost/X",
        ):
            mira.write(f"Workflows/{file}.json", SAY)
        status, tree = mira.ask("GET", "workflows")
        assert status == 200
        assert list(tree) == ["users", "shared", "common", "other"]
        names = {user["name"]: [file["name"] for file in user["files"]] for user in tree["users"]}
        assert names == {"mira": ["CodeFix", "Main", "Reviewers"], "jo": ["deep/B"]}
        assert [user["folder"] for user in tree["users"]] == ["mira", "team"]
        (shared,) = tree["shared"]
        assert (shared["folder"], shared["model"]) == ("_shared/novel", "mira:novel")
        assert [file["name"] for file in shared["files"]] == ["_DefaultWorkflow"]
        assert [file["path"] for file in tree["common"]] == ["Workflows/_common/All.json"]
        assert [file["name"] for file in tree["other"]] == ["_shared/loose", "lost/X"]

    def test_what_a_file_is(self, mira):
        mira.write("Users/mira.json", {"customWorkflowOverride": True, "customWorkflow": "Reviewers"})
        mira.write("Workflows/mira/Broken.json", "{")
        mira.write("Workflows/mira/Set.json", {"size": 4})
        files = {file["name"]: file for file in mira.ask("GET", "workflows")[1]["users"][0]["files"]}
        assert files["Reviewers"] == {
            "path": REVIEWERS,
            "name": "Reviewers",
            "kind": "workflow",
            "nodes": 6,
            "errors": 1,
            "warnings": 1,
            "unused": False,
            "starts": [],
            "last": None,
        }
        assert {name: (file["kind"], file["errors"]) for name, file in files.items()} == {
            "Broken": ("unreadable", 1),
            "CodeFix": ("workflow", 0),
            "Main": ("workflow", 0),
            "Reviewers": ("workflow", 1),
            "Set": ("settings", 0),
        }
        assert files["Main"]["unused"] is True

    def test_a_user_whose_file_is_broken_has_no_folder(self, mira):
        mira.write("Users/mira.json", "{")
        status, tree = mira.ask("GET", "workflows")
        assert (status, tree["users"]) == (200, [])
        assert "mira/Main" in [file["name"] for file in tree["other"]]


def a_run(
    id_: str, *nodes: tuple[int, float | None, str], path: str = REVIEWERS, ended: float = 5.0
) -> RunTrace:
    run = RunTrace(id_, "/v1/chat/completions", Observers(), wall=1760000000.1234, arrived=1.0)
    run.ended, run.state = ended, "done"
    for number, seconds, state in nodes:
        node = NodeTrace(path, number, "Standard", "", of=6)
        node.begun, node.ended = 2.0, 0.0 if seconds is None else 2.0 + seconds
        node.state = state
        run.nodes.append(node)
    return run


class TestLast:
    def test_the_newest_ended_run_of_a_file(self, mira):
        mira.runs = [
            a_run("running", (1, 1.0, "done"), ended=0.0),
            a_run("another", (1, 1.0, "done"), path="Workflows/mira/Main.json"),
            a_run("newest", (1, 1.6, "done"), (2, 0.5, "failed"), (2, 0.25, "done"), (3, None, "cancelled")),
            a_run("older", (1, 9.0, "done")),
        ]
        assert get(mira, REVIEWERS)["last"] == {
            "id": "newest",
            "at": 1760000000.123,
            "nodes": {
                "1": {"s": 1.6, "state": "done"},
                "2": {"s": 0.25, "state": "done"},
                "3": {"s": None, "state": "cancelled"},
            },
        }
        files = {file["name"]: file["last"] for file in mira.ask("GET", "workflows")[1]["users"][0]["files"]}
        assert files == {
            "CodeFix": None,
            "Main": {"id": "another", "at": 1760000000.123, "state": "done", "took_s": 4.0},
            "Reviewers": {"id": "newest", "at": 1760000000.123, "state": "done", "took_s": 4.0},
        }


EXAMPLES = INSTALL_DIRECTORY / "Public" / "Configs"
EXAMPLE_FLOWS = sorted(
    path.relative_to(EXAMPLES).as_posix() for path in (EXAMPLES / "Workflows").rglob("*.json")
)


@pytest.mark.parametrize("path", EXAMPLE_FLOWS)
def test_every_example_has_a_graph_and_no_problem(path):
    """Its user's names lead somewhere; settings have no graph."""
    tree = ConfigTree(EXAMPLES, workflow_check.own_errors)
    users = sorted(file.stem for file in (EXAMPLES / "Users").glob("[!_]*.json"))
    recorder = SimpleNamespace(runs=list, kept=dict, seq=0)
    hub = a_hub(snapshot=tree.snapshot, served_users=lambda: users, recorder=recorder)
    reply = Views(hub).answer(asking("GET", f"workflows/{path}"), ("look",))
    assert reply.status == 200
    value = reply.value
    assert [problem for problem in value["problems"] if problem["level"] != "note"] == []
    assert (value["graph"] is not None) is (value["kind"] == "workflow")
    for node in value["graph"]["nodes"] if value["graph"] else ():
        assert (
            node["endpoint"] is None
            or node["endpoint"]["name"] is None
            or node["endpoint"]["model"] is not None
        )
        assert all(child["path"] or child["text"] for child in node["children"])
