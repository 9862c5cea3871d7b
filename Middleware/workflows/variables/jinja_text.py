"""Jinja mode: fields of nodes with `"jinja2": true`, in a sandbox. One pass; values stay text.

A template is compiled once (cached by its text), and only the variables that it names are computed. Jinja is
imported when the first such text is met. Source: workflows.md 7.4, 16.15.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from Middleware.common.errors import ConfigError
from Middleware.workflows.variables.format_text import (
    FilledText,
    Found,
    Origin,
    Piece,
    VariableNames,
    with_inserts,
)

if TYPE_CHECKING:
    from jinja2 import Template
    from jinja2.sandbox import ImmutableSandboxedEnvironment

_LEFT, _RIGHT, _MARK = "\ufdd2", "\ufdd3", "\ufdd4"
_SHIELD = str.maketrans({"{": _LEFT, "}": _RIGHT})
_UNSHIELD = str.maketrans({_LEFT: "{", _RIGHT: "}"})
_TAG = re.compile(r"\{\{|\{%")
_SHIELDED = re.compile(f"([{_LEFT}{_RIGHT}]+)")


_WRONG_IN_A_TEMPLATE = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
_NOT_COMPILED = (SyntaxError, RecursionError, ValueError, OverflowError, MemoryError)


class _CompiledText(NamedTuple):
    template: Template
    names: frozenset[str]


class _Live(str):
    """The text of a workflow or user-wide variable: its braces are the author's."""


class _VariableMark(str):
    """Stands for a run-time value, whatever the template takes out of it."""

    def __getitem__(self, key: object) -> _VariableMark:
        return self

    def __iter__(self) -> Iterator[str]:
        yield self


def jinja_names(text: str) -> frozenset[str]:
    """All names that a template looks up, known or not. Raises ConfigError for a template that does not
    parse.
    """
    return _compile_text(text, False).names


class NamePlace(NamedTuple):
    """A name in a template that is looked up. `start`, `end`: in characters of its text."""

    name: str
    start: int
    end: int


def jinja_name_places(text: str) -> Iterator[NamePlace]:
    """Where a template looks names up, in its order; nowhere in one that does not parse.

    Not behind a `.` or `|`, not the name of an argument, not in texts, comments and `raw`.
    """
    try:
        names = jinja_names(text)
    except ConfigError:
        return
    tokens = [token for token in _lexed(text) if token.kind != "whitespace"]
    depth = 0
    for before, token, behind in zip([_NO_TOKEN, *tokens], tokens, [*tokens[1:], _NO_TOKEN], strict=False):
        if token.kind == "operator":
            depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
        is_looked_up = token.kind == "name" and token.text in names and before.text not in (".", "|")
        if is_looked_up and not (depth > 0 and behind.text == "="):
            yield NamePlace(token.text, token.start, token.start + len(token.text))


class _Token(NamedTuple):
    kind: str
    text: str
    start: int


_NO_TOKEN = _Token("", "", 0)


def _lexed(text: str) -> Iterator[_Token]:
    """The tokens of a template that parses. Jinja counts line ends as one character, and leaves out white
    space that the template strips.
    """
    ends = [match.end() for match in re.finditer("\r\n", text)]
    normal = re.sub("\r\n|\r", "\n", text)
    at = crossed = 0
    for _, kind, value in _environment(False).lex(text):
        at = normal.find(value, at)
        while crossed < len(ends) and ends[crossed] <= at + crossed + 1:
            crossed += 1
        yield _Token(kind, value, at + crossed)
        at += len(value)


def render(text: str, names: VariableNames) -> str:
    """The rendered template. Raises ConfigError."""
    rendered = _render(text, names, shielded=False)
    if isinstance(text, FilledText):
        return "".join(piece.text for piece in with_inserts(rendered, text.inserts))
    return rendered


