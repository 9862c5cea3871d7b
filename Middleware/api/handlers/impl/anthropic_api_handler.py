"""The Anthropic Messages protocol: messages, and how many tokens they have.

Source: spec more-fronts.md 2.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from flask.views import MethodView

from Middleware.api.api_helpers import body_of_request, json_response
from Middleware.api.handlers.base.base_api_handler import BaseApiHandler, GenerationView
from Middleware.api.handlers.front_ends import FRONT_ENDS
from Middleware.api.requests.chat_messages import check_messages, image_of, text_of, type_names, with_speakers
from Middleware.api.requests.model_names import choose
from Middleware.api.requests.request_fields import WishFields, count_tokens
from Middleware.api.wsgi.doors import generation_routes, routes_to
from Middleware.common.request_context import ClientQuestion
from Middleware.common.types import JsonObject, Message, Messages
from Middleware.config.loader import default_snapshot
from Middleware.config.users import UserSettings
from Middleware.protocols.anthropic import PROTOCOL
from Middleware.protocols.base import AnswerFacts
from Middleware.services.answers import compact_json

logger = logging.getLogger(__name__)

_BILLING_LINE = "x-anthropic-billing-header:"
"""Claude Code puts such a line first, another one in each request: it would spoil every prompt cache."""

_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_THOUGHTS = ("thinking", "redacted_thinking")
_RESULT = "result"
"""Stands for the role of what a tool found, and of a document: text and images, nothing else."""


@dataclass(slots=True)
class _Turn:
    """What the blocks of one message hold. `results`: messages of the role `tool`."""

    texts: list[str] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    calls: list[JsonObject] = field(default_factory=list)
    results: Messages = field(default_factory=list)


@dataclass(slots=True)
class _History:
    """Messages of a body -> internal ones. `dropped`: types of blocks that have no place."""

    messages: Messages = field(default_factory=list)
    dropped: set[str] = field(default_factory=set)
    _tool_names: dict[str, str] = field(default_factory=dict)

    def add(self, message: JsonObject) -> None:
        role = message["role"].strip().lower()
        turn = _Turn()
        self._read_content(message["content"], role, turn)
        made: Message = {"role": "system" if role == "developer" else role, "content": "\n".join(turn.texts)}
        if turn.images:
            made["images"] = turn.images
        if turn.calls:
            made["tool_calls"] = turn.calls
        self.messages += turn.results
        if made["content"] or turn.images or not turn.results:
            self.messages.append(made)

    def _read_content(self, content: Any, role: str, turn: _Turn) -> None:
        if not isinstance(content, list):
            turn.texts.append(text_of(content))
            return
        for block in content:
            if isinstance(block, str):
                turn.texts.append(block)
            elif not self._take_block(block if isinstance(block, dict) else {}, role, turn):
                self.dropped.add(str(block.get("type") if isinstance(block, dict) else None))

    def _take_block(self, block: JsonObject, role: str, turn: _Turn) -> bool:
        """Whether the block has a place in a message of this role; then it is there."""
        kind = block.get("type")
        if kind == "text":
            turn.texts.append(text_of(block.get("text")))
            return True
        if role == "user" and kind == "tool_result":
            self._add_result(block, turn)
            return True
        if role in ("user", _RESULT):
            return self._attach_image(kind, block, turn)
        if role == "assistant" and kind == "tool_use":
            self._add_call(block, turn)
            return True
        return role == "assistant" and kind in _THOUGHTS

    def _attach_image(self, kind: Any, block: JsonObject, turn: _Turn) -> bool:
        """Images, and documents that are text: in the turn of a user, and in the result of a tool."""
        if kind == "image" and (image := image_of(block)):
            turn.images.append(image)
            return True
        if kind == "search_result":
            self._read_content(block.get("content"), _RESULT, turn)
            return True
        source = block.get("source")
        if (
            kind != "document"
            or not isinstance(source, dict)
            or source.get("type") not in ("text", "content")
        ):
            return False
        self._read_content(source.get("data" if source["type"] == "text" else "content"), _RESULT, turn)
        return True

    def _add_call(self, block: JsonObject, turn: _Turn) -> None:
        call_id, name = text_of(block.get("id")), text_of(block.get("name"))
        self._tool_names[call_id] = name
        given = block.get("input")
        arguments = compact_json({} if given is None else given)
        function = {"name": name, "arguments": arguments}
        turn.calls.append({"id": call_id, "type": "function", "function": function})

    def _add_result(self, block: JsonObject, turn: _Turn) -> None:
        inner = _Turn()
        self._read_content(block.get("content"), _RESULT, inner)
        text = "\n".join(inner.texts)
        if block.get("is_error") is True and not text.lower().startswith("error"):
            text = f"Error: {text}"
        call_id = text_of(block.get("tool_use_id"))
        result: Message = {"role": "tool", "content": text, "tool_call_id": call_id}
        if name := self._tool_names.get(call_id):
            result["name"] = name
        turn.results.append(result)
        turn.images += inner.images


def system_text(system: Any) -> str:
    """The texts of `system` (a text or text blocks), joined by an empty line; blank ones are left out."""
    blocks = system if isinstance(system, list) else [system]
    texts = (_text_of_block(block) for block in blocks)
    return "\n\n".join(text for text in map(_without_billing, texts) if text.strip())


def _text_of_block(block: Any) -> str:
    if isinstance(block, dict):
        return text_of(block.get("text")) if block.get("type") == "text" else ""
    return block if isinstance(block, str) else ""


def _without_billing(text: str) -> str:
    return text.partition("\n")[2].lstrip("\r\n") if text.startswith(_BILLING_LINE) else text


def tools_of(body: JsonObject, dropped: set[str]) -> tuple[list[JsonObject] | None, Any]:
    """(tools, tool choice) in OpenAI's form. Types of tools that only Anthropic can run go to `dropped`."""
    given = body.get("tools")
    made = [_tool(tool, dropped) for tool in (given if isinstance(given, list) else ())]
    tools = [tool for tool in made if tool is not None]
    return (tools, _tool_choice(body.get("tool_choice"))) if tools else (None, None)


