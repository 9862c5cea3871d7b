"""What a placeholder looks up behind its own name, told without a run."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from Middleware.workflows.variables.format_text import (
    MAX_DEPTH,
    Found,
    Origin,
    Placeholder,
    fill_pieces,
    placeholders,
)
from Middleware.workflows.variables.workflow_variable_manager import MOST_NAMES, LiveValues

# id, placeholder, values, names
BEHIND = [
    ("a-plain-value", "{a}", {"a": "x"}, []),
    ("an-output", "{a}", {"a": "I am {agent1Output}, {b}"}, ["agent1Output", "b"]),
    ("a-chain", "{a}", {"a": "{b} {agent2Output}", "b": "{agent1Output}"}, ["b", "agent2Output", "agent1Output"]),
    ("itself", "{a}", {"a": "{a} {b}", "b": "{a} {c}"}, ["b", "c"]),
    ("an-item", "{a[1]}", {"a": ["{x}", "{y}"]}, ["y"]),
    ("a-member-of-an-object", "{a[k][0]}", {"a": {"k": ["{y}"], "l": "{x}"}}, ["y"]),
    ("a-list-as-a-whole", "{a}", {"a": ["{x}"]}, []),
    ("an-item-that-is-not-there", "{a[7]}", {"a": ["{x}"]}, []),
    ("a-key-of-a-number", "{a[k]}", {"a": 5}, []),
    ("doubled-braces", "{a}", {"a": "{{x}} {y}"}, ["y"]),
    ("a-path-in-doubled-braces", "{a}", {"a": "{{x[0]}} {y}"}, ["y", "x"]),
    ("json-of-an-author", "{a}", {"a": '{"k": {y}}'}, ['"k"', "y"]),
    ("nobody", "{b}", {"a": "{x}"}, []),
]  # fmt: skip


@pytest.mark.parametrize(("text", "values", "names"), [c[1:] for c in BEHIND], ids=[c[0] for c in BEHIND])
def test_the_names_behind_a_placeholder(text, values, names):
    (placeholder,) = placeholders(text)
    assert list(LiveValues(values).names_behind(placeholder)) == names


def test_a_chain_is_followed_as_deep_as_a_run_follows_it():
    values = {f"v{step}": f"{{v{step + 1}}}" for step in range(20)}
    names = list(LiveValues(values).names_behind(Placeholder("v0", ())))
    assert names == [f"v{step}" for step in range(1, MAX_DEPTH + 1)]


def test_texts_that_name_each_other_a_thousand_times_have_an_end():
    values = {f"v{step}": f"{{v{step + 1}}}" * 1000 for step in range(10)}
    names = list(LiveValues(values).names_behind(Placeholder("v0", ())))
    assert names == [f"v{step}" for step in range(1, MAX_DEPTH + 1)]


def test_every_text_of_a_value_counts():
    value = {"x": ["{a}", 5, None], "y": {"z": "{b}"}, "{a}": "no"}
    assert list(LiveValues({"a": "{p}", "b": "{q}"}).names_looked_up(value)) == ["p", "q"]


def test_what_would_be_followed_without_end_is_left():
    """Of each other, over and over: a look at such a file ends."""
    every = "".join(f"{{v{step}}}" for step in range(300))
    live = LiveValues({f"v{step}": every for step in range(300)})
    told = [name for step in range(300) for name in live.names_behind(Placeholder(f"v{step}", ()))]
    assert 0 < len(told) <= MOST_NAMES


class TestWhoGoesBefore:
    """Spec workflows.md 7.5."""

    def test_a_file_goes_before_its_user(self):
        assert LiveValues({"a": 1, "nodes": []}, {"a": 2, "b": 3}).values == {"a": 1, "b": 3}

    def test_a_date_goes_before_a_user_and_not_before_a_file(self):
        assert LiveValues({}, {"todays_date_iso": "{x}"}).values == {}
        assert LiveValues({"todays_date_iso": "{x}"}).values == {"todays_date_iso": "{x}"}

    def test_what_the_conversation_says_goes_before_all(self):
        assert LiveValues({"chat_user_prompt_last_one": "{x}"}, {"messages": "{x}"}).values == {}


NAMES = st.sampled_from(["a", "b", "c", "d", "agent1Output", "nobody"])
TEXTS = st.lists(NAMES.map(lambda name: f"{{{name}}}") | st.sampled_from(["x", "{{a}}"]), max_size=4).map(
    "".join
)


@settings(max_examples=300)
@given(st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), TEXTS), TEXTS)
def test_it_tells_what_a_run_looks_up(values, text):
    """Every name that filling asks for is told, and no other."""
    asked = set()

    class Known:
        def find(self, name):
            asked.add(name)
            if name in values:
                return Found(values[name], True, Origin.STATIC)
            return Found("out", False, Origin.RUN) if name == "agent1Output" else None

    filled = fill_pieces(text, Known())
    named = {placeholder.name for placeholder in placeholders(text, second_pass=True)}
    told = named | set(LiveValues(values).names_looked_up(text))
    assert asked == told or (filled.unknown and asked <= told)


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ({"a": "I am {b}", "b": "plain"}, {("a",): "I am {b}"}),
        ({"a": "{b[k][0]}", "b": {"k": ["{c}"]}}, {("a",): "{b[k][0]}", ("b", "k", 0): "{c}"}),
        ({"a": "plain"}, {}),
        ({"a": 5}, {}),
        ({"a": ["{"]}, {}),
        ({"a": {"{": "{b}"}}, {}),
    ],
    ids=["a-text", "an-item", "nothing-to-fill", "a-number", "a-list", "an-object"],
)
def test_the_texts_behind_a_placeholder(values, texts):
    """Those alone that are filled in their turn, each at its place."""
    assert LiveValues(values).texts_behind(placeholders("{a}")) == texts
