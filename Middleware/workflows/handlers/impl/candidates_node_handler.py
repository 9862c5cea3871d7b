"""`Candidates`: several answers side by side, and one result. Source: spec agents.md 12."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

from Middleware.common.errors import (
    EarlyTermination,
    MiddlewareError,
    RequestCancelled,
    let_go,
)
from Middleware.common.types import JsonObject, NodeConfig
from Middleware.llmapis.dialects.message_building import structured_output_block
from Middleware.llmapis.reasoning_parser import text_behind_thoughts
from Middleware.services.answers import full_usage
from Middleware.services.cancellation_service import cancellation_service
from Middleware.utilities.sensitive_logging_utils import loggable_error
from Middleware.utilities.side_by_side import run_together
from Middleware.workflows.dispatch.candidate_choice import (
    LAST_LINE,
    VOTE_ALLOWED,
    Ballot,
    best_schema,
    filled_in,
    listed,
    named_best,
    vote_reader,
)
from Middleware.workflows.handlers.base.base_workflow_node_handler import ModelChoice
from Middleware.workflows.handlers.base.model_node_handler import ModelNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.execution_context import (
    Branch,
    CleanAnswer,
    ExecutionContext,
    LlmCall,
    NodeResult,
    NodeStream,
)
from Middleware.workflows.models.node_keys import (
    MODEL_NODES,
    NEEDED_TEXT,
    READ_AHEAD,
    TEXT,
    Keys,
    NodeKey,
    one_of,
)
from Middleware.workflows.streaming.response_handler import whole_batch

FEWEST, MOST, DEFAULT_COUNT = 2, 16, 3
COUNT_ALLOWED = f"a whole number from {FEWEST} to {MOST}, or a list of objects that stand for so many"
JUDGE, VOTE, MERGE, ALL = "judge", "vote", "merge", "all"

JUDGE_PROMPT = (
    "A question and several answers to it follow.\n\nQuestion:\n[Question]\n\nAnswers:\n\n[Candidates]\n\n"
    "Which answer is the best one: right, complete and to the point? Reply with its number and nothing else."
)
MERGE_PROMPT = (
    "A question and several answers to it follow.\n\nQuestion:\n[Question]\n\nAnswers:\n\n[Candidates]\n\n"
    "Write one answer that is better than each of them: keep what is right and useful, and leave out "
    "mistakes and repetitions. Reply with that answer alone, and do not mention the others."
)

_OF_THE_CONVERSATION = ("prompt", "latePrompt", "appendNativeToolExchange", "readAhead")
"""Fields that mean nothing for a call whose prompt is made here."""
_OF_THE_ANSWER = ("systemPrompt", "structuredOutputFile", "clientParameters", "useGroupChatTimestampLogic")
"""Fields that say how the answer is to be, and not which is the best one."""

CANDIDATE_FAULTS = (MiddlewareError, ValueError, OSError)
"""What leaves a candidate out, and costs the node nothing as long as there is another one."""


class Model(NamedTuple):
    """What one candidate is asked of; empty: the node's own."""

    endpoint: str = ""
    preset: str = ""


def candidate_models(value: Any) -> tuple[Model, ...]:
    """One entry for each candidate, of a number or a list of `{"endpointName", "preset", "times"}`. Raises
    ValueError with what is allowed."""
    if isinstance(value, list | tuple):
        models = tuple(model for entry in value for model in _models_of(entry))
    elif isinstance(value, int) and not isinstance(value, bool):
        models = (Model(),) * min(max(value, 0), MOST + 1)
    else:
        raise ValueError(f"{COUNT_ALLOWED}, not {value!r}")
    if not FEWEST <= len(models) <= MOST:
        raise ValueError(f"{COUNT_ALLOWED}, not {value if isinstance(value, int) else len(models)}")
    return models


