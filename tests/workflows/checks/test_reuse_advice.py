"""What to change so that less is read again: said only where it was tried (prompt-reuse.md 4)."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

from Middleware.workflows.checks.prompt_reuse import TurnWalk, made_conversation
from Middleware.workflows.checks.reuse_advice import advise_on, reading_note, silent_log

FILE = "Workflows/ana/Main.json"


@pytest.fixture
def advised(house):
    """What is advised on `Main` of these nodes."""
    house.write("ApiTypes/Chat", {"type": "openAIChatCompletion", "presetType": "any"})

    def advise(*nodes: Any, **options: Any):
        house.workflow("Main", *nodes)
        manager = house.manager()
        walk = TurnWalk(
            manager.snapshot,
            manager.user,
            lambda dry, question: dry.open_run("Main", question),
            made_conversation(),
            **options,
        )
        return advise_on(walk)

    return advise


def ask(**fields: Any) -> dict[str, Any]:
    front = {"systemPrompt": "{chat_system_prompt}", "lastMessagesToSendInsteadOfPrompt": 999}
    return {"type": "Standard", "endpointName": "chat", **front, **fields}


def test_a_window_that_moves(advised):
    """The change is tried, and it helps."""
    found = advised(ask(lastMessagesToSendInsteadOfPrompt=20))
    (advice,) = found.advice
    assert advice.message == 'the window of 20 messages moves each turn: "steadyWindow": true'
    assert (advice.node, advice.key) == ((FILE, 1), "lastMessagesToSendInsteadOfPrompt")
    assert found.after.read_chars < found.before.read_chars / 2
    assert found.reads_too_much


@pytest.mark.parametrize(
    ("fields", "window"),
    [
        ({"lastMessagesToSendInsteadOfPrompt": None}, "window of 5 messages"),
        ({"lastMessagesToSendInsteadOfPromptMaxTokenSize": 900}, "window of 900 tokens"),
    ],
    ids=["usual", "tokens"],
)
def test_which_window(advised, fields, window):
    """Messages, also where the node does not say how many, or tokens."""
    found = advised(ask(**fields))
    assert found.advice[0].message == f'the {window} moves each turn: "steadyWindow": true'


def test_a_window_that_stands(advised, house):
    """By the node or by the user file: nothing to say, though it moves now and then."""
    steady = advised(ask(lastMessagesToSendInsteadOfPrompt=10, steadyWindow=True))
    house.user["steadyWindow"] = True
    of_user = advised(ask(lastMessagesToSendInsteadOfPrompt=10))
    assert steady.advice == of_user.advice == []
    assert steady.after is None and not steady.reads_too_much


def test_an_instruction_in_front(advised):
    """Behind the conversation, both nodes share what the server holds; the client's text stays in front."""
    found = advised(
        ask(systemPrompt="Write a draft. {chat_system_prompt}"), ask(latePrompt="Use {agent1Output}")
    )
    (advice,) = found.advice
    assert advice.message == 'its instruction stands before the conversation: put it into "latePrompt"'
    assert advice.change == {"systemPrompt": "{chat_system_prompt}", "latePrompt": "Write a draft."}
    assert found.after.read_chars < found.before.read_chars / 10


def test_nodes_of_a_server_get_the_same_front(advised):
    """The one that another of them has: then both begin alike, and neither pushes the other out."""
    steady = "{chat_system_prompt_steady}"
    found = advised(ask(systemPrompt=steady), ask(systemPrompt="Write a draft."))
    assert {"systemPrompt": steady, "latePrompt": "Write a draft."} in [one.change for one in found.advice]


STEADY = {False: "{chat_system_prompt_steady}", True: "{{ chat_system_prompt_steady }}"}
USUAL = {False: "{chat_system_prompt}", True: "{{ chat_system_prompt }}"}


@pytest.mark.parametrize("node", [False, True], ids=["braces", "jinja2"])
@pytest.mark.parametrize("other", [False, True], ids=["beside-braces", "beside-jinja2"])
def test_a_front_is_shared_by_nodes_that_write_alike(advised, node, other):
    """A node would not understand the variables of the other kind: it gets the usual front in its own."""
    found = advised(ask(systemPrompt=STEADY[other], jinja2=other), ask(systemPrompt="Draft.", jinja2=node))
    (front,) = [one.change["systemPrompt"] for one in found.advice if "systemPrompt" in one.change]
    assert front == (STEADY[node] if node is other else USUAL[node])


