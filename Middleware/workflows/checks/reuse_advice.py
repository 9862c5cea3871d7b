"""What to change in nodes so that a model server reads less again, and what that would bring.

Each piece of advice is tried: the nodes are changed in memory and the conversation is walked again, which may
show what the first walk could not. No file is changed. Source: spec prompt-reuse.md 4.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from Middleware.common.errors import MiddlewareError
from Middleware.common.types import JsonObject
from Middleware.config.json_positions import position_in
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.users import UserSettings, read_steady_window
from Middleware.workflows.checks.dry_run import NO_CHANGES, NodeChanges
from Middleware.workflows.checks.prompt_reuse import (
    PROMPT,
    SYSTEM,
    WINDOW,
    NodeKey,
    NodeReading,
    ReuseReport,
    TurnWalk,
    made_conversation,
)
from Middleware.workflows.managers.categorization import open_answer_run
from Middleware.workflows.models.node_keys import common_value

TIMES_NEW = 5
"""A workflow that reads more than so many times what is new is worth a word."""
_ROUNDS = 3
"""What stands in front hides what is behind it, so advice is looked for again where some was taken."""
_USUAL_WINDOW = 20
_NOTED_TURNS = 6
"""A note must be quick: a tree can have many users."""
_SYSTEM_VARIABLE = re.compile(r"\{\{? ?chat_system_prompt(?:_steady)? ?\}\}?")
_CONVERSATION = re.compile(r"\{\{? ?(?:chat|templated)_(?:user_prompt|conversation)_\w+ ?\}\}?")


@dataclass(frozen=True, slots=True)
class ReuseAdvice:
    """`key`: of the node, where the place is shown. `change`: the node's other fields; empty: nobody can
    make the change but who wrote the workflow.
    """

    node: NodeKey
    message: str
    key: str
    change: JsonObject = field(default_factory=dict)

    def place(self, snapshot: ConfigSnapshot) -> str:
        """`Workflows/ana/Main.json:14`."""
        file, number = self.node
        pointer = f"/nodes/{number - 1}/{self.key}"
        return f"{file}:{position_in(snapshot.text(file), file, pointer).line}"


@dataclass(frozen=True, slots=True)
class AdvisedReuse:
    """A report, what to change, and the report after that; None: nothing that could be tried."""

    before: ReuseReport
    advice: list[ReuseAdvice]
    after: ReuseReport | None

    @property
    def reads_too_much(self) -> bool:
        """Whether more than five times what is new is read, and something can be done about it."""
        return self.after is not None and self.before.read_chars > TIMES_NEW * self.before.new_chars


def advise_on(walk: TurnWalk, changes: NodeChanges = NO_CHANGES) -> AdvisedReuse:
    """Walks the conversation, and again with what follows from it. Raises what a walk raises."""
    before = report = walk.report(changes)
    advice: list[ReuseAdvice] = []
    tried, after = dict(changes), None
    for _ in range(_ROUNDS):
        known = {(one.node, one.key) for one in advice}
        found = [one for one in _find_advice(report, walk.user) if (one.node, one.key) not in known]
        advice += found
        made = [one for one in found if one.change]
        if not made:
            break
        for one in made:
            tried[one.node] = {**tried.get(one.node, {}), **one.change}
        after = report = walk.report(tried)
    if after is not None and after.read_chars >= before.read_chars:
        advice, after = [one for one in advice if not one.change], None
    order = list(before.nodes)
    advice.sort(key=lambda one: order.index(one.node) if one.node in order else len(order))
    return AdvisedReuse(before, advice, after)


def reading_note(snapshot: ConfigSnapshot, user: UserSettings) -> str:
    """What to say of a user whose workflow has far more read in each turn than is new, although that can be
    changed; `""`: nothing, or it cannot be walked, which other checks report.
    """
    walk = TurnWalk(snapshot, user, open_answer_run, made_conversation(), _NOTED_TURNS, has_discussion=True)
    try:
        with silent_log():
            report = walk.report()
            if report.read_chars <= TIMES_NEW * report.new_chars or not advise_on(walk).reads_too_much:
                return ""
    except MiddlewareError:
        return ""
    times = report.read_chars // max(1, report.new_chars)
    return (
        f"each turn has {report.of_a_turn(report.read_tokens):,} tokens read by model servers, {times} times "
        f"what is new: `--reuse {user.name}` shows what to change"
    )


def _find_advice(report: ReuseReport, user: UserSettings) -> Iterator[ReuseAdvice]:
    for row in report.nodes.values():
        if row.config.get("addDiscussionIdTimestampsForLLM") and row.config.get("useRelativeTimestamps"):
            message = "relative times change each message each turn: use absolute ones"
            yield ReuseAdvice(row.key, message, "useRelativeTimestamps")
        found = row.main_leaving()
        if found is None or row.new_chars * 10 < row.chars or 2 * found[1] < row.calls:
            continue
        leaving = found[0]
        if leaving.kind == WINDOW and not _is_steady(row.config, user):
            yield _steady_advice(row)
        elif row.config.get("prompt"):
            if leaving.kind in (SYSTEM, PROMPT) and _CONVERSATION.search(str(row.config["prompt"])):
                yield _prompt_advice(row, report)
        elif leaving.kind == SYSTEM:
            yield from _front_advice(row, report)


def _is_steady(config: Mapping[str, Any], user: UserSettings) -> bool:
    own = config.get("steadyWindow")
    return bool(user.steady_window if own is None else read_steady_window(own))


def _steady_advice(row: NodeReading) -> ReuseAdvice:
    of_messages = "lastMessagesToSendInsteadOfPrompt"
    of_tokens = f"{of_messages}MaxTokenSize"
    key, size, unit = of_messages, common_value(row.config, of_messages), "messages"
    if row.config.get(of_tokens):
        key, size, unit = of_tokens, row.config[of_tokens], "tokens"
    message = f'the window of {size} {unit} moves each turn: "steadyWindow": true'
    return ReuseAdvice(row.key, message, key, {"steadyWindow": True})


def _front_advice(row: NodeReading, report: ReuseReport) -> Iterator[ReuseAdvice]:
    """An instruction in front of the conversation that another node, or another turn, has otherwise."""
    system = str(row.config.get("systemPrompt") or "")
    task = _SYSTEM_VARIABLE.sub("", system).strip()
    if not task:
        return
    found = row.main_leaving()
    if found is not None and found[0].other is None:
        message = 'its systemPrompt changes from turn to turn: put what changes into "latePrompt"'
    else:
        message = 'its instruction stands before the conversation: put it into "latePrompt"'
    late = "\n\n".join(filter(None, (task, str(row.config.get("latePrompt") or ""))))
    change: JsonObject = {"latePrompt": late, "systemPrompt": _shared_front(row, report)}
    yield ReuseAdvice(row.key, message, "systemPrompt", change)


def _shared_front(row: NodeReading, report: ReuseReport) -> str:
    """The system prompt that the nodes of this server should share: the client's."""
    for other in report.nodes.values():
        system = str(other.config.get("systemPrompt") or "").strip()
        alike = bool(other.config.get("jinja2")) == bool(row.config.get("jinja2"))
        if alike and other.server == row.server and _SYSTEM_VARIABLE.fullmatch(system):
            return system
    return "{{ chat_system_prompt }}" if row.config.get("jinja2") else "{chat_system_prompt}"


def _prompt_advice(row: NodeReading, report: ReuseReport) -> ReuseAdvice:
    """A prompt that repeats the conversation as text."""
    task = _CONVERSATION.sub("", str(row.config["prompt"])).strip()
    system = _SYSTEM_VARIABLE.sub("", str(row.config.get("systemPrompt") or "")).strip()
    windows = [
        other.config["lastMessagesToSendInsteadOfPrompt"]
        for other in report.nodes.values()
        if other.server == row.server and other.config.get("lastMessagesToSendInsteadOfPrompt")
    ]
    change: JsonObject = {
        "prompt": "",
        "systemPrompt": _shared_front(row, report),
        "latePrompt": "\n\n".join(filter(None, (system, task))),
        "lastMessagesToSendInsteadOfPrompt": windows[-1] if windows else _USUAL_WINDOW,
        "steadyWindow": True,
    }
    message = (
        'its prompt holds the conversation as text: leave "prompt" empty, which sends the conversation, and '
        'put the task into "latePrompt"'
    )
    return ReuseAdvice(row.key, message, "prompt", change)


@contextmanager
def silent_log() -> Iterator[None]:
    """Nothing is logged meanwhile: each turn of a walk would repeat the warnings of a dry run. For commands,
    which are alone in their process."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
