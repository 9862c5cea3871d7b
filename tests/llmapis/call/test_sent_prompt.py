"""The prompt of a payload, as it is compared with others (prompt-reuse.md 3.2)."""

from __future__ import annotations

import pytest

from Middleware.llmapis.call.sent_prompt import digest_payload, prompt_parts

SYSTEM, USER = {"role": "system", "content": "card"}, {"role": "user", "content": "Hello"}


@pytest.mark.parametrize(
    ("payload", "parts"),
    [
        ({"model": "m", "messages": [SYSTEM, USER]}, [("system", "card"), ("user", "Hello")]),
        ({"messages": [USER], "tools": [{"a": 1}]}, [("tools", '[{"a":1}]'), ("user", "Hello")]),
        ({"system": "card", "messages": [USER]}, [("system", "card"), ("user", "Hello")]),
        (
            {
                "system": [{"type": "text", "text": "card", "cache_control": {"type": "ephemeral"}}],
                "messages": [],
            },
            [("system", "card")],
        ),
        ({"prompt": "card\nHello"}, [("prompt", "card\nHello")]),
        ({"messages": [{"role": "user", "content": None}]}, [("user", "")]),
        ({"input": "embed me"}, []),
    ],
    ids=["chat", "tools first", "Claude", "Claude's blocks", "flat", "no content", "no prompt"],
)
def test_the_parts_stand_in_the_order_in_which_they_are_read(payload, parts):
    """Whatever the order of the keys."""
    assert prompt_parts(payload) == parts


def test_a_flat_prompt_is_cut_behind_its_system_prompt():
    """So it is known what many chats may share."""
    payload = {"prompt": "<s>card\nHello"}
    assert prompt_parts(payload, "card\n") == [("system", "<s>card\n"), ("prompt", "Hello")]
    assert digest_payload(payload, "card\n").head_chars == 8


def test_a_flat_prompt_without_its_system_prompt_is_one_text():
    """A template that changed it leaves nothing to find."""
    assert prompt_parts({"prompt": "Hello"}, "card") == [("prompt", "Hello")]


def test_calls_of_tools_are_part_of_a_message():
    """Another call is another prompt."""
    asked = {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}
    [(_, text)] = prompt_parts({"messages": [asked]})
    assert '"id":"1"' in text


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:" + "A" * 9000}}]},
        {"role": "user", "content": "", "images": ["A" * 9000]},
    ],
    ids=["OpenAI", "Ollama"],
)
def test_a_picture_is_compared_as_a_whole(message):
    """Its data are no characters of the prompt, but another picture is another prompt."""
    [(_, text)] = prompt_parts({"messages": [message]})
    other = {**message, "content": "", "images": ["B" * 9000]}
    assert len(text) < 30 and prompt_parts({"messages": [other]}) != [("user", text)]


@pytest.mark.parametrize(
    "kind", ["image", "image_url", "input_image", "input_audio", "audio", "document", "file"]
)
def test_whatever_carries_data_is_compared_as_a_whole(kind):
    """Each service has a name of its own for it."""
    [(_, text)] = prompt_parts(
        {"messages": [{"role": "user", "content": [{"type": kind, "data": "A" * 900}]}]}
    )
    assert len(text) < 30


def test_a_part_of_another_type_is_compared_by_its_characters():
    """The result of a tool, say: the model reads it."""
    part = {"type": "tool_result", "content": "A" * 900}
    [(_, text)] = prompt_parts({"messages": [{"role": "user", "content": [part]}]})
    assert "A" * 900 in text


@pytest.mark.parametrize(
    "key", ["tool_calls", "tool_call_id", "name", "tool_name", "reasoning_content", "thinking"]
)
def test_what_a_message_says_beside_its_content_is_part_of_it(key):
    [(_, text)] = prompt_parts({"messages": [{"role": "tool", "content": "wet", key: "tides"}]})
    assert text == 'wet\n"tides"'


def test_pictures_of_a_flat_prompt_are_compared_too():
    """KoboldCpp and Ollama take them beside the text."""
    first, second = ({"prompt": "Look", "images": [data]} for data in ("A", "B"))
    assert prompt_parts(first) != prompt_parts(second)


def test_a_text_block_is_the_same_as_a_text():
    """Marks of a service (`cache_control`) and its list of blocks change nothing that is read."""
    blocks = {"role": "user", "content": [{"type": "text", "text": "Hello", "cache_control": {}}]}
    assert prompt_parts({"messages": [blocks]}) == prompt_parts({"messages": [USER]})
