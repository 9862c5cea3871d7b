"""Which requests are told to observers: those that generate, whatever their protocol, and no others."""

from __future__ import annotations

import json

import pytest

from Middleware.api.handlers import impl
from Middleware.api.handlers.front_ends import FRONT_ENDS
from Middleware.api.wsgi.doors import Doors
from tests.e2e.answers import ROUTES
from tests.workflows.served.conftest import Recorder, observe

_ = impl  # importing the package fills the table of front ends

VECTORS = {
    "/v1/embeddings": {"input": ["a", "b"]},
    "/embeddings": {"input": "a"},
    "/api/embed": {"input": "a"},
    "/api/embeddings": {"prompt": "a"},
}


def posts():
    """(front end, path, whether a POST there generates whatever it says) of all routes."""
    for name, handler in FRONT_ENDS.items():
        doors = Doors([(handler.protocol, handler.routes)])
        for route in handler.routes:
            if "POST" in (route.methods or route.view.methods):
                path = route.path.replace("<response_id>", "resp_1")
                yield name, path, doors.generates({"REQUEST_METHOD": "POST", "PATH_INFO": path})


FREE = [path for _, path, generates in posts() if not generates]
GENERATING = [path for _, path, generates in posts() if generates]


@pytest.fixture
def recorder(house, served):
    house.workflow("Main", {"type": "StaticResponse", "content": "Hello"})
    served.save_user()
    return observe(served, Recorder())


@pytest.fixture
def post(served):
    def post(path, body):
        reply = served.app.test_client().post(path, json=body)
        data = reply.get_data()
        reply.close()
        return reply.status_code, data

    return post


class TestNoRun:
    @pytest.mark.parametrize("path", FREE)
    def test_of_what_runs_no_workflow(self, recorder, post, path):
        """Counts of tokens, vectors, facts of a model, what stops another request: whatever their body says."""
        for body in ({}, {"model": "ana", "content": "a", "input": "a", "prompt": "a", "messages": []}):
            post(path, body)
        assert recorder.told == []

    @pytest.mark.parametrize("path", ["/v1/rerank", "/rerank", "/v1/audio/speech", "/detokenize", "/none"])
    def test_of_what_is_not_served(self, recorder, post, path):
        assert post(path, {"model": "ana", "query": "a", "documents": ["b"]})[0] == 404
        assert recorder.told == []

    @pytest.mark.parametrize("path", VECTORS)
    def test_of_vectors(self, house, served, site, recorder, post, path):
        """They come, from the endpoint that the user names, and nothing of it is a run."""
        house.write("ApiTypes/Vectors", {"type": "openAIEmbeddings"})
        house.endpoint("vectors", endpoint=site.url("").rstrip("/"), apiTypeConfigFileName="Vectors")
        served.save_user(embeddingsEndpoint="vectors")

        def embed(handler):
            texts = json.loads(site.seen[-1].body)["input"]
            answer = {"data": [{"index": i, "embedding": [1.0, 0.5]} for i in range(len(texts))]}
            site.write(handler, 200, {"Content-Type": "application/json"}, json.dumps(answer).encode())

        site.pages["/v1/embeddings"] = embed
        status, body = post(path, VECTORS[path])
        assert status == 200 and b"0.5" in body
        assert (len(site.seen), recorder.told) == (1, [])

    @pytest.mark.parametrize("method", ["initialize", "ping", "tools/list", "none", "tools/call"])
    def test_of_what_an_mcp_client_asks_first(self, recorder, post, method):
        """Nor of a call of a tool that there is not."""
        post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"name": "none"}})
        assert recorder.told == []


class TestARun:
    @pytest.mark.parametrize("path", GENERATING)
    def test_of_what_generates(self, recorder, post, path):
        """One each, also where the request is refused."""
        post(path, {"messages": 5})
        assert [run.path for run in recorder.runs] == [path] and recorder.told[-2:] == ["ended", "settled"]

    @pytest.mark.parametrize("route", ROUTES)
    def test_of_what_is_answered(self, served, recorder, route):
        """With its node, and under the name of its client's protocol."""
        assert served.text(route=route) == "Hello"
        assert (recorder.run.state, len(recorder.run.nodes)) == ("done", 1) and recorder.run.front
