"""Which model a request will need first, as far as its files say: for requests that wait before they run.

Reads files and runs nothing. A route, a branch or a name that only a run knows: nobody can tell. Source: spec
prompt-reuse.md 7.1.
"""

from __future__ import annotations

from collections.abc import Iterator

from Middleware.common.errors import MiddlewareError
from Middleware.common.types import NodeConfig
from Middleware.config.endpoints import EndpointConfig, load_endpoint
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.users import UserSettings
from Middleware.config.workflows import WorkflowFile, load_workflow
from Middleware.workflows.checks.workflow_graph import known_text
from Middleware.workflows.handlers import impl
from Middleware.workflows.handlers.impl.sub_workflow_node_handler import CustomWorkflowNode, SubWorkflowNode
from Middleware.workflows.handlers.node_types import node_handler
from Middleware.workflows.managers.answer_plan import plan_answer

NODE_HANDLERS = impl.__name__
"""The package that fills the table of node types; imported for that."""


class _NobodyKnows(Exception):
    """Only a run can tell."""


def first_endpoint(
    snapshot: ConfigSnapshot,
    user: UserSettings,
    picked: str | None = None,
    raw_endpoint: str = "",
    *,
    is_task: bool = False,
) -> EndpointConfig | None:
    """The endpoint of the first node that calls a model in the workflow that answers. None: nobody can tell,
    no node does, or a file has faults. `picked`: a shared workflow's name. `raw_endpoint`: it answers without
    a workflow. `is_task`: a front end asks for itself.
    """
    try:
        if raw_endpoint:
            return load_endpoint(snapshot, user, raw_endpoint)
        name, folder = _answering_workflow(snapshot, user, picked, is_task)
        workflow = load_workflow(snapshot, user, name, folder=folder)
        return next(_endpoints(snapshot, user, workflow, ()), None)
    except (MiddlewareError, _NobodyKnows):
        return None


def _answering_workflow(
    snapshot: ConfigSnapshot, user: UserSettings, picked: str | None, is_task: bool
) -> tuple[str, str | None]:
    """(name, folder). Raises _NobodyKnows where a run chooses, and as `plan_answer`."""
    if is_task and user.open_web_ui_task_workflow:
        return user.open_web_ui_task_workflow, None
    plan = plan_answer(snapshot, user, picked)
    if plan.chooses:
        raise _NobodyKnows
    return plan.workflow, plan.folder


def _endpoints(
    snapshot: ConfigSnapshot, user: UserSettings, workflow: WorkflowFile, above: tuple[str, ...]
) -> Iterator[EndpointConfig]:
    """Those of the nodes that call a model, in their order. Raises _NobodyKnows where a run decides."""
    if workflow.file in above:
        raise _NobodyKnows
    variables = {**user.user_wide_workflow_variables, **workflow.variables}
    for node in workflow.nodes:
        handler = node_handler(node.get("type"))
        if handler.CALLS_MODEL:
            name = known_text(node.get("endpointName"), variables)
            if name is None:
                raise _NobodyKnows
            yield load_endpoint(snapshot, user, name)
        elif isinstance(handler, SubWorkflowNode):
            child = _only_child(snapshot, user, node, workflow)
            yield from _endpoints(snapshot, user, child, (*above, workflow.file))


def _only_child(
    snapshot: ConfigSnapshot, user: UserSettings, node: NodeConfig, workflow: WorkflowFile
) -> WorkflowFile:
    handler = node_handler(node.get("type"))
    children = handler.children(node)
    if not isinstance(handler, CustomWorkflowNode) or not children:
        raise _NobodyKnows
    child = children[0]
    return load_workflow(snapshot, user, child.name, folder=child.folder, calling_folder=workflow.folder)
