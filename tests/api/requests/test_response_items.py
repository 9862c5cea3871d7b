"""Bodies of the Responses protocol become messages and tools (more-fronts.md 3.2 to 3.4)."""

from __future__ import annotations

import logging

import pytest

from Middleware.api.requests.response_items import (
    function_tools,
    input_items,
    listed_items,
    messages_of,
    refuse_unsupported,
    task_messages_of,
)
from Middleware.common.errors import ClientRequestError

USER = {"role": "user", "content": "Tide?"}
CALL = {"type": "function_call", "call_id": "c1", "name": "tide", "arguments": '{"port":"Brest"}'}
SECOND = {"type": "function_call", "call_id": "c2", "name": "wind", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "5.1 m"}
THOUGHTS = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]}
TOOL = {
    "type": "function",
    "name": "tide",
    "description": "d",
    "parameters": {"type": "object"},
    "strict": True,
}
INTERNAL = {"name": "tide", "description": "d", "parameters": {"type": "object"}, "strict": True}


def said(*items, instructions=None):
    return messages_of(instructions, input_items({"input": list(items)}))


def call(call_id, name, arguments):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


TIDE = call("c1", "tide", '{"port":"Brest"}')
WIND = call("c2", "wind", "{}")


class TestInput:
    def test_a_text_is_one_user_message(self):
        """Also an empty one."""
        assert messages_of(None, input_items({"input": "Hi"})) == [{"role": "user", "content": "Hi"}]
        assert messages_of(None, input_items({"input": ""})) == [{"role": "user", "content": ""}]

    @pytest.mark.parametrize(
        ("body", "param", "sentence"),
        [
            ({}, "input", "'input' is required"),
            ({"input": None, "previous_response_id": ""}, "input", "'input' is required"),
            ({"input": 5}, "input", "'input' must be a string or a list of items"),
            ({"input": {"role": "user"}}, "input", "'input' must be a string or a list of items"),
            (
                {"input": {}, "previous_response_id": "resp_1"},
                "input",
                "'input' must be a string or a list of items",
            ),
            ({"input": [USER, "Hi"]}, "input[1]", r"input\[1\] must be an object"),
            ({"input": [{"type": "message"}]}, "input[0].role", r"input\[0\].role is missing"),
            ({"input": [{"content": "Hi"}]}, "input[0].role", r"input\[0\].role is missing"),
            ({"input": [{"role": 5}]}, "input[0].role", r"input\[0\].role must be a string"),
        ],
        ids=str,
    )
    def test_what_is_wrong(self, body, param, sentence):
        """Is named."""
        with pytest.raises(ClientRequestError, match=sentence) as caught:
            input_items(body)
        assert caught.value.param == param

    def test_none_beside_an_earlier_response(self):
        """The history may be all."""
        assert input_items({"previous_response_id": "resp_1"}) == []

    @pytest.mark.parametrize(
        "body", [{"background": True}, {"conversation": "conv_1"}, {"conversation": {}}, {"prompt": {"id": "p"}}], ids=str
    )  # fmt: skip
    def test_what_this_server_does_not_have(self, body):
        """And cannot leave out in silence."""
        name = next(iter(body))
        with pytest.raises(ClientRequestError, match=f"'{name}' is not supported by this server") as caught:
            refuse_unsupported(body)
        assert (caught.value.param, caught.value.code) == (name, "unsupported_parameter")

    def test_the_same_fields_without_a_wish(self):
        """Clients send them so."""
        refuse_unsupported({"background": False, "conversation": None, "prompt": None})
        refuse_unsupported({"background": "true"})


