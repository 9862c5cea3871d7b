"""What a model of the model lists can do: found in the nodes that a request for it can reach."""

from __future__ import annotations

from collections.abc import Iterator

from Middleware.common.errors import ConfigError
from Middleware.config import paths
from Middleware.config.endpoints import load_endpoint
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.users import UserSettings
from Middleware.llmapis.handlers.backends import backend_of
from Middleware.workflows.checks.user_walk import UserWalk, Wanted
from Middleware.workflows.handlers.node_types import node_handler


class _ModelWalk(UserWalk):
    """The walk from one model: the picked shared workflow, else all that the user's own name may lead to."""

    def __init__(self, snapshot: ConfigSnapshot, user: UserSettings, picked: str | None) -> None:
        super().__init__(snapshot, user)
        self._picked = picked

    def _roots(self) -> Iterator[Wanted]:
        if self._picked:
            folder = paths.shared_workflow_folder(self._user, self._picked)
            yield Wanted(paths.DEFAULT_WORKFLOW, self._file, "", folder=folder)
        else:
            yield from self._own_roots()


def capabilities(snapshot: ConfigSnapshot, user: UserSettings, picked: str | None) -> list[str]:
    """`completion`, and `tools`, `vision` where a node takes them. `picked`: a shared workflow's name."""
    found = {"completion"}
    for node in _ModelWalk(snapshot, user, picked).nodes():
        if node.get("allowTools"):
            found.add("tools")
        if node_handler(node.get("type")).takes_pictures(node):
            found.add("vision")
    return sorted(found)


def capabilities_of_endpoint(snapshot: ConfigSnapshot, user: UserSettings, name: str) -> list[str]:
    """What an endpoint can do as a plain model: what the client sends reaches it, tools and pictures too, if
    its backend takes messages. Whether the model makes something of them is not known here.
    """
    try:
        takes_messages = backend_of(load_endpoint(snapshot, user, name)).takes_messages
    except (ConfigError, ValueError):
        takes_messages = False
    return ["completion", *(("tools", "vision") if takes_messages else ())]
