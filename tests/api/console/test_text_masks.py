"""Secrets inside of a longer text are hidden; a text that only speaks of them stays as it is."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from Middleware.common.secrets import mask_text, without_quoted_secrets

# id, text, what is shown
HIDDEN = [
    ("address", "see http://u:pw123@h/x", "see http://u:***@h/x"),
    ("query", "GET https://h/v1?a=1&api_key=abc&b=2", "GET https://h/v1?a=1&api_key=***&b=2"),
    ("query-of-a-path", "/v1/models?api_key=abc", "/v1/models?api_key=***"),
    ("form-body", "grant=x&client_secret=abc&b=1", "grant=x&client_secret=***&b=1"),
    ("header", "Authorization: Bearer abc", "Authorization: Bearer ***"),
    ("header-without-a-scheme", "authorization: abc", "authorization: ***"),
    ("two-headers", "Accept: a\nAuthorization: Basic dXNlcg==\nX-Api-Key: abc", "Accept: a\nAuthorization: Basic ***\nX-Api-Key: ***"),
    ("cookies", "Cookie: a=b; c=d", "Cookie: ***"),
    ("header-of-a-command", 'curl --header "X-Api-Key: abc" https://h', 'curl --header "X-Api-Key: ***" https://h'),
    ("authorization-of-a-command", "curl -H 'Authorization: Bearer abc' h", "curl -H 'Authorization: Bearer ***' h"),
    ("unquoted", "curl -H X-Goog-Api-Key:abc h", "curl -H X-Goog-Api-Key:*** h"),
    ("unquoted-authorization", "curl -H Authorization:abc h", "curl -H Authorization:*** h"),
    ("option", "run --api-key abc --token=def -v", "run --api-key *** --token=*** -v"),
    ("environment", "OPENAI_API_KEY=abc run", "OPENAI_API_KEY=*** run"),
    ("json", '{"a": 1, "apiKey": "abc", "password": "d e"}', '{"a": 1, "apiKey": "***", "password": "***"}'),
    ("json-headers", '{"Authorization": "Bearer abc", "x-auth-token":"def"}', '{"Authorization": "Bearer ***", "x-auth-token":"***"}'),
    ("python", "{'token': 'abc'}", "{'token': '***'}"),
    ("bearer", "send Bearer eyJhbGciOiJIUzI1NiJ9.e30.x", "send Bearer ***"),
    ("a-key-by-its-form", "use sk-abcdefghij12345 here", "use sk-*** here"),
    ("signs-in-a-key", "X-Api-Key: a;b,c#d", "X-Api-Key: ***"),
    ("pair", "client_secret=abc", "client_secret=***"),
]  # fmt: skip
SHOWN = [
    "", "Key points: a, b", "Author: Ann", "the token: a word", "Password: never reveal it", "bearer of bad news",
    "Authorization: the user must agree first", "cookie: a small cake", "tokens=5, keywords: x", '{"keywords": "a", "author": "b"}',
    "Authorization: Bearer {agent1Input}", "https://h/?api_key={key}&token=${ENV:T}", "X-Api-Key: <your key>", '{"apiKey": "{key}"}',
    "--max 5 -token", "a ? b & c", "sk-learn is a library", "primary_key: id", "sort_key=name", "?", "@",
]  # fmt: skip


@pytest.mark.parametrize(("text", "shown"), [case[1:] for case in HIDDEN], ids=[case[0] for case in HIDDEN])
def test_what_is_hidden(text, shown):
    assert mask_text(text) == shown


@pytest.mark.parametrize("text", [case[2] for case in HIDDEN], ids=[case[0] for case in HIDDEN])
def test_what_was_hidden_is_known_again(text):
    """Or a mask could be saved in the place of a secret."""
    assert mask_text(text) == text


@pytest.mark.parametrize("text", SHOWN)
def test_what_is_prose_or_a_variable_is_shown(text):
    assert mask_text(text) is None


@pytest.mark.parametrize("text", ["My-Secret: abc", "monkey=abc", "-e db_password=abc"])
def test_where_nobody_writes_prose_any_name_counts(text):
    assert mask_text(text) is None
    assert mask_text(text, is_prose=False) == text.replace("abc", "***")


PIECES = st.sampled_from(
    ["Authorization", "Bearer", "Cookie", "X-Api-Key", "--token", "api_key", "A_KEY", "sk-abcdefghij12", '"token"', ":", "=", " ", "?", "&", "'", '"', "***", "a1", "http://u:p@h", "\n", ";", "{x}"]
)  # fmt: skip


@settings(max_examples=1500)
@example("Authorization: Authorization; Authorization", True)
@given(st.lists(PIECES, max_size=10).map("".join), st.booleans())
def test_to_hide_twice_is_to_hide_once(text, is_prose):
    """For any text."""
    shown = mask_text(text, is_prose=is_prose)
    assert shown is None or mask_text(shown, is_prose=is_prose) == shown


@pytest.mark.parametrize(
    "piece", ["x-key-", "--key", "A_KEY", "a=", "?key", "sk-a", "authorization ", "bearer ", "?", '"token":', "http://", "a", "-", "cookie:a", "x-a-"]
)  # fmt: skip
def test_a_long_text_is_looked_at_once(piece):
    """A hundred thousand characters that nearly hold a secret, over and over: no form goes back over them."""
    text = piece * (131_072 // len(piece))
    shown = mask_text(text, is_prose=False) or text
    assert (mask_text(shown, is_prose=False) or shown) == shown


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        (
            'M.json: args: found "a\\nCookie: a=hidden5..., allowed: a list',
            "M.json: args: found ***, allowed: a list",
        ),
        (
            "M.json: note: found 'Authorization: Bearer abc', allowed: 5",
            "M.json: note: found ***, allowed: 5",
        ),
        ('M.json: found "{\\"apiKey\\": \\"abc\\"}"', "M.json: found ***"),
        ("M.json: apiKey: found 5, allowed: a string", None),
        ("M.json: found 'a key', allowed: 'b'", None),
    ],
)
def test_a_sentence_that_quotes_a_secret_quotes_nothing(sentence, shown):
    """However the quote is cut or written."""
    assert without_quoted_secrets(sentence) == (shown or sentence)
