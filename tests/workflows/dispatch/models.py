"""Models as a prompt is assembled for them: an endpoint, a template, whether it takes messages."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from Middleware.config.endpoints import EndpointConfig
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.llm_handler import LlmHandler
from Middleware.workflows.dispatch.prompt_assembly import Clamp, Parts, assemble


def endpoint_of(**raw: Any) -> EndpointConfig:
    """An endpoint whose file holds these keys."""
    return EndpointConfig("E", raw, "t", {})


def chat_model(*, lifts_system: bool = False, **endpoint: Any) -> LlmHandler:
    """One that takes messages."""
    return _model(endpoint_of(**endpoint), {}, takes_messages=True, lifts_system=lifts_system)


def flat_model(template: Mapping[str, str], **endpoint: Any) -> LlmHandler:
    """One that takes a prompt."""
    return _model(endpoint_of(**endpoint), template, takes_messages=False)


def _model(
    endpoint: EndpointConfig,
    template: Mapping[str, str],
    *,
    takes_messages: bool,
    lifts_system: bool = False,
) -> LlmHandler:
    llm: Any = SimpleNamespace(endpoint=endpoint, lifts_system_messages=lifts_system)
    return LlmHandler(llm, template, endpoint.add_generation_prompt, endpoint.type, takes_messages)


def assemble_cut(parts: Parts, model: LlmHandler) -> tuple[CallArguments, Clamp]:
    """A call that asks nothing else, and what it was cut to."""
    return assemble(parts, model, CallArguments)


def assembled(parts: Parts, model: LlmHandler) -> CallArguments:
    """The call alone."""
    return assemble_cut(parts, model)[0]
