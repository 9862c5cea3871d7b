"""Any answer, in any backend's dialect, cut anywhere: the stream says what the whole body says."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from Middleware.common.errors import BackendError
from Middleware.llmapis.call.call_log import one_chunk
from Middleware.llmapis.llm_text import in_order, join_batches

TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
SECTIONS = st.lists(TEXTS.filter(bool), max_size=5)
ARGUMENTS = st.dictionaries(st.text(max_size=4), st.integers() | TEXTS, max_size=3)
CALLS = st.lists(st.tuples(st.sampled_from(["f", "get_weather"]), ARGUMENTS), max_size=3)
ANSWERS = st.fixed_dictionaries({"texts": SECTIONS, "thoughts": SECTIONS, "calls": CALLS}).filter(
    lambda answer: any(answer.values())
)
CUTS = st.lists(st.floats(0, 1), max_size=8)


def sse(events):
    return "".join(f"data: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events)


def chopped(text):
    """A text in two pieces, as servers cut arguments."""
    return [text[: len(text) // 2], text[len(text) // 2 :]]


class OpenAi:
    """`reasoning_content` and deltas of calls."""

    type = "openAIChatCompletion"
    thinks = calls = True

    def stream(self, answer):
        deltas = [{"role": "assistant", "content": None}]
        deltas += [{"reasoning_content": thought} for thought in answer["thoughts"]]
        deltas += [{"content": text} for text in answer["texts"]]
        for index, (name, arguments) in enumerate(answer["calls"]):
            first, rest = chopped(json.dumps(arguments))
            head = {"index": index, "id": f"c{index}", "type": "function"}
            deltas.append({"tool_calls": [{**head, "function": {"name": name, "arguments": first}}]})
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": rest}}]})
        chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": self.reason(answer)}]})
        return sse(chunks) + "data: [DONE]\n\n"

    def reason(self, answer):
        return "tool_calls" if answer["calls"] else "length"

    def whole(self, answer):
        message = {
            "content": "".join(answer["texts"]) or None,
            "reasoning_content": "".join(answer["thoughts"]) or None,
            "tool_calls": self.tool_calls(answer),
        }
        return {"choices": [{"message": message, "finish_reason": self.reason(answer)}]}

    def tool_calls(self, answer):
        return [
            {
                "index": index,
                "id": f"c{index}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for index, (name, arguments) in enumerate(answer["calls"])
        ]


class Mistral(OpenAi):
    """Content arrays; whole calls under index 0, told apart by their ids."""

    def stream(self, answer):
        parts = [
            {"type": "thinking", "thinking": [{"type": "text", "text": text}]} for text in answer["thoughts"]
        ]
        parts += [{"type": "text", "text": text} for text in answer["texts"]]
        deltas = [{"content": [part]} for part in parts]
        for index, (name, arguments) in enumerate(answer["calls"]):
            function = {"name": name, "arguments": json.dumps(arguments)}
            deltas.append(
                {"content": "", "tool_calls": [{"index": 0, "id": f"c{index}", "function": function}]}
            )
        *chunks, last = [
            {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
        ]
        last["choices"][0]["finish_reason"] = self.reason(answer)
        return sse([*chunks, last]) + "data: [DONE]\n\n"

    def whole(self, answer):
        body = super().whole(answer)
        message = body["choices"][0]["message"]
        thoughts = [{"type": "text", "text": text} for text in answer["thoughts"]]
        message["content"] = [
            {"type": "thinking", "thinking": thoughts},
            {"type": "text", "text": "".join(answer["texts"])},
        ]
        del message["reasoning_content"]
        return body


class Gemini(OpenAi):
    """Thoughts in the content, flagged; the mark behind them comes with the answer, which has no flag."""

    flag: ClassVar = {"extra_content": {"google": {"thought": True}}}

    def stream(self, answer):
        mark = "</thought>" if answer["thoughts"] else ""
        thoughts = ["<thought>", *answer["thoughts"]] if mark else []
        deltas = [{"role": "assistant", "content": text, **self.flag} for text in thoughts]
        deltas += [{"content": text} for text in [mark, *answer["texts"]]]
        chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        last = {"role": "assistant", "tool_calls": self.tool_calls(answer)}
        chunks.append({"choices": [{"index": 0, "delta": last, "finish_reason": self.reason(answer)}]})
        return sse(chunks) + "data: [DONE]\n\n"

    def whole(self, answer):
        text, thinking = "".join(answer["texts"]), "".join(answer["thoughts"])
        marked = {"content": f"<thought>{thinking}</thought>{text}", **self.flag}
        message = {**(marked if thinking else {"content": text}), "tool_calls": self.tool_calls(answer)}
        return {"choices": [{"message": message, "finish_reason": self.reason(answer)}]}


class Completions:
    """Text alone."""

    type = "openAIV1Completion"
    thinks = calls = False

    def stream(self, answer):
        chunks = [{"choices": [{"text": text, "finish_reason": None}]} for text in answer["texts"]]
        return sse([*chunks, {"choices": [{"text": "", "finish_reason": "length"}]}]) + "data: [DONE]\n\n"

    def whole(self, answer):
        return {"choices": [{"text": "".join(answer["texts"]), "finish_reason": "length"}]}


class Ollama:
    """Lines; calls come whole."""

    type = "ollamaApiChat"
    thinks = calls = True

    def stream(self, answer):
        messages = [
            {"role": "assistant", "content": "", "thinking": thought} for thought in answer["thoughts"]
        ]
        messages += [{"role": "assistant", "content": text} for text in answer["texts"]]
        messages += [
            {"role": "assistant", "content": "", "tool_calls": [call]} for call in self.tool_calls(answer)
        ]
        lines = [{"model": "m", "message": message, "done": False} for message in messages]
        lines.append({"message": {"content": ""}, "done": True, "done_reason": "length", "eval_count": 3})
        return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)

    def tool_calls(self, answer):
        return [
            {"id": f"c{index}", "function": {"name": name, "arguments": arguments}}
            for index, (name, arguments) in enumerate(answer["calls"])
        ]

    def whole(self, answer):
        message = {
            "content": "".join(answer["texts"]),
            "thinking": "".join(answer["thoughts"]),
            "tool_calls": self.tool_calls(answer),
        }
        return {"model": "m", "message": message, "done": True, "done_reason": "length", "eval_count": 3}


class OllamaGenerate:
    """Lines of text and thoughts."""

    type = "ollamaApiGenerate"
    thinks, calls = True, False

    def stream(self, answer):
        lines = [{"response": "", "thinking": thought} for thought in answer["thoughts"]]
        lines += [{"response": text, "done": False} for text in answer["texts"]]
        lines.append({"response": "", "done": True, "done_reason": "stop"})
        return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)

    def whole(self, answer):
        text, thinking = "".join(answer["texts"]), "".join(answer["thoughts"])
        return {"response": text, "thinking": thinking, "done": True, "done_reason": "stop"}


class Kobold:
    """Named events, the text `null`, no end mark."""

    type = "koboldCppGenerate"
    thinks = calls = False

    def stream(self, answer):
        events = [{"token": text, "finish_reason": "null"} for text in answer["texts"]]
        events.append({"token": "", "finish_reason": "length"})
        return "".join(f"event: message\ndata: {json.dumps(event)}\n\n" for event in events)

    def whole(self, answer):
        return {"results": [{"text": "".join(answer["texts"]), "finish_reason": "length"}]}


class Claude:
    """Blocks."""

    type = "claudeMessages"
    thinks = calls = True

    def blocks(self, answer):
        blocks = [{"type": "thinking", "thinking": text, "signature": "s"} for text in answer["thoughts"]]
        blocks += [{"type": "text", "text": text} for text in answer["texts"]]
        return blocks + [
            {"type": "tool_use", "id": f"c{index}", "name": name, "input": arguments}
            for index, (name, arguments) in enumerate(answer["calls"])
        ]

    def deltas(self, block):
        if block["type"] == "text":
            return [{"type": "text_delta", "text": block["text"]}]
        if block["type"] == "thinking":
            return [
                {"type": "thinking_delta", "thinking": block["thinking"]},
                {"type": "signature_delta", "signature": "s"},
            ]
        pieces = chopped(json.dumps(block["input"])) if block["input"] else []
        return [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]

    def stream(self, answer):
        events = [{"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 2}}}]
        for index, block in enumerate(self.blocks(answer)):
            empty = {key: {"input": {}}.get(key, "") for key in block} | {"type": block["type"]}
            empty |= {key: block[key] for key in ("id", "name") if key in block}
            events.append({"type": "content_block_start", "index": index, "content_block": empty})
            events += [
                {"type": "content_block_delta", "index": index, "delta": delta}
                for delta in self.deltas(block)
            ]
            events.append({"type": "content_block_stop", "index": index})
        reason = {"stop_reason": self.reason(answer)}
        events.append({"type": "message_delta", "delta": reason, "usage": {"output_tokens": 3}})
        events.append({"type": "message_stop"})
        return "".join(
            f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events
        )

    def reason(self, answer):
        return "tool_use" if answer["calls"] else "max_tokens"

    def whole(self, answer):
        usage = {"input_tokens": 2, "output_tokens": 3}
        return {
            "content": self.blocks(answer),
            "stop_reason": self.reason(answer),
            "usage": usage,
            "model": "m",
        }


ENDINGS = [
    ("openAIChatCompletion", "delta", "message", {}),
    ("openAIChatCompletion", "delta", "message", None),
    ("openAIV1Completion", "text", "text", None),
]


@pytest.mark.parametrize("word", ["content_filter: PROHIBITED_CONTENT", "content_filter", "stop", "length"])
@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize(("kind", "streamed", "told", "value"), ENDINGS)
def test_a_choice_that_only_says_why_it_ended(
    kind, streamed, told, value, is_there, word, make_handler, read_stream, joined, whole
):
    """Google's route, of an answer that a filter stopped: it is empty, and its end is known."""
    event, body = (
        {"choices": [{"index": 0, "finish_reason": word, **({name: value} if is_there else {})}]}
        for name in (streamed, told)
    )
    data = [f"data: {json.dumps(event)}\n\n".encode(), b"data: [DONE]\n\n"]
    answer = whole(make_handler(kind, stream=False).read_whole(body))
    assert joined(read_stream(make_handler(kind), data)) == answer
    assert (answer["text"], answer["finish_reason"]) == ("", word.partition(":")[0])


