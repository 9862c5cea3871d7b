"""The contract of a protocol: what each states, and how each frames a stream (frontend-api.md 11)."""

from __future__ import annotations

import json

import pytest

from Middleware.protocols.base import PLAIN, ClientProtocol, ErrorReply, Protocols, is_under, lost_part
from Middleware.protocols.registry import PROTOCOLS, WIRE_FORMATS, encode_unit
from tests.protocols.streams import chunk, framer, payloads

# The streams that carry text in the shapes below; a protocol with other shapes has tests of its own.
ALL = sorted(name for name, wire in WIRE_FORMATS.items() if wire.chunk)


def text_of(payload):
    """The text of one unit, in any protocol."""
    if "choices" in payload:
        choice = payload["choices"][0]
        return choice["text"] if "text" in choice else choice["delta"]["content"]
    return payload["message"]["content"] if "message" in payload else payload["response"]


class TestTheTable:
    def test_every_protocol_is_complete(self):
        """One file a protocol, no two of one name; each of its types frames, answers and says what it is."""
        names = [protocol.name for protocol in PROTOCOLS]
        assert len(names) == len(set(names)) > 0
        for protocol in PROTOCOLS:
            for api_type, wire in protocol.formats.items():
                assert WIRE_FORMATS[api_type] is wire and wire.mimetype
                assert wire.frame("x").endswith("\n") and wire.pause_s >= 0

    def test_a_name_is_taken_once(self):
        """A second protocol cannot replace the first unseen, nor one of its types."""
        table = Protocols()
        wire = WIRE_FORMATS["ollamaapichat"]
        first = ClientProtocol("a", dict, {"x": wire})
        assert table.add(first) is first
        with pytest.raises(ValueError, match="protocol 'a' is registered twice"):
            table.add(ClientProtocol("a", dict))
        with pytest.raises(ValueError, match="API type 'x' is registered twice"):
            table.add(ClientProtocol("b", dict, {"x": wire}))
        assert list(table) == [first] and table.formats == {"x": wire}


def test_what_a_protocol_has_that_says_nothing_more():
    """No paths of its own and none of others, no ids, no headers, OpenAI's list of models."""
    plain = ClientProtocol("a", dict)
    assert not plain.claims("/v1/models", {"HTTP_X": "y"}) and plain.answer_headers("R") == {}
    assert (plain.roots, plain.unsupported, plain.id_prefixes) == ((), (), ())
    assert (plain.model_list, plain.model_entry) == (None, None)


def test_a_part_of_a_call_that_is_lost_is_the_servers_fault():
    reply = lost_part("R")
    assert (reply.status, reply.code, reply.request_id) == (502, "backend_error", "R")


def test_a_failure_of_which_nothing_more_is_known():
    """It names no field, no code, no header, and no request."""
    reply = ErrorReply(404, "no such page")
    assert (reply.param, reply.code, reply.headers, reply.request_id) == (None, None, {}, "")


def test_a_failure_on_a_path_of_nobody_is_plain():
    assert PLAIN.error_body(ErrorReply(404, "no such page")) == {"error": "no such page"}


@pytest.mark.parametrize(("path", "below"), [("/a", True), ("/a/b", True), ("/ab", False), ("/", False)])
def test_a_path_is_below_a_root(path, below):
    """Whole parts of the path count."""
    assert is_under(path, ("/a",)) is below


