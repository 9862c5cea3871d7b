"""Elements and self-closing tags, with GAP where something was."""

from __future__ import annotations

import re

import pytest

from Middleware.cleaning.xml_elements import GAP, ElementNames, PairedElements, SelfClosingTags


def joined(pieces):
    """Neighbouring texts as one: where a text is cut does not matter."""
    out = []
    for piece in pieces:
        if piece is not GAP and out and out[-1] is not GAP:
            out[-1] += piece
        elif piece != "":
            out.append(piece)
    return out


def run(machine, chunks):
    """What comes out of texts; one of the machines is fed with lists of pieces."""
    takes_lists = isinstance(machine, SelfClosingTags)
    pieces = [piece for chunk in chunks for piece in machine.feed([chunk] if takes_lists else chunk)]
    return joined(pieces + machine.finish())


CUTS = {
    "characters": list,
    "whole": lambda text: [text],
    "before-each-tag": lambda text: re.split("(?=<)", text),
    "behind-each-tag": lambda text: re.split("(?<=>)", text),
}


PAIRED = [  # text, what comes out, for all names
    ("a<b>c</b>d", ["a", GAP, "d"]),
    ("<b c='d'\n>e</b>", [GAP]),
    ("<b-1.x:y>e</b-1.x:y>", [GAP]),
    ("<1>e</1>", ["<1>e</1>"]),
    ("< b>e</b>", ["< b>e</b>"]),
    ("<>e</>", ["<>e</>"]),
    ("<b>e</b >", ["<b>e</b >"]),
    ("<b><b>e</b></b>", [GAP, "</b>"]),
    ("<a><b>e</b>", ["<a>", GAP]),
    ("<a <b>e</b>", ["<a ", GAP]),
    ("<a><c><b>e</b>f</c><b>", ["<a>", GAP, "<b>"]),
    ("<a><b>1</b>2<b>3</b>", ["<a>", GAP, "2", GAP]),
    ("<a><b>1</b><b>2</b>", ["<a>", GAP, GAP]),
    ("<a>e</</a>", [GAP]),
    ("<a>e</</a", ["<a>e</</a"]),
    ("<a b", ["<a b"]),
    ("<a", ["<a"]),
    ("<", ["<"]),
    ("<a /> x <a>y</a>", ["<a /> x ", GAP]),
    ("<a><b /> x</b>", ["<a><b /> x</b>"]),
    ("<a b=/ >x</a>", [GAP]),
    ("</a><a x", ["</a><a x"]),
    ("<x></a><a x</a>", ["<x></a><a x</a>"]),
    ("<x></a><a y", ["<x></a><a y"]),
    ("<é>a</é>", ["<é>a</é>"]),
    ("<aé>a</aé>", ["<aé>a</aé>"]),
]


@pytest.mark.parametrize(("text", "expected"), PAIRED)
@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_paired_elements(text, expected, cut):
    assert run(PairedElements(ElementNames("*")), cut(text)) == expected


@pytest.mark.parametrize(
    "pieces",
    [("a<b>c", "</b>d"), ("a<b>c<", "/b>d"), ("a<b>", "</b>d"), ("a<", "b>c</b>d"), ("a<b>c</b>", "d")],
)
def test_what_stands_behind_an_element_goes_out_at_once(pieces):
    """The end of the answer is not waited for, wherever it was cut."""
    machine = PairedElements(ElementNames("*"))
    assert joined([one for piece in pieces for one in machine.feed(piece)]) == ["a", GAP, "d"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<note>a</note>", [GAP]),
        ("<notes>a</notes>", ["<notes>a</notes>"]),
        ("<b><note>a</note></b>", ["<b>", GAP, "</b>"]),
        ("<no <note>a</note>", ["<no ", GAP]),
        ("<no>a</no>", ["<no>a</no>"]),
        ("<note <b>a</b></note>", [GAP]),
    ],
)
@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_paired_elements_of_a_list(text, expected, cut):
    assert run(PairedElements(ElementNames(["note"])), cut(text)) == expected


