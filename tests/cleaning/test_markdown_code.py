"""Whether Markdown code is open where a text stops."""

from __future__ import annotations

import pytest

from Middleware.cleaning.block_remover import MarkdownCode

OPEN = {
    "behind one backtick": "a `b",
    "behind a longer run": "a ``b",
    "behind three runs": "`a` `b",
    "right behind three backticks": "```",
    "in a fence": "a\n```\nb",
    "in a fence with a word": "```html\nb",
    "in a fence with a carriage return": "```\r\nb",
    "in an indented fence": "   ~~~\nb",
    "on the line that opens with tildes": "~~~ a",
    "a tilde fence takes backticks behind it": "~~~ a`b`\nc",
    "a shorter line closes nothing": "````\na\n```\nb",
    "the other character closes nothing": "```\na\n~~~\nb",
    "words behind it close nothing": "```\na\n``` b\nc",
    "a carriage return within closes nothing": "```\na\n```\r \nb",
    "an indented mark closes nothing": "```\na\n    ```\nb",
}
CLOSED = {
    "nothing": "",
    "plain": "a",
    "a span that is over": "`a` b",
    "a span of three backticks": "```a```",
    "two tildes": "~~ a",
    "on the next line": "a `b\nc",
    "a fence that is over": "```\na\n```\nb",
    "a fence that a longer line closed": "```\na\n`````\nb",
    "closed with white space behind": "```\na\n``` \t\nb",
    "closed with a carriage return": "~~~\na\n~~~\r\nb",
    "two backticks are no fence": "a\n``\nb",
    "backticks that more backticks follow": "``` a`b\nc",
    "four spaces": "    ```\nb",
    "a tab": "\t```\nb",
    "not at the start of the line": "a ```\nb",
    "mixed marks": "~~`\nb",
}
CUTS = {"whole": lambda text: [text], "characters": list, "with gaps": lambda text: [*text, ""]}


def is_open(pieces):
    code = MarkdownCode()
    for piece in pieces:
        code.feed(piece)
    return code.is_open


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("text", OPEN.values(), ids=OPEN)
def test_open(text, cut):
    assert is_open(cut(text))


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("text", CLOSED.values(), ids=CLOSED)
def test_closed(text, cut):
    assert not is_open(cut(text))
