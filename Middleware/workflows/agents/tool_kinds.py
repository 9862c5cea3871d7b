"""The kinds of tools of an Agent: what each is called by, and how it is called.

Each call keeps to its time limit and ends when the request is cancelled; what a Python script still does then
goes on unheard. Arguments and results are data: nothing in them is filled, no log shows them. Source: spec
agents.md 2 and 7.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from Middleware.common.errors import ConfigError, EarlyTermination, MiddlewareError, RequestCancelled
from Middleware.common.request_context import current_request, enter_request
from Middleware.common.secrets import mask_known
from Middleware.config.endpoints import secrets_in_use
from Middleware.config.workflows import load_workflow
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.discussion_store import DiskFaults
from Middleware.services.run_trace import json_text
from Middleware.utilities.html_text import decode_body, html_to_text
from Middleware.utilities.network_security_utils import AddressPolicy, AddressRefused
from Middleware.utilities.text_utils import media_note
from Middleware.workflows.agents.agent_tool import AgentTool, ToolFailed, ToolTimedOut
from Middleware.workflows.agents.entries import (
    FetchEntry,
    MemoryEntry,
    ScriptEntry,
    WorkflowEntry,
    object_schema,
)
from Middleware.workflows.memory.vector_search import MemoryQuery, VectorSearch, format_memories
from Middleware.workflows.models.execution_context import (
    ChildCall,
    ExecutionContext,
    is_tool_call_answer,
    result_text,
)
from Middleware.workflows.models.node_keys import MAX_SECONDS
from Middleware.workflows.tools.dynamic_module_loader import (
    ScriptAbandoned,
    find_script,
    log_script_error,
    run_in_time,
    script_function,
)
from Middleware.workflows.tools.mcp_client_tool import MCPClient, MCPToolCallError
from Middleware.workflows.tools.mcp_request import read_server
from Middleware.workflows.tools.web import WebAnswer, WebError, WebRequest, exchange, host_of

_SERVERS = ("greenlet", "gevent")
_NO_TEXT = frozenset(["application/pdf", "application/zip", "application/octet-stream"])
PAGE_BYTES = 10 * 1024 * 1024
CONNECT_S = 10.0


def _limit(context: ExecutionContext, own: float | None) -> float:
    return min(float(own if own is not None else context.value("toolTimeout")), MAX_SECONDS)


def _call_id(context: ExecutionContext) -> str:
    """By which this very call can be cancelled: the loop gives each an id of its own."""
    request = current_request()
    return request.request_id if request is not None else context.request_id


def _without_secrets(text: str, *more: str) -> str:
    return mask_known(text, (*more, *secrets_in_use()))


# --------------------------------------------------------------------------
# Tools of MCP servers.


def mcp_tool(context: ExecutionContext, server: str, offered: Mapping[str, Any]) -> AgentTool:
    """`offered`: as the server's list has it. The server is called by the name that it gave."""
    name = str(offered["name"])
    timeout_s = _limit(context, None)
    return AgentTool(
        name,
        str(offered.get("description") or ""),
        object_schema(offered.get("parameters")),
        "mcp",
        timeout_s,
        partial(_call_server, context, server, name, timeout_s),
        server,
        f"{server}: {name}",
    )


def _call_server(
    context: ExecutionContext, server: str, name: str, timeout_s: float, arguments: dict[str, Any]
) -> str:
    begun = time.monotonic()
    client = MCPClient(context.place, brief_media=True)
    try:
        text = client.call_tool(server, name, arguments, timeout_s)
        return _without_secrets(text, *read_server(context.snapshot, server).secrets)
    except MCPToolCallError as error:
        if time.monotonic() - begun >= timeout_s:
            raise _late(timeout_s) from error
        raise ToolFailed(_without_secrets(str(error))) from error


def _late(timeout_s: float) -> ToolTimedOut:
    return ToolTimedOut(f"timed out after {timeout_s:g} seconds")


# --------------------------------------------------------------------------
# Workflows.


def workflow_tool(context: ExecutionContext, entry: WorkflowEntry) -> AgentTool:
    """Raises ConfigError when there is no such workflow, or its file has faults."""
    load_workflow(
        context.snapshot,
        context.user,
        entry.workflow,
        folder=entry.folder,
        calling_folder=context.workflow_file.folder,
    )
    timeout_s = _limit(context, entry.timeout_s)
    return AgentTool(
        entry.name,
        entry.description,
        entry.parameters,
        "workflow",
        timeout_s,
        partial(_run_workflow, context, entry, timeout_s),
        place=entry.workflow,
    )


def _run_workflow(
    context: ExecutionContext, entry: WorkflowEntry, timeout_s: float, arguments: dict[str, Any]
) -> str:
    """The value of a run that can be ended by itself."""
    inputs = tuple(v if isinstance(v, str) else json_text(v) for v in entry.inputs_of(arguments))
    call_id = _call_id(context)
    with cancellation_service.scope(call_id) as scope:
        timer = threading.Timer(timeout_s, cancellation_service.cancel_scope, (scope, "time-out"))
        timer.daemon = True
        timer.start()
        call = ChildCall(
            entry.workflow,
            folder=entry.folder,
            inputs=inputs,
            internal=True,
            with_tools=False,
            label=entry.name,
            scope=scope,
        )
        try:
            value = context.run_workflow(call)
        except RequestCancelled:
            if cancellation_service.is_cancelled(call_id):
                raise
            raise _late(timeout_s) from None
        except EarlyTermination as stop:
            raise ToolFailed(stop.locked_message or "another run holds the lock of this tool") from stop
        except MiddlewareError as error:
            raise ToolFailed(_without_secrets(error.cause_first())) from error
        finally:
            timer.cancel()
    is_text = value is None or isinstance(value, str) or is_tool_call_answer(value)
    return _without_secrets(str(result_text(value)) if is_text else json_text(value))


