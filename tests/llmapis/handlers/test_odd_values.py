"""Any value in any field of any dialect: what comes out is standard dicts, or a BackendError; nothing else."""

from __future__ import annotations

import copy
import json

import pytest

from Middleware.common.errors import BackendError
from Middleware.llmapis.dialects.event_mapping import decode_json
from Middleware.llmapis.llm_text import join_batches as as_whole

ODD = [
    None,
    True,
    False,
    0,
    5,
    -1,
    1.5,
    float("inf"),
    float("nan"),
    10**30,
    10**400,
    "",
    "null",
    "x",
    [],
    ["a"],
    [None],
    [[]],
    {},
    {"a": 1},
    [{"type": "text", "text": 5}],
    [{"type": "thinking", "thinking": [5, {"text": None}]}],
    {"message": 5},
]
FINISH = {None, "stop", "length", "tool_calls", "content_filter", "error"}
CALL = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
OPENAI_MESSAGE = {
    "role": "assistant",
    "content": "A",
    "refusal": None,
    "reasoning_content": "r",
    "reasoning": "r",
    "reasoning_details": [{"type": "reasoning.text", "text": "q"}],
    "thinking": "z",
    "extra_content": {"google": {"thought": True}},
}
USAGE = {
    "prompt_tokens": 4,
    "completion_tokens": 2,
    "total_tokens": 6,
    "completion_tokens_details": {"reasoning_tokens": 1},
    "prompt_tokens_details": {"cached_tokens": 1},
}
OLLAMA_CALL = {"id": "q", "function": {"name": "a", "arguments": {"x": 1}}}
OLLAMA_END = {"done": True, "done_reason": "stop", "prompt_eval_count": 5, "eval_count": 6}
CLAUDE_USAGE = {"input_tokens": 9, "cache_read_input_tokens": 1, "cache_creation_input_tokens": 2}


def claude_delta(index, **delta):
    return {"type": "content_block_delta", "index": index, "delta": delta}


def claude_block(index, **block):
    return {"type": "content_block_start", "index": index, "content_block": block}


