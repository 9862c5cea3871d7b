"""A workflow walked with a stub model: what each node would send and write, without sending or writing.

The same loop as in earnest, with two things replaced: an LLM call stops before the backend, and a node that
would write or leave the process is not run. Files are read, never written. Source: spec workflows.md 16.13.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from threading import Semaphore
from typing import Any

from Middleware.common.request_context import ClientQuestion, RequestContext
from Middleware.common.secrets import (
    MASK,
    is_secret_header,
    mask_config,
    mask_keys,
    mask_secrets,
)
from Middleware.common.types import JsonObject, Messages, NodeConfig
from Middleware.config.endpoints import EndpointConfig
from Middleware.config.users import UserSettings
from Middleware.config.workflows import Category, Routing, WorkflowFile, load_routing
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.embedding_service import EmbeddingService
from Middleware.llmapis.llm_api import LlmApiService
from Middleware.llmapis.llm_text import LlmText
from Middleware.services.readings_ahead import Reading
from Middleware.services.rerun import KeptNode, KeptNodes
from Middleware.services.run_trace import TracedNode
from Middleware.services.token_ratios import Model
from Middleware.workflows.checks.workflow_check import names_written
from Middleware.workflows.dispatch.llm_dispatch import LLMDispatchService
from Middleware.workflows.handlers.base.base_workflow_node_handler import WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import known_type, node_handler
from Middleware.workflows.managers.workflow_manager import WorkflowManager
from Middleware.workflows.models.execution_context import (
    CleanText,
    ExecutionContext,
    LlmCall,
    NodeResult,
    NodeStream,
    NodeValue,
    result_text,
)
from Middleware.workflows.processors.node_context import NodeContext
from Middleware.workflows.processors.read_ahead import ReadAhead
from Middleware.workflows.processors.run import NOTHING_KEPT, Run, title_of
from Middleware.workflows.processors.workflows_processor import WorkflowProcessor
from Middleware.workflows.streaming.response_handler import whole_batch
from Middleware.workflows.variables.workflow_variable_manager import value_of

# --------------------------------------------------------------------------
# What stands in a dry run for the output of a script or a service: a text that anything can be taken out
# of.


_ASKED_BY_JINJA = ("unsafe_callable", "alters_data")
"""Marks of what a template may not call; a stub bears none."""
_ASKED_BY_THE_ENGINE = ("prompt_tokens", "thinking")
"""What came beside a model's text; a stub is no model's. A template finds them as items."""


class StubOutput(str):
    """The text. An attribute, key, item or call of it is a stub again, told to `tell` by its path."""

    _path: str
    _tell: Callable[[str], None]

    @classmethod
    def of(cls, text: str, path: str, tell: Callable[[str], None]) -> StubOutput:
        stub = cls(text)
        stub._path, stub._tell = path, tell
        return stub

    def __getattr__(self, name: str) -> StubOutput:
        if name.startswith("_") or name in (*_ASKED_BY_JINJA, *_ASKED_BY_THE_ENGINE):
            raise AttributeError(name)
        return self._part(f".{name}")

    def __getitem__(self, key: Any) -> Any:
        return self._part(f"[{key!r}]") if isinstance(key, str) else super().__getitem__(key)

    def __iter__(self) -> Iterator[str]:
        yield self

    def __call__(self, *_: Any, **__: Any) -> StubOutput:
        return self

    def _part(self, step: str) -> StubOutput:
        path = f"{self._path}{step}"
        self._tell(path)
        return StubOutput.of(f"[{path}]", path, self._tell)


# --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sent:
    """One call of a backend that would have been made; keys are masked. `secrets`: what else must not be
    shown. `endpoint`: its name, `address`: its server's. `late_text`: exactly what stands behind the
    conversation. `authored`: the node gives the prompt, so no conversation is sent. `behind`: the answer is
    complete by then, so nobody waits for it. `answer`: what the stub says. `estimate`: of its tokens, and of
    which model a server's count would be compared with it; None: none would.
    """

    url: str
    headers: Mapping[str, str]
    body: JsonObject
    secrets: tuple[str, ...] = field(default=(), repr=False)
    endpoint: str = ""
    address: str = ""
    late_text: str = ""
    authored: bool = False
    behind: bool = False
    answer: str = ""
    estimate: tuple[Model, int] | None = None

    def text(self) -> str:
        headers = "".join(f"\n{name}: {value}" for name, value in self.headers.items())
        place = self.url or "(inside this program)"
        return mask_keys(f"POST {place}{headers}\n\n{json.dumps(self.body, indent=2, ensure_ascii=False)}")


@dataclass(slots=True)
class DryNode:
    """One node of the walk. `config`: as written. `fields`: with variables filled. `answers`: its text is
    what the user gets. `variables`: what each that its texts name is.
    """

    workflow: str
    number: int
    type: str
    title: str
    depth: int
    answers: bool
    config: NodeConfig = field(default_factory=dict)
    fields: JsonObject = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    output: str = ""

    def lines(self) -> list[str]:
        """For people, indented by depth."""
        named = f' "{self.title}"' if self.title else ""
        lines = [f"node {self.number}{named} ({self.type})" + (", answers the user" if self.answers else "")]
        lines += [f"  {name}: {_shown_value(value)}" for name, value in self.fields.items()]
        for sent in self.sent:
            lines += [f"  {line}" for line in sent.text().splitlines()]
        lines += [f"  {note}" for note in self.notes]
        lines.append(f"  output: {_shown_value(self.output)}")
        return [mask_keys(f"{'    ' * self.depth}{line}".rstrip()) for line in lines]


NodeChanges = Mapping[tuple[str, int], NodeConfig]
"""Fields that are other ones than in the file, by workflow file and number of the node."""
NO_CHANGES: NodeChanges = {}


@dataclass(frozen=True, slots=True)
class DryCall:
    """A call of a node. `ahead`: it is no call but a reading ahead (`start` or `end`)."""

    node: DryNode
    sent: Sent
    ahead: str = ""


Given = Callable[[str, Sequence[NodeConfig]], KeptNodes]
"""What nodes of a workflow file gave in an earlier run, in place of stubs: by its path and its nodes."""

ROUTING = ("", 0)
"""The place of the user's routing among nodes: its `conditionalKey` is the category that is chosen."""


