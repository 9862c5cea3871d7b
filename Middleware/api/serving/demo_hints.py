"""What to try first, when the user that is served talks to the built-in demo model. Reads config only."""

from __future__ import annotations

from pathlib import Path

from Middleware.api.serving.install_layout import is_shipped, program
from Middleware.common.errors import ConfigError
from Middleware.config.endpoints import load_endpoint
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.paths import DEFAULT_WORKFLOW, EXAMPLE, endpoint_file
from Middleware.config.users import UserSettings, load_user
from Middleware.config.workflows import load_workflow

DEMO_TYPE = "builtInDemo"


def demo_hints(snapshot: ConfigSnapshot, users: list[str], address: str) -> list[str]:
    """Lines for the console: a call to try, and the file and fields that lead to a real server. Else none."""
    for name in users:
        try:
            user = load_user(snapshot, name)
            endpoint = _demo_endpoint(snapshot, user)
        except ConfigError:
            continue
        if endpoint is not None:
            return _lines(name, _way_to(Path(snapshot.root), endpoint_file(user, endpoint)), address)
    return []


def _demo_endpoint(snapshot: ConfigSnapshot, user: UserSettings) -> str | None:
    """The first endpoint of the user's workflow that is the demo model."""
    name = user.custom_workflow if user.custom_workflow_override else DEFAULT_WORKFLOW
    for node in load_workflow(snapshot, user, name).nodes:
        endpoint = node.get("endpointName")
        if not isinstance(endpoint, str) or not endpoint or "{" in endpoint:
            continue
        if load_endpoint(snapshot, user, endpoint).type == DEMO_TYPE:
            return endpoint
    return None


def _lines(model: str, way: list[str], address: str) -> list[str]:
    body = f'{{"model": "{model}", "messages": [{{"role": "user", "content": "Hello!"}}]}}'
    return [
        "The built-in demo model answers. Try it from a second terminal:",
        f"  curl {address}/v1/chat/completions -H 'Content-Type: application/json' \\",
        f"       -d '{body}'",
        *way,
        '  "endpoint" (its URL), "apiTypeConfigFileName" (for example "Open-AI-API", "LlamaCppServer" or',
        '  "OllamaApiChat"), "modelNameToSendToAPI" (the model\'s name there). No restart is needed.',
    ]


def _way_to(root: Path, file: str) -> list[str]:
    """The file to change; what came with a wheel is not for changing."""
    if not is_shipped(root):
        example = file.replace(".json", f"{EXAMPLE}.json")
        if not (root / file).exists() and (root / example).exists():
            return [
                f"To use a real server, copy {root / example}",
                f"to {root / file} and change three fields:",
            ]
        return [f"To use a real server, change three fields of {root / file}:"]
    return [
        f"To use a real server, write files of your own with {program()} --init DIR, start with them, and",
        f"change three fields of {Path('Public', 'Configs', file)} there:",
    ]
