"""The names that scripts may import (docs/nodes/PythonModule.md)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from Middleware.common.errors import ConfigMissing
from Middleware.common.instance_global_variables import launch_facts, set_launch_facts
from Middleware.utilities import script_library
from Middleware.utilities.script_library import (
    estimate_tokens,
    estimate_tokens_of_messages,
    last_messages,
    last_user_message,
    read_config,
    system_prompt,
)

TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": "two"},
    {"role": "user", "content": "three"},
    {"role": "assistant", "content": "four"},
]


@pytest.mark.parametrize(
    ("limits", "contents"),
    [
        ({}, ["one", "two", "three", "four"]),
        ({"count": 2}, ["three", "four"]),
        ({"count": 9, "include_system": True}, ["Be brief.", "one", "two", "three", "four"]),
        ({"max_tokens": 0}, ["four"]),
        ({"max_tokens": 2}, ["three", "four"]),
        ({"count": 0}, []),
    ],
    ids=["all", "count", "with-system", "the-newest-always", "tokens", "none"],
)
def test_the_last_messages(limits, contents):
    """Oldest first."""
    assert [message["content"] for message in last_messages(TALK, **limits)] == contents


def test_the_parts_of_a_conversation():
    assert (system_prompt(TALK), last_user_message(TALK)) == ("Be brief.", "three")
    assert (system_prompt([]), last_user_message([])) == ("", "")


def test_the_tokens_of_messages_are_those_of_their_texts():
    assert estimate_tokens_of_messages(TALK) == sum(estimate_tokens(one["content"]) for one in TALK)


def test_a_config_file_is_a_copy(tmp_path):
    """A script may change it; the server's own stays as it is."""
    (tmp_path / "Presets").mkdir()
    (tmp_path / "Presets" / "warm.json").write_text('{"a": [1]}')
    before = launch_facts()
    set_launch_facts(replace(before, config_directory=tmp_path))
    try:
        read_config("Presets", "warm")["a"].append(2)
        assert read_config("Presets", "warm") == {"a": [1]}
        with pytest.raises(ConfigMissing):
            read_config("Presets", "cold")
    finally:
        set_launch_facts(before)


def test_every_name_is_there_and_has_its_words():
    """The words lead from an older name to this one."""
    assert all(callable(getattr(script_library, name)) for name in script_library.__all__)
    assert set(script_library.SUBJECTS) <= set(script_library.__all__)
