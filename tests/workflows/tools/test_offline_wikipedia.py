"""The offline wiki's answers as texts that workflows compare with."""

from __future__ import annotations

import dataclasses
import json
import logging

import pytest

from Middleware.common.errors import RequestCancelled
from Middleware.common.request_context import RequestContext, enter_request
from Middleware.config.users import UserSettings
from Middleware.services.cancellation_service import cancellation_service
from Middleware.utilities.sensitive_logging_utils import REDACTED
from Middleware.workflows.tools.offline_wikipedia import BEST, FULL, PARTIAL, TOP_N, ask

ON = UserSettings("ana", use_offline_wiki_api=True)
KINDS = {"full": FULL, "best": BEST, "top": TOP_N, "partial": PARTIAL}
SORRY = "I'm sorry, I couldn't find any Wikipedia information about 'Q'."
NOWHERE = "The information may not be available in the offline database."
ARTICLES = [{"title": "A", "text": "a"}, {"title": "", "text": None}, "plain", {"text": "b"}]


def asked(site, kind, status=200, answer=None, body=None, user=ON, prompt="Q"):
    content = json.dumps(answer).encode() if body is None else body
    site.pages[KINDS[kind].path] = status, {}, content
    user = dataclasses.replace(user, offline_wiki_api_port=site.port)
    return ask(KINDS[kind], user, {"prompt": prompt, "percentile": 0.5}, "r1")


class TestLiterals:
    """Byte for byte."""

    @pytest.mark.parametrize(
        ("kind", "text"),
        [
            ("full", "No additional information provided"),
            ("best", "No additional information provided"),
            ("top", "No additional information provided"),
            ("partial", "Title: Offline Wiki Disabled\nNo additional information provided"),
        ],
    )
    def test_switched_off(self, site, kind, text):
        """Nothing is asked."""
        assert asked(site, kind, user=UserSettings("ana")) == text
        assert site.seen == []

    @pytest.mark.parametrize(
        ("kind", "text"),
        [
            ("full", f"No articles found for 'Q'. {NOWHERE}"),
            ("best", f"No article found for 'Q'. {NOWHERE}"),
            ("top", f"No articles found for 'Q'. {NOWHERE}"),
            ("partial", f"Title: Not Found\nNo summaries found for 'Q'. {NOWHERE}"),
        ],
    )
    def test_not_found(self, site, kind, text):
        """A 404 is an answer."""
        assert asked(site, kind, 404) == text

    @pytest.mark.parametrize(
        ("kind", "answer", "text"),
        [
            ("full", [{"text": "a"}, {"text": "b"}], "a"),
            ("full", ["plain"], "plain"),
            ("full", [{"title": "A"}], "No text element found"),
            ("full", [], "No article found for 'Q'."),
            ("best", {"title": "A", "text": "a"}, "a"),
            ("best", {"title": "A"}, "No text element found"),
            ("best", {}, "No additional information provided about 'Q'"),
            ("best", None, "No additional information provided about 'Q'"),
            ("full", {}, "No article found for 'Q'."),
            ("full", None, "No article found for 'Q'."),
            ("top", {}, "No articles found for 'Q' in the offline database."),
            ("partial", {}, "No summary found for 'Q'."),
            ("top", [], "No articles found for 'Q' in the offline database."),
            ("partial", [], "No summary found for 'Q'."),
            ("partial", {"text": "a"}, "No summary found for 'Q'."),
        ],
    )
    def test_an_answer(self, site, kind, answer, text):
        """Full of text, without it, or empty."""
        assert asked(site, kind, answer=answer) == text

    @pytest.mark.parametrize(
        ("kind", "untitled", "end"),
        [("top", "Untitled Article", "END ARTICLE"), ("partial", "Untitled Summary", "END SUMMARY")],
    )
    def test_a_list(self, site, kind, untitled, end):
        """With titles, and marks between the items."""
        items = ["Title: A\na", f"Title: {untitled}\nNo text available.", "plain", f"Title: {untitled}\nb"]
        assert asked(site, kind, answer=ARTICLES) == f"\n\n--- {end} ---\n\n".join(items)

    @pytest.mark.parametrize("kind", sorted(KINDS))
    @pytest.mark.parametrize(
        ("status", "body"),
        [(500, b"[]"), (302, b"[]"), (204, b""), (200, b"no json"), (200, b"[" * 100_000)],
        ids=repr,
    )
    def test_a_failure(self, site, kind, status, body):
        """Of any kind, for all four."""
        assert asked(site, kind, status, body=body[:100_000]) == SORRY

    @pytest.mark.parametrize(("kind", "answer"), [("full", {"text": "a"}), ("top", {"text": "a"})])
    def test_no_list_is_a_failure(self, site, kind, answer):
        """Where one is asked for."""
        assert asked(site, kind, answer=answer) == SORRY

    def test_nobody_listens(self):
        """On that port."""
        user = dataclasses.replace(ON, offline_wiki_api_port=9)
        assert ask(FULL, user, {"prompt": "Q"}, "r1") == SORRY


class TestRequest:
    """What is asked, and where."""

    def test_the_base_address_replaces_host_and_port(self, site):
        """With a path of its own."""
        site.pages["/wiki/articles"] = 200, {}, b'["a"]'
        user = dataclasses.replace(ON, offline_wiki_api_url=site.url("/wiki/"))
        assert ask(FULL, user, {"prompt": "a & \u00fc", "num_results": 1}, "r1") == "a"
        assert site.seen[0].path == "/wiki/articles?prompt=a+%26+%C3%BC&num_results=1"

    def test_a_failure_tells_its_reason(self, site, caplog):
        """In the log."""
        caplog.set_level(logging.WARNING, logger="Middleware")
        asked(site, "full", 500)
        assert "the service answered 500" in caplog.text

    def test_a_query_is_content(self, site, caplog):
        """It stands in the log at DEBUG alone."""
        caplog.set_level(logging.INFO, logger="Middleware")
        asked(site, "full", 500, prompt="SECRET")
        assert "failed for (6 characters): the service answered 500" in caplog.text

    def test_a_private_query_is_not_told(self, site, caplog):
        """Only that there was one."""
        caplog.set_level(logging.DEBUG, logger="Middleware")
        with enter_request(RequestContext("r1", "ana", "openaichatcompletion", privacy=True)):
            asked(site, "full", 500, prompt="SECRET")
        assert f"failed for {REDACTED}: the service answered 500" in caplog.text
        assert "SECRET" not in caplog.text

    def test_a_cancelled_request_is_no_failure(self, site):
        """It ends the run."""
        cancellation_service.request_cancellation("r1")
        with pytest.raises(RequestCancelled):
            asked(site, "full", answer=[])
        cancellation_service.acknowledge_cancellation("r1")


@pytest.mark.parametrize("kind", KINDS)
def test_how_long_an_answer_is_waited_for(site, waits, kind):
    """Five seconds for the connection, a minute for each read."""
    asked(site, kind, answer=ARTICLES)
    assert waits == [(5.0, 60.0)]
