"""The only door to the engine (frontend-api.md 9 and 16)."""

from __future__ import annotations

import json

import pytest

from Middleware.api import workflow_gateway
from Middleware.api.workflow_gateway import handle_user_prompt, open_answer
from Middleware.common.errors import EarlyTermination
from Middleware.common.request_context import ClientQuestion, RequestContext, enter_request
from Middleware.config.loader import default_snapshot
from tests.api.conftest import chunk, sse

CALL = {"index": 0, "id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}
LIVENESS = {"toolName": "ping", "arguments": {}}


def user(content):
    return [{"role": "user", "content": content}]


@pytest.fixture
def ask(configs, engine):
    """`ask(messages, task=..., headers=...)` opens a run and gives the engine's call."""

    def opened(messages, *, task=None, headers=None, **more):
        facts = {"task": task, "snapshot": default_snapshot(), **more}
        request = RequestContext("R", "mira", "openaichatcompletion", **facts)
        open_answer(request, ClientQuestion(messages, True, [CALL], "auto"), headers)
        return engine.last

    return opened


class TestOpenAnswer:
    def test_the_engine_gets_what_the_client_sent(self, ask):
        """Messages with their tags, tools unchanged."""
        call = ask(user("[DiscussionId]d[/DiscussionId]Hi"))
        assert call.messages == user("[DiscussionId]d[/DiscussionId]Hi")
        assert (call.stream, call.tools, call.tool_choice, call.discussion_id) == (True, [CALL], "auto", None)

    def test_liveness_machinery_is_removed_when_it_is_configured(self, ask, configs):
        """Not otherwise; the client's list is not changed."""
        call = {"id": "wilmer_liveness_1", "function": {"name": "ping", "arguments": "{}"}}
        messages = [{"role": "assistant", "content": "", "tool_calls": [call]}, *user("Hi")]
        assert len(ask(messages).messages) == 2
        configs("Users/mira.json", {"customWorkflow": "Main", "livenessToolCall": LIVENESS})
        assert ask(messages).messages == user("Hi")
        assert len(messages) == 2

    @pytest.mark.parametrize(
        ("text", "value", "expected"),
        [
            ("Hi", "chat-1", "chat-1"),
            ("[DiscussionId]d[/DiscussionId]Hi", "chat-1", None),
            ("Hi", "../up", None),
            ("Hi", "x" * 129, None),
            ("Hi", "", None),
        ],
        ids=["header", "tag-wins", "no-flat-name", "too-long", "empty"],
    )
    def test_the_discussion_id_of_a_header(self, ask, configs, text, value, expected):
        """16.3: when the user names the header and no message has a tag."""
        configs("Users/mira.json", {"discussionIdFromHeader": "X-OpenWebUI-Chat-Id"})
        assert ask(user(text), headers={"x-openwebui-chat-id": value}).discussion_id == expected

    def test_a_background_task_belongs_to_no_discussion(self, ask, configs):
        """16.2: its tags go, its header is not read."""
        configs("Users/mira.json", {"discussionIdFromHeader": "X-Chat"})
        call = ask(user("a [DiscussionId]d[/DiscussionId]b"), task="unknown", headers={"x-chat": "c"})
        assert call.messages == user("a b")
        assert call.discussion_id is None and not hasattr(call, "name")

    @pytest.mark.parametrize("task", [None, "title_generation"])
    def test_a_plain_model_runs_no_workflow(self, ask, configs, task):
        """Not for a background task either; nothing the user sets touches its messages (operate.md 4)."""
        settings = {
            "openWebUITaskWorkflow": "Tasks",
            "livenessToolCall": LIVENESS,
            "discussionIdFromHeader": "X-Chat",
        }
        configs("Users/mira.json", settings)
        talk = [{"role": "assistant", "content": "", "tool_calls": [CALL]}, *user("Hi")]
        call = ask(talk, task=task, headers={"x-chat": "c"}, raw_endpoint="main")
        assert (call.endpoint, call.messages, call.discussion_id) == ("main", talk, None)
        assert call.user.liveness_tool_call is None

    def test_a_background_task_may_have_a_workflow_of_its_own(self, ask, configs):
        """Instead of the normal routing."""
        configs("Users/mira.json", {"openWebUITaskWorkflow": "Tasks"})
        assert ask(user("Title?"), task="title_generation").name == "Tasks"


class TestHandleUserPrompt:
    def test_whole(self, configs, engine):
        """Text; the run is used up."""
        assert handle_user_prompt("R", user("Hi"), False) == "Hello."

    def test_whole_with_tool_calls(self, configs, engine):
        """Text and calls."""
        engine.answer = [[chunk("a", tool_calls=[CALL])], [chunk("", "stop")], []]
        answer = handle_user_prompt("R", user("Hi"), stream=False)
        assert answer["content"] == "a" and answer["tool_calls"][0]["id"] == "c"

    def test_a_held_lock(self, configs, engine):
        """The text of the lock node."""

        def locked(call):
            raise EarlyTermination(locked_message="Busy.")

        engine.answer = locked
        assert handle_user_prompt("R", user("Hi"), False) == "Busy."

    def test_streamed_outside_a_request(self, configs, engine):
        """In the chat format of the single user."""
        units = sse("".join(handle_user_prompt("R", user("Hi"), True)))
        assert units[0]["id"] == "chatcmpl-R" and units[0]["model"] == "mira" and units[-1] == "[DONE]"

    def test_streamed_inside_a_request(self, configs, engine):
        """In the format of that request, with its key."""
        request = RequestContext("Q", "mira", "ollamagenerate", snapshot=default_snapshot())
        with enter_request(request):
            units = [json.loads(u) for u in handle_user_prompt("R", user("Hi"), True, api_key="k")]
        assert [u["response"] for u in units] == ["Hel", "lo.", ""]
        assert engine.last.request.api_key == "k" and engine.last.request.request_id == "R"

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    def test_it_is_no_answer_of_the_request_around_it(self, configs, engine, stream):
        """A script may ask while its own request has not answered yet."""
        request = RequestContext("Q", "mira", "openaichatcompletion", snapshot=default_snapshot())
        with enter_request(request):
            assert "Hel" in "".join(handle_user_prompt("R", user("Hi"), stream))
        assert not request.answer.sent

    def test_a_stream_always_ends(self, configs, engine):
        """Also when the run gives nothing."""
        engine.answer = []
        assert sse("".join(handle_user_prompt("R", user("Hi"), True)))[-1] == "[DONE]"


def test_the_engine_is_loaded_when_it_is_needed():
    """And is the real one."""
    assert callable(workflow_gateway._engine().open_answer_run)
