"""What users and models write never acts as a template, however far it travels through workflows."""

from __future__ import annotations

import pytest

from tests.e2e.answers import ROUTES
from tests.e2e.fake_backend import Reply

pytestmark = pytest.mark.e2e

SECRET = "the-vault-code"
ASK = {"type": "Standard", "endpointName": "Model"}


@pytest.fixture(scope="module")
def server(launch):
    users = {
        "ann": {
            "user": {"userWideWorkflowVariables": {"secret": SECRET}},
            "workflows": {
                "Chat": [
                    {**ASK, "title": "first", "prompt": "step one: {chat_user_prompt_last_one}"},
                    {
                        "type": "CustomWorkflow",
                        "workflowName": "Child",
                        "scoped_variables": ["{agent1Output}"],
                        "promptOverride": "override: {agent1Output} {{agent1Input}}",
                        "is_responder": True,
                    },
                ],
                "Child": [
                    {**ASK, "prompt": "is replaced"},
                    {
                        **ASK,
                        "jinja2": True,
                        "prompt": "jinja: {{ agent1Input }} {{ agent1Output }}",
                        "is_responder": True,
                    },
                ],
            },
        },
        "ben": {},
    }
    return launch(users, "--concurrency", "0")


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize(
    "payload", ["{secret}", "{{ secret }}", "{agent1Input}", "{{secret}} {% if %}", "}{", "{0}"]
)
def test_braces_travel_unchanged(payload, stream, server, backend):
    """From the user into a prompt, from a model into a child's field and input, and into a Jinja template."""
    mark = f"{payload}-{stream}"
    said = f"model says {payload}"
    backend.on(f"step one: {mark}", Reply([said]))
    backend.on(f"override: {said}", Reply([f"then {payload} {mark}"]))
    backend.on(f"jinja: {said}", Reply([f"at last {payload} {mark}"]))
    route = ROUTES["openai-chat"]
    status, body = server.post(route.path, route.ask("ann", mark, stream=stream))
    assert (status, route.text(body, stream=stream)) == (200, f"at last {payload} {mark}")
    prompts = [call.question for call in backend.calls(payload) if mark in call.text or said in call.text][
        -3:
    ]
    assert prompts == [
        f"step one: {mark}",
        f"override: {said} {said}",
        f"jinja: {said} then {payload} {mark}",
    ]
    assert not any(SECRET in call.text for call in backend.calls())
