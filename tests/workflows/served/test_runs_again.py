"""A run once more, whole or from a node: over every protocol, what runs and what does not, what is written.

Source: spec workbench.md 4, 11 (row 6).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from flask import Flask

from Middleware.api.api_server import ApiServer
from Middleware.api.console.again import KeptRuns
from Middleware.api.console.recorder import forget_texts
from Middleware.api.console.run_texts import ENDED
from Middleware.api.requests.access import ConsoleWish, ServerRules
from Middleware.services.kept_bodies import ASKED_LIMIT
from tests.e2e.answers import ROUTES
from tests.patience import wait_until
from tests.workflows.served.conftest import Served

ASKS = {"X-Headrace-Console": "1", "Authorization": "Bearer k2345678", "Host": "localhost"}


class Again(Served):
    """The house with a console that may save."""

    def __init__(self, house, mode="edit"):
        super().__init__(house)
        self.app = Flask("again", static_folder=None)
        ApiServer(self.app, ServerRules(console=ConsoleWish(mode, "k2345678")))
        self.client = self.app.test_client()

    def get(self, path, **headers):
        answer = self.client.get(f"/console/api/{path}", headers={**ASKS, **headers})
        return answer.status_code, answer.json

    def post(self, path, body, **headers):
        answer = self.client.post(f"/console/api/{path}", json=body, headers={**ASKS, **headers})
        made = answer.status_code, answer.get_data(as_text=True)
        answer.close()
        return made

    def runs(self):
        return self.get("runs")[1]["runs"]

    def newest(self):
        """The newest run, when its last node has ended."""
        assert wait_until(lambda: self.runs()[0]["state"] in ENDED)
        return self.get(f"runs/{self.runs()[0]['id']}")[1]

    def kept(self, run, ref):
        return self.get(f"runs/{run['id']}/texts/{ref}")[1]["head"]

    def again(self, run, start=None, writes=(), **more):
        """The text of the answer; and the run that gave it."""
        status, text = self.post("again", {"run": run["id"], "from": start, "writes": list(writes), **more})
        assert status == 200, text
        units = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
        said = "".join(unit["choices"][0]["delta"].get("content") or "" for unit in units if unit["choices"])
        return said, self.newest()

    def may(self, run, start=None):
        query = "" if start is None else f"?from={start}"
        return self.get(f"runs/{run['id']}/again{query}")[1]


@pytest.fixture
def served(house):
    return Again(house)


def say(content, title="", **fields):
    return {"type": "StaticResponse", "content": content, "title": title, **fields}


def ask(title, endpoint="chat", **fields):
    return {"type": "Standard", "endpointName": endpoint, "title": title, "prompt": "{chat_user_prompt_last_one} {agent1Output}", **fields}  # fmt: skip


def save(path, title="Note", **fields):
    return {"type": "SaveCustomFile", "title": title, "filepath": str(path), "content": "{agent1Output}", **fields}  # fmt: skip


def states(run):
    return [(node["title"], node["state"]) for node in run["nodes"]]


def prompts(house):
    """What the model was asked, call by call."""
    return [[message["content"] for message in call.conversation] for call in house.model.calls]


def files_of(folder: Path):
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def three(served, house):
    """Three nodes that ask a model, of which the last answers."""
    house.model.replies = ["first", "second", "third"]
    house.workflow("Main", ask("Draft"), ask("Critic"), ask("Answer", prompt="{agent1Output}+{agent2Output}"))
    served.save_user()
    return served


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("route", ROUTES)
class TestEveryProtocol:
    def test_the_whole_run(self, three, house, route, stream):
        """What the client sent is read as its own protocol reads it: the same prompts go out."""
        three.ask(route=route, stream=stream, text="Good day")
        before = three.newest()
        asked = prompts(house)
        house.model.calls.clear()
        text, run = three.again(before)
        assert prompts(house) == asked and len(asked) == 3
        assert text == "third" and run["front"] == "console"
        assert run["again_of"] == {"id": before["id"], "wall": pytest.approx(before["at"], abs=0.01)}
        assert run["path"] == before["path"] and three.kept(run, "asked") == three.kept(before, "asked")

    def test_from_a_node(self, three, house, route, stream):
        """The nodes before it are not run: they give what they gave."""
        three.ask(route=route, stream=stream, text="Good day")
        before = three.newest()
        house.model.calls.clear()
        house.model.replies = ["other"]
        text, run = three.again(before, 3)
        assert prompts(house) == [["first+second"]]
        assert text == "other" and states(run) == [("Draft", "kept"), ("Critic", "kept"), ("Answer", "done")]
        assert three.kept(run, "n1.output") == "second"


class TestOtherRequests:
    """What a table of protocols has no place for."""

    def post_as_client(self, served, path, body, **headers):
        served.client.post(path, json=body, headers=headers).close()
        return served.newest()

    @pytest.mark.parametrize("path", ["/api/v1/generate", "/api/extra/generate/stream"])
    def test_of_koboldcpp(self, three, house, path):
        before = self.post_as_client(three, path, {"prompt": "Good day"})
        asked = prompts(house)
        house.model.calls.clear()
        assert three.again(before)[0] == "third" and prompts(house) == asked

    def test_a_call_of_a_tool(self, served, house):
        house.workflow("_DefaultWorkflow", say("<{agent1Input}>", "Answer"), folder="_shared/helper")
        tool = {"description": "Helps.", "inputs": {"port": {"required": True}}, "message": "Tide in {port}"}
        house.write("Workflows/_shared/helper/_mcpTool", tool)
        served.save_user()
        params = {"name": "helper", "arguments": {"port": "Brest"}}
        call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
        before = self.post_as_client(served, "/mcp", call)
        text, run = served.again(before)
        assert (text, served.kept(before, "n0.output")) == ("<Brest>", "<Brest>")
        assert run["again_of"]["id"] == before["id"]

    def test_an_address_that_names_the_model(self, three, house):
        house.workflow("_DefaultWorkflow", say("novel", "Answer"), folder="_shared/novel")
        three.save_user()
        body = {"messages": [{"role": "user", "content": "x"}]}
        before = self.post_as_client(three, "/as/ana:novel/v1/chat/completions", body)
        assert three.again(before)[0] == "novel" and three.newest()["path"] == before["path"]

    def test_a_question_of_the_page(self, three):
        body = {"user": "ana", "path": "Workflows/ana/Main.json", "messages": [{"role": "user", "content": "x"}]}  # fmt: skip
        assert three.post("try", body)[0] == 200
        before = three.newest()
        text, run = three.again(before, 3)
        assert text == "third" and run["again_of"]["id"] == before["id"]

    def test_the_header_that_a_setting_names(self, three, house, tmp_path):
        """It names the discussion again; a copied command has it, and never a key."""
        house.workflow("Main", ask("Answer", addDiscussionIdTimestampsForLLM=True))
        three.save_user(discussionIdFromHeader="X-Chat", discussionDirectory=str(tmp_path / "data"))
        body = {"model": "ana", "messages": [{"role": "user", "content": "Hello"}]}
        headers = {"X-Chat": "trip-3", "X-Other": "no", "X-API-Key": "mine-alone"}
        before = self.post_as_client(three, "/v1/chat/completions", body, **headers)
        for file in files_of(tmp_path / "data"):
            Path(file).unlink()
        three.again(before, None, [0])
        assert any("trip-3" in file for file in files_of(tmp_path / "data"))
        curl = three.get(f"runs/{before['id']}/curl")[1]["text"]
        assert "'X-Chat: trip-3'" in curl and "X-Other" not in curl and "mine-alone" not in curl

    def test_pictures_that_were_not_kept(self, three, house):
        """That is said before; the rest is sent."""
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}
        body = {"model": "ana", "messages": [{"role": "user", "content": [{"type": "text", "text": "Look"}, image]}]}  # fmt: skip
        before = self.post_as_client(three, "/v1/chat/completions", body)
        assert three.may(before)["told"] == ["1 picture was too large to be kept, and will be left out."]
        assert three.again(before)[0] == "third"


class TestStart:
    @pytest.mark.parametrize("start", [1, 2, 3])
    def test_every_node(self, three, house, start):
        """No call of a node before the start."""
        three.ask()
        before = three.newest()
        house.model.calls.clear()
        three.again(before, start)
        assert len(house.model.calls) == 4 - start

    def test_its_texts_may_be_forgotten_meanwhile(self, three, house, monkeypatch):
        """The new run waits for a slot, and others need the memory of the old one."""
        three.ask()
        before, made = three.newest(), KeptRuns.again

        def forgotten_meanwhile(self, body):
            repeat = made(self, body)
            forget_texts(self.hub.recorder.run(body["run"]))
            return repeat

        monkeypatch.setattr(KeptRuns, "again", forgotten_meanwhile)
        house.model.calls.clear()
        three.again(before, 3)
        assert prompts(house) == [["first+second"]]

    def test_behind_the_answer(self, served, house):
        """The client's answer stays what it was; its thoughts, too."""
        house.model.replies = ["answer", "later"]
        house.workflow("Main", ask("Answer", returnToUser=True), ask("After"))
        served.save_user()
        served.ask()
        before = served.newest()
        house.model.calls.clear()
        house.model.replies = ["afterwards"]
        text, run = served.again(before, 2)
        assert (text, len(house.model.calls)) == ("answer", 1)
        assert states(run) == [("Answer", "kept"), ("After", "done")]
        assert run["nodes"][0]["answers"] and run["first_s"] is not None

    def test_again_of_one_that_was_run_again(self, three, house):
        """Its kept outputs are outputs."""
        three.ask()
        _, second = three.again(three.newest(), 2)
        house.model.calls.clear()
        _, third = three.again(second, 3)
        assert len(house.model.calls) == 1 and third["again_of"]["id"] == second["id"]

    def test_in_a_parallel_group(self, served, house):
        """The start is its first member."""
        house.workflow(
            "Main", say("a", "One"), say("b", "Two", parallelGroup="g"), say("c", "Three", parallelGroup="g"), say("{agent2Output}{agent3Output}", "Four")
        )  # fmt: skip
        served.save_user()
        served.ask()
        before = served.newest()
        told = served.may(before, 3)["told"]
        assert told == ["Node 3 runs in a parallel group: the start is its first member, node 2."]
        text, run = served.again(before, 3)
        assert text == "bc"
        assert [state for _, state in states(run)] == ["kept", "done", "done", "done"]

    def test_of_a_routed_run(self, served, house):
        """The file that answered, its routing taken over; whole, it is routed again."""
        house.model.replies = ["CODE"]
        house.workflow("Pick", ask("Which"))
        house.workflow("Code", say("draft", "Draft"), say("<{agent1Output}>", "Answer"))
        house.write("Routing/routes", {"CODE": {"description": "code", "workflow": "Code"}, "X": {"description": "x", "workflow": "Pick"}})  # fmt: skip
        served.save_user(customWorkflowOverride=False, routingConfig="routes", categorizationWorkflow="Pick")
        served.ask()
        before = served.newest()
        house.model.calls.clear()
        text, run = served.again(before, 2)
        assert (text, house.model.calls) == ("<draft>", [])
        assert states(run) == [("Draft", "kept"), ("Answer", "done")]
        assert "routed again" in " ".join(served.may(before)["told"])
        assert served.again(before)[0] == "<draft>" and len(house.model.calls) == 1

    def test_of_nested_workflows(self, served, house):
        """A node that runs a workflow is one node: what it gave is kept."""
        house.workflow("Child", ask("Inner"))
        house.workflow("Main", {"type": "CustomWorkflow", "workflowName": "Child", "title": "Outer"}, say("<{agent1Output}>", "Answer"))  # fmt: skip
        served.save_user()
        served.ask()
        before = served.newest()
        house.model.calls.clear()
        text, run = served.again(before, 2)
        assert (text, house.model.calls) == ("<hello>", [])
        assert states(run) == [("Outer", "kept"), ("Answer", "done")]

    def test_with_another_text(self, three, house):
        """Of the file, not saved; that needs the right to save."""
        three.ask()
        before = three.newest()
        text = json.dumps({"nodes": [ask("Draft"), ask("Critic"), say("new <{agent2Output}>", "Answer")]})
        assert three.again(before, 3, text=text)[0] == "new <second>"
        status, said = three.post("again", {"run": before["id"], "from": 3, "writes": [], "text": "{"})
        assert status == 422, said

    def test_a_lock_before_the_start_is_not_taken(self, served, house):
        house.workflow("Main", {"type": "WorkflowLock", "workflowLockId": "l", "title": "Lock"}, say("a", "Answer"))  # fmt: skip
        served.save_user()
        served.ask()
        _, run = served.again(served.newest(), 2)
        assert states(run) == [("Lock", "kept"), ("Answer", "done")]


