"""The estimation level `measured`: what a server counted beside what we estimated. Source: spec prompt-reuse.md
1.
"""

from __future__ import annotations

import pytest

from Middleware.config.endpoints import EndpointConfig
from Middleware.services import token_ratios
from Middleware.services.token_ratios import (
    TokenRatios,
    forget_ratios,
    is_measured,
    learning_apart,
    level_factor,
    model_of,
)
from Middleware.services.token_ratios import (
    token_ratios as ratios_of_process,
)
from Middleware.utilities.text_utils import estimation_factor

MODEL = ("Endpoints/e.json", "http://model.test", "big")


def factor(*ratios, tokens=1000):
    """After prompts whose estimate was so many times what the server counted."""
    known = TokenRatios()
    for ratio in ratios:
        known.note(MODEL, int(ratio * tokens), tokens)
    return known.factor(MODEL)


@pytest.mark.parametrize(
    ("ratios", "result"),
    [
        ([], None),
        ([1.5] * 4, None),
        ([1.0] * 5, 0.95),
        ([1.5] * 5, 1.4),
        ([1.2, 1.3, 1.4, 1.5, 9.0, 1.6], 1.3),
        ([2.9] * 20, 2.0),
        ([0.1] * 5, 0.5),
        ([2.0] * 20 + [1.0] * 20, 0.95),
    ],
    ids=["none", "too-few", "as-estimated", "down-to-a-step", "the-median", "most", "least", "the-newest"],
)
def test_the_factor(ratios, result):
    """The median of the last twenty, times 0.95, down to a twentieth, within 0.5 and 2."""
    assert factor(*ratios) == result


def test_short_prompts_say_nothing():
    """Of up to 500 tokens."""
    assert (factor(*[1.5] * 9, tokens=500), factor(*[1.5] * 9, tokens=502)) == (None, 1.4)


def test_a_server_that_leaves_out_what_it_held_says_nothing():
    """It would count a third of the prompt or less."""
    assert factor(*[3.01] * 9) is None


@pytest.mark.parametrize(("estimate", "result"), [(3000, 2.0), (3001, None), (0, None), (-5, None)])
def test_what_is_only_just_believed(estimate, result):
    """Three times what was counted; no estimate is none."""
    known = TokenRatios()
    for _ in range(5):
        known.note(MODEL, estimate, 1000)
    assert known.factor(MODEL) == result


def measured(name="e"):
    raw = {"endpoint": "http://m.test", "modelNameToSendToAPI": "big"}
    return EndpointConfig(name, {**raw, "wilmerContextEstimationLevel": "measured"}, "t", {})


class TestOfThisProcess:
    @pytest.fixture(autouse=True)
    def as_it_was(self):
        forget_ratios()
        yield
        forget_ratios()

    def learn(self):
        for _ in range(5):
            ratios_of_process().note(model_of(measured()), 1500, 1000)

    def test_what_is_learnt_stays(self):
        """Until a new process begins."""
        self.learn()
        assert level_factor(measured()) == 1.4 and ratios_of_process() is ratios_of_process()
        assert level_factor(measured("other")) == 1.4
        forget_ratios()
        assert level_factor(measured()) == 1.0

    def test_a_walk_learns_apart(self):
        """It begins with nothing, and leaves nothing; also when it breaks off."""
        self.learn()
        with pytest.raises(ZeroDivisionError), learning_apart():
            assert level_factor(measured()) == 1.0
            ratios_of_process().note(model_of(measured()), 1000, 1000)
            raise ZeroDivisionError
        assert level_factor(measured()) == 1.4

    def test_a_model_is_known_by_its_file_its_address_and_its_name(self):
        endpoint = measured()
        assert model_of(endpoint) == (endpoint.file, "http://m.test", "big")


@pytest.mark.parametrize("level", ["conservative", "balanced", "aggressive", "unknown"])
def test_other_levels_have_factors_of_their_own(level):
    endpoint = EndpointConfig("E", {"wilmerContextEstimationLevel": level}, "t", {})
    assert level_factor(endpoint) == estimation_factor(level)


def test_so_many_models_are_known():
    """A thousand: the first is forgotten for one more."""
    known = TokenRatios()
    for number in range(1001):
        for _ in range(5):
            known.note(("f", "u", str(number)), 1500, 1000)
    assert [known.factor(("f", "u", name)) for name in ("0", "1", "1000")] == [None, 1.4, 1.4]


def test_models_are_apart():
    """And nothing is known of one that was never called."""
    known = TokenRatios()
    for _ in range(5):
        known.note(MODEL, 1500, 1000)
    assert known.factor((*MODEL[:2], "small")) is None


def test_the_model_that_was_not_called_for_longest_is_forgotten(monkeypatch):
    """When there are too many; one that was called again stays."""
    monkeypatch.setattr(token_ratios, "_MOST_MODELS", 2)
    known, models = TokenRatios(), [(*MODEL[:2], name) for name in ("a", "b", "a", "c")]
    for model in models:
        for _ in range(5):
            known.note(model, 1500, 1000)
    assert [known.factor((*MODEL[:2], name)) for name in "abc"] == [1.4, None, 1.4]


@pytest.mark.parametrize(("level", "measured"), [(" Measured", True), ("balanced", False), (None, False)])
def test_the_level_is_known_by_its_name(level, measured):
    """Case and blanks do not count."""
    assert is_measured(EndpointConfig("E", {"wilmerContextEstimationLevel": level}, "t", {})) is measured


def test_it_counts_as_conservative_before_anything_was_measured():
    """So that a first prompt is never too long."""
    endpoint = EndpointConfig("never called", {"wilmerContextEstimationLevel": "measured"}, "t", {})

    assert level_factor(endpoint) == 1.0
