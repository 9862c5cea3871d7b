"""Bodies of each protocol as lists of messages with parts; what is masked, cut and left out."""

from __future__ import annotations

import json

import pytest

from Middleware.api.console.recorder import Cut, cut_middle
from Middleware.api.traces.messages import CallTexts, mask_of_run, text_attributes
from Middleware.services.kept_bodies import kept_body

PLAIN = mask_of_run((), ())


def told(texts, mask=PLAIN):
    """The attributes, their JSON read."""
    made = text_attributes(texts, mask)
    return {name.removeprefix("gen_ai."): json.loads(text) for name, text in made.items()}


def of_body(body):
    return told(CallTexts(json.dumps(body).encode()))


def said(role, *parts):
    return {"role": role, "parts": list(parts)}


def text(content):
    return {"type": "text", "content": content}


CALL = {"id": "c1", "function": {"name": "search", "arguments": '{"q":"tea"}'}}
CALLED = {"type": "tool_call", "id": "c1", "name": "search", "arguments": '{"q":"tea"}'}
GAVE = {"type": "tool_call_response", "id": "c1", "response": "green"}
PICTURE = {"type": "uri", "modality": "image", "uri": "data:,left-out"}

BODIES = {
    "openai": (
        {"messages": [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi"}]},
        {"input.messages": [said("system", text("be kind")), said("user", text("hi"))]},
    ),
    "openai-parts": (
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "what is it?"},
                        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                        {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}},
                    ],
                }
            ]
        },
        {
            "input.messages": [
                said("user", text("what is it?"), PICTURE, {**PICTURE, "uri": "https://x.example/a.png"})
            ]
        },
    ),
    "openai-tools": (
        {
            "messages": [
                {"role": "assistant", "content": None, "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "c1", "content": "green"},
            ]
        },
        {"input.messages": [said("assistant", CALLED), said("tool", GAVE)]},
    ),
    "openai-thoughts": (
        {"messages": [{"role": "assistant", "reasoning_content": "hm", "content": "yes"}]},
        {"input.messages": [said("assistant", {"type": "reasoning", "content": "hm"}, text("yes"))]},
    ),
    "claude": (
        {
            "system": [{"type": "text", "text": "be kind"}],
            "messages": [
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "c1", "name": "search", "input": {"q": 1}}],
                },
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "green"}],
                },
            ],
        },
        {
            "system_instructions": [text("be kind")],
            "input.messages": [said("assistant", {**CALLED, "arguments": '{"q":1}'}), said("user", GAVE)],
        },
    ),
    "claude-thoughts": (
        {
            "system": "be kind",
            "messages": [{"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]}],
        },
        {
            "system_instructions": [text("be kind")],
            "input.messages": [said("assistant", {"type": "reasoning", "content": "hm"})],
        },
    ),
    "ollama": (
        {"messages": [{"role": "user", "content": "hi", "images": ["AAAA", "BBBB"]}]},
        {"input.messages": [said("user", text("hi"), PICTURE, PICTURE)]},
    ),
    "flat": ({"prompt": "Once"}, {"input.messages": [said("user", text("Once"))]}),
    "flat-with-system": (
        {"system": "be kind", "prompt": "Once"},
        {"system_instructions": [text("be kind")], "input.messages": [said("user", text("Once"))]},
    ),
    "responses": (
        {
            "instructions": "be kind",
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
                {"type": "function_call_output", "call_id": "c1", "output": "green"},
            ],
        },
        {
            "system_instructions": [text("be kind")],
            "input.messages": [said("user", text("hi")), said("tool", GAVE)],
        },
    ),
    "embeddings": (
        {"input": ["one", "two"]},
        {"input.messages": [said("user", text("one")), said("user", text("two"))]},
    ),
    "odd": (
        {"messages": [7, {"role": 3, "content": {"a": 1}}, {"role": "user", "content": [8]}]},
        {"input.messages": [said("user", text("7")), said("user", text('{"a":1}')), said("user", text("8"))]},
    ),
    "nothing": ({"model": "m"}, {}),
}


