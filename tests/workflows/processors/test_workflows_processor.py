"""The loop, told by situations: which node answers, what later nodes see, what a failure does."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

from Middleware.cleaning.stage import keys_of
from Middleware.common.errors import BackendError, RequestCancelled, WorkflowError
from Middleware.common.request_context import ClientQuestion
from Middleware.llmapis.call.call_log import one_chunk
from Middleware.llmapis.dialects.openai_messages import answer_form
from Middleware.llmapis.llm_text import LlmText
from Middleware.protocols.registry import WIRE_FORMATS
from Middleware.services.cancellation_service import cancellation_service


def say(content: str, **fields: Any) -> dict[str, Any]:
    return {"type": "StaticResponse", "content": content, **fields}


def ask(endpoint: str = "chat", **fields: Any) -> dict[str, Any]:
    return {"type": "Standard", "endpointName": endpoint, **fields}


SITUATIONS = [
    ("last-node-answers-by-default", [say("a"), say("b")], "b"),
    ("first-marked-responder-wins", [say("a", returnToUser=True), say("b", returnToUser=True)], "a"),
    (
        "V11-is_responder-false-hides-returnToUser",
        [say("a"), say("b", is_responder=False, returnToUser=True), say("c")],
        "c",
    ),
    ("V12-nodes-after-the-answer", [say("a", returnToUser=True), say("b", is_responder=True), say("c")], "a"),
    ("isResponder-is-not-read", [say("a", isResponder=True), say("b")], "b"),
    ("earlier-outputs-are-variables", [say("x"), say("<{agent1Output}>")], "<x>"),
    ("a-node-does-not-know-its-own-output", [say("{agent1Output}")], "{agent1Output}"),
    ("an-unknown-type-is-standard", [{"type": "Conversational", "endpointName": "chat"}], "hello"),
    ("a-missing-type-is-standard", [{"endpointName": "chat"}], "hello"),
    ("an-unclean-start-of-plain-text-stays", [say("  a ")], "  a "),
    (
        "a-node-that-asks-for-cleaning-gets-it",
        [say("  Sure! a", removeCustomTextFromResponseStart=True, responseStartTextToRemove=["Sure!"])],
        "a",
    ),
    ("null-counts-as-nothing", [say("a"), {"type": "StaticResponse", "content": None}], ""),
]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
class TestRuns:
    @pytest.mark.parametrize(("nodes", "answer"), [s[1:] for s in SITUATIONS], ids=[s[0] for s in SITUATIONS])
    def test_situation(self, house, nodes, answer, stream):
        """What the client gets, streamed and whole alike."""
        assert house.ask(*nodes, stream=stream).text == answer

    @pytest.mark.parametrize("switch", [name for name, key in keys_of("node").items() if key.is_switch])
    def test_each_switch_of_a_rule_asks_for_cleaning(self, house, switch, stream):
        """Whatever node it stands on."""
        assert house.ask(say("  a ", **{switch: True}), stream=stream).text == "a "

    def test_an_empty_workflow_gives_an_empty_answer(self, house, stream):
        """No node, no text; still a well-formed answer."""
        house.write("Workflows/ana/Main", [])
        answer = house.ask(stream=stream)
        assert (answer.text, answer.finish_reason) == ("", "stop")
        assert answer.usage == {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}

    def test_a_model_answer_is_cleaned(self, house, stream):
        """The endpoint's rules and the node's apply to the answer."""
        house.endpoint("chat", removeThinking=True, startThinkTag="<think>", endThinkTag="</think>")
        house.model.replies = ["<think>well</think>  Sure! yes"]
        node = ask(removeCustomTextFromResponseStart=True, responseStartTextToRemove=["Sure!"])
        assert house.ask(node, stream=stream).text == "yes"

    def test_every_node_with_an_endpoint_is_cleaned(self, house, stream):
        """What a node that does not answer gives is clean text too."""
        house.model.replies = ["  first"]
        assert house.ask(ask(), say("[{agent1Output}]"), stream=stream).text == "[first]"

    def test_nodes_after_the_answer_see_it(self, house, stream, tmp_path):
        """The answer of the responder is an ordinary output."""
        house.model.replies = ["hello"]
        file = tmp_path / "seen.txt"
        save = {"type": "SaveCustomFile", "filepath": str(file), "content": "{agent1Output}"}
        assert house.ask(ask(returnToUser=True), save, stream=stream).text == "hello"
        assert file.read_text() == "hello"

    def test_thoughts_are_variables(self, house, stream):
        """`agentNThinking` holds what the node's own model call thought, from its own field or its text."""
        house.endpoint("chat", removeThinking=True, startThinkTag="<t>", endThinkTag="</t>")
        house.model.replies = [LlmText("<t>inside</t>x", thinking="beside")]
        answer = house.ask(ask(), say("{agent1Thinking}|{agent2Thinking}", jinja2=False), stream=stream)
        assert answer.text == "beside\ninside|{agent2Thinking}"

    def test_thoughts_of_the_answer_are_a_variable_once(self, house, stream):
        """Of the answering node too, streamed and whole alike; a node without thoughts has none."""
        house.endpoint("chat", removeThinking=True, startThinkTag="<t>", endThinkTag="</t>")
        house.model.replies = [LlmText("<t>inside</t>x", thinking="beside"), "y"]
        later = ask(prompt="{agent1Thinking}|{agent2Thinking}|")
        house.ask(ask(returnToUser=True), say("x"), later, stream=stream)
        assert house.model.calls[1].conversation[0]["content"] == "beside\ninside||"

    def test_an_unknown_type_is_told(self, house, stream, caplog):
        """It runs as Standard, with a warning."""
        house.ask({"type": "Standrad", "endpointName": "chat"}, stream=stream)
        assert "unknown node type 'Standrad'" in caplog.text

    def test_an_old_name_of_the_default_type_is_no_fault(self, house, stream, caplog):
        house.ask({"type": "Conversational", "endpointName": "chat"}, stream=stream)
        assert not [r for r in caplog.records if r.levelname == "WARNING"]

    def test_workflow_variables_choose_the_endpoint(self, house, stream):
        """Early fields know workflow variables; numbers know outputs that exist."""
        house.workflow(
            "Main",
            say("33"),
            ask("{which}", maxResponseSizeInTokens="{agent1Output}", prompt="p"),
            which="chat",
        )
        assert house.ask(stream=stream).text == "hello"

    def test_tool_calls_are_an_answer(self, house, stream):
        """A tool-call answer goes out as calls; names are lowered when the node says so."""
        call = {"id": "c1", "type": "function", "function": {"name": "Look_Up", "arguments": "{}"}}
        house.model.replies = [{"content": "", "tool_calls": [call], "finish_reason": "tool_calls"}]
        answer = house.ask(ask(lowercaseToolCallFunctionNames=True), stream=stream)
        assert answer.finish_reason == "tool_calls"
        assert answer.tool_calls[0]["function"]["name"] == "look_up"

    def test_group_chat_gives_the_speaker(self, house, stream):
        """An answer begins with the speaker that the last message opened, before prefixes are stripped."""
        house.model.replies = ["good day"]
        history = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Old Roland:"}]
        node = ask(useGroupChatTimestampLogic=True)
        assert house.ask(node, stream=stream, say=history).text == "Old Roland: good day"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
