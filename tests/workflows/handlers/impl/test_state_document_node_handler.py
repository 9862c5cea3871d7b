"""GetCurrentStateDocument. Source: spec memory.md 9.1, 9.2."""

from __future__ import annotations

import pytest

LITERAL = "No state document has been created yet"


def test_without_a_discussion_there_is_none(bench):
    assert bench("GetCurrentStateDocument") == LITERAL


@pytest.mark.parametrize("text", [None, "", " \n"], ids=repr)
def test_a_missing_or_blank_document_is_none(bench, text):
    bench.store.update_text("state_document.md", lambda _: text)
    assert bench("GetCurrentStateDocument") == LITERAL


def test_the_document_comes_as_it_is(bench):
    """Blanks at its ends too."""
    bench.store.update_text("state_document.md", lambda _: "\n# State\n{x}\n")
    assert bench("GetCurrentStateDocument") == "\n# State\n{x}\n"
