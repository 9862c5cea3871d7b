"""Nodes that start, and what a workflow took, as the official packages see it (more-fronts.md 8, 9)."""

from __future__ import annotations

import json

import anthropic
import ollama
import openai
import pytest

from tests.e2e.conftest import NODE
from tests.e2e.fake_backend import Reply

pytestmark = pytest.mark.e2e

NODES = [
    {**NODE, "title": "Recall", "prompt": "recall {chat_user_prompt_last_one}"},
    {"type": "CustomWorkflow", "title": "Ask", "workflowName": "Child"},
]
CHILD = [{**NODE, "title": "Write"}]
LINES = ["[1/2] Recall", "[2/2] Ask", "[1/1] Write"]
HOW = ("off", "reasoning", "status")


@pytest.fixture(scope="module")
def server(launch):
    users = {
        how: {"user": {"progressOutput": how}, "workflows": {"Chat": NODES, "Child": CHILD}} for how in HOW
    }
    return launch(users, "--concurrency", "0")


@pytest.fixture
def client(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as made:
        yield made


def streamed(client, how, text, **more):
    messages = [{"role": "user", "content": text}]
    return list(client.chat.completions.create(model=how, messages=messages, stream=True, **more))


def said(chunks):
    return "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)


def reasoning(chunks):
    deltas = [c.choices[0].delta for c in chunks if c.choices]
    return "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)


def statuses(chunks):
    events = [getattr(chunk, "event", None) for chunk in chunks]
    return [event["data"]["description"] for event in events if event]


class TestOpenAi:
    @pytest.mark.parametrize("how", HOW)
    @pytest.mark.parametrize("gap_s", [0.0, 1.4], ids=["quick", "slow"])
    def test_a_stream(self, client, backend, how, gap_s):
        """The same lines, whether the first node is quicker than a heartbeat or not."""
        mark = f"progress-{how}-{gap_s}"
        backend.on(f"recall {mark}", Reply(["x"], gap_s=gap_s))
        chunks = streamed(client, how, mark, stream_options={"include_usage": True})
        assert said(chunks) == mark
        assert reasoning(chunks).split("\n") == (
            [*LINES[:2], f"  {LINES[2]}", ""] if how == "reasoning" else [""]
        )
        assert statuses(chunks) == (LINES if how == "status" else [])
        assert chunks[-1].workflow_usage["calls"] == 2
        assert chunks[-1].usage.total_tokens > 0

    def test_whole(self, client):
        """No line of progress; the sum in a header."""
        raw = client.chat.completions.with_raw_response.create(
            model="reasoning", messages=[{"role": "user", "content": "whole progress"}]
        )
        answer = raw.parse()
        assert answer.choices[0].message.content == "whole progress"
        assert "Recall" not in answer.model_dump_json()
        told = json.loads(raw.headers["X-Workflow-Usage"])
        assert told == {"prompt_tokens": 22, "completion_tokens": 14, "calls": 2}

    @pytest.mark.parametrize("how", HOW)
    def test_a_quick_failure_is_an_http_error(self, client, backend, how):
        """Whatever has started by then."""
        backend.on(f"fails-{how}", Reply(status=401))  # nobody tries again
        with pytest.raises(openai.APIStatusError) as caught:
            streamed(client, how, f"fails-{how}")
        assert caught.value.status_code == 502


class TestOllama:
    @pytest.mark.parametrize("how", HOW)
    def test_a_stream(self, server, how):
        """Where thoughts stand, or nowhere; the sum on the last object."""
        client = ollama.Client(host=server.url)
        messages = [{"role": "user", "content": "ollama progress"}]
        parts = list(client.chat(model=how, messages=messages, stream=True))
        client._client.close()
        assert "".join(part.message.content or "" for part in parts) == "ollama progress"
        thinking = "".join(part.message.thinking or "" for part in parts)
        assert [line.strip() for line in thinking.splitlines()] == (LINES if how == "reasoning" else [])

    def test_the_sum(self, server):
        """Of every stream, without asking."""
        body = {"model": "off", "messages": [{"role": "user", "content": "ollama sum"}]}
        status, answer = server.post("/api/chat", body)
        *others, done = map(json.loads, answer.decode().splitlines())
        assert status == 200 and done["workflow_usage"]["calls"] == 2
        assert not any("workflow_usage" in other for other in others)


class TestAnthropic:
    @pytest.mark.parametrize("how", HOW)
    def test_a_stream(self, server, how):
        """In a block of thoughts, or nowhere; the sum beside the last numbers."""
        messages = [{"role": "user", "content": "anthropic progress"}]
        with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as client:
            events = list(client.messages.create(model=how, max_tokens=9, messages=messages, stream=True))
        deltas = [event.delta for event in events if event.type == "content_block_delta"]
        assert "".join(getattr(delta, "text", "") for delta in deltas) == "anthropic progress"
        thinking = "".join(getattr(delta, "thinking", "") for delta in deltas)
        assert [line.strip() for line in thinking.splitlines()] == (LINES if how == "reasoning" else [])
        [last] = [event for event in events if event.type == "message_delta"]
        assert last.workflow_usage["calls"] == 2


class TestResponses:
    @pytest.mark.parametrize("how", HOW)
    def test_a_stream(self, client, how):
        """In an item of reasoning, or nowhere; the sum in the last event, and not in what is kept."""
        events = list(client.responses.create(model=how, input="responses progress", stream=True))
        response = events[-1].response
        assert response.output_text == "responses progress"
        items = [item for item in response.output if item.type == "reasoning"]
        thinking = "".join(part.text for item in items for part in item.summary)
        assert [line.strip() for line in thinking.splitlines()] == (LINES if how == "reasoning" else [])
        assert response.workflow_usage["calls"] == 2
        assert not hasattr(client.responses.retrieve(response.id), "workflow_usage")
