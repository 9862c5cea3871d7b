"""Node types at work in whole runs: what the client gets, what the model is asked, what lies on disk."""

from __future__ import annotations

import json
import re
import sys

import pytest

from Middleware.common.errors import WorkflowError
from Middleware.utilities.hashing_utils import text_hash

ID = "[DiscussionId]d1[/DiscussionId]"


LOOK = {"type": "ImageProcessor", "endpointName": "chat", "systemPrompt": "look", "prompt": "describe"}
GUARDED_CURL = {"type": "CurlCommand", "blockOptionInjection": True}
LOCK = {"type": "WorkflowLock", "workflowLockId": "l", "lockedMessage": "busy"}


def say(*texts):
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]


class TestImages:
    """ImageProcessor with a model."""

    def shown(self, model):
        return [[m.get("images") for m in call.conversation if m.get("images")] for call in model.calls]

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    def test_it_can_be_the_answer(self, house, model, stream):
        model.replies = ["a cat"]
        talk = [
            {"role": "user", "content": "see", "images": ["data:image/png;base64,AA=="]},
            *say("a", "b", "c"),
        ]
        assert house.ask(LOOK, stream=stream, say=talk).text == "a cat"
        assert self.shown(model) == [[["data:image/png;base64,AA=="]]]

    def test_an_image_far_back_is_seen(self, house, model):
        model.replies = ["a cat"]
        talk = [
            {"role": "user", "content": "see", "images": ["AA=="]},
            *[m for _ in range(9) for m in say("a", "b")],
        ]
        house.ask(LOOK, say=talk)
        house.ask({**LOOK, "prompt": ""}, say=talk)
        assert [len(images) for images in self.shown(model)] == [1, 1]

    def test_later_nodes_see_the_description_and_it_is_remembered(self, house, model):
        model.replies = ["a cat", "thanks"]
        talk = [{"role": "user", "content": f"see{ID}", "images": ["AA=="]}]
        nodes = [
            {
                **LOOK,
                "addAsUserMessage": True,
                "message": "<[IMAGE_BLOCK]>",
                "saveVisionResponsesToDiscussionId": True,
            },
            {"type": "Standard", "endpointName": "chat"},
        ]
        assert house.ask(*nodes, say=talk).text == "thanks"
        assert [m["content"] for m in model.calls[-1].conversation] == ["see", "<a cat>"]
        house.ask(*nodes, say=[{"role": "user", "content": f"see{ID}", "images": ["AA=="]}])
        assert len(model.calls) == 3


class TestCommands:
    """CurlCommand knows what of an argument a run has filled in."""

    def test_an_option_that_was_filled_in_is_refused(self, house):
        """One that the author wrote is none of a stranger's."""
        for stranger, args in (("-o", ["{agent1Output}"]), ("x", ["--config", "{agent1Output}"])):
            with pytest.raises(WorkflowError, match="CurlCommand: argument"):
                house.ask({"type": "StaticResponse", "content": stranger}, {**GUARDED_CURL, "args": args})

    def test_an_address_that_was_filled_in_needs_its_scheme(self, house):
        with pytest.raises(WorkflowError, match="what was filled in is no http address"):
            house.ask(
                {"type": "StaticResponse", "content": "file:///etc/hosts"},
                {"type": "CurlCommand", "args": ["{agent1Output}"]},
            )


class TestLocks:
    """A held lock ends the run, however deep it stands."""

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    def test_met_in_a_child_it_ends_the_parents_too(self, house, stream):
        house.workflow("Child", LOCK, {"type": "StaticResponse", "content": "child"})
        child = {"type": "CustomWorkflow", "workflowName": "Child"}
        assert (
            house.ask(LOCK, child, {"type": "StaticResponse", "content": "x"}, stream=stream).text == "busy"
        )

    def test_locks_of_a_child_end_with_it(self, house):
        house.workflow("Child", LOCK, {"type": "StaticResponse", "content": "child"})
        child = {"type": "CustomWorkflow", "workflowName": "Child"}
        joined = {"type": "StaticResponse", "content": "{agent1Output} {agent2Output} {agent3Output}."}
        assert house.ask(child, child, LOCK, joined).text == "child child ."


