"""Edits of a workflow's text that need what the engine knows of it. Pure; writes nothing.

Source: spec workbench.md 2, 10.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from Middleware.api.console.view_contract import ApiRoute, Ask, ViewRefused
from Middleware.api.console.workflow_files import too_large
from Middleware.common.errors import ConfigError
from Middleware.common.types import JsonObject
from Middleware.config.users import load_user
from Middleware.config.validation import describe_value
from Middleware.workflows.checks.renumber import (
    Moves,
    moves_of_insert,
    moves_of_move,
    moves_of_remove,
    node_count,
    renumber,
)

_ONE = "allowed: exactly one of insert, move and remove"


def renumber_edit(ask: Ask) -> JsonObject:
    """POST `edit/renumber`: `{"changes": [[from, to, insert]...], "changed", "lost"}`, offsets in UTF-16
    units of the given text. 422 for a text that is no JSON, holds no nodes, or is too large to be checked.

    `user`: whose variables for all workflows are looked at; none: nobody's.
    """
    fields = ask.fields(text=str, insert=int | None, move=list | None, remove=int | None, user=str | None)
    of_user = _variables_of(ask, fields["user"])
    if why := too_large(fields["text"]):
        raise ViewRefused(422, why)
    try:
        moves = _moves(fields, node_count(fields["text"]))
        made = renumber(fields["text"], moves, of_user)
    except ConfigError as error:
        raise ViewRefused(422, error.message) from error
    return {"changes": [list(change) for change in made.changes], "changed": made.changed, "lost": made.lost}


def _moves(fields: Mapping[str, Any], count: int) -> Moves:
    given = [name for name in ("insert", "move", "remove") if fields[name] is not None]
    if len(given) != 1:
        raise ViewRefused(400, f"found {', '.join(given) or 'none of them'}, {_ONE}")
    if fields["insert"] is not None:
        return moves_of_insert(count, _number(fields["insert"], "insert", count + 1))
    if fields["remove"] is not None:
        return moves_of_remove(count, _number(fields["remove"], "remove", count))
    move = fields["move"]
    if len(move) != 2:
        raise ViewRefused(400, f"move: found {len(move)} values, allowed: two numbers of nodes")
    return moves_of_move(count, *(_number(one, "move", count) for one in move))


def _number(value: Any, name: str, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise ViewRefused(400, f"{name}: found {describe_value(value)}, allowed: a number from 1 to {most}")
    return value


def _variables_of(ask: Ask, user: str | None) -> Mapping[str, Any]:
    if user is None:
        return {}
    served = ask.hub.served_users()
    if user not in served:
        raise ViewRefused(400, f"user: found {describe_value(user)}, allowed: {', '.join(served)}")
    return load_user(ask.hub.snapshot(), user).user_wide_workflow_variables


EDIT_ROUTES = (ApiRoute("POST", "edit/renumber", "look", renumber_edit),)
