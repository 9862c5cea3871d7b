"""Reasoning inside a text is split from the answer, however the text is cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from Middleware.llmapis.reasoning_parser import (
    AUTO_WINDOW,
    DIALECTS,
    has_reasoning_marks,
    reasoning_splitter,
    text_behind_thoughts,
)

FINAL = "<|channel|>final<|message|>"
ANALYSIS = "<|channel|>analysis<|message|>"
CASES = [
    pytest.param("think", "<think>a</think>b", "a", "b", id="think"),
    pytest.param("think", "x<THINK>a</Think>b", "a", "xb", id="think-any-case"),
    pytest.param("think", "<thought>a</think>b</thought>c", "a</think>b", "c", id="own-closer-only"),
    pytest.param(
        "think", "<reasoning>a</reasoning>b<thinking>c</thinking>d", "ac", "bd", id="several-blocks"
    ),
    pytest.param("think", "<think>cut", "cut", "", id="open-at-the-end"),
    pytest.param("think", "<think>a</thi", "a</thi", "", id="half-a-closer-is-thought"),
    pytest.param("think", "a <thi", "", "a <thi", id="half-an-opener-is-text"),
    pytest.param("think", "1 < 2 <b>", "", "1 < 2 <b>", id="other-angles-are-text"),
    pytest.param("think", "<<think>a</think>", "a", "<", id="angle-before-a-mark"),
    pytest.param("minimax", "<|im_start|>thinking\nplan<|im_end|>Done", "plan", "Done", id="minimax"),
    pytest.param("minimax", "<|im_start|>thinking\r\np<|im_end|>", "p", "", id="minimax-crlf"),
    pytest.param("minimax", "<|im_start|>thinkingp\n<|im_end|>", "p\n", "", id="minimax-no-line-end"),
    pytest.param("minimax", "<|im_start|>thinking\rp<|im_end|>", "\rp", "", id="minimax-cr-is-no-line-end"),
    pytest.param("minimax", "<|im_start|>thinking\n", "", "", id="minimax-nothing-after"),
    pytest.param("minimax", "<|im_start|>thinking\r", "", "", id="minimax-half-a-line-end"),
    pytest.param("minimax", "a<|im_end|>b", "", "a<|im_end|>b", id="minimax-closer-alone-is-text"),
    pytest.param("mistral", "[THINK]a[/THINK]b [x]", "a", "b [x]", id="mistral"),
    pytest.param(
        "harmony", f"{ANALYSIS}a<|end|><|start|>assistant{FINAL}b<|return|>", "a", "b", id="harmony"
    ),
    pytest.param("harmony", f"{ANALYSIS}a{FINAL}b<|end|>", "a", "b", id="harmony-next-channel-closes"),
    pytest.param(
        "harmony",
        f"<|channel|>commentary<|message|>a<|start|>assistant{FINAL}b",
        "a",
        "b",
        id="harmony-start-closes",
    ),
    pytest.param("harmony", f"{FINAL}b", "", "b", id="harmony-no-thought"),
    pytest.param(
        "harmony", f"<|start|>assistant{ANALYSIS}a<|end|>", "a", "", id="harmony-start-before-analysis"
    ),
    pytest.param("auto", f"x{ANALYSIS}a<|call|>{FINAL}b", "a", "xb", id="auto-harmony-call"),
    pytest.param(
        "auto",
        "<|start|>assistant to=functions.f<|channel|>commentary <|constrain|>json<|message|>{}<|call|>",
        "{}",
        "",
        id="auto-harmony-tool",
    ),
    pytest.param("auto", "<think>a</think><|channel|>b", "a", "<|channel|>b", id="auto-think-first"),
    pytest.param("auto", "<think>a</think>b[THINK]c", "a", "b[THINK]c", id="auto-first-mark-decides"),
    pytest.param("auto", "[THINK]a[/THINK]<think>", "a", "<think>", id="auto-mistral"),
    pytest.param("auto", f"{ANALYSIS}a<|end|>{FINAL}b<|return|>", "a", "b", id="auto-harmony"),
    pytest.param("auto", "<|im_start|>thinking\na<|im_end|>b", "a", "b", id="auto-minimax"),
    pytest.param("auto", "x" * 93 + "<think>a</think>", "a", "x" * 93, id="auto-mark-ends-at-100"),
    pytest.param(
        "auto", "x" * 94 + "<think>a</think>", "", "x" * 94 + "<think>a</think>", id="auto-mark-too-late"
    ),
    pytest.param("think", "a `<think>` b", "", "a `<think>` b", id="think-in-a-code-span"),
    pytest.param("think", "```\n<think>\n```\nb", "", "```\n<think>\n```\nb", id="think-in-a-fence"),
    pytest.param("think", "`<think>` <think>a</think>b", "a", "`<think>` b", id="think-behind-code"),
    pytest.param("think", "<think>a ` b</think>c<think>d</think>", "a ` bd", "c", id="code-in-a-thought"),
    pytest.param("mistral", "a `[THINK]` b", "", "a `[THINK]` b", id="mistral-in-code"),
    pytest.param("minimax", "`<|im_start|>thinking` b", "", "`<|im_start|>thinking` b", id="minimax-in-code"),
    pytest.param("auto", "a `<think>` b", "", "a `<think>` b", id="auto-in-code"),
    pytest.param("auto", "a `<|channel|>` b", "", "a `<|channel|>` b", id="auto-harmony-in-code"),
    pytest.param("none", "<think>a", "", "<think>a", id="none"),
    pytest.param(None, "<think>a", "", "<think>a", id="absent"),
]


def split(parser, text):
    """`(thinking, answer)` of a text that comes in one piece."""
    splitter = reasoning_splitter(parser)
    if splitter is None:
        return "", text
    return tuple("".join(part) for part in zip(splitter.feed(text), splitter.finish(), strict=True))


@pytest.mark.parametrize(("parser", "text", "thinking", "answer"), CASES)
class TestSplit:
    def test_whole(self, parser, text, thinking, answer):
        """What is thought and what is said."""
        assert split(parser, text) == (thinking, answer)

    @pytest.mark.parametrize("size", [1, 2, 3, 7])
    def test_streamed(self, parser, text, thinking, answer, size):
        """The same comes out in pieces."""
        splitter = reasoning_splitter(parser)
        if splitter is None:
            return
        pieces = [splitter.feed(text[i : i + size]) for i in range(0, len(text), size)] + [splitter.finish()]
        assert ("".join(p[0] for p in pieces), "".join(p[1] for p in pieces)) == (thinking, answer)


MARKS = sorted(
    {mark.literal for marks in DIALECTS.values() for mark in marks} | {"</think>", "[/think]", "<|im_end|>"}
)
TEXTS = st.lists(st.sampled_from([*MARKS, "<", "[", "a", "\n", "\r", "<|"]), max_size=12).map("".join)


@settings(max_examples=200)
@given(
    text=TEXTS, cuts=st.lists(st.integers(0, 200), max_size=6), parser=st.sampled_from([*DIALECTS, "auto"])
)
def test_any_cut_gives_the_same(text, cuts, parser):
    """Cutting the text anywhere changes neither part."""
    splitter = reasoning_splitter(parser)
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [splitter.feed(text[a:b]) for a, b in pairwise(edges)] + [splitter.finish()]
    assert ("".join(p[0] for p in pieces), "".join(p[1] for p in pieces)) == split(parser, text)


def test_at_most_a_mark_less_one_is_held():
    """Text that can be no mark goes out at once."""
    splitter = reasoning_splitter("think")
    assert splitter.feed("abc <th") == ("", "abc ")
    assert splitter.feed("at") == ("", "<that")


def test_an_unknown_name_is_told_and_off(caplog):
    """A typo in an endpoint must not stop the answer."""
    assert reasoning_splitter("thnik") is None
    assert "thnik" in caplog.text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a <Think> b", True),
        ("<|im_start|>thinking", True),
        ("[THINK]", True),
        ("<b>", False),
        ("</think>", False),
    ],
)
def test_opening_marks_are_recognised(text, found):
    """Any dialect's opener counts, closers do not."""
    assert has_reasoning_marks(text) is found


@pytest.mark.parametrize(
    "text",
    [
        "<think>is it 3?</think>2",
        "[THINK]is it 3?[/THINK]2",
        f"{ANALYSIS}is it 3?<|end|>{FINAL}2",
        "2",
    ],
)
def test_text_behind_thoughts(text):
    assert text_behind_thoughts(text) == "2"


@pytest.mark.parametrize(
    "answer",
    ["2 [THINK]x[/THINK]", "x" * AUTO_WINDOW + "<think>x</think>"],
    ids=["another-dialect", "far-behind-the-beginning"],
)
def test_marks_that_are_text_of_an_answer(answer):
    """Once a dialect is known no other counts, and none that begins late."""
    assert text_behind_thoughts(f"<think>hm</think>{answer}" if "THINK" in answer else answer) == answer