@pytest.mark.parametrize("more", [{}, {"delta": None}, {"message": None}], ids=str)
@pytest.mark.parametrize("reason", ["length", None])
def test_text_choices_of_a_chat(more, reason, make_handler, read_stream, joined, whole):
    """Servers that answer on both routes with texts."""
    *choices, last = ({"text": text, "finish_reason": None, **more} for text in ("a", "b", "c"))
    last["finish_reason"] = reason
    data = [f"data: {json.dumps({'choices': [choice]})}\n\n".encode() for choice in (*choices, last)]
    handler = make_handler("openAIChatCompletion")
    answer = whole(handler.read_whole({"choices": [{"text": "abc", "finish_reason": reason, **more}]}))
    assert joined(read_stream(handler, [*data, b"data: [DONE]\n\n"])) == answer
    assert (answer["text"], answer["finish_reason"]) == ("abc", reason or "stop")


@pytest.mark.parametrize(
    ("kind", "event", "body"),
    [
        ("openAIChatCompletion", {"finish_reason": "function_call_filter: X"}, None),
        ("openAIV1Completion", {"delta": {"content": "a"}, "finish_reason": "stop"}, None),
        ("openAIV1Completion", {"delta": {}, "finish_reason": "stop"}, {"message": {"content": "a"}}),
    ],
)
def test_a_failure_is_no_empty_answer(kind, event, body, make_handler, read_stream):
    """A call that the filter stopped; the choice of a chat on the route for texts."""
    body = {"finish_reason": "stop", **body} if body else event
    with pytest.raises(BackendError) as streamed:
        data = f"data: {json.dumps({'choices': [event]})}\n\ndata: [DONE]\n\n"
        read_stream(make_handler(kind), [data.encode()])
    with pytest.raises(BackendError) as whole:
        make_handler(kind, stream=False).read_whole({"choices": [body]})
    assert streamed.value.kind == whole.value.kind


