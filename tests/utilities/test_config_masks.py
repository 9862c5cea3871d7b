"""What is shown of a config file, and what becomes of it when it is saved."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from Middleware.utilities.config_masks import (
    restore_secrets,
    secrets_in,
    shown_text,
    shown_value,
    stand_in_for_secrets,
)

ENDPOINT = (
    '{"apiKey": "sk-1234567890abcdef", "endpoint": "http://u:pw123456@h:1",'
    ' "extraHeaders": {"X-Team": "a", "Authorization": "Bearer zzz"}, // mine\n "x": 1}'
)


class TestShown:
    def test_the_secrets_of_an_endpoint_read_as_stars(self):
        """Spec 16.9; comments, spaces and all other values stay."""
        assert shown_text(ENDPOINT) == (
            '{"apiKey": "***", "endpoint": "http://u:***@h:1",'
            ' "extraHeaders": {"X-Team": "a", "Authorization": "***"}, // mine\n "x": 1}'
        )

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ('{"a": [{"PASSWORD": "p"}]}', '{"a": [{"PASSWORD": "***"}]}'),
            ('{"auth": {"user": "u", "x": [1]}, "b": 2}', '{"auth": "***", "b": 2}'),
            ('{"token": 5}', '{"token": "***"}'),
            ('{"token": "a", "token": "b"}', '{"token": "***", "token": "***"}'),
            ('{"to\\u006ben": "a"}', '{"to\\u006ben": "***"}'),
            ('{"apiKey": "", "token": null, "auth": {}}', '{"apiKey": "", "token": null, "auth": {}}'),
            ('{"extraHeaders": {"X-A": "${ENV:TEAM}"}}', '{"extraHeaders": {"X-A": "***"}}'),
            (
                '{"headers": {"X-Api-Key": "k", "Accept": "a"}}',
                '{"headers": {"X-Api-Key": "***", "Accept": "a"}}',
            ),
            (
                '{"env": {"GITHUB_TOKEN": "k", "HOME": "/h"}}',
                '{"env": {"GITHUB_TOKEN": "***", "HOME": "/h"}}',
            ),
            ('{"args": ["--token", "abc", "-x"]}', '{"args": ["--token", "***", "-x"]}'),
            ('{"args": ["-u", "me:pass word", "x"]}', '{"args": ["-u", "me:***", "x"]}'),
            ('{"args": ["--proxy-user=me:a:b"]}', '{"args": ["--proxy-user=me:***"]}'),
            ('{"args": ["-H", "Authorization: Bearer abc"]}', '{"args": ["-H", "Authorization: ***"]}'),
            ('["see http:\\/\\/u:pw@h\\nnow"]', '["see http://u:***@h\\nnow"]'),
            ('["https://0123456789abcdef@h"]', '["https://***@h"]'),
            ('{"a": 1 /* "apiKey": "sk-old" */}', '{"a": 1 /* "apiKey": "***" */}'),
            (
                '{"prompt": "the token: a word", "maxTokens": 5}',
                '{"prompt": "the token: a word", "maxTokens": 5}',
            ),
        ],
    )
    def test_what_hides_and_what_does_not(self, text, shown):
        """By the key, wherever it stands; by the header's name; by its form in a URL or a command line."""
        assert shown_text(text) == shown

    @pytest.mark.parametrize(
        "text",
        [
            '{"apiKey: "sk-1234567890abcdef", "x": 1}',
            '{"apiKey": sk-1234567890abcdef/more}',
            '{"apiKey": "sk-1234567890abcdef", "x" 1}',
            '{"a": 1} // "token": "sk-1234567890abcdef"\n]',
        ],
    )
    def test_a_broken_text_shows_no_key_either(self, text):
        """What is no JSON is masked line by line as well; put back, it is what it was."""
        assert "1234567890abcdef" not in shown_text(text) and "/more" not in shown_text(text)
        assert restore_secrets(shown_text(text), text) == (text, [])

    def test_nesting_costs_no_time(self):
        """A text of open brackets alone is no file, and holds nothing."""
        assert shown_text("[" * 20_000) == "[" * 20_000


