"""One workflow file by itself: its nodes' schemas, and what its nodes say of each other. Pure; reads no
file.

`own_errors` is what the loader asks when a file is read (only what makes a node fail); `own_findings` is all
of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from Middleware.common.errors import ConfigError
from Middleware.common.types import NodeConfig
from Middleware.config import validation
from Middleware.config.validation import ERROR, NOTE, WARNING, Finding
from Middleware.llmapis.sampler_translation import CANONICAL_SAMPLERS
from Middleware.workflows.handlers.registry import (
    DEFAULT_TYPE,
    NODES,
    OLD_NAMES,
    known_type,
    node_handler,
)
from Middleware.workflows.managers.incomplete import incomplete_node
from Middleware.workflows.managers.node_names import (
    EARLY_FIELDS,
    NO_TEMPLATES,
    OVERRIDES,
    names_filled,
    names_in_text,
    names_used,
    output_named,
    schemas_of,
    texts_of,
    texts_with_braces,
)
from Middleware.workflows.managers.unreachable import repeated_locks
from Middleware.workflows.processors.node_numbers import NUMBERS
from Middleware.workflows.processors.parallel_group import group_end, obstacles
from Middleware.workflows.variables.format_text import placeholder_names
from Middleware.workflows.variables.jinja_text import jinja_names
from Middleware.workflows.variables.live_values import LiveValues
from Middleware.workflows.variables.providers import VARIABLES, Layer

_OF_INPUT = re.compile(r"agent(\d{1,18})Input")
_WORD = re.compile(r"[A-Za-z_]\w*")
_FOR_OWN_TEXT = (
    "removeCustomTextFromResponseStart",
    "lowercaseToolCallFunctionNames",
    "useGroupChatTimestampLogic",
)


_ELSEWHERE = {
    **dict.fromkeys(sorted(CANONICAL_SAMPLERS), "set it in the file that 'preset' names"),
    "model": "set 'modelNameToSendToAPI' in the endpoint's file",
    "stream": "the client says whether it wants a stream",
    "apiKey": "set it in the endpoint's file",
    "url": "set 'endpoint' in the endpoint's file",
}
"""What a node's file does not say -> where it is said."""


@dataclass(frozen=True, slots=True)
class NodePlace:
    """One node of a file. `number` is 1-based, `pointer` where it stands, `title` for messages."""

    file: str
    number: int
    pointer: str
    config: NodeConfig

    def finding(self, field: str, level: str, message: str) -> Finding:
        pointer = f"{self.pointer}/{field}" if field else self.pointer
        return Finding(self.file, pointer, level, message)


def node_places(file: str, document: Any) -> list[NodePlace]:
    """The nodes of a workflow document that are objects."""
    nodes, base = (document.get("nodes"), "/nodes") if isinstance(document, Mapping) else (document, "")
    return [
        NodePlace(file, index + 1, f"{base}/{index}", node)
        for index, node in enumerate(nodes if isinstance(nodes, list) else ())
        if isinstance(node, Mapping)
    ]


def own_errors(file: str, document: Any) -> list[Finding]:
    """What makes a node of this file fail: the breaches of the nodes' `SCHEMA`."""
    return [finding for place in node_places(file, document) for finding in _breaches(place)]


def _breaches(place: NodePlace) -> list[Finding]:
    """Breaches of SCHEMA. A text in a numeric field that has a default is a warning: the default is used."""
    must, _ = schemas_of(known_type(place.config.get("type")))
    found = validation.check(place.config, must, place.file, pointer=place.pointer, level=ERROR)
    return [replace(f, level=WARNING) if _has_default(place, f) else f for f in found]


def _has_default(place: NodePlace, finding: Finding) -> bool:
    field = finding.pointer.removeprefix(f"{place.pointer}/")
    return NUMBERS.get(field) is not None and isinstance(place.config.get(field), str)


def own_findings(file: str, document: Any) -> list[Finding]:
    """Everything that the file alone shows, variables excepted."""
    places = node_places(file, document)
    answering = responder(places)
    findings: list[Finding] = []
    for place in places:
        findings += _schema_findings(place)
        findings += _role_findings(place, is_responder=place is answering)
        findings += _jinja_findings(place)
    findings += _second_responders(places)
    for index, why in repeated_locks([place.config for place in places]):
        findings.append(places[index].finding("", WARNING, why))
    findings += _parallel_findings(places, answering, document)
    nodes, base = (document.get("nodes"), "/nodes") if isinstance(document, Mapping) else (document, "")
    if nodes == []:
        findings.append(Finding(file, base, ERROR, validation.NO_NODES))
    return findings


