"""With several users each has a log file of its own; what fails for one is told there, and nowhere else."""

from __future__ import annotations

import logging

import pytest

from Middleware.api.serving.startup import configure_logging


@pytest.fixture
def logs(tmp_path):
    """The folder with the log files of ana and ben."""
    root = logging.getLogger()
    level = root.level
    configure_logging("INFO", tmp_path / "logs", ("ana", "ben"))
    yield tmp_path / "logs"
    for handler in [h for h in root.handlers if getattr(h, "is_headrace", False)]:
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("late", [False, True], ids=["at-once", "after-the-first-words"])
def test_a_failure_is_told_in_the_log_of_its_user(served, logs, failure, late, stream):
    """Also when it ends a stream."""
    served.users(("ana", "ben"))
    served.save_user("ana")
    served.save_user("ben")
    broken = [[{"token": "Hel", "finish_reason": None}], failure()] if late and stream else failure()
    served.house.model.replies = [broken]
    served.house.workflow("Main", {"type": "Standard", "endpointName": "chat"}, folder="ben")
    served.ask("ben", stream=stream)
    assert "failed: Workflows/ben/Main.json" in (logs / "ben" / "wilmerai.log").read_text()
    others = [path for path in (logs / "ana" / "wilmerai.log", logs / "wilmerai.log") if path.exists()]
    assert not any("failed" in path.read_text() or "ben" in path.read_text() for path in others)
