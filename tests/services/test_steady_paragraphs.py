"""Which paragraphs of a client's system text stand in front, and which behind (prompt-reuse.md 2.1)."""

from __future__ import annotations

import random
from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Middleware.services.steady_paragraphs import (
    RIPE_AFTER,
    SystemParts,
    cut_paragraphs,
    first_parts,
    next_front,
    parts_of,
    system_paragraphs,
)


def system(*texts):
    return [{"role": "system", "content": text} for text in texts]


def by_themselves(texts):
    """Paragraphs that are their own digests."""
    return {text: text for text in texts}


class Chat:
    """A chat from its first prompt on. `turn` gives the two parts of the next prompt, as lists of paragraphs."""

    def __init__(self, *, characters=100_000):
        self.front, self.characters = None, characters

    def turn(self, *texts):
        paragraphs = by_themselves(texts)
        self.front = next_front(self.front, paragraphs, self.characters)
        parts = parts_of(self.front, paragraphs)
        return [part.split("\n\n") if part else [] for part in parts]


class TestParagraphs:
    @pytest.mark.parametrize(
        ("text", "paragraphs"),
        [
            pytest.param("", [], id="nothing"),
            pytest.param(" \n\t\n", [], id="blanks"),
            pytest.param("a", ["a"], id="one"),
            pytest.param("a\nb", ["a\nb"], id="lines-of-one"),
            pytest.param("a\n\nb", ["a", "b"], id="two"),
            pytest.param("a\n \t \n\n\nb", ["a", "b"], id="lines-of-blanks"),
            pytest.param("\n\n  a \n\n", ["  a "], id="its-own-blanks-stay"),
            pytest.param("a\r\nb\r\n\r\nc\r\n", ["a\r\nb", "c"], id="lines-of-windows"),
        ],
    )
    def test_lines_of_blanks_part_them(self, text, paragraphs):
        """Their own lines stay as they are."""
        assert list(cut_paragraphs(text)) == paragraphs

    def test_each_message_is_cut_by_itself(self):
        """A blank between two messages would glue two entries."""
        messages = system("a\n\nb", "c")
        assert list(system_paragraphs(messages, everywhere=False)) == ["a", "b", "c"]

    @pytest.mark.parametrize(("everywhere", "found"), [(False, ["a"]), (True, ["a", "b"])])
    def test_which_messages(self, everywhere, found):
        """The leading ones, or all."""
        messages = [*system("a"), {"role": "user", "content": "u"}, *system("b")]
        assert list(system_paragraphs(messages, everywhere=everywhere)) == found


class TestSteadyAndChanged:
    def test_the_first_prompt_is_steady(self):
        """All of it."""
        assert Chat().turn("card", "scene") == [["card", "scene"], []]

    def test_what_comes_later_is_changed(self):
        """As long as it comes, in the client's order."""
        chat = Chat()
        chat.turn("card", "scene")
        assert chat.turn("lore 1", "card", "lore 2", "scene") == [["card", "scene"], ["lore 1", "lore 2"]]
        assert chat.turn("lore 2", "lore 1", "card", "scene") == [["card", "scene"], ["lore 2", "lore 1"]]
        assert chat.turn("card", "lore 2", "scene") == [["card", "scene"], ["lore 2"]]

    def test_steady_ones_keep_their_order(self):
        """Whatever order the client has now."""
        chat = Chat()
        chat.turn("a", "b", "c")
        assert chat.turn("c", "b", "a") == [["a", "b", "c"], []]

    def test_what_is_not_sent_is_not_said(self):
        """And comes back as changed."""
        chat = Chat()
        chat.turn("card", "scene")
        assert chat.turn("scene") == [["scene"], []]
        assert chat.turn("card", "scene") == [["scene"], ["card"]]

    def test_twice_counts_once(self):
        """In front and behind."""
        messages = system("a\n\na", "a\n\nb")
        assert first_parts(messages, everywhere=False) == SystemParts("a\n\nb", "")

    def test_a_chat_may_begin_without(self):
        """Then all that comes is changed."""
        chat = Chat()
        assert chat.turn() == [[], []]
        assert chat.turn("lore") == [[], ["lore"]]


