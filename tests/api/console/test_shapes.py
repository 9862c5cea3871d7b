"""Runs as JSON: shapes of time, lines of the list, and the whole."""

from __future__ import annotations

import json

import pytest

from Middleware.api.console.shapes import Line, ordinal, run_json, shape, summary, where
from Middleware.api.console.stood_out import RowWords
from Middleware.api.console.view_contract import json_bytes
from Middleware.services.node_trace import Wait
from tests.api.console.traced import call_of, node_of, run_of

SUMMARY = [
    "id",
    "at",
    "seq",
    "user",
    "key",
    "workflow",
    "front",
    "path",
    "stream",
    "task",
    "private",
    "state",
    "where",
    "status",
    "shape",
    "first_s",
    "took_s",
    "tokens",
    "about",
    "rate",
    "finish",
    "error",
    "held",
    "stood_out",
    *(WORDS := ["name", "said", "client_s", "after_s", "level", "short", "ahead"]),
    "discussion",
    "again_of",
    "kept",
]
RUN = [
    "model",
    "api_type",
    "cancelled_by",
    "usage",
    "all_nodes",
    "cost",
    "asked",
    "answer",
    "texts",
    "stood_out",
    "nodes",
]
NODE = [
    "i",
    "parent",
    "depth",
    "label",
    "workflow",
    "number",
    "of",
    "title",
    "type",
    "remembers",
    "group",
    "answers",
    "after",
    "state",
    "begun_s",
    "ended_s",
    "endpoint",
    "preset",
    "tokens",
    "dropped",
    "warnings",
    "error",
    "fields",
    "output",
    "thoughts",
    "waits",
    "calls",
]
CALL = [
    "k",
    "kind",
    "endpoint",
    "backend",
    "model",
    "url",
    "begun_s",
    "sent_s",
    "first_s",
    "ended_s",
    "tries",
    "status",
    "outcome",
    "finish_reason",
    "usage",
    "cost",
    "prompt",
    "load_s",
    "prompt_s",
    "backup_of",
    "chosen",
    "error",
    "body",
    "raw",
    "cleaned",
    "thoughts",
    "has_cleaning",
]


def answer(*calls, number=4, **facts):
    return node_of(number, "Answer", *calls, **{"answers": True, "of": 5, **facts})


def the_run(first=3.8, thoughts=("hm",), **facts):
    """16.3."""
    call = call_of(sent=3.3, first=first, thought=first if thoughts else None, thoughts=list(thoughts))
    node = answer(call, begun=3.3, ended=6.3)
    times = {"begun": 0.2, "first_text": 4.4, "answered": 6.3, "ended": 7.5}
    return run_of(node, **{**times, **facts})


class TestShape:
    def test_with_thoughts(self):
        run = the_run()
        told = summary(run, 0.0)
        assert told["shape"] == [
            ["queue", 0.2],
            ["other", 3.1],
            ["first", 0.5],
            ["think", 0.6],
            ["say", 1.9],
            ["after", 1.2],
        ]
        assert (told["first_s"], told["took_s"]) == (4.4, 7.5)

    def test_without_thoughts(self):
        assert shape(the_run(first=4.4, thoughts=()), 0.0) == [
            ["queue", 0.2],
            ["other", 3.1],
            ["first", 1.1],
            ["say", 1.9],
            ["after", 1.2],
        ]

    def test_cancelled_in_the_queue(self):
        assert shape(run_of(begun=None, ended=7.2, state="cancelled"), 0.0) == [["queue", 7.2]]

    def test_failed_before_it_said_anything(self):
        run = run_of(node_of(1), answer(number=2, begun=0.8), state="failed", answered=4.9, ended=4.9)
        assert shape(run, 0.0) == [["other", 0.8], ["first", 4.1]]

    def test_no_answering_node(self):
        """All behind the queue is other."""
        assert shape(run_of(node_of(1), begun=0.5, answered=2.0, ended=3.0), 0.0) == [
            ["queue", 0.5],
            ["other", 2.5],
        ]

    @pytest.mark.parametrize(
        ("state", "facts", "parts"),
        [
            ("waiting", {"begun": None}, [["queue", 8.0]]),
            ("answering", {"first_text": 5.0}, [["first", 5.0], ["say", 3.0]]),
            (
                "finishing",
                {"first_text": 5.0, "answered": 6.0},
                [["first", 5.0], ["say", 1.0], ["after", 2.0]],
            ),
        ],
    )
    def test_what_is_not_over_ends_now(self, state, facts, parts):
        nodes = [] if state == "waiting" else [answer(begun=0.0)]
        assert shape(run_of(*nodes, state=state, **facts), 108.0) == parts

    def test_an_answer_that_has_just_begun_is_there(self):
        """A page lets the last part grow."""
        run = run_of(answer(begun=0.0), first_text=5.0, state="answering")
        assert shape(run, 105.0) == [["first", 5.0], ["say", 0.0]]

    def test_times_that_contradict_each_other(self):
        """A run half told: no part is negative, and they sum up to what it took."""
        run = the_run(answered=2.0, ended=7.5)
        parts = shape(run, 0.0)
        assert all(took > 0 for _, took in parts) and sum(took for _, took in parts) == pytest.approx(7.5)