class TestWrites:
    @pytest.fixture
    def writing(self, served, house, tmp_path):
        """A node that writes, before one that answers with its output."""
        self.file = tmp_path / "data" / "note.txt"
        house.workflow("Main", ask("Draft"), save(self.file), say("{agent2Output}", "Answer"))
        served.save_user()
        served.ask()
        self.before = served.newest()
        self.files = files_of(tmp_path / "data")
        return served

    def test_they_are_listed(self, writing):
        may = writing.may(self.before, 2)
        assert may["may"] and may["why"] is None
        assert may["writes"] == [{"node": 2, "title": "Note", "notes": [f"writes the file {self.file}"]}]
        assert writing.may(self.before, 3)["writes"] == []

    @pytest.mark.parametrize("start", [None, 1, 2, 3])
    def test_without_their_boxes_no_file_changes(self, writing, house, tmp_path, start):
        """A node that is left out gives its old output."""
        house.model.replies = ["another"]
        text, _ = writing.again(self.before, start)
        assert text == f"File successfully saved to {self.file}"
        assert files_of(tmp_path / "data") == self.files

    def test_with_its_box_it_writes(self, writing, house):
        house.model.replies = ["another"]
        writing.again(self.before, None, [2])
        assert self.file.read_text() == "another"

    def test_a_child_that_writes(self, served, house, tmp_path):
        """A node that runs a workflow writes if anything in it does."""
        file = tmp_path / "data" / "n.txt"
        house.workflow("Child", say("x", "X"), save(file))
        house.workflow("Main", {"type": "CustomWorkflow", "workflowName": "Child", "title": "Outer"})
        served.save_user()
        served.ask()
        before = served.newest()
        assert served.may(before)["writes"] == [
            {"node": 1, "title": "Outer", "notes": [f"Child: writes the file {file}"]}
        ]
        file.unlink()
        _, run = served.again(before)
        assert states(run) == [("Outer", "kept")] and not file.exists()

    def test_a_workflow_of_the_users_settings(self, served, house, tmp_path):
        file = tmp_path / "data" / "n.txt"
        house.workflow("Tool", save(file))
        house.workflow("Main", {"type": "ConversationMemory", "title": "Memory"})
        served.save_user(conversationMemoryToolWorkflow="Tool")
        served.ask()
        assert served.may(served.newest())["writes"][0]["notes"] == [f"Tool: writes the file {file}"]

    def test_one_that_has_no_old_output(self, served, house, tmp_path):
        """It is said before that it gives nothing."""
        house.model.replies = [ValueError("broken")]
        house.workflow(
            "Main", ask("Draft"), save(tmp_path / "data" / "n.txt"), say("<{agent2Output}>", "End")
        )
        served.save_user()
        served.ask()
        before = served.newest()
        house.model.replies = ["fine"]
        assert served.may(before)["told"] == [
            "Node 2 has no old output: if it is left out, its output is empty."
        ]
        assert served.again(before)[0] == "<>"

    def test_the_times_of_a_discussion(self, served, house, tmp_path):
        """They have a box of their own."""
        house.workflow("Main", ask("Answer", addDiscussionIdTimestampsForLLM=True))
        served.save_user(discussionDirectory=str(tmp_path / "data"))
        served.ask(text="hello [DiscussionId]trip[/DiscussionId]")
        before, files = served.newest(), files_of(tmp_path / "data")
        assert files and served.may(before)["writes"] == [
            {"node": 0, "title": "", "notes": ["writes the times of the discussion's messages"]}
        ]
        for path in files:
            Path(path).unlink()
        served.again(before)
        assert files_of(tmp_path / "data") == {}
        served.again(before, None, [0])
        assert set(files_of(tmp_path / "data")) == set(files)


