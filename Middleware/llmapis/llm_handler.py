"""The loaded model of one node: its service and how its prompts are formed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from Middleware.config.named_files import load_prompt_template
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

    @classmethod
    def of(cls, llm: LlmApiService, *, bare: bool = False) -> LlmHandler:
        """The service with the prompt template of its endpoint, else the user's, else none; `bare`: none.

        Raises ConfigMissing for an unknown name."""
        endpoint = llm.endpoint
        template: Mapping[str, str] = {}
        if not (bare or llm.takes_messages):
            name = endpoint.prompt_template or llm.user.chat_prompt_template_name
            template = load_prompt_template(llm.snapshot, name)
        return cls(llm, template, endpoint.add_generation_prompt, endpoint.type, llm.takes_messages)