class TestStandIns:
    def test_a_secret_becomes_what_it_is_given(self):
        """At its place, with comments and spaces as they are; None leaves it."""
        text = '{ // mine\n  "apiKey": "hunter2hunter2",  "token": "abcdefgh", "n": 1 }'
        seen = []

        def stand_in(pointer, value, shown):
            seen.append((pointer, value, shown))
            return "${ENV:KEY}" if pointer == "/apiKey" else None

        made = stand_in_for_secrets(text, stand_in)
        assert made == text.replace("hunter2hunter2", "${ENV:KEY}")
        assert seen == [("/apiKey", "hunter2hunter2", "***"), ("/token", "abcdefgh", "***")]

    def test_a_secret_in_a_comment_is_hidden(self):
        """Nothing can stand in for it."""
        made = stand_in_for_secrets('{ // Authorization: Bearer abcdefgh12345678\n "a": 1 }', lambda *_: None)
        assert "abcdefgh" not in made and '"a": 1' in made


class TestRestored:
    def test_an_untouched_text_is_the_old_one(self):
        """Character for character."""
        assert restore_secrets(shown_text(ENDPOINT), ENDPOINT) == (ENDPOINT, [])

    def test_a_new_key_is_taken(self):
        """Spec 16.9; the other secrets come back."""
        text = shown_text(ENDPOINT).replace('"apiKey": "***"', '"apiKey": "new"')
        assert restore_secrets(text, ENDPOINT) == (ENDPOINT.replace("sk-1234567890abcdef", "new"), [])

    def test_the_way_it_was_written_comes_back(self):
        """An escape stays an escape, an object an object."""
        old = '{"auth": {"user" : "\\u0075"}, "token":"\\u0061", "a": 1}'
        text = shown_text(old).replace('"a": 1', '"a": 2')
        assert restore_secrets(text, old) == (old.replace('"a": 1', '"a": 2'), [])

    @pytest.mark.parametrize(
        ("text", "old", "lost"),
        [
            ('{"apiKey": "***"}', "{}", ["/apiKey"]),
            ('{"a": {"token": "***"}}', '{"token": "x"}', ["/a/token"]),
            ('{"headers": {"Cookie": "***"}}', '{"headers": {}}', ["/headers/Cookie"]),
            ('{"endpoint": "http://u:***@new"}', '{"endpoint": "http://u:pw@old"}', ["/endpoint"]),
            (
                '{"endpoint": "https://***@new"}',
                '{"endpoint": "https://0123456789abcdef@old"}',
                ["/endpoint"],
            ),
            ('{"auth": {"password": "***"}}', '{"auth": {"password": "x"}}', ["/auth/password"]),
            ('[{"type": "StaticResponse", "content": "***"}]', "[]", []),
            ('{"token": "***"}', '{"token": "***"}', []),
        ],
    )
    def test_a_mask_without_a_value_is_told(self, text, old, lost):
        """Where a secret would stand; stars elsewhere are a text like any other."""
        assert restore_secrets(text, old) == (text, lost)

    def test_comments_come_back_wherever_they_stand_now(self):
        """The first that looks the same first."""
        old = '{"a": 1, // token: one\n"b": 2 // token: two\n}'
        text = shown_text(old).replace('"a": 1', '"a": 1,\n"c": 3')
        assert restore_secrets(text, old) == (old.replace('"a": 1', '"a": 1,\n"c": 3'), [])


def node(title: str, **fields: Any) -> dict[str, Any]:
    """A node with a secret of its own."""
    return {"title": title, "token": f"of {title}", **fields}


def shown_node(title: str, **fields: Any) -> dict[str, Any]:
    return {**node(title, **fields), "token": "***"}


