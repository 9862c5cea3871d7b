"""The loaded model of one node: its service and how its prompts are formed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from Middleware.llmapis.llm_api import LlmApiService


@dataclass(frozen=True, slots=True)
class LlmHandler:
    """A value. `prompt_template`: the template's object, empty for a backend that takes messages. `llm_type`:
    the API type's `type`. `takes_message_collection`: messages, not one flat prompt."""

    llm: LlmApiService
    prompt_template: Mapping[str, str]
    add_generation_prompt: bool
    llm_type: str
    takes_message_collection: bool