class DryRun(WorkflowManager):
    """Runs of one request without effect. `nodes`: what was walked, in order of the nodes' start. `calls`:
    what servers would read, in order.

    `stub_output`: what each model says; `answer`: what the one says that answers the user. `changes`: nodes
    that are walked with other fields. `given`: what nodes of a workflow that no node called gave earlier;
    they are told as all others, and call nothing. `tells_variables`: nodes say what their variables are.
    `discussions`: a folder of the walk's own; with it nodes that keep what they make in a discussion run,
    times are kept, and what would be read ahead counts.
    """

    def __init__(
        self,
        user: UserSettings,
        request: RequestContext,
        stub_output: str | None = None,
        *,
        answer: str | None = None,
        changes: NodeChanges = NO_CHANGES,
        given: Given | None = None,
        tells_variables: bool = False,
        discussions: Path | None = None,
    ) -> None:
        super().__init__(user, request)
        self.state.fronts = None  # a first turn, of which nothing is remembered
        self.state.discussions = self.discussions = discussions
        self.stub_output, self.answer, self.changes = stub_output, answer, changes
        self.given, self.tells_variables = given, tells_variables
        self.nodes: list[DryNode] = []
        self.calls: list[DryCall] = []
        self.kept_something = False
        """A node ran that keeps what it makes in the discussion."""
        self.categories: list[str] = []
        """Those that the categorisation workflow was told."""
        self.taken: list[str] = []
        """What templates took out of stubbed outputs since the last node ended."""

    def processor(self, run: Run) -> WorkflowProcessor:
        if len(run.chain) == 1 and run.file.name == self.user.categorization_workflow:
            run = replace(run, categories=self._categories())
        return _DryProcessor(run, self)

    def run_internal(
        self, file: WorkflowFile, question: ClientQuestion, *, categories: Mapping[str, str]
    ) -> NodeValue:
        self.categories = list(categories)
        value = super().run_internal(file, question, categories=categories)
        chosen = self.changes.get(ROUTING)
        return value if chosen is None else str(chosen["conditionalKey"])

    def category_by_meaning(self, routing: Routing, question: ClientQuestion) -> Category | None:
        """None: nothing is embedded here, so the categorisation workflow decides."""
        return None

    def _categories(self) -> dict[str, str]:
        """What the categorisation workflow is told in a request: the user's routing."""
        if not self.user.routing_config:
            return {}
        categories = load_routing(self.snapshot, self.user.routing_config).categories
        return {category.name: category.description for category in categories}


