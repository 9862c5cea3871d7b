"""`pricePerMillionTokens` of an endpoint, and what a call costs by it."""

from __future__ import annotations

import pytest

from Middleware.common.costs import Cost
from Middleware.config.endpoints import EndpointConfig
from Middleware.config.prices import Price

PRICE = {"input": 2.5, "output": 10, "cached": 0.25, "cacheWrite": 3.125}


def price_of(found):
    return EndpointConfig("Big", {"pricePerMillionTokens": found}, "Open-AI-API", {}).price


class TestReading:
    def test_the_cache_costs_what_input_costs(self):
        """Unless it is said."""
        price = price_of({"input": 2, "output": 8})
        assert (price.cached, price.cache_write, price.currency) == (2, 2, "USD")

    def test_all_of_it(self):
        """As written, without a rounding."""
        price = price_of({**PRICE, "input": 0.1, "currency": "EUR"})
        assert price.input * 10 == 1 and price.cache_write * 8 == 25 and price.currency == "EUR"

    @pytest.mark.parametrize(
        "found",
        [
            None,
            3,
            [],
            {},
            {"input": 1},
            {"output": 1},
            {"input": -1, "output": 1},
            {"input": True, "output": 1},
            {"input": 1e10, "output": 1},
            {"input": 1, "output": 10**400},
        ],
        ids=str,
    )
    def test_what_is_no_price(self, found):
        """Nothing is said without one."""
        assert price_of(found) is None


class TestCost:
    @pytest.mark.parametrize(
        ("usage", "millionths"),
        [
            ({"prompt_tokens": 1000, "completion_tokens": 100}, 3500),
            ({"prompt_tokens": 1000, "completion_tokens": 0, "cached_tokens": 400}, 1600),
            ({"prompt_tokens": 1000, "cached_tokens": 400, "cache_write_tokens": 200}, 1725),
            ({"prompt_tokens": 1000, "cached_tokens": 5000}, 250),
            ({"prompt_tokens": 1, "completion_tokens": 0}, 3),
            ({}, 0),
        ],
        ids=["plain", "held", "held-and-written", "more-held-than-sent", "rounded", "nothing"],
    )
    def test_by_its_tokens(self, usage, millionths):
        """What is held and what is written is no part of the plain input."""
        assert Price.of(PRICE).cost_of(usage) == Cost("USD", millionths)

    def test_of_estimates(self):
        """It says so."""
        assert Price.of(PRICE).cost_of({"prompt_tokens": 2}, about=True) == Cost("USD", 5, True)