class TestWhere:
    @pytest.mark.parametrize(
        ("number", "word"),
        [
            (1, "1st"),
            (2, "2nd"),
            (3, "3rd"),
            (4, "4th"),
            (11, "11th"),
            (12, "12th"),
            (21, "21st"),
            (113, "113th"),
        ],
    )
    def test_ordinals(self, number, word):
        assert ordinal(number) == word

    @pytest.mark.parametrize(
        ("state", "line", "told"),
        [
            ("waiting", Line(2, []), "2nd in line"),
            ("waiting", None, None),
            ("running", None, "node 4 of 5"),
            ("answering", None, "node 4 of 5"),
            ("failed", None, "node 2 Coder"),
            ("done", None, None),
            ("cancelled", None, None),
        ],
    )
    def test_where_it_stands(self, state, line, told):
        """Of the outermost workflow, until it fails somewhere."""
        inner = node_of(2, "Coder", depth=1, of=3, state="failed")
        assert where(run_of(answer(), inner, state=state), line) == told

    @pytest.mark.parametrize(
        ("holders", "told"),
        [
            ([], "3rd in line"),
            (["mira:big"], "3rd in line, while mira:big runs"),
            (["mira:big", "ana", "ana"], "3rd in line, while mira:big and 2 more run"),
        ],
    )
    def test_who_holds_the_slots(self, holders, told):
        """As far as it is known."""
        assert Line(3, holders).words == told
        assert Line(3, holders).short == told.replace(" in line", "").replace("and 2 more", "+2")

    def test_what_a_call_waits_for(self):
        """Also in a nested run; the newest that still waits."""
        over = Wait("a slot of Small", 1.0, 2.0)
        inner = node_of(2, "Coder", depth=1, waits=[over, Wait("a turn at the machine 'desk'", 3.0)])
        assert where(run_of(answer(), inner, state="running")) == (
            "node 4 of 5, waits for a turn at the machine 'desk'"
        )
        assert where(run_of(answer(waits=[over]), state="running")) == "node 4 of 5"

    def test_before_any_node(self):
        assert where(run_of(state="running")) is None


