"""A run as JSON: the line of the list, and the whole of it. Pure; half told runs are no error.

Never shows a secret, and of a private run no text. Source: spec console.md 6.2 and 6.3.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from Middleware.api.console.prompt_reuse import prompt_json, run_share
from Middleware.api.console.recorder import Cut
from Middleware.api.console.run_sums import all_nodes_usage
from Middleware.api.console.run_texts import (
    AnswerTimes,
    Secrets,
    answer_text,
    answering_node,
    asked_text,
    body_text,
    cleaned_text,
    costs_of,
    fields_text,
    load_seconds,
    not_run,
    output_text,
    raw_text,
    ref,
    thoughts_of,
    tokens_of,
    workflow_of,
)
from Middleware.api.console.stood_out import (
    Around,
    RowWords,
    all_that_stood_out,
    no_place,
    row_words,
    stood_out,
)
from Middleware.api.console.unfilled_names import around_of
from Middleware.api.console.view_contract import Hub
from Middleware.common.costs import costs_json
from Middleware.common.types import JsonObject
from Middleware.services.node_trace import CallTrace, NodeTrace
from Middleware.services.run_trace import RunTrace
from Middleware.workflows.handlers import impl
from Middleware.workflows.handlers.node_types import node_handler

NODE_HANDLERS = impl.__name__
"""The package that fills the table of node types; imported for that."""
MEMORY = "memory"
"""The part of the palette with the types that read or make what was remembered of a discussion."""

SHORTEST_PART_S = 0.001
FEWEST_TOKENS = 5
SHORTEST_SAY_S = 0.2
_PARTS = ("queue", "other", "first", "think", "say", "after")
ODD, SLOW, KEPT = "odd", "slow", "kept"
"""Words for runs beside their states: what stood out was more than slowness; it took unusually long; it stays
until the restart."""
FEWEST_RUNS = 10
HOLDING = ("running", "answering", "finishing")
"""States of a run that holds a slot."""
_TO_BACKENDS = ("model", "embedding", "prefill")

Part = tuple[str, float]


def shape(run: RunTrace, now: float) -> list[list[Any]]:
    """`[[name, seconds]]`, the parts of a run in order, those under 1 ms left out. What is not over ends
    now; an answer that has just begun is there, so that a page can let it grow."""
    is_answering = bool(run.first_text) and not run.answered and not run.ended
    return [
        [name, round(took, 3)]
        for name, took in _spans(run, now)
        if took >= SHORTEST_PART_S or (name == "say" and is_answering)
    ]


def _spans(run: RunTrace, now: float) -> list[Part]:
    end = run.ended or now
    times = AnswerTimes(run, now)
    node = times.answering
    text = run.first_text or run.answered or end
    said = run.answered or end
    begun = run.begun or end
    inside = [end] * 4 if node is None else [node.begun, text - times.think_s, text, said]
    marks = [run.arrived]
    for mark in (begun, *inside, end):
        marks.append(min(max(mark, marks[-1]), max(end, marks[-1])))
    return [(name, marks[i + 1] - marks[i]) for i, name in enumerate(_PARTS)]


class Line(NamedTuple):
    """Where a run stands among those that wait: its place, from 1, and who holds the slots, the oldest first,
    as far as they are known."""

    place: int
    holders: Sequence[str]

    @property
    def words(self) -> str:
        """`2nd in line, while mira:big and 1 more run`."""
        more = f" and {len(self.holders) - 1} more" if len(self.holders) > 1 else ""
        return f"{ordinal(self.place)} in line{self._while(more)}"

    @property
    def short(self) -> str:
        """`2nd, while mira:big +1 run`."""
        more = f" +{len(self.holders) - 1}" if len(self.holders) > 1 else ""
        return f"{ordinal(self.place)}{self._while(more)}"

    def _while(self, more: str) -> str:
        """Those who hold the slots are not those who stand in front: the place counts the latter."""
        if not self.holders:
            return ""
        return f", while {self.holders[0]}{more} {'run' if more else 'runs'}"


def name_asked(run: RunTrace) -> str:
    """The model name that the client asked; the user's where it named none; "": neither is known."""
    return run.model or run.user


NOTHING_SAID = RowWords(0, None, "")


