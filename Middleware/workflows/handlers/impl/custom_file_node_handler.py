"""GetCustomFile and SaveCustomFile: read and write the user's own text files. Call no model.

Trouble is a text result, never an exception; the texts are part of the interface. A path cannot be led out of
its base folder by a run-time value. Source: spec nodes.md 3.10, 3.11, 6.1, 6.2.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from Middleware.common.types import NodeConfig
from Middleware.config.keys import Shape
from Middleware.config.validation import WARNING, nearest_file
from Middleware.utilities.file_locks import hold_lock, lock_file_for
from Middleware.utilities.file_utils import (
    PathLeaves,
    atomic_write,
    confined_path,
    find_file,
    read_tail,
    read_text,
    refuse_special,
)
from Middleware.workflows.handlers.base.base_workflow_node_handler import MACHINE, WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.node_keys import ANY, TEXT, WANTED_TEXT, Keys, NodeKey, as_it_is, read_filled

NO_PATH = "No filepath specified"
NO_FILE = "Custom instruction file did not exist"
EMPTY_FILE = "No additional information added"

_COUNT = NodeKey(should={"type": "integer", "minimum": 1}, read=as_it_is)


def reason(error: Exception) -> str:
    """What went wrong with a file, for a text result."""
    if isinstance(error, UnicodeDecodeError):
        return "not a UTF-8 text file"
    return getattr(error, "strerror", None) or str(error)


@NODES.register("GetCustomFile")
class GetCustomFileNode(WorkflowNodeHandler):
    """Reads the file `filepath`, or its first or last pieces, and can replace one delimiter with another."""

    PALETTE = "files"

    POWERS = frozenset([MACHINE])

    KEYS: ClassVar[Keys] = {
        "filepath": WANTED_TEXT(
            "The path, absolute or relative to the working directory. `~` is your home "
            "folder. Takes variables."
        ),
        "headCount": _COUNT(
            "How many pieces to keep from the beginning. You can set this or `tailCount`, not both."
        ),
        "tailCount": _COUNT(
            "How many pieces to keep from the end. You can set this or `headCount`, not both."
        ),
        "chunkDelimiter": TEXT(
            "What separates these pieces. Default: a line break.", default="\n", read=read_filled
        ),
        "delimiter": TEXT("A text to replace wherever it appears.", empty=None),
        "customReturnDelimiter": TEXT("What it is replaced with.", empty=None),
    }
    RULES: ClassVar[Shape] = {
        "not": {"required": ["headCount", "tailCount"]},
    }
    RUNS_DRY = True

    def handle(self, context: ExecutionContext) -> str:
        authored = context.value("filepath")
        if not authored:
            return NO_PATH
        text, base = context.fill_parts(authored)
        if wrong := _count_fault(context):
            return wrong
        if not text.strip():
            return NO_FILE
        try:
            found = find_file(confined_path(text, base))
            if found is None:
                context.warn(f"filepath: no file '{authored}'; the output is '{NO_FILE}'")
                return NO_FILE
            content = _read_part(confined_path(str(found), base), context)
        except PathLeaves as error:
            return f"Error: {error}"
        except (OSError, ValueError) as error:
            return f"Error reading file: {reason(error)}"
        return EMPTY_FILE if content is None else _replace_delimiter(content, context)

    def outside_faults(
        self, config: NodeConfig, known: Callable[[object], str | None]
    ) -> list[tuple[str, str, str]]:
        """A file that is not there: a slip in its name, or a later run makes it."""
        name = known(config.get("filepath"))
        if name is None or not name.strip():
            return []
        try:
            path = confined_path(name, None)
            if find_file(path) is not None:
                return []
        except (OSError, ValueError) as error:
            return [("filepath", WARNING, f"'{name}' cannot be read: {reason(error)}")]
        near = nearest_file(path.name, _names_beside(path))
        hint = f" (did you mean '{near}'?)" if near else ""
        return [
            ("filepath", WARNING, f"no file '{name}'{hint}; the output is '{NO_FILE}' until there is one")
        ]


def _names_beside(path: Path) -> list[str]:
    try:
        return sorted(os.listdir(path.parent))[:1000]
    except OSError:
        return []


def _count_fault(context: ExecutionContext) -> str | None:
    counts = {name: context.value(name) for name in ("headCount", "tailCount")}
    given = {name: count for name, count in counts.items() if count is not None}
    if len(given) == 2:
        return "GetCustomFile: specify only one of 'headCount' or 'tailCount', not both"
    for name, count in given.items():
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            return f"GetCustomFile: '{name}' must be an integer >= 1"
    return None


def _read_part(path: Path, context: ExecutionContext) -> str | None:
    """The wanted part of the file; None when the file is empty."""
    refuse_special(path)
    if path.is_file() and path.stat().st_size == 0:
        return None
    delimiter, first, last = (context.value(name) for name in ("chunkDelimiter", "headCount", "tailCount"))
    if last is not None:
        return read_tail(path, delimiter, last)
    text = read_text(path)
    if first is not None:
        return str(delimiter).join(text.split(delimiter)[:first])
    return text


def _replace_delimiter(text: str, context: ExecutionContext) -> str:
    """Every `delimiter` becomes `customReturnDelimiter`; each defaults to the other, both to a line end."""
    old, new = context.value("delimiter"), context.value("customReturnDelimiter")
    if old is None:
        old = "\n" if new is None else new
    if new is None:
        new = old
    return text.replace(old, new) if old and new else text


@NODES.register("SaveCustomFile")
class SaveCustomFileNode(WorkflowNodeHandler):
    """Writes `content` to the file `filepath`, or changes the file. The output says what was done."""

    PALETTE = "files"

    POWERS = frozenset([MACHINE])

    KEYS: ClassVar[Keys] = {
        "filepath": WANTED_TEXT(
            "The path, absolute or relative to the working directory. Missing folders are "
            "created. Takes variables."
        ),
        "mode": ANY(
            "What to do with the file. Default: {default}.",
            should={"enum": ["overwrite", "append", "replace", "remove", "trim"]},
            default="overwrite",
        ),
        "content": TEXT("The text to write. It can be empty. Takes variables.", empty=None, form="text"),
        "find": WANTED_TEXT(
            "The text to look for, with `replace` and `remove`. Takes variables.", advised=False
        ),
    }
    RULES: ClassVar[Shape] = {
        "allOf": [
            {
                "if": {"properties": {"mode": {"enum": ["remove", "trim"]}}, "required": ["mode"]},
                "else": {"required": ["content"]},
            },
            {
                "if": {"properties": {"mode": {"enum": ["replace", "remove"]}}, "required": ["mode"]},
                "then": {"required": ["find"]},
            },
        ],
    }

    def handle(self, context: ExecutionContext) -> str:
        if wrong := _save_fault(context):
            return wrong
        text, base = context.fill_parts(context.value("filepath"))
        content, find = (context.fill(context.value(name) or "") for name in ("content", "find"))
        mode = context.value("mode")
        shown = os.path.expanduser(text)
        try:
            path = confined_path(text, base)
            refuse_special(path)
            if mode in _NEEDS_FIND and not find:
                raise ValueError("'find' resolved to an empty text")
            with hold_lock(lock_file_for(path)):
                if mode in ("overwrite", "append"):
                    _write(path, content, append=mode == "append")
                    return f"File successfully saved to {shown}"
                return _EDITS[mode](path, shown, find, content)
        except PathLeaves as error:
            return f"Error: {error}"
        except (OSError, ValueError) as error:
            return f"Error saving file: {reason(error)}"

    def files_written(self, config: NodeConfig) -> list[str]:
        name = config.get("filepath")
        return [name] if isinstance(name, str) else []

    def writes(self, config: NodeConfig) -> str:
        return f"writes the file {config.get('filepath')}"

    def dry_notes(self, context: ExecutionContext) -> list[str]:
        authored, mode = context.value("filepath"), context.value("mode")
        return [f"would write {context.fill_parts(authored)[0]} ({mode})"] if authored else []


def _save_fault(context: ExecutionContext) -> str | None:
    mode = context.value("mode")
    if not context.value("filepath"):
        return NO_PATH
    if mode not in ("overwrite", "append", *_EDITS):
        return (
            "SaveCustomFile: 'mode' must be one of 'overwrite', 'append', 'replace', 'remove', or 'trim', "
            f"got '{mode}'"
        )
    if mode not in ("remove", "trim") and context.value("content") is None:
        return "No content specified"
    if mode in _NEEDS_FIND and not context.value("find"):
        return f"SaveCustomFile: mode '{mode}' requires a 'find' value"
    return None


def _write(path: Path, content: str, *, append: bool) -> None:
    data = content.encode("utf-8")
    path.parent.mkdir(parents=True, exist_ok=True)
    if append and path.exists():
        data = path.read_bytes() + data
    atomic_write(path, data)


def _old_text(path: Path) -> str:
    """The text as it is, line ends untouched; nothing for a missing file."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ""


