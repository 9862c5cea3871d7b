"""Endpoints as plain models: what a client sent goes to the backend as it is (operate.md 4)."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from Middleware.common.errors import ClientRequestError, ConfigError, RequestCancelled, WorkflowError
from Middleware.common.request_context import ClientQuestion, Wish
from Middleware.config.users import for_plain_model
from Middleware.llmapis.llm_text import LlmText
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.run_trace import Observers
from Middleware.workflows.managers.workflow_manager import WorkflowManager, plain_question
from tests.workflows.conftest import collect

BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
TOOLS = [{"type": "function", "function": {"name": "tide", "parameters": {"type": "object"}}}]
CALL = {"id": "c1", "type": "function", "function": {"name": "tide", "arguments": "{}"}}


def user(text: str = "Hi", **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **more}


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def answered(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


def plain_manager(house) -> WorkflowManager:
    made = house.manager()
    return WorkflowManager(for_plain_model(made.user), made.request)


def ask(house, *messages: Any, endpoint: str = "chat", stream: bool = False, **more: Any):
    """What the scripted backend was asked, and what the client got."""
    question = ClientQuestion(list(messages or [user()]), stream, **more)
    answer = collect(plain_manager(house).open_plain_run(endpoint, question))
    return house.model.calls[-1], answer


def wishes(**values: Any):
    return MappingProxyType({name: Wish(value, name) for name, value in values.items()})


@BOTH
class TestMessages:
    def test_all_of_them_in_their_order(self, house, stream):
        """System messages wherever they stand, blank ones, more than any node would send."""
        talk = [
            system("One."),
            system("Two."),
            *[user(f"q{n}") for n in range(30)],
            answered(""),
            system("Three."),
            user(),
        ]
        call, answer = ask(house, *talk, stream=stream)
        assert call.conversation == talk and (call.system_prompt, call.prompt) == (None, None)
        assert answer.text == "hello"

    def test_nothing_is_added_to_a_conversation_of_nobody(self, house, stream):
        """No user turn, no assistant turn, no system text."""
        for talk in ([system("Only.")], [answered("Once upon")], [user("a"), answered("b"), answered("c")]):
            assert ask(house, *talk, stream=stream)[0].conversation == talk

    def test_discussion_tags_are_taken_off_and_name_nothing(self, house, stream, tmp_path):
        """A message that held nothing else goes with it. No folder of a discussion is made."""
        tag = "[DiscussionId]tale[/DiscussionId]"
        call, _ = ask(house, system(tag), user(f"{tag}Hi {{there}}"), user(tag, images=["x"]), stream=stream)
        assert call.conversation == [user("Hi {there}"), user("", images=["x"])]
        assert call.discussion_id is None and not (tmp_path / "DiscussionIds").exists()

    def test_settings_of_the_user_touch_nothing(self, house, stream):
        house.user |= {
            "livenessToolCall": {"toolName": "go_on"},
            "steadyWindow": True,
            "customWorkflow": "None",
            "userWideWorkflowVariables": {"there": "x"},
        }
        house.model.replies = [""]
        call, answer = ask(house, user("{there}"), answered("", tool_calls=[CALL]), stream=stream)
        assert call.conversation == [user("{there}"), answered("", tool_calls=[CALL])]
        assert not answer.tool_calls

    def test_tools_and_the_choice_of_one(self, house, stream):
        """Natively, also one that is demanded; an exchange is whole."""
        house.endpoint("chat", apiTypeConfigFileName="Structured")
        house.write(
            "ApiTypes/Structured",
            {
                "type": "scriptedChat",
                "presetType": "any",
                "structuredOutput": {"field": "response_format", "style": "openaiJsonSchema"},
            },
        )
        choice = {"type": "function", "function": {"name": "tide"}}
        talk = [
            system("S"),
            user(),
            answered("", tool_calls=[CALL]),
            {"role": "tool", "content": "5 m", "tool_call_id": "c1"},
        ]
        call, _ = ask(house, *talk, stream=stream, tools=TOOLS, tool_choice=choice)
        assert (call.tools, call.tool_choice, call.schema, call.conversation) == (TOOLS, choice, None, talk)

    def test_calls_of_the_model_reach_the_client(self, house, stream):
        house.model.replies = [{"content": "", "tool_calls": [CALL], "finish_reason": "tool_calls"}]
        _, answer = ask(house, stream=stream, tools=TOOLS)
        assert [one["function"]["name"] for one in answer.tool_calls] == ["tide"]

    def test_pictures(self, house, stream):
        """All of them, each with its message."""
        talk = [user("a", images=["one"]), answered("b"), user("c", images=["two", "three"])]
        call, _ = ask(house, *talk, stream=stream)
        assert call.conversation == talk and call.llm_takes_images


@BOTH
class TestWishes:
    def test_all_of_them_are_taken(self, house, stream, caplog):
        """Under the backend's names; no preset of any kind, and nobody else's limit."""
        caplog.set_level("INFO")
        house.write(
            "ApiTypes/Chat",
            {
                "type": "scriptedChat",
                "presetType": "any",
                "maxNewTokensPropertyName": "max_tokens",
                "samplerFieldMap": {"temperature": "temp", "repeat_penalty": "rep", "stop": "stop"},
            },
        )
        house.endpoint("chat", presetSamplers={"temperature": 0.9, "top_k": 1}, appendPresetName="more")
        house.write("Presets/any/more", {"extra": 1})
        given = wishes(
            temperature=0.1, repetition_penalty=1.1, stop="END", max_tokens=5000, parallel_tool_calls=False
        )
        call, _ = ask(house, stream=stream, wishes=given, tools=TOOLS)
        settings = house.model.settings[-1]
        assert settings.samplers == {"temp": 0.1, "rep": 1.1, "stop": ["END"]}
        assert (settings.max_tokens, call.parallel_tool_calls) == (5000, False)
        assert "are not used" not in caplog.text

    def test_without_a_limit_none_is_sent(self, house, stream):
        """The backend's own counts."""
        ask(house, stream=stream)
        assert house.model.settings[-1].max_tokens is None and house.model.settings[-1].samplers == {}

    def test_the_form_of_the_answer(self, house, stream):
        schema = {"type": "object", "properties": {"port": {"type": "string"}}}
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        assert ask(house, stream=stream, wishes=wishes(response_format=form))[0].schema == schema

    @pytest.mark.parametrize(("name", "value"), [("max_tokens", "x"), ("temperature", -1), ("stop", 5)])
    def test_one_that_cannot_be(self, house, stream, name, value):
        """The client is told, and no model is asked."""
        with pytest.raises(ClientRequestError, match=name):
            ask(house, stream=stream, wishes=wishes(**{name: value}))
        assert house.model.calls == []


