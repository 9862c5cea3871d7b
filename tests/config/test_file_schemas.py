"""What a file of a kind may hold is put together from the keys that its reader states and from the fields that
others hand in.
"""

from __future__ import annotations

import pytest

from Middleware.config import validation as file_schemas
from Middleware.config.validation import check_file, hand_in, schema


@pytest.fixture(autouse=True)
def _own_sources(monkeypatch):
    monkeypatch.setattr(file_schemas, "_SOURCES", {})
    monkeypatch.setattr(file_schemas, "_WHOLE", {})


def test_a_kind_that_nobody_states_is_told():
    """The module that reads such files was not imported."""
    with pytest.raises(LookupError, match="keys of recipe files"):
        schema("recipe")


def test_without_more_fields_it_is_what_the_reader_states():
    assert schema("routing")["title"] == "Routing"
    assert schema("routing") is schema("routing")


def test_fields_are_handed_in():
    """The check knows them at once; the object stays the same as long as they do."""
    fields = {"shout": {"type": "boolean", "x-level": "warning", "description": "Be loud."}}
    document = {"shout": "x"}
    assert [f.level for f in check_file("Users/a.json", document)] == ["note"]
    hand_in("user", lambda: fields)
    assert [str(f) for f in check_file("Users/a.json", document)] == [
        'Users/a.json: warning: shout: found "x", allowed: true or false'
    ]
    assert schema("user") is schema("user")


def test_fields_may_come_and_go():
    """A source is asked each time."""
    fields = [{"shout": {"type": "boolean"}}, {"whisper": {"type": "boolean"}}]
    hand_in("user", lambda: fields[0])
    assert "shout" in schema("user")["properties"]
    fields.pop(0)
    assert "whisper" in schema("user")["properties"] and "shout" not in schema("user")["properties"]


def test_two_sources_put_their_words_together():
    """One knows the type, the other the meaning."""
    one, other = {"shout": {"type": "boolean"}}, {"shout": {"type": "boolean", "description": "Be loud."}}
    hand_in("user", lambda: one)
    hand_in("user", lambda: other)
    assert schema("user")["properties"]["shout"] == {"type": "boolean", "description": "Be loud."}


def test_two_sources_that_differ_are_told():
    one, other = {"shout": {"type": "boolean"}}, {"shout": {"type": "string"}}
    hand_in("user", lambda: one)
    hand_in("user", lambda: other)
    with pytest.raises(ValueError, match="user field 'shout': type is stated as 'boolean' and as 'string'"):
        schema("user")
