"""The routes of runs: the list and its filters, one run, its texts, its end."""

from __future__ import annotations

import json
from types import SimpleNamespace
from urllib.parse import urlencode

import pytest

from Middleware.api.console.call_views import NO_RUN
from Middleware.api.console.recorder import MOST_PINNED, Cut
from Middleware.api.console.run_texts import RUN_STATES
from Middleware.api.console.views import BY_CONSOLE, NO_TEXT, PRIVATE, Views
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.run_trace import Observers
from tests.api.console.conftest import a_hub, asking
from tests.api.console.traced import call_of, node_of, run_of

MARKER = "mirabilis"


class Kept:
    """A recorder with these runs, the newest first."""

    def __init__(self, *runs):
        self._runs, self.seq, self.row_words = list(runs), 40, {}

    def runs(self):
        return list(self._runs)

    def note_words(self, run_id, words):
        self.row_words[run_id] = words

    def run(self, run_id):
        return next((run for run in self._runs if run.id == run_id), None)

    def kept(self):
        return {"runs": len(self._runs), "bytes": 0, "limit": 1}


def a_run(run_id, *nodes, **facts):
    facts = {"keeps_text": True, "workflow": "Chat", "ended": 2.0, **facts}
    run = run_of(*nodes, **facts)
    run.id = run_id
    return run


@pytest.fixture
def get(ask):
    """`get(runs, "runs", state="failed")` gives (status, value)."""

    def get(runs, path, **query):
        return ask("GET", path, query=urlencode(query), hub=a_hub(recorder=Kept(*runs)))

    return get


@pytest.fixture
def shown(get):
    """`shown(runs, **query)`: ids of the list."""
    return lambda runs, **query: [run["id"] for run in get(runs, "runs", **query)[1]["runs"]]


FIVE = [
    a_run("e", user="jo", state="failed", error="endpoint 'Big': no answer"),
    a_run("d", state="answering", ended=None),
    a_run(
        "c", node_of(1, "Draft", call_of("Small", raw="Straße nach Rom")), workflow="Router", answering="Code"
    ),
    a_run("b", state="cancelled", asked=b'{"text":"caf\\u00e9"}'),
    a_run("a", user="jo", asked=b"hello"),
]


