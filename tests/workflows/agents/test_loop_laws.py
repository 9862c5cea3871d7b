"""Laws of the loop over random scripts of steps, calls and failures: agents.md 11, row 3."""

from __future__ import annotations

import itertools
import json
import random
import threading
from typing import Any

import pytest

from Middleware.common.errors import RequestCancelled
from Middleware.services.cancellation_service import cancellation_service
from Middleware.workflows.agents.calling import ANSWER_NOW
from tests.patience import wait_until
from tests.workflows.agents.conftest import FORGOTTEN_AT_LAST, PATH, READ, Bench, asks, call, raw_call

BREAK = {"workflow": "Break", "name": "break_it", "description": "Fails", "parameters": PATH}
TEXTS = ("", "t", " a\n", "\n\nb ", "<think>x</think>y", "<think>z</think>", "{agent1Output}")
SHOW = {"type": "StaticResponse", "content": "{agent1Output}\0{agent1ToolCalls}"}


def random_call(rng: random.Random, number: str) -> dict[str, Any]:
    kind = rng.randrange(7)
    if kind == 0:
        return call("unknown", f"c{number}")
    if kind == 1:
        return raw_call("read_file", '{"path": "a', f"c{number}")
    if kind == 2:
        return call("break_it", f"c{number}", path="a")
    if kind == 3:
        return call("read_file", f"c{number}", path=7)
    return call("read_file", rng.choice([f"c{number}", "same", ""]), path=rng.choice("abc"))


def random_script(rng: random.Random) -> list[Any]:
    steps: list[Any] = []
    for number in range(rng.randrange(5)):
        calls = [random_call(rng, f"{number}_{at}") for at in range(rng.randrange(1, 4))]
        steps.append(asks(*calls, text=rng.choice(TEXTS)))
    return [*steps, rng.choice(TEXTS), rng.choice(TEXTS), rng.choice(TEXTS)]


def random_fields(rng: random.Random) -> dict[str, Any]:
    return {
        "agentTools": [READ, BREAK],
        "maxSteps": rng.randrange(1, 6),
        "maxToolCalls": rng.randrange(1, 7),
        "maxParallelToolCalls": rng.randrange(1, 5),
        "stepText": rng.choice(["answer", "thinking"]),
    }


@pytest.fixture
def benches(house):
    house.endpoint("chat", removeThinking=True, startThinkTag="<think>", endThinkTag="</think>")
    both = Bench(house, stream=False), Bench(house, stream=True)
    house.workflow("Break", {"type": "Standard", "endpointName": "nowhere", "prompt": "x"})
    yield both
    for marked in FORGOTTEN_AT_LAST:
        marked.forget_all()


def threads_of_tools() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("tool ")]


def check_turns(turns: list[dict[str, Any]]) -> None:
    """Each call has one result, right behind its turn, in the order of the calls."""
    at = 0
    seen: set[str] = set()
    while at < len(turns):
        ids = [made["id"] for made in turns[at]["tool_calls"]]
        results = turns[at + 1 : at + 1 + len(ids)]
        assert [result["tool_call_id"] for result in results] == ids
        assert all(result["content"] for result in results)
        assert not seen & set(ids) and len(set(ids)) == len(ids)
        for made in turns[at]["tool_calls"]:
            assert isinstance(json.loads(made["function"]["arguments"]), dict)
        seen.update(ids)
        at += 1 + len(ids)


def without_the_demand(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The turns without what the last call adds to the newest result."""
    bare = [dict(turn) for turn in turns]
    for turn in bare:
        turn["content"] = turn["content"].removesuffix(f"\n\n{ANSWER_NOW}")
    return bare


@pytest.mark.parametrize("hundred", range(10))
def test_laws(benches, hundred):
    """Bounds hold, results are in order, prompts grow at their end alone, whole is as streamed, nothing is left."""
    for seed in range(hundred * 100, hundred * 100 + 100):
        told = []
        for bench in benches:
            rng = random.Random(seed)
            script, fields = random_script(rng), random_fields(rng)
            answer = bench.ask(*script, **fields)
            check_one(bench, fields)
            told.append((answer.text, answer.finish_reason, answer.tool_calls, [len(t) for t in bench.sent]))
        assert told[0] == told[1], f"seed {seed}"
        inner = benches[0].ask(*script, after=[SHOW], **fields)
        text, _, calls = inner.text.partition("\0")
        assert text == told[0][0], f"seed {seed}"
        made = [c for c in json.loads(calls) if not c["failed"] or c["result"].startswith("error: endpoint")]
        assert len(made) <= fields["maxToolCalls"]
    assert wait_until(lambda: not threads_of_tools(), said=lambda: str(threads_of_tools()))


def check_one(bench: Bench, fields: dict[str, Any]) -> None:
    sent = [without_the_demand(turns) for turns in bench.sent]
    assert len(sent) <= fields["maxSteps"] + 2
    for turns in bench.sent:
        check_turns(turns)
    for before, after in itertools.pairwise(sent):
        assert [{**t, "content": ""} for t in after[: len(before)]] == [{**t, "content": ""} for t in before]
        assert after[: len(before)] == before
    conversations = [asked.conversation for asked in bench.model.calls]
    assert all(one == conversations[0] for one in conversations)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_cancellation_at_any_call_ends_it(house, stream):
    """Whichever call of the model it comes with; nothing is asked after it, and nothing is left."""
    bench = Bench(house, stream=stream)
    for seed in range(60):
        rng = random.Random(seed)
        script, fields = random_script(rng), {**random_fields(rng), "agentTools": [READ]}
        at = rng.randrange(len(script))

        def cancelling(reply: Any) -> Any:
            def answer(call: Any) -> Any:
                cancellation_service.request_cancellation("r1")
                return reply

            return answer

        script[at] = cancelling(script[at])
        try:
            bench.ask(*script, **fields)
        except RequestCancelled:
            assert len(bench.model.calls) == at + 1
        finally:
            cancellation_service.acknowledge_cancellation("r1")
    assert wait_until(lambda: not threads_of_tools(), said=lambda: str(threads_of_tools()))
    assert not cancellation_service._callbacks
