"""What `--validate` notes of agents: one that brings in text of strangers, and at once has what a stranger
may want. Source: spec agents.md 7.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import urlsplit

from Middleware.common.errors import ConfigError
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.named_files import load_mcp_server
from Middleware.config.validation import NOTE, Finding
from Middleware.llmapis.wire.http import is_loopback
from Middleware.workflows.checks.workflow_check import NodePlace, node_places
from Middleware.workflows.checks.workflow_graph import known_text
from Middleware.workflows.handlers.base.base_workflow_node_handler import MACHINE, PAGES
from Middleware.workflows.handlers.node_types import node_handler

Children = dict[str, list[tuple[str, str]]]
"""File -> (pointer of the place that names a workflow, its file), of all that a user reaches."""

ORDERS = (
    "this agent reads pages or asks a server elsewhere, and it can also write, run programs, or read files "
    "or memories: a page can give it orders, and an address can carry away what it has read. Use two agents: "
    "the one that reads pages has no other tools"
)


def agent_findings(snapshot: ConfigSnapshot, files: Iterable[str], children: Children) -> Iterator[Finding]:
    """A note for each agent of these files whose tools can do both."""
    powers = _FilePowers(snapshot, children)
    for place in (place for file in files for place in powers.places(file)):
        is_agent = node_handler(place.config.get("type")).guides_model(place.config)
        if is_agent and powers.of_node(place, (place.file,)) >= {PAGES, MACHINE}:
            yield place.finding("agentTools", NOTE, ORDERS)


class _FilePowers:
    """What the workflows of a user may do."""

    def __init__(self, snapshot: ConfigSnapshot, children: Children) -> None:
        self._snapshot, self._children = snapshot, children
        self._known: dict[str, list[NodePlace]] = {}

    def places(self, file: str) -> list[NodePlace]:
        if file not in self._known:
            try:
                self._known[file] = node_places(file, self._snapshot.read(file))
            except ConfigError:  # told of where the file is checked
                self._known[file] = []
        return self._known[file]

    def of_node(self, place: NodePlace, above: tuple[str, ...]) -> set[str]:
        """What a node may do, its servers and its children included."""
        handler = node_handler(place.config.get("type"))
        found = set(handler.powers(place.config))
        for _, written in handler.servers(place.config):
            found |= self._of_server(written, place.file)
        for pointer, child in self._children.get(place.file, ()):
            if pointer.startswith(f"{place.pointer}/") and child not in above:
                for inner in self.places(child):
                    found |= self.of_node(inner, (*above, child))
        return found

    def _of_server(self, written: object, file: str) -> set[str]:
        """A program of this machine, or one elsewhere."""
        document = self._snapshot.read(file)
        name = known_text(written, document if isinstance(document, Mapping) else {})
        try:
            server = load_mcp_server(self._snapshot, name) if name else {}
        except ConfigError:
            return set()
        url = server.get("url")
        if not server or not isinstance(url, str) or not url or server.get("transport") == "stdio":
            return {MACHINE} if server else set()
        try:
            host = urlsplit(url).hostname or ""
        except ValueError:
            host = ""
        return {MACHINE} if is_loopback(host) else {PAGES}
