"""Fills the variables of a node's texts: the face of this package.

A text is parsed once (cached); only the variables that it names are computed; nothing that was inserted is ever
parsed again. Format mode never fails: what is not known stays text. Jinja mode raises ConfigError for a broken template.
"""

from __future__ import annotations

from Middleware.workflows.variables.source import VariableSource

__all__ = ["VariableSource", "fill", "fill_early", "fill_override", "fill_parts"]


def fill(text: str, source: VariableSource) -> str:
    """`text` with its variables, format or Jinja mode as `source.node["jinja2"]` says. Source: workflows.md 7, 16.1.

    `text` may be what `fill_override` gave (it is a str that remembers what the parent inserted).
    Raises ConfigError (file, pointer of the field) for a Jinja template that is wrong or unsafe.
    """
    raise NotImplementedError


def fill_early(text: str, source: VariableSource, *, with_outputs: bool = False) -> str:
    """`endpointName`, `preset`, numeric fields: workflow variables and agent inputs only, always format syntax.

    `with_outputs`: agent outputs too; for numeric fields (workflows.md 16.17). Source: workflows.md 7.4.
    """
    raise NotImplementedError


def fill_parts(text: str, source: VariableSource) -> tuple[str, str | None]:
    """The filled text and the base folder that a path may not leave (None: no limit). Source: nodes.md 6.1.

    The base is the folder part before the first run-time value (anything but workflow and user-wide variables and
    dates), not normalised, `~` not expanded; `"."` when that part has no folder.
    """
    raise NotImplementedError


def fill_override(text: str, source: VariableSource) -> str:
    """A prompt override for a child's first node, filled in the parent. Source: workflows.md 8.4, 16.1 (e).

    Gives a str that remembers what was inserted; put it into the child's node object as it is (a copy made by str
    methods forgets), the child's `fill` then takes only authored braces as placeholders.
    A text with a name that the parent does not know comes back untouched.
    """
    raise NotImplementedError
