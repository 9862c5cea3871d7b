"""The Grafana dashboard and the page of the numbers: both know what `/metrics` shows, and nothing else."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from Middleware.api.wsgi.metrics import Metrics

DOCS = Path(__file__).resolve().parents[1] / "docs"
BOARD = json.loads((DOCS / "grafana-dashboard.json").read_text("utf-8"))
QUERIES = [(p["title"], t["expr"]) for p in BOARD["panels"] for t in p["targets"]]
PAGE = (DOCS / "metrics.md").read_text("utf-8")
FAMILIES = {family.name: family for family in Metrics().registry.collect()}
OURS = {
    f"{name}_total" if f.type == "counter" else name for name, f in FAMILIES.items() if "headrace" in name
}
NAME = re.compile(r"\b(?:headrace|process)_[a-z_]+\b")


def plain(name):
    """The name without what a histogram adds."""
    return re.sub("_(bucket|sum|count)$", "", name)


@pytest.mark.parametrize(("title", "query"), QUERIES)
def test_a_panel_asks_for_what_there_is(title, query):
    """A name that is misspelt shows an empty panel, and nobody knows why."""
    shown = OURS | {f"{name}_total" if f.type == "counter" else name for name, f in FAMILIES.items()}
    assert NAME.findall(query) and {plain(name) for name in NAME.findall(query)} <= shown


@pytest.mark.parametrize("name", sorted(OURS - {"headrace_build_info"}))
def test_a_number_has_its_panel_and_its_row(name):
    """In the dashboard, and in the table of the page with its labels."""
    assert any(name in query for _, query in QUERIES)
    [row] = [line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |")]
    told = [label.strip() for label in row.split("|")[2].split(",") if label.strip()]
    assert told == labels_of(name)


def labels_of(name):
    collector = Metrics().registry._names_to_collectors[name.removesuffix("_total")]
    return list(collector._labelnames)


def test_panels_are_told_apart():
    """Each has its number, its title and a sentence, and none lies on another."""
    cells = [
        (x, y)
        for panel in BOARD["panels"]
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
    assert all(panel["title"] and panel["description"] for panel in BOARD["panels"])


@pytest.mark.skipif(not shutil.which("promtool"), reason="the Debian package prometheus is not installed")
def test_prometheus_understands_the_queries(tmp_path):
    """Those of the dashboard and those of the page."""
    asked = [query for _, query in QUERIES] + re.findall(r"^\| [^|]*\? \| `([^`]+)`", PAGE, re.MULTILINE)
    rules = [
        {"record": f"q{i}", "expr": query.replace("$__rate_interval", "5m")} for i, query in enumerate(asked)
    ]
    file = tmp_path / "rules.json"  # JSON is YAML too
    file.write_text(json.dumps({"groups": [{"name": "all", "rules": rules}]}))
    checked = subprocess.run(
        ["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
