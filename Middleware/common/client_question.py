"""What a client asked, as one value: made at the edge and handed on as it is, down to the backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from Middleware.common.types import JsonObject, Messages

WISH_NAMES = (
    "max_tokens",
    "stop",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "logit_bias",
    "response_format",
    "parallel_tool_calls",
)
"""What a node can take of a client's own parameters (`clientParameters`). Source: more-fronts.md 13."""


@dataclass(frozen=True, slots=True, repr=False)
class Wish:
    """One parameter as the client sent it, not looked at yet. `field`: what the client calls it."""

    value: Any
    field: str

    def __repr__(self) -> str:
        return f"Wish({self.field})"  # the value may be text of the user


def _no_wishes() -> Mapping[str, Wish]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ClientQuestion:
    """One question. `messages`: oldest first, shared by all runs of the request, never changed in place.
    `has_conversation`: the client sent messages; blank ones are left out and may be all that it sent.
    `stream`: the client wants the answer piece by piece. `tools`, `tool_choice`: in OpenAI's form, None =
    not given. `discussion_id`: of the conversation; None = a tag in the messages may name it. `inputs`: item
    i is `agent<i>Input` of the workflow that answers. `wishes`: what the client asks of the model, by name;
    nodes say which they take.
    """

    messages: Messages = field(repr=False)
    stream: bool = False
    tools: list[JsonObject] | None = field(default=None, repr=False)
    tool_choice: Any = field(default=None, repr=False)
    discussion_id: str | None = None
    wishes: Mapping[str, Wish] = field(default_factory=_no_wishes, repr=False)
    inputs: tuple[str, ...] = field(default=(), repr=False)
    has_conversation: bool = field(default=False, repr=False)

    def without_tools(self) -> ClientQuestion:
        """The same for a run that may call none."""
        return replace(self, tools=None, tool_choice=None)
