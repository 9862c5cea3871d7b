"""A look at one endpoint, over a real socket: what is asked, what is seen, what is wrong."""

from __future__ import annotations

import json
import socket
import ssl
import threading

import pytest

from Middleware.common.errors import BackendError, ConfigError
from Middleware.llmapis.endpoint_probe import FEW_TOKENS, GREETING, Probe, probe, probes
from Middleware.llmapis.handlers.impl.openai_api_handler import OpenAIBackend
from Middleware.llmapis.wire.http import Transport
from tests.patience import PATIENCE_S

TAGS = {"models": [{"name": "tiny:latest"}]}
MODELS = {"data": [{"id": "tiny"}, {"id": "other"}]}
OLLAMA_LINE = json.dumps({"message": {"role": "assistant", "content": "Hi"}, "done": False}) + "\n"


@pytest.fixture
def server(serve, rig):
    """`server(**answers)`: what each path (its last step) is answered with; others get 404."""

    def start(**answers):
        def script(peer):
            while request := peer.request():
                step = request["line"].split()[1].partition("?")[0].rpartition("/")[2]
                peer.send(answers.get(step, rig.json_answer({"error": "no such path"}, "404 Not Found")))

        return serve(script)

    return start


@pytest.fixture
def look(configs):
    """`look(url, api_type, **endpoint)`: the probe of an endpoint with this file."""

    def at(url, api_type="Open-AI-API", **endpoint):
        configs.endpoint("Main", url, api_type, **{"modelNameToSendToAPI": "tiny", **endpoint})
        return probe(configs.given()["snapshot"], configs.user, "Main")

    return at


class TestWhatIsAsked:
    def test_the_list_and_a_few_tokens(self, server, look, rig):
        """With the key; the answer is left as soon as it begins."""
        stand_in = server(
            models=rig.json_answer(MODELS), completions=rig.SSE_HEAD + rig.chunked(rig.token("Hi"), end=False)
        )
        seen = look(stand_in.url, apiKey="k-123")
        first, second = stand_in.requests
        assert first["line"] == "GET /v1/models HTTP/1.1"
        assert first["headers"]["authorization"] == "Bearer k-123"
        assert second["line"] == "POST /v1/chat/completions HTTP/1.1"
        body = json.loads(second["body"])
        assert (body["model"], body["max_tokens"], body["stream"]) == ("tiny", FEW_TOKENS, True)
        assert body["messages"] == [{"role": "user", "content": GREETING}]
        assert (seen.error, seen.symptom, seen.whole) == (None, "", False)
        assert seen.model_is_listed is True and seen.seconds > 0

    def test_ollama(self, server, look, rig):
        """Its own list, its own stream."""
        stream = rig.head(content_type="application/x-ndjson", transfer_encoding="chunked")
        stand_in = server(tags=rig.json_answer(TAGS), chat=stream + rig.chunked(OLLAMA_LINE))
        seen = look(stand_in.url, "OllamaApiChat")
        assert (seen.error, seen.model_is_listed) == (None, True)
        assert json.loads(stand_in.requests[1]["body"])["options"]["num_predict"] == FEW_TOKENS

    def test_koboldcpp_names_no_model(self, server, look, rig):
        """It has one, whatever is asked for."""
        event = 'event: message\ndata: {"token": "Hi", "finish_reason": null}\n\n'
        stand_in = server(
            model=rig.json_answer({"result": "koboldcpp/x"}), stream=rig.SSE_HEAD + rig.chunked(event)
        )
        seen = look(stand_in.url, "KoboldCpp")
        assert (seen.error, seen.model, seen.models) == (None, None, ("koboldcpp/x",))
        assert seen.model_is_listed is None
        assert json.loads(stand_in.requests[1]["body"])["prompt"] == GREETING

    def test_claude_is_asked_for_a_token_only(self, server, look, rig):
        """It has no list."""
        event = 'data: {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hi"}}\n\n'
        stand_in = server(messages=rig.SSE_HEAD + rig.chunked(event))
        seen = look(stand_in.url, "Claude")
        assert (seen.error, seen.models) == (None, None)
        assert [request["line"].split()[0] for request in stand_in.requests] == ["POST"]

    @pytest.mark.parametrize(
        ("api_type", "answers"),
        [
            ("OpenAI-Embeddings", {"models": MODELS, "embeddings": {"data": [{"embedding": [1, 2, 3]}]}}),
            ("Ollama-Embeddings", {"tags": TAGS, "embed": {"embeddings": [[1, 2, 3]]}}),
        ],
    )
    def test_embeddings(self, server, look, rig, api_type, answers):
        """One vector."""
        stand_in = server(**{path: rig.json_answer(body) for path, body in answers.items()})
        seen = look(stand_in.url, api_type)
        assert (seen.error, seen.numbers, seen.model_is_listed) == (None, 3, True)

    def test_who_is_not_there_is_asked_once(self, serve, look):
        """A server that hangs up at the question for its list is asked for no answer."""
        stand_in = serve(lambda peer: peer.request())
        seen = look(stand_in.url)
        assert seen.error is not None and seen.error.kind == "connection_lost"
        assert {request["line"].split()[0] for request in stand_in.requests} == {"GET"}

    def test_the_demo_is_asked_for_nothing(self, look):
        """It needs no network."""
        seen = look("", "BuiltInDemo")
        assert (seen.error, seen.url, seen.thinks) == (None, "", False)


