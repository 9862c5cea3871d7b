"""The client's system text in two parts, as runs see it: decided once a request (prompt-reuse.md 2.1)."""

from __future__ import annotations

from typing import Any

import pytest

from Middleware.common.request_context import ClientQuestion
from Middleware.workflows.checks.dry_run import DryRun
from Middleware.workflows.managers.categorization import open_answer_run
from tests.workflows.conftest import collect

BOTH = {"type": "StringConcatenator", "strings": ["{chat_system_prompt_steady}|{chat_system_prompt_changed}"]}
FIRST = [{"role": "system", "content": "Card."}, {"role": "user", "content": "A"}]
SECOND = [
    {"role": "system", "content": "Card.\n\nLore."},
    {"role": "user", "content": "A"},
    {"role": "assistant", "content": "B"},
    {"role": "user", "content": "C"},
]
SPLIT, FIRST_TURN = "Card.|Lore.", "Card.\n\nLore.|"


@pytest.fixture
def chat_id(tmp_path: Any) -> str:
    """Of this test alone: chats are remembered by the process."""
    return tmp_path.name


@pytest.mark.parametrize("jinja", [False, True], ids=["format", "jinja"])
def test_the_second_turn(house, chat_id, jinja):
    """What came later is changed, in both kinds of texts."""
    strings = (
        ["{{ chat_system_prompt_steady }}|{{ chat_system_prompt_changed }}"] if jinja else BOTH["strings"]
    )
    node = {**BOTH, "strings": strings, "jinja2": jinja}
    assert house.ask(node, say=FIRST, discussion_id=chat_id).text == "Card.|"
    assert house.ask(node, say=SECOND, discussion_id=chat_id).text == SPLIT


def test_by_its_tag(house, chat_id):
    """The tag in a message names the chat, and is no part of any text."""
    tag = f"[DiscussionId]{chat_id}[/DiscussionId]"
    for messages in (FIRST, SECOND):
        tagged = [{**messages[0], "content": f"{tag}{messages[0]['content']}"}, *messages[1:]]
        answer = house.ask(BOTH, say=tagged)
    assert answer.text == SPLIT


def test_once_a_request(house, chat_id):
    """All its nodes see the same, and the chat has moved on by one prompt."""
    house.ask(BOTH, say=FIRST, discussion_id=chat_id)
    nodes = [*[BOTH] * 9, {"type": "StringConcatenator", "strings": ["{agent1Output}", "{agent9Output}"]}]
    front = house.ask(*nodes, say=SECOND, discussion_id=chat_id)
    assert front.text == SPLIT * 2


def test_a_child_run_sees_the_same(house, chat_id):
    """As its parent, whichever asks first."""
    house.workflow("Child", BOTH)
    child = {"type": "CustomWorkflow", "workflowName": "Child"}
    house.ask(BOTH, say=FIRST, discussion_id=chat_id)
    texts = {"type": "StringConcatenator", "strings": ["{agent1Output}", "{agent2Output}"]}
    assert house.ask(child, BOTH, texts, say=SECOND, discussion_id=chat_id).text == SPLIT * 2


def test_a_child_run_with_other_messages(house, chat_id, tmp_path):
    """It is given a part of the conversation; the system text is the client's."""
    file = tmp_path / "{agent1Input}.txt"
    saves = {"type": "SaveCustomFile", "filepath": str(file), "content": BOTH["strings"][0]}
    house.workflow("Child", saves)
    chunks = {
        "type": "ConversationChunkProcessor",
        "id": "one",
        "workflowName": "Child",
        "cursorDirectory": str(tmp_path),
        "chunkSize": 1,
        "lookbackMessages": 0,
    }
    house.ask(BOTH, say=FIRST, discussion_id=chat_id)
    assert house.ask(chunks, BOTH, say=SECOND, discussion_id=chat_id).text == SPLIT
    assert (tmp_path / "C.txt").read_text("utf-8") == SPLIT


def test_the_run_that_picks_a_category(house, chat_id):
    """It is the first that asks, and decides for the workflow that answers."""
    house.user.update(customWorkflowOverride=False, routingConfig="r", categorizationWorkflow="Pick")
    categories = {name: {"workflow": "Main", "description": name} for name in ("ONE", "TWO")}
    house.write("Routing/r", categories)
    house.workflow("Pick", {"type": "StringConcatenator", "strings": ["ONE {chat_system_prompt_changed}"]})
    house.workflow("Main", BOTH)
    for messages in (FIRST, SECOND):
        question = ClientQuestion(messages, discussion_id=chat_id)
        answer = collect(open_answer_run(house.manager(), question))
    assert answer.text == SPLIT


def test_background_tasks_decide_nothing(house, chat_id):
    """They see a first turn, and the chat does not see them."""
    house.ask(BOTH, say=FIRST, discussion_id=chat_id)
    house.request["task"] = "title"
    assert house.ask(BOTH, say=SECOND, discussion_id=chat_id).text == FIRST_TURN
    del house.request["task"]
    assert house.ask(BOTH, say=SECOND, discussion_id=chat_id).text == SPLIT


def test_a_dry_run_shows_a_first_turn(house, chat_id):
    """And leaves the chat as it is."""
    house.ask(BOTH, say=FIRST, discussion_id=chat_id)
    manager = house.manager()
    walk = DryRun(manager.user, manager.request)
    list(walk.open_run("Main", ClientQuestion(SECOND, discussion_id=chat_id)))
    assert walk.nodes[0].fields["strings"] == [FIRST_TURN]
    assert house.ask(BOTH, say=SECOND, discussion_id=chat_id).text == SPLIT


def test_keys_are_apart(house, chat_id):
    """A chat of one key is unknown to another."""
    for key in ("one", "two"):
        house.request["api_key"] = key
        house.ask(BOTH, say=FIRST if key == "one" else SECOND, discussion_id=chat_id)
    assert house.ask(BOTH, say=SECOND, discussion_id=chat_id).text == FIRST_TURN
    house.request["api_key"] = "one"
    assert house.ask(BOTH, say=SECOND, discussion_id=chat_id).text == SPLIT


def test_who_does_not_name_them_is_not_remembered(house, chat_id):
    """No chat is looked for: the first prompt that counts is the first that asks."""
    house.ask(
        {"type": "StringConcatenator", "strings": ["{chat_system_prompt}"]}, say=FIRST, discussion_id=chat_id
    )
    assert house.ask(BOTH, say=SECOND, discussion_id=chat_id).text == FIRST_TURN
