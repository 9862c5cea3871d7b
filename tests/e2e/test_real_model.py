"""A real model behind a real server: SmolLM2-135M in llama.cpp's HTTP server, asked through the official clients.

What it says is mostly nonsense, so nothing here depends on its words: thoughts are forced by a grammar, a tool call by
the beginning of an answer.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.answers import ROUTES, Route
from tests.e2e.conftest import Server, free_port
from tests.patience import PATIENCE_S

HOUSE = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.realmodel, pytest.mark.timeout(300)]

KEY = "sk-local-test"
SLOT_TOKENS = 2048
CHATML_WITH_THOUGHTS_AND_TOOLS = """\
{%- if tools %}<|im_start|>system
You may call functions. Tools:
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
Answer with <tool_call>
{"name": <name>, "arguments": <arguments>}
</tool_call><|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.reasoning_content %}<think>
{{ message.reasoning_content }}
</think>

{% endif %}{{ message.content or '' }}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and enable_thinking is false %}<think>

</think>

{% endif %}{% endif %}"""

THOUGHT_THEN_ANSWER = r'root ::= "<think>\n" [a-z ]{8,20} "\n</think>\n\n" [A-Z] [a-z]{8,20}'
FOREVER = {"ignore_eos": True, "temperature": 0}
LLAMA = {"apiTypeConfigFileName": "LlamaCppServer", "presetSamplers": {"temperature": 0}}
FLAT = {
    "apiTypeConfigFileName": "OpenAI-Compatible-Completions",
    "promptTemplate": "chatml",
    "addGenerationPrompt": True,
}
CLAUDE = {"apiTypeConfigFileName": "Claude", "presetSamplers": {"temperature": 0}}
TAGS = {"startThinkTag": "<think>", "endThinkTag": "</think>"}
DEAD = "http://127.0.0.1:9"

MESSAGES = [{"role": "user", "content": "Name a colour."}]
WEATHER = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "weather of a city",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        },
    }
]
BEGUN_CALL = [
    {"role": "user", "content": "Weather in Paris?"},
    {"role": "assistant", "content": '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Par'},
]


def node(**fields: Any) -> dict[str, Any]:
    """The one node of a workflow."""
    return {
        "title": "Answer",
        "type": "Standard",
        "endpointName": "Model",
        "systemPrompt": "You are a helpful assistant.",
        "maxResponseSizeInTokens": 24,
        "forceGenerationPromptIfEndpointAllows": True,
        **fields,
    }


def a_user(model: dict[str, Any], answer: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A user whose endpoint `Model` has these fields."""
    return {"workflows": {"Chat": [answer or node()]}, "endpoints": {"Model": model}, **more}


def users(url: str) -> dict[str, Any]:
    """One user for each thing that is looked at."""
    at = {
        "endpoint": url,
        "apiKey": KEY,
        "modelNameToSendToAPI": "smollm2",
        "maxContextTokenSize": SLOT_TOKENS,
    }
    llama = {**at, **LLAMA}
    long = node(maxResponseSizeInTokens=60)
    forced = {"temperature": 0, "grammar": THOUGHT_THEN_ANSWER}
    inline = {**forced, "reasoning_format": "none"}
    return {
        "chatty": a_user(llama),
        "flat": a_user({**at, **FLAT}),
        "anthropic": a_user({**at, **CLAUDE}),
        "thinker": a_user({**llama, "presetSamplers": forced, "reasoningOutput": "field"}, long),
        "tagged": a_user(
            {**llama, **TAGS, "removeThinking": True, "appendPresetName": "inline"},
            long,
            presets={"LlamaCppServer/inline": inline},
        ),
        # of a call that the conversation has begun, llama.cpp streams only the rest: whole answers are asked for whole
        "tooler": a_user(
            {**llama, "backendStream": "asRequested", "presetSamplers": {"temperature": 0}},
            node(allowTools=True, maxResponseSizeInTokens=40, systemPrompt=""),
        ),
        "endless": a_user({**llama, "presetSamplers": FOREVER}, node(maxResponseSizeInTokens=1500)),
        "rescued": {
            "workflows": {"Chat": [node()]},
            "endpoints": {
                "Model": {**llama, "endpoint": DEAD, "backupEndpointName": "Spare"},
                "Spare": llama,
            },
        },
        "locked": a_user({**llama, "apiKey": "wrong"}),
    }


