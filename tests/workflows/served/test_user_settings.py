"""Settings of a user at work, from the client's side: by both protocols, streamed and whole."""

from __future__ import annotations

import json

import pytest

CHATS = {"openai-chat": "/v1/chat/completions", "ollama-chat": "/api/chat"}
WAYS = [
    pytest.param(route, stream, id=f"{route}-{'streamed' if stream else 'whole'}")
    for route in CHATS
    for stream in (False, True)
]
BOTH = pytest.mark.parametrize(("route", "stream"), WAYS)
PICKER = "Your task is to choose and return the correct tool(s) from the list of available tools based on the query. Tools: []"


def say(content, **fields):
    return {"type": "StaticResponse", "content": content, **fields}


@pytest.fixture
def chat(served):
    """`chat(route, stream, messages, headers)` -> the units of the answer (a whole one is one unit)."""

    def asked(route, stream, messages, headers=None):
        body = {"model": "ana", "stream": stream, "messages": messages}
        reply = served.app.test_client().post(CHATS[route], json=body, headers=headers or {})
        assert reply.status_code == 200, reply.get_data()
        if not stream:
            return [reply.get_json()]
        lines = [line.removeprefix("data: ") for line in reply.get_data(as_text=True).splitlines()]
        return [json.loads(line) for line in lines if line.startswith("{")]

    return asked


def user(content):
    return [{"role": "user", "content": content}]


def parts(units):
    """The messages, or pieces of one, of an answer."""
    choices = [choice for unit in units for choice in unit.get("choices", [])]
    own = [unit["message"] for unit in units if "message" in unit]
    return [choice["delta"] if "delta" in choice else choice["message"] for choice in choices] + own


def said(units):
    """The text of an answer."""
    return "".join(part.get("content") or "" for part in parts(units))


def calls(units):
    """The tool calls of an answer, as (name, arguments)."""
    found = [call["function"] for part in parts(units) for call in part.get("tool_calls") or []]
    return [(call["name"], _object(call["arguments"])) for call in found]


def _object(arguments):
    return json.loads(arguments) if isinstance(arguments, str) else arguments


@BOTH
class TestChats:
    def test_liveness_tool_call(self, served, chat, route, stream):
        """Added to the answer; what comes back of it is seen once, then cleaned away."""
        served.save_user(livenessToolCall={"toolName": "ping", "arguments": {"a": 1}})
        served.house.workflow("Main", say("[{chat_user_prompt_last_ten}]", injectLivenessToolCall=True))
        units = chat(route, stream, user("hi"))
        assert (said(units), calls(units)) == ("[hi]", [("ping", {"a": 1})])
        machinery = {"id": "wilmer_liveness_1", "function": {"name": "ping", "arguments": {"a": 1}}}
        history = [
            {"role": "assistant", "content": "working", "tool_calls": [machinery]},
            {"role": "tool", "content": "PONG", "tool_call_id": "wilmer_liveness_1"},
            *user("and now?"),
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "1", "function": {"name": "look", "arguments": {}}}],
            },
            {"role": "tool", "content": "seen", "tool_call_id": "1"},
        ]
        assert "PONG" not in said(chat(route, stream, history))

    def test_tool_picker_of_open_webui(self, served, chat, route, stream):
        """Answered at once, and only when the user wants it."""
        served.house.workflow("Main", say("ran"))
        picker = [{"role": "system", "content": PICKER}, *user("hi")]
        served.save_user()
        assert said(chat(route, stream, picker)) == "ran"
        served.save_user(interceptOpenWebUIToolRequests=True)
        assert json.loads(said(chat(route, stream, picker))) == {"tool_calls": []}
        assert said(chat(route, stream, user("hi"))) == "ran"

    def test_discussion_id_from_a_header(self, served, chat, route, stream):
        """A tag wins; a name that is no folder name counts for nothing."""
        served.save_user(discussionIdFromHeader="X-OpenWebUI-Chat-Id")
        served.house.workflow("Main", say("<{Discussion_Id}>"))
        header = {"X-OpenWebUI-Chat-Id": "c1"}
        assert said(chat(route, stream, user("hi"), header)) == "<c1>"
        assert said(chat(route, stream, user("[DiscussionId]d[/DiscussionId]hi"), header)) == "<d>"
        assert said(chat(route, stream, user("hi"), {"X-OpenWebUI-Chat-Id": "../x"})) == "<>"

    def test_background_tasks_of_open_webui(self, served, chat, route, stream):
        """They have a workflow of their own and belong to no discussion."""
        served.house.workflow("Main", say("main <{Discussion_Id}>"))
        served.house.workflow("Tasks", say("task <{Discussion_Id}>"))
        task = user("### Task:\nA title. <chat_history>[DiscussionId]d[/DiscussionId]hi</chat_history>")
        served.save_user()
        assert said(chat(route, False, task)) == "main <>"
        served.save_user(openWebUITaskWorkflow="Tasks")
        assert said(chat(route, False, task)) == "task <>"
        assert said(chat(route, stream, user("x"), {"X-OpenWebUI-Task": "title_generation"})) == "task <>"
        assert said(chat(route, stream, user("[DiscussionId]d[/DiscussionId]hi"))) == "main <d>"

    def test_static_texts_are_slowed_down_on_demand(self, served, chat, route, stream):
        """Word by word, nothing lost; without it a text is one piece."""
        served.house.workflow("Main", say("a  b c"))
        served.save_user()
        assert len([u for u in chat(route, True, user("x")) if said([u])]) == 1
        served.save_user(staticStreamDelayMs=1)
        units = chat(route, stream, user("x"))
        assert said(units) == "a  b c"
        assert len([u for u in units if said([u])]) == (5 if stream else 1)


def test_the_depth_of_nested_workflows(served):
    """The refusal shows the chain of calls."""
    served.save_user(maxWorkflowDepth=2)
    served.house.workflow("Main", {"type": "CustomWorkflow", "workflowName": "Main"})
    for route, key in (("openai-chat", "message"), ("ollama-chat", "error")):
        status, body = served.ask(route=route)
        error = json.loads(body)["error"]
        text = error[key] if isinstance(error, dict) else error
        assert (status, "deeper than 2" in text, "Main > Main" in text) == (500, True, True)


def test_names_in_another_case(served, caplog):
    """Folders and files of every kind are found, with a warning each."""
    house = served.house
    served.save_user(customWorkflow="main")
    house.workflow("Main", {"type": "Standard", "endpointName": "CHAT", "preset": "COLD"}, folder="ANA")
    house.write("Presets/any/cold", {"temperature": 0})
    assert served.text() == "hello"
    forgiven = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert len(forgiven) == 3
