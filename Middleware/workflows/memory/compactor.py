"""Compacts a long conversation: the older part to one summary, the oldest to another, both kept in the
discussion.

Model work runs under a lease that nobody waits for. It is known which messages the oldest summary covers, so
that no crash, no edit and no branch folds a message in twice. Source: spec memory.md 10, 18.2 (6, 12, 18).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from Middleware.common.errors import ConfigError
from Middleware.common.types import Messages
from Middleware.services.compacted_messages import OLD_END, OLD_FILE, REACH_FILE, old_end
from Middleware.services.discussion_store import ChunkList, DiscussionStore, Entries, Entry
from Middleware.services.file_memories import End
from Middleware.utilities.hashing_utils import message_hash, text_hash
from Middleware.utilities.prompt_extraction_utils import leading_system_count
from Middleware.utilities.steady_window import begin_of_tokens
from Middleware.utilities.text_utils import stored_message_tokens
from Middleware.workflows.memory import calls
from Middleware.workflows.memory.calls import Templates, ask
from Middleware.workflows.memory.chunking import content, unprocessed_range
from Middleware.workflows.memory.settings import COMPACTOR_SETTING, SettingsFile, named_settings
from Middleware.workflows.models.execution_context import ExecutionContext

OLDEST_FILE = "context_compactor_oldest.json"
LEASE = "compactor"
BOUNDARY = "__boundary__"
_STATES = 3
_LEAST_RECENT = 0.25
"""So much of its budget a Recent that stands holds, where a message to begin with leaves it."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Oldest is `messages[:old]`, Old `messages[old:recent]`, Recent the rest."""

    messages: Messages
    old: int
    recent: int

    @property
    def boundary(self) -> str:
        return _message_place(self.messages, self.old)

    @property
    def old_end(self) -> str:
        """Hash of the last message of Old."""
        return message_hash(self.messages[self.recent - 1])

    @property
    def old_end_place(self) -> str:
        return _message_place(self.messages, self.recent - 1)


def windows_of(messages: Messages, settings: SettingsFile) -> Windows | None:
    """The windows of a conversation; None: fewer than two messages are left, or Old is empty."""
    lookback = settings.whole_number("lookbackStartTurn")
    if 0 < lookback < len(messages):
        messages = messages[: len(messages) - lookback]
    if len(messages) < 2:
        return None
    recent = _recent_start(messages, settings)
    old = _start(messages, recent, settings.scaled_size("oldContextTokens"))
    return Windows(messages, old, recent) if old < recent else None


def _recent_start(messages: Messages, settings: SettingsFile) -> int:
    """Where Recent begins. One that stands begins at the smallest mark that leaves enough of it, so that it,
    and with it Old, is the same for many turns. Source: prompt-reuse.md 1.
    """
    budget = settings.scaled_size("recentContextTokens")
    start = _start(messages, len(messages), budget)
    if start == 0 or not settings.flag("steadyWindow"):
        return start
    recent = messages[start:]
    sizes = [stored_message_tokens(content(message)) for message in recent]
    return start + begin_of_tokens(recent, sizes, budget * _LEAST_RECENT, keep=2)


def _start(messages: Messages, end: int, budget: int) -> int:
    """Where the longest run of messages before `end` begins that fits the budget."""
    start, total = end, 0
    while start:
        total += stored_message_tokens(content(messages[start - 1]))
        if total > budget:
            break
        start -= 1
    return start


def waits(context: ExecutionContext, newest: int) -> bool:
    """Whether the conversation without its lookback and as many more of its `newest` messages fits into
    Recent, so that no summary can be missed yet. False: the user has no compactor, or not a usable one.
    """
    name = context.user.context_compactor_settings_file
    if not name:
        return False
    try:
        settings = named_settings(context, name, COMPACTOR_SETTING)
        left_out = newest + settings.whole_number("lookbackStartTurn")
        budget = settings.scaled_size("recentContextTokens")
    except ConfigError:
        return False
    front = leading_system_count(context.messages)
    messages = context.messages[front : max(front, len(context.messages) - left_out)]
    return _start(messages, len(messages), budget) == 0


def is_due(store: DiscussionStore, windows: Windows) -> bool:
    """Whether what is stored was made for other windows."""
    stored = ChunkList(store, OLD_FILE).load()
    if len(stored) < 2:
        return True
    covered = stored[1].hash.rpartition(":")[2]
    if covered != message_hash(windows.messages[windows.old]) or stored[0].hash != windows.old_end:
        return True
    end = old_end(ChunkList(store, REACH_FILE).load())
    edges = (stored[1].hash, windows.old), (end, windows.recent - 1)
    return any(_has_moved(windows.messages, place, index) for place, index in edges)


def _has_moved(messages: Messages, stored: str, place: int) -> bool:
    """Whether the message at `place` is another one than the stored one, whose text it has.

    A text that stands once is the same message, wherever it stands now.
    """
    index, _, covered = stored.rpartition(":")
    if not index.isdecimal() or int(index) == place or covered != message_hash(messages[place]):
        return False
    return sum(message_hash(message) == covered for message in messages) > 1


def compact(context: ExecutionContext, store: DiscussionStore, settings: SettingsFile) -> None:
    """Bring both summaries up to date, unless they are, or another request is at it.

    Raises ConfigError, BackendError, RequestCancelled.
    """
    windows = windows_of(context.messages, settings)
    if windows is None or not is_due(store, windows):
        return
    with store.lease(LEASE, 0) as held:
        if held and is_due(store, windows):
            _Compactor(context, store, settings).work(windows)


