"""Marks and keys for paid services, from a client's request to what the service is sent (prompt-reuse.md 5)."""

from __future__ import annotations

import json

import pytest

from tests.cache_answers import CACHE_ANSWERS
from tests.workflows.served.conftest import body_saying

MARK = {"type": "ephemeral"}


@pytest.fixture
def paid(house, site, served):
    """`paid(type, node, **fields)`: the endpoint `paid` of that type; the workflow is one node that sends the
    conversation."""
    site.pages["/v1/messages"] = (200, {"Content-Type": "application/json"}, CACHE_ANSWERS["claude"].whole)
    site.pages["/v1/chat/completions"] = body_saying("Hi")

    def write(kind, node, **fields):
        named = {"promptCacheKeyPropertyName": "prompt_cache_key"}
        house.write("ApiTypes/Paid", {"type": kind, "presetType": "any", **named})
        house.endpoint("paid", endpoint=site.url("").rstrip("/"), apiTypeConfigFileName="Paid", **fields)
        window = {"lastMessagesToSendInsteadOfPrompt": 20}
        house.workflow(
            "Main", {"type": "Standard", "title": "Answer", "endpointName": "paid", **window, **node}
        )
        served.save_user()

    return write


def sent(served, site, *messages):
    """The body of the call that one request leads to."""
    reply = served.app.test_client().post("/v1/chat/completions", json={"model": "ana", "messages": messages})
    assert reply.status_code == 200, reply.get_data()
    reply.close()
    return json.loads(site.seen[-1].body)


def said(role, content):
    return {"role": role, "content": content}


class TestMarks:
    def test_what_a_turn_writes_the_next_one_finds(self, served, site, paid):
        """Up to the mark the two begin alike, block by block; the late text of the first is gone."""
        paid("claudeMessages", {"systemPrompt": "S", "latePrompt": "late"}, promptCaching="5m")
        first = sent(served, site, said("user", "A"))
        then = sent(served, site, said("user", "A"), said("assistant", "B"), said("user", "C"))
        assert first["system"] == then["system"] == [{"type": "text", "text": "S", "cache_control": MARK}]
        [marked, late] = first["messages"][0]["content"]
        assert marked == {"type": "text", "text": "A", "cache_control": MARK} and late["text"] == "late"
        assert then["messages"][0] == said("user", marked["text"])
        assert then["messages"][-1]["content"][0] == {"type": "text", "text": "C", "cache_control": MARK}

    @pytest.mark.parametrize("place", ["before", "system"])
    def test_a_late_text_at_another_place(self, served, site, paid, place):
        """Claude would lift a system message to the front: both stand before the user's words."""
        node = {"latePrompt": "late", "latePromptPlace": place}
        paid("claudeMessages", node, promptCaching="5m")
        body = sent(served, site, said("user", "A"), said("assistant", "B"), said("user", "C"))
        assert body["messages"][1]["content"] == [{"type": "text", "text": "B", "cache_control": MARK}]
        assert body["messages"][2] == said("user", "late\n\nC")


class TestKeys:
    def key(self, served, site, text):
        return sent(served, site, said("user", text))["prompt_cache_key"]

    def test_of_a_discussion(self, served, site, paid):
        """The same in each turn of a chat, another one in another chat."""
        paid("openAIChatCompletion", {"systemPrompt": "S"}, promptCacheKey=True)
        mine = [self.key(served, site, f"[DiscussionId]one[/DiscussionId]{words}") for words in ("A", "B")]
        assert mine[0] == mine[1] != self.key(served, site, "[DiscussionId]two[/DiscussionId]A")

    def test_without_a_discussion(self, served, site, paid):
        """Chats with one system prompt share it."""
        paid("openAIChatCompletion", {"systemPrompt": "S"}, promptCacheKey=True)
        assert self.key(served, site, "A") == self.key(served, site, "B")