class TestNumbersOfAnAnswer:
    def test_the_backends_numbers_are_used(self, house, stream):
        """Usage comes from the responder's call."""
        usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
        house.model.replies = [LlmText("hello", finish_reason="length", usage=usage)]
        answer = house.ask(ask(), stream=stream)
        assert (answer.usage, answer.finish_reason) == (usage, "length")

    def test_estimates_stand_in(self, house, stream):
        """Without numbers: the estimate of the prompt and of the delivered text."""
        answer = house.ask(ask(prompt="hello world"), stream=stream)
        assert answer.usage == {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}

    def test_no_model_no_prompt(self, house, stream):
        """A text node has sent no prompt."""
        assert house.ask(say("hello world"), stream=stream).usage["prompt_tokens"] == 0


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
class TestFailures:
    def test_a_failure_names_its_place(self, house, stream, failure):
        """Wrapped once: file, node, title, type, and the cause's status."""
        house.model.replies = [failure()]
        with pytest.raises(WorkflowError) as caught:
            house.ask(say("x"), ask(title="Recall"), stream=stream)
        error = caught.value
        assert 'Workflows/ana/Main.json:1:56: node 2 "Recall" (Standard): endpoint' in str(error)
        assert (error.status_hint, error.kind, error.node, error.chain) == (503, "overloaded", 2, ("Main",))

    def test_an_unknown_endpoint_fails_its_node_only(self, house, stream):
        """The workflow starts; the node that uses the name fails when its turn comes."""
        with pytest.raises(WorkflowError, match="no endpoint"):
            house.ask(say("x"), ask("nowhere"), stream=stream)

    def test_on_node_error_goes_on(self, house, stream, failure):
        """The node's output is `errorText`, filled."""
        house.model.replies = [failure()]
        nodes = [
            say("w"),
            ask(onNodeError="continue", errorText="no {agent1Output}"),
            say("[{agent2Output}]"),
        ]
        assert house.ask(*nodes, stream=stream).text == "[no w]"

    @pytest.mark.parametrize(
        "node", [ask(), ask("nowhere"), {"type": "CustomWorkflow", "workflowName": "nope"}]
    )
    def test_on_node_error_answers(self, house, stream, failure, node):
        """A responder that fails answers with `errorText`."""
        house.model.replies = [failure()]
        answer = house.ask({**node, "onNodeError": "continue", "errorText": "sorry"}, stream=stream)
        assert (answer.text, answer.finish_reason) == ("sorry", "stop")
        assert answer.usage == {"prompt_tokens": 0, "completion_tokens": 1, "total_tokens": 1}

    def test_a_failure_after_the_answer_is_only_logged(self, house, stream, failure, caplog):
        """The answer is safe."""
        house.model.replies = ["hello", failure()]
        assert house.ask(ask(returnToUser=True), ask(), say("x"), stream=stream).text == "hello"
        assert "a node after the answer failed" in caplog.text

    def test_a_child_that_fails_after_its_answer(self, house, stream, tmp_path):
        """The answer stands; with `onNodeError` the nodes after the child run, and see it."""
        file = tmp_path / "seen.txt"
        house.model.replies = ["hello"]
        house.workflow("Child", ask(returnToUser=True), ask("no"))
        call = {"type": "CustomWorkflow", "workflowName": "Child", "returnToUser": True}
        save = {"type": "SaveCustomFile", "filepath": str(file), "content": "{agent1Output}"}
        assert house.ask(call, save, stream=stream).text == "hello"
        assert not file.exists()
        assert (
            house.ask({**call, "onNodeError": "continue", "errorText": "e"}, save, stream=stream).text
            == "hello"
        )
        assert file.read_text() == "hello"

    def test_an_error_text_that_fails_is_the_failure(self, house, stream):
        """A template that cannot be filled."""
        node = ask("nowhere", onNodeError="continue", errorText="{{ 1 +", jinja2=True)
        with pytest.raises(WorkflowError, match="errorText"):
            house.ask(node, stream=stream)


