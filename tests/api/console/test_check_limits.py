"""A text that is checked for a look does not hold the server: what is too large says so."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from Middleware.api.console.check_limits import MOST_BRACES, MOST_CHARS, MOST_PROBLEMS, MOST_VALUES, too_large
from tests.api.console.config_house import house

assert house
MAIN = "Workflows/mira/Main.json"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" + "1," * (MOST_VALUES - 1) + "]", ""),
        ("[" + "1," * MOST_VALUES + "]", "5,000 values"),
        ("[" * (MOST_VALUES + 1), "5,000 values"),
        ('["' + "{" * MOST_BRACES + '"]', ""),
        ('["' + "{" * (MOST_BRACES + 1) + '"]', "20,000 braces"),
        ("x" * MOST_CHARS, ""),
        ("x" * (MOST_CHARS + 1), "131,072 characters"),
    ],
    ids=range(7),
)
def test_what_is_too_large(text, said):
    told = too_large(text)

    assert (said in told) if said else told == ""


def test_a_huge_faulty_text_is_told_in_one_sentence(house):
    text = '{"nodes":[' + "{}," * 200_000 + "1]}"

    status, told = house.ask("POST", "check", body={"path": MAIN, "text": text})

    assert (status, told["graph"]) == (200, None)
    assert [problem["message"] for problem in told["problems"]] == [
        "this text has more than 131,072 characters and is not checked here; --validate checks it"
    ]


def test_of_very_many_problems_the_first_are_told_and_how_many_more(house):
    text = json.dumps({"nodes": [1] * (MOST_PROBLEMS + 20)})

    status, told = house.ask("POST", "check", body={"path": MAIN, "text": text})

    assert status == 200 and len(told["problems"]) == MOST_PROBLEMS + 1
    assert told["problems"][-1] == {
        **{"line": 1, "column": 1, "end_line": 1, "end_column": 1},
        **{"pointer": "", "node": None, "level": "note", "message": "and 20 more; --validate tells all"},
    }


def test_texts_are_checked_one_at_a_time(house, monkeypatch):
    """Else as many as there are threads would hold the server together."""
    from Middleware.api.console import workflow_files as module

    files = module.workflow_files(house.root)
    monkeypatch.setattr(module, "_PATIENCE_S", 0.01)
    with files._reading:
        status, told = house.ask("POST", "check", body={"path": MAIN, "text": "[]"})

    assert (status, told) == (503, {"error": "other texts are being checked: try again"})
    assert house.ask("POST", "check", body={"path": MAIN, "text": "[]"})[0] == 200


def test_under_gevent_others_run_while_a_text_is_laid_out(tmp_path):
    """What needs no file is done beside the event loop. In a process of its own: patching cannot be undone."""
    for file, content in (("Users/mira.json", "{}"), ("Workflows/mira/Main.json", "[]")):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text(content)
    code = (
        "from gevent import monkey; monkey.patch_all()\n"
        "import gevent, pathlib\n"
        "real = monkey.get_original('threading', 'Event')()\n"
        "from Middleware.api.console import workflow_files as module\n"
        "waited = []\n"
        "module.problems = lambda *given: waited.append(real.wait(60)) or []\n"
        f"files = module.WorkflowFiles(pathlib.Path({str(tmp_path)!r}))\n"
        "gevent.spawn_later(0.01, real.set)\n"
        "reading = files.read('Workflows/mira/Main.json', '[{}]', b'[{}]', 'mira')\n"
        "assert waited == [True] and reading.kind == 'workflow', (waited, reading)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=100).returncode == 0
