"""How far a history is remembered. Source: spec memory.md 4.5, 18.2 (18, 26)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from Middleware.services.file_memories import End, before_of, end_at, join_ends
from Middleware.utilities.hashing_utils import StampedMessage, message_hash, shown_hash
from Middleware.workflows.memory.chunking import forgotten_places, unprocessed_range
from tests.workflows.memory.conftest import hash_of, talk


def said(*words):
    """One message each."""
    return [{"role": "user", "content": word} for word in words]


def known(messages, *stops):
    """What is known of memories that cover `messages` up to each of these places."""
    hashes = list(map(message_hash, messages))
    return [end_at(hashes, start, stop) for start, stop in zip((0, *stops), stops, strict=False)]


class TestEntriesOfOtherPrograms:
    """The table of memory.md 4.5: of each entry only the hash of its last message is known."""

    @pytest.mark.parametrize(
        ("count", "stored", "lookback", "place"),
        [
            (10, 4, 3, (5, 7)),
            (10, 7, 3, (7, 7)),
            (10, 6, 3, (7, 7)),
            (9, 6, 3, (6, 6)),
            (10, 8, 3, (7, 7)),
            (10, 99, 3, (0, 7)),
            (10, 4, 0, (5, 10)),
            (10, 9, 0, (10, 10)),
            (2, 0, 3, (0, 0)),
            (0, 0, 3, (0, 0)),
        ],
        ids=[
            "example-4",
            "at-the-boundary",
            "just-before-the-boundary",
            "history-shrunk-by-one",
            "history-shrunk-by-more",
            "no-match",
            "no-lookback",
            "no-lookback-all-done",
            "fewer-than-lookback",
            "no-messages",
        ],
    )
    def test_the_place_of_what_is_new(self, count, stored, lookback, place):
        assert unprocessed_range(talk(count), [End(hash_of(stored))], lookback) == place

    def test_any_entry_counts_not_only_the_last(self):
        """The one that reaches furthest wins; entries of messages that are gone do not matter."""
        ends = [End(hash_of(2)), End(hash_of(5)), End("gone")]
        assert unprocessed_range(talk(10), ends, 0) == (6, 10)

    def test_without_entries_all_before_the_lookback_is_new(self):
        assert unprocessed_range(talk(5), [], 2) == (0, 3)

    def test_the_hash_of_the_stamped_text_counts_too(self):
        """Other programs hash what they see."""
        stamped = StampedMessage({"role": "user", "content": "word 1"}, "(Monday) word 1")
        messages = [talk(1)[0], stamped, *talk(1)]
        assert unprocessed_range(messages, [End(shown_hash(stamped))], 0) == (2, 3)

    def test_a_repeated_text_counts_at_its_place_in_order(self):
        """Each at the first message with the text behind the entry before."""
        messages = said("go", "a", "go", "b", "go", "c", "go")
        go, b = (message_hash({"content": text}) for text in ("go", "b"))
        assert unprocessed_range(messages, [End(go)], 0)[0] == 1
        assert unprocessed_range(messages, [End(go), End(go)], 0)[0] == 3
        assert unprocessed_range(messages, [End(b), End(go)], 0)[0] == 5

    def test_the_messages_before_tell_the_place_of_a_repeated_text(self):
        """A line without the messages that its entry covers."""
        messages = said("go", "a", "go", "b", "go", "c", "go")
        hashes = list(map(message_hash, messages))
        assert unprocessed_range(messages, [End(hashes[4], before_of(hashes, 4))], 0)[0] == 5


HISTORIES = {
    "goes-on": ("a go b go c", "a go b go c go d", "go d"),
    "ends-with-a-text-that-is-said-again": ("a go b go", "a go b go c go d", "c go d"),
    "the-same-text-all-over": ("go go go go", "go go go go go go", "go go"),
    "regenerated-last-message": ("a go b go c", "a go b go C", "C"),
    "edited-in-the-middle": ("a go b go c go d", "a go B go c go d go e", "go e"),
    "edited-and-only-repeats-behind": ("a go b ok go ok", "a go B ok go ok c", "c"),
    "edited-before-one-repeat": ("a go b go", "a go B go c", "B go c"),
    "edited-first-message": ("a go b go c", "A go b go c go d", "go d"),
    "deleted-in-the-middle": ("a go b go c go d", "a go c go d go e", "go e"),
    "deleted-at-the-end": ("a go b go c go d", "a go b go", ""),
    "deleted-at-the-end-then-goes-on": ("a go b go c go d", "a go b go e go f", "e go f"),
    "an-older-request-comes-late": ("a go b go c go d", "a go b", ""),
    "the-newest-messages-only": ("a go b go c go d", "c go d go e", "go e"),
    "said-again-long-after": ("thanks a go b go c", "b go c go d thanks go e", "go d thanks go e"),
    "another-chat": ("a go b go", "x y z", "x y z"),
    "a-branch-inside-a-memory": ("a b c d e f", "a b c D E", "D E"),
}


@pytest.mark.parametrize(("covered", "now", "new"), HISTORIES.values(), ids=HISTORIES)
@pytest.mark.parametrize("cut", ["one-memory", "two-memories"])
def test_what_is_new_where_the_covered_messages_are_known(covered, now, new, cut):
    """Whatever became of the history: nothing twice, nothing lost."""
    messages, words = said(*now.split()), covered.split()
    stops = (len(words),) if cut == "one-memory" else (len(words) // 2, len(words))
    start, end = unprocessed_range(messages, known(said(*words), *stops), 0)
    assert [message["content"] for message in messages[start:end]] == new.split()


def test_both_branches_of_a_conversation_are_known():
    """One goes back to the first, and goes on there."""
    first, second = said(*["a", "b", "c", "d", "e", "f"]), said(*["a", "b", "C", "D", "E"])
    hashes = list(map(message_hash, second))
    ends = [*known(first, 3, 6), end_at(hashes, 2, 5)]
    assert unprocessed_range([*first, *said("g")], ends, 0)[0] == 6
    assert unprocessed_range([*second, *said("F")], ends, 0)[0] == 5


def test_a_long_talk_of_one_text_is_matched_in_reasonable_work():
    """Neither side is searched once for each message of the other."""
    messages = said(*(["go"] * 4000))
    edited = [*said("start"), *messages[1:], *said("new")]
    assert unprocessed_range(edited, known(messages, 2000, 4000), 0) == (4000, 4001)


class TestForgotten:
    """Places of messages of which nothing is to be remembered. Source: spec operate.md 6."""

    @staticmethod
    def ends(*forgotten):
        """Three entries that cover two messages each of `abcdef`; those at the places are forgotten."""
        made = [end_at(list("abcdef"), at, at + 2) for at in (0, 2, 4)]
        return [replace(end, forgotten=((0, 2),)) if at in forgotten else end for at, end in enumerate(made)]

    @pytest.mark.parametrize(
        ("history", "forgotten", "places"),
        [
            ("abcdef", (), set()),
            ("abcdef", (1,), {2, 3}),
            ("abcdef", (0, 2), {0, 1, 4, 5}),
            ("bcdefg", (1,), {1, 2}),
            ("abxcyd", (1,), {3, 5}),
            ("abccdf", (1,), {3, 4}),
            ("xyz", (1,), set()),
        ],
        ids=str,
    )
    def test_they_are_found_in_the_history(self, history, forgotten, places):
        """Also in one that was shortened or edited since."""
        assert forgotten_places(list(history), self.ends(*forgotten)) == places

    def test_a_text_that_is_repeated_is_found_in_order(self):
        """Each message says the same; the second of three entries is forgotten."""
        same = ["go"] * 6
        ends = [end_at(same, at, at + 2) for at in (0, 2, 4)]
        ends[1] = replace(ends[1], forgotten=((0, 2),))
        assert forgotten_places(same, ends) == {2, 3}

    def test_of_condensed_ones_those_that_were_forgotten(self):
        assert forgotten_places(list("abcdef"), [join_ends(self.ends(1))]) == {2, 3}

    def test_an_entry_of_another_program_covers_all_behind_the_one_before(self):
        ends = [End("b"), End("d", forgotten=((0, 1),)), End("f")]
        assert forgotten_places(list("abcdef"), ends) == {2, 3}

    def test_copies_cover_no_message(self):
        """Neither for this nor for what is new."""
        ends = [End("a", copied=True), *self.ends(1)]
        assert forgotten_places(list("abcdef"), ends) == {2, 3}
        history = said("a", "b", "c")
        own = end_at(list(map(message_hash, history)), 0, 2)
        assert unprocessed_range(history, [End(message_hash(history[2]), copied=True), own], 0) == (2, 3)
