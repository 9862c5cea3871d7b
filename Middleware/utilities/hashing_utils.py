"""Hashes of messages and texts, the same as those in files that exist already.

A hash is made over the *marked* form of a text (each brace as a marker) and over a message as it was before a
timestamp was written into it. Nothing here reads or writes a file. Source: spec memory.md 4, workflows.md
16.11.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from typing import Any

from Middleware.common.types import Message

LEFT_MARK = "__WILMER_L_CURLY__"
RIGHT_MARK = "__WILMER_R_CURLY__"


class StampedMessage(dict[str, Any]):
    """A message with a timestamp in its content that remembers the content without it (not as a key of the
    message).

    `original` counts only while the content is still the stamped text.
    """

    def __init__(self, message: Mapping[str, Any], stamped: str) -> None:
        super().__init__(message)
        self.original: str = message["content"]
        self.stamped = stamped
        self["content"] = stamped

    def __deepcopy__(self, memo: dict[int, Any]) -> StampedMessage:
        twin = StampedMessage({**copy.deepcopy(dict(self), memo), "content": self.original}, self.stamped)
        twin["content"] = self["content"]
        return twin


def unstamped_content(message: Mapping[str, Any]) -> str:
    """The content of a message as it was before a timestamp was written in."""
    if isinstance(message, StampedMessage) and message["content"] == message.stamped:
        return message.original
    return message.get("content") or ""


def without_timestamp(message: Message) -> Message:
    """A message without the timestamp that was written in; the same object when there is none."""
    if not isinstance(message, StampedMessage):
        return message
    return {**message, "content": unstamped_content(message)}


def mark_braces(text: str) -> str:
    """The text with each brace as its marker: the form that hashes are made of."""
    return text.replace("{", LEFT_MARK).replace("}", RIGHT_MARK)


def sha256_hex(text: str) -> str:
    """Lower-case hex SHA-256 of the UTF-8 bytes of `text`, 64 digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def text_hash(text: str) -> str:
    """Hash of a text on its own (answers, compactor boundaries), over the marked form."""
    return sha256_hex(mark_braces(text))


def message_hash(message: Mapping[str, Any]) -> str:
    """Hash of a message: its unstamped content; when that is blank and there are images, content and sorted
    images.
    """
    return _content_hash(unstamped_content(message), message)


def shown_hash(message: Mapping[str, Any]) -> str:
    """Hash of a message as it stands, timestamp included; equals `message_hash` when it has none."""
    return _content_hash(message.get("content") or "", message)


def _content_hash(content: str, message: Mapping[str, Any]) -> str:
    images = message.get("images")
    if images and not content.strip():
        return sha256_hex(mark_braces(content) + "".join(sorted(map(str, images))))
    return text_hash(content)


def vision_key(message: Mapping[str, Any]) -> str:
    """Key of a message's image descriptions in `vision_responses.json`. Source: spec memory.md 4.4."""
    images = "".join(sorted(map(str, message.get("images") or ())))
    return sha256_hex(str(message.get("role", "")) + mark_braces(unstamped_content(message)) + images)
