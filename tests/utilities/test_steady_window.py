"""Where a steady window begins. The vectors are those of spec prompt-reuse.md 9, the laws those of its 10."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from Middleware.utilities.hashing_utils import StampedMessage
from Middleware.utilities.prompt_extraction_utils import message_cost, newest_within
from Middleware.utilities.steady_window import (
    begin_of_messages,
    landmarks,
    message_mark,
    needed_length,
    newest_steady,
)

CASES = 2000


def chat(length):
    """`u0 a0 u1 a1 ...`: a user and an assistant in turn."""
    roles = (("user", "u"), ("assistant", "a"))
    return [said(roles[place % 2][0], f"{roles[place % 2][1]}{place // 2}") for place in range(length)]


def said(role, content):
    return {"role": role, "content": content}


def random_chat(luck, length, *, words=9):
    """A user and an assistant in turn, with a tool's result or a second speaker now and then."""
    messages, role = [], "user"
    for _ in range(length):
        messages.append(said(role, " ".join(str(luck.random()) for _ in range(luck.randint(0, words)))))
        others = {"user": "assistant", "assistant": "user", "tool": "assistant"}
        role = others[role] if luck.random() < 0.9 else luck.choice(["assistant", "tool", "user"])
    return messages


def tokens(messages):
    return sum(map(message_cost, messages))


def steady(messages, budget, keep=1):
    return newest_steady(reversed(messages), budget=budget, minimum=1, cost=message_cost, keep=keep)


class TestMark:
    @pytest.mark.parametrize(
        ("place", "mark"), [(0, "aa5ae6458eb34a32"), (2, "0feb95d78c6f8050"), (20, "8c5599dc8ba6696d")]
    )
    def test_is_that_of_the_specification(self, place, mark):
        """Eight bytes of the SHA-256 of both contents, with a zero character between them."""
        messages = chat(30)

        assert message_mark(messages[place], messages[place + 1]).hex() == mark

    def test_half_a_character_has_one(self):
        """A lone surrogate, which clients send for a cut emoji, is no error."""
        assert len(message_mark(said("user", "\ud83d"), said("assistant", "ok"))) == 8

    def test_does_not_know_of_timestamps(self):
        """A message has the same mark with and without its timestamp."""
        plain, behind = said("user", "u0"), said("assistant", "a0")

        assert message_mark(StampedMessage(plain, "(12:00) u0"), behind) == message_mark(plain, behind)


class TestLandmarks:
    def test_are_undercut_by_nothing_near(self):
        """A mark that a smaller one stands next to is none; equal ones do not undercut each other."""
        marks = [(0, b"5"), (2, b"3"), (4, b"4"), (12, b"9"), (14, b"9"), (30, b"7")]

        assert landmarks(marks, 8) == [2, 14, 30]
        assert landmarks(marks, 7) == [2, 12, 14, 30]

    def test_are_those_of_the_plain_rule(self):
        """The stack finds what a comparison of each with each finds."""
        luck = random.Random(1)
        for _ in range(CASES):
            places = sorted(luck.sample(range(80), luck.randint(0, 40)))
            marks = [(place, bytes([luck.randint(0, 9)])) for place in places]
            reach = luck.randint(0, 20)

            plain = [i for i, m in marks if all(m <= other for j, other in marks if abs(i - j) <= reach)]
            assert landmarks(marks, reach) == plain


