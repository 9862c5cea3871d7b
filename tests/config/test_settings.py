"""One field of a settings class says all that there is to know of a setting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType

import pytest

from Middleware.config.users import key_of, schema_of, setting, value_of


@dataclass(frozen=True, slots=True)
class Kitchen:
    burners_in_use: int = setting(2, "How many burners are lit.", minimum=1, maximum=6)
    gas_is_on: bool = setting(False, "Gas flows.")
    cook_name: str = setting("", "Who cooks.")
    dish: str = setting("soup", "What is cooked.", enum=["soup", "stew"])
    web_ui: str = setting("", "The screen.", key="webUI", pattern="^http", allowed="an address")
    spices: tuple[str, ...] | None = setting(
        None, "In order.", type="array", read=lambda value: tuple(value) if isinstance(value, list) else None
    )
    notes: Mapping[str, str] = setting(MappingProxyType({}), "Remarks.", type="object", level="warning")
    unsaid: int = setting(0)


FIELDS = {one.name: one for one in fields(Kitchen)}


@pytest.mark.parametrize(
    ("name", "key", "stated"),
    [
        ("burners_in_use", "burnersInUse", {"type": "integer", "default": 2, "minimum": 1, "maximum": 6, "description": "How many burners are lit."}),
        ("gas_is_on", "gasIsOn", {"type": "boolean", "default": False, "x-level": "warning", "description": "Gas flows."}),
        ("cook_name", "cookName", {"type": "string", "description": "Who cooks."}),
        ("dish", "dish", {"enum": ["soup", "stew"], "default": "soup", "description": "What is cooked."}),
        ("web_ui", "webUI", {"type": "string", "pattern": "^http", "x-allowed": "an address", "description": "The screen."}),
        ("spices", "spices", {"type": "array", "description": "In order."}),
        ("notes", "notes", {"type": "object", "x-level": "warning", "description": "Remarks."}),
        ("unsaid", "unsaid", {"type": "integer", "default": 0}),
    ],
)  # fmt: skip
def test_key_and_schema(name, key, stated):
    """A type that the default shows need not be said; an empty default goes without saying."""
    assert (key_of(FIELDS[name]), schema_of(FIELDS[name])) == (key, stated)


@pytest.mark.parametrize(
    ("name", "said", "value"),
    [
        ("burners_in_use", 4, 4),
        ("burners_in_use", "4", 4),
        ("burners_in_use", 0, None),
        ("burners_in_use", "many", None),
        ("gas_is_on", 1, True),
        ("cook_name", "Ana", "Ana"),
        ("cook_name", 5, None),
        ("spices", ["salt"], ("salt",)),
        ("spices", "salt", None),
    ],
)
def test_values(name, said, value):
    """None: of a wrong type, or below the least; it counts as not set."""
    assert value_of(FIELDS[name], said) == value


def test_defaults():
    assert (Kitchen().burners_in_use, dict(Kitchen().notes), Kitchen().spices) == (2, {}, None)
