"""Every variable that exists without being configured: `@variable("name")`, one small function each.

A function gets a `View` of the node and is called only when a text names it, at most once a substitution. A
new variable is a function here and nothing else (and a line in docs/variables.md). Source: workflows.md 7.5,
7.6, 4.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from enum import IntEnum
from functools import cached_property, partial
from typing import Any, NamedTuple

from Middleware.common.types import Messages
from Middleware.utilities.datetime_utils import month_name, pretty_date, twelve_hour_time, weekday_name
from Middleware.workflows.variables.conversation import Conversation
from Middleware.workflows.variables.source import VariableSource


class Layer(IntEnum):
    """Who wins when a name is defined twice: the higher. Configured names stand at USER_WIDE, WORKFLOW and
    NODES.
    """

    USER_WIDE = 1
    DATE = 2
    WORKFLOW = 3
    RUN = 4
    CONVERSATION = 5
    NODES = 6
    CATEGORY = 7
    MESSAGES = 8


class View:
    """What a variable may look at. One view serves one substitution: the clock is read once."""

    def __init__(self, source: VariableSource) -> None:
        self.source = source

    @cached_property
    def now(self) -> datetime:
        return self.source.now()

    @cached_property
    def conversation(self) -> Conversation:
        return Conversation(self.source)

    def has(self, layer: Layer) -> bool:
        """Whether the names of a layer exist: no conversation without messages, no categories elsewhere."""
        if layer is Layer.CONVERSATION:
            return bool(self.source.messages)
        return layer is not Layer.CATEGORY or bool(self.source.categories)


class Provider(NamedTuple):
    value: Callable[[View], Any]
    layer: Layer


VARIABLES: dict[str, Provider] = {}

_Function = Callable[[View], Any]


def variable(name: str, layer: Layer = Layer.RUN) -> Callable[[_Function], _Function]:
    """Decorator: the function makes the value of `{name}`. Raises ValueError for a name that is taken."""

    def add(function: _Function) -> _Function:
        if name in VARIABLES:
            raise ValueError(f"variable {name!r} is defined twice")
        VARIABLES[name] = Provider(function, layer)
        return function

    return add


@variable("todays_date_pretty", Layer.DATE)
def todays_date_pretty(view: View) -> str:
    return pretty_date(view.now)


@variable("todays_date_iso", Layer.DATE)
def todays_date_iso(view: View) -> str:
    return f"{view.now:%Y-%m-%d}"


@variable("YYYY_MM_DD", Layer.DATE)
def yyyy_mm_dd(view: View) -> str:
    return f"{view.now:%Y_%m_%d}"


@variable("current_time_12h", Layer.DATE)
def current_time_12h(view: View) -> str:
    return twelve_hour_time(view.now)


@variable("current_time_24h", Layer.DATE)
def current_time_24h(view: View) -> str:
    return f"{view.now:%H:%M}"


@variable("current_month_full", Layer.DATE)
def current_month_full(view: View) -> str:
    return month_name(view.now)


@variable("current_day_of_week", Layer.DATE)
def current_day_of_week(view: View) -> str:
    return weekday_name(view.now)


@variable("current_day_of_month", Layer.DATE)
def current_day_of_month(view: View) -> str:
    return f"{view.now:%d}"


@variable("Discussion_Id")
def discussion_id(view: View) -> str:
    return view.source.discussion_id or ""


@variable("time_context_summary")
def time_context_summary(view: View) -> str:
    return view.source.time_context()


@variable("chat_system_prompt", Layer.CONVERSATION)
def chat_system_prompt(view: View) -> str:
    return view.conversation.system_prompt(templated=False)


@variable("templated_system_prompt", Layer.CONVERSATION)
def templated_system_prompt(view: View) -> str:
    return view.conversation.system_prompt(templated=True)


LAST = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "ten": 10, "twenty": 20}
"""`..._last_<word>` -> how many messages."""

WINDOWS: dict[str, Callable[..., str]] = {
    **{f"last_{word}": partial(Conversation.last, count=count) for word, count in LAST.items()},
    "n_messages": Conversation.last_n,
    "estimated_token_limit": Conversation.token_limit,
    "min_n_max_tokens": Conversation.min_messages_max_tokens,
    "without_system": Conversation.without_system,
}
"""`chat_user_prompt_<key>` and `templated_user_prompt_<key>` -> the part of the conversation that they show.
"""


def _window(view: View, *, window: Callable[..., str], templated: bool) -> str:
    return window(view.conversation, templated=templated)


for _key, _part in WINDOWS.items():
    variable(f"chat_user_prompt_{_key}", Layer.CONVERSATION)(partial(_window, window=_part, templated=False))
    variable(f"templated_user_prompt_{_key}", Layer.CONVERSATION)(
        partial(_window, window=_part, templated=True)
    )


@variable("messages", Layer.MESSAGES)
def messages(view: View) -> Messages:
    return view.source.messages


@variable("category_list", Layer.CATEGORY)
def category_list(view: View) -> list[str]:
    return list(view.source.categories)


@variable("category_descriptions", Layer.CATEGORY)
def category_descriptions(view: View) -> list[str]:
    return list(view.source.categories.values())


@variable("categoriesSeparatedByOr", Layer.CATEGORY)
def categories_separated_by_or(view: View) -> str:
    return " or ".join(view.source.categories)


@variable("category_colon_descriptions", Layer.CATEGORY)
def category_colon_descriptions(view: View) -> str:
    return "; ".join(_described(view))


@variable("category_colon_descriptions_newline_bulletpoint", Layer.CATEGORY)
def category_colon_descriptions_newline_bulletpoint(view: View) -> str:
    return _bullet_points(_described(view))


@variable("categoryNameBulletpoints", Layer.CATEGORY)
def category_name_bulletpoints(view: View) -> str:
    return _bullet_points(view.source.categories)


def _described(view: View) -> list[str]:
    return [f"{name}: {description}" for name, description in view.source.categories.items()]


def _bullet_points(items: Iterable[str]) -> str:
    return "".join(f"\n- {item}" for item in items)