@pytest.fixture(scope="module")
def model_url() -> str:
    pytest.importorskip("xllamacpp", reason='needs the extra: pip install -e ".[local-model]"')
    import run_local_model

    settings = {"chat_template": CHATML_WITH_THOUGHTS_AND_TOOLS, "api_keys": [KEY]}
    model = run_local_model.start_model_server(free_port(), **settings)
    globals()["_model"] = model  # lives as long as the process
    return str(model.listening_address)


@pytest.fixture(scope="module")
def house(model_url: str, launch: Any) -> Server:
    server: Server = launch(users(model_url), "--concurrency", "0")
    return server


@pytest.fixture
def openai_client(house: Server) -> Iterator[Any]:
    import openai

    with openai.OpenAI(base_url=f"{house.url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
def ollama_client(house: Server) -> Iterator[Any]:
    import ollama

    client = ollama.Client(host=house.url)
    yield client
    client._client.close()


BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
EVERY_SHAPE = pytest.mark.parametrize("user", ["chatty", "flat", "anthropic", "rescued"])


def looks_clean(text: str) -> bool:
    return bool(text.strip()) and text == text.lstrip() and "<|im_" not in text and "<think>" not in text


@EVERY_SHAPE
class TestOpenAiClient:
    """Messages, a flat prompt, Anthropic's route of llama.cpp, a backup of a dead endpoint: one face."""

    def test_chat_whole(self, openai_client: Any, user: str) -> None:
        """A typed answer with text, a true finish reason and real numbers."""
        answer = openai_client.chat.completions.create(model=user, messages=MESSAGES)
        assert looks_clean(answer.choices[0].message.content or "")
        assert answer.choices[0].finish_reason in ("stop", "length")
        assert answer.usage is not None and answer.usage.completion_tokens > 0

    def test_chat_streamed(self, openai_client: Any, user: str) -> None:
        """The pieces make one clean text; the last one says why it ended."""
        chunks = list(openai_client.chat.completions.create(model=user, messages=MESSAGES, stream=True))
        assert looks_clean("".join(c.choices[0].delta.content or "" for c in chunks if c.choices))
        assert chunks[-1].choices[0].finish_reason in ("stop", "length")

    @BOTH
    def test_completion(self, openai_client: Any, user: str, stream: bool) -> None:
        """The old text route as well."""
        answer = openai_client.completions.create(model=user, prompt="Name a colour.", stream=stream)
        parts = list(answer) if stream else [answer]
        assert looks_clean("".join(part.choices[0].text for part in parts))


@EVERY_SHAPE
@BOTH
class TestOllamaClient:
    def test_chat(self, ollama_client: Any, user: str, stream: bool) -> None:
        """An Ollama client sees an Ollama server."""
        answer = ollama_client.chat(model=user, messages=MESSAGES, stream=stream)
        parts = list(answer) if stream else [answer]
        assert looks_clean("".join(part.message.content or "" for part in parts))
        assert parts[-1].done and parts[-1].eval_count > 0

    def test_generate(self, ollama_client: Any, user: str, stream: bool) -> None:
        """And so does one that asks for a completion."""
        answer = ollama_client.generate(model=user, prompt="Name a colour.", stream=stream)
        parts = list(answer) if stream else [answer]
        assert looks_clean("".join(part.response for part in parts))
        assert parts[-1].done


class TestThoughts:
    """A grammar makes the model think."""

    @pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES)
    @pytest.mark.parametrize("user", ["thinker", "tagged"])
    def test_they_never_reach_the_text(self, house: Server, user: str, route: Route) -> None:
        """Neither those of a field of their own nor those between tags; streamed and whole say the same."""
        texts = []
        for stream in (False, True):
            status, body = house.post(route.path, route.ask(user, "Why?", stream=stream))
            assert status == 200
            texts.append(route.text(body, stream=stream))
        assert texts[0] == texts[1]
        assert looks_clean(texts[0]) and texts[0][0].isupper()

    def test_they_are_told_beside_the_text_where_that_is_wanted(self, house: Server) -> None:
        """`reasoningOutput: field`."""
        body = {"model": "thinker", "messages": MESSAGES}
        message = json.loads(house.post("/v1/chat/completions", body)[1])["choices"][0]["message"]
        assert message["reasoning_content"].strip()
        assert (
            "reasoning_content"
            not in json.loads(house.post("/v1/chat/completions", {**body, "model": "tagged"})[1])["choices"][
                0
            ]["message"]
        )


