"""Secrets in the files of a pack: a variable where it is replaced, else `***`. What is packed: tests/api/commands/test_pack.py."""

from __future__ import annotations

import json

import pytest

from Middleware.workflows.checks.pack_secrets import without_secrets

KEY, OTHER = "abcdefgh12345678", "zzzzzzzz12345678"
SERVER = "MCPServers/my files.json"


def packed(file, document, taken=None):
    """The document without its secrets, the pointers of the masked ones, and the variables."""
    variables = {} if taken is None else taken
    raw, masked = without_secrets(file, json.dumps(document).encode(), variables)
    return json.loads(raw), masked, variables


class TestServer:
    @pytest.mark.parametrize(
        ("document", "made", "name"),
        [
            ({"headers": {"X-Api-Key": KEY}}, {"headers": {"X-Api-Key": "${ENV:MY_FILES_X_API_KEY}"}}, "MY_FILES_X_API_KEY"),
            ({"env": {"NOTES_KEY": KEY}}, {"env": {"NOTES_KEY": "${ENV:NOTES_KEY}"}}, "NOTES_KEY"),
            ({"args": ["--token", KEY]}, {"args": ["--token", "${ENV:MY_FILES_ARGS_1}"]}, "MY_FILES_ARGS_1"),
            ({"url": f"http://ann:{KEY}@h/"}, {"url": "http://ann:${ENV:MY_FILES_URL}@h/"}, "MY_FILES_URL"),
        ],
        ids=["headers", "env", "args", "url"],
    )  # fmt: skip
    def test_a_variable_is_in_the_place(self, document, made, name):
        """Its name says where it belongs; that of an `env` entry stays."""
        assert packed(SERVER, document) == (made, [], {name: document_secret(document)})

    @pytest.mark.parametrize("scheme", ["Bearer", "basic", "Token", "Digest", "ApiKey"])
    def test_the_scheme_of_a_header_stays(self, scheme):
        """The variable holds the whole value for which it stands."""
        made, masked, _ = packed(SERVER, {"headers": {"Authorization": f"{scheme}  {KEY}"}})
        assert made == {"headers": {"Authorization": f"{scheme}  ${{ENV:MY_FILES_AUTHORIZATION}}"}}
        assert masked == []

    @pytest.mark.parametrize(
        ("document", "pointer"),
        [
            ({"apiKey": KEY}, "/apiKey"),
            ({"more": {"env": {"A_KEY": KEY}}}, "/more/env/A_KEY"),
            ({"headers": {"X": {"Authorization": KEY}}}, "/headers/X/Authorization"),
        ],
        ids=["beside", "deeper", "in-a-header"],
    )
    def test_elsewhere_it_is_masked(self, document, pointer):
        """Nobody would replace a variable there."""
        made, masked, variables = packed(SERVER, document)
        assert (masked, variables) == ([pointer], {})
        assert KEY not in json.dumps(made) and "***" in json.dumps(made)

    def test_what_is_in_a_variable_already_stays(self):
        document = {"env": {"A_KEY": "${ENV:MINE}"}, "headers": {"Authorization": "Bearer ${ENV:MINE}"}}
        assert packed(SERVER, document) == (document, [], {})

    def test_unless_a_secret_is_beside_it(self):
        made, _, _ = packed(SERVER, {"url": f"http://ann:{KEY}@h/${{ENV:MINE}}"})
        assert KEY not in made["url"]


class TestNames:
    def test_one_value_has_one_name(self):
        """In all files of a pack; another value gets a name of its own, with a number if need be."""
        taken = {}
        for file, key in (("a", KEY), ("b", KEY), ("c", OTHER)):
            packed(f"MCPServers/{file}.json", {"env": {"API_KEY": key}}, taken)
        packed("MCPServers/c.json", {"env": {"API_KEY": "third-key-3456"}}, taken)
        assert taken == {"API_KEY": KEY, "C_API_KEY": OTHER, "C_API_KEY_2": "third-key-3456"}


class TestWorkflow:
    @pytest.mark.parametrize(
        ("node", "made", "masked"),
        [
            (
                {"type": "WebFetch", "headers": {"X-Api-Key": KEY}},
                {"type": "WebFetch", "headers": {"X-Api-Key": "${ENV:CHILD_X_API_KEY}"}},
                [],
            ),
            (
                {"type": "WebFetch", "apiKey": KEY},
                {"type": "WebFetch", "apiKey": "***"},
                ["/1/apiKey"],
            ),
            (
                {"type": "StaticResponse", "headers": {"X-Api-Key": KEY}},
                {"type": "StaticResponse", "headers": {"X-Api-Key": "***"}},
                ["/1/headers/X-Api-Key"],
            ),
        ],
        ids=["a-header", "beside", "another-node"],
    )
    def test_headers_of_a_fetch_take_variables(self, node, made, masked):
        """Nothing else of a workflow does."""
        first = {"type": "StaticResponse", "content": "x"}
        found, pointers, _ = packed("Workflows/ann/Child.json", [first, node])
        assert (found, pointers) == ([first, made], masked)

    def test_another_file_with_such_an_object_takes_none(self):
        node = {"type": "WebFetch", "headers": {"X-Api-Key": KEY}}
        assert packed("Endpoints/a.json", node)[1] == ["/headers/X-Api-Key"]


def test_a_file_without_secrets_keeps_its_bytes():
    """With its line ends and its mark."""
    raw = b'\xef\xbb\xbf{\r\n  "command": "npx" // mine\r\n}'
    assert without_secrets(SERVER, raw, {}) == (raw, [])


def test_the_others_keep_their_look():
    raw = b'{\r\n  "env": {"A_KEY": "abcdefgh12345678"}, // mine\r\n}'
    assert without_secrets(SERVER, raw, {})[0] == raw.replace(KEY.encode(), b"${ENV:A_KEY}")


def document_secret(document):
    """The whole value that a variable stands for."""
    (held,) = document.values()
    return (
        held if isinstance(held, str) else held[-1] if isinstance(held, list) else next(iter(held.values()))
    )
