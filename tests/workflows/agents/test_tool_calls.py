"""A model's call is read as it was meant, its result is cut to measure, and repeats come to an end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Middleware.utilities.text_utils import estimate_message_tokens, estimate_tokens
from Middleware.workflows.agents.agent_tool import AgentTool
from Middleware.workflows.agents.tool_calls import (
    NO_ROOM,
    ReadCall,
    RefusedCall,
    Repeats,
    cut_result,
    fit_results,
    read_call,
)

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "lines": {"type": "array", "items": {"type": "integer"}},
        "n": {"type": "integer"},
        "deep": {"type": "boolean"},
        "mode": {"enum": ["a", "b"]},
        "filter": {"type": "object", "properties": {"age": {"type": "number"}}, "required": ["age"]},
    },
    "required": ["path"],
    "additionalProperties": False,
}


def tool(name: str = "read_file", schema: dict[str, Any] | None = None, **facts: Any) -> AgentTool:
    return AgentTool(name, "", SCHEMA if schema is None else schema, "mcp", 30.0, lambda a: "", **facts)


FILES = tool(server="files", place="files: read_file")


def made(name: str, arguments: str, *tools: AgentTool) -> ReadCall:
    call = read_call(tools or (FILES,), name, arguments)
    assert isinstance(call, ReadCall), call
    return call


def refused(name: str, arguments: str, *tools: AgentTool, **facts: Any) -> RefusedCall:
    call = read_call(tools or (FILES,), name, arguments, **facts)
    assert isinstance(call, RefusedCall), call
    return call


class TestNames:
    @pytest.mark.parametrize(
        "name", ["read_file", "Read_File", " read_file ", "functions.read_file", "files.read_file"]
    )
    def test_a_name_that_nearly_fits_is_that_tool(self, name: str) -> None:
        """But for case, a leading `functions.` or the server's name; the turn has the tool's own name."""
        assert made(name, '{"path":"a"}').name == "read_file"

    def test_a_tool_is_known_by_the_name_that_its_server_gave(self) -> None:
        """Also when it was renamed to fit."""
        renamed = tool("read_file_2", server="files", place="files: read.file")
        assert made("files.read.file", '{"path":"a"}', renamed).name == "read_file_2"

    def test_case_decides_between_two(self) -> None:
        """A name that could be either is none."""
        both = (tool("Get"), tool("get"))
        assert made("get", '{"path":"a"}', *both).name == "get"
        assert refused("GET", "{}", *both).sentence == 'error: there is no tool "GET"; tools: Get, get'

    def test_an_unknown_name_is_answered_with_those_there_are(self) -> None:
        """Twenty at most, and the turn gets signs that every server takes."""
        call = refused("web search", "{}", *(tool(f"t{n}") for n in range(25)))
        assert call.sentence.startswith('error: there is no tool "web search"; tools: t0, t1, ')
        assert call.sentence.endswith("t19")
        assert call.name == "web_search"

    def test_a_name_without_end_is_cut(self) -> None:
        call = refused("x" * 5000, "{}")
        assert len(call.name) == 64
        assert len(call.sentence) < 400


class TestArguments:
    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            ('{"path":"a","lines":4}', '"lines" must be an array'),
            ("{}", '"path" is missing'),
            ('{"path":"a","n":1.5}', '"n" must be an integer'),
            ('{"path":"a","mode":"c"}', '"mode" must be one of "a", "b"'),
            ('{"path":"a","filter":{}}', '"filter.age" is missing'),
            ('{"path":"a","lines":["x"]}', '"lines[0]" must be an integer'),
            ('{"path":"a","colour":"red"}', '"colour" is no argument of this tool'),
            ('{"path":"a","lines":4,"n":[]}', '"lines" must be an array; "n" must be an integer'),
        ],
    )
    def test_what_does_not_fit_is_named(self, arguments: str, sentence: str) -> None:
        call = refused("read_file", arguments)
        assert call.sentence == f"error: arguments of read_file: {sentence}"
        assert call.arguments_text == arguments

    @pytest.mark.parametrize(
        ("rule", "value", "sentence"),
        [
            ({"const": "a"}, "b", 'must be "a"'),
            ({"minimum": 3}, 2, "must be 3 or more"),
            ({"maximum": 3}, 4, "must be 3 or less"),
            ({"exclusiveMinimum": 3}, 3, "must be more than 3"),
            ({"exclusiveMaximum": 3}, 3, "must be less than 3"),
            ({"minLength": 3}, "ab", "must have at least 3 characters"),
            ({"maxLength": 3}, "abcd", "must have at most 3 characters"),
            ({"minItems": 1}, [], "must have at least 1 items"),
            ({"maxItems": 1}, [1, 2], "must have at most 1 items"),
            ({"type": ["integer", "null"]}, "x", "must be an integer or null"),
            ({"anyOf": [{"type": "array"}, {"type": "object"}]}, 1, "does not fit the tool's schema"),
        ],
    )
    def test_a_model_is_told_how_a_value_would_fit(
        self, rule: dict[str, Any], value: Any, sentence: str
    ) -> None:
        bounded = tool("t", {"type": "object", "properties": {"x": rule}})
        call = refused("t", json.dumps({"x": value}), bounded)
        assert call.sentence == f'error: arguments of t: "x" {sentence}'

    @pytest.mark.parametrize(
        ("arguments", "read"),
        [
            ('{"path":"a","n":"5"}', {"path": "a", "n": 5}),
            ('{"path":"a","deep":"true"}', {"path": "a", "deep": True}),
            ('{"path":"a","lines":"[1]"}', {"path": "a", "lines": [1]}),
            ('{"path":"a","lines":["1"]}', {"path": "a", "lines": [1]}),
            ('{"path":"a","n":null,"mode":null}', {"path": "a"}),
            ('{"path":"a","colour":null}', {"path": "a"}),
            ('"{\\"path\\": \\"a\\"}"', {"path": "a"}),
            ('{"path":"5"}', {"path": "5"}),
        ],
    )
    def test_a_value_is_read_as_it_was_meant(self, arguments: str, read: dict[str, Any]) -> None:
        """A text whose JSON fits, null for what may be missing; what fits stays as it is."""
        assert made("read_file", arguments).arguments == read

    def test_null_for_what_is_needed_is_no_value(self) -> None:
        assert refused("read_file", '{"path":null}').sentence.endswith('"path" must be a string')

    @pytest.mark.parametrize("arguments", ["", "  ", "{}", "null"])
    def test_no_arguments_are_an_empty_object(self, arguments: str) -> None:
        call = made("now", arguments, tool("now", {"type": "object", "properties": {}}))
        assert (call.arguments, call.arguments_text) == ({}, "{}")

    @pytest.mark.parametrize("arguments", ['{"path": "a', "[1]", "5", "read a.txt", '{"a": NaN}'])
    def test_what_is_no_object_is_quoted_and_the_turn_has_an_empty_one(self, arguments: str) -> None:
        """Servers answer 500 to a history with arguments that are none."""
        call = refused("read_file", arguments)
        assert call.sentence == f"error: arguments of read_file: no JSON object: {arguments}"
        assert call.arguments_text == "{}"

    def test_a_quotation_is_short(self) -> None:
        assert len(refused("read_file", "x" * 10_000).sentence) < 300

    @pytest.mark.parametrize("arguments", ['{"path": "a', ""])
    def test_a_call_that_the_limit_cut_off_says_so(self, arguments: str) -> None:
        call = refused("read_file", arguments, cut_off_at=2048)
        assert call.sentence == "error: the call was cut off at 2048 tokens; write less at once"
        assert call.arguments_text == "{}"

    def test_a_whole_call_before_the_limit_is_made(self) -> None:
        call = read_call([FILES], "read_file", '{"path":"a"}', cut_off_at=2048)
        assert isinstance(call, ReadCall)

    def test_what_a_client_is_sent_is_left_as_it_is(self) -> None:
        """Its tools are its own."""
        own = AgentTool("open", "", SCHEMA, "client")
        assert made("open", '{"path": 5', own).arguments_text == '{"path": 5'


class TestSchemasOfOthers:
    @pytest.mark.parametrize(
        "schema",
        [
            {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/x.json"}}},
            {"type": "object", "properties": {"a": {"$ref": "other.json#/x"}}},
            {"type": "object", "properties": {"a": {"pattern": "(a+)+$", "type": "string"}}},
            {"type": "object", "properties": {"a": {"type": "strange"}}},
            {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}},
            {"$ref": "#"},
            {"type": "object", "required": True},
            {"type": "object", "patternProperties": {"(a+)+$": {}}, "additionalProperties": False},
        ],
        ids=["far", "near", "pattern", "type", "lost", "circle", "unsound", "names"],
    )
    def test_nothing_is_fetched_and_nothing_fails(self, schema: dict[str, Any]) -> None:
        """`$ref` to elsewhere and patterns are not followed; an unsound schema fits everything."""
        text = json.dumps({"a": "a" * 40 + "!"})
        assert made("t", text, tool("t", schema)).arguments["a"].endswith("!")

    def test_definitions_of_the_schema_itself_count(self) -> None:
        schema = {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/count"}},
            "$defs": {"count": {"type": "integer"}},
        }
        assert refused("t", '{"a": []}', tool("t", schema)).sentence.endswith('"a" must be an integer')

    def test_a_property_may_be_called_as_a_word_of_schemas_is(self) -> None:
        schema = {"type": "object", "properties": {"pattern": {"type": "string"}}, "required": ["pattern"]}
        assert refused("t", "{}", tool("t", schema)).sentence.endswith('"pattern" is missing')


class TestCutting:
    def test_a_short_result_stays(self) -> None:
        assert cut_result("alpha", 5) == "alpha"

    def test_a_long_one_keeps_its_beginning_and_its_end(self) -> None:
        """Three quarters and one quarter, and a line that says how much is missing."""
        text = "".join(f"line {n}\n" for n in range(10000, 15000))
        cut = cut_result(text, 200)
        head, _, tail = cut.partition("\n[... ")
        left_out, _, tail = tail.partition(" characters left out ...]\n")
        assert text.startswith(head) and text.endswith(tail)
        assert len(head) + len(tail) + int(left_out.replace(",", "")) == len(text)
        assert "," in left_out
        assert len(head) == pytest.approx(3 * len(tail), rel=0.1)

    @given(st.text(max_size=3000), st.integers(1, 300))
    def test_what_is_left_fits(self, text: str, limit: int) -> None:
        cut = cut_result(text, limit)
        if estimate_tokens(text) <= limit:
            assert cut == text
        else:
            head, _, rest = cut.partition("\n[... ")
            tail = rest.partition("left out ...]\n")[2]
            if "[... " not in text:
                assert estimate_tokens(head) + estimate_tokens(tail) <= limit

    def test_a_huge_result_is_cut_without_looking_at_all_of_it(self) -> None:
        assert len(cut_result("x" * 50_000_000, 2000)) < 8000


class TestRepeats:
    @staticmethod
    def play(*calls: tuple[str, str]) -> list[bool]:
        """(call, result) each: whether it was made."""
        repeats, made = Repeats(), []
        for name, result in calls:
            is_made = repeats.refusal(name, {}) is None
            made.append(is_made)
            if is_made:
                repeats.note(name, {}, result)
        return made

    def test_the_third_equal_call_is_not_made(self) -> None:
        assert self.play(("a", "x"), ("a", "x"), ("a", "x"), ("a", "x")) == [True, True, False, False]

    def test_tests_after_each_edit_go_on(self) -> None:
        calls = [("test", "red"), ("edit 1", ""), ("test", "red"), ("edit 2", ""), ("test", "red")]
        assert all(self.play(*calls))

    def test_a_state_that_changes_may_be_asked_for(self) -> None:
        assert all(self.play(("a", "1"), ("a", "2"), ("a", "2"), ("b", ""), ("a", "2")))

    def test_two_calls_in_turns_come_to_an_end(self) -> None:
        made = self.play(*[("a", "x"), ("b", "y")] * 4)
        assert made.index(False) == 5

    def test_arguments_are_equal_in_any_order(self) -> None:
        repeats = Repeats()
        for _ in range(2):
            repeats.note("a", {"x": 1, "y": [2]}, "same")
        assert repeats.refusal("a", {"y": [2], "x": 1}) is not None
        assert repeats.refusal("a", {"y": [3], "x": 1}) is None

    def test_the_sentence_tells_the_beginning_of_the_result(self) -> None:
        repeats = Repeats()
        for _ in range(2):
            repeats.note("a", {}, "r" * 1000)
        expected = f"error: this call was made twice with the same result: {'r' * 200}"
        assert repeats.refusal("a", {}) == expected

    def test_results_that_differ_far_behind_are_not_the_same(self) -> None:
        repeats = Repeats()
        repeats.note("a", {}, "r" * 1000 + "1")
        repeats.note("a", {}, "r" * 1000 + "2")
        assert repeats.refusal("a", {}) is None


class TestRoom:
    def test_what_fits_stays(self) -> None:
        assert fit_results([["a"], ["b"]], 100, 4000) is None

    def test_the_oldest_go_until_a_quarter_is_free(self) -> None:
        steps = [[chr(97 + n) * 1000] for n in range(8)]
        fitted = fit_results(steps, 0, 2400)
        assert fitted is not None
        gone = [step == [NO_ROOM] for step in fitted]
        assert gone == sorted(gone, reverse=True) and 0 < sum(gone) < 8
        total = sum(estimate_message_tokens(r) for step in fitted for r in step)
        assert total <= 1800
        assert total + estimate_message_tokens(steps[0][0]) > 1800

    def test_those_of_the_newest_step_share_what_is_left(self) -> None:
        """A small one keeps all of its own."""
        fitted = fit_results([["a" * 9000], ["b" * 9000, "tiny", "c" * 9000]], 500, 2000)
        assert fitted is not None
        assert fitted[0] == [NO_ROOM] and fitted[1][1] == "tiny"
        assert len(fitted[1][0]) == pytest.approx(len(fitted[1][2]), rel=0.1)
        total = 500 + sum(estimate_message_tokens(r) for step in fitted for r in step)
        assert total <= 2000 + 60

    def test_a_result_that_is_shorter_than_its_stand_in_stays(self) -> None:
        fitted = fit_results([["ok"], ["b" * 9000]], 0, 500)
        assert fitted is not None and fitted[0] == ["ok"]
