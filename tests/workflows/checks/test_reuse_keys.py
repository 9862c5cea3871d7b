"""Values that people write into the keys of prompt reuse by mistake: one sentence each, with the file, the key and
what is allowed (prompt-reuse.md 1, 2, 5, 6, 7)."""

from __future__ import annotations

import pytest

STEADY = 'true, false, a whole number from 8 to 1000, or "compactor"'
OF_NODE = f"{STEADY}, or a text with a {{placeholder}}"
PLACES = "after, before, system, or a text with a {placeholder}"
AHEAD, CACHING = '"off", "start", "end"', '"off", "5m", "1h"'
MAIN, USER, ENDPOINT = "Workflows/ana/Main.json", "Users/ana.json", "Endpoints/lan/small-model.json"

WRONG = [
    *[
        (MAIN, "steadyWindow", value, OF_NODE)
        for value in ("true", 0, -1, 7, 1001, 3.5, 10**30, [30], {}, "")
    ],
    *[(USER, "steadyWindow", value, STEADY) for value in ("yes", 0, -1, 3.5, 10**30, [30], {})],
    *[(MAIN, "latePrompt", value, "a string") for value in (0, True, ["late"], {})],
    *[(MAIN, "latePromptPlace", value, PLACES) for value in (0, True, "AFTER", "", ["after"])],
    *[(MAIN, "readAhead", value, AHEAD) for value in (True, False, 1, "yes", ["end"], {})],
    *[(MAIN, "readOnly", value, "true or false") for value in ("true", 1, ["true"])],
    *[(ENDPOINT, "promptCaching", value, CACHING) for value in (True, 5, "10m", ["5m"])],
    *[(ENDPOINT, "promptCacheKey", value, "true or false") for value in ("true", 1, ["true"])],
    *[(ENDPOINT, "moreEndpoints", value, "a list") for value in ("http://b:1", True, {}, 5)],
    *[(ENDPOINT, "machine", value, "a word without blanks") for value in (5, True, ["desk"])],
]


@pytest.mark.parametrize(("file", "key", "value", "allowed"), WRONG)
def test_one_sentence(broken, file, key, value, allowed):
    """Nothing else is said of the value."""
    said = broken(file, key, value)
    assert len(said) == 1, said
    assert said[0].startswith(f"{file}: ")
    assert allowed in said[0].partition(", allowed: ")[2]


RIGHT = [
    *[(MAIN, "steadyWindow", value) for value in (True, False, 8, 1000, "compactor", "{window}", None)],
    *[(USER, "steadyWindow", value) for value in (True, False, 8, 1000, "compactor", None)],
    *[(MAIN, "latePromptPlace", value) for value in ("after", "before", "system", "{place}", None)],
    *[(ENDPOINT, "promptCaching", value) for value in ("off", "5m", "1h", None)],
    *[(ENDPOINT, "moreEndpoints", value) for value in ([], ["http://b:1"], None)],
    *[(ENDPOINT, "machine", value) for value in ("desk", "", None)],
]


@pytest.mark.parametrize(("file", "key", "value"), RIGHT)
def test_nothing_is_said_of_what_is_right(broken, file, key, value):
    """Null counts as an absent key."""
    assert broken(file, key, value) == []


@pytest.fixture
def broken(checked):
    """What is said of `key` when it has this value in a file."""

    def say(file, key, value):
        if file == MAIN:
            type_ = "ContextCompactor" if key == "readOnly" else "Standard"
            checked.flow({"type": type_, "endpointName": "small-model", key: value}, window=20, place="after")
        else:
            checked.change(file, **{key: value})
        return [line for line in checked.lines() if f"{key}: found " in line]

    return say
