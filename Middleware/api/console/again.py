"""Run again, whole or from a node: what of a run is taken over, what would be written, and why it cannot
be done.

Reads the run and the config files, and runs nothing. Source: spec workbench.md 4.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

from Middleware.api.console.asked_call import asked_call
from Middleware.api.console.call_views import run_of
from Middleware.api.console.config_files import config_file
from Middleware.api.console.file_views import checked_bytes, read_held
from Middleware.api.console.recorder import Cut
from Middleware.api.console.run_texts import ENDED
from Middleware.api.console.view_contract import ApiRoute, Ask, ViewRefused
from Middleware.api.requests.repeats import AskedCall, Repeat, split_address, without_lost_pictures
from Middleware.common.errors import (
    ClientRequestError,
    ConfigError,
    Conflict,
    Forbidden,
    NotFound,
    TooLarge,
    Unprocessable,
)
from Middleware.common.types import JsonObject, NodeConfig
from Middleware.config.drafts import draft_snapshot
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.paths import WORKFLOWS
from Middleware.config.users import load_user
from Middleware.config.validation import describe_value
from Middleware.config.workflows import workflow_of
from Middleware.services.node_trace import NodeTrace
from Middleware.services.rerun import KeptNode, KeptNodes, Rerun
from Middleware.services.run_trace import AgainOf, RunTrace
from Middleware.utilities.config_masks import told_of_file
from Middleware.workflows.checks.node_writes import NodeWrites
from Middleware.workflows.handlers.node_types import known_type, node_handler
from Middleware.workflows.processors.parallel_group import group_end
from Middleware.workflows.processors.run import title_of

TIMES = 0
"""Stands among the numbers of nodes for the times of the discussion's messages."""
TIMES_NOTE = "writes the times of the discussion's messages"
_GAVE = ("done", "went_on", "kept")
"""States of a node whose output is known."""

Nodes = tuple[NodeConfig, ...]


