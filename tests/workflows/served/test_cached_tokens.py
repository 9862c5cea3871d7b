"""What a backend says of the prompt that it still held reaches the trace, the numbers and every client: exactly, and
nothing where nothing was said (prompt-reuse.md 3.1, row 5 of 10)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cache_answers import CACHE_ANSWERS
from tests.e2e.answers import ROUTES
from tests.patience import PATIENCE_S
from tests.workflows.served.conftest import REPLY, Recorder, observe
from tests.workflows.served.test_traced_runs import ask


def openai_numbers(usage, cache):
    """The block is there only where something is known."""
    told = {name: usage[name] for name in ("prompt_tokens", "completion_tokens", "total_tokens")}
    return {**told, "prompt_tokens_details": cache} if cache else told


def responses_numbers(usage, cache):
    """Its details are always there."""
    return {
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0, **cache},
        "output_tokens": usage["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage["total_tokens"],
    }


def anthropic_numbers(usage, cache):
    """What was held or written is no part of `input_tokens`."""
    return {
        "input_tokens": usage["prompt_tokens"] - sum(cache.values()),
        "cache_creation_input_tokens": cache.get("cache_write_tokens", 0),
        "cache_read_input_tokens": cache.get("cached_tokens", 0),
        "output_tokens": usage["completion_tokens"],
    }


def ollama_numbers(usage, cache):
    """What is held is part of the count of the prompt."""
    held = {"prompt_eval_cached_count": cache["cached_tokens"]} if "cached_tokens" in cache else {}
    return {"prompt_eval_count": usage["prompt_tokens"], **held, "eval_count": usage["completion_tokens"]}


def ollama_counts(unit):
    return {name: value for name, value in unit.items() if name.endswith("_count")}


class Client(NamedTuple):
    """`expected(usage, cache)`: its numbers. `whole(body)`, `last(unit)`: where they stand; `last` gives nothing for
    the units before the last."""

    expected: Callable[[Any, Any], Any]
    whole: Callable[[Any], Any]
    last: Callable[[Any], Any]


def of_body(body):
    return body["usage"]


CLIENTS = {
    "openai-chat": Client(openai_numbers, of_body, lambda unit: unit.get("usage")),
    "openai-completions": Client(openai_numbers, of_body, lambda unit: unit.get("usage")),
    "responses": Client(
        responses_numbers, of_body, lambda unit: (unit.get("response") or {}).get("usage")
    ),
    "anthropic": Client(
        anthropic_numbers, of_body, lambda unit: unit.get("usage") if unit["type"] == "message_delta" else None
    ),
    "ollama-chat": Client(ollama_numbers, ollama_counts, ollama_counts),
    "ollama-generate": Client(ollama_numbers, ollama_counts, ollama_counts),
}  # fmt: skip


@pytest.fixture
def recorder(served):
    return observe(served, Recorder())


@pytest.fixture
def answering(house, site, served):
    """`answering(name)`: the endpoint `big` is a backend of this kind and answers so."""

    def answer_with(name):
        answer = CACHE_ANSWERS[name]
        fields = {"streamPropertyName": "stream", "maxNewTokensPropertyName": "max_tokens"}
        house.write("ApiTypes/Real", {"type": answer.type, "presetType": "any", **fields})
        house.endpoint("big", endpoint=site.url("").rstrip("/"), apiTypeConfigFileName="Real")

        def send(handler):
            asked = json.loads(site.seen[-1].body)
            streams = bool(asked.get("stream", handler.path == answer.paths[1] != answer.paths[0]))
            media = answer.media if streams else "application/json"
            body = answer.stream if streams else answer.whole
            site.write(handler, 200, {"Content-Type": media}, body)

        site.pages.update(dict.fromkeys(answer.paths, send))
        house.workflow("Main", ask("Answer"))
        served.save_user()
        return answer

    return answer_with


def numbers_of(served, route, *, stream):
    """The numbers that a client is told."""
    shape, client = ROUTES[route], CLIENTS[route]
    body = {**shape.ask("ana", "hi", stream=stream)}
    if stream and route.startswith("openai"):
        body["stream_options"] = {"include_usage": True}
    reply = served.app.test_client().post(shape.path, json=body)
    data = reply.get_data()
    reply.close()
    assert reply.status_code == 200, data
    if not stream:
        return client.whole(json.loads(data))
    [told] = [told for unit in shape.units(data) if (told := client.last(unit))]
    return told


def sample(served, name, **labels):
    """The value of a series; None: there is none."""
    text = served.app.test_client().get("/metrics").get_data(as_text=True)
    samples = [one for family in text_string_to_metric_families(text) for one in family.samples]
    found = [one.value for one in samples if (one.name, one.labels) == (name, labels)]
    return found[0] if found else None


def cache_of(usage):
    return {name: count for name, count in usage.items() if name.startswith("cache")}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", sorted(CACHE_ANSWERS.keys() - {"koboldcpp"}))
class TestEveryBackend:
    @pytest.mark.parametrize("route", sorted(CLIENTS))
    def test_reaches_every_client(self, served, answering, name, stream, route):
        """In the client's own words."""
        usage = answering(name).usage_of(stream=stream)
        expected = CLIENTS[route].expected(usage, cache_of(usage))
        assert numbers_of(served, route, stream=stream) == expected

    def test_reaches_the_trace(self, served, answering, recorder, name, stream):
        """As the backend reported it, with the seconds that it read."""
        usage = answering(name).usage_of(stream=stream)
        numbers_of(served, "openai-chat", stream=stream)
        assert recorder.ended.wait(PATIENCE_S)
        [call] = recorder.calls
        assert dict(call.usage) == usage
        read = usage.get("prompt_duration_ns")
        assert call.prompt_s == (None if read is None else read / 1e9)

    def test_reaches_the_metrics(self, served, answering, recorder, name, stream):
        """Tokens by whether they were held, and the time of reading; no series for what is not known."""
        usage = answering(name).usage_of(stream=stream)
        numbers_of(served, "openai-chat", stream=stream)
        assert recorder.ended.wait(PATIENCE_S)
        held = usage.get("cached_tokens")
        read = None if held is None else usage["prompt_tokens"] - held
        assert sample(served, "headrace_prompt_tokens_total", endpoint="big", held="yes") == held
        assert sample(served, "headrace_prompt_tokens_total", endpoint="big", held="no") == read
        took = usage.get("prompt_duration_ns")
        told = sample(served, "headrace_prompt_seconds_sum", endpoint="big")
        assert told == (None if took is None else pytest.approx(took / 1e9))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_backend_that_says_nothing(served, answering, recorder, stream):
    """KoboldCpp: nobody is told of 0 tokens that were held."""
    answering("koboldcpp")
    told = numbers_of(served, "openai-chat", stream=stream)
    assert set(told) == {"prompt_tokens", "completion_tokens", "total_tokens"}
    assert recorder.ended.wait(PATIENCE_S)
    assert sample(served, "headrace_prompt_tokens_total", endpoint="big", held="yes") is None