def summary(
    run: RunTrace,
    now: float,
    line: Line | None = None,
    words: RowWords = NOTHING_SAID,
    secrets: Secrets | None = None,
) -> JsonObject:
    """6.2, and what a row shows. `now`: of `time.monotonic()`. `line`: None: it does not wait. `words`: of
    what stood out. Source: spec workbench.md 10, 12.
    """
    secrets = secrets or Secrets(run)
    ended = run.ended or now
    seq, times = run.seq, AnswerTimes(run, now)
    tokens, about = tokens_of(run)
    return {
        "id": run.id,
        "at": round(run.wall, 3),
        "seq": seq,
        "user": run.user or None,
        "key": run.key or None,
        "workflow": workflow_of(run),
        "front": run.front or None,
        "path": run.path,
        "stream": run.stream,
        "task": run.task,
        "private": run.private,
        "state": run.state,
        "where": where(run, line),
        "status": run.status,
        "shape": shape(run, now),
        "first_s": _round_seconds(times.first_s),
        "took_s": _round_seconds(times.took_s),
        "tokens": tokens,
        "about": about,
        "rate": rate(run, now, tokens),
        "finish": run.finish_reason,
        "error": _masked_or_none(run.error, secrets),
        "held": run_share(run),
        "stood_out": words.how_many,
        "name": name_asked(run) or None,
        "said": secrets.out_of_cut(Cut(run.said, "", 1)).head or None,
        "client_s": _round_seconds((run.answered or ended) - run.arrived),
        "after_s": _round_seconds(ended - run.answered) if run.answered else None,
        "level": words.level,
        "short": line.short if line else secrets.out_of(words.short) or None,
        "ahead": {"place": line.place, "holders": list(line.holders)} if line else None,
        "discussion": run.discussion or None,
        "again_of": run.again_of and run.again_of._asdict(),
        "kept": run.pinned,
    }


def run_json(
    run: RunTrace,
    now: float,
    line: Line | None = None,
    stood_out: Sequence[JsonObject] = (),
    hidden: Iterable[str] = (),
) -> JsonObject:
    """6.3. `hidden`: more secrets than those of the run."""
    secrets = Secrets(run, hidden)
    told = summary(run, now, line, row_words(run, stood_out), secrets)
    del told["stood_out"]
    begun = list(run.nodes)
    index = {id(node): i for i, node in enumerate(begun)}
    shown = [*begun, *not_run(run)]
    return {
        **told,
        "model": run.model or None,
        "api_type": run.api_type or None,
        "cancelled_by": run.cancelled_by or None,
        "usage": None if run.usage is None else dict(run.usage),
        "all_nodes": all_nodes_usage(run),
        "cost": costs_json(costs_of(run)),
        "asked": ref("asked", asked_text(run), secrets),
        "answer": ref("answer", answer_text(run), secrets),
        "texts": run.keeps_text,
        "stood_out": [
            {**one, "text": secrets.out_of(one["text"]), "short": secrets.out_of(one["short"])}
            for one in stood_out
        ],
        "nodes": [_node(run, i, node, index.get(id(node.parent)), secrets) for i, node in enumerate(shown)],
    }


def where(run: RunTrace, line: Line | None = None) -> str | None:
    """Where it stands: in the line, at a node of its outermost workflow, at the node that failed."""
    if run.state == "waiting":
        return line.words if line else None
    nodes = list(run.nodes)
    if run.state in HOLDING:
        node = next((node for node in reversed(nodes) if node.depth == 0), None)
        return None if node is None else f"node {node.number} of {node.of}{_waits_for(nodes)}"
    if run.state == "failed":
        node = next((node for node in reversed(nodes) if node.state == "failed"), None)
        return None if node is None else f"node {node.number} {node.title or node.type}"
    return None


def _waits_for(nodes: Sequence[NodeTrace]) -> str:
    """What the newest call that waits does so for, behind a comma."""
    waits = (wait for node in reversed(nodes) for wait in list(node.waits) if not wait.ended)
    wait = next(waits, None)
    return "" if wait is None else f", waits for {wait.what}"


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `3rd`, `4th`, `11th`."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"


