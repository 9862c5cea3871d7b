"""Order 200: replaces XML elements in the answer by one space each, then self-closing tags, then tidies
the white space.

Three machines in a row (`xml_elements.py` holds the first two); between them a text is a list of pieces in
which GAP stands for something that was removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from Middleware.cleaning.stage import CleaningKey, Inputs, Stage, rule
from Middleware.cleaning.xml_elements import ElementNames, PairedElements, Pieces, SelfClosingTags

STRIP = CleaningKey(
    {
        "type": ["boolean", "object"],
        "properties": {
            "tags": {
                "type": ["string", "array"],
                "items": {"type": "string"},
                "description": "`*` (all) or a list of tag names.",
            },
            "collapseWhitespace": {
                "type": "boolean",
                "description": "Turn the gaps that are left into one blank.",
                "default": True,
                "x-level": "warning",
            },
        },
    },
    "Remove XML tags from answers: true, or an object with `tags` and `collapseWhitespace`.",
    default=False,
)


class _Spacing(Protocol):
    def feed(self, pieces: Pieces) -> str: ...


class CollapsedSpace:
    """Each run of white space, gaps included, becomes one space; none at the ends."""

    def __init__(self) -> None:
        self._begun = self._space = False

    def feed(self, pieces: Pieces) -> str:
        out: list[str] = []
        for piece in pieces:
            if piece is None:
                self._space = True
            elif words := piece.split():
                if self._begun and (self._space or piece[0].isspace()):
                    out.append(" ")
                out.append(" ".join(words))
                self._begun, self._space = True, piece[-1].isspace()
            else:
                self._space = True
        return "".join(out)


class Seams:
    """A gap becomes a space only where it stands between two texts that have none there; nothing else is
    touched.
    """

    def __init__(self) -> None:
        self._blank_before = True  # what came out last is white space, or nothing came out yet
        self._gap = False

    def feed(self, pieces: Pieces) -> str:
        out: list[str] = []
        for piece in pieces:
            if piece is None:
                self._gap = not self._blank_before
            else:
                if self._gap and not piece[0].isspace():
                    out.append(" ")
                out.append(piece)
                self._gap, self._blank_before = False, piece[-1].isspace()
        return "".join(out)


class InlineXml:
    """Stage. Never done: an element may stand anywhere."""

    __slots__ = ("_paired", "_self_closing", "_spacing", "done")

    def __init__(self, tags: str | Iterable[str] = "*", collapse_whitespace: bool = True) -> None:
        names = ElementNames(tags)
        self._paired, self._self_closing = PairedElements(names), SelfClosingTags(names)
        self._spacing: _Spacing = CollapsedSpace() if collapse_whitespace else Seams()
        self.done = False

    def feed(self, text: str) -> str:
        return self._spacing.feed(self._self_closing.feed(self._paired.feed(text)))

    def finish(self) -> str:
        pieces = self._self_closing.feed(self._paired.finish())
        return self._spacing.feed(pieces + self._self_closing.finish())


def strip_inline_xml_tags(
    text: str, tags: str | Iterable[str] = "*", collapse_whitespace: bool = True
) -> str:
    """The rule alone on a whole text. `tags`: `"*"` for all names, or a list of names."""
    stage = InlineXml(tags, collapse_whitespace)
    return stage.feed(text or "") + stage.finish()


@rule(order=200, endpoint={"stripInlineXmlTags": STRIP})
def inline_xml(inputs: Inputs) -> Stage | None:
    """On when the endpoint sets `stripInlineXmlTags` to true or to `{"tags": ..., "collapseWhitespace":
    ...}`.
    """
    value: Any = inputs.endpoint.get("stripInlineXmlTags")
    if isinstance(value, Mapping):
        collapse = value.get("collapseWhitespace")
        return InlineXml(_tags(value.get("tags")), collapse is None or bool(collapse))
    return InlineXml() if value is True else None


def _tags(value: object) -> str | list[str]:
    if isinstance(value, str):
        return value
    return [name for name in value if isinstance(name, str)] if isinstance(value, list | tuple) else "*"
