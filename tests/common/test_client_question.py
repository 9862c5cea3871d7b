"""What a client asked, as one value."""

from __future__ import annotations

import pytest

from Middleware.common.request_context import ClientQuestion, Wish

WISHES = {"stop": Wish("secret", "stop")}
ASKED = ClientQuestion(
    [{"role": "user", "content": "my secret"}],
    True,
    [{"function": {"name": "secret"}}],
    "auto",
    "d",
    WISHES,
)


def test_a_run_without_tools():
    """All else stays, also what the client wishes; the messages are the very same."""
    bare = ASKED.without_tools()
    assert bare == ClientQuestion(ASKED.messages, True, discussion_id="d", wishes=WISHES)
    assert bare.messages is ASKED.messages


def test_no_word_of_the_client_in_a_log_line():
    """What is printed of it is no text of the user."""
    assert repr(ASKED) == "ClientQuestion(stream=True, discussion_id='d')"
    assert repr(WISHES) == "{'stop': Wish(stop)}"


def test_nobody_can_add_a_wish():
    """The question is shared by all runs of a request."""
    with pytest.raises(TypeError):
        ClientQuestion([]).wishes["stop"] = Wish("x", "stop")  # type: ignore[index]
