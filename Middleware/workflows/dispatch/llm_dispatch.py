"""One node's LLM call: from the node's fields and the conversation to text, a tool-call dict or a stream.

Knows no backend: it hands prompt arguments to the node's `LlmApiService`. It neither cleans nor records.
Source: spec nodes.md 3.1; backends.md 13, 15.6; prompt-reuse.md 1, 2.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from Middleware.common.errors import BackendError, ConfigError
from Middleware.common.types import JsonObject, Message, Messages
from Middleware.config.named_files import load_structured_schema
from Middleware.config.users import BY_COMPACTOR
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.dialects.message_building import structured_output_block
from Middleware.llmapis.llm_api import LlmApiService
from Middleware.llmapis.llm_handler import LlmHandler
from Middleware.llmapis.llm_text import LlmText, count_call
from Middleware.llmapis.reasoning_parser import text_behind_thoughts
from Middleware.services.compacted_messages import summary_end
from Middleware.utilities.model_json import json_values, object_of, places_of_json
from Middleware.utilities.prompt_extraction_utils import leading_system_messages
from Middleware.utilities.steady_window import SteadyWindow
from Middleware.utilities.streaming_utils import remove_thinking_from_text
from Middleware.workflows.dispatch.client_wishes import take_wishes
from Middleware.workflows.dispatch.late_prompt import NO_LATE_PROMPT, LatePrompt
from Middleware.workflows.dispatch.prompt_assembly import (
    Clamp,
    MakeCall,
    Parts,
    assemble,
    assemble_next_turn,
    hourly_warnings,
)
from Middleware.workflows.models.execution_context import (
    ExecutionContext,
    LlmCall,
    NodeResult,
    NodeStream,
    is_tool_call_answer,
    result_text,
)
from Middleware.workflows.models.node_keys import common_value
from Middleware.workflows.streaming.response_handler import whole_batch

logger = logging.getLogger(__name__)

LATE_BESIDE_PROMPT = 'latePrompt is for nodes that send the conversation; write it into "prompt"'
"""What is wrong of a node that has both."""


# --------------------------------------------------------------------------
# A tool call that a client demands, got from a backend by a JSON Schema instead of native tools. Pure.


@dataclass(frozen=True, slots=True)
class Demand:
    """`schema`: of the reply.

    `names`: the calls that count. `instruction`: what the system prompt says of it.
    """

    schema: JsonObject
    names: frozenset[str]
    instruction: str


def demand_of(tools: Sequence[Any], choice: Any) -> Demand | None:
    """The demand of a `tool_choice` (`"required"`, or a named function); None when nothing is demanded."""
    functions = [f for f in map(_function_of, tools) if f]
    if forced := _forced_name(choice):
        known = [f for f in functions if f["name"] == forced] or [{"name": forced}]
        return _demand(functions or known, known[:1])
    if choice == "required" and functions:
        return _demand(functions, functions)
    return None


def _function_of(tool: Any) -> JsonObject | None:
    function = tool.get("function") if isinstance(tool, Mapping) else None
    if isinstance(function, Mapping) and isinstance(function.get("name"), str) and function["name"]:
        return dict(function)
    return None


def _forced_name(choice: Any) -> str | None:
    if isinstance(choice, Mapping) and choice.get("type", "function") == "function":
        function = choice.get("function")
        name = function.get("name") if isinstance(function, Mapping) else None
        return name if isinstance(name, str) and name else None
    return None


def _demand(listed: Sequence[JsonObject], wanted: Sequence[JsonObject]) -> Demand:
    schemas = [_schema(function) for function in wanted]
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    names = frozenset(function["name"] for function in wanted)
    return Demand(schema, names, _instruction(listed, wanted))


def _schema(function: JsonObject) -> JsonObject:
    parameters = function.get("parameters")
    arguments = parameters if isinstance(parameters, Mapping) and parameters else {"type": "object"}
    return {
        "type": "object",
        "properties": {"name": {"const": function["name"]}, "arguments": arguments},
        "required": ["name", "arguments"],
    }


def _instruction(listed: Sequence[JsonObject], wanted: Sequence[JsonObject]) -> str:
    lines = ["You can use these tools:"]
    for function in listed:
        lines.append(f"\nTool: {function['name']}")
        if function.get("description"):
            lines.append(f"What it does: {function['description']}")
        parameters = json.dumps(function.get("parameters") or {"type": "object"}, ensure_ascii=False)
        lines.append(f"JSON Schema of its arguments: {parameters}")
    names = ", ".join(f'"{function["name"]}"' for function in wanted)
    which = f"the tool {names}" if len(wanted) == 1 else f"exactly one of the tools {names}"
    lines.append(
        f"\nYou must call {which} now. Reply with one JSON object and nothing else, in this shape: "
        '{"name": <name of the tool>, "arguments": <object that fits its schema>}'
    )
    return "\n".join(lines)


def call_of(text: str, demand: Demand) -> JsonObject | None:
    """The tool-call answer that `text` stands for; None when it is not what was demanded.

    The call may be in a code fence, between words or in a list, and behind thoughts; but it must be the only
    one: nobody knows which of two is meant.
    """
    answer = text_behind_thoughts(text)
    for place in places_of_json(answer):
        if found := set(_calls_in(place, demand)):
            return _answer(*found.pop()) if len(found) == 1 else None
    return None


def _calls_in(text: str, demand: Demand) -> Iterator[tuple[str, str]]:
    """`(name, arguments as JSON text)` of each JSON object that is a call which counts."""
    for _, value, _ in json_values(text):
        for reply in value if isinstance(value, list) else (value,):
            name = reply.get("name") if isinstance(reply, dict) else None
            if isinstance(name, str) and name in demand.names:
                arguments = _object_text(reply.get("arguments"))
                if arguments is not None:
                    yield name, arguments


def _object_text(arguments: Any) -> str | None:
    """Arguments as the text of a JSON object; None for what is none. Some models write the text."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    value = object_of(text if text.strip() else "{}")
    return None if value is None else json.dumps(value, ensure_ascii=False)


