"""Streams of the Responses protocol (more-fronts.md 3.6, 11.7)."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from Middleware.protocols import responses
from Middleware.protocols.base import ErrorReply
from Middleware.protocols.registry import WIRE_FORMATS, AnswerFacts
from Middleware.protocols.response_object import echo_of
from Middleware.protocols.responses import PROTOCOL, error_code
from tests.protocols.streams import chunk, collected

WIRE = WIRE_FORMATS["openairesponses"]
EVENT = TypeAdapter(ResponseStreamEvent)
CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "tide", "arguments": ""}}
REST = {"index": 0, "function": {"arguments": '{"port": "Brest"}'}}
USAGE = {"prompt_tokens": 11, "completion_tokens": 7}
VECTOR = r"""
event: response.created
data: {"type":"response.created","sequence_number":0,"response":{...}}

event: response.in_progress
data: {"type":"response.in_progress","sequence_number":1,"response":{...}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"id":"msg_R_0","type":"message","status":"in_progress","role":"assistant","content":[]}}

event: response.content_part.added
data: {"type":"response.content_part.added","sequence_number":3,"item_id":"msg_R_0","output_index":0,"content_index":0,"part":{"type":"output_text","annotations":[],"logprobs":[],"text":""}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":4,"item_id":"msg_R_0","output_index":0,"content_index":0,"delta":"Let me look.","logprobs":[]}

event: response.output_text.done
data: {"type":"response.output_text.done","sequence_number":5,"item_id":"msg_R_0","output_index":0,"content_index":0,"text":"Let me look.","logprobs":[]}

event: response.content_part.done
data: {"type":"response.content_part.done","sequence_number":6,"item_id":"msg_R_0","output_index":0,"content_index":0,"part":{"type":"output_text","annotations":[],"logprobs":[],"text":"Let me look."}}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":7,"output_index":0,"item":{"id":"msg_R_0","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"Let me look."}]}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":8,"output_index":1,"item":{"id":"fc_R_1","type":"function_call","status":"in_progress","call_id":"call_1","name":"tide","arguments":""}}

event: response.function_call_arguments.delta
data: {"type":"response.function_call_arguments.delta","sequence_number":9,"item_id":"fc_R_1","output_index":1,"delta":"{\"port\": \"Brest\"}"}

event: response.function_call_arguments.done
data: {"type":"response.function_call_arguments.done","sequence_number":10,"item_id":"fc_R_1","output_index":1,"name":"tide","arguments":"{\"port\": \"Brest\"}"}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":11,"output_index":1,"item":{"id":"fc_R_1","type":"function_call","status":"completed","call_id":"call_1","name":"tide","arguments":"{\"port\": \"Brest\"}"}}

event: response.completed
data: {"type":"response.completed","sequence_number":12,"response":{...}}

