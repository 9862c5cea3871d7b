"""Conversations in the form of the Claude messages API."""

from __future__ import annotations

import pytest

from Middleware.llmapis.dialects.claude_messages import (
    CLAUDE_TURNS,
    CONTINUE_REQUEST,
    FIRST_USER_TEXT,
    claude_messages,
    claude_tool_choice,
    claude_tools,
    has_prefill,
    holds_tool_blocks,
    split_system,
    without_prefill,
)
from Middleware.llmapis.dialects.tool_turns import repair_turns


def user(content, **more):
    return {"role": "user", "content": content, **more}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def call(call_id="t1", name="wx", arguments="{}"):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def use(call_id="t1", name="wx", given=None):
    return {"type": "tool_use", "id": call_id, "name": name, "input": given or {}}


def result(text, call_id="t1"):
    return {"type": "tool_result", "tool_use_id": call_id, "content": text}


def tool(text, call_id="t1"):
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def text(words):
    return {"type": "text", "text": words}


def turned(*messages, thoughts_of=lambda _: []):
    return claude_messages(repair_turns(list(messages), CLAUDE_TURNS), thoughts_of)


class TestSystem:
    def test_all_system_turns_are_joined_wherever_they_stand(self):
        """With a blank line; blank ones say nothing."""
        messages = [
            {"role": "system", "content": "A"},
            user("U"),
            {"role": "system", "content": " "},
            {"role": "system", "content": [text("B")]},
        ]
        assert split_system(messages) == ("A\n\nB", [user("U")])

    def test_none(self):
        """No text, no key."""
        assert split_system([user("U")]) == ("", [user("U")])


class TestTurns:
    @pytest.mark.parametrize(
        ("messages", "sent"),
        [
            pytest.param(
                [assistant("Hi"), user("U")],
                [user(FIRST_USER_TEXT), assistant("Hi"), user("U")],
                id="greeting",
            ),
            pytest.param([user("A"), user("B")], [user("A\n\nB")], id="neighbours-merge"),
            pytest.param([user("A"), assistant("  "), user("B")], [user("A\n\nB")], id="blank-is-left-out"),
            pytest.param(
                [user("A"), assistant("B \n")], [user("A"), assistant("B")], id="prefill-loses-trailing-space"
            ),
            pytest.param([user([text(" ")]), user("B")], [user("B")], id="blank-parts-are-left-out"),
            pytest.param(
                [user([text("A")]), user("B")],
                [user([text("A"), text("B")])],
                id="parts-and-text-merge-to-parts",
            ),
            pytest.param([], [], id="nothing"),
        ],
    )
    def test_roles_take_turns(self, messages, sent):
        """The first is the user's; nothing is blank."""
        assert turned(*messages) == sent


NO_RESULT = {"type": "tool_result", "tool_use_id": "t2", "is_error": True, "content": "no result"}


