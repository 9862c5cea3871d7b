"""One node's LLM call: what is asked for a node, tools and schemas, and the prompt for a backup."""

from __future__ import annotations

import json
from typing import Any

import pytest

from Middleware.common.errors import RequestCancelled, WorkflowError
from Middleware.llmapis.handlers.backends import backend
from Middleware.llmapis.llm_text import LlmText
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.compacted_messages import OLD_FILE
from Middleware.services.discussion_store import ChunkList, DiscussionStore, Entry
from Middleware.utilities.hashing_utils import message_hash
from Middleware.workflows.dispatch import llm_dispatch
from Middleware.workflows.dispatch.llm_dispatch import LLMDispatchService
from Middleware.workflows.dispatch.prompt_assembly import HourlyWarnings
from Middleware.workflows.processors.node_context import NodeContext

TOOL = {
    "type": "function",
    "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object", "x": 1}},
}
OTHER = {"type": "function", "function": {"name": "hear"}}
BLOCK = {"structuredOutput": {"field": "response_format", "style": "raw"}}
FORCED = {"type": "function", "function": {"name": "look"}}
BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def ask(endpoint: str = "chat", **fields: Any) -> dict[str, Any]:
    return {"type": "Standard", "endpointName": endpoint, **fields}


def said(call: Any) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in call.conversation]


@pytest.fixture
def structured(house):
    """The chat API type can take schemas."""
    house.write("ApiTypes/Chat", {"type": "scriptedChat", "presetType": "any", **BLOCK})
    return house


GENERATION = [
    ({}, False, ""),
    ({"forceGenerationPromptIfEndpointAllows": True}, False, "<assistant>"),
    ({"addUserTurnTemplate": True, "blockGenerationPrompt": True}, False, ""),
    ({}, True, "<assistant>"),
    ({"blockGenerationPrompt": True}, True, ""),
]

