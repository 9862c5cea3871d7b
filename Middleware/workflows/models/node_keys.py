"""How a node states a key: `NodeKey`, the kinds of keys, and the keys that every node may have. Pure.

A node type states its own keys in `KEYS` (`base_workflow_node_handler.py`). What must hold, what should hold,
what editors show and the typed value that the node reads (`ExecutionContext.value`) are made of them here.
Source: spec nodes.md 2 and 4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, cast

from Middleware.common.errors import ConfigError
from Middleware.common.request_context import WISH_NAMES
from Middleware.config.keys import Key, Shape
from Middleware.config.users import (
    STEADY_WINDOW,
    STEADY_WINDOW_ALLOWED,
    means_true,
    read_steady_window,
)

Keys = Mapping[str, "NodeKey"]

DEFAULT_TYPE = "Standard"
MAX_SECONDS = 2_000_000.0
"""A longer wait than the system's clocks can count."""


@dataclass(frozen=True, slots=True)
class NodeKey(Key):
    """A key of a node.

    `read` gives None for a value of a wrong kind, which counts as absent, or raises ValueError with what is
    allowed. `required`: reading it raises in a node without it. `advised`: it should be there. `offered`:
    editors fill the default in. `number`: it is made a number before the node runs (workflows.md 6.6), a
    whole one without `fraction`.
    `{default}` in the sentence stands for the default.
    """

    advised: bool = False
    offered: bool = False
    number: bool = False
    fraction: bool = False

    def __call__(self, sentence: str, **changed: Any) -> NodeKey:
        own = {name: changed.pop(name) for name in _OWN & changed.keys()}
        return replace(cast(NodeKey, Key.__call__(self, sentence, **changed)), **own)

    def but(self, **changed: Any) -> NodeKey:
        """The same key with other facts."""
        return self(self.sentence, **changed)

    @property
    def description(self) -> str:
        """The sentence with its default."""
        default = self.default if isinstance(self.default, str) else str(self.default).lower()
        return self.sentence.replace("{default}", default)

    def value_in(self, document: Mapping[str, Any], name: str) -> Any:
        """The typed value under `name` of a node. Raises ConfigError."""
        found = document.get(name)
        try:
            typed = None if found is None else self._read(found)
        except ValueError as error:
            raise ConfigError(f"'{name}' must be {error}") from None
        if typed is None and self.required:
            raise self._missing(document, name)
        return self.absent if typed is None else typed

    def _missing(self, document: Mapping[str, Any], name: str) -> ConfigError:
        if self.number:
            return ConfigError(f"'{name}' must be a whole number, not {document.get(name)!r}")
        article = "an" if name[0] in "aeio" else "a"
        return ConfigError(f"a {document.get('type') or DEFAULT_TYPE} needs {article} '{name}'")


_OWN = {each.name for each in fields(NodeKey)} - {each.name for each in fields(Key)}


# --------------------------------------------------------------------------
# What is made of a table of keys.


def must_hold(keys: Keys) -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of what must hold or the node cannot run."""
    shapes = {
        name: {**key.must, "default": key.default} if key.offered else dict(key.must)
        for name, key in keys.items()
        if key.must or not key.should
    }
    return _schema(shapes, [name for name, key in keys.items() if key.required])


def should_hold(keys: Keys) -> dict[str, Any]:
    """JSON Schema of what should hold."""
    shapes = {name: dict(key.should) for name, key in keys.items() if key.should}
    return _schema(shapes, [name for name, key in keys.items() if key.advised])


def _schema(shapes: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        **({"properties": shapes} if shapes else {}),
        **({"required": required} if required else {}),
    }


def sentences(keys: Keys) -> dict[str, str]:
    """Name -> what the key means, for editors and for the help."""
    return {name: key.description for name, key in keys.items()}


# --------------------------------------------------------------------------
# How a value is read.


def read_text(value: Any) -> str:
    """Raises ValueError for anything else."""
    if not isinstance(value, str):
        raise ValueError("a text")
    return value


def read_some_text(value: Any) -> str | None:
    """A text that is not empty."""
    return value if isinstance(value, str) and value else None


def read_filled(value: Any) -> Any:
    """Anything; what is empty counts as absent."""
    return value or None


def read_shown(value: Any) -> str | None:
    """The text of anything; what is empty counts as absent."""
    return str(value) if value else None


def as_it_is(value: Any) -> Any:
    """Anything: the node itself says what is wrong with it."""
    return value


def read_whole(value: Any) -> int | None:
    """A number as it is once a node runs; `true` is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _read_steady_window(value: Any) -> bool | int | str:
    """As `read_steady_window`. Raises ValueError for anything else."""
    steady = read_steady_window(value)
    if steady is None:
        raise ValueError(f"{STEADY_WINDOW_ALLOWED}, not {value!r}")
    return steady


