"""Trees that ask for no steady window and no late prompt send what they sent before, byte for byte.

Source: spec prompt-reuse.md 1, 10 (3).
"""

from __future__ import annotations

import json
from typing import Any

from Middleware.workflows.dispatch.prompt_assembly import Parts
from tests.workflows.dispatch.models import assembled, chat_model, flat_model
from tests.workflows.prompts_before import GOLDEN, digests_of_random_chats, digests_of_trees

TEMPLATE = {"promptTemplateUserPrefix": "<u>", "promptTemplateAssistantPrefix": "<a>"}


def test_of_trees_that_other_systems_made():
    """Every workflow of the fixture, by every user of it, in a short chat, a long one, and with a tool."""
    assert digests_of_trees() == json.loads(GOLDEN.read_text("utf-8"))["trees"]


def test_of_random_conversations():
    """Windows, ceilings, the clamp, merging, pictures, for both kinds of backends."""

    def sent(node: dict[str, Any], endpoint: dict[str, Any], chat: list[dict[str, Any]], messages: bool):
        model = chat_model(**endpoint) if messages else flat_model(TEMPLATE, **endpoint)
        call = assembled(Parts(node, "{system}", None, chat, takes_images=True, max_images=2), model)
        return [call.conversation, call.system_prompt, call.prompt]

    assert digests_of_random_chats(sent) == json.loads(GOLDEN.read_text("utf-8"))["chats"]
