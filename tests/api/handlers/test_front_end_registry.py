"""A front end is one file that registers itself."""

from __future__ import annotations

import pytest

import Middleware.api.handlers.impl  # noqa: F401
from Middleware.api.handlers.base.base_api_handler import BaseApiHandler
from Middleware.api.handlers.registry import FRONT_ENDS


def test_every_front_end_is_complete():
    """Each says whose protocol it is, and serves something; no two serve the same."""
    served = [
        (route.path, method)
        for _, handler in FRONT_ENDS.items()
        for route in handler.routes
        for method in route.methods or route.view.methods
    ]
    assert len(served) == len(set(served))
    assert {handler.protocol.name for _, handler in FRONT_ENDS.items()} >= {"openai", "ollama"}
    assert all(handler.routes for _, handler in FRONT_ENDS.items())


def test_only_handlers_can_register():
    """Checked at import, not at the first request."""
    with pytest.raises(TypeError, match="BaseApiHandler"):
        FRONT_ENDS.register("x")(int)


@pytest.mark.parametrize(
    ("stated", "missing"), [({"routes": ()}, "protocol"), ({"protocol": None}, "routes")], ids=str
)
def test_a_handler_states_its_facts(stated, missing):
    """Or it cannot even be imported."""
    with pytest.raises(TypeError, match=f"X must state its `{missing}`"):
        type("X", (BaseApiHandler,), stated)
