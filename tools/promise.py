"""What Headrace promises not to change within a major version: writes it down, and finds what breaks it.

    .venv/bin/python tools/promise.py            compare the code with the newest file in docs/promise
    .venv/bin/python tools/promise.py --write    write docs/promise/<major>.<minor>.json of this version

The promise is read from the code itself: from the schemas that editors get (files, fields and their types,
node types), the table of variables, the routes, the command line, the metrics and the names that scripts may
import. More may come at any time; what was there stays, with the meaning it had: a field keeps its types and
its allowed values, an argument goes on taking a value or none, a name can be called as before.
Source: docs/promise.md and spec operate.md 1.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flask import Flask

HOUSE = Path(__file__).resolve().parents[1]
if str(HOUSE) not in sys.path:
    sys.path.insert(0, str(HOUSE))

from Middleware.api.api_server import ApiServer  # noqa: E402
from Middleware.api.launch_arguments import full_parser  # noqa: E402
from Middleware.api.wsgi.metrics import Metrics  # noqa: E402
from Middleware.common.constants import VERSION  # noqa: E402
from Middleware.workflows.checks.editor_schemas import editor_schemas  # noqa: E402
from Middleware.workflows.variables.providers import VARIABLES  # noqa: E402

FOLDER = HOUSE / "docs" / "promise"

Promise = dict[str, dict[str, Any]]
"""Kind -> name -> what is promised of it: a list of what it allows, or of what it takes."""

NAMES = {
    "Middleware.api.app": ("app",),
    "Middleware.api.api_server": ("ApiServer",),
    "Middleware.api.handlers.base.base_api_handler": ("BaseApiHandler.register_routes",),
    "Middleware.api.handlers.impl.openai_api_handler": (
        "OpenAIApiHandler",
        "ChatCompletionsAPI.post",
        "CompletionsAPI.post",
        "ModelsAPI.get",
    ),
    "Middleware.api.handlers.impl.ollama_api_handler": (
        "OllamaApiHandler",
        "ApiChatAPI.post",
        "GenerateAPI.post",
        "TagsAPI.get",
        "VersionAPI.get",
        "CancelChatAPI",
        "CancelGenerateAPI",
    ),
    "Middleware.api.workflow_gateway": ("handle_user_prompt",),
    "Middleware.api.api_helpers": (
        "build_response_json",
        "sse_format",
        "get_model_name",
        "parse_model_field",
        "extract_api_key",
        "extract_idempotency_key",
    ),
    "Middleware.services.response_builder_service": tuple(
        f"ResponseBuilderService.build_{name}"
        for name in (
            "openai_models_response",
            "openai_completion_response",
            "openai_chat_completion_response",
            "openai_completion_chunk",
            "openai_chat_completion_chunk",
            "ollama_tags_response",
            "ollama_version_response",
            "ollama_generate_response",
            "ollama_chat_response",
            "ollama_generate_chunk",
            "ollama_chat_chunk",
        )
    ),
    "Middleware.services.cancellation_service": ("cancellation_service",),
    "Middleware.services.idempotency_service": ("idempotency_service",),
    "Middleware.api.concurrency_middleware": ("ConcurrencyLimitMiddleware",),
    "server": ("get_application",),
    "Middleware.utilities.config_utils": (
        "get_config_path",
        "get_user_config",
        "get_default_tool_prompt_path",
    ),
    "Middleware.utilities.text_utils": ("return_brackets_in_string",),
    "Middleware.utilities.script_library": (
        "estimate_tokens",
        "estimate_tokens_of_messages",
        "last_messages",
        "last_user_message",
        "system_prompt",
        "without_system",
        "discussion_id",
        "without_discussion_tags",
        "text_in_tag",
        "text_between",
        "remove_thinking_from_text",
        "read_config",
    ),
}
"""Module -> names that scripts and front ends may use. Source: spec frontend-api.md 1."""


def arguments() -> dict[str, list[str]]:
    """`--port` -> `["one value"]`: how many words each argument takes, and which ones if it is a choice."""
    parser, _ = full_parser()
    found = {}
    for action in parser._actions:
        takes = "no value" if action.nargs == 0 else f"{action.nargs or 'one'} value"
        choices = [f"choice {choice}" for choice in action.choices or ()]
        for name in action.option_strings or [action.dest]:
            found[name] = sorted([takes, *choices])
    return found


def fields() -> dict[str, list[str]]:
    """`user.json maxTokens` -> the JSON types and the values that it allows."""
    return {
        f"{file} {path[1:]}": allowed
        for file, schema in editor_schemas().items()
        for path, allowed in _fields_of(schema, "")
    }


def _fields_of(schema: Any, path: str) -> Iterator[tuple[str, list[str]]]:
    if not isinstance(schema, dict):
        return
    for name, field in schema.get("properties", {}).items():
        below = f"{path}/{name}"
        yield below, sorted(set(_allowed(field)))
        yield from _fields_of(field, below)
    for part in ("oneOf", "anyOf", "allOf"):
        for one in schema.get(part, ()):
            yield from _fields_of(one, path)
    for part in ("items", "additionalProperties"):
        yield from _fields_of(schema.get(part), f"{path}/*")
    for pattern, field in schema.get("patternProperties", {}).items():
        if isinstance(field, dict) and "properties" in field:
            yield from _fields_of(field, f"{path}/{pattern}")


def _allowed(field: Any) -> Iterator[str]:
    """Types and values of one field, those of its alternatives included; `any` if it allows everything."""
    if not isinstance(field, dict):
        return
    types = field.get("type", [])
    yield from [types] if isinstance(types, str) else types
    for value in (*field.get("enum", ()), *([field["const"]] if "const" in field else [])):
        yield f"value {json.dumps(value, ensure_ascii=False)}"
    for part in ("oneOf", "anyOf"):
        for one in field.get(part, ()):
            yield from _allowed(one)
    if not {"type", "enum", "const", "oneOf", "anyOf"} & set(field):
        yield "any"


def node_types() -> dict[str, list[str]]:
    """The types of nodes, each with its required fields: one more would break workflows that lack it."""
    return {
        Path(file).stem: [f"needs {name}" for name in schema.get("required", ())]
        for file, schema in editor_schemas().items()
        if file.startswith("node/")
    }


def routes() -> dict[str, list[str]]:
    """`/v1/models` -> its methods. Parts of the path that a client fills in have no name here."""
    server = ApiServer(Flask("promise"))
    found: dict[str, set[str]] = {}
    for rule in server.app.url_map.iter_rules():
        parts = ["<>" if part.startswith("<") else part for part in rule.rule.split("/")]
        found.setdefault("/".join(parts), set()).update((rule.methods or set()) - {"HEAD", "OPTIONS"})
    return {path: sorted(methods) for path, methods in found.items() if not path.startswith("/console")}


def metrics() -> dict[str, list[str]]:
    """`headrace_requests` -> its kind and labels. Those of the Prometheus library itself are not ours."""
    found = {}
    for collector in {*Metrics().registry._names_to_collectors.values()}:
        name, labels = getattr(collector, "_name", ""), getattr(collector, "_labelnames", ())
        if name.startswith("headrace_"):
            found[name] = [f"kind {collector._type}", *(f"label {label}" for label in labels)]
    return found


def names() -> dict[str, list[str]]:
    """`module.name` -> its parameters in order, each with whether a caller may leave it out."""
    found = {}
    for module, wanted in NAMES.items():
        for name in wanted:
            value: Any = importlib.import_module(module)
            for part in name.split("."):
                value = getattr(value, part, None)
            if value is not None:
                found[f"{module}.{name}"] = _parameters(value)
    return found


def _parameters(value: Any) -> list[str]:
    if not callable(value) or not (inspect.isroutine(value) or inspect.isclass(value)):
        return []
    return [
        f"{parameter.name}{'' if parameter.default is parameter.empty else ' (optional)'}"
        for parameter in inspect.signature(value).parameters.values()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]


KINDS: dict[str, Callable[[], dict[str, list[str]]]] = {
    "arguments": arguments,
    "fields": fields,
    "node types": node_types,
    "variables": lambda: {name: [] for name in VARIABLES},
    "routes": routes,
    "metrics": metrics,
    "names": names,
}


def current() -> Promise:
    """What the code holds now."""
    return {kind: dict(sorted(read().items())) for kind, read in KINDS.items()}


def broken(promised: Promise, now: Promise) -> list[str]:
    """A sentence for each promise that `now` does not keep, in the order of the file."""
    return [
        f"{kind}: {name} {fault}"
        for kind, entries in promised.items()
        for name, was in entries.items()
        if (fault := _fault(kind, was, now.get(kind, {}).get(name)))
    ]


def _fault(kind: str, was: list[str], now: list[str] | None) -> str:
    if now is None:
        return "is gone"
    if kind == "node types":
        more = [word for word in now if word not in was]
        return f"now {', '.join(more)}" if more else ""
    if kind == "names":
        return _call_fault(was, now)
    if kind == "fields" and "any" in now:
        return ""
    lost = [word for word in was if word not in now]
    return f"no longer has: {', '.join(lost)}" if lost else ""


def _call_fault(was: list[str], now: list[str]) -> str:
    """A call that was right still is: the same parameters in the same order, others only if optional."""
    for old, new in zip(was, now, strict=False):
        if new not in (old, f"{old} (optional)"):
            return f"takes {new} in place of {old}"
    if len(now) < len(was):
        return f"no longer takes {', '.join(was[len(now) :])}"
    needed = [name for name in now[len(was) :] if not name.endswith("(optional)")]
    return f"now needs {', '.join(needed)}" if needed else ""


def _as_text(promise: Promise) -> str:
    """JSON with one line for each name, so that a change of version shows what came."""
    kinds = [
        f"{json.dumps(kind)}: {{\n"
        + ",\n".join(f" {json.dumps(name)}: {json.dumps(what)}" for name, what in entries.items())
        + "\n}"
        for kind, entries in promise.items()
    ]
    return "{\n" + ",\n".join(kinds) + "\n}\n"


def kept_file(folder: Path = FOLDER) -> Path:
    """The newest promise of this major version. Raises SystemExit if there is none."""
    major = VERSION.partition(".")[0]
    files = sorted(folder.glob(f"{major}.*.json"), key=lambda path: int(path.stem.split(".")[1]))
    if not files:
        raise SystemExit(f"{folder}: holds no promise of version {major}; --write makes one")
    return files[-1]


def main(words: list[str] | None = None) -> int:
    """Exit status 1 if a promise is broken."""
    parser = argparse.ArgumentParser(description="Compares the code with what docs/promise says.")
    parser.add_argument("--write", action="store_true", help="Write the promise of this version.")
    if parser.parse_args(words).write:
        path = FOLDER / f"{'.'.join(VERSION.split('.')[:2])}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(_as_text(current()), "utf-8")
        print(f"{path}: written")
        return 0
    path = kept_file()
    faults = broken(json.loads(path.read_text("utf-8")), current())
    print("\n".join(faults) or f"{path.name}: everything that it promises is there")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