# --------------------------------------------------------------------------
# Pages.


def fetch_tool(context: ExecutionContext, entry: FetchEntry) -> AgentTool:
    timeout_s = _limit(context, entry.timeout_s)
    strict = context.user.outbound_policy == "block-private"
    policy = AddressPolicy(True, entry.allowed_hosts, named_may_be_private=not strict)
    return AgentTool(
        entry.name,
        entry.description or "Fetch the page at a web address and return its text.",
        {
            "type": "object",
            "properties": {
                "url": {"type": "string", "description": "The address, with http:// or https://."}
            },
            "required": ["url"],
        },
        "http",
        timeout_s,
        partial(_fetch_page, context, policy, timeout_s),
        max_tokens=entry.max_tokens,
    )


def _fetch_page(
    context: ExecutionContext, policy: AddressPolicy, timeout_s: float, arguments: dict[str, Any]
) -> str:
    request = WebRequest(
        str(arguments.get("url") or "").strip(),
        timeout_s=(min(CONNECT_S, timeout_s), timeout_s),
        total_s=timeout_s,
        max_bytes=PAGE_BYTES,
        policy=policy,
        caller=context.place,
    )
    try:
        answer = exchange(request, _call_id(context))
    except (WebError, AddressRefused) as error:
        if isinstance(error, WebError) and error.is_timeout:
            raise _late(timeout_s) from error
        raise ToolFailed(str(error)) from error
    if answer.status >= 400:
        raise ToolFailed(f"{host_of(request.url)} answered {answer.status}")
    return _without_secrets(_page_text(answer))


def _page_text(answer: WebAnswer) -> str:
    """Markup is taken off; what is no text stands as what it is."""
    kind = {name.lower(): value for name, value in answer.headers.items()}.get("content-type", "")
    bare = kind.partition(";")[0].strip().lower()
    if bare.startswith(("image/", "audio/", "video/", "font/")) or bare in _NO_TEXT:
        return media_note(bare, len(answer.body))
    text = decode_body(answer.body, kind)
    return text if bare in ("text/plain", "application/json") else html_to_text(text, "blocks")


# --------------------------------------------------------------------------
# Scripts.


def script_tool(context: ExecutionContext, entry: ScriptEntry) -> AgentTool:
    """Raises ConfigError when there is no such script, or the user's `pythonModuleRoots` do not hold it."""
    try:
        path = find_script(entry.path, context.user.python_module_roots)
    except FileNotFoundError as error:
        raise ConfigError(f"the tool {entry.name!r} has no script: {error}") from error
    timeout_s = _limit(context, entry.timeout_s)
    return AgentTool(
        entry.name,
        entry.description,
        entry.parameters,
        "script",
        timeout_s,
        partial(_run_script, context, path, timeout_s),
        place=str(path),
    )


def _run_script(context: ExecutionContext, path: Path, timeout_s: float, arguments: dict[str, Any]) -> str:
    """What it returns, as text; what it raises is the failure. Models that it asks are asked by its node."""
    caller = replace(current_request() or context.request, node=context.trace)

    def work() -> Any:
        with enter_request(caller):
            return script_function(path)(**arguments)

    value = _until_cancelled(work, caller.request_id, timeout_s, path)
    return _without_secrets(value if isinstance(value, str) else "" if value is None else json_text(value))


def _until_cancelled(work: Callable[[], Any], request_id: str, timeout_s: float, path: Path) -> Any:
    """What a script returns. Raises ToolFailed, RequestCancelled."""
    over = threading.Event()
    cancellation_service.register_abort_callback(request_id, over.set)
    try:
        return run_in_time(work, timeout_s, path.name, over)
    except ScriptAbandoned:
        if cancellation_service.is_cancelled(request_id):
            raise RequestCancelled from None
        raise _late(timeout_s) from None
    except BaseException as error:
        failure = _script_failure(error, path)
        if failure is None:
            raise
        raise failure from error
    finally:
        cancellation_service.unregister_abort_callback(request_id, over.set)


def _script_failure(error: BaseException, path: Path) -> ToolFailed | None:
    """What a script raised, for the model; None: it is no matter of the script."""
    is_of_the_house = isinstance(error, RequestCancelled | KeyboardInterrupt)
    if is_of_the_house or type(error).__module__.partition(".")[0] in _SERVERS:
        return None
    log_script_error(error, path, "an agent")
    return ToolFailed(_without_secrets(str(error) or type(error).__name__))


# --------------------------------------------------------------------------
# Memories.


def memory_tool(context: ExecutionContext, entry: MemoryEntry) -> AgentTool:
    """Only for a node with a discussion."""
    return AgentTool(
        entry.name,
        entry.description
        or "Search what is remembered of this conversation. Separate several phrases with semicolons.",
        {
            "type": "object",
            "properties": {"query": {"type": "string", "description": "The words to search for."}},
            "required": ["query"],
        },
        "memory",
        None,
        partial(_search_memory, context),
    )


def _search_memory(context: ExecutionContext, arguments: dict[str, Any]) -> str:
    assert context.store is not None
    search = VectorSearch(context.store, None)
    question = MemoryQuery(input=str(arguments.get("query") or ""))
    rows = DiskFaults().try_work(lambda: search.find(question), (), "the memories cannot be searched")
    return _without_secrets(format_memories(rows, dates=False))
