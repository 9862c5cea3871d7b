"""The page of the endpoints: its list, and the probe over a real socket. Source: console.md 10."""

from __future__ import annotations

import json

import pytest

from Middleware.api.console import endpoint_views
from Middleware.api.console.endpoint_views import ROUTES, failing_count
from Middleware.api.console.hour import Call, Hour
from Middleware.config.endpoints import load_endpoint
from Middleware.config.loader import ConfigTree
from Middleware.config.users import load_user
from Middleware.llmapis.addresses import Outages, servers_of
from Middleware.llmapis.failover import take_slots
from tests.api.console.conftest import a_hub
from tests.api.model_server import TOKEN, ModelHandler, model_server

KEY = "sk-abcdefghijklmnop"


class Model(ModelHandler):
    """One that is `strict` takes no key, and says which it got."""

    def answer_call(self):
        if self.server.strict:
            said = {"error": {"message": f"no such key: {self.headers['Authorization']}"}}
            self.answer(json.dumps(said).encode(), "application/json", 401)
        else:
            self.answer(TOKEN, "text/event-stream")


@pytest.fixture
def model():
    with model_server(Model) as server:
        server.strict = False
        yield server


class House:
    """A config tree, the calls that were made, and the routes over both."""

    def __init__(self, root, ask, url):
        self.root, self._ask, self.url = root, ask, url
        self.users = ["mira"]
        self.write("ApiTypes/Api", {"type": "openAIChatCompletion", "streamPropertyName": "stream"})
        self.write("Users/mira", {"customWorkflowOverride": True, "customWorkflow": "Main"})
        self.nodes({"endpointName": "Big"})
        self.endpoint("Big")
        self.hour = Hour()
        self.hub = a_hub(
            hour=self.hour, snapshot=lambda: ConfigTree(root).snapshot(), served_users=lambda: self.users
        )

    def write(self, file, document):
        path = self.root / f"{file}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(document if isinstance(document, str) else json.dumps(document))

    def nodes(self, *nodes, file="Workflows/mira/Main"):
        self.write(file, [{"type": "Standard", "prompt": "x", **node} for node in nodes])

    def endpoint(self, name, **fields):
        known = {"endpoint": self.url, "apiTypeConfigFileName": "Api", "modelNameToSendToAPI": "tiny"}
        self.write(f"Endpoints/{name}", {**known, **fields})

    def called(self, *calls, user="mira", name="Big"):
        """Calls as `(begin, first_s, rate, ok, kind, text)`, as the hour has noted them."""
        self.hour._calls_of(user, name).extend(Call(*call) for call in calls)

    def get(self):
        status, value = self._ask("GET", "endpoints", hub=self.hub, routes=ROUTES)
        assert status == 200
        return value["endpoints"]

    def probe(self, path="mira/Big", **request):
        return self._ask("POST", f"endpoints/{path}/probe", hub=self.hub, routes=ROUTES, **request)


@pytest.fixture
def known(monkeypatch):
    """What is known of outages, at a time that stands still."""
    made = Outages(lambda: 100.0)
    monkeypatch.setattr(endpoint_views, "outages", lambda: made)
    return made


@pytest.fixture
def house(tmp_path, ask, model):
    return House(tmp_path / "Configs", ask, f"http://127.0.0.1:{model.server_port}")