def _answer(name: str, arguments: str) -> JsonObject:
    function = {"name": name, "arguments": arguments}
    call = {"id": f"wilmer-{uuid.uuid4().hex}", "type": "function", "function": function}
    return {"content": "", "tool_calls": [call], "finish_reason": "tool_calls"}


# --------------------------------------------------------------------------


class LLMDispatchService:
    """A node's LLM call. Stateless; `prepare` decides, `send` calls, `dispatch` does both."""

    @staticmethod
    def prepare(context: ExecutionContext, call: LlmCall) -> tuple[CallArguments, Demand | None]:
        """What will be asked, and the tool call that must come of it, if one must; a dry run stops here.

        Raises ConfigError (no endpoint, unknown schema), ValueError (no messages)."""
        if call.asked is not None:
            return _asked_again(context, call.asked), None
        parts, make, demand = build_question(context, call)
        asked, clamp = assemble(parts, shaped_model(context, call), make)
        report_clamp(context, clamp)
        return asked, demand

    @staticmethod
    def beginning(context: ExecutionContext, call: LlmCall) -> CallArguments:
        """What `prepare` will ask first, as far as it is known before the nodes in front have run: all but
        the late prompt. For reading ahead, as `next_turn`. Raises as `prepare`."""
        parts, make, _ = build_question(context, call, late_comes_later=True)
        return replace(assemble(parts, shaped_model(context, call), make)[0], rebuild=None)

    @staticmethod
    def next_turn(context: ExecutionContext, call: LlmCall, answer: str) -> CallArguments:
        """What the same call will ask first in the next turn, after this `answer` (the text that the user
        sees): tools, system prompt, the window as the next turn will begin it, the answer at its end; nothing
        late, no new message.

        For a node that sends the conversation, to a backend that takes messages. Raises as `prepare`. Source:
        prompt-reuse.md 6.
        """
        parts, make, _ = build_question(context, call)
        return replace(assemble_next_turn(parts, shaped_model(context, call), make, answer), rebuild=None)

    @staticmethod
    def dispatch(context: ExecutionContext, call: LlmCall) -> NodeResult:
        """Prepare and send: `LlmText`, a tool-call dict or a `NodeStream`. Raises what those raise."""
        return LLMDispatchService.send(context, call, *LLMDispatchService.prepare(context, call))

    @staticmethod
    def send(
        context: ExecutionContext, call: LlmCall, asked: CallArguments, demand: Demand | None
    ) -> NodeResult:
        """A stream is open when this returns. Raises BackendError."""
        llm, streams = node_model(context).llm, context.stream and call.stream
        if demand is not None:
            result = _ask_for_call(context, llm, asked, demand)
            return _as_stream(result, asked.prompt_tokens) if streams else result
        if streams:
            batches = llm.stream_batches(asked)
            return NodeStream(batches, prompt_tokens=asked.prompt_tokens, running=True)
        return _whole_answer(context, llm, asked)


