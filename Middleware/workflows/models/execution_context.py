"""ExecutionContext: all that one node may know and do. Frozen; never logged, never stored.

A node reads its fields and calls its methods. What the methods do is the loop's business, in its own kind of
context (`NodeContext`), so a node handler is a function of its context and a test hands it a small fake. A
node that wants to change what it works on (other messages, another config) makes a copy with
`dataclasses.replace`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import BoundedSemaphore, Semaphore
from typing import Any, TypeAlias, TypeGuard

from Middleware.common.request_context import ClientQuestion, RequestContext
from Middleware.common.types import Batch, Batches, JsonObject, Messages, NodeConfig
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.users import UserSettings
from Middleware.config.workflows import WorkflowFile
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.embedding_service import EmbeddingService
from Middleware.llmapis.llm_handler import LlmHandler
from Middleware.llmapis.llm_text import LlmText
from Middleware.services.discussion_store import DiscussionStore
from Middleware.services.run_trace import TracedNode
from Middleware.workflows.models.node_keys import COMMON_KEYS, Keys

# --------------------------------------------------------------------------
# What a node gives back to the loop.


NodeValue: TypeAlias = str | JsonObject | list[Any] | int | float | None
"""What a node's output can be: text (also `LlmText`, `CleanText`), a tool-call answer, nothing, or another
JSON value (a script's)."""


@dataclass(frozen=True, slots=True)
class AgentSteps:
    """How an answer in several steps is delivered (agents.md 1 and 5). `holds_text`: `stepText: thinking`.
    `tool_calls()`: the calls of tools so far, as JSON text; complete when the answer is."""

    holds_text: bool
    tool_calls: Callable[[], str]


@dataclass(frozen=True, slots=True)
class NodeStream:
    """A responder's answer that is still to be pulled.

    `cleaned`: made by the responder of a child run; passes through the calling node untouched, ends with one
    chunk that has a `finish_reason`, and goes on (ticks) while the rest of the child runs.
    `prompt_tokens()`: estimate of the prompt that was sent; None: no model was called.
    `running`: of a call whose numbers come at its end; whoever pulls it counts it then (the others are
    counted).
    `value()`: the child's value, from its finish chunk on (cleaned streams only).
    `steps`: of an agent, also in a run that does not stream; its chunks say where a step ends.
    `context`: of the call that makes it, where that is not the node's own; its rules clean the text.
    """

    batches: Batches
    cleaned: bool = False
    prompt_tokens: Callable[[], int] | None = None
    value: Callable[[], NodeValue] | None = None
    running: bool = False
    steps: AgentSteps | None = None
    context: ExecutionContext | None = None


NodeResult: TypeAlias = NodeValue | NodeStream
"""A value, or the answer of a responder that is still to be pulled."""


class CleanText(str):
    """A node's text that was cleaned already: the rules see it no second time (one that drops an answer
    without
    an end tag would drop it).
    """

    __slots__ = ()


class CleanAnswer(LlmText, CleanText):
    """The same of a model's answer, with the facts that came beside it."""


def is_tool_call_answer(result: NodeResult) -> TypeGuard[JsonObject]:
    """Whether `result` is a tool-call answer (backends.md 10): `{"content", "tool_calls",
    "finish_reason"}`."""
    return isinstance(result, dict) and isinstance(result.get("tool_calls"), list)


def result_text(result: NodeResult) -> str:
    """The text of an answer: null is nothing, a tool call its content, other values their Python text."""
    if result is None:
        return ""
    if isinstance(result, str):
        return result
    if is_tool_call_answer(result):
        content = result.get("content")
        return content if isinstance(content, str) else ""
    return str(result)


# --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChildCall:
    """A nested run that a node asks for. Overrides are authored texts, not filled yet; null or `""`: none.

    `folder`: the node's folder override. `inputs`: filled texts. `messages`: None = the caller's own list.
    `internal`: true = never answers, whatever the caller's role.
    `label`: the key by which the node chose this workflow. `scope`: an id of the cancellation service by
    which this run can be ended alone; empty: it ends with the request.
    """

    name: str
    folder: str | None = None
    inputs: tuple[str, ...] = ()
    system_prompt_override: str | None = None
    prompt_override: str | None = None
    messages: Messages | None = None
    internal: bool = False
    with_tools: bool = True
    label: str = ""
    scope: str = ""


@dataclass(frozen=True, slots=True)
class LlmCall:
    """One LLM call that a node asks for (defaults: what its config says).

    `system_prompt`, `prompt`: texts that are filled already; a given `prompt` makes the call authored, even
    if empty. `must_show`: a picture without which the call has no sense. `messages`: the conversation,
    None = the context's. `stream`: false = the answer comes whole, whatever the context says. `bare`: no
    template goes around the texts. `whole`: the conversation goes as the client sent it, its system messages
    and tools too; nothing of the node is added. `for_agent`: the loop of an agent asks, which sees to tools
    and their choice by itself. `schema`: what the reply must fit (JSON Schema), in place of what the node
    says. `asked`: the prompt, made before (`ExecutionContext.prepared`).
    """

    messages: Messages | None = None
    system_prompt: str | None = None
    prompt: str | None = None
    llm_takes_images: bool = False
    max_images: int = 0
    stream: bool = True
    must_show: str = ""
    bare: bool = False
    whole: bool = False
    for_agent: bool = False
    schema: JsonObject | None = None
    asked: CallArguments | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Branch:
    """One of several calls of a node, which may be made at the same time. `request_id`: by which it alone is
    cancelled. `changes`: fields of the node that are others here. `streams`: its answer goes to the user as
    it comes, if the run streams.
    """

    request_id: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    streams: bool = False


@dataclass(frozen=True, slots=True)
class ExecutionContext(ABC):
    """One node of one run.

    `question`: what the client asked. `config`: the node object; overrides and numbers are done. `messages`:
    the question's, which all runs of the request share (a stamped copy when the node has timestamps). `keys`:
    what the node's type can read with `value`. `stream`: true only for the responder of a streaming run.
    `agent_outputs`: inputs and earlier outputs, by name (`agent1Output`); `thoughts`: what came before those
    (`agent1Thinking`). `workflow_config`: the object of the object form. `store`: files of the discussion,
    None without a discussion id. `llm_handler`: None without `endpointName`. `trace`: of this node, None:
    nobody observes.
    """

    request: RequestContext = field(repr=False)
    user: UserSettings = field(repr=False)
    snapshot: ConfigSnapshot = field(repr=False)
    workflow_file: WorkflowFile = field(repr=False)
    workflow_id: str
    question: ClientQuestion = field(repr=False)
    node_number: int
    config: NodeConfig = field(repr=False)
    messages: Messages = field(repr=False)
    keys: Keys = field(default_factory=lambda: COMMON_KEYS, repr=False, compare=False)
    stream: bool = False
    is_responder: bool = False
    is_internal: bool = False
    agent_inputs: Mapping[str, Any] = field(default_factory=dict, repr=False)
    agent_outputs: Mapping[str, Any] = field(default_factory=dict, repr=False)
    thoughts: Mapping[str, str] = field(default_factory=dict, repr=False)
    llm_handler: LlmHandler | None = field(default=None, repr=False)
    store: DiscussionStore | None = field(default=None, repr=False)
    encryption_key: bytes | None = field(default=None, repr=False)
    api_key_hash: str | None = field(default=None, repr=False)
    trace: TracedNode | None = field(default=None, repr=False, compare=False)

    @property
    def request_id(self) -> str:
        return self.request.request_id

    @property
    def api_key(self) -> str | None:
        return self.request.api_key

    @property
    def discussion_id(self) -> str | None:
        return self.question.discussion_id

    @property
    def tools(self) -> list[JsonObject] | None:
        return self.question.tools

    @property
    def tool_choice(self) -> Any:
        return self.question.tool_choice

    @property
    def place(self) -> str:
        """The node, for a log line."""
        return f"{self.workflow_file.file}, node {self.node_number}"

    @property
    def workflow_config(self) -> Mapping[str, Any]:
        return self.workflow_file.variables

    def value(self, name: str) -> Any:
        """The typed value of a key of the node, as its type states it: the default where the key is absent.

        A text is as it was written (`fill` it). Raises ConfigError for a value that cannot be used.
        """
        return self.keys[name].value_in(self.config, name)

    @abstractmethod
    def fill(
        self,
        text: str,
        *,
        messages: Messages | None = None,
        drop_system: bool = False,
        steady: bool = False,
    ) -> str:
        """`text` with its variables filled, format or Jinja as the node says (workflows.md 7).

        `messages`: the conversation that the variables see, None = the node's. `drop_system`: no system
        message in `chat_*` slices, whatever the model is. `steady`: slices of the conversation stand as the
        node's windows do; for the prompts of a model (prompt-reuse.md 1). Raises ConfigError for a Jinja
        template that fails.
        """

    @abstractmethod
    def fill_parts(self, text: str) -> tuple[str, str | None]:
        """Filled text, and the base folder of nodes.md 6.1 (None: no limit)."""

    @abstractmethod
    def fill_prefix(self, text: str) -> tuple[str, str | None]:
        """Filled text, and what of it comes before the first run-time value (None: it holds none)."""

    @abstractmethod
    def run_workflow(self, call: ChildCall) -> NodeResult:
        """Run a child.

        An answering child gives a `NodeStream` (to be handed back as it is), an internal one its value.
        Raises ConfigMissing when there is no such workflow, WorkflowError when a node of the child fails.
        """

    @abstractmethod
    def dispatch(self, call: LlmCall) -> NodeResult:
        """One LLM call of this node: text (`LlmText`), tool-call dict or, streaming, a `NodeStream`.

        Raises BackendError, ConfigError (no endpoint on this node, unknown schema file), RequestCancelled.
        """

    @abstractmethod
    def with_node(self, config: NodeConfig) -> ExecutionContext:
        """This context for an inner call with a config of its own (a settings file): numbers done, its model
        loaded. It never answers the user. Raises ConfigError.
        """

    @property
    def is_dry(self) -> bool:
        """Whether models are stubs, which all say the same."""
        return False

    @abstractmethod
    def prepared(self, call: LlmCall) -> LlmCall:
        """The call with its prompt, so that it can be dispatched several times and asks the same each time.
        Raises ConfigError, ValueError as `dispatch`."""

    @abstractmethod
    def branch(self, branch: Branch) -> ExecutionContext:
        """This context for one of several calls: its model, its notes, its part of the trace. Raises
        ConfigError."""

    @abstractmethod
    def clean(self, answer: NodeValue) -> CleanAnswer:
        """The text of an answer of this context's model, cleaned as an answer of its own; in `thinking` its
        thoughts, which are no part of it."""

    @abstractmethod
    def take_answer(self, of: ExecutionContext | None, usage: JsonObject | None = None) -> None:
        """The node's answer is that of the branch `of`: its thoughts and numbers are the node's. None: the
        answer is made of several, which took `usage` together."""

    @abstractmethod
    def note_value(self, name: str, text: str) -> None:
        """Another value for the nodes behind: `{agent<N><name>}`."""

    def embeddings(self, endpoint: str) -> EmbeddingService:
        """What makes vectors. Raises ConfigError for an endpoint that is missing or not for embeddings."""
        return EmbeddingService(endpoint, user=self.user, snapshot=self.snapshot, trace=self.trace)

    def compactor_waits(self, newest: int) -> bool:
        """Whether the context compactor keeps all but about the `newest` messages as they are. False also
        where there is none."""
        return False

    def own_file(self, path: Path) -> Path:
        """Where the file `path` is that a node keeps for itself beside the discussion: in a walk that must
        not touch it, elsewhere.
        """
        return path

    @abstractmethod
    def acquire_lock(self, lock_id: str) -> bool:
        """True: this run holds the lock now, until its end.

        False: somebody holds it (perhaps this run itself).
        """

    @abstractmethod
    def is_cancelled(self) -> bool: ...

    def progress(self, what: str) -> Batch:
        """What the client is shown of the node's work, where it wants to see it: one chunk. `what`: what the
        node does now. Empty: nobody wants to see it. Source: more-fronts.md 8.
        """
        return []

    def spare_threads(self) -> Semaphore:
        """How many more threads the request may take for what runs side by side (workflows.md 16.14). None is
        waited for: `acquire(blocking=False)`."""
        return BoundedSemaphore()

    def note_steps(self, steps: int, limit: str) -> None:
        """An agent ended: how many steps it made, and which limit stopped it (empty: none)."""
        if self.trace is not None:
            self.trace.node.steps, self.trace.node.limit = steps, limit

    @abstractmethod
    def warn(self, message: str) -> None:
        """Log a warning that names the workflow file, the node and its title."""