class TestToolCalls:
    """An answer that has begun as a call is finished as one."""

    def test_openai(self, openai_client: Any) -> None:
        """With an id, a name, and arguments that are JSON; the finish reason says so."""
        answer = openai_client.chat.completions.create(model="tooler", messages=BEGUN_CALL, tools=WEATHER)
        [call] = answer.choices[0].message.tool_calls
        assert call.id and call.function.name == "get_weather"
        assert "city" in json.loads(call.function.arguments)
        assert answer.choices[0].finish_reason == "tool_calls"

    def test_ollama(self, ollama_client: Any) -> None:
        """Arguments are an object there; of a call that ran into the limit nothing is left."""
        answer = ollama_client.chat(model="tooler", messages=BEGUN_CALL, tools=WEATHER, stream=False)
        calls = answer.message.tool_calls or []
        is_whole = [isinstance(call.function.arguments, dict) for call in calls] == [True]
        assert is_whole or (answer.done_reason == "length" and not calls)

    def test_a_stream_that_holds_only_the_rest_of_a_call(self, house: Server) -> None:
        """What is there is not JSON: the stream ends with an error, because an agent runs what it is given."""
        body = {"model": "tooler", "messages": BEGUN_CALL, "tools": WEATHER, "stream": True}
        _, text = house.post("/v1/chat/completions", body)
        assert b"not a JSON object: get_weather" in text and b'"finish_reason":"tool_calls"' not in text


@BOTH
class TestFailures:
    def test_a_prompt_that_is_too_long(self, house: Server, stream: bool) -> None:
        """The code that clients know, also before a stream."""
        prompt = [{"role": "user", "content": "one two three " * SLOT_TOKENS}]
        status, body = house.post(
            "/v1/chat/completions", {"model": "chatty", "messages": prompt, "stream": stream}
        )
        assert status == 400
        assert json.loads(body)["error"]["code"] == "context_length_exceeded"

    def test_a_wrong_key(self, house: Server, stream: bool) -> None:
        """A failure of the backend; the key is not in it."""
        status, body = house.post(
            "/v1/chat/completions", {"model": "locked", "messages": MESSAGES, "stream": stream}
        )
        assert status == 502
        assert "wrong" not in json.loads(body)["error"]["message"]


class TestHangUp:
    @pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/chat"])
    def test_the_model_stops_when_its_reader_has_gone(
        self, house: Server, busy: Callable[[], bool], path: str
    ) -> None:
        """Soon after, and long before it would have ended."""
        connection, answer = house.open_stream(path, {"model": "endless", "messages": MESSAGES})
        answer.read(200)
        assert busy()
        answer.close()
        connection.close()
        until = time.monotonic() + PATIENCE_S
        while busy() and time.monotonic() < until:
            time.sleep(0.05)
        assert not busy()

    @pytest.fixture
    def busy(self, model_url: str) -> Callable[[], bool]:
        """Whether a slot of the model works."""

        def ask() -> bool:
            request = urllib.request.Request(f"{model_url}/slots", headers={"Authorization": f"Bearer {KEY}"})
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return any(slot["is_processing"] for slot in json.load(answer))

        return ask


class TestDoctor:
    @pytest.mark.parametrize(
        ("user", "status", "told"),
        [
            ("chatty", 0, 'model "smollm2" known, streaming works'),
            ("flat", 0, 'model "smollm2" known, streaming works'),
            ("anthropic", 0, 'model "smollm2" answers, streaming works'),
            ("rescued", 1, "start the server"),
            ("locked", 1, "it rejects this key"),
        ],
    )
    def test_it_sees_the_model(self, house: Server, user: str, status: int, told: str) -> None:
        """Through each kind of endpoint."""
        command = [
            sys.executable,
            "server.py",
            "--doctor",
            "--PublicDirectory",
            str(house.public),
            "--User",
            user,
        ]
        done = subprocess.run(
            command, cwd=HOUSE, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert (done.returncode, told in done.stdout) == (status, True), done.stdout + done.stderr
