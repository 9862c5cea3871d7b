"""Every route of the console, whoever serves it: closed without its right, and no request breaks it (console.md 17.2, 1 and 4).

Driven by the table of routes: one that is added is tried at once.
"""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from Middleware.api.console.view_contract import ApiRoute
from Middleware.api.console.views import all_routes
from Middleware.api.requests.access import AccessRules, ConsoleWish

TRY = ApiRoute("POST", "try", "act", lambda ask: None)
AGAIN, ASK = (ApiRoute("POST", name, "act", lambda ask: None) for name in ("again", "ask"))
ROUTES = [*all_routes(), TRY, AGAIN, ASK]
ASKS = {"X-Headrace-Console": "1", "Host": "localhost:5000"}
AFAR = {"REMOTE_ADDR": "192.168.1.9"}
KEY = "k2345678"
FIELDS = ["act", "number", "sum", "state", "path", "text", "user", "version", "template", "endpoint", "messages", "stub", "api_key", "run", "from", "writes", "node", "call", "sampler", "role", "content"]  # fmt: skip
QUERY = ["user", "workflow", "state", "text", "before", "limit", "after", "shell"]
WORDS = st.sampled_from(
    ["mira", "Workflows/mira/Main.json", "Endpoints/a.json", "user", "chat", "copy:Workflows/mira/Main.json", "sh", "r1", "0", "-1", "***"]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=10,
)
BODIES = st.dictionaries(st.sampled_from(FIELDS), VALUES | WORDS, max_size=5) | VALUES
QUERIES = st.dictionaries(
    st.sampled_from(QUERY) | st.text(max_size=5), WORDS | st.text(max_size=20), max_size=4
)


def address(route, part="r1"):
    """A path that reaches the route; `part` stands at each place of its rule."""
    rule = re.sub(r"<path:\w+>", "Workflows/mira/Main.json", route.rule)
    rule = re.sub(r"<int:\w+>", part if part.isdecimal() else "0", rule)
    return f"/console/api/{re.sub(r'<[^>]+>', part, rule)}"


def named(route):
    return f"{route.method} {route.rule}"


@pytest.fixture
def console(serve, configs):
    """`console(mode=..., key=..., **access)`: a client of a server with a workflow."""
    configs("Workflows/mira/Main.json", [{"type": "Standard", "title": "Answer"}])

    def start(mode=None, key="", **access):
        return serve(access=AccessRules(**access), console=ConsoleWish(mode, key)).test_client()

    return start


@pytest.fixture
def edited(console):
    """(client, id of a run that is kept)."""
    client = console("edit", KEY)
    body = {"model": "mira", "messages": [{"role": "user", "content": "Hi"}]}
    return client, client.post("/v1/chat/completions", json=body).headers["X-Request-Id"]


@pytest.mark.parametrize("route", ROUTES, ids=named)
class TestClosed:
    @pytest.mark.parametrize(
        ("headers", "base"),
        [
            ({"X-Headrace-Console": None}, {}),
            ({"X-Headrace-Console": "0"}, {}),
            ({"Origin": "http://localhost:3000"}, {}),
            ({"Origin": "null"}, {}),
            ({"Sec-Fetch-Site": "same-site"}, {}),
            ({"Host": "evil.example"}, {}),
            ({"X-Forwarded-For": "203.0.113.9"}, {}),
            ({}, AFAR),
        ],
        ids=["header", "header-0", "origin", "origin-null", "site", "host", "proxy", "peer"],
    )
    def test_to_who_may_not_even_look(self, console, route, headers, base):
        """403, before anything is done."""
        given = {name: value for name, value in {**ASKS, **headers}.items() if value is not None}
        answer = console(loopback=False).open(
            address(route), method=route.method, headers=given, environ_base=base, json={}
        )
        assert answer.status_code == 403 and answer.json["error"]
        assert answer.headers["Cache-Control"] == "no-store"

    @pytest.mark.parametrize("key", ["", "wrong-key"])
    def test_to_who_has_no_key(self, console, route, key):
        """401 on this machine too, once there is a key."""
        headers = {**ASKS, "Authorization": f"Bearer {key}"}
        answer = console("edit", KEY).open(address(route), method=route.method, headers=headers, json={})
        assert (answer.status_code, answer.json) == (401, {"error": "this console needs its key"})

    def test_to_who_has_less_than_its_right(self, console, route):
        """Looking is no acting, acting no saving."""
        lookers = console("view", loopback=False)
        actors = console("view", KEY)
        asked = {"method": route.method, "json": {}}
        if route.right != "look":
            answer = lookers.open(address(route), headers=ASKS, environ_base=AFAR, **asked)
            assert (answer.status_code, answer.json["need"]) == (403, route.right)
        if route.right == "save":
            headers = {**ASKS, "Authorization": f"Bearer {KEY}"}
            answer = actors.open(address(route), headers=headers, **asked)
            assert (answer.status_code, answer.json["need"]) == (403, "save")


@pytest.mark.parametrize("route", ROUTES, ids=named)
@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    body=BODIES,
    query=QUERIES,
    part=st.sampled_from(["<run>", "0", "-1", "mira", "n0.output", "asked", "é", "9" * 20]),
)
def test_no_request_breaks_a_route(edited, route, body, query, part):
    """An answer or a refusal that says why; never a bug."""
    client, run_id = edited
    headers = {**ASKS, "Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    data = json.dumps(body).encode() if route.method != "GET" else b""
    with client.open(
        address(route, part.replace("<run>", run_id)),
        method=route.method,
        headers=headers,
        data=data,
        query_string=query,
    ) as answer:
        if answer.mimetype == "text/event-stream":
            return
        assert answer.status_code < 500, (answer.status_code, answer.text[:500])
        if answer.status_code >= 400:
            assert answer.json["error"]