CALL = {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": {"name": "f"}}]}
RESULT = {"role": "tool", "content": "r", "tool_call_id": "c"}
TALK = ({"role": "user", "content": "hi"}, CALL, RESULT)


CHAT = [{"role": ("user", "assistant")[n % 2], "content": f"{'ua'[n % 2]}{n // 2}"} for n in range(61)]


class TestPromptReuse:
    """`steadyWindow`, `latePrompt` and their sources (prompt-reuse.md 1, 2)."""

    def first(self, house, say=CHAT, **fields):
        house.ask(ask(lastMessagesToSendInsteadOfPrompt=10, **fields), say=say)
        return house.model.calls[-1].conversation[0]["content"]

    @pytest.mark.parametrize(
        ("user", "node", "begins"),
        [
            (None, {}, "a25"),
            (30, {}, "u22"),
            (True, {}, "u22"),
            (True, {"steadyWindow": None}, "u22"),
            (True, {"steadyWindow": False}, "a25"),
            (False, {"steadyWindow": True}, "u22"),
            ("compactor", {}, "u22"),
        ],
    )
    def test_the_node_decides_else_the_user(self, house, user, node, begins):
        """Without a discussion the compactor has nothing to say."""
        house.user["steadyWindow"] = user
        assert self.first(house, **node) == begins

    @pytest.mark.parametrize(("value", "begins"), [(True, "u22"), ("30", "u22"), ("false", "a25")])
    def test_a_placeholder_can_say_it(self, house, value, begins):
        """Of the workflow, as for an endpoint."""
        node = ask(lastMessagesToSendInsteadOfPrompt=10, steadyWindow="{steady}", latePromptPlace="{place}",
                   latePrompt="L")  # fmt: skip
        house.workflow("Main", node, steady=value, place="before")
        house.ask(say=CHAT)

        sent = house.model.calls[0].conversation
        assert (sent[0]["content"], sent[-1]["content"]) == (begins, "L\n\nu30")

    @pytest.mark.parametrize(
        ("fields", "told"),
        [({"steadyWindow": "{bad}"}, "steadyWindow"), ({"latePrompt": "x", "latePromptPlace": "{bad}"}, "latePromptPlace")],
    )  # fmt: skip
    def test_a_placeholder_that_says_nothing_of_it_is_an_error(self, house, fields, told):
        """Before any call."""
        house.workflow("Main", ask(**fields), bad="sometimes")
        with pytest.raises(WorkflowError, match=f"'{told}' must be .*, not 'sometimes'"):
            house.ask()
        assert house.model.calls == []

    def test_a_window_follows_the_compactor(self, house, tmp_path):
        """It begins behind the last message of the summary."""
        house.user["discussionDirectory"] = str(tmp_path / "talks")
        store = DiscussionStore(tmp_path / "talks", "d")
        ChunkList(store, OLD_FILE).replace(Entry("summary", message_hash(CHAT[30])))
        node = ask(lastMessagesToSendInsteadOfPrompt=4, steadyWindow="compactor")
        house.ask(node, say=CHAT, discussion_id="d")

        assert house.model.calls[0].conversation[0]["content"] == "a15"

    def test_slices_stand_in_prompts_alone(self, house):
        """In `latePrompt`, as in any other field, they are questions."""
        house.user["steadyWindow"] = 30
        house.ask(
            ask(prompt="{chat_user_prompt_last_ten}", systemPrompt="{chat_user_prompt_last_ten}"),
            ask(latePrompt="{chat_user_prompt_last_ten}"),
            say=CHAT,
        )
        prompt, late = house.model.calls
        assert [m["content"][:3] for m in prompt.conversation] == ["u22", "u22"]
        assert late.conversation[-1]["content"].startswith("u30\n\na25\nu26")

    def test_a_late_prompt_beside_a_prompt_is_warned_of(self, house, caplog):
        """And not added."""
        house.ask(ask(prompt="P", latePrompt="L"))

        assert said(house.model.calls[0]) == [("user", "P")]
        assert 'latePrompt is for nodes that send the conversation; write it into "prompt"' in caplog.text

    def test_a_call_tells_what_of_it_is_late(self, house):
        """So that a mark can be set before it."""
        house.ask(ask(latePrompt="{v}L"))
        call = house.model.calls[0]

        assert (call.late_text, call.late_place) == ("\n\n{v}L", "after")

    def test_a_backup_gets_it_in_its_own_shape(self, house, failure):
        """Inside the template of a flat backend."""
        house.endpoint("chat", backupEndpointName="flat")
        house.model.replies = [failure(), "ok"]
        house.ask(ask(latePrompt="L"))

        assert house.model.calls[-1].prompt == "<user>hi\n\nL</user>"

    def test_the_next_turn_is_known_but_for_its_message(self, house, monkeypatch):
        """What can be read ahead: system prompt, window, answer. (prompt-reuse.md 6)"""
        dispatch, calls = NodeContext.dispatch, []

        def look_ahead(context, call):
            calls.append(LLMDispatchService.next_turn(context, call, "A"))
            return dispatch(context, call)

        monkeypatch.setattr(NodeContext, "dispatch", look_ahead)
        house.ask(ask(systemPrompt="S", latePrompt="L", steadyWindow=True))

        assert said(calls[0]) == [("system", "S"), ("user", "hi"), ("assistant", "A")]
        assert (calls[0].late_text, calls[0].rebuild) == ("", None)


class TestPrompts:
    def test_an_authored_prompt(self, house):
        """System and user turn, filled."""
        house.ask(ask(systemPrompt="Be {v}.", prompt="Q: {chat_user_prompt_last_one}"))
        assert said(house.model.calls[0]) == [("system", "Be {v}."), ("user", "Q: hi")]

    def test_a_prompt_that_comes_out_empty_is_still_authored(self, house):
        """The raw field decides."""
        house.ask({"type": "StaticResponse", "content": ""}, ask(prompt="{agent1Output}"))
        assert said(house.model.calls[0]) == [("user", "")]

    @pytest.mark.parametrize("prompt", ["", None], ids=["empty", "null"])
    def test_without_a_prompt_the_conversation_is_sent(self, house, prompt):
        """The last messages."""
        house.ask(ask(prompt=prompt, systemPrompt=None))
        assert said(house.model.calls[0]) == [("user", "hi")]

    def test_a_flat_backend_gets_two_texts(self, house):
        """In the user's template when the endpoint names none."""
        house.ask(ask("flat", systemPrompt="S"))
        call = house.model.calls[0]
        assert (call.system_prompt, call.prompt, call.conversation) == (
            "<system>S</system>",
            "<user>hi</user>",
            None,
        )

    @pytest.mark.parametrize(("fields", "internal", "end"), GENERATION)
    def test_the_generation_prompt(self, house, fields, internal, end):
        """A responder's only when it asks for it; a sub-flow's responder always."""
        house.endpoint("flat", apiTypeConfigFileName="Flat", addGenerationPrompt=True)
        house.workflow("Child", ask("flat", **fields))
        house.ask(
            {"type": "CustomWorkflow", "workflowName": "Child"}, *[{"type": "StaticResponse"}] * internal
        )
        assert house.model.calls[0].prompt.endswith("</user>" + end)

    def test_images_go_along_when_the_node_accepts_them(self, house):
        """Otherwise they are stripped."""
        talk = [{"role": "user", "content": "see", "images": ["a", "b"]}]
        house.ask(ask(acceptImages=True, maxImagesToSend="1", returnToUser=True), ask(), say=talk)
        assert [call.conversation[0].get("images") for call in house.model.calls] == [["b"], None]

    def test_what_the_clamp_drops_is_told(self, house, caplog):
        """One line says how many messages fell; a warning names the node."""
        caplog.set_level("INFO")
        house.endpoint("chat", maxContextTokenSize=1000, clampPromptToContextWindow=True)
        talk = [{"role": "user", "content": "x" * 700}, {"role": "user", "content": "y" * 700}]
        house.ask(ask(title="T"), say=talk)
        assert "1 messages left out" in caplog.text
        assert 'node 1 "T" (Standard): the newest message' in caplog.text

    @pytest.mark.parametrize("endpoint", ["chat", "flat"])
    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    def test_what_is_answered_reaches_the_model_whole(self, house, endpoint, stream):
        """Through a window of one and a clamp that leaves no room. (backends.md 13.4)"""
        house.endpoint(endpoint, maxContextTokenSize=600, clampPromptToContextWindow=True)
        old = {"role": "user", "content": "old"}
        house.ask(ask(endpoint, lastMessagesToSendInsteadOfPrompt=1), say=[old, *TALK], stream=stream)
        asked = house.model.calls[0]
        sent = (
            asked.prompt if asked.conversation is None else "".join(m["content"] for m in asked.conversation)
        )
        assert "hi" in sent and "r" in sent and "old" not in sent

    @BOTH
    @pytest.mark.parametrize("window", [0, 1, 5])
    def test_a_model_that_is_shown_its_result_calls_no_more(self, house, window, stream):
        """A client that sends many tools and a long result gets its answer with the second call."""
        house.endpoint("chat", maxContextTokenSize=8192, clampPromptToContextWindow=True)
        many = [{**TOOL, "description": "x" * 700}] * 36
        house.model.replies = [
            lambda asked: (
                "done"
                if asked.conversation[-1]["role"] == "tool"
                else {**CALL, "finish_reason": "tool_calls"}
            )
        ]
        talk, answer = [{"role": "user", "content": "hi"}], None
        for _ in range(2):
            node = ask(allowTools=True, lastMessagesToSendInsteadOfPrompt=window)
            answer = house.ask(node, say=list(talk), tools=many, stream=stream)
            talk += [CALL, {**RESULT, "content": "r" * 20_000}]
        assert answer.text == "done"

    def test_costly_tools_are_told_once_an_hour(self, house, caplog, monkeypatch):
        """Not with each message, which they fill alike; then again."""
        now = [0.0]
        monkeypatch.setattr(llm_dispatch, "hourly_warnings", HourlyWarnings(lambda: now[0]))
        house.endpoint("chat", maxContextTokenSize=1000, clampPromptToContextWindow=True)
        many = [{**TOOL, "description": "x" * 3000}]

        def warnings() -> int:
            caplog.clear()
            house.ask(ask(allowTools=True, title="T"), tools=many)
            return caplog.text.count('node 1 "T" (Standard): the client\'s 1 tool takes about 800 of 1,000')

        told = [warnings(), warnings()]
        now[0] = 3600.0
        assert [*told, warnings()] == [1, 0, 1]

    def test_a_node_without_an_endpoint_says_so(self, house):
        """With its place."""
        with pytest.raises(WorkflowError, match="endpointName"):
            house.ask({"type": "Conversational", "prompt": "x"})


class TestExchange:
    def asked(self, house, *more: Any, **fields: Any) -> list[tuple[str, str]]:
        house.ask(ask(prompt="<{chat_user_prompt_last_two}>", **fields), say=[*TALK, *more])
        return said(house.model.calls[0])

    def test_the_trailing_exchange_follows_the_prompt(self, house):
        """And is hidden from the variables."""
        sent = self.asked(house, appendNativeToolExchange=True)
        assert sent == [("user", "<hi>"), ("assistant", ""), ("tool", "r")]

    def test_filler_after_it_does_not_count(self, house):
        """Assistant turns that say nothing."""
        filler = {"role": "assistant", "content": "Assistant:"}
        assert len(self.asked(house, filler, appendNativeToolExchange=True)) == 3

    @pytest.mark.parametrize(
        ("endpoint", "more"),
        [({"backendSupportsToolTurns": False}, []), ({}, [{"role": "user", "content": "new"}])],
        ids=["not-supported", "not-at-the-end"],
    )
    def test_otherwise_nothing_is_appended(self, house, endpoint, more):
        """The prompt stands alone."""
        house.endpoint("chat", **endpoint)
        assert len(self.asked(house, *more, appendNativeToolExchange=True)) == 1

    def test_results_without_a_call_are_no_exchange(self, house):
        """The message before must be the call."""
        house.ask(ask(prompt="p", appendNativeToolExchange=True), say=[RESULT])
        assert len(said(house.model.calls[0])) == 1

    def test_flat_backends_have_none(self, house):
        """They know no tool turns."""
        house.ask(ask("flat", prompt="p", appendNativeToolExchange=True), say=list(TALK))
        assert house.model.calls[0].prompt == "p"


@BOTH
class TestDemandedCall:
    GOOD = json.dumps({"name": "look", "arguments": {"a": "ö"}})

    def asked(
        self, house, stream: bool, choice: Any = FORCED, tools: Any = (TOOL, OTHER), **fields: Any
    ) -> Any:
        node = ask(allowTools=True, **fields)
        return house.ask(node, stream=stream, tools=list(tools), tool_choice=choice)

    def test_a_good_reply_is_a_tool_call(self, structured, stream):
        """The schema goes to the backend, native tools do not."""
        structured.model.replies = [self.GOOD]
        answer = self.asked(structured, stream)
        assert (answer.text, answer.finish_reason) == ("", "tool_calls")
        call = answer.tool_calls[0]
        assert call["id"].startswith("wilmer-")
        assert json.loads(call["function"]["arguments"]) == {"a": "ö"}
        asked = structured.model.calls[0]
        assert asked.tools is None and asked.schema["properties"]["name"] == {"const": "look"}
        assert "look" in asked.conversation[0]["content"]

    def test_what_came_with_it_stays(self, structured, stream):
        """Thoughts and what the call took; where there is none, nothing stands in its place."""
        structured.endpoint("chat", apiTypeConfigFileName="Chat", reasoningOutput="field")
        usage = {"prompt_tokens": 3, "completion_tokens": 2}
        structured.model.replies = [LlmText(self.GOOD, thinking="hm", usage=usage)]
        with_facts = self.asked(structured, stream)
        structured.model.replies = [self.GOOD]
        without = self.asked(structured, stream)
        assert with_facts.thinking == "hm" and usage.items() <= with_facts.usage.items()
        assert with_facts.tool_calls and without.tool_calls and not without.thinking

    def test_required_means_any_of_the_tools(self, structured, stream):
        """The instruction follows the node's system prompt."""
        structured.model.replies = [json.dumps({"name": "hear", "arguments": {}})]
        assert self.asked(structured, stream, "required", systemPrompt="S").tool_calls
        asked = structured.model.calls[0]
        assert len(asked.schema["anyOf"]) == 2
        assert asked.conversation[0]["content"].startswith("S\n\n")

    def test_a_name_that_is_not_among_the_tools(self, structured, stream):
        """It gets open arguments."""
        choice = {"type": "function", "function": {"name": "new"}}
        structured.model.replies = ['{"name": "new", "arguments": {}}']
        assert self.asked(structured, stream, choice).tool_calls
        assert structured.model.calls[0].schema["properties"]["arguments"] == {"type": "object"}

    @pytest.mark.parametrize(
        "bad",
        [
            "no",
            "[]",
            '{"name": "x", "arguments": {}}',
            '{"name": "look", "arguments": 1}',
            '{"name": ["look"], "arguments": {}}',
            '{"name": {}, "arguments": {}}',
            '{"name": "look", "arguments": {"a": NaN}}',
            '{"name": "look", "arguments": {"a": 1e999}}',
            "[" * 100_000,
        ],
        ids=lambda reply: reply[:40],
    )
    def test_a_bad_reply_is_asked_for_once_more(self, structured, stream, bad):
        """The second one counts."""
        structured.model.replies = [bad, self.GOOD]
        assert self.asked(structured, stream).tool_calls
        assert len(structured.model.calls) == 2

    def test_two_bad_replies_give_the_text(self, structured, stream, caplog):
        """With an error in the log."""
        structured.model.replies = ["no", "never"]
        answer = self.asked(structured, stream)
        assert (answer.text, answer.finish_reason) == ("never", "stop")
        assert "two replies" in caplog.text

    def test_a_native_call_passes(self, structured, stream):
        """A backend that calls anyway."""
        call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        structured.model.replies = [{"content": "", "tool_calls": [call], "finish_reason": "tool_calls"}]
        assert self.asked(structured, stream).tool_calls[0]["id"] == "c1"

    def test_no_second_try_after_a_cancellation(self, structured, stream):
        """The run ends."""

        def reply(_: Any) -> str:
            cancellation_service.request_cancellation("r1")
            return "no"

        structured.model.replies = [reply]
        with pytest.raises(RequestCancelled):
            self.asked(structured, stream)
        assert len(structured.model.calls) == 1

    @pytest.mark.parametrize("choice", ["auto", None, "none", {"type": "function", "function": {}}])
    def test_nothing_is_demanded(self, structured, stream, choice):
        """The tools are sent as they are."""
        self.asked(structured, stream, choice)
        asked = structured.model.calls[0]
        assert (asked.tools, asked.tool_choice, asked.schema) == ([TOOL, OTHER], choice, None)

    def test_an_api_type_without_schemas_gets_native_tools(self, house, stream):
        """And the choice."""
        self.asked(house, stream)
        assert (house.model.calls[0].tool_choice, house.model.calls[0].schema) == (FORCED, None)

    def test_unusable_tools_cannot_be_required(self, structured, stream):
        """They are sent as they are."""
        self.asked(structured, stream, "required", tools=[{"type": "x"}])
        assert structured.model.calls[0].tools == [{"type": "x"}]

    def test_only_nodes_with_allow_tools_send_them(self, structured, stream):
        """Others send none."""
        structured.ask(ask(), stream=stream, tools=[TOOL], tool_choice=FORCED)
        (asked,) = structured.model.calls
        assert (asked.tools, asked.schema, said(asked)) == (None, None, [("user", "hi")])

    def test_a_flat_backend_is_asked_for_no_call(self, house, stream):
        """Its answer is a text, whatever the client demands; also where it takes schemas."""
        house.write("ApiTypes/Flat", {"type": "scriptedFlat", "presetType": "any", **BLOCK})
        house.model.replies = [self.GOOD]
        answer = house.ask(
            ask("flat", allowTools=True), stream=stream, tools=[TOOL, OTHER], tool_choice=FORCED
        )
        assert (answer.text, answer.tool_calls, house.model.calls[0].schema) == (self.GOOD, [], None)


class TestSchemaFile:
    @pytest.fixture(autouse=True)
    def schema(self, house):
        house.write("StructuredOutputs/shape", {"type": "object"})

    def test_it_goes_to_the_backend(self, structured):
        """The output is the JSON text."""
        structured.model.replies = ['{"a": 1}']
        assert structured.ask(ask(structuredOutputFile="shape")).text == '{"a": 1}'
        assert structured.model.calls[0].schema == {"type": "object"}

    def test_with_a_demanded_call_it_is_an_error(self, structured):
        """Two schemas cannot hold at once."""
        with pytest.raises(WorkflowError, match="structuredOutputFile"):
            node = ask(structuredOutputFile="shape", allowTools=True)
            structured.ask(node, tools=[TOOL], tool_choice="required")

    def test_with_other_tools_it_warns(self, structured, caplog):
        """Both are sent."""
        structured.ask(ask(structuredOutputFile="shape", allowTools=True), tools=[TOOL])
        asked = structured.model.calls[0]
        assert asked.tools and asked.schema and "sent together" in caplog.text

    def test_a_flat_backend_ignores_it(self, house, caplog):
        """With a warning."""
        house.ask(ask("flat", structuredOutputFile="shape"))
        assert house.model.calls[0].schema is None and "is ignored" in caplog.text

    @pytest.mark.parametrize("name", ["nope", "../shape"])
    def test_a_bad_name_fails(self, structured, name):
        """Unknown, or not flat."""
        with pytest.raises(WorkflowError):
            structured.ask(ask(structuredOutputFile=name))


@pytest.mark.parametrize(("first", "second"), [("chat", "flat"), ("flat", "chat")])
@BOTH
def test_a_backup_of_another_shape_gets_the_prompt_in_its_own(house, failure, first, second, stream):
    """Formed anew from the unformatted parts."""
    kind = {"chat": "Chat", "flat": "Flat"}
    house.endpoint(first, apiTypeConfigFileName=kind[first], backupEndpointName=second)
    house.endpoint(second, apiTypeConfigFileName=kind[second], endpoint="http://127.0.0.1:1")
    house.model.replies = [failure(), "saved"]
    assert house.ask(ask(first, systemPrompt="S"), stream=stream).text == "saved"
    again = house.model.calls[1]
    expected = (None, "<user>hi</user>") if second == "flat" else ([("system", "S"), ("user", "hi")], None)
    assert (again.conversation and said(again), again.prompt) == expected


@pytest.mark.parametrize("shown", [True, False])
def test_a_backup_that_cannot_show_the_picture_is_not_asked(house, failure, shown, monkeypatch):
    """A description of a picture that nobody saw would be made up; the notice stands in its place."""
    house.endpoint("chat", backupEndpointName="spare")
    house.endpoint("spare", apiTypeConfigFileName="Flat", endpoint="http://127.0.0.1:1")
    monkeypatch.setattr(backend("scriptedFlat"), "can_show", lambda self, source: shown)
    house.model.replies = [failure(), "a cat"]
    say = [{"role": "user", "content": "what?", "images": ["https://h/a.png"]}]
    answer = house.ask({"type": "ImageProcessor", "endpointName": "chat", "returnToUser": True}, say=say)
    assert ("a cat" in answer.text) is shown
    assert len(house.model.calls) == (2 if shown else 1)