class _DryProcessor(WorkflowProcessor):
    """The loop, without effects: one node after the other, no timestamps, nothing written."""

    def __init__(self, run: Run, walk: DryRun) -> None:
        super().__init__(run, walk.run_child)
        self._walk = walk
        file = run.file.file
        is_first = walk.given is not None and len(run.chain) == 1
        self._given = walk.given(file, self._nodes) if walk.given and is_first else NOTHING_KEPT
        if walk.changes:
            self._nodes = tuple(
                {**node, **walk.changes.get((file, number), {})} for number, node in enumerate(self._nodes, 1)
            )

    def context(self, index: int, messages: Messages, trace: TracedNode | None = None) -> NodeContext:
        made = super().context(index, messages, trace)
        facts = {one.name: getattr(made, one.name) for one in fields(made)}
        return _DryContext(**facts, walk=self._walk)

    def _handle_node(self, context: ExecutionContext) -> NodeResult:
        assert isinstance(context, _DryContext)
        handler = node_handler(context.config.get("type"))
        node = _dry_node(context)
        node.fields = _filled_fields(context)
        node.variables = _variables(context) if self._walk.tells_variables else {}
        self._walk.nodes.append(node)
        context = replace(context, dry_node=node)
        kept = self._given.get(context.node_number)
        node.notes = handler.dry_notes(context) if kept is None else []
        result = self._result_of(handler, context) if kept is None else self._earlier_result(context, kept)
        result = self._with_values(context, result)
        node.notes += [
            f"{path} is a stub here: only a run can tell what it is" for path in self._taken_warnings()
        ]
        node.output = (
            "(what its model or its child answers)" if isinstance(result, NodeStream) else result_text(result)
        )
        return result

    def _result_of(self, handler: WorkflowNodeHandler, context: _DryContext) -> NodeResult:
        if self._runs(handler):
            return handler.handle(context)
        asked = handler.first_call(context)
        return context.stub_object() if asked is None else context.stop_call(LlmCall(), asked)

    def _earlier_result(self, context: _DryContext, kept: KeptNode) -> NodeResult:
        """What the node gave in an earlier run, with its thoughts."""
        context.notes.thinking.extend(kept.thoughts)
        self._keep_values(context, kept.values)
        result: NodeResult = CleanText(kept.output) if isinstance(kept.output, str) else kept.output
        return result

    def _runs(self, handler: WorkflowNodeHandler) -> bool:
        keeps = handler.KEEPS_TO_DISCUSSION and self._walk.discussions is not None
        self._walk.kept_something = self._walk.kept_something or keeps
        return keeps or handler.RUNS_DRY

    def _taken_warnings(self) -> list[str]:
        taken = list(dict.fromkeys(self._walk.taken))
        self._walk.taken.clear()
        return taken

    def _group_end(self, index: int) -> int:
        return index + 1

    def _track_times(self) -> None:
        """Tracking writes."""
        if self._walk.discussions is not None:
            super()._track_times()

    def _begin_reading_ahead(self) -> None:
        """No server is called."""
        if self._walk.discussions is not None and ReadAhead.wanted_by(self.run):
            self._ahead = _CountedReadAhead(self.run, self._early_context, self._early_record)
            self._ahead.begin()

    def _begin_answer(self) -> None:
        """The placeholder would be written."""
        if self._walk.discussions is not None:
            super()._begin_answer()

    def _stamp_answer(self, context: ExecutionContext, text: str) -> None:
        """The answer's time would be written."""
        if self._walk.discussions is not None:
            super()._stamp_answer(context, text)


class _CountedReadAhead(ReadAhead):
    """Nothing is read: what would be is told."""

    def read(
        self, context: NodeContext, call: CallArguments, reading: Reading, *, is_next_turn: bool
    ) -> None:
        assert isinstance(context, _DryContext) and context.llm_handler is not None
        sent = replace(_sent_request(context.llm_handler.llm, call, False), behind=is_next_turn)
        node = context.dry_node or _dry_node(context)
        context.walk.calls.append(DryCall(node, sent, "end" if is_next_turn else "start"))
        reading.ended.set()

    def work_beside(self, request: RequestContext, work: Callable[[], None]) -> bool:
        work()
        return True


