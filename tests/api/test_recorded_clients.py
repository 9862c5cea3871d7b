"""Every request that was recorded from a real client is served: whatever front ends its program mixes."""

from __future__ import annotations

import pytest

from tests.api.recorded import RECORDED

REFUSED_ON_PURPOSE = {"messages": str}
"""A field that the recorder was made to send in another type."""
PULLS = ("/api/pull", "/api/blobs", "/api/create", "/api/push", "/api/copy", "/api/delete")
each = pytest.mark.parametrize("recorded", RECORDED, ids=str)


def status_of(recorded):
    """What it should be answered with."""
    odd = any(
        isinstance((recorded.body or {}).get(field), kind) for field, kind in REFUSED_ON_PURPOSE.items()
    )
    return 404 if recorded.path.startswith(PULLS) else 400 if odd else 200


@each
def test_it_is_served(client, configs, recorded):
    """No recorded path is unknown, and no recorded body is refused."""
    answer = recorded.send(client)
    said = (recorded.request["method"], recorded.path, answer.text[:300])
    assert answer.status_code == status_of(recorded), said


@each
def test_it_is_served_for_the_user_of_its_address(client, facts, configs, engine, recorded):
    """On a server with several users, whatever its program calls the model, or if it has no field for one."""
    configs("Users/jo.json", {"port": 5000})
    facts(users=("jo", "mira"))
    answer = recorded.send(client, "/as/mira")
    said = (recorded.request["method"], recorded.path, answer.text[:300])
    assert answer.status_code == status_of(recorded), said
    assert {call.request.user for call in engine.calls} <= {"mira"}
