"""Calls and results belong together, whatever a client sends: no API refuses the chat for ever."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from Middleware.llmapis.dialects.claude_messages import CLAUDE_TURNS, claude_messages
from Middleware.llmapis.dialects.tool_turns import NO_RESULT, TurnRules, repair_turns


def caller(*calls, content=""):
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def call(name, call_id=None, arguments="{}"):
    given = {"id": call_id} if call_id else {}
    return {**given, "type": "function", "function": {"name": name, "arguments": arguments}}


def user(text):
    return {"role": "user", "content": text}


def result(text, call_id=None, **more):
    given = {"tool_call_id": call_id} if call_id else {}
    return {"role": "tool", "content": text, **given, **more}


def results_of(messages):
    """`(id, text)` of each result, in order."""
    return [(one["tool_call_id"], one["content"]) for one in messages if one["role"] == "tool"]


BY_ID = [call("a", "1"), call("b", "2")]
LINKS = {
    "by-id-in-the-clients-order": (BY_ID, [result("B", "2"), result("A", "1")], [("2", "B"), ("1", "A")]),
    "late-ones-in-the-order-of-the-calls": (
        [*BY_ID, call("c", "3")],
        [result("C", "3"), user("wait"), result("B", "2"), result("A", "1")],
        [("3", "C"), ("1", "A"), ("2", "B")],
    ),
    "by-name": (BY_ID, [result("B", name="b"), result("A", name="a")], [("2", "B"), ("1", "A")]),
    "by-place": (
        [call("a"), call("b")],
        [result("A"), result("B")],
        [("toolcall_1_0", "A"), ("toolcall_1_1", "B")],
    ),
    "without-id-and-name": ([call("a", "1")], [result("A")], [("1", "A")]),
    "same-name-twice": (
        [call("a", "1"), call("a", "2")],
        [result("A", name="a"), result("B", name="a")],
        [("1", "A"), ("2", "B")],
    ),
    "unknown-name": ([call("a", "1")], [result("A", name="x")], [("1", "A")]),
    "made-ids": (
        [call("a"), call("b")],
        [result("B", name="b"), result("A")],
        [("toolcall_1_1", "B"), ("toolcall_1_0", "A")],
    ),
    "an-id-for-a-call-without-one": ([call("a")], [result("A", "9")], [("toolcall_1_0", "A")]),
    "an-id-and-a-name": (
        [call("a", "1"), call("a", "2")],
        [result("A", "1"), result("B", name="a")],
        [("1", "A"), ("2", "B")],
    ),
    "twice": ([call("a", "1")], [result("A", "1"), result("B", "1")], [("1", "A")]),
    "behind-other-turns": ([call("a", "1")], [user("wait"), result("A", "1")], [("1", "A")]),
    "missing": (BY_ID, [result("B", "2")], [("2", "B"), ("1", NO_RESULT)]),
    "one-id-for-two-calls": (
        [call("a", "1"), call("b", "1")],
        [result("A", "1"), result("B", "1")],
        [("1", "A"), ("1-2", "B")],
    ),
    "no-object": (["odd", call("a")], [result("A")], [("toolcall_1_1", "A")]),
}


@pytest.mark.parametrize(("calls", "answers", "linked"), LINKS.values(), ids=LINKS)
def test_each_call_has_one_result_right_behind_its_turn(calls, answers, linked):
    """And what is sent says so; the caller's messages stay as they are."""
    messages = [user("q"), caller(*calls), *answers]
    before = copy.deepcopy(messages)
    whole = repair_turns(messages)
    assert results_of(whole[2:]) == linked
    assert [message["role"] for message in whole[2 : 2 + len(linked)]] == ["tool"] * len(linked)
    assert {one["id"] for one in whole[1]["tool_calls"]} == {call_id for call_id, _ in linked}
    assert messages == before


ORPHANS = {
    "named": (result("old", "gone", name="clock"), "Tool result (clock): old"),
    "nameless": (result("old", "gone"), "Tool result: old"),
    "blocks": (result([{"type": "text", "text": "old"}, "odd"], "gone"), "Tool result: old"),
    "before-its-call": (result("old", "1"), "Tool result: old"),
}


