"""The requests that were recorded from real clients (`tests/fixtures/clients`), and how they are sent again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

CLIENTS = Path(__file__).resolve().parents[1] / "fixtures" / "clients"
_OF_THE_CONNECTION = ("host", "content-length", "origin", "referer")


class Recorded(NamedTuple):
    """`name`: of the client; `number`: of the request in its file."""

    name: str
    number: int
    request: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.name}-{self.number}"

    @property
    def path(self) -> str:
        """Without its query."""
        return str(self.request["path"]).partition("?")[0]

    @property
    def body(self) -> Any:
        """Without the texts that the recorder put in the place of messages that it left out."""
        body = self.request.get("body")
        if isinstance(body, dict) and isinstance(body.get("messages"), list):
            return {**body, "messages": [one for one in body["messages"] if isinstance(one, dict)]}
        return body

    def send(self, client: Any, address: str = "") -> Any:
        """The answer, whole. `address`: what stands before the path."""
        headers = [(k, v) for k, v in self.request["headers"] if k.lower() not in _OF_THE_CONNECTION]
        method = self.request["method"]
        return client.open(
            address + self.request["path"], method=method, headers=headers, json=self.body, buffered=True
        )


RECORDED = [
    Recorded(path.stem, number, one)
    for path in sorted(CLIENTS.glob("*.json"))
    for number, one in enumerate(json.loads(path.read_text("utf-8")))
]
