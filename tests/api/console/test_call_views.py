"""The routes of one call: cleaning, curl, explain."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from Middleware.api.console.call_views import CUT_BODY, NO_RUN, NO_TEXTS, ROUTES
from Middleware.services.held_prompts import PromptPlace
from tests.api.console.conftest import a_hub
from tests.api.console.traced import call_of, node_of, run_of

SECRET = "hunter2-hunter2"
BY = ({"removeThinking": True, "thinkTagNames": ["think"]}, {}, {}, None)


def sent(**facts):
    return call_of(
        **{
            "url": "http://h:1/v1",
            "headers": {"Content-Type": "application/json", "Authorization": f"Bearer {SECRET}"},
            "body": b'{"a":1}',
            "secrets": (SECRET,),
            **facts,
        }
    )


@pytest.fixture
def get(ask):
    """`get("runs/r1/curl", call, ...)`: of a run with these calls in its second node."""

    def get(path, *calls, query="", needs_key=False, **facts):
        run = run_of(
            node_of(1), node_of(4, "Answer", *calls), **{"keeps_text": True, "asked": b'{"b":2}', **facts}
        )
        recorder = SimpleNamespace(run={"r1": run}.get, runs=lambda: [run], kept=dict, seq=0)
        return ask(
            "GET", path, query=query, hub=a_hub(recorder=recorder, needs_key=lambda: needs_key), routes=ROUTES
        )

    return get


class TestLeft:
    @staticmethod
    def call(clock, at, **facts):
        body = f'{{"messages":[{{"role":"system","content":"It is {clock} now"}}]}}'
        return sent(sent=at, body=body.encode(), prompt_chars=15, **facts)

    def test_where_the_prompt_left_the_one_before(self, get):
        leaves = PromptPlace(1, 0, "system")
        calls = self.call("12:04", 1.0), self.call("12:05", 2.0, compared=True, leaves=leaves)
        status, value = get("runs/r1/nodes/1/calls/1/left", *calls)
        place = value["place"]
        assert (status, place["differs"], place["was"]) == (200, "12:05 ", "12:04 ")

    def test_of_the_first(self, get):
        assert get("runs/r1/nodes/1/calls/0/left", self.call("12:04", 1.0)) == (200, {"place": None})


class TestCleaning:
    def test_the_steps_of_a_call(self, get):
        call = call_of(raw="<think>hm</think>Hello", cleaned="Hello", cleaning=BY)
        status, value = get("runs/r1/nodes/1/calls/0/cleaning", call)
        (step,) = value["steps"]
        assert (status, value["agrees"]) == (200, True)
        assert (step["rule"], step["order"], step["text"]) == ("thinking_names", 110, "Hello")

    def test_each_step_says_what_its_rule_does_and_what_turned_it_on(self, get):
        call = call_of(raw="<think>hm</think>Hello", cleaned="Hello", cleaning=BY)
        _, value = get("runs/r1/nodes/1/calls/0/cleaning", call)
        (step,) = value["steps"]
        assert step["said"].startswith("Removes what the model thought: every block")
        assert [(one["place"], one["key"], one["value"]) for one in step["settings"]] == [
            ("endpoint", "removeThinking", "true"),
            ("endpoint", "thinkTagNames", '["think"]'),
        ]

    def test_what_is_always_on_has_no_settings(self, get):
        call = call_of(raw="\nHello", cleaned="Hello", cleaning=BY)
        _, value = get("runs/r1/nodes/1/calls/0/cleaning", call)
        assert [(step["rule"], step["settings"]) for step in value["steps"]] == [("leading_space", [])]

    def test_settings_of_a_node_stand_in_its_workflow(self, get):
        node = {"removeCustomTextFromResponseStart": True, "responseStartTextToRemove": ["So: "]}
        call = call_of(raw="So: Hello", cleaned="Hello", cleaning=({}, node, {}, None))
        _, value = get("runs/r1/nodes/1/calls/0/cleaning", call)
        (step,) = value["steps"]
        assert {one["file"] for one in step["settings"]} == {"Workflows/mira/Reviewers.json"}

    def test_a_secret_in_a_setting(self, get):
        by = ({}, {"removeCustomTextFromResponseStart": True, "responseStartTextToRemove": [SECRET]}, {}, "")
        call = call_of(raw=f"{SECRET} Hello", cleaned="Hello", cleaning=by, secrets=(SECRET,))
        _, value = get("runs/r1/nodes/1/calls/0/cleaning", call)
        assert SECRET not in str(value)

    def test_a_text_that_is_not_kept(self, get):
        assert get("runs/r1/nodes/1/calls/0/cleaning", call_of()) == (200, {"agrees": False, "steps": []})

    def test_a_secret_in_a_text(self, get):
        """A model may repeat what it was sent."""
        call = call_of(raw=f"\n{SECRET}", cleaned=SECRET, cleaning=({}, {}, {}, None), secrets=(SECRET,))
        _, value = get("runs/r1/nodes/1/calls/0/cleaning", call)
        assert [step["text"] for step in value["steps"]] == ["***"]


class TestCurl:
    @pytest.mark.parametrize(
        ("query", "curl"), [("", "curl"), ("shell=sh", "curl"), ("shell=powershell", "curl.exe")]
    )
    def test_of_a_call(self, get, query, curl):
        status, value = get("runs/r1/nodes/1/calls/0/curl", sent(), query=query)
        assert (status, value["text"].split(" ")[:2]) == (200, [curl, "http://h:1/v1"])
        assert SECRET not in value["text"]

    def test_another_shell(self, get):
        assert get("runs/r1/nodes/1/calls/0/curl", sent(), query="shell=fish") == (
            400,
            {"error": 'shell: found "fish", allowed: sh, powershell'},
        )

    def test_of_what_is_no_request(self, get):
        assert get("runs/r1/nodes/1/calls/0/curl", call_of(kind="script")) == (
            404,
            {"error": "this call is not an HTTP request: script"},
        )

    @pytest.mark.parametrize(
        ("call", "facts"),
        [(sent(headers=None), {}), (sent(), {"keeps_text": False})],
        ids=["gone", "private"],
    )
    def test_of_what_is_not_kept(self, get, call, facts):
        assert get("runs/r1/nodes/1/calls/0/curl", call, **facts) == (404, {"error": NO_TEXTS})

    def test_of_the_built_in_demo(self, get):
        """It has no address."""
        assert get("runs/r1/nodes/1/calls/0/curl", sent(url="", sent=0.1)) == (
            404,
            {"error": "this call stays inside this program"},
        )

    def test_of_a_body_that_was_cut(self, get):
        """The command is no whole one, and says so."""
        _, value = get("runs/r1/nodes/1/calls/0/curl", sent(body_left_out=1))
        assert value["text"].startswith(CUT_BODY)
        assert get("runs/r1/curl", asked_left_out=1)[1]["text"].startswith(CUT_BODY)

    def test_of_the_request(self, get):
        """The client's body, to this server."""
        assert get("runs/r1/curl") == (
            200,
            {
                "text": "curl http://localhost/v1/chat/completions -H 'Content-Type: application/json' -d '{\"b\":2}'"
            },
        )

    def test_of_a_request_that_needs_a_key(self, get):
        assert '"Authorization: Bearer $API_KEY"' in get("runs/r1/curl", needs_key=True)[1]["text"]

    def test_the_address_is_the_one_that_the_reader_knows(self, get):
        _, value = get("runs/r1/curl", query="address=https%3A%2F%2Fllm.example.com%2Fx%2F")
        assert value["text"].startswith("curl https://llm.example.com/x/v1/chat/completions ")

    @pytest.mark.parametrize(
        "address", ["file%3A%2F%2F%2Fetc", "llm.example.com", "https%3A%2F%2Fa%3Fb", "https%3A%2F%2Fa%0Ab"]
    )
    def test_an_address_that_is_none(self, get, address):
        status, value = get("runs/r1/curl", query=f"address={address}")
        assert (status, "allowed: http(s)://host" in value["error"]) == (400, True)

    def test_of_a_request_that_is_not_kept(self, get):
        assert get("runs/r1/curl", asked=b"") == (404, {"error": NO_TEXTS})


