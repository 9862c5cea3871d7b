"""Where a late prompt stands in the messages that are sent. Source: spec prompt-reuse.md 2, 9."""

from __future__ import annotations

import pytest

from Middleware.workflows.dispatch.late_prompt import LatePrompt, add_late

ROLES = {"s": "system", "u": "user", "a": "assistant", "t": "tool"}
CALL = {"role": "assistant", "content": "", "tool_calls": [{"id": "c"}]}
RESULT = {"role": "tool", "content": "r", "tool_call_id": "c"}


def talk(*words):
    """`u:A a:B`: a user and an assistant message; the call and its result as they are."""
    return [
        {"role": ROLES[word[0]], "content": word[2:]} if isinstance(word, str) else word for word in words
    ]


def added(messages, place="after", text="Now: x{y}", system_stays=True):
    return add_late(messages, LatePrompt(text, place), system_stays=system_stays)


def shown(late):
    return [f"{message['role'][0]}:{message['content']}" for message in late.messages]


PLACES = [
    ("after", "after", talk("s:S", "u:A", "a:B", "u:C"), ["s:S", "u:A", "a:B", "u:C\n\nNow: x{y}"]),
    ("before", "before", talk("s:S", "u:A", "a:B", "u:C"), ["s:S", "u:A", "a:B", "u:Now: x{y}\n\nC"]),
    ("system", "system", talk("s:S", "u:A", "a:B", "u:C"), ["s:S", "u:A", "a:B", "s:Now: x{y}", "u:C"]),
    ("a-prefill-stays-last", "after", talk("u:C", "a:D"), ["u:C\n\nNow: x{y}", "a:D"]),
    ("before-the-last-of-two-speakers", "after", talk("u:C", "a:D", "a:E:"), ["u:C", "a:D", "u:Now: x{y}", "a:E:"]),
    ("before-the-last-speaker-as-the-users-whatever-the-place", "system", talk("u:C", "a:D", "a:E:"), ["u:C", "a:D", "u:Now: x{y}", "a:E:"]),
    ("an-exchange-stays-behind-it", "after", talk("u:C", CALL, RESULT), ["u:C\n\nNow: x{y}", "a:", "t:r"]),
    ("two-exchanges-are-no-speakers", "after", talk("u:C", CALL, CALL), ["u:C\n\nNow: x{y}", "a:", "a:"]),
    ("without-a-user-it-is-the-last", "before", talk("s:S", "a:B"), ["s:S", "a:B", "u:Now: x{y}"]),
    ("of-nothing", "system", [], ["u:Now: x{y}"]),
    ("a-message-without-text-holds-it-alone", "after", talk("u:"), ["u:Now: x{y}"]),
]  # fmt: skip


@pytest.mark.parametrize(("place", "messages", "sent"), [p[1:] for p in PLACES], ids=[p[0] for p in PLACES])
def test_stands_where_the_node_says(place, messages, sent):
    """And what was sent before it is as it was."""
    assert shown(added(messages, place)) == sent


def test_goes_in_front_of_the_user_where_system_messages_have_one_place():
    """A backend would lift it before the conversation, and all would be read again."""
    assert shown(added(talk("u:C"), "system", system_stays=False)) == ["u:Now: x{y}\n\nC"]


@pytest.mark.parametrize("text", ["", " \n"])
def test_blank_adds_nothing(text):
    """No empty line either."""
    messages = talk("u:A", "a:B", "u:C")

    late = added(messages, text=text)
    assert (late.messages, late.text, late.place) == (messages, "", "")


@pytest.mark.parametrize(
    ("messages", "place", "told"),
    [
        (talk("u:C"), "after", ("\n\nNow: x{y}", "after")),
        (talk("u:C"), "before", ("Now: x{y}\n\n", "before")),
        (talk("u:"), "after", ("Now: x{y}", "after")),
        (talk("u:C"), "system", ("Now: x{y}", "alone")),
        (talk("u:C", "a:D", "a:E:"), "after", ("Now: x{y}", "alone")),
    ],
)
def test_tells_what_it_added(messages, place, told):
    """Whoever sets a mark before the late text finds it: the joint belongs to it."""
    late = added(messages, place)

    assert (late.text, late.place) == told


def test_changes_no_message_in_place():
    """The conversation belongs to all nodes of the run; pictures stay with their message."""
    messages = [{"role": "user", "content": "C", "images": ["a"]}]

    late = added(messages)
    assert messages == [{"role": "user", "content": "C", "images": ["a"]}]
    assert late.messages == [{"role": "user", "content": "C\n\nNow: x{y}", "images": ["a"]}]


@pytest.mark.parametrize(("words", "tokens"), [(0, 0), (1, 256), (160, 256), (200, 512)])
def test_counts_in_steps(words, tokens):
    """So that its length does not move a window that is clamped."""
    assert LatePrompt("word " * words).counted_tokens == tokens
