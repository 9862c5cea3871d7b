"""A front end is one file that registers itself."""

from __future__ import annotations

import pytest

import Middleware.api.handlers.impl  # noqa: F401
from Middleware.api.handlers.base.base_api_handler import BaseApiHandler
from Middleware.api.handlers.impl.ollama_api_handler import OllamaApiHandler
from Middleware.api.handlers.impl.openai_api_handler import OpenAIApiHandler
from Middleware.api.handlers.registry import FRONT_ENDS


def test_the_two_front_ends():
    """In order of their modules' names."""
    assert FRONT_ENDS.items() == [("ollama", OllamaApiHandler), ("openai", OpenAIApiHandler)]


def test_only_handlers_can_register():
    """Checked at import, not at the first request."""
    with pytest.raises(TypeError, match="BaseApiHandler"):
        FRONT_ENDS.register("x")(int)


def test_a_handler_must_register_routes():
    """The contract is abstract."""
    with pytest.raises(TypeError):
        BaseApiHandler()
