"""The link of the cleaning chain, the chain, and the table of the rules.

Pure: no I/O, nothing of any request is kept here.

A rule is one function in one file of `rules/`: it states the keys that it reads (`keys.py`) and gives a
`Stage`, or None when it is off.

    @rule(order=350, endpoint={"removeDiagnosticPrefix": FLAG})
    def diagnostic_prefix(inputs: Inputs) -> Stage | None:
        '''Remove `[DIAGNOSTIC]:` from the start of answers.'''
        if not inputs.endpoint.get("removeDiagnosticPrefix", False):
            return None
        return HeadStrip(["[DIAGNOSTIC]:"])
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

# --------------------------------------------------------------------------
# How a rule states a key that it reads: what may stand there, what holds without it, what it means.


@dataclass(frozen=True, slots=True)
class CleaningKey:
    """One key of an endpoint file, of a node or of a user file.

    `shape`: JSON Schema (draft 2020-12) of its value. `default`: what holds without the key; None: nothing
    is stated. `strict`: a value of another shape is an error, else a warning. `of_models`: the key of a node
    means something only where a model is called.
    """

    shape: Mapping[str, Any]
    description: str = ""
    default: Any = None
    strict: bool = True
    of_models: bool = False

    def __call__(self, description: str, **changed: Any) -> CleaningKey:
        """The same kind of key with a description; by name any other field, e.g. `default=100`."""
        return replace(self, description=description, **changed)

    @property
    def is_switch(self) -> bool:
        """Whether the key turns something on."""
        return self.shape.get("type") == "boolean"


FLAG = CleaningKey({"type": "boolean"}, default=False, strict=False)
TEXT = CleaningKey({"type": "string"})
TEXTS = CleaningKey({"type": "array", "items": {"type": "string"}}, default=[])
TEXT_OR_TEXTS = CleaningKey({"type": ["array", "string"], "items": {"type": "string"}}, default=[])
"""A list of texts; a bare text counts as a list of one."""
COUNT = CleaningKey({"type": "integer", "minimum": 0})


def one_of(*words: str) -> CleaningKey:
    """A key that holds one of these words."""
    return CleaningKey({"enum": list(words)})


# --------------------------------------------------------------------------

REASONING_OUTPUTS = ("drop", "field", "inline")


class Stage(Protocol):
    """Text in, text out; what is undecided is held. Given nothing it gives nothing.

    `done`: it holds nothing and would pass on everything from now on, so the chain may drop it.
    """

    done: bool

    def feed(self, text: str) -> str: ...

    def finish(self) -> str: ...


class Chain:
    """Stages run in order; each sees only what the one before released. `stages`: those that are not done."""

    __slots__ = ("stages",)

    def __init__(self, stages: Iterable[Stage]) -> None:
        self.stages = tuple(stages)

    def feed(self, text: str) -> str:
        spent = False
        for stage in self.stages:
            text = stage.feed(text)
            spent = spent or stage.done
            if not text:
                break
        if spent:
            self.stages = tuple(stage for stage in self.stages if not stage.done)
        return text

    def finish(self) -> str:
        tail = ""
        for stage in self.stages:
            tail = stage.feed(tail) + stage.finish()
        self.stages = ()
        return tail


@dataclass(slots=True)
class Findings:
    """What the stages learn besides the text. One object, shared by the stages of one answer.

    `completed`: the removed thoughts, one for each closed block. `fresh`: thought text that nobody took yet
    (filled only while `live`). `unclosed`: a block that never closed and went out as reasoning.
    `open`: the pieces of the block that is open, or that was open at the end and went as a thought.
    `cut_after`: a text that is cut after each match never brings answer text and, behind it, a thought in
    one piece. `may_be_empty`: see `ResponseCleaner.finish`.
    """

    live: bool = False
    completed: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    fresh: list[str] = field(default_factory=list)
    unclosed: str = ""
    warnings: list[str] = field(default_factory=list)
    cut_after: re.Pattern[str] | None = None
    may_be_empty: bool = False


@dataclass(frozen=True, slots=True)
class Inputs:
    """All that a rule may know: three JSON objects and the generation prompt that the request ended with."""

    endpoint: Mapping[str, Any]
    node: Mapping[str, Any]
    user: Mapping[str, Any]
    generation_prompt: str | None
    findings: Findings


Rule = Callable[[Inputs], Stage | None]
Place = Literal["endpoint", "node", "user"]
"""Where a key stands: in an endpoint file, in a workflow's node, in a user file."""


