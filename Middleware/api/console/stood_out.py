"""What stood out in a run: sentences for people who wonder why it was slow, odd or empty. Pure.

A rule is one function: it is given what is known of the run and gives its sentences. `RULES` holds them in
the order in which they are told. Source: spec console.md 8.4.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from Middleware.api.console.call_views import LAST_OF_THOUGHTS, cleaning_steps
from Middleware.api.console.hour import Call, model_name, place_of_model, rate_of
from Middleware.api.console.number_words import count_words, number, rounded_count, seconds
from Middleware.api.console.prompt_reuse import place_words, read_again_size
from Middleware.api.console.recorder import Cut
from Middleware.api.console.run_sums import count_of
from Middleware.api.console.run_texts import AnswerTimes, load_seconds
from Middleware.api.requests.request_life import outdated_first
from Middleware.common.secrets import without_quoted_secrets
from Middleware.services.node_trace import CallTrace, NodeTrace
from Middleware.services.run_trace import RunTrace
from Middleware.utilities.text_utils import estimate_tokens

MOST = 8
SLOT_S = 0.5
BEFORE_S = 0.5
BEFORE_SHARE = 0.3
FIRST_RUN = "After a start, the first run loads the engine."
SLOW_FIRST_S = 3.0
THINKING_S = 1.0
LOADED_S = 1.0
LATE_FACTOR = 3
EARLIER_FIRSTS = 5
SLOW_SHARE = 0.5
EARLIER_CALLS = 20
WARNINGS = 3
NODES_NAMED = 3
ALL_THOUGHTS = "all of them thoughts"
_ROUNDING = 2
"""Backends count a limit a token or two differently."""


class Sentence(NamedTuple):
    """`level`: `bad` or `note`. `short`: the same in a few words, for the list of runs. `node`: whom it is
    about, None: the run.
    """

    level: str
    text: str
    short: str
    node: NodeTrace | None = None

    @property
    def facts(self) -> dict[str, str]:
        return {"level": self.level, "text": self.text, "short": self.short}


def no_calls(user: str, endpoint: str) -> Sequence[Call]:
    return ()


def no_names(user: str, node: NodeTrace) -> Iterable[tuple[str, str]]:
    return ()


def no_model(place: str, unix: float) -> str:
    return ""


def no_place(run: RunTrace, node: NodeTrace, call: CallTrace) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Around:
    """What is known besides the run.

    `slots`: how many requests may run at once, 0 = any number. `calls(user, endpoint)`: earlier calls of an
    endpoint. `unfilled(user, node)`: the names in a node's fields that
    look like variables and are none, each with why (`is not known yet`). `place(run, node, call)`: the
    placeholder at which a prompt left the one before, as far as it is known; it costs more than all else.
    `model_before(place, unix)`: the model that was used there before, "" if none is known.
    """

    slots: int = 0
    calls: Callable[[str, str], Sequence[Call]] = no_calls
    unfilled: Callable[[str, NodeTrace], Iterable[tuple[str, str]]] = no_names
    place: Callable[[RunTrace, NodeTrace, CallTrace], str] = no_place
    model_before: Callable[[str, float], str] = no_model


class Seen:
    """A run as the rules look at it. `now`: of `time.monotonic()`, for what has not ended."""

    def __init__(self, run: RunTrace, now: float, around: Around) -> None:
        self.run, self.now, self.around = run, now, around
        self.nodes = list(run.nodes)
        self.times = AnswerTimes(run, now)
        self.answer = self.times.answering

    @cached_property
    def call(self) -> CallTrace | None:
        """The last call of a model by the node that answers."""
        calls = self.answer.calls if self.answer is not None else []
        return next((call for call in reversed(calls) if call.kind == "model"), None)

    @cached_property
    def calls(self) -> list[tuple[NodeTrace, CallTrace]]:
        return [(node, call) for node in self.nodes for call in list(node.calls)]


Rule = Callable[[Seen], Iterator[Sentence]]


def stood_out(run: RunTrace, now: float, around: Around | None = None) -> list[dict[str, Any]]:
    """`[{"rule", "level", "text", "short", "i"}]`, `i`: index in `run.nodes` or None.

    At most 8; when there are more, a ninth of the rule `more` says how many.
    """
    told = all_that_stood_out(run, now, around)
    if len(told) <= MOST:
        return told
    text = f"and {len(told) - MOST} more"
    rest = {"rule": "more", "level": "note", "text": text, "short": text, "i": None}
    return [*told[:MOST], rest]


def all_that_stood_out(run: RunTrace, now: float, around: Around | None = None) -> list[dict[str, Any]]:
    """Errors may quote secrets: who shows the sentences takes those out (`shapes.whole`)."""
    seen = Seen(run, now, around or Around())
    place = {id(node): i for i, node in enumerate(seen.nodes)}
    return [
        {"rule": name, **sentence.facts, "i": place.get(id(sentence.node))}
        for name, rule in RULES.items()
        for sentence in rule(seen)
    ]


def name_of(node: NodeTrace) -> str:
    return node.title or node.type


# --- what it ran with ---


def outdated_config_sentences(seen: Seen) -> Iterator[Sentence]:
    """Its files' last good versions, where later edits have errors: all else that is told may be of a text
    that is gone."""
    for said in list(seen.run.outdated.values()):
        yield Sentence("bad", without_quoted_secrets(f"{said}."), "an older text of a file")


# --- how it ended ---


def failure_sentences(seen: Seen) -> Iterator[Sentence]:
    """The sentence that the client got."""
    run = seen.run
    if run.state in ("failed", "refused"):
        with_status = f" with status {run.status}" if run.status else ""
        node = next((node for node in reversed(seen.nodes) if node.state == "failed"), None)
        did = "was refused" if run.state == "refused" else "failed"
        error = run.error.removeprefix(outdated_first(list(run.outdated.values())))
        short = f"{did}{with_status}"
        if node is not None:
            short = f"node {node.number} {name_of(node)}{_failed_kind(node)}"
        yield Sentence("bad", error or f"The request {did}{with_status}.", short, node)


def _failed_kind(node: NodeTrace) -> str:
    """How its last call failed, behind a colon; "": no call did."""
    kind = next((call.outcome for call in reversed(list(node.calls)) if call.error), "")
    return f": {kind}" if kind else ""


def cancellation_sentences(seen: Seen) -> Iterator[Sentence]:
    run = seen.run
    if run.state == "cancelled":
        by = f": {run.cancelled_by}" if run.cancelled_by else ""
        text = f"Cancelled after {seconds(seen.times.took_s)}{by}."
        yield Sentence("note", text, run.cancelled_by or "cancelled")


def empty(seen: Seen) -> Iterator[Sentence]:
    """Answered, and no text and no tool call reached the client."""
    if _is_empty(seen):
        why = _why_empty(seen)
        short = "empty, all of it thoughts" if why.endswith(ALL_THOUGHTS) else "empty"
        yield Sentence("bad", f"The client got an empty answer{why and ': ' + why}.", short, seen.answer)


def _is_empty(seen: Seen) -> bool:
    run, answer = seen.run, seen.answer
    if not run.answered or run.first_text or run.finish_reason == "tool_calls" or answer is None:
        return False
    return answer.state in ("done", "went_on")


def _why_empty(seen: Seen) -> str:
    """What is known of it; "" where no texts were kept."""
    call, answer = seen.call, seen.answer
    if call is None:
        return f"node {answer.number} returned no text" if answer is not None else ""
    raw = call.raw
    if not isinstance(raw, str | Cut):
        return ""
    beside = sum(map(len, call.thoughts or seen.times.thoughts)) if not raw else 0
    if not raw and not beside:
        reason = call.finish_reason or seen.run.finish_reason
        return "the model said nothing" + (f" (finish reason {reason})" if reason else "")
    said = f"the model said {count_words(len(raw) or beside, 'character')}"
    return f"{said}, {ALL_THOUGHTS if not raw else _who_took(call)}"


def _who_took(call: CallTrace) -> str:
    steps = cleaning_steps(call.raw, call.cleaned, call.cleaning)
    if not steps:
        return "and none of it was left"
    before, takers = str(call.raw), []
    for step in steps:
        if before.strip():  # white space that goes last is no answer that was lost
            takers.append(step)
        before = step.text
    if all(step.order <= LAST_OF_THOUGHTS for step in takers):
        return ALL_THOUGHTS
    return f"all of them taken away by {' and '.join(step.rule for step in takers)}"


def cut_answer_sentences(seen: Seen) -> Iterator[Sentence]:
    """The model ran into a limit: the node's own, if it got as far as that."""
    if seen.run.finish_reason != "length":
        return
    answer, limit = seen.answer, None
    if answer is not None:
        limit = _stated_limit(answer.fields.get("maxResponseSizeInTokens"))
    wrote = count_of(seen.call.usage if seen.call else None, "completion_tokens")
    if answer is None or limit is None or (wrote is not None and wrote < limit - _ROUNDING):
        yield Sentence("bad", "The answer was cut at the token limit.", "cut at the token limit", answer)
        return
    where = f"maxResponseSizeInTokens of node {answer.number}"
    size = count_words(limit, "token")
    yield Sentence("bad", f"The answer was cut at {size} ({where}).", f"cut at {size}", answer)


