"""The values behind a run: what all runs of a request share, and what one run is given.

Nothing here runs anything.
"""

from __future__ import annotations

import os
import random
import threading
import uuid
from collections.abc import Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from Middleware.common.errors import BackendError, ConfigError, MiddlewareError, WorkflowError, let_go
from Middleware.common.instance_global_variables import launch_facts
from Middleware.common.request_context import WISH_NAMES, ClientQuestion, RequestContext
from Middleware.common.types import Batch
from Middleware.config.json_positions import position_in
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.paths import endpoint_files
from Middleware.config.users import UserSettings
from Middleware.config.workflows import WorkflowFile
from Middleware.llmapis.repeated_call import RepeatedCall
from Middleware.services.chat_fronts import ChatFronts, ChatOwner
from Middleware.services.data_folders import discussions_root, old_discussions
from Middleware.services.discussion_store import DiscussionStore
from Middleware.services.locking_service import LockingService
from Middleware.services.node_trace import NodeTrace
from Middleware.services.rerun import KeptNodes, Rerun
from Middleware.services.run_trace import RunTrace
from Middleware.services.steady_paragraphs import SystemParts, first_parts
from Middleware.services.timestamp_service import RequestStamps
from Middleware.utilities.encryption_utils import KeyCache, folder_of_key
from Middleware.workflows.handlers.node_types import known_type
from Middleware.workflows.models.node_keys import DEFAULT_TYPE
from Middleware.workflows.variables.workflow_variable_manager import LiveValues


@dataclass(frozen=True, slots=True)
class ProcessServices:
    """What all requests of the process share. One a process; locks by database."""

    keys: KeyCache = field(default_factory=KeyCache)
    fronts: ChatFronts = field(default_factory=ChatFronts)
    locks: dict[Path, LockingService] = field(default_factory=dict)
    guard: threading.Lock = field(default_factory=threading.Lock)

    def locking(self, database: Path) -> LockingService:
        with self.guard:
            if database not in self.locks:
                # with the process: workers that a server forks share the facts of the launch
                instance = f"{launch_facts().instance_id}-{os.getpid()}"
                self.locks[database] = LockingService(database, instance)
            return self.locks[database]

    def release_locks(self, workflow_id: str) -> None:
        """Give back what a run holds; costs nothing if it took none."""
        for locking in tuple(self.locks.values()):
            locking.release(workflow_id)


class RequestState:
    """What all runs of one request share; made by the manager, once a request."""

    def __init__(
        self, request: RequestContext, user: UserSettings, snapshot: ConfigSnapshot, services: ProcessServices
    ) -> None:
        self.request, self.user, self.snapshot, self.services = request, user, snapshot, services
        self.api_key_hash = folder_of_key(request.api_key, request.asker.folder)
        self.extra_threads = threading.BoundedSemaphore(max(1, user.max_parallel_nodes))
        self.extra_threads.acquire()  # the thread that runs the request
        self.run_trace: RunTrace | None = request.trace
        self.taken_wishes: set[str] = set()
        """Names of the client's parameters that a node took."""
        self.pictures_taken = False
        """A node that takes pictures has run."""
        self.fronts = services.fronts if request.task is None else None
        """Where the chat's system text is remembered; None: this request is as the first of its chat, and
        nothing is remembered of it.
        """
        self.question: ClientQuestion | None = None
        """What the client asked, as its first run has it; None: no run has begun."""
        self.rerun: Rerun | None = None
        """What this request takes from the one that it repeats; None: it repeats none."""
        self.discussions: Path | None = None
        """Where this request's discussions are kept; None: where the user's are."""
        self._parts: dict[bool, SystemParts] = {}
        self._stamps: dict[str, RequestStamps] = {}
        self._guard = threading.Lock()

    @property
    def writes_times(self) -> bool:
        """Whether the times of the discussion's messages are written."""
        return self.rerun is None or self.rerun.writes_times

    def in_scope(self, scope: str) -> RequestState:
        """The same for a run that can be ended alone, by the id `scope`."""
        own = copy(self)
        own.request = replace(self.request, request_id=scope)
        return own

    @cached_property
    def encryption_key(self) -> bytes | None:
        """The key of the discussion's files; None: they are plain."""
        if self.user.encrypt_using_api_key and self.request.api_key:
            return self.services.keys.derive(self.request.api_key, self.user.name)
        return None

    def system_parts(self, question: ClientQuestion, *, everywhere: bool) -> SystemParts:
        """The client's system text in two parts, decided at the first call and the same for all runs.

        `question`: of the run that asks; it counts, as the first of a chat, where none was opened.
        """
        with self._guard:
            if everywhere not in self._parts:
                self._parts[everywhere] = self._decided_parts(question, everywhere)
            return self._parts[everywhere]

    def _decided_parts(self, question: ClientQuestion, everywhere: bool) -> SystemParts:
        first = self.question
        if self.fronts is None or first is None:
            return first_parts((first or question).messages, everywhere=everywhere)
        owner = ChatOwner(self.user.name, self.api_key_hash)
        return self.fronts.parts(owner, first.discussion_id, first.messages, everywhere=everywhere)

    def stamps(self, discussion_id: str | None) -> RequestStamps | None:
        """The discussion's timestamps, with its store; None without a discussion."""
        if not discussion_id:
            return None
        with self._guard:
            if discussion_id not in self._stamps:
                own = self.discussions
                store = DiscussionStore(
                    discussions_root(self.user) if own is None else own,
                    discussion_id,
                    key_hash=self.api_key_hash,
                    encryption_key=self.encryption_key,
                    install=old_discussions(self.user) if own is None else None,
                )
                self._stamps[discussion_id] = RequestStamps(store)
            return self._stamps[discussion_id]


