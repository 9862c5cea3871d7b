"""The offline researcher's answers as texts that workflows compare with."""

from __future__ import annotations

import dataclasses
import json
import logging

import pytest

from Middleware.common.request_context import RequestContext, enter_request
from Middleware.config.users import UserSettings
from Middleware.utilities.sensitive_logging_utils import REDACTED
from Middleware.workflows.tools.offline_researcher import research
from tests.patience import PATIENCE_S

ON = UserSettings("ana", use_offline_researcher_api=True)
SOURCES = [{"book": "B", "title": "T"}, "no object", {"title": "U"}]


def asked(site, answer, status=200, user=ON, sources=True, timeout_s=PATIENCE_S):
    site.pages["/search"] = (
        answer
        if callable(answer)
        else (status, {}, answer if isinstance(answer, bytes) else json.dumps(answer).encode())
    )
    user = dataclasses.replace(user, offline_researcher_api_port=site.port)
    question = {"query": "Q", "mode": "quick"}
    return research(user, question, timeout_s=timeout_s, include_sources=sources, request_id="r1")


def error(reason):
    return f"I'm sorry, the offline researcher returned an error ({reason}) for 'Q'."


class TestLiterals:
    """Byte for byte."""

    @pytest.mark.parametrize(
        ("answer", "status", "text"),
        [
            ({"status": "error", "reason": "busy"}, 200, error("busy")),
            ({}, 500, error("http_500")),
            ({}, 404, error("http_404")),
            (b"no json", 200, error("invalid_json")),
            ([1], 200, "I'm sorry, the offline researcher could not be reached for 'Q'."),
            (
                {"answer": "a", "no_information_found": True},
                200,
                "No pertinent information was found in the search",
            ),
            ({}, 200, "No pertinent information was found in the search"),
            ({"answer": ""}, 200, "No pertinent information was found in the search"),
            ({"status": "ok", "answer": "a"}, 200, "a"),
            ({"answer": "a", "sources": SOURCES}, 200, "a\n\nSources:\n- B :: T\n-  :: U"),
            ({"answer": "a", "sources": ["x"]}, 200, "a"),
            ({"answer": "a", "sources": "x"}, 200, "a"),
        ],
    )
    def test_an_answer(self, site, answer, status, text):
        """Good, empty, wrong."""
        assert asked(site, answer, status) == text

    def test_sources_only_on_wish(self, site):
        """`includeSources`."""
        assert asked(site, {"answer": "a", "sources": SOURCES}, sources=False) == "a"

    def test_switched_off(self, site):
        """Nothing is asked."""
        assert asked(site, {}, user=UserSettings("ana")) == error("offline_researcher_disabled")
        assert site.seen == []

    def test_too_late(self, site):
        """A researcher that thinks for too long."""
        assert asked(site, lambda handler: site.leaving.wait(PATIENCE_S), timeout_s=0.05) == error("timeout")

    def test_nobody_listens(self):
        """On that port."""
        user = dataclasses.replace(ON, offline_researcher_api_port=9)
        said = research(user, {"query": "Q"}, timeout_s=PATIENCE_S, include_sources=False, request_id="r1")
        assert said == error("transport_error")


class TestLog:
    """A failure tells its reason."""

    REPLY = {"status": "error", "reason": "no book holds SECRET"}  # noqa: RUF012

    def test_of_an_open_request(self, site, caplog):
        """As the service says it."""
        caplog.set_level(logging.DEBUG, logger="Middleware")
        asked(site, self.REPLY)
        assert "the offline researcher failed for Q: no book holds SECRET" in caplog.text

    def test_above_debug(self, site, caplog):
        """Neither the query nor the service's words, which may quote it."""
        caplog.set_level(logging.INFO, logger="Middleware")
        asked(site, self.REPLY)
        assert "the offline researcher failed for (1 characters): (20 characters)" in caplog.text

    def test_of_a_private_one(self, site, caplog):
        """Neither the query nor what the service says of it; reasons of ours stay."""
        caplog.set_level(logging.DEBUG, logger="Middleware")
        with enter_request(RequestContext("r1", "ana", "openaichatcompletion", privacy=True)):
            asked(site, self.REPLY)
            asked(site, {}, 500)
        assert f"failed for {REDACTED}: {REDACTED}" in caplog.text
        assert f"failed for {REDACTED}: http_500" in caplog.text
        assert "SECRET" not in caplog.text
