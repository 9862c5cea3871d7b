"""What `--reuse` says is what a model server of a running Headrace sees: the same characters are read (prompt-reuse.md
10, row 6)."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from tests.e2e.conftest import HOUSE
from tests.e2e.fake_backend import Reply
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.e2e

TURNS = 26
COUNTED = 12
WINDOW = {
    "type": "Standard",
    "endpointName": "Model",
    "systemPrompt": "{chat_system_prompt}",
    "lastMessagesToSendInsteadOfPrompt": 10,
}
DRAFT, ANSWER = "Write a draft (reuse).", "Answer (reuse)."
NOTE, COMPACT = "Write a note (reuse).", "Write a summary (reuse)."
STUBS = {DRAFT: "[output of node 1]", NOTE: "[output of node 2]", COMPACT: "[output of node 3]"}
"""What the stub model says where these are in a prompt."""
LATE = [
    {**WINDOW, "latePrompt": DRAFT},
    {**WINDOW, "latePrompt": f"{ANSWER} Notes: {{agent1Output}}", "returnToUser": True},
]
USERS = {
    "moving": {"workflows": {"Chat": [{**WINDOW, "latePrompt": ANSWER}]}},
    "steady": {"user": {"steadyWindow": True}, "workflows": {"Chat": [{**WINDOW, "latePrompt": ANSWER}]}},
    "drafts": {"user": {"steadyWindow": True}, "workflows": {"Chat": LATE}},
    "fronts": {
        "workflows": {"Chat": [{**LATE[0], "latePrompt": "", "systemPrompt": DRAFT}, LATE[1]]},
    },
    "remembers": {
        "user": {
            "steadyWindow": True,
            "discussionIdMemoryFileWorkflowSettings": "Memory",
            "contextCompactorSettingsFile": "Compactor",
        },
        "workflows": {
            "Chat": [
                {**WINDOW, "latePrompt": ANSWER, "returnToUser": True, "readAhead": "end"},
                {"type": "QualityMemory"},
                {"type": "ContextCompactor"},
            ],
            "Memory": {
                "endpointName": "Model",
                "systemPrompt": NOTE,
                "prompt": "Notes:\n[Memory_file]\n\nExcerpt:\n[TextChunk]",
                "chunkEstimatedTokenSize": 400,
                "maxMessagesBetweenChunks": 4,
                "lookbackStartTurn": 2,
            },
            "Compactor": {
                "endpointName": "Model",
                "oldSectionSystemPrompt": COMPACT,
                "neutralSummarySystemPrompt": COMPACT,
                "oldestUpdateSystemPrompt": COMPACT,
                "recentContextTokens": 800,
                "oldContextTokens": 800,
                "steadyWindow": True,
            },
        },
    },
}
READ_AHEAD = ("remembers",)
"""Whose turns end with a prompt that is read ahead."""


@pytest.fixture(scope="module")
def server(launch):
    return launch(USERS)


def conversation(user):
    """A card, then turns of two; the newest message is the user's."""
    card = f"[DiscussionId]reuse-{user}[/DiscussionId]You are Mara, a ferry captain. " + " ".join(
        f"fact{number}" for number in range(300)
    )
    messages = [{"role": "system", "content": card}]
    for turn in range(TURNS):
        said = " ".join(f"word{turn * 31 + number}" for number in range(40))
        messages.append({"role": "user", "content": f"Turn {turn}: {said}"})
        messages.append({"role": "assistant", "content": f"Reply {turn}: {said[::-1]}"})
    return messages


def play(server, backend, user, messages):
    """The prompts of each turn, with what was answered."""
    for mark, stub in STUBS.items():
        backend.on(mark, Reply((stub,)))
    return [play_turn(server, backend, user, messages[: end + 1]) for end in range(2, len(messages), 2)]


def play_turn(server, backend, user, messages):
    """The last message is the answer of this turn."""
    answer, before = messages[-1]["content"], len(backend.calls())
    backend.on(ANSWER, Reply((answer,)))

    def calls():
        return backend.calls()[before:]

    status, body = server.post("/v1/chat/completions", {"model": user, "messages": messages[:-1]})
    assert status == 200, body
    assert json.loads(body)["choices"][0]["message"]["content"] == answer
    if user in READ_AHEAD:
        wait_until(lambda: any(map(is_reading, calls())), said=lambda: "a prompt that is read ahead")
    return [(text_of(call), answer_to(call, answer)) for call in calls()]


def is_reading(call):
    return call.body.get("max_tokens") == 1


def answer_to(call, answer):
    """What was said: nothing of a prompt that was read ahead."""
    stub = next((said for mark, said in STUBS.items() if mark in call.text), answer)
    return "" if is_reading(call) else stub


def text_of(call):
    turns = "".join(f"<|{m['role']}|>\n{m['content']}\n" for m in call.body["messages"])
    return f"{turns}<|assistant|>\n"


def common_length(one, other):
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))


def characters_read(turns, slots):
    """The mean of the last turns, for a server that holds so many prompts and lets the best beginning win."""
    held, read = [], []
    for calls in turns:
        read.append(0)
        for prompt, answer in calls:
            shared = [common_length(one, prompt) for one in held]
            best = max(shared, default=0)
            if shared and best >= 0.1 * len(prompt):
                held.pop(shared.index(best))
            elif len(held) >= slots:
                held.pop(0)
            held.append(prompt + answer)
            read[-1] += len(prompt) - best
    return sum(read[-COUNTED:]) / COUNTED


@pytest.mark.parametrize("user", USERS)
def test_it_says_what_a_server_sees(server, backend, user, tmp_path):
    """Within two of a hundred, with one prompt held and with two; before the answer and after it."""
    messages = conversation(user)
    turns = play(server, backend, user, messages)
    (tmp_path / "talk.json").write_text(json.dumps(messages[:-1]))
    for slots in (1, 2):
        words = ["--PublicDirectory", server.public, "--User", user, "--reuse", "Chat", "--turns", COUNTED]
        words += ["--slots", slots, "--messages", tmp_path / "talk.json"]
        shown = subprocess.run(
            [sys.executable, "server.py", *map(str, words)],
            cwd=HOUSE,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        said = re.findall(r"\(([\d,]+) characters\)", shown.stdout)
        assert len(said) == 1 + (user in READ_AHEAD), shown.stdout + shown.stderr
        read = sum(int(number.replace(",", "")) for number in said)
        assert read == pytest.approx(characters_read(turns, slots), rel=0.02)
