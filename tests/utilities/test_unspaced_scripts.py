"""Which characters are of writing without blanks. Source: spec memory.md 18.2 (19)."""

from __future__ import annotations

import pytest

from Middleware.utilities.text_utils import WORD, is_unspaced


@pytest.mark.parametrize(
    "word",
    ["漢字", "々", "𠮷野", "ひらがな", "カタカナー", "ｶﾀｶﾅ", "한글", "ภาษาไทย", "ລາວ", "ភាសាខ្មែរ", "မြန်မာ"],
)
def test_such_writing_is_one_run(word):
    """Its marks above and below, too, which are no word characters to Python."""
    assert WORD.findall(f"a{word}b") == ["a", word, "b"]
    assert is_unspaced(word)


@pytest.mark.parametrize("word", ["word", "слово", "λέξη", "ة", "שלום", "Việt", "42", "_"])
def test_other_writing_has_blanks(word):
    assert WORD.findall(word) == [word]
    assert not is_unspaced(word)


@pytest.mark.parametrize("sign", ["、", "。", "・", "「", "！", " ", "-"])
def test_punctuation_is_in_no_word(sign):
    assert WORD.findall(f"東{sign}京") == ["東", "京"]