def test_one_event_that_ends_with_a_text_and_a_failure(make_handler, read_stream):
    """The text is no whole answer, and is not lost."""
    event = {"choices": [{"delta": {"content": "a"}, "finish_reason": "function_call_filter: X"}]}
    chunks = read_stream(make_handler("openAIChatCompletion"), [f"data: {json.dumps(event)}\n\n".encode()])
    assert [(chunk["token"], chunk["finish_reason"]) for chunk in chunks] == [("a", "stop")]


DIALECTS = [OpenAi, Mistral, Gemini, Completions, Ollama, OllamaGenerate, Kobold, Claude]


@pytest.mark.parametrize(
    "dialect", [dialect() for dialect in DIALECTS], ids=lambda dialect: type(dialect).__name__
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(answer=ANSWERS, cuts=CUTS)
def test_stream_equals_whole(dialect, answer, cuts, make_handler, read_stream, joined, whole):
    """Text, thoughts, calls, finish reason and usage."""
    answer = {
        "texts": answer["texts"] or ["x"],
        "thoughts": answer["thoughts"] if dialect.thinks else [],
        "calls": answer["calls"] if dialect.calls else [],
    }
    data = dialect.stream(answer).encode()
    edges = [0, *sorted(int(cut * len(data)) for cut in cuts), len(data)]
    reads = [data[start:end] for start, end in pairwise(edges)]
    streamed = joined(read_stream(make_handler(dialect.type), reads))
    assert streamed == whole(make_handler(dialect.type, stream=False).read_whole(dialect.whole(answer)))
    assert streamed["text"] == "".join(answer["texts"])
    assert streamed["thinking"] == "".join(answer["thoughts"])
    assert [(call["name"], call["arguments"]) for call in streamed["calls"]] == answer["calls"]


class MixedClaude(Claude):
    """Blocks in any order."""

    def blocks(self, answer):
        return [
            {"type": "thinking", "thinking": part, "signature": "s"}
            if is_thought
            else {"type": "text", "text": part}
            for is_thought, part in answer["said"]
        ]


class MixedMistral(Mistral):
    """Parts in any order."""

    def parts(self, answer):
        return [
            {"type": "thinking", "thinking": [{"type": "text", "text": part}]}
            if is_thought
            else {"type": "text", "text": part}
            for is_thought, part in answer["said"]
        ]

    def stream(self, answer):
        chunks = [
            {"choices": [{"delta": {"content": [part]}, "finish_reason": None}]}
            for part in self.parts(answer)
        ]
        return sse([*chunks, {"choices": [{"delta": {}, "finish_reason": "stop"}]}]) + "data: [DONE]\n\n"

    def whole(self, answer):
        return {"choices": [{"message": {"content": self.parts(answer)}, "finish_reason": "stop"}]}


def order(chunks):
    """What is thought and what is text, in its order: `(is thought, part)`."""
    said = []
    for chunk in chunks:
        for is_thought, part in ((True, chunk.get("thinking")), (False, chunk["token"])):
            if part and said and said[-1][0] is is_thought:
                said[-1] = is_thought, said[-1][1] + part
            elif part:
                said.append((is_thought, part))
    return said


def order_of(answer):
    return order(in_order(one_chunk(answer), answer))


@pytest.mark.parametrize("dialect", [MixedClaude(), MixedMistral()], ids=["claude", "mistral"])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=st.lists(st.tuples(st.booleans(), TEXTS.filter(bool)), min_size=1, max_size=6))
def test_thoughts_behind_text_keep_their_place(dialect, said, make_handler, read_stream):
    """Streamed, whole, and joined from a stream."""
    answer = {"said": said, "texts": [], "calls": []}
    streamed = list(read_stream(make_handler(dialect.type), [dialect.stream(answer).encode()]))
    whole = make_handler(dialect.type, stream=False).read_whole(dialect.whole(answer))
    expected = order(
        [{"token": "", "thinking": part} if thinks else {"token": part} for thinks, part in said]
    )
    assert order(streamed) == order_of(whole) == order_of(join_batches("E", [streamed])) == expected


