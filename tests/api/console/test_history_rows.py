"""A run that ended as a row of the history: numbers and names of the configuration, never a text."""

from __future__ import annotations

from Middleware.api.console.history_rows import RowMaker, history_row
from Middleware.api.console.hour import Hour
from Middleware.api.console.stood_out import Around
from Middleware.common.costs import Cost
from tests.api.console.traced import call_of, node_of, run_of

SECRET = "the marker of a text"


def a_run(**facts):
    call = call_of(usage={"prompt_tokens": 9, "completion_tokens": 4, "cached_tokens": 5})
    node = node_of(1, "Answer", call, answers=True, of=1, endpoint="Big", ended=4.0, begun=3.0)
    given = {
        **{"begun": 2.5, "first_text": 3.5, "answered": 4.0, "ended": 7.0, "workflow": "Router"},
        **{"answering": "Code", "all_usage": {"prompt_tokens": 9, "completion_tokens": 4, "calls": 1}},
        **{"costs": (Cost("USD", 12),), "key": "laptop", "error": SECRET, "model": SECRET, "path": SECRET},
    }
    return run_of(node, **{**given, **facts})


class TestRow:
    def test_its_numbers(self):
        """What the client waited for, the tokens and the costs of all calls."""
        row = history_row(a_run(), Around())
        assert row._asdict() == {
            **{"at": 1_760_000_000.0, "user": "mira", "workflow": "Code", "key": "laptop", "state": "done"},
            **{"took_s": 4.0, "first_s": 3.5, "prompt": 9, "completion": 4, "held": 5, "endpoint": "Big"},
            **{"stood_out": ("slot",), "costs": (Cost("USD", 12),)},
        }

    def test_calls_that_the_client_is_not_told_of(self):
        """Nodes behind the answer and prompts that were read ahead: no more is held than was sent."""
        run = a_run(whole_usage={"prompt_tokens": 30, "completion_tokens": 7, "calls": 2})
        usage = {"prompt_tokens": 20, "completion_tokens": 1, "cached_tokens": 19}
        run.nodes[0].calls.append(call_of(kind="prefill", usage=usage))
        row = history_row(run, Around())
        assert (row.prompt, row.completion, row.held) == (50, 8, 24)

    def test_no_text_and_no_id(self):
        """Nothing of what people or models wrote."""
        row = history_row(a_run(state="failed"), Around())
        assert SECRET not in repr(row) and "r1" not in repr(row)
        assert "failed" in row.stood_out

    def test_a_private_user(self):
        """Has no name there, nor has the key."""
        row = history_row(a_run(private=True), Around())
        assert (row.user, row.key) == ("private", "private")
        assert history_row(a_run(private=True, key=""), Around()).key == ""

    def test_a_run_that_never_began(self):
        """Refused before a workflow was known."""
        row = history_row(run_of(state="refused", user="", begun=None, ended=1.0), Around())
        assert (row.user, row.workflow, row.endpoint, row.first_s, row.held) == ("", "", "", None, None)
        assert (row.took_s, row.prompt, row.costs) == (1.0, 0, ())


def test_without_the_console():
    """What stood out is found out all the same."""
    assert RowMaker(None, Hour(), 1).row_of(a_run()).stood_out == ("slot",)
