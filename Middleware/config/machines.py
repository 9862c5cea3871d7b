"""`Machines.json`: limits of machines that several endpoints name with `machine`. Source: spec
prompt-reuse.md 7.1."""

from __future__ import annotations

from Middleware.config.keys import MOST_AT_ONCE, WHOLE, Key, object_schema
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.paths import MACHINES_FILE
from Middleware.config.validation import state_file

_LIMIT = "maxConcurrentRequests"

MACHINE_KEYS: dict[str, Key] = {
    _LIMIT: WHOLE(
        "How many requests all endpoints of this machine get together at once.",
        minimum=1,
        maximum=MOST_AT_ONCE,
    ),
}
"""Keys of one entry. The names of entries are the words that endpoints have in `machine`."""

state_file(
    "machines",
    "Machines",
    "Machines.json: machine -> its limit. Endpoints name the machine with `machine`.",
    {},
    additionalProperties=object_schema(MACHINE_KEYS),
)


def machine_names(snapshot: ConfigSnapshot) -> list[str]:
    """The machines that have an entry, in the order of the file. Raises ConfigError for a faulty file."""
    return list(snapshot.read(MACHINES_FILE)) if snapshot.exists(MACHINES_FILE) else []


def machine_limit(snapshot: ConfigSnapshot, machine: str) -> int | None:
    """How many calls the machine gets at once; None: no limit. Raises ConfigError for a faulty file."""
    if not snapshot.exists(MACHINES_FILE):
        return None
    limit: int | None = MACHINE_KEYS[_LIMIT].value_in(snapshot.read(MACHINES_FILE).get(machine) or {}, _LIMIT)
    return limit