class TestSeveralAddresses:
    @pytest.fixture
    def look_at_all(self, configs):
        def at(first, *more):
            fields = {"modelNameToSendToAPI": "tiny", "moreEndpoints": list(more)}
            configs.endpoint("Main", first, "Open-AI-API", **fields)
            return list(probes(configs.given()["snapshot"], configs.user, "Main"))

        return at

    @pytest.fixture
    def good(self, server, rig):
        answer = rig.SSE_HEAD + rig.chunked(rig.token("Hi"), rig.DONE)
        return lambda: server(models=rig.json_answer(MODELS), completions=answer)

    def test_each_is_asked(self, good, look_at_all):
        """The list of the first one is that of all."""
        first, second = good(), good()
        seen = look_at_all(first.url, second.url)
        assert [(one.error, one.more_address, one.models) for one in seen] == [
            (None, "", ("tiny", "other")),
            (None, second.url, ("tiny", "other")),
        ]
        assert seen[1].url.startswith(second.url) and seen[1].seconds > 0
        assert [request["line"].split()[0] for request in second.requests] == ["POST"]

    def test_one_that_is_not_there(self, good, look_at_all):
        """The others are looked at all the same."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            nobody = f"http://127.0.0.1:{listener.getsockname()[1]}"
        seen = look_at_all(good().url, nobody, good().url)
        assert [one.symptom for one in seen] == ["", "refused", ""]

    def test_what_the_first_one_showed_is_not_the_seconds(self, good, look_at_all):
        """Neither its time nor its failure."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            nobody = f"http://127.0.0.1:{listener.getsockname()[1]}"
        seen = look_at_all(nobody, good().url)
        assert [one.symptom for one in seen] == ["refused", ""]

    def test_an_endpoint_of_one_address_and_the_demo(self, configs, good, look_at_all):
        assert len(look_at_all(good().url)) == 1
        configs.endpoint("Demo", "", "BuiltInDemo", moreEndpoints=["http://127.0.0.1:9"])
        assert len(list(probes(configs.given()["snapshot"], configs.user, "Demo"))) == 1


class TestWhatIsLeft:
    """A look keeps no connection busy. The streams are held here, so that no garbage collector closes them."""

    def test_a_model_that_talks_on_is_left(self, serve, rig, look, monkeypatch):
        """As soon as it is known how it begins: the server sees that nobody listens."""
        left, held, stream = threading.Event(), [], OpenAIBackend.stream_batches

        def script(peer):
            while request := peer.request():
                if request["line"].startswith("GET"):
                    peer.send(rig.json_answer(MODELS))
                    continue
                peer.send(rig.SSE_HEAD + rig.chunked(rig.token("Hi"), end=False))
                if peer.closed():
                    left.set()
                return

        def holding(handler, arguments):
            held.append(stream(handler, arguments))
            return held[-1]

        monkeypatch.setattr(OpenAIBackend, "stream_batches", holding)
        assert look(serve(script).url).error is None
        assert left.wait(PATIENCE_S) and len(held) == 1

    @pytest.mark.parametrize("models", [MODELS, "no list"], ids=["a-list", "no-list"])
    def test_the_connection_of_the_list_goes_back(self, server, look, rig, monkeypatch, models):
        """The greeting goes out on it."""
        held, post = [], Transport.post

        def holding(transport, *args):
            held.append(post(transport, *args))
            return held[-1]

        monkeypatch.setattr(Transport, "post", holding)
        stand_in = server(
            models=rig.json_answer(models), completions=rig.SSE_HEAD + rig.chunked(rig.token("Hi"))
        )
        assert look(stand_in.url).error is None
        assert (len(held), stand_in.accepted) == (2, 1)