"""


def framer(**facts):
    return WIRE.framer(AnswerFacts("R", "mira", created=1760000000, **facts))


def told(*batches, stream=None):
    """All that a stream of these batches says."""
    stream = stream or framer()
    return "".join([unit for batch in batches for unit in stream.units(batch)] + stream.end())


def events(text):
    """The data of each event, each of a form that the official types know, numbered without a gap."""
    found = []
    for block in text.split("\n\n"):
        if not block or block.startswith(":"):
            continue
        name, data = re.fullmatch(r"event: (\S+)\ndata: (.*)", block).groups()
        found.append(json.loads(data))
        EVENT.validate_json(data, strict=True)
        assert found[-1]["type"] == name
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    return found


def kinds(text):
    return [event["type"].removeprefix("response.") for event in events(text)]


def final(text):
    return events(text)[-1]["response"]


class TestAStream:
    def test_the_vector(self):
        """11.7, byte for byte but for the responses in it."""
        said = told(
            [chunk("Let me look.")],
            [chunk(tool_calls=[CALL])],
            [chunk(tool_calls=[REST]), chunk("", "tool_calls", usage=USAGE)],
        )
        assert re.sub(r'"response":\{.*\}\}\n\n', '"response":{...}}\n\n', said) == VECTOR[1:]
        assert final(said)["usage"]["total_tokens"] == 18

    def test_the_first_two_tell_the_response(self):
        """Running, without items and numbers, with what it repeats of the request."""
        created, in_progress = events(told([chunk("a")], stream=framer(echo=echo_of({"user": "ann"}))))[:2]
        assert created["response"] == in_progress["response"]
        assert created["response"]["user"] == "ann"
        assert [created["response"][name] for name in ("status", "output", "usage")] == [
            "in_progress",
            [],
            None,
        ]

    def test_the_events_of_a_batch_are_one_unit(self):
        """One read, one write."""
        assert len(framer().units([chunk("a")])) == 1
        assert len(framer().units([chunk("a", thinking="t")])) == 2

    def test_thoughts(self):
        """A summary of one part, done when text follows."""
        said = told([chunk(thinking="A "), chunk(thinking="river.")], [chunk("The Ob.")], [chunk("", "stop")])
        assert kinds(said)[2:9] == [
            "output_item.added",
            "reasoning_summary_part.added",
            "reasoning_summary_text.delta",
            "reasoning_summary_text.done",
            "reasoning_summary_part.done",
            "output_item.done",
            "output_item.added",
        ]
        assert events(said)[2]["item"] == {"id": "rs_R_0", "type": "reasoning", "summary": []}
        assert [item["id"] for item in final(said)["output"]] == ["rs_R_0", "msg_R_1"]

    @pytest.mark.parametrize("kind", ["text", "thoughts"])
    def test_pieces_one_behind_the_other_are_one_item(self, kind):
        """However many reads they came in."""
        pieces = [[chunk(each) if kind == "text" else chunk(thinking=each)] for each in ("It ", "is ", "so.")]
        item = final(told(*pieces, [chunk("", "stop")]))["output"][0]
        [part] = item["content"] if kind == "text" else item["summary"]
        assert part["text"] == "It is so."

    def test_text_again_after_a_call(self):
        """A new item: the order in which things came stays."""
        said = told([chunk("a"), chunk(tool_calls=[CALL]), chunk("b")], [chunk("", "stop")])
        assert [item["type"] for item in final(said)["output"]] == ["message", "function_call", "message"]

    @pytest.mark.parametrize(
        ("batches", "types"),
        [
            ([[chunk("", "stop")]], ["message"]),
            ([[chunk(thinking="hm")], [chunk("", "stop")]], ["reasoning", "message"]),
            ([[chunk(tool_calls=[CALL])], [chunk("", "tool_calls")]], ["function_call"]),
        ],
        ids=["nothing", "only-thoughts", "only-a-call"],
    )
    def test_an_empty_text(self, batches, types):
        """As in whole answers: there, but for calls."""
        assert [item["type"] for item in final(told(*batches))["output"]] == types

    @pytest.mark.parametrize(
        ("reason", "why"), [("length", "max_output_tokens"), ("content_filter", "content_filter")]
    )
    def test_incomplete(self, reason, why):
        """Another last event; what was still open is incomplete, what was done stays done."""
        said = told([chunk("a", thinking="t")], [chunk("", reason)])
        assert events(said)[-1]["type"] == "response.incomplete"
        assert final(said)["incomplete_details"] == {"reason": why}
        assert [item.get("status") for item in final(said)["output"]] == [None, "incomplete"]

    def test_nothing_behind_the_last_event(self):
        """No `[DONE]`: it is the end mark."""
        stream = framer()
        stream.units([chunk("a", "stop")])
        assert stream.end() == []

    def test_the_final_object_is_handed_on_once(self):
        """As it is told."""
        kept = []
        said = told([chunk("a")], [chunk("", "stop")], stream=framer(done=kept.append))
        assert kept == [final(said)]


class TestCalls:
    def three(self, order):
        """Fragments of three calls, in this order of indexes."""
        seen = set()
        for index in order:
            first = {
                "id": f"c{index}",
                "type": "function",
                "function": {"name": f"f{index}", "arguments": ""},
            }
            rest = {"function": {"arguments": f"{index}"}}
            yield {"index": index, **(rest if index in seen else first)}
            seen.add(index)

    @given(st.permutations([0, 0, 0, 1, 1, 1, 2, 2, 2]))
    def test_side_by_side(self, order):
        """However their fragments are mixed, each is whole."""
        batches = [[chunk(tool_calls=[fragment])] for fragment in self.three(order)]
        output = final(told(*batches, [chunk("", "tool_calls")]))["output"]
        assert {item["call_id"]: (item["name"], item["arguments"]) for item in output} == {
            f"c{index}": (f"f{index}", f"{index}{index}") for index in range(3)
        }

    def test_without_an_index(self):
        """Each is a call of its own, and gets an id that it lacks."""
        call = {"function": {"name": "f", "arguments": {"a": 1}}}
        output = final(told([chunk(tool_calls=[call, call, "odd"]), chunk("", "stop")]))["output"]
        assert [item["arguments"] for item in output] == ['{"a":1}'] * 2
        assert len({item["call_id"] for item in output}) == 2

    def test_a_fragment_that_comes_too_late_is_an_error(self):
        """Text ended its call: the client has half of it, and is never told that it is finished."""
        half = {"index": 0, "function": {"arguments": '{"port": '}}
        rest = {"index": 0, "function": {"arguments": '"Brest"}'}}
        parts = [chunk(tool_calls=[CALL]), chunk(tool_calls=[half]), chunk("b"), chunk(tool_calls=[rest])]
        response = final(told([*parts, chunk("", "tool_calls")]))
        assert (response["status"], response["error"]["code"]) == ("failed", "server_error")

    def test_a_call_of_a_cancelled_answer_is_incomplete(self):
        """It is none that a client should run."""
        stream = framer()
        said = told([chunk(tool_calls=[CALL]), chunk(tool_calls=[REST])], stream=stream)
        stream.is_cut_off = True
        said += "".join(stream.finish_units("stop"))
        assert [item["status"] for item in final(said)["output"]] == ["incomplete"]

    @pytest.mark.parametrize("rest", [REST, {"index": 0, "function": {"arguments": "{}"}}])
    def test_a_call_without_arguments_waits_for_them(self, rest):
        """Text does not end it: it is never told as one that takes nothing."""
        said = told([chunk(tool_calls=[CALL]), chunk("b"), chunk(tool_calls=[rest]), chunk("", "stop")])
        assert [item["type"] for item in final(said)["output"]] == ["function_call", "message"]
        assert final(said)["output"][0]["arguments"] == rest["function"]["arguments"]

    def test_a_call_that_the_limit_cut(self):
        """Its fragments have been sent: item and response are incomplete. A whole answer leaves it out."""
        batch = [
            chunk(tool_calls=[CALL]),
            chunk(tool_calls=[{"index": 0, "function": {"arguments": '{"po'}}]),
        ]
        response = final(told(batch, [chunk("", "length")]))
        [item] = response["output"]
        assert (response["status"], item["status"], item["arguments"]) == ("incomplete", "incomplete", '{"po')
        answer = WIRE.whole(collected([[*batch, chunk("", "length")]]), AnswerFacts("R", "mira"))
        assert (answer["status"], [item["type"] for item in answer["output"]]) == ("incomplete", ["message"])


class TestSilence:
    @pytest.fixture
    def clock(self, monkeypatch):
        now = [100.0]
        monkeypatch.setattr(responses.time, "monotonic", lambda: now[0])
        return now

    def test_the_first_heartbeat_opens_the_stream(self, clock):
        """What comes next does not open it again."""
        stream = framer()
        opening = stream.heartbeat()
        assert kinds(opening) == ["created", "in_progress"]
        assert kinds(opening + told([chunk("a")], stream=stream))[2] == "output_item.added"

    def test_comments_and_now_and_then_an_event(self, clock):
        """Every 15 s while there is no item: Codex counts events only."""
        stream = framer()
        opening = stream.heartbeat()
        said = [(clock.__setitem__(0, 100.0 + second), stream.heartbeat())[1] for second in range(1, 46)]
        spoken = [second for second, unit in enumerate(said, 1) if unit != ":\n\n"]
        assert spoken == [15, 30, 45]
        assert kinds(opening + "".join(said)) == ["created", *["in_progress"] * 4]

    @pytest.mark.parametrize(
        "batch", [[chunk("a")], [chunk(thinking="t")], [chunk(tool_calls=[CALL])]], ids=str
    )
    def test_no_event_once_there_is_an_item(self, clock, batch):
        """Its empty output would be taken for the state."""
        stream = framer()
        stream.units(batch)
        clock[0] += 1000
        assert stream.heartbeat() == ":\n\n"


class TestFailure:
    def test_after_some_output(self):
        """The last event tells what is done; what is open is not."""
        stream = framer(done=lambda response: pytest.fail("a failed response is kept"))
        said = told([chunk("a", thinking="t")], stream=stream)
        said += "".join(stream.error(ErrorReply(502, "M", code="backend_error")))
        failed = final(said)
        assert events(said)[-1]["type"] == "response.failed"
        assert (failed["status"], failed["error"]) == ("failed", {"code": "server_error", "message": "M"})
        assert [item["type"] for item in failed["output"]] == ["reasoning"]

    def test_before_anything(self):
        """The stream is opened first: clients need the response that failed."""
        assert kinds("".join(framer().error(ErrorReply(500, "M")))) == ["created", "in_progress", "failed"]

    @pytest.mark.parametrize(
        ("status", "code", "told"),
        [
            (400, "context_length_exceeded", "context_length_exceeded"),
            (429, "backend_error", "rate_limit_exceeded"),
            (400, "backend_error", "invalid_prompt"),
            (502, "backend_error", "server_error"),
            (503, 503, "server_error"),
        ],
    )
    def test_codes(self, status, code, told):
        """Those that clients act upon."""
        assert error_code(ErrorReply(status, "M", code=code)) == told


# --- stream equals whole --------------------------------------------------------------------------------------------


@st.composite
def answers(draw):
    """Chunks of an answer, cut into batches: runs of text, of thoughts, of whole calls whose fragments are
    mixed."""
    chunks, index = [], 0
    for kind in draw(st.lists(st.sampled_from(["token", "thinking", "calls"]), max_size=6)):
        if kind != "calls":
            pieces = draw(st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=4))
            chunks += [chunk(piece) if kind == "token" else chunk(thinking=piece) for piece in pieces]
            continue
        count = draw(st.integers(1, 3))
        numbers = list(range(index, index + count))
        chunks += [
            chunk(
                tool_calls=[
                    {
                        "index": n,
                        "id": f"c{n}",
                        "type": "function",
                        "function": {"name": f"f{n}", "arguments": ""},
                    }
                ]
            )
            for n in numbers
        ]
        wholes = [json.dumps({"t": draw(st.text(max_size=5))}) for _ in numbers]
        cut = draw(st.integers(0, 8))
        fragments = [(n, text[:cut]) for n, text in zip(numbers, wholes, strict=True)]
        fragments += [(n, text[cut:]) for n, text in zip(numbers, wholes, strict=True)]
        chunks += [chunk(tool_calls=[{"index": n, "function": {"arguments": text}}]) for n, text in fragments]
        index += count
    usage = draw(st.sampled_from([None, USAGE, {**USAGE, "reasoning_tokens": 2}]))
    finish = draw(st.sampled_from(["stop", "length", "content_filter", "tool_calls", "odd"]))
    chunks.append(chunk("", finish, **({"usage": usage} if usage else {})))
    batches, size = [], draw(st.integers(1, 5))
    for start in range(0, len(chunks), size):
        batches.append(chunks[start : start + size])
    return batches


def content(response):
    """What a client has of a response: thoughts, text, calls, how it ended, its numbers."""
    output = response["output"]
    parts = {"reasoning": "summary", "message": "content"}
    texts = {
        kind: "".join(part["text"] for item in output if item["type"] == kind for part in item[name])
        for kind, name in parts.items()
    }
    calls = [
        (item["call_id"], item["name"], item["arguments"])
        for item in output
        if item["type"] == "function_call"
    ]
    return texts, calls, response["status"], response["incomplete_details"], response["usage"]


def assembled(found):
    """The items as a client puts them together from the events before the last."""
    made = []
    for event in found:
        if event["type"] == "response.output_item.added":
            assert event["output_index"] == len(made)
            made.append({"id": event["item"]["id"], "text": "", "done": None})
        elif event["type"].endswith(".delta"):
            assert made[event["output_index"]]["id"] == event["item_id"]
            assert made[event["output_index"]]["done"] is None
            made[event["output_index"]]["text"] += event["delta"]
        elif event["type"] == "response.output_item.done":
            made[event["output_index"]]["done"] = event["item"]
    return made


def text_of(item):
    parts = item.get("content") or item.get("summary")
    return item["arguments"] if parts is None else "".join(part["text"] for part in parts)


@settings(max_examples=200)
@given(answers())
def test_a_stream_says_what_a_whole_answer_says(batches):
    """However it is cut; and its last event what its items were."""
    said = told(*batches)
    assert content(final(said)) == content(WIRE.whole(collected(batches), AnswerFacts("R", "mira")))
    made = assembled(events(said))
    assert [item["done"] for item in made] == final(said)["output"]
    assert [item["text"] for item in made] == [text_of(item["done"]) for item in made]


def test_its_facts():
    """A conversation, so the call that keeps an agent going may end it; errors are OpenAI's; no chunks by hand."""
    assert WIRE.is_chat and WIRE.gets_liveness_call and WIRE.chunk is None
    assert PROTOCOL.error_body(ErrorReply(404, "M"))["error"]["type"] == "not_found_error"
