"""The numbers: what is counted, under which labels, and that those stay few."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from prometheus_client.parser import text_string_to_metric_families

from Middleware.api.wsgi import metrics as module
from Middleware.api.wsgi.metrics import MOST_NAMES, Metrics, outcome_of
from Middleware.common.constants import VERSION
from Middleware.common.errors import KIND_STATUS
from Middleware.common.request_context import RequestContext
from Middleware.services.node_trace import CallTrace, NodeTrace
from Middleware.services.run_trace import Observers

MIRA = {"user": "mira", "workflow": "Main"}


@pytest.fixture
def metrics():
    return Metrics(slots=2)


def samples(metrics):
    """`(name, labels) -> value` of all that is shown."""
    families = text_string_to_metric_families(metrics.exposition()[1].decode())
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for f in families for s in f.samples}


def value(metrics, name, **labels):
    """None: there is no such series."""
    return samples(metrics).get((name, tuple(sorted(labels.items()))))


def a_run(metrics, user="mira", workflow="Main", begins=True):
    """A run that `metrics` observes, as far as its first node."""
    observers = Observers()
    observers.observe(metrics)
    run = observers.begin("r1", "/v1/chat/completions")
    if begins:
        run.begin()
        request = RequestContext("r1", user, "openaichatcompletion")
        run.name(request, front="OpenAI chat", stream=True, asked=b"")
        run.runs(workflow, answers=True)
    return run


def a_call(outcome="stop", endpoint="big", kind="model", **facts):
    return CallTrace(kind, endpoint, "openAIChatCompletion", "m", outcome=outcome, **facts)


def with_calls(run, *calls):
    node = run.node(NodeTrace("Workflows/mira/Main.json", 1, "Standard", "Answer")).node
    node.calls += calls
    node.end()
    run.tell("node_ended", node)


class TestRuns:
    def test_one_that_is_answered(self, metrics):
        """Counted under its user, its workflow and the client's protocol."""
        run = a_run(metrics)
        run.usage = {"prompt_tokens": 9, "completion_tokens": 4}
        run.answer()
        run.end("done")
        assert value(metrics, "headrace_requests_total", **MIRA, front="OpenAI chat", outcome="done") == 1
        assert value(metrics, "headrace_answer_tokens_total", **MIRA, kind="prompt") == 9
        assert value(metrics, "headrace_answer_tokens_total", **MIRA, kind="completion") == 4
        assert value(metrics, "headrace_answer_seconds_count", **MIRA) == 1

    def test_all_calls_behind_it(self, metrics):
        """What the client is told of its workflow; no model answered: nothing."""
        run = a_run(metrics)
        run.all_usage = {"prompt_tokens": 107, "completion_tokens": 23, "calls": 2}
        run.end("failed")
        a_run(metrics).end("done")
        assert value(metrics, "headrace_workflow_tokens_total", **MIRA, kind="prompt") == 107
        assert value(metrics, "headrace_workflow_tokens_total", **MIRA, kind="completion") == 23
        assert value(metrics, "headrace_workflow_calls_total", **MIRA) == 2

    def test_its_first_text(self, metrics):
        """From its arrival, not from its turn."""
        run = a_run(metrics)
        run.arrived -= 7
        run.node(NodeTrace("w", 1, "Standard")).note_first_text(None)
        assert value(metrics, "headrace_first_token_seconds_count", **MIRA) == 1
        assert value(metrics, "headrace_first_token_seconds_bucket", **MIRA, le="5.0") == 0
        assert value(metrics, "headrace_first_token_seconds_bucket", **MIRA, le="10.0") == 1

    def test_waiting_and_running(self, metrics):
        """The queue, and who has a slot."""
        names = ("headrace_queue_length", "headrace_requests_running")
        seen = []
        run = a_run(metrics, begins=False)
        seen.append([value(metrics, name) for name in names])
        run.begin()
        seen.append([value(metrics, name) for name in names])
        run.end("done")
        seen.append([value(metrics, name) for name in names])
        assert seen == [[1, 0], [0, 1], [0, 0]]
        assert value(metrics, "headrace_queue_wait_seconds_count") == 1
        assert value(metrics, "headrace_slots") == 2

    def test_one_that_left_the_queue(self, metrics):
        """It waited too, and stands in no queue any more."""
        run = a_run(metrics, begins=False)
        run.end("cancelled")
        assert value(metrics, "headrace_queue_length") == 0
        assert value(metrics, "headrace_requests_running") == 0
        assert value(metrics, "headrace_queue_wait_seconds_count") == 1

    @pytest.mark.parametrize(
        ("why", "by"),
        [
            ("the client hung up", "hung_up"),
            ("DELETE", "delete"),
            ("a newer request with its key", "newer_request"),
            ("the server stops", "server_stops"),
            ("the console", "console"),
            ("", "other"),
        ],
    )
    def test_one_that_is_cancelled(self, metrics, why, by):
        """By whom."""
        run = a_run(metrics)
        run.cancelled_by = why
        run.end("cancelled")
        assert value(metrics, "headrace_cancellations_total", **MIRA, by=by) == 1

    @pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": "many"}, {"prompt_tokens": -3}], ids=str)
    def test_odd_numbers_of_a_backend(self, metrics, usage):
        """Count nothing and harm nobody."""
        run = a_run(metrics)
        run.usage = usage
        with_calls(run, a_call(usage=usage))
        run.end("done")
        assert value(metrics, "headrace_answer_tokens_total", **MIRA, kind="prompt") is None
        assert value(metrics, "headrace_requests_total", **MIRA, front="OpenAI chat", outcome="done") == 1