class TestWhatIsSeen:
    @pytest.mark.parametrize("answer", [{"data": "no list"}, "<html>"])
    def test_a_list_that_is_none(self, server, look, rig, answer):
        """The token decides."""
        stand_in = server(
            models=rig.json_answer(answer), completions=rig.SSE_HEAD + rig.chunked(rig.token("Hi"))
        )
        seen = look(stand_in.url)
        assert (seen.error, seen.models) == (None, None)

    def test_no_list_at_all(self, server, look, rig):
        """The same."""
        seen = look(server(completions=rig.SSE_HEAD + rig.chunked(rig.token("Hi"))).url)
        assert (seen.error, seen.models, seen.model_is_listed) == (None, None, None)

    def test_a_server_that_does_not_stream(self, server, look, rig):
        """It answered in one piece."""
        whole = {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}
        seen = look(server(models=rig.json_answer(MODELS), completions=rig.json_answer(whole)).url)
        assert (seen.error, seen.whole) == (None, True)

    @pytest.mark.parametrize(
        ("pieces", "thinks"),
        [
            ([{"reasoning_content": "They"}], True),
            ([{"role": "assistant", "content": ""}, {"content": "\n<th"}, {"content": "ink>They"}], True),
            ([{"content": "[THINK]They"}], True),
            ([{"content": "<thought>They"}], True),
            ([{"content": "<Reasoning>They"}], True),
            ([{"content": "<reflection>They"}], True),
            ([{"content": "<|start|>assistant<|channel|>analysis"}], True),
            ([{"content": "<|channel|>analysis<|message|>They"}], True),
            ([{"content": ""}], True),
            ([{"content": "Hi"}], False),
            ([{"content": "<p"}, {"content": ">Hi"}], False),
        ],
        ids=[
            *("field", "tag-in-pieces", "mistral", "thought", "reasoning", "reflection", "harmony-start"),
            *("harmony", "unseen", "answer", "another-tag"),
        ],
    )
    def test_a_model_that_thinks(self, server, look, rig, pieces, thinks):
        """In a field of its own, in the text, or unseen until its tokens are used up."""
        deltas = [{"choices": [{"delta": piece, "finish_reason": None}]} for piece in pieces]
        end = {"choices": [{"delta": {}, "finish_reason": "length"}]}
        events = "".join(f"data: {json.dumps(event)}\n\n" for event in (*deltas, end))
        seen = look(
            server(models=rig.json_answer(MODELS), completions=rig.SSE_HEAD + rig.chunked(events)).url
        )
        assert (seen.error, seen.thinks) == (None, thinks)

    def test_a_thought_of_ollama(self, server, look, rig):
        """In its own field."""
        thought = {"message": {"role": "assistant", "content": "", "thinking": "They"}, "done": False}
        stream = rig.head(content_type="application/x-ndjson", transfer_encoding="chunked")
        stand_in = server(tags=rig.json_answer(TAGS), chat=stream + rig.chunked(json.dumps(thought) + "\n"))
        assert look(stand_in.url, "OllamaApiChat").thinks

    def test_a_model_that_wants_more_tokens(self, server, look, rig):
        """It is there, and it answers."""
        message = "Could not finish the message because max_tokens or model output limit was reached."
        refusal = rig.json_answer({"error": {"message": message}}, "400 Bad Request")
        seen = look(server(models=rig.json_answer(MODELS), completions=refusal).url)
        assert (seen.error, seen.thinks) == (None, True)

    def test_a_backup_is_not_called(self, server, look, configs, rig):
        """A failure is this endpoint's."""
        configs.endpoint("Spare", "http://127.0.0.1:9", modelNameToSendToAPI="x")
        seen = look(server().url, backupEndpointName="Spare")
        assert seen.symptom == "path"

    def test_a_key_that_is_not_there(self, look):
        """An error of the configuration, before any call."""
        with pytest.raises(ConfigError, match="HEADRACE_NO_SUCH_VARIABLE"):
            look("http://127.0.0.1:9", apiKeyEnv="HEADRACE_NO_SUCH_VARIABLE")


