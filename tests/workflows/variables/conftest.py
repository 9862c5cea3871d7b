"""A node to fill texts for: everything is given but the user's prompt template, which is a file."""

from __future__ import annotations

import json
from datetime import datetime
from types import SimpleNamespace

import pytest

from Middleware.common.request_context import RequestContext
from Middleware.config.endpoints import EndpointConfig
from Middleware.config.loader import ConfigTree
from Middleware.config.users import UserSettings
from Middleware.workflows.variables.conversation import VariableSource

NOW = datetime(2026, 3, 5, 19, 9, 41)
MESSAGES = [
    {"role": "system", "content": "S0"},
    {"role": "user", "content": "u1 {x}"},
    {"role": "assistant", "content": "a1"},
    {"role": "system", "content": "S1"},
    {"role": "user", "content": "u2"},
]


def model(*, chat=False, template=None, **endpoint):
    """The loaded model of a node, as far as variables look at it."""
    return SimpleNamespace(
        takes_message_collection=chat,
        prompt_template={} if template is None else template,
        llm=SimpleNamespace(endpoint=EndpointConfig("E", endpoint, "t", {})),
    )


@pytest.fixture
def make_model():
    return model


@pytest.fixture
def make_source(tmp_path):
    """`make_source(node={...}, workflow={...}, user_wide={...}, outputs={...}, ...)` -> VariableSource."""

    def make(
        *, user=None, user_wide=None, workflow=None, inputs=None, outputs=None, user_template=None, **rest
    ):
        settings = {"chat_prompt_template_name": "UserTemplate", **(user or {})}
        template = tmp_path / "PromptTemplates" / "UserTemplate.json"
        template.parent.mkdir(exist_ok=True)
        template.write_text(json.dumps(user_template or {}), encoding="utf-8")
        snapshot = ConfigTree(tmp_path).snapshot()
        return VariableSource(
            request=RequestContext("id", "anna", "openai", snapshot=snapshot),
            user=UserSettings("anna", user_wide_workflow_variables=user_wide or {}, **settings),
            workflow_variables=workflow or {},
            agent_inputs={f"agent{n}Input": text for n, text in (inputs or {}).items()},
            agent_outputs={f"agent{n}Output": text for n, text in (outputs or {}).items()},
            **{
                "messages": MESSAGES,
                "now": lambda: NOW,
                "file": "Workflows/anna/Chat.json",
                "pointer": "/nodes/2",
                **rest,
            },
        )

    return make