class TestList:
    def test_an_endpoint_that_nobody_called(self, house):
        """The whole shape."""
        assert house.get() == [
            {
                "user": "mira",
                "name": "Big",
                "users": ["mira"],
                "file": "Endpoints/Big.json",
                "type": "Api",
                "backend": "openAIChatCompletion",
                "url": house.url,
                "model": "tiny",
                "embeddings": False,
                "gate": None,
                "state": "quiet",
                "since": None,
                "last_error": None,
                "addresses": [],
                "calls": [],
                "median": {"first_s": None, "rate": None},
                "held": None,
                "affects": [],
                "used_by": ["Workflows/mira/Main.json"],
                "probe": None,
            }
        ]

    def test_its_calls(self, house):
        """One that was broken off is neither well nor failed, and is not told."""
        house.called(
            (10.0, 0.5, 31.0, True),
            (11.0, 0.7, None, None),
            (12.0, None, None, False, "timeout", "no answer"),
        )
        [one] = house.get()
        assert (one["state"], one["since"], one["median"]) == (
            "failing",
            12.0,
            {"first_s": 0.6, "rate": 31.0},
        )
        assert one["calls"] == [[10.0, 0.5, 31.0, True], [12.0, None, None, False]]
        assert one["last_error"] == {
            "at": 12.0,
            "kind": "timeout",
            "text": "no answer",
            "advice": "it may be busy or still loading its model: check its log, then try again",
        }

    @pytest.mark.parametrize(
        ("kind", "advice"),
        [
            (
                "auth",
                "it rejects this key: correct `apiKey` in Endpoints/Big.json, or the variable that `apiKeyEnv` names",
            ),
            (
                "slot_timeout",
                "more requests need it than `maxConcurrentRequests` in Endpoints/Big.json or --concurrency allows",
            ),
            ("something new", "look at the server's log"),
        ],
    )
    def test_advice_for_a_failure(self, house, kind, advice):
        house.called((12.0, None, None, False, kind, ""))
        assert house.get()[0]["last_error"]["advice"] == advice

    def test_the_gate(self, house):
        """Those that hold a slot now."""
        house.endpoint("Big", maxConcurrentRequests=2)
        endpoint = loaded(house, "Big")
        slots = take_slots(endpoint, None, whole_process=False)
        try:
            assert house.get()[0]["gate"] == {"limit": 2, "running": 1, "waiting": 0}
        finally:
            slots.close()

    def test_several_addresses(self, house, known):
        """Each with its calls, those that are under way, and for how long it is left out."""
        other = "http://u:pw123456@10.0.0.2:8080"
        house.endpoint("Big", moreEndpoints=[other])
        house.called(
            (10.0, 0.5, 31.0, True, "", "", house.url),
            (11.0, None, None, False, "timeout", "x", other),
            (12.0, None, None, None, "", "", other),
        )
        known.note_failure(other, 0.0)
        stop = servers_of(loaded(house, "Big")).enter(lambda under_way: house.url)
        try:
            [one] = house.get()
        finally:
            stop.release()
        well = {"url": house.url, "state": "well", "since": 10.0, "calls": 1, "failed": 0}
        failing = {"url": "http://u:***@10.0.0.2:8080", "state": "failing", "since": 11.0}
        assert one["addresses"] == [
            {**well, "running": 1, "out_s": 0},
            {**failing, "calls": 1, "failed": 1, "running": 0, "out_s": 5.0},
        ]
        assert one["gate"] is None

    def test_the_gate_of_several_addresses(self, house):
        """The sum of all."""
        house.endpoint("Big", moreEndpoints=["http://10.0.0.2:8080"], maxConcurrentRequests=2)
        stop = servers_of(loaded(house, "Big")).enter(lambda under_way: house.url)
        try:
            assert house.get()[0]["gate"] == {"limit": 4, "running": 1, "waiting": 0}
        finally:
            stop.release()

    def test_whom_it_serves(self, house):
        """By name, by a variable of the file, and as a backup; a file that nothing leads to serves nothing."""
        house.write(
            "Workflows/mira/Main",
            {
                "writer": "Small",
                "nodes": [
                    {"endpointName": "{writer}", "prompt": "x"},
                    {"endpointName": "Big", "prompt": "x"},
                ],
            },
        )
        house.endpoint("Big", backupEndpointName="Spare")
        for name in ("Small", "Spare", "Idle"):
            house.endpoint(name)
        main = ["Workflows/mira/Main.json"]
        assert [(one["name"], one["used_by"]) for one in house.get()] == [
            ("Big", main),
            ("Idle", []),
            ("Small", main),
            ("Spare", main),
        ]

    def test_one_card_for_each_file(self, house):
        """Whoever uses it, with the health of all their calls (workbench.md 16.3). A user whose file is broken
        has none."""
        house.write("Users/jo", {"customWorkflowOverride": True, "customWorkflow": "Main"})
        house.nodes({"endpointName": "Big"}, file="Workflows/jo/Main")
        house.write("Users/ann", "{")
        house.users = ["mira", "jo", "ann"]
        house.called((10.0, 0.5, 30.0, True), (12.0, None, None, False, "timeout", ""))
        house.called((11.0, 0.7, 40.0, True), (13.0, 0.9, 50.0, True), user="jo")
        (one,) = house.get()
        assert (one["user"], one["users"]) == ("mira", ["mira", "jo"])
        assert one["used_by"] == ["Workflows/mira/Main.json", "Workflows/jo/Main.json"]
        assert [call[0] for call in one["calls"]] == [10.0, 11.0, 12.0, 13.0]
        assert (one["state"], one["since"]) == ("well", 13.0)
        assert one["median"] == {"first_s": 0.7, "rate": 40.0} and one["last_error"]["at"] == 12.0

    def test_files_of_one_name_are_two(self, house):
        house.write(
            "Users/jo",
            {"customWorkflowOverride": True, "customWorkflow": "Main", "endpointConfigsSubDirectory": "lan"},
        )
        house.nodes({"endpointName": "Big"}, file="Workflows/jo/Main")
        house.endpoint("lan/Big")
        house.users = ["mira", "jo"]
        assert [(one["file"], one["users"]) for one in house.get()] == [
            ("Endpoints/Big.json", ["mira"]),
            ("Endpoints/lan/Big.json", ["jo"]),
        ]

    def test_those_that_fail_stand_first_and_unused_ones_last(self, house):
        house.nodes(*({"endpointName": name} for name in ("Big", "Down", "Broken", "Used")))
        for name in ("Down", "Used"):
            house.endpoint(name)
        house.write("Endpoints/Broken", "{")
        house.called((12.0, None, None, False, "timeout", ""), name="Down")
        house.called((12.0, 0.5, 30.0, True), name="Used")
        assert [one["name"] for one in house.get()] == ["Broken", "Down", "Used", "Big"]

    def test_one_whose_file_is_broken(self, house):
        house.write("Endpoints/Big", '{"endpoint": ')
        [one] = house.get()
        assert (one["file"], one["url"], one["state"]) == ("Endpoints/Big.json", "", "quiet")
        assert one["last_error"]["kind"] == "config_error"
        assert "Endpoints/Big.json" in one["last_error"]["text"]

    def test_the_built_in_demo_has_no_address(self, house):
        """Whatever its file says."""
        house.write("ApiTypes/Api", {"type": "builtInDemo"})
        assert house.get()[0]["url"] == ""

    @pytest.mark.parametrize("url", ["http://[::1", "no address", "http://h:port"])
    def test_an_address_that_is_none(self, house, url):
        house.endpoint("Big", endpoint=url)
        assert house.get()[0]["url"] == url

    def test_one_for_vectors(self, house):
        house.write("ApiTypes/Api", {"type": "openAIEmbeddings"})
        assert house.get()[0]["embeddings"] is True

    def test_no_secret(self, house, monkeypatch):
        """Neither in the address nor in what an error quotes."""
        monkeypatch.setenv("TEAM", "value-of-the-team")
        house.endpoint(
            "Big",
            endpoint="http://u:pw123456@h:1",
            apiKey=KEY,
            extraHeaders={"X-Team": "${ENV:TEAM}", "X-Api-Token": "Bearer zzzzzzzz", "X-Plain": "plainplain"},
        )
        text = f"{KEY} pw123456 value-of-the-team zzzzzzzz plainplain"
        house.called((12.0, None, None, False, "auth", text))
        [one] = house.get()
        assert one["url"] == "http://u:***@h:1"
        assert one["last_error"]["text"] == "*** *** *** *** plainplain"


