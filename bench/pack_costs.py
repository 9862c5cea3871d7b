"""What a turn of each example costs: calls of a model, and tokens, counted by a scripted model server.

    .venv/bin/python bench/pack_costs.py PREFILL --public TREE --launch "... {public} {user} {port}" \\
        --users chat,router --turns 60 --talks 2 --discussion pf --out costs.json
    .venv/bin/python tools/shelf.py --costs costs.json

PREFILL is `prefill.py`, the benchmark that plays the chats and counts what a server reads; all that follows
are its arguments. This adds to each turn the tokens that go in and come out: an answer is as long as its call
allows, so that a call that only lets the server read (`readAhead`) isn't counted as an answer.
"""

from __future__ import annotations

import importlib.util
import io
import json
import sys
import threading
from types import ModuleType
from typing import Any

CHARACTERS_A_TOKEN = 4
ANSWER_TOKENS = 97
"""The scripted server's answer of 390 characters."""
LIMITS = ("max_tokens", "max_completion_tokens", "n_predict")

asked = threading.local()


def load(path: str) -> ModuleType:
    """The benchmark, as a module."""
    spec = importlib.util.spec_from_file_location("prefill", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def count_tokens(prefill: Any) -> None:
    """Lets the benchmark count tokens, too: `prompt` and `completion` of each turn."""
    play = prefill.chat

    class Backend(prefill.Backend):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = json.loads(raw or b"{}")
            limits = [body[key] for key in LIMITS if isinstance(body.get(key), int) and body[key] >= 0]
            asked.tokens = min([ANSWER_TOKENS, *limits])
            kept, self.rfile = self.rfile, io.BytesIO(raw)
            try:
                super().do_POST()
            finally:
                self.rfile = kept

    class Held(prefill.Held):
        def ask(self, model: str, prompt: str) -> tuple[int, int]:
            with tokens_lock:
                answer: tuple[int, int] = super().ask(model, prompt)
                self.calls[-1]["completion"] = asked.tokens
                return answer

    def chat(url: str, held: Any, *rest: Any) -> list[dict[str, Any]]:
        seen = len(held.calls)
        rows: list[dict[str, Any]] = play(url, held, *rest)
        for row in rows:
            calls, seen = held.calls[seen : seen + row["calls"]], seen + row["calls"]
            row["prompt"] = sum(call["chars"] // CHARACTERS_A_TOKEN for call in calls)
            row["completion"] = sum(call["completion"] for call in calls)
            row["read"] = row["new"] // CHARACTERS_A_TOKEN
        return rows

    tokens_lock = threading.Lock()
    prefill.Backend, prefill.Held, prefill.chat = Backend, Held, chat


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    bench = load(sys.argv.pop(1))
    count_tokens(bench)
    bench.main()
