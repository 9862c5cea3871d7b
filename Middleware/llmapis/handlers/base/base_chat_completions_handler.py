"""What backends share that are sent a list of messages. Source: spec backends.md 8."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from Middleware.common.types import JsonObject, Messages
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.dialects.loop_turns import wire_turns
from Middleware.llmapis.dialects.message_building import WIRE_KEYS, attach_schema, build_messages
from Middleware.llmapis.dialects.prompt_caching import CacheMark, LateText, has_own_marks, mark_messages
from Middleware.llmapis.dialects.tool_turns import COMMON_RULES, TurnRules, repair_turns
from Middleware.llmapis.handlers.base.base_llm_api_handler import LlmApiHandler


class BaseChatCompletionsHandler(LlmApiHandler):
    """Payload: `model`, `messages`, `gen`, tools, schema; a later key wins."""

    takes_messages: ClassVar[bool] = True
    turn_rules: ClassVar[TurnRules] = COMMON_RULES
    """What this backend asks of tool turns."""

    def _payload(self, call: CallArguments) -> JsonObject:
        endpoint = self.settings.endpoint
        messages = build_messages(
            call.conversation,
            call.system_prompt,
            call.prompt,
            endpoint.injected_texts,
            is_agent=call.turns is not None,
        )
        if call.turns:
            messages += wire_turns(call.turns, WIRE_KEYS, endpoint)
        payload = self._payload_head(self._convert_messages(repair_turns(messages, self.turn_rules)))
        self._add_tools(payload, call.tools, call.tool_choice)
        if call.parallel_tool_calls is not None and payload.get("tools"):
            self._allow_parallel_calls(payload, call.parallel_tool_calls)
        if call.schema:
            attach_schema(payload, call.schema, self.settings.endpoint.api_type)
        mark = CacheMark.of(self.settings.endpoint, self.cache_marks)
        if mark is not None and not has_own_marks(payload):
            self._set_marks(payload, mark, call.late)
        return payload

    def _set_marks(self, payload: JsonObject, mark: CacheMark, late: LateText | None) -> None:
        """Mark how much of the prompt is to be held. Source: prompt-reuse.md 5."""
        payload["messages"] = mark_messages(payload["messages"], mark, late)

    def _payload_head(self, messages: Messages) -> JsonObject:
        payload: JsonObject = {}
        if not self.settings.endpoint.dont_include_model:
            payload["model"] = self.settings.endpoint.model
        payload["messages"] = messages
        payload.update(self._generation_fields())
        return payload

    @abstractmethod
    def _convert_messages(self, messages: Messages) -> Messages:
        """The backend's own form of tool turns and images. Tool turns come whole, in OpenAI's form."""

    def _allow_parallel_calls(self, payload: JsonObject, allowed: bool) -> None:
        """Say whether several tools may be called at once; a backend that cannot be told says nothing."""

    def _add_tools(self, payload: JsonObject, tools: list[JsonObject] | None, tool_choice: Any) -> None:
        if tools:
            payload["tools"] = tools
        if tool_choice is not None:
            payload["tool_choice"] = tool_choice
