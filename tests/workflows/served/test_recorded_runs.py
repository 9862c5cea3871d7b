"""What the console keeps and shows of real requests: through the doors, the engine and the backend's socket."""

from __future__ import annotations

import json

import pytest

from Middleware.api.api_server import ApiServer
from tests.api.console.test_recorder import everything_in
from tests.patience import PATIENCE_S
from tests.workflows.served.conftest import Recorder, observe

LOOKS = {"X-Headrace-Console": "1", "Host": "localhost"}
MARKER = "zirkonium"
SAID = "{chat_user_prompt_last_one}"


@pytest.fixture
def console(served):
    """What the console of this server keeps, which stands open here."""
    ApiServer(served.app)
    return served.app.wsgi_app.console.hub


def look(served, path):
    reply = served.app.test_client().get(f"/console/api/{path}", headers=LOOKS)
    return reply.status_code, reply.get_json()


def ask(title, **fields):
    return {"type": "Standard", "endpointName": "big", "prompt": SAID, "title": title, **fields}


def every_ref(run):
    """The names of all texts that a run tells of."""
    found = [run["asked"]]
    for node in run["nodes"]:
        found += [node["output"], *node["thoughts"]]
        for call in node["calls"]:
            found += [call["body"], call["raw"], call["cleaned"], *call["thoughts"]]
    return [ref["ref"] for ref in found if ref is not None]


class TestOneRun:
    def test_sent_came_and_output(self, house, served, big, site, console):
        """The bytes that the backend got, what it said, and what the client got."""
        big(thinkTagNames=["think"], removeThinking=True)
        site.text = ["<think>hm</think>Hello"]
        house.workflow("Main", ask("Answer"))
        served.save_user()
        assert served.text(text="good day") == "Hello"
        [run] = look(served, "runs")[1]["runs"]
        texts = {
            name: look(served, f"runs/{run['id']}/texts/n0.{name}")[1]["head"]
            for name in ("c0.body", "c0.raw", "c0.cleaned", "output")
        }
        assert texts["c0.body"] == site.seen[-1].body.decode()
        assert texts["c0.raw"] == "<think>hm</think>Hello"
        assert texts["c0.cleaned"] == texts["output"] == "Hello"

    def test_its_facts(self, house, served, big, console):
        house.workflow("Main", ask("Draft"), ask("Answer", returnToUser=True), ask("Notes"))
        served.save_user()
        after_the_console = observe(served, Recorder())
        served.text(stream=True)
        assert after_the_console.ended.wait(PATIENCE_S)
        [told] = look(served, "runs")[1]["runs"]
        run = look(served, f"runs/{told['id']}")[1]
        assert (told["state"], told["user"], told["workflow"], told["tokens"], told["about"]) == (
            "done", "ana", "Main", 2, False
        )  # fmt: skip
        assert [(n["title"], n["answers"], n["after"], n["state"]) for n in run["nodes"]] == [
            ("Draft", False, False, "done"),
            ("Answer", True, False, "done"),
            ("Notes", False, True, "done"),
        ]

    def test_nodes_that_were_not_run(self, house, served, big, site, console):
        """With their names, as the file has them."""
        site.pages["/v1/chat/completions"] = (500, {}, b"{}")
        house.workflow("Main", ask("Draft"), ask("Answer", type="Standard"))
        served.save_user()
        served.ask()
        run = look(served, "runs")[1]["runs"][0]
        nodes = look(served, f"runs/{run['id']}")[1]["nodes"]
        assert (run["state"], run["where"]) == ("failed", "node 1 Draft")
        assert [(n["title"], n["type"], n["state"]) for n in nodes][1:] == [("Answer", "Standard", "not_run")]

    def test_the_hour(self, house, served, big, console):
        house.workflow("Main", ask("Answer"))
        served.save_user()
        served.text()
        series = look(served, "numbers")[1]["series"]
        assert sum(filter(None, series["requests"])) == 1 and sum(filter(None, series["tokens"])) == 2
        assert [call.ok for call in console.hour.calls("ana", "big")] == [True]


class TestChats:
    """Which chat a request belongs to is told by the engine (workbench.md 14)."""

    CHAT = "hi [DiscussionId]trip3[/DiscussionId]"

    def test_the_discussion_and_the_turn(self, house, served, big, console):
        house.workflow("Main", ask("Answer"))
        served.save_user()
        served.text(text=self.CHAT)
        served.text(text="hi")
        rows = look(served, "chats")[1]["chats"]
        assert [(row["id"], row["turns"], row["runs"]) for row in rows] == [("trip3", 1, 1), (None, 0, 1)]
        status, chat = look(served, "chats/ana/trip3")
        assert (status, [turn["n"] for turn in chat["turns"]]) == (200, [1])

    def test_of_a_private_chat_a_mark_is_left(self, house, served, big, console):
        """The same for the same chat, and no page."""
        house.workflow("Main", ask("Answer"))
        served.save_user(redactLogOutput=True)
        for text in (self.CHAT, self.CHAT, "hi [DiscussionId]other[/DiscussionId]"):
            served.text(text=text)
        rows = look(served, "chats")[1]["chats"]
        assert [(row["id"], row["runs"]) for row in rows] == [(None, 1), (None, 2)]
        assert len({row["mark"] for row in rows}) == 2 and "trip3" not in json.dumps(rows)
        assert look(served, "chats/ana/trip3")[0] == 404
        assert not any("trip3" in text for text in everything_in(console.recorder))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("fails", [False, True], ids=["answers", "fails"])
@pytest.mark.parametrize("private", [True, False], ids=["private", "not-private"])
def test_a_private_user(house, served, big, site, console, stream, fails, private):
    """No word of prompt, answer, thought, title or failure in any answer, nor in anything that is kept."""
    big(thinkTagNames=["think"], removeThinking=True)
    site.text = [f"<think>{MARKER}</think>", f"{MARKER} answers"]
    if fails:
        said = json.dumps({"error": {"message": f"cannot read {MARKER}"}}).encode()
        site.pages["/v1/chat/completions"] = (500, {}, said)
    house.workflow(
        "Main",
        {"type": "WebFetch", "title": "Fetch", "url": f"http://127.0.0.1:9/?q={SAID}", "onError": "return"},
        ask("First", onNodeError="continue"),
        ask("Answer"),
    )
    served.save_user(redactLogOutput=private)
    served.ask(text=f"### Task: a title for {MARKER}", stream=stream)
    [listed] = look(served, "runs")[1]["runs"]
    run = look(served, f"runs/{listed['id']}")[1]
    answers = [
        listed,
        run,
        look(served, f"runs?text={MARKER}"),
        look(served, "numbers"),
        look(served, "state"),
    ]
    answers += [look(served, f"runs/{run['id']}/texts/{ref}") for ref in every_ref(run)]
    assert run["private"] is private and (every_ref(run) == []) is private
    assert (MARKER not in json.dumps(answers)) is private
    assert (MARKER not in everything_in([console.recorder, console.hour])) is private