class TestList:
    def test_the_newest_come_first(self, get):
        status, value = get(FIVE, "runs")
        assert status == 200 and list(value) == ["runs", "next", "seq", "counts"]
        assert [run["id"] for run in value["runs"]] == ["e", "d", "c", "b", "a"]
        assert (value["next"], value["seq"]) == (None, 40)

    def test_no_run_yet(self, get):
        none = {"odd": 0, "failed": 0, "waiting": 0, "slow": 0, "kept": 0}
        assert get([], "runs") == (200, {"runs": [], "next": None, "seq": 40, "counts": none})

    def test_pages(self, get):
        """Each begins before the last run of the one before."""
        first = get(FIVE, "runs", limit=2)[1]
        second = get(FIVE, "runs", limit=2, before=first["next"])[1]
        third = get(FIVE, "runs", limit=2, before=second["next"])[1]
        pages = [[run["id"] for run in page["runs"]] for page in (first, second, third)]
        assert pages == [["e", "d"], ["c", "b"], ["a"]] and third["next"] is None

    def test_fifty_by_default(self, get):
        many = [a_run(f"r{i}") for i in range(60)]
        value = get(many, "runs")[1]
        assert (len(value["runs"]), value["next"]) == (50, "r49")

    @pytest.mark.parametrize(
        ("query", "ids"),
        [
            ({"user": "jo"}, "ea"),
            ({"state": "failed"}, "e"),
            ({"state": "failed,answering"}, "ed"),
            ({"state": "done", "user": "jo"}, "a"),
            ({"workflow": "Code"}, "c"),
            ({"workflow": "Router"}, "c"),
            ({"workflow": "Rout"}, ""),
            ({"text": "DRAFT"}, "c"),
            ({"text": "small"}, "c"),
            ({"text": "strasse"}, "c"),
            ({"text": "no answer"}, "e"),
            ({"text": "café"}, "b"),
            ({"text": "jo"}, "ea"),
            ({"text": "jo chat"}, "ea"),
            ({"text": "nowhere"}, ""),
            ({"user": "jo", "limit": 1, "text": "hello"}, "a"),
            ({"user": "", "state": "", "text": ""}, "edcba"),
        ],
        ids=str,
    )
    def test_filters(self, shown, query, ids):
        """Joined with and; texts in any case, facts and kept texts alike."""
        assert "".join(shown(FIVE, **query)) == ids

    def test_odd_ones(self, get, shown):
        """What failed, and what had trouble; a refused or slow one is not odd (workbench.md 12)."""
        cut = a_run("cut", node_of(1, "Draft", answers=True), finish_reason="length", first_text=1.0)
        refused = a_run("no", state="refused", status=404)
        assert shown([*FIVE, cut, refused], state="odd") == ["e", "cut"]
        assert get([*FIVE, cut, refused], "runs")[1]["counts"] == {
            "odd": 2,
            "failed": 1,
            "waiting": 0,
            "slow": 0,
            "kept": 0,
        }

    def test_slow_ones(self, shown):
        """Over the 90th percentile of their name, where ten runs or more tell what is usual."""
        facts = {"answered": 1.0, "first_text": 0.5, "model": "mira:big"}
        usual = [a_run(f"u{i}", **facts) for i in range(10)]
        slow = a_run("slow", **{**facts, "answered": 9.0})
        assert shown([slow, *usual], state="slow") == ["slow"]
        assert shown([slow, *usual[:8]], state="slow") == []

    def test_of_a_model_name(self, shown):
        """As it was asked; without one the user's."""
        runs = [a_run("a", model="mira:big"), a_run("b", model="mira"), a_run("c")]
        assert (shown(runs, name="mira:big"), shown(runs, name="mira")) == (["a"], ["b", "c"])

    @pytest.mark.parametrize("state", RUN_STATES)
    def test_each_state_can_be_asked_for(self, get, state):
        assert get(FIVE, "runs", state=state)[0] == 200

    def test_a_search_finds_no_secret(self, shown):
        """Or one could be guessed, letter by letter."""
        run = a_run("r", node_of(1, "", call_of(raw="key hunter2hunter2", secrets=("hunter2hunter2",))))
        assert (shown([run], text="key h"), shown([run], text="key")) == ([], ["r"])

    def test_a_search_finds_no_piece_of_a_secret_at_a_cut(self, shown):
        """As the text itself is shown without it."""
        raw = Cut("the key hunter2h", "nter2 tail", 5000)
        run = a_run("r", node_of(1, "", call_of(raw=raw, secrets=("hunter2hunter2",))))
        assert (shown([run], text="hunter2h"), shown([run], text="nter2")) == ([], [])
        assert (shown([run], text="the key"), shown([run], text="TAIL")) == (["r"], ["r"])

    @pytest.mark.parametrize(
        ("query", "status", "sentence"),
        [
            (
                {"state": "over"},
                400,
                f'state: found "over", allowed: {", ".join([*RUN_STATES, "odd", "slow", "kept"])}',
            ),
            ({"limit": 0}, 400, 'limit: found "0", allowed: a number from 1 to 200'),
            ({"limit": 201}, 400, 'limit: found "201", allowed: a number from 1 to 200'),
            ({"limit": "ten"}, 400, 'limit: found "ten", allowed: a number from 1 to 200'),
            (
                {"page": 2},
                400,
                '"page" is not part of this query, allowed: user, key, workflow, name, state, text, discussion, before, limit',
            ),
            ({"before": "zz"}, 404, NO_RUN),
        ],
        ids=str,
    )
    def test_bad_queries(self, get, query, status, sentence):
        assert get(FIVE, "runs", **query) == (status, {"error": sentence})


