"""What the checker asks of a template."""

from __future__ import annotations

import pytest

from Middleware.common.errors import ConfigError
from Middleware.workflows.variables.jinja_text import jinja_names


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
