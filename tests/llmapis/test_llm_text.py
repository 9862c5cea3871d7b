"""The text of a whole answer, with the facts that came beside it."""

from __future__ import annotations

from Middleware.llmapis.llm_text import LlmText


def test_a_thought_taken_out_of_the_text():
    """All else that is known of the answer stays; the answer that it was made from stays as it was."""
    answer = LlmText("<t>hm</t>a", finish_reason="length", usage={"total_tokens": 3}, model="m", refusal=True)
    apart = answer.told_apart("a", "hm")
    assert (apart, apart.thinking) == ("a", "hm")
    assert {**vars(answer), "thinking": "hm"} == vars(apart)
    assert (answer, answer.thinking) == ("<t>hm</t>a", "")
