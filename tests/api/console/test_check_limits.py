"""A text that is checked for a look does not hold the server: what is too large says so."""

from __future__ import annotations

import json

import pytest

from Middleware.api.console.workflow_files import (
    MOST_BRACES,
    MOST_CHARS,
    MOST_PROBLEMS,
    MOST_VALUES,
    too_large,
)
from tests.api.console.config_house import house

assert house
MAIN = "Workflows/mira/Main.json"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" + "1," * (MOST_VALUES - 1) + "]", ""),
        ("[" + "1," * MOST_VALUES + "]", "5,000 values"),
        ("[" * (MOST_VALUES + 1), "5,000 values"),
        ('["' + "{" * MOST_BRACES + '"]', ""),
        ('["' + "{" * (MOST_BRACES + 1) + '"]', "20,000 braces"),
        ("x" * MOST_CHARS, ""),
        ("x" * (MOST_CHARS + 1), "131,072 characters"),
    ],
    ids=range(7),
)
def test_what_is_too_large(text, said):
    told = too_large(text)

    assert (said in told) if said else told == ""


def test_a_huge_faulty_text_is_told_in_one_sentence(house):
    text = '{"nodes":[' + "{}," * 200_000 + "1]}"

    status, told = house.ask("POST", "check", body={"path": MAIN, "text": text})

    assert (status, told["graph"]) == (200, None)
    assert [problem["message"] for problem in told["problems"]] == [
        "this text has more than 131,072 characters and is not checked here; --validate checks it"
    ]


def test_of_very_many_problems_the_first_are_told_and_how_many_more(house):
    text = json.dumps({"nodes": [1] * (MOST_PROBLEMS + 20)})

    status, told = house.ask("POST", "check", body={"path": MAIN, "text": text})

    assert status == 200 and len(told["problems"]) == MOST_PROBLEMS + 1
    assert told["problems"][-1] == {
        **{"line": 1, "column": 1, "end_line": 1, "end_column": 1},
        **{"pointer": "", "node": None, "level": "note", "message": "and 20 more; --validate lists them all"},
    }
