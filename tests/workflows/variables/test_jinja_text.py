"""What the checker asks of a template."""

from __future__ import annotations

import pytest

from Middleware.common.errors import ConfigError
from Middleware.workflows.variables.jinja_text import jinja_names, render


def test_names_of_a_template():
    """Every name that is looked up, not those that the template sets."""
    assert jinja_names("{% set a = b %}{{ a }}{% for m in messages %}{{ m.role }}{% endfor %}") == {
        "b",
        "messages",
    }


def test_a_wrong_template_names_its_line():
    """So the author finds it."""
    with pytest.raises(ConfigError, match="wrong in line 2: "):
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
