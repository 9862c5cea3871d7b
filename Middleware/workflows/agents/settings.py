"""What an Agent's own fields say, as one value. Source: spec agents.md 1."""

from __future__ import annotations

from dataclasses import dataclass

from Middleware.workflows.models.execution_context import ExecutionContext

AUTO, NATIVE, JSON = "auto", "native", "json"
"""Values of `toolCalling`."""
THINKING = "thinking"
"""Value of `stepText`: the text of a step with calls is a thought."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """`raises`: a tool that fails fails the node. `total_s`: None: the node may take as long as it likes."""

    max_steps: int
    max_tool_calls: int
    max_parallel: int
    max_result_tokens: int
    raises: bool
    calling: str
    holds_text: bool
    total_s: float | None

    @classmethod
    def of(cls, context: ExecutionContext) -> AgentSettings:
        """Raises ConfigError for a value that cannot be used."""
        return cls(
            max_steps=context.value("maxSteps"),
            max_tool_calls=context.value("maxToolCalls"),
            max_parallel=context.value("maxParallelToolCalls"),
            max_result_tokens=context.value("maxToolResultTokens"),
            raises=context.value("onToolError") == "raise",
            calling=context.value("toolCalling"),
            holds_text=context.value("stepText") == THINKING,
            total_s=context.value("totalTimeout"),
        )