def test_what_it_hides_is_found_in_a_second_walk(advised):
    """The window moves behind the instruction."""
    found = advised(
        ask(systemPrompt="Draft.", lastMessagesToSendInsteadOfPrompt=20),
        ask(lastMessagesToSendInsteadOfPrompt=20),
    )
    assert [(one.node[1], one.key) for one in found.advice] == [
        (1, "systemPrompt"),
        (1, "lastMessagesToSendInsteadOfPrompt"),
        (2, "lastMessagesToSendInsteadOfPrompt"),
    ]


def test_a_front_that_changes(advised):
    """Another node's output in front of the conversation; the stub's answer is the same in each turn, the
    conversation's last message is not."""
    found = advised(ask(systemPrompt="You answer: {chat_user_prompt_last_one}"))
    assert [one.message for one in found.advice] == [
        'its systemPrompt changes from turn to turn: put what changes into "latePrompt"'
    ]


def test_a_prompt_that_repeats_the_conversation(advised):
    """It is sent as a conversation instead."""
    found = advised(ask(prompt="Answer this: {chat_user_prompt_last_twenty}"))
    (advice,) = found.advice
    assert 'leave "prompt" empty' in advice.message
    assert found.after.read_chars < found.before.read_chars / 2


@pytest.mark.parametrize(
    ("windows", "advised_window"), [([], 20), ([40], 40)], ids=["alone", "beside-another"]
)
def test_how_long_the_conversation_becomes(advised, windows, advised_window):
    """As long as other nodes have it, so that they share it; else 20 messages."""
    nodes = [ask(lastMessagesToSendInsteadOfPrompt=window, steadyWindow=True) for window in windows]
    found = advised(
        ask(prompt="Answer this: {chat_user_prompt_last_twenty}", lastMessagesToSendInsteadOfPrompt=None),
        *nodes,
    )
    change = next(one.change for one in found.advice if one.node[1] == 1)
    assert change["lastMessagesToSendInsteadOfPrompt"] == advised_window


@pytest.mark.parametrize(
    "nodes",
    [
        [ask(steadyWindow=True), ask(systemPrompt="Take notes.", prompt="Note {agent1Output}")],
        [ask(lastMessagesToSendInsteadOfPrompt=2)],
    ],
    ids=["prompt-of-its-own", "it-would-not-help"],
)
def test_nothing_to_say(advised, nodes):
    """A node that sends no conversation has no use for a late prompt; a change that was tried in vain is not
    told.
    """
    found = advised(*nodes)
    assert (found.advice, found.after) == ([], None)


def test_relative_times_are_a_note(advised):
    """Nobody can try them without a discussion."""
    found = advised(ask(addDiscussionIdTimestampsForLLM=True, useRelativeTimestamps=True))
    (advice,) = found.advice
    assert advice.message == "relative times change each message each turn: use absolute ones"
    assert found.after is None


def test_the_place_is_a_line_of_the_file(advised, house):
    """Of the field; of the node where there is none."""
    found = advised(ask(lastMessagesToSendInsteadOfPrompt=20))
    assert found.advice[0].place(house.manager().snapshot) == f"{FILE}:1"


def test_a_silent_log_speaks_again():
    """Even after a failure."""
    before = logging.root.manager.disable
    with pytest.raises(ValueError), silent_log():
        assert not logging.getLogger().isEnabledFor(logging.ERROR)
        raise ValueError
    assert logging.root.manager.disable == before


class TestNote:
    """One sentence for a user whose workflow has far more read than is new."""

    def note(self, house, *nodes: Any) -> str:
        house.user["customWorkflow"] = "Main"
        house.workflow("Main", *nodes)
        manager = house.manager()
        return reading_note(manager.snapshot, manager.user)

    def test_far_more_is_read_than_is_new(self, house):
        """How much, how many times what is new, and what shows more."""
        house.write("ApiTypes/Chat", {"type": "openAIChatCompletion", "presetType": "any"})
        text = self.note(house, ask(lastMessagesToSendInsteadOfPrompt=30))
        assert re.fullmatch(
            r"each turn has [\d,]+ tokens read by model servers, \d+ times what is new: "
            r"`--reuse ana` shows what to change",
            text,
        )

    @pytest.mark.parametrize(
        "node",
        [
            ask(),
            ask(lastMessagesToSendInsteadOfPrompt=30, steadyWindow=True),
            {"type": "StaticResponse", "content": "x"},
            ask(endpointName="nope"),
        ],
        ids=["all", "steady", "no-model", "fault"],
    )
    def test_nothing_to_say(self, house, node):
        """It reads little, nothing can be changed, it asks no model, or it cannot be walked."""
        house.write("ApiTypes/Chat", {"type": "openAIChatCompletion", "presetType": "any"})
        assert self.note(house, node) == ""
