"""The parts of a run's time, as its answer has them (spec console.md 6.2). Times count from the arrival."""

from __future__ import annotations

import pytest

from Middleware.api.console.run_texts import AnswerTimes, answering_node
from tests.api.console.traced import ARRIVED, call_of, node_of, run_of


def answer(*calls, number=2, **facts):
    return node_of(number, "Answer", *calls, answers=True, **facts)


def times(*nodes, now=9.0, **facts):
    return AnswerTimes(run_of(*nodes, **facts), ARRIVED + now)


class TestWhoAnswers:
    def test_the_innermost_node_that_does(self):
        """A parent whose child answers began before it, and answers too."""
        parent = answer(number=1)
        child = answer(number=1, parent=parent, depth=1)
        assert answering_node(run_of(node_of(1), parent, node_of(1, depth=1), child)) is child

    def test_nobody_yet(self):
        """Before it has begun, and in a run that nothing answers."""
        assert answering_node(run_of(node_of(1))) is None


class TestOfTheRun:
    @pytest.mark.parametrize(
        ("facts", "took_s"),
        [({"ended": 7.5}, 7.5), ({"state": "running"}, 9.0)],
        ids=["ended", "running"],
    )
    def test_how_long_it_took(self, facts, took_s):
        """One that has not ended: until now."""
        assert times(**facts).took_s == took_s

    @pytest.mark.parametrize(
        ("facts", "queue_s"),
        [
            ({"begun": 0.2, "ended": 7.5}, 0.2),
            ({"begun": None, "ended": 7.2}, 7.2),
            ({"begun": None, "state": "waiting"}, 9.0),
        ],
        ids=["begun", "left-the-queue", "waiting"],
    )
    def test_how_long_it_waited(self, facts, queue_s):
        """For its slot."""
        assert times(**facts).queue_s == pytest.approx(queue_s)

    @pytest.mark.parametrize(
        ("nodes", "facts", "other_s"),
        [
            ([answer(begun=3.3)], {"begun": 0.2}, 3.1),
            ([node_of(1, begun=0.2)], {"begun": 0.2, "ended": 2.0}, 1.8),
            ([node_of(1, begun=0.2)], {"begun": 0.2}, 8.8),
            ([], {"begun": None}, 0.0),
            ([answer(begun=0.1)], {"begun": 0.2}, 0.0),
        ],
        ids=["answered", "nobody-answered", "nobody-has-begun-to", "in-the-queue", "half-told"],
    )
    def test_what_passed_before_the_answering_node(self, nodes, facts, other_s):
        """From the slot on; never less than nothing."""
        assert times(*nodes, **facts).other_s == pytest.approx(other_s)

    @pytest.mark.parametrize(("first_text", "first_s"), [(4.4, 4.4), (None, None)])
    def test_when_the_first_text_came(self, first_text, first_s):
        """At the client's door, from the arrival on."""
        told = times(answer(), first_text=first_text).first_s
        assert told == (None if first_s is None else pytest.approx(first_s))


class TestThinking:
    """From the first thing that the backend sent to the first text."""

    @pytest.mark.parametrize(
        ("call", "run", "think_s"),
        [
            ({"first": 3.8, "thought": 3.8}, {"first_text": 4.4, "answered": 6.3}, 0.6),
            ({"first": 3.8, "thought": 4.0}, {"first_text": 4.4}, 0.6),
            ({"first": 3.8}, {"first_text": 4.4}, 0.0),
            ({"first": 3.8, "thought": 5.0}, {"first_text": 4.4}, 0.0),
            ({"thought": 4.4}, {"first_text": 4.4}, 0.0),
        ],
        ids=["thought", "white-space-came-first", "no-thought", "behind-the-text", "a-whole-answer"],
    )
    def test_before_a_text(self, call, run, think_s):
        """Of a whole answer nobody knows how much of the wait was thinking."""
        assert times(answer(call_of(**call)), **run).think_s == pytest.approx(think_s)

    @pytest.mark.parametrize(
        ("facts", "think_s"),
        [
            ({"state": "running"}, 5.2),
            ({"answered": 6.3}, 2.5),
            ({"state": "cancelled", "ended": 5.8}, 2.0),
        ],
        ids=["while-it-lasts", "an-answer-without-text", "broken-off"],
    )
    def test_without_a_text(self, facts, think_s):
        """Until now, or to the answer's end, or to that of the run."""
        thinks = answer(call_of(first=3.8, thought=3.8))
        assert times(thinks, **facts).think_s == pytest.approx(think_s)

    def test_of_the_call_that_was_heard_last(self):
        """A failed one before it, and one that is only just sent, say nothing."""
        calls = [
            call_of("Dead", first=1.0, thought=1.0),
            call_of(first=3.8, thought=3.8),
            call_of(sent=5.0),
        ]
        assert times(answer(*calls), first_text=4.4).think_s == pytest.approx(0.6)

    def test_of_other_nodes_is_none_of_the_answer_s(self):
        other = node_of(1, "Draft", call_of(first=1.0, thought=1.0), thoughts=["hm"])
        told = times(other, answer(call_of(first=3.8)), first_text=4.4)
        assert (told.think_s, told.thoughts) == (0.0, [])

    def test_times_that_contradict_each_other(self):
        """A run half told: never less than nothing."""
        assert times(answer(call_of(first=5.0, thought=2.0)), first_text=4.4).think_s == 0.0


class TestThoughts:
    @pytest.mark.parametrize(
        ("node", "calls", "thoughts"),
        [
            (["of the node"], [["of a call"]], ["of the node"]),
            ([], [["a"], ["b", "c"]], ["a", "b", "c"]),
            ([], [], []),
        ],
        ids=["the-node-s", "those-of-its-calls", "none"],
    )
    def test_which_they_are(self, node, calls, thoughts):
        """What the node itself kept, else what its calls brought."""
        made = answer(*(call_of(thoughts=texts) for texts in calls), thoughts=node)
        assert times(made).thoughts == thoughts

    def test_before_anybody_answers_there_are_none(self):
        assert times(node_of(1, thoughts=["hm"])).thoughts == []
