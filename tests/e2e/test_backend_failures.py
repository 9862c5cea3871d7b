"""Backends that die, fail or are not there; clients that hang up. The server goes on."""

from __future__ import annotations

import http.client
import json

import pytest

from tests.e2e.answers import ROUTES
from tests.e2e.fake_backend import Reply
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def server(launch):
    return launch(
        {
            "ann": {},
            "gone": {"endpoints": {"Model": {"endpoint": "http://127.0.0.1:9"}}},
            "nowhere": {"endpoints": {"Model": {"endpoint": "http://no.invalid:9"}}},
        },
        "--concurrency",
        "0",
    )


@pytest.fixture(autouse=True)
def still_answers(server):
    """Whatever happened, the next request is served."""
    yield
    status, body = server.post(
        "/v1/chat/completions", ROUTES["openai-chat"].ask("ann", "still there", stream=False)
    )
    assert (status, ROUTES["openai-chat"].text(body, stream=False)) == (200, "still there")


@pytest.mark.parametrize("name", ROUTES)
def test_a_backend_dies_in_the_middle(name, server, backend):
    """What came before arrives; the error is said in the client's protocol, once; the stream ends properly."""
    route, mark = ROUTES[name], f"dies-{name}"
    backend.on(mark, Reply(["one ", "two ", "three "], dies_after=2))
    status, body = server.post(route.path, route.ask("ann", mark, stream=True))
    units = route.units(body)
    assert status == 200
    assert "".join(route.piece(unit) for unit in units if not route.failed(unit)).strip() == "one two"
    assert sum(map(route.failed, units)) == 1
    assert str(backend.url) not in body.decode()


@pytest.mark.parametrize("name", ROUTES)
def test_a_backend_dies_before_a_whole_answer(name, server, backend):
    """A real status, not 200."""
    route, mark = ROUTES[name], f"dies-whole-{name}"
    backend.on(mark, Reply(dies_after=0))
    status, body = server.post(route.path, route.ask("ann", mark, stream=False))
    assert status == 502
    assert json.loads(body)["error"]


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("name", ROUTES)
def test_a_backend_that_refuses(name, stream, server, backend):
    """A stream that has not begun gets a real status too."""
    route, mark = ROUTES[name], f"refuses-{name}-{stream}"
    backend.on(mark, Reply(status=401))
    status, body = server.post(route.path, route.ask("ann", mark, stream=stream))
    assert status == 502
    assert json.loads(body)["error"]
    assert len(backend.calls(mark)) == 1


@pytest.mark.parametrize("name", ROUTES)
def test_a_backend_that_stays_out_of_order(name, server, backend):
    """Three tries take longer than a stream may stay silent: after heartbeats the error is a unit of the stream."""
    route, mark = ROUTES[name], f"out-of-order-{name}"
    backend.on(mark, Reply(status=503))
    status, body = server.post(route.path, route.ask("ann", mark, stream=True))
    units = route.units(body)
    assert (status, len(backend.calls(mark))) == (200, 3)
    assert sum(map(route.failed, units)) == 1
    assert "".join(route.piece(unit) for unit in units if not route.failed(unit)) == ""


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("user", ["gone", "nowhere"])
@pytest.mark.parametrize("name", ROUTES)
def test_a_backend_that_is_not_there(name, user, stream, server):
    """Nobody listens, or the name leads nowhere: an HTTP error, also where a stream was asked for."""
    route = ROUTES[name]
    status, body = server.post(route.path, route.ask(user, "hello", stream=stream))
    assert status == 502
    assert "cannot connect to" in json.dumps(json.loads(body)["error"])


@pytest.mark.parametrize("name", ROUTES)
def test_a_client_hangs_up_while_text_flows(name, server, backend):
    """The backend's connection is closed at once, so that it stops working."""
    route, mark = ROUTES[name], f"hang-up-{name}"
    backend.on(mark, Reply([f"word{n} " for n in range(400)], gap_s=0.05))
    connection, answer = server.open_stream(route.path, route.ask("ann", mark, stream=True))
    answer.readline()
    answer.close()
    connection.close()
    assert backend.wait_for_call(mark).hung_up.wait(PATIENCE_S)


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_a_client_hangs_up_while_the_model_thinks(stream, server, backend):
    """Nothing was sent yet, in either direction."""
    mark = f"silent-{stream}"
    backend.on(mark, Reply([], hangs=True))
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    body = ROUTES["openai-chat"].ask("ann", mark, stream=stream)
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    call = backend.wait_for_call(mark)
    connection.close()
    assert call.hung_up.wait(PATIENCE_S)
