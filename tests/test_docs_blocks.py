"""What the pages show can be used as it stands: JSON fits its schema, Python runs, commands are understood."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from Middleware.api.launch_arguments import parse
from Middleware.cleaning import stage
from Middleware.cleaning.stage import Findings, Inputs
from Middleware.common.instance_global_variables import launch_facts, set_launch_facts
from Middleware.common.request_context import RequestContext, enter_request
from Middleware.config.key_file import keys_findings
from Middleware.config.loader import ConfigTree
from Middleware.config.validation import NOTE, check, known_fields, schema
from Middleware.llmapis.handlers.backends import BACKENDS
from Middleware.protocols.registry import WIRE_FORMATS, AnswerFacts, WholeAnswer
from Middleware.protocols.response_object import response_object
from Middleware.workflows.checks.editor_schemas import editor_schemas
from Middleware.workflows.checks.workflow_check import own_findings
from Middleware.workflows.handlers.node_types import NODES, node_schema
from Middleware.workflows.tools.dynamic_module_loader import run_dynamic_module
from Middleware.workflows.tools.mcp_doors import end_sessions
from Middleware.workflows.variables.providers import VARIABLES
from server import main
from tests.workflows.tools.conftest import stdio_file

OLLAMA_ANSWER = (
    *("model", "created_at", "message", "done", "done_reason", "request_id"),
    *("total_duration", "load_duration"),
    *("prompt_eval_count", "prompt_eval_duration", "eval_count", "eval_duration"),
)
HOUSE = Path(__file__).resolve().parents[1]
PAGES = sorted(
    [*(p for p in (HOUSE / "docs").glob("**/*.md") if p.parent.name != "spec"), HOUSE / "README.md"]
)


def blocks(language: str) -> list[Any]:
    """Every block of a language: page and text, with an id that names page and number."""
    found = []
    for page in PAGES:
        name = page.relative_to(HOUSE).as_posix()
        texts = re.findall(rf"^ *```{language}\n(.*?)^ *```", page.read_text("utf-8"), re.S | re.M)
        found += [pytest.param(name, text, id=f"{name}-{number}") for number, text in enumerate(texts, 1)]
    return found


def python_on(page: str) -> str:
    """The first block of Python on a page."""
    return next(str(block.values[1]) for block in blocks("python") if block.values[0] == page)


def part_of(kind: str) -> Callable[[Any], list[Any]]:
    """A file of a kind, or some of its fields: all known, and of the right form."""
    whole = {key: value for key, value in schema(kind).items() if key != "required"}
    return lambda document: check(document, whole, kind)


def workflow(document: Any) -> list[Any]:
    """Notes are about names that a caller or a user brings."""
    return [finding for finding in own_findings("Workflows/ana/Main.json", document) if finding.level != NOTE]


def only(*allowed: str) -> Callable[[Any], list[Any]]:
    """What is no file of ours: these keys and no others."""
    return lambda document: sorted(set(document) - set(allowed))


def schemas_exist(document: Any) -> list[Any]:
    """Settings of an editor: each address is a file that `--schemas` writes."""
    named = {entry["url"].removeprefix("./schemas/") for entry in document["json.schemas"]}
    return sorted(named - set(editor_schemas()))


def fields_of(kind: str) -> Callable[[Any], bool]:
    return lambda document: set(document) <= set(schema(kind)["properties"])


def has(name: str) -> Callable[[Any], bool]:
    return lambda document: name in document


def whole_answer(api_type: str) -> Any:
    """A whole answer as clients get it."""
    return WIRE_FORMATS[api_type].whole(WholeAnswer(), AnswerFacts("R", "mira"))


KINDS: list[tuple[Callable[[Any], bool], Callable[[Any], list[Any]]]] = [
    (lambda document: isinstance(document, list) or "nodes" in document, workflow),
    (lambda document: document.get("type") in NODES, lambda document: workflow([document])),
    (lambda document: document.get("type") in BACKENDS, part_of("apitype")),
    (fields_of("endpoint"), part_of("endpoint")),
    (fields_of("user"), part_of("user")),
    (fields_of("memorysettings"), part_of("memorysettings")),
    (has("transport"), part_of("mcpserver")),
    (has("temperature"), part_of("preset")),
    (has("RECIPES"), part_of("routing")),
    (has("_byMeaning"), part_of("routing")),
    (has("desk"), part_of("machines")),
    (has("claude-*"), part_of("aliases")),
    (has("keys"), keys_findings),
    (has("json.schemas"), schemas_exist),
    (has("responseStartTextToRemove"), lambda document: workflow([{"endpointName": "a", **document}])),
    (has("messages"), only("model", "stream", "messages")),
    (has("choices"), only("id", "object", "created", "model", "system_fingerprint", "choices", "usage")),
    (has("done"), only(*OLLAMA_ANSWER)),
    (has("output"), only(*response_object(AnswerFacts("R", "mira"), "completed", []))),
    (has("error"), only("error")),
    (has("description"), part_of("mcptool")),
    (has("servers"), only("servers")),  # how a program is told of a server of tools
    (has("results"), only(*whole_answer("koboldgenerate"))),
    (has("stop_type"), only(*whole_answer("llamacppcompletion"))),
]
"""What a block may be: how it is known, and what is wrong with it. The first that fits counts."""


def test_every_json_block_can_be_used() -> None:
    """It is a file of ours or a part of one, without error or warning; or what clients and editors see."""
    offenders = {}
    for block in blocks("json"):
        page, text = block.values
        document = json.loads(text)
        faults = next(faults for fits, faults in KINDS if fits(document))
        offenders[f"{page}: {text[:60]}"] = faults(document)
    assert not {block: faults for block, faults in offenders.items() if faults}


class TestPython:
    """The blocks on the pages, run as they stand."""

    def test_none_is_left_out(self) -> None:
        """A new Python block brings its test to this class."""
        others, responses = (
            "docs/frontends/README.md",
            "docs/frontends/responses.md",
        )  # tests/e2e/test_pages.py
        pages = [block.values[0] for block in blocks("python")]
        tools = "docs/nodes/MCPToolCall.md"
        assert pages == [
            *(others, others, responses),
            tools,
            "docs/nodes/PythonModule.md",
            "docs/rules/README.md",
        ]

    def test_a_rule_of_your_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It cleans as soon as it is loaded."""
        monkeypatch.setattr(stage, "RULES", dict(stage.RULES))
        exec(compile(python_on("docs/rules/README.md"), "docs/rules/README.md", "exec"), {})
        made = stage.RULES[350](Inputs({"removeDiagnosticPrefix": True}, {}, {}, None, Findings()))
        assert made is not None
        assert made.feed("[DIAGNOSTIC]: all is well") + made.finish() == "all is well"

    def test_a_script_of_your_own(self, tmp_path: Path) -> None:
        """It counts words."""
        script = tmp_path / "words.py"
        script.write_text(python_on("docs/nodes/PythonModule.md"), "utf-8")
        assert run_dynamic_module(str(script), "two words") == "2 words"

    def test_a_script_that_calls_a_tool(self, tmp_path: Path) -> None:
        """With a server `notes` that has such a tool."""
        folder = tmp_path / "Configs" / "MCPServers"
        folder.mkdir(parents=True)
        file = stdio_file(tmp_path / "trace.txt")
        (folder / "notes.json").write_text(json.dumps({**file, "env": {"PLANS": "buy bread"}}), "utf-8")
        script = tmp_path / "plan.py"
        script.write_text(python_on("docs/nodes/MCPToolCall.md"), "utf-8")
        snapshot = ConfigTree(tmp_path / "Configs").snapshot()
        with enter_request(RequestContext("r1", "ana", "openai", snapshot=snapshot)):
            plan = run_dynamic_module(str(script), "PLANS")
        end_sessions()
        assert plan == "buy bread"


