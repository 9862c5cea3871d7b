"""POST `edit/renumber`: what follows when the list of nodes changes, told and not done (workbench.md 10, 11 row 12)."""

from __future__ import annotations

import json

import pytest

from tests.api.console.config_house import House, house

assert house
LOOK = ("look",)
TEXT = json.dumps([{"prompt": "\U0001f600"}, {"prompt": "\U0001f600 {agent1Output}"}], ensure_ascii=False)


def asked(house: House, rights=LOOK, **body):
    return house.ask("POST", "edit/renumber", body=body, rights=rights)


def test_places_are_counted_as_a_page_counts_them(house):
    """In UTF-16 units: an emoji is two."""
    at = TEXT.index("1Output") + 2
    assert asked(house, text=TEXT, insert=1) == (
        200,
        {
            "changes": [[at, at + 1, "2"]],
            "changed": [{"node": 2, "field": "prompt", "from": "agent1Output", "to": "agent2Output"}],
            "lost": [],
        },
    )


def test_a_node_that_goes_is_told_before(house):
    status, value = asked(house, text=TEXT, remove=1)
    assert (status, value["changes"]) == (200, [])
    assert value["lost"] == ["node 2 uses the output of node 1, which you remove"]


def test_a_move(house):
    assert asked(house, text=TEXT, move=[1, 2])[1]["lost"] == [
        "node 2 uses the output of node 1, which would no longer run before it"
    ]


def test_the_variables_of_a_user_are_told(house):
    house.write("Users/mira.json", {"port": 5000, "customWorkflowOverride": True, "customWorkflow": "Main",
                                    "userWideWorkflowVariables": {"mine": "{agent1Output}"}})  # fmt: skip
    text = json.dumps([{}, {"prompt": "{mine}"}])
    assert asked(house, text=text, insert=1, user="mira")[1]["lost"] == [
        "the user's variable 'mine' for all workflows names {agent1Output}; it is not changed"
    ]


def test_nothing_is_written(house):
    before = {path: path.read_bytes() for path in house.root.rglob("*") if path.is_file()}
    asked(house, text=TEXT, insert=1)
    assert {path: path.read_bytes() for path in house.root.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"text": "[{", "insert": 1}, 422, "the file ends here"),
        ({"text": "{}", "insert": 1}, 422, "no list of nodes"),
        ({"text": "7", "remove": 1}, 422, "no list of nodes"),
        ({"text": "[" * 5000, "remove": 1}, 422, ""),
        ({"text": "[{}]"}, 400, "exactly one"),
        ({"text": "[{}]", "insert": 1, "remove": 1}, 400, "exactly one"),
        ({"text": "[{}]", "insert": 3}, 400, "from 1 to 2"),
        ({"text": "[{}]", "remove": 0}, 400, "from 1 to 1"),
        ({"text": "[]", "remove": 1}, 400, "allowed"),
        ({"text": "[{}]", "move": [1]}, 400, "two numbers"),
        ({"text": "[{}]", "move": [1, True]}, 400, "from 1 to 1"),
        ({"text": "[{}]", "move": [1, [1]]}, 400, "from 1 to 1"),
        ({"text": "[{}]", "insert": True}, 400, "whole number"),
        ({"text": "[{}]", "insert": 1, "user": "nobody"}, 400, "nobody"),
        ({"insert": 1}, 400, "text"),
        ({"text": "[{}]", "insert": 1, "more": 1}, 400, "more"),
        ({"text": "x" * (1 << 20), "insert": 1}, 413, "too large"),
        ({"text": " " * (1 << 17) + "[{}]", "insert": 1}, 422, "more than 131,072 characters"),
        ({"text": "[{}, " + "1, " * 5000 + "1]", "insert": 1}, 422, "more than 5,000 values"),
    ],
)
def test_what_is_refused(house, body, status, said):
    answered, value = asked(house, **body)
    assert answered == status and said in value["error"]


def test_it_needs_the_right_to_look(house):
    assert asked(house, rights=(), text=TEXT, insert=1)[0] == 403


def test_text_around_the_list_does_not_matter(house):
    text = '\ufeff// a note\n{"nodes": [{"prompt": "x",}, /* {agent1Output} */ {"prompt": "\ud83d {agent1Output}"},]}'
    changes = asked(house, text=text, insert=1)[1]["changes"]
    at = text.rindex("1Output")
    assert changes == [[at, at + 1, "2"]]
