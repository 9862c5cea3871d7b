"""ArithmeticProcessor: two numbers and an operator. Calls no model. Source: spec nodes.md 3.5."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import ClassVar

from Middleware.common.types import NodeConfig
from Middleware.workflows.handlers.base.base_workflow_node_handler import (
    TEXT,
    Schema,
    WorkflowNodeHandler,
    fillings,
)
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.execution_context import ExecutionContext

FAILED = "-1"

_NUMBER = r"(-?[0-9]+(?:\.[0-9]+)?)"
_EXPRESSION = re.compile(rf"{_NUMBER}\s*([-+*/])\s*{_NUMBER}")
_STAND_INS = ("1", "", "1 +", "+ 1", "1 + 1", "+")
"""What a placeholder may hold: with one of these an expression that can be right is right."""
_OPERATORS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def calculate(expression: str) -> str:
    """The result in double precision, whole ones as an integer; `-1` for what is no such expression."""
    match = _EXPRESSION.fullmatch(expression)
    if match is None:
        return FAILED
    try:
        result = _OPERATORS[match[2]](float(match[1]), float(match[3]))
    except ZeroDivisionError:
        return FAILED
    if not math.isfinite(result):
        return FAILED
    return str(int(result)) if result.is_integer() else repr(result)


@NODES.register("ArithmeticProcessor")
class ArithmeticNode(WorkflowNodeHandler):
    """Calculates `expression`. If it is missing, or is anything else, the output is `-1`."""

    FIELDS: ClassVar[Mapping[str, str]] = {
        "expression": "A number, one of + - * /, and another number. Takes variables.",
    }
    SCHEMA: ClassVar[Schema] = {"properties": {"expression": TEXT}}
    ADVICE: ClassVar[Schema] = {"properties": {"expression": {"minLength": 1}}, "required": ["expression"]}
    RUNS_DRY = True

    def config_warnings(self, config: NodeConfig) -> list[tuple[str, str]]:
        """An expression that is none whatever its placeholders hold."""
        expression = config.get("expression")
        if not isinstance(expression, str) or not expression or config.get("jinja2"):
            return []
        fits = [bool(_EXPRESSION.fullmatch(text.strip())) for text in fillings(expression, _STAND_INS)]
        if any(fits) or not fits:
            return []
        return [("expression", "is no `number operator number` with one of + - * /: the output is always -1")]

    def handle(self, context: ExecutionContext) -> str:
        expression = context.config.get("expression")
        return calculate(context.fill(expression).strip()) if expression else FAILED
