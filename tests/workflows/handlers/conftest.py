"""A node on the bench: a handler with a context whose engine is a small fake that records what it was asked."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from Middleware.common.request_context import ClientQuestion, RequestContext
from Middleware.config.loader import ConfigTree
from Middleware.config.users import UserSettings
from Middleware.config.validation import check
from Middleware.config.workflows import WorkflowFile
from Middleware.services.discussion_store import DiscussionStore
from Middleware.workflows.handlers.node_types import NODES, node_handler, node_schema
from Middleware.workflows.models.execution_context import (
    Branch,
    ChildCall,
    CleanAnswer,
    ExecutionContext,
    LlmCall,
    result_text,
)


class FakeEngine:
    """`fixed`: user-wide variables; `values`: run-time ones. `replies`, `child`: what model and children answer."""

    def __init__(self) -> None:
        self.fixed: dict[str, str] = {}
        self.values: dict[str, str] = {}
        self.warnings: list[str] = []
        self.children: list[ChildCall] = []
        self.calls: list[LlmCall] = []
        self.child: Callable[[ChildCall], Any] = lambda call: f"value of {call.name}"
        self.reply: Callable[[LlmCall], Any] = lambda call: f"reply {len(self.calls)}"
        self.taken: list[ExecutionContext | None] = []
        self.noted: dict[str, str] = {}
        self.locks: list[str] = []
        self.held = False
        self.cancelled = False

    def fill(
        self, context: ExecutionContext, text: str, messages: Any = None, drop_system: bool = False
    ) -> str:
        known = {**self.fixed, **self.values, "count": str(len(messages or context.messages))}
        return re.sub(r"\{(\w+)\}", lambda m: known.get(m[1], m[0]), text)

    def fill_parts(self, context: ExecutionContext, text: str) -> tuple[str, str | None]:
        filled = self.fill(context, text)
        marked = re.sub(r"\{(\w+)\}", lambda m: self.fixed.get(m[1], "\0"), text)
        head, mark, _ = marked.partition("\0")
        return filled, (head.rpartition("/")[0] or ".") if mark and head else None

    def fill_prefix(self, context: ExecutionContext, text: str) -> tuple[str, str | None]:
        marked = re.sub(r"\{(\w+)\}", lambda m: self.fixed.get(m[1], "\0" * (m[1] in self.values)), text)
        head, mark, _ = marked.partition("\0")
        return self.fill(context, text), head if mark else None

    def run_workflow(self, context: ExecutionContext, call: ChildCall) -> Any:
        self.children.append(call)
        return self.child(call)

    def dispatch(self, context: ExecutionContext, call: LlmCall) -> Any:
        self.calls.append(call)
        return self.reply(call)

    def with_node(self, context: ExecutionContext, config: Any) -> ExecutionContext:
        return replace(context, config=config)

    def acquire_lock(self, context: ExecutionContext, lock_id: str) -> bool:
        self.locks.append(lock_id)
        return not self.held

    def is_cancelled(self, context: ExecutionContext) -> bool:
        return self.cancelled

    def warn(self, context: ExecutionContext, message: str) -> None:
        self.warnings.append(message)


@dataclass(frozen=True)
class FakeContext(ExecutionContext):
    """A context whose methods ask the engine."""

    engine: FakeEngine = field(kw_only=True)

    def fill(
        self, text: str, *, messages: Any = None, drop_system: bool = False, steady: bool = False
    ) -> str:
        return self.engine.fill(self, text, messages, drop_system)

    def fill_parts(self, text: str) -> tuple[str, str | None]:
        return self.engine.fill_parts(self, text)

    def fill_prefix(self, text: str) -> tuple[str, str | None]:
        return self.engine.fill_prefix(self, text)

    def run_workflow(self, call: ChildCall) -> Any:
        return self.engine.run_workflow(self, call)

    def dispatch(self, call: LlmCall) -> Any:
        return self.engine.dispatch(self, call)

    def with_node(self, config: Any) -> ExecutionContext:
        return self.engine.with_node(self, config)

    def prepared(self, call: LlmCall) -> LlmCall:
        return call

    def branch(self, branch: Branch) -> ExecutionContext:
        return self

    def clean(self, answer: Any) -> CleanAnswer:
        return CleanAnswer(result_text(answer))

    def take_answer(self, of: ExecutionContext | None, usage: Any = None) -> None:
        self.engine.taken.append(of)

    def note_value(self, name: str, text: str) -> None:
        self.engine.noted[name] = text

    def acquire_lock(self, lock_id: str) -> bool:
        return self.engine.acquire_lock(self, lock_id)

    def is_cancelled(self) -> bool:
        return self.engine.is_cancelled(self)

    def warn(self, message: str) -> None:
        self.engine.warn(self, message)


class Bench:
    """Runs one node: `bench(type, field=..., ...)`; other facts of its context are attributes."""

    def __init__(self, folder: Path) -> None:
        self.engine = FakeEngine()
        self.folder = folder
        self.user = UserSettings("ana")
        self.messages: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
        self.discussion_id: str | None = None
        self.facts: dict[str, Any] = {}

    @property
    def store(self) -> DiscussionStore:
        """The files of discussion `d`, which the node then has."""
        self.discussion_id = "d"
        found = self.context("").store
        assert found is not None
        return found

    def context(self, type: str, **fields: Any) -> ExecutionContext:
        store = None
        if self.discussion_id:
            store = DiscussionStore(
                self.folder / "discussions", self.discussion_id, install=self.folder / "no-old-install"
            )
        context = FakeContext(
            engine=self.engine,
            request=RequestContext("r1", "ana", "openaichatcompletion"),
            user=self.user,
            snapshot=ConfigTree(self.folder).snapshot(),
            workflow_file=WorkflowFile("Main", "ana", "Workflows/ana/Main.json", (), {}),
            workflow_id="w1",
            question=ClientQuestion(self.messages, discussion_id=self.discussion_id),
            node_number=2,
            config={"type": type, **fields},
            messages=self.messages,
            keys=node_handler(type).ALL_KEYS,
            store=store,
        )
        return replace(context, **self.facts)

    def __call__(self, type: str, **fields: Any) -> Any:
        context = self.context(type, **fields)
        return NODES[type]().handle(context)

    def notes(self, type: str, **fields: Any) -> list[str]:
        return node_handler(type).dry_notes(self.context(type, **fields))

    def findings(self, type: str, **fields: Any) -> tuple[list[str], list[str]]:
        """Pointers of what breaks SCHEMA, and of what breaks ADVICE."""
        node = {"type": type, **fields}
        must, should = (
            [finding.pointer for finding in check(node, part, "f.json", level="error")]
            for part in node_schema(type)
        )
        return must, should


@pytest.fixture
def user_with() -> Callable[..., UserSettings]:
    """User `ana` with some settings."""
    return lambda **settings: UserSettings("ana", **settings)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)
