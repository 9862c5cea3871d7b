"""What observers are told of real requests: through the doors, the engine and the backend's socket."""

from __future__ import annotations

import dataclasses
import gc
import json
import logging
import threading
from collections.abc import Mapping
from dataclasses import replace

import pytest

from Middleware.api.console.shapes import run_json
from Middleware.cleaning import ResponseCleaner
from Middleware.common.instance_global_variables import launch_facts, set_launch_facts
from Middleware.services.cancellation_service import cancellation_service
from Middleware.workflows.tools import mcp_doors
from tests.e2e.answers import ROUTES
from tests.patience import PATIENCE_S
from tests.workflows.served.conftest import Recorder, Served, observe
from tests.workflows.tools.conftest import stdio_file

SCRIPT = """
from Middleware.llmapis.llm_api import LlmApiService

def Invoke(text):
    asked = [{"role": "user", "content": text}]
    whole = LlmApiService("big", None, 50).get_response_from_llm(asked)
    pieces = LlmApiService("big", None, 50, stream=True).get_response_from_llm(asked)
    return f"{whole} {''.join(piece['token'] for piece in pieces)}"
"""


def say(content, title, **fields):
    return {"type": "StaticResponse", "content": content, "title": title, **fields}


def ask(title, endpoint="big", **fields):
    return {"type": "Standard", "endpointName": endpoint, "prompt": "{chat_user_prompt_last_one}", "title": title, **fields}  # fmt: skip


@pytest.fixture
def recorder(served):
    return observe(served, Recorder())


EVENTS = (
    "arrived",
    "begun",
    "named",
    "node",
    "call",
    "call_ended",
    "first_text",
    "node_ended",
    "answered",
    "ended",
)


class TestOrder:
    def test_of_a_whole_answer(self, house, served, big, recorder):
        """From its arrival to its end, each thing once."""
        house.workflow("Main", say("notes", "First"), ask("Answer"))
        served.save_user()
        assert served.text() == "Hello"
        assert recorder.told == [
            "arrived",
            "begun",
            "named",
            "node First",
            "node_ended First",
            "node Answer",
            "call Answer",
            "call_ended Answer",
            "first_text Answer",
            "answered",
            "node_ended Answer",
            "ended",
            "settled",
        ]

    def test_of_a_stream(self, house, served, big, recorder, site):
        """However many tokens come, the same is told."""
        house.workflow("Main", ask("Answer"))
        served.save_user()
        site.text = ["token "] * 50
        served.text(stream=True)
        assert sorted(recorder.told) == sorted(
            [
                "arrived",
                "begun",
                "named",
                "node Answer",
                "call Answer",
                "first_text Answer",
                "call_ended Answer",
                "answered",
                "node_ended Answer",
                "ended",
                "settled",
            ]
        )

    def test_behind_a_gate(self, house, big):
        """It waits until it has its slot."""
        set_launch_facts(replace(launch_facts(), concurrency=1))
        house.workflow("Main", say("a", "A"))
        served = Served(house)
        served.save_user()
        recorder = observe(served, Recorder())
        served.text()
        assert recorder.told[:3] == ["arrived", "begun", "named"]