STREAMS = {
    "openAIChatCompletion": [
        {"model": "m", "choices": [{"index": 0, "delta": OPENAI_MESSAGE, "finish_reason": None}]},
        {"choices": [{"delta": {"tool_calls": [CALL]}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": ""}}]}}]},
        {"choices": [{"delta": {"content": "B", "refusal": "no", "function_call": {"name": "g"}}}]},
        {"choices": [{"delta": {}, "finish_reason": "stop", "native_finish_reason": "STOP"}]},
        {"choices": [], "usage": USAGE},
    ],
    "openAIV1Completion": [
        {"model": "m", "choices": [{"text": "A", "finish_reason": None}]},
        {"choices": [{"text": "B", "finish_reason": "stop"}], "usage": USAGE},
    ],
    "ollamaApiChat": [
        {"model": "m", "message": {"role": "assistant", "content": "A"}, "done": False},
        {"message": {"content": "", "thinking": "t", "tool_calls": [OLLAMA_CALL]}, "done": False},
        {"message": {"content": ""}, **OLLAMA_END},
    ],
    "ollamaApiGenerate": [
        {"model": "m", "response": "A", "thinking": "t", "done": False},
        {"response": "", **OLLAMA_END},
    ],
    "koboldCppGenerate": [{"token": "A", "finish_reason": None}, {"token": "", "finish_reason": "stop"}],
    "claudeMessages": [
        {"type": "message_start", "message": {"model": "c", "usage": CLAUDE_USAGE}},
        claude_block(0, type="thinking", thinking="s", signature=""),
        claude_delta(0, type="thinking_delta", thinking="hm"),
        claude_delta(0, type="signature_delta", signature="ab"),
        claude_block(1, type="text", text="s"),
        claude_delta(1, type="text_delta", text="Yes"),
        claude_block(2, type="tool_use", id="t1", name="f", input={}),
        claude_delta(2, type="input_json_delta", partial_json="{}"),
        {"type": "content_block_stop", "index": 2},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    ],
}
BODIES = {
    "openAIChatCompletion": {
        "model": "m",
        "choices": [
            {
                "message": {**OPENAI_MESSAGE, "tool_calls": [CALL]},
                "finish_reason": "tool_calls",
                "native_finish_reason": "x",
            }
        ],
        "usage": USAGE,
    },
    "openAIV1Completion": {
        "model": "m",
        "choices": [{"text": "A", "finish_reason": "stop"}],
        "usage": USAGE,
    },
    "ollamaApiChat": {
        "model": "m",
        "message": {"role": "assistant", "content": "A", "thinking": "t", "tool_calls": [OLLAMA_CALL]},
        **OLLAMA_END,
    },
    "ollamaApiGenerate": {"model": "m", "response": "A", "thinking": "t", **OLLAMA_END},
    "koboldCppGenerate": {
        "results": [{"text": "A", "finish_reason": "stop", "prompt_tokens": 1, "completion_tokens": 2}]
    },
    "claudeMessages": {
        "model": "c",
        "content": [
            {"type": "text", "text": "A"},
            {"type": "thinking", "thinking": "t", "signature": "s"},
            {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "usage": {"output_tokens": 2, **CLAUDE_USAGE},
    },
}


def places(value, path=()):
    """Every place inside a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in inner:
        yield (*path, key)
        yield from places(below, (*path, key))


def with_value(document, path, value):
    document = copy.deepcopy(document)
    at = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return document


def wire(backend, events):
    texts = [json.dumps(event) for event in events]
    if backend.startswith("ollama"):
        return "".join(f"{text}\n" for text in texts).encode()
    names = ["message" if backend != "claudeMessages" else event.get("type") for event in events]
    said = "".join(f"event: {name}\ndata: {text}\n\n" for name, text in zip(names, texts, strict=True))
    return said.encode() + (b"data: [DONE]\n\n" if backend.startswith("openAI") else b"")


def check(chunks):
    """The table of the standard dict."""
    *before, last = chunks
    assert last["finish_reason"] is not None
    assert all(chunk["finish_reason"] is None for chunk in before)
    for chunk in chunks:
        assert type(chunk["token"]) is str
        assert chunk["finish_reason"] in FINISH
        for key in {"thinking", "model", "native_finish_reason"} & set(chunk):
            assert type(chunk[key]) is str
            assert chunk[key]
        for count in (chunk.get("usage") or {}).values():
            assert type(count) is int
            assert 0 <= count < 2**54
        for call in chunk.get("tool_calls", ()):
            assert type(call["index"]) is int
            assert 0 <= call["index"] < 10_000
            assert all(type(value) is str for value in call["function"].values())
            assert call.get("type", "function") == "function"
            assert type(call.get("id", "c")) is str


CASES = [
    pytest.param(backend, number, path, id=f"{backend}-{number}-{'.'.join(map(str, path))}")
    for backend, events in STREAMS.items()
    for number, event in enumerate(events)
    for path in places(event)
]


@pytest.mark.parametrize("parser", ["none", "auto"])
@pytest.mark.parametrize(("backend", "number", "path"), CASES)
def test_streams(backend, number, path, parser, make_handler, read_stream):
    """One field of one event holds something odd."""
    handler = make_handler(backend, endpoint={"reasoningParser": parser})
    for value in ODD:
        events = list(STREAMS[backend])
        events[number] = with_value(events[number], path, value)
        try:
            chunks = read_stream(handler, [wire(backend, events)])
            check(chunks)
            if chunks[-1]["finish_reason"] != "error":
                as_whole("E", [chunks])
        except BackendError:
            assert value, "an empty value is no failure"


@pytest.mark.parametrize("backend", BODIES)
def test_whole_bodies(backend, make_handler):
    """One field of a whole body holds something odd: an answer all the same, or no answer at all."""
    handler = make_handler(backend, stream=False)
    for path in places(BODIES[backend]):
        for value in ODD:
            body = decode_json(json.dumps(with_value(BODIES[backend], path, value)))
            try:
                answer = handler.read_whole(body)
            except BackendError as error:
                assert error.kind == "protocol_error"
                assert len(path) < 4 or "arguments" in path, "only the frame of an answer makes it one"
                continue
            facts = answer if isinstance(answer, dict) else vars(answer)
            chunk = {key: fact for key, fact in facts.items() if key != "content" and fact}
            calls = [{"index": at, **call} for at, call in enumerate(chunk.pop("tool_calls", ()))]
            check([{"token": str(facts.get("content", answer)), **chunk, "tool_calls": calls}])


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_no_json(word, make_handler, read_stream):
    """Python servers write them in `logprobs`; the token beside them counts, they themselves never go on."""
    extra = f'"logprobs": {word}, "delta": {{"content": "a", "tool_calls": [{{"id": "c", "odd": {word}}}]}}'
    chunks = read_stream(
        make_handler("openAIChatCompletion"), [f'data: {{"choices": [{{{extra}}}]}}\n\n'.encode()]
    )
    assert chunks[0]["token"] == "a"
    assert json.dumps(chunks, allow_nan=False)


def test_ids_that_are_numbers(make_handler, read_stream):
    """Fragments under the same number are one call."""
    pieces = ["{", "}"]
    events = [
        {
            "choices": [
                {"delta": {"tool_calls": [{"index": 0, "id": 7, "function": {"name": "f", "arguments": p}}]}}
            ]
        }
        for p in pieces
    ]
    chunks = read_stream(make_handler("openAIChatCompletion"), [wire("openAIChatCompletion", events)])
    answer = as_whole("E", [chunks])
    assert [(call["id"], call["function"]) for call in answer["tool_calls"]] == [
        ("7", {"name": "f", "arguments": "{}"})
    ]
