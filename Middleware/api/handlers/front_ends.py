"""The table of front ends: name -> handler class. Filled by the modules of `handlers/impl`, at import."""

from __future__ import annotations

from Middleware.api.handlers.base.base_api_handler import BaseApiHandler
from Middleware.api.wsgi.doors import Doors
from Middleware.common.registry import Registry

FRONT_ENDS: Registry[type[BaseApiHandler]] = Registry("front end", BaseApiHandler)


def all_doors() -> Doors:
    """What the front ends that are registered by now say of their routes."""
    return Doors((handler.protocol, handler.routes) for _, handler in FRONT_ENDS.items())
