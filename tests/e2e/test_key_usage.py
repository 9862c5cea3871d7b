"""What stands in a key's day, to the token: left streams, nodes behind the answer, embeddings (keys.md 9, row 8)."""

from __future__ import annotations

import http.client
import json

import pytest

from Middleware.config.key_file import digest_of
from Middleware.utilities.text_utils import estimate_tokens
from tests.e2e.conftest import NODE, write
from tests.e2e.fake_backend import Reply
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.e2e

DAY = 1_000_000
COUNTS = {"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29}
USERS = {
    "ann": {
        "user": {"embeddingsEndpoint": "Vectors"},
        "endpoints": {"Vectors": {"apiTypeConfigFileName": "OpenAI-Embeddings"}},
    },
    "after": {
        "workflows": {
            "Chat": [
                {**NODE, "returnToUser": True},
                {**NODE, "title": "Remember", "systemPrompt": "behind the answer"},
            ]
        }
    },
}


@pytest.fixture(scope="module")
def server(launch, tmp_path_factory):
    """Each test has a key of its own, so that it knows the whole day."""
    file = tmp_path_factory.mktemp("keys") / "Keys.json"
    names = ("whole", "left", "behind", "vectors", "task", "broken", "half", "other")
    limits = {"tokensPerDay": DAY}
    entries = [{"name": n, "sha256": digest_of(n), "users": ["*"], "limits": limits} for n in names]
    write(file, {"keys": entries})
    file.chmod(0o600)
    return launch(USERS, "--keys-file", str(file))


@pytest.fixture
def post(server):
    """`post(name, body, path)`: the connection and the answer, to be read or left."""
    connections = []

    def send(name, body, path="/v1/chat/completions", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
        connections.append(connection)
        known = {"Content-Type": "application/json", "Authorization": f"Bearer {name}", **headers}
        connection.request("POST", path, json.dumps(body), known)
        return connection, connection.getresponse()

    yield send
    for connection in connections:
        connection.close()


@pytest.fixture
def used(post):
    """`used(name)`: what the key has used of its day. The question for it is refused and uses nothing."""

    def ask(name):
        _, answer = post(name, {"model": "nobody", "messages": chat("x")})
        assert answer.status == 404
        answer.read()
        return DAY - int(answer.getheader("x-ratelimit-remaining-tokens"))

    return ask


def chat(text):
    return [{"role": "user", "content": text}]


def test_a_whole_answer(backend, post, used):
    """As the backend reports it."""
    backend.on("usage whole", Reply(["ok"], counts=COUNTS))
    _, answer = post("whole", {"model": "ann", "messages": chat("usage whole")})
    assert answer.status == 200 and answer.read()
    assert used("whole") == 29
    assert used("other") == 0


@pytest.mark.parametrize("counts", [{"completion_tokens": -1}, {"prompt_tokens": 2**60}], ids=["-1", "huge"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_half_of_the_numbers(backend, post, used, counts, stream):
    """A number that cannot be one is not told, and estimated: it does not count as nothing."""
    text = f"usage half {next(iter(counts))} {stream}"
    before = used("half")
    backend.on(text, Reply(["Once upon a time"], counts={**COUNTS, **counts}))
    _, answer = post("half", {"model": "ann", "messages": chat(text), "stream": stream})
    assert answer.status == 200 and answer.read()
    prompt = estimate_tokens(text) if "prompt_tokens" in counts else COUNTS["prompt_tokens"]
    written = (
        estimate_tokens("Once upon a time") if "completion_tokens" in counts else COUNTS["completion_tokens"]
    )
    wait_until(lambda: used("half") == before + prompt + written, said=lambda: str(used("half") - before))


def test_a_stream_that_is_left_in_the_middle(backend, post, used):
    """The prompt, and what had come, as estimated."""
    prompt = "usage left " + "word " * 40
    backend.on("usage left", Reply(["Once upon a time ", "there was "], hangs=True))
    connection, answer = post("left", {"model": "ann", "messages": chat(prompt), "stream": True})
    assert any(b"there was" in line for line in answer)
    answer.close()
    connection.close()
    expected = estimate_tokens(prompt.strip()) + estimate_tokens("Once upon a time there was ")
    wait_until(lambda: used("left") == expected, said=lambda: f"{used('left')}, not {expected}")


def test_a_node_behind_the_answer(backend, post, used):
    """Both calls."""
    backend.on("usage behind", Reply(["ok"], counts=COUNTS))
    _, answer = post("behind", {"model": "after", "messages": chat("usage behind")})
    assert answer.status == 200 and answer.read()
    wait_until(lambda: used("behind") == 58, said=lambda: str(used("behind")))


def test_embeddings(post, used):
    """What goes in; nothing comes out."""
    texts = ["a text to embed", "another one"]
    _, answer = post("vectors", {"model": "ann", "input": texts}, "/v1/embeddings")
    assert answer.status == 200 and answer.read()
    assert used("vectors") == estimate_tokens(" ".join(texts))


def test_a_task_of_a_front_end(backend, post, used):
    backend.on("usage task", Reply(["ok"], counts=COUNTS))
    body = {"model": "ann", "messages": chat("usage task")}
    _, answer = post("task", body, **{"X-OpenWebUI-Task": "title_generation"})
    assert answer.status == 200 and answer.read()
    assert used("task") == 29


def test_an_answer_that_the_backend_breaks_off(backend, post, used):
    """What had come is counted; tries that gave nothing are not."""
    backend.on("usage broken", Reply(["Once upon a time ", "there was"], dies_after=1))
    _, answer = post("broken", {"model": "ann", "messages": chat("usage broken"), "stream": True})
    answer.read()
    expected = estimate_tokens("usage broken") + estimate_tokens("Once upon a time ")
    wait_until(lambda: used("broken") == expected, said=lambda: f"{used('broken')}, not {expected}")
