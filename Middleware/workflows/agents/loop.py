"""The loop of an Agent: ask the model, make the calls that it asks for, ask again, until it answers.

An iterator of batches, like the answer of any node that streams; a whole answer goes the same way. Its chunks
say where a step ends (`StepEnd`), so that each step's text is cleaned by itself. Source: spec agents.md 3 and
5.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from Middleware.common.copies import copy_with
from Middleware.common.errors import BackendError, ConfigError, MiddlewareError
from Middleware.common.types import Batch, Chunk, JsonObject, Messages, close_batches
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.dialects.loop_turns import MarkedEndpoints
from Middleware.services.answers import full_usage
from Middleware.services.run_trace import json_text
from Middleware.utilities.hashing_utils import text_hash
from Middleware.workflows.agents.agent_tool import AgentTool
from Middleware.workflows.agents.calling import (
    CallIds,
    Calling,
    JsonCalling,
    NativeCalling,
    Result,
    StepCall,
    refuses_tools,
)
from Middleware.workflows.agents.client_turns import (
    KeptLoop,
    KeptResult,
    LoopPlace,
    Resumed,
    kept_loops,
    question_of,
    resume_loop,
)
from Middleware.workflows.agents.settings import AUTO, JSON, NATIVE, AgentSettings
from Middleware.workflows.agents.step_reader import PlainWords, StepAnswer, StepReader, Words, one_batch
from Middleware.workflows.agents.tool_calls import (
    ReadCall,
    RefusedCall,
    Repeats,
    cut_result,
    find_tool,
    fit_results,
    read_call,
)
from Middleware.workflows.agents.tool_runner import (
    FAILED,
    OK,
    REFUSED,
    TIMEOUT,
    ToolJob,
    ToolRunner,
    begin_trace,
    end_trace,
)
from Middleware.workflows.agents.tools import client_choice, gather_tools
from Middleware.workflows.dispatch.agent_calls import AgentPrompt, prompt_tokens, turn_tokens
from Middleware.workflows.models.execution_context import ExecutionContext, LlmCall
from Middleware.workflows.streaming.response_handler import whole_batch
from Middleware.workflows.streaming.step_handler import StepEnd

Batches = Generator[Batch, None, None]
Asked = Generator[Batch, None, StepAnswer | None]
"""Batches, and at their end what the call came to; None: it was cancelled."""

MOST_REFUSED_STEPS = 3
"""So many steps in a row with nothing but refused calls end the loop."""

without_tools = MarkedEndpoints()
"""Endpoints and models that have refused tools."""
writing_calls = MarkedEndpoints()
"""Those whose server has left calls in the text."""


class AgentToolError(MiddlewareError):
    """A tool of an agent failed, and its node says that this fails the node."""


@dataclass(slots=True)
class _Spent:
    """What the steps took: the last one's prompt, the completions of all."""

    last: JsonObject = field(default_factory=dict)
    completion: int = 0
    reasoning: int | None = None
    completion_ns: int | None = None

    def add(self, usage: JsonObject, *, is_first: bool) -> None:
        self.last = usage
        self.completion += usage["completion_tokens"]
        self.reasoning = _sum(self.reasoning, usage.get("reasoning_tokens"), is_first)
        self.completion_ns = _sum(self.completion_ns, usage.get("completion_duration_ns"), is_first)

    def usage(self) -> JsonObject:
        prompt = self.last.get("prompt_tokens", 0)
        sums = {"reasoning_tokens": self.reasoning, "completion_duration_ns": self.completion_ns}
        kept = {name: value for name, value in self.last.items() if name not in sums}
        return {
            **kept,
            "prompt_tokens": prompt,
            "completion_tokens": self.completion,
            "total_tokens": prompt + self.completion,
            **{name: value for name, value in sums.items() if value is not None},
        }


def _sum(before: int | None, now: Any, is_first: bool) -> int | None:
    """None as soon as one step says nothing."""
    known = now if type(now) is int else None
    if is_first:
        return known
    return None if before is None or known is None else before + known


