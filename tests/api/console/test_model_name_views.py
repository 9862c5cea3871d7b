"""Who answers which model name (workbench.md 15): the page says what a request of each name does."""

from __future__ import annotations

import json
import re

import pytest

from Middleware.api.api_server import ApiServer
from Middleware.api.app import _App
from Middleware.api.console.hour import Call
from Middleware.api.requests.access import AccessRules, ConsoleWish, ServerRules
from Middleware.config.loader import default_snapshot
from tests.api.console.conftest import a_hub

SAY = [{"type": "StaticResponse", "content": "x"}]
ROUTING = {
    "CODE": {"description": "code", "workflow": "Code"},
    "FACTS": {"description": "facts", "workflow": "Gone"},
}
ASKS = {"X-Headrace-Console": "1"}


@pytest.fixture
def house(configs, facts):
    """Four users, each of whom answers in another way."""
    facts(users=("mira", "rex", "solo", "lost"))
    configs(
        "Users/mira.json",
        {
            "customWorkflowOverride": True,
            "customWorkflow": "Main",
            "allowSharedWorkflows": True,
            "exposeEndpoints": ["Big"],
        },
    )
    configs("Users/rex.json", {"routingConfig": "rex", "categorizationWorkflow": "PickRoute"})
    configs("Users/solo.json", {"port": 5000})
    configs("Users/lost.json", {"customWorkflowOverride": True, "customWorkflow": "Gone"})
    configs("Routing/rex.json", ROUTING)
    configs("ApiTypes/Demo.json", {"type": "builtInDemo"})
    configs("Endpoints/Big.json", {"endpoint": "", "apiTypeConfigFileName": "Demo"})
    configs("ModelAliases.json", {"fast": "mira:novel", "gpt-*": "mira"})
    for file in ("mira/Main", "rex/PickRoute", "rex/Code", "rex/_DefaultWorkflow", "solo/_DefaultWorkflow"):
        configs(f"Workflows/{file}.json", SAY)
    configs("Workflows/_shared/novel/_DefaultWorkflow.json", SAY)
    return configs


@pytest.fixture
def client(house):
    """A server with its engine."""
    app = _App("test", static_folder=None)
    ApiServer(app, ServerRules(AccessRules(), 0, ConsoleWish()))
    return app.test_client()


@pytest.fixture
def get(ask, house):
    """`get("mira")`: what is told of one name; `get()`: of all."""
    hub = a_hub(snapshot=default_snapshot)

    def get(name=None):
        status, value = ask("GET", f"model-names{'' if name is None else f'/{name}'}", hub=hub)
        assert status == 200, value
        return value

    get.hub = hub
    return get


def branch(file, category=None):
    found = f"Workflows/{file}.json"
    return {"category": category, "workflow": file.rpartition("/")[2], "file": found, "error": None}


