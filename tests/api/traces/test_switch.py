"""When traces are sent: what each variable of the environment says."""

from __future__ import annotations

import subprocess
import sys

import pytest
from flask import Flask

from Middleware.api.api_server import ApiServer
from Middleware.api.traces.switch import captures_texts, traces_wanted, why_no_traces

BASE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        (BASE, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, False),
        ({"OTEL_SERVICE_NAME": "mine"}, False),
        ({**BASE, "OTEL_SDK_DISABLED": "true"}, False),
        ({**BASE, "OTEL_SDK_DISABLED": " TRUE "}, False),
        ({**BASE, "OTEL_SDK_DISABLED": "1"}, True),
        ({**BASE, "OTEL_TRACES_EXPORTER": "none"}, False),
        ({**BASE, "OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({**BASE, "OTEL_TRACES_EXPORTER": ""}, True),
    ],
)
def test_whether_they_are_wanted(environ, wanted):
    """A collector is named, and nothing turns it off; only `true` means true."""
    assert traces_wanted(environ) is wanted


@pytest.mark.parametrize(
    ("environ", "why"),
    [
        (BASE, None),
        ({**BASE, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, None),
        (
            {**BASE, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc', and only 'http/protobuf' is supported",
        ),
        (
            {
                "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
            },
            None,
        ),
        (
            {**BASE, "OTEL_TRACES_EXPORTER": "zipkin"},
            "OTEL_TRACES_EXPORTER is 'zipkin', and only 'otlp' is supported",
        ),
        ({**BASE, "OTEL_TRACES_EXPORTER": "console, otlp"}, None),
    ],
)
def test_what_cannot_be_had(environ, why):
    """Said with the variable's name; the one for traces alone comes first."""
    assert why_no_traces(environ) == why


@pytest.mark.parametrize(("value", "captures"), [("true", True), ("True", True), ("1", False), ("", False)])
def test_whether_texts_are_sent(value, captures):
    """Off unless it is asked for in this word."""
    assert captures_texts({"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": value}) is captures


def test_nothing_is_loaded_when_they_are_off():
    """A server without a collector pays nothing, at its start either."""
    program = (
        "import sys; from Middleware.api.api_server import ApiServer; ApiServer();"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip().splitlines()[-1] == "[]"


class TestAServerThatCannotSend:
    """It starts all the same, with one line that says why."""

    @pytest.fixture
    def line(self, monkeypatch, caplog):
        """`line(name=value)`: what is logged at a start with this environment."""

        def start(**environ):
            for name, value in {**BASE, **environ}.items():
                monkeypatch.setenv(name, value)
            server = ApiServer(Flask("house"))
            assert not any(one.__class__.__name__ == "TraceWriter" for one, _ in server.door.observers._all)
            [record] = [one for one in caplog.records if "traces" in one.getMessage()]
            return record.getMessage()

        return start

    def test_the_extra_is_missing(self, line, monkeypatch):
        """How it is installed."""
        monkeypatch.setitem(sys.modules, "Middleware.api.traces.sending", None)
        assert line().endswith('install the extra with: python -m pip install -e ".[otel]"')

    def test_a_protocol_that_is_not_there(self, line):
        """Which one is."""
        said = line(OTEL_EXPORTER_OTLP_PROTOCOL="grpc")
        assert said == (
            "no traces are sent: OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc', and only 'http/protobuf' is supported"
        )

    def test_a_setting_that_is_wrong(self, line):
        """What the library says of it."""
        pytest.importorskip("opentelemetry.sdk", reason="the extra `otel` is not installed (`test` has it)")
        assert "OTEL_SPAN_EVENT_COUNT_LIMIT" in line(OTEL_SPAN_EVENT_COUNT_LIMIT="many")

    @pytest.mark.parametrize(
        ("name", "value", "least"),
        [
            ("MAX_QUEUE_SIZE", "-3", 1),
            ("MAX_QUEUE_SIZE", "0", 1),
            ("MAX_EXPORT_BATCH_SIZE", "many", 1),
            ("SCHEDULE_DELAY", "0.5", 1),
            ("EXPORT_TIMEOUT", "99999999999", 0),
        ],
    )
    def test_a_number_that_no_batch_can_have(self, line, name, value, least):
        """At the start, not with the first run."""
        pytest.importorskip("opentelemetry.sdk", reason="the extra `otel` is not installed (`test` has it)")
        assert line(**{f"OTEL_BSP_{name}": value}) == (
            f"no traces are sent: OTEL_BSP_{name} is {value!r}, allowed: a whole number from {least} on"
        )

    def test_a_batch_that_never_fills(self, line):
        """Fewer spans than it holds may wait."""
        pytest.importorskip("opentelemetry.sdk", reason="the extra `otel` is not installed (`test` has it)")
        assert line(OTEL_BSP_MAX_EXPORT_BATCH_SIZE="99999") == (
            "no traces are sent: OTEL_BSP_MAX_EXPORT_BATCH_SIZE is 99999, but at most 2048 spans wait"
        )