def broken_stream_sentences(seen: Seen) -> Iterator[Sentence]:
    for node, call in seen.calls:
        if call.truncated:
            loss = "the answer may be incomplete" if node.answers else "its output may be incomplete"
            text = f"{call.endpoint} ended its stream without an end mark: {loss}."
            yield Sentence("bad", text, "broken off", node)


# --- what went wrong on the way ---


def backup(seen: Seen) -> Iterator[Sentence]:
    """One for each hop."""
    for node, call in seen.calls:
        if not call.backup_of:
            continue
        failed_call = next(
            (c for c in list(node.calls) if c.endpoint == call.backup_of and c is not call), None
        )
        kind = f" ({failed_call.outcome})" if failed_call is not None and failed_call.outcome else ""
        did = "answered" if not call.ended or call.finish_reason else "was asked"
        text = f"{call.backup_of} failed{kind}; {call.endpoint} {did} instead."
        yield Sentence("note", text, f"backup {call.endpoint}", node)


def tries(seen: Seen) -> Iterator[Sentence]:
    for node, call in seen.calls:
        if call.tries > 1:
            often = f"{number(call.tries)} times"
            who = call.endpoint or call.backend
            yield Sentence("note", f"{who} was asked {often}.", f"asked {often}", node)


def went_on(seen: Seen) -> Iterator[Sentence]:
    for node in seen.nodes:
        if node.state == "went_on":
            told = f": {_without_place(node)}" if node.error else "."
            short = f"{name_of(node)} failed"
            yield Sentence("bad", f"{short} and the run went on{told}", short, node)


