"""Find servers (workbench.md 6): what is asked, what is told, and the endpoint file that is written."""

from __future__ import annotations

import json
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from Middleware.api.console import find_views
from Middleware.api.console.view_contract import NotNow, Searches
from Middleware.llmapis import find_servers as finding
from Middleware.llmapis.find_servers import search_addresses
from tests.api.console.config_house import house
from tests.patience import PATIENCE_S

assert house
NEW = "Endpoints/Local.json"
OLLAMA = {
    "/api/version": {"version": "0.12.6"},
    "/api/tags": {"models": [{"name": "embed-it"}, {"name": "gemma3:4b"}]},
}


class Scripted(BaseHTTPRequestHandler):
    """Answers with the pages of its server, else 404."""

    def do_GET(self):
        page = self.server.pages.get(self.path)
        body = json.dumps(page or {"error": "?"}).encode()
        self.send_response(self.server.status if page is None else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *said):
        """Nothing."""


@pytest.fixture
def server():
    """`server(pages, status=404)`: a server on this machine, as `127.0.0.1:port`."""
    running = []

    def start(pages, status=404):
        made = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
        made.pages, made.status = pages, status
        Thread(target=made.serve_forever, daemon=True).start()
        running.append(made)
        return f"127.0.0.1:{made.server_port}"

    yield start
    for made in running:
        made.shutdown()
        made.server_close()


@pytest.fixture(autouse=True)
def usual(monkeypatch, tmp_path):
    """No usual port is asked: what listens there is not the test's. A slow machine has time."""
    monkeypatch.setattr(finding, "USUAL_PORTS", {})
    monkeypatch.setattr(find_views, "search_addresses", partial(search_addresses, limit_s=PATIENCE_S))
    monkeypatch.setattr(find_views, "CONTAINER_MARK", tmp_path / "no-container")


def find(house, *hosts, **request):
    return house.ask("POST", "find", body={"hosts": list(hosts)}, **request)


class TestFind:
    def test_what_is_told_of_a_server(self, house, server):
        """The model is chosen where one can be, and the file is shown that would be written."""
        place = server(OLLAMA)
        house.write("Endpoints/Mine.json", {"endpoint": f"http://{place}/", "apiTypeConfigFileName": "Api"})
        status, told = find(house, place)
        (one,) = told["servers"]
        assert (status, told["asked"]) == (200, [f"http://{place}"])
        document = json.loads(one.pop("file"))
        assert one == {
            "kind": "Ollama",
            "version": "0.12.6",
            "url": f"http://{place}",
            "models": ["embed-it", "gemma3:4b"],
            "used_by": ["Endpoints/Mine.json"],
            "api_type": "OllamaApiChat",
            "wants_key": False,
            "model": "gemma3:4b",
            "key_env": None,
        }
        assert (document["endpoint"], document["modelNameToSendToAPI"]) == (f"http://{place}", "gemma3:4b")
        assert 0 <= told["took_s"] < PATIENCE_S

    def test_one_that_wants_a_key(self, house, server):
        """No key is sent; the file names a variable for it."""
        _, told = find(house, server({}, 401))
        (one,) = told["servers"]
        assert one["wants_key"] is True and one["key_env"] == "MODEL_API_KEY"
        assert json.loads(one["file"])["apiKeyEnv"] == "MODEL_API_KEY"

    def test_another_headrace_has_no_file(self, house, server):
        pages = {**OLLAMA, "/health": {"status": "ok", "version": "1.0"}}
        (one,) = find(house, server(pages))[1]["servers"]
        assert (one["kind"], one["file"], one["api_type"]) == ("Headrace", None, None)

    def test_its_own_port_is_left_out(self, house):
        """However this machine is called."""
        body = {"hosts": ["localhost:5005", "127.0.0.1:5005"]}
        environ = {"SERVER_PORT": "5005"}
        ask = find_views.Ask(house.hub, ("act",), environ)
        assert find_views.own_ports(ask) == (5005,)
        assert finding.addresses_to_ask(body["hosts"], find_views.own_ports(ask)) == []

    @pytest.mark.parametrize(
        ("body", "said"),
        [
            ({"hosts": ["a", "b", "c", "d", "e"]}, "hosts: at most 4 hosts can be asked, found 5"),
            ({"hosts": ["ftp://box"]}, "hosts: 'ftp://box' is not the address of a server"),
            ({"hosts": [5]}, "hosts: found 5, allowed: a text"),
            ({"hosts": "box"}, "hosts"),
            ({}, "hosts"),
            ({"hosts": [], "more": 1}, "more"),
        ],
        ids=["many", "scheme", "number", "no-list", "none", "unknown"],
    )
    def test_odd_bodies_ask_nobody(self, house, monkeypatch, body, said):
        monkeypatch.setattr(find_views, "search_addresses", None)
        status, told = house.ask("POST", "find", body=body)
        assert status == 400 and said in told["error"]

    def test_not_again_at_once(self, house, server):
        """Each search begins five seconds after the last one."""
        place = server(OLLAMA)
        assert find(house, place)[0] == 200
        assert find(house, place) == (429, {"error": "servers were looked for within the last 5 seconds"})

    def test_a_host_that_is_refused_costs_no_search(self, house, server):
        assert find(house, "ftp://box")[0] == 400
        assert find(house, server(OLLAMA))[0] == 200

    def test_it_needs_the_right_to_act(self, house):
        assert find(house, rights=("look",))[0] == 403


