"""Marks and keys for paid services (prompt-reuse.md 5): where they stand in what is really sent."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Middleware.common.request_context import RequestContext, enter_request
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.dialects.prompt_caching import CacheMark, has_own_marks, mark_messages

FIVE = {"cache_control": {"type": "ephemeral"}}
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
POINT = {"prompt_cache_breakpoint": {"mode": "explicit"}}
MARK = CacheMark("cache_control", FIVE["cache_control"])
S = {"role": "system", "content": "S"}
PNG = "data:image/png;base64,iVBORw0KGgo="


def tool(name):
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


def user(content, **more):
    return {"role": "user", "content": content, **more}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def text(words, mark=()):
    return {"type": "text", "text": words, **dict(mark)}


def calls(*ids):
    function = {"name": "f", "arguments": "{}"}
    return [{"id": one, "type": "function", "function": function} for one in ids]


def result(of, words="R"):
    return {"role": "tool", "tool_call_id": of, "content": words}


def late(place, words="late", joint="\n\n"):
    """What the assembly of the prompt says of a late text."""
    added = {"after": joint + words, "before": words + joint, "alone": words}[place]
    return {"late_text": added, "late_place": place}


EXCHANGE = [assistant("", tool_calls=calls("t1", "t2")), result("t1"), result("t2", "R2")]


class Sent:
    """What one kind of endpoint sends for a conversation."""

    def __init__(self, make_handler, name, **endpoint):
        self.handler = make_handler(name, endpoint=endpoint)

    def payload(self, *conversation, **arguments):
        return self.handler.whole_payload(CallArguments(list(conversation), **arguments))

    def messages(self, *conversation, **arguments):
        return [message["content"] for message in self.payload(*conversation, **arguments)["messages"]]


@pytest.fixture
def claude(make_handler):
    return Sent(make_handler, "Claude", promptCaching="5m")


@pytest.fixture
def openrouter(make_handler):
    return Sent(make_handler, "OpenRouter", promptCaching="5m")


@pytest.fixture
def openai(make_handler):
    return Sent(make_handler, "Open-AI-API", promptCaching="5m")


class TestOff:
    @pytest.mark.parametrize("name", ["Claude", "OpenRouter", "Open-AI-API", "OllamaApiChat"])
    def test_by_default(self, make_handler, name):
        """What is sent is what was sent before, late text or not."""
        conversation = [dict(S), user("C\n\nlate")]
        told = Sent(make_handler, name).payload(*conversation, tools=[tool("f")], **late("after"))
        plain = Sent(make_handler, name).payload(*conversation, tools=[tool("f")])
        assert told == plain and "cache" not in str(told)

    @pytest.mark.parametrize("name", ["OllamaApiChat", "DeepSeek", "LlamaCppServer"])
    def test_an_api_type_that_names_no_mark(self, make_handler, name):
        """Nothing is set: its server would not understand it."""
        asked = Sent(make_handler, name, promptCaching="1h").payload(dict(S), user("C"))
        assert asked["messages"] == [S, user("C")]

    def test_a_mark_that_the_backend_does_not_know(self, make_handler):
        """OpenAI's is none of Claude's."""
        api_type = {"type": "claudeMessages", "promptCacheMark": "prompt_cache_breakpoint"}
        handler = make_handler("Claude", endpoint={"promptCaching": "5m"}, api_type=api_type)
        assert handler.whole_payload(CallArguments([user("C")]))["messages"] == [user("C")]

    def test_one_text_for_all(self, make_handler):
        """Backends that take no messages have no blocks."""
        asked = Sent(make_handler, "OpenAI-Compatible-Completions", promptCaching="5m")
        assert asked.handler.whole_payload(CallArguments(prompt="P"))["prompt"] == "P"


class TestMarks:
    def test_claude(self, claude):
        """On the system prompt, the last tool and the newest user message, before the late text."""
        sent = claude.payload(dict(S), user("C\n\nlate"), tools=[tool("f"), tool("g")], **late("after"))
        assert sent["system"] == [text("S", FIVE)]
        assert [one.get("cache_control") for one in sent["tools"]] == [None, FIVE["cache_control"]]
        assert sent["messages"] == [user([text("C", FIVE), text("late")])]
        assert str(sent).count("cache_control") == 3

    def test_openrouter(self, openrouter):
        """The same field, but none on tools."""
        sent = openrouter.payload(dict(S), user("C\n\nlate"), tools=[tool("f")], **late("after"))
        assert sent["tools"] == [tool("f")]
        assert [m["content"] for m in sent["messages"]] == [
            [text("S", FIVE)],
            [text("C", FIVE), text("late")],
        ]

    def test_openai(self, openai):
        """A field of its own, without a time."""
        assert openai.messages(dict(S), user("C\n\nlate"), **late("after")) == [
            [text("S", POINT)],
            [text("C", POINT), text("late")],
        ]

    @pytest.mark.parametrize(
        ("name", "caching", "mark"),
        [("Claude", "1h", HOUR), ("OpenRouter", "1h", HOUR), ("Open-AI-API", "1h", POINT)],
    )
    def test_for_an_hour(self, make_handler, name, caching, mark):
        """Where the mark has a time."""
        sent = Sent(make_handler, name, promptCaching=caching).messages(user("C"))
        assert sent == [[text("C", mark)]]

    def test_an_older_api_type_file_of_claude(self, make_handler):
        """Claude knows one mark: it needs no name."""
        handler = make_handler(
            "Claude", endpoint={"promptCaching": "5m"}, api_type={"type": "claudeMessages"}
        )
        assert handler.whole_payload(CallArguments([user("C")]))["messages"] == [user([text("C", FIVE)])]


class TestTheEndOfWhatStays:
    """Claude's form unless it says otherwise."""

    def test_without_a_late_text(self, claude):
        """The newest user message, one block; what stands before it is as ever."""
        assert claude.messages(user("A"), assistant("B"), user("C")) == ["A", "B", [text("C", FIVE)]]

    def test_a_late_text_in_front(self, claude):
        """The message before."""
        sent = claude.messages(user("A"), assistant("B"), user("late\n\nC"), **late("before"))
        assert sent == ["A", [text("B", FIVE)], "late\n\nC"]

    def test_a_late_text_in_front_for_openai(self, openai):
        """An answer can have no mark there: the nearest message that can."""
        sent = openai.messages(dict(S), user("A"), assistant("B"), user("late\n\nC"), **late("before"))
        assert sent == [[text("S", POINT)], [text("A", POINT)], "B", "late\n\nC"]

    def test_a_late_text_in_front_of_a_first_message(self, openrouter):
        """Then the system prompt alone has one."""
        sent = openrouter.messages(dict(S), user("late\n\nC"), **late("before"))
        assert sent == [[text("S", FIVE)], "late\n\nC"]

    def test_a_late_system_message(self, openrouter):
        """Is no system prompt; the message before it is marked."""
        own = {"role": "system", "content": "late"}
        sent = openrouter.messages(dict(S), user("A"), assistant("B"), own, user("C"), **late("alone"))
        assert sent == [[text("S", FIVE)], "A", [text("B", FIVE)], "late", "C"]

    def test_a_late_system_message_at_the_start(self, openrouter):
        """Right behind the system prompt, or the only one."""
        own = {"role": "system", "content": "late"}
        assert openrouter.messages(dict(S), own, user("C"), **late("alone")) == [
            [text("S", FIVE)],
            "late",
            "C",
        ]
        assert openrouter.messages(own, user("C"), **late("alone")) == ["late", "C"]

    def test_speakers_of_a_group(self, claude):
        """The late text has a message of its own before the last line."""
        conversation = [user("C"), assistant("Mira: hi"), user("late"), assistant("Ada:")]
        assert claude.messages(*conversation, **late("alone")) == [
            "C",
            [text("Mira: hi", FIVE)],
            "late",
            "Ada:",
        ]

    def test_a_prefill(self, claude):
        """Stays a text, or Claude would not go on with it."""
        sent = claude.messages(user("C\n\nlate"), assistant("So"), **late("after"))
        assert sent == [[text("C", FIVE), text("late")], "So"]

    def test_tool_results_behind(self, claude):
        """The last block of all."""
        sent = claude.messages(user("C\n\nlate"), *EXCHANGE, **late("after"))
        first, _, results = sent
        assert first == "C\n\nlate"
        assert [block.get("cache_control") for block in results] == [None, FIVE["cache_control"]]
        assert [block["content"] for block in results] == ["R", "R2"]

    @pytest.mark.parametrize("more", [{}, late("after"), late("before")], ids=["no-late", "after", "before"])
    def test_tool_results_behind_in_openais_form(self, openai, more):
        """Wherever the late text is."""
        said = {"": "C", "after": "C\n\nlate", "before": "late\n\nC"}[more.get("late_place", "")]
        *_, first, last = openai.messages(dict(S), user(said), *EXCHANGE, **more)
        assert (first, last) == ("R", [text("R2", POINT)])

    def test_an_older_exchange(self, claude):
        """The user spoke behind it."""
        sent = claude.messages(user("A"), *EXCHANGE, assistant("B"), user("C"))
        assert sent[-1] == [text("C", FIVE)] and "cache_control" not in str(sent[:-1])

    def test_the_user_speaks_right_behind_results(self, claude):
        """Claude has both in one turn: the text is the newest."""
        sent = claude.messages(user("A"), *EXCHANGE, user("C\n\nlate"), **late("after"))
        assert sent[-1][-2:] == [text("C", FIVE), text("late")]
        assert "cache_control" not in str(sent[-1][:-2])

    def test_a_late_text_in_front_right_behind_results(self, claude):
        """The block before it is a result."""
        sent = claude.messages(user("A"), *EXCHANGE, user("late\n\nC"), **late("before"))
        assert [block.get("cache_control") for block in sent[-1]] == [None, FIVE["cache_control"], None]

    def test_neighbours_of_one_role(self, claude):
        """Claude merges them: the mark is still before the late text."""
        sent = claude.messages(user("A"), user("C\n\nlate"), **late("after"))
        assert sent == [[text("A\n\nC", FIVE), text("late")]]

    def test_a_call_before_it_has_no_text(self, openrouter):
        """The nearest message with one is marked."""
        conversation = [user("A"), assistant("", tool_calls=calls("t1")), result("t1", ""), user("late\n\nC")]
        assert openrouter.messages(*conversation, **late("before"))[0] == [text("A", FIVE)]

    def test_pictures(self, claude, openrouter):
        """Claude has them before the text, OpenAI behind it."""
        seen = user("C\n\nlate", images=[PNG])
        [of_claude] = claude.messages(seen, **late("after"))
        assert [block["type"] for block in of_claude] == ["image", "text", "text"]
        assert of_claude[1:] == [text("C", FIVE), text("late")]
        [of_openai] = openrouter.messages(seen, **late("after"))
        assert of_openai[:2] == [text("C", FIVE), text("late")] and of_openai[2]["type"] == "image_url"

    def test_a_picture_alone(self, claude):
        """With a late text as the only text: what stays ends at the picture."""
        [sent] = claude.messages(user("late", images=[PNG]), **late("after", joint=""))
        assert sent[0]["cache_control"] == FIVE["cache_control"] and sent[1] == text("late")

    def test_text_that_the_endpoint_adds(self, make_handler):
        """In front of the user's words it is part of what is marked; at the end it follows the late text."""
        added = {"addTextToStartOfPrompt": True, "textToAddToStartOfPrompt": "P ", "promptCaching": "5m"}
        sent = Sent(make_handler, "OpenRouter", **added).messages(user("C\n\nlate"), **late("after"))
        assert sent == [[text("P C", FIVE), text("late")]]
        behind = {
            "addTextToStartOfCompletion": True,
            "textToAddToStartOfCompletion": "!",
            "promptCaching": "5m",
        }
        sent = Sent(make_handler, "OpenRouter", **behind).messages(user("C\n\nlate"), **late("after"))
        assert sent == [[text("C", FIVE), text("late!")]]

    def test_words_that_the_user_says_too(self, claude):
        """The late text is the one that was added."""
        sent = claude.messages(user("late\n\nlate"), **late("after"))
        assert sent == [[text("late", FIVE), text("late")]]

    def test_nobody_spoke(self, claude):
        """No mark is invented."""
        assert claude.messages(assistant("hello")) == [[text("...", FIVE)], "hello"]

    @pytest.mark.parametrize("conversation", [[], [assistant("hello")], [user("")]], ids=str)
    def test_nothing_to_mark(self, openai, conversation):
        """Is no failure."""
        assert "cache" not in str(openai.messages(*conversation))


