"""Numeric fields become numbers before a node runs."""

from __future__ import annotations

import logging

import pytest

from Middleware.common.request_context import RequestContext, enter_request
from Middleware.utilities.sensitive_logging_utils import REDACTED
from Middleware.workflows.processors.node_context import with_numbers

CASES = [
    ("an-int-stays", {"limit": 7}, {"limit": 7}),
    ("a-number-is-truncated", {"limit": 7.9}, {"limit": 7}),
    ("without-end-it-is-the-default", {"limit": float("inf")}, {"limit": 5}),
    ("a-text-is-parsed", {"limit": " 7 "}, {"limit": 7}),
    ("decimals-are-no-int", {"limit": "7.5"}, {"limit": 5}),
    ("a-placeholder-is-filled-first", {"limit": "{n}"}, {"limit": 9}),
    (
        "an-unknown-placeholder-is-the-default",
        {"maxResponseSizeInTokens": "{x}"},
        {"maxResponseSizeInTokens": 400},
    ),
    ("without-a-default-it-stays", {"maxTurnsToPull": "many"}, {"maxTurnsToPull": "many"}),
    (
        "seconds-keep-their-fraction",
        {"type": "Agent", "totalTimeout": 0.5, "toolTimeout": "1.5"},
        {"type": "Agent", "totalTimeout": 0.5, "toolTimeout": 1.5},
    ),
    (
        "what-is-a-number-elsewhere-stays-as-it-is",
        {"type": "WebFetch", "totalTimeout": 1.9},
        {"type": "WebFetch", "totalTimeout": 1.9},
    ),
    (
        "the-default-is-that-of-the-type",
        {"type": "Agent", "maxResponseSizeInTokens": "much"},
        {"type": "Agent", "maxResponseSizeInTokens": 2048},
    ),
    (
        "also-where-another-type-comes-first",
        {"type": "OfflineWikiApiPartialArticle", "num_results": "many"},
        {"type": "OfflineWikiApiPartialArticle", "num_results": 1},
    ),
    ("a-share-is-a-float", {"percentile": "0.25"}, {"percentile": 0.25}),
    ("a-whole-share-too", {"percentile": 1}, {"percentile": 1.0}),
    (
        "others-are-untouched",
        {"limit": None, "num_results": [1], "lookbackStart": True, "count": "3"},
        {"limit": None, "num_results": [1], "lookbackStart": True, "count": "3"},
    ),
]


@pytest.mark.parametrize(("node", "numbers"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_numbers(node, numbers):
    """The node as it runs."""
    assert with_numbers(node, lambda text: text.replace("{n}", "9"), lambda: "here") == numbers


def test_nothing_to_do_gives_the_same_object():
    """Node objects are copied only when they must be."""
    node = {"limit": 7, "prompt": "p"}
    assert with_numbers(node, str, str) is node


def test_a_text_that_is_no_number_is_told(caplog):
    """With its place."""
    with_numbers({"limit": "x", "maxTurnsToPull": "y"}, str, lambda: "Main.json, node 1")
    assert "Main.json, node 1: limit: 'x' is not a number, so 5 is used" in caplog.text
    assert "maxTurnsToPull: 'y' is not a number" in caplog.text


def test_what_a_placeholder_gave_is_content(caplog):
    """Its length is told; the text at DEBUG alone."""
    caplog.set_level(logging.INFO, logger="Middleware")
    with_numbers({"limit": "{x}"}, lambda text: "SECRET", lambda: "here")
    assert "here: limit: (8 characters) is not a number, so 5 is used" in caplog.text


def test_a_private_text_that_is_no_number_is_not_told(caplog):
    """It may be what a user wrote: only the field and the default are."""
    with enter_request(RequestContext("r", "ana", "openaichatcompletion", privacy=True)):
        with_numbers({"limit": "{x}", "maxTurnsToPull": "{x}"}, lambda text: "SECRET", lambda: "here")
    assert f"here: limit: {REDACTED} is not a number, so 5 is used" in caplog.text
    assert "SECRET" not in caplog.text