PASTED = (HOUSE / "docs" / "workflows-by-a-model.md").read_text("utf-8")
ROWS = dict(re.findall(r"^\| `(?!type`)(\w+)` \| (.*) \|$", PASTED, re.M))


class TestThePageForAModel:
    """What a model is told of nodes is what there is."""

    def test_every_node_type_has_its_row(self) -> None:
        """A new node type is a row more."""
        assert set(NODES) <= set(ROWS)

    def test_the_fields_of_a_row_exist(self) -> None:
        """As the schemas of the node spell them."""
        strangers = {}
        for name, row in ROWS.items():
            fields = set(re.findall(r"`([A-Za-z_]\w*)`", re.sub(r"\(.*?\)|:.*|,? such as .*", "", row)))
            known = {key for part in node_schema(name) for key in known_fields(part)}
            strangers[name] = fields - known - {"Standard", "Invoke"}
        assert not {name: fields for name, fields in strangers.items() if fields}

    def test_the_variables_exist(self) -> None:
        """But for those of a run's own nodes and inputs."""
        names = {*re.findall(r"`\{(\w+)\}`", PASTED)} - set(VARIABLES)
        assert not {name for name in names if not re.fullmatch(r"agent\d+(Output|Input)", name)}


def commands() -> list[Any]:
    """The words behind each `./run` and `python server.py` of the pages, in blocks and in running text."""
    found = {}
    for page in PAGES:
        text = page.read_text("utf-8")
        for line in re.findall(
            r"(?:\./run|python server\.py|run\.bat)((?: (?:\"[^\"\n]*\"|[^\s`|<>&#\"';,()]+))*)", text
        ):
            found[f"{page.relative_to(HOUSE).as_posix()}:{line.strip()}"] = line
    return [pytest.param(shlex.split(line.rstrip(".:")), id=name) for name, line in found.items()]


