"""CustomWorkflow and ConditionalCustomWorkflow: run another workflow. Source: spec nodes.md 3.15, 3.16.

The handlers only choose; finding, running and the role of the child are the engine's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from Middleware.common.errors import ConfigError
from Middleware.common.types import NodeConfig
from Middleware.config.keys import NOTHING, Shape
from Middleware.workflows.handlers.base.base_workflow_node_handler import ChildName, WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.execution_context import ChildCall, ExecutionContext, NodeResult
from Middleware.workflows.models.node_keys import ANY, NEEDED_TEXT, TEXT, Keys, read_filled


def scoped_inputs(context: ExecutionContext) -> list[str]:
    """The filled items of `scoped_variables`; item i becomes the child's `agent<i>Input`."""
    return [context.fill(str(item)) for item in context.value("scoped_variables")]


def override(fields: Mapping[str, Any], first: str, second: str) -> str | None:
    """The authored text of an override: field `first` if that key is there, else `second`."""
    value = fields[first] if first in fields else fields.get(second)
    return value or None


class SubWorkflowNode(WorkflowNodeHandler):
    """What both types share: the call, with its folder, inputs and overrides."""

    FITTING: ClassVar[tuple[str, ...]] = (
        *("firstNodeSystemPromptOverride", "systemPromptOverride"),
        *("firstNodePromptOverride", "promptOverride"),
        *("scoped_variables", "workflowUserFolderOverride"),
    )

    def run(
        self, context: ExecutionContext, name: str, overrides: Mapping[str, Any], label: str = ""
    ) -> NodeResult:
        call = ChildCall(
            name,
            folder=context.value("workflowUserFolderOverride") or None,
            inputs=tuple(scoped_inputs(context)),
            system_prompt_override=override(
                overrides, "firstNodeSystemPromptOverride", "systemPromptOverride"
            ),
            prompt_override=override(overrides, "firstNodePromptOverride", "promptOverride"),
            label=label,
        )
        return context.run_workflow(call)

    @staticmethod
    def child(config: NodeConfig, pointer: str, name: str) -> ChildName:
        scoped = config.get("scoped_variables")
        inputs = len(scoped) if isinstance(scoped, list) else 0
        return ChildName(pointer, name, config.get("workflowUserFolderOverride") or None, inputs)


@NODES.register("CustomWorkflow")
class CustomWorkflowNode(SubWorkflowNode):
    """Runs `workflowName`. The output is the answer of that workflow."""

    PALETTE = "workflows"

    KEYS: ClassVar[Keys] = {
        "workflowName": NEEDED_TEXT(
            "The name of the workflow file, without `.json`. Variables are not filled in.",
            form="names:workflows",
        ),
    }
    RUNS_DRY = True

    def handle(self, context: ExecutionContext) -> NodeResult:
        return self.run(context, context.value("workflowName"), context.config)

    def children(self, config: NodeConfig) -> list[ChildName]:
        name = config.get("workflowName")
        return [self.child(config, "/workflowName", name)] if isinstance(name, str) and name else []


@NODES.register("ConditionalCustomWorkflow")
class ConditionalCustomWorkflowNode(SubWorkflowNode):
    """Runs the workflow of the branch that `conditionalKey` names. If no branch matches, it outputs the
    default text, or runs the default branch.
    """

    PALETTE = "workflows"

    KEYS: ClassVar[Keys] = {
        "conditionalKey": TEXT("The value that chooses the branch. Takes variables.", advised=True),
        "conditionalWorkflows": ANY(
            "Maps each value to a workflow. The key `default` is the fallback.",
            must={
                "type": "object",
                "additionalProperties": {"type": ["string", "null"], "x-form": "names:workflows"},
            },
            advised=True,
            empty=NOTHING,
            read=read_filled,
        ),
        "UseDefaultContentInsteadOfWorkflow": TEXT(
            "The output when no branch matches. It is used instead of `default`. Takes variables.",
            must={"type": ["string", "null"]},
            empty=None,
            form="text",
        ),
        "routeOverrides": ANY(
            "Maps a value to prompt overrides for the workflow of that branch.",
            must={"type": "object", "additionalProperties": {"type": ["object", "null"]}},
            empty=NOTHING,
            read=read_filled,
        ),
    }
    RULES: ClassVar[Shape] = {
        "x-breach": "a key without a branch of its own fails: there is neither a branch `Default` in "
        "conditionalWorkflows nor `UseDefaultContentInsteadOfWorkflow`",
        "anyOf": [
            {
                "properties": {
                    "conditionalWorkflows": {
                        "not": {"propertyNames": {"not": {"pattern": "^[Dd][Ee][Ff][Aa][Uu][Ll][Tt]$"}}}
                    }
                },
                "required": ["conditionalWorkflows"],
            },
            {"required": ["UseDefaultContentInsteadOfWorkflow"]},
        ],
    }
    FITTING = ("scoped_variables", "workflowUserFolderOverride")
    RUNS_DRY = True

    def handle(self, context: ExecutionContext) -> NodeResult:
        key = context.fill(context.value("conditionalKey")).strip().lower()
        branches = _by_lower_name(context.value("conditionalWorkflows"))
        workflow, label = branches.get(key), key
        if not workflow:
            text = context.value("UseDefaultContentInsteadOfWorkflow")
            if text is not None:
                return context.fill(text)
            workflow, label = branches.get("default"), "default"
        if not workflow:
            known = ", ".join(sorted(branches)) or "none"
            raise ConfigError(f"no branch fits and there is no default; branches: {known}")
        overrides = _by_lower_name(context.value("routeOverrides")).get(key) or {}
        return self.run(context, workflow, overrides, label)

    def config_notes(self, config: NodeConfig) -> list[tuple[str, str]]:
        """Branches that no key can pick: it has no blanks around it, and of two spellings the last counts."""
        branches = config.get("conditionalWorkflows")
        names = list(branches) if isinstance(branches, Mapping) else []
        last = {name.lower(): name for name in names}
        lost = [name for name in names if name.strip() != name or last[name.lower()] != name]
        return [("conditionalWorkflows", f"no key can pick the branch {name!r}") for name in lost]

    def children(self, config: NodeConfig) -> list[ChildName]:
        branches = config.get("conditionalWorkflows")
        return [
            self.child(config, f"/conditionalWorkflows/{key.replace('~', '~0').replace('/', '~1')}", name)
            for key, name in (branches.items() if isinstance(branches, Mapping) else ())
            if isinstance(name, str) and name
        ]

    def may_give_own_text(self, config: NodeConfig) -> bool:
        return config.get("UseDefaultContentInsteadOfWorkflow") is not None


def _by_lower_name(branches: Mapping[str, Any]) -> dict[str, Any]:
    """Branches by lower-case name; of two that differ only in case the later wins."""
    return {name.lower(): value for name, value in branches.items()}
