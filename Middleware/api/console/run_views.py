"""The runs of this process: their list, each one, its texts, its end. Source: spec console.md 5.2, 6, 11."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import chain

from Middleware.api.console.call_views import NO_RUN, run_of
from Middleware.api.console.kept_texts import Cut
from Middleware.api.console.looks import Look
from Middleware.api.console.run_facts import RUN_STATES, workflow_names
from Middleware.api.console.run_texts import Secrets, Text, all_texts, find, whole_text
from Middleware.api.console.view_contract import ApiRoute, Ask, ViewRefused
from Middleware.common.types import JsonObject
from Middleware.config.validation import describe_value
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.run_trace import RunTrace

MOST = 200
DEFAULT = 50
BY_CONSOLE = "the console"
PRIVATE = "The user's settings keep texts private; times and counts only."
NO_TEXT = "this run has no such text"

Fits = Callable[[RunTrace], bool]


def runs(ask: Ask) -> JsonObject:
    """GET `runs`: the newest first; `next`: the id before which the next page begins, None: that was all."""
    wish = ask.words("user", "workflow", "state", "text", "before", "limit")
    limit = ask.number("limit", DEFAULT, 1, MOST)
    states = _states(wish["state"])
    look = Look(ask.hub)
    fits = _filters(look, wish, states)
    found_runs: list[RunTrace] = []
    for run in _runs_before(look.runs, wish["before"]):
        if all(fit(run) for fit in fits):
            found_runs.append(run)
            if len(found_runs) > limit:
                break
    shown = found_runs[:limit]
    return {
        "runs": [look.summary(run) for run in shown],
        "next": shown[-1].id if len(found_runs) > limit else None,
        "seq": look.seq,
    }


def run(ask: Ask, run_id: str) -> JsonObject:
    """GET `runs/<id>`."""
    ask.words()
    return Look(ask.hub).run_json(run_of(ask, run_id))


def text(ask: Ask, run_id: str, ref: str) -> JsonObject:
    """GET `runs/<id>/texts/<ref>`."""
    ask.words()
    kept = run_of(ask, run_id)
    value = find(kept, ref)
    if value is None:
        raise ViewRefused(404, PRIVATE if kept.private else NO_TEXT)
    return whole_text(ref, value, Look(ask.hub).secrets(kept))


def cancel(ask: Ask, run_id: str) -> JsonObject:
    """POST `runs/<id>/cancel`: as DELETE of a client."""
    ask.words()
    ask.no_fields()
    kept = run_of(ask, run_id)
    active = cancellation_service.is_running(kept.id)
    if active:
        cancellation_service.request_cancellation(kept.id, BY_CONSOLE)
    return {"status": "cancelled", "active": active}


def numbers(ask: Ask) -> JsonObject:
    """GET `numbers`."""
    ask.words()
    series: JsonObject = ask.hub.hour.series()
    return series


def _states(wish: str) -> set[str]:
    """The states asked for; empty: any. Raises Refused."""
    states = {state.strip() for state in wish.split(",") if state.strip()}
    for state in sorted(states - set(RUN_STATES)):
        raise ViewRefused(400, f"state: found {describe_value(state)}, allowed: {', '.join(RUN_STATES)}")
    return states


def _runs_before(kept: list[RunTrace], run_id: str) -> list[RunTrace]:
    """Those that arrived before this run. Raises Refused when it is not kept."""
    if not run_id:
        return kept
    for i, one in enumerate(kept):
        if one.id == run_id:
            return kept[i + 1 :]
    raise ViewRefused(404, NO_RUN)


def _filters(look: Look, wish: dict[str, str], states: set[str]) -> list[Fits]:
    """What a run must fit; the quick ones first."""
    fits: list[Fits] = []
    if wish["user"]:
        fits.append(lambda run: run.user == wish["user"])
    if states:
        fits.append(lambda run: run.state in states)
    if wish["workflow"]:
        fits.append(lambda run: wish["workflow"] in workflow_names(run))
    if wish["text"]:
        needle = wish["text"].casefold()
        fits.append(lambda run: _holds_text(look, run, needle))
    return fits


def _holds_text(look: Look, run: RunTrace, needle: str) -> bool:
    """Whether its facts or texts hold this, as a reader sees them: what is masked is not found."""
    secrets = look.secrets(run)
    needles = (needle, json.dumps(needle)[1:-1])
    nodes = list(run.nodes)
    facts: list[Text] = [run.id, run.user, *workflow_names(run), run.error]
    facts += [fact for node in nodes for fact in (node.title, node.endpoint, node.error)]
    facts += [fact for node in nodes for call in list(node.calls) for fact in (call.endpoint, call.error)]
    return any(
        _is_in(kept, needles) and _is_in(_as_seen(kept, secrets), needles)
        for kept in chain(facts, all_texts(run))
    )


def _as_seen(kept: Text, secrets: Secrets) -> Text:
    return secrets.out_of_cut(kept) if isinstance(kept, Cut) else secrets.out_of(kept)


def _is_in(kept: Text, needles: tuple[str, ...]) -> bool:
    parts = (kept.head, kept.tail) if isinstance(kept, Cut) else (kept,)
    return any(needle in part.casefold() for part in parts for needle in needles)


RUN_ROUTES = (
    ApiRoute("GET", "runs", "look", runs),
    ApiRoute("GET", "runs/<run_id>", "look", run),
    ApiRoute("GET", "runs/<run_id>/texts/<ref>", "look", text),
    ApiRoute("POST", "runs/<run_id>/cancel", "act", cancel),
    ApiRoute("GET", "numbers", "look", numbers),
)