# --- what is sent ---


def _asked_again(context: ExecutionContext, asked: CallArguments) -> CallArguments:
    """A prompt that was made before, in the shape of the model of this context, as a call of its own."""
    own = replace(asked, request_id=context.request_id, trace=context.trace)
    return own if own.rebuild is None else own.rebuild(own, node_model(context).llm)


def build_question(
    context: ExecutionContext, call: LlmCall, *, late_comes_later: bool = False
) -> tuple[Parts, MakeCall, Demand | None]:
    """What the call wants to send, what makes the call when its prompt is there, and the tool call that must
    come of it. `late_comes_later`: the late prompt is not filled, as what it names may not be there yet.
    """
    model = node_model(context)
    parts = _parts(context, call, model, late_comes_later=late_comes_later)
    taken = take_wishes(context.config, context.question.wishes)
    demand, schema = None, None
    if not call.for_agent:
        demand, schema = _constraints(
            context, model, bool(parts.tools) and not call.whole, taken.get("response_format")
        )
    elif "response_format" in taken:
        context.warn("the answer format of the client is ignored, because an agent has tools")
    if demand is not None:
        parts = replace(parts, demand=demand.instruction)
    make = partial(
        CallArguments,
        tools=list(parts.sent_tools) or None,
        tool_choice=context.tool_choice if parts.sent_tools else None,
        parallel_tool_calls=taken.get("parallel_tool_calls") if parts.sent_tools else None,
        schema=schema if call.schema is None else call.schema,
        request_id=context.request_id,
        discussion_id=context.discussion_id,
        trace=context.trace,
        llm_takes_images=call.llm_takes_images,
        chat=context.discussion_id or _first_message(context.messages),
        rebuild=partial(rebuild_call, call, parts),
    )
    return parts, make, demand


def _first_message(messages: Messages | None) -> str:
    """What the user wrote first; empty: nothing is known of it."""
    return next((str(m.get("content") or "") for m in messages or () if m.get("role") == "user"), "")


def shaped_model(context: ExecutionContext, call: LlmCall) -> LlmHandler:
    """The node's model, without its template where the call wants none."""
    model = node_model(context)
    return replace(model, prompt_template={}) if call.bare else model


def node_model(context: ExecutionContext) -> LlmHandler:
    """The node's. Raises ConfigError for a node without an endpoint."""
    if context.llm_handler is None:
        raise ConfigError(
            'this node needs an "endpointName"',
            file=context.workflow_file.file,
            pointer=f"/nodes/{context.node_number - 1}",
        )
    return context.llm_handler