_ids = random.Random()
"""Of our own: a script of a PythonModule node may seed Python's, and then ids would come twice."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_ids.seed)


def new_workflow_id() -> str:
    """A random UUID that costs no system call: it names the owner of locks, it guards nothing."""
    return str(uuid.UUID(int=_ids.getrandbits(128), version=4))


SPEAK_FOR_THEMSELVES = (MiddlewareError, OSError, ValueError)
"""Errors whose text is a sentence; of others the name of the class says more."""


NOTHING_KEPT: KeptNodes = MappingProxyType({})

PLAIN_NODE = "raw"
"""The title of the one node of a plain model."""


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of one workflow file. `question`: what the client asked, as far as this run may see it.

    `internal`: never answers the user. `inputs`: item i becomes `agent<i>Input`. The overrides are filled by
    the parent (`fill_override`). `chain`: names of the workflows from the first to this one. `node`: the node
    that called this one, None: nobody or nobody observes; `label`: the key by which it chose it. `plain`: the
    client asks an endpoint and no workflow; the file is a `plain_model`. `asked`: the one call of such a
    run, as an earlier run made it; None: it is made of the conversation.
    """

    state: RequestState
    file: WorkflowFile
    question: ClientQuestion
    internal: bool = False
    inputs: tuple[Any, ...] = ()
    system_prompt_override: str | None = None
    prompt_override: str | None = None
    chain: tuple[str, ...] = ()
    categories: Mapping[str, str] = field(default_factory=dict)
    workflow_id: str = field(default_factory=new_workflow_id)
    node: NodeTrace | None = field(default=None, repr=False)
    label: str = ""
    plain: bool = False
    asked: RepeatedCall | None = field(default=None, repr=False)

    def place(self, index: int) -> str:
        """`Workflows/ana/Main.json:14:5: node 3 "Recall" (Standard)`, for messages; of a plain model its
        name.
        """
        if self.plain:
            return self.file.file
        place = self.state.snapshot.where(self.file.file, f"/nodes/{index}")
        return f"{place} ({self.file.nodes[index].get('type') or DEFAULT_TYPE})"

    def kept_nodes(self) -> KeptNodes:
        """What stands in for nodes that do not run again; none of a run that a node called."""
        rerun = self.state.rerun
        if rerun is None or len(self.chain) > 1 or self.plain:
            return NOTHING_KEPT
        return rerun.kept(self.file.file, self.file.nodes)

    def live_values(self) -> LiveValues:
        """What its variables may bring into a text besides themselves."""
        return LiveValues(self.file.variables, self.state.user.user_wide_workflow_variables)

    def _words(self, index: int, error: BaseException) -> tuple[str, str]:
        """What failed, behind its place (for logs) and before it (for a chat); a fault of this very file
        names node and field itself.
        """
        said, first = _sentences(error)
        if isinstance(error, ConfigError) and error.pointer and not error.position.line:
            position = position_in(self.state.snapshot.text(error.file), error.file, error.pointer)
            found = ConfigError(error.message, file=error.file, pointer=error.pointer, position=position)
            said, first = _sentences(found)
            if error.file == self.file.file:
                return said, first
        return f"{self.place(index)}: {said}", f"{first}; in {self.place(index)}"

    def _name_file(self, error: BackendError) -> None:
        """The endpoint's file, where the user's folder has it."""
        with suppress(ConfigError):
            file = self.state.snapshot.first(endpoint_files(self.state.user, error.endpoint))
            error.name_file(file or "")

    def failure(self, index: int, error: BaseException) -> WorkflowError:
        """The error of a node, wrapped with its place; what a child has wrapped already stays as it is."""
        let_go(error)
        if isinstance(error, WorkflowError):
            return error
        if isinstance(error, BackendError):
            self._name_file(error)
        called = f" (called by {shorten_chain(self.chain[:-1])})" if len(self.chain) > 1 else ""
        message, said = self._words(index, error)
        failure = WorkflowError(
            f"{message}{called}",
            workflow=self.file.file,
            node=index + 1,
            cause=error,
            chain=self.chain,
            said=f"{said}{called}",
        )
        failure.__cause__ = error
        return failure


