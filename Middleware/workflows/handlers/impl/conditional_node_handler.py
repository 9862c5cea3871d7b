"""Conditional: a logical expression, `TRUE` or `FALSE`. Calls no model. Source: spec nodes.md 3.6.

Tokens -> flat operands and comparisons, ordered by the shunting-yard algorithm -> truth. What is no
expression raises `ValueError` inside and is `FALSE` outside.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

from Middleware.common.types import NodeConfig
from Middleware.workflows.handlers.base.base_workflow_node_handler import WorkflowNodeHandler, fillings
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.node_keys import WANTED_TEXT, Keys

_TOKEN = re.compile(
    r"""(?P<number>-?[0-9]+(?:\.[0-9]+)?)
      | '(?P<single>[^']*)' | "(?P<double>[^"]*)"
      | (?P<compare>==|!=|>=|<=|>|<)
      | (?P<paren>[()])
      | (?P<logic>(?i:AND|OR)\b)
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)""",
    re.VERBOSE,
)
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_STRENGTH = {"OR": 1, "AND": 2}

_OPERAND = r"""('[^']*+'|"[^"]*+"|(?<![^\s()=!<>])[^\s()=!<>]++)"""
_EQUALITY = re.compile(rf"{_OPERAND}\s*+[=!]=\s*+{_OPERAND}")
_OUTPUT = re.compile(r"\{agent[0-9]+Output\}")
_STAND_INS = ("1", "", "1 AND", "AND 1", "1 ==", "== 1", "1 == 1")
"""What a placeholder may hold: with one of these a condition that can be right is right."""
_NO_TEXT = re.compile(r"true|false|-?[0-9.]+", re.IGNORECASE)

Truth = bool | str
"""A value of the ordered expression, or the operator `AND` / `OR`."""


class Token(NamedTuple):
    kind: str
    text: str


def tokens(expression: str) -> Iterator[Token]:
    """The tokens from left to right; characters that begin none are skipped."""
    for match in _TOKEN.finditer(expression):
        kind = match.lastgroup or ""
        yield Token("quoted" if kind in ("single", "double") else kind, match[kind])


def evaluate(expression: str) -> bool:
    """The truth of `expression`. Raises ValueError when it is not well-formed."""
    return _truth(_to_postfix(expression))


def _to_postfix(expression: str) -> list[Truth]:
    """Values and operators in reverse Polish order."""
    output: list[Truth] = []
    waiting: list[str] = []
    buffer: list[Token] = []
    for token in tokens(expression):
        if token.kind not in ("logic", "paren"):
            buffer.append(token)
            continue
        output += _flush_tokens(buffer)
        if token.kind == "logic":
            name = token.text.upper()
            while waiting and waiting[-1] != "(" and _STRENGTH[waiting[-1]] >= _STRENGTH[name]:
                output.append(waiting.pop())
            waiting.append(name)
        elif token.text == "(":
            waiting.append("(")
        else:
            while waiting and waiting[-1] != "(":
                output.append(waiting.pop())
            if not waiting:
                raise ValueError("a ')' without '('")
            waiting.pop()
    output += _flush_tokens(buffer)
    if "(" in waiting:
        raise ValueError("a '(' without ')'")
    return output + waiting[::-1]


def _flush_tokens(buffer: list[Token]) -> list[Truth]:
    """What the gathered tokens mean: nothing, one operand or one comparison. Empties the buffer."""
    gathered, buffer[:] = tuple(buffer), ()
    if not gathered:
        return []
    if len(gathered) == 1 and gathered[0].kind != "compare":
        return [_lone(gathered[0])]
    if [token.kind == "compare" for token in gathered] == [False, True, False]:
        left, compare, right = gathered
        return [_compare_values(_value(left), compare.text, _value(right))]
    raise ValueError(
        "operands and comparisons do not fit together near " + " ".join(t.text for t in gathered)
    )


def _lone(token: Token) -> Truth:
    """Truth of an operand on its own; a quoted `AND` or `OR` stands for the operator."""
    if token.kind == "quoted" and token.text.upper() in _STRENGTH:
        return token.text.upper()
    return bool(_value(token))


def _value(token: Token) -> bool | float | str:
    if token.kind == "quoted":
        return token.text
    word = token.text.upper()
    if word in ("TRUE", "FALSE"):
        return word == "TRUE"
    try:
        return float(token.text)
    except ValueError:
        return token.text


def _compare_values(left: bool | float | str, sign: str, right: bool | float | str) -> bool:
    if sign not in ("==", "!=") and (isinstance(left, str) or isinstance(right, str)):
        return False
    return _COMPARE[sign](left, right)


def _truth(ordered: list[Truth]) -> bool:
    values: list[bool] = []
    for item in ordered:
        if isinstance(item, bool):
            values.append(item)
            continue
        if len(values) < 2:
            raise ValueError(f"{item} needs a value on both sides")
        right, left = values.pop(), values.pop()
        values.append(left and right if item == "AND" else left or right)
    if len(values) != 1:
        raise ValueError("no single value is left")
    return values[0]


@NODES.register("Conditional")
class ConditionalNode(WorkflowNodeHandler):
    """Evaluates `condition`; the output is `TRUE` or `FALSE`. A missing or malformed condition is `FALSE`,
    with a warning.
    """

    KEYS: ClassVar[Keys] = {
        "condition": WANTED_TEXT(
            "Comparisons, combined with AND, OR and parentheses. Put strings in quotes. Takes variables.",
            form="text",
        ),
    }
    RUNS_DRY = True

    def config_notes(self, config: NodeConfig) -> list[tuple[str, str]]:
        """An output without quotes that is compared with a text. Source: nodes.md 6.3."""
        condition = config.get("condition")
        if not isinstance(condition, str) or config.get("jinja2"):
            return []
        return [
            ("condition", f"{name} stands without quotes: an output of several words makes this FALSE")
            for name in dict.fromkeys(_bare_outputs(condition))
        ]

    def config_warnings(self, config: NodeConfig) -> list[tuple[str, str]]:
        """A condition that is malformed whatever its placeholders hold."""
        condition = config.get("condition")
        if not isinstance(condition, str) or config.get("jinja2"):
            return []
        reasons = [_reason_of(filled) for filled in fillings(condition, _STAND_INS)]
        if not condition or not reasons or not all(reasons):
            return []
        return [("condition", f"is not well-formed and counts as FALSE: {reasons[0]}")]

    def handle(self, context: ExecutionContext) -> str:
        condition = context.value("condition")
        if not condition:
            context.warn("'condition' is missing or empty; it counts as FALSE")
            return "FALSE"
        try:
            return "TRUE" if evaluate(context.fill(condition)) else "FALSE"
        except ValueError as error:
            context.warn(f"'condition' is not well-formed and counts as FALSE: {_reason(error)}")
            return "FALSE"


def _bare_outputs(condition: str) -> Iterator[str]:
    """Output placeholders that are compared, unquoted, with what is neither a number nor a truth value."""
    for left, right in _EQUALITY.findall(condition):
        for one, other in ((left, right), (right, left)):
            if _OUTPUT.fullmatch(one) and not _NO_TEXT.fullmatch(other):
                yield one


def _reason_of(condition: str) -> str:
    """Why a filled condition is malformed; empty when it is not."""
    try:
        evaluate(condition)
    except ValueError as error:
        return str(error)
    return ""


def _reason(error: ValueError) -> str:
    """The fault without the operands, which may be a user's words."""
    return str(error).split(" near ")[0]
