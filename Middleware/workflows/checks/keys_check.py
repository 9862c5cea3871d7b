"""What `--validate` says of the keys file: its own faults, and what fits no user or no folder.

Source: spec keys.md 1, 7.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from Middleware.common.errors import ConfigError, ConfigMissing
from Middleware.common.instance_global_variables import LaunchFacts
from Middleware.config.json_positions import place_findings
from Middleware.config.key_file import KeyEntry, lost_patterns, mixed_pair, read_keys
from Middleware.config.key_ring import bytes_of_key_file, keys_path, mode_fault
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.users import UserSettings, load_user
from Middleware.config.validation import ERROR, NOTE, WARNING, Finding
from Middleware.services.key_folders import is_discussion
from Middleware.workflows.checks.config_check import finding_of


def keys_file_findings(snapshot: ConfigSnapshot, facts: LaunchFacts, users: Sequence[str]) -> list[Finding]:
    """Every finding, with its place; none where there is no file and none was named. `users`: who is served,
    for the check all users of the tree.
    """
    try:
        path = keys_path(facts)
        raw = bytes_of_key_file(path)
        entries = read_keys(raw, path.name)
    except ConfigMissing as error:
        return [finding_of(error)] if facts.keys_file is not None else []
    except ConfigError as error:
        return [replace(finding_of(error), excerpt="")]  # the line may hold a digest
    findings = [*_of_file(path), *lost_patterns(entries, users, path.name)]
    for user in _readable(snapshot, users):
        findings += _of_user(entries, user, path.name)
    findings += (
        Finding(path.name, f"/keys/{index}/expires", NOTE, f"the key {entry.name} has expired")
        for index, entry in enumerate(entries)
        if entry.has_expired(time.time())
    )
    return place_findings(findings, raw)


def _of_file(path: Path) -> Iterator[Finding]:
    if os.name == "posix" and (why := mode_fault(path)):
        yield Finding(path.name, "", WARNING, why)


def _readable(snapshot: ConfigSnapshot, users: Sequence[str]) -> Iterator[UserSettings]:
    """Those whose files can be read; the others are findings of their own."""
    for name in users:
        try:
            yield load_user(snapshot, name)
        except ConfigError:
            continue


def _of_user(entries: Sequence[KeyEntry], user: UserSettings, file: str) -> Iterator[Finding]:
    for index, entry in enumerate(entries):
        if entry.folder is None or not entry.may_ask(user.name):
            continue
        place = f"/keys/{index}/folder"
        if user.encrypt_using_api_key:
            yield Finding(file, place, ERROR, mixed_pair(entry.name, user.name))
        elif entry.folder and is_discussion(user, entry.folder):
            yield Finding(file, place, ERROR, folder_is_discussion(entry.folder, user.name))


def folder_is_discussion(folder: str, user: str) -> str:
    """What is wrong with a key's folder that has the name of a chat."""
    return f"user {user} has a discussion without a key that is called {folder!r}; use another folder"