def render_pieces(text: str, names: VariableNames) -> list[Piece]:
    """The rendered template as pieces: braces that came out of an expression are inserted ones. Raises
    ConfigError.
    """
    inserts = text.inserts if isinstance(text, FilledText) else ()
    pieces: list[Piece] = []
    for piece in with_inserts(_render(text, names, shielded=True, value=_authored_or_not), inserts):
        runs = _SHIELDED.split(piece.text) if piece.origin is Origin.AUTHORED else [piece.text]
        for index, run in enumerate(runs):
            if run:
                pieces.append(
                    Piece(run.translate(_UNSHIELD), Origin.RUN) if index % 2 else Piece(run, piece.origin)
                )
    return pieces


def static_prefix(text: str, rendered: str, names: VariableNames) -> str | None:
    """The part of `rendered` before anything that a run-time value decides; None if none decides anything."""
    try:
        marked = _render(text, names, shielded=False, value=_mark_value)
    except ConfigError:
        return _prefix_of_beginning(text, rendered, names)
    return None if marked == rendered else _common_start(marked, rendered)


def _prefix_of_beginning(text: str, rendered: str, names: VariableNames) -> str:
    """As `static_prefix`, for a template that does not take marks: from its longest part that does."""
    for tag in reversed(list(_TAG.finditer(text))):
        try:
            marked = _render(text[: tag.start()], names, shielded=False, value=_mark_value)
        except ConfigError:
            continue
        return _common_start(marked, rendered)
    return ""


def _common_start(one: str, other: str) -> str:
    differs = (index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return one[: next(differs, min(len(one), len(other)))]


def _mark_value(found: Found) -> Any:
    return _VariableMark(_MARK) if found.origin is Origin.RUN else found.value


def _value(found: Found) -> Any:
    return found.value


def _authored_or_not(found: Found) -> Any:
    return _Live(found.value) if found.live and isinstance(found.value, str) else found.value


def _render(
    text: str, names: VariableNames, *, shielded: bool, value: Callable[[Found], Any] = _value
) -> str:
    from jinja2 import TemplateError

    template = text.skeleton if isinstance(text, FilledText) else text
    compiled = _compile_text(template, shielded)
    known = {name: value(found) for name in compiled.names if (found := names.find(name)) is not None}
    try:
        return compiled.template.render(known)
    except (TemplateError, *_WRONG_IN_A_TEMPLATE) as error:
        raise ConfigError(f"the Jinja template failed: {type(error).__name__}: {error}") from error


@lru_cache(maxsize=512)
def _compile_text(text: str, shielded: bool) -> _CompiledText:
    from jinja2 import TemplateSyntaxError, meta

    environment = _environment(shielded)
    try:
        reader = meta.TrackingCodeGenerator(environment)
        reader.optimizer = None  # it would compute
        reader.visit(environment.parse(text))
        return _CompiledText(environment.from_string(text), frozenset(reader.undeclared_identifiers))
    except TemplateSyntaxError as error:
        raise ConfigError(
            f"the Jinja template has an error in line {error.lineno}: {error.message}"
        ) from error
    except _NOT_COMPILED as error:  # what the language allows but Python cannot take: too deep, too long
        raise ConfigError(f"the Jinja template cannot be compiled: {error}") from error


@lru_cache(maxsize=2)
def _environment(shielded: bool) -> ImmutableSandboxedEnvironment:
    from jinja2 import pass_eval_context
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    printed = _shield_text if shielded else _printable

    @pass_eval_context
    def finalize(_: object, value: object) -> object:
        return printed(value)

    # Nothing is computed before a template is rendered: whoever only has a text checked runs nothing of it.
    # Without `optimized` Jinja does so still for what is printed, unless its end depends on the rendering.
    return ImmutableSandboxedEnvironment(finalize=finalize, optimized=False)


def _printable(value: object) -> object:
    """A null prints as nothing. Source: memory.md 16."""
    return "" if value is None else value


def _shield_text(value: object) -> str:
    if isinstance(value, _Live):
        return value
    return "" if value is None else str(value).translate(_SHIELD)