class TestOneName:
    def test_a_workflow_of_the_user_file(self, get):
        told = get("mira")
        assert told == {
            "name": "mira",
            "user": "mira",
            "stands_for": None,
            "fell_back": False,
            "endpoint": None,
            "chooser": None,
            "branches": [branch("mira/Main")],
            "said_in": {"file": "Users/mira.json", "setting": "customWorkflow"},
            "error": None,
            "status": None,
        }

    def test_a_shared_workflow_is_found_by_its_folder(self, get):
        told = get("mira:novel")
        assert told["branches"] == [branch("_shared/novel/_DefaultWorkflow")]
        assert told["said_in"] == {"file": None, "setting": None}

    def test_a_route_names_all_that_may_answer(self, get):
        """And the one that chooses; a route that leads nowhere has the sentence of its refusal."""
        told = get("rex")
        assert told["chooser"] == branch("rex/PickRoute")
        code, facts, otherwise = told["branches"]
        assert (code, otherwise) == (branch("rex/Code", "CODE"), branch("rex/_DefaultWorkflow", "else"))
        assert (facts["category"], facts["file"]) == ("FACTS", None)
        assert 'no workflow "Gone"' in facts["error"] and "Routing/rex.json" in facts["error"]
        assert told["said_in"] == {"file": "Routing/rex.json", "setting": None}

    def test_one_category_needs_nobody_who_chooses(self, get, house):
        house("Routing/rex.json", {"CODE": ROUTING["CODE"]})
        told = get("rex")
        assert told["chooser"] is None and told["branches"] == [branch("rex/Code")]
        assert told["said_in"] == {"file": "Routing/rex.json", "setting": "CODE"}

    def test_a_user_without_either_has_a_default(self, get):
        assert get("solo")["branches"] == [branch("solo/_DefaultWorkflow")]

    def test_an_endpoint_answers_without_a_workflow(self, get):
        told = get("mira:raw/Big")
        assert (told["endpoint"], told["branches"]) == ("Big", [])
        assert told["said_in"] == {"file": "Users/mira.json", "setting": "exposeEndpoints"}

    @pytest.mark.parametrize(("name", "target"), [("fast", "mira:novel"), ("GPT-4o", "mira")])
    def test_an_alias_stands_for_another_name(self, get, name, target):
        told = get(name)
        assert (told["stands_for"], told["branches"]) == (target, get(target)["branches"])
        assert told["said_in"]["file"] == "ModelAliases.json"

    def test_a_name_that_falls_back(self, get):
        told = get("mira:nothere")
        assert told["fell_back"] is True and told["branches"] == [branch("mira/Main")]

    def test_no_secret_of_the_server_is_quoted(self, get, house):
        house("Users/lost.json", {"customWorkflowOverride": True, "customWorkflow": "sk-abcdefgh12345678"})
        assert "sk-abcdefgh12345678" not in json.dumps(get("lost")["branches"][0]["error"])


class TestTable:
    def test_all_names_as_model_lists_have_them(self, get):
        """Then those that can be picked although no list has them, then the patterns of the aliases."""
        told = get()["names"]
        listed = ["mira", "mira:novel", "mira:raw/Big", "fast", "rex", "solo", "lost"]
        assert [one["name"] for one in told if one["listed"]] == listed
        others = ["rex:novel", "solo:novel", "lost:novel", "gpt-*"]
        assert [one["name"] for one in told if not one["listed"]] == others

    def test_names_that_fell_back_within_the_hour(self, get, client):
        """Those of older runs are not told."""
        for name in ("mira:old", "mira:old", "mira"):
            client.post(
                "/v1/chat/completions", json={"model": name, "messages": [{"role": "user", "content": "Hi"}]}
            )
        told = client.get("/console/api/model-names", headers=ASKS).json["fell_back"]
        assert [(one["name"], one["user"], one["count"]) for one in told] == [("mira:old", "mira", 2)]