class TestOff:
    def refused(self, served, run, start=None):
        """Both routes say the same sentence, and nothing runs."""
        told = served.may(run, start)
        status, text = served.post("again", {"run": run["id"], "from": start, "writes": []})
        assert (told["may"], status) == (False, 409) and json.loads(text)["error"].startswith(
            told["why"][:-1]
        )
        return told["why"]

    def test_a_private_run(self, three, house):
        three.save_user(redactLogOutput=True)
        three.ask()
        before = len(house.model.calls)
        assert self.refused(three, three.newest()).startswith("This run is private")
        assert len(house.model.calls) == before

    def test_a_body_that_was_cut(self, three):
        three.ask(text="x y " * (ASKED_LIMIT // 4))
        assert self.refused(three, three.newest()) == "The client's request was too long to be kept whole."

    def test_an_output_that_was_cut(self, three, house):
        house.model.replies = ["word " * 20_000, "b", "c"]
        three.ask()
        run = three.newest()
        assert self.refused(three, run, 2) == "The output of node 1 was too long to be kept whole."
        assert three.may(run)["may"] and three.may(run, 1)["may"]

    def test_a_node_that_gave_nothing(self, three, house):
        house.model.replies = ["a", ValueError("broken")]
        three.ask()
        run = three.newest()
        assert self.refused(three, run, 3) == "Node 2 has no output in this run."
        assert three.may(run, 2)["may"]

    def test_another_node_before_the_start(self, three, house):
        three.ask()
        run = three.newest()
        house.workflow("Main", say("x", "Draft"), ask("Critic"), ask("Answer"))
        why = "Node 1 is another one now, so its old output can't be used."
        assert self.refused(three, run, 2) == why
        house.workflow("Main", ask("Draft 2"), ask("Critic"), ask("Answer"))
        assert self.refused(three, run, 3) == why

    def test_fields_that_differ_are_told(self, three, house):
        three.ask()
        run = three.newest()
        house.workflow("Main", ask("Draft", prompt="x"), ask("Critic"), ask("Answer"))
        assert three.may(run, 2)["told"] == ["Node 1 was changed since; its old output is used."]
        assert three.may(run, 2)["may"]

    def test_a_node_that_is_gone(self, three, house):
        three.ask()
        run = three.newest()
        house.workflow("Main", ask("Draft"))
        assert self.refused(three, run, 3) == "Workflows/ana/Main.json has no node 3 now."

    def test_a_node_that_changes_the_conversation(self, served, house):
        house.workflow("Main", {"type": "ImageProcessor", "endpointName": "chat", "title": "See", "addAsUserMessage": True}, ask("Answer"))  # fmt: skip
        served.save_user()
        served.ask()
        run = served.newest()
        assert (
            self.refused(served, run, 2) == "Node 1 changes the conversation itself, so it can't be skipped."
        )

    def test_an_unknown_run(self, served):
        assert served.get("runs/none/again")[0] == 404
        assert served.post("again", {"run": "none", "from": None, "writes": []})[0] == 404


class TestRights:
    @pytest.mark.parametrize(
        ("body", "status"),
        [
            ({"run": 5}, 400),
            ({"from": "1"}, 400),
            ({"from": 0}, 409),
            ({"from": -1}, 409),
            ({"writes": ["a"]}, 400),
            ({"writes": [True]}, 400),
            ({"more": 1}, 400),
            ({"api_key": 5}, 400),
        ],
    )
    def test_odd_bodies(self, three, house, body, status):
        three.ask()
        before = len(house.model.calls)
        sent = {"run": three.newest()["id"], "from": None, "writes": [], **body}
        assert three.post("again", sent)[0] == status and len(house.model.calls) == before

    def test_a_foreign_page(self, three):
        three.ask()
        body = {"run": three.newest()["id"], "from": None, "writes": []}
        assert three.post("again", body, Origin="http://evil.example")[0] == 403
        assert three.post("again", body, Authorization="Bearer wrong")[0] == 401
        assert three.post("again", {**body, "writes": [1] * 1_000_000})[0] == 413

    def test_a_text_needs_the_right_to_save(self, house):
        """In a console that only looks and acts, the saved file alone can be run again."""
        viewer = Again(house, "view")
        house.workflow("Main", say("a", "Answer"))
        viewer.save_user()
        viewer.ask()
        body = {"run": viewer.newest()["id"], "from": None, "writes": []}
        status, text = viewer.post("again", {**body, "text": "[]"})
        assert status == 403 and "right to save" in text
        assert viewer.post("again", body)[0] == 200