class TestFailuresWithinAStream:
    def test_an_error_chunk_is_a_failure(self, house):
        """A backend that fails in band fails its node; what came before it is delivered."""
        bad = {"token": "", "finish_reason": "error", "error": {"kind": "overloaded", "message": "busy"}}
        house.model.replies = [[[{"token": "hel", "finish_reason": None}, bad]]]
        house.workflow("Main", ask())
        batches = house.open(stream=True)
        assert next(batches) == [{"token": "hel", "finish_reason": None}]
        with pytest.raises(WorkflowError, match="busy"):
            list(batches)

    def test_before_the_first_chunk_error_text_answers(self, house, failure):
        """Nothing has left yet: the node may still be replaced."""
        house.model.replies = [[failure()]]
        assert house.ask(ask(onNodeError="continue", errorText="sorry"), stream=True).text == "sorry"

    def test_after_the_first_chunk_the_stream_fails(self, house, failure):
        """What was delivered stays; the failure comes out."""
        house.model.replies = [[[{"token": "hel", "finish_reason": None}], failure()]]
        house.workflow("Main", ask(onNodeError="continue", errorText="sorry"))
        batches = house.open(stream=True)
        assert next(batches) == [{"token": "hel", "finish_reason": None}]
        with pytest.raises(WorkflowError):
            list(batches)


