"""The two ways in which a model is asked for calls of tools: natively, or by JSON in its text.

Each way makes the calls of a step and of the end, reads what came, and puts it into the loop's turns. Source:
spec agents.md 3 and 4.
"""

from __future__ import annotations

import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from Middleware.common.errors import BackendError
from Middleware.common.types import JsonObject, Message, Messages
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.dialects.loop_turns import BESIDE
from Middleware.workflows.agents.agent_tool import AgentTool
from Middleware.workflows.agents.json_mode import (
    JsonReplyReader,
    describe_tools,
    reply_schema,
    result_turn,
    results_prompt,
)
from Middleware.workflows.agents.step_reader import JsonWords, NativeWords, PlainWords, StepAnswer, Words
from Middleware.workflows.agents.text_calls import THINK_TAGS, TextCallReader
from Middleware.workflows.agents.tool_calls import ReadCall, RefusedCall
from Middleware.workflows.agents.tool_runner import REFUSED
from Middleware.workflows.dispatch.agent_calls import AgentPrompt

ANSWER_NOW = "Answer now with what you know; no more tools can be used."

_MADE_HERE = re.compile(r"call_[0-9a-f]{24}")
"""The id of a call whose backend gave none (`new_call_id`): some templates take no such id."""
_ID_CHARACTERS = 9
"""Mistral's templates take exactly nine letters and digits."""


@dataclass(slots=True, eq=False)
class StepCall:
    """A call of a step. `extras`: what stood beside it. `result`: what the model gets."""

    id: str
    read: ReadCall | RefusedCall
    extras: JsonObject
    result: str = ""
    outcome: str = ""
    seconds: float = 0.0

    @property
    def is_of_client(self) -> bool:
        return isinstance(self.read, ReadCall) and self.read.tool.call is None

    @property
    def was_made(self) -> bool:
        """Whether the tool was called: a repeat and a call over the limit are refused too."""
        return self.outcome != REFUSED

    def for_model(self) -> JsonObject:
        """As it goes back to the model."""
        return {**self.for_client(), **self.extras}

    def for_client(self) -> JsonObject:
        """In OpenAI's form, without what stood beside it: signatures reach no client."""
        function = {"name": self.read.name, "arguments": self.read.arguments_text}
        return {"id": self.id, "type": "function", "function": function}


@dataclass(slots=True, eq=False)
class Result:
    """The result of a call in the turn that holds it, which may have to make room."""

    name: str
    text: str
    turn: Message
    was_made: bool = True

    def put(self, text: str, content: str) -> None:
        self.text, self.turn["content"] = text, content


class CallIds:
    """Ids of the calls of one loop: each is there once."""

    def __init__(self, used: Iterable[str] = ()) -> None:
        self._used = set(used)

    def take(self, given: str | None) -> str:
        """The id that a backend gave, or one of our own where it gave none, or one that was there before."""
        call_id = given or ""
        if not call_id or call_id in self._used or _MADE_HERE.fullmatch(call_id):
            call_id = uuid.uuid4().hex[:_ID_CHARACTERS]
        self._used.add(call_id)
        return call_id


class Calling(ABC):
    """How the model of an agent is asked. `tools`: all that it may use."""

    is_json: ClassVar[bool]

    def __init__(self, prompt: AgentPrompt, tools: Sequence[AgentTool]) -> None:
        self._prompt, self._tools = prompt, tools

    @abstractmethod
    def step(self, turns: Messages, choice: Any) -> CallArguments:
        """A step. `choice`: what the client demands of it."""

    @abstractmethod
    def words(self) -> Words:
        """What reads the text of a step, and of the last call."""

    @abstractmethod
    def last(self, turns: Messages, results: Sequence[Result]) -> CallArguments:
        """The last call, which is to bring the answer."""

    @abstractmethod
    def last_again(self, turns: Messages, results: Sequence[Result]) -> CallArguments:
        """The last call once more, when it brought none."""

    @abstractmethod
    def model_turn(self, answer: StepAnswer, calls: Sequence[StepCall]) -> Message:
        """The turn of the model that made these calls."""

    @abstractmethod
    def result_of(self, call: StepCall) -> Result:
        """The turn with the result of a call."""

    @abstractmethod
    def content(self, name: str, text: str) -> str:
        """The content of that turn for a result."""

    @abstractmethod
    def client_result(self, call_name: str, answer: Message) -> Result:
        """The same of a call that the client made."""

    @staticmethod
    def _turn(content: str, answer: StepAnswer) -> Message:
        turn: Message = {"role": "assistant", "content": content}
        return {**turn, BESIDE: answer.beside} if answer.beside else turn


