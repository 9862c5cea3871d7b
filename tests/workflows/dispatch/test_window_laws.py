"""Laws of windows and of the clamp, over random conversations: good ones, and such as clients cut them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from Middleware.common.types import Message, Messages
from Middleware.utilities.prompt_extraction_utils import exchange_length
from Middleware.workflows.dispatch.prompt_assembly import Parts
from tests.workflows.dispatch.models import assemble_cut, chat_model, flat_model

CONTENTS = st.sampled_from(["", "hi", "word " * 40, "\u8702" * 120, "x" * 4000])
"""A word, a paragraph, one without blanks, a page."""
ROLES = st.sampled_from(["user", "assistant", "call", "tool", "tool", "system"])
TURNS = st.lists(st.tuples(ROLES, CONTENTS), max_size=14)
NODES = st.fixed_dictionaries(
    {},
    optional={
        "lastMessagesToSendInsteadOfPrompt": st.integers(0, 8),
        "lastMessagesToSendInsteadOfPromptMaxTokenSize": st.sampled_from([0, 1, 60, 900]),
        "clampPromptToContextWindow": st.booleans(),
    },
)
WINDOWS = st.sampled_from([None, 100, 600, 1500, 9000])
TOOLS = st.sampled_from([(), ({"name": "look"},), ({"name": "x" * 4000},)])
BOTH = pytest.mark.parametrize("takes_messages", [True, False], ids=["chat", "flat"])


def conversation(turns: list[tuple[str, str]]) -> Messages:
    """Each content begins with its place, so that a flat prompt shows which messages it holds."""
    messages = []
    for place, (role, content) in enumerate(turns):
        message: Message = {"role": {"call": "assistant"}.get(role, role), "content": f"<{place}>{content}"}
        if role == "call":
            message["tool_calls"] = [{"id": f"c{place}", "function": {"name": "look", "arguments": "{}"}}]
        messages.append(message)
    return messages


def sent(messages: Messages, node: dict[str, Any], window: int | None, tools: Any, chat: bool) -> Any:
    model = chat_model(maxContextTokenSize=window) if chat else flat_model({}, maxContextTokenSize=window)
    return assemble_cut(Parts(node, "", None, messages, tools=tools), model)


def shown(prompt: Any, messages: Messages) -> list[int]:
    """Places of the messages that are sent, in the order of the conversation."""
    text = (
        prompt.prompt if prompt.conversation is None else "".join(m["content"] for m in prompt.conversation)
    )
    return [place for place in range(len(messages)) if f"<{place}>" in text]


def end_of(messages: Messages, chat: bool) -> list[int]:
    """Places of an open tool exchange; flat prompts hold no system messages."""
    start = len(messages) - exchange_length(reversed(messages))
    return [place for place in range(start, len(messages)) if chat or messages[place]["role"] != "system"]


@BOTH
@given(TURNS, NODES, WINDOWS, TOOLS)
def test_an_open_exchange_is_sent_whole(takes_messages, turns, node, window, tools):
    """Whatever cuts the conversation, and however little fits."""
    messages = conversation(turns)
    prompt, _ = sent(messages, node, window, tools, takes_messages)
    end = end_of(messages, takes_messages)
    assert shown(prompt, messages)[len(shown(prompt, messages)) - len(end) :] == end


@BOTH
@given(TURNS, NODES, WINDOWS, TOOLS)
def test_nothing_is_sent_twice_or_out_of_order(takes_messages, turns, node, window, tools):
    """But for the newest question, which is put in front where no other user message is left."""
    messages = conversation(turns)
    prompt, _ = sent(messages, node, window, tools, takes_messages)
    marks = [f"<{place}>" for place in shown(prompt, messages)]
    text = (
        prompt.prompt if prompt.conversation is None else "".join(m["content"] for m in prompt.conversation)
    )
    assert all(text.count(mark) == 1 for mark in marks)
    answers = [f"<{place}>" for place in shown(prompt, messages) if messages[place]["role"] != "user"]
    assert sorted(answers, key=text.index) == answers


@BOTH
@given(TURNS, NODES, WINDOWS, TOOLS)
def test_the_clamp_drops_the_oldest_only(takes_messages, turns, node, window, tools):
    """What it sends is the end of what is sent without it. User messages may be put back, system ones kept."""
    messages = conversation(turns)
    node.pop("lastMessagesToSendInsteadOfPromptMaxTokenSize", None)
    on, off = (
        [place for place in shown(prompt, messages) if messages[place]["role"] in ("assistant", "tool")]
        for prompt, _ in (
            sent(messages, {**node, "clampPromptToContextWindow": clamp}, window, tools, takes_messages)
            for clamp in (True, False)
        )
    )
    assert on == off[len(off) - len(on) :]


@BOTH
@given(TURNS, WINDOWS, TOOLS)
def test_one_warning_says_that_an_exchange_is_over_the_budget(takes_messages, turns, window, tools):
    """And none does where it fits."""
    messages = conversation([("user", "hi"), *turns, ("call", ""), ("tool", "word")])
    _, clamp = sent(messages, {"clampPromptToContextWindow": True}, window, tools, takes_messages)
    cost = sum(8 + clamp.cost(message) for message in messages[-exchange_length(reversed(messages)) :])
    over = clamp.budget is not None and (clamp.budget <= 0 or cost > clamp.budget)
    assert len(clamp.warnings) == over


@example([("tool", ""), ("system", ""), ("tool", ""), ("user", "")], {}, None, ())
@given(TURNS, NODES, WINDOWS, TOOLS)
def test_no_window_begins_with_a_result_of_an_older_call(turns, node, window, tools):
    """Backends refuse it."""
    messages = conversation(turns)
    prompt, _ = sent(messages, node, window, tools, True)
    first = next((message for message in prompt.conversation if message["role"] != "system"), None)
    older = messages[: len(messages) - exchange_length(reversed(messages))]
    assert first not in [message for message in older if message["role"] == "tool"]