class AgentLoop:
    """One run of one Agent. `batches()` once; then `tool_calls()` is complete."""

    def __init__(self, context: ExecutionContext, call: LlmCall) -> None:
        """Raises ConfigError for a field that cannot be used."""
        self._context, self._call = context, call
        self._settings = AgentSettings.of(context)
        self._deadline = None if self._settings.total_s is None else time.monotonic() + self._settings.total_s
        self._turns: list[JsonObject] = []
        self._results: list[list[Result]] = []
        self._log: list[JsonObject] = []
        self._repeats, self._ids = Repeats(), CallIds()
        self._client_ids: set[str] = set()
        self._steps = self._calls_made = self._refused_steps = 0
        self._asked = 0
        self._has_said = self._made_room = False
        self._limit_hit = ""
        self._spent = _Spent()

    def tool_calls(self) -> str:
        """`{agentNToolCalls}`: the calls so far, in their order, as JSON text."""
        return json_text(self._log)

    def batches(self) -> Batches:
        """The answer. Raises ConfigError, BackendError, AgentToolError, RequestCancelled; when the request is
        cancelled it may just end."""
        try:
            self._begin()
            yield from self._run()
        finally:
            self._context.note_steps(self._asked, self._limit_hit)

    # --- the beginning ---

    def _begin(self) -> None:
        context = self._context
        self._tools = gather_tools(context)
        resumed = self._resumed()
        if resumed is not None:
            self._call = replace(self._call, messages=resumed.messages)
        self._prompt = AgentPrompt.of(context, self._call, _offered(context, self._tools))
        of_client = _client_part(context, self._tools)
        self._calling = _choose_calling(self._prompt, self._tools, self._settings.calling, of_client)
        if resumed is not None:
            self._resume(resumed)

    def _messages(self) -> Messages:
        messages = self._context.messages if self._call.messages is None else self._call.messages
        return messages or []

    def _place(self) -> LoopPlace:
        context = self._context
        return LoopPlace(
            context.user.name,
            context.workflow_file.file,
            context.node_number,
            context.request.asker.owner,
            question_of(self._messages()),
        )

    def _resumed(self) -> Resumed | None:
        """The kept loop that the conversation goes on with."""
        context = self._context
        node = context.config
        if not context.value("allowTools") or (
            node.get("prompt") and not node.get("appendNativeToolExchange")
        ):
            return None
        return resume_loop(self._messages(), partial(kept_loops.find, self._place()))

    def _resume(self, resumed: Resumed) -> None:
        """Go on where the client's call ended the loop."""
        loop = resumed.loop
        if loop.is_json != self._calling.is_json:
            kind = JsonCalling if loop.is_json else NativeCalling
            self._calling = kind(self._prompt, self._tools)
        calls = {call["id"]: call for turn in loop.turns for call in turn.get("tool_calls") or ()}
        self._turns = list(loop.turns)
        self._ids, self._client_ids = CallIds(calls), set(loop.ids)
        self._steps, self._calls_made, self._repeats = loop.steps, loop.calls, loop.repeats
        self._results = [
            [Result(kept.name, kept.text, self._turns[kept.turn], kept.was_made) for kept in loop.results]
        ]
        answers = []
        for answer in resumed.answers:
            name = loop.names.get(str(answer.get("tool_call_id") or ""), str(answer.get("name") or "tool"))
            answers.append(self._calling.client_result(name, answer))
        self._turns += [answer.turn for answer in answers]
        self._results.append(answers)

    # --- the loop ---

    def _run(self) -> Batches:
        choice = None if self._steps else client_choice(self._context)
        is_second_try = False
        while True:
            if limit := self._limit_reached():
                yield from self._answer_at_last(limit)
                return
            answer = yield from self._step(choice)
            if answer is None:
                return
            choice = None
            calls = self._calls_of(answer)
            if any(call.is_of_client for call in calls):
                yield from self._hand_over(answer, [call for call in calls if call.is_of_client])
                return
            if calls:
                yield from self._make_calls(answer, calls)
                if self._context.is_cancelled():
                    return
                continue
            if answer.is_null:
                yield from self._answer_at_last("")
                return
            end = StepEnd(may_go_on=True)
            yield self._end_step(end)
            if end.said or (is_second_try and not self._has_results()):
                yield from self._finish(answer, end)
                return
            if self._has_results():
                yield from self._answer_at_last("")
                return
            is_second_try = True

    def _has_results(self) -> bool:
        return any(self._results)

    def _limit_reached(self) -> str:
        """The limit that ends the loop now; "": none does."""
        settings = self._settings
        if self._steps >= settings.max_steps:
            return f"maxSteps ({settings.max_steps})"
        if self._calls_made >= settings.max_tool_calls:
            return f"maxToolCalls ({settings.max_tool_calls})"
        if self._deadline is not None and time.monotonic() >= self._deadline:
            return f"totalTimeout ({settings.total_s:g} s)"
        if self._refused_steps >= MOST_REFUSED_STEPS:
            return f"{MOST_REFUSED_STEPS} steps in a row with nothing but refused calls"
        return ""

    # --- one call of the model ---

    def _step(self, choice: Any) -> Asked:
        self._steps += 1
        self._make_room(choice)
        asked = self._calling.step(self._turns, choice)
        free = asked if asked.tool_choice is None else copy_with(asked, tool_choice=None)
        for tried in (asked,) if free is asked else (asked, free):
            try:
                answer = yield from self._ask(tried, self._calling.words())
                return answer
            except BackendError as error:
                if not self._may_do_without_tools(error):
                    raise
                refusal = error
                if tried is not free:
                    self._context.warn(f"asked again without the client's 'tool_choice': {error.message}")
        self._describe_tools(refusal)
        answer = yield from self._ask(self._calling.step(self._turns, None), self._calling.words())
        return answer

    def _may_do_without_tools(self, error: BackendError) -> bool:
        """Whether the first step was refused because of its tools, and JSON may stand in for them."""
        if self._turns or self._calling.is_json or self._settings.calling != AUTO or not self._tools:
            return False
        return error.endpoint == self._prompt.endpoint.name and refuses_tools(error)

    def _describe_tools(self, refusal: BackendError) -> None:
        """By JSON from now on; what the client's own tools may be at fault for is learnt of these alone."""
        endpoint, of_client = self._prompt.endpoint, _client_part(self._context, self._tools)
        self._calling = JsonCalling(self._prompt, self._tools)
        if without_tools.mark(endpoint, of_client):
            which = " with these of the client" if of_client else ""
            self._context.warn(
                f"the endpoint '{endpoint.name}' takes no tools{which}, so the prompt describes them from "
                f"now on: {refusal.message}"
            )

    def _ask(self, asked: CallArguments, words: Words) -> Asked:
        """Raises BackendError, ConfigError."""
        context, reader = self._context, StepReader(words)
        self._asked += 1
        batches = self._open(asked)
        try:
            for batch in batches:
                yield reader.take(batch)
        finally:
            close_batches(batches)
        if context.is_cancelled() or reader.answer.finish_reason is None:
            return None
        yield reader.finish()
        self._count(asked, reader.answer)
        return reader.answer

    def _open(self, asked: CallArguments) -> Any:
        handler = self._context.llm_handler
        assert handler is not None  # a prompt was made for it
        if self._context.stream and self._call.stream:
            return handler.llm.stream_batches(asked)
        result = handler.llm.whole_answer(asked)
        return iter([one_batch(result, whole_batch(result))])

    def _count(self, asked: CallArguments, answer: StepAnswer) -> None:
        usage = full_usage(answer.usage, lambda: answer.thinking + answer.came, asked.prompt_tokens)
        self._context.request.usage.add(usage, answer.cost)
        self._spent.add(usage, is_first=not self._spent.last)

    def _end_step(self, end: StepEnd) -> Batch:
        """The chunk that ends a step."""
        return [{"token": "", "finish_reason": None, "step": end}]

    # --- its calls ---

    def _calls_of(self, answer: StepAnswer) -> list[StepCall]:
        if answer.text_calls and not self._calling.is_json:
            self._warn_of_text_calls()
        written: list[JsonObject] = [
            {"id": None, "function": {"name": call.name, "arguments": call.arguments}}
            for call in answer.text_calls
        ]
        return [self._read(call, is_cut=call["id"] in answer.cut) for call in answer.calls or written]

    def _warn_of_text_calls(self) -> None:
        endpoint = self._prompt.endpoint
        if writing_calls.mark(endpoint):
            self._context.warn(
                f"the endpoint '{endpoint.name}' wrote a call of a tool as text: start its server with a "
                "parser for the tool calls of its model, or set 'toolCalling' to 'json'"
            )

    def _read(self, call: JsonObject, *, is_cut: bool) -> StepCall:
        function = call["function"]
        limit = self._prompt.max_tokens if is_cut else None
        read = read_call(self._tools, function["name"], function["arguments"], cut_off_at=limit)
        extras = {key: value for key, value in call.items() if key not in ("id", "type", "function")}
        return StepCall(self._ids.take(call["id"]), read, extras)

    def _hand_over(self, answer: StepAnswer, calls: Sequence[StepCall]) -> Batches:
        """The answer is the client's calls; the loop is kept until their results come."""
        turn = self._calling.model_turn(answer, calls)
        self._client_ids |= {call.id for call in calls}
        loop = KeptLoop(
            turns=[*self._turns, turn],
            ids=frozenset(self._client_ids),
            steps=self._steps,
            calls=self._calls_made,
            repeats=self._repeats,
            names={call.id: call.read.name for call in calls},
            results=self._results_to_keep(),
            is_json=self._calling.is_json,
        )
        kept_loops.keep(self._place(), [call.id for call in calls], loop)
        sent = [{"index": place, **call.for_client()} for place, call in enumerate(calls)]
        yield self._end_step(StepEnd(may_go_on=True))
        yield [{"token": "", "finish_reason": None, "tool_calls": sent}]
        yield from self._finish(replace(answer, finish_reason="tool_calls"), StepEnd(said=True))

    def _results_to_keep(self) -> tuple[KeptResult, ...]:
        place = {id(turn): index for index, turn in enumerate(self._turns)}
        return tuple(
            KeptResult(place[id(result.turn)], result.name, result.text, result.was_made)
            for step in self._results
            for result in step
        )

    def _make_calls(self, answer: StepAnswer, calls: list[StepCall]) -> Batches:
        """Make the calls of a step and add their turns."""
        yield self._end_step(end := StepEnd(called=True))
        self._has_said = self._has_said or end.said
        yield self._progress_of(calls)
        made_before = self._calls_made
        yield from self._run_tools(calls)
        if self._context.is_cancelled():
            return
        self._refused_steps = 0 if self._calls_made > made_before else self._refused_steps + 1
        self._turns.append(self._calling.model_turn(answer, calls))
        results = [self._calling.result_of(call) for call in calls]
        self._turns += [result.turn for result in results]
        self._results.append(results)
        self._log += [self._log_entry(call) for call in calls]

    def _progress_of(self, calls: Sequence[StepCall]) -> Batch:
        """Which tools are called now, for clients that want to see it; as a thought, not behind text."""
        names = dict.fromkeys(call.read.name for call in calls if isinstance(call.read, ReadCall))
        if not names or (self._has_said and self._context.request.progress == "reasoning"):
            return []
        return self._context.progress(", ".join(names))

    def _log_entry(self, call: StepCall) -> JsonObject:
        arguments = call.read.arguments if isinstance(call.read, ReadCall) else call.read.arguments_text
        return {
            "step": self._steps,
            "tool": call.read.name,
            "arguments": arguments,
            "result": call.result,
            "failed": call.outcome != OK,
            "seconds": round(call.seconds, 3),
        }

    def _run_tools(self, calls: list[StepCall]) -> Batches:
        """Equal calls run one after the other: those that are first of their kind, then the second ones."""
        left = []
        for call in calls:
            if isinstance(call.read, RefusedCall):
                self._refuse(call, call.read.sentence)
            else:
                left.append(call)
        runner = ToolRunner(self._context, self._settings.max_parallel, raises=self._settings.raises)
        while left and not self._context.is_cancelled():
            wave, left = _first_of_each(left)
            jobs = [(call, ToolJob(read)) for call, read in wave if self._may_be_made(call, read)]
            yield from runner.run([job for _, job in jobs], self._deadline)
            for call, job in jobs:
                self._take_result(call, job)

    def _may_be_made(self, call: StepCall, read: ReadCall) -> bool:
        if refusal := self._repeats.refusal(read.name, read.arguments):
            self._refuse(call, refusal)
            return False
        most = self._settings.max_tool_calls
        if self._calls_made >= most:
            self._refuse(call, f"error: not called: the limit of {most} tool calls is reached")
            return False
        self._calls_made += 1
        return True

    def _refuse(self, call: StepCall, sentence: str) -> None:
        call.result, call.outcome = sentence, REFUSED
        tool = call.read.tool if isinstance(call.read, ReadCall) else find_tool(self._tools, call.read.name)
        trace = begin_trace(self._context, tool, call.read.name, call.read.arguments_text)
        if trace is not None:
            end_trace(trace, sentence, REFUSED)

    def _take_result(self, call: StepCall, job: ToolJob) -> None:
        """Raises AgentToolError for a failure that the node does not put up with."""
        call.outcome, call.seconds = job.outcome, job.seconds
        if job.outcome in (FAILED, TIMEOUT) and not job.given_up and self._settings.raises:
            raise AgentToolError(f"the tool '{call.read.name}' failed: {job.result}")
        text = f"error: {job.result}" if job.failed else job.result or "(no result)"
        own = job.call.tool.max_tokens
        call.result = cut_result(text, self._settings.max_result_tokens if own is None else own)
        self._repeats.note(call.read.name, job.call.arguments, text)

    # --- room in the window ---

    def _make_room(self, choice: Any) -> None:
        """Results of the oldest steps give way where the prompt would not fit the endpoint's window."""
        budget = self._prompt.window()
        if budget is None or not self._has_results():
            return
        asked = self._calling.step(self._turns, choice)
        steps = [step for step in self._results if step]
        texts = [[result.text for result in step] for step in steps]
        own = sum(turn_tokens(result.turn) for step in steps for result in step)
        fitted = fit_results(texts, prompt_tokens(asked) - own, budget)
        if fitted is None:
            return
        for step, new in zip(steps, fitted, strict=True):
            for result, text in zip(step, new, strict=True):
                if text != result.text:
                    result.put(text, self._calling.content(result.name, text))
        if not self._made_room:
            self._made_room = True
            self._context.warn(
                "results of tools were left out or cut, because the context window of "
                f"'{self._prompt.endpoint.name}' is too small for all of them"
            )

    # --- the end ---

    def _answer_at_last(self, limit: str) -> Batches:
        """The last call, which is to bring the answer, and once more if it brings none."""
        self._limit_hit = limit
        if limit:
            self._context.warn(f"{limit}: the model is told to answer with what it knows")
        yield self._end_step(StepEnd(called=True, answers=True))
        self._make_room(None)
        results = [result for step in self._results for result in step]
        calling = self._calling
        answer = yield from self._ask(calling.last(self._turns, results), calling.words())
        if answer is None:
            return
        end = StepEnd(may_go_on=True, answers=True)
        yield self._end_step(end)
        if not end.said:
            again = calling.last_again(self._turns, results)
            second = yield from self._ask(again, PlainWords())
            if second is None:
                return
            answer, end = second, StepEnd()
            yield self._end_step(end)
        yield from self._finish(answer, end)

    def _finish(self, answer: StepAnswer, end: StepEnd) -> Batches:
        if not end.said:
            self._context.warn("the model gave an empty answer")
        finish: Chunk = {"token": "", "finish_reason": answer.finish_reason, "usage": self._spent.usage()}
        finish.update(answer.facts)  # type: ignore[typeddict-item]
        yield [finish]