class TestFacts:
    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    def test_of_run_and_node(self, house, served, big, recorder, stream):
        """As the client, the config and the backend have it."""
        house.workflow("Main", ask("Answer", returnToUser=True), say("later", "Notes"))
        served.save_user()
        served.text(stream=stream)
        assert recorder.ended.wait(PATIENCE_S)  # nodes after the answer have a thread of their own
        run, [answer, notes] = recorder.run, recorder.run.nodes
        assert (run.user, run.workflow, run.answering, run.front) == ("ana", "Main", "Main", "OpenAI chat")
        assert (run.stream, run.state, run.status, run.finish_reason) == (stream, "done", 200, "stop")
        assert (run.usage["completion_tokens"], run.counter) == (2, None)
        assert (answer.number, answer.of, answer.type, answer.state) == (1, 2, "Standard", "done")
        assert (answer.answers, answer.after, answer.endpoint) == (True, False, "big")
        assert (notes.answers, notes.after, notes.output) == (False, True, "later")

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    def test_of_a_call(self, house, served, big, recorder, site, stream):
        """What the backend got and said, byte for byte."""
        house.workflow("Main", ask("Answer"))
        served.save_user()
        served.text(text="what is it", stream=stream)
        [call] = recorder.calls
        assert (call.kind, call.endpoint, call.backend) == ("model", "big", "openAIChatCompletion")
        assert call.body == site.seen[-1].body and call.url == site.url("/v1/chat/completions")
        assert (call.status, call.outcome, call.finish_reason, call.tries) == (200, "stop", "stop", 1)
        assert call.usage["prompt_tokens"] == 5
        assert call.begun <= call.sent <= call.ended
        assert bool(call.first) is stream

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    @pytest.mark.parametrize("answering", [True, False], ids=["the-answer", "an-inner-node"])
    def test_of_cleaning(self, house, served, big, recorder, site, stream, answering):
        """Both texts, and all that is needed to clean once more: it gives the same."""
        big(
            thinkTagNames=["think"],
            removeThinking=True,
            startThinkTag="<think>",
            endThinkTag="</think>",
            trimBeginningAndEndLineBreaks=True,
        )
        site.text = ["<think>hm, let", " me see</think>\n\n", "Hello there\n\n"]
        house.workflow("Main", ask("Think"), *([] if answering else [say("{agent1Output}", "Answer")]))
        served.save_user()
        assert served.text(stream=stream) == "Hello there"
        [call] = recorder.calls
        endpoint, node, user, opening = call.cleaning
        cleaner = ResponseCleaner(endpoint, node, user_config=user, generation_prompt=opening)
        again = cleaner.feed(call.raw) + cleaner.finish()
        assert call.raw == "".join(site.text)
        assert (call.cleaned, again) == ("Hello there", "Hello there")
        assert call.thoughts == ["hm, let me see"]

    def test_of_nested_runs(self, house, served, big, recorder):
        """Parent, depth, and the key by which a workflow was chosen."""
        house.workflow("Code", say("code", "Inner"))
        house.workflow(
            "Main",
            say("CODE", "Which"),
            {
                "type": "ConditionalCustomWorkflow",
                "title": "Choose",
                "conditionalKey": "{agent1Output}",
                "conditionalWorkflows": {"Code": "Code"},
            },
        )
        served.save_user()
        served.text()
        which, choose, inner = recorder.run.nodes
        assert (inner.parent, inner.depth, inner.label) == (choose, 1, "code")
        assert (which.parent, which.depth, which.label) == (None, 0, "")
        assert (choose.answers, inner.answers, which.answers) == (True, True, False)

    def test_of_a_group(self, house, served, big, recorder):
        """Its nodes run in threads of their own; all are in the trace."""
        house.workflow(
            "Main",
            *[ask(f"Critic {i}", parallelGroup="critics") for i in range(4)],
            say("{agent1Output}", "Answer"),
        )
        served.save_user()
        served.text()
        critics = recorder.run.nodes[:-1]
        assert sorted((node.title, node.group) for node in critics) == [
            (f"Critic {i}", "critics") for i in range(4)
        ]
        assert [len(node.calls) for node in critics] == [1, 1, 1, 1]

    def test_of_a_backup(self, house, served, big, recorder, site):
        """The failed call ends with its kind, the next says whose place it takes."""
        big("dead", endpoint="http://127.0.0.1:9", backupEndpointName="big")
        house.workflow("Main", ask("Answer", "dead"))
        served.save_user()
        served.text()
        first, second = recorder.calls
        assert (first.endpoint, first.outcome, first.backup_of) == ("dead", "connect_error", "")
        assert (second.endpoint, second.outcome, second.backup_of) == ("big", "stop", "dead")
        assert "dead" in first.error

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    def test_of_a_stream_without_its_end_mark(self, house, served, big, recorder, site, stream):
        """The call says so: what the client got may not be all. One that ends as it should does not."""
        event = json.dumps({"choices": [{"delta": {"content": "Hel"}}]})
        head = {"Content-Type": "text/event-stream"}
        house.workflow("Main", say("notes", "First"), ask("Answer"))
        served.save_user()
        served.text(stream=stream)
        site.pages["/v1/chat/completions"] = (200, head, f"data: {event}\n\n".encode())
        assert served.text(stream=stream) == "Hel"
        ends = [call.truncated for run in recorder.runs for node in run.nodes for call in node.calls]
        assert ends == [False, True]

    def test_of_calls_to_the_world(self, house, served, site, recorder):
        """Kind, address, status, and what came; a program and a script as well."""
        site.pages["/news"] = (200, {"Content-Type": "text/plain"}, b"sunny")
        script = house.root / "count.py"
        script.write_text("def Invoke(*args, **kwargs):\n    return 'two'\n", "utf-8")
        url = site.url("/news?q={chat_user_prompt_last_one}")
        house.workflow(
            "Main",
            {"type": "WebFetch", "title": "Fetch", "url": url},
            {"type": "CurlCommand", "title": "Curl", "args": ["-s", url]},
            {"type": "PythonModule", "title": "Count", "module_path": str(script)},
            say("a", "Answer"),
        )
        served.save_user()
        served.text(text="tea")
        fetch, curl, count = recorder.calls
        asked = site.url("/news?q=tea")
        assert (fetch.kind, fetch.url, fetch.status, fetch.raw) == ("http", asked, 200, "sunny")
        assert (curl.kind, curl.url, curl.status, curl.raw) == ("command", f"curl -s {asked}", 0, "sunny")
        assert (count.kind, count.url, count.raw) == ("script", str(script), "two")
        assert {(call.outcome, call.tries) for call in recorder.calls} == {("done", 1)}

    def test_of_secrets_of_a_command_line(self, house, served, site, recorder):
        """They are known, so that nobody who looks reads them: in the address, the body, and what came."""
        script = house.root / "echo.py"
        script.write_text("def Invoke(*args, **kwargs):\n    return ' '.join(args)\n", "utf-8")
        words = ["--oauth2-bearer", "bearer-{chat_user_prompt_last_one}", "-u", "me:password1"]
        house.workflow(
            "Main",
            {"type": "CurlCommand", "title": "Curl", "args": ["-s", *words, site.url("/news")]},
            {"type": "PythonModule", "title": "Echo", "module_path": str(script), "args": words},
            say("a", "Answer"),
        )
        served.save_user()
        served.text(text="tea")
        assert [call.secrets for call in recorder.calls] == [("bearer-tea", "password1")] * 2
        shown = json.dumps(run_json(recorder.run, recorder.run.ended))
        assert "bearer-tea" not in shown and "password1" not in shown and "***" in shown

    def test_of_a_script_s_calls_to_a_model(self, house, served, big, recorder, site, tmp_path):
        """They belong to its node, stand in the numbers, and count in the usage of the workflow."""
        script = tmp_path / "ask.py"
        script.write_text(SCRIPT, "utf-8")
        node = {"type": "PythonModule", "title": "Ask", "module_path": str(script), "args": ["tea"]}
        house.workflow("Main", node, say("{agent1Output}", "Answer"))
        served.save_user()
        assert served.text() == "Hello Hello"
        made, whole, streamed = recorder.calls
        assert (made.kind, json.loads(made.body), made.raw) == (
            "script",
            {"args": ["tea"], "kwargs": {}},
            "Hello Hello",
        )
        assert [(call.kind, call.endpoint, call.raw) for call in (whole, streamed)] == [
            ("model", "big", "Hello")
        ] * 2
        assert json.loads(whole.body)["messages"][-1]["content"] == "tea"
        assert recorder.run.all_usage == {"prompt_tokens": 10, "completion_tokens": 4, "calls": 2}

    @pytest.mark.parametrize(
        ("node", "path", "answer"),
        [
            ("OfflineWikiApiFullArticle", "/articles", b'[{"text": "sunny"}]'),
            ("OfflineResearcherApiQuickSearch", "/search", b'{"answer": "sunny"}'),
        ],
    )
    def test_of_a_question_to_a_service_beside_us(self, house, served, site, recorder, node, path, answer):
        """Its whole address, its status, and what it said itself."""
        site.pages[path] = (200, {}, answer)
        house.user |= {"useOfflineWikiApi": True, "useOfflineResearcherApi": True}
        house.user |= {"offlineWikiApiPort": site.port, "offlineResearcherApiPort": site.port}
        house.user |= {"offlineWikiApiHost": "127.0.0.1", "offlineResearcherApiHost": "127.0.0.1"}
        house.workflow("Main", {"type": node, "title": "Look", "promptToSearch": "tea"}, say("a", "Answer"))
        served.save_user()
        served.text()
        [call] = recorder.calls
        assert (call.kind, call.backend, call.status, call.raw) == ("http", "127.0.0.1", 200, answer.decode())
        assert call.url.startswith(site.url(path)) and b"tea" in call.url.encode() + call.body

    def test_of_a_tool_of_an_mcp_server(self, house, served, recorder, tmp_path):
        """Server, tool, arguments, and what came; a call that fails says why."""
        house.write("MCPServers/tests", stdio_file(tmp_path / "trace.txt"))
        node = {
            "type": "MCPToolCall",
            "server": "tests",
            "arguments": {"value": "{chat_user_prompt_last_one}"},
        }
        house.workflow(
            "Main",
            {**node, "title": "Kinds", "tool": "kinds"},
            {**node, "title": "None", "tool": "no-such-tool", "onError": "return"},
            say("a", "Answer"),
        )
        served.save_user()
        try:
            served.text(text="tea")
        finally:
            mcp_doors.end_sessions()
        well, ill = recorder.calls
        assert (well.kind, well.backend, well.url, well.outcome) == ("mcp", "tests", "tests: kinds", "done")
        assert (json.loads(well.body), json.loads(well.raw)) == ({"value": "tea"}, "tea")
        assert (ill.url, ill.outcome) == ("tests: no-such-tool", "MCPToolCallError")
        assert "no-such-tool" in ill.error

    def test_of_a_value_that_is_no_text(self, house, served, recorder):
        """As JSON."""
        script = house.root / "pair.py"
        script.write_text("def Invoke(*args, **kwargs):\n    return {'a': [1, None]}\n", "utf-8")
        node = {"type": "PythonModule", "title": "Pair", "module_path": str(script)}
        house.workflow("Main", node, say("a", "Answer"))
        served.save_user()
        served.text()
        [call] = recorder.calls
        assert (call.raw, recorder.run.nodes[0].output) == ('{"a":[1,null]}', {"a": [1, None]})

    def test_of_a_call_to_the_world_that_fails(self, house, served, recorder):
        """What was said of it."""
        house.workflow(
            "Main", {"type": "WebFetch", "title": "Fetch", "url": "http://127.0.0.1:9/x", "onError": "return"}
        )
        served.save_user()
        served.text()
        [call] = recorder.calls
        assert (call.outcome, call.status) == ("WebError", None) and call.error

    def test_of_messages_left_out(self, house, served, big, recorder):
        """And of the node's warnings."""
        big(maxContextTokenSize=300)
        house.workflow(
            "Main",
            {"type": "Standard", "endpointName": "big", "title": "Answer", "maxResponseSizeInTokens": 50, "clampPromptToContextWindow": True},
        )  # fmt: skip
        served.save_user()
        messages = [{"role": ("user", "assistant")[i % 2], "content": "word " * 100} for i in range(9)]
        served.app.test_client().post("/v1/chat/completions", json={"model": "ana", "messages": messages})
        assert recorder.run.nodes[0].dropped > 0