def _tool(tool: Any, dropped: set[str]) -> JsonObject | None:
    if not isinstance(tool, dict):
        return None
    if tool.get("type") not in (None, "custom"):
        dropped.add(str(tool["type"]))
        return None
    function: JsonObject = {"name": text_of(tool.get("name"))}
    if isinstance(tool.get("description"), str):
        function["description"] = tool["description"]
    function["parameters"] = _parameters(tool.get("input_schema"))
    if isinstance(tool.get("strict"), bool):
        function["strict"] = tool["strict"]
    return {"type": "function", "function": function}


def _parameters(schema: Any) -> JsonObject:
    """The schema of a tool's input. Anthropic takes an object without `properties`, OpenAI refuses it."""
    if not isinstance(schema, dict):
        schema = {"type": "object"}
    needs_properties = schema.get("type") == "object" and not isinstance(schema.get("properties"), dict)
    return {**schema, "properties": {}} if needs_properties else schema


def _tool_choice(choice: Any) -> Any:
    if not isinstance(choice, dict):
        return None
    kind, name = choice.get("type"), choice.get("name")
    if kind == "tool" and isinstance(name, str) and name:
        return {"type": "function", "function": {"name": name}}
    return _CHOICES.get(kind) if isinstance(kind, str) else None


def question_of(body: JsonObject, user: UserSettings) -> tuple[ClientQuestion, set[str], set[str]]:
    """The question of a body; types of blocks and of tools that have no place. Raises ClientRequestError."""
    history = _History()
    if system := system_text(body.get("system")):
        history.messages.append({"role": "system", "content": system})
    for message in check_messages(body.get("messages"), calls_alone=False):
        history.add(message)
    unknown: set[str] = set()
    tools, choice = tools_of(body, unknown)
    messages = with_speakers(history.messages, user)
    return ClientQuestion(messages, tools=tools, tool_choice=choice), history.dropped, unknown


class MessagesAPI(GenerationView):
    """POST and DELETE `/v1/messages`."""

    api_type = "anthropicmessages"
    wish_fields: ClassVar[WishFields] = {
        "max_tokens": ("max_tokens",),
        "stop": ("stop_sequences",),
        **{name: (name,) for name in ("temperature", "top_p", "top_k")},
        "response_format": ("output_config.format", "output_format"),
    }

    def suppresses_reasoning(self, body: JsonObject) -> bool:
        """`thinking` that is off, or that the client does not want to see. It never turns any on."""
        thinking = body.get("thinking")
        if not isinstance(thinking, dict):
            return False
        return thinking.get("type") == "disabled" or thinking.get("display") == "omitted"

    def task_messages(self, body: JsonObject) -> Any:
        messages = body.get("messages")
        system = {"role": "system", "content": body.get("system")}
        return [system, *messages] if isinstance(messages, list) else messages

    def read_question(self, body: JsonObject, user: UserSettings) -> ClientQuestion:
        question, blocks, tools = question_of(body, user)
        _warn("content blocks", blocks)
        _warn("tools", tools)
        return question

    def facts(self, facts: AnswerFacts, body: JsonObject, question: ClientQuestion) -> AnswerFacts:
        """A stream tells first how long the question is."""
        if not question.stream:
            return facts
        return replace(facts, prompt_estimate=count_tokens(question.messages, question.tools))


def _warn(what: str, types: Iterable[str]) -> None:
    if types:
        logger.warning("%s of these types were dropped: %s", what, type_names(types))


class CountTokensAPI(MethodView):
    """POST `/v1/messages/count_tokens`: an estimate. Runs nothing."""

    def post(self) -> Any:
        body = body_of_request()
        snapshot = default_snapshot()
        user = choose(body.get("model"), snapshot).settings(snapshot)
        question = question_of(body, user)[0]
        return json_response({"input_tokens": count_tokens(question.messages, question.tools)})


@FRONT_ENDS.register("anthropic")
class AnthropicFrontEnd(BaseApiHandler):
    """Every route with and without `/v1`; the model list stands with OpenAI's."""

    protocol = PROTOCOL
    routes = (
        *generation_routes(MessagesAPI, "/v1/messages", "/messages"),
        *routes_to(CountTokensAPI, "/v1/messages/count_tokens", "/messages/count_tokens", free=True),
    )
