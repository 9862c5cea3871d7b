"""Which chat a prompt belongs to, and for how long it is remembered (prompt-reuse.md 2.1)."""

from __future__ import annotations

import pytest

from Middleware.services.chat_fronts import ChatFronts, ChatOwner
from Middleware.services.shared_state.member import Member
from Middleware.services.shared_state.store import MOST_NOTES, NOTE_LIFE_S, MemoryStore, Tables
from Middleware.services.steady_paragraphs import SystemParts
from tests.clock import Clock

ANA = ChatOwner("ana")
LORE = SystemParts("Card.", "Lore.")
ALL_STEADY = SystemParts("Card.\n\nLore.", "")


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def fronts(clock):
    member = Member(MemoryStore(clock=clock))
    return ChatFronts(lambda: member)


def prompt(system, *turns):
    """A system message, then a user's and an assistant's turns."""
    roles = ("user", "assistant")
    talk = [{"role": roles[number % 2], "content": turn} for number, turn in enumerate(turns)]
    return [{"role": "system", "content": system}, *talk]


def ask(fronts, system, *turns, chat_id=None, owner=ANA, everywhere=False):
    return fronts.parts(owner, chat_id, prompt(system, *turns), everywhere=everywhere)


class TestById:
    def test_the_first_prompt_and_the_next(self, fronts):
        """What comes later is changed."""
        assert ask(fronts, "Card.", "A", chat_id="d") == SystemParts("Card.", "")
        assert ask(fronts, "Lore.\n\nCard.", "A", "B", "C", chat_id="d") == LORE

    def test_chats_are_apart(self, fronts):
        """By their ids, whatever their messages are."""
        ask(fronts, "Card.", "A", chat_id="d")
        assert ask(fronts, "Card.\n\nLore.", "A", "B", "C", chat_id="e") == ALL_STEADY

    @pytest.mark.parametrize("owner", [ChatOwner("ben"), ChatOwner("ana", "key")], ids=["user", "key"])
    def test_owners_are_apart(self, fronts, owner):
        """An id of one is nobody else's."""
        ask(fronts, "Card.", "A", chat_id="d")
        assert ask(fronts, "Card.\n\nLore.", "A", "B", "C", chat_id="d", owner=owner) == ALL_STEADY

    def test_nothing_in_common(self, fronts):
        """The chat was begun again under its id."""
        ask(fronts, "Card.", "A", chat_id="d")
        assert ask(fronts, "Card.\n\nLore.", "other", chat_id="d") == ALL_STEADY

    def test_an_answer_made_again(self, fronts):
        """The same messages are one chat."""
        ask(fronts, "Card.", "A", chat_id="d")
        assert ask(fronts, "Card.\n\nLore.", "A", chat_id="d") == LORE


class TestByMessages:
    def test_the_next_prompt_has_messages_of_the_last(self, fronts):
        """So it is of the same chat."""
        ask(fronts, "Card.", "A")
        assert ask(fronts, "Card.\n\nLore.", "A", "B", "C") == LORE

    def test_none_in_common_is_a_new_chat(self, fronts):
        """The system text does not tell: the same character may have many chats."""
        ask(fronts, "Card.", "A")
        assert ask(fronts, "Card.\n\nLore.", "B") == ALL_STEADY

    @pytest.mark.parametrize("turns", [["", "Hi, Ana.", "A"], ["A"]], ids=["greeting", "alone"])
    @pytest.mark.parametrize("card", ["Other card.", "Other card.\n\nPersona."], ids=["all", "most"])
    def test_another_chat_that_opens_with_the_same_words(self, fronts, turns, card):
        """One message does not make it the same chat where the card is another one."""
        ask(fronts, "Card.\n\nPersona.", "A")
        assert ask(fronts, card, *turns) == SystemParts(card, "")
        assert ask(fronts, f"{card}\n\nLore.", *turns, "B", "C") == SystemParts(card, "Lore.")

    def test_a_long_chat_and_one_that_opens_with_its_last_words(self, fronts):
        """A few of its last messages are no more than one."""
        ask(fronts, "Card.", *(f"turn {number}" for number in range(8)), "continue", "go on")
        assert ask(fronts, "Other card.", "continue", "go on") == SystemParts("Other card.", "")

    def test_a_group_whose_prompts_have_nothing_but_the_speakers_card(self, fronts):
        """It is told by its messages; the cards stay late."""
        turns = [f"turn {number}" for number in range(20)]
        for end in range(3, 20):
            card = f"Card of {'AB'[end % 2]}."
            parts = ask(fronts, card, *turns[:end])
            assert parts == (SystemParts(card, "") if end == 3 else SystemParts("", card))

    def test_a_client_that_drops_its_oldest_messages(self, fronts):
        """The first user message is another one each time, the chat is not."""
        turns = [f"turn {number} " + "x" * 90 for number in range(60)]
        ask(fronts, "Card.", *turns[:21])
        for end in range(23, 60, 2):
            assert ask(fronts, "Card.\n\nLore.", *turns[end - 13 : end]) == LORE

    def test_the_one_with_most_in_common(self, fronts):
        """Though another one was used later."""
        ask(fronts, "Card.", "one", "two")
        ask(fronts, "Card.\n\nLore.", "go on")
        assert ask(fronts, "Card.\n\nLore.", "one", "two", "go on") == LORE

    def test_of_several_the_newest(self, fronts):
        """Both have one message in common."""
        ask(fronts, "Card.", "one")
        ask(fronts, "Card.\n\nLore.", "two")
        assert ask(fronts, "Card.\n\nLore.", "two", "one", "three") == ALL_STEADY

    def test_only_the_newest_messages_count(self, fronts):
        """A branch far back is a chat of its own."""
        turns = [f"turn {number}" for number in range(21)]
        ask(fronts, "Card.", *turns)
        assert ask(fronts, "Card.\n\nLore.", *turns[:11]) == ALL_STEADY

    def test_many_results_of_tools_in_one_turn(self, fronts):
        """The messages of the last prompt stand far from the end."""
        ask(fronts, "Card.", "A", "B", "C")
        results = [{"role": "tool", "content": f"result {number}"} for number in range(30)]
        messages = [*prompt("Card.\n\nLore.", "A", "B", "C"), *results]
        assert fronts.parts(ANA, None, messages, everywhere=False) == LORE

    def test_blank_messages_are_no_sign(self, fronts):
        """Calls of tools without a text look the same in every chat."""
        ask(fronts, "Card.", "A", "")
        assert ask(fronts, "Card.\n\nLore.", "B", "") == ALL_STEADY

    def test_a_tag_that_has_gone_with_the_oldest_messages(self, fronts):
        """The chat is found by what it said."""
        ask(fronts, "Card.", "A", "B", "C", chat_id="d")
        assert ask(fronts, "Card.\n\nLore.", "C", "D", "E") == LORE