def rate(run: RunTrace, now: float, tokens: int | None) -> float | None:
    """Tokens a second of the answer, thoughts included: those behind the first output, over the time from
    there to the answer's end. While it runs only the text is counted, so that begins with the first text.
    None for what is too short to tell. Source: spec workbench.md 16.1.
    """
    output = run.first_text if run.usage is None else AnswerTimes(run, now).first_output
    wrote_s = (run.answered or run.ended or now) - output
    if tokens is None or tokens < FEWEST_TOKENS or not output or wrote_s < SHORTEST_SAY_S:
        return None
    return round((tokens - 1) / wrote_s, 3)


def _node(run: RunTrace, i: int, node: NodeTrace, parent: int | None, secrets: Secrets) -> JsonObject:
    name = f"n{i}"
    return {
        "i": i,
        "parent": parent,
        "depth": node.depth,
        "label": node.label,
        "workflow": node.workflow,
        "number": node.number,
        "of": node.of,
        "title": node.title,
        "type": node.type,
        "remembers": node_handler(node.type).PALETTE == MEMORY,
        "group": node.group,
        "answers": node.answers,
        "after": node.after,
        "state": node.state,
        "begun_s": _since(run, node.begun),
        "ended_s": _since(run, node.ended),
        "endpoint": node.endpoint or None,
        "preset": node.preset or None,
        "tokens": _tokens_of_node(run, node),
        "dropped": node.dropped,
        "warnings": [secrets.out_of(warning) for warning in list(node.warnings)],
        "error": _masked_or_none(node.error, secrets),
        "fields": ref(f"{name}.fields", fields_text(node), secrets),
        "output": ref(f"{name}.output", output_text(node), secrets),
        "thoughts": _thoughts(name, node, secrets),
        "waits": [
            {"for": wait.what, "begun_s": _since(run, wait.begun), "ended_s": _since(run, wait.ended)}
            for wait in list(node.waits)
        ],
        "calls": [_call(run, f"{name}.c{k}", k, call, secrets) for k, call in enumerate(list(node.calls))],
    }


def _tokens_of_node(run: RunTrace, node: NodeTrace) -> int | None:
    """Of the one that answers: those that the client is told."""
    if node is answering_node(run):
        return tokens_of(run)[0]
    return node.tokens if node.ended else None


def _call(run: RunTrace, name: str, k: int, call: CallTrace, secrets: Secrets) -> JsonObject:
    return {
        "k": k,
        "kind": call.kind,
        "endpoint": call.endpoint or None,
        "backend": _callee(run, call),
        "model": call.model or None,
        "url": _address(run, call, secrets),
        "begun_s": _since(run, call.begun),
        "sent_s": _since(run, call.sent),
        "first_s": _since(run, call.first),
        "ended_s": _since(run, call.ended),
        "tries": call.tries,
        "status": call.status,
        "outcome": call.outcome or None,
        "finish_reason": call.finish_reason,
        "usage": None if call.usage is None else dict(call.usage),
        "cost": None if call.cost is None else costs_json([call.cost]),
        "prompt": prompt_json(call),
        "load_s": _rounded(load_seconds(call)),
        "prompt_s": None if call.prompt_s is None else round(call.prompt_s, 3),
        "backup_of": call.backup_of or None,
        "chosen": call.chosen,
        "error": _masked_or_none(call.error, secrets),
        "body": ref(f"{name}.body", body_text(call), secrets),
        "raw": ref(f"{name}.raw", raw_text(call), secrets),
        "cleaned": ref(f"{name}.cleaned", cleaned_text(call), secrets),
        "thoughts": _thoughts(name, call, secrets),
        "has_cleaning": call.cleaning is not None,
    }


def _rounded(span: float | None) -> float | None:
    return None if span is None else round(span, 3)


def _callee(run: RunTrace, call: CallTrace) -> str | None:
    """Who was called. A host may have been filled in, as the rest of its address."""
    return None if run.private and call.kind == "http" else call.backend or None


def _address(run: RunTrace, call: CallTrace, secrets: Secrets) -> str | None:
    """That of a tool may hold what people wrote."""
    if run.private and call.kind not in _TO_BACKENDS:
        return None
    return _masked_or_none(call.url, secrets)


