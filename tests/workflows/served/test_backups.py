"""After a failover the text is cleaned by the rules of the endpoint that answered (cleaning.md, backends.md 15.6)."""

from __future__ import annotations

import json

import pytest

from tests.workflows.served.conftest import body_saying, stream_saying

THINKS = {"removeThinking": True, "thinkTagNames": ["think"]}
CLOSES_ONLY = {
    "removeThinking": True,
    "startThinkTag": "<think>",
    "endThinkTag": "</think>",
    "expectOnlyClosingThinkTag": True,
}
CHAT = "/v1/chat/completions"


@pytest.fixture
def pair(house, served, site, big):
    """`pair(text, first, backup)`: the answering endpoint fails with the `first` rules; its backup says `text`."""

    def say(handler, text):
        asked = json.loads(site.seen[-1].body)
        site.write(handler, *(stream_saying(*text) if asked.get("stream") else body_saying(text)))

    def make(text, first, backup, dead="http://127.0.0.1:9"):
        big("first", endpoint=dead, backupEndpointName="backup", **first)
        big("backup", **backup)
        site.pages[CHAT] = lambda handler: say(handler, text)
        served.save_user()

    return make


# id, what the backup says, rules of the first, of the backup, what the client gets
CASES = [
    ("thoughts-of-the-backup-are-removed", "<think>plan</think>Hello", {}, THINKS, "Hello"),
    ("nothing-is-taken-for-a-thought-of-the-first", "Hello, all of it.", CLOSES_ONLY, {}, "Hello, all of it."),
    ("thoughts-go-where-the-backup-says", "<think>plan</think>Hello", {}, {**THINKS, "reasoningOutput": "inline"},
     "<think>\nplan\n</think>\n\nHello"),
    ("a-prefix-of-the-first-stays", "Answer: Hello",
     {"removeCustomTextFromResponseStartEndpointWide": True, "responseStartTextToRemoveEndpointWide": ["Answer: "]}, {},
     "Answer: Hello"),
]  # fmt: skip


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("text", "first", "backup", "got"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_the_answer(house, served, pair, text, first, backup, got, stream):
    pair(text, first, backup)
    house.workflow("Main", {"type": "Standard", "endpointName": "first", "prompt": "x"})
    assert served.text(stream=stream) == got


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("text", "first", "backup", "got"), [CASES[0][1:], CASES[1][1:]], ids=["thinks", "plain"]
)
def test_the_output_of_an_inner_node(house, served, pair, text, first, backup, got, stream):
    pair(text, first, backup)
    house.workflow(
        "Main",
        {"type": "Standard", "endpointName": "first", "prompt": "x"},
        {"type": "StringConcatenator", "strings": ["<", "{agent1Output}", ">"], "delimiter": ""},
    )
    assert served.text(stream=stream) == f"<{got}>"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_step_of_an_agent(house, served, pair, stream):
    pair(*CASES[0][1:4])
    house.workflow("Main", {"type": "Agent", "endpointName": "first", "agentTools": [], "allowTools": True})
    assert served.text(stream=stream) == "Hello"


def test_a_stream_that_dies_before_its_first_word(house, served, site, pair):
    """It was open, so its rules were at hand: those of the backup hold all the same."""
    pair(*CASES[0][1:4], dead=site.url("/dead").rstrip("/"))
    role = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
    head = {"Content-Type": "text/event-stream"}
    site.pages[f"/dead{CHAT}"] = (200, head, [role, b'data: {"error":"gone"}\n\n'])
    house.workflow("Main", {"type": "Standard", "endpointName": "first", "prompt": "x"})
    assert served.text(stream=True) == "Hello"
