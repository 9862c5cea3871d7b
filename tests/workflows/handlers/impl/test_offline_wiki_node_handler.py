"""The OfflineWikiApi nodes: what each of the four asks for."""

from __future__ import annotations

import dataclasses

import pytest

from Middleware.common.errors import ConfigError

BASE = "prompt=cats&percentile=0.5"


@pytest.fixture
def wiki(bench, site):
    """The service answers everything with one article."""
    bench.user = dataclasses.replace(bench.user, use_offline_wiki_api=True, offline_wiki_api_port=site.port)
    bench.engine.values["q"] = "cats"
    article = b'[{"title": "T", "text": "a"}]'
    site.pages = dict.fromkeys(("/articles", "/top_n_articles", "/summaries"), (200, {}, article))
    site.pages["/top_article"] = 200, {}, b'{"title": "T", "text": "a"}'
    return bench


@pytest.mark.parametrize(
    ("kind", "fields", "asked", "text"),
    [
        ("FullArticle", {}, f"/articles?{BASE}&num_results=1", "a"),
        ("BestFullArticle", {}, f"/top_article?{BASE}&num_results=10", "a"),
        ("TopNFullArticles", {}, f"/top_n_articles?{BASE}&num_results=10&num_top_articles=3", "Title: T\na"),
        (
            "TopNFullArticles",
            {"percentile": 0.6, "num_results": 20, "top_n_articles": -2},
            "/top_n_articles?prompt=cats&percentile=0.6&num_results=20&num_top_articles=-2",
            "Title: T\na",
        ),
        ("PartialArticle", {}, f"/summaries?{BASE}&num_results=1", "Title: T\na"),
        ("PartialArticle", {"num_results": 5}, f"/summaries?{BASE}&num_results=5", "Title: T\na"),
    ],
)
def test_the_request_of_each_kind(wiki, site, kind, fields, asked, text):
    """With its own numbers or those of the node."""
    assert wiki(f"OfflineWikiApi{kind}", promptToSearch="{q}", **fields) == text
    assert site.seen[0].path == asked


def test_a_prompt_that_is_no_text_is_made_one(wiki, site):
    """As the peer does."""
    wiki("OfflineWikiApiFullArticle", promptToSearch=7)
    assert "prompt=7&" in site.seen[0].path


@pytest.mark.parametrize("prompt", [{}, {"promptToSearch": None}])
def test_a_missing_prompt_is_a_config_error(wiki, prompt):
    """At a run, and before it."""
    with pytest.raises(ConfigError, match="needs a 'promptToSearch'"):
        wiki("OfflineWikiApiPartialArticle", **prompt)
    assert wiki.findings("OfflineWikiApiPartialArticle", **prompt)[0] != []


def test_a_number_that_is_none_is_advised_against(wiki):
    """The default counts then."""
    fields = {"promptToSearch": "q", "percentile": "much", "top_n_articles": "{agent1Input}"}
    assert wiki.findings("OfflineWikiApiTopNFullArticles", **fields) == ([], ["/percentile"])


def test_a_dry_run_tells_what_would_be_asked(wiki):
    """Unless the wiki is switched off."""
    assert wiki.notes("OfflineWikiApiFullArticle", promptToSearch="q") == [
        "would ask the offline wiki/articles"
    ]
    wiki.user = dataclasses.replace(wiki.user, use_offline_wiki_api=False)
    assert wiki.notes("OfflineWikiApiFullArticle", promptToSearch="q") == []
