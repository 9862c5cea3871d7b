"""Any JSON, and any path in it, to the routes that take a body: an answer, never a failure. Spec 17.2 row 4."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.console.config_house import house as house

MAIN = "Workflows/mira/Main.json"
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
PATHS = st.sampled_from([MAIN, "Workflows/mira/New.json", "Workflows/_shared/x/New.json", "../x.json", ""])
TEXTS = st.sampled_from(
    ["[]", "[{}]", "[{", "{}", '[{"type": "StaticResponse", "content": "x"}]', "\ufeff", "\0"]
)
TEMPLATES = st.sampled_from(["chat", "branch", "empty", f"copy:{MAIN}", "copy:", "x"])
FIELDS = {
    "path": PATHS | ANY,
    "text": TEXTS | ANY,
    "version": st.just("") | ANY,
    "template": TEMPLATES | ANY,
    "endpoint": st.sampled_from(["Big", "", "../x", "a\0b"]) | ANY,
    "user": st.just("mira") | ANY,
    "messages": st.just([{"role": "user", "content": "Hi"}]) | ANY,
    "stub": ANY,
}
ROUTES = [
    ("PUT", f"workflows/{MAIN}", ("text", "version")),
    ("PUT", "files/Endpoints/Big.json", ("text", "version")),
    ("POST", "workflows", ("path", "template", "endpoint")),
    ("POST", "dry-run", ("path", "user", "messages", "text", "stub")),
]


@pytest.mark.parametrize(("method", "route", "names"), ROUTES, ids=["workflow", "file", "new", "dry-run"])
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_body_has_an_answer(house, method, route, names, data):
    """200 or 201, or a refusal with a sentence; no file but those that are meant is made."""
    body = data.draw(st.fixed_dictionaries({}, optional={name: FIELDS[name] for name in names}) | ANY)
    status, told = house.ask(method, route, body=json.dumps(body).encode())
    assert status in (200, 201, 400, 403, 404, 409, 413, 422), (body, told)
    assert status < 300 or isinstance(told["error"], str)
    made = {path.relative_to(house.root).parts[:2] for path in (house.root / "Workflows").rglob("*.json")}
    assert made <= {("Workflows", "mira"), ("Workflows", "_shared"), ("Workflows", "_common")}
