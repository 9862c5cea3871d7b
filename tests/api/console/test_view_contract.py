"""What a view reads of its request, and how its value is written."""

from __future__ import annotations

import json
import math

import pytest

from Middleware.api.console.view_contract import ApiRoute, json_bytes
from Middleware.api.console.views import Views
from tests.api.console.conftest import a_hub, asking

KINDS = {"path": str, "user": str | None, "messages": list | None, "deep": bool | None, "n": int | None}
ROUTES = (
    ApiRoute("POST", "fields", "look", lambda ask: ask.fields(**KINDS)),
    ApiRoute("POST", "none", "look", lambda ask: ask.no_fields()),
    ApiRoute("GET", "words", "look", lambda ask: ask.words("user", "text")),
    ApiRoute("GET", "number", "look", lambda ask: ask.number("limit", 50, 1, 200)),
    ApiRoute("GET", "header", "look", lambda ask: ask.headers.get("If-None-Match")),
)


class TestFields:
    def test_what_may_be_null_may_be_absent(self, ask):
        """Every field that a view names is there."""
        status, value = ask("POST", "fields", routes=ROUTES, body={"path": "a", "user": None, "n": 3})
        assert status == 200
        assert value == {"path": "a", "user": None, "messages": None, "deep": None, "n": 3}

    @pytest.mark.parametrize(
        ("body", "sentence"),
        [
            ({"path": 5}, "path: found 5, allowed: a string"),
            ([], "the body must be a JSON object"),
            (b"", "the body is empty; send a JSON object"),
            (b'{"a"', "the body is not JSON: Expecting ':' delimiter at line 1, column 5"),
        ],
    )  # fmt: skip
    def test_what_does_not_fit_is_named(self, ask, body, sentence):
        """Field, what was found, what is allowed."""
        assert ask("POST", "fields", routes=ROUTES, body=body) == (400, {"error": sentence})

    @pytest.mark.parametrize("size, status", [(1 << 20, 200), ((1 << 20) + 1, 413)])
    def test_a_body_has_a_limit(self, ask, size, status):
        """1 MiB is read, a byte more is refused before it is."""
        shell = len(json.dumps({"path": ""}))
        told, value = ask("POST", "fields", routes=ROUTES, body={"path": "x" * (size - shell)})
        assert told == status
        too_large = {"error": "the body is too large, allowed: at most 1,048,576 bytes"}
        assert status == 200 or value == too_large

    @pytest.mark.parametrize(("body", "status"), [(b"", 200), (b"{}", 200), (b'{"a":1}', 400), (b"[]", 400)])
    @pytest.mark.parametrize("in_pieces", [False, True])
    def test_a_question_without_a_body(self, body, status, in_pieces):
        """One that is there all the same is looked at, also when nobody says how long it is."""
        environ = asking("POST", "none", body=body)
        if in_pieces:
            del environ["CONTENT_LENGTH"]
            environ |= {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True}
        assert Views(a_hub(), ROUTES).answer(environ, ("look",)).status == status


class TestQuery:
    def test_what_is_not_given_is_empty(self, ask):
        """Values are decoded."""
        query = "text=a%20%C3%A9%26b"
        assert ask("GET", "words", routes=ROUTES, query=query) == (200, {"user": "", "text": "a é&b"})

    def test_a_query_has_a_limit(self, ask):
        """More parts than any page sends."""
        query = "&".join(["text=a"] * 101)
        assert ask("GET", "words", routes=ROUTES, query=query)[0] == 400

    @pytest.mark.parametrize(
        ("query", "number"), [("", 50), ("limit=", 50), ("limit=1", 1), ("limit=200", 200)]
    )
    def test_a_number(self, ask, query, number):
        """Its default where it is not given."""
        assert ask("GET", "number", routes=ROUTES, query=query) == (200, number)

    @pytest.mark.parametrize("text", ["0", "201", "-1", "1.0", "x", "٣", "9" * 5000])
    def test_no_number(self, ask, text):
        """The sentence says from where to where."""
        status, value = ask("GET", "number", routes=ROUTES, query=f"limit={text}")
        assert status == 400
        assert value["error"].startswith("limit: found ")
        assert value["error"].endswith("allowed: a number from 1 to 200")

    def test_headers_in_any_case(self, ask):
        """As WSGI spells them, and as people do."""
        assert ask("GET", "header", routes=ROUTES, headers={"if-none-match": '"a"'}) == (200, '"a"')


class TestJson:
    def test_text_stays_itself(self):
        """No escapes but those that JSON needs."""
        assert json_bytes({"a": "é\x00\u2028"}) == '{"a":"é\\u0000\u2028"}'.encode()

    def test_half_a_surrogate_is_replaced(self):
        """UTF-8 has no form for it."""
        assert json_bytes(["a\ud83d", "\U0001f600"]) == '["a\ufffd","\U0001f600"]'.encode()

    def test_what_is_no_number_is_null(self):
        """JSON has no form for it."""
        assert json_bytes({"a": [math.nan, (math.inf, 1.5)]}) == b'{"a":[null,[null,1.5]]}'
