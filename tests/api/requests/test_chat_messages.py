"""Chat bodies become internal messages (frontend-api.md 7, 8.1, 8.5)."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from Middleware.api.requests.chat_messages import check_messages, internal_messages, newest_text
from Middleware.common.errors import ClientRequestError
from Middleware.config.users import UserSettings

PLAIN = UserSettings("mira")
PREFIXED = UserSettings("mira", chat_complete_add_user_assistant=True)
GENERATOR = UserSettings("mira", chat_completion_add_missing_assistant_generator=True)
BOTH = UserSettings(
    "mira", chat_complete_add_user_assistant=True, chat_completion_add_missing_assistant_generator=True
)
CALL = {"id": "c", "function": {"name": "t", "arguments": {}}}


def made(message, user=PLAIN):
    return internal_messages(check_messages([message]), user)[0]


NORMALISED = [
    ("role-is-lowered", {"role": " User ", "content": "a"}, {"role": "user", "content": "a"}),
    ("developer", {"role": "developer", "content": "a"}, {"role": "system", "content": "a"}),
    ("function", {"role": "function", "content": "a", "name": "n"}, {"role": "tool", "content": "a", "name": "n"}),
    ("any-role", {"role": "narrator", "content": "a"}, {"role": "narrator", "content": "a"}),
    ("null-content", {"role": "user", "content": None}, {"role": "user", "content": ""}),
    ("number", {"role": "user", "content": 5}, {"role": "user", "content": "5"}),
    ("bool", {"role": "user", "content": True}, {"role": "user", "content": "true"}),
    ("object", {"role": "user", "content": {"ä": 1}}, {"role": "user", "content": '{"ä":1}'}),
    ("tool-name", {"role": "tool", "content": "5.1 m", "tool_name": "tide"}, {"role": "tool", "content": "5.1 m", "name": "tide"}),
    ("tool-call-id", {"role": "tool", "content": "x", "tool_call_id": "c"}, {"role": "tool", "content": "x", "tool_call_id": "c"}),
    ("odd-tool-call-id", {"role": "tool", "content": "x", "tool_call_id": 5, "name": 7}, {"role": "tool", "content": "x"}),
    ("calls-without-content", {"role": "assistant", "tool_calls": [CALL]}, {"role": "assistant", "content": "", "tool_calls": [CALL]}),
    ("null-calls", {"role": "assistant", "content": "a", "tool_calls": None}, {"role": "assistant", "content": "a"}),
    ("no-calls", {"role": "assistant", "content": "a", "tool_calls": []}, {"role": "assistant", "content": "a"}),
    ("odd-calls", {"role": "assistant", "content": "a", "tool_calls": [3]}, {"role": "assistant", "content": "a"}),
    ("images", {"role": "user", "content": "a", "images": ["x", 3, None]}, {"role": "user", "content": "a", "images": ["x"]}),
    ("null-images", {"role": "user", "content": "a", "images": None}, {"role": "user", "content": "a"}),
    ("reasoning-is-dropped", {"role": "assistant", "content": "a", "reasoning_content": "r", "reasoning": "r", "thinking": "r"}, {"role": "assistant", "content": "a"}),
]  # fmt: skip

PARTS = [
    ("texts", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], ("a\nb", [])),
    ("null-text", [{"type": "text", "text": None}, {"type": "text"}], ("\n", [])),
    ("other-texts", [{"type": "input_text", "text": "a"}, {"type": "refusal", "refusal": "no"}, "b"], ("a\nno\nb", [])),
    ("image-url", [{"type": "image_url", "image_url": {"url": "http://u"}}], ("", ["http://u"])),
    ("image-url-text", [{"type": "image_url", "image_url": "http://u"}], ("", ["http://u"])),
    ("empty-url", [{"type": "image_url", "image_url": {"url": ""}}, {"type": "image_url"}], ("", [])),
    ("input-image", [{"type": "input_image", "image_url": "http://u"}], ("", ["http://u"])),
    ("image-base64", [{"type": "image", "source": {"type": "base64", "data": "D"}}], ("", ["data:image/png;base64,D"])),
    ("image-jpeg", [{"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "D"}}], ("", ["data:image/jpeg;base64,D"])),
    ("image-by-id", [{"type": "input_image", "file_id": "f"}], ("", [])),
    ("image-empty", [{"type": "image", "source": {"type": "base64", "data": ""}}, {"type": "image", "source": 3}], ("", [])),
    ("image-source-url", [{"type": "image", "source": {"type": "url", "url": "http://u"}}], ("", ["http://u"])),
    ("image-source-odd", [{"type": "image", "source": {"type": "url", "url": 5}}, {"type": "image", "source": {"type": "x"}}], ("", [])),
]  # fmt: skip


class TestNormalisation:
    @pytest.mark.parametrize(
        ("message", "expected"), [c[1:] for c in NORMALISED], ids=[c[0] for c in NORMALISED]
    )
    def test_one_message(self, message, expected):
        """The table of section 7."""
        assert made(message) == expected

    @pytest.mark.parametrize(("parts", "expected"), [c[1:] for c in PARTS], ids=[c[0] for c in PARTS])
    def test_content_lists(self, parts, expected):
        """Texts are joined, images collected."""
        message = made({"role": "user", "content": parts})
        assert (message["content"], message.get("images", [])) == expected

    def test_parts_without_a_place_are_dropped_with_one_warning(self, caplog):
        """It names their types, never their content."""
        parts = [{"type": "file", "file": "secret"}, {"type": "input_audio"}, {"text": "?"}, 7]
        with caplog.at_level(logging.WARNING):
            made({"role": "user", "content": [*parts, {"type": "text", "text": "a"}]})
        assert len(caplog.records) == 1
        assert "['None', 'file', 'input_audio']" in caplog.text and "secret" not in caplog.text

    @pytest.mark.parametrize("odd", [{"x": "secret"}, ["secret"], "secret, and more", "secret" * 20])
    def test_a_type_that_is_no_name(self, odd, caplog):
        """Is not repeated: it may be anything that a client wrote."""
        with caplog.at_level(logging.WARNING):
            made({"role": "user", "content": [{"type": odd}, {"type": "file"}]})
        assert "['(no name)', 'file']" in caplog.text and "secret" not in caplog.text

    def test_example_18_3(self):
        """Multimodal in, internal out, with the prefix flag on."""
        parts = [
            {"type": "text", "text": "Compare these."},
            {"type": "text", "text": "Which is older?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "/9j/4AAQ"}},
        ]
        assert made({"role": "user", "content": parts}, PREFIXED) == {
            "role": "user",
            "content": "User: Compare these.\nWhich is older?",
            "images": ["data:image/png;base64,iVBORw0KGgo=", "data:image/jpeg;base64,/9j/4AAQ"],
        }


class TestChecks:
    @pytest.mark.parametrize(
        ("messages", "said", "param"),
        [
            (None, "'messages' is required", "messages"),
            ({}, "must be a list", "messages"),
            (["x"], "messages[0] must be an object", "messages[0]"),
            ([{"content": "a"}], "messages[0] has no 'role'", "messages[0].role"),
            ([{"role": None, "content": "a"}], "must be a string", "messages[0].role"),
            ([{"role": "user", "content": ""}, {"role": "user"}], "neither 'content' nor 'tool_calls'", "messages[1].content"),
        ],
    )  # fmt: skip
    def test_what_is_wrong_is_named(self, messages, said, param):
        """The message and the field."""
        with pytest.raises(ClientRequestError) as caught:
            check_messages(messages)
        assert said in str(caught.value) and caught.value.param == param

    def test_an_empty_list_is_accepted(self):
        """It runs the workflow with no messages."""
        assert internal_messages(check_messages([]), BOTH) == []


class TestSpeakers:
    @pytest.mark.parametrize(
        ("user", "expected"),
        [
            (PLAIN, ["S", "hi", "ho", ""]),
            (PREFIXED, ["S", "User: hi", "Assistant: ho", "User: "]),
            (BOTH, ["S", "User: hi", "Assistant: ho", "User: ", "Assistant:"]),
            (GENERATOR, ["S", "hi", "ho", "", ""]),
        ],
        ids=["plain", "prefixes", "both", "generator"],
    )
    def test_prefixes_and_the_missing_turn(self, user, expected):
        """Two flags, three effects."""
        turns = [("system", "S"), ("user", "hi"), ("assistant", "ho"), ("user", "")]
        messages = [{"role": role, "content": text} for role, text in turns]
        assert [m["content"] for m in internal_messages(messages, user)] == expected

    def test_an_assistant_turn_is_not_missing_at_the_end(self):
        """Nothing is appended then."""
        assert len(internal_messages([{"role": "assistant", "content": "a"}], BOTH)) == 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "text", "image_url", "url", "source", "data"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)
messages_strategy = st.dictionaries(
    st.sampled_from(["role", "content", "images", "tool_calls", "tool_call_id", "name", "tool_name"]),
    json_values,
)


@settings(max_examples=200)
@given(st.lists(messages_strategy, max_size=3))
def test_any_json_is_understood_or_refused(messages):
    """Never another error; what comes out has the internal shape."""
    try:
        made_messages = internal_messages(check_messages(messages), BOTH)
    except ClientRequestError:
        return
    for message in made_messages:
        assert isinstance(message["content"], str) and isinstance(message["role"], str)
        assert all(isinstance(image, str) for image in message.get("images", ["-"]))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}, "a"),
        ({"messages": [{"role": "User", "content": [{"type": "text", "text": "a"}]}]}, "a"),
        ({"input": "a"}, "a"),
        ({"input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}]}]}, "a"),
        ({"prompt": "a"}, "a"),
        ({"prompt": ["a"]}, ""),
        ({"messages": "none", "prompt": "a"}, "none"),
        ({"messages": [5, {"role": 5}, {"role": "user", "content": None}]}, ""),
        ({}, ""),
    ],
)
def test_the_newest_words_of_a_body_that_nobody_has_checked(body, text):
    """Of any protocol; a wrong one has none."""
    assert newest_text(body) == text
