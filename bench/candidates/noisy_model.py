"""A model server that is right as often as it is told to be, for measuring what Candidates nodes gain.

    .venv/bin/python bench/candidates/noisy_model.py PORT [--right 0.6] [--judge 0.8] [--seed 1]

It speaks OpenAI's chat API and knows sums ("What is 7 plus 5?"): with the probability `--right` it says the
right number, else one of four numbers beside it. A prompt with numbered answers ("[1]") is a judge's: with
the probability `--judge` it names an answer with the right number, if there is one, else any. Each answer is
drawn by itself, so this shows what choosing does, and nothing about a real model, whose mistakes are often
the same each time.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SUM = re.compile(r"What is (\d+) plus (\d+)\?")
ANSWER = re.compile(r"^\[(\d+)\]\n.*?(\d+)\.$", re.M)


class Model(ThreadingHTTPServer):
    """`right`, `judge`: how often it is right."""

    daemon_threads = True

    def __init__(self, port: int, right: float, judge: float, seed: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self._right, self._judge, self._dice, self._guard = (
            right,
            judge,
            random.Random(seed),
            threading.Lock(),
        )

    def answer(self, prompt: str) -> str:
        found = SUM.search(prompt)
        if found is None:
            return "I only know sums."
        right = int(found[1]) + int(found[2])
        with self._guard:
            if answers := ANSWER.findall(prompt):
                good = [number for number, said in answers if int(said) == right]
                chosen = good if good and self._dice.random() < self._judge else [one for one, _ in answers]
                return self._dice.choice(chosen)
            if self._dice.random() < self._right:
                return f"It is {right}."
            return f"It is {right + self._dice.choice((-2, -1, 1, 2))}."


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server: Any = self.server
        text = server.answer(asked["messages"][-1]["content"])
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        body = json.dumps({"id": "x", "object": "chat.completion", "choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: Any) -> None:
        """Says nothing."""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("port", type=int)
    parser.add_argument("--right", type=float, default=0.6)
    parser.add_argument("--judge", type=float, default=0.8)
    parser.add_argument("--seed", type=int, default=1)
    own = parser.parse_args()
    Model(own.port, own.right, own.judge, own.seed).serve_forever()