LATE_PLACES = ("after", "before", "system")
"""Where `latePrompt` stands to the newest user message."""


def _read_late_place(value: Any) -> str:
    """Raises ValueError for what is no place."""
    place = value.strip().lower() if isinstance(value, str) else value
    if place not in LATE_PLACES:
        raise ValueError(f"one of {', '.join(LATE_PLACES)}, not {value!r}")
    return str(place)


def whole_of_at_least(least: int) -> Callable[[Any], int]:
    """The reader of a number that is no text and has no placeholder."""

    def read(value: Any) -> int:
        number = read_whole(value)
        if number is None or number < least:
            raise ValueError(f"an integer >= {least}, not {value!r}")
        return number

    return read


# --------------------------------------------------------------------------
# The kinds of keys.


ANY = NodeKey()
TEXT = NodeKey(must={"type": "string"}, empty="", read=read_text)
"""A text; most take variables (V)."""
NEEDED_TEXT = NodeKey(must={"type": "string", "minLength": 1}, required=True, read=read_some_text)
"""Without it the node cannot run."""
WANTED_TEXT = NodeKey(
    must={"type": "string"}, should={"minLength": 1}, advised=True, empty="", read=read_text
)
"""Without it the node runs, but hardly as meant."""
NAME = NodeKey(should={"type": "string"}, empty="", read=str)
"""A text that is only shown, or put in as it is: any value has one."""
FLAG = NodeKey(should={"type": "boolean"}, default=False, read=bool)
"""The node goes by the truth of the value."""


def one_of(*words: str) -> NodeKey:
    """The kind of key that holds one of these words."""
    return NodeKey(must={"enum": list(words)})


_NUMBERLIKE: Shape = {"type": ["integer", "number", "string", "boolean"]}
"""What it must be: a text that is no number becomes the default (workflows.md 6.6)."""
_WHOLE: Shape = {"type": ["integer", "number", "string"], "pattern": r"^\s*-?\d+\s*$|\{"}
"""What it should be: a number, or a text that holds one or a placeholder (int/E)."""

QUESTION: Shape = {"type": ["string", "number", "boolean", "array", "object"]}
"""What becomes a text, whatever it is."""

INTEGER = NodeKey(must=_NUMBERLIKE, should=_WHOLE, number=True, read=read_whole)
NEEDED_INTEGER = INTEGER.but(required=True)
COUNT = INTEGER.but(
    should={
        "type": ["integer", "number", "string"],
        "pattern": r"^\s*\d+\s*$|\{",
        "minimum": 0,
        "x-allowed": "a whole number of 0 or more, or a text with a {placeholder}",
    }
)
"""As INTEGER, of something that cannot be less than none."""
LIMIT = INTEGER.but(
    should={
        "type": ["integer", "number", "string"],
        "pattern": r"^\s*0*[1-9]\d*\s*$|\{",
        "minimum": 1,
        "x-allowed": "a whole number of 1 or more, or a text with a {placeholder}",
    }
)
"""As COUNT, of something of which none is no use."""


# --------------------------------------------------------------------------
# The keys that every node may have; those of cleaning rules come beside them (`node_types.py`).


EVERY_NODE: Keys = {
    "type": TEXT(
        "What the node does. If it is left out, the type is `{default}`.", default=DEFAULT_TYPE, group="what"
    ),
    "title": NAME("The node's name in logs and messages.", group="what"),
    "agentName": NAME("Used as the node's name when `title` is absent.", group="what"),
    "displayOnlyComment": ANY("A comment, which has no effect.", group="what", form="text"),
    "is_responder": FLAG(
        "This node answers the user; the nodes after it still run. If no node has this, the last one "
        "answers.",
        group="answer",
    ),
    "returnToUser": FLAG(
        "This node answers the user; the nodes after it still run. If no node has this, the last one "
        "answers. If `is_responder` is there too, that one counts.",
        group="answer",
    ),
    "jinja2": FLAG(
        "Texts of this node are Jinja templates instead of `{placeholders}`. Default: {default}.",
        group="prompts",
    ),
    "onNodeError": one_of("raise", "continue")(
        "With `continue`, a failed node outputs `errorText` and the run continues. Default: {default}.",
        default="raise",
        group="run",
    ),
    "errorText": TEXT(
        'The output of a failed node, with `"onNodeError": "continue"`. Takes variables.',
        group="run",
        form="text",
    ),
    "parallelGroup": TEXT("Neighbouring nodes with the same name here run at the same time.", group="run"),
    "nMessagesToIncludeInVariable": COUNT(
        "How many messages of the history are in variables such as {chat_user_prompt_n_messages}. Default: "
        "{default}.",
        default=5,
        group="conversation",
    ),
    "estimatedTokensToIncludeInVariable": COUNT(
        "The token budget of the variables that end in `_estimated_token_limit`. Default: {default}.",
        default=2048,
        group="conversation",
    ),
    "minMessagesInVariable": COUNT(
        "The fewest messages in the variables that end in `_min_n_max_tokens`. Default: {default}.",
        default=5,
        group="conversation",
    ),
    "maxEstimatedTokensInVariable": COUNT(
        "The token budget of the variables that end in `_min_n_max_tokens`. Default: {default}.",
        default=2048,
        group="conversation",
    ),
    "addUserAssistantTags": FLAG(
        "Put `User: ` and `Assistant: ` before messages in conversation variables. Default: {default}.",
        group="conversation",
    ),
    "includeToolCallsInConversation": FLAG(
        "Include tool calls and their results in conversation variables. Default: {default}.",
        group="conversation",
    ),
    "useGroupChatTimestampLogic": FLAG(
        "The answer begins with the speaker that was asked for. Default: {default}.", group="answer"
    ),
}
"""What fits any type."""

