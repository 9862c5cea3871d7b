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
from Middleware.workflows.models.execution_context import (
    ChildCall,
    ExecutionContext,
    LlmCall,
    result_text,
)

# --------------------------------------------------------------------------
# The prompts that are used when the settings give none, and the texts around memories. Pure.


NO_EARLIER_MEMORIES = "No preceding memories to show"
MEMORY_SEPARATOR = "\n--------------\n"
SUMMARY_SEPARATOR = "\n------------\n"
NO_SUMMARY = "There is not yet a summary file"

MEMORY_SYSTEM = (
    "You keep the memory of a long conversation. From an excerpt you write one short note in the "
    "third person "
    "that will still be understood when the excerpt is gone: who did, said, decided or learned what, "
    "where and "
    "when. Keep names, numbers, promises and open questions. Add nothing that the excerpt does not "
    "say. Answer "
    "with the note alone."
)
MEMORY_PROMPT = (
    "Summary so far:\n<summary>\n[Chat_Summary]\n</summary>\n\n"
    "The newest notes, for context only:\n<notes>\n[Memory_file]\n</notes>\n\n"
    "Excerpt:\n<excerpt>\n[TextChunk]\n</excerpt>\n\nWrite the note for this excerpt."
)

FACTS_SYSTEM = (
    "You take facts out of a piece of a conversation so that they can be searched later. "
    "Answer with a JSON array and nothing else. Each element is an object about one fact that can be "
    "understood on its own, with these keys: "
    '"title" (a few words), "summary" (one or two full sentences that name everybody and everything '
    'instead of using pronouns), "entities" (array of the names of persons, places and things), '
    '"key_phrases" (array of short phrases that somebody might search for), '
    '"topics" (array of one to three general subjects). '
    "Small talk is no fact. If nothing is worth keeping, answer []."
)
FACTS_PROMPT = (
    "Piece of the conversation:\n<piece>\n[TextChunk]\n</piece>\n\nGive the JSON array of its facts."
)

CONDENSE_SYSTEM = "You join several notes about one conversation into a single coherent summary."
CONDENSE_PROMPT = (
    "What came before, for context only:\n<earlier>\n[Memories_Before_Memories_to_Condense]\n</earlier>\n\n"
    "Notes to join:\n<notes>\n[MemoriesToCondense]\n</notes>\n\n"
    "Continue the story in plain text: one summary of the notes to join, shorter than they are, that "
    "keeps every "
    "name and fact and repeats nothing of what came before."
)

OLD_SYSTEM = (
    "You summarise the older part of a conversation so that the talk can go on without it. What "
    "matters for the "
    "newest messages comes first; names, facts and decisions stay."
)
NEUTRAL_SYSTEM = (
    "You summarise messages of a conversation in plain, neutral text that keeps names, facts and decisions."
)
OLDEST_SYSTEM = (
    "You keep one running summary of the oldest part of a conversation: you work the new content "
    "into the existing "
    "summary and answer with the whole new summary."
)
OLD_PROMPT = "[MESSAGES_TO_SUMMARIZE]"
NEUTRAL_PROMPT = "[MESSAGES_TO_SUMMARIZE]"
OLDEST_PROMPT = "[EXISTING_SUMMARY]\n\n[NEW_CONTENT]"


def insert_values(template: str, values: Mapping[str, str]) -> str:
    """`template` with each `[Name]` replaced; what was inserted is never looked at again."""
    names = "|".join(re.escape(name) for name in values)
    return re.sub(names, lambda match: values[match[0]], template) if names else template


# --------------------------------------------------------------------------

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
        raise ConfigError('this call needs an "endpointName"', file=str(config.get("title") or ""))
    node = context.with_node(config)

    def ready(template: str) -> str:
        return insert_values(node.fill(template, drop_system=True) if variables else template, values)

    call = LlmCall(
        system_prompt=ready(templates.system), prompt=ready(templates.prompt), stream=False, bare=True
    )
    reply = node.dispatch(call)
    return clean_reply(node, result_text(reply))


def clean_reply(node: ExecutionContext, reply: str) -> str:
    """A reply as the user would see it: what is stored must not hold thoughts or prefixes.

    A thought that begins and never ends is no text here, whatever `whenEndThinkTagMissing` says.
    """
    if node.llm_handler is None:
        return without_thoughts(reply)
    text = post_process_llm_output(
        reply,
        _without_endless_thoughts(node.llm_handler.llm.answering.raw),
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
    call = ChildCall(workflow, inputs=tuple(inputs), internal=True)
    return without_thoughts(result_text(context.run_workflow(call)))
