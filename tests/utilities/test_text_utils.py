"""Token estimates and the brace marks that scripts may meet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Middleware.utilities.text_utils import (
    estimate_json_tokens,
    estimate_message_tokens,
    estimate_tokens,
    estimation_factor,
    return_brackets_in_string,
    stored_message_tokens,
)

BLANKS = [chr(code) for code in range(0x3001) if chr(code).isspace()]
"""All that `str.split` cuts at."""


class TestEstimate:
    @given(st.text(st.sampled_from([*BLANKS, "a", "b", "{", "\u00e4", "\u05d0", "\ud800"]), max_size=200))
    def test_the_formula_holds_for_every_text(self, text):
        """Also where words need not be counted one by one."""
        assert estimate_tokens(text) == int(max(len(text.split()) * 1.35, len(text) / 3.5) * 1.10)

    @pytest.mark.parametrize("blank", BLANKS, ids=ascii)
    def test_every_blank_parts_words(self, blank):
        """Long words, so that the length decides, and short ones, so that the words do."""
        assert estimate_tokens(f"a{blank}" * 40) == int(40 * 1.35 * 1.10)
        assert estimate_tokens(f"eleven letters{blank}" * 40) == int(40 * 15 / 3.5 * 1.10)

    @pytest.mark.parametrize(
        ("text", "tokens"),
        [("", 0), ("a", 1), ("hi", 1), ("hello world", 3), ("a" * 35, 11), ("x " * 10, 14), (" \n", 0)],
    )
    def test_vectors(self, text, tokens):
        """workflows.md V7, memory.md 5.1."""
        assert estimate_tokens(text) == tokens

    @pytest.mark.parametrize(
        ("content", "same_as"),
        [
            ("plain text", "plain text"),
            ("{", "x" * 18),
            ("{}", "x" * 36),
            ("a {b} c", f"a {'x' * 18}b{'x' * 18} c"),
        ],
    )
    def test_a_brace_of_a_message_is_eighteen_characters_long(self, content, same_as):
        """And takes part in a word as itself."""
        assert estimate_message_tokens(content) == estimate_tokens(same_as)


UNSPACED = {
    "han": "\u6bcf\u5929\u65e9\u4e0a\u90fd\u53bb",
    "han-of-a-later-block": "\U00020000\U00030000\U00031350",
    "hiragana": "\u306f\u3061\u307f\u3064",
    "katakana-with-its-long-mark": "\u30d3\u30fc\u30eb",
    "half-width-katakana": "\uff76\uff80\uff76\uff85",
    "hangul": "\uafc0\ubc8c\uc740",
    "hangul-jamo": "\u1112\u1161\u11ab",
    "thai-with-its-marks": "\u0e19\u0e49\u0e33\u0e1c\u0e36\u0e49\u0e07",
    "lao": "\u0e99\u0ecd\u0ec9\u0eb2",
    "khmer": "\u1791\u17b9\u1780",
    "myanmar": "\u1015\u103b\u102c\u1038",
}
SPACED = {
    "german": "Bienenk\u00f6rbe stehen am Flu\u00df",
    "russian": "\u043f\u0447\u0451\u043b\u044b \u0443 \u0440\u0435\u043a\u0438",
    "emoji": "\U0001f41d\U0001f41d \U0001f36f",
    "arabic": "\u0646\u062d\u0644 \u0627\u0644\u0646\u0647\u0631",
}

OTHERS = ["", " ", "a", "{", "\u00e4", "\u05d0", "\u201c", "\u3002", "\ud800", "\U0001f41d"]


class TestWritingWithoutBlanks:
    @pytest.mark.parametrize("text", UNSPACED.values(), ids=UNSPACED)
    def test_each_character_is_a_token(self, text):
        """memory.md 18.2.19."""
        assert estimate_tokens(text * 50) == estimate_message_tokens(text * 50) == len(text) * 50

    @given(st.lists(st.tuples(st.sampled_from([*UNSPACED.values()]), st.sampled_from(OTHERS))))
    def test_it_is_found_among_all_else(self, pairs):
        """Quotes, faces, letters of other writing and halves of characters."""
        texts, others = ["".join(part) for part in zip(*pairs, strict=True)] or ["", ""]
        assert estimate_tokens("".join(map("".join, pairs))) == len(texts) + estimate_tokens(others)

    @pytest.mark.parametrize("text", SPACED.values(), ids=SPACED)
    def test_other_writing_keeps_the_formula(self, text):
        """Letters beyond ASCII are none of it."""
        assert estimate_tokens(text) == stored_message_tokens(text)

    def test_beside_other_writing_each_counts_its_own_way(self):
        """35 letters are 11 tokens."""
        assert estimate_tokens("\u8702" * 20 + "a" * 35) == 31

    def test_a_brace_beside_it_counts_as_ever(self):
        """18 characters of other writing."""
        assert estimate_message_tokens("\u8702{") == 1 + estimate_message_tokens("{")

    @pytest.mark.parametrize("text", UNSPACED.values(), ids=UNSPACED)
    def test_what_decides_what_lies_on_disk_stays(self, text):
        """Chunks of memories end where they ended. (memory.md 5.1)"""
        assert stored_message_tokens(text * 50) == int(max(1.35, len(text) * 50 / 3.5) * 1.10)

    @pytest.mark.parametrize(
        ("text", "tokens"),
        [("", 0), ("x" * 39, 9), ('{"a": "\u8702\u5de2"}', 4)],
        ids=["none", "ascii", "han"],
    )
    def test_json(self, text, tokens):
        """Four characters a token; a character of this writing is one."""
        assert estimate_json_tokens(text) == tokens


@pytest.mark.parametrize(
    ("level", "factor"),
    [
        (None, 1.0),
        ("", 1.0),
        ("conservative", 1.0),
        ("balanced", 1.25),
        ("aggressive", 1.5),
        (" XAggressive ", 1.85),
        ("wild", None),
        (3, None),
    ],
)
def test_estimation_levels(level, factor):
    """None tells the caller to warn and take 1.0."""
    assert estimation_factor(level) == factor


def test_marks_become_braces():
    """What a script of the peer calls."""
    assert return_brackets_in_string("__WILMER_L_CURLY__a__WILMER_R_CURLY__ {b}") == "{a} {b}"