@pytest.mark.parametrize("chat_id", ["d", None], ids=["id", "messages"])
def test_a_question_without_a_system_text(fronts, chat_id):
    """A front end asks one of its own about the chat: the next prompt is as if it had not been there."""
    ask(fronts, "Card.", "A", "B", "C", chat_id=chat_id)
    assert ask(fronts, "", "A", "B", "Give a title.", chat_id=chat_id) == SystemParts("", "")
    assert ask(fronts, "Card.\n\nLore.", "A", "B", "C", "D", "E", chat_id=chat_id) == LORE


class TestHowLong:
    @pytest.mark.parametrize("chat_id", ["d", None], ids=["id", "messages"])
    def test_an_hour_of_silence(self, fronts, clock, chat_id):
        """Then all is steady again; until then each prompt begins the hour again."""
        ask(fronts, "Card.", "A", chat_id=chat_id)
        clock.now += NOTE_LIFE_S - 1
        assert ask(fronts, "Card.\n\nLore.", "A", chat_id=chat_id) == LORE
        clock.now += NOTE_LIFE_S
        assert ask(fronts, "Card.\n\nLore.", "A", chat_id=chat_id) == LORE
        clock.now += NOTE_LIFE_S + 1
        assert ask(fronts, "Card.\n\nLore.", "A", chat_id=chat_id) == ALL_STEADY

    def test_a_thousand_chats(self, fronts):
        """The one that was unused for the longest time is forgotten."""
        for number in range(MOST_NOTES):
            ask(fronts, "Card.", f"A {number}", chat_id=f"d{number}")
        ask(fronts, "Card.", "A 0", chat_id="d0")
        ask(fronts, "Card.", "new", chat_id="new")
        assert ask(fronts, "Card.\n\nLore.", "A 0", chat_id="d0") == LORE
        assert ask(fronts, "Card.\n\nLore.", "A 1", chat_id="d1") == ALL_STEADY


def test_which_system_messages(fronts):
    """Nodes of completions APIs have all of them; the two do not get in each other's way."""
    late = {"role": "system", "content": "Note."}
    for lore in ("", "\n\nLore."):
        messages = [*prompt(f"Card.{lore}", "A", "B"), late, {"role": "user", "content": "C"}]
        leading = fronts.parts(ANA, "d", messages, everywhere=False)
        everywhere = fronts.parts(ANA, "d", messages, everywhere=True)
    assert leading == LORE
    assert everywhere == SystemParts("Card.\n\nNote.", "Lore.")


def test_no_text_is_kept():
    """Neither of the system prompt nor of the messages, nor who it is."""
    tables = Tables()
    member = Member(MemoryStore("one", tables))
    ask(
        ChatFronts(lambda: member),
        "Secret card.",
        "Secret word",
        chat_id="secret-id",
        owner=ChatOwner("ana", "k"),
    )
    assert tables.notes
    assert not any(word in repr(tables.notes) for word in ("Secret", "secret", "ana"))


def test_halves_of_surrogate_pairs(fronts):
    """Clients send them; they are texts as any other."""
    ask(fronts, "Card.", "A\ud83d", chat_id="d\ud83d")
    assert ask(fronts, "Card.\n\nL\ud83d", "A\ud83d", chat_id="d\ud83d") == SystemParts("Card.", "L\ud83d")
