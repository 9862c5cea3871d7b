"""The Flask object. Holds no routes: `ApiServer` registers those of the front ends."""

from __future__ import annotations

from flask import Flask
from flask.json.provider import DefaultJSONProvider


class _Json(DefaultJSONProvider):
    """UTF-8 as it is, keys in the order that they were given."""

    ensure_ascii = False
    sort_keys = False


class _App(Flask):
    json_provider_class = _Json


app = _App("Headrace", static_folder=None)
