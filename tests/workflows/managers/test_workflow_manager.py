"""Nested runs: what a child inherits, who answers, how deep it goes; and the preparation of messages."""

from __future__ import annotations

import errno
import json
import sys
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from Middleware.common.errors import ConfigMissing, WorkflowError
from Middleware.common.request_context import ClientQuestion
from Middleware.workflows.managers.workflow_manager import plain_question, prepare_question


def say(content: str, **fields: Any) -> dict[str, Any]:
    return {"type": "StaticResponse", "content": content, **fields}


def ask(endpoint: str = "chat", **fields: Any) -> dict[str, Any]:
    return {"type": "Standard", "endpointName": endpoint, **fields}


def child(name: str = "Child", **fields: Any) -> dict[str, Any]:
    return {"type": "CustomWorkflow", "workflowName": name, **fields}


BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@BOTH
class TestChildren:
    def test_an_answering_child_answers(self, house, stream):
        """Its text passes through the calling node, and is that node's output."""
        house.workflow("Child", ask(returnToUser=True), say("x"))
        nodes = [child(returnToUser=True), {"type": "StringConcatenator", "strings": ["{agent1Output}"]}]
        assert house.ask(*nodes, stream=stream).text == "hello"

    def test_the_calling_nodes_text_fields_do_nothing(self, house, stream):
        """They belong on the node that makes the text."""
        house.workflow("Child", say("  Sure! a"))
        strip = {"removeCustomTextFromResponseStart": True, "responseStartTextToRemove": ["Sure!"]}
        assert house.ask(child(endpointName="chat", **strip), stream=stream).text == "  Sure! a"

    def test_an_internal_child_is_a_value(self, house, stream):
        """Its own responder's output; nodes after that still run."""
        house.workflow("Child", say("a", returnToUser=True), say("b"))
        assert house.ask(child(), say("<{agent1Output}>"), stream=stream).text == "<a>"

    def test_nothing_is_inherited_but_the_request(self, house, stream):
        """No outputs, no inputs, no workflow variables of the parent."""
        house.workflow("Child", say("{agent1Output}{v}{agent1Input}{chat_user_prompt_last_one}"))
        house.workflow("Main", say("x"), child(), v="1")
        assert house.ask(stream=stream).text == "{agent1Output}{v}{agent1Input}hi"

    def test_inputs_of_the_question(self, house, stream):
        """Are those of the workflow that answers, not of its children."""
        house.workflow("Child", say("{agent1Input}"))
        nodes = [child(), say("{agent1Input} {agent2Input} {agent1Output}")]
        assert house.ask(*nodes, stream=stream, inputs=("{a}", "b")).text == "{a} b {agent1Input}"

    def test_V15_scoped_inputs(self, house, stream):
        """Inputs are the parent's filled texts; braces in them stay."""
        house.workflow("Child", say("{agent2Input}"))
        nodes = [say('{{"a":1}}'), child(scoped_variables=["x", "{agent1Output}"])]
        assert house.ask(*nodes, stream=stream).text == '{"a":1}'

    def test_overrides_go_to_the_first_node_with_a_prompt(self, house, stream):
        """What the parent inserted is literal there; what it did not know, the child fills."""
        house.workflow("Child", say("x"), ask(prompt="old", systemPrompt="old"))
        nodes = [
            say("out {{agent1Input}}"),
            child(
                scoped_variables=["in"],
                firstNodePromptOverride="{agent1Output}",
                systemPromptOverride="s {agent1Input}",
                promptOverride="unused",
            ),
        ]
        house.ask(*nodes, stream=stream)
        assert [(m["role"], m["content"]) for m in house.model.calls[0].conversation] == [
            ("system", "s in"),
            ("user", "out {agent1Input}"),
        ]

    def test_a_failure_deep_down_names_its_chain(self, house, stream):
        """Wrapped once, where it happened."""
        house.workflow("Deep", ask("nowhere", title="T"))
        house.workflow("Child", child("Deep"))
        with pytest.raises(WorkflowError) as caught:
            house.ask(child(), stream=stream)
        assert 'Workflows/ana/Deep.json:1:12: node 1 "T" (Standard)' in str(caught.value)
        assert "called by Main > Child" in str(caught.value)
        assert caught.value.chain == ("Main", "Child", "Deep")
        assert isinstance(caught.value.__cause__, ConfigMissing)

    def test_depth_is_limited(self, house, stream):
        """A workflow that calls itself for ever fails with its chain."""
        house.user["maxWorkflowDepth"] = 5
        with pytest.raises(WorkflowError, match=r"deeper than 5.*Main > Main"):
            house.ask(child("Main"), stream=stream)

    def test_the_usual_limit_is_reached_without_trouble(self, house, stream):
        """64 levels fit; the 65th is refused by name."""
        with pytest.raises(WorkflowError, match="deeper than 64"):
            house.ask(child("Main"), stream=stream)

    def test_a_higher_limit_is_reached_too(self, house, stream):
        """Python's own limit is not in the way."""
        house.user["maxWorkflowDepth"] = 150
        with pytest.raises(WorkflowError, match="deeper than 150"):
            house.ask(child("Main"), stream=stream)

    @pytest.mark.parametrize("answers", [True, False], ids=["answering", "internal"])
    def test_no_limit_breaks_the_process(self, house, stream, answers):
        """Whatever the user allows: a failure with a short message, not the end of the process."""
        house.user["maxWorkflowDepth"] = 2000
        with pytest.raises(WorkflowError, match="deeper than 2000") as caught:
            house.ask(*[child("Main")] if answers else [child("Main"), say("x")], stream=stream)
        assert len(str(caught.value)) < 600

    def test_a_shared_workflow_finds_its_neighbours(self, house, stream):
        """User's folder first, then the caller's, then `_common`."""
        house.workflow("Near", say("near"), folder="_shared/tool")
        house.workflow("Far", say("far"), folder="_common")
        nodes = [child("Near"), child("Far"), say("{agent1Output} {agent2Output}")]
        house.workflow("_DefaultWorkflow", *nodes, folder="_shared/tool")
        house.request["workflow_folder"] = "tool"
        assert house.route(stream=stream).text == "near far"

    def test_an_empty_child_gives_an_empty_answer(self, house, stream):
        """Well-formed, and the parent goes on."""
        house.write("Workflows/ana/Child", [])
        assert house.ask(child(returnToUser=True), say("x"), stream=stream).text == ""

    def test_the_finish_leaves_before_the_rest_of_child_and_parent(self, house, stream):
        """The innermost responder ends the answer; then the child's rest runs, then the parent's."""
        house.workflow("Child", ask(returnToUser=True), ask(prompt="in child"))
        house.workflow("Main", child(returnToUser=True), ask(prompt="{agent1Output} in parent"))
        batches = house.open(stream=stream)
        next(batch for batch in batches if any(chunk["finish_reason"] for chunk in batch))
        assert len(house.model.calls) == 1
        assert not any(batches)
        said = [call.conversation[-1]["content"] for call in house.model.calls[1:]]
        assert said == ["in child", "hello in parent"]

    def test_a_failure_in_the_childs_rest_ends_the_parent(self, house, stream, caplog):
        """The answer is safe; the failure is logged."""
        house.workflow("Child", say("a", returnToUser=True), ask("nowhere"))
        assert house.ask(child(returnToUser=True), ask(), stream=stream).text == "a"
        assert house.model.calls == [] and "nowhere" in caplog.text

    def test_thoughts_sent_inline_are_not_the_output(self, house, stream):
        """`agentNOutput` is the answer alone."""
        house.endpoint(
            "chat", removeThinking=True, startThinkTag="<t>", endThinkTag="</t>", reasoningOutput="inline"
        )
        house.model.replies = ["<t>hm</t>yes", "x"]
        house.workflow("Child", ask())
        answer = house.ask(child(returnToUser=True), ask(prompt="{agent1Output}"), stream=stream)
        assert answer.text == "<t>hm</t>yes"
        assert house.model.calls[1].conversation[0]["content"] == "yes"