def _schema_findings(place: NodePlace) -> Iterator[Finding]:
    node_type = place.config.get("type")
    if isinstance(node_type, str) and node_type in OLD_NAMES:
        yield place.finding("type", NOTE, f"{node_type!r} is an old name of {DEFAULT_TYPE!r}")
    elif isinstance(node_type, str) and node_type not in NODES:
        near = validation.nearest(node_type, NODES)
        hint = f" (did you mean {near!r}?)" if near else f". Known: {', '.join(sorted(NODES))}"
        yield place.finding("type", WARNING, f"unknown node type {node_type!r}, run as 'Standard'{hint}")
    must, should = schemas_of(known_type(node_type))
    breaches = _breaches(place)
    yield from breaches
    told = {finding.pointer for finding in breaches}
    advice = validation.check(place.config, should, place.file, pointer=place.pointer, level=WARNING)
    yield from (finding for finding in advice if finding.pointer not in told)
    yield from validation.unknown_fields(
        place.config, (must, should), place.file, pointer=place.pointer, elsewhere=_ELSEWHERE
    )


def is_responder(config: NodeConfig) -> bool:
    """Whether the node is marked as the one that answers. Source: workflows.md 6.4."""
    return bool(config["is_responder"] if "is_responder" in config else config.get("returnToUser"))


def responder(places: Sequence[NodePlace]) -> NodePlace | None:
    """The first marked node, else the last; None for a file without nodes."""
    return next((place for place in places if is_responder(place.config)), places[-1] if places else None)


def _second_responders(places: Sequence[NodePlace]) -> Iterator[Finding]:
    marked = [place for place in places if is_responder(place.config)]
    for place in marked[1:]:
        field = "is_responder" if "is_responder" in place.config else "returnToUser"
        message = f"node {marked[0].number} answers already; this flag does nothing"
        yield place.finding(field, WARNING, message)


def _role_findings(place: NodePlace, *, is_responder: bool) -> Iterator[Finding]:
    config, handler = place.config, node_handler(place.config.get("type"))
    if config.get("allowTools") and not is_responder:
        yield place.finding("allowTools", WARNING, "this node does not answer, so a tool call of it is lost")
    if config.get("endpointName") and handler.RUNS_DRY and not handler.CALLS_MODEL:
        message = "this node type calls no model; the endpoint only cleans its text"
        yield place.finding("endpointName", WARNING, message)
    if config.get("clientParameters") and not config.get("endpointName"):
        message = "this node calls no model with these; put it on the nodes that do, those of a child too"
        yield place.finding("clientParameters", WARNING, message)
    for field, message in (*handler.config_warnings(config), *incomplete_node(config)):
        yield place.finding(field, WARNING, message)
    for field, message in handler.config_notes(config):
        yield place.finding(field, NOTE, message)
    if is_responder and handler.children(config):
        for field in _FOR_OWN_TEXT:
            if config.get(field):
                message = (
                    "does nothing to the answer of a child workflow; put it on the node that makes the text"
                )
                yield place.finding(field, WARNING, message)


def _parallel_findings(
    places: Sequence[NodePlace], answering: NodePlace | None, document: Any
) -> Iterator[Finding]:
    """Groups that run one node after the other all the same, and why. Source: workflows.md 16.14."""
    by_number = {place.number: place for place in places}
    nodes = [by_number[n].config if n in by_number else {} for n in range(1, max(by_number, default=0) + 1)]
    values = LiveValues(_variables(document))
    start = 0
    while start < len(nodes):
        end = group_end(nodes, start)
        if end > start + 1 and answering:
            for index, reason in obstacles(nodes, start, end, answering.number - 1, values):
                message = f"this node {reason}, so the group runs one node after the other"
                yield by_number[index + 1].finding("parallelGroup", WARNING, message)
        start = end


def _variables(document: Any) -> Mapping[str, Any]:
    return document if isinstance(document, Mapping) else {}