class TestCalls:
    def test_one_that_is_answered(self, metrics):
        """Its time, its first output, its tokens."""
        usage = {"prompt_tokens": 9, "completion_tokens": 4}
        with_calls(a_run(metrics), a_call(begun=100.0, first=100.3, ended=103.0, usage=usage))
        assert (
            value(metrics, "headrace_backend_calls_total", endpoint="big", kind="model", outcome="stop") == 1
        )
        assert value(metrics, "headrace_backend_seconds_sum", endpoint="big") == 3
        assert value(metrics, "headrace_backend_first_output_seconds_sum", endpoint="big") == pytest.approx(
            0.3
        )
        assert value(metrics, "headrace_backend_tokens_total", endpoint="big", kind="prompt") == 9
        assert value(metrics, "headrace_backend_errors_total", endpoint="big", error="stop") is None

    def test_what_was_held_of_its_prompt(self, metrics):
        """What was read is the rest; the times of reading have a place up to 20 minutes."""
        usage = {"prompt_tokens": 900, "cached_tokens": 850, "prompt_duration_ns": 1_100_000_000_000}
        with_calls(a_run(metrics), a_call(usage=usage), a_call(usage={"prompt_tokens": 7}))
        assert value(metrics, "headrace_prompt_tokens_total", endpoint="big", held="yes") == 850
        assert value(metrics, "headrace_prompt_tokens_total", endpoint="big", held="no") == 50
        assert value(metrics, "headrace_prompt_seconds_count", endpoint="big") == 1
        assert value(metrics, "headrace_prompt_seconds_bucket", endpoint="big", le="600.0") == 0
        assert value(metrics, "headrace_prompt_seconds_bucket", endpoint="big", le="1200.0") == 1

    def test_more_held_than_there_was(self, metrics):
        """A counter never goes back."""
        with_calls(a_run(metrics), a_call(usage={"prompt_tokens": 5, "cached_tokens": 9}))
        assert value(metrics, "headrace_prompt_tokens_total", endpoint="big", held="no") == 0

    @pytest.mark.parametrize("kind", sorted(KIND_STATUS))
    def test_one_that_fails(self, metrics, kind):
        """Each kind of failure is a word of its own."""
        with_calls(a_run(metrics), a_call(kind))
        assert value(metrics, "headrace_backend_errors_total", endpoint="big", error=kind) == 1

    @pytest.mark.parametrize(
        ("call", "word"),
        [
            (a_call("length"), "length"),
            (a_call("cancelled"), "cancelled"),
            (a_call("dropped"), "closed"),
            (a_call("error"), "stream_error"),
            (a_call("64 texts", kind="embedding"), "stop"),
            (a_call("a word of the backend's own"), "other"),
            (a_call(""), "other"),
        ],
        ids=lambda given: given if isinstance(given, str) else "",
    )
    def test_how_one_ended(self, call, word):
        """In one of few words, whatever a backend says."""
        assert outcome_of(call) == word

    def test_all_calls_of_a_node(self, metrics):
        """A backup's beside the one that failed."""
        with_calls(a_run(metrics), a_call("timeout"), a_call("stop", "spare"))
        assert value(metrics, "headrace_backend_errors_total", endpoint="big", error="timeout") == 1
        assert (
            value(metrics, "headrace_backend_calls_total", endpoint="spare", kind="model", outcome="stop")
            == 1
        )


class TestLabels:
    def test_names_beyond_the_limit(self, metrics):
        """Share one series, so that their number is bounded."""
        for number in range(MOST_NAMES + 5):
            a_run(metrics, workflow=f"W{number}").end("done")
        done = [key for key in samples(metrics) if key[0] == "headrace_requests_total"]
        other = {"user": "other", "workflow": "other", "front": "OpenAI chat", "outcome": "done"}
        assert len(done) == MOST_NAMES + 1
        assert value(metrics, "headrace_requests_total", **other) == 5

    def test_odd_names(self, metrics):
        """Quotes, line ends and letters of no alphabet do not break the format."""
        a_run(metrics, workflow='a"b\\c\nd\udc80').end("done")
        assert [key for key in samples(metrics) if key[0] == "headrace_requests_total"]

    @pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r", "\n"])
    def test_every_line_is_a_whole_one(self, metrics, end):
        """However a reader cuts them: a name brings no line end of its own."""
        a_run(metrics, user=f"mi{end}ra", workflow=f"Ma{end}in").end("done")
        with_calls(a_run(metrics), a_call(endpoint=f"bi{end}g"))
        shown = metrics.exposition()[1].decode()
        assert shown.splitlines() == shown.split("\n")[:-1]
        assert (
            value(metrics, "headrace_backend_calls_total", endpoint="bi?g", kind="model", outcome="stop") == 1
        )


