"""The contract of a node type, and the schema of the fields that every node may have (nodes.md 2).

A handler is one stateless object for the whole process: all it knows of a run is its `ExecutionContext`. It
returns a result and raises plain narrow errors (`ConfigError`, `ValueError`, `BackendError`, ...); the loop
wraps them once, with workflow, node number, title and type. It never cleans, never records its output, never
changes `context.config`.

    @NODES.register("WordCount")
    class WordCountNode(WorkflowNodeHandler):
        '''Counts the words of `input`.'''

        SCHEMA = {"properties": {"input": TEXT}, "required": ["input"]}
        RUNS_DRY = True

        def handle(self, context: ExecutionContext) -> str:
            return str(len(context.fill(context.config["input"]).split()))
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

from Middleware.common.request_context import WISH_NAMES
from Middleware.common.types import NodeConfig
from Middleware.workflows.models.execution_context import ExecutionContext, NodeResult

Schema = Mapping[str, Any]

TEXT: Schema = {"type": "string"}
"""A field that takes variables (V)."""
FLAG: Schema = {"type": "boolean"}
INTEGER: Schema = {"type": ["integer", "number", "string"], "pattern": r"^\s*-?\d+\s*$|\{"}
"""A number, or a text that holds one or a placeholder (int/E): what such a field should be (ADVICE)."""
COUNT: Schema = {
    "type": ["integer", "number", "string"],
    "pattern": r"^\s*\d+\s*$|\{",
    "minimum": 0,
    "x-allowed": "a whole number of 0 or more, or a text with a {placeholder}",
}
"""As INTEGER, of something that cannot be less than none."""
LIMIT: Schema = {
    "type": ["integer", "number", "string"],
    "pattern": r"^\s*0*[1-9]\d*\s*$|\{",
    "minimum": 1,
    "x-allowed": "a whole number of 1 or more, or a text with a {placeholder}",
}
"""As COUNT, of something of which none is no use."""
NUMBERLIKE: Schema = {"type": ["integer", "number", "string", "boolean"]}
"""What it must be (SCHEMA): a text that is no number becomes the default (workflows.md 6.6)."""
TEXTS: Schema = {"type": "array", "items": {"type": "string"}}


@dataclass(frozen=True, slots=True)
class ChildName:
    """A workflow that a node may run.

    `pointer`: JSON pointer below the node; `inputs`: how many it passes.
    """

    pointer: str
    name: str
    folder: str | None = None
    inputs: int = 0


class WorkflowNodeHandler(ABC):
    """One node type.

    `SCHEMA`: what must hold or the node cannot run. `ADVICE`: what should hold. `FIELDS`: what each field
    means. Own fields only. `FITTING`: the fields of children that mean something here.
    """

    FIELDS: ClassVar[Mapping[str, str]] = {}
    FITTING: ClassVar[tuple[str, ...]] = ()
    SCHEMA: ClassVar[Schema] = {}
    ADVICE: ClassVar[Schema] = {}

    RUNS_DRY: ClassVar[bool] = False
    """True: `handle` may run in a dry run: it writes nothing, and leaves the process only by its context."""

    CALLS_MODEL: ClassVar[bool] = False
    """True: it is one LLM call of this node's endpoint, made with `context.dispatch`."""

    MCP_SERVER_FIELD: ClassVar[str] = ""
    """The field that names a file of `MCPServers`, for validation."""

    @abstractmethod
    def handle(self, context: ExecutionContext) -> NodeResult:
        """The node's result (`NodeResult`).

        A `NodeStream` only when `context.stream`, or from an answering child.
        """

    def fits_in_parallel_group(self, config: NodeConfig) -> bool:
        """Whether the node may run beside others (workflows.md 16.14)."""
        return True

    def takes_pictures(self, config: NodeConfig) -> bool:
        """Whether the pictures of the conversation reach a model in this node."""
        return False

    def children(self, config: NodeConfig) -> list[ChildName]:
        """The workflows that this node may run, for validation."""
        return []

    def may_give_own_text(self, config: NodeConfig) -> bool:
        """Whether a branch of the node gives a text of its own where others run a workflow."""
        return False

    def user_settings(self, config: NodeConfig) -> tuple[str, ...]:
        """The keys of the user file without which the node cannot do its work, for validation."""
        return ()

    def takes_lock(self, config: NodeConfig) -> str | None:
        """The lock that the node takes until its run ends, for validation."""
        return None

    def config_notes(self, config: NodeConfig) -> list[tuple[str, str]]:
        """What `--validate` should note of a node that is right: (field, sentence)."""
        return []

    def config_warnings(self, config: NodeConfig) -> list[tuple[str, str]]:
        """What of a node that keeps to its schema can hardly be meant: (field, sentence)."""
        return []

    def outside_faults(
        self, config: NodeConfig, known: Callable[[object], str | None]
    ) -> list[tuple[str, str, str]]:
        """Faults of files outside the config tree that the node needs, for validation: (field, level,
        sentence). `known(text)`: a field's text with its variables filled, None: only a run knows it.
        """
        return []

    def files_written(self, config: NodeConfig) -> list[str]:
        """The files that the node makes, as its fields name them, for validation."""
        return []

    def unguarded_fields(self, config: NodeConfig) -> list[str]:
        """Fields that say what is fetched and that nothing guards, for validation (tools.md 11.2)."""
        return []

    def dry_notes(self, context: ExecutionContext) -> list[str]:
        """What the node would write or call outside, one line each, for a dry run."""
        return []


