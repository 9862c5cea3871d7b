"""What a client asked, as one value."""

from __future__ import annotations

from Middleware.common.client_question import ClientQuestion

ASKED = ClientQuestion(
    [{"role": "user", "content": "my secret"}], True, [{"function": {"name": "secret"}}], "auto", "d"
)


def test_a_run_without_tools():
    """All else stays, the messages are the very same."""
    bare = ASKED.without_tools()
    assert bare == ClientQuestion(ASKED.messages, True, discussion_id="d")
    assert bare.messages is ASKED.messages


def test_no_word_of_the_client_in_a_log_line():
    """What is printed of it is no text of the user."""
    assert repr(ASKED) == "ClientQuestion(stream=True, discussion_id='d')"
