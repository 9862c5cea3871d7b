"""Anthropic messages, whole and as events (more-fronts.md 2.5 to 2.9, 11.1, 11.2, 11.4)."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Middleware.common.instance_global_variables import LaunchFacts, launch_facts, set_launch_facts
from Middleware.protocols.anthropic import PROTOCOL, error_object
from Middleware.protocols.registry import WIRE_FORMATS, AnswerFacts, ErrorReply
from tests.protocols.streams import chunk, collected

WIRE = WIRE_FORMATS["anthropicmessages"]
USAGE = {"prompt_tokens": 11, "completion_tokens": 7}
TOLD = '{"input_tokens":11,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":7}'


def call(index, name, arguments="", **more):
    function = {"name": name, "arguments": arguments}
    return {"index": index, "id": f"call_{name}", "type": "function", "function": function, **more}


def part(index, arguments):
    return {"index": index, "function": {"arguments": arguments}}


THOUGHT_AND_CALL = [
    [chunk(thinking="A tool will do.")],
    [chunk("Let me look.")],
    [chunk(tool_calls=[{**call(0, "tide", '{"port": "Brest"}'), "id": "call_1"}])],
    [chunk("", "tool_calls", usage=USAGE)],
]


def framer(**facts):
    return WIRE.framer(AnswerFacts("R", "mira", **facts))


def stream(*batches, **facts):
    """The text of a whole stream."""
    one = framer(**facts)
    return "".join([*[unit for batch in batches for unit in one.units(batch)], *one.end()])


def whole(*batches):
    return WIRE.whole(collected(batches), AnswerFacts("R", "mira"))


def events(text):
    """The data of each event; its name line must say the same type."""
    found = []
    for event in text.split("\n\n")[:-1]:
        name, data = event.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}" and next(iter(found[-1])) == "type"
    return found


def kinds(text):
    return [event["type"].removeprefix("content_block_") for event in events(text)]


def message_of(text):
    """What a client assembles, as SDKs do. Blocks come one after the other, deltas only into the open one."""
    first, *rest = [event for event in events(text) if event["type"] != "ping"]
    assert first["type"] == "message_start"
    message, open_block, arguments = first["message"], None, ""
    for event in rest[:-2]:
        if event["type"] == "content_block_start":
            assert open_block is None and event["index"] == len(message["content"])
            open_block, arguments = event["content_block"], ""
            message["content"].append(open_block)
            continue
        assert open_block is not None and event["index"] == len(message["content"]) - 1
        if event["type"] == "content_block_stop":
            open_block["input" if open_block["type"] == "tool_use" else "stopped"] = json.loads(
                arguments or "{}"
            )
            open_block = None
            continue
        kind = event["delta"].pop("type")
        for key, piece in event["delta"].items():
            if kind == "input_json_delta":
                arguments += piece
            else:
                assert key in open_block
                open_block[key] += piece
    assert open_block is None and [event["type"] for event in rest[-2:]] == ["message_delta", "message_stop"]
    return {**message, **rest[-2]["delta"], "usage": rest[-2]["usage"]}


class TestWhole:
    def test_thought_and_call(self):
        """11.1, byte for byte."""
        made = json.dumps(whole(*THOUGHT_AND_CALL), separators=(",", ":"))
        assert made == (
            '{"id":"msg_R","type":"message","role":"assistant","model":"mira","content":['
            '{"type":"thinking","thinking":"A tool will do.","signature":"hr-R"},'
            '{"type":"text","text":"Let me look."},'
            '{"type":"tool_use","id":"call_1","name":"tide","input":{"port":"Brest"}}],'
            f'"stop_reason":"tool_use","stop_sequence":null,"usage":{TOLD}}}'
        )

    @pytest.mark.parametrize(
        ("batches", "types"),
        [
            ([[chunk("", "stop")]], ["text"]),
            ([[chunk(thinking="hm")], [chunk("", "length")]], ["thinking", "text"]),
            ([[chunk(tool_calls=[call(0, "tide")])], [chunk("", "tool_calls")]], ["tool_use"]),
        ],
        ids=["nothing", "only-thoughts", "only-a-call"],
    )
    def test_the_content_is_never_empty(self, batches, types):
        """Whole and streamed: clients read `content[0].text`, unless there are calls."""
        assert [block["type"] for block in whole(*batches)["content"]] == types
        assert [block["type"] for block in message_of(stream(*batches))["content"]] == types

    def test_a_call_without_arguments_has_an_empty_input(self):
        """A tool that takes nothing."""
        message = whole([chunk(tool_calls=[call(0, "tide", "")])], [chunk("", "tool_calls")])
        assert message["content"][0]["input"] == {}

    @pytest.mark.parametrize("arguments", ["[1]", "{", "nul"])
    def test_an_input_is_never_made_up(self, arguments, caplog):
        """An agent would run the tool with an empty input: the call is left out."""
        with caplog.at_level(logging.WARNING):
            message = whole([chunk(tool_calls=[call(0, "tide", arguments)])], [chunk("", "tool_calls")])
        assert message["content"] == [{"type": "text", "text": ""}]
        assert message["stop_reason"] == "end_turn" and "not a JSON object" in caplog.text

    @pytest.mark.parametrize(("arguments", "uses"), [('{"a":', 0), ("", 0), ('{"a":1}', 1)])
    def test_a_call_that_the_limit_cut_is_left_out(self, arguments, uses):
        """`max_tokens` stays the reason: agents ask again when they read it."""
        message = whole([chunk(tool_calls=[call(0, "tide", arguments)])], [chunk("", "length")])
        assert message["stop_reason"] == "max_tokens"
        assert [block["type"] for block in message["content"]].count("tool_use") == uses


class TestStream:
    def test_thought_and_call(self):
        """11.2, byte for byte."""
        begun = (
            '{"id":"msg_R","type":"message","role":"assistant","model":"mira","content":[],'
            '"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":33,'
            '"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}}'
        )
        datas = [
            ("message_start", f'"message":{begun}'),
            ("content_block_start", '"index":0,"content_block":{"type":"thinking","thinking":"","signature":""}'),
            ("content_block_delta", '"index":0,"delta":{"type":"thinking_delta","thinking":"A tool will do."}'),
            ("content_block_delta", '"index":0,"delta":{"type":"signature_delta","signature":"hr-R"}'),
            ("content_block_stop", '"index":0'),
            ("content_block_start", '"index":1,"content_block":{"type":"text","text":""}'),
            ("content_block_delta", '"index":1,"delta":{"type":"text_delta","text":"Let me look."}'),
            ("content_block_stop", '"index":1'),
            ("content_block_start", '"index":2,"content_block":{"type":"tool_use","id":"call_1","name":"tide","input":{}}'),
            ("content_block_delta", '"index":2,"delta":{"type":"input_json_delta","partial_json":"{\\"port\\": \\"Brest\\"}"}'),
            ("content_block_stop", '"index":2'),
            ("message_delta", f'"delta":{{"stop_reason":"tool_use","stop_sequence":null}},"usage":{TOLD}'),
        ]  # fmt: skip
        made = [f'event: {kind}\ndata: {{"type":"{kind}",{data}}}\n\n' for kind, data in datas]
        end = 'event: message_stop\ndata: {"type":"message_stop"}\n\n'
        assert stream(*THOUGHT_AND_CALL, prompt_estimate=33) == "".join([*made, end])

    def test_a_batch_of_text_is_one_unit(self):
        """However many chunks one read brought."""
        one = framer()
        one.units([chunk("a")])
        assert len(one.units([chunk("b"), chunk("c")])) == 1

    def test_text_is_escaped_as_json(self):
        """Quotes and line ends; what is not ASCII stays as it is."""
        text = 'a "q"\n\r\u2028 🦉 \x01'
        assert (
            message_of(stream([chunk("x")], [chunk(text)], [chunk("", "stop")]))["content"][0]["text"]
            == f"x{text}"
        )

    def test_nothing_goes_out_for_nothing(self):
        """No message begins with a tick."""
        assert framer().units([]) == [] and framer().units([chunk("")]) == []

    def test_what_follows_begins_a_new_block(self):
        """Text after a call, thoughts after text."""
        text = stream(
            [chunk("a")],
            [chunk(tool_calls=[call(0, "tide")])],
            [chunk("b")],
            [chunk(thinking="c")],
            [chunk("", "stop")],
        )
        assert [block["type"] for block in message_of(text)["content"]] == [
            "text",
            "tool_use",
            "text",
            "thinking",
        ]

    def test_fragments_of_a_call_go_out_as_they_come(self):
        """Those of the first one."""
        one = framer()
        one.units([chunk(tool_calls=[call(0, "tide")])])
        units = one.units([chunk(tool_calls=[part(0, '{"port":')])])
        assert events("".join(units))[0]["delta"]["partial_json"] == '{"port":'

    def test_fragments_of_other_calls_wait(self):
        """For the end, or for text; each call is one block, with one delta when it has arguments."""
        text = stream(
            [chunk(tool_calls=[call(0, "a"), call(1, "b"), call(2, "c")])],
            [chunk(tool_calls=[part(1, '{"x"'), part(0, "{"), part(1, ":1}"), part(0, "}")])],
            [chunk("So.")],
            [chunk("", "tool_calls")],
        )
        first = ["start", "delta", "delta", "stop"]
        assert kinds(text)[1:-2] == [*first, *["start", "delta", "stop"] * 3]
        blocks = message_of(text)["content"]
        assert [(b.get("name"), b.get("input")) for b in blocks[:3]] == [
            ("a", {}),
            ("b", {"x": 1}),
            ("c", {}),
        ]

    @pytest.mark.parametrize("reason", ["tool_calls", "length"])
    def test_a_fragment_that_comes_too_late_is_an_error(self, reason):
        """Its block has stopped: the client has half a call, and is never told that it is finished."""
        late = [chunk(tool_calls=[part(0, ": 1}")]), chunk("", reason)]
        text = stream([chunk(tool_calls=[call(0, "a", '{"x"')])], [chunk("y")], late)
        assert text.rstrip().splitlines()[-2] == "event: error"
        assert "part of a tool call after text" in text and "message_stop" not in text

    @pytest.mark.parametrize("late", ["{}", " "])
    def test_a_late_empty_object_is_what_its_block_says(self, late):
        """A call without arguments, and text behind it: nothing is lost."""
        empty = [chunk(tool_calls=[part(0, late)]), chunk("", "tool_calls")]
        text = stream([chunk(tool_calls=[call(0, "a", "")])], [chunk("x")], empty)
        assert message_of(text)["content"][0]["input"] == {} and "message_stop" in text

    def test_of_calls_that_the_limit_cut_the_first_alone_stands(self):
        """Its fragments have been sent; those of the others wait, and are left out."""
        parts = [call(0, "a", '{"x'), call(1, "b", '{"y'), call(2, "c", "{}")]
        text = stream([chunk(tool_calls=parts)], [chunk("", "length")])
        assert [use["content_block"]["name"] for use in events(text) if "content_block" in use] == ["a", "c"]
        assert '"stop_reason":"max_tokens"' in text

    def test_calls_without_an_index_are_calls_of_their_own(self):
        """As in a whole answer."""
        two = [{"id": i, "function": {"name": i, "arguments": {"n": 1}}} for i in ("a", "b")]
        batches = [[chunk(tool_calls=two)], [chunk("", "tool_calls")]]
        blocks = message_of(stream(*batches))["content"]
        assert blocks == whole(*batches)["content"] and len(blocks) == 2

    @pytest.mark.parametrize(
        ("reason", "told"),
        [
            ("stop", "end_turn"),
            ("length", "max_tokens"),
            ("content_filter", "refusal"),
            ("tool_calls", "end_turn"),
            ("odd", "end_turn"),
        ],
    )
    def test_stop_reasons(self, reason, told):
        """Without a call; the same streamed and whole."""
        batches = [[chunk("a")], [chunk("", reason)]]
        assert message_of(stream(*batches))["stop_reason"] == whole(*batches)["stop_reason"] == told


class TestHeartbeat:
    def test_the_first_opens_the_stream(self):
        """`message_start` and `ping` in one write; later ones are pings; the message begins once."""
        one = framer()
        beats = [one.heartbeat(), one.heartbeat()]
        assert [kinds(beat) for beat in beats] == [["message_start", "ping"], ["ping"]]
        assert beats[1] == 'event: ping\ndata: {"type":"ping"}\n\n'
        assert kinds("".join(one.units([chunk("a", "stop")]))) == ["start", "delta", "stop", "message_delta"]

    def test_an_empty_answer_after_one(self):
        """The stream is not opened twice."""
        one = framer()
        one.heartbeat()
        assert kinds("".join(one.units([chunk("", "stop")]))) == ["start", "stop", "message_delta"]


class TestErrors:
    @pytest.mark.parametrize(
        ("status", "kind"),
        [
            (400, "invalid_request_error"),
            (401, "authentication_error"),
            (403, "permission_error"),
            (404, "not_found_error"),
            (405, "invalid_request_error"),
            (413, "request_too_large"),
            (415, "invalid_request_error"),
            (429, "rate_limit_error"),
            (499, "api_error"),
            (500, "api_error"),
            (502, "api_error"),
            (503, "overloaded_error"),
            (504, "timeout_error"),
        ],
    )
    def test_types(self, status, kind):
        """2.7."""
        assert error_object(ErrorReply(status, "M", request_id="R")) == {
            "type": "error",
            "error": {"type": kind, "message": "M"},
            "request_id": "R",
        }

    def test_a_prompt_that_is_too_long(self):
        """In the words that agents look for."""
        told = error_object(ErrorReply(400, "M", code="context_length_exceeded"))["error"]
        assert told == {"type": "invalid_request_error", "message": "prompt is too long: M"}

    def test_in_a_stream(self):
        """11.4: one event, and no end mark behind it."""
        message = "node 3 'Writer': endpoint 'Big' answered 500 (request R)"
        assert framer().error(ErrorReply(502, message, request_id="R")) == [
            'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"node 3 \'Writer\': '
            'endpoint \'Big\' answered 500 (request R)"},"request_id":"R"}\n\n'
        ]


class TestModels:
    """The form of the list at `/v1/models` and of one model, as the SDK reads them (more-fronts.md 2)."""

    SINCE = "2025-10-09T06:06:40Z"

    @pytest.fixture(autouse=True)
    def _started(self):
        before = launch_facts()
        set_launch_facts(LaunchFacts(started_at=1759990000))
        yield
        set_launch_facts(before)

    def test_one(self):
        """Made when the process began: clients cache by it."""
        assert PROTOCOL.model_entry("mira") == {
            "type": "model",
            "id": "mira",
            "display_name": "mira",
            "created_at": self.SINCE,
        }

    def test_the_list_is_one_page(self):
        made = PROTOCOL.model_list(["mira", "juno", "otto"])
        assert made["data"] == [PROTOCOL.model_entry(name) for name in ("mira", "juno", "otto")]
        assert (made["has_more"], made["first_id"], made["last_id"]) == (False, "mira", "otto")

    def test_an_empty_list_has_no_first_and_no_last(self):
        assert PROTOCOL.model_list([]) == {"data": [], "has_more": False, "first_id": None, "last_id": None}


@dataclass
class Script:
    """A random answer as batches, however the backend cut it."""

    chunks: list[dict[str, Any]] = field(default_factory=list)
    calls: int = 0


def _pieces(draw, text):
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=3)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def _add_calls(draw, script):
    """Some calls whose fragments are mixed; of one call they stay in order."""
    queues = []
    for _ in range(draw(st.integers(1, 3))):
        arguments = json.dumps(draw(st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)))
        first, *rest = _pieces(draw, arguments)
        index, script.calls = script.calls, script.calls + 1
        queues.append([call(index, f"f{index}", first), *[part(index, one) for one in rest]])
    while queues:
        queue = draw(st.sampled_from(queues))
        script.chunks.append(chunk(tool_calls=[queue.pop(0)]))
        queues = [one for one in queues if one]


@st.composite
def answers(draw):
    script = Script()
    for kind in draw(st.lists(st.sampled_from(["text", "thinking", "calls"]), max_size=5)):
        if kind == "calls":
            _add_calls(draw, script)
            continue
        for piece in _pieces(draw, draw(st.text(max_size=12))):
            script.chunks.append(chunk(piece) if kind == "text" else chunk(thinking=piece))
    reason = draw(st.sampled_from(["stop", "length", "tool_calls", "content_filter"]))
    usage = draw(st.sampled_from([{}, {"usage": USAGE}]))
    chunks = [*script.chunks, chunk("", reason, **usage)]
    cuts = sorted(draw(st.lists(st.integers(0, len(chunks)), max_size=6)))
    return [chunks[a:b] for a, b in zip([0, *cuts], [*cuts, len(chunks)], strict=True)]


def said(message):
    """All that a message says, without how its blocks are divided."""
    blocks = message["content"]
    texts = "".join(block["text"] for block in blocks if block["type"] == "text")
    thoughts = "".join(block["thinking"] for block in blocks if block["type"] == "thinking")
    calls = [(b["id"], b["name"], b["input"]) for b in blocks if b["type"] == "tool_use"]
    return texts, thoughts, calls, message["stop_reason"], message["usage"]["output_tokens"]


@given(batches=answers())
def test_a_stream_says_what_a_whole_answer_says(batches):
    """For any text, thoughts and calls, in any cut."""
    assert said(message_of(stream(*batches))) == said(whole(*batches))


class TestCache:
    """Held and written tokens are counted beside `input_tokens`, not in it."""

    @pytest.mark.parametrize(
        ("cache", "told"),
        [
            ({"cached_tokens": 8}, (3, 0, 8)),
            ({"cached_tokens": 8, "cache_write_tokens": 2}, (1, 2, 8)),
            ({"cached_tokens": 0, "cache_write_tokens": 0}, (11, 0, 0)),
            ({"cached_tokens": 400}, (0, 0, 400)),
        ],
        ids=["held", "written", "nothing", "more-than-there-was"],
    )
    def test_of_an_answer(self, cache, told):
        """Whole and streamed; never negative, whatever a backend says."""
        batch = [chunk("Hi", "stop", usage={**USAGE, **cache})]
        names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        of_whole = whole(batch)["usage"]
        [of_stream] = [data["usage"] for data in events(stream(batch)) if data["type"] == "message_delta"]
        assert [of_whole[name] for name in names] == [of_stream[name] for name in names] == list(told)

    @pytest.mark.parametrize(
        ("path", "headers", "claims"),
        [
            ("/v1/models", {"HTTP_ANTHROPIC_VERSION": ""}, True),
            ("/models/mira", {"HTTP_ANTHROPIC_VERSION": "x"}, True),
            ("/v1/files/f1", {"HTTP_ANTHROPIC_VERSION": "x"}, True),
            ("/v1/models", {}, False),
            ("/v1/chat/completions", {"HTTP_ANTHROPIC_VERSION": "x"}, False),
        ],
        ids=str,
    )
    def test_whose_list_it_is(self, path, headers, claims):
        """The version header decides, with any value, on the paths that others have too."""
        assert PROTOCOL.claims(path, headers) is claims
