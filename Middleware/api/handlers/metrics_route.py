"""GET `/metrics`. No protocol of a client: it stands beside the front ends, never gated, behind the same
doors.
"""

from __future__ import annotations

from flask import Response, current_app, request
from flask.views import MethodView

from Middleware.api.handlers.base.base_api_handler import BaseApiHandler
from Middleware.api.serving.doors import routes_to
from Middleware.api.serving.metrics import Metrics
from Middleware.protocols.base import PLAIN

METRICS = "headrace.metrics"
"""Key of the application's extensions under which its `Metrics` stands."""


class MetricsAPI(MethodView):
    """The numbers of the application that is asked."""

    def get(self) -> Response:
        metrics: Metrics = current_app.extensions[METRICS]
        content_type, body = metrics.exposition(request.headers.get("Accept", ""))
        return Response(body, content_type=content_type)


class MetricsRoute(BaseApiHandler):
    protocol = PLAIN
    routes = routes_to(MetricsAPI, "/metrics")
