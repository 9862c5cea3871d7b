"""A dry run with what an earlier run gave in place of stubs: over every protocol, and when it cannot be.

Source: spec workbench.md 1, 10.
"""

from __future__ import annotations

import json

import pytest

from Middleware.services.kept_bodies import ASKED_LIMIT
from tests.e2e.answers import ROUTES
from tests.workflows.served.test_runs_again import ask, say
from tests.workflows.served.test_runs_again import served as served
from tests.workflows.served.test_runs_again import three as three


def walked(served, run, status=200, **more):
    """The nodes of a dry run of the run's file, or what is said where there is none."""
    body = {"path": run["nodes"][0]["workflow"], "user": run["user"], "run": run["id"], **more}
    given, text = served.post("dry-run", body)
    assert given == status, text
    return json.loads(text)["nodes" if status == 200 else "error"]


@pytest.mark.parametrize("route", ROUTES)
def test_texts_are_those_that_the_run_sent(three, house, route):
    """Whatever protocol its client spoke; no model is asked."""
    three.ask(route=route, text="Good day")
    run = three.newest()
    asked = [call.conversation[-1]["content"] for call in house.model.calls]
    house.model.calls.clear()
    nodes = walked(three, run)
    assert [node["fields"]["prompt"] for node in nodes] == asked
    assert [node["output"] for node in nodes] == ["first", "second", "third"]
    assert house.model.calls == [] and all(node["sent"] == [] for node in nodes)


def test_each_variable_by_its_beginning_and_its_length(served, house):
    """Outputs are those of the run, the others come from what the client sent."""
    house.workflow("Main", say("long " * 100, "Draft"), ask("Answer"))
    served.save_user()
    served.ask(text="Good day")
    draft, answer = walked(served, served.newest())
    assert draft["variables"] == {}
    assert answer["variables"] == {
        "chat_user_prompt_last_one": {"start": "Good day", "chars": 8, "tokens": 2},
        "agent1Output": {"start": ("long " * 100)[:200], "chars": 500, "tokens": 157},
    }


def test_thoughts_and_other_values_are_there_too(served, house):
    house.model.replies = ["<think>hm</think>first", "second"]
    house.endpoint("chat", removeThinking=True, startThinkTag="<think>", endThinkTag="</think>")
    house.workflow("Main", ask("Draft"), ask("Answer", prompt="{agent1Thinking}|{agent1Output}"))
    served.save_user()
    served.ask(text="Good day")
    assert walked(served, served.newest())[1]["fields"]["prompt"] == "hm|first"


def test_an_unsaved_text_is_filled_in_as_well(three):
    """As long as the nodes before it are those of the run; its own may be another one."""
    three.ask(text="Good day")
    run = three.newest()
    nodes = [ask("Draft"), ask("Critic", prompt="changed"), ask("New", prompt="<{agent2Output}>")]
    text = json.dumps({"nodes": nodes})
    assert walked(three, run, text=text, node=3)[2]["fields"]["prompt"] == "<second>"


class TestWhyNot:
    def test_another_node_before_it(self, three):
        """Where no node is named, the others are filled in all the same, and this one is a stub."""
        three.ask(text="Good day")
        run = three.newest()
        text = json.dumps({"nodes": [ask("Draft"), ask("Other"), ask("Answer", prompt="{agent2Output}")]})
        said = walked(three, run, 409, text=text, node=3)
        assert said == "Node 2 is another one now, so its old output can't be used."
        assert walked(three, run, text=text)[2]["fields"]["prompt"] == "[output of node 2]"
        assert walked(three, run, text=text, node=2)[1]["fields"]["prompt"] == "Good day first"

    def test_another_file(self, three, house):
        three.ask(text="Good day")
        house.workflow("Side", say("x"))
        run = three.newest()
        path = run["nodes"][0]["workflow"].replace("Main", "Side")
        assert walked(three, run, 409, path=path) == f"{path} did not answer that run."

    def test_a_private_run(self, three):
        """Nothing of it is told."""
        three.save_user(redactLogOutput=True)
        three.ask(text="Good day")
        said = walked(three, three.newest(), 409)
        assert said == "This run is private, so nothing was kept that could be sent again."

    def test_a_request_that_was_too_long_to_be_kept(self, three):
        three.ask(text="Good day. " * (ASKED_LIMIT // 10))
        assert walked(three, three.newest(), 409) == "The client's request was too long to be kept whole."

    def test_messages_beside_the_run(self, three):
        three.ask(text="Good day")
        said = walked(three, three.newest(), 400, messages=[{"role": "user", "content": "Hi"}])
        assert said == "give messages or a run, not both"

    def test_an_unknown_run(self, three):
        three.ask(text="Good day")
        assert walked(three, {**three.newest(), "id": "zz"}, 404)

    def test_no_secret_of_the_run_is_told(self, three):
        """The client's key, where somebody wrote it into a message."""
        body = ROUTES["openai-chat"].ask("ana", "my key is secret-of-client", stream=False)
        headers = {"Authorization": "Bearer secret-of-client"}
        three.client.post(ROUTES["openai-chat"].path, json=body, headers=headers).close()
        told = json.dumps(walked(three, three.newest()))
        assert "secret-of-client" not in told and "my key is ***" in told
