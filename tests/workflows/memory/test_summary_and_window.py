"""A conversation whose older part is compacted behind the answer: what the model sees of it each turn. Source: spec
prompt-reuse.md 1, memory.md 10.
"""

from __future__ import annotations

import re

import pytest

from tests.workflows.conftest import House

COMPACT = {
    "endpointName": "chat",
    "recentContextTokens": 300,
    "oldContextTokens": 9000,
    "lookbackStartTurn": 5,
}
NODES = (
    {"type": "ContextCompactor", "readOnly": True},
    {
        "type": "Standard",
        "endpointName": "chat",
        "systemPrompt": "The story. {agent1Output}",
        "lastMessagesToSendInsteadOfPrompt": 4,
        "steadyWindow": "compactor",
        "returnToUser": True,
    },
    {"type": "ContextCompactor"},
)


class Telling:
    """A user and a model that tell a story; a summary names the facts that it was made of."""

    def __init__(self, house: House) -> None:
        self.house = house
        house.user["contextCompactorSettingsFile"] = "Compact"
        house.write("Workflows/ana/Compact", COMPACT)
        house.model.replies = [self.reply]
        self.sent: list[str] = []

    def reply(self, call):
        if "The story." not in (call.system_prompt or str(call.conversation)):
            return " ".join(facts(str(call.conversation)))
        self.sent = [str(message) for message in call.conversation]
        return "fine"

    def turn(self, messages):
        """The facts that neither the summary nor the window has, and the number of messages sent."""
        self.house.ask(*NODES, say=[dict(message) for message in messages], discussion_id="d")
        seen = facts(" ".join(self.sent))
        lost = [fact for fact in facts(str(messages)) if fact not in seen]
        return lost, sum("'system'" not in message for message in self.sent)


def facts(text):
    return re.findall(r"fact\d+", text)


def story(turns, first=0, say="and so we went on to the fact{}"):
    """Ends with what the user says in the last turn; `first`: its first fact. Answers differ in length."""
    messages = [{"role": "system", "content": "You are Mara."}]
    for turn in range(turns):
        fact, more = first + 2 * turn, "word " * (5 + turn * 7 % 11)
        messages.append({"role": "user", "content": say.format(fact)})
        messages.append({"role": "assistant", "content": f"fact{fact + 1} {more}"})
    return messages[:-1]


@pytest.fixture
def telling(house):
    return Telling(house)


class TestNothingIsLeftOut:
    @pytest.mark.parametrize("steady", [False, True])
    def test_of_a_chat_that_grows(self, telling, steady):
        """Before the first summary, and with each one after it."""
        telling.house.write("Workflows/ana/Compact", {**COMPACT, "steadyWindow": steady})
        for turns in range(1, 40):
            assert telling.turn(story(turns))[0] == []

    def test_of_a_chat_that_began_again_under_its_id(self, telling):
        """The summary is that of the other one, and nothing is due yet."""
        for turns in range(1, 30):
            telling.turn(story(turns))
        for turns in range(1, 14):
            assert telling.turn(story(turns, first=1000))[0] == []

    def test_of_a_chat_in_which_the_user_says_the_same_each_turn(self, telling):
        """The message that the summary ends with stands in many places."""
        telling.house.write("Workflows/ana/Compact", {**COMPACT, "lookbackStartTurn": 2})
        for turns in range(1, 40):
            assert telling.turn(story(turns, say="continue"))[0] == []


class TestWithoutASummary:
    """What has no bound is cut as ever."""

    def test_a_long_chat_is_cut_as_with_true(self, telling):
        """More than the compactor keeps as it is: it came from elsewhere, or no summary can be made."""
        assert 4 <= telling.turn(story(60))[1] <= 16

    @pytest.mark.parametrize("settings", [None, {**COMPACT, "recentContextTokens": "many"}])
    def test_so_is_one_that_nothing_compacts(self, telling, settings):
        """Without settings, or with such as cannot be used."""
        telling.house.user["contextCompactorSettingsFile"] = "Compact" if settings else ""
        telling.house.write("Workflows/ana/Compact", settings or COMPACT)
        assert 4 <= telling.turn(story(12))[1] <= 16
