"""What each cleaning rule took: the vector of console.md 16.4, and agreement with the run for every line of the
corpus."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from Middleware.api.console.call_views import steps
from Middleware.cleaning import ResponseCleaner
from Middleware.workflows.streaming.response_handler import StreamingResponseHandler

CORPUS = Path(__file__).parents[2] / "conformance" / "cleaning.jsonl"
LINES = [json.loads(line) for line in CORPUS.read_text("utf-8").splitlines()]

ENDPOINT = {
    "thinkTagNames": ["think"],
    "removeThinking": True,
    "startThinkTag": "<think>",
    "endThinkTag": "</think>",
    "trimBeginningAndEndLineBreaks": True,
    "removeCustomTextFromResponseStartEndpointWide": True,
    "responseStartTextToRemoveEndpointWide": ["Assistant:"],
}
RAW = "<think>hm, let me see</think>\n\nAssistant: Hello there\n\n"


def by(endpoint=None, node=None, user=None, opening=None):
    return (endpoint or {}, node or {}, user or {}, opening)


def test_each_step_says_its_rule_and_the_text_behind_it():
    """console.md 16.4."""
    assert steps(RAW, "Hello there", by(ENDPOINT)) == {
        "agrees": True,
        "steps": [
            {"rule": "thinking_names", "order": 110, "text": "\n\nAssistant: Hello there\n\n"},
            {"rule": "leading_space", "order": 300, "text": "Assistant: Hello there\n\n"},
            {"rule": "endpoint_prefixes", "order": 320, "text": "Hello there\n\n"},
            {"rule": "trim_ends", "order": 400, "text": "Hello there"},
        ],
    }


@pytest.mark.parametrize("line", LINES, ids=[line["id"] for line in LINES])
def test_the_steps_agree_with_the_run(line):
    """console.md 17.2, row 8."""
    raw = "".join(line["chunks"]) if "chunks" in line else line["text"]
    opening = line.get("generation_prompt")

    made = steps(raw, line["expected"], by(line["endpoint"], line["node"], line["user"], opening))

    assert made["agrees"] is True
    assert [raw, *(step["text"] for step in made["steps"])][-1] == line["expected"]


@pytest.mark.parametrize("line", LINES, ids=[line["id"] for line in LINES])
def test_the_steps_agree_with_a_stream(line):
    """Cleaned as an answer is on its way to the client, by what the trace then keeps."""
    opening = line.get("generation_prompt")
    handler = StreamingResponseHandler(line["endpoint"], line["node"], opening, user_config=line["user"])
    handler.raw = []
    pieces = line["chunks"] if "chunks" in line else list(line["text"])
    for _ in handler.clean(iter([[{"token": piece, "finish_reason": None}] for piece in pieces])):
        pass

    cleaning = by(line["endpoint"], line["node"], line["user"], opening)
    made = steps("".join(handler.raw), handler.full_response_text, cleaning)

    assert made["agrees"] is True


def test_what_changed_nothing_is_no_step():
    assert steps("Hello", "Hello", by(ENDPOINT)) == {"agrees": True, "steps": []}


def test_a_text_that_nothing_cleaned_agrees_with_itself():
    assert steps("\n Hello", "\n Hello", None) == {"agrees": True, "steps": []}


@pytest.mark.parametrize(
    ("raw", "cleaned", "cleaning"),
    [
        pytest.param("\nHello", "Goodbye", by(), id="the run did something else"),
        pytest.param("\nHello", "Hello", None, id="nothing cleaned and yet it changed"),
        pytest.param(None, "Hello", by(), id="the raw text is gone"),
        pytest.param("Hello", None, by(), id="the cleaned text is gone"),
        pytest.param(b"Hello", "Hello", by(), id="no text"),
    ],
)
def test_what_is_not_what_the_run_did_is_not_claimed(raw, cleaned, cleaning):
    assert steps(raw, cleaned, cleaning) == {"agrees": False, "steps": []}


def test_thoughts_that_never_close_and_are_routed_are_no_text():
    """They went out as reasoning, so they are not repeated as text."""
    endpoint = {**ENDPOINT, "reasoningOutput": "field", "whenEndThinkTagMissing": "keep"}

    assert steps("<think>hm", "", by(endpoint))["agrees"] is True


def test_a_node_that_does_not_answer_drops_what_the_endpoint_would_route():
    """There the same unclosed thoughts are kept as text."""
    endpoint = {**ENDPOINT, "reasoningOutput": "field", "whenEndThinkTagMissing": "keep"}

    assert steps("<think>hm", "<think>hm", by(endpoint)) == {"agrees": True, "steps": []}


def test_a_tool_call_without_text_gets_no_speaker():
    assert steps("", "", by(opening="Roland:")) == {"agrees": True, "steps": []}


def test_a_speaker_that_was_put_back_is_a_step():
    cleaner = ResponseCleaner({}, {}, generation_prompt="Roland:")
    cleaned = cleaner.feed("Hello") + cleaner.finish()

    made = steps("Hello", cleaned, by(opening="Roland:"))

    assert made["steps"] == [{"rule": "speaker_reconstruction", "order": 305, "text": "Roland: Hello"}]