def _replace(path: Path, shown: str, find: str, content: str) -> str:
    text = _old_text(path)
    count = text.count(find)
    if not count:
        return f"File unchanged: no occurrence of the target text found in {shown}"
    atomic_write(path, text.replace(find, content).encode("utf-8"))
    return f"File successfully updated: replaced {count} occurrence(s) in {shown}"


def _remove(path: Path, shown: str, find: str, content: str) -> str:
    count = _drop_lines(path, lambda line: find in line)
    if not count:
        return f"File unchanged: no line matching the target text found in {shown}"
    return f"File successfully updated: removed {count} line(s) from {shown}"


def _trim(path: Path, shown: str, find: str, content: str) -> str:
    count = _drop_lines(path, lambda line: not line.strip())
    if not count:
        return f"File unchanged: no blank lines to remove in {shown}"
    return f"File successfully tidied: removed {count} blank line(s) from {shown}"


def _drop_lines(path: Path, unwanted: Callable[[str], bool]) -> int:
    """Delete the lines for which `unwanted` holds; how many they were."""
    head, *rest = _old_text(path).split("\n")
    lines = [head, *rest]
    ends = ["\n"] * len(rest) + [""]
    whole = [(line, end) for line, end in zip(lines, ends, strict=True) if line or end]
    kept = [line + end for line, end in whole if not unwanted(line)]
    if len(kept) < len(whole):
        atomic_write(path, "".join(kept).encode("utf-8"))
    return len(whole) - len(kept)


_NEEDS_FIND = ("replace", "remove")
_EDITS: dict[str, Callable[[Path, str, str, str], str]] = {
    "replace": _replace,
    "remove": _remove,
    "trim": _trim,
}
