"""A walk without effect: what would be sent and written, and which node answers."""

from __future__ import annotations

from typing import Any

import pytest

from Middleware.common.request_context import ClientQuestion
from Middleware.common.secrets import MASK
from Middleware.workflows.checks.dry_run import DryRun


def ask(endpoint: str = "chat", **fields: Any) -> dict[str, Any]:
    return {"type": "Standard", "endpointName": endpoint, **fields}


@pytest.fixture
def walked(house):
    """Walks workflow `Main` of these nodes; gives the walk and the answer's text."""

    def walk(
        *nodes: Any, stub: str | None = None, say: Any = "hi", stream: bool = False
    ) -> tuple[DryRun, str]:
        house.workflow("Main", *nodes)
        manager = house.manager()
        dry = DryRun(manager.user, manager.request, stub)
        talk = [{"role": "user", "content": say}] if isinstance(say, str) else say
        batches = list(dry.open_run("Main", ClientQuestion(talk, stream)))
        return dry, "".join(chunk["token"] for batch in batches for chunk in batch)

    return walk


TALK = [{"role": ("user", "assistant")[n % 2], "content": f"{'ua'[n % 2]}{n // 2}"} for n in range(61)]


class TestPromptReuse:
    """Windows that stand and late prompts are shown as they are sent (prompt-reuse.md 1, 2)."""

    def test_a_late_prompt_is_in_the_messages(self, walked, house):
        """Its variables are filled."""
        house.write("ApiTypes/Chat", {"type": "openAIChatCompletion", "presetType": "any"})
        dry, _ = walked(ask(prompt="p"), ask(latePrompt="Now: {agent1Output}"))

        node = dry.nodes[1]
        assert node.fields["latePrompt"] == "Now: [output of node 1]"
        assert node.sent[0].body["messages"][-1]["content"] == "hi\n\nNow: [output of node 1]"

    def test_slices_of_a_prompt_stand_and_others_are_exact(self, walked):
        """As in a run."""
        nodes = [
            ask(prompt="{chat_user_prompt_last_ten}", steadyWindow=30),
            {"type": "StaticResponse", "content": "{chat_user_prompt_last_ten}", "steadyWindow": 30},
        ]
        dry, _ = walked(*nodes, say=TALK)

        assert dry.nodes[0].fields["prompt"].startswith("u22")
        assert dry.nodes[1].fields["content"].startswith("a25")


