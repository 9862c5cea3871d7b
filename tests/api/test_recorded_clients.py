"""Every request that was recorded from a real client is served: whatever front ends its program mixes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

CLIENTS = Path(__file__).resolve().parents[1] / "fixtures" / "clients"
REFUSED_ON_PURPOSE = {"messages": str}
"""A field that the recorder was made to send in another type."""
PULLS = ("/api/pull", "/api/blobs", "/api/create", "/api/push", "/api/copy", "/api/delete")
RECORDED = [
    (path.stem, number, one)
    for path in sorted(CLIENTS.glob("*.json"))
    for number, one in enumerate(json.loads(path.read_text("utf-8")))
]


each = pytest.mark.parametrize(
    ("name", "number", "recorded"), RECORDED, ids=[f"{n}-{i}" for n, i, _ in RECORDED]
)


def replay(client, recorded, address=""):
    """The answer to a request as it was recorded, and the status that it should have."""
    headers = [
        (k, v)
        for k, v in recorded["headers"]
        if k.lower() not in ("host", "content-length", "origin", "referer")
    ]
    body = recorded.get("body")
    if isinstance(body, dict) and isinstance(body.get("messages"), list):
        body = {**body, "messages": [m for m in body["messages"] if isinstance(m, dict)]}
    answer = client.open(
        address + recorded["path"], method=recorded["method"], headers=headers, json=body, buffered=True
    )
    odd = any(isinstance((body or {}).get(field), kind) for field, kind in REFUSED_ON_PURPOSE.items())
    return answer, 404 if recorded["path"].startswith(PULLS) else 400 if odd else 200


@each
def test_it_is_served(client, configs, name, number, recorded):
    """No recorded path is unknown, and no recorded body is refused."""
    answer, wanted = replay(client, recorded)
    assert answer.status_code == wanted, (recorded["method"], recorded["path"], answer.text[:300])


@each
def test_it_is_served_for_the_user_of_its_address(client, facts, configs, engine, name, number, recorded):
    """On a server with several users, whatever its program calls the model, or if it has no field for one."""
    configs("Users/jo.json", {"port": 5000})
    facts(users=("jo", "mira"))
    answer, wanted = replay(client, recorded, "/as/mira")
    assert answer.status_code == wanted, (recorded["method"], recorded["path"], answer.text[:300])
    assert {call.request.user for call in engine.calls} <= {"mira"}
