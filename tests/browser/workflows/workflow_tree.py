"""The workflow of the specification's example (console.md 16.5), with the files that it names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

NOTES = {"title": "Notes", "type": "SaveCustomFile", "filepath": "notes.txt", "content": "{agent5Output}"}
REVIEWERS: dict[str, Any] = {
    "writer": "Other",
    "nodes": [
        {"title": "Draft", "endpointName": "Small", "prompt": "Draft: {chat_user_prompt_last_one}"},
        {
            "title": "Facts",
            "type": "Standard",
            "parallelGroup": "critics",
            "endpointName": "Small",
            "prompt": "Facts of {agent1Output}",
        },
        {
            "title": "Style",
            "type": "Standard",
            "parallelGroup": "critics",
            "endpointName": "{writer}",
            "prompt": "Style of {agent1Output}",
        },
        {
            "title": "Which way?",
            "type": "ConditionalCustomWorkflow",
            "conditionalKey": "{agent2Output}",
            "conditionalWorkflows": {"code": "CodeFix", "Default": "Prose"},
        },
        {
            "title": "Answer",
            "type": "Standard",
            "endpointName": "Big",
            "prompt": "{agent3Output} {agent4Output} {agent6Output}",
            "returnToUser": True,
        },
        NOTES,
    ],
}
CODE_FIX = {
    "nodes": [
        {"title": "Find", "type": "Standard", "endpointName": "Small", "prompt": "Find it"},
        {"title": "Mend", "type": "Standard", "endpointName": "Big", "prompt": "Mend {agent1Output}"},
    ]
}
PROSE = {"nodes": [{"title": "Write", "type": "StaticResponse", "content": "prose"}]}
PATH = "Workflows/mira/Reviewers.json"
ADDRESS = f"#/workflows/{PATH}?user=mira"
USERS = {
    "mira": {
        "user": {"customWorkflow": "Reviewers"},
        "endpoints": {name: {"modelNameToSendToAPI": name.lower()} for name in ("Small", "Other", "Big")},
        "presets": {"OpenAiCompatibleApis/Warm": {"temperature": 1}},
    },
    "jo": {},
}


def files(public: Path) -> dict[str, object]:
    """Files below the config root beside those of `USERS`; what the last node writes stays in `public`."""
    notes = {**NOTES, "filepath": str(public / "notes.txt")}
    return {
        PATH: {**REVIEWERS, "nodes": [*REVIEWERS["nodes"][:-1], notes]},
        "Workflows/mira/CodeFix.json": CODE_FIX,
        "Workflows/mira/Prose.json": PROSE,
        "Workflows/attic/Old.json": PROSE,
    }