class TestShape:
    def test_a_whole_answer_is_one_batch(self, house):
        """One chunk, with everything in it; then only ticks."""
        house.workflow("Main", ask(returnToUser=True), say("x"))
        batches = [batch for batch in house.open() if batch]
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        assert batches == [[{"token": "hello", "finish_reason": "stop", "usage": usage}]]

    def test_a_stream_passes_as_it_comes(self, house):
        """Each read of the backend is a batch; a tick stays a tick; the finish comes last, with the numbers."""
        house.workflow("Main", ask())
        *batches, last = house.open(stream=True)
        assert [[c["token"] for c in batch] for batch in batches if batch] == [["he"], ["llo"]]
        assert [] in batches
        assert last[-1]["finish_reason"] == "stop" and last[-1]["usage"]["total_tokens"] == 2

    def test_the_finish_leaves_before_later_nodes_run(self, house):
        """The client does not wait for nodes after the answer."""
        house.workflow("Main", ask(returnToUser=True), ask(prompt="later"))
        batches = house.open(stream=True)
        next(batch for batch in batches if any(chunk["finish_reason"] for chunk in batch))
        assert len(house.model.calls) == 1
        assert [batch for batch in batches if batch] == []
        assert len(house.model.calls) == 2

    def test_static_text_can_be_slowed_down(self, house):
        """`staticStreamDelayMs` cuts into words and white space, nothing lost."""
        house.user["staticStreamDelayMs"] = 1
        house.workflow("Main", say("a  b c"))
        tokens = [chunk["token"] for batch in house.open(stream=True) for chunk in batch]
        assert tokens == ["a", "  ", "b", " ", "c", ""]

    def test_closing_ends_the_backend_stream(self, house):
        """A client that leaves frees the backend."""
        house.workflow("Child", ask())
        house.workflow("Main", {"type": "CustomWorkflow", "workflowName": "Child"})
        batches = house.open(stream=True)
        next(batches)
        batches.close()
        assert house.model.closed == 1

    def test_node_objects_are_never_changed(self, house):
        """Numbers and overrides go into a copy."""
        house.workflow("Main", ask(maxResponseSizeInTokens="33"))
        manager = house.manager()
        first = [*manager.open_run("Main", ClientQuestion([{"role": "user", "content": "x"}]))]
        again = [*manager.open_run("Main", ClientQuestion([{"role": "user", "content": "x"}]))]
        assert first == again


class TestCancellation:
    def test_before_an_answer(self, house):
        """The run stops before the next node."""
        house.workflow("Main", say("x"))
        cancellation_service.request_cancellation("r1")
        with pytest.raises(RequestCancelled):
            list(house.open())

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    def test_during_the_answer(self, house, stream):
        """What the node gave is not delivered as an answer."""

        def cancelled(_: Any) -> Any:
            cancellation_service.request_cancellation("r1")
            return "" if not stream else []

        house.model.replies = [cancelled]
        with pytest.raises(RequestCancelled):
            house.ask(ask(onNodeError="continue"), stream=stream)

    def test_after_the_answer_the_rest_does_not_run(self, house):
        """Not a failure, and no answer lost."""
        house.workflow("Main", say("a", returnToUser=True), ask())
        batches = house.open()
        next(batches)
        cancellation_service.request_cancellation("r1")
        assert list(batches) == []
        assert house.model.calls == []


LOCK = {"type": "WorkflowLock", "workflowLockId": "one"}


class TestLocks:
    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    @pytest.mark.parametrize("message", ["", "busy, {Discussion_Id}come back"])
    def test_a_lock_that_is_held_gives_a_well_formed_answer(self, house, stream, message):
        """Empty, or the text of `lockedMessage`, however deep the lock stands."""
        locked = {**LOCK, "lockedMessage": message}
        house.workflow("Child", LOCK, locked, say("never"))
        answer = house.ask({"type": "CustomWorkflow", "workflowName": "Child"}, say("never"), stream=stream)
        assert answer.text == message.replace("{Discussion_Id}", "")

    def test_locks_end_with_their_run(self, house):
        """The next run may take it again."""
        nodes = [LOCK, say("free")]
        assert [house.ask(*nodes).text, house.ask(*nodes).text] == ["free", "free"]

    def test_after_the_answer_a_held_lock_is_silent(self, house):
        """Parents end too, the answer stays."""
        assert house.ask(say("a", returnToUser=True), LOCK, LOCK, ask()).text == "a"
        assert house.model.calls == []


LIVENESS = {"toolName": "ping", "arguments": {"a": 1}}