class TestEveryProtocol:
    @pytest.mark.parametrize("api_type", ALL)
    def test_the_text_of_a_batch_is_one_unit(self, api_type):
        """However many chunks one read brought."""
        stream = framer(api_type)
        stream.units([chunk("a")])
        assert len(stream.units([chunk("b"), chunk("c"), chunk("d")])) == 1

    @pytest.mark.parametrize("api_type", sorted(WIRE_FORMATS))
    def test_no_progress_is_shown_unless_it_is_wanted(self, api_type):
        """By default, and when no node has started since the last time."""
        step = {"number": 1, "of": 1, "title": "t", "depth": 0}
        assert framer(api_type).progress_units([step]) == []
        for how in WIRE_FORMATS[api_type].shows_progress:
            assert framer(api_type, progress=how).progress_units([]) == []
            assert framer(api_type, progress=how).progress_units([step]) != []

    @pytest.mark.parametrize("api_type", ALL)
    def test_a_tick_and_empty_text_are_nothing(self, api_type):
        """No unit goes out for them, not even the role."""
        assert framer(api_type).units([]) == []
        assert framer(api_type).units([chunk("")]) == []

    @pytest.mark.parametrize("api_type", ALL)
    def test_each_unit_is_valid_json_whatever_the_text(self, api_type):
        """Quotes, line breaks, control characters, separators that are no JSON line ends."""
        text = 'a"b\\c\nd\t\x00\u2028é𝄞'
        unit = framer(api_type).units([chunk(text)])[-1]
        assert text_of(payloads([unit])[0]) == text
        assert "\n" not in unit.rstrip("\n")
        assert "é𝄞" in unit

    @pytest.mark.parametrize("api_type", ALL)
    def test_half_a_surrogate_pair_is_a_replacement_character(self, api_type):
        """Two halves that meet are the character."""
        unit = framer(api_type).units([chunk("x\ud83d"), chunk("\ude00 \ud83d.")])[-1]
        assert "x😀 \ufffd." in encode_unit(unit).decode()

    @pytest.mark.parametrize("api_type", sorted(WIRE_FORMATS))
    @pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85", "\x0b", "\x1c"])
    def test_a_unit_is_cut_nowhere(self, api_type, end):
        """Readers that cut a stream into lines take more for a line end than a line feed."""
        stream = framer(api_type)
        units = [*stream.units([chunk(f"é{end}a")]), *stream.units([chunk("", "stop")])]
        sent = b"".join(map(encode_unit, units)).decode()
        assert sent.splitlines() == sent.split("\n")[:-1]

    @pytest.mark.parametrize("api_type", ALL)
    def test_what_was_escaped_is_read_as_it_was(self, api_type):
        """It is the same JSON."""
        unit = encode_unit(framer(api_type).units([chunk("a\u2028b\x85c\u2029d")])[-1]).decode()
        assert text_of(payloads([unit])[0]) == "a\u2028b\x85c\u2029d"

    @pytest.mark.parametrize("api_type", ALL)
    def test_nothing_is_sent_behind_the_finish(self, api_type):
        """The finish chunk ends the answer."""
        stream = framer(api_type)
        units = stream.units([chunk("a"), chunk("", "stop"), chunk("lost")])
        assert stream.state.sent
        assert "lost" not in "".join(units)

    @pytest.mark.parametrize("api_type", ALL)
    def test_heartbeats_are_valid_units(self, api_type):
        """A comment for SSE readers, an empty object for line readers."""
        beat = framer(api_type).heartbeat()
        if beat != ":\n\n":
            unit = json.loads(beat)
            assert unit["done"] is False and unit["model"] == "mira" and unit["created_at"].endswith("Z")


@pytest.mark.parametrize(
    ("api_type", "reason"),
    [
        ("openaichatcompletion", '"finish_reason":"stop"'),
        ("ollamaapichat", '"done_reason":"stop"'),
        ("anthropicmessages", '"stop_reason":"end_turn"'),
        ("openairesponses", '"status":"completed"'),
    ],
)
def test_a_stream_that_is_cut_off_in_a_call(api_type, reason):
    """Ends as one that was stopped; a call that waited is not sent (frontend-api.md 13)."""
    calls = [
        {"index": 0, "id": "a", "type": "function", "function": {"name": "tide", "arguments": '{"po'}},
        {"index": 1, "id": "b", "type": "function", "function": {"name": "wait", "arguments": "{"}},
    ]
    stream = framer(api_type)
    stream.units([chunk(tool_calls=calls)])
    stream.is_cut_off = True
    last = "".join(stream.finish_units("stop"))
    assert reason in last and "tool_use" not in last
    if api_type != "openairesponses":
        assert "tide" not in last and "wait" not in last


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, None, "invalid_request_error"),
        (401, None, "authentication_error"),
        (403, None, "permission_error"),
        (404, None, "not_found_error"),
        (404, "unknown_path", "not_found_error"),
        (404, "model_not_found", "invalid_request_error"),
        (405, None, "invalid_request_error"),
        (413, None, "invalid_request_error"),
        (415, None, "invalid_request_error"),
        (429, None, "rate_limit_error"),
        (499, None, "request_cancelled"),
        (418, None, "server_error"),
        (500, None, "server_error"),
        (502, "backend_error", "server_error"),
    ],
)
def test_the_type_of_an_error(status, code, kind):
    """By its status; of a model that nobody has, OpenAI itself says that the request is invalid."""
    assert ErrorReply(status, "M", code=code).kind == kind