def _without_place(node: NodeTrace) -> str:
    """The node's error; that it is of this node has been said."""
    place, mark, said = node.error.partition(f"({node.type}): ")
    return said if mark and place.startswith(node.workflow) else node.error


def limit_sentences(seen: Seen) -> Iterator[Sentence]:
    """Agents that had to answer before they were done."""
    for node in seen.nodes:
        if node.limit:
            text = f"{name_of(node)} stopped calling tools: {node.limit}."
            yield Sentence("note", text, "limit of tools reached", node)


def failed_tool_sentences(seen: Seen) -> Iterator[Sentence]:
    """Tools that failed agents, each once a node, with what was said last."""
    failed: dict[tuple[int, str], list[tuple[NodeTrace, CallTrace]]] = {}
    for node, call in seen.calls:
        if call.tool and call.outcome in ("failed", "timeout"):
            failed.setdefault((id(node), call.tool), []).append((node, call))
    for calls in failed.values():
        node, last = calls[-1]
        often = f" {count_words(len(calls), 'time')}" if len(calls) > 1 else ""
        said = f": {last.error}" if last.error else "."
        short = f"{last.tool} failed{often}"
        yield Sentence("note", f"The tool {short} in {name_of(node)}{said}", short, node)


def lock_sentences(seen: Seen) -> Iterator[Sentence]:
    """Parents of the node that found the lock are stopped too; it is the last of them."""
    node = next((node for node in reversed(seen.nodes) if node.state == "stopped"), None)
    if node is not None:
        yield Sentence("note", f"Ended by a lock that is held (node {node.number}).", "locked", node)


