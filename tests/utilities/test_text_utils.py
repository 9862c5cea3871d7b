"""Token estimates and the brace marks that scripts may meet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Middleware.utilities.text_utils import (
    estimate_message_tokens,
    estimate_tokens,
    estimation_factor,
    return_brackets_in_string,
)

BLANKS = [chr(code) for code in range(0x3001) if chr(code).isspace()]
"""All that `str.split` cuts at."""


class TestEstimate:
    @given(st.text(st.sampled_from([*BLANKS, "a", "b", "{", "\u00e4", "\u6f22", "\ud800"]), max_size=200))
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
