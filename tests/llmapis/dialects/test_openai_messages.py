"""Every dialect of an OpenAI delta gives text, reasoning, refusal and calls."""

from __future__ import annotations

import pytest

from Middleware.llmapis.dialects.openai_messages import (
    GoogleThoughts,
    read_message,
    reasoning_of,
    thoughts_in,
    tool_calls_of,
)

FLAG = {"google": {"thought": True}}


@pytest.mark.parametrize(
    ("delta", "read"),
    [
        pytest.param({"content": "a"}, ("a", "", False), id="text"),
        pytest.param({"content": None, "role": "assistant"}, ("", "", False), id="null"),
        pytest.param({"content": 5}, ("", "", False), id="no-text"),
        pytest.param({"content": "a", "reasoning_content": "r"}, ("a", "r", False), id="both"),
        pytest.param({"refusal": "no"}, ("no", "", True), id="refusal"),
        pytest.param({"content": "a", "refusal": None}, ("a", "", False), id="no-refusal"),
        pytest.param(
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "t"}]},
                    {"type": "thinking", "thinking": "u"},
                    {"type": "thinking", "thinking": None},
                    {"type": "text", "text": "a"},
                    {"type": "reference"},
                    "junk",
                ]
            },
            ("a", "tu", False),
            id="mistral-parts",
        ),
        pytest.param(
            {"content": "<thought>t</thought>", "extra_content": {"google": {"thought": True}}},
            ("", "t", False),
            id="gemini-thought",
        ),
        pytest.param(
            {"content": "<thought>t</thought>a</b", "extra_content": FLAG},
            ("a</b", "t", False),
            id="gemini-thought-and-answer",
        ),
        pytest.param(
            {"content": "<thought>t</thought><thought>u</thought>a", "extra_content": FLAG},
            ("a", "tu", False),
            id="gemini-two-thoughts",
        ),
        pytest.param(
            {"content": "t</thought>Write <thought>x</thought>.", "extra_content": FLAG},
            ("Write <thought>x</thought>.", "t", False),
            id="marks-that-the-answer-speaks-of",
        ),
        pytest.param({"content": "t </tho", "extra_content": FLAG}, ("", "t </tho", False), id="half-a-mark"),
        pytest.param({"content": "a", "extra_content": {"google": {}}}, ("a", "", False), id="gemini-text"),
        pytest.param({"content": "a", "extra_content": "x"}, ("a", "", False), id="other-extra"),
    ],
)
def test_read(delta, read):
    """`(text, reasoning, refused)`."""
    assert read_message(delta) == read


@pytest.mark.parametrize(
    ("delta", "reasoning"),
    [
        pytest.param(
            {"reasoning_content": "a", "reasoning": "b", "thinking": "c"}, "a", id="one-name-is-used"
        ),
        pytest.param({"reasoning_content": "", "reasoning": "b"}, "b", id="the-first-with-any"),
        pytest.param({"reasoning_content": None, "reasoning": None}, "", id="null"),
        pytest.param(
            {
                "reasoning_details": [
                    {"type": "reasoning.text", "text": "a"},
                    {"type": "reasoning.summary", "summary": "b"},
                    {"type": "reasoning.encrypted", "data": "x", "text": "no"},
                    {"type": "reasoning.text", "text": None},
                    7,
                ]
            },
            "ab",
            id="details",
        ),
        pytest.param({"reasoning": "a", "reasoning_details": [{"text": "a"}]}, "a", id="not-twice"),
        pytest.param({"reasoning_details": [], "thinking": "c"}, "c", id="thinking"),
        pytest.param({"thinking": {"x": 1}}, "", id="no-text"),
    ],
)
def test_reasoning(delta, reasoning):
    """From the fields of its own."""
    assert reasoning_of(delta) == reasoning


@pytest.mark.parametrize(
    ("delta", "calls"),
    [
        ({"tool_calls": [{"id": "a"}]}, [{"id": "a"}]),
        ({"tool_calls": []}, []),
        ({"tool_calls": None}, []),
        ({"tool_calls": {"index": 0}}, []),
        ({"tool_calls": [], "function_call": {"name": "f"}}, [{"index": 0, "function": {"name": "f"}}]),
        ({"function_call": {"name": "f"}}, [{"index": 0, "function": {"name": "f"}}]),
        ({"function_call": None}, []),
    ],
)
def test_calls(delta, calls):
    """The old single call counts as the first."""
    assert tool_calls_of(delta) == calls


class TestGoogleThoughts:
    """A stream on Google's route, from its first flagged content on: `F` begins what is flagged, `-` what is
    not."""

    def said(self, *pieces):
        thoughts = GoogleThoughts()
        parts = [thoughts.feed(piece[1:], flagged=piece[0] == "F") for piece in pieces]
        text, thinking = ("".join(part) for part in zip(*parts, thoughts.rest(), strict=True))
        return text, thinking

    @pytest.mark.parametrize(
        ("pieces", "said"),
        [
            (["F<thought>pl", "Fan", "-</thought>The", "- answer"], ("The answer", "plan")),
            (["Fplan", "-The answer"], ("The answer", "plan")),
            (["Fa < b", "Fc <", "-</thought>d"], ("d", "a < bc <")),
            (["Fa <", "-b"], ("b", "a <")),
            (["Fa", "-", "F", "-</thought>b"], ("b", "a")),
            (["Fa</thought>", "-b"], ("b", "a")),
            (["Fa</thought>b", "Fc", "-d"], ("bcd", "a")),
            (["F<thought>a</thought>", "F<thought>b</thought>", "-c"], ("c", "ab")),
            (["Fa", "-</thought>b", "F<thought>c", "-</thought>d"], ("bd", "ac")),
            (["Fa", "-</b>"], ("</b>", "a")),
            (["Fa", "-b</thought>"], ("b</thought>", "a")),
            (["Fa", "-</tho", "F<thought>b"], ("</tho", "ab")),
            (["Fa", "-</tho"], ("</tho", "a")),
            (["Fa</tho"], ("", "a</tho")),
            (["Fa</thought><th"], ("<th", "a")),
        ],
        ids=str,
    )
    def test_what_is_thought(self, pieces, said):
        """Marks are cut, and no text is lost."""
        assert self.said(*pieces) == said

    @pytest.mark.parametrize("size", range(1, 12))
    def test_however_the_text_is_cut(self, size):
        """Marks in pieces among them, whether the answer is flagged or not."""
        thought, answer = "<thought>plan < b", "</thought>The <b>answer"

        def cut(flag, text):
            return [flag + text[at : at + size] for at in range(0, len(text), size)]

        pair = ("The <b>answer", "plan < b")
        assert self.said(*cut("F", thought), *cut("-", answer)) == pair
        assert self.said(*cut("F", thought + answer)) == pair

    def test_what_reads_a_delta(self):
        """Nothing special before the first flag, and behind the first text of the answer."""
        flagged = {"content": "t", "extra_content": FLAG}
        thoughts = thoughts_in(flagged, thoughts_in({"content": "a"}, None))
        read_message(flagged, thoughts)
        assert thoughts_in({"content": "</thought>a"}, thoughts) is thoughts
        read_message({"content": "</thought>a"}, thoughts)
        assert thoughts_in({"content": "b"}, thoughts) is None
