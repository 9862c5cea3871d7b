"""`--usage`: adds up the history of a server: requests, tokens and costs, by whom or by day. Prints, never
serves. Source: spec operate.md 5.
"""

from __future__ import annotations

import csv
import sqlite3
import sys
import time
from argparse import Namespace
from collections.abc import Sequence

from Middleware.api.command_registry import COMMANDS, Command, OwnArguments
from Middleware.common.costs import cost_text, decimal_text
from Middleware.common.instance_global_variables import launch_facts
from Middleware.services.history import read_history
from Middleware.services.history_sums import COLUMNS, UsageLine, day_start, lost_runs, usage_by
from Middleware.utilities.text_utils import count_of

DEFAULT_DAYS, MOST_DAYS = 30, 36_500
NO_NAME = "-"
"""What stands for runs that have no such name."""
_NUMBERS = ("runs", "failed", "cancelled", "prompt", "completion", "held", "first_s", "took_s")


@COMMANDS.register("usage")
class Usage(Command):
    """Prints what was used."""

    def add_arguments(self, parser: OwnArguments) -> None:
        parser.add_argument(
            "--usage",
            action="store_true",
            help="Print what was used: requests, tokens and costs from the folder of --history.",
        )
        parser.add_argument(
            "--days",
            type=int,
            default=DEFAULT_DAYS,
            metavar="N",
            help=f"Add up so many days for --usage, today among them. The default is {DEFAULT_DAYS}.",
        )
        parser.add_argument(
            "--by",
            default="user",
            metavar="WHAT",
            help=f"Add up --usage for each {', '.join(COLUMNS)}. The default is user.",
        )
        parser.add_argument("--csv", action="store_true", help="Print --usage as CSV, for a spreadsheet.")

    def run(self, arguments: Namespace) -> int:
        """Exit status 0, 1 for a history that cannot be read, 2 for a usage error."""
        folder, wrong = launch_facts().history_directory, _what_is_wrong(arguments)
        if folder is None or wrong:
            print(f"headrace: error: {wrong or '--usage needs --history DIR'}", file=sys.stderr)
            return 2
        since = day_start(time.time(), arguments.days - 1)
        try:
            with read_history(folder) as sql:
                lines, lost = usage_by(sql, arguments.by, since), lost_runs(sql, since)
        except (OSError, sqlite3.Error) as error:
            print(f"the history cannot be read: {error}", file=sys.stderr)
            return 1
        if arguments.csv:
            _print_csv(lines, arguments.by)
        else:
            _print_table(lines, arguments.by)
        if lost:
            print(f"{count_of(lost, 'run')} could not be written and are missing here", file=sys.stderr)
        return 0


def _what_is_wrong(arguments: Namespace) -> str:
    """Of the values; empty: nothing."""
    if arguments.by not in COLUMNS:
        return f"argument --by: found {arguments.by!r}, allowed: {', '.join(COLUMNS)}"
    is_right = 1 <= arguments.days <= MOST_DAYS
    return "" if is_right else f"argument --days: must be a number from 1 to {MOST_DAYS}"


def _print_csv(lines: Sequence[UsageLine], by: str) -> None:
    """Costs exactly, a column for each currency. `about`: in some of them tokens were estimated."""
    currencies = sorted({cost.currency for line in lines for cost in line.costs})
    sheet = csv.writer(sys.stdout, lineterminator="\n")
    sheet.writerow([by, *_NUMBERS, *(f"cost_{currency}" for currency in currencies), "about"])
    for line in lines:
        costs = {cost.currency: decimal_text(cost.millionths) for cost in line.costs}
        about = any(cost.about for cost in line.costs)
        amounts = [costs.get(currency, "") for currency in currencies]
        sheet.writerow([*line[:-1], *amounts, "yes" if about else ""])


def _print_table(lines: Sequence[UsageLine], by: str) -> None:
    if not lines:
        print("no request in this time")
        return
    heads = [by, "requests", "failed", "cancelled", "tokens in", "held", "tokens out", "first word", "cost"]
    rows = [heads, *map(_cells, lines)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(heads))]
    for name, *numbers, cost in rows:
        middle = (number.rjust(width) for number, width in zip(numbers, widths[1:-1], strict=True))
        print("  ".join([name.ljust(widths[0]), *middle, cost]).rstrip())


def _cells(line: UsageLine) -> list[str]:
    return [
        line.name or NO_NAME,
        *(f"{number:,}" for number in (line.runs, line.failed, line.cancelled, line.prompt)),
        NO_NAME if line.held is None else f"{line.held:,}",
        f"{line.completion:,}",
        NO_NAME if line.first_s is None else f"{line.first_s:.1f} s",
        cost_text(line.costs),
    ]
