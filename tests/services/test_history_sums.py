"""The history added up: exactly, by whom and by day, over hours, days and weeks of the server's zone."""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from datetime import datetime
from itertools import pairwise

import pytest

from Middleware.common.costs import Cost
from Middleware.services.history import HistoryFile, HistoryRow, HistoryWriter, read_history
from Middleware.services.history_sums import (
    SPANS,
    day_start,
    lost_runs,
    series_of,
    slot_starts,
    usage_by,
)
from Middleware.services.run_trace import Observers
from tests.patience import PATIENCE_S

NOON = datetime(2026, 11, 28, 12).timestamp()
HOUR, DAY = 3600, 86_400


def row(at=NOON, user="mira", **facts):
    given = {
        **{"workflow": "Main", "key": "", "state": "done", "took_s": 6.0, "first_s": 1.0},
        **{"prompt": 100, "completion": 20, "held": None, "endpoint": "Big"},
        **facts,
    }
    return HistoryRow(at=at, user=user, **given)


@pytest.fixture
def utc(monkeypatch):
    """A zone in which the clock never changes."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "history"


@pytest.fixture
def ask(folder):
    """`ask(rows, look)`: what `look(sql)` says of a history of these rows."""

    def written(rows, look, lost=0):
        file = HistoryFile(folder, clock=lambda: NOON)
        file.write(rows, lost)
        file.close()
        with read_history(folder) as sql:
            return look(sql)

    return written


class TestByName:
    def test_a_line_for_each(self, ask):
        """The one with the most runs first; failures, tokens and seconds beside."""
        rows = [
            row(user="jo", state="failed", first_s=None, took_s=2.0),
            row(held=5),
            row(first_s=3.0, state="cancelled"),
        ]
        mira, jo = ask(rows, lambda sql: usage_by(sql, "user", 0))
        assert mira == ("mira", 2, 0, 1, 200, 40, 5, 1.0, 6.0, ())
        assert jo == ("jo", 1, 1, 0, 100, 20, None, None, 2.0, ())

    @pytest.mark.parametrize(
        ("by", "name"), [("user", "mira"), ("key", "laptop"), ("endpoint", "Big"), ("workflow", "Main")]
    )
    def test_by(self, ask, by, name):
        """Each of the names that a run has."""
        [line] = ask([row(key="laptop")], lambda sql: usage_by(sql, by, 0))
        assert line.name == name

    def test_costs(self, ask):
        """Each currency by itself; about, as soon as one is."""
        rows = [
            row(costs=(Cost("EUR", 5), Cost("USD", 1))),
            row(costs=(Cost("USD", 2, True),)),
            row(user="jo"),
        ]
        mira, jo = ask(rows, lambda sql: usage_by(sql, "user", 0))
        assert mira.costs == (Cost("EUR", 5), Cost("USD", 3, True))
        assert jo.costs == ()

    def test_since(self, ask):
        """What arrived before is not counted, lost runs either."""
        rows = [row(NOON - DAY), row()]
        [line] = ask(rows, lambda sql: usage_by(sql, "user", NOON - HOUR))
        assert line.runs == 1
        assert ask([], lambda sql: (lost_runs(sql, NOON), lost_runs(sql, NOON + 1)), lost=3) == (3, 0)


class TestDays:
    def test_are_those_of_the_zone(self, berlin, ask):
        """Half past midnight in Berlin is the day before in London."""
        at = datetime(2026, 11, 28, 0, 30).timestamp()
        [line] = ask([row(at)], lambda sql: usage_by(sql, "day", 0))
        assert line.name == "2026-11-28"
        assert time.gmtime(at).tm_mday == 27

    def test_are_in_their_order(self, ask):
        """However many runs they have."""
        rows = [row(), row(), row(NOON - DAY)]
        assert [line.name for line in ask(rows, lambda sql: usage_by(sql, "day", 0))] == [
            "2026-11-27",
            "2026-11-28",
        ]

    def test_may_be_longer(self, berlin):
        """On 25 October 2026 the clock is set back."""
        assert day_start(datetime(2026, 10, 26).timestamp()) - day_start(
            datetime(2026, 10, 26).timestamp(), 1
        ) == (25 * HOUR)

    def test_midnight_is_its_own_day(self):
        """The first moment of it."""
        midnight = datetime(2026, 11, 28).timestamp()
        assert day_start(midnight) == midnight and day_start(midnight + DAY - 1) == midnight


class TestSeries:
    @pytest.mark.parametrize(
        ("span", "step", "first"),
        [
            ("hours", HOUR, datetime(2026, 11, 26, 13)),
            ("days", DAY, datetime(2026, 10, 30)),
            ("weeks", 7 * DAY, datetime(2026, 8, 31)),
        ],
    )
    def test_slots(self, utc, span, step, first):
        """The last one holds now; weeks begin on Monday."""
        noon = datetime(2026, 11, 28, 12).timestamp()
        starts = slot_starts(span, noon)
        assert len(starts) == SPANS[span] and starts[-1] <= noon < starts[-1] + step
        assert datetime.fromtimestamp(starts[0]) == first
        assert {later - before for before, later in pairwise(starts)} == {step}

    def test_a_slow_evening(self, ask):
        """Shows as one: its first words come late, and only there."""
        starts = slot_starts("hours", NOON)
        evening = starts[-17]
        rows = [
            row(start + 60, first_s=30.0 if start == evening else 1.0) for start in starts for _ in range(3)
        ]
        lines = ask(rows, lambda sql: series_of(sql, starts))
        assert [start for start, line in zip(starts, lines, strict=True) if line.first_p50 == 30.0] == [
            evening
        ]
        assert {line.requests for line in lines} == {3}

    def test_of_one_name(self, ask):
        """The others are left out; slots without runs are empty."""
        rows = [row(costs=(Cost("USD", 1),)), row(user="jo", state="failed", costs=(Cost("USD", 2),))]
        lines = ask(rows, lambda sql: series_of(sql, slot_starts("days", NOON), "user", "jo"))
        assert lines[-1] == (1, 1, 0, 20, 1.0, 1.0, (Cost("USD", 2),))
        assert lines[0] == (0, 0, 0, 0, None, None, ())


class TestScriptedDay:
    """Row 5 of operate.md 7."""

    RUNS = 10_000

    def test_exact_sums(self, folder):
        """10,000 runs of one day, told to the writer as a server tells them: every sum by every name is exact."""
        chance = random.Random(5)
        day = day_start(NOON)
        rows = [self.random_row(chance, day) for _ in range(self.RUNS)]
        given = iter(rows)
        writer = HistoryWriter(HistoryFile(folder, clock=lambda: NOON), lambda run: next(given))
        observers = Observers()
        observers.observe(writer)
        for number in range(self.RUNS):
            run = observers.begin(str(number), "/")
            run.end("done")
            run.settle()
        writer.close(PATIENCE_S)
        with read_history(folder) as sql:
            for by in ("user", "key", "endpoint", "workflow"):
                self.check(rows, usage_by(sql, by, day), by)
            slots = series_of(sql, slot_starts("hours", day + DAY - 1))
            [whole] = usage_by(sql, "day", day)
        assert whole.runs == sum(line.requests for line in slots) == self.RUNS
        spent = sum(cost.millionths for one in rows for cost in one.costs)
        assert spent == sum(cost.millionths for line in slots for cost in line.costs)
        assert spent == sum(cost.millionths for cost in whole.costs)

    def random_row(self, chance, day):
        currencies = chance.sample(["EUR", "USD"], chance.randint(0, 2))
        return row(
            round(day + chance.random() * (DAY - 1), 3),
            chance.choice(["mira", "jo", "private"]),
            key=chance.choice(["", "laptop", "phone"]),
            endpoint=chance.choice(["Big", "Small"]),
            workflow=chance.choice(["Main", "Code"]),
            state=chance.choice(["done", "done", "failed", "cancelled"]),
            prompt=chance.randrange(20_000),
            completion=chance.randrange(2_000),
            held=chance.choice([None, 7]),
            costs=tuple(Cost(name, chance.randrange(100_000), chance.random() < 0.1) for name in currencies),
        )

    def check(self, rows, lines, by):
        counts, tokens, costs = Counter(), Counter(), defaultdict(Counter)
        for one in rows:
            name = getattr(one, by)
            counts[name, one.state] += 1
            tokens[name] += one.prompt + one.completion
            for cost in one.costs:
                costs[name][cost.currency] += cost.millionths
        for line in lines:
            assert line.failed == counts[line.name, "failed"]
            assert line.cancelled == counts[line.name, "cancelled"]
            assert line.prompt + line.completion == tokens[line.name]
            assert {cost.currency: cost.millionths for cost in line.costs} == costs[line.name]
        assert sum(line.runs for line in lines) == self.RUNS