class TestFlatBackends:
    """`<system>`, `<user>`, `<assistant>` around the turns, as the template says."""

    def test_the_whole_conversation(self, house):
        talk = [system("S1"), system("S2"), user("a"), answered("b"), *[user(f"q{n}") for n in range(9)]]
        call, _ = ask(house, *talk, endpoint="flat")
        questions = "".join(f"<user>q{n}</user>" for n in range(9))
        assert call.system_prompt == "<system>S1\n\nS2</system>"
        assert call.prompt == f"<user>a</user><assistant>b</assistant>{questions}"

    def test_the_endpoint_decides_whether_an_answer_is_begun(self, house):
        house.endpoint("flat", apiTypeConfigFileName="Flat", addGenerationPrompt=True)
        assert ask(house, endpoint="flat")[0].prompt == "<user>Hi</user><assistant>"

    def test_pictures_of_the_whole_conversation(self, house):
        talk = [user("a", images=["one"]), *[user(f"q{n}") for n in range(9)]]
        call, _ = ask(house, *talk, endpoint="flat")
        assert call.conversation == [user("", images=["one"])]


class TestWhatTheEndpointSays:
    @BOTH
    def test_its_cleaning(self, house, stream):
        house.endpoint(
            "chat",
            removeThinking=True,
            startThinkTag="<think>",
            endThinkTag="</think>",
            trimBeginningAndEndLineBreaks=True,
        )
        house.model.replies = ["<think>Hm.</think>\n\nWell."]
        assert ask(house, stream=stream)[1].text == "Well."

    @BOTH
    def test_its_clamp(self, house, stream):
        """The oldest turns go; the client's system messages and the question stay, and no result is orphaned."""
        house.endpoint("chat", clampPromptToContextWindow=True, maxContextTokenSize=1000)
        old = [
            user("old " * 300),
            answered("call " * 300, tool_calls=[CALL]),
            {"role": "tool", "content": "5 m", "tool_call_id": "c1"},
        ]
        talk = [system("S"), *old, answered("newer"), user("now")]
        assert ask(house, *talk, stream=stream)[0].conversation == [
            system("S"),
            answered("newer"),
            user("now"),
        ]

    def test_its_clamp_leaves_an_open_exchange_whole(self, house):
        house.endpoint("chat", clampPromptToContextWindow=True, maxContextTokenSize=700)
        exchange = [
            user("ask " * 200),
            answered("", tool_calls=[CALL]),
            {"role": "tool", "content": "r " * 300, "tool_call_id": "c1"},
        ]
        assert ask(house, user("old " * 200), *exchange)[0].conversation == exchange

    @BOTH
    def test_its_backup(self, house, failure, stream):
        """With the client's wishes alone, too."""
        house.endpoint("chat", backupEndpointName="second", backupPresetName="none")
        house.endpoint("second", presetSamplers={"temperature": 0.9})
        house.model.replies = [failure(), "from the second"]
        call, answer = ask(house, system("S"), user(), stream=stream)
        assert answer.text == "from the second" and call.conversation == [system("S"), user()]
        assert house.model.settings[-1].samplers == {}

    @BOTH
    def test_a_failure_names_the_model(self, house, failure, stream):
        house.model.replies = [failure()]
        with pytest.raises(WorkflowError) as caught:
            ask(house, stream=stream)
        assert str(caught.value).startswith("ana:raw/chat: ")

    def test_a_faulty_file_is_told(self, house):
        house.endpoint("chat", apiTypeConfigFileName="Nope")
        with pytest.raises(WorkflowError) as caught:
            ask(house)
        assert isinstance(caught.value.__cause__, ConfigError) and "Nope" in str(caught.value)

    def test_a_client_that_cancels(self, house):
        def leave(call):
            cancellation_service.request_cancellation("r1", "asked to")
            return "too late"

        house.model.replies = [leave]
        with pytest.raises(RequestCancelled):
            ask(house)


