"""From a conversation to what a chat backend gets: roles, injected texts, allowed keys, schema."""

from __future__ import annotations

import copy

import pytest

from Middleware.config.endpoints import InjectedTexts
from Middleware.llmapis.dialects.message_building import (
    ANY_OBJECT,
    attach_schema,
    build_messages,
    structured_output_block,
)

NONE = InjectedTexts()


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def system(content):
    return {"role": "system", "content": content}


class TestBuild:
    @pytest.mark.parametrize(
        ("system_prompt", "prompt", "messages"),
        [
            ("S", "P", [system("S"), user("P")]),
            ("", "P", [user("P")]),
            ("S", None, [system("S")]),
            (None, None, []),
        ],
    )
    def test_without_a_conversation_the_prompts_are_the_messages(self, system_prompt, prompt, messages):
        """Only those that are not empty."""
        assert build_messages(None, system_prompt, prompt, NONE) == messages

    def test_the_conversation_wins_over_the_prompts(self):
        """They are parts of it already."""
        assert build_messages([user("A")], "S", "P", NONE) == [user("A")]

    def test_system_notes_are_system_turns(self):
        """`systemMes` is an internal role."""
        assert build_messages([{"role": "systemMes", "content": "N"}], None, None, NONE) == [system("N")]

    @pytest.mark.parametrize("empty", ["", None, "missing"])
    def test_an_empty_assistant_turn_at_the_end_is_removed(self, empty):
        """It would be an empty prefill."""
        last = {"role": "assistant"} if empty == "missing" else assistant(empty)
        assert build_messages([user("A"), last], None, None, NONE) == [user("A")]

    def test_unless_it_calls_a_tool(self):
        """A turn of calls has no text."""
        call = assistant(None, tool_calls=[{"id": "c"}])
        assert build_messages([call], None, None, NONE) == [assistant("", tool_calls=[{"id": "c"}])]

    def test_null_content_is_an_empty_text(self):
        """And the key is always sent."""
        assert build_messages([{"role": "tool", "tool_call_id": "c"}], None, None, NONE) == [
            {"role": "tool", "tool_call_id": "c", "content": ""}
        ]

    def test_internal_keys_and_reasoning_stay_inside(self):
        """Only role, content, calls, ids, name and images leave."""
        message = {
            **user("A"),
            "name": "n",
            "images": ["i"],
            "reasoning_content": "r",
            "reasoning": "r",
            "thinking": "t",
            "_mark": 1,
        }
        assert build_messages([message], None, None, NONE) == [{**user("A"), "name": "n", "images": ["i"]}]

    def test_the_callers_messages_stay_as_they_are(self):
        """Failover sends them again."""
        conversation = [system("S"), user("A"), assistant("B")]
        before = copy.deepcopy(conversation)
        build_messages(conversation, None, None, InjectedTexts("s", "p", "c"))
        assert conversation == before


class TestInjection:
    @pytest.mark.parametrize(
        ("texts", "before", "after"),
        [
            pytest.param(
                InjectedTexts(system="x "),
                [system("S"), user("U"), system("T")],
                [system("x S"), user("U"), system("T")],
                id="system-first-of-several",
            ),
            pytest.param(
                InjectedTexts(system="x"), [user("U")], [system("x"), user("U")], id="system-none-there"
            ),
            pytest.param(
                InjectedTexts(prompt="x "),
                [user("U"), user("V"), assistant("A")],
                [user("U"), user("x V"), assistant("A")],
                id="prompt-last-user",
            ),
            pytest.param(
                InjectedTexts(prompt="x"), [assistant("A")], [assistant("A"), user("x")], id="prompt-none"
            ),
            pytest.param(
                InjectedTexts(completion=" x"), [user("U")], [user("U x")], id="completion-on-the-last"
            ),
            pytest.param(
                InjectedTexts(completion="x", own_assistant_turn=True),
                [user("U")],
                [user("U"), assistant("x")],
                id="completion-own-turn",
            ),
            pytest.param(
                InjectedTexts(completion="x", own_assistant_turn=True),
                [user("U"), assistant("A")],
                [user("U"), assistant("Ax")],
                id="completion-joins-the-assistants-turn",
            ),
            pytest.param(
                InjectedTexts(completion="x", own_assistant_turn=True),
                [user("U"), assistant("")],
                [user("U"), assistant("x")],
                id="completion-fills-an-empty-turn",
            ),
            pytest.param(InjectedTexts(completion="x"), [], [assistant("x")], id="completion-no-messages"),
            pytest.param(
                InjectedTexts("s", "p", "c"),
                [],
                [system("s"), user("pc")],
                id="all-three-system-prompt-completion",
            ),
            pytest.param(
                InjectedTexts(prompt="x"),
                [user([{"type": "image_url"}])],
                [user([{"type": "text", "text": "x"}, {"type": "image_url"}])],
                id="parts-get-a-part-before",
            ),
            pytest.param(
                InjectedTexts(completion="x"),
                [user([{"type": "image_url"}])],
                [user([{"type": "image_url"}, {"type": "text", "text": "x"}])],
                id="parts-get-a-part-behind",
            ),
        ],
    )
    def test_each_text_once(self, texts, before, after):
        """Where the endpoint's texts go."""
        assert build_messages(before, None, None, texts) == after

    def test_once_also_without_a_conversation(self):
        """The prompts are messages before the texts are added."""
        assert build_messages(None, "S", "P", InjectedTexts("s ", "p ", "")) == [system("s S"), user("p P")]

    @pytest.mark.parametrize(
        ("endpoint", "texts"),
        [
            ({"addTextToStartOfSystem": True, "textToAddToStartOfSystem": "x"}, InjectedTexts(system="x")),
            ({"addTextToStartOfSystem": False, "textToAddToStartOfSystem": "x"}, NONE),
            ({"addTextToStartOfPrompt": True, "textToAddToStartOfPrompt": ""}, NONE),
            ({"addTextToStartOfPrompt": True, "textToAddToStartOfPrompt": None}, NONE),
            (
                {
                    "addTextToStartOfCompletion": True,
                    "textToAddToStartOfCompletion": "x",
                    "ensureTextAddedToAssistantWhenChatCompletion": True,
                },
                InjectedTexts(completion="x", own_assistant_turn=True),
            ),
        ],
    )
    def test_a_text_counts_when_its_flag_is_true(self, endpoint, texts):
        """Read from the endpoint file."""
        assert InjectedTexts.of(endpoint) == texts