class TestOne:
    def test_a_run(self, get):
        status, value = get(FIVE, "runs/c")
        assert status == 200 and (value["id"], value["texts"], len(value["nodes"])) == ("c", True, 1)

    def test_what_stood_out(self, get):
        """The number in the list is that of the sentences."""
        value = get(FIVE, "runs/e")[1]
        assert value["stood_out"] == [
            {
                "rule": "failed",
                "level": "bad",
                "text": "endpoint 'Big': no answer",
                "short": "failed",
                "i": None,
            }
        ]
        assert get(FIVE, "runs")[1]["runs"][0]["stood_out"] == 1

    def test_the_place_in_the_line(self, get):
        """In the order in which bodies have ended; what a front end asks for itself stands behind people, and
        who still sends stands nowhere.
        """
        queued = {"slow": None, "second": 8.0, "task": 6.0, "first": 7.0}
        waiting = [a_run(i, state="waiting", begun=None, ended=None, queued=at) for i, at in queued.items()]
        waiting[2].task = "title"
        told = {run["id"]: run["where"] for run in get(waiting, "runs")[1]["runs"]}
        assert told == {"first": "1st in line", "second": "2nd in line", "task": "3rd in line", "slow": None}

    @pytest.mark.parametrize("path", ["runs/zz", "runs/zz/texts/asked", "runs/..", "runs/%00"])
    def test_an_unknown_one(self, get, path):
        assert get(FIVE, path) == (404, {"error": NO_RUN})

    @pytest.mark.parametrize("path", ["runs/c", "runs/c/texts/asked", "numbers"])
    def test_no_query_is_allowed(self, get, path):
        assert get(FIVE, path, x=1)[0] == 400


class TestText:
    def test_a_text(self, get):
        assert get(FIVE, "runs/c/texts/n0.c0.raw") == (
            200,
            {
                "ref": "n0.c0.raw",
                "head": "Straße nach Rom",
                "tail": "",
                "chars": 15,
                "left_out": 0,
                "json": False,
            },
        )

    def test_one_that_is_not_there(self, get):
        assert get(FIVE, "runs/c/texts/n0.output") == (404, {"error": NO_TEXT})

    def test_of_a_private_run(self, get):
        assert get([a_run("p", private=True)], "runs/p/texts/asked") == (404, {"error": PRIVATE})

    def test_without_secrets(self, ask):
        """Of the endpoint, the client, and the server."""
        call = call_of(raw="one11111 two22222 three333", secrets=("one11111",))
        run = a_run("r", node_of(1, "", call), secrets=("two22222",))
        hub = a_hub(recorder=Kept(run), secrets=("three333",))
        assert ask("GET", "runs/r/texts/n0.c0.raw", hub=hub)[1]["head"] == "*** *** ***"


class TestCancel:
    def test_one_that_runs(self, ask):
        """As a client's DELETE would, and the run knows who it was."""
        cancellation_service.begin("d")
        try:
            answer = ask("POST", "runs/d/cancel", hub=a_hub(recorder=Kept(*FIVE)))
            assert answer == (200, {"status": "cancelled", "active": True})
            assert cancellation_service.is_cancelled("d") and cancellation_service.reason("d") == BY_CONSOLE
        finally:
            cancellation_service.acknowledge_cancellation("d")

    @pytest.mark.parametrize("body", [None, b"", {}])
    def test_one_that_has_ended(self, ask, body):
        answer = ask("POST", "runs/a/cancel", hub=a_hub(recorder=Kept(*FIVE)), body=body)
        assert answer == (200, {"status": "cancelled", "active": False})

    def test_an_unknown_one(self, ask):
        """Also when it runs: what is not shown here is not ended here."""
        assert ask("POST", "runs/zz/cancel", hub=a_hub(recorder=Kept())) == (404, {"error": NO_RUN})

    def test_a_body_with_fields(self, ask):
        assert ask("POST", "runs/a/cancel", hub=a_hub(recorder=Kept(*FIVE)), body={"why": "x"})[0] == 400

    def test_a_body_in_pieces(self):
        """Its length is not told, and it is read all the same."""
        environ = asking("POST", "runs/a/cancel", body={"why": "x"}, headers={"Transfer-Encoding": "chunked"})
        del environ["CONTENT_LENGTH"]
        environ["wsgi.input_terminated"] = True
        hub = a_hub(recorder=Kept(*FIVE))
        assert Views(hub).answer(environ, ("look", "act")).status == 400

    def test_without_the_right(self, ask):
        status, value = ask("POST", "runs/d/cancel", hub=a_hub(recorder=Kept(*FIVE)), rights=("look",))
        assert (status, value["need"]) == (403, "act")