def _parts(
    context: ExecutionContext, call: LlmCall, model: LlmHandler, *, late_comes_later: bool = False
) -> Parts:
    node = context.config
    messages = context.messages if call.messages is None else call.messages
    if messages is None:
        raise ValueError("a call to a model needs a conversation, but there is none")
    raw_prompt = _text(node.get("prompt"))
    authored = call.prompt is not None or bool(raw_prompt)
    exchange: Messages = []
    if authored and node.get("appendNativeToolExchange"):
        messages, exchange = _split_exchange(messages, model)
    seen = messages if exchange or call.messages is not None else None

    def fill_part(given: str | None, raw: str) -> str:
        if given is not None:
            return given
        return context.fill(raw, messages=seen, steady=True) if raw else ""

    system = fill_part(call.system_prompt, _text(node.get("systemPrompt")))
    if call.whole:
        system = "\n\n".join(message["content"] for message in leading_system_messages(messages))
    late = context.value("latePrompt")
    if late and authored:
        context.warn(LATE_BESIDE_PROMPT)
    tools = context.tools if node.get("allowTools") and not call.for_agent else None
    return Parts(
        node=node,
        system=system,
        authored=fill_part(call.prompt, raw_prompt) if authored else None,
        messages=messages,
        exchange=exchange,
        takes_images=call.llm_takes_images,
        max_images=call.max_images,
        tools=tuple(tools or ()),
        max_tokens=model.llm.max_tokens or 0,
        wants_generation_prompt=wants_generation_prompt(context),
        user_clamp=context.user.clamp_prompt_to_context_window,
        steady=steady_window_of(context, with_summary=not authored),
        whole=call.whole,
        late=NO_LATE_PROMPT if authored or not late else _late_prompt(context, late, seen, late_comes_later),
    )


def _late_prompt(context: ExecutionContext, raw: str, seen: Messages | None, comes_later: bool) -> LatePrompt:
    text = raw if comes_later else context.fill(raw, messages=seen)
    return LatePrompt(text, context.value("latePromptPlace"), comes_later)


def steady_window_of(context: ExecutionContext, *, with_summary: bool = False) -> SteadyWindow | None:
    """How the node's windows stand; None: they move with each turn. `with_summary`: the compactor's summary
    is looked at where the node asks for it. Raises ConfigError for a value that is none.
    """
    setting = common_value(context.config, "steadyWindow")
    if setting is None:
        setting = context.user.steady_window
    if setting is False:
        return None
    if setting == BY_COMPACTOR and with_summary and context.store is not None:
        return SteadyWindow(summary_end=summary_end(context.store), waits=context.compactor_waits)
    return SteadyWindow(None if isinstance(setting, bool | str) else setting)


def _text(value: Any) -> str:
    """A field of a node as text; null counts as absent. A str keeps what it remembers (`fill_override`)."""
    if isinstance(value, str):
        return value
    return "" if value is None else str(value)


def wants_generation_prompt(context: ExecutionContext) -> bool:
    """Whether the endpoint's `addGenerationPrompt` decides; else there is none.

    Source: workflows.md 6.7.
    """
    node = context.config
    if node.get("blockGenerationPrompt"):
        return False
    if context.is_responder and context.is_internal:
        return True
    return bool(node.get("forceGenerationPromptIfEndpointAllows") or node.get("addUserTurnTemplate"))


def rebuild_call(call: LlmCall, parts: Parts, asked: CallArguments, service: LlmApiService) -> CallArguments:
    """The same call for a backup endpoint, in the backup's shape.

    Raises BackendError for a backup whose model would not see the picture `must_show`.
    """
    if call.must_show and not service.can_show(call.must_show):
        message = f"cannot take an image from this source: {call.must_show:.100}"
        raise BackendError(service.endpoint.name, "config_error", message)
    if _is_native_step(asked) and not takes_tools(service):
        raise BackendError(service.endpoint.name, "config_error", "takes no tools, and an agent needs them")
    return assemble(parts, LlmHandler.of(service, bare=call.bare), partial(replace, asked))[0]


def takes_tools(service: LlmApiService) -> bool:
    """Whether an agent may call its endpoint with native tools."""
    return service.takes_messages and service.endpoint.backend_supports_tool_turns


def _is_native_step(asked: CallArguments) -> bool:
    """Whether it is a step of an agent with native tools, or with turns of such."""
    return asked.turns is not None and bool(asked.tools or any(t.get("tool_calls") for t in asked.turns))


