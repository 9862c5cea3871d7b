"""Routing by meaning over real sockets: an embeddings server that answers, drips, hangs, is not there."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.e2e.answers import ROUTES
from tests.e2e.conftest import write
from tests.e2e.fake_backend import Reply
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.e2e

ROUTE = ROUTES["openai-chat"]
VECTORS = {"about code": [1, 0], "about facts": [0, 1]}


class Embeddings(ThreadingHTTPServer):
    """`mode`: `answers`, or what it does instead. `asked`: the texts of each call; `left`: a caller hung up."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.mode, self.asked, self.left = "answers", [], threading.Event()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        self.server.asked.append(texts)
        data = [{"index": i, "embedding": VECTORS.get(text, [1, 0.1])} for i, text in enumerate(texts)]
        body = json.dumps({"data": data}).encode()
        if self.server.mode == "hangs":
            self.wait_for_the_end()
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.server.mode == "drips":
            self.drip(body)
        else:
            self.wfile.write(body)

    def wait_for_the_end(self):
        self.connection.settimeout(PATIENCE_S)
        if not self.connection.recv(1):
            self.server.left.set()

    def drip(self, body):
        """A byte now and then: no single read of the other side takes long."""
        try:
            while not self.server.shutting_down.wait(0.1):
                self.wfile.write(b" ")
                self.wfile.flush()
        except OSError:
            self.server.left.set()

    def log_message(self, *words):
        """Says nothing."""


@pytest.fixture
def embeddings():
    server = Embeddings()
    server.shutting_down = threading.Event()
    yield server
    server.shutting_down.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def server(launch, embeddings):
    say = {"type": "StaticResponse"}
    made = launch(
        {
            "ann": {
                "user": {
                    "customWorkflowOverride": False,
                    "routingConfig": "home",
                    "categorizationWorkflow": "Pick",
                },
                "endpoints": {
                    "Vectors": {"endpoint": embeddings.url, "apiTypeConfigFileName": "OpenAI-Embeddings"}
                },
                "workflows": {
                    "Pick": [{"type": "Standard", "endpointName": "Model", "prompt": "choosing"}],
                    "Code": [{**say, "content": "code"}],
                    "Facts": [{**say, "content": "facts"}],
                    "_DefaultWorkflow": [{**say, "content": "default"}],
                },
            }
        }
    )
    categories = {
        name: {"description": f"about {name.lower()}", "workflow": name.capitalize()}
        for name in ("CODE", "FACTS")
    }
    write(
        made.public / "Configs" / "Routing" / "home.json",
        {"_byMeaning": {"embeddingEndpointName": "Vectors"}, **categories},
    )
    return made


SAY = "Please mend my program, it fails"


def ask(server, say=SAY, *, stream=False):
    status, body = server.post(ROUTE.path, ROUTE.ask("ann", say, stream=stream))
    assert status == 200, body
    return ROUTE.text(body, stream=stream)


@pytest.fixture(autouse=True)
def model(backend):
    """It chooses FACTS, whatever it is asked."""
    backend.on("choosing", Reply(["FACTS"]))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_clear_message_asks_no_model(server, embeddings, backend, stream):
    """Also with the next server process: the vectors of the examples are kept."""
    before = len(backend.calls("choosing"))
    assert ask(server, stream=stream) == "code"
    assert len(backend.calls("choosing")) == before
    assert embeddings.asked == [["about code", "about facts"], [SAY]]
    assert server.wait_for_log("by meaning: CODE ")


@pytest.mark.parametrize("mode", ["hangs", "drips"])
@pytest.mark.parametrize("first", [True, False], ids=["examples", "message"])
def test_a_slow_server(server, embeddings, mode, first):
    """The model decides; a call for the message is ended, and no more of them are made for a while."""
    if not first:
        assert ask(server) == "code"
    embeddings.mode = mode
    assert ask(server) == "facts"
    asked = len(embeddings.asked)
    if not first:
        assert embeddings.left.wait(PATIENCE_S)
    assert ask(server, "another question of mine") == "facts"
    assert len(embeddings.asked) == asked


def test_a_server_that_is_not_there(server, embeddings):
    """Each request goes the old way, and the log says why."""
    embeddings.server_close()
    assert [ask(server) for _ in range(2)] == ["facts", "facts"]
    assert server.log.count("routing by meaning: endpoint 'Vectors'") == 1


def test_a_client_that_leaves(server, embeddings):
    """The call for its message ends."""
    assert ask(server) == "code"
    embeddings.mode = "hangs"
    connection, answer = server.open_stream(ROUTE.path, ROUTE.ask("ann", "a message of its own", stream=True))
    wait_until(lambda: embeddings.asked[-1] == ["a message of its own"], said=lambda: embeddings.asked)
    answer.close()
    connection.close()
    assert embeddings.left.wait(PATIENCE_S)


@pytest.mark.parametrize(
    "say", ["\u0000\u0001 what is this?", "\U0001f600" * 9, "{agent1Output} {{x}} {% y %}", "x" * 100_000]
)
def test_odd_messages(server, embeddings, say):
    """They are texts."""
    assert ask(server, say) == "code"
    assert embeddings.asked[-1] == [say.strip()[-2000:]]