def _first_of_each(calls: list[StepCall]) -> tuple[list[tuple[StepCall, ReadCall]], list[StepCall]]:
    """The first of each set of equal calls, and the others, in their order."""
    wave: list[tuple[StepCall, ReadCall]] = []
    others: list[StepCall] = []
    seen: set[tuple[str, str]] = set()
    for call in calls:
        assert isinstance(call.read, ReadCall)
        key = call.read.name, json_text(sorted(call.read.arguments.items(), key=str))
        if key in seen:
            others.append(call)
        else:
            seen.add(key)
            wave.append((call, call.read))
    return wave, others


# --------------------------------------------------------------------------
# How the model is told of its tools.


def first_step(context: ExecutionContext, call: LlmCall) -> CallArguments:
    """What the first call of the model is, without the tools of servers: nobody is asked for them.

    Raises ConfigError.
    """
    tools = gather_tools(context, asks_servers=False)
    prompt = AgentPrompt.of(context, call, _offered(context, tools))
    of_client = _client_part(context, tools)
    calling = _choose_calling(prompt, tools, context.value("toolCalling"), of_client)
    return calling.step([], client_choice(context))


def _offered(context: ExecutionContext, tools: Sequence[AgentTool]) -> list[JsonObject]:
    """The tools in OpenAI's form; the client's as the client sent them."""
    own = {
        function.get("name"): sent
        for sent in context.tools or ()
        if isinstance(function := sent.get("function"), dict)
    }
    return [
        own[tool.name]
        if tool.call is None
        else {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            },
        }
        for tool in tools
    ]


def _client_part(context: ExecutionContext, tools: Sequence[AgentTool]) -> str:
    """What the client's own among the tools are known by; empty: there are none."""
    names = {tool.name for tool in tools if tool.call is None}
    if not names:
        return ""
    offered = _offered(context, [tool for tool in tools if tool.name in names])
    return text_hash(json_text(offered))


def _choose_calling(prompt: AgentPrompt, tools: Sequence[AgentTool], calling: str, of_client: str) -> Calling:
    """Natively where the API takes tools, and nothing says that this endpoint does not. `of_client`: as
    `_client_part`."""
    refused = without_tools.holds(prompt.endpoint, of_client) or not prompt.takes_tools
    if calling == JSON or (calling == AUTO and refused):
        return JsonCalling(prompt, tools)
    if not prompt.takes_tools:
        name = prompt.endpoint.name
        raise ConfigError(f"the endpoint '{name}' takes no tools, and 'toolCalling' is '{NATIVE}'")
    return NativeCalling(prompt, tools)
