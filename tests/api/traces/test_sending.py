"""Runs on their way to a collector: one trace each, and what happens when the collector does not take them."""

from __future__ import annotations

import json
import logging
import threading

import pytest

from tests.api.traces.runs import a_call, a_node, a_run, end
from tests.otlp_collector import QUICK, Collector, tree_of
from tests.patience import PATIENCE_S, wait_until

pytest.importorskip("opentelemetry.sdk", reason="the extra `otel` is not installed (`test` has it)")

from Middleware.api.traces import sending
from Middleware.api.traces.sending import MOST_WAITING, TraceWriter

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PROMPT = b'{"messages":[{"role":"user","content":"what is tea?"}]}'


@pytest.fixture
def collector():
    made = Collector()
    yield made
    made.close()


@pytest.fixture
def environ(monkeypatch, collector):
    """That of a server that sends to the collector. `environ(name=value)` sets more."""
    for name, value in {**QUICK, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@pytest.fixture
def start(environ):
    """`start(...)`: a writer of these arguments, ended with the test."""
    made = []

    def run(**arguments):
        made.append(TraceWriter(**arguments))
        return made[-1]

    yield run
    for writer in made:
        writer.close(0.0)


def observed(writer, *, state="done", settles=True, **facts):
    """A run of one node with one call, observed to its end."""
    run = a_run(writer, **facts)
    a_call(a_node(run, output="a drink", answers=True), body=PROMPT, cleaned="a drink")
    end(run, state)
    if settles:
        run.settle()
    return run


class TestATrace:
    def test_one_run(self, start, collector):
        """Is one trace with the tree of the run, at the path that OTLP names."""
        observed(start())
        spans = collector.wait_for(3)
        assert tree_of(spans) == ("invoke_workflow mira/Main", [("Answer", [("chat m", [])])])
        assert {span.kind for span in spans} == {"SERVER", "INTERNAL", "CLIENT"}
        assert (collector.paths, len(collector.traces())) == (["/v1/traces"], 1)

    def test_several_runs(self, start, collector):
        """Are several traces."""
        writer = start()
        for _ in range(5):
            observed(writer)
        collector.wait_for(15)
        assert sorted(len(spans) for spans in collector.traces().values()) == [3] * 5

    def test_times_attributes_and_events(self, start, collector):
        """As the run had them, to the nanosecond."""
        run = a_run(writer := start(), first_text=1002.5)
        a_node(run, warnings=["a tag is missing"])
        end(run)
        request, node = collector.wait_for(2)
        assert (request.begun, request.ended) == (1_700_000_000_000_000_000, 1_700_000_010_000_000_000)
        assert request.events == [("first_text", 1_700_000_002_500_000_000, {})]
        assert node.events == [("warning", node.ended, {"headrace.message": "a tag is missing"})]
        assert request.attributes["gen_ai.conversation.id"] == "trip3"
        assert wait_until(lambda: writer.waiting == 0)

    def test_a_failure(self, start, collector):
        """Has the status ERROR, a type and a sentence, without secrets; what did not fail has none."""
        run = a_run(start(hidden=["house-key-12345678"]), error="house-key-12345678 is wrong", status=502)
        a_node(run, state="failed", error="no", error_kind="auth")
        a_node(run, 2)
        end(run, "failed")
        request, failed, good = collector.wait_for(3)
        assert (request.status, request.said) == ("ERROR", "*** is wrong")
        assert (failed.status, failed.attributes["error.type"]) == ("ERROR", "auth")
        assert (good.status, good.said) == ("UNSET", "")

    def test_what_ends_behind_the_run(self, start, collector):
        """Hangs at its node in the same trace, when it has ended."""
        run = a_run(writer := start())
        ahead = a_call(a_node(run), "prefill", ended=0.0, model="ahead")
        end(run)
        collector.wait_for(2)
        wait_until(lambda: writer.waiting == 0)
        ahead.ended = run.ended + 1
        run.settle()
        spans = collector.wait_for(3)
        assert tree_of(spans) == ("invoke_workflow mira/Main", [("Answer", [("chat ahead", [])])])

    def test_a_run_with_more_spans_than_may_wait(self, start, collector):
        """Is cut behind the last one that may."""
        run = a_run(start())
        node = a_node(run)
        for _ in range(MOST_WAITING + 10):
            a_call(node)
        end(run)
        collector.wait_for(MOST_WAITING)
        assert len(collector.traces()) == 1

    def test_an_odd_run(self, start, collector, monkeypatch, caplog):
        """Costs its own trace alone."""
        writer = start()
        with monkeypatch.context() as broken:
            broken.setattr(sending, "trace_of", lambda run, with_texts: run.no_such_thing)
            observed(writer)
        assert ("could not be made a trace" in caplog.text, writer.waiting) == (True, 0)
        observed(writer)
        assert len(collector.wait_for(3)) == 3

    def test_odd_texts(self, start, collector):
        """One span that no collector could read must not cost the others of its batch."""
        run = a_run(start())
        a_node(run, title="bad \ud800\x00", warnings=["\udfff"])
        a_call(a_node(run, 2, "Second"), answered_by="\ud800")
        end(run)
        assert [span.name for span in collector.wait_for(4)][1:3] == ["bad ?\x00", "Second"]


class TestTheClientsTrace:
    def test_becomes_the_parent(self, start, collector):
        """W3C's header says of which trace the request is a part."""
        state = "vendor=1"
        observed(start(), caller=(f"00-{TRACE}-{SPAN}-01", state))
        spans = collector.wait_for(3)
        assert {span.trace for span in spans} == {TRACE}
        assert [span.parent for span in spans if span.kind == "SERVER"] == [SPAN]
        assert {span.state for span in spans} == {state}

    @pytest.mark.parametrize(
        "header",
        [
            "",
            "nonsense",
            f"00-{'0' * 32}-{SPAN}-01",
            f"00-{TRACE}-{'0' * 16}-01",
            f"ff-{TRACE}-{SPAN}-01",
            f"00-{TRACE}-{SPAN}-01, 00-{TRACE}-{SPAN}-01",
            "00-" + "é" * 32,
            "0" * 100_000,
        ],
    )
    def test_an_odd_header(self, start, collector, header):
        """Is none: the trace begins here."""
        observed(start(), caller=(header, ""))
        [root] = [span for span in collector.wait_for(3) if span.kind == "SERVER"]
        assert (root.parent, root.trace != TRACE) == ("", True)

    @pytest.mark.parametrize(
        "state", ["x" * 600, "a=1,,b", "é=1", "=", ",".join(f"k{n}=1" for n in range(40))]
    )
    def test_an_odd_state(self, start, collector, state):
        """Costs neither the trace nor its parent."""
        observed(start(), caller=(f"00-{TRACE}-{SPAN}-01", state))
        assert {span.trace for span in collector.wait_for(3)} == {TRACE}

    def test_one_that_is_not_sampled(self, start, collector):
        """Its client wants no trace of it."""
        writer = start()
        observed(writer, caller=(f"00-{TRACE}-{SPAN}-00", ""))
        observed(writer)
        collector.wait_for(3)
        assert TRACE not in collector.traces()


class TestTheEnvironment:
    def test_the_resource(self, start, collector, environ):
        """The program has a name, unless the environment gives it one."""
        observed(start())
        told = collector.wait_for(3)[0].resource
        assert told["service.name"] == "headrace"
        environ.setenv("OTEL_SERVICE_NAME", "mine")
        environ.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.version=7,where=attic")
        observed(start())
        told = collector.wait_for(6)[-1].resource
        assert (told["service.name"], told["service.version"], told["where"]) == ("mine", "7", "attic")

    def test_headers_and_compression(self, start, collector, environ):
        """As the SDK reads them."""
        environ.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20abc")
        environ.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
        observed(start())
        collector.wait_for(3)
        told = {name.lower(): value for name, value in collector.requests[0].items()}
        assert (told["authorization"], told["content-encoding"]) == ("Basic abc", "gzip")

    def test_a_sampler(self, start, collector, environ):
        """None is taken of ten; the next one, of another writer, is."""
        with environ.context() as nobody:
            nobody.setenv("OTEL_TRACES_SAMPLER", "always_off")
            never = start()
        for _ in range(10):
            observed(never)
        observed(start())
        collector.wait_for(3)
        assert len(collector.traces()) == 1

    def test_limits_of_attributes(self, start, collector, environ):
        """A long text is cut where the environment says so."""
        environ.setenv("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "5")
        observed(start())
        assert collector.wait_for(3)[0].attributes["headrace.front"] == "OpenA"

    def test_a_path_of_its_own(self, start, collector, environ):
        """The endpoint for traces alone is taken as it is."""
        environ.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{collector.url}/api/otel")
        observed(start())
        collector.wait_for(3)
        assert collector.paths == ["/api/otel"]

    def test_what_the_library_refuses(self, start, environ):
        """Is raised at the start, not at the first answer."""
        environ.setenv("OTEL_SPAN_EVENT_COUNT_LIMIT", "many")
        with pytest.raises(ValueError, match="OTEL_SPAN_EVENT_COUNT_LIMIT"):
            start()

    def test_what_the_library_complains_of(self, start, environ, caplog):
        """Is one line of ours."""
        environ.setenv("OTEL_TRACES_SAMPLER", "sometimes")
        start()
        [record] = caplog.records
        assert (record.name, record.levelname) == (sending.__name__, "WARNING")
        assert "sometimes" in record.getMessage()


class TestTexts:
    def test_only_where_they_are_asked_for(self, start, collector):
        """Prompt and answer stay here."""
        observed(start(), asked=PROMPT)
        collector.wait_for(3)
        assert b"tea" not in b"".join(collector.bodies)
        assert b"drink" not in b"".join(collector.bodies)

    def test_where_they_are(self, start, collector):
        """Both are there, of the request and of its call."""
        observed(start(with_texts=True), asked=PROMPT)
        request, _, call = collector.wait_for(3)
        for span in (request, call):
            [asked] = json.loads(span.attributes["gen_ai.input.messages"])
            [told] = json.loads(span.attributes["gen_ai.output.messages"])
            assert asked["parts"] == [{"type": "text", "content": "what is tea?"}]
            assert told["parts"] == [{"type": "text", "content": "a drink"}]

    def test_never_of_private_users(self, start, collector):
        """Whatever the environment says."""
        run = observed(start(with_texts=True), asked=PROMPT, privacy=True)
        collector.wait_for(3)
        assert not run.keeps_text
        assert b"tea" not in b"".join(collector.bodies)
        assert b"trip3" not in b"".join(collector.bodies)

    def test_more_than_may_wait(self, start, collector, monkeypatch):
        """Spans beyond are sent without their texts, and say so."""
        monkeypatch.setattr(sending, "MOST_TEXT_BYTES", 2 * len(PROMPT) + 20)
        collector.hold.clear()
        writer = start(with_texts=True)
        observed(writer)
        wait_until(lambda: collector.requests)
        for _ in range(3):
            observed(writer, asked=PROMPT)
        collector.hold.set()
        spans = collector.wait_for(12)[3:]
        left_out = [span for span in spans if span.attributes.get("headrace.texts_left_out")]
        assert len(left_out) == 4
        assert all("gen_ai.input.messages" not in span.attributes for span in left_out)
        assert wait_until(lambda: writer.waiting == 0)
        observed(writer)
        assert "gen_ai.input.messages" in collector.wait_for(15)[-1].attributes


class TestACollectorThatFails:
    @pytest.fixture(autouse=True)
    def hurry(self, environ, monkeypatch):
        """Short pauses, so that many tries fail in a short time."""
        environ.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
        monkeypatch.setattr(sending, "PAUSE_S", 0.01)

    def failures(self, caplog):
        return [record for record in caplog.records if record.levelno >= logging.WARNING]

    @pytest.mark.parametrize("status", [400, 401, 413, 429, 500, 503])
    def test_one_that_refuses(self, start, collector, caplog, status):
        """One WARNING, however often it fails; a line when it takes them again. The library says nothing."""
        caplog.set_level(logging.INFO)
        collector.answer = status
        writer = start()
        for round_ in range(1, 4):
            observed(writer)
            wait_until(lambda expected=round_: len(collector.requests) >= expected and not writer.waiting)
        collector.answer = 200
        wait_until(lambda: observed(writer) and collector.spans)
        wait_until(lambda: "traces are sent again" in caplog.text)
        [warning] = self.failures(caplog)
        assert warning.name == sending.__name__
        assert collector.url in warning.getMessage()

    def test_one_that_is_away(self, start, collector, caplog, capfd, environ):
        """The reason is in the line; nothing is printed beside it."""
        environ.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3")
        collector.close()
        observed(start())
        wait_until(lambda: self.failures(caplog))
        [warning] = self.failures(caplog)
        assert "refused" in warning.getMessage().lower()
        assert capfd.readouterr() == ("", "")

    def test_a_warning_a_minute(self, start, collector, caplog, monkeypatch):
        """The next one comes when a minute is over, and tells how much was lost."""
        collector.answer = 400
        monkeypatch.setattr(sending, "TELL_EVERY_S", 0.0)
        writer = start()
        observed(writer)
        wait_until(lambda: len(self.failures(caplog)) == 1)
        observed(writer)
        wait_until(lambda: len(self.failures(caplog)) == 2)
        assert [record.args[-1] for record in self.failures(caplog)] == [3, 6]

    def test_no_more_than_may_wait(self, start, collector, environ):
        """While one is slow; what comes then has no trace, and none of a run's spans is sent alone."""
        environ.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "600")
        collector.hold.clear()
        writer = start()
        observed(writer)
        wait_until(lambda: collector.requests)
        for _ in range(MOST_WAITING):
            observed(writer)
        assert writer.waiting == MOST_WAITING - MOST_WAITING % 3
        collector.hold.set()
        collector.wait_for(3 + MOST_WAITING - MOST_WAITING % 3)
        assert {len(spans) for spans in collector.traces().values()} == {3}

    def test_few_wait_while_it_fails(self, start, collector, monkeypatch):
        """More would be made for nothing."""
        monkeypatch.setattr(sending, "PAUSE_S", PATIENCE_S)
        monkeypatch.setattr(sending, "MOST_WHILE_FAILING", 8)
        collector.answer = 400
        writer = start()
        observed(writer)
        assert wait_until(lambda: collector.requests and not writer.waiting)
        assert wait_until(lambda: writer._exporter.is_failing)
        for _ in range(20):
            observed(writer)
        assert writer.waiting == 6

    def test_a_long_run_while_it_fails(self, start, collector, monkeypatch):
        """Is tried, too, when nothing else waits: or nobody would see that the collector is there again."""
        monkeypatch.setattr(sending, "MOST_WHILE_FAILING", 2)
        collector.answer = 400
        writer = start()
        observed(writer)
        assert wait_until(lambda: writer._exporter.is_failing and not writer.waiting)
        collector.answer = 200
        assert wait_until(lambda: observed(writer) and collector.spans)

    def test_a_smaller_queue(self, start, collector, environ):
        """The environment may make it smaller, not larger."""
        environ.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "10")
        environ.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "10")
        environ.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "600")
        collector.hold.clear()
        writer = start()
        observed(writer)
        wait_until(lambda: collector.requests)
        for _ in range(10):
            observed(writer)
        assert writer.waiting == 9

    def test_a_queue_that_is_smaller_than_the_usual_batch(self, start, collector, environ):
        """What can wait is then sent at once."""
        environ.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "10")
        observed(start())
        assert wait_until(lambda: len(collector.spans) == 3)


