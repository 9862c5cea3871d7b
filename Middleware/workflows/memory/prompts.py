"""The prompts that are used when the settings give none, and the texts around memories. Pure.

Source: spec memory.md 9.2, 18.3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

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
