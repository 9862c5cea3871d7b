"""Names that differ from a file in upper and lower case alone: who names them is told, once."""

from __future__ import annotations

import logging

import pytest

from Middleware.config.endpoints import load_endpoint
from Middleware.config.users import UserSettings
from Middleware.config.validation import NOTE, Finding

USED = "ApiTypes/open.json does not exist; ApiTypes/Open.json is used instead, although its upper and lower case differ"


@pytest.fixture
def misspelt(configs):
    configs.put("ApiTypes/Open.json", {"type": "openAIChatCompletion"})
    for name in ("one", "two"):
        configs.put(f"Endpoints/{name}.json", {"endpoint": "http://h", "apiTypeConfigFileName": "open"})
    return configs


def test_the_log_says_which_file_names_it(misspelt, caplog):
    """One warning for each name, however many requests come."""
    load_endpoint(misspelt.snapshot(), UserSettings("ana"), "one")
    load_endpoint(misspelt.snapshot(), UserSettings("ana"), "one")
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert warnings == [f"Endpoints/one.json: apiTypeConfigFileName: {USED}"]


def test_a_check_keeps_a_note_for_each_place(misspelt, caplog):
    """And logs nothing: such a tree works."""
    snapshot = misspelt.snapshot()
    snapshot.spelling.notes = []
    load_endpoint(snapshot, UserSettings("ana"), "one")
    load_endpoint(snapshot, UserSettings("ana"), "two")
    places = [
        Finding(f"Endpoints/{name}.json", "/apiTypeConfigFileName", NOTE, USED) for name in ("one", "two")
    ]
    assert snapshot.spelling.notes == places
    assert caplog.records == []


def test_the_place_is_that_of_the_innermost(configs):
    configs.put("Users/Ana.json", {"port": 1})
    snapshot = configs.snapshot()
    snapshot.spelling.notes = []
    with snapshot.spelling.named_at("a", "/x"), snapshot.spelling.named_at("b", "/y"):
        snapshot.find("Users/ana.json")
    snapshot.find("Users/ana.json")
    assert [(note.file, note.pointer) for note in snapshot.spelling.notes] == [
        ("b", "/y"),
        ("Users/Ana.json", ""),
    ]