class TestTheEnd:
    def test_what_waits_is_sent(self, start, collector, environ):
        """A server that stops sends the last traces first."""
        environ.setenv("OTEL_BSP_SCHEDULE_DELAY", "600000")
        writer = start()
        observed(writer)
        writer.close()
        assert len(collector.spans) == 3

    def test_a_collector_that_is_away(self, start, collector, environ):
        """Holds no server up: what waits is lost."""
        collector.hold.clear()
        writer = start()
        observed(writer)
        wait_until(lambda: collector.requests)
        observed(writer)
        writer.close(0.05)
        assert len(collector.requests) == 1

    def test_a_run_that_ends_later(self, start, collector):
        """Is not sent any more, and starts no thread."""
        writer = start()
        observed(writer)
        collector.wait_for(3)
        writer.close()
        threads = set(threading.enumerate())
        observed(writer)
        assert (writer.waiting, set(threading.enumerate()) <= threads) == (0, True)

    def test_the_library_may_log_again(self, start):
        """Its loggers are as they were."""
        log = logging.getLogger("opentelemetry.exporter")
        writer = start()
        assert not log.propagate
        writer.close()
        assert (log.propagate, log.handlers) == (True, [])


def test_nothing_of_the_library_is_global(start):
    """Another package that makes spans, as that of MCP does, makes none for this collector."""
    from opentelemetry import trace

    start()
    with trace.get_tracer("other").start_as_current_span("mine") as span:
        assert not span.is_recording()
