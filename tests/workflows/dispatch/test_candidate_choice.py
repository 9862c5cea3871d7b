"""Votes, a judge's reply and the list that it is shown: the vectors of the specification, and odd texts."""

from __future__ import annotations

import pytest

from Middleware.workflows.dispatch.candidate_choice import (
    Ballot,
    filled_in,
    listed,
    named_best,
    vote_reader,
)

EQUAL = [
    ("last_number", ["8", "It is 8.", "8.0", "So: 8", "7 or 8", "x = +8", "**8**", "$8", "8 km", "8%"]),
    ("last_number", ["1,000", "1000", "1000.0", "It costs 1,000."]),
    ("last_number", ["-3", "minus -3.0", "\u22123"]),
    ("last_line", ["x\nred", "red", "y\n  RED \n\n", "Red\r\n"]),
    ("json:/a/0/b~1c", ['{"a": [{"b/c": 8}]}', 'so:\n```json\n{"a": [{"b/c": 8.0,}]}\n```']),
    ("json:/x", ['{"x": {"p": 1, "q": [2.0]}}', '{"x": {"q": [2], "p": 1}}']),
    ("json:", ['{"x": 1}', ' {"x": 1.0} ']),
    (r"Answer: *(.*)", ["Answer: Red\nmore", "I think.\nAnswer:  red ", "Answer: RED\nAnswer: blue"]),
    (r"= (\S+)", ["x = 8", "x = 8.0", "x = 1 = 2 ".replace("1", "8")]),
]
DIFFERENT = [
    ("last_number", ["8", "-8", "80", "0.8", "8.5"]),
    ("last_number", ["1,2,3", "1,2,4"]),
    ("last_line", ["red", "red.", "a\nblue"]),
    ("json:/x", ['{"x": 1}', '{"x": true}', '{"x": "1"}', '{"x": null}', '{"x": [1]}', '{"x": {"x": 1}}']),
]
SILENT = [
    ("last_number", ["", "none", "v2", "H2O", "9" * 500]),
    ("last_line", ["", " \n\t\n"]),
    ("json:/x", ["", "x", "{}", '{"y": 1}', "[1]", '{"x"', '"x"']),
    ("json:/0", ["[]", '{"00": 1}']),
    ("json:/-1", ["[1, 2]"]),
    (r"Answer: (\w*)", ["", "no", "Answer: ?"]),
    (r"(a)?b", ["b"]),
]


def cases(table):
    return [pytest.param(on, texts, id=f"{on} {texts[0]!r}"[:60]) for on, texts in table]


class TestVotes:
    @pytest.mark.parametrize(("vote_on", "texts"), cases(EQUAL))
    def test_texts_that_say_the_same(self, vote_on, texts):
        read = vote_reader(vote_on)
        assert len({read(text) for text in texts}) == 1
        assert read(texts[0]) is not None

    @pytest.mark.parametrize(("vote_on", "texts"), cases(DIFFERENT))
    def test_texts_that_do_not(self, vote_on, texts):
        assert len({vote_reader(vote_on)(text) for text in texts}) == len(texts)

    @pytest.mark.parametrize(("vote_on", "texts"), cases(SILENT))
    def test_texts_without_a_vote(self, vote_on, texts):
        assert [vote_reader(vote_on)(text) for text in texts] == [None] * len(texts)

    @pytest.mark.parametrize("vote_on", ["(", "a", "(a)(b)", "json:x", ""])
    def test_what_is_no_way_to_vote(self, vote_on):
        """An expression that is none, or has no group or several; a path without its slash."""
        with pytest.raises(ValueError, match="`last_number`"):
            vote_reader(vote_on)

    def test_a_million_digits(self):
        """They take no time."""
        assert vote_reader("last_number")("8 " + "9" * 1_000_000) is None


class TestBallot:
    def result(self, *texts, on="last_number", order=None):
        ballot, decided = Ballot(len(texts), vote_reader(on)), None
        for count, position in enumerate(order or range(len(texts)), 1):
            ballot.add(position, texts[position])
            if decided is None and ballot.is_decided:
                decided = count
        return ballot.winner(), decided

    def test_the_vectors_of_the_specification(self):
        """agents.md 12: the winner, and after how many votes it is settled."""
        assert self.result("I say 7.", "It is 8.", "So: 8.") == (1, 3)
        assert self.result("x\nred", "y\nblue", "", on="last_line") == (0, None)

    @pytest.mark.parametrize(
        ("texts", "order", "winner", "decided"),
        [
            (["8", "8", "7"], None, 0, 2),
            (["7", "8", "8", "7"], None, 0, None),
            (["7", "8", "8", "7"], [1, 2, 0, 3], 0, None),
            (["8", "8", "8", "1", "2"], None, 0, 3),
            (["x", "y", "z"], None, None, None),
            (["x", "8", "y"], None, 1, 3),
            (["1", "2", "3"], [2, 1, 0], 0, None),
            (["8", "7", "8"], [2, 0], 0, 2),
        ],
    )
    def test_ties_silence_and_early_ends(self, texts, order, winner, decided):
        """Of equally frequent values the one whose first candidate comes first, whoever was the first to
        answer."""
        assert self.result(*texts, order=order) == (winner, decided)


class TestJudge:
    def test_the_list(self):
        assert listed(["one", "two\nlines"]) == "[1]\none\n\n[2]\ntwo\nlines"

    def test_nothing_that_is_filled_in_is_filled_again(self):
        """Texts of users and models stay texts."""
        template = "Q: [Question]\n[Candidates]\nagain [Question]"
        assert filled_in(template, "[Candidates] {agent1Output} \\1", "[1]\n[Question] {{x}}") == (
            "Q: [Candidates] {agent1Output} \\1\n[1]\n[Question] {{x}}\nagain [Candidates] {agent1Output} \\1"
        )

    @pytest.mark.parametrize(
        ("reply", "count", "best"),
        [
            ("Of all 9 the best is 2.", 2, 2),
            ("2", 2, 2),
            ("[2]", 3, 2),
            ('{"best": 2}', 3, 2),
            ('Sure:\n```json\n{"best": 1}\n``` 2', 3, 1),
            ('{"best": 9} so 2', 3, 2),
            ('{"best": true}', 3, None),
            ('{"best": "3"}', 3, 3),
            ("0 or 3", 3, 3),
            ("1.5 is no number of one, 2nd is", 3, 2),
            ("1,000 times 3", 3, 3),
            ("12", 16, 12),
            ("016", 16, None),
            ("The first", 3, None),
            ("", 3, None),
            ("9" * 5000, 3, None),
        ],
    )
    def test_the_number_that_a_reply_names(self, reply, count, best):
        assert named_best(reply, count) == best
