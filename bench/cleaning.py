"""What cleaning costs: a table of CPU times. Run from the root of the house: `python bench/cleaning.py`.

Each figure is the best of some rounds, in CPU time of this process, so that other work on the machine
counts little.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Middleware.cleaning import ResponseCleaner
from Middleware.workflows.streaming.response_handler import StreamingResponseHandler

LITERAL = {"removeThinking": True, "startThinkTag": "<think>", "endThinkTag": "</think>"}
NAMES = {"removeThinking": True, "thinkTagNames": ["think", "thinking", "thought", "reasoning", "reflection"]}
XML = {"stripInlineXmlTags": True}
MEGABYTE = 10**6
ROUNDS = 5


def seconds(work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return best


def pieces_of(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def feed_all(endpoint: dict[str, object], pieces: list[str]) -> Callable[[], object]:
    def work() -> None:
        cleaner = ResponseCleaner(endpoint, {})
        feed = cleaner.feed
        for piece in pieces:
            feed(piece)
        cleaner.finish()

    return work


def think_block(characters: int) -> list[str]:
    thought = ("ponder on it. " * (characters // 14 + 1))[:characters]
    return ["<think>", *pieces_of(thought, 4), "</think>", "ok"]


def relay(batches: int, tokens: int) -> Callable[[], object]:
    batch = [{"token": "w123 ", "finish_reason": None}] * tokens

    def work() -> None:
        for _ in StreamingResponseHandler(LITERAL, {}).clean(iter([batch] * batches)):
            pass

    return work


def rows() -> list[tuple[str, float, float | None]]:
    """Name, seconds in all, microseconds a piece."""
    made: list[tuple[str, float, float | None]] = []

    def add(name: str, work: Callable[[], object], pieces: int | None = None) -> None:
        taken = seconds(work)
        made.append((name, taken, taken / pieces * 1e6 if pieces else None))

    for label, endpoint in (("literal tags", LITERAL), ("names", NAMES)):
        add(f"think block, 20,000 pieces, {label}", feed_all(endpoint, think_block(80_000)), 20_000)
        add(
            f"think block, 1 MB in 4-character pieces, {label}",
            feed_all(endpoint, think_block(MEGABYTE)),
            250_000,
        )
    for unit in ("<a>", "<a ", "<a></a>", "</a><a "):
        text = (unit * (MEGABYTE // len(unit) + 1))[:MEGABYTE]
        add(f"inline XML, 1 MB of {unit!r}, whole", feed_all(XML, [text]))
        add(f"inline XML, 1 MB of {unit!r}, 4-character pieces", feed_all(XML, pieces_of(text, 4)), 250_000)
    plain = ["z" * 200, *["w123"] * 20_000]
    add("decided chain, 20,000 pieces", feed_all(LITERAL, plain), 20_000)
    trimmed = {**LITERAL, "trimBeginningAndEndLineBreaks": True}
    add("only the ends left to trim, 20,000 pieces", feed_all(trimmed, plain), 20_000)
    add("inline XML on plain text, 20,000 pieces", feed_all(XML, plain), 20_000)
    add("stream handler, 20,000 batches of 1 token", relay(20_000, 1), 20_000)
    add("stream handler, 1,000 batches of 64 tokens", relay(1_000, 64), 64_000)
    return made


def main() -> None:
    print(f"{'case':<58}{'seconds':>9}{'us/piece':>10}")
    for name, taken, each in rows():
        print(f"{name:<58}{taken:>9.4f}{'' if each is None else f'{each:.3f}':>10}")


if __name__ == "__main__":
    main()