MARKS = [
    "<think>",
    "</think>",
    "[THINK]",
    "[/THINK]",
    "<|channel|>",
    "analysis",
    "final",
    "<|message|>",
    "<|end|>",
]


@pytest.mark.parametrize("parser", ["think", "mistral", "harmony", "auto"])
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    morsels=st.lists(st.sampled_from([*MARKS, "a", " b\n", "<", "[", "`"]), min_size=1, max_size=12),
    beside=st.sampled_from(["", "t"]),
    places=st.lists(st.integers(0, 99), max_size=5),
    ends=st.booleans(),
)
def test_thoughts_in_the_text_keep_their_place(
    parser, morsels, beside, places, ends, make_handler, read_stream
):
    """However the text is cut, with the finish reason in its last chunk or behind it, and whole."""
    text = "".join(morsels)
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    deltas = [{"reasoning_content": beside}] if beside else []
    deltas += [{"content": text[start:end]} for start, end in pairwise(edges)]
    choices = [{"delta": delta, "finish_reason": None} for delta in deltas]
    if ends:
        choices[-1]["finish_reason"] = "stop"
    else:
        choices.append({"delta": {}, "finish_reason": "stop"})
    data = sse([{"choices": [choice]} for choice in choices]) + "data: [DONE]\n\n"
    message = {"content": text, "reasoning_content": beside or None}
    body = {"choices": [{"message": message, "finish_reason": "stop"}]}

    def handler(**more):
        return make_handler(OpenAi.type, endpoint={"reasoningParser": parser}, **more)

    streamed = list(read_stream(handler(), [data.encode()]))
    assert order(streamed) == order_of(handler(stream=False).read_whole(body))
    assert order(read_stream(handler(), [json.dumps(body).encode()])) == order(streamed)