class NativeCalling(Calling):
    """With the tools of the backend's API; calls that come as text count too."""

    is_json = False

    def step(self, turns: Messages, choice: Any) -> CallArguments:
        return self._prompt.native_call(turns, choice=choice)

    def words(self) -> Words:
        if not self._tools:
            return PlainWords()
        return NativeWords(TextCallReader([tool.name for tool in self._tools], self._think_tags()))

    def _think_tags(self) -> list[tuple[str, str]]:
        """What may stand around thoughts in the text."""
        raw = self._prompt.endpoint.raw
        own = str(raw.get("startThinkTag") or ""), str(raw.get("endThinkTag") or "")
        return [*THINK_TAGS, *([own] if all(own) and own not in THINK_TAGS else [])]

    def last(self, turns: Messages, results: Sequence[Result]) -> CallArguments:
        return self._prompt.native_call(_told_to_answer(turns), choice="none" if self._tools else None)

    def last_again(self, turns: Messages, results: Sequence[Result]) -> CallArguments:
        if not self._prompt.can_leave_tools_out:
            return self.last(turns, results)
        return self._prompt.native_call(_told_to_answer(turns), with_tools=False)

    def model_turn(self, answer: StepAnswer, calls: Sequence[StepCall]) -> Message:
        turn = self._turn(answer.text, answer)
        return {**turn, "tool_calls": [call.for_model() for call in calls]}

    def result_of(self, call: StepCall) -> Result:
        turn = {"role": "tool", "tool_call_id": call.id, "content": call.result}
        return Result(call.read.name, call.result, turn, call.was_made)

    def content(self, name: str, text: str) -> str:
        return text

    def client_result(self, call_name: str, answer: Message) -> Result:
        return Result(call_name, str(answer.get("content") or ""), dict(answer))


def _told_to_answer(turns: Messages) -> Messages:
    """The turns with the demand at the end of the newest result: some templates refuse any other turn
    there."""
    for index in range(len(turns) - 1, -1, -1):
        if turns[index]["role"] == "tool":
            told = {**turns[index], "content": f"{turns[index]['content']}\n\n{ANSWER_NOW}"}
            return [*turns[:index], told, *turns[index + 1 :]]
    return turns


class JsonCalling(Calling):
    """With the tools described in the prompt: one call a step, by a JSON object."""

    is_json = True

    def __init__(self, prompt: AgentPrompt, tools: Sequence[AgentTool]) -> None:
        super().__init__(prompt, tools)
        is_bound = bool(tools) and prompt.takes_schema
        self._demand = describe_tools(tools, bound=is_bound)
        self._schema = reply_schema(tools) if is_bound else None

    def step(self, turns: Messages, choice: Any) -> CallArguments:
        return self._prompt.described_call(turns, self._demand, self._schema)

    def words(self) -> Words:
        return JsonWords(JsonReplyReader()) if self._tools else PlainWords()

    def last(self, turns: Messages, results: Sequence[Result]) -> CallArguments:
        told = dict.fromkeys((result.name, result.text) for result in results if result.was_made)
        return self._prompt.plain_call(partial(results_prompt, list(told)))

    def last_again(self, turns: Messages, results: Sequence[Result]) -> CallArguments:
        return self.last(turns, results)

    def model_turn(self, answer: StepAnswer, calls: Sequence[StepCall]) -> Message:
        return self._turn(answer.came, answer)

    def result_of(self, call: StepCall) -> Result:
        turn = {"role": "user", "content": self.content(call.read.name, call.result)}
        return Result(call.read.name, call.result, turn, call.was_made)

    def content(self, name: str, text: str) -> str:
        return result_turn(name, text)

    def client_result(self, call_name: str, answer: Message) -> Result:
        text = str(answer.get("content") or "")
        turn: Message = {"role": "user", "content": self.content(call_name, text)}
        if images := answer.get("images"):
            turn["images"] = images
        return Result(call_name, text, turn)


# --------------------------------------------------------------------------

_OF_TOOLS = re.compile(r"\btools?\b|tool[-_ ]c|--jinja|function.call", re.IGNORECASE)
_NOT_THERE = re.compile(r"support|--jinja|--enable-auto-tool-choice|requires|not allowed|not enabled", re.I)
_REFUSALS = (400, 404, 422, 500, 501)


def refuses_tools(error: BackendError) -> bool:
    """Whether a server says that it, or its model, takes no tools. Source: agents.md 4."""
    said = error.message
    return error.status in _REFUSALS and bool(_OF_TOOLS.search(said)) and bool(_NOT_THERE.search(said))
