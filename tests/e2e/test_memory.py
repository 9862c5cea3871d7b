"""A request leaves nothing of its conversation in memory, without any help of the garbage collector.

A reference cycle holds its conversation until a full collection, and a busy server hardly ever makes one.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.e2e.conftest import HOUSE, write_tree
from tests.e2e.fake_backend import Reply
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.e2e

SAID = "MARK a question that is kept as long as somebody holds it"
MESSAGES = [{"role": "system", "content": f"system {SAID}"}, {"role": "user", "content": SAID}]
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
BACKENDS = {
    "OpenAI": "Open-AI-API",
    "OpenAIText": "OpenAI-Compatible-Completions",
    "OllamaChat": "OllamaApiChat",
    "OllamaText": "OllamaApiGenerate",
    "Kobold": "KoboldCpp",
    "Claude": "Claude",
}


def standard(endpoint, **fields):
    return {
        "type": "Standard",
        "endpointName": endpoint,
        "lastMessagesToSendInsteadOfPrompt": 20,
        **fields,
    }


STAMPED = {"addDiscussionIdTimestampsForLLM": True, "useGroupChatTimestampLogic": True}
PARTS = {
        "endpoints": {
            **{name: {"apiTypeConfigFileName": api_type} for name, api_type in BACKENDS.items()},
            "Dead": {"endpoint": "http://127.0.0.1:9", "backupEndpointName": "OpenAI"},
            "Gone": {"endpoint": "http://127.0.0.1:9"},
        },
        "workflows": {
            **{name: [standard(name)] for name in [*BACKENDS, "Gone", "Dead"]},
            "Chat": [standard("Model", allowTools=True)],
            "Stamped": [standard("Model", **STAMPED)],
            "Nested": [{"type": "CustomWorkflow", "workflowName": "Stamped", "title": "child"}],
            "After": [standard("Model", returnToUser=True), standard("Model", prompt="{agent1Output}")],
            "AfterFails": [standard("Model", returnToUser=True), standard("Gone", prompt="{agent1Output}")],
            "Group": [
                standard("Model", parallelGroup="g"),
                standard("OllamaChat", parallelGroup="g"),
                {"type": "StringConcatenator", "strings": ["{agent1Output}", "{agent2Output}"]},
            ],
            "GroupFails": [
                standard("Gone", parallelGroup="g"),
                standard("Gone", parallelGroup="g"),
                {"type": "StaticResponse", "content": "ok"},
            ],
            "Continues": [standard("Gone", onNodeError="continue", errorText="failed: {chat_user_prompt_last_one}")],
            "Static": [{"type": "StaticResponse", "content": "{chat_user_prompt_last_one}"}],
            "Locked": [{"type": "WorkflowLock", "workflowLockId": "memory"}, standard("Model")],
            "Jinja": [{"type": "StaticResponse", "content": "{{ messages[-1].content }}", "jinja2": True}],
            "JinjaFails": [{"type": "StaticResponse", "content": "{{ nothing.at.all }}", "jinja2": True}],
        },
}  # fmt: skip
WORKFLOWS = list(PARTS["workflows"])
USERS = {name.lower(): {**PARTS, "user": {"customWorkflow": name}} for name in WORKFLOWS}


def chat(workflow, **fields):
    body = {"model": workflow.lower(), "messages": MESSAGES, **fields}
    return {"path": "/v1/chat/completions", "body": body}


SITUATIONS = {
    **{f"{name}-streamed": chat(name, stream=True) for name in WORKFLOWS},
    **{f"{name}-whole": chat(name, stream=False) for name in WORKFLOWS},
    "openai-text-streamed": {"path": "/v1/completions", "body": {"model": "chat", "prompt": SAID, "stream": True}},
    "openai-text-whole": {"path": "/v1/completions", "body": {"model": "chat", "prompt": SAID}},
    "ollama-chat-streamed": {"path": "/api/chat", "body": {"model": "chat", "messages": MESSAGES}},
    "ollama-chat-whole": {"path": "/api/chat", "body": {"model": "chat", "messages": MESSAGES, "stream": False}},
    "ollama-text-streamed": {"path": "/api/generate", "body": {"model": "chat", "prompt": SAID}},
    "ollama-text-whole": {"path": "/api/generate", "body": {"model": "chat", "prompt": SAID, "stream": False}},
    "tools-streamed": chat("Chat", stream=True, tools=TOOLS),
    "tools-whole": chat("Chat", tools=TOOLS),
    "tool-call-streamed": chat("Chat", stream=True, tools=TOOLS, messages=[{"role": "user", "content": f"look-up {SAID}"}]),
    "tool-call-whole": chat("Chat", tools=TOOLS, messages=[{"role": "user", "content": f"look-up {SAID}"}]),
    "discussion-streamed": chat("Nested", stream=True, messages=[{"role": "user", "content": f"[DiscussionId]mem[/DiscussionId]{SAID}"}]),
    "discussion-whole": chat("Nested", messages=[{"role": "user", "content": f"[DiscussionId]mem[/DiscussionId]{SAID}"}]),
    "background-task": chat("Chat", messages=[{"role": "user", "content": f"### Task:\nGenerate a concise, 3-5 word title\n{SAID}"}]),
    "hang-up-in-the-stream": {**chat("Chat", stream=True), "bytes": 1},
    "hang-up-before-the-stream": {**chat("Chat", stream=True, messages=[{"role": "user", "content": f"never-told {SAID}"}]), "bytes": 0},
    "hang-up-of-a-whole-answer": {**chat("Chat", messages=[{"role": "user", "content": f"never-told {SAID}"}]), "bytes": 0},
    "refused-model": chat("None"),
    "refused-body": {"path": "/v1/chat/completions", "body": {"model": "chat", "messages": SAID}},
    "backend-dies": chat("Chat", stream=True, messages=[{"role": "user", "content": f"breaks-off {SAID}"}]),
    "backend-dies-whole": chat("Chat", messages=[{"role": "user", "content": f"breaks-off {SAID}"}]),
    "backend-refuses": chat("Chat", stream=True, messages=[{"role": "user", "content": f"not-taken {SAID}"}]),
    "backend-refuses-whole": chat("Chat", messages=[{"role": "user", "content": f"not-taken {SAID}"}]),
}  # fmt: skip


@pytest.fixture(scope="module")
def left(backend, tmp_path_factory):
    """What is left of each situation's conversation: name -> objects."""
    public = tmp_path_factory.mktemp("memory")
    write_tree(public, USERS, backend.url)
    backend.on("never-told", Reply(("never",), hangs=True))
    backend.on("breaks-off", Reply(("a", "b", "c"), dies_after=2))
    backend.on("look-up", Reply(("let me see",), tool="look"))
    backend.on("not-taken", Reply(status=400))
    probe = subprocess.run(
        [sys.executable, "-m", "tests.e2e.leftovers", str(public), *USERS],
        input=json.dumps(list(SITUATIONS.values())),
        capture_output=True,
        text=True,
        cwd=HOUSE,
        timeout=PATIENCE_S,
        check=True,
    )
    results = json.loads(probe.stdout.splitlines()[-1])
    return dict(zip(SITUATIONS, results, strict=True))


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_request_leaves_nothing_of_its_conversation(left, situation):
    """When the answer is over, nobody holds the conversation, whatever the request was and however it ended."""
    assert left[situation]["left"] == []


@pytest.mark.parametrize(
    ("situation", "status"),
    [
        ("tool-call-whole", 200),
        ("hang-up-of-a-whole-answer", 499),
        ("refused-model", 404),
        ("backend-dies-whole", 502),
    ],
)
def test_the_situations_are_what_they_are_called(left, situation, status):
    """A request that went another way would show nothing."""
    assert left[situation]["status"].startswith(str(status))
