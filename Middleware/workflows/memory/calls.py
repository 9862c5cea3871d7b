"""What writers of memories ask of a model: one direct call, or the value of a tool workflow; always clean
text.

Source: spec memory.md 7.4, 18.2 (6, 7).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from Middleware.common.errors import ConfigError
from Middleware.common.types import NodeConfig
from Middleware.utilities.streaming_utils import post_process_llm_output
from Middleware.workflows.memory.prompts import insert_values
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.node_result import result_text

_NAMES = "think|thinking|thought|reasoning|reflection"
_THOUGHT = re.compile(rf"\s*<\s*({_NAMES})\s*>", re.I)
_END_OF_THOUGHT = re.compile(rf"<\s*/\s*({_NAMES})\s*>", re.I)


@dataclass(frozen=True, slots=True)
class Templates:
    """Two authored texts. Variables are filled first, then what stands in brackets is put in, as mere
    text.
    """

    system: str
    prompt: str


def ask(
    context: ExecutionContext,
    config: NodeConfig,
    templates: Templates,
    values: Mapping[str, str],
    *,
    variables: bool = True,
) -> str:
    """The cleaned reply to one call of the endpoint that `config` names; no template goes around the texts.

    `values`: `{"[TextChunk]": ...}`. Raises ConfigError without an endpoint, BackendError, RequestCancelled.
    """
    if not config.get("endpointName"):
        raise ConfigError('an "endpointName" is needed for this call', file=str(config.get("title") or ""))
    node = context.with_node(config)

    def ready(template: str) -> str:
        return insert_values(node.fill(template, drop_system=True) if variables else template, values)

    reply = node.dispatch(
        system_prompt=ready(templates.system), prompt=ready(templates.prompt), stream=False, bare=True
    )
    return clean_reply(node, result_text(reply))


def clean_reply(node: ExecutionContext, reply: str) -> str:
    """A reply as the user would see it: what is stored must not hold thoughts or prefixes.

    A thought that begins and never ends is no text here, whatever `whenEndThinkTagMissing` says.
    """
    if node.llm_handler is None:
        return without_thoughts(reply)
    text = post_process_llm_output(
        reply,
        _without_endless_thoughts(node.llm_handler.llm.endpoint.raw),
        {**node.config, "reasoningOutput": "drop"},
        user_config=node.user.raw,
    )
    return without_thoughts(text)


def _without_endless_thoughts(endpoint: Mapping[str, Any]) -> Mapping[str, Any]:
    """Where answers begin inside a thought, one without its end may be no thought: there the file decides."""
    if endpoint.get("expectOnlyClosingThinkTag") and not endpoint.get("thinkTagNames"):
        return endpoint
    return {**endpoint, "whenEndThinkTagMissing": "discard"}


def without_thoughts(text: str) -> str:
    """The text without the think blocks (of the usual names) at its start; an endless one is all of it."""
    while opening := _THOUGHT.match(text):
        closing = _END_OF_THOUGHT.search(text, opening.end())
        text = text[closing.end() :].lstrip() if closing else ""
    return text


def run_tool(context: ExecutionContext, workflow: str, inputs: Iterable[str] = ()) -> str:
    """The value of a workflow that never answers the user, as text (its own endpoints clean it; they may
    keep a thought that never ends, what is stored does not).
    """
    return without_thoughts(result_text(context.run_workflow(workflow, inputs=inputs, internal=True)))
