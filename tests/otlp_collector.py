"""A collector of traces on loopback: keeps what it is sent, read with OpenTelemetry's own types, and answers as told."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.patience import PATIENCE_S, wait_until

pytest.importorskip("opentelemetry.sdk", reason="the extra `otel` is not installed (`test` has it)")

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

QUICK = {"OTEL_BSP_SCHEDULE_DELAY": "20"}
"""Environment of a server whose batch thread does not wait for more."""


class Got:
    """One span. `kind`, `status`: in words (`CLIENT`, `ERROR`)."""

    def __init__(self, span: Span, resource: Mapping[str, Any]) -> None:
        self.name, self.resource = span.name, resource
        self.trace, self.id, self.parent = (
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex(),
        )
        self.kind = Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_")
        self.begun, self.ended = span.start_time_unix_nano, span.end_time_unix_nano
        self.attributes = values(span.attributes)
        self.events = [(event.name, event.time_unix_nano, values(event.attributes)) for event in span.events]
        self.status = Status.StatusCode.Name(span.status.code).removeprefix("STATUS_CODE_")
        self.said, self.state = span.status.message, span.trace_state

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name!r} {self.attributes}>"


def values(attributes: Any) -> dict[str, Any]:
    return {one.key: value(one.value) for one in attributes}


def value(told: Any) -> Any:
    kind = told.WhichOneof("value")
    if kind == "array_value":
        return [value(one) for one in told.array_value.values]
    return getattr(told, kind)


class Collector:
    """`answer`: status that each request gets. `hold`: a request is not answered before it is set. `requests`:
    headers of all that came, refused ones too; `bodies`: as they came."""

    def __init__(self) -> None:
        self.answer, self.hold = 200, threading.Event()
        self.hold.set()
        self.spans: list[Got] = []
        self.requests: list[Mapping[str, str]] = []
        self.paths: list[str] = []
        self.bodies: list[bytes] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.take(self.path, dict(self.headers), body)
                collector.hold.wait(PATIENCE_S)
                self.send_response(collector.answer)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def take(self, path: str, headers: Mapping[str, str], body: bytes) -> None:
        self.requests.append(headers)
        self.paths.append(path)
        self.bodies.append(body)
        if self.answer >= 300:
            return
        told = ExportTraceServiceRequest.FromString(body)
        for group in told.resource_spans:
            resource = values(group.resource.attributes)
            self.spans += [Got(span, resource) for scope in group.scope_spans for span in scope.spans]

    def wait_for(self, count: int) -> list[Got]:
        """The spans, once there are so many."""
        wait_until(lambda: len(self.spans) >= count, said=lambda: repr(self.spans))
        return self.spans

    def traces(self) -> dict[str, list[Got]]:
        found: dict[str, list[Got]] = {}
        for span in self.spans:
            found.setdefault(span.trace, []).append(span)
        return found

    def close(self) -> None:
        self.hold.set()
        self._server.shutdown()
        self._server.server_close()


def tree_of(spans: list[Got]) -> Any:
    """`(name, [children])` of the only root among them, children by their begin."""
    known = {span.id for span in spans}
    [root] = [span for span in spans if span.parent not in known]

    def branch(span: Got) -> tuple[str, list[Any]]:
        below = sorted((one for one in spans if one.parent == span.id), key=lambda one: (one.begun, one.name))
        return span.name, [branch(one) for one in below]

    return branch(root)