@pytest.mark.parametrize("name", sorted(BODIES))
def test_a_body(name):
    """In whatever protocol it is, the parts have the conventions' shape."""
    body, messages = BODIES[name]
    assert of_body(body) == messages


@pytest.mark.parametrize("body", [b"no json", b"[1]", b"\xff\xfe", b"1" * 5000, b"[" * 100_000])
def test_a_body_that_is_no_object(body):
    """Is one text of the user."""
    [message] = told(CallTexts(body))["input.messages"]
    assert (message["role"], len(message["parts"])) == ("user", 1)


def test_a_long_body():
    """What was left out is said; its ends are there."""
    body, left_out = kept_body(b'{"messages":[' + b"x" * 300_000 + b"]}")
    [message] = told(CallTexts(body, left_out))["input.messages"]
    content = message["parts"][0]["content"]
    assert f"... ({left_out} left out) ..." in content
    assert (content[:12], content[-2:]) == ('{"messages":', "]}")


def test_an_answer():
    """Thoughts first, then the text, and how it ended."""
    made = told(CallTexts(answer="tea", thoughts=("hm",), finish="stop"))
    parts = [{"type": "reasoning", "content": "hm"}, text("tea")]
    assert made == {"output.messages": [{**said("assistant", *parts), "finish_reason": "stop"}]}


def test_an_answer_that_calls_tools():
    """A text, if there is one, and the calls."""
    made = told(CallTexts(answer={"content": "let me look", "tool_calls": [CALL]}))
    assert made == {"output.messages": [said("assistant", text("let me look"), CALLED)]}


@pytest.mark.parametrize("answer", ["a" * 200_000, cut_middle("a" * 200_000)])
def test_a_long_answer(answer):
    """Its middle is left out, whoever cut it."""
    [message] = told(CallTexts(answer=answer))["output.messages"]
    assert "... (134464 left out) ..." in message["parts"][0]["content"]


def test_no_answer():
    """Nothing was said: there is no attribute."""
    assert [told(CallTexts(answer=answer)) for answer in (None, "")] == [{}, {}]


def test_a_tool():
    """Its arguments and its result, as they are."""
    made = text_attributes(CallTexts(b'{"q":"tea"}', answer="green", is_tool=True), PLAIN)
    assert made == {"gen_ai.tool.call.arguments": '{"q":"tea"}', "gen_ai.tool.call.result": "green"}


HIDING = mask_of_run(("hunter2hunter2",), ('a"quoted"key',))


class TestMasks:
    @pytest.mark.parametrize("name", sorted(BODIES))
    def test_wherever_it_stands(self, name):
        """A secret is masked in each text of each protocol."""
        body = json.dumps(BODIES[name][0]).replace("hi", "hunter2hunter2").replace("green", "hunter2hunter2")
        assert "hunter2" not in json.dumps(told(CallTexts(body.encode()), HIDING))

    def test_one_that_json_writes_otherwise(self):
        """With its quotes escaped it is the same secret."""
        body = json.dumps({"prompt": 'say a"quoted"key'}).encode()
        assert told(CallTexts(body), HIDING)["input.messages"] == [said("user", text("say ***"))]

    def test_across_a_cut(self):
        """Of a secret that lay across the cut neither end is left."""
        made = told(CallTexts(answer=Cut("so hunter2", "hunter2 it is", 5)), HIDING)
        assert "hunter2" not in json.dumps(made)

    def test_in_tools_and_thoughts(self):
        """Everywhere else, too."""
        tool = CallTexts(b"hunter2hunter2", answer="hunter2hunter2", is_tool=True)
        answer = CallTexts(
            answer={"content": "hunter2hunter2", "tool_calls": [CALL]}, thoughts=("hunter2hunter2",)
        )
        made = [text_attributes(texts, HIDING) for texts in (tool, answer)]
        assert "hunter2" not in json.dumps(made)