class TestLiveness:
    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    @pytest.mark.parametrize(
        ("node", "called"),
        [(say("text"), False), (say("text", injectLivenessToolCall=True), True), (say(" "), True)],
        ids=["plain", "asked", "blank"],
    )
    def test_an_answer_gets_the_call(self, house, stream, node, called):
        """When the node asks for it, or the text is blank."""
        house.user["livenessToolCall"] = LIVENESS
        answer = house.ask(node, stream=stream)
        assert (answer.finish_reason == "tool_calls") is called
        assert [c["function"] for c in answer.tool_calls] == [
            {"name": "ping", "arguments": '{"a":1}'}
        ] * called

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    def test_an_error_text_is_an_answer_too(self, house, stream):
        """The node that made it asks for the call."""
        house.user["livenessToolCall"] = LIVENESS
        node = ask("no", onNodeError="continue", errorText="sorry", injectLivenessToolCall=True)
        answer = house.ask(node, stream=stream)
        assert (answer.text, answer.finish_reason) == ("sorry", "tool_calls")

    @pytest.mark.parametrize(
        "api_type", sorted(name for name, wire in WIRE_FORMATS.items() if not wire.gets_liveness_call)
    )
    def test_other_routes_get_none(self, house, api_type):
        """Those whose protocol does not ask for it: text completions have no tool calls."""
        house.user["livenessToolCall"] = LIVENESS
        house.request["api_type"] = api_type
        assert house.ask(say("")).finish_reason == "stop"


CUT = {"id": "c", "type": "function", "function": {"name": "go", "arguments": '{"a": '}}


class TestACallThatWasCut:
    """The model called a tool and ran out of tokens in the call: the answer is a call, streamed and whole."""

    @pytest.fixture(params=["whole", "streamed", "streamed as whole"])
    def answer(self, request, house):
        """`answer(node, say=...)`: what such a model answers in each way that a backend may tell it."""
        whole = answer_form("", tool_calls=[CUT], finish="length")
        end = {"token": "", "finish_reason": "length"}
        call = {"token": "", "finish_reason": None, "tool_calls": [{"index": 0, **CUT}]}
        house.model.replies = {
            "whole": [whole],
            "streamed": [[[call], [end]]],
            "streamed as whole": [[[one_chunk(whole)]]],
        }[request.param]
        return lambda node, **more: house.ask(node, stream=request.param != "whole", **more)

    def test_no_call_is_added_that_hides_the_end(self, house, answer):
        """An agent that reads `length` asks again; one that reads `tool_calls` runs what it is given."""
        house.user["livenessToolCall"] = LIVENESS
        got = answer(ask(injectLivenessToolCall=True))
        assert (got.text, got.finish_reason, got.tool_calls) == ("", "length", [])

    def test_a_group_chat_adds_no_speaker(self, answer):
        """As to every call without a text."""
        history = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Old Roland:"}]
        assert answer(ask(useGroupChatTimestampLogic=True), say=history).text == ""


def test_a_failure_knows_its_cause_and_holds_no_variable(house):
    """They lead to the whole conversation; the lines are kept for the log."""
    house.model.replies = [BackendError("chat", "timeout", "too slow")]
    with pytest.raises(WorkflowError) as caught:
        house.ask(ask())
    cause = caught.value.__cause__
    assert isinstance(cause, BackendError) and cause.kind == "timeout"
    *_, (innermost, _) = traceback.walk_tb(cause.__traceback__)
    assert innermost.f_code.co_name == "whole" and innermost.f_locals == {}


class TestSummary:
    """The lines of the log about one run."""

    def test_a_failed_node_is_called_so(self, house, caplog):
        """With its time, whether or not the run goes on."""
        house.model.replies = [BackendError("chat", "timeout", "too slow"), "yes"]
        with caplog.at_level("INFO", "Middleware.workflows.processors.workflows_processor"):
            house.ask(ask(onNodeError="continue"), ask())
        lines = caplog.messages[-1].splitlines()
        assert [line.endswith(", failed") for line in lines] == [False, True, False]

    def test_a_node_whose_client_left_is_called_cancelled(self, house, caplog):
        """The answer was closed before its end."""
        house.workflow("Main", ask())
        with caplog.at_level("INFO", "Middleware.workflows.processors.workflows_processor"):
            batches = house.open(stream=True)
            next(batches)
            batches.close()
        assert caplog.messages[-1].endswith(" 1 tokens, cancelled")