class Again:
    """One run, and the config files as they are now. `start`: the first node that runs again; None: all do.

    `why_not`: a sentence, empty: it can be run again. `told`: what one should know before. The outputs are
    those of now: while the new run waits for a slot, the texts of the old one may be forgotten.
    """

    def __init__(self, run: RunTrace, snapshot: ConfigSnapshot, start: int | None, can_read: bool) -> None:
        self.run, self.snapshot = run, snapshot
        self._roots = [replace(node) for node in list(run.nodes) if node.parent is None]
        self.told: list[str] = []
        self._asked_start = start
        self._can_read = can_read

    # --- what the run was ---

    @cached_property
    def file(self) -> str:
        """The run's own workflow file, which answered; empty: none did."""
        own = self._roots[-1].workflow if self._roots and self.run.answering else ""
        return own if own.startswith(f"{WORKFLOWS}/") else ""

    @cached_property
    def nodes(self) -> Nodes:
        """Those of the file as they are now; none where it cannot be read."""
        if not self.file:
            return ()
        try:
            return tuple(workflow_of(self.file, self.file, self.snapshot.read(self.file)).nodes)
        except ConfigError:
            return ()

    @cached_property
    def old_nodes(self) -> Nodes:
        """Those of the run."""
        return tuple(next((one.file_nodes for one in self._outer(self.file).values()), ()))

    def _outer(self, file: str) -> dict[int, NodeTrace]:
        """The nodes that ran of a file that no node called, by number; the last of each."""
        return {one.number: one for one in self._roots if one.workflow == file}

    @cached_property
    def start(self) -> int:
        """The first node that runs again: of a parallel group its first member."""
        first = self._asked_start or 1
        behind = min(first, len(self.nodes) + 1)
        return next((n for n in range(1, behind) if group_end(self.nodes, n - 1) >= first), first)

    # --- what would be written ---

    @cached_property
    def writing(self) -> NodeWrites:
        return NodeWrites(self.snapshot, load_user(self.snapshot, self.run.user))

    @cached_property
    def writes(self) -> list[JsonObject]:
        """The nodes from the start on that write, each with its sentences; before them the times."""
        found = self.writing.of_nodes(self.file, self.nodes)
        listed = [
            {"node": number, "title": title_of(self.nodes[number - 1]), "notes": notes}
            for number, notes in found.items()
            if number >= self.start
        ]
        times = [{"node": TIMES, "title": "", "notes": [TIMES_NOTE]}] if self.writing.keeps_times else []
        return [*times, *listed]

    # --- whether it can be ---

    @cached_property
    def why_not(self) -> str:
        return next(self._obstacles(), "")

    @property
    def why_not_read(self) -> str:
        """Why what the client asked cannot be read again; empty: it can."""
        return next(self._unreadable(), "")

    def _obstacles(self) -> Iterator[str]:
        yield from self._unreadable()
        yield from self._wrong_files()
        self._tell_of_request()
        if self._asked_start is not None:
            yield from self._wrong_start()

    def _unreadable(self) -> Iterator[str]:
        run = self.run
        if run.private:
            yield "This run is private, so nothing was kept that could be sent again."
        if run.state not in ENDED:
            yield "This run has not ended yet."
        if not self._can_read:
            yield f"Requests to {run.path} can't be run again."
        if not run.keeps_text or (not run.asked and not run.asked_left_out):
            yield "The client's request is not kept."
        if run.asked_left_out:
            yield "The client's request was too long to be kept whole."

    def _wrong_files(self) -> Iterator[str]:
        try:
            load_user(self.snapshot, self.run.user)
        except ConfigError as error:
            yield f"The settings of the user can't be read: {error}"

    def _tell_of_request(self) -> None:
        try:
            lost = without_lost_pictures(json.loads(self.run.asked))[1]
        except ValueError:
            lost = 0
        if lost:
            many = "1 picture was" if lost == 1 else f"{lost} pictures were"
            self.told.append(f"{many} too large to be kept, and will be left out.")
        if self.run.secrets:
            self.told.append("The client's key is not kept: enter it if the discussion belongs to it.")
        if self._asked_start is None and len({one.workflow for one in self._roots}) > 1:
            self.told.append(
                "The request is routed again. In a workflow that this run did not use, nodes that write are "
                "left out."
            )

    def _wrong_start(self) -> Iterator[str]:
        if not self.file:
            yield "No workflow file answered this run, so it can only be run again whole."
        if not self.nodes:
            yield f"{self.file} can't be read now."
        asked = 1 if self._asked_start is None else self._asked_start
        if not 1 <= asked <= len(self.nodes):
            yield f"{self.file} has no node {asked} now."
        if self.start != asked:
            self.told.append(
                f"Node {asked} runs in a parallel group: the start is its first member, node {self.start}."
            )
        yield from self._changed_nodes()
        for number in range(1, self.start):
            yield from self._no_output(number)

    def _changed_nodes(self) -> Iterator[str]:
        """Nodes before the start that are not those of the run."""
        for number in range(1, self.start):
            now = self.nodes[number - 1]
            old = self.old_nodes[number - 1] if number <= len(self.old_nodes) else None
            if old is None or _kind(old) != _kind(now):
                yield f"Node {number} is another one now, so its old output can't be used."
            if node_handler(now.get("type")).changes_conversation(now):
                yield f"Node {number} changes the conversation itself, so it can't be skipped."
            if dict(now) != dict(old or {}):
                self.told.append(f"Node {number} was changed since; its old output is used.")

    def _no_output(self, number: int) -> Iterator[str]:
        node = self._outer(self.file).get(number)
        if node is None or node.state not in _GAVE:
            yield f"Node {number} has no output in this run."
        elif isinstance(node.output, Cut):
            yield f"The output of node {number} was too long to be kept whole."
        elif any(isinstance(one, Cut) for one in (*node.thoughts, *node.values.values())):
            yield f"The thoughts of node {number} were too long to be kept whole."

    # --- what the new run is given ---

    def tell_of_left_out(self) -> None:
        """Of nodes that write and have no old output to stand in for them."""
        old = self.known(self.file, self.nodes)
        for one in self.writes:
            if one["node"] != TIMES and one["node"] not in old:
                self.told.append(
                    f"Node {one['node']} has no old output: if it is left out, its output is empty."
                )

    def kept(self, boxes: Collection[int], file: str, nodes: tuple[Mapping[str, Any], ...]) -> KeptNodes:
        """What stands in for the nodes of a workflow that no node called. `boxes`: those that may write."""
        is_own = file == self.file
        before = range(1, self.start) if is_own and self._asked_start is not None else ()
        writing = (
            number for number in self.writing.of_nodes(file, nodes) if not is_own or number not in boxes
        )
        old = self.known(file, nodes)
        return {number: old.get(number, KeptNode()) for number in {*before, *writing}}

    def known(self, file: str, nodes: Sequence[Mapping[str, Any]]) -> dict[int, KeptNode]:
        """The whole outputs of a file's nodes in the run, as far as they are the same nodes."""
        return {
            number: KeptNode(node.output, _whole(node.thoughts), node.values)
            for number, node in self._outer(file).items()
            if node.state in _GAVE
            and not isinstance(node.output, Cut)
            and number <= len(nodes)
            and _kind(node.fields) == _kind(nodes[number - 1])
        }


