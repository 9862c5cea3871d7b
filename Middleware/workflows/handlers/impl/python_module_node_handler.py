"""PythonModule: the result of a user's script. Source: spec nodes.md 3.14, tools.md 8 and 11.7."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from Middleware.common.request_context import enter_request
from Middleware.common.secrets import secrets_of_words
from Middleware.common.types import NodeConfig
from Middleware.config.keys import NOTHING
from Middleware.services.run_trace import json_text, outside_call
from Middleware.utilities.file_utils import confined_path
from Middleware.workflows.handlers.base.base_workflow_node_handler import MACHINE, WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.execution_context import ExecutionContext, NodeValue
from Middleware.workflows.models.node_keys import ANY, NEEDED_TEXT, Keys, one_of, read_filled
from Middleware.workflows.tools.dynamic_module_loader import (
    call_script,
    ensure_in_roots,
    from_root,
    locate,
    script_place_faults,
)


@NODES.register("PythonModule")
class PythonModuleNode(WorkflowNodeHandler):
    """Calls `Invoke(*args, **kwargs)` of the script `module_path`, and outputs what it returns."""

    PALETTE = "tools"

    POWERS = frozenset([MACHINE])

    KEYS: ClassVar[Keys] = {
        "module_path": NEEDED_TEXT(
            "The script, absolute or relative to the working directory or the Public folder. Takes variables."
        ),
        "args": ANY(
            "The arguments of its `Invoke`. Takes variables.",
            must={"type": "array"},
            empty=(),
            read=read_filled,
        ),
        "kwargs": ANY(
            "The named arguments. Takes variables.", must={"type": "object"}, empty=NOTHING, read=read_filled
        ),
        "argTypes": one_of("text", "native")(
            "With `native`, the script gets JSON values as they are. Default: {default}.", default="text"
        ),
        "timeoutSeconds": ANY(
            "How many seconds to wait before giving up.",
            must={"type": "number", "exclusiveMinimum": 0, "maximum": 2_000_000},
        ),
    }

    def handle(self, context: ExecutionContext) -> NodeValue:
        path = _script(context)
        as_argument = _native if context.value("argTypes") == "native" else _as_text
        args = [as_argument(value, context.fill) for value in context.value("args")]
        kwargs = {n: as_argument(value, context.fill) for n, value in context.value("kwargs").items()}
        name, body = context.value("module_path"), _traced_arguments(context, args, kwargs)
        hidden = secrets_of_words([arg if isinstance(arg, str) else "" for arg in args])
        with (
            outside_call(context.trace, "script", name, place=str(path), body=body, secrets=hidden) as call,
            _as_caller(context),
        ):
            given: NodeValue = call_script(  # or any other value of Python, which is shown as its text
                path,
                args,
                kwargs,
                timeout_s=context.value("timeoutSeconds"),
                caller=context.snapshot.where(
                    context.workflow_file.file, f"/nodes/{context.node_number - 1}"
                ),
            )
            call.note_answer(given)
        return given

    def outside_faults(
        self, config: NodeConfig, known: Callable[[object], str | None]
    ) -> list[tuple[str, str, str]]:
        """Of the script, unless only a run knows its name: it is not there, or it cannot work."""
        name = known(config.get("module_path"))
        if name is None:
            return []
        return [("module_path", level, why) for level, why in script_place_faults(name)]

    def writes(self, config: NodeConfig) -> str:
        return "runs a Python script"

    def dry_notes(self, context: ExecutionContext) -> list[str]:
        return [f"would run {_script(context)}"]


def _traced_arguments(context: ExecutionContext, args: list[Any], kwargs: dict[str, Any]) -> bytes:
    """The arguments, for those who observe the run and keep texts."""
    if context.trace is None or not context.trace.run.keeps_text:
        return b""
    return json_text({"args": args, "kwargs": kwargs}).encode("utf-8", "replace")


def _as_caller(context: ExecutionContext) -> AbstractContextManager[object]:
    """Inside the block calls to models that the script makes belong to its node."""
    if context.trace is None:
        return nullcontext()
    return enter_request(replace(context.request, node=context.trace))


def _script(context: ExecutionContext) -> Path:
    """The script's real place, checked. Raises ConfigError, FileNotFoundError, PathRefused."""
    text, base = context.fill_parts(context.value("module_path"))
    path, root = locate(text)
    if base is not None:
        context.warn("'module_path' is built from a run-time value")
        base = str(from_root(root, Path(base).expanduser()))
    path = confined_path(str(path), base)
    ensure_in_roots(path, context.user.python_module_roots)
    return path


def _as_text(value: Any, fill: Callable[[str], str]) -> str:
    return fill(str(value))


def _native(value: Any, fill: Callable[[str], str]) -> Any:
    """The JSON value as it is, texts in it filled; a copy, so that a script can change it."""
    if isinstance(value, str):
        return fill(value)
    if isinstance(value, Mapping):
        return {name: _native(item, fill) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_native(item, fill) for item in value]
    return value