def _models_of(entry: Any) -> tuple[Model, ...]:
    times = 1 if not isinstance(entry, Mapping) or entry.get("times") is None else entry["times"]
    if not isinstance(entry, Mapping) or isinstance(times, bool) or not isinstance(times, int) or times < 1:
        raise ValueError(f"{COUNT_ALLOWED}, not {entry!r}")
    return (Model(str(entry.get("endpointName") or ""), str(entry.get("preset") or "")),) * min(
        times, MOST + 1
    )


def _read_vote_on(value: Any) -> str:
    """Raises ValueError for what is no way to vote."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{VOTE_ALLOWED}, not {value!r}")
    vote_reader(value)
    return value


_ENTRY: JsonObject = {
    "type": "object",
    "properties": {
        "endpointName": {"type": "string", "description": "Default: the node's."},
        "preset": {"type": "string", "description": "Default: the node's."},
        "times": {
            "type": "integer",
            "minimum": 1,
            "maximum": MOST,
            "description": "How many candidates this stands for. Default: 1.",
        },
    },
}


@NODES.register("Candidates")
class CandidatesNode(ModelNodeHandler):
    """Asks for several answers at the same time and makes one of them: a judge chooses, they vote, or a model
    merges them."""

    PALETTE = "model"

    KEYS: ClassVar[Keys] = {
        "endpointName": MODEL_NODES["endpointName"].but(must=NEEDED_TEXT.must, required=True),
        "readAhead": READ_AHEAD,
        "candidates": NodeKey(
            must={
                "anyOf": [
                    {"type": "number", "minimum": FEWEST, "maximum": MOST},
                    {"type": "string", "pattern": r"^\s*\d+\s*$|\{"},
                    {"type": "array", "items": _ENTRY, "minItems": 1, "maxItems": MOST},
                ],
                "x-allowed": COUNT_ALLOWED,
            },
            number=True,
            default=DEFAULT_COUNT,
            read=candidate_models,
        )(
            f"How many answers are asked for, from {FEWEST} to {MOST}. Or a list of objects, each with "
            "`endpointName`, `preset` and `times`, for answers of different models. Default: {default}."
        ),
        "choose": one_of(JUDGE, VOTE, MERGE, ALL)(
            "`judge`: a model names the best answer. `vote`: the most frequent result wins. `merge`: a model "
            "writes one answer from all. `all`: the output is all of them. Default: `{default}`.",
            default=JUDGE,
        ),
        "judgeEndpointName": TEXT(
            "The model that judges or merges. Default: the node's.", form="names:endpoints"
        ),
        "judgePreset": TEXT("Its preset. Default: the node's.", form="names:presets"),
        "judgePrompt": TEXT(
            "What the judge is asked. `[Question]` and `[Candidates]` are filled in after the variables. "
            "Default: a text of its own. Takes variables.",
            form="text",
        ),
        "mergePrompt": TEXT("The same for `merge`. Takes variables.", form="text"),
        "voteOn": TEXT(
            "What `vote` compares: `last_number`, `last_line`, `json:/path`, or a regular expression with "
            "one group. Default: `{default}`.",
            default=LAST_LINE,
            read=_read_vote_on,
        ),
        "allowTools": MODEL_NODES["allowTools"](
            "Not possible here: candidates can't call tools.",
            must={"enum": [False], "x-allowed": "false, because candidates can't call tools"},
            should={},
        ),
    }
    RUNS_DRY = True

    def call_to_read(self, context: ExecutionContext) -> LlmCall:
        return replace(self.own_call(context), stream=False)

    def model_choices(self, config: NodeConfig) -> list[ModelChoice]:
        own = {
            "endpointName": config.get("endpointName"),
            "preset": config.get("preset") or config.get("presetName"),
        }
        listed_ones = config.get("candidates")
        found = [
            ModelChoice(f"/candidates/{index}", {**own, **_given(entry, ("endpointName", "preset"))})
            for index, entry in enumerate(listed_ones if isinstance(listed_ones, list) else ())
            if isinstance(entry, Mapping)
        ]
        names = ("judgeEndpointName", "judgePreset")
        if config.get("choose", JUDGE) in (JUDGE, MERGE) and _given(config, names):
            judge = {"judgeEndpointName": own["endpointName"], "judgePreset": own["preset"]}
            found.append(ModelChoice("", {**judge, **_given(config, names)}, names))
        return found

    def equal_calls(self, config: NodeConfig) -> Iterator[ModelChoice]:
        value = config.get("candidates", DEFAULT_COUNT)
        if not isinstance(value, list):
            preset = config.get("preset") or config.get("presetName")
            yield ModelChoice("/candidates", {"endpointName": config.get("endpointName"), "preset": preset})
            return
        choices = [choice for choice in self.model_choices(config) if choice.pointer]
        names = [tuple(choice.holder.values()) for choice in choices]
        for index, choice in enumerate(choices):
            times = value[index].get("times") or 1
            if names.index(names[index]) == index and (times != 1 or names.count(names[index]) > 1):
                yield choice

    def config_errors(self, config: NodeConfig) -> list[tuple[str, str]]:
        found = []
        for name, read in (("candidates", candidate_models), ("voteOn", _read_vote_on)):
            value = config.get(name)
            if isinstance(value, list) or (name == "voteOn" and isinstance(value, str)):
                try:
                    read(value)
                except ValueError as error:
                    found.append((name, f"must be {error}"))
        return found

    def config_warnings(self, config: NodeConfig) -> list[tuple[str, str]]:
        choose = config.get("choose", JUDGE)
        used = {
            "judgePrompt": (JUDGE,),
            "mergePrompt": (MERGE,),
            "voteOn": (VOTE,),
            "judgeEndpointName": (JUDGE, MERGE),
            "judgePreset": (JUDGE, MERGE),
        }
        return [
            (name, f'has no effect, because `choose` is "{choose}"')
            for name, modes in used.items()
            if config.get(name) and choose not in modes
        ]

    def handle(self, context: ExecutionContext) -> NodeResult:
        return _Round(context, self.call_to_read(context)).result()


def _given(holder: Mapping[str, Any], names: Sequence[str]) -> JsonObject:
    return {name: holder[name] for name in names if holder.get(name)}


# --------------------------------------------------------------------------


@dataclass(slots=True)
class Candidate:
    """One answer, or what became of it. `answer`: cleaned, None: there is none. `context`: that it was made
    in. `prompt_tokens()`: an estimate of its prompt. `error`: why it failed."""

    endpoint: str
    seconds: float = 0.0
    answer: CleanAnswer | None = None
    context: ExecutionContext | None = None
    thinking: str = ""
    prompt_tokens: Callable[[], int] | None = None
    error: Exception | None = None
    is_chosen: bool = False

    @property
    def text(self) -> str:
        """Empty: there is none."""
        return "" if self.answer is None else str(self.answer)

    @property
    def usage(self) -> JsonObject:
        """As its backend reported it, with estimates for what it did not."""
        if self.answer is None:
            return {"prompt_tokens": 0, "completion_tokens": 0}
        return full_usage(self.answer.usage, lambda: self.thinking + self.text, self.prompt_tokens)

    def as_json(self) -> JsonObject:
        return {
            "text": self.text,
            "endpoint": self.endpoint,
            "tokens": self.usage["completion_tokens"],
            "seconds": round(self.seconds, 3),
            "chosen": self.is_chosen,
            "failed": self.error is not None,
        }


@dataclass(slots=True)
class _Progress:
    """How far the candidates are. Everything in it under `guard`."""

    guard: threading.Lock = field(default_factory=threading.Lock)
    running: dict[int, str] = field(default_factory=dict)
    is_decided: bool = False


class _Round:
    """All of one run of the node."""

    def __init__(self, context: ExecutionContext, call: LlmCall) -> None:
        self._context = context
        self._models: tuple[Model, ...] = _models_in(context)
        self._choose = context.value("choose")
        self._candidates: list[Candidate | None] = [None] * len(self._models)
        self._progress = _Progress()
        vote = vote_reader(context.value("voteOn")) if self._choose == VOTE else None
        self._ballot = None if vote is None else Ballot(len(self._models), vote)
        self._call = context.prepared(call)

    def result(self) -> NodeResult:
        """Raises RequestCancelled, and what the first candidate raised if there is no answer at all."""
        results = run_together(len(self._models), self._ask, self._context.spare_threads())
        self._stop_if_cancelled()
        for fault in results:
            if isinstance(fault, BaseException):
                raise fault
        left = [one for one in self._candidates if one is not None and one.text.strip()]
        if not left:
            return self._nothing()
        if self._choose == ALL:
            return self._all(left)
        is_settled = len({one.text for one in left}) == 1 and not self._context.is_dry
        if is_settled or self._choose == VOTE:
            return self._chosen(self._elected(left))
        return self._merged(left) if self._choose == MERGE else self._judged(left)

    def _stop_if_cancelled(self) -> None:
        if self._context.is_cancelled():
            raise RequestCancelled

    # --- asking ---

    def _ask(self, position: int) -> None:
        """One candidate, in one of several threads."""
        progress = self._progress
        with cancellation_service.scope(self._context.request_id) as own_id:
            with progress.guard:
                if progress.is_decided or self._context.is_cancelled():
                    return
                progress.running[position] = own_id
            candidate = self._answered(position, own_id)
            with progress.guard:
                del progress.running[position]
                self._candidates[position] = candidate
                self._count_vote(position, candidate)

    def _count_vote(self, position: int, candidate: Candidate) -> None:
        """Ends those that need not answer any more. They cannot end by themselves meanwhile: for that they
        wait for the guard."""
        progress, ballot = self._progress, self._ballot
        if ballot is None or progress.is_decided:
            return
        ballot.add(position, candidate.text)
        progress.is_decided = ballot.is_decided and not self._context.is_dry
        for other in progress.running.values() if progress.is_decided else ():
            cancellation_service.cancel_scope(other, "the vote is decided")

    def _answered(self, position: int, own_id: str) -> Candidate:
        model, begun = self._models[position], time.monotonic()
        candidate = Candidate(model.endpoint)
        if self._call.asked is not None:
            candidate.prompt_tokens = self._call.asked.prompt_tokens
        changes = _given({"endpointName": model.endpoint, "preset": model.preset}, ("endpointName", "preset"))
        try:
            context = candidate.context = self._context.branch(Branch(own_id, changes))
            if context.llm_handler is not None:
                candidate.endpoint = context.llm_handler.llm.endpoint.name
            answer = context.dispatch(self._call)
            if not context.is_cancelled() and not isinstance(answer, NodeStream):
                candidate.thinking = getattr(answer, "thinking", "")
                candidate.answer = context.clean(answer)
        except (RequestCancelled, EarlyTermination) as stop:
            let_go(stop)
        except CANDIDATE_FAULTS as error:
            candidate.error = error
            self._context.warn(f"candidate {position + 1} failed: {loggable_error(error)}")
        candidate.seconds = time.monotonic() - begun
        return candidate

    # --- one result ---

    def _nothing(self) -> NodeResult:
        """As `Standard` would: the failure, else the empty answer."""
        asked = [one for one in self._candidates if one is not None]
        for candidate in asked:
            if candidate.error is not None:
                raise candidate.error
        return self._chosen(asked[0])

    def _elected(self, left: Sequence[Candidate]) -> Candidate:
        position = None if self._ballot is None else self._ballot.winner()
        winner = None if position is None else self._candidates[position]
        return left[0] if winner is None else winner

    def _chosen(self, candidate: Candidate) -> NodeResult:
        candidate.is_chosen = True
        self._tell()
        if candidate.context is not None:
            self._context.take_answer(candidate.context)
        return candidate.answer

    def _tell(self) -> None:
        told = [one.as_json() for one in self._candidates if one is not None]
        self._context.note_value("Candidates", json.dumps(told, ensure_ascii=False))

    def _all(self, left: Sequence[Candidate]) -> NodeResult:
        for candidate in left:
            candidate.is_chosen = True
        self._tell()
        usages = [one.usage for one in left]
        total = {
            name: sum(usage[name] for usage in usages)
            for name in ("prompt_tokens", "completion_tokens", "total_tokens")
        }
        text = listed([one.text for one in left])
        self._context.take_answer(None, total)
        return CleanAnswer(text, finish_reason="stop", usage=total)

    def _judged(self, left: Sequence[Candidate]) -> NodeResult:
        best = None
        try:
            best = self._best(len(left), self._prompt("judgePrompt", JUDGE_PROMPT, left))
            self._stop_if_cancelled()
            if best is None and not self._context.is_dry:
                self._context.warn("the judge named none of the candidates, so the first one is taken")
        except (RequestCancelled, EarlyTermination):
            raise
        except CANDIDATE_FAULTS as error:
            self._stop_if_cancelled()
            self._context.warn(f"the judge failed, so the first candidate is taken: {loggable_error(error)}")
            let_go(error)
        return self._chosen(left[0 if best is None else best - 1])

    def _best(self, count: int, prompt: str) -> int | None:
        """The number that the judge gives; thoughts that no rule of its endpoint knows are full of others."""
        context = self._second_context((*_OF_THE_CONVERSATION, *_OF_THE_ANSWER))
        model = context.llm_handler
        schema = None
        if model is not None and model.takes_message_collection:
            block = structured_output_block(model.llm.endpoint.api_type)
            schema = None if block is None else best_schema(count)
        call = self._second_call(prompt)
        reply = context.dispatch(replace(call, system_prompt="", schema=schema, stream=False))
        if isinstance(reply, NodeStream):
            raise TypeError("a judge's reply comes whole")
        return named_best(text_behind_thoughts(str(context.clean(reply))), count)

    def _merged(self, left: Sequence[Candidate]) -> NodeResult:
        for candidate in left:
            candidate.is_chosen = True
        self._tell()
        context = self._second_context(_OF_THE_CONVERSATION, streams=True)
        answer = context.dispatch(self._second_call(self._prompt("mergePrompt", MERGE_PROMPT, left)))
        if isinstance(answer, NodeStream):
            return replace(answer, context=context)
        self._stop_if_cancelled()
        if self._context.is_responder and not self._context.is_internal and isinstance(answer, str):
            self._context.take_answer(context)
            # Cleaned on its way out, as a stream is: its thoughts go where the endpoint says.
            return NodeStream(iter([whole_batch(answer)]), context=context)
        merged = context.clean(answer)
        self._context.take_answer(context)
        return merged

    def _second_context(self, without: Sequence[str], *, streams: bool = False) -> ExecutionContext:
        """That of whoever judges or merges."""
        config = self._context.config
        names = {"endpointName": config.get("judgeEndpointName"), "preset": config.get("judgePreset")}
        changes = {**dict.fromkeys(without), **_given(names, tuple(names))}
        return self._context.branch(Branch(self._context.request_id, changes, streams))

    def _second_call(self, prompt: str) -> LlmCall:
        return replace(self._call, asked=None, prompt=prompt, stream=True)

    def _prompt(self, name: str, default: str, left: Sequence[Candidate]) -> str:
        context = self._context
        authored = context.value(name)
        template = context.fill(authored) if authored else default
        return filled_in(template, self._question(), listed([one.text for one in left]))

    def _question(self) -> str:
        """The node's own prompt, else what the user wrote last."""
        context = self._context
        if authored := context.value("prompt"):
            return context.fill(authored, steady=True)
        said = (m for m in reversed(context.messages) if m.get("role") == "user")
        return str(next(said, {"content": ""}).get("content") or "")


def _models_in(context: ExecutionContext) -> tuple[Model, ...]:
    """What is asked; the number of a node that says none is its default. Raises ConfigError."""
    models = context.value("candidates")
    return models if isinstance(models, tuple) else candidate_models(models)
