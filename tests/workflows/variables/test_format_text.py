"""Laws of format mode, whatever the text; and the names that a check of a workflow file asks for."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from Middleware.workflows.variables.format_text import (
    FilledText,
    Found,
    Origin,
    Piece,
    fill_pieces,
    join_pieces,
    placeholder_names,
    placeholders,
)

LITERAL = {"v": "a {n} {{v}} }{", "n": "7", "name": "n", "half": "{n"}
LIVE = {"w": "<{v}{n}>", "open": "{ {n}"}
MARKS = str.maketrans({"{": "\ue000", "}": "\ue001"})
UNMARK = str.maketrans({"\ue000": "{", "\ue001": "}"})


class Values:
    """Names as a plain table."""

    def find(self, name):
        if name in LITERAL:
            return Found(LITERAL[name], live=False, origin=Origin.RUN)
        return Found(LIVE[name], live=True, origin=Origin.STATIC) if name in LIVE else None


def filled(text):
    return join_pieces(fill_pieces(text, Values()).pieces)


def peer(text):
    """Two passes of `str.format` over protected values; None where one fails, or leaves a live placeholder behind."""
    values = {name: value.translate(MARKS) for name, value in LITERAL.items()}
    try:
        first = text.format(**values, **LIVE)
        return (first.format(**values) if "{" in first else first).translate(UNMARK)
    except (KeyError, ValueError, IndexError, AttributeError):
        return None


TEXTS = st.lists(
    st.sampled_from(["{", "}", "{{", "}}", "{v}", "{n}", "{w}", "{{n}}", "{name}", "{half}", "{n:>3}", "x", " ", ":", "!r", "[0]", "n", "{nope}"]),
    max_size=9,
).map("".join)  # fmt: skip


class TestLaws:
    @settings(max_examples=200)
    @given(TEXTS)
    def test_nothing_raises(self, text):
        """Format mode never fails."""
        filled(text)

    @settings(max_examples=200)
    @given(TEXTS)
    def test_wherever_the_peer_succeeds_the_result_is_the_same(self, text):
        """Both passes of the peer."""
        expected = peer(text)
        assert expected is None or filled(text) == expected

    @settings(max_examples=100)
    @given(st.text(alphabet="{}nv \ufdd0\ufdd101[]:!", max_size=12))
    def test_a_value_arrives_as_it_is(self, value):
        """Alone in a text, and through an override."""

        class One:
            def find(self, name):
                return Found(value, live=False, origin=Origin.RUN) if name == "x" else None

        pieces = fill_pieces("<{x}> {{k", One()).pieces
        assert join_pieces(pieces) == f"<{value}> {{k"
        assert join_pieces(fill_pieces(FilledText.of(pieces), Values()).pieces) == f"<{value}> {{k"


def test_the_result_says_what_is_unknown():
    """And whether it is a name of the text itself."""

    class Nested:
        def find(self, name):
            return Found("{nope}", live=True, origin=Origin.STATIC) if name == "v" else None

    inner = fill_pieces("{v}", Nested())
    outer = fill_pieces("{v}{who}", Nested())
    assert (inner.unknown, inner.complete) == ({"nope"}, True)
    assert (outer.unknown, outer.complete) == ({"nope", "who"}, False)


CONFIGURED = {"town": "Brest", "place": "in {town}", "greeting": "Hello {n}!"}


class Configured:
    """Texts of the configuration, one of which names a value of the run."""

    def find(self, name):
        if name == "n":
            return Found("7", live=False, origin=Origin.RUN)
        return Found(CONFIGURED[name], live=True, origin=Origin.STATIC) if name in CONFIGURED else None


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("{town:>7}", [Piece("  Brest", Origin.STATIC)]),
        ("{town!r}", [Piece("'Brest'", Origin.STATIC)]),
        ("{place:>10}", [Piece("  in Brest", Origin.STATIC)]),
        ("{greeting:<10}", [Piece("Hello ", Origin.STATIC), Piece("7!  ", Origin.RUN)]),
        ("{greeting:>10}", [Piece("  Hello 7!", Origin.RUN)]),
    ],
)
def test_a_text_that_is_formatted_is_static_up_to_the_first_value_of_the_run(text, pieces):
    """All of it where it holds none; nothing of it where its beginning has changed."""
    assert fill_pieces(text, Configured()).pieces == pieces


def test_pieces_say_where_they_come_from():
    """The text, its configuration, the run."""
    assert fill_pieces("a{w}", Values()).pieces == [
        Piece("a", Origin.AUTHORED),
        Piece("<", Origin.STATIC),
        Piece(LITERAL["v"], Origin.RUN),
        Piece("7", Origin.RUN),
        Piece(">", Origin.STATIC),
    ]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param("{a} {b[0]} {c!r:>{d}}", {"a", "b", "c", "d"}, id="well-formed"),
        pytest.param("{{a}} {b}", {"b"}, id="doubled"),
        pytest.param('{"k": {n}}', {'"k"', "n"}, id="json"),
        pytest.param("{ {{a}} {b}", {"b"}, id="not-well-formed"),
        pytest.param("plain", set(), id="none"),
    ],
)
def test_placeholder_names(text, names):
    """Every name that is meant."""
    assert placeholder_names(text) == names


@pytest.mark.parametrize(
    ("text", "names", "in_two_passes"),
    [
        pytest.param("{{l[0]}}", ["l"], ["l"], id="a-path-in-doubled-braces"),
        pytest.param("{a}{{l[0]}}", ["a", "l"], ["a", "l"], id="beside-a-name"),
        pytest.param("{{a}} {b}", ["b"], ["b", "a"], id="a-name-in-doubled-braces"),
        pytest.param("{a} {a}", ["a"], ["a"], id="one-twice"),
    ],
)
def test_all_that_could_be_looked_up(text, names, in_two_passes):
    """A text with a name that nobody knows is scanned tolerantly."""
    assert [placeholder.name for placeholder in placeholders(text)] == names
    assert [placeholder.name for placeholder in placeholders(text, second_pass=True)] == in_two_passes


@pytest.mark.parametrize(
    "text", ["{a:" * 20_000, "{" * 50_000, "{a:{b}" * 20_000, "{{a" * 20_000], ids=range(4)
)
def test_a_hostile_text_is_scanned_in_linear_time(text):
    """No pattern goes back over what it has seen."""
    assert filled(text)


UNFIT = [
    ("an-index-of-thousands-of-digits", "{l[" + "1" * 5000 + "]}", None),
    ("such-an-index-in-a-text-that-is-not-well-formed", "{ {l[" + "1" * 5000 + "]}", None),
    ("a-width-in-digits-of-another-script", "{n:\u0669\u0669\u0669\u0669\u0669\u0669d}", None),
    ("a-spec-in-the-spec-of-a-spec", "{n:{n:{n}}}", "{n:      7}"),
    ("specs-without-end", "{n:" * 3000 + "}" * 3000, "{n:" * 2998 + "      7" + "}" * 2998),
]


@pytest.mark.parametrize(("text", "result"), [c[1:] for c in UNFIT], ids=[c[0] for c in UNFIT])
def test_what_no_value_fits_stays_as_text(text, result):
    """And nobody who looks at it fails. `result` None: all of it stays."""
    values = {"n": Found(7, False, Origin.RUN), "l": Found([1], False, Origin.RUN)}

    class Known:
        def find(self, name):
            return values.get(name)

    assert join_pieces(fill_pieces(text, Known()).pieces) == (text if result is None else result)
    assert placeholder_names(text) <= {"n", "l"}


def test_variables_that_multiply_each_other_have_an_end():
    """Ten times ten times ten ... is cut: what is left is text."""
    values = {name: f"{{{follower}}}" * 10 for name, follower in pairwise("abcdefghi")}

    class Known:
        def find(self, name):
            return Found(values.get(name, "x"), True, Origin.STATIC)

    assert len(join_pieces(fill_pieces("{a}", Known()).pieces)) < 1_000_000
