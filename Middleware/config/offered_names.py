"""Model names that files offer beside those of users and workflows: aliases (`ModelAliases.json`), and
endpoints as plain models (`exposeEndpoints`). Source: spec operate.md 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from Middleware.common.errors import ConfigError, ConfigMissing
from Middleware.common.wildcards import fits, has_star
from Middleware.config.endpoints import EMBEDDING_TYPES, endpoint_names, load_endpoint
from Middleware.config.keys import TEXT
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.paths import ALIASES_FILE, endpoint_folder
from Middleware.config.users import UserSettings
from Middleware.config.validation import state_file

ALIASES_KIND = "aliases"
state_file(
    ALIASES_KIND,
    "Model aliases",
    "ModelAliases.json: model name of a client -> who answers. The first line that fits counts.",
    {},
    additionalProperties=TEXT(
        "Who answers: `user`, `user:workflow`, or `user:raw/endpoint`.", minLength=1
    ).schema(),
)


class Alias(NamedTuple):
    """One line of the file. `name`: as it is written there, `*` stands for any run of characters; `folded`:
    the same without the case of its letters.
    """

    name: str
    target: str
    folded: str

    @property
    def is_pattern(self) -> bool:
        return has_star(self.name)

    def fits(self, folded: str) -> bool:
        """Whether a client that sends this name, casefolded, means the line: the case of letters does not
        count.
        """
        return fits(self.folded, folded)


def load_aliases(snapshot: ConfigSnapshot) -> tuple[Alias, ...]:
    """The lines in the order of the file; none when there is no file, or never was a good one: what is wrong
    with it is said where it is checked.
    """
    if not snapshot.exists(ALIASES_FILE):
        return ()
    try:
        return snapshot.derive(ALIASES_FILE, "aliases", _aliases_of)
    except ConfigError:
        return ()


def _aliases_of(document: Mapping[str, Any]) -> tuple[Alias, ...]:
    named = ((name, target) for name, target in document.items() if isinstance(target, str))
    return tuple(Alias(name, target, name.casefold()) for name, target in named)


# --------------------------------------------------------------------------
# Endpoints as plain models.


def is_exposed(snapshot: ConfigSnapshot, user: UserSettings, name: str) -> bool:
    """Whether clients can ask this endpoint of the user as a plain model (`exposeEndpoints`).

    One that is for embeddings is none. One with a faulty file is: its fault is said to whoever asks.
    """
    exposed = user.expose_endpoints
    if isinstance(exposed, bool):
        if not exposed or name not in endpoint_names(snapshot, endpoint_folder(user)):
            return False
    elif name not in exposed:
        return False
    try:
        return load_endpoint(snapshot, user, name).type not in EMBEDDING_TYPES
    except ConfigMissing as error:
        return bool(error.file)  # the endpoint is there, its API type is not
    except ConfigError:
        return True


def exposed_endpoints(snapshot: ConfigSnapshot, user: UserSettings) -> list[str]:
    """The endpoints that are listed as plain models: of the folder sorted, of a list in its order, each once.
    Those that cannot answer are left out.
    """
    exposed = user.expose_endpoints
    if isinstance(exposed, bool):
        names = endpoint_names(snapshot, endpoint_folder(user)) if exposed else []
    else:
        names = list(dict.fromkeys(exposed))
    return [name for name in names if _can_answer(snapshot, user, name)]


def _can_answer(snapshot: ConfigSnapshot, user: UserSettings, name: str) -> bool:
    try:
        return load_endpoint(snapshot, user, name).type not in EMBEDDING_TYPES
    except ConfigError:
        return False
