"""What a run says of a node that starts, for clients that want to see it. Source: spec more-fronts.md 8."""

from __future__ import annotations

from Middleware.common.types import Batch
from Middleware.workflows.handlers.registry import known_type
from Middleware.workflows.processors.run import Run, title_of


def progress_batch(run: Run, start: int, end: int, of: int) -> Batch:
    """One chunk for each of the nodes from index `start` to before `end`, which start together. `of`: how
    many nodes there are up to the one that answers.
    """
    return [
        {
            "token": "",
            "finish_reason": None,
            "progress": {
                "number": index + 1,
                "of": of,
                "title": _one_line(title_of(node)) or known_type(node.get("type")),
                "depth": len(run.chain) - 1,
            },
        }
        for index, node in enumerate(run.file.nodes[start:end], start)
    ]


def _one_line(title: str) -> str:
    return " ".join(title.split())
