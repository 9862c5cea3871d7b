"""A node's context while the loop runs it: variables, its model, its LLM calls, children, locks.

One value a node and run. Beside it the loop keeps what the node's LLM calls brought besides their text
(thoughts, token counts).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Semaphore
from typing import Any, TypeAlias

import Middleware.workflows.handlers.impl  # noqa: F401  (registers the node types)
from Middleware.common.copies import copy_with
from Middleware.common.request_context import NO_PROGRESS
from Middleware.common.types import Batch, JsonObject, Messages, NodeConfig
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.llm_api import LlmApiService
from Middleware.llmapis.llm_handler import LlmHandler
from Middleware.llmapis.llm_text import LlmText
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.data_folders import lock_database_of
from Middleware.services.run_trace import TracedBranch
from Middleware.services.steady_paragraphs import SystemParts
from Middleware.utilities.sensitive_logging_utils import loggable_whole_text
from Middleware.workflows.dispatch.client_wishes import take_wishes, token_limit, wished_samplers
from Middleware.workflows.dispatch.llm_dispatch import Demand, LLMDispatchService, steady_window_of
from Middleware.workflows.handlers.node_types import number_keys
from Middleware.workflows.memory.compactor import waits
from Middleware.workflows.models.execution_context import (
    Branch,
    ChildCall,
    CleanAnswer,
    ExecutionContext,
    LlmCall,
    NodeResult,
    NodeStream,
    NodeValue,
    is_tool_call_answer,
    result_text,
)
from Middleware.workflows.models.node_keys import EARLY_CHOICES
from Middleware.workflows.processors.delivery import cleaned_result
from Middleware.workflows.processors.run import Run, progress_batch, responder_index
from Middleware.workflows.variables import workflow_variable_manager as variables
from Middleware.workflows.variables.conversation import VariableSource

logger = logging.getLogger(__name__)


# --------------------------------------------------------------------------
# The numeric fields of nodes, made numbers before a node runs.


def with_numbers(node: NodeConfig, resolve: Callable[[str], str], where: Callable[[], str]) -> NodeConfig:
    """`node` with the numeric fields of its type as numbers: a copy, or `node` itself when there is nothing
    to do.

    `resolve(text)` fills placeholders. What is no number becomes the default, with a warning that
    begins with `where()`.
    """
    changed: dict[str, Any] = {}
    keys = number_keys(node.get("type"))
    for name in node.keys() & keys.keys():
        value, default = node[name], keys[name].default
        kind = float if keys[name].fraction else int
        if isinstance(value, bool) or type(value) is kind or not isinstance(value, int | float | str):
            continue
        is_filled = isinstance(value, str) and "{" in value
        found = resolve(value) if isinstance(value, str) and is_filled else value
        try:
            changed[name] = kind(found)
        except (ValueError, OverflowError):  # the second: of `1e400`, which JSON reads as infinite
            told = loggable_whole_text(repr(found)) if is_filled else repr(found)
            changed[name] = _fallen_back(name, default, found, where(), told)
    return {**node, **changed} if changed else node


def _fallen_back(
    name: str, default: int | float | None, found: float | str, where: str, told: str
) -> int | float | str:
    """The default of a field that holds no number, told; without a default what it holds."""
    if default is None:
        logger.error("%s: %s: %s is not a number", where, name, told)
        return found
    logger.warning("%s: %s: %s is not a number, so %s is used", where, name, told, default)
    return default


# --------------------------------------------------------------------------

RunChild: TypeAlias = "Callable[[NodeContext, ChildCall], NodeResult]"
"""Runs a child of a node; given by the manager."""


@dataclass(slots=True)
class CallNotes:
    """What the LLM calls of one node brought besides their text. `thinking`: what they thought; of the last
    one `usage`: the backend's numbers, `prompt_tokens()`: an estimate of its prompt. `values`: what the nodes
    behind can name besides its output, by the end of that name.
    """

    thinking: list[str] = field(default_factory=list)
    usage: JsonObject | None = None
    prompt_tokens: Callable[[], int] | None = None
    values: dict[str, str] = field(default_factory=dict)


_FACTS_KEPT = {"finish_reason", "native_finish_reason", "usage", "model", "refusal", "cost"}
"""Facts of an answer that stay beside its cleaned text. A call of a tool that nobody offered is none."""


@dataclass(frozen=True, slots=True)
class NodeContext(ExecutionContext):
    """Node `node_number` of `run`. `notes`: told by its calls. `is_quiet`: it warns of nothing, as all of
    that is said elsewhere.

    Made in two steps: first as the node was written, which nothing can be wrong with; then `ready()`.
    """

    run: Run = field(kw_only=True, repr=False)
    run_child: RunChild = field(kw_only=True, repr=False)
    notes: CallNotes = field(kw_only=True, repr=False)
    is_quiet: bool = field(default=False, kw_only=True)

    # --- before the node runs ---

    def ready(self) -> NodeContext:
        """With numbers made numbers, the model loaded, the files of the discussion. Raises ConfigError."""
        state = self.run.state
        stamps, key = state.stamps(self.discussion_id), state.encryption_key
        node, llm_handler = self._loaded_model()
        if node is self.config and llm_handler is None and stamps is None and key is None:
            return self
        return copy_with(
            self,
            config=node,
            llm_handler=llm_handler,
            store=stamps.store if stamps else None,
            encryption_key=key,
        )

    def _loaded_model(self) -> tuple[NodeConfig, LlmHandler | None]:
        """The node with its numbers made numbers, and its model."""

        def number(text: str) -> str:
            return variables.fill_early(text, self.source(), with_outputs=True)

        node = with_numbers(self.config, number, self._place)
        node = self._with_choices(node)
        return node, self._model(node) if node.get("endpointName") else None

    def _with_choices(self, node: NodeConfig) -> NodeConfig:
        """With the placeholders of fields filled that hold one of several values."""
        filled = {
            name: self._fill_early(node[name])
            for name in EARLY_CHOICES
            if isinstance(node.get(name), str) and "{" in node[name]
        }
        return {**node, **filled} if filled else node

    def _place(self) -> str:
        return self.run.place(self.node_number - 1)

    def _model(self, node: NodeConfig) -> LlmHandler:
        preset = node.get("preset")
        if preset is None:
            preset = node.get("presetName")
        limit = node.get("maxResponseSizeInTokens")
        if type(limit) is int and limit < 1:
            self.warn(f"maxResponseSizeInTokens: found {limit}, allowed: a whole number of 1 or more")
        taken = take_wishes(node, self.question.wishes)
        self.run.state.taken_wishes.update(taken)
        if self.run.asked is not None:
            return LlmHandler.of(self.run.asked.service(self.user, self.snapshot), bare=True)
        if self.run.plain:
            return LlmHandler.of(self._plain_service(str(node["endpointName"]), taken))
        llm = LlmApiService(
            self._fill_early(str(node["endpointName"])),
            self._fill_early(str(preset)) if preset else None,
            token_limit(
                taken, self.keys["maxResponseSizeInTokens"].value_in(node, "maxResponseSizeInTokens")
            ),
            self.stream,
            user=self.user,
            snapshot=self.snapshot,
            wished=wished_samplers(taken),
        )
        return LlmHandler.of(llm)

    def _fill_early(self, text: str) -> str:
        """`endpointName`, `preset`. Nothing is gathered for a text that names nothing."""
        return variables.fill_early(text, self.source()) if "{" in text else text

    def _plain_service(self, endpoint: str, taken: JsonObject) -> LlmApiService:
        """An endpoint that is asked as it is: no preset, and no limit but the client's."""
        return LlmApiService(
            endpoint,
            None,
            taken.get("max_tokens"),
            self.stream,
            user=self.user,
            snapshot=self.snapshot,
            wished=wished_samplers(taken),
            without_preset=True,
        )

    def source(
        self, messages: Messages | None = None, *, drop_system: bool = False, steady: bool = False
    ) -> VariableSource:
        """What the node's variables are made from. `messages`: None = the node's."""
        return VariableSource(
            request=self.request,
            user=self.user,
            node=self.config,
            workflow_variables=self.workflow_file.variables,
            agent_inputs=self.agent_inputs,
            agent_outputs=self.agent_outputs,
            thoughts=self.thoughts,
            messages=self.messages if messages is None else messages,
            has_conversation=self.question.has_conversation,
            discussion_id=self.question.discussion_id,
            time_context=self._time_context,
            system_parts=self._system_parts,
            llm_handler=self.llm_handler,
            categories=self.run.categories,
            drop_all_system=drop_system,
            steady=steady_window_of(self) if steady else None,
            file=self.workflow_file.file,
            pointer=f"/nodes/{self.node_number - 1}",
        )

    def _time_context(self) -> str:
        stamps = self.run.state.stamps(self.discussion_id)
        return stamps.time_context_summary() if stamps else ""

    def _system_parts(self, everywhere: bool) -> SystemParts:
        return self.run.state.system_parts(self.run.question, everywhere=everywhere)

    def error_text(self) -> str:
        """`errorText` of a node that failed, filled."""
        return variables.fill(str(self.config.get("errorText") or ""), self.source())

    # --- what a node may ask for ---

    def fill(
        self,
        text: str,
        *,
        messages: Messages | None = None,
        drop_system: bool = False,
        steady: bool = False,
    ) -> str:
        if variables.is_plain(text, self.config):
            return text
        return variables.fill(text, self.source(messages, drop_system=drop_system, steady=steady))

    def fill_parts(self, text: str) -> tuple[str, str | None]:
        return variables.fill_parts(text, self.source())

    def fill_prefix(self, text: str) -> tuple[str, str | None]:
        return variables.fill_prefix(text, self.source())

    def run_workflow(self, call: ChildCall) -> NodeResult:
        return self.run_child(self, call)

    def dispatch(self, call: LlmCall) -> NodeResult:
        asked, demand, call = self._question(call)
        self.notes.prompt_tokens = asked.prompt_tokens
        result = LLMDispatchService.send(self, call, asked, demand)
        if self.is_cancelled():
            self._count_cut_call(asked)
        if not isinstance(result, NodeStream):
            facts = result if isinstance(result, dict) else getattr(result, "__dict__", {})
            self.notes.usage = facts.get("usage")
            if thinking := facts.get("thinking"):
                self.notes.thinking.append(thinking)
        return result

    def _question(self, call: LlmCall) -> tuple[CallArguments, Demand | None, LlmCall]:
        """What is asked, the call of a tool that must come of it, and how the node wants its answer."""
        repeated = self.run.asked
        if repeated is None or self.llm_handler is None:
            call = copy_with(call, whole=True) if self.run.plain else call
            return *LLMDispatchService.prepare(self, call), call
        asked = repeated.arguments(self.llm_handler.llm)
        asked = copy_with(asked, request_id=self.request_id, trace=self.trace)
        return asked, None, copy_with(call, stream=repeated.stream)

    def _count_cut_call(self, asked: CallArguments) -> None:
        """One of several calls was ended because its answer is not needed: what it read counts, where
        somebody observes."""
        if cancellation_service.is_cancelled(self.run.state.request.request_id):
            return
        if isinstance(self.trace, TracedBranch) and any(call.sent for call in self.trace.calls):
            self.request.usage.add({"prompt_tokens": asked.prompt_tokens(), "completion_tokens": 0})

    def prepared(self, call: LlmCall) -> LlmCall:
        return copy_with(call, asked=LLMDispatchService.prepare(self, call)[0])

    def branch(self, branch: Branch) -> NodeContext:
        fields = {**self.config, **branch.changes}
        authored = copy_with(
            self,
            request=copy_with(self.request, request_id=branch.request_id),
            config={name: value for name, value in fields.items() if value is not None},
            llm_handler=None,
            stream=self.stream and branch.streams,
            notes=CallNotes(),
            trace=None if self.trace is None else TracedBranch(*self.trace),
        )
        node, llm_handler = authored._loaded_model()
        return copy_with(authored, config=node, llm_handler=llm_handler)

    def clean(self, answer: NodeValue) -> CleanAnswer:
        facts = dict(answer if is_tool_call_answer(answer) else getattr(answer, "__dict__", {}))
        beside = facts.get("thinking") or ""
        text, thoughts = cleaned_result(LlmText(result_text(answer), thinking=beside), self)
        self.notes.thinking.extend(thoughts)
        clean = CleanAnswer(result_text(text))
        vars(clean).update({name: facts[name] for name in _FACTS_KEPT & facts.keys()})
        return clean

    def take_answer(self, of: ExecutionContext | None, usage: JsonObject | None = None) -> None:
        if not isinstance(of, NodeContext):
            self.notes.usage = usage
            return
        notes = of.notes
        self.notes.usage, self.notes.prompt_tokens = notes.usage, notes.prompt_tokens
        self.notes.thinking.extend(notes.thinking)
        if of.trace is not None and (call := of.trace.last_model_call) is not None:
            call.chosen = True

    def note_value(self, name: str, text: str) -> None:
        self.notes.values[name] = text

    def with_node(self, config: NodeConfig) -> NodeContext:
        authored = copy_with(
            self, config=config, llm_handler=None, stream=False, is_responder=False, is_internal=True
        )
        node, llm_handler = authored._loaded_model()
        return copy_with(authored, config=node, llm_handler=llm_handler)

    def acquire_lock(self, lock_id: str) -> bool:
        locking = self.run.state.services.locking(lock_database_of(self.user))
        return locking.acquire(lock_id, self.workflow_id)

    def progress(self, what: str) -> Batch:
        request = self.request
        if request.progress == NO_PROGRESS or not self.question.stream:
            return []
        if self.run.internal or request.answer.complete:
            return []
        of = responder_index(self.run.file.nodes) + 1
        return progress_batch(self.run, self.node_number - 1, self.node_number, of, what)

    def compactor_waits(self, newest: int) -> bool:
        return waits(self, newest)

    def spare_threads(self) -> Semaphore:
        return self.run.state.extra_threads

    def is_cancelled(self) -> bool:
        return cancellation_service.is_cancelled(self.request_id)

    def warn(self, message: str) -> None:
        if self.is_quiet:
            return
        if self.trace is not None and not self.trace.run.private:
            self.trace.node.warnings.append(message)
        logger.warning("%s: %s", self._place(), message)
