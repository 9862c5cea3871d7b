"""CPU time of the engine alone, no network: a workflow of 100 text nodes; one model node with a long history.

    python bench/engine.py [--rounds 20] [--profile] [--observed nobody|facts|texts]

`--observed`: who watches the runs: nobody, an observer that keeps no text, or one that keeps texts.

Budgets: 100 text nodes under 10 ms; the prompt of one model node with 2,000 messages under 20 ms.
"""

from __future__ import annotations

import argparse
import cProfile
import itertools
import json
import pstats
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Middleware.common.request_context import ClientQuestion, RequestContext
from Middleware.config.loader import ConfigTree
from Middleware.config.users import load_user
from Middleware.llmapis.handlers.backends import BACKENDS
from Middleware.llmapis.handlers.base.base_llm_api_handler import LlmApiHandler
from Middleware.services.run_trace import Observers
from Middleware.workflows.managers.workflow_manager import WorkflowManager

TOKENS = [1]
"""How many the scripted backend says."""

OBSERVERS = Observers()


class Watching:
    """An observer that does nothing with what it is told."""

    def __init__(self, keeps_text: bool) -> None:
        self.keeps_text = keeps_text

    def changed(self, *_: Any) -> None:
        """Told, and forgotten."""


MODEL_NODE = {
    "type": "Standard",
    "endpointName": "demo",
    "systemPrompt": "Answer {chat_user_prompt_last_ten}",
    "prompt": "",
    "lastMessagesToSendInsteadOfPrompt": 2000,
    "clampPromptToContextWindow": True,
}


@BACKENDS.register("benchChat")
class BenchHandler(LlmApiHandler):
    """A backend that answers one word at once."""

    def _get_api_endpoint_url(self) -> str:
        return self.base_url

    def _payload(self, call: Any) -> dict[str, Any]:
        return {}

    def _map_event(self, *_: Any) -> None:
        return None

    def _parse_non_stream_response(self, body: Any) -> Any:
        return body

    def stream_batches(self, call: Any) -> Any:
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        end = {"token": "", "finish_reason": "stop", "usage": usage}
        words = ([{"token": " word", "finish_reason": None}] for _ in range(TOKENS[0]))
        return itertools.chain(words, [[end]])


def house(root: Path) -> Path:
    files: dict[str, Any] = {
        "Users/ana": {"chatPromptTemplateName": "", "customWorkflowOverride": True},
        "ApiTypes/Demo": {"type": "benchChat"},
        "Endpoints/demo": {
            "endpoint": "http://demo.invalid",
            "apiTypeConfigFileName": "Demo",
            "maxContextTokenSize": 1_000_000,
        },
        "Workflows/ana/Texts": [
            {"type": "StaticResponse", "content": f"node {i} after {{agent{i}Output}}" if i else "start"}
            for i in range(100)
        ],
        "Workflows/ana/Model": [MODEL_NODE],
    }
    for name, document in files.items():
        path = root / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document))
    return root


def runner(root: Path, workflow: str, messages: list[dict[str, str]], tokens: int = 1) -> Callable[[], None]:
    tree = ConfigTree(root)

    def run() -> None:
        TOKENS[0] = tokens
        snapshot = tree.snapshot()
        trace = OBSERVERS.begin("bench", "/v1/chat/completions")
        request = RequestContext("bench", "ana", "openaichatcompletion", snapshot=snapshot, trace=trace)
        if trace is not None:
            trace.name(request, front="bench", stream=True, asked=b"")
        manager = WorkflowManager(load_user(snapshot, "ana"), request)
        for _ in manager.open_run(workflow, ClientQuestion(list(messages), stream=True)):
            pass

    return run


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=20)
    arguments.add_argument("--profile", action="store_true")
    arguments.add_argument("--observed", choices=["nobody", "facts", "texts"], default="nobody")
    given = arguments.parse_args()
    if given.observed != "nobody":
        OBSERVERS.observe(Watching(given.observed == "texts"))
    history = [{"role": ("user", "assistant")[i % 2], "content": "some words " * 20} for i in range(2001)]
    with tempfile.TemporaryDirectory() as folder:
        root = house(Path(folder))
        child = [{"type": "CustomWorkflow", "workflowName": "Model"}]
        (root / "Workflows/ana/Nested.json").write_text(json.dumps(child))
        cases = {
            "100 text nodes": runner(root, "Texts", history[:3]),
            "1 model node, 3 messages": runner(root, "Model", history[:3]),
            "1 model node, 2,001 messages": runner(root, "Model", history),
            "20,000 tokens": runner(root, "Model", history[:3], tokens=20_000),
            "20,000 tokens of a child": runner(root, "Nested", history[:3], tokens=20_000),
        }
        for name, run in cases.items():
            run()
            times = []
            for _ in range(given.rounds):
                begun = time.process_time()
                run()
                times.append((time.process_time() - begun) * 1000)
            print(f"{name}: median {statistics.median(times):.2f} ms, best {min(times):.2f} ms")
            if given.profile:
                profile = cProfile.Profile()
                profile.runcall(run)
                pstats.Stats(profile).sort_stats("cumulative").print_stats(25)


if __name__ == "__main__":
    main()
