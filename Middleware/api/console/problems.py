"""Findings of one config file as the page shows them: at their places in the text that it is shown. Pure.

The words are those of `--validate`; secrets that they quote are masked. Source: spec console.md 9.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from Middleware.api.console.check_limits import MOST_PROBLEMS, count_sentence
from Middleware.api.console.config_masks import secrets_in, shown_text
from Middleware.common.errors import ConfigError
from Middleware.common.places import node_index
from Middleware.common.types import JsonObject
from Middleware.config.json_positions import Positions, positions
from Middleware.config.tolerant_json import parse
from Middleware.config.validation import NOTE, Finding, describe_value
from Middleware.utilities.sensitive_logging_utils import MASK, MIN_SECRET, mask_secrets


def problems(
    findings: Iterable[Finding], file: str, text: str, shown: Positions | None = None
) -> list[JsonObject]:
    """The findings of `file`, in their order, each `{"line", "column", "end_line", "end_column", "pointer",
    "node", "level", "message"}`.

    `text`: of the file, secrets and all. `shown`: the map of it as it is shown, made here when not given.
    `node`: its number, null for what is in none. Of very many the first ones, then how many there are more.
    """
    own = [finding for finding in findings if finding.file == file]
    if not own:
        return []
    told = shown or positions(shown_text(text))
    secrets = secrets_in(text)
    shown_ones, rest = own[:MOST_PROBLEMS], len(own) - MOST_PROBLEMS
    made = [
        {
            **_span(told, finding),
            "pointer": finding.pointer,
            "node": None if (index := node_index(file, finding.pointer)) is None else index + 1,
            "level": finding.level,
            "message": _message(finding.message, secrets),
        }
        for finding in shown_ones
    ]
    return [*made, problem(NOTE, count_sentence(rest))] if rest > 0 else made


def problem(level: str, message: str) -> JsonObject:
    """One about the whole text."""
    span = {"line": 1, "column": 1, "end_line": 1, "end_column": 1}
    return {**span, "pointer": "", "node": None, "level": level, "message": message}


def _span(told: Positions, finding: Finding) -> dict[str, int]:
    """Where the value stands that a finding is about, or the sign that is no JSON."""
    broken = None if finding.pointer else _syntax_error_position(told)
    if broken is not None:
        line, column = broken
        return {"line": line, "column": column, "end_line": line, "end_column": column + 1}
    pointer = finding.pointer
    if told.find(pointer) is None and told.find("/nodes") is None:
        pointer = pointer.removeprefix("/nodes")  # some findings name the nodes of a bare list so
    start, end = told.value(pointer)
    place = told.find(pointer)
    if place is not None and place.members is not None:
        end = start + 1  # as for a field that an object lacks: its bracket, not all that it holds
    (line, column), (end_line, end_column) = told.line_column(start), told.line_column(end)
    return {"line": line, "column": column, "end_line": end_line, "end_column": end_column}


def _syntax_error_position(told: Positions) -> tuple[int, int] | None:
    """Line and column where the text that is shown is no JSON; None: it is."""
    try:
        parse(told.text.encode("utf-8", "replace"), "")
    except ConfigError as error:
        return (error.position.line, error.position.column) if error.position.line else None
    return None


def _message(message: str, secrets: Iterable[Any]) -> str:
    for secret in secrets:
        message = message.replace(f"found {describe_value(secret)}", f"found {describe_value(MASK)}")
        if len(secret) >= MIN_SECRET:
            message = message.replace(secret, MASK)
    return mask_secrets(message)