@pytest.mark.parametrize(("orphan", "text"), ORPHANS.values(), ids=ORPHANS)
def test_a_result_without_its_call_is_a_text_of_the_user(orphan, text):
    """Nothing of it is lost, and no API refuses it."""
    whole = repair_turns([user("q"), orphan, caller(call("a", "1"))])
    assert whole[1] == user(text)
    assert results_of(whole) == [("1", NO_RESULT)]


def test_a_result_too_many_that_names_no_call_is_a_text():
    """All calls have theirs."""
    assert repair_turns([caller(call("a")), result("A"), result("B")])[2:] == [user("Tool result: B")]


REPEATED = [caller(call("a", "call_0")), result("A", "call_0")]


def test_ids_are_unique_over_the_whole_history():
    """Servers that count calls from 0 in each turn give the same ids again and again."""
    whole = repair_turns(REPEATED * 3)
    assert results_of(whole) == [("call_0", "A"), ("call_0-2", "A"), ("call_0-3", "A")]


def test_an_id_that_looks_made_is_not_given_twice():
    """A client's own `call_0-2` has come before."""
    whole = repair_turns([caller(call("a", "call_0-2"), call("b", "call_0"), call("c", "call_0"))])
    assert [call_id for call_id, _ in results_of(whole)] == ["call_0-2", "call_0", "call_0-3"]


def test_what_comes_later_changes_no_id():
    """The beginning of the prompt stays in the backend's cache."""
    assert repair_turns(REPEATED * 3)[:4] == repair_turns(REPEATED * 2)


def test_a_result_belongs_to_the_newest_call_of_its_id():
    """The older one was stopped, and its id is used again."""
    whole = repair_turns([caller(call("a", "1")), user("again"), caller(call("a", "1")), result("A", "1")])
    assert results_of(whole) == [("1", NO_RESULT), ("1-2", "A")]


def test_a_dialect_may_mark_the_missing_result_and_clean_ids():
    """Claude knows `is_error`, and refuses ids with other characters."""
    whole = repair_turns([caller(call("a", "fn.a:0"))], CLAUDE_TURNS)
    assert whole[0]["tool_calls"][0]["id"] == "fn_a_0"
    assert whole[1] == {"role": "tool", "content": NO_RESULT, "is_error": True, "tool_call_id": "fn_a_0"}


FORMS = [
    (call("a", "1", '{"x": 1}'), call("a", "1", '{"x": 1}')),
    (
        {"id": "1", "function": {"index": 0, "name": "a", "arguments": {"x": "ö"}}},
        call("a", "1", '{"x": "ö"}'),
    ),
    ({"id": "1", "function": {"name": "a"}}, call("a", "1")),
    (call("a", "1", " "), call("a", "1")),
    (call("a", "1", '{"x": 1,'), call("a", "1", '{"x": 1,')),
    ({"id": "1", "function": None}, call("unknown", "1")),
    ({**call("a", "1"), "extra_content": {"k": "v"}}, {**call("a", "1"), "extra_content": {"k": "v"}}),
]


@pytest.mark.parametrize(
    ("given_call", "sent"),
    FORMS,
    ids=["regular", "ollama", "no-arguments", "blank", "no-json-stays", "no-function", "more-keys"],
)
def test_calls_are_in_openai_form(given_call, sent):
    """`type`, a name, and arguments as text that is never blank."""
    assert repair_turns([caller(given_call, "odd")])[0]["tool_calls"] == [sent]


@pytest.mark.parametrize("calls", [[], None, ["odd"], "odd"])
def test_a_turn_without_calls_has_no_key_for_them(calls):
    """OpenAI refuses an empty list."""
    turn = {"role": "assistant", "content": "A", "tool_calls": calls}
    assert repair_turns([turn]) == [{"role": "assistant", "content": "A"}]


def test_only_an_assistant_calls():
    """Calls in another role's message are none."""
    assert repair_turns([{**user("q"), "tool_calls": [call("a", "1")]}]) == [user("q")]