@pytest.fixture(autouse=True)
def frames():
    """Python's own limit, which deep runs raise for the whole process, is again what it was."""
    limit = sys.getrecursionlimit()
    yield
    sys.setrecursionlimit(limit)


class TestPreparation:
    def test_messages(self):
        """Tags go, then messages that hold nothing; what the client sent stays as it was."""
        calls = [{"id": "1"}]
        messages = [
            {"role": "user", "content": "a[DiscussionId]d1[/DiscussionId]b"},
            {"role": "user", "content": "[DiscussionId]d2[/DiscussionId]"},
            {"role": "assistant", "content": "", "tool_calls": calls},
            {"role": "user", "content": " ", "images": ["i"]},
            {"role": "tool", "content": "", "tool_call_id": "1"},
            {"role": "assistant", "content": "\n"},
        ]
        sent = deepcopy(messages)
        ready = prepare_question(ClientQuestion(messages))
        assert ready.discussion_id == "d1"
        assert [m["content"] for m in ready.messages] == ["ab", "", " ", ""]
        assert messages == sent

    @pytest.mark.parametrize("prepare", [prepare_question, plain_question])
    @pytest.mark.parametrize("content", ["", "\n", "[DiscussionId]d1[/DiscussionId]"])
    def test_an_empty_result_of_a_tool_stays(self, prepare, content):
        """Also without an id: the result behind it would answer the wrong call."""
        results = [{"role": "tool", "content": content, "name": "w"}, {"role": "tool", "content": "5"}]
        ready = prepare(ClientQuestion(results))
        assert [message["content"].strip() for message in ready.messages] == ["", "5"]

    @pytest.mark.parametrize(
        "blank", ["", " \n", "[DiscussionId]d1[/DiscussionId]"], ids=["empty", "blank", "tag"]
    )
    @pytest.mark.parametrize("jinja", [False, True], ids=["format", "jinja"])
    @BOTH
    def test_a_blank_question_leaves_no_name_of_a_variable(self, house, blank, jinja, stream):
        """The node's own, and a child's."""
        text = "<{{ chat_user_prompt_last_one }}>" if jinja else "<{chat_user_prompt_last_one}>"
        node = say(text, jinja2=jinja)
        house.workflow("Child", node)
        nodes = [
            child(),
            {**node, "content": "{{ agent1Output }}" + text if jinja else "{agent1Output}" + text},
        ]
        assert house.ask(*nodes, say=blank, stream=stream).text == "<><>"

    def test_the_discussion_is_a_variable(self, house):
        """Found in the messages, or given by the gateway."""
        tagged = "hi [DiscussionId]d1[/DiscussionId]"
        assert house.ask(say("{Discussion_Id}"), say=tagged).text == "d1"
        assert house.ask(say("{Discussion_Id}"), say=tagged, discussion_id="d2").text == "d2"

    def test_an_unknown_workflow_is_told_at_once(self, house):
        """Before anything is pulled."""
        with pytest.raises(ConfigMissing):
            house.open("Nope")


