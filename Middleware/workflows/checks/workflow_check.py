"""One workflow file by itself: its nodes' schemas, and what its nodes say of each other. Pure; reads no
file.

`own_errors` is what the loader asks when a file is read (only what makes a node fail); `own_findings` is all
of it.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

from Middleware.common.errors import ConfigError
from Middleware.common.types import NodeConfig
from Middleware.config import validation
from Middleware.config.validation import ERROR, NOTE, WARNING, Finding
from Middleware.llmapis.sampler_translation import CANONICAL_SAMPLERS
from Middleware.utilities.streaming_utils import Rules, rules_now
from Middleware.workflows.dispatch.llm_dispatch import LATE_BESIDE_PROMPT
from Middleware.workflows.handlers.node_types import (
    NODES,
    OLD_NAMES,
    known_type,
    node_handler,
    node_schema,
    number_defaults,
    number_keys,
)
from Middleware.workflows.models.node_keys import DEFAULT_TYPE, EARLY_CHOICES
from Middleware.workflows.processors.parallel_group import group_end, obstacles
from Middleware.workflows.processors.read_ahead import obstacle_to_reading
from Middleware.workflows.variables.format_text import placeholder_names, placeholders
from Middleware.workflows.variables.jinja_text import jinja_names
from Middleware.workflows.variables.providers import VARIABLES, Layer
from Middleware.workflows.variables.workflow_variable_manager import LiveValues

# --------------------------------------------------------------------------
# Settings that do nothing, or not what they say, because the one that belongs to them is not there. Pure.


Slip = tuple[str, str]
"""(field, what is wrong with it)"""

_ENDPOINT_SWITCHES = {
    "addTextToStartOfSystem": "textToAddToStartOfSystem",
    "addTextToStartOfPrompt": "textToAddToStartOfPrompt",
    "addTextToStartOfCompletion": "textToAddToStartOfCompletion",
    "ensureTextAddedToAssistantWhenChatCompletion": "addTextToStartOfCompletion",
    "removeCustomTextFromResponseStartEndpointWide": "responseStartTextToRemoveEndpointWide",
}
_NODE_SWITCHES = {"removeCustomTextFromResponseStart": "responseStartTextToRemove"}


def incomplete_node(node: Mapping[str, Any]) -> Iterator[Slip]:
    """Of a workflow node."""
    yield from _switches(node, _NODE_SWITCHES)
    if node.get("errorText") and node.get("onNodeError") != "continue":
        yield "errorText", 'is never used unless the node sets `"onNodeError": "continue"`'


def incomplete_endpoint(endpoint: Mapping[str, Any]) -> Iterator[Slip]:
    """Of an endpoint file."""
    yield from _switches(endpoint, _ENDPOINT_SWITCHES)
    if any(endpoint.get("thinkTagNames") or ()):
        return
    start, end = endpoint.get("startThinkTag"), endpoint.get("endThinkTag")
    if start and not end:
        yield "startThinkTag", "needs `endThinkTag`; without it no thoughts are removed"
    elif end and not (start or endpoint.get("expectOnlyClosingThinkTag")):
        yield (
            "endThinkTag",
            "needs `startThinkTag`, or `expectOnlyClosingThinkTag`; without it no thoughts are removed",
        )
    elif endpoint.get("removeThinking") and not end:
        yield "removeThinking", "removes nothing: `thinkTagNames` is empty, and so are the literal tags"


def incomplete_user(user: Mapping[str, Any]) -> Iterator[Slip]:
    """Of a user file."""
    if user.get("customWorkflowOverride"):
        return
    for one, other in (
        ("routingConfig", "categorizationWorkflow"),
        ("categorizationWorkflow", "routingConfig"),
    ):
        if user.get(one) and not user.get(other):
            yield one, f"needs `{other}`; without it no request is routed"


def incomplete_api_type(api_type: Mapping[str, Any]) -> Iterator[Slip]:
    """Of an API type file."""
    thinking, structured = (_object(api_type.get(key)) for key in ("thinking", "structuredOutput"))
    if thinking.get("mode") not in (None, "unsupported") and not thinking.get("field"):
        yield "thinking", "needs a `field`; without it the model is never asked to think"
    if bool(structured.get("field")) != bool(structured.get("style")):
        yield "structuredOutput", "needs both `field` and `style`; without them no schema is sent"


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _switches(document: Mapping[str, Any], table: Mapping[str, str]) -> Iterator[Slip]:
    for switch, needed in table.items():
        if document.get(switch) is True and not _says_something(document.get(needed)):
            yield switch, f"is on but has no effect, because `{needed}` is empty"


def _says_something(value: object) -> bool:
    return any(value) if isinstance(value, list) else bool(value)


INCOMPLETE = {
    "Users": incomplete_user,
    "Endpoints": incomplete_endpoint,
    "ApiTypes": incomplete_api_type,
}
"""Top folder -> what to ask of its files."""


# --------------------------------------------------------------------------
# The texts of a node in which variables are filled, and the names that they look up. Pure; reads no file.


EARLY_FIELDS = ("endpointName", "preset", "presetName", *EARLY_CHOICES)
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
_NO_TEMPLATES = (_LITERAL_FIELDS - set(OVERRIDES)) | set(EARLY_FIELDS)
_OF_OUTPUT = re.compile(r"agent(\d{1,18})(Output|Thinking|ToolCalls|Candidates)")
_A_WORD = re.compile(r"\w+")


def no_templates() -> frozenset[str]:
    """What is not filled as a Jinja text in a node with `jinja2`."""
    return _NO_TEMPLATES | number_defaults().keys()


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


def is_filled(field: str) -> bool:
    """Whether placeholders are filled in a field that a node's type knows."""
    return field not in _LITERAL_FIELDS or field in OVERRIDES