# --- any history ---

IDS = st.sampled_from(["1", "2", "call_0", "call_0-2", "fn.a:0", "fn_a_0", None])
NAMES = st.sampled_from(["a", "b", ""])
ARGUMENTS = st.sampled_from(["{}", "", '{"x": 1}', '{"x": ', "[1]", None, {"x": 1}])
CALLS = st.builds(call, NAMES, IDS, ARGUMENTS)
MESSAGES = st.one_of(
    st.builds(user, st.sampled_from(["q", ""])),
    st.builds(lambda text: {"role": "assistant", "content": text}, st.sampled_from(["A", ""])),
    st.builds(lambda calls, text: caller(*calls, content=text), st.lists(CALLS, max_size=3), st.just("A")),
    st.builds(lambda text, call_id, name: result(text, call_id, name=name), st.just("R"), IDS, NAMES),
)
HISTORIES = st.lists(MESSAGES, max_size=10)
ANY = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def openai_faults(messages):
    """What OpenAI's reference forbids: a call without one result in the very next messages, a result without
    its call, equal ids, an empty list of calls, arguments or a name that are empty."""
    faults, seen, waiting = [], set(), []
    for message in [*messages, user("end")]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                faults.append(("result without its call", message))
                continue
            waiting.remove(message["tool_call_id"])
            continue
        faults += [("call without its result", one) for one in waiting]
        calls = message.get("tool_calls")
        waiting = [one["id"] for one in calls or ()]
        faults += [("equal ids", one) for one in waiting if one in seen or waiting.count(one) > 1]
        faults += [("no calls", message)] if calls is not None and not calls else []
        functions = [one["function"] for one in calls or ()]
        faults += [("empty", one) for one in functions if not one["name"] or not one["arguments"].strip()]
        seen.update(waiting)
    return faults


def claude_faults(messages):
    """What Claude's reference forbids: roles that do not take turns, an empty turn, a call without one result at
    the front of the very next turn, a result without its call, equal or odd ids, input that is no object."""
    faults, seen, waiting = [], set(), []
    for at, message in enumerate([*messages, {"role": "end", "content": [{"type": "end"}]}]):
        content = message["content"]
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        faults += [("role", at)] if message["role"] == ("assistant", "user")[at % 2 == 1] else []
        faults += [("empty", at)] if not blocks else []
        kinds = [block["type"] for block in blocks]
        answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        faults += [("results", at)] if sorted(answered) != sorted(waiting) else []
        faults += [("not in front", at)] if "tool_result" in kinds[kinds.count("tool_result") :] else []
        uses = [block for block in blocks if block["type"] == "tool_use"]
        waiting = [use["id"] for use in uses]
        faults += [("id", one) for one in waiting if one in seen or waiting.count(one) > 1]
        faults += [("odd id", one) for one in waiting if not one.replace("-", "").replace("_", "").isalnum()]
        faults += [("input", one) for one in uses if not isinstance(one["input"], dict) or not one["name"]]
        seen.update(waiting)
    return faults


class TestAnyHistory:
    @ANY
    @given(HISTORIES)
    def test_openai_takes_it(self, messages):
        """Judged by the rules of its reference."""
        assert openai_faults(repair_turns(messages)) == []

    @ANY
    @given(HISTORIES)
    def test_claude_takes_it(self, messages):
        """Judged by the rules of its reference."""
        assert claude_faults(claude_messages(repair_turns(messages, CLAUDE_TURNS), lambda _: [])) == []

    @ANY
    @given(HISTORIES)
    def test_a_second_pass_changes_nothing(self, messages):
        """What is whole stays as it is."""
        whole = repair_turns(messages)
        assert repair_turns(whole) == whole

    @ANY
    @given(HISTORIES)
    def test_nothing_that_was_said_is_lost(self, messages):
        """But for a second result of a call."""
        whole = json.dumps(repair_turns(messages, TurnRules({"content": "-"})))
        said = [one["content"] for one in messages if one["role"] != "tool"]
        assert all(json.dumps(text) in whole for text in said)
