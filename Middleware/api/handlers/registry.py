"""The table of front ends: name -> handler class. Filled by the modules of `handlers/impl`, at import."""

from __future__ import annotations

from Middleware.api.handlers.base.base_api_handler import BaseApiHandler
from Middleware.common.registry import Registry

FRONT_ENDS: Registry[type[BaseApiHandler]] = Registry("front end", BaseApiHandler)