class TestEnds:
    def test_a_node_that_fails_and_the_run_goes_on(self, house, served, big, recorder):
        """The node says why."""
        big("dead", endpoint="http://127.0.0.1:9")
        house.workflow("Main", ask("Draft", "dead", onNodeError="continue"), say("a", "Answer"))
        served.save_user()
        served.text()
        draft, answer = recorder.run.nodes
        assert (draft.state, answer.state, recorder.run.state) == ("went_on", "done", "done")
        assert "dead" in draft.error

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    def test_an_answer_that_stands_in_for_a_failed_one(self, house, served, big, recorder, stream):
        """`errorText` is an answer: with its first text and its finish reason."""
        big("dead", endpoint="http://127.0.0.1:9")
        house.workflow("Main", ask("Answer", "dead", onNodeError="continue", errorText="Sorry."))
        served.save_user()
        assert served.text(stream=stream) == "Sorry."
        run = recorder.run
        assert (run.state, run.finish_reason, run.nodes[0].state) == ("done", "stop", "went_on")
        assert run.first_text

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    def test_a_run_that_fails(self, house, served, big, recorder, stream):
        """With the sentence that the client got."""
        big("dead", endpoint="http://127.0.0.1:9")
        house.workflow("Main", ask("Answer", "dead"))
        served.save_user()
        status, body = served.ask(stream=stream)
        run = recorder.run
        assert (status, run.state, run.status, run.nodes[0].state) == (502, "failed", 502, "failed")
        assert json.loads(body)["error"]["message"] == run.error
        assert run.answered == 0

    def test_a_call_that_was_tried_in_vain(self, house, served, big, recorder, site):
        """How often, with which status, and what the backend said."""
        page = (503, {"Retry-After": "0"}, b'{"error": {"message": "too busy today"}}')
        site.pages["/v1/chat/completions"] = page
        house.workflow("Main", ask("Answer"))
        served.save_user()
        served.ask()
        [call] = recorder.calls
        assert (call.tries, call.status, call.outcome) == (len(site.seen), 503, "overloaded")
        assert call.tries > 1 and "too busy today" in call.error

    def test_a_stream_that_breaks_off(self, house, served, big, recorder, site):
        """What came is there, and why no more did."""
        big(thinkTagNames=["think"], removeThinking=True, trimBeginningAndEndLineBreaks=True)
        events = [
            b'data: {"choices":[{"delta":{"content":"One "},"finish_reason":null}]}\n\n',
            b'data: {"error":{"message":"out of memory"}}\n\n',
        ]
        site.pages["/v1/chat/completions"] = (200, {"Content-Type": "text/event-stream"}, events)
        house.workflow("Main", ask("Answer"))
        served.save_user()
        served.ask(stream=True)
        run, [call] = recorder.run, recorder.calls
        assert (run.state, call.outcome, call.raw) == ("failed", "error", "One ")
        assert "out of memory" in call.error and "out of memory" in run.error

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    def test_an_answer_without_a_text(self, house, served, big, recorder, site, stream):
        """Has no first text."""
        site.text = [""]
        house.workflow("Main", ask("Answer"))
        served.save_user()
        served.text(stream=stream)
        assert (recorder.run.state, recorder.run.first_text) == ("done", 0.0)

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    def test_a_run_that_a_lock_ends(self, house, served, recorder, stream):
        """Its message is an answer, of no node."""
        lock = {"type": "WorkflowLock", "workflowLockId": "one", "lockedMessage": "Busy."}
        house.workflow("Main", lock, {**lock, "title": "Again"}, say("a", "Answer"))
        served.save_user()
        assert served.text(stream=stream) == "Busy."
        assert recorder.ended.wait(PATIENCE_S)
        run = recorder.run
        assert (run.state, run.finish_reason, [node.state for node in run.nodes]) == (
            "done",
            "stop",
            ["done", "stopped"],
        )
        assert run.first_text and run.usage["completion_tokens"] == 1

    def test_a_request_that_is_refused(self, house, served, recorder):
        """No workflow began."""
        served.save_user()
        asked = {"model": "ana", "messages": "x"}
        served.app.test_client().post("/v1/chat/completions", json=asked).close()
        run = recorder.run
        assert (run.state, run.status, run.nodes) == ("refused", 400, [])
        assert run.error.startswith("'messages' must be a list of objects")

    @pytest.mark.parametrize("why", ["DELETE", "a newer request with its key", "the server stops"])
    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    def test_who_cancels_while_the_model_thinks(self, house, served, big, recorder, site, why, stream):
        """As the client's other request, its retry, or the server itself does it."""
        house.workflow("Main", ask("Answer"))
        served.save_user()
        path, client = "/v1/chat/completions", served.app.test_client()
        key, answers = {"Idempotency-Key": "k"}, site.pages["/v1/chat/completions"]

        def retry(handler):
            site.pages[path] = answers
            body = ROUTES["openai-chat"].ask("ana", "again", stream=False)
            served.app.test_client().post(path, json=body, headers=key).close()

        ways = {
            "DELETE": lambda handler: client.delete(f"{path}/{recorder.runs[0].id}"),
            "a newer request with its key": retry,
            "the server stops": lambda handler: served.app.wsgi_app.cancel_unanswered(),
        }
        site.pages[path] = ways[why]
        body = ROUTES["openai-chat"].ask("ana", "hi", stream=stream)
        served.app.test_client().post(path, json=body, headers=key).close()
        run = recorder.runs[0]
        assert (run.state, run.cancelled_by, run.nodes[0].state) == ("cancelled", why, "cancelled")

    def test_a_client_that_leaves_its_stream(self, house, served, recorder, hanging):
        """Between two tokens: what came until then is kept."""
        house.workflow("Main", ask("Answer"))
        served.save_user()
        reply = hanging()
        counted, text = recorder.run.counter(), recorder.run.text_so_far()
        reply.close()
        assert recorder.ended.wait(PATIENCE_S)
        run, [call] = recorder.run, recorder.calls
        assert (run.state, run.cancelled_by, run.nodes[0].state) == (
            "cancelled",
            "the client hung up",
            "cancelled",
        )
        assert (call.raw, call.outcome, run.answered, run.counter) == ("One", "closed", 0.0, None)
        assert (counted >= 1, text, run.text_so_far) == (True, "One", None)

    def test_a_stream_that_the_console_cancels(self, house, served, recorder, hanging):
        """What came until then is kept, however it is cancelled."""
        house.workflow("Main", ask("Answer"))
        served.save_user()
        reply = hanging()
        assert recorder.calls[0].tries == 1
        cancellation_service.request_cancellation(recorder.run.id, "the console")
        list(reply.response)
        reply.close()
        run, [call] = recorder.run, recorder.calls
        assert (run.state, run.cancelled_by, call.outcome) == ("cancelled", "the console", "cancelled")
        assert (call.raw, call.cleaned, call.tries) == ("One", "One", 1)

    @pytest.fixture
    def hanging(self, served, big, site):
        """`hanging()`: the reply to a client whose model has said `One` and says no more."""
        big(thinkTagNames=["think"], removeThinking=True)
        first = b'data: {"choices":[{"delta":{"content":"One"},"finish_reason":null}]}\n\n'
        over = threading.Event()

        def hang(handler):
            handler.send_response(200)
            handler.send_header("Content-Type", "text/event-stream")
            handler.end_headers()
            handler.wfile.write(first)
            over.wait(PATIENCE_S)

        def asked():
            body = ROUTES["openai-chat"].ask("ana", "hi", stream=True)
            reply = served.app.test_client().post("/v1/chat/completions", json=body, buffered=False)
            while b"One" not in next(reply.response):
                continue
            return reply

        site.pages["/v1/chat/completions"] = hang
        yield asked
        over.set()

    @pytest.mark.parametrize("nested", [False, True], ids=["its-own-node", "a-nested-one"])
    def test_a_stream_that_is_cancelled(self, house, served, big, recorder, site, nested):
        """While it goes out: what came until then is kept, also without a hang-up."""
        big(thinkTagNames=["think"], removeThinking=True)
        first = b'data: {"choices":[{"delta":{"content":"<think>hm</think>One"},"finish_reason":null}]}\n\n'

        def stop(handler):
            handler.send_response(200)
            handler.send_header("Content-Type", "text/event-stream")
            handler.end_headers()
            handler.wfile.write(first)
            assert recorder.spoke.wait(PATIENCE_S)
            cancellation_service.request_cancellation(recorder.run.id, "the console")

        site.pages["/v1/chat/completions"] = stop
        house.workflow("Inner" if nested else "Main", ask("Answer"))
        if nested:
            house.workflow("Main", {"type": "CustomWorkflow", "title": "Ask", "workflowName": "Inner"})
        served.save_user()
        served.ask(stream=True)
        run, [call] = recorder.run, recorder.calls
        assert (run.state, call.outcome) == ("cancelled", "cancelled")
        assert (call.raw, call.cleaned, call.thoughts) == ("<think>hm</think>One", "One", ["hm"])

    @pytest.mark.parametrize("why", ["DELETE", "the console", ""])
    def test_a_request_that_is_cancelled(self, house, served, big, recorder, site, why):
        """Who wanted it is told."""
        house.workflow("Main", ask("Answer"))
        served.save_user()
        path = "/v1/chat/completions"

        def stop(handler):
            cancellation_service.request_cancellation(recorder.run.id, why)

        site.pages[path] = stop
        served.ask()
        run = recorder.run
        assert (run.state, run.cancelled_by, run.nodes[0].state) == ("cancelled", why, "cancelled")
        assert recorder.calls[0].outcome == "cancelled"


