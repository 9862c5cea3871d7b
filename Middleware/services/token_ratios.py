"""How far our estimate of a prompt's tokens is from what a model's server counted, learnt in this process.

Read by the estimation level `measured`: so a window of 8,192 tokens holds what fits and not half of it.
Nothing is written, and what is on disk never depends on it. Source: spec prompt-reuse.md 1.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from statistics import median

from Middleware.config.endpoints import EndpointConfig
from Middleware.utilities.text_utils import estimation_factor

LEVEL = "measured"
LEAST_TOKENS = 500
"""A shorter prompt says little: its template is most of it."""
LEAST_SAMPLES, MOST_SAMPLES = 5, 20
MOST_RATIO = 3.0
"""A server that counts less than a third of the estimate leaves out what it held already."""
_CAUTION = 0.95
_STEP = 0.05
_LEAST_FACTOR, _MOST_FACTOR = 0.5, 2.0
_MOST_MODELS = 1000

Model = tuple[str, str, str]
"""File of the endpoint, address, name of the model."""


def model_of(endpoint: EndpointConfig) -> Model:
    return (endpoint.file, endpoint.url, endpoint.model)


def is_measured(endpoint: EndpointConfig) -> bool:
    """Whether the endpoint's level is `measured`."""
    level = endpoint.wilmer_context_estimation_level
    return isinstance(level, str) and level.strip().lower() == LEVEL


class TokenRatios:
    """Estimate through tokens of the newest prompts of each model. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._samples: OrderedDict[Model, deque[float]] = OrderedDict()

    def note(self, model: Model, estimate: int, tokens: int) -> None:
        """A prompt without pictures and tools that was estimated at `estimate`; the server counted
        `tokens`.
        """
        if tokens <= LEAST_TOKENS or not 0 < estimate / tokens <= MOST_RATIO:
            return
        with self._lock:
            samples = self._samples.setdefault(model, deque(maxlen=MOST_SAMPLES))
            samples.append(estimate / tokens)
            self._samples.move_to_end(model)
            if len(self._samples) > _MOST_MODELS:
                self._samples.popitem(last=False)

    def factor(self, model: Model) -> float | None:
        """By what a budget in tokens is multiplied; None: too few prompts are known."""
        with self._lock:
            samples = [*self._samples.get(model, ())]
        if len(samples) < LEAST_SAMPLES:
            return None
        careful: float = math.floor(median(samples) * _CAUTION / _STEP + 1e-9) * _STEP
        return min(_MOST_FACTOR, max(_LEAST_FACTOR, round(careful, 2)))


@lru_cache(maxsize=1)
def _ratios_of_process() -> TokenRatios:
    return TokenRatios()


_of_walk: ContextVar[TokenRatios | None] = ContextVar("ratios_of_walk", default=None)


def token_ratios() -> TokenRatios:
    """Those of this process; inside `learning_apart` its own."""
    own = _of_walk.get()
    return _ratios_of_process() if own is None else own


def forget_ratios() -> None:
    """Begin as a new process does."""
    _ratios_of_process.cache_clear()


@contextmanager
def learning_apart() -> Iterator[None]:
    """Inside the block, nothing is known yet, and what is learnt there stays there: no server has counted
    what a walk without one sends.
    """
    token = _of_walk.set(TokenRatios())
    try:
        yield
    finally:
        _of_walk.reset(token)


def level_factor(endpoint: EndpointConfig) -> float | None:
    """Budget factor of the endpoint's `wilmerContextEstimationLevel`; None: no level has this name.

    Source: workflows.md 7.8, prompt-reuse.md 1.
    """
    if is_measured(endpoint):
        return token_ratios().factor(model_of(endpoint)) or 1.0
    return estimation_factor(endpoint.wilmer_context_estimation_level)
