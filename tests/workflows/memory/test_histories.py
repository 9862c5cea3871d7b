"""Whatever becomes of a conversation: nothing is remembered twice, nothing is lost, the order is kept.

Memories here are the texts that they are made of, one a line, condensed ones too: what the file holds can be
compared with the conversation. Source: spec memory.md 18.2 (18, 26).
"""

from __future__ import annotations

import random
import threading
from collections import Counter

import pytest

from Middleware.services.discussion_store import ChunkList
from Middleware.workflows.memory.file_writer import write_file_memories
from Middleware.workflows.memory.settings import SettingsFile

LOOKBACK, MOST = 3, 4
PLAIN = {
    "endpointName": "e",
    "prompt": "[TextChunk]",
    "chunkEstimatedTokenSize": 40,
    "maxMessagesBetweenChunks": MOST,
    "lookbackStartTurn": LOOKBACK,
}
CONDENSED = {
    **PLAIN,
    "condenseMemories": True,
    "memoriesBeforeCondensation": 3,
    "memoryCondensationBuffer": 1,
    "condenseMemoriesPrompt": "[MemoriesToCondense]",
}
LINE = "\n--------------\n"
REPEATED = ("continue", "ok", "go on")


class Talk:
    """One discussion on the bench. `request`: the messages of a request, whose memories are made."""

    def __init__(self, bench, settings):
        self.bench, self.settings = bench, SettingsFile("Memory", settings)
        bench.engine.reply = lambda call: call.prompt.replace(LINE, "\n")
        self.store = bench.store
        ChunkList(self.store, "memories.json").open()

    def request(self, texts):
        self.bench.messages = [
            {"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)
        ]
        write_file_memories(self.bench.context("QualityMemory"), self.store, self.settings)

    @property
    def remembered(self):
        """The messages in the order in which they were remembered."""
        entries = ChunkList(self.store, "memories.json").load()
        return [line for entry in entries for line in entry.text.split("\n")]


@pytest.fixture(params=[PLAIN, CONDENSED], ids=["plain", "condensed"])
def discussion(request, bench):
    return Talk(bench, request.param)


@pytest.mark.parametrize("most", [4, 5])
@pytest.mark.parametrize("lookback", [2, 3])
def test_a_chat_that_says_the_same_again_is_remembered_as_any_other(bench, lookback, most):
    """58 messages, turn by turn; every message of the user is `continue`."""
    talk = Talk(bench, {**PLAIN, "lookbackStartTurn": lookback, "maxMessagesBetweenChunks": most})
    texts = []
    for turn in range(29):
        texts += ["continue", f"part {turn}"]
        talk.request(texts[:-1])
    assert talk.remembered == texts[: len(talk.remembered)]
    assert len(talk.remembered) > 57 - lookback - most
    assert len(ChunkList(talk.store, "memories.json").load()) >= len(talk.remembered) // (most + 1)


@pytest.mark.parametrize("step", [2, 18])
def test_a_history_that_is_shorter_for_once_makes_nothing_twice(discussion, step):
    """58 messages, one request with six fewer, then 64."""
    texts = [f"word {i}" for i in range(64)]
    for count in (*range(4, 59, step), 58, 52, 60, 62, 64):
        discussion.request(texts[:count])
    assert discussion.remembered == texts[: len(discussion.remembered)]
    assert len(discussion.remembered) > 64 - LOOKBACK - MOST


@pytest.mark.parametrize("seed", range(8))
def test_requests_in_any_order(discussion, seed):
    """Parallel requests get their turn in any order; some are given up, some come twice, many texts are equal."""
    chance = random.Random(seed)
    texts = [
        chance.choice(REPEATED) if chance.random() < 0.4 else f"a{i}" for i in range(chance.randint(40, 90))
    ]
    counts = [count for count in range(3, len(texts) + 1) if chance.random() < 0.7]
    while counts:
        at = chance.randrange(min(8, len(counts)))
        discussion.request(texts[: counts[at] if chance.random() < 0.1 else counts.pop(at)])
    discussion.request(texts)
    assert discussion.remembered == texts[: len(discussion.remembered)]
    assert len(discussion.remembered) > len(texts) - LOOKBACK - MOST


class Turns:
    """Random turns of one conversation: mostly it goes on, sometimes it changes. Most messages stand only once."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.fresh = (f"a{i}" for i in range(10_000))
        self.edited = set()

    def on(self, texts):
        asked = self.chance.choice(REPEATED) if self.chance.random() < 0.5 else next(self.fresh)
        return [*texts, asked, next(self.fresh)]

    def cut(self, texts):
        """The last messages are taken back."""
        return texts[: max(2, len(texts) - self.chance.randint(1, 12))]

    def edit(self, texts):
        at = self.chance.randrange(len(texts))
        self.edited.add(new := next(self.fresh))
        return [*texts[:at], new, *texts[at + 1 :]]

    def delete(self, texts):
        first = self.chance.randrange(max(1, len(texts) - 4))
        return texts[:first] + texts[first + self.chance.randint(1, 4) :]

    def newest(self, texts):
        """What a front end sends that leaves the older messages out."""
        return texts[-30:] if self.chance.random() < 0.1 else texts


def judged(remembered, texts, edited=()):
    """What was remembered twice, what was lost, and whether the order is that of the conversation."""
    places = {text: place for place, text in enumerate(texts)}
    single = [text for text in remembered if text not in REPEATED]
    twice = [text for text, count in Counter(single).items() if count > 1]
    old_enough = {*texts[: len(texts) - LOOKBACK - MOST]}
    order = [places[text] for text in single if text in places]
    return twice, old_enough - {*single} - {*edited} - {*REPEATED}, order == sorted(order)


@pytest.mark.parametrize("seed", range(10))
def test_messages_are_edited_deleted_and_left_out(discussion, seed):
    """An edited message that was remembered already is not remembered again."""
    turns = Turns(seed)
    texts = turns.on([])
    for _ in range(50):
        change = turns.chance.choices((turns.on, turns.cut, turns.edit, turns.delete), (14, 1, 1, 1))[0]
        texts = change(texts) or turns.on([])
        discussion.request(turns.newest(texts))
    for _ in range(6):
        discussion.request(texts := turns.on(texts))
    assert judged(discussion.remembered, texts, turns.edited) == ([], set(), True)


@pytest.mark.parametrize("seed", [*range(10), 1049])
def test_a_conversation_that_branches(discussion, seed):
    """One goes back, goes on otherwise, and returns to an older branch."""
    turns = Turns(seed)
    texts = turns.on([])
    branches = []
    for _ in range(50):
        change = turns.chance.choices(("on", "cut", "return"), (14, 1, 1))[0]
        if change == "cut":
            branches.append(texts)
            texts = turns.cut(texts)
        elif change == "return" and branches:
            texts = turns.chance.choice(branches)
        else:
            texts = turns.on(texts)
        discussion.request(texts)
    for _ in range(6):
        discussion.request(texts := turns.on(texts))
    twice, lost, _ = judged(discussion.remembered, texts)
    assert (twice, lost) == ([], set())


def test_a_slow_model_and_many_clients(discussion, bench):
    """Four clients send one growing conversation; each call of the model lets the others go on first."""
    texts = [chance if i % 2 == 0 else f"a{i}" for i, chance in enumerate(REPEATED * 10)]
    contexts = []
    for count in range(3, len(texts) + 1):
        bench.messages = [{"role": "user", "content": text} for text in texts[:count]]
        contexts.append(bench.context("QualityMemory"))
    begun = threading.Semaphore(0)
    answer = bench.engine.reply

    def slow(call):
        begun.acquire(timeout=0.02)
        return answer(call)

    bench.engine.reply = slow

    def client(number):
        for context in contexts[number::4]:
            begun.release()
            write_file_memories(context, discussion.store, discussion.settings)

    clients = [threading.Thread(target=client, args=(number,)) for number in range(4)]
    for each in clients:
        each.start()
    for each in clients:
        each.join()
    discussion.request(texts)
    assert discussion.remembered == texts[: len(discussion.remembered)]
    assert len(discussion.remembered) > len(texts) - LOOKBACK - MOST