class TestSummary:
    def test_its_keys(self):
        """In their order."""
        assert list(summary(the_run(), 0.0)) == SUMMARY

    def test_what_is_not_known_is_null(self):
        told = summary(run_of(begun=None, user="", state="waiting"), 101.0)
        unknown = (
            "user",
            "workflow",
            "front",
            "where",
            "status",
            "first_s",
            "tokens",
            "rate",
            "finish",
            "error",
        )
        assert [told[name] for name in unknown] == [None] * len(unknown)
        assert told["took_s"] == 1.0

    @pytest.mark.parametrize(
        ("facts", "told"),
        [
            ({"usage": {"completion_tokens": 268}}, (268, False, 106.8)),
            ({"counter": lambda: 19, "answered": None, "ended": None}, (19, True, 9.474)),
            ({"usage": {"completion_tokens": 4}}, (4, False, None)),
            ({"usage": {"completion_tokens": "many"}}, (None, False, None)),
            ({"usage": {"completion_tokens": 90}, "answered": 3.9, "ended": 4.5}, (90, False, None)),
            ({"usage": {"completion_tokens": 51}, "thoughts": ()}, (51, False, 26.316)),
            ({"usage": {"completion_tokens": 51}, "first_text": None}, (51, False, 20.0)),
            ({"usage": {"completion_tokens": 51}, "thoughts": (), "first_text": None}, (51, False, None)),
        ],
        ids=[
            "thoughts-count",
            "counted-while-it-runs",
            "too-few",
            "odd",
            "too-short",
            "without-thoughts",
            "nothing-but-thoughts",
            "neither",
        ],
    )
    def test_tokens(self, facts, told):
        """`usage`: as the backend told it, and so the client."""
        run = the_run(**facts)
        run.nodes[0].calls[0].usage = facts.get("usage")
        shown = summary(run, 106.3)
        assert (shown["tokens"], shown["about"], shown["rate"]) == told

    def test_tokens_that_no_backend_told(self):
        """The client is told an estimate, and the page that it is one."""
        shown = summary(the_run(usage={"completion_tokens": 268}), 106.3)
        assert (shown["tokens"], shown["about"]) == (268, True)

    def test_tokens_of_a_cancelled_run(self):
        """Nobody reported them: the estimate of the node."""
        run = the_run(state="cancelled")
        run.nodes[0].tokens = 40
        assert [summary(run, 0.0)[name] for name in ("tokens", "about")] == [40, True]

    @pytest.mark.parametrize(
        ("facts", "nested", "told"),
        [
            ({"workflow": "Main", "answering": "Main"}, [], "Main"),
            ({"workflow": "Router", "answering": "Code"}, [], "Router > Code"),
            ({"workflow": "Main", "answering": "Main"}, ["Prose"], "Main > Prose"),
            ({"workflow": "A", "answering": "B"}, ["C"], "A > B > C"),
            ({"workflow": "A", "answering": "B"}, ["C", "D"], "A > B > C > ..."),
            ({}, [], None),
        ],
    )
    def test_its_workflow(self, facts, nested, told):
        """The first, and what leads to the one that answers."""
        nodes = [answer(number=1)]
        for name in nested:
            nodes.append(answer(number=1, workflow=f"Workflows/mira/{name}.json", parent=nodes[-1]))
        assert summary(run_of(*nodes, **facts), 0.0)["workflow"] == told

    @pytest.mark.parametrize(
        ("file", "told"),
        [("Workflows/_shared/cut/_DefaultWorkflow.json", "cut"), ("Workflows/mira/Main.json", "Main")],
    )
    def test_what_every_shared_folder_begins_with_has_the_name_of_its_folder(self, file, told):
        """Else all of them would read alike (workbench.md 12)."""
        name = file.rpartition("/")[2].removesuffix(".json")
        run = run_of(answer(number=1, workflow=file), workflow=name, answering=name)
        assert summary(run, 0.0)["workflow"] == told

    def test_its_row(self):
        """The name that was asked, what was said, the client's time apart from what came after it."""
        run = the_run(model="mira:cut", said="Go on")
        told = summary(run, 0.0, None, RowWords(2, "trouble", "cut at 20 tokens"))
        assert {name: told[name] for name in ("name", "said", "client_s", "after_s", "level", "short")} == {
            "name": "mira:cut",
            "said": "Go on",
            "client_s": 6.3,
            "after_s": 1.2,
            "level": "trouble",
            "short": "cut at 20 tokens",
        }

    def test_the_row_of_a_run_of_which_little_is_known(self):
        """The user where no name was asked; no time behind an answer that there is none of."""
        told = summary(run_of(state="failed", ended=2.0), 0.0)
        assert [
            told[name] for name in ("name", "said", "client_s", "after_s", "level", "short", "ahead")
        ] == [
            "mira",
            None,
            2.0,
            None,
            None,
            None,
            None,
        ]

    def test_no_secret_in_what_was_said(self):
        """Nor its beginning, where eighty letters end."""
        run = run_of(said="x" * 74 + "qwertz", secrets=("qwertz99",))
        assert "qwert" not in summary(run, 0.0)["said"]

    def test_no_secret_in_its_error(self):
        """Neither the endpoint's nor the client's."""
        run = run_of(node_of(1, "", call_of(secrets=("abcdef123",))), error="no abcdef123 and no qwertz99")
        run.secrets = ("qwertz99",)
        assert summary(run, 0.0)["error"] == "no *** and no ***"


