"""Which beginnings of prompts a model server may still hold, as far as this process has sent them.

A prompt is known by a chain of digests: one for each 256 characters of each message (the first with its
role), each made with the one before it. Two prompts are the same up to the last digest that they share. The
digests are Python's `hash` of `str`, which is keyed at random in each process: no text is kept, and nobody
can try texts on what is. Knows no backend and no payload: it is given roles and texts.

Who chooses among several servers asks `shared_chars`, which records nothing; the call that is then sent is
recorded, once:

    prompt = PromptDigest.of([("system", card), ("user", "Hello")])
    best = max(addresses, key=lambda address: held.shared_chars(address, model, prompt))
    seen = held.record(best, model, prompt)

Source: spec prompt-reuse.md 3.2.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

BLOCK_CHARS = 256
MOST_CHARS = 4 << 20
"""Of a longer prompt only the first so many characters are compared."""
MOST_PROMPTS = 8
MOST_SERVERS = 64
MOST_DIGESTS = 1_000_000
_MOST_OF_ONE = MOST_DIGESTS // MOST_PROMPTS
_HEAD_ROLES = ("tools", "system", "developer")
_ROLES = (*_HEAD_ROLES, "user", "assistant", "tool", "prompt")
_BEHIND = 2
"""Messages at the end of a prompt that the next one need not share: the newest, and what stands beside it."""


class PromptPlace(NamedTuple):
    """Where a prompt leaves another: `message` counts from 1, tools in front of all are 0; `character` of its
    text is known to 256. `role` is that of the message; one that a client made up is empty: it may be a
    text."""

    message: int
    character: int
    role: str


class Comparison(NamedTuple):
    """A prompt beside the best of those that were sent before to the same address and model.

    `compared`: False where none was. `shared_chars`: how much of its beginning was in the best one. `leaves`:
    where the two part, None: nowhere, or nothing was compared. `expected_chars`: how much could have been in
    common: the best one but for its last two messages.
    """

    compared: bool = False
    shared_chars: int = 0
    leaves: PromptPlace | None = None
    expected_chars: int = 0


class PromptDigest:
    """One prompt as digests. Never changed.

    `digests`: chained, so those that two prompts share stand in front. `chars`: of the whole prompt.
    `head_chars`: of its tools and the system messages before anything else, which many conversations may
    share.
    """

    __slots__ = ("_lengths", "_roles", "_starts", "chars", "digests", "expected_chars", "head_chars")

    def __init__(
        self, roles: Sequence[str], lengths: Sequence[int], digests: array[int], starts: Sequence[int]
    ) -> None:
        """Of each message its role, its characters and, as far as it is compared, the index of its first
        digest."""
        self._roles, self._lengths, self.digests, self._starts = roles, lengths, digests, starts
        self.chars = sum(lengths)
        behind = next((at for at, role in enumerate(roles) if role not in _HEAD_ROLES), len(roles))
        self.head_chars = sum(lengths[:behind])
        self.expected_chars = self.chars - sum(lengths[-_BEHIND:])

    @classmethod
    def of(cls, parts: Iterable[tuple[str, str]]) -> PromptDigest:
        """Of the messages in their order as `(role, text)`. Tools are the first one, of the role `tools`; a
        flat prompt is one message. Takes about a millisecond for each million characters."""
        parts = list(parts)
        lengths = [len(text) for _, text in parts]
        is_whole = sum(lengths) <= MOST_CHARS and len(parts) <= _MOST_OF_ONE - MOST_CHARS // BLOCK_CHARS
        return cls([role for role, _ in parts], lengths, *_digest(parts if is_whole else _cut(parts)))

    def count_common(self, digests: array[int], least: int = 0) -> int:
        """How many digests at the beginning are the same. `least`: so many are known to be. As each is made
        with the one before, those that are equal stand in front of those that are not."""
        own = self.digests
        low, high = least, min(len(own), len(digests))
        while low < high:
            middle = (low + high) // 2
            if own[middle] == digests[middle]:
                low = middle + 1
            else:
                high = middle
        return low

    def chars_before(self, count: int) -> int:
        """The characters that the first `count` digests stand for: of a very long prompt never all."""
        digests = len(self.digests)
        if not digests:
            return 0
        place, character = self._place_of(min(count, digests - 1))
        rest = BLOCK_CHARS if count >= digests else 0
        return min(self.chars, sum(self._lengths[:place]) + character + rest)

    def place_behind(self, count: int) -> PromptPlace | None:
        """What the digest behind the first `count` stands for; None: there is none."""
        if count >= len(self.digests):
            return None
        place, character = self._place_of(count)
        role, has_tools = self._roles[place], self._roles[0] == "tools"
        return PromptPlace(place + (not has_tools), character, role if role in _ROLES else "")

    def _place_of(self, index: int) -> tuple[int, int]:
        """The message that a digest belongs to, from 0, and the first of its characters."""
        place = bisect_right(self._starts, index) - 1
        return place, (index - self._starts[place]) * BLOCK_CHARS


def _digest(parts: Iterable[tuple[str, str]]) -> tuple[array[int], list[int]]:
    """The digests of the messages, and of each the index of its first one. Short messages, of which there may
    be thousands, take the shortest way through."""
    digests: list[int] = []
    starts: list[int] = []
    digest = 0
    add, start_at = digests.append, starts.append
    for role, text in parts:
        start_at(len(digests))
        length = len(text)
        if length <= BLOCK_CHARS:
            add(digest := hash((digest, role, text)))
            continue
        add(digest := hash((digest, role, text[:BLOCK_CHARS])))
        if length <= 2 * BLOCK_CHARS:
            add(digest := hash((digest, text[BLOCK_CHARS:])))
            continue
        for start in range(BLOCK_CHARS, length, BLOCK_CHARS):
            add(digest := hash((digest, text[start : start + BLOCK_CHARS])))
    return array("q", digests), starts


def _cut(parts: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The first messages of a very long prompt, as far as they are compared: the last one to whole blocks."""
    chars = digests = 0
    for role, text in parts:
        if chars > MOST_CHARS or digests >= _MOST_OF_ONE:
            return
        blocks = max(1, -(-min(len(text), MOST_CHARS - chars) // BLOCK_CHARS))
        yield role, text[: blocks * BLOCK_CHARS]
        chars += len(text)
        digests += blocks


class _Held(NamedTuple):
    digests: array[int]
    expected_chars: int


class HeldPrompts:
    """The last 8 prompts that were sent to each address and model: of 64 of those, and one million digests (8
    MB) in all; the ones that were least recently sent to go first. May be used by several threads at once."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._servers: OrderedDict[tuple[str, str], deque[_Held]] = OrderedDict()
        self._digests = 0

    def shared_chars(self, address: str, model: str, prompt: PromptDigest) -> int:
        """How much of the beginning of `prompt` was in one of the last prompts there, in characters, to 256;
        0 where none is known. Records nothing and makes nothing more recent: it may be asked of any number of
        addresses. Beyond `prompt.head_chars` it says that this conversation was there."""
        return self.compare(address, model, prompt).shared_chars

    def compare(self, address: str, model: str, prompt: PromptDigest) -> Comparison:
        """`prompt` beside those sent there before. Records nothing."""
        with self._guard:
            held = tuple(self._servers.get(_server(address, model), ()))
        return _compare(prompt, held)

    def record(self, address: str, model: str, prompt: PromptDigest) -> Comparison:
        """`prompt` is sent there now. Gives what `compare` gave before; to be called once for each call, not
        for its further tries."""
        key = _server(address, model)
        with self._guard:
            known = self._servers.setdefault(key, deque())
            held = tuple(known)
            self._servers.move_to_end(key)
            known.append(_Held(prompt.digests, prompt.expected_chars))
            self._digests += len(prompt.digests)
            if len(known) > MOST_PROMPTS:
                self._digests -= len(known.popleft().digests)
            self._keep_within()
        return _compare(prompt, held)

    def forget(self, address: str, model: str, prompt: PromptDigest | None = None) -> None:
        """This prompt did not get there after all; None: that server is gone, and holds nothing any more."""
        key = _server(address, model)
        with self._guard:
            known = self._servers.get(key)
            if known is None:
                return
            kept = [held for held in known if prompt is not None and held.digests is not prompt.digests]
            self._digests -= sum(len(held.digests) for held in known) - sum(len(h.digests) for h in kept)
            if kept:
                self._servers[key] = deque(kept)
            else:
                del self._servers[key]

    def _keep_within(self) -> None:
        """The guard is held."""
        while len(self._servers) > MOST_SERVERS:
            _, gone = self._servers.popitem(last=False)
            self._digests -= sum(len(held.digests) for held in gone)
        while self._digests > MOST_DIGESTS:
            key, oldest = next(iter(self._servers.items()))
            self._digests -= len(oldest.popleft().digests)
            if not oldest:
                del self._servers[key]


def _server(address: str, model: str) -> tuple[str, str]:
    """An address is one with and without a slash at its end."""
    return address.rstrip("/"), model


def _compare(prompt: PromptDigest, held: tuple[_Held, ...]) -> Comparison:
    """Of several that share as much, the newest is the best. One that shares more than the best so far has
    the digest behind in common with `prompt`: the others are not looked through."""
    if not held:
        return Comparison()
    own, best = prompt.digests, held[-1]
    count = prompt.count_common(best.digests)
    for one in held[-2::-1]:
        if count < len(own) and count < len(one.digests) and own[count] == one.digests[count]:
            best, count = one, prompt.count_common(one.digests, count + 1)
    return Comparison(True, prompt.chars_before(count), prompt.place_behind(count), best.expected_chars)


@lru_cache(maxsize=1)
def held_prompts() -> HeldPrompts:
    """Those of this process."""
    return HeldPrompts()
