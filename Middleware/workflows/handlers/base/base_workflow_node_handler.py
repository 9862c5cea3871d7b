"""The contract of a node type.

A handler is one stateless object for the whole process: all it knows of a run is its `ExecutionContext`. It
returns a result and raises plain narrow errors (`ConfigError`, `ValueError`, `BackendError`, ...); the loop
wraps them once, with workflow, node number, title and type. It never cleans, never records its output, never
changes `context.config`.

    @NODES.register("WordCount")
    class WordCountNode(WorkflowNodeHandler):
        '''Counts the words of `input`.'''

        KEYS = {
            "input": TEXT("The text to count. Takes variables.", required=True),
            "unit": one_of("words", "lines")("What to count. Default: {default}.", default="words"),
        }
        RUNS_DRY = True

        def handle(self, context: ExecutionContext) -> str:
            text = context.fill(context.value("input"))
            return str(len(text.split() if context.value("unit") == "words" else text.splitlines()))

Each key is stated once, in `KEYS`: its kind, its sentence, its default. The checks, the editor schemas, the
help and `context.value` are made of that (`node_keys.py`).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from Middleware.common.types import NodeConfig
from Middleware.config.keys import Shape
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.workflows.models.execution_context import ExecutionContext, LlmCall, NodeResult
from Middleware.workflows.models.node_keys import COMMON_KEYS, Keys, must_hold, sentences, should_hold


@dataclass(frozen=True, slots=True)
class ChildName:
    """A workflow that a node may run.

    `pointer`: JSON pointer below the node; `inputs`: how many it passes. `label`: by what the node chooses
    it, where that is not the key that the pointer ends with. `is_tool`: a model decides whether it runs, and
    it never answers the user.
    """

    pointer: str
    name: str
    folder: str | None = None
    inputs: int = 0
    label: str = ""
    is_tool: bool = False


PAGES, MACHINE = "pages", "machine"
"""What a node may do for a model that was given orders by what it read: bring text of strangers and carry
text to them; write, run programs, read files or memories."""


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model that a node asks besides that of its `endpointName`.

    `pointer`: JSON pointer below the node; `holder`: what stands there, with the node's own names where it
    has none; `keys`: under which the names of endpoint and preset are.
    """

    pointer: str
    holder: Mapping[str, object]
    keys: tuple[str, str] = ("endpointName", "preset")