class TestExplain:
    def test_of_a_node(self, get):
        assert get("runs/r1/nodes/1/explain")[1]["text"].endswith(
            "--explain 'Reviewers#4' --messages messages.json"
        )

    def test_of_a_choice_by_meaning(self, ask):
        """It is a node of the run, and no workflow's."""
        run = run_of(node_of(1, workflow="Routing/home.json"))
        recorder = SimpleNamespace(run={"r1": run}.get, runs=lambda: [run], kept=dict, seq=0)
        told = ask("GET", "runs/r1/nodes/0/explain", hub=a_hub(recorder=recorder), routes=ROUTES)
        assert told == (404, {"error": "this request ran no workflow"})


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("runs/r2/curl", NO_RUN),
        ("runs/r2/nodes/0/calls/0/curl", NO_RUN),
        ("runs/r1/nodes/2/explain", "no such node: this run has 2"),
        ("runs/r1/nodes/2/calls/0/cleaning", "no such node: this run has 2"),
        ("runs/r1/nodes/1/calls/1/cleaning", "no such call: this node has 1"),
        ("runs/r1/nodes/-1/calls/0/curl", "no such route"),
        ("runs/r1/nodes/x/calls/0/curl", "no such route"),
    ],
)
def test_what_is_not_there(get, path, sentence):
    assert get(path, sent()) == (404, {"error": sentence})
