"""What a node asks of the world outside, as its run's trace tells it. Source: spec console.md 3.3."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from Middleware.common.errors import RequestCancelled
from Middleware.services.node_trace import NOT_YET, NodeTrace
from Middleware.services.run_trace import Observers, RunTrace, json_text, outside_call


class Notes:
    """An observer that remembers what it was told of calls, and whether the call had ended by then."""

    def __init__(self, keeps_text=True):
        self.keeps_text, self.told = keeps_text, []

    def note_change(self, run, what, node):
        if node is not None and node.calls:
            self.told.append((what, node.calls[-1].ended > NOT_YET))


@pytest.fixture
def seen():
    """`seen.node`: a traced node of a run that keeps texts or not; `seen.notes`: its observer."""

    def begin(keeps_text=True):
        notes, observers = Notes(keeps_text), Observers()
        observers.observe(notes)
        run = RunTrace("R", "/v1/x", observers, keeps_text=keeps_text)
        return SimpleNamespace(notes=notes, run=run, node=run.node(NodeTrace("Main", 1, "WebFetch")))

    return begin


def call_of(seen):
    (call,) = seen.run.nodes[0].calls
    return call


@pytest.mark.parametrize("kind", ["http", "command", "mcp", "script"])
def test_a_call_begins_goes_out_and_ends(seen, kind):
    """Its times are in this order, and each step is told when it is noted."""
    seen = seen()
    with outside_call(seen.node, kind, "example.org", place="http://example.org/a", body=b"q") as outside:
        assert call_of(seen).ended == NOT_YET
        outside.note_answer("text", 200)
    call = call_of(seen)
    assert 0 < call.begun <= call.sent <= call.ended
    assert (call.kind, call.backend, call.outcome, call.error) == (kind, "example.org", "done", "")
    assert (call.url, call.body, call.status, call.raw) == ("http://example.org/a", b"q", 200, "text")
    assert seen.notes.told == [("call", False), ("call_ended", True)]


@pytest.mark.parametrize(
    ("error", "outcome", "said"),
    [
        (ValueError("no such page"), "ValueError", "no such page"),
        (RequestCancelled("R"), "cancelled", ""),
    ],
    ids=["failure", "cancelled"],
)
def test_a_call_that_breaks_off_ends_too(seen, error, outcome, said):
    """The error goes on to the node."""
    seen = seen()
    with pytest.raises(type(error)), outside_call(seen.node, "http", "example.org"):
        raise error
    call = call_of(seen)
    assert (call.outcome, call.error) == (outcome, said)
    assert call.ended >= call.sent > 0
    assert seen.notes.told == [("call", False), ("call_ended", True)]


def test_texts_are_kept_only_where_they_are_wanted(seen):
    """Neither what was asked nor what came; whom it called and how it went are told."""
    seen = seen(keeps_text=False)
    with outside_call(
        seen.node, "http", "example.org", place="http://example.org/?q=secret", body=b"q"
    ) as call:
        call.note_answer("text", 404)
    call = call_of(seen)
    assert (call.url, call.body, call.status, call.raw) == ("example.org", b"", 404, None)


def test_without_a_place_the_name_stands_for_it(seen):
    """As of a script."""
    seen = seen()
    with outside_call(seen.node, "script", "sums.py", secrets=["k-1"]):
        pass
    assert (call_of(seen).url, call_of(seen).secrets) == ("sums.py", ("k-1",))


def test_nobody_observes():
    """Nothing is noted, and nothing breaks."""
    with outside_call(None, "http", "example.org") as call:
        assert call.note_answer("text", 200) is None


@pytest.mark.parametrize(
    ("answer", "raw"),
    [("a", "a"), (b"a\xff", "a\ufffd"), ({"\u00e9": [1, None]}, '{"\u00e9":[1,null]}'), (None, "null")],
)
def test_what_came_is_kept_as_text(seen, answer, raw):
    """Texts, bytes, values."""
    seen = seen()
    with outside_call(seen.node, "mcp", "tools") as call:
        call.note_answer(answer)
    assert (call_of(seen).raw, call_of(seen).status) == (raw, None)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            {
                "a": {
                    1,
                }
            },
            '{"a":"{1}"}',
        ),
        ({("a", 1): 2}, "{('a', 1): 2}"),
    ],
    ids=["no-json-value", "no-json-key"],
)
def test_a_value_that_json_cannot_hold_is_its_own_text(value, text):
    """In part, or whole."""
    assert json_text(value) == text


def test_a_circle_has_a_text_too():
    """It does not end the run."""
    circle = []
    circle.append(circle)
    assert json_text(circle) == "[[...]]"