def _split_exchange(messages: Messages, model: LlmHandler) -> tuple[Messages, Messages]:
    """The conversation before the trailing tool exchange, and the exchange (empty: there is none)."""
    if not model.takes_message_collection:
        return messages, []
    if not model.llm.endpoint.backend_supports_tool_turns:
        return messages, []
    end = len(messages)
    while end and _is_filler(messages[end - 1]):
        end -= 1
    start = end
    while start and messages[start - 1].get("role") == "tool":
        start -= 1
    caller = messages[start - 1] if start else {}
    if start == end or caller.get("role") != "assistant" or not caller.get("tool_calls"):
        return messages, []
    return messages[: start - 1], messages[start - 1 : end]


def _is_filler(message: Message) -> bool:
    """An assistant turn that a front end put at the end and that says nothing."""
    if message.get("role") != "assistant" or message.get("tool_calls"):
        return False
    return message["content"].strip() in ("", "Assistant:")


def _constraints(
    context: ExecutionContext, model: LlmHandler, with_tools: bool, wished: JsonObject | None
) -> tuple[Demand | None, JsonObject | None]:
    """The demanded call, if any, and the schema that the backend gets. `wished`: the client's, which gives
    way to a call that the client demands.
    """
    demand = None
    if with_tools and model.takes_message_collection:
        demand = demand_of(context.tools or (), context.tool_choice)
        if demand is not None and structured_output_block(model.llm.endpoint.api_type) is None:
            demand = None
    name = context.config.get("structuredOutputFile")
    if name in (None, ""):
        if demand is not None or wished is None:
            return demand, demand.schema if demand else None
        if not model.takes_message_collection:
            context.warn(
                "the answer format of the client is ignored, because this endpoint takes no messages"
            )
            return None, None
        return None, wished
    if demand is not None:
        raise ValueError(
            '"structuredOutputFile" cannot be combined with a tool call that the client requires'
        )
    if not model.takes_message_collection:
        context.warn('"structuredOutputFile" is ignored, because this endpoint takes no messages')
        return None, None
    if with_tools:
        context.warn('"structuredOutputFile" and tools are sent together')
    return None, load_structured_schema(context.snapshot, context.user, name)


def report_clamp(context: ExecutionContext, clamp: Clamp) -> None:
    for warning in clamp.warnings:
        context.warn(warning)
    if clamp.costly_tools and hourly_warnings.is_due(context.user.name, "costly tools"):
        context.warn(clamp.costly_tools)
    if clamp.dropped and context.trace is not None:
        context.trace.node.dropped += clamp.dropped
    if clamp.dropped:
        logger.info(
            "%s, node %d: %d messages left out, to fit the context window",
            context.workflow_file.file,
            context.node_number,
            clamp.dropped,
        )


# --- the call ---


def _whole_answer(
    context: ExecutionContext, llm: LlmApiService, asked: CallArguments
) -> LlmText | JsonObject:
    """One whole answer, counted. A call that was cancelled gave none."""
    result = llm.whole_answer(asked)
    if not context.is_cancelled():
        count_call(context.request, result, asked.prompt_tokens)
    return result


def _ask_for_call(
    context: ExecutionContext, llm: LlmApiService, asked: CallArguments, demand: Demand
) -> LlmText | JsonObject:
    """At most two tries. A reply that is no such call is given as it is, with an error in the log."""
    result: LlmText | JsonObject = LlmText("")
    for _ in range(2):
        result = _whole_answer(context, llm, asked)
        if is_tool_call_answer(result) or context.is_cancelled():
            return result
        text = remove_thinking_from_text(result_text(result), llm.answering.raw)
        if (answer := call_of(text, demand)) is not None:
            thinking, usage = getattr(result, "thinking", ""), getattr(result, "usage", None)
            extras = {"thinking": thinking, "usage": usage}
            return answer | {key: value for key, value in extras.items() if value}
    logger.error(
        "endpoint '%s': two replies were not a call of %s, so the text is returned unchanged",
        llm.endpoint.name,
        ", ".join(sorted(demand.names)),
    )
    return result


def _as_stream(result: LlmText | JsonObject, tokens: Callable[[], int]) -> NodeStream:
    return NodeStream(iter([whole_batch(result)]), prompt_tokens=tokens)