MESSAGES = [
    ("message", [{"type": "message", **USER}], [USER]),
    ("developer", [{"role": "developer", "content": "a"}], [{"role": "system", "content": "a"}]),
    ("capitals", [{"role": " User ", "content": "a"}], [{"role": "user", "content": "a"}]),
    ("no-content", [{"role": "user"}], [{"role": "user", "content": ""}]),
    ("parts", [{"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "text", "text": "b"}]}], [{"role": "user", "content": "a\nb"}]),
    ("own-parts", [{"role": "assistant", "content": [{"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "b"}]}], [{"role": "assistant", "content": "a\nb"}]),
    ("image", [{"role": "user", "content": [{"type": "input_image", "image_url": "http://u"}]}], [{"role": "user", "content": "", "images": ["http://u"]}]),
    ("call-alone", [USER, CALL], [USER, {"role": "assistant", "content": "", "tool_calls": [TIDE]}]),
    ("calls-in-a-row", [CALL, SECOND], [{"role": "assistant", "content": "", "tool_calls": [TIDE, WIND]}]),
    ("call-of-a-turn", [{"role": "assistant", "content": "I look."}, CALL, SECOND], [{"role": "assistant", "content": "I look.", "tool_calls": [TIDE, WIND]}]),
    ("thoughts-between", [{"role": "assistant", "content": "I look."}, THOUGHTS, CALL, THOUGHTS, SECOND], [{"role": "assistant", "content": "I look.", "tool_calls": [TIDE, WIND]}]),
    ("something-else-between", [{"role": "assistant", "content": "a"}, {"type": "web_search_call"}, CALL], [{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "", "tool_calls": [TIDE]}]),
    ("call-after-a-user", [{"role": "assistant", "content": "a"}, USER, CALL], [{"role": "assistant", "content": "a"}, USER, {"role": "assistant", "content": "", "tool_calls": [TIDE]}]),
    ("custom-call", [{"type": "custom_tool_call", "call_id": "c", "name": "sh", "input": "ls ü"}], [{"role": "assistant", "content": "", "tool_calls": [call("c", "sh", '{"input":"ls ü"}')]}]),
    ("odd-call", [{"type": "function_call", "arguments": {"a": 1}}], [{"role": "assistant", "content": "", "tool_calls": [call("", "", '{"a":1}')]}]),
    ("result", [CALL, RESULT], [{"role": "assistant", "content": "", "tool_calls": [TIDE]}, {"role": "tool", "content": "5.1 m", "tool_call_id": "c1", "name": "tide"}]),
    ("result-in-parts", [{"type": "custom_tool_call_output", "call_id": "x", "output": [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "http://u"}]}], [{"role": "tool", "content": "a", "tool_call_id": "x", "images": ["http://u"]}]),
    ("call-after-a-result", [CALL, RESULT, SECOND], [{"role": "assistant", "content": "", "tool_calls": [TIDE]}, {"role": "tool", "content": "5.1 m", "tool_call_id": "c1", "name": "tide"}, {"role": "assistant", "content": "", "tool_calls": [WIND]}]),
    ("thoughts", [THOUGHTS, USER], [USER]),
]  # fmt: skip


class TestMessages:
    @pytest.mark.parametrize(
        ("items", "expected"), [case[1:] for case in MESSAGES], ids=[c[0] for c in MESSAGES]
    )
    def test_items(self, items, expected, caplog):
        """Each has its place."""
        assert said(*items) == expected
        assert ("web_search_call" in caplog.text) is any(
            item.get("type") == "web_search_call" for item in items
        )

    def test_instructions_come_first(self):
        """As the system's message, unless they are blank or no text."""
        assert said(USER, instructions="Be brief.") == [{"role": "system", "content": "Be brief."}, USER]
        assert said(USER, instructions=" \n") == said(USER, instructions=5) == [USER]

    def test_what_has_no_place_is_told_once(self, caplog):
        """By its type, never with its content."""
        items = [
            {"type": "item_reference", "id": "secret"},
            {"id": "secret"},
            {"type": 5, "x": "secret"},
            {"type": {"x": "secret"}},
            {"type": "local_shell_call", "action": "secret"},
            {
                "role": "user",
                "content": [
                    {"type": "input_file", "file_id": "secret"},
                    {"type": "input_image", "file_id": "secret"},
                ],
            },
        ]
        with caplog.at_level(logging.WARNING):
            assert said(*items) == [{"role": "user", "content": ""}]
        assert caplog.messages == [
            "items or parts of these types were dropped: "
            "['(no name)', '5', 'input_file', 'input_image by file_id', 'item_reference', 'local_shell_call', 'none']"
        ]


class TestTasks:
    def test_messages_of_an_unchecked_body(self, caplog):
        """As a background task of Open WebUI is known; nothing is logged."""
        body = {"instructions": "Be brief.", "input": [USER, {"type": "odd"}]}
        assert task_messages_of(body) == [{"role": "system", "content": "Be brief."}, USER]
        assert caplog.messages == []

    @pytest.mark.parametrize("body", [{}, {"input": 5}, {"input": [5]}, {"input": [{"role": 5}]}], ids=str)
    def test_of_another_shape(self, body):
        """There are none."""
        assert task_messages_of(body) == []


class TestTools:
    @pytest.mark.parametrize(
        ("tool", "function"),
        [
            (TOOL, INTERNAL),
            ({"type": "function", "function": INTERNAL}, INTERNAL),
            (
                {"type": "function", "name": "f", "description": None, "parameters": None, "strict": None},
                {"name": "f"},
            ),
            (
                {"type": "function", "name": "f", "strict": False, "defer_loading": True},
                {"name": "f", "strict": False},
            ),
        ],
        ids=["flat", "nested", "nulls", "other-keys"],
    )
    def test_functions(self, tool, function):
        """In the form that workflows know."""
        assert function_tools({"tools": [tool]}) == ([{"type": "function", "function": function}], None)

    def test_other_tools_are_left_out(self, caplog):
        """With one warning: Codex always sends some."""
        tools = [
            {"type": "web_search"},
            TOOL,
            {"type": "custom", "name": "x"},
            "odd",
            {"type": "function"},
            {"type": ["x"]},
        ]
        with caplog.at_level(logging.WARNING):
            assert function_tools({"tools": tools})[0] == [{"type": "function", "function": INTERNAL}]
        assert caplog.messages == [
            "tools of these types were left out: ['(no name)', 'custom', 'function', 'none', 'web_search']"
        ]

    @pytest.mark.parametrize(
        ("choice", "expected"),
        [
            ("auto", "auto"),
            ("none", "none"),
            ("required", "required"),
            ("any", None),
            (None, None),
            (5, None),
            ({"type": "function", "name": "tide"}, {"type": "function", "function": {"name": "tide"}}),
            (
                {"type": "function", "function": {"name": "tide"}},
                {"type": "function", "function": {"name": "tide"}},
            ),
            ({"type": "function"}, None),
            ({"type": "web_search"}, None),
            (
                {
                    "type": "allowed_tools",
                    "mode": "required",
                    "tools": [{"type": "function", "name": "tide"}],
                },
                "required",
            ),
        ],
        ids=str,
    )
    def test_choice(self, choice, expected):
        """What has no counterpart is none."""
        assert function_tools({"tools": [TOOL], "tool_choice": choice})[1] == expected

    def test_allowed_tools(self):
        """Only the named functions stay; none of them: neither tools nor choice."""
        two = [TOOL, {**TOOL, "name": "wind"}]
        allowed = {
            "type": "allowed_tools",
            "mode": "auto",
            "tools": [{"type": "function", "name": "wind"}, 5],
        }
        tools, choice = function_tools({"tools": two, "tool_choice": allowed})
        assert ([tool["function"]["name"] for tool in tools], choice) == (["wind"], "auto")
        assert function_tools({"tools": [TOOL], "tool_choice": allowed}) == (None, None)

    @pytest.mark.parametrize("tools", [None, [], "x", [{"type": "web_search"}]], ids=str)
    def test_no_tool_left(self, tools):
        """No choice either."""
        assert function_tools({"tools": tools, "tool_choice": "required"}) == (None, None)


class TestListed:
    def test_every_item_has_an_id(self):
        """Its own, or one that says where it stood."""
        listed = listed_items([{**USER, "id": "mine"}, CALL, {**RESULT, "id": ""}, {"type": "odd"}], "R")
        assert [item["id"] for item in listed] == ["mine", "fc_R_in_1", "fco_R_in_2", "item_R_in_3"]

    def test_a_message_has_its_type_and_parts(self):
        """As the official types want them; parts that were sent stay."""
        parts = [{"type": "input_text", "text": "a"}]
        listed = listed_items(
            [USER, {"role": "assistant", "content": "b"}, {"role": "user", "content": parts}], "R"
        )
        assert [(item["type"], item["status"]) for item in listed] == [("message", "completed")] * 3
        assert [item["content"] for item in listed] == [
            [{"type": "input_text", "text": "Tide?"}],
            [{"type": "output_text", "annotations": [], "logprobs": [], "text": "b"}],
            parts,
        ]

    def test_they_say_the_same(self):
        """Whether they come from the client or out of the list."""
        items = input_items({"input": [USER, {"role": "assistant", "content": "b"}, CALL, RESULT]})
        assert messages_of(None, listed_items(items, "R")) == messages_of(None, items)
