"""The configuration that several benches serve: one user, whose one workflow hands the conversation on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write_tree(root: Path, port: int) -> Path:
    """Write it below `root`, which is given back. The user is `ana`, the backend listens on `port`."""
    files: dict[str, Any] = {
        "Users/ana": {"customWorkflowOverride": True, "customWorkflow": "Main"},
        "ApiTypes/Here": {"type": "openAIChatCompletion", "streamPropertyName": "stream"},
        "Endpoints/here": {"endpoint": f"http://127.0.0.1:{port}", "apiTypeConfigFileName": "Here"},
        "Workflows/ana/Main": [
            {"type": "Standard", "endpointName": "here", "systemPrompt": "", "prompt": ""}
        ],
    }
    for name, document in files.items():
        path = root / "Configs" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document))
    return root
