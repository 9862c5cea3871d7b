"""The table of front ends: name -> handler class. Filled by the modules of `handlers/impl`, at import."""

from __future__ import annotations

from typing import Protocol, cast

from Middleware.api.handlers.base.base_api_handler import BaseApiHandler, GenerationView
from Middleware.api.wsgi.doors import Doors
from Middleware.common.registry import Registry

FRONT_ENDS: Registry[type[BaseApiHandler]] = Registry("front end", BaseApiHandler)


NEVER_REPEATED = ("/console/api/ask", "/console/api/again")
"""One call is asked again where it was made; a run that repeats another is told with that one's path."""


class _ReadsBodies(Protocol):
    """A view whose requests can be asked once more."""

    def reader_of(self, data: bytes) -> GenerationView:
        """What reads this body. Raises ClientRequestError."""


def view_that_reads(path: str) -> _ReadsBodies | None:
    """The view that answers a POST to this path of a front end, where it can read a body again; None: there
    is none.
    """
    for _, handler in FRONT_ENDS.items():
        for route in handler.routes:
            if route.path == path and hasattr(route.view, "reader_of") and route.path not in NEVER_REPEATED:
                return cast(_ReadsBodies, route.view)
    return None


def all_doors() -> Doors:
    """What the front ends that are registered by now say of their routes."""
    return Doors((handler.protocol, handler.routes) for _, handler in FRONT_ENDS.items())
