"""Fills the variables of a node's texts: the face of this package.

A text is parsed once (cached); only the variables that it names are computed; nothing that was inserted is
ever parsed again. Format mode never fails: what is not known stays text, with one warning.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from Middleware.common.errors import ConfigError, where
from Middleware.common.types import NodeConfig
from Middleware.config.loader import ConfigSnapshot
from Middleware.workflows.variables import jinja_text
from Middleware.workflows.variables.conversation import VariableSource
from Middleware.workflows.variables.format_text import (
    MAX_DEPTH,
    FilledText,
    Found,
    Origin,
    Piece,
    Placeholder,
    VariableNames,
    fill_pieces,
    join_pieces,
    placeholders,
)
from Middleware.workflows.variables.providers import VARIABLES, Layer, View

__all__ = [
    "AllNames",
    "EarlyNames",
    "LiveValues",
    "VariableSource",
    "fill",
    "fill_early",
    "fill_override",
    "fill_parts",
    "fill_prefix",
    "is_plain",
]

logger = logging.getLogger(__name__)


# --------------------------------------------------------------------------
# Which value a name has: configured names and `providers.py`, in the order of precedence of workflows.md
# 7.5.


class AllNames:
    """Every variable of a node, for its format and Jinja texts."""

    def __init__(self, source: VariableSource) -> None:
        self._source = source
        self._view = View(source)
        self._found: dict[str, Found | None] = {}

    def find(self, name: str) -> Found | None:
        if name not in self._found:
            self._found[name] = self._look_up(name)
        return self._found[name]

    def _look_up(self, name: str) -> Found | None:
        source = self._source
        rank = self._rank(name)
        if rank < Layer.NODES and (made := _find_made(name, _of_nodes(source))):
            return made
        if rank > Layer.WORKFLOW:
            return self._find_provided(name, Origin.RUN)
        if name in source.workflow_variables:
            return _find_configured(name, source.workflow_variables)
        if rank == Layer.DATE:
            return self._find_provided(name, Origin.STATIC)
        return _find_configured(name, source.user.user_wide_workflow_variables)

    def _rank(self, name: str) -> int:
        """The layer of a name of `providers.py` that exists for this node, else 0."""
        provider = VARIABLES.get(name)
        return provider.layer if provider is not None and self._view.has(provider.layer) else 0

    def _find_provided(self, name: str, origin: Origin) -> Found:
        return Found(VARIABLES[name].value(self._view), live=False, origin=origin)


class EarlyNames:
    """Workflow variables and agent inputs (which win), for fields read before the model is loaded."""

    def __init__(self, source: VariableSource, *, with_outputs: bool) -> None:
        self._source = source
        self._of_nodes = _of_nodes(source) if with_outputs else (source.agent_inputs,)

    def find(self, name: str) -> Found | None:
        return _find_made(name, self._of_nodes) or _find_configured(name, self._source.workflow_variables)


def _of_nodes(source: VariableSource) -> tuple[Mapping[str, Any], ...]:
    return (source.agent_outputs, source.agent_inputs, source.thoughts)


def _find_made(name: str, of_nodes: tuple[Mapping[str, Any], ...]) -> Found | None:
    for values in of_nodes:
        if name in values:
            return Found(values[name], live=False, origin=Origin.RUN)
    return None


def _find_configured(name: str, values: Mapping[str, Any]) -> Found | None:
    return Found(values[name], live=True, origin=Origin.STATIC) if name in values else None


# --------------------------------------------------------------------------

_LIKE_A_NAME = re.compile(r"[\w-]+")


def is_plain(text: str, node: NodeConfig) -> bool:
    """Whether `fill` gives the text as it is in this node: then nothing need be gathered for it."""
    return type(text) is str and "{" not in text and "}" not in text and not node.get("jinja2")


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


def value_of(name: str, source: VariableSource) -> str | None:
    """A variable as it would stand in a text of the node; None: nobody knows it. Raises ConfigError as `fill`
    does.
    """
    names = AllNames(source)
    if names.find(name) is None:
        return None
    if source.node.get("jinja2"):
        return jinja_text.render(f"{{{{ {name} }}}}", names)
    return join_pieces(fill_pieces(f"{{{name}}}", names).pieces)


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


# --------------------------------------------------------------------------
# What stands behind a placeholder: texts of workflow and user-wide variables may hold placeholders
# themselves.


MOST_NAMES = 50_000
"""How many names are followed in all: texts that name each other over and over hold nobody up."""
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_NOT_ALWAYS_THERE = (Layer.CATEGORY,)


class LiveValues:
    """The variables of a file and of its user, without those that one of the program's own goes before.

    `own`: the document of the file, or its variables alone. One serves one look at a file.
    """

    def __init__(self, own: Mapping[str, Any], of_user: Mapping[str, Any] = _NOTHING) -> None:
        theirs = {name: value for name, value in of_user.items() if not _is_hidden(name, Layer.USER_WIDE)}
        ours = {name: value for name, value in own.items() if not _is_hidden(name, Layer.WORKFLOW)}
        self.values = {**theirs, **ours}
        self.values.pop("nodes", None)
        self._inside: dict[Placeholder, tuple[Placeholder, ...]] = {}
        self._left = MOST_NAMES

    def names_behind(self, placeholder: Placeholder) -> Iterator[str]:
        """The names that filling a placeholder looks up besides its own, each once; those of its value first,
        then theirs.

        As deep as a run follows them; a circle is left where a run leaves it.
        """
        seen, told = {placeholder}, {placeholder.name}
        level = [(placeholder, frozenset({placeholder.name}))]
        for _ in range(MAX_DEPTH):
            deeper = []
            for one, within in level:
                for other in self._placeholders_of(one):
                    self._left -= 1
                    if self._left < 0:
                        return
                    if other.name not in told:
                        told.add(other.name)
                        yield other.name
                    if other not in seen and other.name not in within:
                        seen.add(other)
                        deeper.append((other, within | {other.name}))
            level = deeper

    def texts_behind(self, named: Iterable[Placeholder]) -> dict[tuple[str | int, ...], str]:
        """Path of each text that filling these placeholders fills in its turn (name, then keys) -> the text.

        As deep as a run follows them.
        """
        found: dict[tuple[str | int, ...], str] = {}
        level = dict.fromkeys(named)
        for _ in range(MAX_DEPTH):
            deeper: dict[Placeholder, None] = {}
            for one in level:
                path = (one.name, *one.path)
                if path not in found and (text := _text_at(one, self.values)):
                    found[path] = text
                    deeper |= dict.fromkeys(placeholders(text))
            level = deeper
        return found

    def _placeholders_of(self, placeholder: Placeholder) -> tuple[Placeholder, ...]:
        """Those of the text that is filled in turn; none for a value that holds nothing to fill."""
        if placeholder not in self._inside:
            text = _text_at(placeholder, self.values)
            self._inside[placeholder] = tuple(placeholders(text)) if text else ()
        return self._inside[placeholder]

    def names_looked_up(self, value: Any) -> Iterator[str]:
        """The names behind every placeholder in the texts of a JSON value, a second pass included."""
        if isinstance(value, str):
            for placeholder in placeholders(value, second_pass=True) if "{" in value else ():
                yield from self.names_behind(placeholder)
        elif isinstance(value, Mapping):
            for item in value.values():
                yield from self.names_looked_up(item)
        elif isinstance(value, list):
            for item in value:
                yield from self.names_looked_up(item)


def _is_hidden(name: str, layer: Layer) -> bool:
    provider = VARIABLES.get(name)
    return provider is not None and provider.layer > layer and provider.layer not in _NOT_ALWAYS_THERE


def _text_at(placeholder: Placeholder, values: Mapping[str, Any]) -> str:
    value = values.get(placeholder.name, "")
    for key in placeholder.path:
        try:
            value = value[key]
        except (LookupError, TypeError):
            return ""
    return value if isinstance(value, str) and "{" in value else ""