@pytest.mark.parametrize(
    ("chunk", "held"),
    [
        ("<", True),
        ("<n", True),
        ("<note", True),
        ("<x", False),
        ("<nox", False),
        ("<note>", True),
        ("</", False),
    ],
)
def test_only_what_may_become_a_listed_element_is_held(chunk, held):
    assert (joined(PairedElements(ElementNames(["note"])).feed(chunk)) == []) is held


@pytest.mark.parametrize(
    "chunks",
    [["<a>x</a>", "y"], ["<a>x", "</a>", "y"], ["<a>x", "<", "/a>", "y"], ["<a>x", "</", "a", ">", "y"], ["<a>", "<<", "/a>", "y"]],
)  # fmt: skip
def test_what_follows_an_element_leaves_as_soon_as_that_is_closed(chunks):
    """However its closing tag is cut: the text is over for nobody who waits for it."""
    machine = PairedElements(ElementNames("*"))
    assert joined([piece for chunk in chunks for piece in machine.feed(chunk)]) == [GAP, "y"]


SELF_CLOSING = [
    (["a<b/>c"], ["a", GAP, "c"]),
    (["<b c='/' />"], [GAP]),
    (["<b c>d/>"], ["<b c>d/>"]),
    (["<b/ >"], ["<b/ >"]),
    (["<b <c/>"], [GAP]),
    (["<b x><c/>"], ["<b x>", GAP]),
    (["</b/>"], ["</b/>"]),
    (["<b", GAP, "/>"], [GAP]),
    (["<b", GAP, ">"], ["<b", GAP, ">"]),
    (["<", GAP, "/>"], ["<", GAP, "/>"]),
    (["<b/", GAP, ">"], ["<b/", GAP, ">"]),
    (["<b ", GAP], ["<b ", GAP]),
    (["<b/"], ["<b/"]),
]


@pytest.mark.parametrize(("pieces", "expected"), SELF_CLOSING)
@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_self_closing_tags(pieces, expected, cut):
    """What stands where an element was counts as white space, as in the text with its one space."""
    machine = SelfClosingTags(ElementNames("*"))
    out = [
        made
        for piece in pieces
        for part in (cut(piece) if piece else [piece])
        for made in machine.feed([part])
    ]

    assert joined(out + machine.finish()) == expected


@pytest.mark.parametrize(
    ("machine", "text", "expected"),
    [
        *((PairedElements, text, expected) for text, expected in PAIRED),
        *((SelfClosingTags, pieces[0], expected) for pieces, expected in SELF_CLOSING if len(pieces) == 1),
    ],
)
def test_one_cut_anywhere_changes_nothing(machine, text, expected):
    """What stands before an element leaves, also when the cut is in the middle of its attributes."""
    text, expected = f"say {text}", joined(["say ", *expected])
    places = range(1, len(text))
    answers = [run(machine(ElementNames("*")), [text[:at], text[at:]]) for at in places]
    assert answers == [expected] * len(places)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("<note/>", [GAP]), ("<notes/>", ["<notes/>"]), ("<b <note/>", ["<b ", GAP]), ("<no/>", ["<no/>"])],
)
@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_self_closing_tags_of_a_list(text, expected, cut):
    assert run(SelfClosingTags(ElementNames(["note"])), cut(text)) == expected


def test_names():
    """`"*"` means all; a bare text is a list of one."""
    assert "x" in ElementNames("*") and "x" in ElementNames(["a", "*"])
    assert "note" in ElementNames("note") and "no" not in ElementNames("note")
    assert ElementNames("note").may_become("no") and not ElementNames("note").may_become("nb")


def test_what_is_no_name_of_the_list_leaves_at_once():
    """Also when its `<` came alone."""
    machine = PairedElements(ElementNames(["b"]))
    assert [machine.feed("a<"), machine.feed("c"), machine.finish()] == [["a"], ["<c"], []]