class TestLists:
    """What is added to a list, taken out of it or moved in it shifts the others: a secret goes with its item."""

    OLD = json.dumps({"nodes": [node("a"), node("b"), node("c")]})

    @pytest.mark.parametrize(
        ("new", "titles"),
        [
            ([{"title": "new"}, shown_node("a"), shown_node("b"), shown_node("c")], "abc"),
            ([shown_node("b"), shown_node("c")], "bc"),
            ([shown_node("c"), shown_node("b"), shown_node("a")], "cba"),
            ([shown_node("a", x=1), {"title": "new"}, shown_node("b"), shown_node("c")], "abc"),
            ([shown_node("b", x=1), shown_node("c", y=1)], "bc"),
            ([shown_node("a"), {"title": "b", "token": "new"}, shown_node("c")], "ac"),
        ],
        ids=[
            "added",
            "taken-out",
            "turned-round",
            "changed-and-added",
            "changed-and-taken-out",
            "written-anew",
        ],
    )
    def test_it_goes_with_its_node(self, new, titles):
        """Never with the one that stands in its place now."""
        text, lost = restore_secrets(json.dumps({"nodes": new}), self.OLD)
        told = {
            one["title"]: one["token"]
            for one in json.loads(text)["nodes"]
            if one.get("token", "new") != "new"
        }
        assert (told, lost) == ({title: f"of {title}" for title in titles}, [])

    @pytest.mark.parametrize(
        ("old", "new", "lost"),
        [
            ([{"token": "1"}, {"token": "2"}], [{"token": "***"}], ["/0/token"]),
            ([{"token": "1"}], [{"token": "***"}, {"token": "***"}], []),
            ([{"token": "1", "a": 1}, {"token": "2"}], [{"token": "***", "a": 2}], ["/0/token"]),
            ([{"token": "1"}], {"nodes": [{"token": "***"}]}, ["/nodes/0/token"]),
        ],
        ids=["two-alike", "copied", "which-one", "another-form"],
    )
    def test_what_is_not_plain_is_lost(self, old, new, lost):
        """It must be written again; a copied item has the secret of its original."""
        assert restore_secrets(json.dumps(new), json.dumps(old))[1] == lost

    def test_a_renamed_node_keeps_its_secret(self):
        """It was changed in its place."""
        new = [shown_node("a"), {**shown_node("b"), "title": "renamed"}, shown_node("c")]
        text, lost = restore_secrets(json.dumps({"nodes": new}), self.OLD)
        assert (json.loads(text)["nodes"][1], lost) == ({"title": "renamed", "token": "of b"}, [])

    def test_words_of_a_command_move_too(self):
        """One added before them."""
        old = '{"args": ["-H", "X-Key: abc", "--token", "def"]}'
        new = '{"args": ["-s", "-H", "X-Key: ***", "--token", "***"]}'
        assert restore_secrets(new, old) == ('{"args": ["-s", "-H", "X-Key: abc", "--token", "def"]}', [])

    def test_deep_lists_cost_no_stack(self):
        """A text that is nested more than any file may be."""
        deep = "[" * 3000 + "]" * 3000
        assert restore_secrets(f'[{{"token": "***"}}, {deep}]', '[{"token": "x"}, 1]')[1] in (
            [],
            ["/0/token"],
        )

    @settings(max_examples=200)
    @given(data=st.data())
    def test_no_secret_changes_hands(self, data: st.DataObject):
        """Whatever is done to a list of nodes at once: a node has its own secret again, or none."""
        titles = "abcdef"[: data.draw(st.integers(1, 6))]
        kept = [shown_node(title) for title in data.draw(st.permutations(titles))][
            : data.draw(st.integers(0, 6))
        ]
        for one in kept:
            one.update(data.draw(st.sampled_from([{}, {}, {"x": 1}, {"y": 2}])))
        for _ in range(data.draw(st.integers(0, 2))):
            kept.insert(data.draw(st.integers(0, len(kept))), {"title": "new"})
        text, _ = restore_secrets(json.dumps(kept), json.dumps([node(title) for title in titles]))
        for one in json.loads(text):
            assert one.get("token", "***") in ("***", f"of {one['title']}")


