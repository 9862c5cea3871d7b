"""What backends share that are sent one flat prompt. Source: spec backends.md 8.3, 14.

The prompt comes formatted by its template. With the endpoint's `strictPromptTemplate` its system and prompt
texts have been put inside the turns by whoever formatted them; here only the completion text is added.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import ClassVar

from Middleware.common.types import Messages
from Middleware.config.endpoints import EndpointConfig
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.dialects.image_injection import bare_images, image_sources
from Middleware.llmapis.handlers.base.base_llm_api_handler import LlmApiHandler

logger = logging.getLogger(__name__)

BEGIN_TOKENS = ("<s>", "<bos>", "<BOS_TOKEN>", "<|begin_of_text|>", "<｜begin▁of▁sentence｜>")


def flat_prompt(
    system_prompt: str | None, prompt: str | None, endpoint: EndpointConfig, *, is_agent: bool = False
) -> str:
    """System and prompt as one text, with the texts of the endpoint; each is in it once. `is_agent`: the text
    for the completion is left out (agents.md 3.1)."""
    texts = endpoint.injected_texts
    if is_agent:
        texts = replace(texts, completion="")
    system_prompt, prompt = system_prompt or "", prompt or ""
    if endpoint.strict_prompt_template:
        return f"{system_prompt}{prompt}{texts.completion}"
    return f"{texts.system}{system_prompt}{texts.prompt}{prompt}".strip() + texts.completion


def without_begin_token(prompt: str) -> str:
    """`prompt` without a leading begin-of-text token."""
    for token in BEGIN_TOKENS:
        if prompt.startswith(token):
            return prompt[len(token) :]
    return prompt


def flat_images(conversation: Messages | None) -> list[str]:
    """All images of the user messages, oldest first, as base64 texts."""
    return [
        image
        for message in conversation or ()
        if message.get("role") == "user" and isinstance(message.get("images"), list)
        for image in bare_images(image_sources(message))
    ]


class BaseCompletionsHandler(LlmApiHandler):
    """One prompt text; no tools, no schema."""

    takes_messages: ClassVar[bool] = False

    def _flat_prompt(self, call: CallArguments) -> str:
        endpoint, is_agent = self.settings.endpoint, call.turns is not None
        return flat_prompt(call.system_prompt, call.prompt, endpoint, is_agent=is_agent)
