"""The turns of an agent's loop: thoughts in the fields they came in, and endpoints that refuse them."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from Middleware.config.endpoints import EndpointConfig
from Middleware.llmapis.call.call_arguments import CallArguments, HandlerSettings
from Middleware.llmapis.dialects.loop_turns import (
    MOST_MARKS,
    MarkedEndpoints,
    ThoughtFields,
    refusing_thoughts,
    thoughts_beside,
    wire_turns,
    without_thoughts,
)
from Middleware.llmapis.dialects.message_building import WIRE_KEYS
from Middleware.llmapis.handlers import impl
from Middleware.llmapis.handlers.backends import BACKENDS

_ = impl

DETAIL = {"type": "reasoning.text", "index": 0, "id": "d1"}


@pytest.fixture(autouse=True)
def nothing_learnt():
    yield
    refusing_thoughts.forget_all()


@pytest.fixture
def make_endpoint():
    def make(model: str = "m") -> EndpointConfig:
        raw = {"endpoint": "http://model.test", "modelNameToSendToAPI": model}
        return EndpointConfig("chat", raw, "Chat", {})

    return make


class TestFields:
    def test_texts_are_joined(self):
        """Each field by itself."""
        fields = ThoughtFields()
        for delta in (
            {"reasoning_content": "a"},
            {"reasoning_content": "b"},
            {"thinking": "c"},
            {"content": "x"},
        ):
            fields.note(delta)
        assert fields.fields() == {"reasoning_content": "ab", "thinking": "c"}

    def test_details_are_put_together(self):
        """Pieces of one part by its number; what signs it comes last."""
        fields = ThoughtFields()
        for part in (
            {**DETAIL, "text": "a"},
            {**DETAIL, "text": "b"},
            {**DETAIL, "signature": "s", "text": None},
        ):
            fields.note({"reasoning_details": [part]})
        fields.note({"reasoning_details": [{**DETAIL, "index": 1, "text": "c"}]})
        assert fields.fields() == {
            "reasoning_details": [
                {**DETAIL, "text": "ab", "signature": "s"},
                {**DETAIL, "index": 1, "text": "c"},
            ]
        }

    def test_no_thoughts(self):
        """Empty texts and nulls are none."""
        assert thoughts_beside({"reasoning_content": "", "reasoning": None, "content": "x"}) is None

    def test_the_thoughts_of_a_whole_message(self):
        message = {"content": "x", "reasoning": "hm", "thinking": "so", "reasoning_details": [DETAIL, "x"]}
        expected = {"reasoning": "hm", "thinking": "so", "reasoning_details": [DETAIL]}
        assert thoughts_beside(message) == expected
        assert thoughts_beside({"reasoning_details": "hm"}) is None


class TestTurns:
    TURNS: tuple[dict[str, Any], ...] = (
        {"role": "assistant", "content": "a"},
        {"role": "tool", "tool_call_id": "c1", "content": "r"},
        {"role": "assistant", "content": "b", "beside": {"reasoning_content": "hm"}},
    )

    def test_once_one_has_the_field_all_have_it(self, make_endpoint):
        """Empty where the model thought nothing; a result has none."""
        assert wire_turns(self.TURNS, WIRE_KEYS, make_endpoint()) == [
            {"role": "assistant", "content": "a", "reasoning_content": ""},
            {"role": "tool", "tool_call_id": "c1", "content": "r"},
            {"role": "assistant", "content": "b", "reasoning_content": "hm"},
        ]

    def test_an_endpoint_that_refuses_them_gets_none(self, make_endpoint):
        """In the next try, and from then on when it was marked."""
        sent = {"messages": wire_turns(self.TURNS, WIRE_KEYS, make_endpoint())}
        refused = "Unrecognized request argument: messages.2.reasoning_content"
        bare = without_thoughts(sent, refused)
        assert bare == {"messages": [{k: v for k, v in t.items() if k != "beside"} for t in self.TURNS]}
        refusing_thoughts.mark(make_endpoint())
        assert {"messages": wire_turns(self.TURNS, WIRE_KEYS, make_endpoint())} == bare

    @pytest.mark.parametrize("refused", ["max_tokens is too large", "the reasoning is poor", ""])
    def test_another_refusal_is_none_of_it(self, make_endpoint, refused):
        """The field must be named, and have been sent."""
        sent = {"messages": wire_turns(self.TURNS, WIRE_KEYS, make_endpoint())}
        assert without_thoughts(sent, refused) is None
        assert without_thoughts({"prompt": "x"}, "reasoning_content") is None


def test_marks_are_of_an_address_and_a_model(make_endpoint):
    """True the first time alone."""
    marked = MarkedEndpoints()
    one = make_endpoint()
    assert (marked.mark(one), marked.mark(one), marked.holds(one)) == (True, False, True)
    assert not marked.holds(make_endpoint("another"))


def test_a_mark_of_what_one_client_sent_is_no_mark_for_others(make_endpoint):
    """One for everybody holds for it too; too many are learnt anew."""
    marked, endpoint = MarkedEndpoints(), make_endpoint()
    assert marked.mark(endpoint, "tools of one")
    assert (marked.holds(endpoint, "tools of one"), marked.holds(endpoint, "of another")) == (True, False)
    assert not marked.holds(endpoint)
    for number in range(MOST_MARKS):
        marked.mark(endpoint, str(number))
    assert not marked.holds(endpoint, "tools of one")
    marked.mark(endpoint)
    assert marked.holds(endpoint, "tools of one")


class TestInjectedTexts:
    """Texts that an endpoint adds, in the calls of an agent. agents.md 3.1."""

    RAW: ClassVar[dict[str, Any]] = {
        "endpoint": "http://model.test",
        **{f"addTextToStartOf{place}": True for place in ("System", "Prompt", "Completion")},
        **{f"textToAddToStartOf{place}": f"[{place}]" for place in ("System", "Prompt", "Completion")},
    }

    def sent(self, turns: Any, *conversation: Any) -> Any:
        config = EndpointConfig("chat", self.RAW, "Chat", {"type": "openAIChatCompletion"})
        handler = BACKENDS["openAIChatCompletion"](HandlerSettings(config))
        call = CallArguments(conversation=[dict(message) for message in conversation], turns=turns)
        return handler.whole_payload(call)["messages"]

    def test_the_prompts_text_stays_where_it_was(self):
        """And the completion's is not sent: it would stand behind a tool's result."""
        user = {"role": "user", "content": "hi"}
        function = {"name": "f", "arguments": "{}"}
        call = {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        }
        turns = [
            call,
            {"role": "tool", "tool_call_id": "c1", "content": "r"},
            {"role": "user", "content": "R"},
        ]
        first, later = self.sent([], user), self.sent(turns, user)
        assert first == [{"role": "system", "content": "[System]"}, {"role": "user", "content": "[Prompt]hi"}]
        assert later == [*first, *turns]
        assert self.sent(None, user)[-1]["content"].endswith("[Completion]")