class TestBrokenTexts:
    def test_a_line_has_its_own_secret_again(self):
        """Not that of a line above it that was deleted and looked the same."""
        old = '{\n"a": {\n"apiKey": "one"\n},\n"b": {\n"apiKey": "two"\n}'
        new = '{\n"b": {\n"apiKey": "***"\n}\n}'
        assert restore_secrets(new, old) == (new.replace("***", "two"), [])

    def test_a_line_that_could_be_two_is_refused(self):
        """It must be written again."""
        old = '{\n"apiKey": "one",\n"apiKey": "two",\n'
        assert restore_secrets('{\n"apiKey": "***",\n"x": 1}', old)[1] == ["/apiKey"]


class TestSecretsIn:
    def test_they_are_listed(self):
        """For messages that quote a value."""
        assert secrets_in(ENDPOINT) == ["http://u:pw123456@h:1", "sk-1234567890abcdef", "Bearer zzz"]


_NAMES = st.sampled_from(
    [
        "apiKey",
        "token",
        "Secret",
        "headers",
        "extraHeaders",
        "Authorization",
        "X-Team",
        "url",
        "args",
        "a",
        "é",
    ]
)
_WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_URLS = st.builds(
    "http://{}:{}@h/{}".format, st.sampled_from("uv"), st.sampled_from(["pw", "p%20w"]), st.just("x")
)
_VALUES = st.recursive(
    _WORDS | _URLS | st.integers() | st.booleans() | st.none() | st.just("***"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=12,
)

_DOUBLED = st.recursive(
    _WORDS | _URLS | st.integers() | st.just("***"),
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(_NAMES, inner), max_size=5).map(tuple),
    max_leaves=12,
)
"""Values as `_written` takes them: an object is a tuple of its keys and values."""


def _written(value: Any) -> str:
    """The JSON of a value, in which a key may stand more than once in an object."""
    if isinstance(value, tuple):
        return "{" + ", ".join(f"{json.dumps(name)}: {_written(item)}" for name, item in value) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    return json.dumps(value)


class TestDoubledKeys:
    """A key that stands more than once in its object: the last one counts, and each keeps its own secret."""

    @pytest.mark.parametrize(
        "old",
        [
            '{"extraHeaders": {"X-Api-Key": "1"}, "n": 8192, "extraHeaders": {"X-Api-Key": "2"}}',
            '{"apiKey": "1", "n": 8192, "apiKey": "2"}',
            '{"args": ["--token", "1"], "n": 8192, "args": ["--token", "2"]}',
            '{"auth": "1", "n": 8192, "auth": {"user": 2}}',
            '{"env": {"KEY": "1", "KEY": "2"}, "n": 8192, "env": {"KEY": "3", "KEY": 4}}',
            '[{"token": "1", "n": 8192, "token": "2"}, {"token": "3"}]',
        ],
        ids=["holders", "keys", "commands", "kinds-of-value", "both", "in-a-list"],
    )
    def test_each_keeps_its_own(self, old):
        """When something else is changed."""
        text = shown_text(old).replace("8192", "8193")
        assert restore_secrets(text, old) == (old.replace("8192", "8193"), [])

    @pytest.mark.parametrize(
        ("old", "new", "made", "lost"),
        [
            ('{"apiKey": "1", "apiKey": "2"}', '{"apiKey": "***"}', '{"apiKey": "2"}', []),
            (
                '{"headers": {"X-Key": "1"}, "headers": {"X-Key": "2"}}',
                '{"headers": {"X-Key": "***"}}',
                '{"headers": {"X-Key": "2"}}',
                [],
            ),
            (
                '{"headers": {"A": "b", "X-Key": "1"}, "headers": {"X-Key": "2"}}',
                '{"headers": {"A": "b", "X-Key": "***"}}',
                '{"headers": {"A": "b", "X-Key": "1"}}',
                [],
            ),
            (
                '{"apiKey": "1", "apiKey": "2", "apiKey": "3"}',
                '{"apiKey": "***", "apiKey": "***"}',
                '{"apiKey": "***", "apiKey": "3"}',
                ["/apiKey"],
            ),
            ('{"apiKey": "1"}', '{"apiKey": "***", "apiKey": "new"}', '{"apiKey": "1", "apiKey": "new"}', []),
        ],
        ids=["the-one-in-use", "its-holder", "plain-which", "nobody-knows", "one-more"],
    )
    def test_one_of_them_goes(self, old, new, made, lost):
        """What is left is the one that it looks like; if all look the same, the one that was in use."""
        assert restore_secrets(new, old) == (made, lost)

    @settings(max_examples=300)
    @given(data=st.data())
    def test_shown_and_saved_again_is_the_same(self, data: st.DataObject):
        """However often a key stands anywhere."""
        text = _written(data.draw(_DOUBLED))
        assert restore_secrets(shown_text(text), text) == (text, [])


