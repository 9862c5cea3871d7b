"""What the loop does for one node while it runs: variables, its model, its LLM calls, children, locks.

One object a node and run; it is the `NodeKit` of the execution context. It remembers what the node's LLM
calls brought beside their text (thoughts, token counts), for the loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import Middleware.workflows.handlers.impl  # noqa: F401  (registers the node types)
from Middleware.common.types import JsonObject, Messages, NodeConfig
from Middleware.llmapis.llm_api import LlmApiService
from Middleware.llmapis.llm_handler import LlmHandler
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.run_trace import TracedNode
from Middleware.utilities.sensitive_logging_utils import loggable_whole_text
from Middleware.workflows.dispatch.client_wishes import Taken
from Middleware.workflows.dispatch.llm_dispatch import LLMDispatchService, template_of
from Middleware.workflows.handlers.node_types import node_handler, number_defaults
from Middleware.workflows.models.execution_context import (
    ChildCall,
    ExecutionContext,
    LlmCall,
    NodeResult,
    NodeStream,
)
from Middleware.workflows.models.node_keys import common_value
from Middleware.workflows.processors.run import Known, Run, lock_database_of
from Middleware.workflows.variables import workflow_variable_manager as variables
from Middleware.workflows.variables.providers import VariableSource

logger = logging.getLogger(__name__)


# --------------------------------------------------------------------------
# The numeric fields of nodes, made numbers before a node runs.


def with_numbers(node: NodeConfig, resolve: Callable[[str], str], where: Callable[[], str]) -> NodeConfig:
    """`node` with its numeric fields as numbers: a copy, or `node` itself when there is nothing to do.

    `resolve(text)` fills placeholders. A text that is no number becomes the default, with a warning that
    begins with `where()`.
    """
    changed: dict[str, Any] = {}
    defaults = number_defaults()
    for field in node.keys() & defaults.keys():
        value, default = node[field], defaults[field]
        kind = float if isinstance(default, float) else int
        if isinstance(value, bool) or type(value) is kind:
            continue
        if isinstance(value, (int, float)):
            changed[field] = kind(value)
        elif isinstance(value, str):
            text, told = (resolve(value), loggable_whole_text) if "{" in value else (value, str)
            try:
                changed[field] = kind(text)
            except ValueError:
                changed[field] = _fallen_back(field, default, text, where(), told(repr(text)))
    return {**node, **changed} if changed else node


def _fallen_back(
    field: str, default: int | float | None, text: str, where: str, told: str
) -> int | float | str:
    """The default of a field whose text is no number, told; without a default the text."""
    if default is None:
        logger.error("%s: %s: %s is not a number", where, field, told)
        return text
    logger.warning("%s: %s: %s is not a number, so %s is used", where, field, told, default)
    return default


# --------------------------------------------------------------------------

RunChild = Callable[[Run, ExecutionContext, ChildCall, VariableSource], NodeResult]
"""Runs a child of a node; given by the manager."""


class LoopKit:
    """The kit of node `index` of a run.

    `known`: what the nodes before it gave. After the node ran: `thinking`: what
    its own LLM calls thought; `usage`: the backend's numbers of the last call; `prompt_tokens()`: estimate of
    its prompt. `trace`: where its calls are told; None: nobody observes.
    """

    def __init__(self, run: Run, index: int, run_child: RunChild, known: Known) -> None:
        self.run, self.index = run, index
        self._run_child, self._known = run_child, known
        self.thinking: list[str] = []
        self.usage: JsonObject | None = None
        self.prompt_tokens: Callable[[], int] | None = None
        self.trace: TracedNode | None = None

    # --- before the node runs ---

    def prepare_context(
        self, node: NodeConfig, messages: Messages, *, is_responder: bool
    ) -> ExecutionContext:
        """The node's context: numbers made numbers, the model loaded. Raises ConfigError."""
        run, state = self.run, self.run.state
        stream = run.question.stream and is_responder and not run.internal
        node, llm_handler = self._load_model(node, messages, stream)
        stamps = state.stamps(run.question.discussion_id)
        return ExecutionContext(
            kit=self,
            request=state.request,
            user=state.user,
            snapshot=state.snapshot,
            workflow_file=run.file,
            workflow_id=run.workflow_id,
            question=run.question,
            node_number=self.index + 1,
            config=node,
            messages=messages,
            keys=node_handler(node.get("type")).ALL_KEYS,
            stream=stream,
            is_responder=is_responder,
            is_internal=run.internal,
            agent_inputs=self._known.inputs,
            agent_outputs=self._known.outputs,
            llm_handler=llm_handler,
            store=stamps.store if stamps else None,
            encryption_key=state.encryption_key,
            api_key_hash=state.api_key_hash,
            trace=self.trace,
        )

    def _load_model(
        self, authored: NodeConfig, messages: Messages, stream: bool
    ) -> tuple[NodeConfig, LlmHandler | None]:
        """The node with its numbers made numbers, and its model."""

        def fill_early(text: str, *, with_outputs: bool = False) -> str:
            source = self._source(authored, messages, None)
            return variables.fill_early(text, source, with_outputs=with_outputs)

        def number(text: str) -> str:
            return fill_early(text, with_outputs=True)

        node = with_numbers(authored, number, self._place)
        return node, self._model(node, fill_early, stream) if node.get("endpointName") else None

    def _place(self) -> str:
        return self.run.place(self.index)

    def _model(self, node: NodeConfig, early: Callable[[str], str], stream: bool) -> LlmHandler:
        user, snapshot = self.run.state.user, self.run.state.snapshot
        preset = node.get("preset")
        if preset is None:
            preset = node.get("presetName")
        limit = node.get("maxResponseSizeInTokens")
        if type(limit) is int and limit < 1:
            self._warn(f"maxResponseSizeInTokens: found {limit}, allowed: a whole number of 1 or more")
        taken = Taken.by(node, self.run.question.wishes)
        self.run.state.taken_wishes.update(taken.values)
        llm = LlmApiService(
            early(str(node["endpointName"])),
            early(str(preset)) if preset else None,
            taken.limit(common_value(node, "maxResponseSizeInTokens")),
            stream,
            user=user,
            snapshot=snapshot,
            wished=taken.samplers,
        )
        template: Mapping[str, str] = {}
        if not llm.takes_messages:
            template = template_of(snapshot, user, llm.endpoint)
        return LlmHandler(
            llm, template, llm.endpoint.add_generation_prompt, llm.endpoint.type, llm.takes_messages
        )

    def _source(
        self,
        node: NodeConfig,
        messages: Messages,
        llm_handler: LlmHandler | None,
        drop_system: bool = False,
    ) -> VariableSource:
        run, state = self.run, self.run.state
        return VariableSource(
            request=state.request,
            user=state.user,
            node=node,
            workflow_variables=run.file.variables,
            agent_inputs=self._known.inputs,
            agent_outputs=self._known.outputs,
            thoughts=self._known.thoughts,
            messages=messages,
            has_conversation=run.question.has_conversation,
            discussion_id=run.question.discussion_id,
            time_context=self._time_context,
            llm_handler=llm_handler,
            categories=run.categories,
            drop_all_system=drop_system,
            file=run.file.file,
            pointer=f"/nodes/{self.index}",
        )

    def _time_context(self) -> str:
        stamps = self.run.state.stamps(self.run.question.discussion_id)
        return stamps.time_context_summary() if stamps else ""

    def error_text(self, node: NodeConfig, messages: Messages) -> str:
        """`errorText` of a node that failed, filled."""
        return variables.fill(str(node.get("errorText") or ""), self._source(node, messages, None))

    # --- what a node may ask for ---

    def fill(self, context: ExecutionContext, text: str, messages: Messages | None, drop_system: bool) -> str:
        seen = context.messages if messages is None else messages
        return variables.fill(text, self._source(context.config, seen, context.llm_handler, drop_system))

    def fill_parts(self, context: ExecutionContext, text: str) -> tuple[str, str | None]:
        source = self._source(context.config, context.messages, context.llm_handler)
        return variables.fill_parts(text, source)

    def fill_prefix(self, context: ExecutionContext, text: str) -> tuple[str, str | None]:
        source = self._source(context.config, context.messages, context.llm_handler)
        return variables.fill_prefix(text, source)

    def run_workflow(self, context: ExecutionContext, call: ChildCall) -> NodeResult:
        source = self._source(context.config, context.messages, context.llm_handler)
        return self._run_child(self.run, context, call, source)

    def dispatch(self, context: ExecutionContext, call: LlmCall) -> NodeResult:
        dispatched = LLMDispatchService.dispatch(context, call)
        self.prompt_tokens = dispatched.prompt_tokens
        result = dispatched.result
        if not isinstance(result, NodeStream):
            facts = result if isinstance(result, dict) else getattr(result, "__dict__", {})
            self.usage = facts.get("usage")
            if thinking := facts.get("thinking"):
                self.thinking.append(thinking)
        return result

    def with_node(self, context: ExecutionContext, config: NodeConfig) -> ExecutionContext:
        node, llm_handler = self._load_model(config, context.messages, stream=False)
        return replace(
            context, config=node, llm_handler=llm_handler, stream=False, is_responder=False, is_internal=True
        )

    def acquire_lock(self, context: ExecutionContext, lock_id: str) -> bool:
        locking = self.run.state.services.locking(lock_database_of(self.run.state.user))
        return locking.acquire(lock_id, self.run.workflow_id)

    def is_cancelled(self, context: ExecutionContext) -> bool:
        return cancellation_service.is_cancelled(context.request_id)

    def warn(self, context: ExecutionContext, message: str) -> None:
        self._warn(message)

    def _warn(self, message: str) -> None:
        if self.trace is not None and not self.trace.run.private:
            self.trace.node.warnings.append(message)
        logger.warning("%s: %s", self.run.place(self.index), message)
