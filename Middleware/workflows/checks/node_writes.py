"""What a node changes outside its run, the workflows that it runs included. Reads through a snapshot, and
runs nothing. Source: spec workbench.md 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from Middleware.common.errors import ConfigError
from Middleware.common.types import NodeConfig
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.users import UserSettings
from Middleware.config.workflows import WorkflowFile, load_workflow, workflow_of
from Middleware.workflows.checks.user_walk import TOOL_WORKFLOWS
from Middleware.workflows.checks.workflow_graph import known_text
from Middleware.workflows.handlers.base.base_workflow_node_handler import ChildName
from Middleware.workflows.handlers.node_types import node_handler

UNKNOWN_CHILD = "runs a workflow whose name only a run knows"
MOST_NOTES = 5
"""Of one node."""
_OF_USERS = dict(TOOL_WORKFLOWS)


class NodeWrites:
    """What the nodes of one user write. `snapshot`: the files as they hold for the run."""

    def __init__(self, snapshot: ConfigSnapshot, user: UserSettings) -> None:
        self._snapshot, self._user = snapshot, user
        self.keeps_times = False
        """A node that was looked at has messages with times, so a run writes these."""

    def of_nodes(self, file: str, nodes: tuple[Mapping[str, Any], ...]) -> dict[int, list[str]]:
        """The nodes of a workflow that write, by number, each with its sentences. `file`: below the config
        root.
        """
        workflow = self._workflow(file, nodes)
        found = {n: self._of_node(workflow, node, set()) for n, node in enumerate(nodes, 1)}
        return {number: notes[:MOST_NOTES] for number, notes in found.items() if notes}

    def _workflow(self, file: str, nodes: tuple[Mapping[str, Any], ...]) -> WorkflowFile:
        try:
            return workflow_of(file.rpartition("/")[2], file, self._snapshot.read(file))
        except ConfigError:  # the run has them from elsewhere
            return WorkflowFile(file, "", file, nodes)

    def _of_node(self, workflow: WorkflowFile, node: NodeConfig, seen: set[str]) -> list[str]:
        """`seen`: the files that were looked at for this node. The workflow that it is in is one of them only
        where something calls it: workflows may call each other in a circle, and themselves.
        """
        handler = node_handler(node.get("type"))
        self.keeps_times = self.keeps_times or bool(node.get("addDiscussionIdTimestampsForLLM"))
        notes = dict.fromkeys([own] if (own := handler.writes(node)) else [])
        for child in self._children(node, handler.children(node), handler.user_settings(node)):
            notes |= dict.fromkeys(self._of_child(workflow, child, seen))
        return list(notes)

    def _children(
        self, node: NodeConfig, named: list[ChildName], settings: tuple[str, ...]
    ) -> Iterator[ChildName]:
        yield from named
        for setting in settings:
            if setting in _OF_USERS and (name := getattr(self._user, _OF_USERS[setting])):
                yield ChildName(f"/{setting}", name)

    def _of_child(self, parent: WorkflowFile, child: ChildName, seen: set[str]) -> list[str]:
        name = known_text(child.name, parent.variables)
        folder = known_text(child.folder, parent.variables) if child.folder else None
        if not name or (child.folder and not folder):
            return [UNKNOWN_CHILD]
        try:
            workflow = load_workflow(
                self._snapshot, self._user, name, folder=folder, calling_folder=parent.folder
            )
        except ConfigError:  # it cannot run
            return []
        if workflow.file in seen:
            return []
        seen.add(workflow.file)
        notes = [note for node in workflow.nodes for note in self._of_node(workflow, node, seen)]
        return [f"{name}: {note}" for note in notes]