MODEL_NODES: Keys = {
    "endpointName": TEXT(
        "The model that is asked, as the name of a file in `Endpoints/`. The name can contain workflow "
        "variables and {agent1Input}.",
        group="model",
        form="names:endpoints",
    ),
    "preset": TEXT(
        "The preset with the samplers, such as the temperature: how creative the answers are. If it is "
        "absent, the endpoint's own `presetSamplers` are used.",
        group="model",
        form="names:presets",
    ),
    "presetName": TEXT("Used where `preset` is absent.", group="model", form="names:presets"),
    "maxResponseSizeInTokens": LIMIT(
        "How long the answer may get at most (its length limit), in tokens of about 3/4 of a word each. A "
        "longer answer is cut off, and the model's thoughts count too. Default: {default}.",
        default=400,
        group="model",
    ),
    "maxContextTokenSize": COUNT(
        "Accepted, but the endpoint's own value is used.", default=4096, group="model"
    ),
    "systemPrompt": TEXT(
        "The system message: instructions such as the role of the model or the language of its answers. If "
        "it is empty or absent, none is sent. Takes variables.",
        group="prompts",
        form="text",
    ),
    "prompt": TEXT(
        "The user turn. If it is empty or absent, the conversation is sent instead. Takes variables.",
        group="prompts",
        form="text",
    ),
    "lastMessagesToSendInsteadOfPrompt": COUNT(
        "How many messages of the conversation (its history) are sent when `prompt` is empty or absent. "
        "Default: {default}. While tools are being called, the question, the calls and their results are "
        "all sent.",
        default=5,
        group="conversation",
    ),
    "lastMessagesToSendInsteadOfPromptMaxTokenSize": COUNT(
        "The most tokens that the messages sent when `prompt` is empty or absent can have. Default: no "
        "limit.",
        must=INTEGER.should,
        group="conversation",
    ),
    "steadyWindow": ANY(
        "Let the windows of the conversation begin at the same message for many turns, so that the model's "
        "server can reuse what it has read. A number says how many more messages they can hold. Default: the "
        "user's setting.",
        must={
            **STEADY_WINDOW.must,
            "pattern": STEADY_WINDOW.must["pattern"] + r"|\{",
            "x-allowed": f"{STEADY_WINDOW_ALLOWED}, or a text with a {{placeholder}}",
        },
        read=_read_steady_window,
        group="conversation",
    ),
    "latePrompt": TEXT(
        "Text behind the conversation, for what changes from turn to turn: it is added to the newest user "
        "message when `prompt` is empty or absent. Takes variables.",
        group="prompts",
        form="text",
    ),
    "latePromptPlace": ANY(
        "Where `latePrompt` goes. `after`: at the end of the newest user message. `before`: at its start. "
        "`system`: as a system message before it. Default: {default}.",
        default="after",
        must={
            "type": "string",
            "pattern": rf"^({'|'.join(LATE_PLACES)})$|\{{",
            "x-allowed": f"{', '.join(LATE_PLACES)}, or a text with a {{placeholder}}",
            "examples": list(LATE_PLACES),
        },
        read=_read_late_place,
        group="prompts",
    ),
    "clampPromptToContextWindow": ANY(
        "Drop the oldest messages if they do not fit into the endpoint's context window. Default: the "
        "endpoint's setting, else the user's.",
        must={"type": ["boolean", "string"]},
        read=means_true,
        group="conversation",
    ),
    "acceptImages": FLAG("Send the images of the messages. Default: {default}.", group="conversation"),
    "maxImagesToSend": COUNT(
        "How many of the newest images are sent. 0 means all. Default: {default}.",
        default=0,
        group="conversation",
    ),
    "allowTools": FLAG(
        "Send the client's tools, on the node that answers. Default: {default}.", group="tools"
    ),
    "appendNativeToolExchange": FLAG(
        "Add the newest tool call and its results after `prompt`. Default: {default}.", group="tools"
    ),
    "structuredOutputFile": TEXT(
        "A JSON Schema in `StructuredOutputs/` that the answer must fit. Default: none.",
        group="model",
        form="names:structured_outputs",
    ),
    "clientParameters": ANY(
        "Which of the request's own parameters this node uses, such as `max_tokens`. Default: none.",
        must={"type": "array", "items": {"enum": list(WISH_NAMES)}},
        group="model",
    ),
    "useRelativeTimestamps": FLAG(
        "Show times as `[Sent 5 minutes ago]` instead of date and time. Default: {default}.",
        group="conversation",
    ),
    "lowercaseToolCallFunctionNames": FLAG(
        "Write the function names of tool calls in lower case. Default: {default}.", group="tools"
    ),
    "injectLivenessToolCall": FLAG(
        "Add the user's `livenessToolCall` to an answer without tool calls. Default: {default}.",
        group="tools",
    ),
    "mergeConsecutiveAssistantMessages": FLAG(
        "Join neighbouring assistant messages into one. Default: {default}.", group="conversation"
    ),
    "mergeConsecutiveAssistantMessagesDelimiter": TEXT(
        "The text between assistant messages that are joined. Default: a line break.",
        default="\n",
        group="conversation",
    ),
    "insertUserTurnBetweenAssistantMessages": FLAG(
        "Put a user message between neighbouring assistant messages. Default: {default}.",
        group="conversation",
    ),
    "insertedUserTurnText": TEXT(
        "The text of the user message that is put between. Default: `{default}`",
        default="Continue.",
        group="conversation",
    ),
    "addUserTurnTemplate": FLAG(
        "For backends that take one text: wrap the prompt as a user turn. Default: {default}.", group="model"
    ),
    "addOpenEndedAssistantTurnTemplate": FLAG(
        "For backends that take one text: put the assistant prefix before the prompt. Default: {default}.",
        group="model",
    ),
    "forceGenerationPromptIfEndpointAllows": FLAG(
        "For backends that take one text: end with the assistant prefix. Default: {default}.", group="model"
    ),
    "blockGenerationPrompt": FLAG(
        "For backends that take one text: never end with the assistant prefix. Default: {default}.",
        group="model",
    ),
}
"""What fits a node that calls a model."""