class TestNesting:
    """Children, their inputs and overrides."""

    def test_what_the_parent_inserted_is_literal_for_the_child(self, house, model):
        house.workflow("Child", {"type": "Standard", "endpointName": "chat", "prompt": "own"})
        house.ask(
            {"type": "StaticResponse", "content": "{{agent1Input}}"},
            {
                "type": "CustomWorkflow",
                "workflowName": "Child",
                "scoped_variables": ["in {agent1Output}"],
                "promptOverride": "{agent1Output} and",
            },
        )
        assert model.calls[0].conversation[-1]["content"] == "{agent1Input} and"

    def test_a_text_with_names_of_the_child_is_filled_there(self, house, model):
        house.workflow("Child", {"type": "Standard", "endpointName": "chat", "prompt": "own"})
        house.ask(
            {
                "type": "ConditionalCustomWorkflow",
                "conditionalKey": " GO ",
                "conditionalWorkflows": {"go": "Child"},
                "routeOverrides": {"Go": {"promptOverride": "do {agent1Input}"}},
                "scoped_variables": ["this"],
            },
        )
        assert model.calls[0].conversation[-1]["content"] == "do this"

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    def test_the_default_text_can_be_the_answer(self, house, stream):
        node = {
            "type": "ConditionalCustomWorkflow",
            "conditionalKey": "x",
            "UseDefaultContentInsteadOfWorkflow": "none",
        }
        assert house.ask(node, stream=stream).text == "none"

    def test_a_missing_child_fails_the_request(self, house):
        with pytest.raises(WorkflowError, match="Nowhere"):
            house.ask({"type": "CustomWorkflow", "workflowName": "Nowhere"})


def test_chunks_of_the_conversation_go_to_a_child_once(house, tmp_path):
    """The child appends each chunk to a file, which is the output."""
    house.user["userWideWorkflowVariables"] = {"n": str(tmp_path / "n")}
    house.workflow(
        "Add",
        {
            "type": "SaveCustomFile",
            "mode": "append",
            "filepath": "{n}/log.txt",
            "content": "[{agent1Input}|{agent2Input}]",
        },
    )
    node = {
        "type": "ConversationChunkProcessor",
        "id": "log",
        "workflowName": "Add",
        "chunkSize": 2,
        "lookbackMessages": 1,
        "cursorDirectory": "{n}/cursors",
        "returnFile": "{n}/log.txt",
        "scoped_variables": ["x"],
    }
    first = say(f"a{ID}", "b", "c", "d", "e {", "f")
    assert house.ask(node, say=first).text == "[a\nb|x][c\nd|x]"
    second = say(f"a{ID}", "b", "c", "d", "e {", "f", "g")
    assert house.ask(node, say=second).text == "[a\nb|x][c\nd|x][e {\nf|x]"


def test_a_script_may_give_an_object_to_later_nodes(house, tmp_path, monkeypatch):
    """Jinja reaches into it; arguments came as text."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "tool.py").write_text("def Invoke(n):\n    return {'n': [n, 2]}\n")
    script = {"type": "PythonModule", "module_path": str(tmp_path / "tool.py"), "args": [7]}
    shown = {"type": "StaticResponse", "jinja2": True, "content": "{{ agent1Output['n'] | tojson }}"}
    assert house.ask(script, shown).text == '["7", 2]'


def test_a_models_output_cannot_lead_a_path_out_of_its_folder(house, model, tmp_path):
    """The folder is what stands before the first run-time value."""
    model.replies = ["../secret"]
    (tmp_path / "secret.md").write_text("s")
    house.workflow(
        "Main",
        {"type": "Standard", "endpointName": "chat"},
        {"type": "GetCustomFile", "filepath": "{dir}/{agent1Output}.md"},
        dir=f"{tmp_path}/notes",
    )
    assert house.ask().text == f"Error: path leaves {tmp_path}/notes"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_an_answer_of_nested_runs_is_stamped_once(house, model, tmp_path, stream):
    """The caller's stamps reach a child without the flag; a child with it writes them afresh; no text is tracked twice."""
    model.replies = ["done {x}"]
    stamped = {"addDiscussionIdTimestampsForLLM": True}
    house.workflow(
        "Child",
        {"type": "StaticResponse", "content": "{chat_user_prompt_last_one}"},
        {
            **stamped,
            "type": "Standard",
            "endpointName": "chat",
            "prompt": "{agent1Output} / {chat_user_prompt_last_one}",
            "useRelativeTimestamps": True,
            "useGroupChatTimestampLogic": True,
        },
    )
    house.ask(
        {**stamped, "type": "CustomWorkflow", "workflowName": "Child"}, say=say(f"hello{ID}"), stream=stream
    )
    (prompt,) = [call.conversation[-1]["content"] for call in model.calls]
    assert re.fullmatch(r"\(\w+, [-\d]+ [:\d]+\) hello / \[Sent less than a minute ago\] hello", prompt)
    stamps = json.loads((tmp_path / "DiscussionIds" / "d1" / "timestamps.json").read_text())
    assert set(stamps) == {text_hash("hello"), text_hash("done {x}")}


@pytest.mark.parametrize("stream", [False, True])
def test_a_page_that_is_fetched_can_be_the_answer(house, site, stream):
    """Whole and streamed alike."""
    site.pages["/"] = 200, {}, b"a page"
    answer = house.ask({"type": "WebFetch", "url": site.url("/"), "is_responder": True}, stream=stream)
    assert (answer.text, answer.finish_reason) == ("a page", "stop")
