"""Hashes of messages: the same as those in files of an existing installation."""

from __future__ import annotations

import copy
import hashlib

import pytest

from Middleware.utilities.hashing_utils import (
    StampedMessage,
    mark_braces,
    message_hash,
    shown_hash,
    text_hash,
    unstamped_content,
    vision_key,
    without_timestamp,
)


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


MESSAGES = [
    ("content-only", {"role": "user", "content": "hello"}, "hello"),
    ("role-does-not-count", {"role": "assistant", "name": "x", "content": "hello"}, "hello"),
    ("emoji", {"content": "tea \U0001f375"}, "tea \U0001f375"),
    ("braces-are-marked", {"content": 'Use {"a": 1}'}, 'Use __WILMER_L_CURLY__"a": 1__WILMER_R_CURLY__'),
    ("text-wins-over-images", {"content": "see", "images": ["b"]}, "see"),
    ("blank-with-images", {"content": " ", "images": ["b", "a"]}, " ab"),
    ("blank-without-images", {"content": "", "images": []}, ""),
    ("no-content", {"role": "assistant"}, ""),
]


@pytest.mark.parametrize(("message", "hashed"), [m[1:] for m in MESSAGES], ids=[m[0] for m in MESSAGES])
def test_a_message_hash_is_the_sha256_of_the_marked_content(message, hashed):
    """Only content counts; images only when there is no text."""
    assert message_hash(message) == sha(hashed)


def test_a_lone_surrogate_can_be_hashed():
    """A broken client cannot make a hash fail."""
    assert len(text_hash("\ud800")) == 64


def test_the_vision_key_holds_role_content_and_sorted_images():
    """The cache of image descriptions depends on all three."""
    message = {"role": "user", "content": "{x}", "images": ["b", "a"]}
    assert vision_key(message) == sha("user" + mark_braces("{x}") + "ab")


class TestStampedMessages:
    """A stamp in the content does not change what a message hashes to."""

    def test_the_hash_is_that_of_the_unstamped_content(self):
        stamped = StampedMessage({"role": "user", "content": "hi"}, "(Monday, ...) hi")
        assert stamped["content"] == "(Monday, ...) hi"
        assert message_hash(stamped) == sha("hi")
        assert shown_hash(stamped) == sha("(Monday, ...) hi")
        assert list(stamped) == ["role", "content"]

    def test_a_copy_remembers_too(self):
        stamped = copy.deepcopy(StampedMessage({"content": "hi", "images": ["i"]}, "x hi"))
        assert unstamped_content(stamped) == "hi"
        assert without_timestamp(stamped) == {"content": "hi", "images": ["i"]}

    def test_a_changed_content_counts_as_it_is(self):
        stamped = StampedMessage({"content": "hi"}, "x hi")
        stamped["content"] = "something else"
        assert message_hash(stamped) == message_hash(copy.deepcopy(stamped)) == sha("something else")

    def test_a_plain_message_is_its_own_unstamped_form(self):
        message = {"content": "hi"}
        assert without_timestamp(message) is message
