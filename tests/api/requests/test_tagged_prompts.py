"""Prompts of the text routes become messages (frontend-api.md 8.2, 8.4, 8.6)."""

from __future__ import annotations

import pytest

from Middleware.api.requests.chat_messages import completion_messages, generate_messages
from Middleware.common.errors import ClientRequestError


def turns(messages):
    return [(message["role"], message["content"]) for message in messages]


TAGGED = [
    ("example-18.6", "[Beg_Sys]You are a pilot. [Beg_User]Ann: Ready?[Beg_Sys]It is dark.[Beg_Assistant]Roland:",
     [("system", "You are a pilot."), ("user", "Ann: Ready?"), ("systemMes", "It is dark."), ("assistant", "Roland:")]),
    ("sysmes", "[Beg_SysMes]a[Beg_Sys]b", [("systemMes", "a"), ("system", "b")]),
    ("unknown-words-go-with-their-text", "[Beg_User]a[Beg_Note]b[Beg_User]c", [("user", "a"), ("user", "c")]),
    ("case-counts", "[Beg_User]a [beg_user]b", [("user", "a [beg_user]b")]),
    ("text-before-is-dropped", "lost[Beg_User]a", [("user", "a")]),
    ("line-breaks", "[Beg_User]\na\nb\n[Beg_Assistant]", [("user", "a\nb"), ("assistant", "")]),
    ("no-tag", " plain ", [("user", " plain ")]),
    ("list-of-one", ["plain"], [("user", "plain")]),
    ("null", None, [("user", "")]),
    ("number", 7, [("user", "7")]),
]  # fmt: skip


@pytest.mark.parametrize(("prompt", "expected"), [c[1:] for c in TAGGED], ids=[c[0] for c in TAGGED])
def test_completion_prompts(prompt, expected):
    """One message a tag; a prompt without tags is one user message."""
    assert turns(completion_messages(prompt)) == expected


@pytest.mark.parametrize("prompt", [["a", "b"], [1, 2], [[1]], []], ids=str)
def test_several_prompts_are_refused(prompt):
    """There is one answer to one prompt."""
    with pytest.raises(ClientRequestError, match="one string") as caught:
        completion_messages(prompt)
    assert caught.value.param == "prompt"


class TestGenerate:
    def test_system_and_prompt_are_one_text(self):
        """Without a separator."""
        assert turns(generate_messages("Be brief.", "Hi", [])) == [("user", "Be brief.Hi")]

    def test_nothing_is_no_message(self):
        """There is nothing to say."""
        assert generate_messages("", "", []) == []

    def test_an_untagged_system_is_kept_beside_a_tagged_prompt(self):
        """As a leading system message."""
        made = generate_messages(" Be brief. ", "[Beg_User]Hi", [])
        assert turns(made) == [("system", "Be brief."), ("user", "Hi")]

    def test_a_tagged_system_is_parsed_with_the_prompt(self):
        """It is part of one text."""
        made = generate_messages("[Beg_Sys]Be brief.", "[Beg_User]Hi", [])
        assert turns(made) == [("system", "Be brief."), ("user", "Hi")]

    @pytest.mark.parametrize(
        ("prompt", "expected"),
        [
            ("[Beg_User]a[Beg_User]b[Beg_Assistant]c", [("user", "b")]),
            ("", [("user", "")]),
            ("[Beg_Assistant]c", [("user", "")]),
        ],
        ids=["last-user", "none", "only-assistant"],
    )
    def test_images_go_to_the_last_user_message(self, prompt, expected):
        """One is made when there is none."""
        made = generate_messages("", prompt, ["x"])
        assert turns(m for m in made if "images" in m) == expected
