"""What a node of a run did, and each of its calls: the plain values of a trace.

Written by the one thread that works on them, read by anyone. Source: spec console.md 3.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from Middleware.common.costs import Cost
from Middleware.services.held_prompts import Comparison, PromptPlace

NOT_YET = 0.0


@dataclass(slots=True, eq=False)
class CallTrace:
    """One call to something outside. Times: `time.monotonic()`, 0.0 = not yet.

    `kind`: `model`, `embedding`; `http`, `command`, `mcp`, `script`, `workflow`, `memory`, `tool` (one that
    is not there; no endpoint; `backend`: who was called). `outcome`: finish reason, `done`, `cancelled`,
    `closed`, `dropped` or the kind of a failure. `backup_of`: the endpoint that failed before. `address`:
    which one of several the endpoint has; empty: it has one. `usage`: as the backend reported it (`prompt_s`:
    how long it read). `truncated`: its stream ended without its end mark. `thought`: when its first thought
    was heard, beside its text or in it; 0.0: none was. `error`: what was said of a failure. `body`: the bytes
    that were posted; of a long one its ends (`kept_body`), and `body_left_out` bytes stood between. `raw`,
    `cleaned`: the text before and after cleaning; `cleaning`: what it was cleaned by (endpoint, node, user,
    opening). Bodies, headers and texts only where the run `keeps_text`. `prompt_chars`: of a model's prompt;
    `compared`, `shared_chars`, `leaves`, `expected_chars`: it beside the best of the last prompts that the
    same server was sent, as `held_prompts.Comparison`; numbers alone, so private runs have them too.
    `machine`: the word of its endpoint. `load_s`: seconds in which the backend loaded the model; None: it did
    not say. `cost`: None: its endpoint has no price, or it failed before anything came. `tool`: of a call of
    a tool by an agent, the tool's name, "" for one that is not there; None: no agent calls. `chosen`: of
    several answers its is the one that was taken. `samplers`: of a model, under the names of its backend.
    `numbers`: what a model was asked with, by the names that its backend knows; `max_tokens`: 0, None: no
    limit was sent; `stream`: it was asked to stream. `answered_by`: the model's name in the answer; empty:
    none was said.
    """

    kind: str
    endpoint: str
    backend: str
    model: str
    url: str = ""
    body: bytes = field(default=b"", repr=False)
    body_left_out: int = 0
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    begun: float = field(default_factory=time.monotonic)
    sent: float = NOT_YET
    first: float = NOT_YET
    thought: float = NOT_YET
    ended: float = NOT_YET
    tries: int = 0
    status: int | None = None
    outcome: str = ""
    finish_reason: str | None = None
    usage: Mapping[str, Any] | None = None
    truncated: bool = False
    backup_of: str = ""
    address: str = ""
    error: str = ""
    raw: str | None = field(default=None, repr=False)
    cleaned: str | None = field(default=None, repr=False)
    thoughts: list[str] = field(default_factory=list, repr=False)
    cleaning: tuple[Any, ...] | None = field(default=None, repr=False)
    prompt_chars: int = 0
    shared_chars: int = 0
    compared: bool = False
    leaves: PromptPlace | None = None
    expected_chars: int = 0
    machine: str = ""
    load_s: float | None = None
    cost: Cost | None = None
    tool: str | None = None
    chosen: bool = False
    numbers: Mapping[str, float] = field(default_factory=dict)
    samplers: Mapping[str, Any] = field(default_factory=dict, repr=False)
    max_tokens: int | None = None
    stream: bool = False
    answered_by: str = ""

    def note_prompt(self, chars: int, seen: Comparison) -> None:
        """How long its prompt is, and how much of it was sent before to the same server."""
        self.prompt_chars, self.expected_chars = chars, seen.expected_chars
        self.compared, self.shared_chars, self.leaves = seen.compared, seen.shared_chars, seen.leaves

    def note_cleaning(
        self, raw: str, cleaned: str, thoughts: list[str], cleaning: tuple[Any, ...] | None
    ) -> None:
        """What cleaning made of its text."""
        self.raw, self.cleaned, self.thoughts, self.cleaning = raw, cleaned, thoughts, cleaning

    @property
    def prompt_s(self) -> float | None:
        """Seconds in which the backend read the prompt; None: it did not say."""
        told = (self.usage or {}).get("prompt_duration_ns")
        return told / 1e9 if isinstance(told, int) else None


@dataclass(slots=True, eq=False)
class Wait:
    """A call of a node waits before it is made. `what`: for what, the end of a sentence (`a slot of Big`).
    Times as of `CallTrace`.
    """

    what: str
    begun: float = field(default_factory=time.monotonic)
    ended: float = NOT_YET


@dataclass(slots=True, eq=False)
class NodeTrace:
    """One node of one run of one workflow file.

    `of`: how many nodes the file has. `label`: the key by which its parent chose this workflow. `answers`: it
    gives the client its answer; `after`: it runs when the client has it. `state`: `running`, `answering`,
    `done`, `failed`, `went_on` (failed, `onNodeError: continue`), `cancelled`, `kept` (it did not run and
    gives what it gave in the run that this one repeats), and beside those of the specification `stopped` (a
    lock is held) and `refused` (it takes a parameter of the client that cannot be). `error_kind`: of a
    failure, in one word. `fields`: the node as it stands in its file; `file_nodes`: all of that file.
    `output`: what the nodes after it see of it; `values`: what else they can name, by the end of that name;
    `tokens`: an estimate of its output. `dropped`: messages left out, to fit the context. `waits`: of its
    calls, where there was no turn at once. `steps`: of an agent: how many it made; `limit`: the limit that
    ended it, empty: none did.
    """

    workflow: str
    number: int
    type: str
    title: str = ""
    of: int = 0
    group: str | None = None
    parent: NodeTrace | None = field(default=None, repr=False)
    label: str = ""
    depth: int = 0
    answers: bool = False
    after: bool = False
    endpoint: str = ""
    url: str = ""
    preset: str = ""
    begun: float = field(default_factory=time.monotonic)
    ended: float = NOT_YET
    state: str = "running"
    error: str = ""
    error_kind: str = ""
    warnings: list[str] = field(default_factory=list, repr=False)
    fields: Mapping[str, Any] = field(default_factory=dict, repr=False)
    file_nodes: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    output: Any = field(default=None, repr=False)
    thoughts: list[str] = field(default_factory=list, repr=False)
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)
    tokens: int = 0
    dropped: int = 0
    calls: list[CallTrace] = field(default_factory=list, repr=False)
    waits: list[Wait] = field(default_factory=list, repr=False)
    steps: int = 0
    limit: str = ""

    @property
    def seconds(self) -> float:
        """How long it took; 0.0 while it runs."""
        return self.ended - self.begun if self.ended else 0.0

    def end(self) -> None:
        """It is over; what has no worse state is done."""
        self.ended = time.monotonic()
        if self.state in ("running", "answering"):
            self.state = "done"

    @property
    def last_model_call(self) -> CallTrace | None:
        """The call whose text is the node's."""
        return next((call for call in reversed(self.calls) if call.kind == "model"), None)

    def note_cleaning(
        self, raw: str, cleaned: str, thoughts: list[str], cleaning: tuple[Any, ...] | None
    ) -> None:
        """What cleaning made of the text of its last call."""
        if (call := self.last_model_call) is not None:
            call.note_cleaning(raw, cleaned, thoughts, cleaning)