class TestOwnMarks:
    @pytest.mark.parametrize(
        "payload",
        [
            {"cache_control": {"type": "ephemeral"}},
            {"system": [text("S", FIVE)]},
            {"tools": [{"name": "f", **FIVE}]},
            {"messages": [user([text("C", FIVE)])]},
            {"messages": [user([{"type": "tool_result", "content": [text("R", FIVE)]}])]},
            {"messages": [user([text("C", POINT)])]},
        ],
    )
    def test_are_seen(self, payload):
        """At every place where they may stand."""
        assert has_own_marks({"messages": [], **payload})

    @pytest.mark.parametrize(
        "payload", [{}, {"messages": None}, {"messages": [user("cache_control")], "tools": None}]
    )
    def test_words_are_none(self, payload):
        assert not has_own_marks(payload)

    def test_no_others_are_set(self, claude):
        """A client's tool that has one."""
        own = {"name": "f", "input_schema": {}, **FIVE}
        sent = claude.payload(dict(S), user("C"), tools=[own])
        assert (sent["system"], sent["messages"], sent["tools"]) == ("S", [user("C")], [own])


CONVERSATIONS = st.lists(
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["system", "user", "assistant", "tool"]),
        st.one_of(st.text(max_size=6), st.lists(st.builds(text, st.text(max_size=4)), max_size=3)),
    ),
    max_size=8,
)


