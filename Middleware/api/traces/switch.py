"""Whether runs are sent as traces: what the environment says. Loads nothing of OpenTelemetry.

Source: spec workbench.md 8; OpenTelemetry's specification of environment variables.
"""

from __future__ import annotations

from collections.abc import Mapping

from Middleware.api.traces.conventions import CAPTURE

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"


def traces_wanted(environ: Mapping[str, str]) -> bool:
    """A collector is named, and OpenTelemetry is not disabled."""
    if _is_true(environ.get("OTEL_SDK_DISABLED")) or _exporters(environ) == ["none"]:
        return False
    return any(environ.get(name, "").strip() for name in _ENDPOINTS)


def why_no_traces(environ: Mapping[str, str]) -> str | None:
    """What is asked for and cannot be had, as a sentence without its subject; None: nothing."""
    for name in _PROTOCOLS:
        asked = environ.get(name, "").strip()
        if asked:
            return None if asked == _PROTOCOL else f"{name} is {asked!r}, and only {_PROTOCOL!r} is supported"
    if "otlp" not in (exporters := _exporters(environ)):
        return f"OTEL_TRACES_EXPORTER is {','.join(exporters)!r}, and only 'otlp' is supported"
    return None


def captures_texts(environ: Mapping[str, str]) -> bool:
    """Whether prompts and answers are sent, too."""
    return _is_true(environ.get(CAPTURE))


def _exporters(environ: Mapping[str, str]) -> list[str]:
    return [name.strip() for name in (environ.get("OTEL_TRACES_EXPORTER") or "otlp").split(",")]


def _is_true(value: str | None) -> bool:
    return (value or "").strip().lower() == "true"