@dataclass(frozen=True, slots=True)
class _DryContext(NodeContext):
    """A node's context whose LLM calls end before the backend. `dry_node`: where they are told."""

    walk: DryRun = field(kw_only=True, repr=False)
    dry_node: DryNode | None = field(default=None, kw_only=True, repr=False)

    def stub(self) -> str:
        """What takes the place of an output that only a model, a script or a service could give."""
        stub = self.walk.stub_output
        return f"[output of node {self.node_number}]" if stub is None else stub

    def stub_object(self) -> StubOutput:
        """The same for a script or a service, whose output may be an object."""
        return StubOutput.of(self.stub(), f"agent{self.node_number}Output", self.walk.taken.append)

    def dispatch(self, call: LlmCall) -> NodeResult:
        return self.stop_call(call, LLMDispatchService.prepare(self, call)[0])

    def stop_call(self, call: LlmCall, asked: CallArguments) -> NodeResult:
        """What stands for the answer of a call that is not made."""
        streams = self.stream and call.stream
        answers = self.is_responder and not self.is_internal
        text = self.walk.answer if answers and self.walk.answer is not None else self.stub()
        if self.dry_node is not None and self.llm_handler is not None:
            self._tell_of_call(self.dry_node, self.llm_handler.llm, call, asked, text)
        self.notes.prompt_tokens = asked.prompt_tokens
        answer = LlmText(text, finish_reason="stop")
        return NodeStream(iter([whole_batch(answer)])) if streams else answer

    def _tell_of_call(
        self, node: DryNode, service: LlmApiService, call: LlmCall, asked: CallArguments, answer: str
    ) -> None:
        sent = replace(
            _sent_request(service, asked, self.stream and call.stream),
            authored=call.prompt is not None or bool(self.config.get("prompt")),
            behind=self.request.answer.complete,
            answer=answer,
        )
        node.sent.append(sent)
        self.walk.calls.append(DryCall(node, sent))

    @property
    def is_dry(self) -> bool:
        return True

    def spare_threads(self) -> Semaphore:
        """None: what is walked is told in order."""
        return Semaphore(0)

    def acquire_lock(self, lock_id: str) -> bool:
        return True

    def embeddings(self, endpoint: str) -> EmbeddingService:
        return _NoVectors(endpoint, user=self.user, snapshot=self.snapshot)

    def own_file(self, path: Path) -> Path:
        return path if self.walk.discussions is None else self.walk.discussions / path.name


def _sent_request(service: LlmApiService, asked: CallArguments, streams: bool) -> Sent:
    """The request that the node's backend would get."""
    handler = service.handler_for(streams or service.endpoint.backend_stream == "always")
    body = handler.whole_payload(asked.of_endpoint(service, is_backup=False))
    headers = {
        name: MASK if _is_secret(name, service.endpoint) else value
        for name, value in handler.request_headers().items()
    }
    secrets = handler.settings.secrets
    url = mask_secrets(handler._get_api_endpoint_url(), *secrets)
    return Sent(
        url,
        headers,
        body,
        secrets,
        endpoint=service.endpoint.name,
        address=handler.settings.url,
        late_text=asked.late_text,
        estimate=asked.estimate_for(service.endpoint),
    )


class _NoVectors(EmbeddingService):
    """No server makes any."""

    def get_embeddings(self, texts: list[str], request_id: str | None = None) -> None:
        return None


def _dry_node(context: _DryContext) -> DryNode:
    run = context.run
    return DryNode(
        workflow=run.file.file,
        number=context.node_number,
        type=known_type(context.config.get("type")),
        title=title_of(context.config),
        depth=len(run.chain) - 1,
        answers=context.is_responder and not run.internal,
        config=context.config,
    )


def _is_secret(header: str, endpoint: EndpointConfig) -> bool:
    """Whether a header may hold a key: by its name, or because it is filled from the environment."""
    written = {name.lower(): str(value) for name, value in endpoint.written_headers.items()}
    return is_secret_header(header, written.get(header.lower(), ""))


_PROMPTS = ("systemPrompt", "prompt")
"""Fields whose slices of the conversation stand as the node's windows do."""


def _filled_fields(context: ExecutionContext) -> JsonObject:
    """The node's fields, variables filled; what has shown itself in the heading is left out."""
    left_out = ("type", "title", "agentName")

    def fill_value(name: str, value: Any) -> Any:
        if isinstance(value, list):
            return [fill_value(name, item) for item in value]
        return context.fill(value, steady=name in _PROMPTS) if isinstance(value, str) else value

    fields = {name: fill_value(name, value) for name, value in context.config.items() if name not in left_out}
    shown: JsonObject = mask_config(fields)
    return shown


def _variables(context: _DryContext) -> dict[str, str]:
    """What each variable is that the node's texts name; unknown ones are left out."""
    source = context.source(steady=True)
    names = dict.fromkeys(name for _, name in names_written(context.config))
    return {name: value for name in names if (value := value_of(name, source)) is not None}


def _shown_value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
