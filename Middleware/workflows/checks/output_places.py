"""Where the texts of a workflow file name the outputs of its nodes, to the letter. Pure; reads no file.

`names_filled` (`workflow_check.py`) tells the names; this tells their places, so that they can be written
anew. Source: spec workbench.md 2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from Middleware.common.types import NodeConfig
from Middleware.config.validation import json_pointer
from Middleware.workflows.checks.workflow_check import (
    EARLY_FIELDS,
    OVERRIDES,
    NodePlace,
    filled_texts,
    no_templates,
    node_places,
)
from Middleware.workflows.handlers.node_types import number_defaults
from Middleware.workflows.variables.format_text import Placeholder, placeholders
from Middleware.workflows.variables.jinja_text import jinja_name_places
from Middleware.workflows.variables.workflow_variable_manager import LiveValues

_NAME = r"agent(?P<number>[1-9][0-9]{0,17})(?P<what>Output|Thinking|ToolCalls|Candidates)"
_IN_FORMAT = re.compile(rf"\{{{_NAME}(?=[}}\[!:])")
_ALONE = re.compile(_NAME)


class OutputName(NamedTuple):
    """`agentNOutput` or its like in one text. `start`, `end`: of the number, in characters of the text."""

    number: int
    what: str
    start: int
    end: int

    @property
    def name(self) -> str:
        return f"agent{self.number}{self.what}"


class OutputPlace(NamedTuple):
    """One such name in a file. `pointer`: of its text. `node`: the number of the node that it is a text of;
    None: it is a variable of the file. `for_child`: a text that a child may fill.
    """

    pointer: str
    found: OutputName
    node: int | None
    for_child: bool = False


def output_places(file: str, document: Any, of_user: Mapping[str, Any]) -> Iterator[OutputPlace]:
    """All of them in a workflow document, as the engine fills its texts: those of the nodes, then those of
    the file's variables that these name. `of_user`: the user's variables for all workflows.
    """
    named: dict[Placeholder, None] = {}
    for place in node_places(file, document):
        yield from _of_node(place)
        named |= dict.fromkeys(placeholders_filled(place.config))
    own = document if isinstance(document, Mapping) else {}
    for path, text in LiveValues(own, of_user).texts_behind(named).items():
        if path[0] in own:
            yield from (OutputPlace(json_pointer(path), found, None) for found in names_in_variable(text))


def outputs_of_user(document: Any, of_user: Mapping[str, Any]) -> dict[str, list[OutputName]]:
    """Variable of the user that this file fills -> the outputs that its text names."""
    named = [one for place in node_places("", document) for one in placeholders_filled(place.config)]
    own = document if isinstance(document, Mapping) else {}
    texts = LiveValues(own, of_user).texts_behind(named)
    return {
        str(path[0]): found
        for path, text in texts.items()
        if path[0] not in own and (found := list(names_in_variable(text)))
    }


def names_in_variable(text: str) -> Iterator[OutputName]:
    """Of a variable's text, which is filled in one pass."""
    return _in_format(text, once=True)


def placeholders_filled(config: NodeConfig) -> Iterator[Placeholder]:
    """What a node's texts fill with outputs at hand: no Jinja text, which takes variables as they are, and no
    early field.
    """
    for pointer, text in filled_texts(config):
        field = pointer.split("/")[1]
        if field in EARLY_FIELDS or _is_template(config, field):
            continue
        yield from placeholders(text, second_pass=field not in number_defaults())


def _of_node(place: NodePlace) -> Iterator[OutputPlace]:
    for pointer, text in filled_texts(place.config):
        field = pointer.split("/")[1]
        if _is_template(place.config, field):
            names = _in_template(text)
        else:
            names = _in_format(text, once=field in EARLY_FIELDS or field in number_defaults())
        for found in names:
            yield OutputPlace(f"{place.pointer}{pointer}", found, place.number, field in OVERRIDES)


def _is_template(config: NodeConfig, field: str) -> bool:
    return bool(config.get("jinja2")) and field not in no_templates()


def _in_format(text: str, *, once: bool) -> Iterator[OutputName]:
    """Directly behind a brace, at any depth. Doubled braces too: whether the second pass fills them is known
    only while running. `once`: there is no second pass, and what is surely escaped is no name.
    """
    for match in _IN_FORMAT.finditer(text):
        if not (once and _is_escaped(text, match)):
            yield _output_name(match, 0)


def _is_escaped(text: str, match: re.Match[str]) -> bool:
    before = text[: match.start() + 1]
    braces = len(before) - len(before.rstrip("{"))
    return braces % 2 == 0 and text.startswith("}}", match.end())


def _in_template(text: str) -> Iterator[OutputName]:
    for place in jinja_name_places(text):
        if match := _ALONE.fullmatch(place.name):
            yield _output_name(match, place.start)


def _output_name(match: re.Match[str], offset: int) -> OutputName:
    start, end = match.span("number")
    return OutputName(int(match["number"]), match["what"], start + offset, end + offset)
