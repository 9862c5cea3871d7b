"""What the pages say of single fields is what a run gives."""

from __future__ import annotations

import json
import re

from Middleware.common.instance_global_variables import INSTALL_DIRECTORY

DOCS = INSTALL_DIRECTORY / "docs"
TALK = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Yes?"},
    {"role": "user", "content": "Go on"},
]


def shown(page, number):
    """A JSON block of a page."""
    return json.loads(re.findall(r"```json\n(.*?)```", (DOCS / page).read_text("utf-8"), re.S)[number])


def test_the_jinja_example(house):
    """A loop over the messages, and a function of a text that a model said."""
    house.model.replies = ["one\ntwo"]
    asks = {"title": "List", "endpointName": "chat", "prompt": "List"}
    answer = house.ask(asks, shown("variables.md", 2), say=TALK)
    assert answer.text == "- Hi\n- Go on\none, two"


def test_a_text_has_no_fields_in_jinja(house):
    """As the page warns."""
    house.model.replies = ['{"items": [1]}']
    asks = {"title": "List", "endpointName": "chat", "prompt": "List"}
    joins = {"type": "StringConcatenator", "jinja2": True, "strings": ["<{{ agent1Output['items'] }}>"]}
    assert house.ask(asks, joins).text == "<>"


def test_the_whole_conversation_has_no_separator(house):
    """All the other conversation names of plain text have line breaks."""
    texts = ["{chat_user_prompt_without_system}|{chat_user_prompt_n_messages}"]
    house.write("PromptTemplates/_chatonly", {})
    house.user["chatPromptTemplateName"] = "_chatonly"
    answer = house.ask(
        {"type": "StringConcatenator", "strings": texts, "nMessagesToIncludeInVariable": 99}, say=TALK
    )
    assert answer.text == "HiYes?Go on|Hi\nYes?\nGo on"


def test_the_last_lines_of_a_log(house, tmp_path):
    """The example of the page gives forty lines of a file whose every line is ended."""
    lines = [f"line {number}\n" for number in range(50)]
    (tmp_path / ".log").write_text("".join(lines), "utf-8")
    house.workflow("Main", shown("nodes/GetCustomFile.md", 0), notesDir=str(tmp_path))
    assert house.ask().text == "".join(lines[-40:])
