"""`--usage` adds up the history that a server has kept."""

from __future__ import annotations

import csv
import io
import time
from argparse import Namespace
from dataclasses import replace

import pytest

from Middleware.api.commands.usage import Usage
from Middleware.common.costs import Cost
from Middleware.common.instance_global_variables import LaunchFacts, launch_facts, set_launch_facts
from Middleware.services.history import HistoryFile, HistoryRow
from Middleware.services.history_sums import day_start

NOW = time.time()


def row(at=NOW, user="mira", **facts):
    given = {
        **{"workflow": "Main", "key": "", "state": "done", "took_s": 6.0, "first_s": 1.25},
        **{"prompt": 12_400, "completion": 20, "held": None, "endpoint": "Big"},
        **facts,
    }
    return HistoryRow(at=at, user=user, **given)


@pytest.fixture
def folder(tmp_path):
    before = launch_facts()
    set_launch_facts(LaunchFacts(history_directory=tmp_path / "history"))
    yield tmp_path / "history"
    set_launch_facts(before)


@pytest.fixture
def told(folder, capsys):
    """`told(rows, ...)`: what is printed of a history of these rows."""

    def run(rows, lost=0, **arguments):
        file = HistoryFile(folder)
        file.write(rows, lost)
        file.close()
        assert Usage().run(Namespace(**{"days": 30, "by": "user", "csv": False, **arguments})) == 0
        return capsys.readouterr()

    return run


class TestTable:
    def test_a_line_for_each_user(self, told):
        """Numbers to the right, costs exactly."""
        rows = [
            row(costs=(Cost("USD", 12_300, True),), held=400),
            row(user="", first_s=None, state="refused"),
        ]
        assert told(rows).out.splitlines() == [
            "user  requests  failed  cancelled  tokens in  held  tokens out  first word  cost",
            "-            1       0          0     12,400     -          20           -",
            "mira         1       0          0     12,400   400          20       1.2 s  about 0.0123 USD",
        ]

    def test_nothing(self, told):
        """A sentence."""
        assert told([]).out == "no request in this time\n"

    def test_days(self, told):
        """Whole days, today among them."""
        rows = [row(), row(day_start(NOW) - 1, "jo"), row(day_start(NOW, 1) - 1, "old")]
        assert [line.split()[0] for line in told(rows, days=2).out.splitlines()] == ["user", "jo", "mira"]
        assert [line.split()[0] for line in told([], days=1).out.splitlines()] == ["user", "mira"]

    def test_what_is_missing(self, told):
        """It is said beside the table, so that nobody takes the sums for whole."""
        assert told([row()], lost=3).err == "3 runs could not be written and are missing here\n"


class TestSheet:
    def test_a_row_for_each(self, told):
        """All numbers, a column for each currency."""
        rows = [row(costs=(Cost("USD", 7),)), row(user="jo", costs=(Cost("EUR", 2_000_000, True),))]
        jo, mira = csv.DictReader(io.StringIO(told(rows, csv=True).out))
        assert (mira["user"], mira["runs"], mira["prompt"], mira["held"]) == ("mira", "1", "12400", "")
        assert (mira["cost_EUR"], mira["cost_USD"], mira["about"]) == ("", "0.000007", "")
        assert (jo["cost_EUR"], jo["about"]) == ("2.00", "yes")

    def test_by_day(self, told):
        """The first column is what the rows are by."""
        [day] = csv.DictReader(io.StringIO(told([row()], csv=True, by="day").out))
        assert day["day"] == time.strftime("%Y-%m-%d", time.localtime(NOW))


class TestWrongUse:
    def run(self, **arguments):
        return Usage().run(Namespace(**{"days": 30, "by": "user", "csv": False, **arguments}))

    def test_without_a_history(self, folder, capsys):
        """It says which argument is missing."""
        set_launch_facts(replace(launch_facts(), history_directory=None))
        assert self.run() == 2
        assert "--usage needs --history DIR" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"days": 0}, "--days: must be a number from 1 to 36500"),
            ({"days": 10**11}, "--days: must be a number from 1 to 36500"),
            ({"by": "hour"}, "--by: found 'hour', allowed: user, key"),
        ],
        ids=["days", "many-days", "by"],
    )
    def test_a_wrong_value(self, folder, capsys, given, said):
        """It says what is allowed."""
        assert self.run(**given) == 2
        assert said in capsys.readouterr().err

    def test_an_empty_folder(self, folder, capsys):
        """Nothing is made there."""
        assert self.run() == 1
        assert "there is no such file" in capsys.readouterr().err
        assert not folder.exists()

    def test_no_database(self, folder, capsys):
        """The reason is SQLite's."""
        folder.mkdir()
        (folder / "history.db").write_bytes(b"something else " * 100)
        assert self.run() == 1
        assert "not a database" in capsys.readouterr().err