class TestShown:
    def test_each_application_has_its_own(self, metrics):
        """Nothing is kept in a place that all share."""
        a_run(metrics).end("done")
        assert (
            value(Metrics(), "headrace_requests_total", **MIRA, front="OpenAI chat", outcome="done") is None
        )

    def test_process_and_version(self, metrics):
        """What every scrape has."""
        assert value(metrics, "headrace_build_info", version=VERSION) == 1
        assert value(metrics, "process_resident_memory_bytes") > 0

    @pytest.mark.parametrize(
        ("accept", "content_type"),
        [("", "text/plain"), ("application/openmetrics-text; version=1.0.0", "application/openmetrics-text")],
    )
    def test_the_form_that_is_asked_for(self, metrics, accept, content_type):
        """Prometheus' text, unless OpenMetrics is wanted."""
        shown_type, body = metrics.exposition(accept)
        assert shown_type.startswith(content_type) and b"headrace_slots" in body

    @pytest.mark.skipif(not shutil.which("promtool"), reason="the Debian package prometheus is not installed")
    def test_promtool_is_content(self, metrics):
        """Prometheus' own check of names, types and texts."""
        run = a_run(metrics)
        run.usage = {"prompt_tokens": 9, "completion_tokens": 4}
        run.cancelled_by = "DELETE"
        with_calls(run, a_call("timeout", begun=1.0, first=2.0, ended=3.0), a_call(usage=run.usage))
        run.answer()
        run.end("cancelled")
        checked = subprocess.run(
            ["promtool", "check", "metrics"], input=metrics.exposition()[1], capture_output=True, check=False
        )
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")

    def test_several_processes_are_shown_together(self, tmp_path):
        """They share a folder; each scrape has the sum, but of the slots, which they have in common."""
        script = (
            "import sys; sys.path.insert(0, sys.argv[1])\n"
            "from tests.api.wsgi.test_metrics import Metrics, a_run\n"
            "metrics = Metrics(1); a_run(metrics).end('done')\n"
            "print(metrics.exposition()[1].decode() if sys.argv[2] == 'show' else '')"
        )
        house = str(module.__file__).partition("/Middleware/")[0]
        environment = {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
        shown = ""
        for what in ("count", "count", "show"):
            shown = subprocess.run(
                [sys.executable, "-c", script, house, what],
                env=environment, capture_output=True, text=True, check=True, cwd=house,
            ).stdout  # fmt: skip
        families = text_string_to_metric_families(shown)
        found = {s.name: s.value for f in families for s in f.samples}
        assert (found["headrace_requests_total"], found["headrace_slots"]) == (3, 1)

    def test_a_shared_folder_that_is_not_there(self, tmp_path):
        """It is made: one below /run is gone after a restart of the machine."""
        done = _made_with(tmp_path / "new" / "folder")
        assert (done.returncode, done.stderr) == (0, "")
        assert list((tmp_path / "new" / "folder").glob("*.db"))

    def test_a_shared_folder_that_cannot_be(self, tmp_path):
        """The server ends with one sentence."""
        (tmp_path / "taken").write_text("no folder")
        done = _made_with(tmp_path / "taken")
        assert done.returncode == 1
        assert done.stderr.startswith("PROMETHEUS_MULTIPROC_DIR must name a folder that can be written to: ")
        assert "Traceback" not in done.stderr and str(tmp_path / "taken") in done.stderr


def _made_with(folder):
    """A process that counts into this folder."""
    return subprocess.run(
        [sys.executable, "-c", "from Middleware.api.wsgi.metrics import Metrics; Metrics(1)"],
        env={"PROMETHEUS_MULTIPROC_DIR": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=False, cwd=str(module.__file__).partition("/Middleware/")[0],
    )  # fmt: skip


class TestLoadedModels:
    def test_what_is_loaded_now(self, metrics):
        """1; what no longer is: 0."""
        metrics.note_loaded([("big", "m1"), ("big", "m2")])
        metrics.note_loaded([("big", "m2")])
        assert value(metrics, "headrace_model_loaded", endpoint="big", model="m1") == 0
        assert value(metrics, "headrace_model_loaded", endpoint="big", model="m2") == 1

    def test_nobody_has_asked(self, metrics):
        """No series: unknown is not 0."""
        assert not [name for name, _ in samples(metrics) if name == "headrace_model_loaded"]

    def test_they_stay_few(self, metrics):
        """A server may name as many as it likes."""
        metrics.note_loaded([("big", str(number)) for number in range(MOST_NAMES + 5)])
        names = [labels for name, labels in samples(metrics) if name == "headrace_model_loaded"]
        assert len(names) == MOST_NAMES + 1