SCHEMA = {"type": "object"}


class TestSchema:
    def attached(self, block, payload=None):
        payload = {} if payload is None else payload
        attach_schema(payload, SCHEMA, {"structuredOutput": block})
        return payload

    @pytest.mark.parametrize(
        ("block", "payload"),
        [
            pytest.param({"field": "format", "style": "raw"}, {"format": SCHEMA}, id="raw"),
            pytest.param(
                {"field": "a.b.c", "style": "raw"}, {"a": {"b": {"c": SCHEMA}}}, id="dots-make-nested-objects"
            ),
            pytest.param(
                {"field": "f", "style": "anthropicJsonSchema"},
                {"f": {"type": "json_schema", "schema": SCHEMA}},
                id="anthropic",
            ),
            pytest.param(
                {"field": "f", "style": "openaiJsonSchema", "strict": False},
                {
                    "f": {
                        "type": "json_schema",
                        "json_schema": {
                            "name": "wilmer_structured_output",
                            "strict": False,
                            "schema": SCHEMA,
                        },
                    }
                },
                id="openai",
            ),
        ],
    )
    def test_the_block_says_where_and_how(self, block, payload):
        """`field` and `style`."""
        assert self.attached(block) == payload

    @pytest.mark.parametrize(
        ("style", "value"),
        [
            ("raw", {"type": "object"}),
            ("openaiJsonSchema", {"type": "json_object"}),
            ("anthropicJsonSchema", {"type": "json_schema", "schema": {"type": "object"}}),
        ],
    )
    def test_any_json(self, style, value):
        """OpenAI has a word of its own for it."""
        payload = {}
        attach_schema(payload, ANY_OBJECT, {"structuredOutput": {"field": "f", "style": style}})
        assert payload == {"f": value}

    def test_strict_is_the_default(self):
        """As OpenAI advises."""
        assert (
            self.attached({"field": "f", "style": "openaiJsonSchema"})["f"]["json_schema"]["strict"] is True
        )

    def test_an_existing_value_is_replaced_with_a_warning(self, caplog):
        """The node's schema wins over the preset's."""
        assert self.attached({"field": "f", "style": "raw"}, {"f": 1}) == {"f": SCHEMA}
        assert "replaces 'f'" in caplog.text

    def test_what_is_no_object_on_the_way_is_replaced(self):
        """And objects on the way are copied, not changed."""
        preset = {"b": 1}
        assert self.attached({"field": "a.c", "style": "raw"}, {"a": preset}) == {"a": {"b": 1, "c": SCHEMA}}
        assert self.attached({"field": "a.c", "style": "raw"}, {"a": 7}) == {"a": {"c": SCHEMA}}
        assert preset == {"b": 1}

    @pytest.mark.parametrize(
        "block",
        [
            {"field": "", "style": "raw"},
            {"field": "a..b", "style": "raw"},
            {"field": 3, "style": "raw"},
            {"field": "f", "style": "odd"},
            {"field": "f", "style": "raw", "strict": "yes"},
            "response_format",
        ],
    )
    def test_an_invalid_block_counts_as_absent(self, block, caplog):
        """With a warning."""
        assert structured_output_block({"structuredOutput": block}) is None
        assert "invalid" in caplog.text

    def test_no_block_sends_no_schema_and_warns(self, caplog):
        """The answer then is what the model makes of the prompt."""
        assert self.attached(None) == {}
        assert "not sent" in caplog.text
