"""What the pages say of single fields is what a run gives."""

from __future__ import annotations

import json
import re
import socket

import pytest

from Middleware.common.instance_global_variables import INSTALL_DIRECTORY
from Middleware.workflows.handlers.node_types import NODES

DOCS = INSTALL_DIRECTORY / "docs"
TALK = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Yes?"},
    {"role": "user", "content": "Go on"},
]


def shown(page, number):
    """A JSON block of a page."""
    return json.loads(re.findall(r"```json\n(.*?)```", (DOCS / page).read_text("utf-8"), re.S)[number])


def workflows():
    """Every workflow and every node that a page shows; a node alone comes behind three that say something."""
    found = []
    for page in [
        *sorted(p for p in DOCS.glob("**/*.md") if p.parent.name != "spec"),
        INSTALL_DIRECTORY / "README.md",
    ]:
        for text in re.findall(r"^ *```json\n(.*?)^ *```", page.read_text("utf-8"), re.S | re.M):
            document = json.loads(text)
            if isinstance(document, list) or "nodes" in document or document.get("type") in NODES:
                found.append(pytest.param(text, id=f"{page.stem}-{len(found)}"))
    return found


def file_of(document):
    """The workflow file that holds it."""
    if isinstance(document, list):
        return {"nodes": document}
    said = [{"type": "StaticResponse", "content": text} for text in ("TRUE", "2", "TRUE")]
    return document if "nodes" in document else {"nodes": [*said, document], "worker": "small-model"}


def names_in(text, *fields):
    """The values of fields anywhere in a text of JSON, placeholders aside."""
    return sorted(set(re.findall(rf'"(?:{"|".join(fields)})": "([^"{{]+)"', text)))


def furnish(house, text):
    """The endpoints, presets, workflows and MCP servers that a text of JSON names. None of these servers is
    there: a node goes on without its tools.
    """
    for name in set(re.findall(r'"mcp:([^"/]+)', text)):
        house.write(f"MCPServers/{name}", {"transport": "streamable_http", "url": "http://127.0.0.1:9/mcp"})
    for name in (*names_in(text, "endpointName"), "small-model"):
        house.endpoint(name)
    for name in names_in(text, "preset"):
        house.write(f"Presets/any/{name}", {})
    branches = re.findall(r'"conditionalWorkflows": (\{.*?\})', text)
    called = [name for branch in branches for name in json.loads(branch).values()]
    for name in (*called, *names_in(text, "workflowName")):
        house.workflow(name, {"type": "StaticResponse", "content": "done"})
        house.workflow(name, {"type": "StaticResponse", "content": "done"}, folder="_common")


def offline(*args):
    """No page needs the internet: no name has an address."""
    raise socket.gaierror("offline")


@pytest.mark.parametrize("text", workflows())
def test_every_workflow_of_the_pages_runs(house, tmp_path, monkeypatch, text):
    """With models that answer, and with the presets, workflows and scripts that it names, it gives an answer."""
    scripts = str(INSTALL_DIRECTORY / "Public" / "workflow_python_scripts")
    here = text.replace("/srv/notes", str(tmp_path)).replace("Public/workflow_python_scripts", scripts)
    furnish(house, here)
    for name in re.findall(r"\$\{ENV:(\w+)\}", text):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setattr(socket, "getaddrinfo", offline)
    house.user["userWideWorkflowVariables"] = {"notesDir": str(tmp_path)}
    house.write("Workflows/ana/Main", file_of(json.loads(here)))
    assert house.ask(discussion_id="d1").finish_reason == "stop"


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


FORMATS = re.findall(
    r"^\| `(.+?)` \| (?:`(.*?)`(?:[,:].*)?|(t[a-z ]+)) \|$",
    (DOCS / "variables.md").read_text("utf-8").split("## Format mode")[1].split("## Jinja mode")[0],
    re.M,
)


@pytest.mark.parametrize(("text", "result", "words"), FORMATS, ids=[row[0] for row in FORMATS])
def test_the_table_of_format_mode(house, text, result, words):
    """Each row, with the values that its heading names."""
    nodes = [{"type": "StaticResponse", "content": content} for content in ("OUT{}", text)]
    house.workflow("Main", *nodes, n=7)
    expected = {"the content of the second message": "Yes?", "themselves": text}
    assert house.ask(say=TALK).text == expected.get(words, result)