STAMPED = {"addDiscussionIdTimestampsForLLM": True}
TAGGED = "hi[DiscussionId]d1[/DiscussionId]"


class TestTimes:
    def read(self, tmp_path: Any) -> dict[str, str]:
        return json.loads((tmp_path / "DiscussionIds" / "d1" / "timestamps.json").read_text())

    @BOTH
    def test_a_stamped_node_sees_times(self, house, tmp_path, stream):
        """The sent messages carry them; the answer's time is kept for later."""
        house.ask(ask(**STAMPED), stream=stream, say=TAGGED)
        assert house.model.calls[0].conversation[0]["content"].startswith("(")
        assert "PLACEHOLDER_TIMESTAMP_HASH_0000" in self.read(tmp_path)

    @BOTH
    def test_group_chat_stamps_the_answer_at_once(self, house, tmp_path, stream):
        """Once, by the innermost responder with the flag."""
        node = {**STAMPED, "useGroupChatTimestampLogic": True}
        house.workflow("Child", ask(**node))
        house.ask(child(**node), stream=stream, say=TAGGED)
        assert len(self.read(tmp_path)) == 2
        assert "PLACEHOLDER_TIMESTAMP_HASH_0000" not in self.read(tmp_path)

    def test_a_time_that_cannot_be_kept_costs_no_answer(self, house, monkeypatch, caplog):
        """The answer is worth more."""
        node = ask(**STAMPED, useGroupChatTimestampLogic=True)

        def full_disk(*_: Any) -> None:
            raise OSError("disk full")

        def reply(_: Any) -> str:
            monkeypatch.setattr(
                "Middleware.services.timestamp_service.RequestStamps.finish_answer", full_disk
            )
            return "hello"

        house.model.replies = [reply]
        assert house.ask(node, say=TAGGED).text == "hello"
        assert "disk full" in caplog.text

    @BOTH
    @pytest.mark.parametrize("group", [True, False], ids=["group-chat", "plain"])
    def test_a_full_disk_costs_no_answer_at_either_end(self, house, monkeypatch, caplog, stream, group):
        """Neither before the first node nor after the last one; the log says it once a request."""

        def full_disk(*_: Any, **__: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr("Middleware.services.discussion_store.atomic_write", full_disk)
        node = ask(**STAMPED, useGroupChatTimestampLogic=group)
        assert house.ask(node, say=TAGGED, stream=stream).text == "hello"
        assert caplog.text.count("No space left on device") == 1

    def test_internal_runs_see_no_times(self, house):
        """Only what answers the user is stamped."""
        house.workflow("Child", ask(**STAMPED))
        house.ask(child(), say("x"), say=TAGGED)
        assert house.model.calls[0].conversation[0]["content"] == "hi"

    def test_the_summary_is_a_variable(self, house):
        """Empty without a discussion."""
        assert house.ask(say("<{time_context_summary}>")).text == "<>"
        house.ask(say("x", **STAMPED), say=TAGGED)
        assert "[Time Context:" in house.ask(say("{time_context_summary}"), say=TAGGED).text


TEXTS = st.text(st.sampled_from("ab {}<>:\n"), max_size=12)


@st.composite
def workflows(draw: st.DrawFn, depth: int = 2) -> list[Any]:
    """A list of text nodes; a node that is itself a list is a child."""
    nodes: list[Any] = []
    for _ in range(draw(st.integers(1, 3))):
        if depth and draw(st.booleans()):
            nodes.append((draw(workflows(depth - 1)), {"returnToUser": draw(st.booleans())}))
        else:
            flags = {
                flag: draw(st.booleans()) for flag in ("returnToUser", "removeCustomTextFromResponseStart")
            }
            nodes.append(say(draw(TEXTS) + "{agent1Output}", responseStartTextToRemove=["a", " b"], **flags))
    return nodes


def written(house: Any, name: str, nodes: list[Any]) -> None:
    made = []
    for number, node in enumerate(nodes):
        if isinstance(node, tuple):
            written(house, f"{name}{number}", node[0])
            node = child(f"{name}{number}", **node[1])
        made.append(node)
    house.workflow(name, *made)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(nodes=workflows())
def test_streamed_and_whole_give_the_same_text(house, nodes):
    """However text nodes are nested, flagged and cleaned."""
    written(house, "W", nodes)
    assert house.ask(name="W", stream=True).text == house.ask(name="W", stream=False).text


@BOTH
class TestPictures:
    """Pictures that no node takes do not vanish without a word (frontend-api.md 10.1)."""

    SAY = ({"role": "user", "content": "what is it?", "images": ["aGk="]},)

    @pytest.mark.parametrize(
        "node", [ask(returnToUser=True), say("x", returnToUser=True)], ids=["model", "text"]
    )
    def test_that_no_node_takes(self, house, stream, caplog, node):
        """Once a request, whatever the nodes are."""
        house.ask(node, say("after"), stream=stream, say=list(self.SAY))
        assert caplog.text.count("its pictures reached no model") == 1

    def test_that_a_node_takes(self, house, stream, caplog):
        """Any that ran, a nested one too."""
        house.workflow("Child", ask(acceptImages=True))
        house.ask(child(), say("x", returnToUser=True), stream=stream, say=list(self.SAY))
        assert "its pictures" not in caplog.text

    def test_without_pictures(self, house, stream, caplog):
        """Nothing to tell."""
        house.ask(ask(), stream=stream)
        assert "its pictures" not in caplog.text