@dataclass(frozen=True, slots=True, eq=False)
class StatedRule:
    """A rule, called as its function is, and the keys that it reads: place -> name -> key."""

    function: Rule
    keys: Mapping[Place, Mapping[str, CleaningKey]]

    @property
    def name(self) -> str:
        return self.function.__name__

    def __call__(self, inputs: Inputs) -> Stage | None:
        return self.function(inputs)


RULES: dict[int, StatedRule] = {}
"""Order -> rule. Filled when `rules/` loads."""


def rule(
    order: int,
    *,
    endpoint: Mapping[str, CleaningKey] | None = None,
    node: Mapping[str, CleaningKey] | None = None,
    user: Mapping[str, CleaningKey] | None = None,
) -> Callable[[Rule], StatedRule]:
    """Decorator. `order` = stage * 100 + step; then the keys that the rule reads, by name.

    A key without a description has the rule's: the first paragraph of its docstring. Raises ValueError when
    another rule has the order, or states one of the keys otherwise.
    """

    def add(function: Rule) -> StatedRule:
        given: Mapping[Place, Mapping[str, CleaningKey] | None] = {
            "endpoint": endpoint,
            "node": node,
            "user": user,
        }
        made = StatedRule(
            function, {place: _describe_keys(keys or {}, function) for place, keys in given.items()}
        )
        if order in RULES:
            raise ValueError(
                f"cleaning rules {RULES[order].name!r} and {made.name!r} have one order: {order}"
            )
        for other in RULES.values():
            _check_agreement(other, made)
        RULES[order] = made
        return made

    return add


def _describe_keys(keys: Mapping[str, CleaningKey], function: Rule) -> dict[str, CleaningKey]:
    about = " ".join((function.__doc__ or "").partition("\n\n")[0].split())
    return {name: key if key.description else key(about) for name, key in keys.items()}


def _check_agreement(one: StatedRule, other: StatedRule) -> None:
    for place, keys in one.keys.items():
        for name, key in keys.items():
            if other.keys[place].get(name, key) != key:
                both = f"{one.name!r} and {other.name!r}"
                raise ValueError(f"cleaning rules {both} state the {place} key {name!r} differently")


ENGINE_KEYS: Mapping[Place, Mapping[str, CleaningKey]] = {
    "endpoint": {
        "reasoningOutput": one_of(*REASONING_OUTPUTS)(
            "Where thoughts go: nowhere, in a field of their own, or into the text.", default="drop"
        )
    },
    "node": {
        "reasoningOutput": one_of(*REASONING_OUTPUTS)(
            "Where thoughts go: nowhere, a field of their own, or into the text. Default: the endpoint's.",
            of_models=True,
        )
    },
    "user": {},
}
"""What is read whatever rules there are (`reasoning_output`)."""


def keys_of(place: Place) -> dict[str, CleaningKey]:
    """Name -> key of all rules, in their order, and of the engine itself."""
    stated = {name: key for order in sorted(RULES) for name, key in RULES[order].keys[place].items()}
    return {**stated, **ENGINE_KEYS[place]}


def text_of(config: Mapping[str, Any], key: str) -> str:
    """The text under `key`; `""` when there is none or it is no text."""
    value = config.get(key)
    return value if isinstance(value, str) else ""


def texts_of(config: Mapping[str, Any], key: str, *, stripped: bool = False) -> list[str]:
    """The non-empty texts under `key`, on request without outer white space; a bare text counts as a list
    of one.
    """
    value = config.get(key)
    entries = [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else []
    texts = (entry.strip() if stripped else entry for entry in entries if isinstance(entry, str))
    return [text for text in texts if text]


def reasoning_output(endpoint: Mapping[str, Any], node: Mapping[str, Any]) -> str:
    """`drop`, `field` or `inline`: the node's `reasoningOutput`, else the endpoint's, else `drop`."""
    for value in (node.get("reasoningOutput"), endpoint.get("reasoningOutput")):
        if value in REASONING_OUTPUTS:
            return str(value)
    return "drop"
