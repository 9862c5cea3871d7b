"""One table of keys and names serves every place where a text is shown."""

from __future__ import annotations

import ast
import json
import logging
from pathlib import Path

import pytest

from Middleware.common import secrets
from Middleware.common.errors import ConfigError
from Middleware.config.json_positions import parse
from Middleware.config.validation import describe_value
from Middleware.llmapis.backend_errors import BackendRefusal, status_error
from Middleware.utilities.config_masks import mask_of, shown_text, shown_value
from Middleware.utilities.sensitive_logging_utils import SensitiveFilter
from Middleware.workflows.checks.dry_run import DryNode, Sent

BODY = "1abcdefghijklmnopqrstuvwxyz"


def log_line(text: str) -> str:
    record = logging.LogRecord("n", logging.ERROR, "p", 1, "it said %s", (text,), None)
    SensitiveFilter().filter(record)
    return record.getMessage()


def backend_error(text: str) -> str:
    body = json.dumps({"error": {"message": f"wrong key: {text}"}}).encode()
    error = status_error("big", BackendRefusal(401, {}, body))
    return f"{error} {error.native}"


def broken_file(text: str) -> str:
    with pytest.raises(ConfigError) as raised:
        parse(f'{{"note": "{text}" "b": 1}}'.encode(), "M.json")
    return f"{raised.value}{raised.value.excerpt}"


def dry_node(text: str) -> str:
    sent = Sent("http://h", {}, {"messages": [{"role": "user", "content": text}]})
    node = DryNode("W", 1, "Standard", "", 0, True, fields={"prompt": text}, sent=[sent], output=text)
    return "\n".join(node.lines())


PLACES = {
    "log": log_line,
    "error of a backend": backend_error,
    "broken file": broken_file,
    "wrong value": describe_value,
    "dry run": dry_node,
    "explanation": lambda text: Sent("http://h", {}, {"prompt": text}).text(),
    "console: file": lambda text: shown_text(json.dumps({"prompt": f"use {text} here"})),
    "console: value": lambda text: str(shown_value({"prompt": f"use {text} here"})),
    "console: text of a run": lambda text: mask_of([])(f"use {text} here"),
    "sentence about a file": lambda text: secrets.without_quoted_secrets(f"M.json: found '{text}'"),
}


@pytest.fixture(params=["zz9", "Zebra"], ids=["small", "capital"])
def new_start(request, monkeypatch):
    """A kind of key that nobody knew, added to the one table."""
    made = (
        secrets._key_hints,
        secrets._key_like,
        secrets._like_a_marked_key,
        secrets._key_in_prose,
        secrets._signs,
        secrets._forms,
    )
    for cached in made:
        cached.cache_clear()
    monkeypatch.setattr(secrets, "KEY_STARTS", (*secrets.KEY_STARTS, request.param))
    yield request.param
    for cached in made:
        cached.cache_clear()


@pytest.mark.parametrize("place", PLACES)
def test_a_start_that_is_added_once_is_masked_in_every_place(place, new_start):
    """Logs, messages, the dry run and the console read the same table."""
    shown = PLACES[place](f"{new_start}-{BODY}")
    assert BODY not in shown and secrets.MASK in shown


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "start", [*(f"{start}-" for start in secrets.KEY_STARTS), *secrets.UNMARKED_KEY_STARTS]
)
def test_every_start_is_masked_in_every_place(place, start):
    """As a service writes it: begun so, and long."""
    shown = PLACES[place](start + BODY)
    assert BODY not in shown and secrets.MASK in shown


@pytest.mark.parametrize("place", PLACES)
def test_words_with_a_hyphen_stay(place):
    """A text that only begins as a key does is shown."""
    assert "sk-learn" in PLACES[place]("sk-learn")


def test_a_caret_still_points_where_the_fault_is():
    """What is masked in the line of a broken file keeps its length."""
    text = f"sk-{BODY}"
    line, caret = broken_file(text).splitlines()[-2:]
    assert line.index('"b"') == caret.index("^")


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        (["apiKey"], True),
        (["token"], True),
        (["headers", "X-Plain"], True),
        (["mcp", "env", "HOME"], True),
        (["sessionCookie"], True),
        (["maxContextTokenSize"], False),
        (["nodes", 2, "prompt"], False),
        ([], False),
    ],
)
def test_which_places_of_a_file_may_hold_a_secret(path, is_one):
    """Counts of tokens are no secrets, or nobody would be told what is wrong with them."""
    assert secrets.is_secret_place(path) is is_one


@pytest.mark.parametrize("word", secrets.SECRET_WORDS)
def test_every_word_makes_a_name_a_secret(word):
    """Of a header, and of an option of a command."""
    assert secrets.is_secret_header(f"X-{word.title()}-Id")
    assert secrets.secrets_of_words([f"--{word}", "hush"]) == ["hush"]


def test_no_other_module_has_a_table_of_its_own():
    """Beginnings of keys, and alternatives of names of secrets, stand in one file."""
    house = Path(secrets.__file__).parents[1]
    marks = ("ghp", "AIza", "passw|", "|passw", "secret|", "|secret")
    others = {
        path.relative_to(house).as_posix()
        for path in house.rglob("*.py")
        if path != Path(secrets.__file__)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if any(mark in node.value for mark in marks)
    }
    assert not others
