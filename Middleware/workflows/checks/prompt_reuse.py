"""How much of its prompts a model server would read again in each turn of a chat, without any model.

A conversation is walked turn by turn with the stub model of a dry run, against servers that hold the last
prompts of each endpoint and model; of those the one with the longest common beginning counts. What nodes
remember is kept in a discussion of the walk's own, which is empty at the beginning and gone at the end. Calls
nothing, writes nothing else. Source: spec prompt-reuse.md 4.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from Middleware.common.request_context import ClientQuestion, RequestContext, enter_request
from Middleware.common.types import Batches, JsonObject, Messages, NodeConfig
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.users import UserSettings
from Middleware.services.chat_fronts import ChatFronts
from Middleware.services.run_trace import json_text
from Middleware.services.shared_state.member import Member
from Middleware.services.token_ratios import MOST_SAMPLES, learning_apart, token_ratios
from Middleware.utilities.prompt_extraction_utils import discussion_id as discussion_id_of
from Middleware.utilities.prompt_extraction_utils import without_discussion_tags
from Middleware.utilities.text_utils import estimate_tokens
from Middleware.workflows.checks.dry_run import (
    NO_CHANGES,
    ROUTING,
    DryCall,
    DryNode,
    DryRun,
    NodeChanges,
    Sent,
)

NodeKey = tuple[str, int]
"""Workflow file and number of a node."""
OpenRun = Callable[[DryRun, ClientQuestion], Batches]

SYSTEM, TOOLS, PROMPT, WINDOW = "system", "tools", "prompt", "window"
MESSAGE, LATE, NEWEST = "message", "late", "newest"
"""Where a prompt can leave the best one that is held."""
_TAKEN_OVER = 0.1
"""A prompt that shares less than this with a held one takes a place of its own."""
_CHARS_OF_A_TOKEN = 4
"""What a server is taken to count, where the estimation level is `measured`."""

# --------------------------------------------------------------------------
# The conversation.


class ChatRequest(NamedTuple):
    """What a client sends, and the answer that it got then; empty: none yet."""

    messages: Messages
    answer: str


def chat_requests(messages: Messages) -> list[ChatRequest]:
    """The requests that led to a conversation: one before each message of the assistant, one at the end."""
    found = [
        ChatRequest(messages[:index], message["content"])
        for index, message in enumerate(messages)
        if message["role"] == "assistant" and any(earlier["role"] == "user" for earlier in messages[:index])
    ]
    if messages and messages[-1]["role"] != "assistant":
        found.append(ChatRequest(messages, ""))
    return found


_WORDS = (
    *("harbour", "lamp", "winter", "letter", "garden", "market", "copper", "kettle", "ladder", "orchard"),
    *("ribbon", "compass", "meadow", "thunder", "cellar", "window", "marble", "ferry", "willow", "basket"),
)


def made_conversation(turns: int = 40, *, system_chars: int = 3000) -> Messages:
    """A conversation of two: a system prompt of 3,000 characters, users' messages of 300, answers of 400."""
    messages: Messages = [
        {"role": "system", "content": _made_text("You are Mara, a ferry captain.", 1, system_chars)}
    ]
    for turn in range(turns):
        messages.append({"role": "user", "content": _made_text(f"Turn {turn}:", 2 * turn + 2, 300)})
        messages.append({"role": "assistant", "content": _made_text(f"Answer {turn}:", 2 * turn + 3, 400)})
    return messages[:-1]


def _made_text(beginning: str, seed: int, length: int) -> str:
    words, number = [beginning], seed
    size = len(beginning)
    while size < length:
        number = (number * 48271 + seed) % 2147483647
        words.append(f"{_WORDS[number % len(_WORDS)]}{number % 89}")
        size += len(words[-1]) + 1
    return " ".join(words)[:length]


# --------------------------------------------------------------------------
# What servers hold.


