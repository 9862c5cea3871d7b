"""Fills the variables of a node's texts: the face of this package.

A text is parsed once (cached); only the variables that it names are computed; nothing that was inserted is
ever parsed again. Format mode never fails: what is not known stays text, with one warning.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from Middleware.common.errors import ConfigError
from Middleware.common.places import where
from Middleware.config.loader import ConfigSnapshot
from Middleware.workflows.variables import jinja_text
from Middleware.workflows.variables.format_text import (
    FilledText,
    Origin,
    Piece,
    VariableNames,
    fill_pieces,
    join_pieces,
)
from Middleware.workflows.variables.names import AllNames, EarlyNames
from Middleware.workflows.variables.source import VariableSource

__all__ = ["VariableSource", "fill", "fill_early", "fill_override", "fill_parts", "fill_prefix"]

logger = logging.getLogger(__name__)

_LIKE_A_NAME = re.compile(r"[\w-]+")


def fill(text: str, source: VariableSource) -> str:
    """`text` with its variables, format or Jinja as `source.node["jinja2"]` says. Source: workflows.md 7,
    16.1.

    `text` may be what `fill_override` gave (a str that remembers what the parent inserted).
    Raises ConfigError (file, pointer of the field) for a Jinja template that is wrong or unsafe.
    """
    names = AllNames(source)
    if source.node.get("jinja2"):
        with _errors_name_the_field(text, source):
            return jinja_text.render(text, names)
    return join_pieces(_format_pieces(text, source, names))


def fill_early(text: str, source: VariableSource, *, with_outputs: bool = False) -> str:
    """`endpointName`, `preset`, numeric fields: workflow variables and agent inputs only, format syntax.

    `with_outputs`: agent outputs too; for numeric fields (workflows.md 16.17). Source: workflows.md 7.4.
    """
    if "{" not in text:
        return text
    names = EarlyNames(source, with_outputs=with_outputs)
    return join_pieces(_format_pieces(text, source, names, second_pass=False))


def fill_parts(text: str, source: VariableSource) -> tuple[str, str | None]:
    """The filled text and the base folder that a path may not leave (None: no limit). Source: nodes.md 6.1.

    The base is the folder part before the first run-time value (anything but workflow and user-wide variables
    and dates), not normalised, `~` not expanded; `"."` when that part has no folder.
    """
    filled, prefix = fill_prefix(text, source)
    if prefix == "":
        logger.warning("%s: a path that begins with a run-time value has no limit", _place(text, source))
    return filled, _folder(prefix) if prefix else None


def fill_prefix(text: str, source: VariableSource) -> tuple[str, str | None]:
    """The filled text, and what of it comes before the first run-time value (as in `fill_parts`); None: no
    such value decides anything in it.
    """
    names = AllNames(source)
    if source.node.get("jinja2"):
        with _errors_name_the_field(text, source):
            filled = jinja_text.render(text, names)
            return filled, jinja_text.static_prefix(text, filled, names)
    pieces = _format_pieces(text, source, names)
    first = next((index for index, piece in enumerate(pieces) if piece.origin is Origin.RUN), None)
    return join_pieces(pieces), None if first is None else join_pieces(pieces[:first])


def fill_override(text: str, source: VariableSource) -> str:
    """A prompt override for a child's first node, filled in the parent. Source: workflows.md 8.4, 16.1 (e).

    Gives a str that remembers what was inserted; put it into the child's node object as it is (what str
    methods make of it forgets): the child's `fill` takes only authored braces as placeholders.
    A text with a name that the parent does not know comes back untouched. Raises ConfigError as `fill` does.
    """
    names = AllNames(source)
    if source.node.get("jinja2"):
        with _errors_name_the_field(text, source):
            return FilledText.of(jinja_text.render_pieces(text, names))
    filled = fill_pieces(text, names)
    return FilledText.of(filled.pieces) if filled.complete else text


def _format_pieces(
    text: str, source: VariableSource, names: VariableNames, *, second_pass: bool = True
) -> list[Piece]:
    filled = fill_pieces(text, names, second_pass=second_pass)
    if filled.unknown and (missing := sorted(filter(_LIKE_A_NAME.fullmatch, filled.unknown))):
        logger.warning("%s: unknown variables stay as text: %s", _place(text, source), ", ".join(missing))
    return filled.pieces


@contextmanager
def _errors_name_the_field(text: str, source: VariableSource) -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        pointer = source.pointer + (_path_to(text, source.node) or "")
        raise ConfigError(error.message, file=source.file, pointer=pointer) from error


def _place(text: str, source: VariableSource) -> str:
    """File, node and field that hold `text`; the node if it is in no field."""
    pointer, snapshot = source.pointer + (_path_to(text, source.node) or ""), source.request.snapshot
    known = isinstance(snapshot, ConfigSnapshot)
    return snapshot.where(source.file, pointer) if known else where(source.file, pointer)


def _path_to(text: str, value: Any) -> str | None:
    """JSON pointer, below `value`, of the first place that holds exactly `text`."""
    if isinstance(value, str):
        return "" if value == text else None
    if isinstance(value, Mapping):
        items = list(value.items())
    elif isinstance(value, list | tuple):
        items = list(enumerate(value))
    else:
        return None
    for key, item in items:
        if (below := _path_to(text, item)) is not None:
            return f"/{str(key).replace('~', '~0').replace('/', '~1')}{below}"
    return None


def _folder(prefix: str) -> str:
    """The folder part of the beginning of a path; `"."` without one, `"/"` for the root."""
    end = max(prefix.rfind("/"), prefix.rfind("\\"))
    if end < 0:
        return "."
    return prefix[:end] or prefix[:1]
