"""What a rule says of the keys that it reads: true of the rule, and complete."""

from __future__ import annotations

from itertools import combinations

import pytest
from jsonschema import Draft202012Validator

from Middleware.cleaning import ResponseCleaner
from Middleware.cleaning.stage import (
    COUNT,
    FLAG,
    REASONING_OUTPUTS,
    RULES,
    TEXT,
    TEXT_OR_TEXTS,
    TEXTS,
    CleaningKey,
    Findings,
    Inputs,
    keys_of,
    one_of,
)

PLACES = ("endpoint", "node", "user")
SAMPLES = {"boolean": True, "string": "x", "array": ["x"], "integer": 7, "object": {"tags": "*"}}


class Watched(dict):
    """A JSON object that writes down which keys it is asked for."""

    def __init__(self, values, asked):
        super().__init__(values)
        self.asked = asked

    def get(self, key, default=None):
        self.asked.add(key)
        return super().get(key, default)

    def __getitem__(self, key):
        self.asked.add(key)
        return super().__getitem__(key)


def sample(key: CleaningKey):
    """A value that fits, and switches on what is a switch."""
    if "enum" in key.shape:
        return key.shape["enum"][0]
    kinds = key.shape["type"]
    return SAMPLES[kinds if isinstance(kinds, str) else kinds[0]]


def asked_for(rule):
    """Place -> the keys that the rule reads: with all of its keys, with any one or two of them missing, with none."""
    asked = {place: set() for place in PLACES}
    stated = [(place, name) for place in PLACES for name in rule.keys[place]]
    for missing in [(), *combinations(stated, 1), *combinations(stated, 2), tuple(stated)]:
        files = {
            place: Watched(
                {name: sample(key) for name, key in rule.keys[place].items() if (place, name) not in missing},
                asked[place],
            )
            for place in PLACES
        }
        rule(Inputs(files["endpoint"], files["node"], files["user"], "Roland:", Findings()))
    return asked


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_a_rule_states_the_keys_that_it_reads_and_no_others(rule):
    """Whoever adds a key to a rule has added it to the check and to the editors."""
    assert asked_for(rule) == {place: set(rule.keys[place]) for place in PLACES}


@pytest.mark.parametrize(
    ("place", "name"), [(place, name) for place in PLACES for name in keys_of(place)], ids=str
)
def test_every_key_is_described(place, name):
    """In a sentence."""
    assert keys_of(place)[name].description.endswith(".")


@pytest.mark.parametrize(
    ("place", "name"), [(place, name) for place in PLACES for name in keys_of(place)], ids=str
)
def test_a_flag_of_another_shape_is_a_warning(place, name):
    """It is read as true or false all the same; any other key of another shape is an error."""
    key = keys_of(place)[name]
    assert key.strict is (key.shape.get("type") != "boolean")


@pytest.mark.parametrize("place", ["endpoint", "node"])
def test_the_engine_states_its_own_key(place):
    """Beside the rules: it is read whatever rules there are."""
    assert keys_of(place)["reasoningOutput"].shape["enum"] == list(REASONING_OUTPUTS)


@pytest.mark.parametrize("order", sorted(RULES))
def test_a_rule_runs_in_a_stage(order):
    """An order that no stage has would never be reached."""
    assert order in ResponseCleaner.ORDERS and order >= 100


def test_a_key_is_made_of_another():
    """By what differs."""
    key = COUNT("How far to look.", default=100)
    assert (key.shape, key.default, key.description) == (COUNT.shape, 100, "How far to look.")
    assert COUNT.description == "" and COUNT.default is None


@pytest.mark.parametrize(
    ("key", "fitting", "others"),
    [
        (FLAG, [True, False], ["true", 1, None]),
        (TEXT, ["", "x"], [5, ["x"]]),
        (TEXTS, [[], ["x"]], ["x", [5], {}]),
        (TEXT_OR_TEXTS, ["x", [], ["x"]], [5, [5], {}]),
        (COUNT, [0, 7], [-1, 1.5, "7"]),
        (one_of("a", "b"), ["a", "b"], ["c", "", None]),
    ],
    ids=["flag", "text", "texts", "text-or-texts", "count", "word"],
)
def test_the_kinds_of_keys(key, fitting, others):
    """Which values fit, and what holds without the key."""
    fits = Draft202012Validator(key.shape).is_valid
    assert (list(map(fits, fitting)), list(map(fits, others))) == (
        [True] * len(fitting),
        [False] * len(others),
    )
    assert key.default is None or fits(key.default)


def test_the_defaults_of_the_kinds():
    """A list is empty and a flag off; of the others nothing is said."""
    assert [key.default for key in (FLAG, TEXTS, TEXT_OR_TEXTS, TEXT, COUNT, one_of("a"))] == [
        False,
        [],
        [],
        None,
        None,
        None,
    ]


def test_a_flag_is_a_switch():
    assert FLAG("Be quick.").is_switch
    assert not TEXT.is_switch and not one_of("a", "b").is_switch


def test_a_key_is_of_every_node_and_strict_unless_it_says_else():
    """Editors offer one that is of nodes with a model there alone."""
    key = CleaningKey({"type": "string"})
    assert (key.of_models, key.strict, key.default, key.description) == (False, True, None, "")
