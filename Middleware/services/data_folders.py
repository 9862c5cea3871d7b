"""Where a user's discussions and locks are kept: the launch argument says, else the user's file, else the
public folder. Reads and makes nothing there. Source: spec workflows.md 1.1.
"""

from __future__ import annotations

from pathlib import Path

from Middleware.common.instance_global_variables import is_same_path, launch_facts
from Middleware.config.users import UserSettings
from Middleware.services.locking_service import lock_database


def discussions_root(user: UserSettings) -> Path:
    """Where discussions are kept: launch argument, user file, public folder. Source: workflows.md 1.1."""
    return _folder(launch_facts().discussion_directory, user.discussion_directory, "DiscussionIds")


def old_discussions(user: UserSettings) -> Path | None:
    """The install folder where old discussions may lie; None where another root is named: nothing is looked
    for elsewhere then. Source: memory.md 2.2.
    """
    facts = launch_facts()
    is_default = is_same_path(discussions_root(user), facts.data_root / "DiscussionIds")
    return facts.old_data_directory if is_default else None


def lock_database_of(user: UserSettings) -> Path:
    """The file of a user's locks; an old one counts only where no other folder is named.

    Source: workflows.md 11.
    """
    facts, folder = launch_facts(), lock_folder(user)
    is_default = is_same_path(folder, facts.data_root / "SqlLiteDBs")
    return lock_database(folder, user.name, install=facts.old_data_directory if is_default else None)


def route_database_of(user: UserSettings) -> Path:
    """The file of the vectors of a user's routing examples. Source: spec agents.md 8."""
    return lock_folder(user) / f"{user.name}_routes.db"


def lock_folder(user: UserSettings) -> Path:
    """Where the lock database is kept: launch argument, user file, public folder.

    Source: workflows.md 1.1.
    """
    return _folder(launch_facts().sqlite_directory, user.sql_lite_directory, "SqlLiteDBs")


def _folder(of_launch: Path | None, of_user: str, default: str) -> Path:
    if of_launch is not None:
        return of_launch
    return Path(of_user).expanduser() if of_user else launch_facts().data_root / default
