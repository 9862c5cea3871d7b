"""Images of messages, in the shapes that backends want. Pure; nothing is fetched or read from disk.

A source is a string: a data URI, bare base64, or an http(s) URL. Formats are told from magic bytes; no
imaging library looks at the data. Source: spec backends.md 9.1, 9.3, 9.5, 9.6.
"""

from __future__ import annotations

import base64
import binascii
import logging
import re
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from Middleware.common.types import Message, Messages
from Middleware.utilities.sensitive_logging_utils import loggable_text

logger = logging.getLogger(__name__)

MIN_BARE_BASE64 = 100
"""A shorter string without a data URI prefix is not taken for an image."""

UNREADABLE_NOTE = "[An image of this message could not be read and was left out.]"

_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_DATA_URI = re.compile(r"data:([^,]*?);base64,", re.IGNORECASE)
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"BM", "bmp"),
    (b"II*\x00", "tiff"),
    (b"MM\x00*", "tiff"),
)

Part = dict[str, Any]
_Shape = Callable[[Message, list[str]], Message]


def image_format(data: bytes) -> str | None:
    """`png`, `jpeg`, `gif`, `webp`, `bmp`, `tiff` or `avif`, from the first bytes; None for anything else."""
    for magic, name in _MAGIC:
        if data.startswith(magic):
            return name
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    if data[4:8] == b"ftyp" and data[8:12] in (b"avif", b"avis"):
        return "avif"
    return None


def is_bare_base64(source: str) -> bool:
    """Whether a string without a prefix is long and regular enough to be base64 data."""
    return len(source) >= MIN_BARE_BASE64 and len(source) % 4 == 0 and _BASE64.fullmatch(source) is not None


def base64_format(source: str) -> str | None:
    """The image format of base64 text; only its head is decoded."""
    head = source[:64]
    try:
        return image_format(base64.b64decode(head[: len(head) // 4 * 4], validate=True))
    except binascii.Error:
        return None


def is_web_url(source: str) -> bool:
    """An http or https URL with a host."""
    if not source.startswith(("http://", "https://")):
        return False
    try:
        return bool(urlsplit(source).hostname)
    except ValueError:
        return False


def openai_image(source: str) -> Part | None:
    """The `image_url` part for a source; None (and a warning) for one that is skipped."""
    if source.startswith("data:image/") or is_web_url(source):
        url = source
    elif is_bare_base64(source) and (found := base64_format(source)):
        url = f"data:image/{found};base64,{source}"
    else:
        _warn_skipped(source)
        return None
    return {"type": "image_url", "image_url": {"url": url}}


def claude_image(source: str) -> Part | None:
    """Claude's `image` block for a source; None (and a warning) for one that is skipped."""
    prefix = _DATA_URI.match(source)
    if prefix and prefix[1].startswith("image/"):
        return _claude_data(prefix[1], source[prefix.end() :])
    if is_web_url(source):
        return {"type": "image", "source": {"type": "url", "url": source}}
    if is_bare_base64(source):
        return _claude_data(f"image/{base64_format(source) or 'jpeg'}", source)
    _warn_skipped(source)
    return None


def _claude_data(media_type: str, data: str) -> Part:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def bare_base64(source: str) -> str | None:
    """The base64 text of a source, without its data URI prefix; None (and a warning) for anything else."""
    prefix = _DATA_URI.match(source)
    data = source[prefix.end() :] if prefix else source
    if _BASE64.fullmatch(data):
        return data
    _warn_skipped(source)
    return None


def bare_images(sources: Sequence[str]) -> list[str]:
    """The sources as base64 texts, unusable ones left out."""
    return [data for source in sources if (data := bare_base64(source)) is not None]


def image_sources(message: Message) -> list[str]:
    """The sources of a message. Entries that are not text are skipped with a warning; TypeError: no list."""
    images = message.get("images") or []
    if not isinstance(images, list):
        raise TypeError(f"images is {type(images).__name__}, not a list")
    sources = [source for source in images if isinstance(source, str)]
    if len(sources) < len(images):
        logger.warning("%d images are not strings and were skipped", len(images) - len(sources))
    return sources


def with_images(messages: Messages, shape: _Shape) -> Messages:
    """Messages in the backend's own shape: `shape(user message, sources)`. Images of tools' results are
    shown by a user message behind them; those of other roles are left out, with a warning.

    Images that cannot be read at all (no list): every message goes back to text, and a note says so in a last
    user message.
    """
    try:
        shown = _images_behind_results(messages)
        _warn_of_roles(shown)
        return [_shape_message(message, shape) for message in shown]
    except TypeError as error:
        logger.warning("images could not be read, so all messages are sent as text: %s", error)
    return with_unreadable_note([without_images(message) for message in messages])


def _images_behind_results(messages: Messages) -> Messages:
    """Images of a run of results, moved to the user message behind the run, or to one of their own: no
    backend takes them in a result.
    """
    if not any(message.get("role") == "tool" and message.get("images") for message in messages):
        return messages
    moved: Messages = []
    waiting: list[str] = []
    for message in messages:
        role = message.get("role")
        if role == "tool":
            waiting += image_sources(message)
            message = without_images(message)
        elif waiting and role == "user":
            message = {**message, "images": [*waiting, *image_sources(message)]}
            waiting = []
        elif waiting:
            moved.append(_picture_message(waiting))
            waiting = []
        moved.append(message)
    return [*moved, _picture_message(waiting)] if waiting else moved


def _picture_message(sources: list[str]) -> Message:
    return {"role": "user", "content": "", "images": sources}


def _warn_of_roles(messages: Messages) -> None:
    roles = {str(message.get("role")) for message in messages if message.get("images")} - {"user"}
    if roles:
        logger.warning(
            "images in messages of the role %s were left out: only users and tools can show images",
            ", ".join(loggable_text(role[:60]) for role in sorted(roles)),
        )


def _shape_message(message: Message, shape: _Shape) -> Message:
    if "images" not in message:
        return message
    plain = without_images(message)
    return shape(plain, image_sources(message)) if message.get("role") == "user" else plain


def content_parts(to_part: Callable[[str], Part | None], *, images_first: bool = False) -> _Shape:
    """A shape for `with_images`: content parts, images behind (or before) the text.

    All sources of a message skipped: its content stays a text.
    """

    def shape(message: Message, sources: list[str]) -> Message:
        parts = [part for source in sources if (part := to_part(source)) is not None]
        if not parts:
            return message
        content = message.get("content")
        if isinstance(content, list):
            texts = list(content)
        else:
            texts = [{"type": "text", "text": content}] if content else []
        return {**message, "content": parts + texts if images_first else texts + parts}

    return shape


def with_unreadable_note(messages: Messages) -> Messages:
    """The note that an image is missing, at the end of a last user message or as a message of its own."""
    if messages and messages[-1].get("role") == "user" and isinstance(messages[-1].get("content"), str):
        content = f"{messages[-1]['content']}\n\n{UNREADABLE_NOTE}".strip()
        return [*messages[:-1], {**messages[-1], "content": content}]
    return [*messages, {"role": "user", "content": UNREADABLE_NOTE}]


def without_images(message: Message) -> Message:
    return {key: value for key, value in message.items() if key != "images"}


def _warn_skipped(source: str) -> None:
    logger.warning(
        "an image was skipped, because it is neither image data nor an http(s) URL: %s",
        loggable_text(source[:100]),
    )
