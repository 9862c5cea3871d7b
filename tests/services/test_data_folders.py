"""Where a user's discussions and locks are kept (workflows.md 1.1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from Middleware.common.instance_global_variables import LaunchFacts, launch_facts, set_launch_facts
from Middleware.config.users import UserSettings
from Middleware.services.data_folders import (
    discussions_root,
    lock_database_of,
    lock_folder,
    old_discussions,
    route_database_of,
)


@pytest.fixture
def facts():
    before = launch_facts()
    yield lambda **more: set_launch_facts(LaunchFacts(public_directory=Path("/p"), **more))
    set_launch_facts(before)


@pytest.mark.parametrize(
    ("launch", "user", "root"),
    [
        ({}, {}, "/p/DiscussionIds"),
        ({}, {"discussion_directory": "/u"}, "/u"),
        ({"discussion_directory": Path("/l")}, {"discussion_directory": "/u"}, "/l"),
    ],
    ids=["public", "user", "launch"],
)
def test_discussions(facts, launch, user, root):
    """The launch argument, else the user's folder, else the public one."""
    facts(**launch)
    assert discussions_root(UserSettings("ana", **user)) == Path(root)


@pytest.mark.parametrize(
    ("launch", "user", "root"),
    [
        ({}, {}, "/p/SqlLiteDBs"),
        ({}, {"sql_lite_directory": "~/x"}, str(Path("~/x").expanduser())),
        ({"sqlite_directory": Path("/l")}, {}, "/l"),
    ],
    ids=["public", "user", "launch"],
)
def test_locks(facts, launch, user, root):
    """The same for the lock database."""
    facts(**launch)
    assert lock_folder(UserSettings("ana", **user)) == Path(root)


def test_the_vectors_of_routing_examples_are_beside_the_locks(facts):
    """A file for each user."""
    facts(sqlite_directory=Path("/l"))
    assert route_database_of(UserSettings("ana")) == Path("/l/ana_routes.db")


class TestOldPlaces:
    """Data of old programs counts only where the roots are those of this install. Source: memory.md 2.2."""

    @pytest.fixture
    def install(self, monkeypatch, tmp_path):
        """The program's folder, which is also where old data lies."""
        before = launch_facts()
        for name in ("INSTALL_DIRECTORY", "OLD_DATA_DIRECTORY"):
            monkeypatch.setattr(f"Middleware.common.instance_global_variables.{name}", tmp_path)
        yield tmp_path
        set_launch_facts(before)

    def test_the_default_roots_have_old_places(self, install):
        set_launch_facts(LaunchFacts())
        assert old_discussions(UserSettings("ana")) == install

    @pytest.mark.parametrize("name", ["public_directory", "config_directory", "discussion_directory"])
    def test_a_named_root_is_the_only_place_of_discussions(self, install, name):
        set_launch_facts(LaunchFacts(**{name: install / "else"}))
        assert old_discussions(UserSettings("ana")) is None

    def test_so_is_the_folder_of_the_user_file(self, install):
        set_launch_facts(LaunchFacts())
        assert old_discussions(UserSettings("ana", discussion_directory=str(install / "else"))) is None

    def test_naming_the_default_root_changes_nothing(self, install):
        set_launch_facts(LaunchFacts(public_directory=install / "Public" / "." / "../Public"))
        assert old_discussions(UserSettings("ana")) == install

    @pytest.mark.parametrize(
        ("launch", "user", "is_old"),
        [
            ({}, {}, True),
            ({"public_directory": Path("/else")}, {}, False),
            ({"config_directory": Path("/else/Configs")}, {}, False),
            ({"sqlite_directory": Path("/else")}, {}, False),
            ({}, {"sql_lite_directory": "/else"}, False),
            ({"discussion_directory": Path("/else")}, {}, True),
        ],
        ids=["default", "public", "configs", "launch", "user", "only-discussions"],
    )
    def test_lock_databases(self, install, launch, user, is_old):
        (install / "WilmerDb.ana.sqlite").touch()
        set_launch_facts(LaunchFacts(**launch))
        found = lock_database_of(UserSettings("ana", **user))
        assert (found == install / "WilmerDb.ana.sqlite") is is_old