class TestHowManyFail:
    """The number that the bar of every page shows."""

    def count(self, house):
        assert sum(one["state"] == "failing" for one in house.get()) == failing_count(house.hub)
        return failing_count(house.hub)

    def test_it_is_that_of_the_cards(self, house):
        assert self.count(house) == 0
        house.called((10.0, 0.5, 31.0, True), (11.0, None, None, False, "timeout", "no answer"))
        assert self.count(house) == 1
        house.called((12.0, None, None, None))
        assert self.count(house) == 1
        house.called((13.0, 0.5, 31.0, True))
        assert self.count(house) == 0

    def test_a_file_that_users_share_counts_once(self, house):
        """Its newest call tells, whoever made it."""
        house.users = ["mira", "jo"]
        house.write("Users/jo", {"customWorkflowOverride": True, "customWorkflow": "Main"})
        house.nodes({"endpointName": "Big"}, file="Workflows/jo/Main")
        house.called((10.0, None, None, False, "timeout", ""))
        house.called((11.0, None, None, False, "timeout", ""), user="jo")
        assert self.count(house) == 1
        house.called((12.0, 0.5, 31.0, True), user="jo")
        assert self.count(house) == 0

    def test_what_has_no_card_does_not_count(self, house):
        """Of a user who is not served, of one without a file, and an endpoint that is gone."""
        failure = (10.0, None, None, False, "timeout", "")
        house.called(failure, user="jo")
        house.called(failure, name="Gone")
        house.users = ["mira", "rex"]
        house.called(failure, user="rex")
        assert self.count(house) == 0

    def test_no_file_is_read_while_nothing_fails(self, house):
        """It is asked for with every state."""
        house.called((10.0, 0.5, 31.0, True))
        assert failing_count(a_hub(hour=house.hour, snapshot=None)) == 0


