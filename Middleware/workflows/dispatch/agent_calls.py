"""The calls of an agent: the prompt as `Standard` makes it, once, and each step's call made of it.

What the loop adds stands behind the prompt; windows, merging, the late prompt and stamps do not see it, and
the prompt of a step begins with the whole one before it. Knows no loop. Source: spec agents.md 3.1, 4.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from Middleware.common.types import JsonObject, Message, Messages
from Middleware.config.endpoints import EndpointConfig
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.dialects.message_building import structured_output_block
from Middleware.llmapis.llm_handler import LlmHandler
from Middleware.utilities.prompt_extraction_utils import sent_cost
from Middleware.utilities.text_utils import estimate_json_tokens
from Middleware.workflows.dispatch.llm_dispatch import (
    build_question,
    rebuild_call,
    report_clamp,
    shaped_model,
    takes_tools,
)
from Middleware.workflows.dispatch.prompt_assembly import Clamp, MakeCall, Parts, assemble, window_budget
from Middleware.workflows.models.execution_context import ExecutionContext, LlmCall


@dataclass(slots=True)
class AgentPrompt:
    """The prompt of one agent, made when it begins. Not for several threads at once."""

    _context: ExecutionContext
    _call: LlmCall
    _parts: Parts
    _make: MakeCall
    _model: LlmHandler
    _clamps: dict[str, Clamp] = field(default_factory=dict)

    @classmethod
    def of(cls, context: ExecutionContext, call: LlmCall, tools: Sequence[JsonObject]) -> AgentPrompt:
        """`tools`: those that the model is offered, in OpenAI's form. Raises ConfigError, ValueError as
        `LLMDispatchService.prepare`."""
        call = replace(call, for_agent=True)
        parts, make, _ = build_question(context, call)
        parts = replace(parts, tools=tuple(tools), turns=[])
        return cls(context, call, parts, make, shaped_model(context, call))

    @property
    def takes_tools(self) -> bool:
        return takes_tools(self._model.llm)

    @property
    def endpoint(self) -> EndpointConfig:
        return self._model.llm.endpoint

    @property
    def max_tokens(self) -> int:
        """The limit of an answer; 0: there is none."""
        return self._parts.max_tokens

    @property
    def can_leave_tools_out(self) -> bool:
        """Whether a call may come without tools when its turns speak of them."""
        return self._model.llm.can_leave_tools_out

    @property
    def takes_schema(self) -> bool:
        """Whether a reply can be bound to a JSON Schema."""
        has_block = structured_output_block(self.endpoint.api_type) is not None
        return self._model.takes_message_collection and has_block

    def native_call(self, turns: Messages, *, choice: Any = None, with_tools: bool = True) -> CallArguments:
        """A step with tools. `turns`: of the loop so far, thoughts beside them. `with_tools` False: none are
        sent, though the turns may speak of them."""
        tools = list(self._parts.tools) if with_tools else None
        return self._assembled("native", self._parts, turns, tools=tools, tool_choice=choice)

    def described_call(self, turns: Messages, demand: str, schema: JsonObject | None) -> CallArguments:
        """A step whose tools are described at the end of the system prompt (`demand`)."""
        parts = replace(self._parts, tools=(), demand=demand)
        return self._assembled("described", parts, turns, schema=schema)

    def plain_call(self, question_form: Callable[[str], str]) -> CallArguments:
        """Without tools, demand and turns. `question_form(text)`: what becomes of the newest question."""
        parts = replace(self._parts, tools=(), question_form=question_form)
        return self._assembled("plain", parts, [])

    def _assembled(self, form: str, parts: Parts, turns: Messages, **asked: Any) -> CallArguments:
        parts = replace(parts, turns=turns)
        fields: Mapping[str, Any] = {
            "tools": None,
            "tool_choice": None,
            "rebuild": partial(rebuild_call, self._call, parts),
            **asked,
        }
        if not fields["tools"]:
            fields = {**fields, "parallel_tool_calls": None}
        made, clamp = assemble(parts, self._model, partial(self._make, **fields), self._clamps.get(form))
        if not self._clamps:
            report_clamp(self._context, clamp)
        self._clamps[form] = clamp
        return made

    def window(self) -> int | None:
        """Tokens that a prompt may have, as `prompt_tokens` counts them; None: the window is not known."""
        return window_budget(self.endpoint, self._parts.max_tokens)


def turn_tokens(turn: Message) -> int:
    """What a turn of the loop counts in that."""
    return sent_cost(turn)


def prompt_tokens(asked: CallArguments) -> int:
    """Estimate of a step's prompt, with its tools and the calls in its turns."""
    calls = [call for turn in asked.turns or () for call in turn.get("tool_calls") or ()]
    return asked.clamped_tokens() + sum(map(_json_tokens, (asked.tools, calls)))


def _json_tokens(value: Any) -> int:
    return estimate_json_tokens(json.dumps(value, ensure_ascii=False)) if value else 0