class TestMadeSteady:
    def test_a_card_that_was_exchanged_for_good(self):
        """Comes to the front when the prompts that held it late cost more than reading one again."""
        chat = Chat(characters=10_000)
        chat.turn("old card", "scene")
        new = "x" * 2000
        late = [chat.turn(new, "scene") for _ in range(RIPE_AFTER - 1)]
        assert late == [[["scene"], [new]]] * (RIPE_AFTER - 1)
        assert chat.turn(new, "scene") == [[new, "scene"], []]
        assert chat.turn(new, "scene", "lore") == [[new, "scene"], ["lore"]]

    def test_not_while_it_costs_less_than_the_prompt(self):
        """A short entry may stay late for long."""
        chat = Chat(characters=1000)
        chat.turn("card")
        seen = [chat.turn("card", "x" * 100)[1] for _ in range(11)]
        assert [bool(late) for late in seen] == [True] * 10 + [False]

    def test_all_that_are_ripe_are_counted(self):
        """One alone would not pay."""
        chat = Chat(characters=1500)
        chat.turn("card")
        entries = ["x" * 100, "y" * 100]
        seen = [chat.turn("card", *entries) for _ in range(RIPE_AFTER)]
        assert seen[-2:] == [[["card"], entries], [["card", *entries], []]]

    def test_one_that_came_later_stays_late(self):
        """Its turns are counted from its own first one."""
        chat = Chat(characters=500)
        chat.turn("card")
        for _ in range(RIPE_AFTER - 1):
            chat.turn("x" * 100, "card")
        assert chat.turn("x" * 100, "new", "card") == [["x" * 100, "card"], ["new"]]

    def test_what_was_away_once_begins_again(self):
        """Only prompts in a row count."""
        chat = Chat(characters=500)
        chat.turn("card")
        for _ in range(RIPE_AFTER - 1):
            chat.turn("card", "x" * 100)
        chat.turn("card")
        seen = [chat.turn("card", "x" * 100)[1] for _ in range(RIPE_AFTER)]
        assert [bool(late) for late in seen] == [True] * (RIPE_AFTER - 1) + [False]

    def test_the_cards_of_a_group_never_come_to_the_front(self):
        """Each prompt holds another one."""
        chat = Chat(characters=0)
        cards = [letter * 3000 for letter in "abc"]
        chat.turn(cards[0], "shared")
        seen = [chat.turn(cards[number % 3], "shared") for number in range(1, 60)]
        assert seen == [[["shared"], [cards[number % 3]]] for number in range(1, 60)]


PARAGRAPH = st.sampled_from([f"p{number} " + "x" * number**2 for number in range(12)])
TEXTS = st.lists(st.lists(PARAGRAPH, max_size=8), min_size=1, max_size=30)


@given(TEXTS, st.integers(0, 3000))
def test_both_together_hold_every_paragraph_once(texts, characters):
    """Over random edits of a system text, whatever the prompts cost."""
    chat = Chat(characters=characters)
    for text in texts:
        steady, changed = chat.turn(*text)
        assert sorted(steady + changed) == sorted(set(text))


@given(TEXTS)
def test_the_front_of_a_chat_only_loses(texts):
    """While nothing is made steady: what stood in front before and is still sent stands there, in its order."""
    chat = Chat(characters=10**9)
    before, _ = chat.turn(*texts[0])
    for text in texts[1:]:
        steady, _ = chat.turn(*text)
        assert steady == [paragraph for paragraph in before if paragraph in text]
        before = steady


# --- what a model server reads anew, prompt by prompt, when the changed part stands late ---

TURNS = 80
NEW_MESSAGE, ANSWER, SHARED, CARD = 340, 390, 800, 3000


def prose(seed, size):
    """Words that no other seed has in this order."""
    words = random.Random(seed)
    return " ".join(words.choice(["river", "stone", "lamp", "harbour", "engine"]) for _ in range(size))[:size]


def group_of_cards():
    """The paragraphs of each turn: a card of the group in turn, then what they share."""
    cards, shared = [prose(f"card {letter}", CARD) for letter in "abc"], prose("shared", SHARED)
    return [[cards[turn % 3], shared] for turn in range(TURNS)]


def lorebook():
    """A card that stays, and fourteen entries; each comes by chance and stays for one to five turns."""
    chance = random.Random("lore")
    card, entries = prose("card", CARD), [prose(f"entry {number}", 400) for number in range(14)]
    until = [0] * len(entries)
    turns = []
    for turn in range(TURNS):
        for number in range(len(entries)):
            if until[number] <= turn and chance.random() < 0.1:
                until[number] = turn + chance.randint(1, 5)
        turns.append([*(entry for entry, end in zip(entries, until, strict=True) if end > turn), card])
    return turns


def common(one, other):
    """How many characters two texts begin with in common."""
    return bisect_left(range(len(other)), True, key=lambda end: one[: end + 1] != other[: end + 1])


def read_anew(turns, *, late):
    """Characters read anew and changed text, of the second half's turns, at a server that holds one prompt."""
    front, talk, held, rows = None, [], "", []
    for turn, texts in enumerate(turns):
        paragraphs = by_themselves(texts)
        said = prose(f"user {turn}", NEW_MESSAGE)
        front = next_front(front, paragraphs, sum(map(len, [*talk, said, *texts])))
        steady, changed = parts_of(front, paragraphs) if late else ("\n\n".join(texts), "")
        prompt = "\n".join([steady, *talk, said]) + (f"\n\n{changed}" if changed else "")
        rows.append((len(prompt) - common(held, prompt), len(changed)))
        answer = prose(f"answer {turn}", ANSWER)
        held = f"{prompt}\n{answer}"
        talk += [said, answer]
    half = rows[TURNS // 2 :]
    return [sum(column) / len(half) for column in zip(*half, strict=True)]


@pytest.mark.parametrize("turns", [group_of_cards(), lorebook()], ids=["group", "lorebook"])
def test_what_is_read_anew(turns):
    """The changed text and what was said since; today it is nearly the whole prompt."""
    anew, changed = read_anew(turns, late=True)
    assert anew <= 1.25 * changed + 1800
    assert read_anew(turns, late=False)[0] > 5 * anew
