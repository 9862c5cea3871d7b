"""No answer holds a secret: random config trees, headers, addresses and texts. Source: console.md 2.6, 17.2 row 2.

Of the routes that tell of endpoints, of calls and of their commands.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace
from unittest import mock
from urllib.parse import quote

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from Middleware.api.console.call_views import ROUTES as CALLS
from Middleware.api.console.endpoint_views import ROUTES as ENDPOINTS
from Middleware.api.console.hour import Call, Hour
from Middleware.api.console.view_contract import json_bytes
from Middleware.api.console.views import Views
from Middleware.config.endpoints import load_endpoint
from Middleware.config.loader import ConfigTree
from Middleware.config.users import load_user
from Middleware.llmapis.llm_api import LlmApiService
from Middleware.workflows.handlers import impl
from tests.api.console.conftest import a_hub, asking
from tests.api.console.traced import call_of, node_of, run_of

_ = impl
SIGNS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""No answer holds ten of these in a row by chance."""

keys = st.text(SIGNS, min_size=10, max_size=30)
odd_keys = st.builds(lambda a, sign, b: a + sign + b, keys, st.sampled_from("\"'\\\\$`%&"), keys)
secret_headers = st.sampled_from(["Authorization", "X-Api-Key", "api-key", "Cookie", "X-Team-Token"])
plain_headers = st.sampled_from(["X-Team", "X-Trace", "Accept-Language"])


@st.composite
def endpoint_files(draw):
    """`(file, variables of the environment, secrets)`."""
    variables, secrets = {}, []

    def secret(strategy=keys):
        secrets.append(draw(strategy))
        return secrets[-1]

    def from_environment(name):
        variables[name] = secret(keys | odd_keys)
        return name

    file = {"apiTypeConfigFileName": "Api", "modelNameToSendToAPI": "tiny", "endpoint": "http://127.0.0.1:9"}
    where = draw(st.sampled_from(["user:password", "token", "query", "nowhere"]))
    if where == "user:password":
        file["endpoint"] = f"http://ann:{quote(secret(keys | odd_keys), safe='')}@127.0.0.1:9"
    elif where == "token":
        file["endpoint"] = (
            f"http://{draw(st.text(SIGNS, min_size=16, max_size=30).map(lambda t: secrets.append(t) or t))}@127.0.0.1:9"
        )
    elif where == "query":
        file["endpoint"] = f"http://127.0.0.1:9/v1?api_key={secret()}"
    how = draw(st.sampled_from(["file", "environment", "none"]))
    if how == "file":
        file["apiKey"] = secret(keys | odd_keys)
    elif how == "environment":
        file["apiKeyEnv"] = from_environment("CONSOLE_TEST_KEY")
    headers = {}
    if draw(st.booleans()):
        scheme = draw(st.sampled_from(["", "Bearer ", "Basic "]))
        headers[draw(secret_headers)] = scheme + secret()
    if draw(st.booleans()):
        name = from_environment("CONSOLE_TEST_HEADER")
        headers[draw(plain_headers)] = f"${{ENV:{name}}}"
    if headers:
        file["extraHeaders"] = headers
    return file, variables, secrets


@st.composite
def quoting(draw, secrets):
    """A text of a backend or a model that repeats what it was sent, bare and in JSON."""
    said = [
        draw(st.sampled_from(["{}", "key {}", '"{}"', "Bearer {}", "a{}b"])).format(one) for one in secrets
    ]
    text = " | ".join(draw(st.permutations(said)))
    return draw(st.sampled_from([text, json.dumps({"error": text})]))


class Server:
    """A config tree of one user with one endpoint, and a run of it."""

    def __init__(self, root, file, own):
        self.root = Path(root)
        self._write("ApiTypes/Api", {"type": "openAIChatCompletion", "streamPropertyName": "stream"})
        self._write("Users/mira", {"customWorkflowOverride": True, "customWorkflow": "Main"})
        self._write("Workflows/mira/Main", [{"type": "Standard", "endpointName": "Big", "prompt": "x"}])
        self._write("Endpoints/Big", file)
        self.run, self.hour = run_of(), Hour()
        self.hub = a_hub(
            hour=self.hour,
            recorder=SimpleNamespace(run=lambda run_id: self.run),
            snapshot=lambda: ConfigTree(self.root).snapshot(),
            secrets=own,
        )

    def _write(self, name, document):
        path = self.root / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document))

    def handler(self):
        """What the call of a node is made with."""
        snapshot = self.hub.snapshot()
        user = load_user(snapshot, "mira")
        assert load_endpoint(snapshot, user, "Big").file
        return LlmApiService("Big", None, 1, user=user, snapshot=snapshot).handler_for(False)

    def texts(self, *paths):
        """Every text in the answers to these."""
        views = Views(self.hub, (*CALLS, *ENDPOINTS))
        for path in paths:
            path, _, query = path.partition("?")
            reply = views.answer(asking("GET", path, query=query), ("look",))
            assert reply.status == 200, reply.value
            yield from _texts(json.loads(json_bytes(reply.value)))


def _texts(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


PATHS = (
    "endpoints",
    "runs/r1/curl?shell=sh",
    "runs/r1/curl?shell=powershell",
    "runs/r1/nodes/0/calls/0/curl?shell=sh",
    "runs/r1/nodes/0/calls/0/curl?shell=powershell",
    "runs/r1/nodes/0/calls/0/cleaning",
    "runs/r1/nodes/0/explain",
)


@settings(max_examples=1000, suppress_health_check=list(HealthCheck))
@given(endpoint_files(), keys, st.data())
def test_no_answer_holds_a_secret(made, own, data):
    """Keys from files and from the environment, in headers, addresses, bodies, errors and answers."""
    file, variables, secrets = made
    with tempfile.TemporaryDirectory() as root, mock.patch.dict(os.environ, variables):
        server = Server(root, file, (own,))
        handler = server.handler()
        quoted = data.draw(quoting([*secrets, own]))
        server.hour._calls_of("mira", "Big").append(Call(1.0, None, None, False, "auth", quoted))
        call = call_of(
            url=handler._get_api_endpoint_url(),
            headers=handler.request_headers(),
            body=json.dumps({"prompt": quoted}).encode(),
            secrets=handler.settings.secrets,
            raw=f"\n{quoted}",
            cleaned=quoted,
            cleaning=({}, {}, {}, None),
        )
        node = node_of(1, "Answer", call, state="went_on", error=quoted, warnings=[quoted])
        server.run = run_of(node, keeps_text=True, asked=json.dumps({"prompt": quoted}).encode())
        shown = "\n".join(server.texts(*PATHS))
    hidden = [form for secret in [*secrets, own] for form in (secret, json.dumps(secret)[1:-1])]
    assert [form for form in hidden if form in shown] == []
