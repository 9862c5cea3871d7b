"""The OfflineResearcherApi nodes: what the two ask for."""

from __future__ import annotations

import dataclasses
import json

import pytest

from Middleware.common.errors import ConfigError


@pytest.fixture
def researcher(bench, site):
    bench.user = dataclasses.replace(
        bench.user, use_offline_researcher_api=True, offline_researcher_api_port=site.port
    )
    bench.engine.values["q"] = "cats"
    answer = {"answer": "a", "sources": [{"book": "B", "title": "T"}]}
    site.pages["/search"] = 200, {}, json.dumps(answer).encode()
    return bench


@pytest.mark.parametrize(
    ("kind", "fields", "asked", "text"),
    [
        ("QuickSearch", {}, {"query": "cats", "mode": "quick"}, "a"),
        ("DeepResearch", {}, {"query": "cats", "mode": "deep"}, "a"),
        ("QuickSearch", {"maxIterations": 3}, {"query": "cats", "mode": "quick", "max_iterations": 3}, "a"),
        (
            "DeepResearch",
            {"includeSources": True, "timeoutSeconds": "9"},
            {"query": "cats", "mode": "deep"},
            "a\n\nSources:\n- B :: T",
        ),
    ],
)
def test_the_request_of_each_kind(researcher, site, kind, fields, asked, text):
    """JSON, posted."""
    assert researcher(f"OfflineResearcherApi{kind}", promptToSearch="{q}", **fields) == text
    assert (site.seen[0].method, json.loads(site.seen[0].body)) == ("POST", asked)


@pytest.mark.parametrize(
    ("kind", "fields", "seconds"),
    [
        ("QuickSearch", {}, (5.0, 240.0)),
        ("DeepResearch", {}, (5.0, 600.0)),
        ("QuickSearch", {"timeoutSeconds": 9}, (5.0, 9.0)),
        ("DeepResearch", {"timeoutSeconds": "0.5"}, (0.5, 0.5)),
    ],
)
def test_how_long_an_answer_is_waited_for(researcher, waits, kind, fields, seconds):
    """At most five seconds for the connection."""
    researcher(f"OfflineResearcherApi{kind}", promptToSearch="q", **fields)
    assert waits == [seconds]


@pytest.mark.parametrize("fields", [{}, {"promptToSearch": "q", "timeoutSeconds": 0}])
def test_a_wrong_field_is_a_config_error(researcher, fields):
    """At a run, and before it."""
    with pytest.raises(ConfigError, match=r"'promptToSearch'|'timeoutSeconds'"):
        researcher("OfflineResearcherApiQuickSearch", **fields)
    assert researcher.findings("OfflineResearcherApiQuickSearch", **fields)[0] != []


def test_a_dry_run_tells_what_would_be_asked(researcher):
    """Unless the researcher is switched off."""
    kind = "OfflineResearcherApiQuickSearch"
    assert researcher.notes(kind, promptToSearch="q") == ["would ask the offline researcher"]
    researcher.user = dataclasses.replace(researcher.user, use_offline_researcher_api=False)
    assert researcher.notes(kind, promptToSearch="q") == []
