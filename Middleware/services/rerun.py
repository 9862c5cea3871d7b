"""What a run that repeats an earlier one takes from it: outputs of nodes that do not run again.

Made by whoever knows the earlier run, looked at by the loop where a node is about to begin. Pure values.
Source: spec workbench.md 4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class KeptNode:
    """What a node gave. `output`: as `agent<N>Output`; `thoughts`: those of `agent<N>Thinking`; `values`: the
    others that nodes after it can name, by the end of that name.
    """

    output: Any = ""
    thoughts: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)


KeptNodes = Mapping[int, KeptNode]
"""By the node's number in its file."""


@dataclass(frozen=True, slots=True)
class Rerun:
    """`kept(file, nodes)`: what stands in for which nodes of a workflow that no node called; `file`: its
    path below the config root, `nodes`: as they are in it. `writes_times`: whether the times of the
    discussion's messages are written.
    """

    kept: Callable[[str, tuple[Mapping[str, Any], ...]], KeptNodes]
    writes_times: bool = False