class TestWalk:
    def test_no_model_is_called(self, walked, house):
        """Its output is a stub that names the node."""
        dry, answer = walked(ask(prompt="p"), ask(prompt="[{agent1Output}]"))
        assert house.model.calls == []
        assert answer == "[output of node 2]"
        assert [node.answers for node in dry.nodes] == [False, True]
        assert dry.nodes[1].fields["prompt"] == "[[output of node 1]]"

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    def test_a_stub_may_be_the_answer(self, walked, stream):
        """Of a node that leaves the process and answers: no thoughts, no tokens of a model."""
        dry, answer = walked({"type": "WebFetch", "url": "http://h"}, stream=stream)
        assert (answer, dry.nodes[0].answers) == ("[output of node 1]", True)

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    def test_the_stub_can_be_given(self, walked, stream):
        """One text for every model."""
        assert walked(ask(), stub="s", stream=stream)[1] == "s"

    def test_what_would_be_sent_is_kept_without_keys(self, walked, house, monkeypatch):
        """URL, headers and body; keys are masked wherever they stand."""
        monkeypatch.setenv("HEADRACE_TEST_TEAM", "secret-team")
        extra = {"X-Goog-Api-Key": "secret-2", "X-Team": "${ENV:HEADRACE_TEST_TEAM}", "X-Title": "shown"}
        house.endpoint(
            "chat", apiKey="secret-1", endpoint="http://me:secret-3@model.test", extraHeaders=extra
        )
        sent = walked(ask())[0].nodes[0].sent[0]
        assert sent.url == f"http://me:{MASK}@model.test"
        assert sent.headers["Authorization"] == MASK
        assert "secret" not in sent.text() and "X-Title: shown" in sent.text()

    def test_a_backend_that_always_streams_is_shown_so(self, walked, house):
        """Also where its API type says it, as in earnest."""
        chat = {"type": "openAIChatCompletion", "streamPropertyName": "stream", "backendStream": "always"}
        house.write("ApiTypes/Streams", chat)
        house.endpoint("chat", apiTypeConfigFileName="Streams")
        assert walked(ask())[0].nodes[0].sent[0].body["stream"] is True

    def test_keys_in_fields_are_masked(self, walked):
        """A node may carry headers of its own."""
        node = {"type": "StaticResponse", "content": "x", "headers": {"Authorization": "Bearer secret"}}
        assert "secret" not in "".join(walked(node, ask())[0].nodes[0].lines())

    def test_nothing_is_written(self, walked, tmp_path):
        """Neither files of nodes nor times of a discussion; the notes say what would be."""
        file = tmp_path / "x.txt"
        save = {"type": "SaveCustomFile", "filepath": str(file), "content": "c"}
        stamped = ask(addDiscussionIdTimestampsForLLM=True, useGroupChatTimestampLogic=True)
        dry, _ = walked(save, stamped, say="hi[DiscussionId]d1[/DiscussionId]")
        assert not file.exists() and not (tmp_path / "DiscussionIds").exists()
        assert str(file) in dry.nodes[0].notes[0]
        assert dry.nodes[0].output == "[output of node 1]"

    def test_locks_are_never_taken(self, walked, tmp_path):
        """A lock lets the walk through."""
        lock = {"type": "WorkflowLock", "workflowLockId": "l"}
        assert walked(lock, lock, ask())[1] == "[output of node 3]"
        assert not (tmp_path / "SqlLiteDBs").exists()

    def test_children_are_walked(self, walked, house):
        """One level deeper, also those of a group, one after the other."""
        house.workflow("Child", ask(prompt="in child"))
        call = {
            "type": "CustomWorkflow",
            "workflowName": "Child",
            "parallelGroup": "g",
            "scoped_variables": ["{v}"],
        }
        dry, answer = walked(call, call, {"type": "CustomWorkflow", "workflowName": "Child"})
        assert [node.depth for node in dry.nodes] == [0, 1, 0, 1, 0, 1]
        assert [node.answers for node in dry.nodes] == [False, False, False, False, True, True]
        assert answer == "[output of node 1]"

    def test_it_reads_well(self, walked):
        """One heading a node, its fields, what it sends, what it gives."""
        lines = walked(ask(title="T", prompt="p"))[0].nodes[0].lines()
        assert lines[0] == 'node 1 "T" (Standard), answers the user'
        assert '  prompt: "p"' in lines
        assert "  POST http://model.test" in lines
        assert lines[-1] == '  output: "[output of node 1]"'

    @pytest.mark.parametrize(
        ("template", "text"),
        [
            ("{{ agent1Output.messages }}", "[agent1Output.messages]"),
            ("{{ agent1Output['a'].b.c }}", "[agent1Output['a'].b.c]"),
            (
                "{% for m in agent1Output.messages %}{{ m.role.name }}{% endfor %}",
                "[agent1Output.messages.role.name]",
            ),
            ("{{ agent1Output.get('a').b }}", "[agent1Output.get.b]"),
            ("{{ agent1Output.thinking.b }}", "[agent1Output['thinking'].b]"),
        ],
        ids=["attribute", "key", "loop", "call", "as-of-a-model"],
    )
    def test_a_template_takes_what_it_likes_out_of_a_stub(self, walked, template, text):
        """The output of a script may be an object: the walk goes on, and a note says that it cannot know."""
        script = {"type": "PythonModule", "module_path": "server.py"}
        dry, answer = walked(script, {"type": "StaticResponse", "content": template, "jinja2": True})
        assert answer == text
        assert any("is a stub here" in note for note in dry.nodes[1].notes)

    def test_the_categorisation_workflow_knows_its_categories(self, walked, house, caplog):
        """Their names are variables of that workflow, walked by itself too."""
        house.user |= {"categorizationWorkflow": "Main", "routingConfig": "r"}
        house.write("Routing/r", {"COOK": {"description": "food", "workflow": "Main"}})
        dry, _ = walked(ask(prompt="One of {categoriesSeparatedByOr}?"))
        assert dry.nodes[0].fields["prompt"] == "One of COOK?"
        assert caplog.records == []


class TestAgents:
    """The first step of an agent is shown, with the tools that its files name; no tool is called and no server asked."""

    TOOL: dict[str, Any] = {"workflow": "Read", "name": "read_it", "description": "Reads"}  # noqa: RUF012

    def test_the_first_call_has_the_tools(self, walked, house):
        house.write("ApiTypes/Chat", {"type": "openAIChatCompletion", "presetType": "any"})
        house.workflow("Read", {"type": "StaticResponse", "content": "x"})
        dry, answer = walked(
            {"type": "Agent", "endpointName": "chat", "agentTools": ["mcp:files/read_*", self.TOOL]},
            stub="Done.",
        )
        (node,) = dry.nodes
        (sent,) = node.sent
        assert [tool["function"]["name"] for tool in sent.body["tools"]] == ["read_it"]
        assert node.notes == [
            "would ask the MCP server 'files' for its tools (read_*)",
            "its model may run the workflow 'Read' as read_it",
        ]
        assert answer == "Done."

    def test_a_model_without_tools_of_its_own_is_told_of_them(self, walked, house):
        house.write("ApiTypes/Chat", {"type": "openAIChatCompletion", "presetType": "any"})
        house.workflow("Read", {"type": "StaticResponse", "content": "x"})
        dry, _ = walked(
            {"type": "Agent", "endpointName": "chat", "agentTools": [self.TOOL], "toolCalling": "json"}
        )
        (sent,) = dry.nodes[0].sent
        assert "tools" not in sent.body
        told = sent.body["messages"][0]["content"]
        assert told.index("read_it, schema") < told.index("Reads")