def test_what_explain_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """The page shows the request of an example user as it is."""
    page = (HOUSE / "docs" / "commands.md").read_text("utf-8")
    command, shown = re.findall(r"^\$ \./run (.*--explain .*)\n((?:.*\n)*?)```", page, re.M)[0]
    before = launch_facts()
    status = main(command.split())
    set_launch_facts(before)
    assert (status, capsys.readouterr().out) == (0, shown)


def test_every_argument_is_on_the_page_of_the_server(capsys: pytest.CaptureFixture[str]) -> None:
    """What `--help` lists."""
    with pytest.raises(SystemExit):
        parse(["--help"])
    told = (HOUSE / "docs" / "server.md").read_text("utf-8") + (HOUSE / "docs" / "commands.md").read_text(
        "utf-8"
    )
    listed = set(re.findall(r"--[A-Za-z-]+", capsys.readouterr().out)) - {"--help"}
    assert {name for name in listed if name not in told} == set()


VALUES = {"PATH": "/srv/x", "NAME": "demo", "N": "3", "ADDRESS": "127.0.0.1", "S": "9"}
OLD_FLAGS = re.findall(r"^\| `(--[^`]+)`", (HOUSE / "docs/from-wilmerai.md").read_text("utf-8"), re.M)


@pytest.mark.parametrize("flag", OLD_FLAGS)
def test_every_old_flag_is_still_one(flag: str) -> None:
    """The table of those who come from WilmerAI."""
    assert len(OLD_FLAGS) == 12
    assert parse([VALUES.get(word, word) for word in flag.split()]).port > 0


@pytest.mark.parametrize("words", commands())
def test_every_command_line_is_understood(words: list[str]) -> None:
    """The arguments exist, and their values fit. (`--local-model` is an argument of `./run` itself.)"""
    launch = parse([word for word in words if word not in ("--local-model", "...")])
    assert launch.port > 0


@pytest.mark.parametrize(
    ("page", "words"),
    [
        pytest.param(name, words, id=name)
        for name, text in ((b.values[0], b.values[1]) for b in blocks("[a-z]+"))
        for words in re.findall(r"server:get_application\((.*?)\)'", text)
    ],
)
def test_every_gunicorn_line_is_understood(page: str, words: str) -> None:
    """What stands in the brackets are words of the command line, as Python texts."""
    assert parse(ast.literal_eval(f"[{words}]")).facts.users