def filled_texts(config: NodeConfig) -> Iterator[tuple[str, str]]:
    """(pointer below the node, text) of what is filled, texts for a child among it."""
    return texts_with_braces(config, _LITERAL_FIELDS - set(OVERRIDES))


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
    for pointer, text in filled_texts(config):
        field = pointer.split("/")[1]
        if is_jinja and field not in no_templates():
            yield from (Written(pointer, name) for name in _template_names(text))
        else:
            yield from dict.fromkeys(_format_names(pointer, text, None if field in EARLY_FIELDS else values))


def _format_names(pointer: str, text: str, values: LiveValues | None) -> Iterator[Written]:
    """The names of a text in format mode, each with those behind it. An early field knows no output, so
    nothing behind a name of it matters.
    """
    field = pointer.split("/")[1]
    once = field in EARLY_FIELDS or field in number_defaults()
    for placeholder in placeholders(text, second_pass=not once):
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
    """(node number, `Output`, `Thinking` and so on) of `agentNOutput` and its like; None: another
    name."""
    match = _OF_OUTPUT.fullmatch(name)
    return (int(match.group(1)), match.group(2)) if match else None


def names_in_text(text: str, *, is_jinja: bool) -> frozenset[str]:
    """All that it could look up."""
    if not is_jinja:
        return frozenset(placeholder.name for placeholder in placeholders(text, second_pass=True))
    try:
        return jinja_names(text)
    except ConfigError:
        return frozenset()  # a template that does not parse is told elsewhere


# --------------------------------------------------------------------------
# What can never have its turn, as a file shows: nodes behind a lock of their own run, lost categories.


def repeated_locks(nodes: Sequence[NodeConfig]) -> Iterator[tuple[int, str]]:
    """(index, why) of each node that asks for a lock which its own run holds: the run ends there."""
    holders: dict[str, int] = {}
    for index, node in enumerate(nodes):
        lock = node_handler(node.get("type")).takes_lock(node)
        if lock is None:
            continue
        if lock in holders:
            yield index, f"node {holders[lock] + 1} already holds this lock, so the run always ends here"
        holders.setdefault(lock, index)


# --------------------------------------------------------------------------

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
    own = node_handler(place.config.get("type")).config_errors(place.config)
    return [
        *(replace(f, level=WARNING) if _has_default(place, f) else f for f in found),
        *(place.finding(field, ERROR, message) for field, message in own),
    ]


