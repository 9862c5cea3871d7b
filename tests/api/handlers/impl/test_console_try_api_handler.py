"""A question from the console's page (console.md 9.9), against a scripted engine."""

from __future__ import annotations

import pytest

from Middleware.api.requests.access import AccessRules, ConsoleWish
from Middleware.common.errors import BackendError, ConfigError, WorkflowError
from Middleware.services.cancellation_service import cancellation_service
from tests.api.test_a_third_protocol import Held, in_background
from tests.patience import PATIENCE_S

TRY = "/console/api/try"
ASKS = {"X-Headrace-Console": "1"}
MESSAGES = [{"role": "system", "content": "S."}, {"role": "user", "content": "Hi"}]
BODY = {"user": "mira", "path": None, "messages": MESSAGES}


class Watching:
    """An observer that keeps what it is told of."""

    keeps_text = True

    def __init__(self):
        self.runs = []

    def note_change(self, run, what, node):
        if what == "ended":
            self.runs.append(run)


@pytest.fixture
def ask(client):
    """`ask(**body)` gives the answer to a whole body with these fields."""
    return lambda **body: client.post(TRY, json={**BODY, **body}, headers=ASKS)


class TestAnswer:
    def test_it_is_streamed_as_openai_streams_a_chat(self, ask, engine, read_sse):
        """With the id of the run, by which the page finds it."""
        answer = ask()
        assert answer.content_type == "text/event-stream; charset=utf-8"
        units = read_sse(answer.text)
        assert "".join(unit["choices"][0]["delta"].get("content") or "" for unit in units[:-1]) == "Hello."
        assert units[0]["id"] == f"chatcmpl-{answer.headers['X-Request-Id']}" and units[-1] == "[DONE]"
        assert engine.last.messages == MESSAGES and engine.last.stream is True
        assert answer.headers["X-Content-Type-Options"] == "nosniff"

    def test_the_user_decides_who_answers(self, ask, engine, facts, configs):
        """Any of the served ones; no file: the user's own routing."""
        facts(users=("mira", "jo"))
        configs("Users/jo.json", {"customWorkflow": "Main"})
        ask(user="jo")
        assert engine.last.user.name == "jo" and not hasattr(engine.last, "name")

    @pytest.mark.parametrize(
        ("path", "name", "folder"),
        [
            ("Workflows/mira/Side.json", "Side", None),
            ("Workflows/mira/deep/Side.json", "deep/Side", None),
            ("Workflows/_shared/novel/_DefaultWorkflow.json", "_DefaultWorkflow", "_shared/novel"),
            ("Workflows/_common/Side.json", "Side", "_common"),
        ],
    )
    def test_a_file_answers(self, ask, engine, configs, path, name, folder):
        """Names in it are looked up as if its user had come to it."""
        configs(path, [{"type": "Standard"}])
        assert ask(path=path).status_code == 200
        assert (engine.last.name, engine.last.folder) == (name, folder)

    def test_a_folder_of_another_name(self, ask, engine, configs):
        """The user's settings may name one."""
        configs("Users/mira.json", {"workflowConfigsSubDirectoryOverride": "of/mira"})
        configs("Workflows/of/mira/Side.json", [])
        ask(path="Workflows/of/mira/Side.json")
        assert (engine.last.name, engine.last.folder) == ("Side", None)

    def test_messages_that_look_like_a_tool_picker(self, ask, engine, configs):
        """People ask here: the workflow answers."""
        configs("Users/mira.json", {"interceptOpenWebUIToolRequests": True})
        text = "Your task is to choose and return the correct tool(s) from the list of available tools based on the query"
        assert ask(messages=[{"role": "system", "content": text}]).status_code == 200
        assert len(engine.calls) == 1

    @pytest.mark.parametrize("where", ["run", "node"])
    def test_a_file_with_faults(self, ask, engine, where):
        """No fault of the server: what is wrong is said to who tries the file, and no secret of it."""
        wrong = ConfigError("found 5, allowed: a text", file="Endpoints/Big.json", pointer="/apiKey")

        def broken(call):
            if where == "run":
                raise wrong
            said = f"Workflows/mira/Main.json: node 1: {wrong} (Bearer sk-1234567890abcdef)"
            raise WorkflowError(said, workflow="Workflows/mira/Main.json", node=1, cause=wrong) from wrong

        engine.answer = broken
        answer = ask()
        assert answer.status_code == 422
        assert "Endpoints/Big.json" in answer.json["error"] and "allowed: a text" in answer.json["error"]
        assert "sk-1234567890abcdef" not in answer.text

    def test_the_last_good_version_of_a_file(self, ask, engine, configs):
        """A failure says first that another text than the saved one was tried."""

        def broken(call):
            raise ConfigError("found 5, allowed: a text", file="Endpoints/Big.json", pointer="/model")

        ask()
        engine.answer = broken
        configs("Users/mira.json", {"customWorkflow": 5})
        answer = ask()
        assert answer.status_code == 422
        first, _, second = answer.json["error"].partition("; the last good version was used. ")
        assert first.startswith("Users/mira.json:1:20: customWorkflow: found 5")
        assert second.startswith("Endpoints/Big.json: model")

    def test_a_failure_before_the_answer(self, ask, engine):
        """One sentence, with its status."""

        def broken(call):
            raise BackendError("Big", "connect_error", "nobody listens")

        engine.answer = broken
        answer = ask()
        assert answer.status_code == 502 and answer.json["error"].startswith("endpoint 'Big': nobody listens")