# --- where the time went ---


def slot(seen: Seen) -> Iterator[Sentence]:
    if seen.times.queue_s >= SLOT_S:
        slots = seen.around.slots
        limit = f": {count_words(slots, 'request')} at a time (--concurrency)" if slots else ""
        if seen.run.state == "waiting":
            yield Sentence("note", f"Waits for a free slot{limit}.", "waits for a slot")
            return
        waited = seconds(seen.times.queue_s)
        yield Sentence("note", f"Waited {waited} for a free slot{limit}.", f"waited {waited}")


def turn_sentences(seen: Seen) -> Iterator[Sentence]:
    """Calls that waited for a slot, for the turn of their model at a machine, or for what is read ahead."""
    for node in seen.nodes:
        for wait in list(node.waits):
            took = (wait.ended or seen.now) - wait.begun
            if took >= SLOT_S:
                short = f"waited {seconds(took)}"
                yield Sentence("note", f"{name_of(node)} {short} for {wait.what}.", short, node)


def wait_sentences(seen: Seen) -> Iterator[Sentence]:
    """Time of other nodes, where it is a good part of the wait for the first word."""
    other, first_s = seen.times.other_s, seen.times.first_s
    if first_s is None and seen.run.ended:
        first_s = seen.times.took_s
    if seen.answer is None or first_s is None or other < BEFORE_S or other < BEFORE_SHARE * first_s:
        return
    longest = _longest(seen, seen.answer)
    who = ", then ".join(f"{name} {seconds(took)}" for name, took, _ in longest)
    text = f"{seconds(other)} passed before the answering node began: {who}."
    if not who:
        text = f"{seconds(other)} passed before the first node began. {FIRST_RUN}"
        yield Sentence("note", text, f"{seconds(other)} before it began", seen.answer)
        return
    slowest = max(longest, key=lambda one: one[1])[2]
    yield Sentence("note", text, f"{seconds(other)} in other nodes", slowest)


def _longest(seen: Seen, answer: NodeTrace) -> list[tuple[str, float, NodeTrace]]:
    """The three that took most of that time, of the outermost level, in order of start; of a group its first
    node.
    """
    spans: list[list[Any]] = []
    last = ""
    for node in seen.nodes:
        if node.depth or node is answer or node.begun >= answer.begun:
            continue
        ended = min(node.ended or seen.now, answer.begun)
        if node.group and node.group == last:
            spans[-1][0] = f"the group {node.group}"
            spans[-1][2] = max(spans[-1][2], ended)
        else:
            spans.append([name_of(node), node.begun, ended, node])
        last = node.group or ""
    took = [(name, ended - begun, node) for name, begun, ended, node in spans]
    longest = sorted(range(len(took)), key=lambda i: -took[i][1])[:NODES_NAMED]
    return [took[i] for i in sorted(longest)]