class TestKeeping:
    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    @pytest.mark.parametrize("private", [True, False], ids=["private", "not-private"])
    def test_a_private_user(self, house, served, big, site, tmp_path, stream, private):
        """No text of it is in the trace, whenever and wherever one looks: of prompt, answer, thought, output, script,
        page, program, tool, warning, failure, discussion."""
        seen = observe(served, Walking())
        big(thinkTagNames=["think"], removeThinking=True)
        big("quoting", endpoint=site.url("/quoting").rstrip("/"))
        site.pages["/quoting/v1/chat/completions"] = (
            500,
            {},
            b'{"error": {"message": "cannot read marker-5"}}',
        )
        site.pages["/page"] = (200, {}, b"marker-of-the-page")
        site.text = ["<think>marker-of-the-thought</think>", "marker-of-the-answer"]
        script = tmp_path / "echo.py"
        script.write_text("def Invoke(*args, **kwargs):\n    return args[0]\n", "utf-8")
        said = "{chat_user_prompt_last_one}"
        house.workflow("Child", ask("Inner"), {"type": "Nonsense", "title": "Odd", "endpointName": "big"})
        house.workflow(
            "Main",
            ask("First", addDiscussionIdTimestampsForLLM=True),
            ask("Fails", "quoting", onNodeError="continue", errorText=said),
            {"type": "WebFetch", "title": "Fetch", "url": site.url(f"/page?q={said}"), "body": said},
            {"type": "WebFetch", "title": "Lost", "url": f"http://127.0.0.1:9/{said}", "onError": "return"},
            {"type": "CurlCommand", "title": "Curl", "args": ["-s", site.url("/page"), "-d", said]},
            {"type": "PythonModule", "title": "Script", "module_path": str(script), "args": [said]},
            {
                "type": "PythonModule",
                "title": "No script",
                "module_path": f"{said}.py",
                "onNodeError": "continue",
            },
            {"type": "MCPToolCall", "title": "Tool", "server": said, "tool": said, "onError": "return"},
            {"type": "CustomWorkflow", "title": "Nested", "workflowName": "Child"},
            ask("Answer", returnToUser=True),
            say(f"{said}{{agent1Output}}", "After"),
        )
        served.save_user(redactLogOutput=private)
        served.text(text="marker-4 [DiscussionId]marker-6[/DiscussionId]", stream=stream)
        assert seen.ended.wait(PATIENCE_S)
        assert [node.title for node in seen.run.nodes][-1] == "After"
        assert bool(seen.found) is not private

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    @pytest.mark.parametrize("keeps_text", [True, False], ids=["texts", "facts"])
    def test_no_conversation_lives_on_in_a_run(self, house, served, big, site, stream, keeps_text):
        """With garbage collection off: when the request has ended, its messages are dead although the run is kept."""
        recorder = observe(served, Recorder(keeps_text))
        house.workflow("Child", ask("Inner"))
        house.workflow(
            "Main",
            ask("Member", parallelGroup="g"),
            ask("Other", parallelGroup="g"),
            {"type": "CustomWorkflow", "title": "Nested", "workflowName": "Child"},
            ask("Answer"),
        )
        served.save_user()
        served.text(text="the first", stream=stream)
        recorder.ended.wait(PATIENCE_S)
        gc.collect()
        gc.disable()
        try:
            served.text(text="the-conversation", stream=stream)
            left = [one for one in gc.get_objects() if type(one) is list and is_conversation(one)]
        finally:
            gc.enable()
        assert (len(recorder.runs), left) == (2, [])

    @pytest.mark.parametrize("private", [True, False])
    def test_what_goes_wrong_quotes_nobody(self, house, served, site, big, private):
        """Failures of backends, addresses and warnings may hold what people wrote."""
        recorder = observe(served, Recorder(keeps_text=False))
        site.pages["/v1/chat/completions"] = (
            500,
            {},
            b'{"error": {"message": "I cannot read marker-of-the-prompt"}}',
        )
        house.workflow(
            "Main",
            {
                "type": "WebFetch",
                "title": "Fetch",
                "url": site.url("/x?q={chat_user_prompt_last_one}"),
                "onError": "return",
            },
            ask("First", onNodeError="continue"),
            say("a", "Answer"),
        )
        served.save_user(redactLogOutput=private)
        served.text(text="marker-of-the-prompt")
        told = [text for text in texts_in(recorder.run) if "marker" in text]
        assert bool(told) is not private

    def test_facts_only(self, house, served, big, site):
        """Nobody keeps text: the run holds none."""
        recorder = observe(served, Recorder(keeps_text=False))
        house.workflow("Main", ask("First"), ask("Answer"))
        site.text = ["marker-of-the-answer"]
        served.save_user()
        served.text(text="marker-of-the-prompt")
        assert [text for text in texts_in(recorder.run) if "marker" in text] == []

    @pytest.mark.parametrize("at", EVENTS)
    def test_an_observer_that_raises_harms_no_answer(self, house, served, big, caplog, at):
        """Wherever it does: one line in the log, it is told nothing any more, and the others are told all."""

        class Faulty(Recorder):
            def note_change(self, run, what, node):
                super().note_change(run, what, node)
                if what == at:
                    raise RuntimeError("a fault of the observer")

        faulty, good = observe(served, Faulty()), observe(served, Recorder())
        house.workflow("Main", ask("Draft"), ask("Answer"))
        served.save_user()
        with caplog.at_level(logging.ERROR):
            texts = [served.text(stream=stream) for stream in (False, True)]
        assert texts == ["Hello", "Hello"]
        assert [record.getMessage() for record in caplog.records] == [
            "Faulty failed and will not observe further runs"
        ]
        assert [told.split()[0] for told in faulty.told].count(at) == 1 and faulty.told[-1].startswith(at)
        assert good.told.count("ended") == 2