class TestSeveralCalls:
    """The answer's numbers are those of its own call; the sum over the workflow stands beside."""

    def sum_of(self, served, house, *endpoints):
        house.workflow("Main", *[ask(f"Node {at}", name) for at, name in enumerate(endpoints)])
        shape = ROUTES["openai-chat"]
        reply = served.app.test_client().post(shape.path, json=shape.ask("ana", "hi", stream=False))
        data = json.loads(reply.get_data())
        reply.close()
        return data["usage"], json.loads(reply.headers["X-Workflow-Usage"])

    def test_all_say_it(self, served, house, answering):
        """The sum says it, too."""
        answering("openai")
        usage, of_workflow = self.sum_of(served, house, "big", "big")
        assert usage["prompt_tokens_details"]["cached_tokens"] == 850
        assert list(of_workflow.items()) == [
            ("prompt_tokens", 1800),
            ("completion_tokens", 4),
            ("calls", 2),
            ("cached_tokens", 1700),
        ]

    def test_one_does_not(self, served, house, answering, site):
        """A sum without it would be too small: it says nothing."""
        answering("openai")
        site.pages["/mute/v1/chat/completions"] = (
            200,
            {"Content-Type": "application/json"},
            json.dumps(REPLY).encode(),
        )
        house.endpoint("mute", endpoint=site.url("/mute"), apiTypeConfigFileName="Real")
        usage, of_workflow = self.sum_of(served, house, "mute", "big")
        assert usage["prompt_tokens_details"]["cached_tokens"] == 850
        assert of_workflow == {"prompt_tokens": 905, "completion_tokens": 4, "calls": 2}
