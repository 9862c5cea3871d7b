"""The actions of `--memory` that look something up in a discussion's memory, correct it, or undo that.

The work is `workflows/memory/corrections.py`; here is what is printed. Source: spec operate.md 6.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import datetime

from Middleware.api.commands.memory_desk import Action, Desk
from Middleware.utilities.text_utils import count_of
from Middleware.workflows.memory.copying import copy_memories
from Middleware.workflows.memory.corrections import Corrections, Remembered, is_memory
from Middleware.workflows.memory.upkeep import embedder

_FROM_STDIN = "-"
_ANY_NUMBER = 2**31


def print_remembered(each: Remembered) -> None:
    """Print one memory, the summary or the state document under its number."""
    print(f"\n{_title(each)}:\n{each.text}")


def _title(each: Remembered) -> str:
    kind, number = each.number[0], each.number[1:]
    if not is_memory(each.number):
        return each.number if each.number == "summary" else f"{each.number}, state document"
    title = f"{each.number}, memory {number}" if kind == "f" else f"{each.number}, vector memory"
    pinned = ", pinned" if each.is_pinned else ""
    return f"{title}{f' of {each.date[:10]}' if each.date else ''}{pinned}"


def _corrections(desk: Desk, discussion_id: str) -> Corrections:
    return Corrections(desk.folders_of(discussion_id).existing(discussion_id))


def _search(desk: Desk, discussion_id: str, text: str) -> int:
    found = _corrections(desk, discussion_id).search(text)
    for each in found:
        print_remembered(each)
    names = ", ".join(each.number for each in found)
    print(f"\n{count_of(len(found), 'place')} found: {names}" if found else f"nothing contains {text!r}")
    return 0


def _edit(desk: Desk, discussion_id: str, number: str, text: str) -> int:
    new = sys.stdin.read() if text == _FROM_STDIN else text
    store = desk.folders_of(discussion_id).existing(discussion_id)
    embed = embedder(desk.user, desk.request)
    edited = Corrections(store, embed).edit(number, new, preview=desk.preview)
    print(f"{_title(edited.old)} {'would change' if desk.preview else 'changed'}. Before:\n{edited.old.text}")
    print(f"\nAfter:\n{edited.text}")
    if edited.no_vector:
        print(f"\nIt has no vector for now ({edited.no_vector}); --memory backfill makes it")
    _print_elsewhere(edited.elsewhere, "the old text")
    return 0


def _forget(desk: Desk, discussion_id: str, *numbers: str) -> int:
    done = _corrections(desk, discussion_id).forget(
        numbers, matching=desk.wishes.matching, for_good=desk.wishes.for_good, preview=desk.preview
    )
    for each in done.gone:
        print(f"{_title(each)}: {'would be forgotten' if desk.preview else 'forgotten'}:\n{each.text}\n")
    for number in done.already:
        print(f"{number}: was forgotten before")
    for number in done.unsure:
        print(f"{number}: it isn't known which messages it was made from, so a rebuild may bring it back")
    _print_elsewhere(done.elsewhere, "the text")
    if desk.wishes.for_good:
        verb = "would be" if desk.preview else "were"
        print(f"{discussion_id}: backups and earlier states {verb} deleted, so this can't be undone")
    for path in done.damaged:
        print(f"{path}: this damaged file may still contain the text; delete it if you don't need it")
    return 0


def _print_elsewhere(found: Iterable[Remembered], what: str) -> None:
    """Where a text still is."""
    for each in found:
        print(f"{_title(each)}: still contains {what}; change it with --memory edit")


def _pin(desk: Desk, discussion_id: str, number: str) -> int:
    return _set_pin(desk, discussion_id, number, pinned=True)


def _unpin(desk: Desk, discussion_id: str, number: str) -> int:
    return _set_pin(desk, discussion_id, number, pinned=False)


def _set_pin(desk: Desk, discussion_id: str, number: str, *, pinned: bool) -> int:
    old = _corrections(desk, discussion_id).pin(number, pinned=pinned, preview=desk.preview)
    if not pinned and not old.is_pinned:
        print(f"{number}: isn't pinned")
    else:
        done = "pinned" if pinned else "no longer pinned"
        print(f"{number}: {'would be ' if desk.preview else ''}{done}:\n{old.text}")
    return 0


def _copy(desk: Desk, old: str, new: str) -> int:
    source = desk.folders_of(old).existing(old)
    copied = copy_memories(source, desk.folders_of(new).store(new), preview=desk.preview)
    parts = [
        *([count_of(copied.files, "memory", "memories")] if copied.files else []),
        *([count_of(copied.facts, "vector memory", "vector memories")] if copied.facts else []),
        *(["the summary"] if copied.summary else []),
        *(["the state document"] if copied.state else []),
    ]
    if not parts:
        print(f"{new}: nothing to copy; it has everything of {old} already")
        return 0
    verb = "would be copied" if desk.preview else "copied"
    print(f"{new}: {verb} from {old}: {', '.join(parts)}")
    return 0


def _undo(desk: Desk, discussion_id: str) -> int:
    undone = _corrections(desk, discussion_id).undo(preview=desk.preview)
    moment = datetime.strptime(undone.state, "%Y%m%dT%H%M%S.%fZ")
    verb = "would be" if desk.preview else "is"
    print(f"{discussion_id}: {verb} as before the last correction, at {moment:%Y-%m-%d %H:%M:%S} UTC")
    if not desk.preview and undone.new != undone.old:
        print(f"{discussion_id}: memories {undone.new}, before {undone.old}")
    return 0


CORRECTIONS = {
    "search": Action(_search, "an ID and a TEXT", 2, 2),
    "edit": Action(_edit, "an ID, the number of a memory (or summary, state) and a TEXT (- is stdin)", 3, 3),
    "forget": Action(
        _forget,
        "an ID and the numbers of memories, or --matching TEXT",
        2,
        _ANY_NUMBER,
        ("--matching", "--for-good"),
    ),
    "pin": Action(_pin, "an ID and the number of a memory", 2, 2),
    "unpin": Action(_unpin, "an ID and the number of a memory", 2, 2),
    "copy": Action(_copy, "the IDs of an OLD and a NEW discussion", 2, 2),
    "undo": Action(_undo, "an ID", 1, 1),
}