def _jinja_findings(place: NodePlace) -> Iterator[Finding]:
    """Texts that no template can be made of: the node fails when its turn comes."""
    texts = texts_with_braces(place.config, NO_TEMPLATES) if place.config.get("jinja2") else ()
    for pointer, text in texts:
        try:
            jinja_names(text)
        except ConfigError as error:
            yield place.finding(pointer[1:], ERROR, error.message)


@dataclass(frozen=True, slots=True)
class WorkflowReach:
    """How a workflow is reached. `inputs`: most agent inputs that a caller passes, None: unknown."""

    user_variables: frozenset[str]
    inputs: int | None
    categorises: bool = False


def variable_findings(file: str, document: Any, reach: WorkflowReach) -> Iterator[Finding]:
    """Warnings for names that no variable will have when the node runs."""
    own = {key for key in _variables(document) if key != "nodes"}
    values = LiveValues(_variables(document))
    builtin = {
        name
        for name, provider in VARIABLES.items()
        if reach.categorises or provider.layer is not Layer.CATEGORY
    }
    for place in node_places(file, document):
        for pointer, name in names_used(place.config):
            field = pointer.split("/")[1]
            known = own if field in EARLY_FIELDS else own | builtin | reach.user_variables
            if name not in known and (message := _unknown_name(name, place, reach, field, known)):
                yield place.finding(pointer[1:], WARNING, message)
        yield from _brought_too_early(place, values)


def _brought_too_early(place: NodePlace, values: LiveValues) -> Iterator[Finding]:
    """Outputs that a variable of the file brings to a node that runs before they are there."""
    for pointer, name, through in names_filled(place.config, values):
        output = output_named(name)
        if through and output and output[0] >= place.number and pointer.split("/")[1] not in OVERRIDES:
            message = (
                f"{{{name}}} in the variable {{{through}}} is not known yet: this is node {place.number}"
            )
            yield place.finding(pointer[1:], WARNING, message)


def unguarded_findings(file: str, document: Any, user_variables: Mapping[str, Any]) -> Iterator[Finding]:
    """Warnings for nodes that fetch what a user or a model wrote, without a guard. Source: tools.md 11.2."""
    own = _variables(document)
    configured = {**user_variables, **{key: value for key, value in own.items() if key != "nodes"}}
    for place in node_places(file, document):
        handler = node_handler(place.config.get("type"))
        for field in handler.unguarded_fields(place.config):
            is_jinja = bool(place.config.get("jinja2"))
            texts = [text for _, text in texts_of(place.config.get(field))]
            names = {name for text in texts for name in names_in_text(text, is_jinja=is_jinja)}
            if told := sorted(name for name in names if _is_said(name, configured)):
                message = (
                    f"{{{told[0]}}} holds text of a user or a model, and nothing guards what is fetched: "
                    "set 'blockPrivateAddresses' or 'allowedHosts', or the user's 'outboundPolicy'"
                )
                yield place.finding(field, WARNING, message)


def _is_said(name: str, configured: Mapping[str, Any]) -> bool:
    """Whether the conversation gives a variable its value: neither the author nor the clock does."""
    if name in configured:
        value = configured[name]
        inner = placeholder_names(value) if isinstance(value, str) and "{" in value else ()
        return any(other not in configured and _is_said(other, configured) for other in inner)
    provider = VARIABLES.get(name)
    if provider is not None:
        return provider.layer is not Layer.DATE
    return bool(output_named(name) or _OF_INPUT.fullmatch(name))


def _unknown_name(name: str, place: NodePlace, reach: WorkflowReach, field: str, known: Iterable[str]) -> str:
    """Why a name is not known; empty when it is an output or input that exists, or hardly meant as a name."""
    if output := output_named(name):
        if field in EARLY_FIELDS:
            return f"{{{name}}} is not known here: only workflow variables and {{agentNInput}} are"
        if output[0] >= place.number:
            return f"{{{name}}} is not known yet: this is node {place.number}"
        return "" if output[0] > 0 else f"{{{name}}}: nodes are numbered from 1"
    if match := _OF_INPUT.fullmatch(name):
        number = int(match.group(1))
        if reach.inputs is None or 0 < number <= reach.inputs:
            return ""
        return f"{{{name}}} is never passed: callers give {reach.inputs} scoped_variables"
    if not _WORD.fullmatch(name):
        return ""
    near = validation.nearest(name, known)
    return f"unknown variable {{{name}}} stays as text" + (f" (did you mean {{{near}}}?)" if near else "")
