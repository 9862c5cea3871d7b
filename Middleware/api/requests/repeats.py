"""What the console asks again: a whole run, or one of its calls. Values alone, from the console's door to the
views that answer; and the body of a client as it can be sent once more.

Source: spec workbench.md 3, 4, 16.6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import unquote

from Middleware.api.wsgi.model_addresses import MODEL_OF_ADDRESS, take_model_off
from Middleware.common.types import JsonObject
from Middleware.config.loader import ConfigSnapshot
from Middleware.services.kept_bodies import LOST_PICTURE
from Middleware.services.rerun import Rerun
from Middleware.services.run_trace import AgainOf

REPEATS = "headrace.repeats"
"""Key of the WSGI environment under which a request of the console finds the `Repeats` of its reader."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """A run that is repeated. `path`, `asked`, `headers`: of its client's request; `task`: what Open WebUI
    asked for itself. `snapshot`: the config files as they hold now. `file`: the workflow that answers,
    below the config root; None: the user's settings choose one again.
    """

    of: AgainOf
    user: str
    path: str
    asked: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    task: str | None
    snapshot: ConfigSnapshot = field(repr=False)
    file: str | None
    rerun: Rerun = field(repr=False)


@dataclass(frozen=True, slots=True)
class AskedCall:
    """One call of a run that is made once more. `call`: a `RepeatedCall`, which is the engine's."""

    of: AgainOf
    user: str
    endpoint: str
    text: str = field(repr=False)
    call: Any = field(repr=False)


class Repeats(Protocol):
    """What the runs that are kept give for this. Raises ClientRequestError for what cannot be repeated."""

    def again(self, body: JsonObject) -> Repeat: ...

    def ask(self, body: JsonObject) -> AskedCall: ...


def split_address(path: str) -> tuple[str, str]:
    """The path of a request as a run tells it -> the path of its route, and the model that its address names
    (`""`: none).
    """
    environ: dict[str, Any] = {"PATH_INFO": unquote(path), "REQUEST_URI": path}
    take_model_off(environ)
    return environ["PATH_INFO"], environ.get(MODEL_OF_ADDRESS, "")


def without_lost_pictures(body: Any) -> tuple[Any, int]:
    """A body without the parts whose picture was not kept, and how many there were."""
    lost = 0

    def cleared(value: Any) -> Any:
        nonlocal lost
        if isinstance(value, dict):
            return {name: cleared(item) for name, item in value.items()}
        if not isinstance(value, list):
            return value
        kept = [item for item in value if not _is_lost(item)]
        lost += len(value) - len(kept)
        return [cleared(item) for item in kept]

    return cleared(body), lost


def _is_lost(item: Any) -> bool:
    """Whether it is such a picture, or an object around one."""
    if isinstance(item, dict):
        return any(_is_lost(value) for value in item.values())
    return isinstance(item, str) and LOST_PICTURE.fullmatch(item) is not None
