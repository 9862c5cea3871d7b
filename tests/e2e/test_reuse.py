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
from tests.patience import PATIENCE_S

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
}


@pytest.fixture(scope="module")
def server(launch):
    return launch(USERS)


def conversation():
    """A card, then turns of two; the newest message is the user's."""
    card = "You are Mara, a ferry captain. " + " ".join(f"fact{number}" for number in range(300))
    messages = [{"role": "system", "content": card}]
    for turn in range(TURNS):
        said = " ".join(f"word{turn * 31 + number}" for number in range(40))
        messages.append({"role": "user", "content": f"Turn {turn}: {said}"})
        messages.append({"role": "assistant", "content": f"Reply {turn}: {said[::-1]}"})
    return messages


def play(server, backend, user, messages):
    """The prompts of each turn, with what was answered."""
    backend.on(DRAFT, Reply(("[output of node 1]",)))
    turns = []
    for index in range(1, len(messages), 2):
        answer = messages[index + 1]["content"]
        backend.on(ANSWER, Reply((answer,)))
        before = len(backend.calls())
        status, body = server.post("/v1/chat/completions", {"model": user, "messages": messages[: index + 1]})
        assert status == 200, body
        assert json.loads(body)["choices"][0]["message"]["content"] == answer
        calls = backend.calls()[before:]
        turns.append(
            [(text_of(call), "[output of node 1]" if DRAFT in call.text else answer) for call in calls]
        )
    return turns


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
    """Within two of a hundred, with one prompt held and with two."""
    messages = conversation()
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
        said = re.search(r"\(([\d,]+) characters\) to be read", shown.stdout)
        assert said, shown.stdout + shown.stderr
        assert int(said[1].replace(",", "")) == pytest.approx(characters_read(turns, slots), rel=0.02)