def slow_first(seen: Seen) -> Iterator[Sentence]:
    for call in seen.answer.calls if seen.answer is not None else ():
        if call.sent and call.first and call.first - call.sent >= SLOW_FIRST_S:
            tokens = _prompt_tokens(call)
            of = f" ({tokens} of prompt)" if tokens else ""
            took = seconds(call.first - call.sent)
            text = f"{call.endpoint} took {took} to its first word{of}."
            yield Sentence("note", text, f"first word after {took}", seen.answer)


def _prompt_tokens(call: CallTrace) -> str:
    counted_tokens = count_of(call.usage, "prompt_tokens")
    if counted_tokens:
        return count_words(counted_tokens, "token")
    if not call.body:
        return ""
    estimated = estimate_tokens(call.body.decode("utf-8", "replace"))
    whole = 1 + call.body_left_out / len(call.body)
    return f"about {rounded_count(round(estimated * whole))} tokens"


def read_again_sentences(seen: Seen) -> Iterator[Sentence]:
    """A long prompt that shares too little with the best one before."""
    for node, call in seen.calls:
        size = read_again_size(call)
        if size is None or call.leaves is None:
            continue
        read = f"about {rounded_count(size.new)}" if size.new_is_about else number(size.new)
        placeholder = seen.around.place(seen.run, node, call) if seen.run.ended else ""
        where = place_words(call.leaves) + (f", at {placeholder}" if placeholder else "")
        text = f"{call.endpoint} read {read} tokens again: its prompt"
        short = f"read {read} tokens again"
        yield Sentence("note", f"{text} left the one before {where}.", short, node)


def loaded_model_sentences(seen: Seen) -> Iterator[Sentence]:
    """The model changed and the first word came late, where no backend says that it loaded one."""
    run = seen.run
    for node, call in seen.calls:
        took = call.first - call.sent if call.kind == "model" and call.sent and call.first else 0.0
        if took < LOADED_S or load_seconds(call) is not None:
            continue
        began = round(run.wall + call.begun - run.arrived, 3)
        earlier = [other for other in seen.around.calls(run.user, call.endpoint) if other.unix < began]
        firsts = [other.first_s for other in earlier if other.first_s is not None]
        if len(firsts) < EARLIER_FIRSTS or took < LATE_FACTOR * (usual := statistics.median(firsts)):
            continue
        before = seen.around.model_before(place_of_model(call), began)
        if before not in ("", model_name(call)):
            text = (
                f"{call.endpoint} took {seconds(took)} to its first word; {seconds(usual)} is usual. "
                f"{before} was used there before it, so the model probably had to be loaded."
            )
            yield Sentence("note", text, "loaded another model", node)


def thinking(seen: Seen) -> Iterator[Sentence]:
    """Before an answer; of one that is all thoughts `empty` has told."""
    run = seen.run
    has_answered = bool(run.first_text or run.answered) and not _is_empty(seen)
    if seen.times.think_s >= THINKING_S and seen.call is not None and has_answered:
        length = sum(map(len, seen.times.thoughts))
        size = f" ({count_words(length, 'character')})" if length else ""
        span = seconds(seen.times.think_s)
        text = f"{seen.call.endpoint} thought for {span} before it answered{size}."
        yield Sentence("note", text, f"thought for {span}", seen.answer)


def slow_tokens(seen: Seen) -> Iterator[Sentence]:
    """Much slower than its endpoint mostly is."""
    call, run = seen.call, seen.run
    rate = rate_of(call) if call is not None else None
    if call is None or rate is None:
        return
    began = round(run.wall + call.begun - run.arrived, 3)
    earlier = [other for other in seen.around.calls(run.user, call.endpoint) if other.unix < began]
    rates = [other.rate for other in earlier if other.rate is not None]
    usual = statistics.median(rates) if rates else 0.0
    if len(earlier) >= EARLIER_CALLS and rate < SLOW_SHARE * usual:
        text = f"{call.endpoint} wrote {number(rate)} tokens a second; {number(usual)} is usual."
        yield Sentence("note", text, f"{number(rate)} tokens a second", seen.answer)


