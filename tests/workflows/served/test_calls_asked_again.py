"""One call of a run, made once more: by its endpoint's own handler, edited or not. Source: spec workbench.md 3, 11
(row 5)."""

from __future__ import annotations

import json

import pytest

from tests.workflows.served.test_runs_again import Again, say

NOT_THE_SAME = "This call can't be made again exactly"


@pytest.fixture
def served(house):
    return Again(house)


def ask(title, endpoint="big", **fields):
    return {"type": "Standard", "endpointName": endpoint, "title": title, **fields}


@pytest.fixture
def asked(served, house, big, site):
    """`asked(**node)`: a run of one node that asks `big`, and the body that was sent."""

    def run(text="Hi", **node):
        house.workflow(
            "Main", say("first", "First"), ask("Answer", **{"lastMessagesToSendInsteadOfPrompt": 5, **node})
        )
        served.save_user()
        served.ask(text=text)
        return served.newest(), site.seen[-1].body

    return run


def again(served, at, status=200, **edits):
    told, text = served.post("ask", {"run": at["id"], "node": 1, "call": 0, **edits})
    assert told == status, text
    return text


class TestUnedited:
    @pytest.mark.parametrize(
        "node",
        [
            {},
            {"systemPrompt": "Be brief."},
            {"prompt": "Answer {agent1Output}", "systemPrompt": "Be kind."},
            {"maxResponseSizeInTokens": 77},
            {"preset": "Warm"},
        ],
        ids=["plain", "system", "prompt", "size", "preset"],
    )
    def test_the_same_bytes(self, served, house, asked, site, node):
        house.write("Presets/any/Warm", {"temperature": 0.7, "top_k": 5})
        run, body = asked(**node)
        text = again(served, run)
        assert site.seen[-1].body == body and "Hello" in text

    @pytest.mark.parametrize(
        "endpoint",
        [
            {"addTextToStartOfSystem": True, "textToAddToStartOfSystem": "SYS "},
            {"addTextToStartOfPrompt": True, "textToAddToStartOfPrompt": "ASK "},
            {"addTextToStartOfCompletion": True, "textToAddToStartOfCompletion": "Sure, "},
        ],
        ids=["system", "prompt", "completion"],
    )
    def test_texts_of_the_endpoint_are_in_it_once(self, served, big, asked, site, endpoint):
        big(**endpoint)
        run, body = asked(systemPrompt="Be brief.")
        again(served, run)
        assert site.seen[-1].body == body

    def test_a_preset_that_was_changed_since(self, served, house, asked, site):
        """The samplers are those of then."""
        house.write("Presets/any/Warm", {"temperature": 0.7})
        run, body = asked(preset="Warm")
        house.write("Presets/any/Warm", {"temperature": 0.1})
        again(served, run)
        assert site.seen[-1].body == body

    def test_a_tool_and_a_streamed_call(self, served, house, big, site):
        """Of a client that streams, and offers tools."""
        tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
        house.workflow(
            "Main", say("first", "First"), ask("Answer", lastMessagesToSendInsteadOfPrompt=5, allowTools=True)
        )
        served.save_user()
        body = {
            "model": "ana",
            "stream": True,
            "messages": [{"role": "user", "content": "x"}],
            "tools": [tool],
        }
        served.client.post("/v1/chat/completions", json=body).close()
        run, sent = served.newest(), site.seen[-1].body
        again(served, run)
        assert site.seen[-1].body == sent and b'"tools"' in sent

    def test_nothing_of_the_workflow_runs(self, served, asked, site):
        run, _ = asked()
        before = len(site.seen)
        again(served, run)
        made = served.newest()
        assert len(site.seen) == before + 1 and len(made["nodes"]) == 1
        assert (made["front"], made["path"]) == ("console", "/console/api/ask")
        assert made["again_of"]["id"] == run["id"]


class TestEdited:
    def sent(self, site):
        return json.loads(site.seen[-1].body)

    def test_messages(self, served, asked, site):
        run, body = asked()
        messages = [{"role": "system", "content": "New."}, {"role": "user", "content": "Other"}]
        again(served, run, messages=messages)
        assert self.sent(site) == {**json.loads(body), "messages": messages}

    def test_samplers(self, served, house, asked, site):
        """Null takes one away."""
        house.write("Presets/any/Warm", {"temperature": 0.7, "top_k": 5})
        run, body = asked(preset="Warm")
        again(served, run, sampler={"temperature": 0.1, "top_k": None})
        expected = {**json.loads(body), "temperature": 0.1}
        del expected["top_k"]
        assert self.sent(site) == expected

    def test_the_size_of_the_answer(self, served, asked, site):
        run, body = asked()
        again(served, run, sampler={"max_tokens": 9})
        assert self.sent(site) == {**json.loads(body), "max_tokens": 9}

    def test_another_endpoint_and_preset(self, served, house, big, asked, site):
        big("other", modelNameToSendToAPI="other-model")
        house.write("Presets/any/Cool", {"temperature": 0.2})
        run, body = asked()
        again(served, run, endpoint="other", preset="Cool")
        assert self.sent(site)["model"] == "other-model" and self.sent(site)["temperature"] == 0.2
        assert self.sent(site)["messages"] == json.loads(body)["messages"]

    @pytest.mark.parametrize(
        ("edits", "status"),
        [
            ({"prompt": "flat"}, 422),
            ({"prompt": "flat", "messages": []}, 400),
            ({"messages": [{"content": "x"}]}, 400),
            ({"endpoint": "gone"}, 422),
            ({"node": 7}, 404),
            ({"call": 7}, 404),
            ({"node": -1}, 404),
            ({"call": -1}, 404),
            ({"run": "none"}, 404),
            ({"sampler": []}, 400),
            ({"other": 1}, 400),
        ],
    )
    def test_what_cannot_be(self, served, asked, site, edits, status):
        """Nothing is asked."""
        run, _ = asked()
        before = len(site.seen)
        again(served, run, status, **edits)
        assert len(site.seen) == before


class TestOff:
    def test_a_private_run(self, served, house, asked):
        house.user["redactLogOutput"] = True
        run, _ = asked()
        assert "private" in again(served, run, 409)

    def test_a_body_that_was_cut(self, served, asked):
        run, _ = asked(text="word " * 40_000)
        assert "too long" in again(served, run, 409)

    def test_a_node_that_asked_no_model(self, served, asked):
        run, _ = asked()
        status, _ = served.post("ask", {"run": run["id"], "node": 0, "call": 0})
        assert status == 404

    def test_an_endpoint_that_was_changed_since(self, served, big, asked, site):
        run, _ = asked()
        big(modelNameToSendToAPI="newer")
        before = len(site.seen)
        assert NOT_THE_SAME in again(served, run, 409) and len(site.seen) == before

    def test_a_foreign_page(self, served, asked):
        run, _ = asked()
        body = {"run": run["id"], "node": 1, "call": 0}
        assert served.post("ask", body, Origin="http://evil.example")[0] == 403
        assert served.post("ask", body, Authorization="Bearer wrong")[0] == 401