class TestRefusals:
    @pytest.mark.parametrize(
        ("body", "status", "said"),
        [
            ({"user": "bob"}, 404, "no such user; users: mira"),
            ({"user": None}, 400, "user: found null, allowed: a text"),
            ({"messages": "Hi"}, 400, 'messages: found "Hi", allowed: a list'),
            ({"messages": [{"content": "Hi"}]}, 400, "messages[0] has no 'role'"),
            ({"model": "mira"}, 400, '"model" is no field of this body, allowed: user, path, messages, api_key'),
            ({"path": "Workflows/mira/None.json"}, 404, "no such file"),
            ({"path": "Workflows/mira/../mira/Side.json"}, 404, "no such file"),
            ({"path": "Workflows/Side.json"}, 404, "no such file"),
            ({"path": "Endpoints/mira/Side.json"}, 404, "no such file"),
            ({"path": "Workflows/mira/Side"}, 404, "no such file"),
            ({"path": "/Workflows/mira/Side.json"}, 404, "no such file"),
            ({"path": "Workflows/mira/a\0.json"}, 404, "no such file"),
            ({"path": "Workflows/C:/Side.json"}, 404, "no such file"),
        ],
    )  # fmt: skip
    def test_a_wrong_body(self, ask, engine, configs, body, status, said):
        """Nothing runs."""
        configs("Workflows/mira/Side.json", [])
        answer = ask(**body)
        assert answer.status_code == status and answer.json["error"].startswith(said)
        assert list(answer.json) == ["error"] and engine.calls == []

    def test_a_body_that_is_too_large(self, ask, engine):
        """1 MiB is the most."""
        assert ask(messages=[{"role": "user", "content": "x" * (1 << 20)}]).status_code == 413
        assert engine.calls == []

    def test_without_the_right_to_act(self, serve, engine):
        """Looking is not asking."""
        reader = serve(access=AccessRules(loopback=False), console=ConsoleWish("view")).test_client()
        answer = reader.post(TRY, json=BODY, headers=ASKS, environ_base={"REMOTE_ADDR": "10.0.0.7"})
        assert (answer.status_code, answer.json["need"]) == (403, "act") and engine.calls == []

    @pytest.mark.parametrize("wish", [ConsoleWish("off"), ConsoleWish()])
    def test_past_the_consoles_door_nothing_is_there(self, serve, engine, wish):
        """Not where it is off, and not by another spelling of its path."""
        path = TRY if wish.mode else f"/x/..{TRY}"
        assert serve(console=wish).test_client().post(path, json=BODY, headers=ASKS).status_code == 404
        assert engine.calls == []