def loaded(house, name):
    snapshot = house.hub.snapshot()
    return load_endpoint(snapshot, load_user(snapshot, "mira"), name)


class TestProbe:
    def test_one_that_is_well(self, house, model):
        """In the doctor's words, and kept for the list."""
        status, value = house.probe()
        assert status == 200
        assert value["line"].startswith(
            f'Endpoints/Big.json: ok: {house.url}: reachable, model "tiny" known, '
        )
        assert (value["well"], value["symptom"], value["models"]) == (True, "", ["tiny"])
        assert value["model_is_listed"] is True
        assert model.calls == ["/v1/chat/completions"]
        assert house.get()[0]["probe"] == value

    def test_one_that_is_not(self, house):
        house.endpoint("Big", endpoint="http://127.0.0.1:9")
        status, value = house.probe()
        assert (status, value["well"], value["symptom"], value["seconds"]) == (200, False, "refused", None)
        assert value["line"].endswith("start the server, or correct `endpoint` in Endpoints/Big.json")

    def test_several_addresses(self, house, model):
        """A line for each; one that fails makes it unwell."""
        house.endpoint("Big", moreEndpoints=["http://127.0.0.1:9"])
        _, value = house.probe()
        assert value["line"].startswith(f"Endpoints/Big.json: ok: {house.url}: reachable")
        [other] = value["others"]
        assert other.startswith("Endpoints/Big.json: error: http://127.0.0.1:9: cannot connect")
        assert other.endswith("or correct `moreEndpoints` in Endpoints/Big.json")
        assert value["well"] is False

    def test_a_server_that_quotes_the_key(self, house, model):
        """It is told without."""
        model.strict = True
        house.endpoint("Big", apiKey=KEY)
        _, value = house.probe()
        assert (value["well"], value["symptom"]) == (False, "auth")
        assert "no such key: Bearer ***" in value["line"] and KEY not in json.dumps(value)

    def test_one_whose_file_is_broken(self, house):
        house.write("Endpoints/Big", '{"endpoint": ')
        _, value = house.probe()
        assert (value["well"], value["symptom"], value["models"]) == (False, "config_error", [])
        assert value["line"].startswith("endpoint Big: error: Endpoints/Big.json")

    def test_a_body_with_fields(self, house, model):
        """Nothing is asked."""
        assert house.probe(body={"tries": 3}) == (
            400,
            {"error": '"tries" is not a field of this body, allowed: none'},
        )
        assert model.calls == []

    def test_again_at_once(self, house, model):
        """The model is not asked a second time."""
        house.probe()
        assert house.probe() == (429, {"error": "this endpoint was probed within the last 10 seconds"})
        assert len(model.calls) == 1

    def test_a_file_that_no_workflow_names_yet(self, house, model):
        """Find servers writes such files, and probes them (workbench.md 6)."""
        house.endpoint("Idle")
        assert house.probe("mira/Idle")[0] == 200 and len(model.calls) == 1

    @pytest.mark.parametrize("path", ["mira/Nobody", "jo/Big", "mira/..", "mira/Big.json"])
    def test_what_no_served_user_reaches(self, house, path):
        house.write("Users/jo", {"customWorkflowOverride": True, "customWorkflow": "Main"})
        house.nodes({"endpointName": "Big"}, file="Workflows/jo/Main")
        assert house.probe(path) == (
            404,
            {"error": "no such endpoint: no workflow of a served user uses it, and none has its file"},
        )

    def test_it_needs_a_right(self, house):
        """Looking is not calling."""
        assert house.probe(rights=("look",))[0] == 403