def _thoughts(name: str, holder: Any, secrets: Secrets) -> list[JsonObject | None]:
    return [ref(f"{name}.thoughts.{j}", text, secrets) for j, text in enumerate(thoughts_of(holder))]


def _masked_or_none(text: str, secrets: Secrets) -> str | None:
    return secrets.out_of(text) if text else None


def _since(run: RunTrace, at: float) -> float | None:
    return round(at - run.arrived, 3) if at else None


def _round_seconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


# --------------------------------------------------------------------------
# Runs as the page is told of them: what shapes need to know of the rest of the server is looked up here.


def _turn(run: RunTrace) -> tuple[bool, float]:
    """Whose turn comes first: what a front end asks for itself stands behind people."""
    return run.task is not None, run.queued


class Look:
    """One look at the runs of a server, newest first. `clock`: as `time.monotonic`."""

    def __init__(self, hub: Hub, clock: Callable[[], float] = time.monotonic) -> None:
        self.hub, self.now = hub, clock()
        self.seq: int = hub.recorder.seq  # before the list: what comes between is looked at again
        self.runs: list[RunTrace] = hub.recorder.runs()
        waiting = sorted((run for run in self.runs if run.state == "waiting" and run.queued), key=_turn)
        self._line = {run.id: place for place, run in enumerate(waiting, 1)}

    @cached_property
    def _holders(self) -> list[str]:
        """The model names of those that hold a slot, as far as they are known, the oldest first."""
        holding = (run.model or run.user for run in reversed(self.runs) if run.state in HOLDING)
        return [name for name in holding if name]

    def line(self, run: RunTrace) -> Line | None:
        """Where it stands among those that wait; None: it waits no more."""
        place = self._line.get(run.id, 0)
        return Line(place, self._holders) if place else None

    def secrets(self, run: RunTrace) -> Secrets:
        return Secrets(run, self.hub.secrets)

    def summary(self, run: RunTrace) -> JsonObject:
        return summary(run, self.now, self.line(run), self.words(run), self.secrets(run))

    def run_json(self, run: RunTrace) -> JsonObject:
        told = stood_out(run, self.now, self._surroundings)
        return run_json(run, self.now, self.line(run), told, self.hub.secrets)

    def words(self, run: RunTrace) -> RowWords:
        """What stood out, for its row. Of what has ended that is found out once: it costs more than all
        else.
        """
        known: dict[str, RowWords] = self.hub.recorder.row_words
        words = known.get(run.id)
        if words is None:
            told = all_that_stood_out(run, self.now, replace(self._surroundings, place=no_place))
            words = row_words(run, told)
            if run.ended:
                self.hub.recorder.note_words(run.id, words)
        return words

    def counts(self) -> JsonObject:
        """How many of all that are there are odd, failed, wait, were slow, or stay until the restart. Source:
        spec workbench.md 12.
        """
        return {
            ODD: sum(self.is_any(run, {ODD}) for run in self.runs),
            "failed": sum(run.state == "failed" for run in self.runs),
            "waiting": sum(run.state == "waiting" for run in self.runs),
            SLOW: len(self._slow),
            KEPT: sum(run.pinned for run in self.runs),
        }

    def is_any(self, run: RunTrace, wanted: Collection[str]) -> bool:
        """Whether it is odd, slow or kept, if that is wanted."""
        is_over = run.ended and run.state != "refused"
        if KEPT in wanted and run.pinned:
            return True
        if ODD in wanted and is_over and self.words(run).level is not None:
            return True
        return SLOW in wanted and run.id in self._slow

    @cached_property
    def _slow(self) -> frozenset[str]:
        """Ids of those that took longer than nine of ten of their name, where there are enough to tell."""
        by_name: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
        for run in self.runs:
            if run.state == "done":
                by_name[name_asked(run)].append(((run.answered or run.ended) - run.arrived, run.id))
        slow: set[str] = set()
        for took in by_name.values():
            if len(took) >= FEWEST_RUNS:
                usual = sorted(took)[math.ceil(0.9 * len(took)) - 1][0]
                slow.update(run_id for span, run_id in took if span > usual)
        return frozenset(slow)

    @cached_property
    def _surroundings(self) -> Around:
        return around_of(self.hub)