class WorkflowNodeHandler(ABC):
    """One node type.

    `KEYS`: what it reads; own keys only. `RULES`: what should hold between them, in words of JSON Schema.
    `FITTING`: the common keys of models and children that mean something here. Made of them: `SCHEMA` (what
    must hold or the node cannot run), `ADVICE` (what should hold), `FIELDS` (what each key means), `ALL_KEYS`
    (with the common ones).
    """

    KEYS: ClassVar[Keys] = {}
    RULES: ClassVar[Shape] = {}
    FITTING: ClassVar[tuple[str, ...]] = ()

    SCHEMA: ClassVar[Shape] = {}
    ADVICE: ClassVar[Shape] = {}
    FIELDS: ClassVar[Mapping[str, str]] = {}
    ALL_KEYS: ClassVar[Keys] = COMMON_KEYS

    def __init_subclass__(cls) -> None:
        """Make what `KEYS` is the source of. Raises TypeError for a class that states such a part by hand."""
        by_hand = sorted(_MADE & vars(cls).keys())
        if by_hand:
            raise TypeError(f"{cls.__name__} states {', '.join(by_hand)}; state KEYS (and RULES) instead")
        cls.SCHEMA = must_hold(cls.KEYS)
        cls.ADVICE = {**should_hold(cls.KEYS), **cls.RULES}
        cls.FIELDS = sentences(cls.KEYS)
        cls.ALL_KEYS = {**COMMON_KEYS, **cls.KEYS}

    RUNS_DRY: ClassVar[bool] = False
    """True: `handle` may run in a dry run: it writes nothing, and leaves the process only by its context."""

    KEEPS_TO_DISCUSSION: ClassVar[bool] = False
    """True: what `handle` writes is in the discussion, or in a `context.own_file`, and it leaves the process
    only by its context. A walk that has a discussion of its own runs it, too."""

    CALLS_MODEL: ClassVar[bool] = False
    """True: it is one LLM call of this node's endpoint, made with `context.dispatch`."""

    PALETTE: ClassVar[str] = "text"
    """Where the type is offered to whoever adds a node: `model`, `text`, `workflows`, `memory`, `tools` or
    `files`."""

    MCP_SERVER_FIELD: ClassVar[str] = ""
    """The field that names a file of `MCPServers`, for validation."""

    POWERS: ClassVar[frozenset[str]] = frozenset()
    """Of `PAGES` and `MACHINE`, for validation of agents whose tools run this node (agents.md 7)."""

    @abstractmethod
    def handle(self, context: ExecutionContext) -> NodeResult:
        """The node's result (`NodeResult`).

        A `NodeStream` only when `context.stream`, or from an answering child.
        """

    def call_to_read(self, context: ExecutionContext) -> LlmCall | None:
        """The node's call of a model, for reading its prompt ahead (`readAhead`); None: it makes none whose
        prompt is known before."""
        return None

    def fits_in_parallel_group(self, config: NodeConfig) -> bool:
        """Whether the node may run beside others (workflows.md 16.14)."""
        return True

    def takes_pictures(self, config: NodeConfig) -> bool:
        """Whether the pictures of the conversation reach a model in this node."""
        return False

    def children(self, config: NodeConfig) -> list[ChildName]:
        """The workflows that this node may run, for validation."""
        return []

    def servers(self, config: NodeConfig) -> list[tuple[str, object]]:
        """The MCP servers that it uses, for validation: (JSON pointer below the node, name as written)."""
        field = self.MCP_SERVER_FIELD
        return [(f"/{field}", config.get(field))] if field else []

    def powers(self, config: NodeConfig) -> frozenset[str]:
        """`POWERS` with this config; servers and children count by themselves."""
        return self.POWERS

    def guides_model(self, config: NodeConfig) -> bool:
        """Whether a model decides which of its children and servers the node uses."""
        return False

    def first_call(self, context: ExecutionContext) -> CallArguments | None:
        """What a node that does not run in a dry run would send first; None: nobody knows."""
        return None

    def may_give_own_text(self, config: NodeConfig) -> bool:
        """Whether a branch of the node gives a text of its own where others run a workflow."""
        return False

    def user_settings(self, config: NodeConfig) -> tuple[str, ...]:
        """The keys of the user file without which the node cannot do its work, for validation."""
        return ()

    def takes_lock(self, config: NodeConfig) -> str | None:
        """The lock that the node takes until its run ends, for validation."""
        return None

    def model_choices(self, config: NodeConfig) -> list[ModelChoice]:
        """The models that the node asks besides that of its `endpointName`, for validation."""
        return []

    def equal_calls(self, config: NodeConfig) -> Iterable[ModelChoice]:
        """The models that the node asks the same more than once, so that equal answers are no use, for
        validation."""
        return ()

    def config_errors(self, config: NodeConfig) -> list[tuple[str, str]]:
        """What makes a node fail that keeps to its schema: (field, sentence)."""
        return []

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

    def changes_conversation(self, config: NodeConfig) -> bool:
        """Whether the nodes after it see other messages than the client sent."""
        return False

    def writes(self, config: NodeConfig) -> str:
        """What a run of the node changes outside the run, one sentence; empty: nothing. What is only read or
        asked is no change. The workflows that it runs count by themselves. Source: workbench.md 4.
        """
        return "" if self.RUNS_DRY else "may change something: its type does not say what"

    def dry_notes(self, context: ExecutionContext) -> list[str]:
        """What the node would write or call outside, one line each, for a dry run."""
        return []


_MADE = {"SCHEMA", "ADVICE", "FIELDS", "ALL_KEYS"}


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