_TEXT_FIELDS = ("title", "agentName")
_V_FIELDS = ("systemPrompt", "prompt", "errorText")
_E_FIELDS = ("endpointName", "preset", "presetName")
_OVERRIDES = (
    "firstNodeSystemPromptOverride",
    "systemPromptOverride",
    "firstNodePromptOverride",
    "promptOverride",
)
_NUMBERS = (
    "maxResponseSizeInTokens",
    "maxContextTokenSize",
    "lastMessagesToSendInsteadOfPrompt",
    "lastMessagesToSendInsteadOfPromptMaxTokenSize",
    "nMessagesToIncludeInVariable",
    "estimatedTokensToIncludeInVariable",
    "minMessagesInVariable",
    "maxEstimatedTokensInVariable",
    "maxImagesToSend",
)
_FLAGS = (
    "is_responder",
    "returnToUser",
    "jinja2",
    "addUserTurnTemplate",
    "addOpenEndedAssistantTurnTemplate",
    "forceGenerationPromptIfEndpointAllows",
    "blockGenerationPrompt",
    "mergeConsecutiveAssistantMessages",
    "insertUserTurnBetweenAssistantMessages",
    "addUserAssistantTags",
    "includeToolCallsInConversation",
    "useRelativeTimestamps",
    "useGroupChatTimestampLogic",
    "allowTools",
    "appendNativeToolExchange",
    "lowercaseToolCallFunctionNames",
    "injectLivenessToolCall",
    "acceptImages",
)

COMMON_SCHEMA: Schema = {
    "type": "object",
    "properties": {
        "type": TEXT,
        **dict.fromkeys(_V_FIELDS, TEXT),
        **dict.fromkeys(_E_FIELDS, TEXT),
        **dict.fromkeys(_OVERRIDES, TEXT),
        **dict.fromkeys(_NUMBERS, NUMBERLIKE),
        "lastMessagesToSendInsteadOfPromptMaxTokenSize": INTEGER,  # it has no default to fall back on
        "clampPromptToContextWindow": {"type": ["boolean", "string"]},
        "structuredOutputFile": TEXT,
        "clientParameters": {"type": "array", "items": {"enum": list(WISH_NAMES)}},
        "scoped_variables": {"type": "array"},
        "workflowUserFolderOverride": TEXT,
        "parallelGroup": TEXT,
        "onNodeError": {"enum": ["raise", "continue"]},
        "insertedUserTurnText": TEXT,
        "mergeConsecutiveAssistantMessagesDelimiter": TEXT,
    },
}
"""What every node must keep to, but for the keys of cleaning rules."""

COMMON_ADVICE: Schema = {
    "properties": {
        **dict.fromkeys(_TEXT_FIELDS, TEXT),
        **dict.fromkeys(_NUMBERS, COUNT),
        "maxResponseSizeInTokens": LIMIT,
        **dict.fromkeys(_FLAGS, FLAG),
        "displayOnlyComment": {},
        "scoped_variables": TEXTS,
    }
}
"""What every node should keep to, but for the keys of cleaning rules.

Its property names and those of COMMON_SCHEMA are the known common fields.
"""


# --------------------------------------------------------------------------
# What a text with placeholders may become, for checks that run before anybody knows. Pure.


_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
_QUOTED = re.compile(r"""'[^']*'|"[^"]*\"""")
MOST = 3
"""More free placeholders can become anything: nothing is told of such a text."""


def fillings(text: str, stand_ins: Sequence[str]) -> Iterator[str]:
    """The text with every choice of stand-ins for its placeholders; inside quotes a word will do.

    Nothing for a text with too many of them.
    """
    text = _QUOTED.sub(lambda quoted: _PLACEHOLDER.sub("1", quoted[0]), text)
    around = _PLACEHOLDER.split(text)
    if len(around) > MOST + 1:
        return
    for choice in product(stand_ins, repeat=len(around) - 1):
        yield around[0] + "".join(f"{word}{rest}" for word, rest in zip(choice, around[1:], strict=True))
