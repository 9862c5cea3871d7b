"""Step 2 of a tool agent: the JSON of a model's answer, without code fences and words around it.

{ "type": "PythonModule", "module_path": "Public/workflow_python_scripts/mcp_agent/sanitize_answer.py",
  "args": ["{agent2Output}"] }
"""

import json


def Invoke(answer):
    """The first JSON object or list of the text; a text without one as it is, trimmed."""
    text = answer if isinstance(answer, str) else "".join(piece_of(piece) for piece in answer)
    decoder = json.JSONDecoder()
    for place, mark in enumerate(text):
        if mark in "{[":
            try:
                _, end = decoder.raw_decode(text, place)
            except ValueError:
                continue
            return text[place:end]
    return text.strip()


def piece_of(piece):
    """Pieces of a stream are texts, or objects with a `token`."""
    return piece if isinstance(piece, str) else str(piece.get("token") or "")
