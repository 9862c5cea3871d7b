"""Every route over every kind of broken config file: a clear sentence that names the file, never a failure of the server.

The routes are those of the table of routes: one that is added must say here how it is asked.
"""

from __future__ import annotations

import json
import os

import pytest

from Middleware.api.console.views import all_routes
from Middleware.api.requests.access import ConsoleWish
from Middleware.config.loader import ConfigTree

KEY = "k2345678"
HEADERS = {
    "X-Headrace-Console": "1",
    "Host": "localhost:5000",
    "Authorization": f"Bearer {KEY}",
    "Content-Type": "application/json",
}
USER, WORKFLOW, ENDPOINT = "Users/mira.json", "Workflows/mira/Main.json", "Endpoints/Big.json"
KIND, PRESET, ROUTES_OF_USER = "ApiTypes/Demo.json", "Presets/Demo/Warm.json", "Routing/Router.json"
SIDE = "Workflows/mira/Side.json"
FILES = {
    USER: {"customWorkflowOverride": True, "customWorkflow": "Main", "categoryConfig": "Router"},
    WORKFLOW: [{"type": "Standard", "endpointName": "Big", "preset": "Warm", "prompt": "x"}, {"type": "CustomWorkflow", "workflowName": "Side"}],
    SIDE: [{"type": "StaticResponse", "content": "x"}],
    ENDPOINT: {"endpoint": "", "apiTypeConfigFileName": "Demo"},
    KIND: {"type": "builtInDemo", "presetType": "Demo"},
    PRESET: {"temperature": 1},
    ROUTES_OF_USER: {"a": {"description": "x", "workflow": "Side"}},
}  # fmt: skip
TEXT = json.dumps(FILES[WORKFLOW])
ASKED = {"path": WORKFLOW, "user": "mira"}
MESSAGES = [{"role": "user", "content": "Hi"}]

# route: requests to it as (path, body); `{run}`: the id of a run that is kept
REQUESTS = {
    "GET state": [("state", None)],
    "GET runs": [("runs?user=mira&workflow=Main", None)],
    "GET runs/<run_id>": [("runs/{run}", None)],
    "GET runs/<run_id>/texts/<ref>": [("runs/{run}/texts/asked", None)],
    "POST runs/<run_id>/cancel": [("runs/{run}/cancel", {})],
    "POST runs/<run_id>/keep": [("runs/{run}/keep", {"keep": True}), ("runs/{run}/keep", {"keep": False})],
    "GET numbers": [("numbers", None)],
    "GET today": [("today", None)],
    "GET events": [("events?after=0", None)],
    "GET runs/<run_id>/curl": [("runs/{run}/curl?shell=sh", None)],
    "GET runs/<run_id>/nodes/<int:i>/explain": [("runs/{run}/nodes/0/explain", None)],
    "GET runs/<run_id>/nodes/<int:i>/calls/<int:k>/cleaning": [("runs/{run}/nodes/0/calls/0/cleaning", None)],
    "GET runs/<run_id>/nodes/<int:i>/calls/<int:k>/left": [("runs/{run}/nodes/0/calls/0/left", None)],
    "GET runs/<run_id>/nodes/<int:i>/calls/<int:k>/curl": [("runs/{run}/nodes/0/calls/0/curl", None)],
    "GET endpoints": [("endpoints", None)],
    "POST endpoints/<user>/<name>/probe": [("endpoints/mira/Big/probe", {})],
    "GET loaded": [("loaded", None)],
    "GET keys": [("keys", None)],
    "GET history": [("history?span=days", None)],
    "GET help": [("help", None)],
    "GET help/<path:name>": [("help/nodes/Standard", None)],
    "GET files/<path:path>": [(f"files/{file}", None) for file in FILES if "Workflows/" not in file],
    "PUT files/<path:path>": [(f"files/{ENDPOINT}", {"text": "{}", "version": "x"}), (f"files/{PRESET}", {"text": "{}", "version": "x"})],
    "PUT workflows/<path:path>": [(f"workflows/{WORKFLOW}", {"text": TEXT, "version": "x"})],
    "GET workflows/<path:path>/earlier": [(f"workflows/{WORKFLOW}/earlier", None)],
    "GET workflows/<path:path>/earlier/<at>": [(f"workflows/{WORKFLOW}/earlier/20260101T000000Z", None)],
    "POST workflows": [
        ("workflows", {"path": "Workflows/mira/New1.json", "template": "chat"}),
        ("workflows", {"path": "Workflows/mira/New2.json", "template": "branch", "endpoint": "Big"}),
        ("workflows", {"path": "Workflows/mira/New3.json", "template": f"copy:{WORKFLOW}"}),
    ],
    "POST dry-run": [("dry-run", ASKED), ("dry-run", {**ASKED, "text": TEXT})],
    "GET names": [("names", None), (f"names?user=mira&path={WORKFLOW}", None)],
    "GET workflows": [("workflows", None)],
    "GET workflows/<path:path>": [(f"workflows/{WORKFLOW}", None), (f"workflows/{WORKFLOW}?user=mira", None)],
    "POST check": [("check", {**ASKED, "text": TEXT})],
    "GET chats": [("chats", None)],
    "GET chats/<user>/<chat>": [("chats/mira/none", None)],
    "GET chats/<user>/<chat>/memory": [("chats/mira/none/memory", None)],
    "POST chats/<user>/<chat>/memory": [("chats/mira/none/memory", {"act": "forget", "number": "f1", "sum": "x"})],
    "GET find": [("find", None)],
    "POST find": [("find", {"hosts": []})],
    "GET model-names": [("model-names", None)],
    "GET model-names/<path:name>": [("model-names/mira", None), ("model-names/mira:Side", None)],
    "GET runs/<run_id>/again": [("runs/{run}/again", None)],
    "POST edit/renumber": [("edit/renumber", {"text": TEXT, "user": "mira", "insert": 1})],
    "POST endpoints": [("endpoints", {"path": "Endpoints/New.json", "url": "http://127.0.0.1:1", "api_type": "Demo", "model": "m"})],
    "POST pack": [("pack", {"name": "mira"})],
    "POST unpack": [("unpack", {})],
    "POST try": [("try", {"user": "mira", "path": path, "messages": MESSAGES}) for path in (None, WORKFLOW)],
}  # fmt: skip