def tagged_summaries(store: DiscussionStore) -> str:
    """Both summaries in tags; `""` when there are none."""
    parts = []
    for name, tag in ((OLD_FILE, "context_compactor_old"), (OLDEST_FILE, "context_compactor_oldest")):
        entries = ChunkList(store, name).load()
        if entries and entries[0].text:
            parts.append(f"<{tag}>{entries[0].text}</{tag}>")
    return "\n".join(parts)


class _Compactor:
    """The work on one pair of summaries; at most three calls."""

    def __init__(self, context: ExecutionContext, store: DiscussionStore, settings: SettingsFile) -> None:
        self._context, self._store, self._settings = context, store, settings
        self._old, self._oldest = ChunkList(store, OLD_FILE), ChunkList(store, OLDEST_FILE)
        self._reach = ChunkList(store, REACH_FILE)

    def work(self, windows: Windows) -> None:
        """The oldest summary is saved first: the old one says that the work is done."""
        old_text = _lines(windows.messages[windows.old : windows.recent])
        values = {
            "[MESSAGES_TO_SUMMARIZE]": old_text,
            "[RECENT_MESSAGES]": _lines(windows.messages[windows.recent :]),
        }
        old = self._ask("oldSection", Templates(calls.OLD_SYSTEM, calls.OLD_PROMPT), values)
        if windows.old:
            self._fold(windows)
        self._old.replace(
            Entry(old if old.strip() else old_text, windows.old_end), Entry(BOUNDARY, windows.boundary)
        )
        self._reach.update(lambda known: [*_states(known), Entry(OLD_END, windows.old_end_place)])

    def _fold(self, windows: Windows) -> None:
        """Work the messages that have left Old into the oldest summary."""
        stored = self._oldest.load()
        existing = stored[0].text if stored else ""
        start = self._oldest_uncovered(windows.messages, existing)
        if start is None:
            self._context.warn(
                "the place up to which the oldest summary reached no longer exists, so the summary is rebuilt"
            )
            start, existing = 0, ""
        shifted = windows.messages[start : windows.old]
        if not shifted:
            return
        text = _lines(shifted)
        values = {"[MESSAGES_TO_SUMMARIZE]": text}
        templates = Templates(calls.NEUTRAL_SYSTEM, calls.NEUTRAL_PROMPT)
        neutral = self._ask("neutralSummary", templates, values)
        new = neutral if neutral.strip() else text
        values = {"[EXISTING_SUMMARY]": existing, "[NEW_CONTENT]": new}
        merged = self._ask("oldestUpdate", Templates(calls.OLDEST_SYSTEM, calls.OLDEST_PROMPT), values)
        whole = merged if merged.strip() else existing or new
        folded = map(message_hash, shifted)
        state = Entry(text_hash(whole), " ".join((windows.boundary, *folded)))
        before = _states_up_to(self._reach.load(), existing) if start else []
        self._reach.update(lambda _: _newest([*before, state]))
        self._oldest.replace(Entry(whole, message_hash(windows.messages[0])))

    def _oldest_uncovered(self, messages: Messages, existing: str) -> int | None:
        """Index of the first message that is not in the oldest summary; None: that cannot be told any
        more.
        """
        if not existing:
            return 0  # none yet, or it was lost: what had been in it is folded in again
        states = _states_up_to(self._reach.load(), existing)
        covered = tuple(each for state in states for each in _folded(state))
        if covered:
            return unprocessed_range(messages, (End(covered[-1], messages=covered),), 0)[0] or None
        if states:
            boundaries = [state.hash for state in reversed(states)]
        else:
            boundaries = [entry.hash for entry in self._old.load()[1:2]]
        if not boundaries:
            return 0
        found = (_place(messages, boundary) for boundary in boundaries)
        return next((place for place in found if place is not None), None)

    def _ask(self, name: str, default: Templates, values: Mapping[str, str]) -> str:
        settings = self._settings
        length = settings.whole_number("maxResponseSizeInTokens", minimum=1)
        templates = Templates(
            settings.text(f"{name}SystemPrompt", default.system),
            settings.text(f"{name}Prompt", default.prompt),
        )
        config = settings.node({"maxResponseSizeInTokens": length})
        return ask(self._context, config, templates, values, variables=False)


def _states(known: Entries) -> list[Entry]:
    """The states of the oldest summary."""
    return [entry for entry in known if entry.text != OLD_END]


def _states_up_to(known: Entries, summary: str) -> list[Entry]:
    """The states that led to this summary, and its own; none: another program made it."""
    states = _states(known)
    places = [place for place, state in enumerate(states) if state.text == text_hash(summary)]
    return states[: places[-1] + 1] if places else []


def _folded(state: Entry) -> list[str]:
    """Hashes of the messages that a state has and the one before has not; none in older files."""
    return state.hash.split()[1:]


def _newest(states: Sequence[Entry]) -> list[Entry]:
    """The newest states; the first one takes over the messages of those that are left out."""
    first = len(states) - _STATES
    if first <= 0:
        return [*states]
    folded = (each for state in states[:first] for each in _folded(state))
    boundary, *own = states[first].hash.split()
    return [Entry(states[first].text, " ".join((boundary, *folded, *own))), *states[first + 1 :]]


def _message_place(messages: Messages, index: int) -> str:
    """A message by its place and its hash."""
    return f"{index}:{message_hash(messages[index])}"


def _place(messages: Messages, boundary: str) -> int | None:
    """Where the message of a boundary (`<index>:<hash>`, or a hash alone) stands now.

    Of several with its text it is the one that is nearest to its old place.
    """
    index, _, covered = boundary.rpartition(":")
    before = int(index) if index.isdecimal() else 0
    places = [place for place, message in enumerate(messages) if message_hash(message) == covered]
    return min(places, key=lambda place: abs(place - before), default=None)


def _lines(messages: Sequence[Mapping[str, object]]) -> str:
    return "\n".join(f"{message.get('role')}: {message.get('content') or ''}" for message in messages)
