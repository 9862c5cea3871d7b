"""What model servers have loaded, as the last asking gave it: who looks has those asked that were not asked
lately, all at once, and waits for none of them long. Source: spec operate.md 5.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from Middleware.config.endpoints import EndpointConfig

EACH_S = 10.0
"""No server is asked again before."""
WAIT_S = 3.0
"""So long somebody who looks waits for all of them; what comes later is told the next time."""


class Loaded(NamedTuple):
    """`server`: which program it is. `models`: names, in its order. `slots`: how many of its slots are busy,
    and how many there are; None: it does not say."""

    server: str
    models: tuple[str, ...]
    slots: tuple[int, int] | None = None


class AskedPlace(NamedTuple):
    """One address of an endpoint."""

    endpoint: EndpointConfig
    url: str

    @property
    def key(self) -> tuple[str, str]:
        return self.endpoint.file, self.url


@dataclass(slots=True)
class _Known:
    place: AskedPlace
    asked: float
    thread: threading.Thread | None = None
    loaded: Loaded | None = field(default=None)


AskServer = Callable[[EndpointConfig, str], Loaded | None]
"""What is loaded at an address of the endpoint; None: nobody there says it. Raises nothing."""


class LoadedModels:
    """`clock`: of `time.monotonic()`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._known: dict[tuple[str, str], _Known] = {}

    def look(
        self, places: Iterable[AskedPlace], ask: AskServer, wait_s: float = WAIT_S
    ) -> dict[tuple[str, str], Loaded]:
        """Somebody looks at these places, which are all that there are. What is known of each, by its key."""
        asked = self._begin(places, ask)
        end = self._clock() + wait_s
        for one in asked:
            if one.thread is not None:
                one.thread.join(max(0.0, end - self._clock()))
        return {one.place.key: one.loaded for one in asked if one.loaded is not None}

    def models(self) -> list[tuple[str, str]]:
        """`(endpoint, model)` of all that is loaded, as far as it is known; asks nobody."""
        with self._guard:
            known = list(self._known.values())
        return sorted(
            {
                (one.place.endpoint.name, model)
                for one in known
                if one.loaded is not None
                for model in one.loaded.models
            }
        )

    def _begin(self, places: Iterable[AskedPlace], ask: AskServer) -> list[_Known]:
        with self._guard:
            now, before = self._clock(), self._known
            self._known = {}
            for place in places:
                one = self._known[place.key] = before.get(place.key) or _Known(place, now - EACH_S)
                one.place = place  # its file may have been edited
            for one in self._known.values():
                is_asked = one.thread is not None and one.thread.is_alive()
                if not is_asked and now - one.asked >= EACH_S:
                    one.asked = now
                    one.thread = threading.Thread(
                        target=_ask_one, args=(one, ask), name="loaded models", daemon=True
                    )
                    one.thread.start()
            return list(self._known.values())


def _ask_one(one: _Known, ask: AskServer) -> None:
    one.loaded = ask(*one.place)