def a_loop(path):
    path.symlink_to(path.name)


def a_link_to_nothing(path):
    path.symlink_to("nothing.json")


def a_link_out(path):
    outside = path.parents[1].parent / "outside.json"
    outside.write_text("[]")
    path.symlink_to(outside)


def a_folder(path):
    path.mkdir()


def a_pipe(path):
    os.mkfifo(path)


def holding(content):
    return lambda path: path.write_bytes(content)


BROKEN = {
    "cut": holding(b'{"a": '),
    "empty": holding(b""),
    "a-number": holding(b"5"),
    "null": holding(b"null"),
    "a-list-of-numbers": holding(b"[5]"),
    "wrong-types": holding(b'{"nodes": 5, "port": [], "endpoint": {}, "type": 5, "customWorkflow": [], "apiTypeConfigFileName": 7, "presetType": {}, "temperature": {}}'),
    "nodes-of-wrong-types": holding(b'[{"type": ["Standard"], "endpointName": 5, "title": {}}]'),
    "twice-the-same-key": holding(b'{"port": 1, "port": "x", "nodes": [], "nodes": [{}]}'),
    "no-utf-8": holding(b'{"a": "\xff\xfe\x80"}'),
    "utf-16": holding('{"a": 1}'.encode("utf-16")),
    "zeros": holding(b"\0" * 50),
    "half-a-character": holding(b'{"a": "\\ud800"}'),
    "deep": holding(b"[" * 5000 + b"]" * 5000),
    "a-number-of-5000-digits": holding(b'{"port": ' + b"9" * 5000 + b"}"),
    "a-folder": a_folder,
    "a-loop": a_loop,
    "a-link-to-nothing": a_link_to_nothing,
    "a-link-out": a_link_out,
    "a-pipe": a_pipe,
    "not-there": lambda path: None,
    "no-right": holding(b"{}"),
}  # fmt: skip


