"""What each kind of backend says of a prompt that it still held: one answer, whole and streamed, and its usage.

llama.cpp's are raw captures (`fixtures/captures`), the others have the form of the programs' own references. The same
answers are read by the handler alone and by a whole server. Source: prompt-reuse.md 3.1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CAPTURES = Path(__file__).parent / "fixtures" / "captures"
OPENAI, TEXT, CLAUDE = "openAIChatCompletion", "openAIV1Completion", "claudeMessages"
CHAT_PATH, TEXT_PATH = "/v1/chat/completions", "/v1/completions"


@dataclass(frozen=True)
class CacheAnswer:
    """`usage`: the standard object that both forms mean. `paths`: where the whole one and the stream are asked for."""

    type: str
    paths: tuple[str, str]
    whole: bytes
    stream: bytes
    usage: Mapping[str, Any] | None
    stream_usage: Mapping[str, Any] | None = None
    media: str = "text/event-stream"

    def usage_of(self, *, stream: bool) -> dict[str, Any] | None:
        """The two forms of a capture are two runs: their numbers may differ."""
        told = self.stream_usage if stream and self.stream_usage is not None else self.usage
        return None if told is None else dict(told)


def sse(*events: Any, named: bool = False, end: str = "") -> bytes:
    def framed(event: Any) -> str:
        name = f"event: {event['type']}\n" if named else ""
        return f"{name}data: {json.dumps(event)}\n\n"

    return ("".join(map(framed, events)) + end).encode()


def counted(prompt: int, completion: int, **more: Any) -> dict[str, Any]:
    counts = {"prompt_tokens": prompt, "completion_tokens": completion}
    return {**counts, "total_tokens": prompt + completion, **more}


def timed(prompt: int, held: int, prompt_ms: float, completion_ms: float) -> dict[str, Any]:
    """What llama.cpp reported of an answer of 8 tokens, as the standard has it."""
    times = {
        "prompt_duration_ns": round(prompt_ms * 1e6),
        "completion_duration_ns": round(completion_ms * 1e6),
    }
    return counted(prompt, 8, cached_tokens=held, **times)


def openai(usage: Any, told: Mapping[str, Any]) -> CacheAnswer:
    message = {"role": "assistant", "content": "Hi"}
    whole = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}
    stream = sse(
        {"choices": [{"index": 0, "delta": message, "finish_reason": None}], "usage": None},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": None},
        {"choices": [], "usage": usage},
        end="data: [DONE]\n\n",
    )
    return CacheAnswer(OPENAI, (CHAT_PATH, CHAT_PATH), json.dumps(whole).encode(), stream, told)


def ollama(kind: str, path: str, said: Mapping[str, Any], nothing: Mapping[str, Any]) -> CacheAnswer:
    ending = {
        "done": True,
        "done_reason": "stop",
        "total_duration": 700_000_000,
        "load_duration": 1_000_000,
        "prompt_eval_count": 300,
        "prompt_eval_cached_count": 290,
        "prompt_eval_duration": 250_000_000,
        "eval_count": 2,
        "eval_duration": 40_000_000,
    }
    lines = [{"model": "m", **said, "done": False}, {"model": "m", **nothing, **ending}]
    stream = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
    whole = json.dumps({"model": "m", **said, **ending}).encode()
    times = {"prompt_duration_ns": 250_000_000, "completion_duration_ns": 40_000_000}
    told = counted(300, 2, cached_tokens=290, **times)
    return CacheAnswer(kind, (path, path), whole, stream, told, media="application/x-ndjson")


def claude(opening: Mapping[str, Any], ending: Mapping[str, Any], told: Mapping[str, Any]) -> CacheAnswer:
    """`opening`: the usage of `message_start`; `ending`: that of `message_delta`."""
    block = {"type": "text", "text": "Hi"}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude"}
    stream = sse(
        {"type": "message_start", "message": {**head, "content": [], "usage": opening}},
        {"type": "content_block_start", "index": 0, "content_block": {**block, "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": ending},
        {"type": "message_stop"},
        named=True,
    )
    usage = {**opening, "output_tokens": ending["output_tokens"]}
    whole = json.dumps({**head, "content": [block], "stop_reason": "end_turn", "usage": usage}).encode()
    return CacheAnswer(CLAUDE, ("/v1/messages", "/v1/messages"), whole, stream, told)


def capture(kind: str, path: str, names: tuple[str, str], *told: Mapping[str, Any]) -> CacheAnswer:
    whole, stream = ((CAPTURES / "llamacpp" / f"{name}.txt").read_bytes() for name in names)
    return CacheAnswer(kind, (path, path), whole, stream, told[0], told[1])


def captured_chat(stream: str, told: Mapping[str, Any]) -> CacheAnswer:
    """The whole answer of `chat`, and one of its streams."""
    return capture(OPENAI, CHAT_PATH, ("chat", stream), timed(32, 24, 49.422, 91.374), told)


CACHE_ANSWERS = {
    "openai": openai(
        counted(
            900,
            2,
            prompt_tokens_details={"cached_tokens": 850, "cache_write_tokens": 40, "audio_tokens": 0},
        ),
        counted(900, 2, cached_tokens=850, cache_write_tokens=40),
    ),
    "openai-nothing-held": openai(
        {"prompt_tokens": 900, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 0}},
        counted(900, 2, cached_tokens=0),
    ),
    "vllm-not-asked-to-say": openai(counted(900, 2, prompt_tokens_details=None), counted(900, 2)),
    "sglang-not-asked-to-say": openai(
        counted(900, 2, prompt_tokens_details={"cached_tokens": None}), counted(900, 2)
    ),
    "deepseek": openai(
        counted(100, 2, prompt_cache_hit_tokens=64, prompt_cache_miss_tokens=36),
        counted(100, 2, cached_tokens=64),
    ),
    "responses-spelling": openai(
        {
            "input_tokens": 900,
            "output_tokens": 2,
            "total_tokens": 902,
            "input_tokens_details": {"cached_tokens": 850},
        },
        counted(900, 2, cached_tokens=850),
    ),
    "llama.cpp": captured_chat("chat_stream_usage", timed(32, 31, 11.976, 78.921)),
    "llama.cpp-timings-alone": captured_chat("chat_stream", timed(32, 31, 10.904, 243.981)),
    "llama.cpp-text": capture(
        TEXT,
        TEXT_PATH,
        ("completions", "completions_stream"),
        timed(4, 0, 31.903, 91.293),
        timed(4, 3, 17.226, 80.342),
    ),
    "ollama-chat": ollama(
        "ollamaApiChat",
        "/api/chat",
        {"message": {"role": "assistant", "content": "Hi"}},
        {"message": {"role": "assistant", "content": ""}},
    ),
    "ollama-generate": ollama("ollamaApiGenerate", "/api/generate", {"response": "Hi"}, {"response": ""}),
    "claude": claude(
        {
            "input_tokens": 50,
            "cache_read_input_tokens": 800,
            "cache_creation_input_tokens": 60,
            "output_tokens": 1,
        },
        {
            "input_tokens": None,
            "cache_read_input_tokens": None,
            "cache_creation_input_tokens": None,
            "output_tokens": 2,
        },
        counted(910, 2, cached_tokens=800, cache_write_tokens=60),
    ),
    "claude-nothing-held": claude(
        {"input_tokens": 50, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0},
        {"output_tokens": 2},
        counted(50, 2, cached_tokens=0, cache_write_tokens=0),
    ),
    "koboldcpp": CacheAnswer(
        "koboldCppGenerate",
        ("/api/v1/generate", "/api/extra/generate/stream"),
        json.dumps({"results": [{"text": "Hi", "finish_reason": "stop"}]}).encode(),
        b'event: message\ndata: {"token": "Hi", "finish_reason": "stop"}\n\n',
        None,
    ),
}