def refusing_url():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"http://127.0.0.1:{free.getsockname()[1]}"


class TestSymptoms:
    def test_nobody_listens(self, look):
        """One try."""
        assert look(refusing_url()).symptom == "refused"

    def test_an_unknown_host(self, look):
        """By the name's own error."""
        assert look("http://no-such-host.invalid").symptom == "unknown_host"

    def test_no_tls(self, serve, look):
        """A plain server, called with https."""
        stand_in = serve(lambda peer: peer.send("HTTP/1.1 400 Bad Request\r\n\r\n"))
        assert look(stand_in.url.replace("http:", "https:")).symptom == "no_tls"

    def test_an_address_that_is_none(self, look):
        """No scheme."""
        assert look("127.0.0.1:8080").symptom == "bad_url"

    @pytest.mark.parametrize(
        ("status", "endpoint", "symptom"),
        [
            ("401 Unauthorized", {}, "no_key"),
            ("401 Unauthorized", {"apiKey": "k-123"}, "auth"),
            ("403 Forbidden", {"extraHeaders": {"X-Key": "k-123"}}, "auth"),
            ("404 Not Found", {}, "path"),
            ("404 Not Found", {"modelNameToSendToAPI": "tinny"}, "model"),
            ("429 Too Many Requests", {}, "rate_limited"),
            ("503 Service Unavailable", {}, "overloaded"),
            ("500 Internal Server Error", {}, "server_error"),
            ("400 Bad Request", {"modelNameToSendToAPI": "tinny"}, "bad_request"),
        ],
    )
    def test_a_status(self, server, look, rig, status, endpoint, symptom):
        """The list is there, the call is refused."""
        refusal = rig.json_answer({"error": {"message": "refused"}}, status)
        seen = look(server(models=rig.json_answer(MODELS), completions=refusal).url, **endpoint)
        assert seen.symptom == symptom

    @pytest.mark.parametrize("status", ["404 Not Found", "400 Bad Request"])
    def test_a_model_that_is_not_there(self, server, look, rig, status):
        """Said by the server, and seen in its list."""
        refusal = rig.json_answer({"error": {"message": "model 'tinny' not found"}}, status)
        seen = look(
            server(models=rig.json_answer(MODELS), completions=refusal).url, modelNameToSendToAPI="tinny"
        )
        assert seen.symptom == "model"

    def test_a_web_page(self, server, look, rig):
        """Status 200, and no API."""
        page = rig.head(content_type="text/html", content_length="6") + b"<html>"
        assert look(server(models=page, completions=page).url).symptom == "web_page"

    def test_a_server_that_hangs_up(self, serve, look):
        """Without a word."""
        assert look(serve(lambda peer: peer.request()).url).symptom == "connection_lost"

    def test_a_server_that_says_nothing(self, serve, look):
        """Within its time."""
        stand_in = serve(lambda peer: peer.request() and peer.closed())
        assert look(stand_in.url, readTimeoutInSeconds=0.2).symptom == "timeout"

    def test_vectors_that_are_none(self, server, look, rig):
        """Not what an embeddings server sends."""
        stand_in = server(embeddings=rig.json_answer({"data": []}), models=rig.json_answer(MODELS))
        assert look(stand_in.url, "OpenAI-Embeddings").symptom == "protocol_error"

    @pytest.mark.parametrize(
        ("cause", "symptom"),
        [
            (ssl.SSLCertVerificationError("no"), "certificate"),
            (ssl.SSLError("no"), "no_tls"),
            (OSError("no route"), "connect_error"),
        ],
    )
    def test_why_there_is_no_connection(self, configs, cause, symptom):
        """Whatever stands behind the error."""
        error = BackendError("Main", "connect_error", "cannot connect")
        error.__cause__ = cause
        assert Probe(None, "", error=error).symptom == symptom

    def test_a_connection_that_takes_too_long(self):
        """A time-out that may be tried again is one of connecting."""
        error = BackendError("Main", "timeout", "no connection", retryable=True)
        assert Probe(None, "", error=error).symptom == "no_connection"