@pytest.fixture
def house(serve, configs, facts, monkeypatch):
    """(client, id of a run, `broken(file, kind)`, which puts a broken file in the place of a good one).

    Nothing of `mira` was read before: no good version of a file stays in use.
    """
    facts(users=("mira", "jo"))
    for file, document in FILES.items():
        configs(file, document)
    configs("Users/jo.json", {"customWorkflow": "Main"})
    client = serve(console=ConsoleWish("edit", KEY)).test_client()
    body = {"model": "jo", "messages": MESSAGES}
    run = client.post("/v1/chat/completions", json=body).headers["X-Request-Id"]

    def broken(file, kind):
        path = configs.root / file
        path.unlink()
        BROKEN[kind](path)
        if kind == "no-right":
            deny(monkeypatch, file)

    return client, run, broken


def deny(monkeypatch, file):
    """The account of the tests may read everything."""
    reads = ConfigTree.bytes_of

    def refused(self, relative):
        if relative == file:
            raise PermissionError(13, "Permission denied")
        return reads(self, relative)

    monkeypatch.setattr(ConfigTree, "bytes_of", refused)


def answers(client, run):
    """(what was asked, status, JSON or None) of every request of `REQUESTS`."""
    for route, requests in REQUESTS.items():
        for path, body in requests:
            data = b"" if body is None else json.dumps(body).encode()
            address = f"/console/api/{path.replace('{run}', run)}"
            with client.open(address, method=route.split()[0], headers=HEADERS, data=data) as answer:
                is_stream = answer.mimetype == "text/event-stream"
                yield f"{route} {path}", answer.status_code, None if is_stream else answer.json


def test_every_route_is_asked():
    assert set(REQUESTS) == {f"{route.method} {route.rule}" for route in all_routes()} | {"POST try"}


def test_nothing_is_amiss_with_the_files_as_they_are(house):
    """But for texts that are saved over another version, a run without calls, a history that nobody keeps, an
    earlier text and a chat that there is none of, and a pack that is no zip file.
    """
    client, run, _ = house
    refused = {
        what.partition(" ")[0] + " " + what.split()[1]: status
        for what, status, _ in answers(client, run)
        if status >= 400
    }
    assert refused == {
        "PUT files/<path:path>": 409,
        "PUT workflows/<path:path>": 409,
        "GET history": 404,
        "GET workflows/<path:path>/earlier/<at>": 404,
        "GET chats/<user>/<chat>": 404,
        "GET chats/<user>/<chat>/memory": 404,
        "POST chats/<user>/<chat>/memory": 404,
        "POST unpack": 415,
        "GET runs/<run_id>/nodes/<int:i>/explain": 404,
        "GET runs/<run_id>/nodes/<int:i>/calls/<int:k>/cleaning": 404,
        "GET runs/<run_id>/nodes/<int:i>/calls/<int:k>/left": 404,
        "GET runs/<run_id>/nodes/<int:i>/calls/<int:k>/curl": 404,
    }  # fmt: skip


ONES = {
    "user": (USER,),
    "workflow": (WORKFLOW,),
    "endpoint": (ENDPOINT,),
    "what-these-name": (KIND, PRESET, ROUTES_OF_USER, SIDE),
}


@pytest.mark.parametrize("files", ONES.values(), ids=ONES)
@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_is_told(house, kind, files):
    """422 where a route needs the file: with its name. All else answers as if nothing were amiss, or says why not."""
    client, run, broken = house
    for file in files:
        broken(file, kind)
    told = list(answers(client, run))
    assert [one for one in told if one[1] >= 500] == []
    assert [one for one in told if one[1] >= 400 and not one[2]["error"]] == []
    folders, names = (
        {file.rpartition("/")[0] for file in files},
        {file.rpartition("/")[2].removesuffix(".json") for file in files},
    )
    unnamed = [
        one for one in told if one[1] == 422 and not any(name in one[2]["error"] for name in folders | names)
    ]
    assert unnamed == []


def test_the_sentence_is_the_loaders(house):
    """File, place, what was found, what is allowed."""
    client, _, broken = house
    broken(USER, "a-list-of-numbers")
    said = "Users/mira.json:1:1: found a list, allowed: an object"
    asked = [("GET", "names", None), ("POST", "dry-run", ASKED), ("POST", "try", {"user": "mira", "path": WORKFLOW, "messages": MESSAGES})]  # fmt: skip
    told = [
        client.open(f"/console/api/{path}", method=method, headers=HEADERS, data=json.dumps(body))
        for method, path, body in asked
    ]
    assert [answer.status_code for answer in told] == [422] * 3
    assert [answer.json["error"].partition(" (request")[0] for answer in told] == [said] * 3