class TestWindowOfMessages:
    @pytest.mark.parametrize(
        ("length", "count", "slack", "begins"),
        [
            (9, 10, 30, 0),
            (21, 10, 30, 2),
            (25, 10, 30, 2),
            (61, 10, 30, 44),
            (63, 10, 30, 44),
            (99, 10, 30, 82),
            (119, 30, 90, 82),
            (117, 30, 90, 82),
            (61, 5, 15, 54),
            (61, 10, 8, 44),
            (79, 12, 36, 66),
            (45, 7, 21, 36),
        ],
    )
    def test_begins_where_the_specification_says(self, length, count, slack, begins):
        """The vectors of section 9."""
        assert begin_of_messages(chat(length), count, slack) == begins

    @pytest.mark.parametrize("count", [0, 1, 2])
    def test_a_very_small_one_moves_as_ever(self, count):
        """Fewer than three messages are a question, not context."""
        assert begin_of_messages(chat(61), count, 30) == 61 - count

    def test_without_a_user_begins_with_an_assistant(self):
        """An agent's loop holds no user messages; it stands all the same."""
        loop = [said("tool" if place % 2 else "assistant", f"{place}") for place in range(60)]
        begins = {begin_of_messages(loop[:end], 10, 30) for end in range(52, 57)}

        assert len(begins) <= 2
        assert {loop[begin]["role"] for begin in begins} == {"assistant"}

    def test_without_either_moves_as_ever(self):
        """System messages alone have no place to begin at."""
        assert begin_of_messages([said("system", str(n)) for n in range(60)], 10, 30) == 50

    def test_holds_its_number_and_is_the_same_without_older_messages(self):
        """It holds N to N + S messages, or all; and no more than `needed_length` messages are looked at."""
        luck = random.Random(2)
        for _ in range(CASES):
            messages = random_chat(luck, luck.randint(0, 150), words=2)
            count, slack = luck.randint(3, 40), luck.randint(8, 120)
            begin = begin_of_messages(messages, count, slack)

            held = len(messages) - begin
            assert min(count, len(messages)) <= held <= count + slack
            cut = messages[-needed_length(count, slack) :]
            assert len(cut) - begin_of_messages(cut, count, slack) == held

    def test_stands_although_the_client_drops_its_oldest_messages(self):
        """In at least 99.9 % of the cases, for the range may hold no landmark. Row 3 of section 10."""
        luck, moved = random.Random(3), 0
        for _ in range(CASES):
            count = luck.randint(10, 50)
            messages = random_chat(luck, luck.randint(count + 1, 8 * count), words=2)
            begin = begin_of_messages(messages, count, 3 * count)
            dropped = luck.randint(0, begin)
            moved += begin_of_messages(messages[dropped:], count, 3 * count) != begin - dropped

        assert moved <= CASES // 1000

    @pytest.mark.parametrize("same_words", [False, True])
    def test_its_first_message_stays(self, same_words):
        """It moves in at most 2.5 / N of the turns, also where the user sends the same words all the time."""
        luck = random.Random(4)
        for count in (10, 20, 35, 50):
            begins = self.begins_of_a_long_chat(luck, count, same_words)

            moves = sum(a != b for a, b in pairwise(begins))
            assert moves / len(begins) <= 2.5 / count, count

    def begins_of_a_long_chat(self, luck, count, same_words):
        """Where the window begins in each turn, for as many turns as 80 windows have messages."""
        length, needed = 80 * count, needed_length(count, 3 * count)
        messages = []
        for _ in range(0, length, 2):
            messages.append(said("user", "continue" if same_words else f"u{luck.random()}"))
            messages.append(said("assistant", f"a{luck.random()}"))
        begins = []
        for end in range(needed + 1, length, 2):
            seen = messages[end - needed : end]
            begins.append(end - needed + begin_of_messages(seen, count, 3 * count))
        return begins


class TestWindowOfTokens:
    def test_holds_what_fits(self):
        """Where all fits, all is there."""
        assert steady(chat(20), 1000) == chat(20)

    def test_is_within_the_budget_and_never_empty(self):
        """Never more than L, at least half of it where a message to begin with leaves so much, a suffix."""
        luck = random.Random(5)
        for _ in range(CASES):
            messages = random_chat(luck, luck.randint(1, 90))
            budget, keep = luck.randint(20, 2000), luck.randint(1, 6)
            window = steady(messages, budget, keep)

            assert window == messages[-len(window) :]
            assert len(window) == 1 or tokens(window) <= budget
            fitting = newest_within(reversed(messages), budget=budget)
            assert len(window) >= min(keep, len(fitting))
            assert window == fitting or tokens(window) * 2 >= budget

    def test_is_the_same_while_the_rest_is_over_the_budget(self):
        """Messages that a client drops outside of the window change nothing while what is left does not fit."""
        luck = random.Random(6)
        for _ in range(CASES):
            messages = random_chat(luck, luck.randint(2, 90))
            budget = luck.randint(20, 600)
            window = steady(messages, budget)
            rest = messages[luck.randint(0, len(messages) - len(window)) :]
            expected = window if tokens(rest) > budget else rest

            assert steady(rest, budget) == expected

    @pytest.mark.parametrize("same_words", [False, True])
    def test_its_first_message_stays(self, same_words):
        """A window of some fifty messages, half of which may be its first, moves in a fifth of the turns at
        most.
        """
        luck = random.Random(7)
        messages = []
        for _ in range(400):
            messages.append(said("user", "go on and on" if same_words else f"{luck.random()}"))
            messages.append(said("assistant", f"{luck.random()} {luck.random()}"))
        budget = tokens(messages[-50:])
        begins = [steady(messages[:end], budget)[0] for end in range(101, 800, 2)]

        assert sum(a is not b for a, b in pairwise(begins)) <= len(begins) // 5
