"""What to try first with the built-in demo model."""

from __future__ import annotations

from pathlib import Path

import pytest

from Middleware.api.serving.demo_hints import demo_hints
from Middleware.config.loader import ConfigTree

PUBLIC = Path(__file__).resolve().parents[3] / "Public" / "Configs"


def test_the_demo_user():
    """A call to try, the file, and its three fields."""
    text = "\n".join(demo_hints(ConfigTree(PUBLIC).snapshot(), ["demo"], "http://127.0.0.1:5000"))
    assert "curl -N http://127.0.0.1:5000/v1/chat/completions" in text
    assert str(PUBLIC / "Endpoints" / "demo" / "Demo.json") in text
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
