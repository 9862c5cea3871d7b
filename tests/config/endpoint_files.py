"""The files of an endpoint, for tests that read them."""

from __future__ import annotations

from typing import Any


def endpoint(**more: Any) -> dict[str, Any]:
    return {"endpoint": "http://h:1//", "apiTypeConfigFileName": "Open-AI-API", **more}
