"""What memory calls send: their two texts, bare. Source: spec memory.md 7.4."""

from __future__ import annotations

import pytest

from tests.workflows.memory.conftest import talk

AUTHORED = {"systemPrompt": "You take notes.", "prompt": "Note this: [TextChunk]"}
FILE = {**AUTHORED, "chunkEstimatedTokenSize": 2, "lookbackStartTurn": 0}


def sent(call):
    """`(system, prompt)` of a flat call; the messages of another."""
    if call.conversation is None:
        return call.system_prompt, call.prompt
    return [(message["role"], message["content"]) for message in call.conversation]


class TestShape:
    """System and user message where messages are taken, else two texts without any template."""

    @pytest.fixture(autouse=True)
    def templates(self, house):
        """Both endpoints would wrap and open turns for a Standard node."""
        house.endpoint("flat", apiTypeConfigFileName="Flat", addGenerationPrompt=True)

    @pytest.mark.parametrize(
        ("endpoint", "expected"),
        [
            ("chat", [("system", "You take notes."), ("user", "Note this: word 0")]),
            ("flat", ("You take notes.", "Note this: word 0")),
        ],
    )
    def test_a_file_memory(self, discussion, model, endpoint, expected):
        discussion.settings(**FILE, endpointName=endpoint)
        discussion.turn(talk(3))
        assert sent(model.calls[0]) == expected

    def test_fields_of_a_standard_node_put_no_template_around_it(self, discussion, model):
        discussion.settings(
            **FILE,
            endpointName="flat",
            addUserTurnTemplate=True,
            addOpenEndedAssistantTurnTemplate=True,
            forceGenerationPromptIfEndpointAllows=True,
        )
        discussion.turn(talk(3))
        assert sent(model.calls[0]) == ("You take notes.", "Note this: word 0")

    def test_an_empty_part_is_left_out(self, discussion, model):
        discussion.settings(**{**FILE, "systemPrompt": ""}, endpointName="flat")
        discussion.turn(talk(3))
        assert sent(model.calls[0]) == ("", "Note this: word 0")

    def test_a_condensed_memory(self, discussion, model):
        discussion.settings(
            **FILE,
            endpointName="flat",
            condenseMemories=True,
            memoriesBeforeCondensation=2,
            condenseMemoriesSystemPrompt="You join.",
            condenseMemoriesPrompt="Join: [MemoriesToCondense]",
        )
        discussion.put_memories(("one", "of older messages"))
        model.replies = ["two", "three", "four", "joined"]
        discussion.turn(talk(3))
        assert sent(model.calls[-1])[0] == "You join."
        assert sent(model.calls[-1])[1].startswith("Join: one")

    def test_facts(self, discussion, model):
        discussion.settings(
            endpointName="flat",
            useVectorForQualityMemory=True,
            lookbackStartTurn=0,
            vectorMemoryChunkEstimatedTokenSize=2,
        )
        discussion.turn(talk(3))
        system, prompt = sent(model.calls[0])
        assert (system[:3], prompt[:5]) == ("You", "Piece")

    def test_a_backup_endpoint_gets_them_bare_too(self, discussion, house, model, failure):
        house.endpoint("chat", backupEndpointName="spare")
        house.endpoint("spare", apiTypeConfigFileName="Flat", endpoint="http://127.0.0.1:1")
        model.replies = [failure(), "note"]
        discussion.settings(**FILE, endpointName="chat")
        discussion.turn(talk(3))
        assert sent(model.calls[1]) == ("You take notes.", "Note this: word 0")