class TestKeys:
    @pytest.mark.parametrize(("key", "status"), [("a-client", 200), ("wrong", 401), (None, 401)])
    def test_a_server_that_wants_keys(self, serve, engine, key, status):
        """Wants the client's here, too, beside the console's."""
        app = serve(access=AccessRules(api_keys=("a-client",)), console=ConsoleWish(None, "k2345678"))
        headers = {**ASKS, "Authorization": "Bearer k2345678"}
        answer = app.test_client().post(TRY, json={**BODY, "api_key": key}, headers=headers)
        assert answer.status_code == status and len(engine.calls) == (status == 200)

    def test_the_consoles_key_is_no_clients_key(self, serve, engine, configs):
        """It selects no discussions and encrypts nothing."""
        headers = {**ASKS, "Authorization": "Bearer k2345678", "X-API-Key": "other"}
        client = serve(console=ConsoleWish(None, "k2345678")).test_client()
        client.post(TRY, json=BODY, headers=headers)
        assert engine.last.request.api_key is None
        client.post(TRY, json={**BODY, "api_key": "mine"}, headers=headers)
        assert engine.last.request.api_key == "mine"

    def test_what_is_kept_holds_no_key(self, serve, engine):
        """The body as the recorder sees it; the page can ask it again."""
        app, watching = serve(), Watching()
        app.door.observers.observe(watching)
        app.test_client().post(TRY, json={**BODY, "api_key": "mine-alone"}, headers=ASKS).close()
        [run] = watching.runs
        assert (run.front, run.user, run.stream, run.path) == ("console", "mira", True, TRY)
        assert b"mine-alone" not in run.asked and b'"content": "Hi"' in run.asked

    def test_a_key_that_encrypts_makes_the_run_private(self, serve, engine, configs):
        """As on every front end."""
        configs("Users/mira.json", {"encryptUsingApiKey": True})
        app, watching = serve(), Watching()
        app.door.observers.observe(watching)
        app.test_client().post(TRY, json={**BODY, "api_key": "mine-alone"}, headers=ASKS).close()
        assert watching.runs[0].private and watching.runs[0].asked == b""


class TestLife:
    def test_it_waits_for_its_turn(self, facts, serve, engine):
        """It has a slot until its work has ended; a wrong body never waits."""
        facts(concurrency=1)
        app, held, texts = serve(), Held(engine), []

        def ask():
            with app.test_client().post(TRY, json=BODY, headers=ASKS) as answer:
                texts.append(answer.text)

        asking = [in_background(ask)]
        assert held.began.wait(PATIENCE_S)
        asking.append(in_background(ask))
        assert app.test_client().post(TRY, json={}, headers=ASKS).status_code == 400
        assert len(engine.calls) == 1
        held.free.set()
        for one in asking:
            one.join(PATIENCE_S)
        assert [text.count("[DONE]") for text in texts] == [1, 1]
        assert app.door.unanswered_requests() == []

    def test_a_full_queue(self, facts, serve, engine):
        """503, as everywhere."""
        facts(concurrency=1)
        app = serve(max_queue=1)
        app.door.most_posts = 1
        app.door._posts.add("another")
        answer = app.test_client().post(TRY, json=BODY, headers=ASKS)
        assert answer.status_code == 503 and answer.json["error"].startswith("server is busy")

    def test_it_can_be_cancelled(self, serve, engine):
        """By its id, on the route of any front end; a hang-up does the same."""
        app = serve()

        def cancelled(call):
            client = app.test_client()
            client.delete(f"/v1/chat/completions/{call.request.request_id}")
            assert cancellation_service.is_cancelled(call.request.request_id)
            yield from [[{"token": "Hel", "finish_reason": None}]]

        engine.answer = cancelled
        with app.test_client().post(TRY, json=BODY, headers=ASKS) as answer:
            assert answer.text.endswith("data: [DONE]\n\n")
        assert app.door.unanswered_requests() == []
