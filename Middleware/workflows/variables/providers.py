"""Every variable that exists without being configured: `@variable("name", ...)`, one small function each.

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
from Middleware.workflows.models.node_keys import COMMON_KEYS
from Middleware.workflows.variables.conversation import Conversation, VariableSource


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
            return self.source.has_conversation or bool(self.source.messages)
        return layer is not Layer.CATEGORY or bool(self.source.categories)


class Provider(NamedTuple):
    """`about`, `example`: for people; the example is what the text may read."""

    value: Callable[[View], Any]
    layer: Layer
    about: str = ""
    example: str = ""


VARIABLES: dict[str, Provider] = {}

_Function = Callable[[View], Any]


def variable(
    name: str, layer: Layer = Layer.RUN, about: str = "", *, example: str = ""
) -> Callable[[_Function], _Function]:
    """Decorator: the function makes the value of `{name}`. `about`: one sentence for people.

    Raises ValueError for a name that is taken.
    """

    def add(function: _Function) -> _Function:
        if name in VARIABLES:
            raise ValueError(f"variable {name!r} is defined twice")
        VARIABLES[name] = Provider(function, layer, about, example)
        return function

    return add


@variable("todays_date_pretty", Layer.DATE, "Today's date in words.", example="March 05, 2026")
def todays_date_pretty(view: View) -> str:
    return pretty_date(view.now)


@variable("todays_date_iso", Layer.DATE, "Today's date in digits.", example="2026-03-05")
def todays_date_iso(view: View) -> str:
    return f"{view.now:%Y-%m-%d}"


@variable("YYYY_MM_DD", Layer.DATE, "Today's date, for names of files.", example="2026_03_05")
def yyyy_mm_dd(view: View) -> str:
    return f"{view.now:%Y_%m_%d}"


@variable("current_time_12h", Layer.DATE, "The time on a 12-hour clock.", example="7:09 PM")
def current_time_12h(view: View) -> str:
    return twelve_hour_time(view.now)


@variable("current_time_24h", Layer.DATE, "The time on a 24-hour clock.", example="19:09")
def current_time_24h(view: View) -> str:
    return f"{view.now:%H:%M}"


@variable("current_month_full", Layer.DATE, "The name of the month.", example="March")
def current_month_full(view: View) -> str:
    return month_name(view.now)


@variable("current_day_of_week", Layer.DATE, "The name of the day.", example="Thursday")
def current_day_of_week(view: View) -> str:
    return weekday_name(view.now)


@variable("current_day_of_month", Layer.DATE, "The day of the month as a number.", example="05")
def current_day_of_month(view: View) -> str:
    return f"{view.now:%d}"


@variable("Discussion_Id", about="The id of the discussion; empty if there is none.", example="novel-7")
def discussion_id(view: View) -> str:
    return view.source.discussion_id or ""


@variable(
    "time_context_summary",
    about="When the conversation started and was last continued; empty if that is not known.",
)
def time_context_summary(view: View) -> str:
    return view.source.time_context()


@variable("chat_system_prompt", Layer.CONVERSATION, "The system prompt that the client sent.")
def chat_system_prompt(view: View) -> str:
    return view.conversation.system_prompt(templated=False)


@variable(
    "templated_system_prompt",
    Layer.CONVERSATION,
    "The system prompt that the client sent, in the prompt template of the node's model.",
)
def templated_system_prompt(view: View) -> str:
    return view.conversation.system_prompt(templated=True)


@variable(
    "chat_system_prompt_steady",
    Layer.CONVERSATION,
    "The paragraphs of the client's system prompt that were there when the chat began; for `systemPrompt`.",
)
def chat_system_prompt_steady(view: View) -> str:
    return view.conversation.system_parts().steady


@variable(
    "chat_system_prompt_changed",
    Layer.CONVERSATION,
    "The paragraphs of the client's system prompt that came later (lorebook entries, the cards of a group); "
    "for `latePrompt`.",
)
def chat_system_prompt_changed(view: View) -> str:
    return view.conversation.system_parts().changed


LAST = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "ten": 10, "twenty": 20}
"""`..._last_<word>` -> how many messages."""


class Window(NamedTuple):
    """A part of the conversation. `about` follows "The ..."."""

    show: Callable[..., str]
    about: str


WINDOWS = {
    "last_one": Window(partial(Conversation.last, count=1), "newest message"),
    **{
        f"last_{word}": Window(partial(Conversation.last, count=count), f"newest {count} messages")
        for word, count in LAST.items()
        if count > 1
    },
    "n_messages": Window(
        Conversation.last_n, "newest messages; `nMessagesToIncludeInVariable` of the node says how many (5)"
    ),
    "estimated_token_limit": Window(
        Conversation.token_limit,
        "newest messages within `estimatedTokensToIncludeInVariable` "
        f"({COMMON_KEYS['estimatedTokensToIncludeInVariable'].default}) estimated tokens",
    ),
    "min_n_max_tokens": Window(
        Conversation.min_messages_max_tokens,
        f"newest messages, at least `minMessagesInVariable` "
        f"({COMMON_KEYS['minMessagesInVariable'].default}), more while within `maxEstimatedTokensInVariable` "
        f"({COMMON_KEYS['maxEstimatedTokensInVariable'].default}) estimated tokens",
    ),
    "without_system": Window(
        Conversation.without_system, "whole conversation without any separator, for prompt templates"
    ),
}
"""`chat_user_prompt_<key>` and `templated_user_prompt_<key>` -> the part of the conversation that they show.
"""


def _window(view: View, *, window: Callable[..., str], templated: bool) -> str:
    return window(view.conversation, templated=templated)


for _key, _part in WINDOWS.items():
    for _kind, _how in (("chat", ""), ("templated", ", in the prompt template of the node's model")):
        variable(f"{_kind}_user_prompt_{_key}", Layer.CONVERSATION, f"The {_part.about}{_how}.")(
            partial(_window, window=_part.show, templated=bool(_how))
        )


@variable(
    "messages",
    Layer.MESSAGES,
    "The list of messages itself, for indexes and Jinja loops.",
    example="{messages[0][content]}",
)
def messages(view: View) -> Messages:
    return view.source.messages


@variable(
    "category_list", Layer.CATEGORY, "A list of the names of the categories.", example="RECIPES, BUG_HUNT"
)
def category_list(view: View) -> list[str]:
    return list(view.source.categories)


@variable(
    "category_descriptions",
    Layer.CATEGORY,
    "A list of the descriptions of the categories.",
    example="Cooking, Finding faults",
)
def category_descriptions(view: View) -> list[str]:
    return list(view.source.categories.values())


@variable(
    "categoriesSeparatedByOr",
    Layer.CATEGORY,
    "The names of the categories on one line.",
    example="RECIPES or BUG_HUNT",
)
def categories_separated_by_or(view: View) -> str:
    return " or ".join(view.source.categories)


@variable(
    "category_colon_descriptions",
    Layer.CATEGORY,
    "The categories with their descriptions on one line.",
    example="RECIPES: Cooking; BUG_HUNT: Finding faults",
)
def category_colon_descriptions(view: View) -> str:
    return "; ".join(_image_descriptions(view))


@variable(
    "category_colon_descriptions_newline_bulletpoint",
    Layer.CATEGORY,
    "The categories with their descriptions, one per line.",
    example="- RECIPES: Cooking",
)
def category_colon_descriptions_newline_bulletpoint(view: View) -> str:
    return _bullet_points(_image_descriptions(view))


@variable(
    "categoryNameBulletpoints",
    Layer.CATEGORY,
    "The names of the categories, one per line.",
    example="- RECIPES",
)
def category_name_bulletpoints(view: View) -> str:
    return _bullet_points(view.source.categories)


def _image_descriptions(view: View) -> list[str]:
    return [f"{name}: {description}" for name, description in view.source.categories.items()]


def _bullet_points(items: Iterable[str]) -> str:
    return "".join(f"\n- {item}" for item in items)