NAMES = ["mira", "mira:novel", "mira:raw/Big", "mira:raw/None", "mira:nothere", "fast", "gpt-5", "nobody", "solo", "lost", "rex"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_request_of_the_name_does_what_is_told(house, client, name):
    """It runs that workflow, or is refused in that sentence (row 16)."""
    told = client.get(f"/console/api/model-names/{name}", headers=ASKS).json
    body = {"model": name, "messages": [{"role": "user", "content": "Hi"}]}
    answer = client.post("/v1/chat/completions", json=body)
    error = told["error"] or next((one["error"] for one in told["branches"] if not one["category"]), None)
    if error:
        assert re.sub(r" \(request .*\)$", "", answer.json["error"]["message"]) == error
        return
    assert answer.status_code == 200, answer.json
    (run,) = client.get("/console/api/runs", headers=ASKS).json["runs"]
    nodes = client.get(f"/console/api/runs/{run['id']}", headers=ASKS).json["nodes"]
    ran = {node["workflow"] for node in nodes if node["depth"] == 0 and node["state"] != "not_run"}
    told_files = {one["file"] for one in [*told["branches"], told["chooser"]] if one}
    assert ran <= told_files if told_files else nodes[0]["endpoint"] == told["endpoint"]
    assert told["user"] == run["user"]


def test_the_tree_marks_what_requests_begin_with(get, ask):
    """By the same answers (workbench.md 15)."""
    status, tree = ask("GET", "workflows", hub=get.hub)
    assert status == 200
    files = [file for part in (*tree["users"], *tree["shared"]) for file in part["files"]]
    starts = {file["path"].removeprefix("Workflows/"): file["starts"] for file in [*files, *tree["other"]]}
    assert starts["mira/Main.json"] == ["mira"]
    assert starts["_shared/novel/_DefaultWorkflow.json"] == [
        "mira:novel",
        "rex:novel",
        "solo:novel",
        "lost:novel",
    ]
    assert (starts["rex/PickRoute.json"], starts["rex/Code.json"]) == (["rex"], [])


class TestWhoNeedsAnEndpoint:
    """A card of an endpoint that fails says whose requests of which model names need it."""

    @pytest.fixture
    def card(self, ask, house):
        """`card(ok)`: of `Big`, whose last call was so; mira's workflow runs another one that asks it."""
        house("ApiTypes/Demo.json", {"type": "openAIChatCompletion"})
        house("Endpoints/Big.json", {"endpoint": "http://127.0.0.1:9", "apiTypeConfigFileName": "Demo"})
        house("Workflows/mira/Main.json", [{"type": "CustomWorkflow", "workflowName": "Inner"}])
        house("Workflows/mira/Inner.json", [{"type": "Standard", "endpointName": "Big", "prompt": "x"}])
        hub = a_hub(snapshot=default_snapshot, served_users=lambda: ["mira"])

        def get(ok):
            hub.hour._calls_of("mira", "Big").append(Call(10.0, None, None, ok, "timeout", ""))
            status, value = ask("GET", "endpoints", hub=hub)
            assert status == 200
            return next(one for one in value["endpoints"] if one["name"] == "Big")

        return get

    def test_names_that_reach_it_however_deep(self, card):
        """And the name under which it answers by itself. An alias and a shared workflow need it not."""
        assert card(False)["affects"] == [{"user": "mira", "names": ["mira", "mira:raw/Big"]}]

    def test_whoever_has_its_address_and_has_not_called_yet_would_be(self, ask, house):
        """They have no call that failed, so nothing else says that theirs will."""
        house("ApiTypes/Demo.json", {"type": "openAIChatCompletion"})
        for name, port in (("Big", 9), ("Twin", 9), ("Far", 8)):
            house(
                f"Endpoints/{name}.json",
                {"endpoint": f"http://127.0.0.1:{port}", "apiTypeConfigFileName": "Demo"},
            )
        nodes = [{"type": "Standard", "endpointName": name, "prompt": "x"} for name in ("Big", "Twin", "Far")]
        house("Workflows/mira/Main.json", nodes)
        hub = a_hub(snapshot=default_snapshot, served_users=lambda: ["mira"])
        hub.hour._calls_of("mira", "Big").append(Call(10.0, None, None, False, "connect_error", ""))
        cards = {one["name"]: one["affects"] for one in ask("GET", "endpoints", hub=hub)[1]["endpoints"]}
        assert cards["Twin"] == [{"user": "mira", "names": ["mira"]}]
        assert cards["Far"] == []

    def test_a_broken_file_affects_as_a_server_that_is_down(self, ask, house):
        """Before anybody has asked."""
        house("Endpoints/Big.json", {"endpoint": 7})
        house("Workflows/mira/Main.json", [{"type": "Standard", "endpointName": "Big", "prompt": "x"}])
        hub = a_hub(snapshot=default_snapshot, served_users=lambda: ["mira"])
        [card] = [one for one in ask("GET", "endpoints", hub=hub)[1]["endpoints"] if one["name"] == "Big"]
        assert (card["state"], card["last_error"]["kind"]) == ("quiet", "config_error")
        assert [one["user"] for one in card["affects"]] == ["mira"]

    def test_nobody_is_affected_while_it_is_well(self, card):
        assert card(True)["affects"] == []
