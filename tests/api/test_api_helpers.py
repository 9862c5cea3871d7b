"""What handlers and old code import from `api_helpers` (frontend-api.md 1)."""

from __future__ import annotations

import pytest

from Middleware.api import api_helpers
from Middleware.api.app import app
from Middleware.common.request_context import RequestContext, enter_request
from Middleware.protocols import registry


def test_names_of_the_peer_are_here():
    """They stand on the floor of the protocols."""
    assert api_helpers.build_response_json is registry.build_response_json
    assert api_helpers.sse_format is registry.sse_format
    assert callable(api_helpers.parse_model_field)


def test_keys_of_the_current_request():
    """From its headers."""
    headers = {"Authorization": "Bearer k", "X-Idempotency-Key": "i"}
    with app.test_request_context("/", headers=headers):
        assert (api_helpers.extract_api_key(), api_helpers.extract_idempotency_key()) == ("k", "i")


def test_without_a_front_door_a_request_has_a_life_of_its_own():
    """Nothing is gated or cancelled then."""
    with app.test_request_context("/"):
        assert api_helpers.current_request_id() == ""
        assert api_helpers.current_life().request_id == ""


def test_the_model_name(configs):
    """Of the current request, else the single user."""
    assert api_helpers.get_model_name() == "mira"
    with enter_request(RequestContext("r", "jo", "x", workflow_folder="novel")):
        assert api_helpers.get_model_name() == "jo:novel"


@pytest.mark.parametrize(("text", "expected"), [("é", "é"), ("\ud83d", "�"), ("\ud83d\ude00", "😀")])
def test_json_responses_are_utf8(text, expected):
    """Half a surrogate pair is a replacement character."""
    assert api_helpers.json_response({"t": text}).get_data(as_text=True) == f'{{"t":"{expected}"}}'
