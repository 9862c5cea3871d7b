"""Step 3 of a tool agent: the tools that the model asked for are called, one after the other.

{ "type": "PythonModule", "jinja2": true,
  "module_path": "Public/workflow_python_scripts/mcp_agent/run_tools.py",
  "args": ["{{ messages | tojson }}", "{{ agent3Output }}",
           "{{ agent1Output['discovered_tools_map'] | tojson }}"] }
"""

import json
import urllib.request

from Middleware.workflows.tools.mcp_client_tool import MCPClient, MCPToolCallError

NO_CALL = "No tool was called."
MOST_CALLS = 8
TIMEOUT_S = 30


def Invoke(messages, original_response, tool_execution_map):
    """One part for each call: the tool's name and its result, or why it failed."""
    tools = json.loads(tool_execution_map) if isinstance(tool_execution_map, str) else tool_execution_map
    calls = calls_of(original_response)[:MOST_CALLS]
    return (
        "\n\n".join(f"Tool {name}: {result(tools, name, arguments)}" for name, arguments in calls) or NO_CALL
    )


def calls_of(text):
    """(name, arguments) of each call; none in what is no such JSON."""
    try:
        asked = json.loads(text)
    except ValueError:
        return []
    if isinstance(asked, dict):
        asked = asked.get("tool_calls", [asked])
    calls = [call for call in asked if isinstance(call, dict)] if isinstance(asked, list) else []
    named = [
        (call.get("name") or call.get("tool"), call.get("arguments") or call.get("parameters") or {})
        for call in calls
    ]
    return [
        (name, arguments)
        for name, arguments in named
        if isinstance(name, str) and isinstance(arguments, dict)
    ]


def result(tools, name, arguments):
    tool = tools.get(name)
    if tool is None:
        return f"there is no such tool; there are: {', '.join(sorted(tools)) or 'none'}"
    try:
        if "url" not in tool:
            return MCPClient().call_tool(tool["service"], tool["tool"], arguments, timeout=TIMEOUT_S)
        body = json.dumps(arguments).encode()
        request = urllib.request.Request(tool["url"], body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return answer.read().decode("utf-8", "replace")
    except (MCPToolCallError, OSError) as error:
        return f"failed: {error}"