class TestKeep:
    """Until the restart (workbench.md 10, 12)."""

    @pytest.fixture
    def hub(self):
        """Of one more run than can be kept."""
        hub = a_hub()
        observers = Observers()
        observers.observe(hub.recorder)
        for number in range(MOST_PINNED + 1):
            observers.begin(f"r{number}", "/api/chat").end("done")
        return hub

    def test_a_run_and_the_filter_for_such(self, ask, hub):
        assert ask("POST", "runs/r7/keep", hub=hub, body={"keep": True}) == (200, {"kept": True})
        assert ask("GET", "runs/r7", hub=hub)[1]["kept"] is True
        told = ask("GET", "runs", hub=hub, query="state=kept")[1]
        assert ([run["id"] for run in told["runs"]], told["counts"]["kept"]) == (["r7"], 1)
        assert ask("POST", "runs/r7/keep", hub=hub, body={"keep": False}) == (200, {"kept": False})
        assert ask("GET", "runs/r7", hub=hub)[1]["kept"] is False

    def test_too_many(self, ask, hub):
        """Nothing is done."""
        asked = [
            ask("POST", f"runs/r{number}/keep", hub=hub, body={"keep": True})
            for number in range(MOST_PINNED + 1)
        ]
        assert [status for status, _ in asked] == [200] * MOST_PINNED + [409]
        assert asked[-1][1] == {"error": "50 runs are kept already; let one of them go first"}
        assert ask("GET", f"runs/r{MOST_PINNED}", hub=hub)[1]["kept"] is False

    @pytest.mark.parametrize("body", [None, {}, {"keep": "yes"}, {"keep": True, "why": "x"}])
    def test_an_odd_body(self, ask, hub, body):
        assert ask("POST", "runs/r7/keep", hub=hub, body=body)[0] == 400
        assert ask("GET", "runs/r7", hub=hub)[1]["kept"] is False

    def test_an_unknown_one(self, ask, hub):
        assert ask("POST", "runs/zz/keep", hub=hub, body={"keep": True}) == (404, {"error": NO_RUN})

    def test_without_the_right(self, ask, hub):
        status, value = ask("POST", "runs/r7/keep", hub=hub, body={"keep": True}, rights=("look",))
        assert (status, value["need"]) == (403, "act")
        assert ask("GET", "runs/r7", hub=hub)[1]["kept"] is False


def test_numbers(ask):
    """Those of the hour, and whether there are more, of a history and of keys."""
    assert ask("GET", "numbers", hub=a_hub(hour=SimpleNamespace(series=lambda: {"step_s": 10}))) == (
        200,
        {"step_s": 10, "history": False, "keys": False},
    )


def test_a_private_run_on_every_route(ask):
    """Times, names, counts and states, and never a text; nothing that was written finds it."""
    node = node_of(
        1, "Answer", call_of(outcome="stop"), fields={"prompt": "{chat_user_prompt_last_one}"}, ended=1.0
    )
    hub = a_hub(recorder=Kept(a_run("p", node, private=True, keeps_text=False)))
    asked = [
        ask("GET", "runs", hub=hub),
        ask("GET", "runs", hub=hub, query=f"text={MARKER}"),
        ask("GET", "runs/p", hub=hub),
        ask("GET", "runs/p/texts/n0.output", hub=hub),
    ]
    assert [status for status, _ in asked] == [200, 200, 200, 404]
    told = asked[2][1]
    assert told["private"] and told["asked"] is None and not told["texts"]
    assert told["nodes"][0]["output"] is None and asked[1][1]["runs"] == []
    assert MARKER not in json.dumps(asked)
