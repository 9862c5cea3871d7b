"""The history as Overview is told it: hours, days and weeks, and by whom."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from Middleware.api.console.history_views import HISTORY_ROUTES
from Middleware.api.console.hour import Hour
from Middleware.common.costs import Cost
from Middleware.services.history import HistoryFile, HistoryRow, history_file
from Middleware.services.history_sums import day_start
from tests.api.console.conftest import a_hub
from tests.api.console.traced import run_of

HOUR = 3600


def row(at, user="mira", **facts):
    given = {
        **{"workflow": "Main", "key": "", "state": "done", "took_s": 6.0, "first_s": 1.25},
        **{"prompt": 100, "completion": 20, "held": None, "endpoint": "Big"},
        **facts,
    }
    return HistoryRow(at=at, user=user, **given)


@pytest.fixture
def history(tmp_path, ask):
    """`history.get(...)`: status and answer; `history.write(rows)` before it."""
    folder = tmp_path / "history"

    def write(*rows, lost=0):
        file = HistoryFile(folder)
        file.write(rows, lost)
        file.close()

    def get(query="", kept=folder):
        return ask("GET", "history", query=query, hub=a_hub(history=kept), routes=HISTORY_ROUTES)

    return SimpleNamespace(folder=folder, write=write, get=get)


class TestAnswer:
    def test_hours(self, history):
        """48 of them; what happened in each, and what each user used."""
        now = time.time()
        history.write(row(now, costs=(Cost("USD", 12_300, True),)), row(now, "jo", state="failed"), lost=2)
        status, told = history.get()
        assert status == 200
        assert (told["span"], len(told["starts"]), told["lost"]) == ("hours", 48, 2)
        last = {name: values[-1] for name, values in told["series"].items()}
        assert last == {
            **{"requests": 2, "failed": 1, "cancelled": 0, "tokens": 40},
            **{"first_p50": 1.25, "first_p95": 1.25},
        }
        assert told["costs"]["USD"][-1] == 0.0123 and told["costs"]["USD"][0] == 0
        assert [group["name"] for group in told["groups"]] == ["jo", "mira"]
        assert told["groups"][1] == {
            **{"name": "mira", "requests": 1, "failed": 0, "cancelled": 0, "prompt_tokens": 100},
            **{"completion_tokens": 20, "held": None, "first_s": 1.25, "took_s": 6.0},
            "cost": {"amounts": {"USD": 0.0123}, "about": True},
        }

    @pytest.mark.parametrize(("span", "many"), [("days", 30), ("weeks", 13)])
    def test_longer(self, history, span, many):
        """An hour that is long ago is in a slot of its own."""
        now = time.time()
        history.write(row(now - 8 * 24 * HOUR), row(now))
        _, told = history.get(f"span={span}")
        assert len(told["starts"]) == many
        assert [count for count in told["series"]["requests"] if count] == [1, 1]

    @pytest.mark.parametrize(
        ("by", "names"),
        [("key", ["", "laptop"]), ("endpoint", ["Big", "Small"]), ("workflow", ["Code", "Main"])],
    )
    def test_by(self, history, by, names):
        """Each of the names."""
        now = time.time()
        history.write(row(now), row(now, key="laptop", endpoint="Small", workflow="Code"))
        _, told = history.get(f"by={by}")
        assert sorted(group["name"] for group in told["groups"]) == names

    def test_one_of_them(self, history):
        """The series are its own, also of those without a name; the groups stay."""
        now = time.time()
        history.write(row(now), row(now), row(now, key="laptop"))
        _, laptop = history.get("by=key&name=laptop")
        _, nameless = history.get("by=key&name=")
        assert (laptop["series"]["requests"][-1], nameless["series"]["requests"][-1]) == (1, 2)
        assert len(laptop["groups"]) == len(nameless["groups"]) == 2

    def test_nothing_yet(self, history):
        """Empty slots."""
        history.write()
        _, told = history.get()
        assert told["groups"] == [] and told["costs"] == {} and set(told["series"]["requests"]) == {0}


class TestToday:
    @pytest.fixture
    def today(self, ask):
        """`today(hour, kept)`: the answer of the route."""

        def get(hour, kept=None):
            status, told = ask("GET", "today", hub=a_hub(hour=hour, history=kept), routes=HISTORY_ROUTES)
            assert status == 200
            return told

        return get

    @pytest.fixture
    def hour(self):
        """A minute ago mira asked once; counting began an hour before."""
        now = time.time()
        made = Hour(lambda: now, lambda: None)
        made.today.started = now - HOUR
        made.note_change(run_of(user="mira", model="mira:novel", wall=now, ended=2.0), "ended", None)
        return made

    def test_without_a_history_it_is_what_this_process_has_counted(self, today, hour):
        told = today(hour)
        assert [(by, part["lines"][0]["name"]) for by, part in told.items()] == [
            ("user", "mira"),
            ("model name", "mira:novel"),
        ]
        midnight = day_start(time.time())
        assert told["user"]["since"] == round(max(midnight, hour.today.started))
        assert told["user"]["whole"] is (hour.today.started <= midnight)

    def test_a_process_that_began_before_midnight_knows_the_whole_day(self, today, hour):
        hour.today.started = day_start(time.time()) - 1
        assert [part["whole"] for part in today(hour).values()] == [True, True]

    def test_with_a_history_users_are_of_the_whole_day(self, today, hour, history):
        """What ended before this process began too; of model names a history knows nothing."""
        now = time.time()
        history.write(row(now, "jo"), row(now, "jo"), row(now, "private"), row(day_start(now) - 1, "rex"))
        told = today(hour, history.folder)
        assert told["user"]["whole"] and told["user"]["lines"] == [
            {"name": "jo", "requests": 2, "failed": 0, "prompt_tokens": 200, "completion_tokens": 40},
            {
                "name": "private users",
                "requests": 1,
                "failed": 0,
                "prompt_tokens": 100,
                "completion_tokens": 20,
            },
        ]
        assert [line["name"] for line in told["model name"]["lines"]] == ["mira:novel"]

    def test_the_model_names_of_one_user_alone(self, ask, hour):
        """Users are as before."""
        hub = a_hub(hour=hour)
        names = {}
        for user in ("mira", "jo"):
            _, told = ask("GET", "today", hub=hub, routes=HISTORY_ROUTES, query=f"user={user}")
            assert [line["name"] for line in told["user"]["lines"]] == ["mira"]
            names[user] = [line["name"] for line in told["model name"]["lines"]]
        assert names == {"mira": ["mira:novel"], "jo": []}

    def test_a_history_that_cannot_be_read_is_done_without(self, today, hour, history):
        history.folder.mkdir()
        history_file(history.folder).write_bytes(b"no database " * 100)
        assert [line["name"] for line in today(hour, history.folder)["user"]["lines"]] == ["mira"]


class TestRefusals:
    def test_no_history(self, history):
        """It says how to have one."""
        status, told = history.get(kept=None)
        assert status == 404 and "--history DIR" in told["error"]

    @pytest.mark.parametrize("query", ["span=years", "by=day", "colour=red"])
    def test_another_word(self, history, query):
        """What is allowed is said."""
        status, told = history.get(query)
        assert status == 400 and "allowed" in told["error"]

    def test_one_that_cannot_be_read(self, history):
        """The reason is told; the page lives."""
        history.folder.mkdir()
        history_file(history.folder).write_bytes(b"no database " * 100)
        status, told = history.get()
        assert status == 503 and "cannot be read now" in told["error"]
