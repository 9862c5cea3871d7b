"""What is sent for the trees of foreign systems and for random conversations, as digests.

`tests/fixtures/prompts_before.json` was made of them by the code as it was before windows could stand.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from Middleware.common.errors import MiddlewareError
from Middleware.common.instance_global_variables import LaunchFacts, launch_facts, set_launch_facts
from Middleware.common.request_context import ClientQuestion, RequestContext, enter_request
from Middleware.config.loader import tree_of
from Middleware.config.users import load_user, user_names
from Middleware.config.workflows import list_workflow_files
from Middleware.workflows.checks.dry_run import DryRun

FOREIGN = Path(__file__).parents[1] / "fixtures" / "foreign" / "Public"
GOLDEN = Path(__file__).parents[1] / "fixtures" / "prompts_before.json"
CALL = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"at": "the {sea}"}'}}


def talk(length: int, *, exchange: bool) -> list[dict[str, Any]]:
    """A client's system prompt, a long chat of two, now and then with a picture, at its end a tool's
    result.
    """
    luck = random.Random(length)
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You keep the {light}house."}]
    for number in range(length):
        content = " ".join(f"word{luck.randint(0, 99)}" for _ in range(luck.randint(1, 60)))
        messages.append({"role": ("user", "assistant")[number % 2], "content": f"{number} {content}"})
        if number % 17 == 0:
            messages[-1]["images"] = ["iVBORw0KGgo="]
    if exchange:
        messages.append({"role": "assistant", "content": "", "tool_calls": [CALL]})
        messages.append({"role": "tool", "content": "calm", "tool_call_id": "c"})
    return messages


def digests_of_trees() -> dict[str, list[Any]]:
    """`user/workflow` -> how many calls three conversations make, and the digest of their bodies."""
    before = launch_facts()
    set_launch_facts(LaunchFacts(public_directory=FOREIGN, config_directory=FOREIGN / "Configs"))
    try:
        return {name: [len(bodies), _digest(bodies)] for name, bodies in _walks() if bodies}
    finally:
        set_launch_facts(before)


def _digest(texts: list[str]) -> str:
    return sha256("\0".join(texts).encode()).hexdigest()[:16]


def _walks() -> Iterator[tuple[str, list[str]]]:
    snapshot = tree_of(FOREIGN / "Configs").snapshot()
    for user_name in sorted(user_names(snapshot)):
        user = load_user(snapshot, user_name)
        request = RequestContext("dry-run", user.name, "openaichatcompletion", snapshot=snapshot)
        for file in sorted(list_workflow_files(snapshot)):
            folder, _, workflow = file.removeprefix("Workflows/").removesuffix(".json").rpartition("/")
            bodies: list[str] = []
            for length, exchange in ((1, False), (61, False), (60, True)):
                walk, today = DryRun(user, request), datetime.now()
                question = ClientQuestion(talk(length, exchange=exchange))
                with enter_request(request), suppress(MiddlewareError):
                    for _ in walk.open_run(workflow, question, folder=folder):
                        continue
                sent = [json.dumps(sent.body, sort_keys=True) for node in walk.nodes for sent in node.sent]
                bodies += [_undated(body, today) for body in sent]
            yield f"{user_name}/{file}", bodies


def _undated(body: str, today: datetime) -> str:
    for moment in (today, datetime.now()):
        for form in ("%B %d, %Y", "%Y_%m_%d"):
            body = body.replace(f"{moment:{form}}", "today")
    return body


# --------------------------------------------------------------------------

CASES = 2000
Assembled = Callable[[dict[str, Any], dict[str, Any], list[dict[str, Any]], bool], Any]
"""Node, endpoint, messages, whether the backend takes messages -> what is sent."""


def digests_of_random_chats(assembled: Assembled) -> list[str]:
    """Of a hundred cases each."""
    luck = random.Random(20)
    digests, texts = [], []
    for number in range(1, CASES + 1):
        chat = _random_chat(luck)
        node = _random_fields(luck)
        endpoint = luck.choice([{}, {"maxContextTokenSize": luck.randint(500, 3000)}])
        texts.append(json.dumps(assembled(node, endpoint, chat, luck.random() < 0.6), sort_keys=True))
        if number % 100 == 0:
            digests.append(_digest(texts))
            texts.clear()
    return digests


def _random_chat(luck: random.Random) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for number in range(luck.randint(0, 40)):
        role = luck.choice(["user", "user", "assistant", "assistant", "tool", "system"])
        messages.append({"role": role, "content": f"{number} {{}} " + "word " * luck.randint(0, 60)})
        if role == "assistant" and luck.random() < 0.3:
            messages[-1]["tool_calls"] = [CALL]
        if role == "user" and luck.random() < 0.2:
            messages[-1]["images"] = [f"image{number}"]
    return messages


def _random_fields(luck: random.Random) -> dict[str, Any]:
    fields = {
        "lastMessagesToSendInsteadOfPrompt": luck.randint(0, 30),
        "lastMessagesToSendInsteadOfPromptMaxTokenSize": luck.choice([0, 50, 400]),
        "clampPromptToContextWindow": True,
        "mergeConsecutiveAssistantMessages": True,
        "insertUserTurnBetweenAssistantMessages": True,
        "addUserTurnTemplate": True,
    }
    return {name: value for name, value in fields.items() if luck.random() < 0.5}