class TestHeld:
    def test_of_all_calls_of_a_run(self):
        """The list has the share, each call its numbers."""
        known = call_of(usage={"prompt_tokens": 100, "cached_tokens": 75})
        run = run_of(answer(known, call_of(prompt_chars=400)), private=True)
        told = run_json(run, 0.0)
        assert (summary(run, 0.0)["held"], told["held"]) == (0.75, 0.75)
        assert [call["prompt"]["held"] for call in told["nodes"][0]["calls"]] == [75, None]

    def test_where_nothing_is_known(self):
        assert summary(run_of(answer(call_of())), 0.0)["held"] is None


class TestWhole:
    def test_its_keys(self):
        """In their order, at every level."""
        told = run_json(the_run(), 0.0)
        assert list(told) == [*[name for name in SUMMARY if name != "stood_out"], *RUN]
        assert list(told["nodes"][0]) == NODE
        assert list(told["nodes"][0]["calls"][0]) == CALL

    def test_texts_are_named(self):
        call = call_of(
            body=b'{"a":1}', raw="<t>x</t>hi", cleaned="hi", thoughts=["x"], cleaning=({}, {}, {}, None)
        )
        run = run_of(node_of(1, "", call, output="hi", thoughts=["x"], fields={"prompt": "p"}), asked=b"{}")
        told = run_json(run, 0.0)
        node = told["nodes"][0]
        assert told["asked"] == {
            "ref": "asked",
            "chars": 2,
            "left_out": 0,
            "start": "{}",
            "sum": "44136fa355b3",
        }
        assert [node[name]["ref"] for name in ("fields", "output")] == ["n0.fields", "n0.output"]
        assert node["thoughts"] == [
            {"ref": "n0.thoughts.0", "chars": 1, "left_out": 0, "start": "x", "sum": "2d711642b726"}
        ]
        shown = node["calls"][0]
        assert [shown[name]["ref"] for name in ("body", "raw", "cleaned")] == [
            "n0.c0.body",
            "n0.c0.raw",
            "n0.c0.cleaned",
        ]
        assert shown["thoughts"][0]["ref"] == "n0.c0.thoughts.0" and shown["has_cleaning"]

    @pytest.mark.parametrize(
        ("facts", "seconds"),
        [
            ({"load_s": 8.12345}, 8.123),
            (
                {
                    "thoughts": [
                        "━━━━━\nllama-swap loading model: big\nBoo",
                        ".\n\nDone! (19.83s)\n━━━━━\n \nHm.",
                    ]
                },
                19.83,
            ),
            ({"thoughts": ["━━━━━\nllama-swap loading model: big\nBoo.\n"]}, None),
            ({"thoughts": ["I am done! (5s)"]}, None),
            ({}, None),
        ],
        ids=["its-numbers", "llama-swap", "cut-off", "a-thought", "nothing"],
    )
    def test_how_long_the_model_was_loaded(self, facts, seconds):
        """llama-swap says it as a thought, which is kept where texts are."""
        told = run_json(run_of(answer(call_of(**facts))), 0.0)
        assert told["nodes"][0]["calls"][0]["load_s"] == seconds

    def test_what_is_not_there_is_null(self):
        node = run_json(run_of(node_of(1, "", call_of())), 0.0)["nodes"][0]
        assert [node[name] for name in ("fields", "output", "error", "endpoint", "preset")] == [None] * 5
        assert [node["calls"][0][name] for name in ("body", "raw", "cleaned", "url", "status")] == [None] * 5

    def test_parents_and_times(self):
        parent = node_of(1, "Which way?", begun=0.5)
        child = node_of(1, "Code", begun=0.75, ended=2.0, parent=parent, depth=1, label="code")
        told = run_json(run_of(parent, child), 0.0)["nodes"]
        assert [(n["i"], n["parent"], n["depth"], n["label"]) for n in told] == [
            (0, None, 0, ""),
            (1, 0, 1, "code"),
        ]
        assert (told[1]["begun_s"], told[1]["ended_s"], told[0]["ended_s"]) == (0.75, 2.0, None)

    def test_nodes_that_were_not_run(self):
        """They follow at the end, with their names, without times; of nested files as well."""
        file = (
            {"title": "Draft"},
            {"title": "Answer", "type": "Standard"},
            {"agentName": "Notes", "type": "NoSuch"},
        )
        parent = node_of(1, "Draft", of=3, file_nodes=file, state="failed")
        child = node_of(2, "Inner", of=2, workflow="Workflows/mira/Inner.json", parent=parent, depth=1)
        told = run_json(run_of(parent, child, state="failed", ended=1.0), 0.0)["nodes"][2:]
        assert [(n["i"], n["number"], n["title"], n["type"], n["parent"]) for n in told] == [
            (2, 2, "Answer", "Standard", None),
            (3, 3, "Notes", "Standard", None),
            (4, 1, "", "", 0),
        ]
        assert {(n["state"], n["begun_s"], n["ended_s"]) for n in told} == {("not_run", None, None)}
        assert told[0]["fields"]["ref"] == "n2.fields" and told[2]["fields"] is None

    def test_while_it_runs_nothing_was_not_run(self):
        assert len(run_json(run_of(node_of(1, of=9), state="running"), 101.0)["nodes"]) == 1

    def test_usage_of_all_nodes(self):
        """Summed up while it runs; then as the client was told, and what came after its answer apart."""
        calls = [call_of(usage={"prompt_tokens": 5, "completion_tokens": 2}), call_of(kind="http"), call_of()]
        run = run_of(node_of(1, "", *calls))
        before = run_json(run, 0.0)["all_nodes"]
        run.all_usage = {"prompt_tokens": 9, "completion_tokens": 8, "calls": 2}
        run.whole_usage = {"prompt_tokens": 19, "completion_tokens": 9, "calls": 3}
        to_answer = {"prompt_tokens": 5, "completion_tokens": 2, "calls": 2}
        nothing = dict.fromkeys(to_answer, 0)
        assert before == {**to_answer, "to_answer": to_answer, "after": nothing}
        after = {"prompt_tokens": 10, "completion_tokens": 1, "calls": 1}
        told = {**run.whole_usage, "to_answer": dict(run.all_usage), "after": after}
        assert run_json(run, 0.0)["all_nodes"] == told

    def test_no_secret_anywhere(self):
        """Of the endpoint, of its URL, of the client, of the server, of the node's file."""
        call = call_of(
            url="http://u:pw123456@h:1/v1",
            secrets=("abcdef123",),
            body=b'{"x":"abcdef123"}',
            raw="say abcdef123",
            error="abcdef123 was refused",
        )
        node = node_of(
            1, "", call, output="qwertz99", warnings=["server9key"], fields={"apiKey": "file-secret-1"}
        )
        node.error = "abcdef123"
        run = run_of(node, asked=b"qwertz99", secrets=("qwertz99",), said="of qwertz99 and abcdef123")
        said = {"rule": "failed", "level": "bad", "text": "qwertz99", "short": "qwertz99", "i": None}
        told = json.dumps(run_json(run, 0.0, stood_out=[said], hidden=["server9key"]))
        hidden = ("abcdef123", "pw123456", "qwertz99", "server9key", "file-secret-1")
        assert [secret for secret in hidden if secret in told] == []

    def test_tools_of_a_private_run(self):
        """Their addresses may hold what people wrote."""
        asked = "http://secret.wish/?q=secret+wish"
        calls = [call_of(kind="http", backend="secret.wish", url=asked), call_of(url="http://h/v1")]
        told = run_json(run_of(node_of(1, "", *calls), private=True), 0.0)["nodes"][0]["calls"]
        assert [call["url"] for call in told] == [None, "http://h/v1"]
        assert [call["backend"] for call in told] == [None, "openAIChatCompletion"]

    def test_half_surrogates(self):
        """JSON that UTF-8 can hold."""
        run = run_of(node_of(1, "\ud800", call_of(raw="a\ud83d")), error="\udfff")
        assert "\ufffd" in json_bytes(run_json(run, 0.0)).decode("utf-8")