class Watcher:
    keeps_text = False

    def __init__(self) -> None:
        self.seen: list[str] = []

    def note_change(self, run, what, node) -> None:
        self.seen.append(what)


def test_one_node_is_told_and_counted(house):
    """By the name `raw`, with its endpoint; its usage is that of any node."""
    observers = Observers()
    observers.observe(Watcher())
    trace = house.request["trace"] = observers.begin("r1", "/v1/chat/completions")
    house.model.replies = [LlmText("hello", usage={"prompt_tokens": 7, "completion_tokens": 2})]
    manager = plain_manager(house)
    collect(manager.open_plain_run("chat", ClientQuestion([user()])))
    [node] = trace.nodes
    assert (node.title, node.endpoint, node.number, node.of, node.preset) == ("raw", "chat", 1, 1, "")
    assert (node.answers, trace.workflow, node.workflow) == (True, "raw", "ana:raw/chat")
    assert manager.request.usage.numbers() == {"prompt_tokens": 7, "completion_tokens": 2, "calls": 1}


def test_a_question_is_not_changed_in_place():
    talk = [user("[DiscussionId]a[/DiscussionId]b"), user()]
    before = [dict(message) for message in talk]
    assert plain_question(ClientQuestion(talk, discussion_id="x")).messages[1] is talk[1]
    assert talk == before