# --- what was left out, and the rest ---


def dropped_text_sentences(seen: Seen) -> Iterator[Sentence]:
    for node in seen.nodes:
        if node.dropped:
            left = count_words(node.dropped, "older message")
            where = f" of {node.endpoint}" if node.endpoint else ""
            text = f"{name_of(node)} left {left} out, to fit the context{where}."
            yield Sentence("note", text, f"left {left} out", node)


def unfilled_variable_sentences(seen: Seen) -> Iterator[Sentence]:
    for node in seen.nodes:
        for name, why in seen.around.unfilled(seen.run.user, node):
            text = f"{{{name}}} in node {node.number} {why} and stayed as text."
            yield Sentence("note", text, f"{{{name}}} stayed as text", node)


def warning_sentences(seen: Seen) -> Iterator[Sentence]:
    told = [
        (node, warning)
        for node in seen.nodes
        for warning in list(node.warnings)
        if not (node.limit and warning.startswith(node.limit))  # `limit_reached` has said so
    ]
    for node, warning in told[:WARNINGS]:
        yield Sentence("note", warning, count_words(len(told), "warning"), node)


def fallback_sentences(seen: Seen) -> Iterator[Sentence]:
    """The client asked for somebody else. Source: spec workbench.md 15."""
    if name := seen.run.fell_back:
        text = f'Nothing here is called "{name}", so the default of {seen.run.user} answered.'
        yield Sentence("note", text, f'no model "{name}"')


def task(seen: Seen) -> Iterator[Sentence]:
    if seen.run.task:
        yield Sentence("note", f"A background request of Open WebUI ({seen.run.task}).", seen.run.task)


def _stated_limit(value: object) -> int | None:
    """A limit as a node states it; None for one that only a run knows."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        made = int(value)
    except (ValueError, OverflowError):
        return None
    return made if made > 0 else None


RULES: Mapping[str, Rule] = {
    "outdated": outdated_config_sentences,
    "fell_back": fallback_sentences,
    "failed": failure_sentences,
    "cancelled": cancellation_sentences,
    "empty": empty,
    "cut": cut_answer_sentences,
    "broken": broken_stream_sentences,
    "backup": backup,
    "tries": tries,
    "went_on": went_on,
    "limit_reached": limit_sentences,
    "tool_failed": failed_tool_sentences,
    "locked": lock_sentences,
    "slot": slot,
    "turn": turn_sentences,
    "before": wait_sentences,
    "slow_first": slow_first,
    "loaded": loaded_model_sentences,
    "read_again": read_again_sentences,
    "thinking": thinking,
    "slow_tokens": slow_tokens,
    "dropped": dropped_text_sentences,
    "unfilled": unfilled_variable_sentences,
    "warned": warning_sentences,
    "task": task,
}
"""Name in the console's JSON -> rule, in the order in which they are shown."""
TROUBLE = frozenset(
    ("empty", "cut", "broken", "backup", "tries", "went_on", "locked", "unfilled", "warned", "fell_back")
)
"""Rules of more than slowness: the client got its answer with trouble. Source: spec workbench.md 12."""
BAD, TROUBLED = "bad", "trouble"


class RowWords(NamedTuple):
    """What a row of the list says of what stood out: how much did, `bad`, `trouble` or None, and the first of
    it in a few words, trouble before all else; "": nothing did."""

    how_many: int
    level: str | None
    short: str


def row_words(run: RunTrace, told: Sequence[Mapping[str, Any]]) -> RowWords:
    """`told`: all that stood out in the run."""
    has_failed = run.state in ("failed", "refused")
    troubles = [one for one in told if one["rule"] in TROUBLE]
    level = BAD if has_failed else TROUBLED if troubles else None
    failures = [one for one in told if one["rule"] == "failed"]
    first = next(iter([*failures, *troubles, *told]), None)
    return RowWords(len(told), level, first["short"] if first else "")
