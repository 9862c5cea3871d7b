"""What model servers say that they have loaded, and how each says it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import responses

from Middleware.config.endpoints import EndpointConfig
from Middleware.llmapis.handlers import impl
from Middleware.llmapis.loaded_now import ask_server
from Middleware.services.loaded_models import Loaded

_ = impl  # importing the package fills the table of backends

CAPTURES = Path(__file__).resolve().parents[1] / "fixtures" / "captures"
BASE = "http://127.0.0.1:8080"
SLOTS = [{"id": 0, "is_processing": True}, {"id": 1, "is_processing": False}]
SMALL = {"model_path": "C:\\models\\Small-Q4.gguf", "model_alias": "", "total_slots": 1}
PATHS = {"/running", "/props", "/slots", "/api/ps", "/api/v1/model"}
SWAP = {"running": [{"model": "big", "state": "ready"}, {"model": "small", "state": "starting"}]}


def capture(name):
    return json.loads((CAPTURES / name).read_text("utf-8"))


def endpoint(kind="openAIChatCompletion", base=BASE, **more):
    raw = {"endpoint": base, "modelNameToSendToAPI": "m", **more}
    return EndpointConfig("Big", raw, "Api", {"type": kind}, "Endpoints/Big.json")


@pytest.fixture
def server():
    """`server(path, body)`: what is there; every other path is 404."""
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:

        def page(path, body, status=200):
            mock.get(f"{BASE}{path}", json=body, status=status)

        page.mock = mock
        yield page


def asked(server, one):
    """What is said; a path that was not given is 404."""
    given = {call.url.removeprefix(BASE) for call in server.mock.registered()}
    for path in sorted(PATHS - given):
        server(path, {"error": "no such page"}, 404)
    return ask_server(one, one.url)


class TestWhatTheySay:
    @pytest.mark.parametrize(
        "kind", ["ollamaApiChat", "ollamaApiChatImageSpecific", "ollamaApiGenerate", "ollamaEmbeddings"]
    )
    def test_ollama(self, server, kind):
        """All that is in memory."""
        server("/api/ps", capture("ollama/ps.txt"))
        assert asked(server, endpoint(kind)) == Loaded("Ollama", ("smollm2:135m",))

    @pytest.mark.parametrize(
        "kind",
        ["openAIChatCompletion", "openAIApiChatImageSpecific", "openAIV1Completion", "openAIEmbeddings"],
    )
    def test_ollama_behind_openai(self, server, kind):
        """By its OpenAI face it is still Ollama."""
        server("/api/ps", capture("ollama/ps.txt"))
        assert asked(server, endpoint(kind, base=f"{BASE}/v1")) == Loaded("Ollama", ("smollm2:135m",))

    def test_llamacpp(self, server):
        """Its alias, and how many slots are busy."""
        server("/props", capture("llamacpp/props.txt"))
        server("/slots", SLOTS)
        assert asked(server, endpoint()) == Loaded("llama.cpp", ("smollm2",), (1, 2))

    def test_llamacpp_without_alias_and_slots(self, server):
        """The file's name; slots may be switched off."""
        server("/props", SMALL)
        assert asked(server, endpoint("openAIV1Completion")) == Loaded("llama.cpp", ("Small-Q4",))

    def test_llamacpp_that_sleeps(self, server):
        """Has given its memory back."""
        server("/props", {**SMALL, "is_sleeping": True})
        assert asked(server, endpoint()).models == ()

    def test_llamaswap(self, server):
        """It is asked first; what is still starting is not loaded."""
        server("/running", SWAP)
        server("/props", SMALL)
        assert asked(server, endpoint()) == Loaded("llama-swap", ("big",))

    @pytest.mark.parametrize(
        "kind", ["koboldCppGenerate", "koboldCppGenerateImageSpecific", "openAIChatCompletion"]
    )
    def test_koboldcpp(self, server, kind):
        """Without its prefix, by either face."""
        server("/api/v1/model", capture("koboldcpp/api_v1_model.txt"))
        assert asked(server, endpoint(kind)) == Loaded("KoboldCpp", ("SmolLM2-135M-Instruct.Q4_1",))

    def test_koboldcpp_without_a_model(self, server):
        """It says so in a word."""
        server("/api/v1/model", {"result": "inactive"})
        assert asked(server, endpoint("koboldCppGenerate")).models == ()


class TestWhatIsNotSaid:
    def test_another_server(self, server):
        """Who knows none of these pages says nothing."""
        assert asked(server, endpoint()) is None

    @pytest.mark.parametrize("body", [[], "x", 3, None, {"models": 3}, {"models": [3]}, {"models": [{}]}])
    def test_another_form(self, server, body):
        """Is taken for another server."""
        server("/api/ps", body)
        assert asked(server, endpoint("ollamaApiChat")) is None

    def test_a_server_that_is_not_there(self, server):
        """One failed connection is enough."""
        assert ask_server(endpoint(base="http://127.0.0.1:9"), "http://127.0.0.1:9") is None

    @pytest.mark.parametrize(
        ("kind", "base"),
        [("openAIChatCompletion", "https://8.8.8.8/v1"), ("claudeMessages", BASE), ("builtInDemo", "")],
    )
    def test_who_is_not_asked(self, server, kind, base):
        """Public services, and programs that have no such page."""
        assert ask_server(endpoint(kind, base), base) is None
        assert not server.mock.calls

    def test_a_key_that_is_not_there(self, server, monkeypatch):
        """Nothing is asked without it."""
        monkeypatch.delenv("NO_SUCH_KEY", raising=False)
        assert ask_server(endpoint(apiKeyEnv="NO_SUCH_KEY"), BASE) is None
        assert not server.mock.calls

    def test_the_key_is_sent(self, server):
        """A server may want it for its facts, too."""
        server("/running", SWAP)
        asked(server, endpoint(apiKey="sk-1"))
        assert server.mock.calls[0].request.headers["Authorization"] == "Bearer sk-1"
