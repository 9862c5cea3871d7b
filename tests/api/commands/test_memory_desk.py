"""What the actions of `--memory` work with. Source: spec memory.md 13.1, 15, operate.md 6."""

from __future__ import annotations

from argparse import Namespace

import pytest

from Middleware.api.commands.memory_desk import Wishes, desk_of
from Middleware.services.key_folders import KEY, key_in


class TestWishes:
    """The options of the command line."""

    def test_what_is_not_given_is_not_wished_for(self):
        assert Wishes.of(Namespace(preview=True)) == Wishes(preview=True)

    def test_the_options_that_only_some_actions_take_are_named(self):
        given = Namespace(preview=True, matching="x", for_good=True, keep_going=True)
        assert Wishes.of(given).options() == ["--matching", "--for-good", "--keep-going"]


class TestDesk:
    """The user and the folders."""

    def test_the_old_name_of_the_key_is_read_where_ours_is_not_set(self, house, monkeypatch):
        monkeypatch.setenv("WILMER_API_KEY", "old")
        assert key_in(KEY) == "old"
        monkeypatch.setenv("HEADRACE_API_KEY", "new")
        assert key_in(KEY) == "new"

    @pytest.mark.parametrize(("name", "known"), [("trip", True), ("walk", False)])
    def test_a_discussion_is_found_where_it_is(self, house, name, known):
        house.remember()
        desk = desk_of(Wishes())
        assert desk.user.name == "alice"
        assert bool(desk.folders_of(name).files(name)) is known
        assert [each for _, each in desk.discussions()] == ["trip"]
