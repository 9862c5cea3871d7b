"""Edits of a keys file keep what people wrote there (keys.md 7)."""

from __future__ import annotations

import json

import pytest

from Middleware.common.errors import ConfigError
from Middleware.config.key_edits import EMPTY, _checked, with_digest, with_entry, without_entry
from Middleware.config.key_file import digest_of, read_keys


def entry(name, **more):
    return {"name": name, "sha256": digest_of(name), "users": ["*"], **more}


def line(name):
    return json.dumps(entry(name))


LAYOUTS = {
    "one line": f'{{"keys": [{line("a")}, {line("b")}]}}',
    "a line each": f'{{\n  "keys": [\n    {line("a")},\n    {line("b")}\n  ]\n}}\n',
    "a comma too many": f'{{ "keys": [\n{line("a")},\n{line("b")},\n]}}',
    "comments": (
        f"// ours\n{{ \"keys\": [ // the keys\n  {line('a')}, // Ann's\n  // now Bob's\n"
        f"  {line('b')} /* not, on Sundays */ // ]\n] }}"
    ),
    "laid out": json.dumps({"keys": [entry("a"), entry("b")]}, indent=2),
}
layout = pytest.mark.parametrize("text", LAYOUTS.values(), ids=LAYOUTS)


def names(text):
    return [one.name for one in read_keys(text.encode())]


def comments(text):
    return [
        mark
        for mark in ("// ours", "// the keys", "// Ann's", "// now Bob's", "/* not, on Sundays */")
        if mark in text
    ]


@layout
def test_an_entry_more(text):
    made = with_entry(text, entry("c"))
    assert names(made) == ["a", "b", "c"] and comments(made) == comments(text)
    assert names(with_entry(made, entry("d"))) == ["a", "b", "c", "d"]


@layout
@pytest.mark.parametrize(("gone", "kept"), [("a", ["b"]), ("b", ["a"])])
def test_an_entry_less(text, gone, kept):
    assert names(without_entry(text, gone)) == kept
    assert "// ours" not in text or "// ours" in without_entry(text, gone)


@layout
def test_all_go_and_come_again(text):
    bare = without_entry(without_entry(text, "a"), "b")
    assert names(bare) == [] and names(with_entry(bare, entry("c"))) == ["c"]


@layout
@pytest.mark.parametrize("folder", [None, "0123456789abcdef"])
def test_another_digest(text, folder):
    made = with_digest(text, "b", digest_of("new"), folder)
    first, second = read_keys(made.encode())
    assert (first.sha256, second.sha256, second.folder) == (digest_of("a"), digest_of("new"), folder)
    assert comments(made) == comments(text)


def test_the_first_entry_of_a_file():
    assert names(with_entry(EMPTY, entry("a", folder=""))) == ["a"]


def test_a_name_that_is_not_there():
    with pytest.raises(LookupError):
        without_entry(EMPTY, "a")
    with pytest.raises(LookupError):
        with_digest(EMPTY, "a", digest_of("x"))


@pytest.mark.parametrize(("held", "kept"), [(["a"], ["a"]), (["b", "a"], []), (["a", "b"], ["c"])])
def test_an_edit_that_did_something_else_is_refused(held, kept):
    """Other entries than were meant, or one that had to stay as it was."""
    text = LAYOUTS["one line"]
    stays = [*read_keys(text.encode()), *read_keys(f'{{"keys": [{line("c")}]}}'.encode())]
    with pytest.raises(ConfigError, match="only a person can edit") as caught:
        _checked(text, held, [one for one in stays if one.name in kept])
    assert caught.value.file == "Keys.json"
    assert _checked(text, ["a", "b"], stays[:2]) == text
