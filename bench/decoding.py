"""CPU cost of one token on the way in: decoder, JSON, the backend's mapping; and all of it on a socket.

.venv/bin/python bench/decoding.py [events in one read ...]
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Middleware.config.endpoints import EndpointConfig
from Middleware.llmapis.handlers import impl
from Middleware.llmapis.handlers.backends import BACKENDS
from Middleware.llmapis.handlers.base.base_llm_api_handler import HandlerSettings
from Middleware.llmapis.wire.connections import AbortHandle
from Middleware.llmapis.wire.decoders import NdjsonDecoder, SseDecoder
from Middleware.llmapis.wire.http import Post, Transport

_ = impl

OPENAI = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m",'
    b'"choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}\n\n'
)
SHORT = (
    b'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"word and a"}}]}\n\n'
)
OLLAMA = b"%s\n" % (
    b'{"model":"m","created_at":"2026-01-01","message":{"role":"assistant","content":" word"},"done":false}'
)
KOBOLD = b'event: message\ndata: {"token": " word", "finish_reason": null}\n\n'
CLAUDE = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
    b'"delta":{"type":"text_delta","text":" word"}}\n\n'
)
DIALECTS = {
    "openAIChatCompletion": OPENAI,
    "ollamaApiChat": OLLAMA,
    "koboldCppGenerate": KOBOLD,
    "claudeMessages": CLAUDE,
}
EVENTS = 60_000


def best(run, rounds: int = 5) -> float:
    """CPU seconds of the fastest round."""
    times = []
    for _ in range(rounds):
        begun = time.process_time()
        run()
        times.append(time.process_time() - begun)
    return min(times)


def reader(kind: str):
    endpoint = EndpointConfig("e", {"endpoint": "http://h"}, "t", {"type": kind})
    return BACKENDS[kind](HandlerSettings(endpoint=endpoint, url="http://h", stream=True)).new_stream()


def feeding(make, event: bytes, size: int):
    data = event * size

    def run() -> None:
        feed = make().feed
        for _ in range(EVENTS // size):
            feed(data)

    return run


def over_a_socket(size: int) -> float:
    """CPU seconds for EVENTS OpenAI events in transfer chunks of one event, `size` of them in one send."""
    chunk = b"%x\r\n%s\r\n" % (len(OPENAI), OPENAI)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        peer, _ = listener.accept()
        received = b""
        while not received.endswith(b"\r\n\r\n{}"):
            received += peer.recv(65536)
        peer.sendall(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        for _ in range(EVENTS // size):
            peer.sendall(chunk * size)
        peer.sendall(b"0\r\n\r\n")
        peer.close()

    thread = threading.Thread(target=serve)
    thread.start()
    post = Post(f"http://127.0.0.1:{listener.getsockname()[1]}/", b"{}", {}, "e")
    answer = Transport().post(post, AbortHandle())
    stream = reader("openAIChatCompletion")
    begun = time.thread_time()
    count = sum(len(stream.feed(data)) for data in answer.read_pieces())
    spent = time.thread_time() - begun
    answer.close()
    thread.join()
    assert count == EVENTS // size * size
    return spent


def main() -> None:
    sizes = [int(argument) for argument in sys.argv[1:]] or [1, 5, 100]
    for size in sizes:
        print(f"--- {size} events in one read")
        for name, decoder, event in (
            ("SSE decoder, 100-byte events", SseDecoder, SHORT),
            ("NDJSON decoder, 100-byte events", NdjsonDecoder, SHORT[6:-1]),
        ):
            spent = best(feeding(decoder, event, size))
            rate = EVENTS * len(event) / spent / 1e6
            print(f"{name:36} {spent / EVENTS * 1e6:6.2f} us/event {rate:8.0f} MB/s")
        for kind, event in DIALECTS.items():
            spent = best(feeding(lambda kind=kind: reader(kind), event, size))
            print(f"{kind:36} {spent / EVENTS * 1e6:6.2f} us/token")
        print(f"{'socket to dict, OpenAI':36} {over_a_socket(size) / EVENTS * 1e6:6.2f} us/token")


if __name__ == "__main__":
    main()
