"""What of a history lies in chunks that were processed before. Source: spec memory.md 4.6, 18.2 (9, 18, 24, 25)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Middleware.workflows.memory.chunking import processed_chunks


def new(history, *done, beside=()):
    """The messages that are new, one letter each; `?`: what stood there is unknown."""
    chunks = [tuple(None if each == "?" else each for each in chunk) for chunk in done]
    places = processed_chunks(list(history), chunks, [tuple(chunk) for chunk in beside]).new(len(history))
    return "".join(history[place] for place in places)


SITUATIONS = [
    ("nothing-is-done", "abc", [], "abc"),
    ("behind-the-last-chunk", "abcde", ["ab", "c"], "de"),
    ("all-is-done", "abc", ["abc"], ""),
    ("an-edited-message-inside-a-chunk", "aXcd", ["abc"], "d"),
    ("the-last-message-of-a-chunk-is-regenerated", "abcdX", ["ab", "cde"], "X"),
    ("the-last-message-of-a-chunk-is-deleted", "abcd", ["ab", "cde"], ""),
    ("the-last-two-are-regenerated-and-more-follow", "abcXYZ", ["ab", "cde"], "XYZ"),
    ("the-last-of-the-only-chunk-is-regenerated", "abX", ["abc"], "X"),
    ("an-older-history", "abc", ["ab", "c", "de", "f"], ""),
    ("only-the-newest-messages-are-sent", "def", ["abc", "d"], "ef"),
    ("another-branch", "abXY", ["ab", "cd", "e"], "XY"),
    ("back-on-the-first-branch", "abcde", ["ab", "cd", "XY"], "e"),
    ("a-word-that-ended-an-early-chunk-comes-back", "bcdefy", ["ay", "bc", "de"], "f"),
    ("chunks-of-another-program", "abcde", ["?b", "?d"], "e"),
    ("another-program-a-text-again", "acbcdcec", ["?c", "?c"], "dcec"),
    ("the-same-chunk-logged-again-and-again", "abcde", ["abc", "?c", "?c"], "de"),
    ("nothing-known-is-left", "xyz", ["abc"], "xyz"),
]


@pytest.mark.parametrize(
    ("history", "done", "expected"), [case[1:] for case in SITUATIONS], ids=[case[0] for case in SITUATIONS]
)
def test_what_is_new(history, done, expected):
    assert new(history, *done) == expected


REPEATED = [
    ("turn-after-turn", "1c2c3c4c", ["1c2c", "3c"], "4c"),
    ("a-chunk-that-ends-with-it", "1c2c3c", ["1c"], "2c3c"),
    ("the-reply-behind-it-is-regenerated", "1c2cX", ["1c", "2c3"], "X"),
    ("only-the-newest-messages-are-sent", "3c4c5c", ["1c2c", "3c4c"], "5c"),
    ("the-branch-is-left-where-it-was-said", "1c2cXcY", ["1c2", "c3c4"], "XY"),
    ("nothing-else-is-ever-said", "cccccc", ["cc", "cc"], "cc"),
    ("two-words-only", "cdcdcdcd", ["cd", "cdc"], "dcd"),
]


@pytest.mark.parametrize(
    ("history", "done", "expected"), [case[1:] for case in REPEATED], ids=[case[0] for case in REPEATED]
)
def test_a_text_that_is_said_more_than_once_is_no_place(history, done, expected):
    """`c` stands for `continue`."""
    assert new(history, *done) == expected


class TestChunksBeside:
    """Chunks that failed: of which no end counts, whenever they were tried again."""

    def test_their_messages_are_not_new(self):
        assert new("abcdef", "cd", beside=["ab", "e"]) == "f"

    def test_the_places_of_each_are_given(self):
        """Those of the history that are left of it."""
        found = processed_chunks(list("abcdef"), [("c", "d")], [("a", "x", "b"), ("z",), ("e",)])
        assert found.beside == ((0, 1), (), (4,))

    def test_words_that_also_stand_elsewhere_are_found_by_their_neighbours(self):
        found = processed_chunks(list("1c2c3c"), [("1", "c")], [("2", "c")])
        assert (found.beside, found.new(6)) == (((2, 3),), [4, 5])

    def test_no_end_of_them_hides_what_lies_before(self):
        assert new("abcd", "a", beside=["d"]) == "bc"


def test_every_message_in_turn_makes_the_same_chunks_with_one_word_as_with_many():
    """58 messages, taken in chunks of five as they come; every user message is `continue`."""

    def chunks_of(history):
        done = []
        for length in range(1, len(history) + 1):
            places = processed_chunks(history[:length], done).new(length)
            if len(places) >= 5:
                done.append(tuple(history[place] for place in places))
        return done

    repeated = [f"reply {i}" if i % 2 else "continue" for i in range(58)]
    different = [f"reply {i}" if i % 2 else f"question {i}" for i in range(58)]
    assert list(map(len, chunks_of(repeated))) == list(map(len, chunks_of(different))) == [5] * 11


OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["say", "say", "say", "regenerate", "delete", "edit"]), st.integers(0, 9)),
    max_size=60,
)


class Chat:
    """A conversation that is edited as it goes on, and what is processed of it after each step."""

    def __init__(self, words=None):
        self.history, self.done, self.count, self.words = [], [], 0, words

    def text(self, number):
        self.count += 1
        return self.words[number % len(self.words)] if self.words else f"m{self.count}"

    def step(self, operation, number):
        if operation == "say":
            self.history += [self.text(number), f"reply {self.count}"]
        elif operation == "regenerate" and self.history:
            self.history[-1] = f"again {self.text(number)} {self.count}"
        elif operation == "delete":
            del self.history[len(self.history) - min(number, len(self.history)) :]
        elif operation == "edit" and self.history:
            self.history[-1 - number % len(self.history)] = f"edited {self.text(number)} {self.count}"

    def remember(self, at_least=3):
        """Chunks of up to four, as soon as there are enough messages."""
        new = [
            self.history[place] for place in processed_chunks(self.history, self.done).new(len(self.history))
        ]
        if len(new) >= at_least:
            self.done += [tuple(new[start : start + 4]) for start in range(0, len(new), 4)]

    def processed_texts(self):
        return [text for chunk in self.done for text in chunk]


@given(OPERATIONS)
def test_however_a_conversation_is_edited_no_message_is_processed_twice(operations):
    """Each has a text of its own."""
    chat = Chat()
    for operation in operations:
        chat.step(*operation)
        chat.remember()
    found = chat.processed_texts()
    assert len(found) == len(set(found))


@given(OPERATIONS)
def test_a_reply_is_processed_once_beside_words_that_come_again_and_again(operations):
    """The user says three words in turn; replies differ."""
    chat = Chat(["continue", "ok", "go on"])
    for operation in operations:
        chat.step(*operation)
        chat.remember()
    replies = [text for text in chat.processed_texts() if "reply" in text]
    assert len(replies) == len(set(replies))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40))
def test_nothing_is_left_out_of_a_conversation_that_only_grows(numbers):
    """Whatever is said in it, and however often."""
    chat = Chat(["continue", "ok"])
    for number in numbers:
        chat.step("say", number)
        chat.remember()
    chat.remember(at_least=1)
    assert chat.processed_texts() == chat.history


@given(OPERATIONS)
def test_the_end_of_an_edited_conversation_is_not_left_out(operations):
    """What is said after all edits becomes memories."""
    chat = Chat(["continue", "ok", "go on"])
    for operation in operations:
        chat.step(*operation)
        chat.remember()
    for number in range(3):
        chat.step("say", number)
    chat.remember(at_least=1)
    assert set(chat.history[-5::2]) <= set(chat.processed_texts())
