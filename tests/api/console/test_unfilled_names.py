"""What is known besides a run: the gate, earlier calls, names that nobody fills."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from Middleware.api.console.stood_out import stood_out
from Middleware.api.console.unfilled_names import around_of
from Middleware.config.loader import ConfigTree
from tests.api.console.conftest import a_hub
from tests.api.console.traced import FILE, node_of, run_of


@pytest.fixture
def write(tmp_path):
    def write(file, document):
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(document if isinstance(document, str) else json.dumps(document))

    write("Users/mira.json", {"userWideWorkflowVariables": {"town": "Leyden"}})
    return write


@pytest.fixture
def unfilled(tmp_path, write):
    """`unfilled(prompt, number)`: what is told of the node that ran with it; the file holds it, unless..."""

    def unfilled(prompt, number=2, *, file=None, user="mira", **fields):
        fields = {"prompt": prompt, **fields}
        document = {"who": "Ann", "nodes": [{"prompt": "x"}] * (number - 1) + [fields]}
        write(FILE, document if file is None else file)
        around = around_of(a_hub(snapshot=lambda: ConfigTree(tmp_path).snapshot()))
        return list(around.unfilled(user, node_of(number, fields=fields)))

    return unfilled


@pytest.mark.parametrize(
    ("prompt", "told"),
    [
        ("{agent6Output}", [("agent6Output", "is not known yet")]),
        ("{agent2Thinking}", [("agent2Thinking", "is not known yet")]),
        ("{nobody} and {nobody}", [("nobody", "is not a variable")]),
        (
            "{todays_date_prety}",
            [("todays_date_prety", "is not a variable (did you mean {todays_date_pretty}?)")],
        ),
        ("{agent1Output} {agent3Input} {todays_date_iso} {who} {town} {category_list}", []),
        ('{"json": 1} {{nobody}} {}', []),
    ],
    ids=["a-later-node", "its-own-thoughts", "unknown", "misspelled", "known", "no-names"],
)
def test_names_that_nobody_fills(unfilled, prompt, told):
    assert unfilled(prompt) == told


def test_jinja_texts_have_no_such_names(unfilled):
    assert unfilled("{agent6Output} {nobody}", jinja2=True) == []


@pytest.mark.parametrize(
    "file", [{"nodes": [{"prompt": "x"}, {"prompt": "other"}]}, "{", [], {"nodes": "none"}], ids=repr
)
def test_a_file_that_was_changed_since(unfilled, file):
    """Whether a name was a variable then is not known; that a node came later is."""
    assert unfilled("{nobody} {agent6Output}", file=file) == [("agent6Output", "is not known yet")]


def test_a_user_that_is_gone(unfilled):
    assert unfilled("{agent6Output}", user="nobody") == [("agent6Output", "is not known yet")]


def test_the_sentence(tmp_path, write):
    """console.md 8.4, with the gate and the calls of the server."""
    fields = {"prompt": "{agent6Output}"}
    write(FILE, [{}] * 4 + [fields])
    asked = []
    hour = SimpleNamespace(calls=lambda user, endpoint: asked.append((user, endpoint)) or [])
    around = around_of(a_hub(hour=hour, snapshot=lambda: ConfigTree(tmp_path).snapshot()))
    run = run_of(node_of(5, "Answer", fields=fields), begun=4.2, first_text=5.0, ended=6.0)
    assert [one["text"] for one in stood_out(run, 200.0, around)] == [
        "Waited 4.2 s for a free slot: 1 request at a time (--concurrency).",
        "{agent6Output} in node 5 is not known yet and stayed as text.",
    ]
    assert around.calls("mira", "Big") == [] and asked == [("mira", "Big")]
