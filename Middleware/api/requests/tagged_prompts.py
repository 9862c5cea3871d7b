"""Prompts of the two text routes -> internal messages, by their `[Beg_<word>]` tags. Pure.

Source: spec frontend-api.md 8.2, 8.4 and 8.6.
"""

from __future__ import annotations

import re
from typing import Any

from Middleware.api.requests.chat_messages import text_of
from Middleware.common.errors import ClientRequestError
from Middleware.common.types import Messages

_TAG = re.compile(r"\[Beg_(\w+)\]")
_TAG_ROLES = {"Sys": "system", "SysMes": "systemMes", "User": "user", "Assistant": "assistant"}


def has_tags(prompt: str) -> bool:
    return _TAG.search(prompt) is not None


def tagged_messages(prompt: str) -> Messages:
    """One message a tag, contents stripped. Text before the first tag and tags of other words are dropped."""
    messages: Messages = []
    tags = list(_TAG.finditer(prompt))
    system_seen = False
    for tag, following in zip(tags, [*tags[1:], None], strict=True):
        role = _TAG_ROLES.get(tag[1])
        if role is None:
            continue
        if role == "system":
            role = "systemMes" if system_seen else "system"
            system_seen = True
        content = prompt[tag.end() : following.start() if following else len(prompt)].strip()
        messages.append({"role": role, "content": content})
    return messages


def completion_messages(prompt: Any) -> Messages:
    """`prompt` of `/v1/completions`: a text, or a list of one text. Without tags it is one user message."""
    if isinstance(prompt, list):
        if len(prompt) != 1 or not isinstance(prompt[0], str):
            raise ClientRequestError(
                "'prompt' must be one text; several prompts and token ids are not supported", param="prompt"
            )
        prompt = prompt[0]
    text = text_of(prompt)
    return tagged_messages(text) if has_tags(text) else [{"role": "user", "content": text}]


def generate_messages(system: str, prompt: str, images: list[str]) -> Messages:
    """`system`, `prompt` and `images` of `/api/generate`. The images go to the last user message."""
    whole = system + prompt
    if has_tags(whole):
        messages = tagged_messages(whole)
        if system.strip() and not has_tags(system):
            messages.insert(0, {"role": "system", "content": system.strip()})
    else:
        messages = [{"role": "user", "content": whole}] if whole else []
    if images:
        last = next((m for m in reversed(messages) if m["role"] == "user"), None)
        if last is None:
            last = {"role": "user", "content": ""}
            messages.append(last)
        last["images"] = images
    return messages