def _has_default(place: NodePlace, finding: Finding) -> bool:
    field = finding.pointer.removeprefix(f"{place.pointer}/")
    key = number_keys(place.config.get("type")).get(field)
    return key is not None and key.default is not None and isinstance(place.config.get(field), str)


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
    findings += _reading_findings(places, document)
    nodes, base = (document.get("nodes"), "/nodes") if isinstance(document, Mapping) else (document, "")
    if nodes == []:
        findings.append(Finding(file, base, ERROR, validation.NO_NODES))
    return findings


def _schema_findings(place: NodePlace) -> Iterator[Finding]:
    node_type = place.config.get("type")
    if isinstance(node_type, str) and node_type in OLD_NAMES:
        yield place.finding("type", NOTE, f"{node_type!r} is an old name for {DEFAULT_TYPE!r}")
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
        message = f"node {marked[0].number} already answers, so this flag has no effect"
        yield place.finding(field, WARNING, message)


def _role_findings(place: NodePlace, *, is_responder: bool) -> Iterator[Finding]:
    config, handler = place.config, node_handler(place.config.get("type"))
    if config.get("allowTools") and not is_responder:
        yield place.finding("allowTools", WARNING, "this node does not answer, so its tool calls are lost")
    if config.get("endpointName") and handler.RUNS_DRY and not handler.CALLS_MODEL:
        message = "this node type calls no model; the endpoint is only used to clean its text"
        yield place.finding("endpointName", WARNING, message)
    if config.get("clientParameters") and not config.get("endpointName"):
        message = "this node calls no model with these; set it on the nodes that do, also in child workflows"
        yield place.finding("clientParameters", WARNING, message)
    if config.get("latePrompt") and config.get("prompt"):
        yield place.finding("latePrompt", ERROR, LATE_BESIDE_PROMPT)
    for field, message in (*handler.config_warnings(config), *incomplete_node(config)):
        yield place.finding(field, WARNING, message)
    for field, message in handler.config_notes(config):
        yield place.finding(field, NOTE, message)
    if is_responder and any(not child.is_tool for child in handler.children(config)):
        for field in _FOR_OWN_TEXT:
            if config.get(field):
                message = (
                    "has no effect on the answer of a child workflow; set it on the node that writes the text"
                )
                yield place.finding(field, WARNING, message)


def moving_times(config: NodeConfig, of_user: Any) -> str:
    """What to note of a node whose windows stand while its times move; `""`: nothing. `of_user`: the user's
    `steadyWindow`. Source: prompt-reuse.md 1.
    """
    own = config.get("steadyWindow")
    steady = of_user if own is None else own
    shows_times = config.get("addDiscussionIdTimestampsForLLM") and config.get("useRelativeTimestamps")
    if not (steady and shows_times and node_handler(config.get("type")).CALLS_MODEL):
        return ""
    return (
        "relative times change every message with each turn, so the model's server reads the whole "
        "conversation again although `steadyWindow` is on"
    )


def _reading_findings(places: Sequence[NodePlace], document: Any) -> Iterator[Finding]:
    """Nodes whose `readAhead` does nothing, and why. Source: prompt-reuse.md 6."""
    nodes, values = [place.config for place in places], LiveValues(_variables(document))
    for index, place in enumerate(places):
        if place.config.get("readAhead") not in ("start", "end"):
            continue
        why = obstacle_to_reading(nodes, index, values)
        if not why and index == 0 and place.config["readAhead"] == "start":
            why = "no node runs before this one"
        if why:
            yield place.finding("readAhead", WARNING, f"has no effect: {why}")


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
    texts = texts_with_braces(place.config, no_templates()) if place.config.get("jinja2") else ()
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
                    f"{{{told[0]}}} contains text from a user or a model, and nothing restricts "
                    "what is fetched: "
                    "set 'blockPrivateAddresses' or 'allowedHosts', or the user's 'outboundPolicy'"
                )
                yield place.finding(field, WARNING, message)


def _is_said(name: str, configured: Mapping[str, Any]) -> bool:
    """Whether the conversation gives a variable its value: neither the author nor the clock does."""
    if name in configured:
        value = configured[name]
        inner = placeholders(value) if isinstance(value, str) and "{" in value else ()
        return any(other.name not in configured and _is_said(other.name, configured) for other in inner)
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
