"""Which of the client's parameters a node takes, and as what (more-fronts.md 13)."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Middleware.common.errors import ClientRequestError
from Middleware.common.request_context import WISH_NAMES, Wish
from Middleware.llmapis.dialects.message_building import ANY_OBJECT
from Middleware.workflows.dispatch.client_wishes import (
    refuse_wrong,
    take_wishes,
    token_limit,
    unused_fields,
    wished_samplers,
)

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
NODE = {"clientParameters": list(WISH_NAMES)}


LEAVES = st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(max_size=5)
KEYS = st.sampled_from(["type", "json_schema", "schema", "1", "x"])
JSON = st.recursive(
    LEAVES | st.sampled_from(["json_object", "json_schema", "text"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


def wishes(**values):
    return {name: Wish(value, f"my.{name}") for name, value in values.items()}


GOOD = [
    ("max_tokens", 50, 50),
    ("max_tokens", 50.0, 50),
    ("stop", "END", ["END"]),
    ("stop", ["a", "", "b"], ["a", "b"]),
    ("stop", [""], None),
    ("temperature", 0, 0),
    ("temperature", 1.5, 1.5),
    ("top_p", 1, 1),
    ("top_k", -1, -1),
    ("min_p", 0.05, 0.05),
    ("seed", -1, -1),
    ("presence_penalty", -2, -2),
    ("frequency_penalty", 2, 2),
    ("repetition_penalty", 1.1, 1.1),
    ("logit_bias", {"50256": -100}, {"50256": -100}),
    ("parallel_tool_calls", False, False),
    ("response_format", {"type": "text"}, None),
    ("response_format", {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}, SCHEMA),
    ("response_format", {"type": "json_schema", "name": "x", "schema": SCHEMA}, SCHEMA),
]
BAD = [
    ("max_tokens", "x", "must be a number"),
    ("max_tokens", True, "must be a number"),
    ("max_tokens", 1.5, "must be a whole number"),
    ("max_tokens", 0, "must be 1 or more"),
    ("max_tokens", -1, "must be 1 or more"),
    ("stop", 5, "must be a string or a list of strings"),
    ("stop", ["a", 5], "must be a string or a list of strings"),
    ("temperature", -0.1, "must be 0 or more"),
    ("temperature", math.nan, "must be a number"),
    ("top_p", 1.1, "must be from 0 to 1"),
    ("top_k", "40", "must be a number"),
    ("min_p", math.inf, "must be a number"),
    ("seed", 1.5, "must be a whole number"),
    ("presence_penalty", 3, "must be from -2 to 2"),
    ("frequency_penalty", [], "must be a number"),
    ("repetition_penalty", -1, "must be 0 or more"),
    ("logit_bias", [[1, 2]], "must be an object of token ids and numbers"),
    ("logit_bias", {"1": "x"}, "must be a number"),
    ("logit_bias", {"1": 101}, "must be from -100 to 100"),
    ("parallel_tool_calls", "no", "must be true or false"),
    ("response_format", "json", "must ask for a JSON object or contain a JSON schema"),
    ("response_format", {"type": "xml"}, "must ask for a JSON object or contain a JSON schema"),
    ("response_format", {"type": "json_schema"}, "must ask for a JSON object or contain a JSON schema"),
    ("response_format", {"type": "json_schema", "json_schema": {"schema": {}}}, "must ask for a JSON object or contain a JSON schema"),
    ("response_format", {"type": "json_schema", "json_schema": 5}, "must ask for a JSON object or contain a JSON schema"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "given", "taken"), GOOD)
def test_what_is_taken(name, given, taken):
    """In one form; None: the client leaves it to the node."""
    assert take_wishes(NODE, wishes(**{name: given})) == ({} if taken is None else {name: taken})


@pytest.mark.parametrize(("name", "given", "words"), BAD)
def test_what_cannot_be(name, given, words):
    """A sentence that begins with what the client calls it."""
    with pytest.raises(ClientRequestError) as caught:
        take_wishes(NODE, wishes(**{name: given}))
    assert (str(caught.value), caught.value.param) == (f"my.{name} {words}", f"my.{name}")


@pytest.mark.parametrize(("name", "given", "words"), BAD)
def test_what_no_node_takes_may_be_anything(name, given, words):
    """Clients send all sorts of things."""
    others = [other for other in WISH_NAMES if other != name]
    refuse_wrong([{}, {"clientParameters": None}, {"clientParameters": others}], wishes(**{name: given}))


@pytest.mark.parametrize("name", WISH_NAMES)
@given(value=JSON)
def test_any_json_is_taken_or_refused(name, value):
    """Never a failure of ours; what is taken can be sent, and taking it again changes nothing."""
    try:
        taken = take_wishes(NODE, wishes(**{name: value}))
    except ClientRequestError as refusal:
        assert str(refusal).startswith(f"my.{name} must ")
        return
    json.dumps(taken, allow_nan=False)
    if name != "response_format":
        assert take_wishes(NODE, wishes(**taken)) == taken


def test_one_node_that_takes_it_is_enough():
    with pytest.raises(ClientRequestError):
        refuse_wrong([{}, {"clientParameters": ["max_tokens"]}], wishes(max_tokens="x"))


def test_any_json():
    """The very schema that backends know as `json_object`."""
    assert take_wishes(NODE, wishes(response_format={"type": "json_object"}))["response_format"] is ANY_OBJECT


def test_the_nodes_own_schema_wins():
    """Then the client's may be anything too."""
    node = {**NODE, "structuredOutputFile": "mine"}
    assert take_wishes(node, wishes(response_format="oops")) == {}


@pytest.mark.parametrize(("given", "limit"), [(50, 50), (4000, 400), (None, 400)])
def test_the_limit_is_never_above_the_nodes(given, limit):
    asked = {} if given is None else wishes(max_tokens=given)
    assert token_limit(take_wishes({"clientParameters": ["max_tokens"]}, asked), 400) == limit


def test_samplers_have_canonical_names():
    """What is no sampler goes other ways."""
    asked = wishes(max_tokens=5, repetition_penalty=1.1, seed=7, parallel_tool_calls=True)
    assert wished_samplers(take_wishes(NODE, asked)) == {"seed": 7, "repeat_penalty": 1.1}


def test_every_name_can_be_taken():
    """What the schema of nodes allows is what is known here."""
    known = {name for name, _, _ in GOOD}
    assert known == set(WISH_NAMES)


def test_what_nobody_took():
    """By what the client calls it, in its order; also what none can take."""
    asked = {"n": Wish(2, "n"), **wishes(stop="x", seed=5)}
    assert unused_fields(asked, {"seed"}) == ["n", "my.stop"]
    assert unused_fields({}, set()) == []
