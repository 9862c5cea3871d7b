"""What an editor shows of config files: the schemas, asked through the JSON language service of VS Code.

Needs Node.js, and `vscode-json-languageservice` in `.venv/editor`, which `.ci/run` installs.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from argparse import Namespace
from pathlib import Path

import pytest

from Middleware.api.commands import schemas
from Middleware.common.instance_global_variables import INSTALL_DIRECTORY
from Middleware.workflows.handlers.node_types import NODES, every_node, model_nodes
from tests.patience import PATIENCE_S
from tests.shipped import CONFIGS, SCHEMA_FILES

pytestmark = pytest.mark.editor


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """`ask((file, text), ...)`: what the service says of each text; a `|` in it is the cursor."""
    folder = tmp_path_factory.mktemp("schemas")
    assert schemas.Schemas().run(Namespace(schemas=str(folder))) == 0
    node = shutil.which("node")
    assert node, "the editor tests need Node.js; .ci/run installs it"

    def run(*asks):
        question = {"schemas": str(folder), "asks": [{"file": file, "text": text} for file, text in asks]}
        script = Path(__file__).with_name("ask.mjs")
        done = subprocess.run(
            [node, script, INSTALL_DIRECTORY / ".venv" / "editor"],
            input=json.dumps(question).encode(),
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)

    return run


def one(ask, text, file="workflow.json"):
    (answer,) = ask((file, text))
    return answer


def offered(ask, text, file="workflow.json"):
    return [label for label, _ in one(ask, text, file)["completions"]]


class TestUnderlined:
    """What is wrong, and nothing else."""

    @pytest.mark.parametrize("file", SCHEMA_FILES)
    def test_nothing_of_what_is_shipped(self, ask, file):
        others = {
            path for name, folder in SCHEMA_FILES.items() if name != file for path in CONFIGS.glob(folder)
        }
        own = set(CONFIGS.glob(SCHEMA_FILES[file]))
        paths = sorted(own - others if file == "workflow.json" else own)
        answers = ask(*((file, path.read_text("utf-8").replace("|", "")) for path in paths))
        said = {path.name: answer["diagnostics"] for path, answer in zip(paths, answers, strict=True)}
        assert paths and {name: found for name, found in said.items() if found} == {}

    @pytest.mark.parametrize(
        ("file", "text", "underlined"),
        [
            ("workflow.json", '[{"endpointName": "e", "_x": 1, "comment": 2, "description": 3}]', []),
            ("workflow.json", '{"nodes": [{"endpointName": "e"}], "ownVariable": 1}', []),
            ("workflow.json", '[{"endpointName": "e", "isResponder": true}]', ['"isResponder"']),
            ("workflow.json", '[{"type": "Standrad", "endpointName": "e"}]', ['"Standrad"']),
            ("workflow.json", '[{"type": "StaticResponse", "content": 5}]', ["5"]),
            ("workflow.json", '{"nodes": [{"type": "Conditional"}]}', ["{"]),
            ("workflow.json", '[{"endpointName": "e", "maxImagesToSend": -1}]', ["-1"]),
            ("user.json", '{"customWorkflow": "x", "prot": 1}', ['"prot"']),
            ("user.json", '{"livenessToolCall": {"toolName": "x", "argumens": {}}}', ['"argumens"']),
            ("endpoint.json", '{"endpoint": "x", "apiTypeConfigFileName": "y", "removeThinkng": true}', ['"removeThinkng"']),
            ("endpoint.json", '{"endpoint": "x", "apiTypeConfigFileName": "y", "presetSamplers": {"own": 1}}', []),
            ("preset.json", '{"temperature": 1, "of_my_own": 2}', []),
            ("preset.json", "[]", ["[]"]),
            ("routing.json", '{"CHAT": {"description": "d", "workfow": "w"}}', ['"CHAT"', '"workfow"']),
            ("prompttemplate.json", '{"promptTemplateUserPrefx": ""}', ['"promptTemplateUserPrefx"']),
            ("mcpserver.json", '{"transport": "stdio", "comand": "x"}', ["{", '"comand"']),
        ],
    )  # fmt: skip
    def test_slips(self, ask, file, text, underlined):
        """A missing field at the beginning of its object, any other where it stands."""
        found = one(ask, text, file)["diagnostics"]
        assert sorted(place[:30].split("\n")[0] for place, _ in found) == sorted(underlined)


class TestOffered:
    """What a completion lists, and in which order."""

    def test_node_types(self, ask):
        assert {f'"{name}"' for name in NODES} <= set(offered(ask, '[{"type": "|"}]'))

    @pytest.mark.parametrize("name", sorted(NODES))
    def test_the_own_fields_of_a_type_come_first(self, ask, name):
        """Then the common ones that fit it; others are allowed, but not offered."""
        own = [*NODES[name].FIELDS, *NODES[name].FITTING]
        labels = offered(ask, f'[{{"type": "{name}", |}}]')
        common = {*every_node(), *(model_nodes() if NODES[name].CALLS_MODEL else ())} - {"type"}
        assert set(labels[: len(own)]) == set(own)
        assert set(labels[len(own) :]) == common - set(own)

    def test_a_new_node_begins_with_its_type(self, ask):
        assert offered(ask, "[{|}]")[:2] == ["type", "endpointName"]

    def test_the_choices_of_a_field(self, ask):
        labels = offered(ask, '[{"type": "SaveCustomFile", "filepath": "x", "content": "y", "mode": "|"}]')
        assert {'"append"', '"overwrite"', '"trim"'} <= set(labels)

    def test_samplers_of_a_preset(self, ask):
        assert {"temperature", "top_k", "rep_pen", "num_keep"} <= set(offered(ask, "{|}", "preset.json"))


class TestHover:
    """What is said under the mouse."""

    @pytest.mark.parametrize("name", sorted(NODES))
    def test_every_field_that_is_offered_says_what_it_is(self, ask, name):
        said = one(ask, f'[{{"type": "{name}", |}}]')["completions"]
        assert [label for label, text in said if not text] == []

    @pytest.mark.parametrize(
        ("file", "text", "said"),
        [
            (
                "workflow.json",
                '[{"type": "Conditional", "cond|ition": "x"}]',
                "Comparisons, combined with AND",
            ),
            (
                "workflow.json",
                '{"nodes": [{"is_resp|onder": true, "endpointName": "e"}]}',
                "answers the user",
            ),
            (
                "workflow.json",
                '[{"type": "StaticResponse", "content": "x", "promp|t": "y"}]',
                "The user turn",
            ),
            ("endpoint.json", '{"presetSamplers": {"min|_p": 0.1}}', "Leave out tokens"),
            ("preset.json", '{"rep_|pen": 1}', "KoboldCpp"),
            ("user.json", '{"maxWorkflow|Depth": 5}', "nested"),
        ],
    )
    def test_of_a_field(self, ask, file, text, said):
        assert said in one(ask, text, file)["hover"]
