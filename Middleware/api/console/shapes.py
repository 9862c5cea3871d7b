"""A run as JSON: the line of the list, and the whole of it. Pure; half told runs are no error.

Never shows a secret, and of a private run no text. Source: spec console.md 6.2 and 6.3.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from Middleware.api.console.prompt_reuse import prompt_json, run_share
from Middleware.api.console.run_sums import all_nodes_usage
from Middleware.api.console.run_texts import (
    AnswerTimes,
    Secrets,
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
from Middleware.api.console.stood_out import Around, all_that_stood_out, no_place, stood_out
from Middleware.api.console.unfilled_names import around_of
from Middleware.api.console.view_contract import Hub
from Middleware.common.costs import costs_json
from Middleware.common.types import JsonObject
from Middleware.services.run_trace import CallTrace, NodeTrace, RunTrace

SHORTEST_PART_S = 0.001
FEWEST_TOKENS = 5
SHORTEST_SAY_S = 0.2
_PARTS = ("queue", "other", "first", "think", "say", "after")
HOLDING = ("running", "answering", "finishing")
"""States of a run that holds a slot."""
_TO_BACKENDS = ("model", "embedding", "prefill")

Part = tuple[str, float]


def shape(run: RunTrace, now: float) -> list[list[Any]]:
    """`[[name, seconds]]`, the parts of a run in order, those under 1 ms left out. What is not over ends
    now."""
    return [[name, round(took, 3)] for name, took in _spans(run, now) if took >= SHORTEST_PART_S]


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


def summary(
    run: RunTrace, now: float, line: str = "", stood_out: int = 0, secrets: Secrets | None = None
) -> JsonObject:
    """6.2. `now`: of `time.monotonic()`. `line`: where it stands among those that wait, empty: it does not.
    `stood_out`: how much did."""
    secrets = secrets or Secrets(run)
    seq, times = run.seq, AnswerTimes(run, now)
    tokens, about = tokens_of(run)
    return {
        "id": run.id,
        "at": round(run.wall, 3),
        "seq": seq,
        "user": run.user or None,
        "workflow": workflow_of(run),
        "front": run.front or None,
        "path": run.path,
        "stream": run.stream,
        "task": run.task,
        "private": run.private,
        "state": run.state,
        "where": where(run, line),
        "asking": _masked_or_none(run.waiting_text, secrets),
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
        "stood_out": stood_out,
    }


def run_json(
    run: RunTrace,
    now: float,
    line: str = "",
    stood_out: Sequence[JsonObject] = (),
    hidden: Iterable[str] = (),
) -> JsonObject:
    """6.3. `hidden`: more secrets than those of the run."""
    secrets = Secrets(run, hidden)
    told = summary(run, now, line, 0, secrets)
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
        "texts": run.keeps_text,
        "stood_out": [{**one, "text": secrets.out_of(one["text"])} for one in stood_out],
        "nodes": [_node(run, i, node, index.get(id(node.parent)), secrets) for i, node in enumerate(shown)],
    }


def where(run: RunTrace, line: str = "") -> str | None:
    """Where it stands: in the line (`line_words`), at a node of its outermost workflow, at the node that
    failed."""
    if run.state == "waiting":
        return line or None
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


def line_words(place: int, holders: Sequence[str]) -> str:
    """`2nd in line, behind mira:big and 1 more`; `holders`: who holds the slots, as far as it is known."""
    words = f"{ordinal(place)} in line"
    if holders:
        words += f", behind {holders[0]}"
    if len(holders) > 1:
        words += f" and {len(holders) - 1} more"
    return words


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


class Look:
    """One look at the runs of a server, newest first. `clock`: as `time.monotonic`."""

    def __init__(self, hub: Hub, clock: Callable[[], float] = time.monotonic) -> None:
        self.hub, self.now = hub, clock()
        self.seq: int = hub.recorder.seq  # before the list: what comes between is looked at again
        self.runs: list[RunTrace] = hub.recorder.runs()
        waiting = [run.id for run in reversed(self.runs) if run.state == "waiting"]
        self._line = {run_id: place for place, run_id in enumerate(waiting, 1)}

    @cached_property
    def _holders(self) -> list[str]:
        """The model names of those that hold a slot, as far as they are known, the oldest first."""
        holding = (run.model or run.user for run in reversed(self.runs) if run.state in HOLDING)
        return [name for name in holding if name]

    def line(self, run: RunTrace) -> str:
        """Where it stands among those that wait; empty: it waits no more."""
        place = self._line.get(run.id, 0)
        return line_words(place, self._holders) if place else ""

    def secrets(self, run: RunTrace) -> Secrets:
        return Secrets(run, self.hub.secrets)

    def summary(self, run: RunTrace) -> JsonObject:
        return summary(run, self.now, self.line(run), self._count(run), self.secrets(run))

    def run_json(self, run: RunTrace) -> JsonObject:
        told = stood_out(run, self.now, self._surroundings)
        return run_json(run, self.now, self.line(run), told, self.hub.secrets)

    def _count(self, run: RunTrace) -> int:
        """How much stood out. Of what has ended that is found out once: it costs more than all else."""
        counts: dict[str, int] = self.hub.recorder.counts
        count = counts.get(run.id)
        if count is None:
            count = len(all_that_stood_out(run, self.now, replace(self._surroundings, place=no_place)))
            if run.ended:
                self.hub.recorder.note_count(run.id, count)
        return count

    @cached_property
    def _surroundings(self) -> Around:
        return around_of(self.hub)