@dataclass(frozen=True, slots=True)
class SentText:
    """One prompt as a server reads it. `parts`: role, start and end of each message's text. `late_at`: where
    the late text begins, -1: there is none. `node`: whose it is.
    """

    text: str
    parts: Sequence[tuple[str, int, int]]
    late_at: int
    node: NodeKey

    @classmethod
    def of(cls, sent: Sent, node: NodeKey) -> SentText:
        text, parts = "", []
        for role, content in _roles_and_texts(sent.body):
            opening = f"<|{role}|>\n" if role else ""
            start = len(text) + len(opening)
            text += f"{opening}{content}\n" if role else content
            parts.append((role, start, start + len(content)))
        if parts and parts[-1][0]:
            text += "<|assistant|>\n"
        late_at = text.rfind(sent.late_text) if sent.late_text.strip() else -1
        return cls(text, parts, late_at, node)


def _roles_and_texts(body: JsonObject) -> Iterator[tuple[str, str]]:
    """Of a payload of any backend; a flat prompt has no role."""
    if tools := body.get("tools"):
        yield "tools", json_text(tools)
    messages = body.get("messages")
    if system := body.get("system"):
        yield "system", _content_text(system)
    for message in messages if isinstance(messages, list) else ():
        yield str(message.get("role")), _content_text(message.get("content"))
    if messages is None and isinstance(prompt := body.get("prompt"), str):
        yield "", prompt


def _content_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "[picture]") for part in content or () if isinstance(part, dict))


