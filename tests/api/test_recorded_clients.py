"""Every request that was recorded from a real client is served: whatever front ends its program mixes."""

from __future__ import annotations

import pytest

from tests.api.recorded import RECORDED

REFUSED_ON_PURPOSE = {"messages": str}
"""A field that the recorder was made to send in another type."""
PULLS = ("/api/pull", "/api/blobs", "/api/create", "/api/push", "/api/copy", "/api/delete")


@pytest.mark.parametrize("recorded", RECORDED, ids=str)
def test_it_is_served(client, configs, recorded):
    """No recorded path is unknown, and no recorded body is refused."""
    answer = recorded.send(client)
    odd = any(
        isinstance((recorded.body or {}).get(field), kind) for field, kind in REFUSED_ON_PURPOSE.items()
    )
    wanted = 404 if recorded.path.startswith(PULLS) else 400 if odd else 200
    assert answer.status_code == wanted, (recorded.request["method"], recorded.path, answer.text[:300])