def said(messages):
    """All text, block by block joined."""
    contents = [message["content"] for message in messages]
    return [c if isinstance(c, str) else "".join(block["text"] for block in c) for c in contents]


@given(CONVERSATIONS)
def test_marks_change_no_text(messages):
    """Any conversation: what is said stays, at most two marks are set, the messages stay as they were."""
    before = repr(messages)
    marked = mark_messages(messages, MARK, None)
    assert said(marked) == said(messages) and repr(messages) == before
    assert repr(marked).count("cache_control") <= 2


class TestChatKey:
    def key(self, make_handler, name="Open-AI-API", user_name="mira", **arguments):
        handler = make_handler(name, endpoint={"promptCacheKey": True})
        with enter_request(RequestContext("r", user_name, "openaichatcompletion")):
            return handler.whole_payload(CallArguments(**arguments)).get("prompt_cache_key")

    @pytest.mark.parametrize("name", ["Open-AI-API", "OpenAI-Reasoning", "Mistral"])
    def test_of_a_discussion(self, make_handler, name):
        """32 hex digits of user and discussion, whatever the node says."""
        key = self.key(make_handler, name, conversation=[dict(S), user("C")], discussion_id="d1")
        assert key == hashlib.sha256(b"mira\0d1").hexdigest()[:32]
        assert key == self.key(make_handler, name, conversation=[user("other")], discussion_id="d1")

    def test_without_a_discussion(self, make_handler):
        """Of user and system prompt: nodes whose prompts begin alike meet, others do not."""
        key = self.key(make_handler, conversation=[dict(S), user("C")])
        assert key == hashlib.sha256(b"mira\0S").hexdigest()[:32]
        assert key == self.key(make_handler, conversation=[dict(S), user("A"), assistant("B"), user("C")])
        assert key != self.key(make_handler, conversation=[{**S, "content": "T"}, user("C")])

    def test_of_users_apart(self, make_handler):
        keys = {self.key(make_handler, user_name=name, conversation=[dict(S)]) for name in ("mira", "jo")}
        assert len(keys) == 2

    def test_a_late_system_message_is_no_part_of_it(self):
        """It changes with each turn."""
        own = {"role": "system", "content": "late"}
        call = CallArguments([dict(S), own, user("C")], **late("alone"))
        assert call.steady_name == CallArguments([dict(S), user("C")]).steady_name == "S"

    def test_backends_that_take_one_text(self, make_handler):
        """The system prompt comes apart from the prompt."""
        api_type = {"type": "openAIV1Completion", "promptCacheKeyPropertyName": "key"}
        handler = make_handler("x", endpoint={"promptCacheKey": True}, api_type=api_type)
        sent = handler.whole_payload(CallArguments(system_prompt="S", prompt="P"))
        assert sent["key"] == hashlib.sha256(b"\0S").hexdigest()[:32]

    def test_not_asked_for(self, make_handler):
        """Or its API type has no name for it."""
        asked = CallArguments([user("C")], discussion_id="d1")
        assert "prompt_cache_key" not in make_handler("Open-AI-API").whole_payload(asked)
        assert self.key(make_handler, "DeepSeek", conversation=[user("C")]) is None

    def test_the_presets_own_key_stays(self, make_handler):
        handler = make_handler(
            "Open-AI-API", endpoint={"promptCacheKey": True}, samplers={"prompt_cache_key": "mine"}
        )
        assert handler.whole_payload(CallArguments([user("C")]))["prompt_cache_key"] == "mine"
