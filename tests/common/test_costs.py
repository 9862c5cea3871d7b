"""Money is counted in whole millionths, each currency by itself."""

from __future__ import annotations

import threading

import pytest

from Middleware.common.costs import Cost, CostSum, add_costs, amounts_of, cost_text, costs_json, decimal_text


class TestSums:
    def test_of_one_currency(self):
        """One that is partly estimated is about."""
        assert add_costs([Cost("USD", 7), Cost("USD", 5, True)]) == (Cost("USD", 12, True),)

    def test_currencies_are_never_added(self):
        """They stand beside each other, by name."""
        assert add_costs([Cost("USD", 1), Cost("EUR", 2), Cost("USD", 3)]) == (Cost("EUR", 2), Cost("USD", 4))

    def test_are_exact(self):
        """Ten thousand times a tenth of a cent is ten units, not nearly ten."""
        assert amounts_of(add_costs([Cost("USD", 1000)] * 10_000)) == {"USD": 10.0}

    def test_calls_at_the_same_time_add(self):
        """None is lost."""
        spent = CostSum()

        def add():
            for _ in range(500):
                spent.add(Cost("USD", 1))

        threads = [threading.Thread(target=add) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert spent.costs() == (Cost("USD", 4000),)

    def test_a_call_without_a_price_says_nothing(self):
        """Not even 0."""
        spent = CostSum()
        spent.add(None)
        assert spent.costs() == ()


class TestLateWork:
    """What goes on when the request has ended, and adds to its sum."""

    def test_without_any(self):
        """The sum is final at once."""
        seen = []
        spent = CostSum()
        spent.add(Cost("USD", 1))
        spent.when_final(lambda: seen.append(spent.costs()))
        assert seen == [(Cost("USD", 1),)]

    def test_the_last_one_ends_it(self):
        """Everybody who waits is told, once."""
        seen = []
        spent = CostSum()
        spent.begin_late_work()
        spent.begin_late_work()
        spent.when_final(lambda: seen.append(spent.costs()))
        spent.end_late_work()
        assert seen == []
        spent.add(Cost("USD", 3))
        spent.end_late_work()
        assert seen == [(Cost("USD", 3),)]
        spent.begin_late_work()
        spent.end_late_work()
        assert len(seen) == 1


class TestWords:
    @pytest.mark.parametrize(
        ("millionths", "text"),
        [(0, "0.00"), (3, "0.000003"), (12_300, "0.0123"), (2_500_000, "2.50"), (10**12, "1000000.00")],
    )
    def test_an_amount(self, millionths, text):
        """All of its digits, and at least two of them."""
        assert decimal_text(millionths) == text

    def test_several_currencies(self):
        """`about` is said once, for all."""
        assert cost_text([Cost("EUR", 500_000), Cost("USD", 12_300, True)]) == "about 0.50 EUR and 0.0123 USD"

    def test_nothing(self):
        """No price, no word."""
        assert cost_text([]) == "" and costs_json([]) is None

    def test_as_json(self):
        """The amounts, and whether they are estimates."""
        assert costs_json([Cost("USD", 12_300, True)]) == {"amounts": {"USD": 0.0123}, "about": True}
