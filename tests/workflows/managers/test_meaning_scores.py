"""Scores of a message against the examples of categories: the vectors of the specification, and laws."""

from __future__ import annotations

import math
import random

import pytest

from Middleware.config.workflows import ByMeaning
from Middleware.utilities.vector_math import cosine
from Middleware.workflows.managers.meaning_scores import MOST_CHARS, Examples, text_to_compare

A = ("A", [("a1", (1.0, 0.0)), ("a2", (0.8, 0.6))])
B = ("B", [("b1", (0.0, 1.0)), ("b2", (0.6, 0.8))])


def scores_of(*known, vector):
    return Examples.of(known).scores(vector)


class TestScores:
    def test_the_vectors_of_the_specification(self):
        """agents.md 10."""
        examples = Examples.of([A, B])
        scores = examples.scores((1.0, 0.0))
        assert examples.baseline == pytest.approx(0.54)
        assert [(s.category, round(s.score, 2), s.example) for s in scores.ranked] == [
            ("A", 1.0, "a1"),
            ("B", 0.13, "b2"),
        ]
        assert str(scores) == "by meaning: A 1.00, next B 0.13"

    def test_lengths_of_vectors_do_not_matter(self):
        """Only their directions count."""
        longer = ("A", [(text, [x * 7 for x in vector]) for text, vector in A[1]])
        assert str(scores_of(longer, B, vector=(3.0, 0.0))) == "by meaning: A 1.00, next B 0.13"

    def test_a_vector_without_length_is_near_to_nothing(self):
        """Some servers answer an empty text so."""
        assert all(score.score < 0 for score in scores_of(A, B, vector=(0.0, 0.0)).ranked)

    def test_of_equal_ones_the_first_in_the_file(self):
        """Both are as near."""
        twins = [(name, [("t", (1.0, 0.0)), (name, own)]) for name, own in (("Z", (0, 1)), ("A", (0, -1)))]
        assert [s.category for s in scores_of(*twins, vector=(1.0, 0.0)).ranked] == ["Z", "A"]

    def test_the_baseline_is_the_mean_of_all_pairs_of_different_categories(self):
        """However many categories and examples there are."""
        rng = random.Random(7)
        known = [
            (str(c), [(f"{c}.{i}", [rng.gauss(0, 1) for _ in range(9)]) for i in range(c + 1)])
            for c in range(5)
        ]
        pairs = [
            cosine(one, other)
            for c, (_, ones) in enumerate(known)
            for _, others in known[c + 1 :]
            for _, one in ones
            for _, other in others
        ]
        assert Examples.of(known).baseline == pytest.approx(math.fsum(pairs) / len(pairs))

    @pytest.mark.parametrize(
        "known", [[A], [A, ("B", [("b", (1.0, 0.0)), ("c", (0.8, 0.6))]), A]], ids=["one", "alike"]
    )
    def test_what_cannot_be_told_apart(self, known):
        """One category alone, or categories that are the same."""
        alike = [(name, [(text, (1.0, 0.01)) for text, _ in pairs]) for name, pairs in known]
        assert not Examples.of(alike).tell_apart

    def test_examples_that_spoil_each_other(self):
        """Of different categories, over 0.5, the nearest first."""
        pairs = Examples.of([A, B, ("C", [("c", (0.1, 1.0))])]).near_pairs()
        assert [(p.one, p.other) for p in pairs] == [
            (("B", "b1"), ("C", "c")),
            (("A", "a2"), ("B", "b2")),
            (("B", "b2"), ("C", "c")),
        ]
        assert Examples.of([("A", A[1][:1]), ("B", B[1][:1])]).near_pairs() == []


class TestDecision:
    WANTED = ByMeaning("e", threshold=0.25, margin=0.12)

    @pytest.mark.parametrize(
        ("best", "second", "is_taken"),
        [
            (0.25, 0.0, True),
            (0.249, 0.0, False),
            (0.5, 0.38, True),
            (0.5, 0.381, False),
            (1.0, 1.0, False),
            (-0.2, -0.9, False),
        ],
    )
    def test_near_enough_and_nearer_than_the_next(self, best, second, is_taken):
        """Both limits count, and each is enough when it is just reached."""
        examples = Examples.of([("A", [("a", (1, 0, 0))]), ("B", [("b", (0, 1, 0))])])
        rest = math.sqrt(max(0.0, 1 - best * best - second * second))
        scores = examples.scores((best, second, rest)) if rest else examples.scores((1, 1, 0))
        assert (scores.taken(self.WANTED) == "A") is is_taken


def user(*texts):
    return [{"role": "user", "content": text} for text in texts]


class TestTextToCompare:
    LONG = "what is the height of K2?"

    def test_the_newest_user_message(self):
        """Whatever the assistant and tools said behind it."""
        messages = [*user("the first one, long enough", self.LONG), {"role": "tool", "content": "8611"}]
        assert text_to_compare(messages, ByMeaning("e")) == self.LONG

    def test_several_messages(self):
        """Joined by newlines."""
        assert (
            text_to_compare(user("no", "one", self.LONG), ByMeaning("e", messages=2)) == f"one\n{self.LONG}"
        )

    def test_a_short_one_takes_those_before_it_along(self):
        """Until there is enough of it."""
        assert text_to_compare(user("no", self.LONG, "", "go on", "ok"), ByMeaning("e")) == (
            f"{self.LONG}\ngo on\nok"
        )

    def test_bytes_count_and_not_letters(self):
        """Six characters of Japanese say more than six of English."""
        assert text_to_compare(user("富士山の高さ"), ByMeaning("e")) == "富士山の高さ"

    @pytest.mark.parametrize(
        "messages",
        [
            [],
            user("ok"),
            user("ok", "go on"),
            user("  ok" + " " * 30),
            [{"role": "assistant", "content": LONG}],
        ],
        ids=["nothing", "short", "short in all", "blanks", "no user"],
    )
    def test_too_little(self, messages):
        """Nothing is compared."""
        assert text_to_compare(messages, ByMeaning("e")) is None

    def test_a_picture_alone(self):
        """It is about the picture, not about what was written before it."""
        messages = [*user(self.LONG), {"role": "user", "content": "", "images": ["x"]}]
        assert text_to_compare(messages, ByMeaning("e")) is None

    def test_the_end_of_a_long_text(self):
        """At most so many characters."""
        assert text_to_compare(user("a" * 3000 + "z"), ByMeaning("e")) == "a" * (MOST_CHARS - 1) + "z"

    def test_a_tag_of_the_house_is_no_part_of_it(self):
        """`chatCompleteAddUserAssistant` puts it there."""
        assert text_to_compare(user(f"User: {self.LONG}"), ByMeaning("e"), has_tags=True) == self.LONG
        assert text_to_compare(user("User: ok, do that"), ByMeaning("e"), has_tags=True) is None

    def test_half_a_character(self):
        """Bad JSON brings one; it must not fail."""
        assert text_to_compare(user("\ud800" * 6), ByMeaning("e")) == "\ud800" * 6
