"""Step 1 of a tool agent: which tools there are, told to the model.

    { "type": "PythonModule", "module_path": "Public/workflow_python_scripts/mcp_agent/prepare_tools.py",
      "jinja2": true, "args": ["{{ messages | tojson }}"], "kwargs": { "user_identified_services": "files" } }

A service is a file of MCPServers, or else one of an OpenAPI proxy (`mcpo_url`).
"""

import ast
import json
import os
import urllib.request
from pathlib import Path

from Middleware.utilities.config_utils import get_config_path, get_user_config
from Middleware.workflows.tools.mcp_client_tool import MCPClient, MCPToolCallError

PROMPT = """You may have tools called. To call some, answer with this JSON and nothing else:
{"tool_calls": [{"name": "<tool>", "arguments": {}}]}
If no tool helps, answer: {"tool_calls": []}"""
NO_TOOLS = 'There are no tools. Answer: {"tool_calls": []}'
TIMEOUT_S = 30


def Invoke(messages, *, user_identified_services="none", mcpo_url="", default_prompt_path=""):
    """`{"messages", "chat_system_prompt", "discovered_tools_map"}`.

    A service that fails is told in the prompt.
    """
    conversation = message_list(messages)
    tools, troubles = {}, []
    for service in services_of(user_identified_services):
        try:
            found = native_tools(service) if is_native(service) else proxy_tools(service, proxy_url(mcpo_url))
        except (MCPToolCallError, OSError, ValueError) as error:
            troubles.append(f"Service {service} gives no tools: {error}")
            continue
        for name, tool in found.items():
            tools[name if name not in tools else f"{service}_{name}"] = tool
    prompt = "\n\n".join([opening(default_prompt_path, tools), *troubles])
    return {"messages": conversation, "chat_system_prompt": prompt, "discovered_tools_map": tools}


def message_list(messages):
    """A list as it is, or from its JSON or printed form."""
    if not isinstance(messages, str):
        return list(messages)
    try:
        return json.loads(messages)
    except ValueError:
        return ast.literal_eval(messages)


def services_of(names):
    wanted = [name.strip() for name in str(names or "").split(",")]
    return [name for name in wanted if name and name.lower() != "none"]


def is_native(service):
    return Path(get_config_path("MCPServers", service)).is_file()


def native_tools(service):
    listed = MCPClient().list_tools(service, timeout=TIMEOUT_S)
    return {
        name: {"service": service, "tool": name, "llm_schema": tool["llm_schema"]}
        for name, tool in listed.items()
    }


def proxy_url(given):
    address = given or get_user_config().get("MCPO_URL") or os.environ.get("MCPO_URL")
    return str(address or "http://localhost:8889").rstrip("/")


def proxy_tools(service, base):
    """Each POST path of the service's OpenAPI page is a tool."""
    with urllib.request.urlopen(f"{base}/{service}/openapi.json", timeout=TIMEOUT_S) as answer:
        page = json.load(answer)
    return {
        path.strip("/"): {
            "service": service,
            "url": f"{base}/{service}{path}",
            "llm_schema": schema(path, rest["post"], page),
        }
        for path, rest in page.get("paths", {}).items()
        if "post" in rest
    }


def schema(path, operation, page):
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    if "$ref" in body:
        body = page.get("components", {}).get("schemas", {}).get(body["$ref"].rpartition("/")[2], {})
    name = path.strip("/")
    description = operation.get("description") or operation.get("summary") or f"Execute {name}"
    return {"type": "function", "name": name, "description": description, "parameters": body}


def opening(default_prompt_path, tools):
    path = Path(default_prompt_path) if default_prompt_path else None
    text = path.read_text("utf-8") if path and path.is_file() else PROMPT
    if not tools:
        return NO_TOOLS
    told = [
        json.dumps({**tool["llm_schema"], "name": name}, ensure_ascii=False) for name, tool in tools.items()
    ]
    return "\n".join([text, "", "Tools:", *told])