def _sentences(error: BaseException) -> tuple[str, str]:
    """The text of an error, and the same with its cause first; the name of its class where it has none."""
    if not (isinstance(error, SPEAK_FOR_THEMSELVES) and str(error)):
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return text, text
    return str(error), error.cause_first() if isinstance(error, MiddlewareError) else str(error)


def shorten_chain(chain: tuple[str, ...]) -> str:
    """A chain of workflow names for messages, a long one by its ends."""
    return " > ".join(chain if len(chain) <= 12 else (*chain[:4], "...", *chain[-4:]))


def title_of(node: Mapping[str, Any]) -> str:
    """How a node is called in logs: `title`, else `agentName`, else nothing."""
    return str(node.get("title") or node.get("agentName") or "")


def responder_index(nodes: tuple[Mapping[str, Any], ...]) -> int:
    """The node that answers: the first with a truthy flag, else the last (-1: no nodes).

    Source: workflows.md 6.4.
    """
    for index, node in enumerate(nodes):
        if node["is_responder"] if "is_responder" in node else node.get("returnToUser"):
            return index
    return len(nodes) - 1


def plain_model(name: str, endpoint: str) -> WorkflowFile:
    """What runs where a client asks an endpoint and no workflow: one node that sends all it was sent. `name`:
    of the model. Source: operate.md 4.
    """
    node = {
        "type": DEFAULT_TYPE,
        "title": PLAIN_NODE,
        "endpointName": endpoint,
        "allowTools": True,
        "acceptImages": True,
        "forceGenerationPromptIfEndpointAllows": True,
        "clientParameters": list(WISH_NAMES),
    }
    return WorkflowFile(PLAIN_NODE, "", name, (MappingProxyType(node),))


# --------------------------------------------------------------------------
# What a run says of a node that starts, for clients that want to see it. Source: spec more-fronts.md 8.


def progress_batch(run: Run, start: int, end: int, of: int, what: str = "") -> Batch:
    """One chunk for each of the nodes from index `start` to before `end`, which start together. `of`: how
    many nodes there are up to the one that answers. `what`: what a node that has started does now.
    """
    does = f": {what}" if what else ""
    return [
        {
            "token": "",
            "finish_reason": None,
            "progress": {
                "number": index + 1,
                "of": of,
                "title": (" ".join(title_of(node).split()) or known_type(node.get("type"))) + does,
                "depth": len(run.chain) - 1,
            },
        }
        for index, node in enumerate(run.file.nodes[start:end], start)
    ]