class _Kind(NamedTuple):
    """What makes a node the same one as before."""

    type: str
    title: str


def _kind(node: Mapping[str, Any]) -> _Kind:
    return _Kind(known_type(node.get("type")), title_of(node))


def _whole(thoughts: Sequence[Any]) -> tuple[str, ...]:
    return tuple(one for one in thoughts if isinstance(one, str))


# --------------------------------------------------------------------------


def look_at_again(ask: Ask, run_id: str) -> JsonObject:
    """GET `runs/<id>/again?from=`: `{"may", "why", "writes", "told"}`. `from`: of a node; absent: the whole
    run.
    """
    ask.words("from")
    run = run_of(ask, run_id)
    start = ask.number("from", 0, 1, 1_000_000) or None
    again = Again(run, ask.hub.snapshot(), start, can_read(ask, run))
    if why := again.why_not:
        return {"may": False, "why": why, "writes": [], "told": []}
    again.tell_of_left_out()
    return {"may": True, "why": None, "writes": again.writes, "told": again.told}


_STATUSES = {403: Forbidden, 404: NotFound, 409: Conflict, 413: TooLarge, 422: Unprocessable}


class KeptRuns(Ask):
    """What the runs that are kept give to the views that run something again, for a reader's rights."""

    def again(self, body: JsonObject) -> Repeat:
        """Raises ClientRequestError."""
        return _convert_refusals(lambda: repeat_of(self, body))

    def ask(self, body: JsonObject) -> AskedCall:
        """Raises ClientRequestError."""
        return _convert_refusals(lambda: asked_call(self, body))


_Made = TypeVar("_Made")


def _convert_refusals(make: Callable[[], _Made]) -> _Made:
    """What it makes; a refusal becomes the error of a front end."""
    try:
        return make()
    except ViewRefused as refused:
        raise _STATUSES.get(refused.status, ClientRequestError)(refused.sentence) from refused
    except ConfigError as error:
        raise Unprocessable(told_of_file(error)) from error


def repeat_of(ask: Ask, fields: Mapping[str, Any]) -> Repeat:
    """What POST `again` asks for. `fields`: `run`, `from`, `writes`, `text`. Raises ViewRefused: 404 for no
    such run, 409 with the reason where it cannot be run again.
    """
    run, start = run_of(ask, fields["run"]), fields["from"]
    boxes = {number for number in fields["writes"] if type(number) is int}
    if len(boxes) != len(fields["writes"]):
        found = describe_value(fields["writes"])
        raise ViewRefused(400, f"writes: found {found}, allowed: numbers of nodes, each once")
    snapshot = ask.hub.snapshot()
    if fields["text"] is not None:
        ask.require_right("save")
        snapshot = _with_text(snapshot, Again(run, snapshot, start, True).file, fields["text"])
    again = Again(run, snapshot, start, can_read(ask, run))
    if why := again.why_not:
        raise ViewRefused(409, why)
    return Repeat(
        AgainOf(run.id, run.wall),
        run.user,
        run.path,
        run.asked,
        run.headers,
        run.task,
        snapshot,
        None if start is None else again.file,
        Rerun(partial(again.kept, boxes), writes_times=TIMES in boxes),
    )


def _with_text(snapshot: ConfigSnapshot, file: str, text: str) -> ConfigSnapshot:
    """The config files with another text of the run's own file."""
    if not file:
        raise ViewRefused(409, "No workflow file answered this run.")
    place = config_file(snapshot.root, file)
    return draft_snapshot(snapshot, file, checked_bytes(snapshot, file, text, read_held(snapshot, place)))


def can_read(ask: Ask, run: RunTrace) -> bool:
    """Whether a request like that of the run can be read again."""
    return ask.hub.can_read(split_address(run.path)[0])


AGAIN_ROUTES = (ApiRoute("GET", "runs/<run_id>/again", "look", look_at_again),)