class Walking(Recorder):
    """Looks for markers in all of a run each time that it is told something."""

    def __init__(self):
        super().__init__(keeps_text=True)
        self.found = []

    def note_change(self, run, what, node):
        self.found += [(what, text) for text in texts_in(run) if "marker" in text]
        super().note_change(run, what, node)


def is_conversation(messages):
    """Python does not track a dict of texts for its garbage collection, but the list that holds it."""
    return any(type(one) is dict and one.get("content") == "the-conversation" for one in messages)


def texts_in(value, seen=None):
    """Every text that can be reached from a trace. Anything but plain values would be a fault of the trace."""
    seen = set() if seen is None else seen
    if id(value) in seen or value is None or isinstance(value, int | float):
        return []
    seen.add(id(value))
    if isinstance(value, str | bytes):
        return [value if isinstance(value, str) else value.decode()]
    if isinstance(value, Mapping):
        return [text for pair in value.items() for part in pair for text in texts_in(part, seen)]
    if isinstance(value, list | tuple):
        return [text for part in value for text in texts_in(part, seen)]
    if callable(value):  # gives the text so far
        return [value()]
    assert dataclasses.is_dataclass(value), value
    fields = [f.name for f in dataclasses.fields(value) if f.name not in ("observers", "counter")]
    return [text for name in fields for text in texts_in(getattr(value, name), seen)]