class TestToolTurns:
    def test_a_call_without_a_result_gets_one(self):
        """A tool that was stopped gave none; without any the API refuses every later turn."""
        called = assistant("", tool_calls=[call(), call("t2")])
        turns = turned(user("Q"), called, tool("1"), user("stop"), assistant("ok"), user("and?"))
        assert turns[2:] == [
            user([result("1"), NO_RESULT, text("stop")]),
            assistant("ok"),
            user("and?"),
        ]

    def test_an_id_that_is_used_again_answers_the_later_call_only(self):
        """Servers that count calls from 0 in each turn give the same ids again and again."""
        called = assistant("", tool_calls=[call("t2")])
        turns = turned(user("Q"), called, user("again"), called, tool("1", "t2"))
        assert turns[2] == user([NO_RESULT, text("again")])
        assert turns[4] == user([result("1", "t2-2")])

    @pytest.mark.parametrize(
        ("messages", "sent"),
        [
            pytest.param(
                [assistant("look", tool_calls=[call(arguments='{"c": 1}')])],
                [assistant([text("look"), use(given={"c": 1})])],
                id="text-before-the-calls",
            ),
            pytest.param([assistant("", tool_calls=[call()])], [assistant([use()])], id="no-blank-text"),
            pytest.param(
                [assistant([text("A"), text("")], tool_calls=[call()])],
                [assistant([text("A"), use()])],
                id="block-lists-are-kept",
            ),
            pytest.param(
                [assistant("", tool_calls=[call(), "junk", {"function": {"name": "f", "arguments": "[1]"}}])],
                [assistant([use(), use("toolcall_1_2", "f", {"value": "[1]"})])],
                id="missing-id-and-bad-arguments",
            ),
            pytest.param([assistant("A", tool_calls=[])], [assistant("A")], id="no-calls"),
            pytest.param(
                [assistant("A", tool_calls=[{"id": "t1"}])],
                [assistant([text("A"), use(name="unknown")])],
                id="bare",
            ),
            pytest.param(
                [assistant("", tool_calls=[call("functions.wx:0")])],
                [assistant([use("functions_wx_0")])],
                id="an-id-that-the-api-refuses",
            ),
        ],
    )
    def test_calls_are_blocks(self, messages, sent):
        """Of the assistant's turn, behind its text."""
        assert turned(user("Q"), *messages)[:2] == [user("Q"), *sent]

    @pytest.mark.parametrize(
        ("messages", "content"),
        [
            pytest.param([tool("1")], [result("1"), NO_RESULT], id="one"),
            pytest.param(
                [tool("1"), tool("2", "t2")], [result("1"), result("2", "t2")], id="results-share-a-turn"
            ),
            pytest.param(
                [tool("1"), user("and?")], [result("1"), NO_RESULT, text("and?")], id="user-text-joins"
            ),
            pytest.param([tool("1"), user(" ")], [result("1"), NO_RESULT], id="blank-user-text-is-dropped"),
            pytest.param(
                [tool("1"), user("and?"), tool("2", "t2")],
                [result("1"), result("2", "t2"), text("and?")],
                id="results-stand-first",
            ),
            pytest.param(
                [{"role": "tool", "content": ""}],
                [result(""), NO_RESULT],
                id="no-id-no-text",
            ),
            pytest.param(
                [user("stop"), assistant("ok"), user("and?")], "and?", id="nothing-is-added-elsewhere"
            ),
        ],
    )
    def test_results_are_blocks_of_a_user_turn(self, messages, content):
        """All results of a turn before anything else in it."""
        called = assistant("", tool_calls=[call(), call("t2")])
        assert turned(user("Q"), called, *messages)[-1] == user(content)

    def test_signed_thoughts_come_back_in_front(self):
        """Extended thinking wants them in the same turn."""
        thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
        turns = turned(
            user("Q"),
            assistant("look", tool_calls=[call("a"), call("b")]),
            thoughts_of=lambda use: [thought] if use["id"] == "b" else [],
        )
        assert turns[1]["content"] == [thought, text("look"), use("a"), use("b")]

    def test_tool_blocks_are_noticed(self):
        """The API then wants tool definitions."""
        assert holds_tool_blocks(turned(user("Q"), assistant("", tool_calls=[call()])))
        assert not holds_tool_blocks(turned(user("Q"), user([text("A")])))


def test_images_stand_before_the_text():
    """As blocks."""
    image = {"type": "image", "source": {"type": "url", "url": "https://h/a"}}
    assert turned(user("Q", images=["https://h/a"])) == [user([image, text("Q")])]


class TestPrefill:
    def test_an_assistants_last_text_is_one(self):
        """A turn of blocks is none."""
        assert has_prefill([user("Q"), assistant("A")])
        assert not has_prefill([user("Q")])
        assert not has_prefill([assistant([use()])])
        assert not has_prefill([])

    def test_it_can_move_into_the_users_turn(self):
        """For models that take none."""
        moved = without_prefill([user("Q"), assistant("A")])
        assert moved == [user(f"Q\n\n{CONTINUE_REQUEST}A")]

    def test_or_into_a_turn_of_its_own(self):
        """When no user turn stands before it."""
        assert without_prefill([assistant("A")]) == [user(f"{CONTINUE_REQUEST}A")]


class TestTools:
    def test_functions(self):
        """Name, description, schema; what is missing is filled in."""
        full = {
            "type": "function",
            "function": {"name": "f", "description": "d", "parameters": {"type": "object"}},
        }
        bare = {"type": "function", "function": {}}
        other = {"type": "web_search_20250305", "name": "web_search"}
        assert claude_tools([full, bare, other]) == [
            {"name": "f", "description": "d", "input_schema": {"type": "object"}},
            {"name": "", "description": "", "input_schema": {"type": "object", "properties": {}}},
            other,
        ]

    @pytest.mark.parametrize(
        ("choice", "sent"),
        [
            ("auto", {"type": "auto"}),
            ("required", {"type": "any"}),
            ({"type": "function", "function": {"name": "f"}}, {"type": "tool", "name": "f"}),
            ({"type": "function"}, None),
            ("odd", None),
            (None, None),
        ],
    )
    def test_choice(self, choice, sent):
        """In Claude's words."""
        assert claude_tool_choice(choice) == sent
