"""Model servers are found by what they answer, at the usual ports and at named hosts, and nowhere else."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from Middleware.common.constants import KEY_CHALLENGE
from Middleware.llmapis import find_servers as finding
from Middleware.llmapis.find_servers import (
    ANY_SERVER,
    HEADRACE,
    MOST_BYTES,
    FoundServer,
    addresses_to_ask,
    files_that_use,
    find_servers,
    own_files_that_use,
    search_addresses,
)
from tests.patience import PATIENCE_S, growing_limits

CAPTURES = Path(__file__).resolve().parents[1] / "fixtures" / "captures"
MODELS = {"object": "list", "data": [{"id": "tiny"}, {"id": "other"}]}
OLLAMA = {"/api/version": {"version": "0.12.6"}, "/api/tags": {"models": [{"name": "gemma3:4b"}]}}
LLAMACPP = {"/props": json.loads((CAPTURES / "llamacpp/props.txt").read_text("utf-8")), "/v1/models": MODELS}
KOBOLDCPP = {
    "/api/extra/version": json.loads((CAPTURES / "koboldcpp/api_extra_version.txt").read_text("utf-8"))
}
LMSTUDIO = {"/api/v0/models": {"object": "list", "data": []}, "/v1/models": MODELS}
VLLM = {"/version": {"version": "0.9.1"}, "/v1/models": MODELS}
NAMES = ("tiny", "other")


@pytest.fixture
def server(serve, rig):
    """`server({path: JSON value or whole answer})`: every other path is 404, in JSON. An empty answer: the connection
    is closed."""

    def start(pages):
        def script(peer):
            while request := peer.request():
                page = pages.get(request["line"].split()[1], rig.json_answer({"error": "?"}, "404 Not Found"))
                if page == b"":
                    return
                peer.send(page if isinstance(page, bytes) else rig.json_answer(page))

        return serve(script)

    return start


def found_at(stand_in):
    """What a search of this one address gives."""
    (server,) = search_addresses([stand_in.url], PATIENCE_S).servers
    return server


def paths(stand_in):
    return [request["line"].split()[1] for request in stand_in.requests]


class TestKinds:
    @pytest.mark.parametrize(
        ("pages", "kind", "api_type", "models"),
        [
            (OLLAMA, "Ollama", "OllamaApiChat", ("gemma3:4b",)),
            (LLAMACPP, "llama.cpp", "LlamaCppServer", NAMES),
            (LMSTUDIO, "LM Studio", "Open-AI-API", NAMES),
            (KOBOLDCPP, "KoboldCpp", "KoboldCpp", ()),
            (VLLM, "vLLM", "vLLM", NAMES),
            ({"/v1/models": MODELS}, ANY_SERVER, "Open-AI-API", NAMES),
        ],
        ids=["ollama", "llamacpp", "lmstudio", "koboldcpp", "vllm", "others"],
    )
    def test_each_is_known(self, server, pages, kind, api_type, models):
        """At a port that is none of the usual ones, all kinds are looked for."""
        found = found_at(server(pages))
        assert (found.kind, found.api_type, found.models, found.wants_key) == (kind, api_type, models, False)

    @pytest.mark.parametrize(
        ("pages", "version"),
        [(OLLAMA, "0.12.6"), (VLLM, "0.9.1"), (LLAMACPP, LLAMACPP["/props"]["build_info"])],
        ids=["ollama", "vllm", "llamacpp"],
    )
    def test_they_say_their_version(self, server, pages, version):
        assert version and found_at(server(pages)).version == version

    def test_closed_llamacpp_is_known_by_the_owner_of_its_model(self, server, rig):
        """With a key its settings are closed, and its list is open."""
        models = {"data": [{"id": "tiny", "owned_by": "llamacpp"}]}
        denied = rig.json_answer({"error": {"code": 401}}, "401 Unauthorized")
        found = found_at(server({"/props": denied, "/v1/models": models}))
        assert (found.kind, found.models, found.wants_key) == ("llama.cpp", ("tiny",), True)

    @pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
    def test_a_server_that_wants_a_key(self, server, rig, status):
        """It is told, without a guess at its kind."""
        stand_in = server({"/v1/models": rig.json_answer({"error": "no key"}, status)})
        assert found_at(stand_in) == FoundServer(stand_in.url, ANY_SERVER, "Open-AI-API", wants_key=True)

    def test_another_headrace(self, server):
        """It speaks the language of all kinds, and is no model server."""
        health = {"/health": {"status": "ok", "version": "1.0.0"}}
        found = found_at(server({**OLLAMA, **LLAMACPP, **KOBOLDCPP, **VLLM, **health}))
        assert (found.kind, found.version, found.api_type) == (HEADRACE, "1.0.0", "")

    def test_another_headrace_that_wants_a_key(self, server, rig):
        """It tells its version to nobody without one; its challenge has a name."""
        refused = rig.json_answer({"error": "no key"}, "401 Unauthorized", www_authenticate=KEY_CHALLENGE)
        found = found_at(server({"/v1/models": refused, "/health": {"status": "ok"}}))
        assert (found.kind, found.version, found.api_type, found.wants_key) == (HEADRACE, "", "", True)

    def test_a_server_without_a_health(self, server, rig):
        """It closes the connection on what it does not know."""
        assert found_at(server({**OLLAMA, "/health": b""})).kind == "Ollama"

    def test_the_health_of_llamacpp_is_none_of_a_headrace(self, server):
        """It says no version."""
        assert found_at(server({**LLAMACPP, "/health": {"status": "ok"}})).kind == "llama.cpp"

    def test_at_a_usual_port_its_own_kinds_are_looked_for(self, server, monkeypatch):
        """So an Ollama is asked two things, and whether it is a Headrace."""
        stand_in = server({**OLLAMA, **LLAMACPP})
        monkeypatch.setattr(finding, "USUAL_PORTS", {stand_in.port: (finding.OLLAMA,)})
        assert found_at(stand_in).kind == "Ollama"
        assert paths(stand_in) == ["/api/version", "/api/tags", "/health"]


class TestWhatIsLeftOut:
    def test_pages_for_people(self, server, rig):
        """Whatever their status: a program that is no model server at a usual port."""
        page = b"<html>hello</html>"
        sent = [
            rig.head(status, content_type="text/html", content_length=str(len(page))) + page
            for status in ("200 OK", "403 Forbidden")
        ]
        stands = [server({"/v1/models": one, "/props": one}) for one in sent]
        assert search_addresses([one.url for one in stands], PATIENCE_S).servers == ()

    @pytest.mark.parametrize("body", [[], {"data": "x"}, {"version": 3}, "ok", None, 7], ids=repr)
    def test_other_json(self, server, body):
        pages = dict.fromkeys(["/v1/models", "/props", "/api/version", "/version", "/api/v0/models"], body)
        assert search_addresses([server(pages).url], PATIENCE_S).servers == ()

    def test_a_redirect_is_not_followed(self, server, rig):
        """It might lead anywhere."""
        target = server(OLLAMA)
        away = rig.head("302 Found", location=f"{target.url}/api/version", content_length="0")
        stand_in = server(dict.fromkeys(["/api/version", "/v1/models"], away))
        assert search_addresses([stand_in.url], PATIENCE_S).servers == ()
        assert target.requests == [] and stand_in.requests

    def test_names_that_no_terminal_can_show(self, server):
        """They may steer it; nor are whole books names."""
        listed = ["tiny", "\x1b[2Jgone", "two\nlines", "x" * 300, "Größe"]
        found = found_at(server({"/v1/models": {"data": [{"id": name} for name in listed]}}))
        assert found.models == ("tiny", "Größe")

    @pytest.mark.parametrize(
        "nonsense",
        [b"SSH-2.0-OpenSSH_9.6\r\n", b"\x00\x01\x02" * 50, b"HTTP/1.1 200\r\n\r\n", b"HTTP/9.9 x y\r\n"],
        ids=["ssh", "bytes", "no-body", "no-status"],
    )
    def test_what_is_no_http(self, serve, nonsense):
        """Another program at a usual port."""

        def talk(peer):
            if peer.request():
                peer.send(nonsense)

        assert search_addresses([serve(talk).url], PATIENCE_S).servers == ()

    def test_what_some_pages_answer_is_enough(self, server):
        """A page that is no HTTP is as one that is not there."""
        assert found_at(server({**VLLM, "/props": b"oops\r\n\r\n"})).kind == "vLLM"

    def test_one_server_under_two_names(self, server):
        """It is found once."""
        stand_in = server(OLLAMA)
        urls = [stand_in.url, f"http://localhost:{stand_in.port}/"]
        assert [one.url for one in search_addresses(urls, PATIENCE_S).servers] == [stand_in.url]

    def test_a_body_without_end(self, server, rig):
        """No more than a quarter of a MiB is read."""
        huge = {"data": [{"id": "x" * MOST_BYTES}]}
        assert search_addresses([server({"/v1/models": huge}).url], PATIENCE_S).servers == ()

    def test_nobody(self, server):
        stand_in = server({})
        stand_in.stop()
        assert search_addresses([stand_in.url], PATIENCE_S).servers == ()

    def test_slow_ones_hold_up_nobody(self, server, serve, rig):
        """What has answered by then is given; of the slow one nothing is waited for."""
        slow, quick = rig.Holding(b"HTTP/1.1 200 OK\r\n"), server(OLLAMA)
        silent = serve(slow)
        found = next(
            search.servers
            for limit_s in growing_limits()
            if (search := search_addresses([silent.url, quick.url], limit_s)).servers
        )
        assert [one.url for one in found] == [quick.url]

    @pytest.mark.parametrize(
        "endless",
        [
            (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
            (b"HTTP/1.1 200 OK\r\nX-Long: ", b"x"),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;", b"x"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"x"),
        ],
        ids=["continue", "header", "chunk", "body"],
    )
    def test_one_that_never_ends_is_left(self, serve, endless):
        """However it sends: no thread reads on when the search is over."""
        start, more = endless
        left = threading.Event()

        def drip(peer):
            peer.request()
            peer.send(start)
            try:
                while True:
                    peer.send(more)
                    time.sleep(0.01)
            except OSError:
                left.set()
                raise

        assert search_addresses([serve(drip).url], 0.3).servers == ()
        assert left.wait(PATIENCE_S)

    def test_no_key_and_no_cookie_is_sent(self, server, monkeypatch):
        """Nor is a proxy asked."""
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        stand_in = server(OLLAMA)
        assert found_at(stand_in).kind == "Ollama"
        sent = {name for request in stand_in.requests for name in request["headers"]}
        assert sent == {"host", "accept", "accept-encoding", "user-agent"}


class TestAddresses:
    HERE = tuple(f"http://127.0.0.1:{port}" for port in (11434, 8080, 1234, 5001, 8000, 5000))

    def test_this_machine_at_the_usual_ports(self):
        """And nothing else, when nobody names more."""
        assert tuple(addresses_to_ask([])) == self.HERE

    @pytest.mark.parametrize(
        ("host", "more"),
        [
            ("box:99", ("http://box:99",)),
            (" https://llm.example.com/api/ ", ("https://llm.example.com/api",)),
            ("http://box", ("http://box",)),
            ("[::1]:80", ("http://[::1]:80",)),
            ("box", tuple(f"http://box:{port}" for port in finding.USUAL_PORTS)),
            ("fe80::2", tuple(f"http://[fe80::2]:{port}" for port in finding.USUAL_PORTS)),
            ("", ()),
            ("127.0.0.1:8080", ()),
        ],
    )
    def test_named_hosts(self, host, more):
        """With a port: that one alone; each address once."""
        assert tuple(addresses_to_ask([host])) == (*self.HERE, *more)

    def test_own_ports_are_left_out(self):
        """Those of this server."""
        asked = addresses_to_ask(["localhost:5000", "box:5000"], own_ports=[5000])
        assert asked == [*self.HERE[:-1], "http://box:5000"]

    @pytest.mark.parametrize(
        "host", ["localhost.", "127.0.0.2", "0.0.0.0", "[::]", "[::1]", "[::ffff:127.0.0.1]", "LOCALHOST"]
    )
    def test_own_ports_however_this_machine_is_spelt(self, host):
        assert addresses_to_ask([f"{host}:5000"], own_ports=[5000]) == [*self.HERE[:-1]]

    @pytest.mark.parametrize(
        "hosts",
        [
            ["a", "b", "c", "d", "e"],
            ["ftp://box"],
            ["box:port"],
            ["a b"],
            ["http://me:secret@box"],
            ["box?x=1"],
            ["box:"],
            ["localhost:"],
            ["box\0"],
            ["http://box\x7f:80"],
        ],
        ids=repr,
    )
    def test_what_cannot_be_asked(self, hosts):
        """Too many, or no address: nobody is asked."""
        with pytest.raises(ValueError, match=r"at most 4 hosts|is not the address of a server"):
            find_servers(hosts)

    def test_nobody_else_is_asked(self, monkeypatch):
        """Every connection of a search goes to one of its addresses."""
        asked, lock = [], threading.Lock()

        def refuse(place, *args, **more):
            with lock:
                asked.append(place)
            raise ConnectionRefusedError

        monkeypatch.setattr("socket.create_connection", refuse)
        search = find_servers(["box:99"], limit_s=PATIENCE_S)
        assert search.servers == ()
        assert {f"http://{host}:{port}" for host, port in asked} == set(search.asked)
        assert search.asked == (*self.HERE, "http://box:99")


class TestFilesThatUse:
    def test_however_the_address_is_spelt(self, configs):
        """Of this machine, with or without `/v1`; other servers, broken files and the demo model, which calls
        nobody, are passed over."""
        configs.endpoint("A", "http://localhost:8080/v1/")
        configs.endpoint("lan/B", "http://127.0.0.1:8080", "LlamaCppServer")
        configs.endpoint("C", "http://127.0.0.1:8081")
        configs.endpoint("Demo", "http://127.0.0.1:8080", "BuiltInDemo")
        (configs.root / "Endpoints" / "D.json").write_text("{")
        snapshot = configs.given()["snapshot"]
        assert files_that_use(snapshot, "http://127.0.0.1:8080") == [
            "Endpoints/A.json",
            "Endpoints/lan/B.json",
        ]

    def test_files_to_copy_from_use_no_server(self, configs):
        """They say nothing of what is used."""
        for name in ("examples/A", "lan/B.example", "lan/Mine"):
            configs.endpoint(name, "http://127.0.0.1:8080")
        snapshot = configs.given()["snapshot"]
        assert own_files_that_use(snapshot, "http://127.0.0.1:8080") == ["Endpoints/lan/Mine.json"]