class TestLaws:
    @settings(max_examples=300)
    @given(value=_VALUES, indent=st.sampled_from([None, 1]), escaped=st.booleans())
    def test_text_and_value_are_masked_alike(self, value: Any, indent: int | None, escaped: bool):
        """There is one rule of what is secret."""
        text = json.dumps(value, indent=indent, ensure_ascii=escaped)
        assert json.loads(shown_text(text)) == shown_value(value)

    @settings(max_examples=300)
    @given(value=_VALUES, indent=st.sampled_from([None, 1]), escaped=st.booleans())
    def test_shown_and_saved_again_is_the_same(self, value: Any, indent: int | None, escaped: bool):
        """For every text."""
        text = json.dumps(value, indent=indent, ensure_ascii=escaped)
        assert restore_secrets(shown_text(text), text) == (text, [])


def test_a_command_of_very_many_secrets_is_hidden_word_by_word():
    """To look for each secret in each word would take minutes."""
    args = [word for i in range(3000) for word in ("--api-key", f"secret{i}")]
    text = json.dumps({"args": args})

    shown = shown_text(text)

    assert json.loads(shown) == {"args": ["***"] * 6000}
    assert restore_secrets(shown, text) == (text, [])


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://h/?api_key=sk1", "http://h/?api_key=***"),
        ("http://h/v1?x=1&Token=a%20b&y=2#z", "http://h/v1?x=1&Token=***&y=2#z"),
        ("http://u:pw@h/?key=1", "http://u:***@h/?key=***"),
        ("http://h/?api_key={my_key}", None),
        ("http://h/?page=2&sort=up", None),
        ("Who has the key? What = that", None),
    ],
)
def test_what_the_query_of_an_address_names_a_secret(address, shown):
    text = json.dumps({"endpoint": address})

    told = shown_text(text)

    assert json.loads(told) == {"endpoint": shown or address}
    assert shown_value({"endpoint": address}) == {"endpoint": shown or address}
    assert restore_secrets(told, text) == (text, [])


@pytest.mark.parametrize(
    "words", [["--model", "***", "x"], ["***", "x"], ["x", "***"], ["x", "--token", "y", "***"]]
)
def test_a_secret_of_a_command_is_not_put_where_it_could_be_read(words):
    """A word is a secret for what stands before it: moved behind another it would be shown from then on."""
    old = json.dumps({"args": ["--token", "hunter2hunter2", "x"]})

    text, lost = restore_secrets(json.dumps({"args": words}), old)

    assert lost or "hunter2" not in text


def test_a_value_from_the_environment_is_put_back_where_its_name_is_no_secret():
    old = json.dumps({"extraHeaders": {"X-Team": "${ENV:TEAM}"}})

    assert restore_secrets(shown_text(old), old) == (old, [])