READ_AHEAD = one_of("off", "start", "end")(
    "Let the model's server read the prompt before it is asked. `end`: the prompt of the next turn, "
    "after this run. `start`: the prompt of this turn, while earlier nodes work on another server. "
    "Default: `{default}`.",
    default="off",
    group="run",
)
"""Of the nodes whose prompt is known before."""

EARLY_CHOICES = ("steadyWindow", "latePromptPlace")
"""Keys whose placeholders are filled before the node runs: with workflow variables and {agentNInput}."""

CHILD_NODES: Keys = {
    "scoped_variables": ANY(
        "The inputs of the child workflow: the first item is {agent1Input} there, and so "
        "on. Takes variables.",
        must={"type": "array"},
        should={"type": "array", "items": {"type": "string"}},
        empty=(),
        read=read_filled,
    ),
    "workflowUserFolderOverride": TEXT(
        "The folder below `Workflows/` that the child workflow is in. If it is absent, it is your own folder."
    ),
    "firstNodeSystemPromptOverride": TEXT(
        "Replaces the system prompt of the child's first node that has prompts. Takes variables.",
        group="prompts",
        form="text",
    ),
    "systemPromptOverride": TEXT(
        "The same as `firstNodeSystemPromptOverride`, used where that is absent.",
        group="prompts",
        form="text",
    ),
    "firstNodePromptOverride": TEXT(
        "Replaces the prompt of the child's first node that has prompts. Takes variables.",
        group="prompts",
        form="text",
    ),
    "promptOverride": TEXT(
        "The same as `firstNodePromptOverride`, used where that is absent.", group="prompts", form="text"
    ),
}
"""What fits a node that runs another workflow."""

COMMON_KEYS: Keys = {**EVERY_NODE, **MODEL_NODES, **CHILD_NODES}
"""All of them."""


def common_value(node: Mapping[str, Any], name: str) -> Any:
    """The typed value of a common key of a node."""
    return COMMON_KEYS[name].value_in(node, name)