def count_common(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginning."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class HeldTexts:
    """The last prompts of each endpoint and model, each with what the model answered."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._held: dict[tuple[str, str], list[tuple[str, SentText]]] = {}

    def read(self, server: tuple[str, str], prompt: SentText, answer: str) -> tuple[int, SentText | None]:
        """How many characters at the beginning of `prompt` were held, and in which prompt; None: nothing was
        held at all. From now on the prompt and its answer are.
        """
        held = self._held.setdefault(server, [])
        shared, best = 0, None
        for one in held:
            common = count_common(one[0], prompt.text)
            if best is None or common > shared:
                shared, best = common, one
        if best is not None and shared >= _TAKEN_OVER * len(prompt.text):
            held.remove(best)
        elif len(held) >= self._slots:
            held.pop(0)
        held.append((prompt.text + answer, prompt))
        return shared, best[1] if best is not None else None


# --------------------------------------------------------------------------
# Where a prompt leaves the one that is held.


class Leaving(NamedTuple):
    """`number`: the character of the part, or which message. `other`: the node whose prompt is held there, if
    it is not the node's own.
    """

    kind: str
    number: int = 0
    other: NodeKey | None = None


def find_leaving(prompt: SentText, shared: int, held: SentText, *, authored: bool) -> Leaving:
    """Where `prompt` leaves `held` behind `shared` characters. `authored`: the node has its own."""
    other = held.node if held.node != prompt.node else None
    if shared >= len(prompt.text):
        return Leaving(NEWEST)
    index = next(
        i for i, (_, _, end) in enumerate(prompt.parts) if shared <= end or i + 1 == len(prompt.parts)
    )
    role, start, _ = prompt.parts[index]
    front = next(
        (i for i, part in enumerate(prompt.parts) if part[0] not in (SYSTEM, TOOLS)), len(prompt.parts)
    )
    character = max(0, shared - start)
    if index < front:
        return Leaving(role, character, other)
    if authored:
        return Leaving(PROMPT, character, other)
    if 0 <= prompt.late_at <= shared or 0 <= held.late_at <= shared < len(held.text):
        return Leaving(LATE, 0, other)
    if shared >= len(held.text) - len("<|assistant|>\n"):
        return Leaving(NEWEST)
    if index == front and role:
        return Leaving(WINDOW, 1, other)
    return Leaving(MESSAGE, index - front + 1, other)


# --------------------------------------------------------------------------
# The walk.


@dataclass(slots=True)
class NodeReading:
    """What one node sent in all turns. Characters as they are, tokens estimated."""

    key: NodeKey
    title: str
    depth: int
    endpoint: str
    server: tuple[str, str]
    config: NodeConfig
    calls: int = 0
    chars: int = 0
    new_chars: int = 0
    tokens: int = 0
    new_tokens: int = 0
    leavings: list[tuple[Leaving, int]] = field(default_factory=list)
    """Each with the characters behind it."""

    def main_leaving(self) -> tuple[Leaving, int] | None:
        """The place that costs most, and how many of the calls leave there; None: nothing was held."""
        costs: dict[str, int] = {}
        for leaving, lost in self.leavings:
            costs[leaving.kind] = costs.get(leaving.kind, 0) + lost
        if not costs:
            return None
        kind = max(costs, key=lambda each: costs[each])
        those = [leaving for leaving, _ in self.leavings if leaving.kind == kind]
        return min(those, key=lambda each: each.number), len(those)


@dataclass(slots=True)
class ReuseReport:
    """What the counted turns of a walk cost. `ahead`: what is read ahead for a node, before it asks.
    `new_tokens`: of what is read what no server could have held. `waited_*`: what is read before the answer.
    `routers`: nodes that pick a branch, with its names.
    """

    turns: int
    slots: int
    nodes: dict[NodeKey, NodeReading] = field(default_factory=dict)
    ahead: dict[NodeKey, NodeReading] = field(default_factory=dict)
    new_tokens: int = 0
    new_chars: int = 0
    waited_tokens: int = 0
    waited_chars: int = 0
    routers: dict[NodeKey, list[str]] = field(default_factory=dict)
    chars_of_turns: list[int] = field(default_factory=list)
    """Characters that are read, of each turn."""

    @property
    def rows(self) -> list[NodeReading]:
        """Of all that servers read."""
        return [*self.nodes.values(), *self.ahead.values()]

    @property
    def read_tokens(self) -> int:
        return sum(row.new_tokens for row in self.rows)

    @property
    def read_chars(self) -> int:
        return sum(row.new_chars for row in self.rows)

    def of_a_turn(self, total: int) -> int:
        return round(total / max(1, self.turns))


@dataclass(frozen=True, slots=True)
class _WalkedChat:
    """What the turns of one walk share. `discussions`: the folder of its own discussion."""

    discussion: str | None
    changes: NodeChanges
    fronts: ChatFronts
    discussions: Path


@dataclass(frozen=True, slots=True)
class TurnWalk:
    """One user's conversation to be walked. `open_run`: begins the run of one turn. `turns`: how many of the
    last are counted; as many before them are walked, so that servers hold what they would, or all, where
    nodes remember. `has_discussion`: the chat has an id, also where its messages do not name one.
    """

    snapshot: ConfigSnapshot
    user: UserSettings
    open_run: OpenRun
    messages: Messages
    turns: int = 12
    slots: int = 1
    has_discussion: bool = False

    def report(self, changes: NodeChanges = NO_CHANGES) -> ReuseReport:
        """Raises what a run raises: ConfigError, WorkflowError."""
        asked = chat_requests([_without_tag(message) for message in self.messages])
        counted = max(0, len(asked) - self.turns)
        begin = max(0, counted - max(self.turns + self.slots, MOST_SAMPLES))
        report = self._report_from(begin, asked, changes)
        return report or self._report_from(0, asked, changes) or ReuseReport(0, self.slots)

    def _report_from(
        self, begin: int, asked: Sequence[ChatRequest], changes: NodeChanges
    ) -> ReuseReport | None:
        """None: what nodes remember of the turns before `begin` counts, too."""
        report = ReuseReport(min(self.turns, len(asked)), self.slots)
        held, member = HeldTexts(self.slots), Member()
        with tempfile.TemporaryDirectory(prefix="reuse-") as folder, learning_apart():
            chat = _WalkedChat(self._discussion(), changes, ChatFronts(lambda: member), Path(folder))
            for number in range(begin, len(asked)):
                before = asked[number - 1].messages if number else []
                walk = self._walk_turn(asked[number], chat)
                if walk.kept_something and begin:
                    return None
                turn = _Turn(asked[number], _added_text(before, asked[number].messages))
                turn.read(walk.calls, held)
                report.routers |= _routers(walk)
                if number >= len(asked) - self.turns:
                    turn.count_in(report)
        return report

    def _discussion(self) -> str | None:
        """A new id, where the chat has one."""
        found = self.has_discussion or self.user.discussion_id_from_header or discussion_id_of(self.messages)
        return uuid.uuid4().hex if found else None

    def _walk_turn(self, asked: ChatRequest, chat: _WalkedChat) -> DryRun:
        request = RequestContext("reuse", self.user.name, "openaichatcompletion", snapshot=self.snapshot)
        walk = DryRun(
            self.user,
            request,
            answer=asked.answer or None,
            changes=chat.changes,
            discussions=chat.discussions,
        )
        walk.state.fronts = chat.fronts
        question = ClientQuestion(asked.messages, False, discussion_id=chat.discussion)
        with enter_request(request):
            for _ in self.open_run(walk, question):
                continue
        return walk


def _routers(walk: DryRun) -> dict[NodeKey, list[str]]:
    """Nodes that pick a branch, and the user's routing, with the names to pick from."""
    routers: dict[NodeKey, list[str]] = {ROUTING: walk.categories} if walk.categories else {}
    for node in walk.nodes:
        if isinstance(branches := node.config.get("conditionalWorkflows"), dict):
            routers[node.workflow, node.number] = [name for name, to in branches.items() if to]
    return routers


def _without_tag(message: Any) -> Any:
    return {**message, "content": without_discussion_tags(message["content"])}


def _added_text(before: Messages, after: Messages) -> str:
    """What the client's messages have more than at the turn before."""
    return "\n".join(message["content"] for message in after[len(before) :])


def _key(node: DryNode) -> NodeKey:
    return node.workflow, node.number


def _is_read(reading: DryCall, calls: Sequence[DryCall]) -> bool:
    """Whether a prompt is read ahead to its end: a call to its server would stop what `start` has begun."""
    if reading.ahead != "start":
        return True
    for call in calls:
        if call.ahead:
            continue
        if _key(call.node) == _key(reading.node):
            return True
        if call.sent.address == reading.sent.address:
            return False
    return True


class _Read(NamedTuple):
    call: DryCall
    prompt: SentText
    shared: int
    leaving: Leaving | None

    @property
    def server(self) -> tuple[str, str]:
        return self.call.sent.url, str(self.call.sent.body.get("model", ""))


class _Turn:
    """What the servers read in one turn."""

    def __init__(self, asked: ChatRequest, added: str) -> None:
        self._asked, self._added = asked, added
        self._reads: list[_Read] = []

    def read(self, calls: Sequence[DryCall], held: HeldTexts) -> None:
        for call in calls:
            if not _is_read(call, calls):
                continue
            sent = call.sent
            prompt = SentText.of(sent, _key(call.node))
            made = _Read(call, prompt, 0, None)
            shared, best = held.read(made.server, prompt, sent.answer)
            if best is not None:
                leaving = find_leaving(prompt, shared, best, authored=sent.authored)
                made = made._replace(shared=shared, leaving=leaving)
            if sent.estimate is not None:
                token_ratios().note(*sent.estimate, len(prompt.text) // _CHARS_OF_A_TOKEN)
            self._reads.append(made)

    def count_in(self, report: ReuseReport) -> None:
        added, added_chars = estimate_tokens(self._added), len(self._added)
        by_server: dict[tuple[str, str], list[int]] = {}
        for read in self._reads:
            sent = read.call.sent
            new_chars = len(read.prompt.text) - read.shared
            new_tokens = estimate_tokens(read.prompt.text[read.shared :])
            self._count_node(report, read, new_chars, new_tokens)
            if not sent.behind:
                report.waited_tokens += new_tokens
                report.waited_chars += new_chars
            sums = by_server.setdefault(read.server, [0, 0, added, added_chars])
            new = (new_tokens, new_chars, estimate_tokens(sent.late_text), len(sent.late_text))
            for place, more in enumerate(new):
                sums[place] += more
        report.new_tokens += sum(min(sums[0], sums[2]) for sums in by_server.values())
        report.new_chars += sum(min(sums[1], sums[3]) for sums in by_server.values())
        report.chars_of_turns.append(sum(sums[1] for sums in by_server.values()))

    @staticmethod
    def _count_node(report: ReuseReport, read: _Read, new_chars: int, new_tokens: int) -> None:
        node, key = read.call.node, read.prompt.node
        rows = report.ahead if read.call.ahead else report.nodes
        row = rows.get(key)
        if row is None:
            endpoint = read.call.sent.endpoint
            row = rows[key] = NodeReading(key, node.title, node.depth, endpoint, read.server, node.config)
        row.calls += 1
        row.chars += len(read.prompt.text)
        row.new_chars += new_chars
        row.tokens += estimate_tokens(read.prompt.text)
        row.new_tokens += new_tokens
        if read.leaving is not None:
            row.leavings.append((read.leaving, new_chars))
