"""The tools that are offered, over all users, and a call of one: its arguments checked and made a question.

Source: spec more-fronts.md 6.3 and 6.4.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from Middleware.api.requests.model_names import is_multi_user, single_user
from Middleware.common.errors import ConfigError
from Middleware.common.instance_global_variables import launch_facts
from Middleware.common.request_context import ClientQuestion
from Middleware.common.types import JsonObject
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.users import load_user
from Middleware.config.workflows import ToolOffer, WorkflowTool, tool_offer
from Middleware.services.answers import compact_json
from Middleware.utilities.text_utils import sentence_of

logger = logging.getLogger(__name__)

_OTHER = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """`name`: as clients know it; `user`: whose workflow runs."""

    name: str
    user: str
    tool: WorkflowTool


def offered_tools(snapshot: ConfigSnapshot, *, tell: bool = False) -> dict[str, OfferedTool]:
    """Name -> tool, in order: users as configured, folders sorted. `tell`: what is left out is logged."""
    offered: dict[str, OfferedTool] = {}
    for user in launch_facts().users or (single_user(snapshot),):
        try:
            offer = tool_offer(snapshot, load_user(snapshot, user))
        except ConfigError as error:
            if tell:
                logger.warning("the tools of user %s cannot be listed: %s", user, error)
            continue
        if tell:
            _tell(offer)
        for tool in offer.tools:
            name = f"{_OTHER.sub('_', user)}.{tool.name}" if is_multi_user() else tool.name
            if name not in offered:
                offered[name] = OfferedTool(name, user, tool)
            elif tell:
                logger.warning("a second tool named %s, of user %s, is left out", name, user)
    return offered


def _tell(offer: ToolOffer) -> None:
    for fault in (*offer.faulty, *offer.unfit):
        logger.warning("%s", fault)


def describe_tool(offered: OfferedTool) -> JsonObject:
    """Its entry in the list of tools."""
    tool = offered.tool
    return {
        "name": offered.name,
        **({"title": tool.title} if tool.title else {}),
        "description": tool.description,
        "inputSchema": {
            "type": "object",
            "properties": {one.name: dict(one.schema) for one in tool.inputs},
            "required": [one.name for one in tool.inputs if one.required],
            "additionalProperties": False,
        },
    }


def arguments_fault(tool: WorkflowTool, arguments: Any) -> str | None:
    """What is wrong with the arguments of a call, for the model that made it; None: nothing."""
    if not isinstance(arguments, Mapping):
        return "'arguments' must be an object"
    known = [one.name for one in tool.inputs]
    for name in arguments:
        if name not in known:
            return f"the tool has no input {sentence_of(repr(name))}; it has: {', '.join(known) or 'none'}"
    for one in tool.inputs:
        if one.name not in arguments:
            if one.required:
                return f"{one.name!r} is missing"
        elif why := one.fault(arguments[one.name]):
            return why
    return None


def question_of(tool: WorkflowTool, arguments: Mapping[str, Any]) -> ClientQuestion:
    """Good arguments -> one user message, and the inputs of the workflow by place."""
    texts = {one.name: _text(arguments.get(one.name, one.schema.get("default", ""))) for one in tool.inputs}
    message = tool.message
    if texts:
        places = "|".join(re.escape(name) for name in texts)
        message = re.sub(rf"\{{({places})\}}", lambda place: texts[place[1]], message)
    return ClientQuestion([{"role": "user", "content": message}], inputs=tuple(texts.values()))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else compact_json(value)
