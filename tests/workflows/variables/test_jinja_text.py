"""What the checker asks of a template."""

from __future__ import annotations

import re

import pytest

from Middleware.common.errors import ConfigError
from Middleware.workflows.variables.jinja_text import jinja_name_places, jinja_names, render


def test_names_of_a_template():
    """Every name that is looked up, not those that the template sets."""
    assert jinja_names("{% set a = b %}{{ a }}{% for m in messages %}{{ m.role }}{% endfor %}") == {
        "b",
        "messages",
    }


@pytest.mark.parametrize(
    "text",
    [
        "{{ n }}",
        "{{\r\nn }}",
        "{{ \r\n n\r\n}}",
        "\r\n{{n}}",
        "\r\n\r\n{{\r\n\r\nn}}\r\n{{ n }}",
        "a\r\n {%- if n -%} \r\n{{\r\nn }}{% endif %}",
        "a\nb\r{{\n n }}\r\n{{ n }}",
    ],
)
def test_the_places_of_names_are_those_of_the_text_as_it_was_written(text):
    """Line ends of Windows are two characters there, and one for Jinja."""
    written = [match.start() for match in re.finditer("n", text.replace("endif", "e****"))]
    assert [(place.start, place.end) for place in jinja_name_places(text)] == [(at, at + 1) for at in written]


def test_a_template_that_does_not_parse_has_no_places():
    assert list(jinja_name_places("{{ n }}{% for %}")) == []


def test_a_wrong_template_names_its_line():
    """So the author finds it."""
    with pytest.raises(ConfigError, match="has an error in line 2: "):
        jinja_names("a\n{% for %}")


NOT_COMPILED = [
    ("loops-in-loops", "{% for a in b %}" * 25 + "{% endfor %}" * 25),
    ("brackets-in-brackets", "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}"),
    ("digits-without-end", "{{ " + "1" * 5000 + " }}"),
]


@pytest.mark.parametrize("text", [c[1] for c in NOT_COMPILED], ids=[c[0] for c in NOT_COMPILED])
def test_what_python_cannot_take_is_an_error_of_the_template(text):
    """It is told as such, like any other fault of a template."""
    with pytest.raises(ConfigError, match="cannot be compiled"):
        render(text, Nothing())


def test_a_helper_that_is_used_wrongly_is_an_error_of_the_template():
    with pytest.raises(ConfigError, match="the Jinja template failed: RuntimeError"):
        render("{% set c = cycler() %}{{ c.next() }}", Nothing())


class Nothing:
    def find(self, name):
        return None


class _Nothing:
    def find(self, name):
        return None


@pytest.mark.parametrize(
    "text",
    [
        '{{ "x"|center(10) }}',
        "{{ 2 * 3 }}",
        "{{ 2 ** 3 > 1 }}",
        "{% if 2 * 3 %}a{% endif %}",
        '{% set a = "x" * 3 %}{{ a }}',
        '{% for a in "x"|center(3) %}{{ a }}{% endfor %}',
        '{{ ("x" * 3)|upper }}',
    ],
)
def test_to_look_at_a_template_computes_nothing_of_it(monkeypatch, text):
    """Else whoever only has it checked can make the server work without end: `{{ 9 ** 9 ** 9 }}`."""
    from jinja2 import nodes

    folded = []
    for kind in (nodes.BinExpr, nodes.Filter, nodes.Compare):
        monkeypatch.setattr(kind, "as_const", lambda self, ctx=None: folded.append(self))

    names = jinja_names(text)

    assert (names, folded) == (frozenset(), [])


def test_what_is_printed_is_the_same_although_nothing_was_computed_before():
    assert render("{{ 2 * 3 }} {{ none }}{{ 'a'|upper }} {{ 1.5 }}", _Nothing()) == "6 A 1.5"
