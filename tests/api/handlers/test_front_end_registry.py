"""A front end is one file that registers itself."""

from __future__ import annotations

import pytest
from flask import Flask

from Middleware.api.handlers import impl
from Middleware.api.handlers.base.base_api_handler import BaseApiHandler
from Middleware.api.handlers.front_ends import FRONT_ENDS


@pytest.mark.parametrize("name", FRONT_ENDS)
def test_a_front_end_has_a_file_of_its_name_and_serves_something(name):
    """So its test and its page are found, whoever's protocol it is; and a route that generates takes a POST."""
    handler = FRONT_ENDS[name]
    app = Flask("t", static_folder=None)
    handler().register_routes(app)
    package, _, module = handler.__module__.rpartition(".")
    assert package == impl.__name__ and f"_{module}".endswith(f"_{name}_api_handler")
    assert any("POST" in (route.methods or ()) for route in app.url_map.iter_rules())


def test_no_two_front_ends_take_one_route():
    """Which of them would answer?"""
    app = Flask("t", static_folder=None)
    for name in FRONT_ENDS:
        FRONT_ENDS[name]().register_routes(app)
    routes = [(str(route), route.methods - {"OPTIONS"}) for route in app.url_map.iter_rules()]
    taken = [(path, method) for path, methods in routes for method in methods]
    assert len(taken) == len(set(taken))


def test_only_handlers_can_register():
    """Checked at import, not at the first request."""
    with pytest.raises(TypeError, match="BaseApiHandler"):
        FRONT_ENDS.register("x")(int)


@pytest.mark.parametrize(
    ("stated", "missing"), [({"routes": ()}, "protocol"), ({"protocol": None}, "routes")], ids=str
)
def test_a_handler_states_its_facts(stated, missing):
    """Or it cannot even be imported."""
    with pytest.raises(TypeError, match=f"X must define `{missing}`"):
        type("X", (BaseApiHandler,), stated)