class TestSearches:
    def test_the_clock_decides(self):
        now = [100.0]
        searches = Searches(lambda: now[0])
        searches.begin(5)
        with pytest.raises(NotNow) as refused:
            searches.begin(5)
        assert refused.value.wait_s == 5
        now[0] += 5
        searches.begin(5)


class TestHosts:
    def test_what_the_page_needs_before_it_asks(self, house):
        status, told = house.ask("GET", "find")
        assert (status, told["hosts"], told["folders"]) == (
            200,
            [],
            [{"folder": "Endpoints", "user": "mira"}],
        )

    def test_within_a_container_its_host_stands_in_the_field(self, house, monkeypatch, tmp_path):
        """To be sent or not."""
        monkeypatch.setattr(find_views, "CONTAINER_MARK", tmp_path)
        assert house.ask("GET", "find")[1]["hosts"] == ["host.docker.internal"]

    def test_the_built_in_model_can_be_replaced(self, house):
        house.write("ApiTypes/BuiltInDemo.json", {"type": "builtInDemo"})
        house.write("Endpoints/Big.json", {"endpoint": "", "apiTypeConfigFileName": "BuiltInDemo"})
        assert house.ask("GET", "find")[1]["demo"] == ["Endpoints/Big.json"]


def new(house, **fields):
    body = {"path": NEW, "url": "http://127.0.0.1:1234", "api_type": "Demo", "model": "gemma", **fields}
    return house.ask("POST", "endpoints", body=body)


class TestNewEndpoint:
    def test_a_file_is_written(self, house):
        """That endpoints of the examples look like, and that `--validate` has nothing against."""
        assert new(house) == (201, {"path": NEW, "user": "mira", "name": "Local"})
        document = json.loads(house.bytes_of(NEW))
        assert list(document)[:3] == ["endpoint", "apiTypeConfigFileName", "modelNameToSendToAPI"]
        assert document["modelNameToSendToAPI"] == "gemma" and "apiKey" not in document
        assert [line for line in house.findings() if line.startswith(NEW)] == []

    def test_it_can_be_probed_before_a_workflow_names_it(self, house):
        new(house)
        status, told = house.ask("POST", "endpoints/mira/Local/probe", body={})
        assert (status, told["well"]) == (200, True)

    def test_the_name_of_a_variable_is_written_never_a_key(self, house):
        assert new(house, key_env="MODEL_API_KEY")[0] == 201
        assert json.loads(house.bytes_of(NEW))["apiKeyEnv"] == "MODEL_API_KEY"

    def test_never_over_a_file(self, house):
        house.write(NEW, {"endpoint": "http://127.0.0.1:1"})
        before = house.bytes_of(NEW)
        assert new(house) == (409, {"error": f"{NEW} already exists"})
        assert house.bytes_of(NEW) == before

    @pytest.mark.parametrize(
        ("fields", "status"),
        [
            ({"path": "Endpoints/jo/Local.json"}, 404),
            ({"path": "Workflows/mira/Local.json"}, 404),
            ({"path": "Endpoints/../Users/Local.json"}, 404),
            ({"path": "Endpoints/..\\Local.json"}, 404),
            ({"path": "Endpoints/Local"}, 404),
            ({"path": "Endpoints/.json"}, 422),
            ({"path": "Endpoints/NUL.json"}, 422),
            ({"url": "ftp://box"}, 422),
            ({"url": ""}, 422),
            ({"api_type": "Nothing"}, 422),
            ({"key_env": "sk-abcdef"}, 422),
            ({"model": "\ud800"}, 422),
            ({"url": "http://box/\ud800"}, 422),
            ({"url": "http://box\0"}, 422),
            ({"model": 5}, 400),
            ({"more": 1}, 400),
        ],
        ids=lambda value: str(value),
    )
    def test_what_cannot_be_written_leaves_no_file(self, house, fields, status):
        before = sorted(house.root.rglob("*"))
        code, told = new(house, **fields)
        assert code == status and told["error"]
        assert "sk-abcdef" not in json.dumps(told)
        assert sorted(house.root.rglob("*")) == before

    def test_a_link_out_of_the_tree(self, house, tmp_path):
        """Nothing is written there."""
        away = tmp_path / "away"
        away.mkdir()
        house.write(
            "Users/mira.json", {"port": 5000, "endpointConfigsSubDirectory": "lan", "customWorkflow": "Main"}
        )
        (house.root / "Endpoints" / "lan").symlink_to(away, target_is_directory=True)
        assert new(house, path="Endpoints/lan/Local.json")[0] == 404
        assert list(away.iterdir()) == []

    def test_it_needs_the_right_to_save(self, house):
        assert house.ask("POST", "endpoints", body={}, rights=("look", "act"))[0] == 403
