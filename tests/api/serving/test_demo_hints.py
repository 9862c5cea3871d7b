"""What to try first with the built-in demo model."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from Middleware.api.serving.waitress_server import demo_hints
from Middleware.config.loader import ConfigTree
from Middleware.utilities.install_layout import make_own_endpoints

PUBLIC = Path(__file__).resolve().parents[3] / "Public" / "Configs"


@pytest.fixture
def public(tmp_path):
    """The configs as they ship."""
    ignore = shutil.ignore_patterns("Main.json", "Embeddings.json")
    shutil.copytree(PUBLIC / "Endpoints" / "my-model", tmp_path / "Endpoints" / "my-model", ignore=ignore)
    for part in ("Users", "Workflows", "ApiTypes"):
        shutil.copytree(PUBLIC / part, tmp_path / part)
    return tmp_path


def test_an_example_is_copied_first(public):
    """Where a start could not write the user's file."""
    text = "\n".join(demo_hints(ConfigTree(public).snapshot(), ["demo"], "http://x"))
    folder = public / "Endpoints" / "my-model"
    assert f"copy {folder / 'Main.example.json'}\nto {folder / 'Main.json'} and change three fields" in text


def test_the_demo_user(public):
    """A call to try, the file, and its three fields."""
    make_own_endpoints(public)
    text = "\n".join(demo_hints(ConfigTree(public).snapshot(), ["demo"], "http://127.0.0.1:5000"))
    assert "curl http://127.0.0.1:5000/v1/chat/completions" in text
    assert f"change three fields of {public / 'Endpoints' / 'my-model' / 'Main.json'}:" in text
    assert all(field in text for field in ('"endpoint"', '"apiTypeConfigFileName"', '"modelNameToSendToAPI"'))


@pytest.mark.parametrize(
    "nodes", [[{"type": "StaticResponse", "content": "x"}], [{"endpointName": "{which}"}], None]
)
def test_other_users_get_none(configs, nodes):
    """No demo endpoint, one that is not known yet, or no workflow at all."""
    if nodes is not None:
        configs("Workflows/mira/Main.json", nodes)
    assert demo_hints(ConfigTree(configs.root).snapshot(), ["mira"], "http://x") == []


def test_a_real_endpoint_is_no_demo(configs):
    """The user has found the way."""
    configs("Workflows/mira/_DefaultWorkflow.json", [{"endpointName": "E"}])
    configs("Users/mira.json", {"port": 5000})
    configs("Endpoints/E.json", {"endpoint": "http://h", "apiTypeConfigFileName": "T"})
    configs("ApiTypes/T.json", {"type": "openAIChatCompletion"})
    assert demo_hints(ConfigTree(configs.root).snapshot(), ["mira"], "http://x") == []
