"""The texts of a node in which variables are filled, and the names that they look up. Pure; reads no file.

Source: workflows.md 7.1 and 7.2.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from Middleware.common.errors import ConfigError
from Middleware.common.types import NodeConfig
from Middleware.config import validation
from Middleware.utilities.cleaning_fields import Rules, rules_now
from Middleware.workflows.handlers.registry import known_type, node_schema
from Middleware.workflows.processors.node_numbers import NUMBERS
from Middleware.workflows.variables.format_text import placeholder_names, placeholders
from Middleware.workflows.variables.jinja_text import jinja_names
from Middleware.workflows.variables.live_values import LiveValues

EARLY_FIELDS = ("endpointName", "preset", "presetName")
OVERRIDES = (
    "firstNodeSystemPromptOverride",
    "systemPromptOverride",
    "firstNodePromptOverride",
    "promptOverride",
    "routeOverrides",
)
"""Texts for a child: what the parent does not know may be known there."""

_LITERAL_FIELDS = frozenset(
    [
        *("type", "title", "agentName", "displayOnlyComment", "jinja2", "workflowName"),
        *("conditionalWorkflows", "workflowUserFolderOverride", "structuredOutputFile"),
        *("parallelGroup", "onNodeError"),
        *OVERRIDES,
    ]
)
NO_TEMPLATES = (_LITERAL_FIELDS - set(OVERRIDES)) | set(EARLY_FIELDS) | NUMBERS.keys()
"""What is not filled as a Jinja text in a node with `jinja2`."""
_OF_OUTPUT = re.compile(r"agent(\d{1,18})(Output|Thinking)")
_A_WORD = re.compile(r"\w+")


def schemas_of(node_type: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """`node_schema`, made once for the cleaning rules that there are, so that its validators are."""
    return _schemas_of(node_type, rules_now())


@cache
def _schemas_of(node_type: str, rules: Rules) -> tuple[dict[str, Any], dict[str, Any]]:
    return node_schema(node_type)


def texts_of(value: Any, pointer: str = "") -> Iterator[tuple[str, str]]:
    """(pointer, text) of every text in a JSON value."""
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from texts_of(item, f"{pointer}{validation.json_pointer([key])}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from texts_of(item, f"{pointer}/{index}")


def names_used(config: NodeConfig) -> Iterator[tuple[str, str]]:
    """(pointer below the node, variable name) of the node's known fields in format mode."""
    if config.get("jinja2"):
        return
    for pointer, text in texts_with_braces(config, _LITERAL_FIELDS):
        yield from ((pointer, name) for name in sorted(placeholder_names(text)))


def texts_with_braces(config: NodeConfig, but_for: Container[str]) -> Iterator[tuple[str, str]]:
    """(pointer below the node, text) of its known fields."""
    must, should = schemas_of(known_type(config.get("type")))
    known = validation.known_fields(must) | validation.known_fields(should)
    for key, value in config.items():
        if key in known and key not in but_for:
            yield from (pair for pair in texts_of(value, f"/{key}") if "{" in pair[1])


class Written(NamedTuple):
    """A name that a text of a node looks up. `pointer`: below the node. `through`: the variable of the file
    or the user that brings it; empty: it stands in the text itself.
    """

    pointer: str
    name: str
    through: str = ""


def names_written(config: NodeConfig) -> Iterator[tuple[str, str]]:
    """(pointer below the node, variable name) in the order of the text: those of Jinja texts too, and those
    of texts for a child, which may know them alone.
    """
    return ((written.pointer, written.name) for written in names_filled(config, LiveValues({})))


def names_filled(config: NodeConfig, values: LiveValues) -> Iterator[Written]:
    """The same, and behind each variable the names that it brings. `values`: of the variables.

    A variable brings none into a Jinja text, which takes it as it is.
    """
    is_jinja = bool(config.get("jinja2"))
    for pointer, text in texts_with_braces(config, _LITERAL_FIELDS - set(OVERRIDES)):
        field = pointer.split("/")[1]
        if is_jinja and field not in NO_TEMPLATES:
            yield from (Written(pointer, name) for name in _template_names(text))
        else:
            yield from dict.fromkeys(_format_names(pointer, text, None if field in EARLY_FIELDS else values))


def _format_names(pointer: str, text: str, values: LiveValues | None) -> Iterator[Written]:
    """The names of a text in format mode, each with those behind it. An early field knows no output, so
    nothing behind a name of it matters.
    """
    for placeholder in dict.fromkeys(placeholders(text)):
        yield Written(pointer, placeholder.name)
        for name in values.names_behind(placeholder) if values is not None else ():
            yield Written(pointer, name, placeholder.name)


def _template_names(text: str) -> list[str]:
    """The names of a Jinja text, in its order."""
    places: dict[str, int] = {}
    for match in _A_WORD.finditer(text):
        places.setdefault(match[0], match.start())
    return sorted(names_in_text(text, is_jinja=True), key=lambda name: (places.get(name, 0), name))


def output_named(name: str) -> tuple[int, str] | None:
    """(node number, `Output` or `Thinking`) of `agentNOutput` and `agentNThinking`; None: another name."""
    match = _OF_OUTPUT.fullmatch(name)
    return (int(match.group(1)), match.group(2)) if match else None


def names_in_text(text: str, *, is_jinja: bool) -> frozenset[str]:
    if not is_jinja:
        return placeholder_names(text)
    try:
        return jinja_names(text)
    except ConfigError:
        return frozenset()  # a template that does not parse is told elsewhere
