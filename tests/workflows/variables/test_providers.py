"""Each variable that exists by itself, and its documentation."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from Middleware.workflows.variables.providers import LAST, VARIABLES, Layer, variable
from Middleware.workflows.variables.workflow_variable_manager import fill

CATEGORIES = {"RECIPES": "Cooking, menus, shopping lists", "BUG_HUNT": "Finding faults in program text"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("todays_date_pretty", "March 05, 2026"),
        ("todays_date_iso", "2026-03-05"),
        ("YYYY_MM_DD", "2026_03_05"),
        ("current_time_12h", "7:09 PM"),
        ("current_time_24h", "19:09"),
        ("current_month_full", "March"),
        ("current_day_of_week", "Thursday"),
        ("current_day_of_month", "05"),
        ("Discussion_Id", "d1"),
        ("time_context_summary", "ctx"),
        ("agent1Thinking", "hm"),
        ("categoriesSeparatedByOr", "RECIPES or BUG_HUNT"),
        ("category_colon_descriptions",
         "RECIPES: Cooking, menus, shopping lists; BUG_HUNT: Finding faults in program text"),
        ("category_colon_descriptions_newline_bulletpoint",
         "\n- RECIPES: Cooking, menus, shopping lists\n- BUG_HUNT: Finding faults in program text"),
        ("categoryNameBulletpoints", "\n- RECIPES\n- BUG_HUNT"),
        ("category_list", "['RECIPES', 'BUG_HUNT']"),
        ("category_descriptions", "['Cooking, menus, shopping lists', 'Finding faults in program text']"),
    ],
)  # fmt: skip
def test_values(name, value, make_source):
    """On the fifth of March 2026, 19:09:41, in a categorisation run."""
    source = make_source(
        discussion_id="d1",
        time_context=lambda: "ctx",
        thoughts={"agent1Thinking": "hm"},
        categories=CATEGORIES,
    )
    assert fill(f"{{{name}}}", source) == value


@pytest.mark.parametrize(
    ("hour", "shown"), [(0, "12:05 AM"), (1, "1:05 AM"), (11, "11:05 AM"), (12, "12:05 PM"), (23, "11:05 PM")]
)
def test_twelve_hour_time(hour, shown, make_source):
    """No leading zero, English whatever the locale."""
    assert fill("{current_time_12h}", make_source(now=lambda: datetime(2026, 1, 1, hour, 5))) == shown


def test_what_is_absent_is_empty(make_source):
    """No discussion id, no stamps."""
    assert fill("[{Discussion_Id}{time_context_summary}]", make_source()) == "[]"


def test_category_names_exist_only_in_the_categorisation_run(make_source):
    """Elsewhere they stay text."""
    assert fill("{category_list}", make_source()) == "{category_list}"


def test_lists_can_be_looped_over(make_source):
    """In Jinja mode."""
    source = make_source(node={"jinja2": True}, categories=CATEGORIES)
    assert fill("{% for c in category_list %}<{{ c }}>{% endfor %}", source) == "<RECIPES><BUG_HUNT>"


@pytest.mark.parametrize("word", LAST)
@pytest.mark.parametrize("family", ["chat_user_prompt", "templated_user_prompt"])
def test_last_words(family, word, make_source):
    """One to twenty messages."""
    messages = [{"role": "user", "content": "x"} for _ in range(30)]
    shown = fill(f"{{{family}_last_{word}}}", make_source(messages=messages))
    assert shown.count("x") == LAST[word]


def test_a_name_is_defined_once():
    """A second function for a name is refused at import."""
    with pytest.raises(ValueError, match="'messages' is defined twice"):
        variable("messages", Layer.MESSAGES)(lambda view: "")


@pytest.mark.parametrize("name", VARIABLES)
def test_documentation(name):
    """docs/variables.md names every variable."""
    page = (Path(__file__).parents[3] / "docs" / "variables.md").read_text(encoding="utf-8")
    assert f"`{name}`" in page
