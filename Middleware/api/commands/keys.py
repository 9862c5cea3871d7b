"""`--keys ACTION [NAME] [FIELD=VALUE ...]`: makes, lists, revokes and exchanges the keys of clients.

A new key is printed once, alone on the standard output; the file holds its digest. All else is said on the
standard error. Source: spec keys.md 7.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from Middleware.api.command_registry import COMMANDS, Command, OwnArguments
from Middleware.common.errors import ConfigError, ConfigMissing
from Middleware.common.instance_global_variables import launch_facts
from Middleware.config.key_edits import EMPTY, with_digest, with_entry, without_entry
from Middleware.config.key_file import (
    ENTRY_KEYS,
    LIMIT_KEYS,
    KeyEntry,
    digest_of,
    keys_findings,
    mixed_pair,
    read_keys,
)
from Middleware.config.key_ring import bytes_of_key_file, keys_path
from Middleware.config.loader import ConfigSnapshot, tree_of
from Middleware.config.users import UserSettings, load_user, user_names
from Middleware.services.discussion_folders import ArchiveRefused
from Middleware.services.key_folders import (
    count_discussions,
    folder_of_entry,
    folders_in_no_entry,
    is_discussion,
)
from Middleware.utilities.encryption_utils import hash_of_digest
from Middleware.utilities.file_locks import hold_lock, lock_file_for
from Middleware.utilities.file_utils import atomic_write
from Middleware.utilities.install_layout import program, quote_words, tree_words
from Middleware.utilities.standard_streams import lost_output
from Middleware.utilities.text_utils import count_of
from Middleware.workflows.checks.keys_check import folder_is_discussion

LEAST_CHARACTERS = 16
"""The digest of a shorter key can be guessed."""
_PREFIX = "hr-"
_FROM_STDIN = "-"


class _WrongWords(ValueError):
    """What the command line says cannot be done; the text says why."""


class _NotShown(Exception):
    """A new key could not be printed; the text says why."""


@COMMANDS.register("keys")
class Keys(Command):
    """Looks after the keys file."""

    def add_arguments(self, parser: OwnArguments) -> None:
        parser.add_argument(
            "--keys",
            nargs="+",
            metavar="ACTION",
            help=f"Look after the keys of clients. The actions are {', '.join(ACTIONS)}.",
        )

    def run(self, arguments: Namespace) -> int:
        """Exit status 0; 1 for a file or a name that is at fault; 2 for a usage error."""
        name, *words = arguments.keys
        action = ACTIONS.get(name)
        try:
            if action is None:
                raise _WrongWords(f"found {name!r}, allowed: {', '.join(ACTIONS)}")
            return action(keys_path(launch_facts()), words)
        except _WrongWords as error:
            print(f"--keys: {error}", file=sys.stderr)
            return 2
        except (ConfigError, ArchiveRefused) as error:
            _tell(f"error: {error}")
        except _NotShown as error:
            _tell(f"error: nothing was changed, because the new key cannot be shown: {error}")
        except OSError as error:
            _tell(f"error: {error.filename or 'the keys file'}: {error.strerror or error}")
        return 1


def _tell(sentence: str) -> None:
    print(sentence, file=sys.stderr)


def new_key() -> str:
    """A key that nobody guesses: 32 characters and a mark that shows whose it is."""
    return _PREFIX + secrets.token_urlsafe(24)


# --------------------------------------------------------------------------
# The file: its text as it is, and as it will be.


def _text_of(path: Path) -> str:
    """The text of a file without faults; one that is not there has no entries. Raises ConfigError."""
    try:
        raw = bytes_of_key_file(path)
    except ConfigMissing:
        return EMPTY
    read_keys(raw, path.name)
    return raw.decode("utf-8")


def _entries_of(path: Path) -> tuple[KeyEntry, ...]:
    return read_keys(_text_of(path).encode("utf-8"), path.name)


def _edit(path: Path, change: Callable[[str], str], new_key: str = "") -> None:
    """Write the text that `change` makes of the text as it is, under a lock. Raises what it raises, OSError,
    _NotShown.

    A new file can be read by its owner alone; another keeps its mode. `new_key` is printed first: the file
    gets no key that nobody has.
    """
    with hold_lock(lock_file_for(path)):
        made = change(_text_of(path))
        if new_key:
            _show(new_key)
        try:
            atomic_write(path, made.encode("utf-8"), new_mode=0o600)
        except OSError:
            if new_key:
                _tell("the key that was printed is not valid, because it could not be written")
            raise


def _show(key: str) -> None:
    """Print a key, alone on its line. Raises _NotShown."""
    try:
        print(key, flush=True)
    except OSError as error:
        raise _NotShown(error.strerror or error) from error
    if lost := lost_output():
        raise _NotShown(lost.strerror or lost) from lost


def _entry_named(path: Path, words: Sequence[str], action: str) -> KeyEntry:
    """Raises _WrongWords for another number of words than one, ConfigError for a name that is not there."""
    if len(words) != 1:
        raise _WrongWords(f"{action}: give the NAME of one key")
    entries = _entries_of(path)
    for entry in entries:
        if entry.name == words[0]:
            return entry
    known = ", ".join(entry.name for entry in entries) or "none"
    raise ConfigError(f"there is no key {words[0]!r}; there are: {known}", file=path.name)


# --------------------------------------------------------------------------
# add


def _add(path: Path, words: Sequence[str]) -> int:
    if not words or "=" in words[0]:
        raise _WrongWords("add: give a NAME and users=..., for example: --keys add ann-laptop users=ann")
    fields = _fields_of(words[1:])
    given = fields.pop("key", None)
    key = new_key() if given is None else _key_of(sys.stdin.read())
    entry = {"name": words[0], "sha256": digest_of(key), **fields}
    users = _users_for(entry)
    _refuse_discussion(entry, users)

    def change(text: str) -> str:
        for one in read_keys(text.encode("utf-8"), path.name):
            if one.sha256 == entry["sha256"]:
                raise ConfigError(f"this key is there already: it is called {one.name}", file=path.name)
        return with_entry(text, entry)

    _edit(path, change, key if given is None else "")
    if given is not None and len(key) < LEAST_CHARACTERS:
        _tell(f"WARNING: the key has under {LEAST_CHARACTERS} characters, so its digest can be guessed")
    _tell(f"{words[0]} was added to {path}")
    _tell_of_memories(_entry_of(path, words[0]), _entries_of(path), users)
    return 0


def _key_of(text: str) -> str:
    """The key that was piped. Raises _WrongWords for a text that no client can send."""
    key = text.removeprefix("\ufeff").strip()  # editors of Windows begin a file with it
    if not key:
        raise _WrongWords("add: no key came from the standard input")
    if len(key.splitlines()) > 1 or "\0" in key:
        raise _WrongWords("add: the standard input is not one line of text, allowed: one key in UTF-8")
    return key


def _entry_of(path: Path, name: str) -> KeyEntry:
    return next(entry for entry in _entries_of(path) if entry.name == name)


def _fields_of(words: Sequence[str]) -> dict[str, Any]:
    """The fields of an entry, from `FIELD=VALUE` words. Raises _WrongWords."""
    fields: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name in fields or name in limits:
            raise _WrongWords(f"add: found {word!r}, allowed: FIELD=VALUE, each field once")
        if name == "key":
            if value != _FROM_STDIN:
                raise _WrongWords(
                    "add: a key on the command line can be seen by others; give key=- and pipe it"
                )
            fields[name] = value
        elif name in LIMIT_KEYS:
            limits[name] = _limit(name, value)
        elif name in ENTRY_KEYS and name not in ("name", "sha256", "limits"):
            fields[name] = _value(name, value)
        else:
            known = [one for one in ENTRY_KEYS if one not in ("name", "sha256", "limits")]
            raise _WrongWords(f"add: found {name!r}, allowed: {', '.join([*known, *LIMIT_KEYS, 'key'])}")
    if "users" not in fields:
        raise _WrongWords("add: users=... is missing; give names with commas, * for all, or nothing for none")
    return {**fields, **({"limits": limits} if limits else {})}


def _value(name: str, value: str) -> Any:
    if name == "users":
        return [user for user in (one.strip() for one in value.split(",")) if user]
    if name == "metrics":
        return {"true": True, "false": False}.get(value, value)
    return value


def _limit(name: str, value: str) -> Any:
    if name == "costPerDay":
        return _cost(value)
    number = _number(value)
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _cost(value: str) -> dict[str, Any]:
    """`USD:2.5,EUR:1`: currency -> amount. Raises _WrongWords for a currency that stands there twice."""
    amounts: dict[str, Any] = {}
    for one in value.split(","):
        currency, _, amount = one.rpartition(":")
        currency = currency.strip() or "USD"
        if currency in amounts:
            raise _WrongWords(
                f"add: found {currency} twice in costPerDay={value}, allowed: each currency once"
            )
        amounts[currency] = _number(amount)
    return amounts


def _number(text: str) -> Any:
    """The number; a text that is none is left for the check to refuse."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _users_for(entry: Mapping[str, Any]) -> list[UserSettings]:
    """The users that the entry may ask. Raises _WrongWords for an entry with faults."""
    if faults := keys_findings({"keys": [entry]}):
        about = "; ".join(f"{one.pointer.removeprefix('/keys/0/')}: {one.message}" for one in faults)
        raise _WrongWords(f"add: {about}")
    (made,) = read_keys(_document(entry))
    return [user for user in _all_users() if made.may_ask(user.name)]


def _document(entry: Mapping[str, Any]) -> bytes:
    return with_entry(EMPTY, entry).encode()


def _all_users() -> Iterator[UserSettings]:
    """The served users whose files can be read; without `--User` all of the tree."""
    facts = launch_facts()
    snapshot: ConfigSnapshot = tree_of(facts.config_directory).snapshot()
    for name in facts.users or sorted(user_names(snapshot)):
        try:
            yield load_user(snapshot, name)
        except ConfigError as error:
            _tell(f"WARNING: {error}")


def _refuse_discussion(entry: Mapping[str, Any], users: Sequence[UserSettings]) -> None:
    folder = entry.get("folder")
    for user in users:
        if folder and is_discussion(user, folder):
            raise ArchiveRefused(folder_is_discussion(folder, user.name))


def _tell_of_memories(entry: KeyEntry, entries: Sequence[KeyEntry], users: Sequence[UserSettings]) -> None:
    """How many chats the key finds, and which it does not. Source: keys.md 7, moving in."""
    folder = folder_of_entry(entry)
    place = "the folder of chats without a key" if folder is None else f"the folder {folder}"
    for user in users:
        count = count_discussions(user, folder)
        _tell(f"user {user.name}: {place} holds {count_of(count, 'discussion')}")
        without = 0 if folder is None else count_discussions(user, None)
        others = folders_in_no_entry(user, entries)
        if user.encrypt_using_api_key:
            _tell_of_encrypted(entry, user, without, others)
        else:
            _tell_of_plain(user, without, others)


def _tell_of_plain(user: UserSettings, without: int, others: Mapping[str, int]) -> None:
    """How a key goes on with chats of a user that encrypts nothing. `without`: how many have no key;
    `others`: as of `folders_in_no_entry`.
    """
    if without:
        _tell(
            f"user {user.name}: {count_of(without, 'discussion')} without a key stay out of reach of "
            "this key; folder= (empty) makes it go on with them"
        )
    for name, held in others.items():
        _tell(
            f"user {user.name}: {count_of(held, 'discussion')} in {name}, the folder of a key in no "
            f"entry; folder={name} makes this key go on with them"
        )


def _tell_of_encrypted(entry: KeyEntry, user: UserSettings, without: int, others: Mapping[str, int]) -> None:
    """The same of one whose cipher is the key, so that no other may have its folder."""
    if entry.folder is not None:
        _tell(f"WARNING: {mixed_pair(entry.name, user.name)}")
    if without:
        _tell(
            f"user {user.name}: {count_of(without, 'discussion')} without a key stay out of reach of "
            "this key; copy each to it, encrypted, with"
        )
        _tell(f"  {_memory_command(user.name, 'export', '<ID>', '<FILE>')}")
        _tell(
            f"  {_with_environment(_memory_command(user.name, 'import', '<FILE>'), HEADRACE_API_KEY='<key>')}"
        )
    for name, held in others.items():
        _tell(
            f"user {user.name}: {count_of(held, 'discussion')} in {name}, the folder of a key in no "
            "entry; that key alone can read them: add it with key=-"
        )


# --------------------------------------------------------------------------
# list, revoke, rotate


def _list(path: Path, words: Sequence[str]) -> int:
    if words:
        raise _WrongWords("list: it takes nothing more")
    entries = _entries_of(path)
    for entry in entries:
        print(_line_of(entry))
    print(f"{path}: {count_of(len(entries), 'key')}")
    for user in _all_users():
        for name, held in folders_in_no_entry(user, entries).items():
            print(
                f"user {user.name}: folder {name} of a key in no entry holds {count_of(held, 'discussion')}"
            )
    return 0


def _line_of(entry: KeyEntry) -> str:
    folder = folder_of_entry(entry)
    said = [
        f"users {','.join(entry.users) or 'none'}",
        "folder of chats without a key" if folder is None else f"folder {folder}",
        *_limits_of(entry),
        *([entry.priority] if entry.priority != "people" else ()),
        *([f"turns by {entry.turns_by}"] if entry.turns_by else ()),
        *(["metrics"] if entry.metrics else ()),
    ]
    if entry.expires is not None:
        day = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.expires))
        said.append(f"{'expired' if entry.has_expired(time.time()) else 'expires'} {day}")
    return f"{entry.name}: {', '.join(said)}"


def _limits_of(entry: KeyEntry) -> Iterator[str]:
    limits = entry.limits
    named = {
        "concurrent": limits.concurrent,
        "queued": limits.queued if limits.queued != LIMIT_KEYS["queued"].default else None,
        "requestsPerMinute": limits.requests_per_minute,
        "tokensPerDay": limits.tokens_per_day,
    }
    yield from (f"{name} {value}" for name, value in named.items() if value is not None)
    yield from (f"costPerDay {amount:g} {currency}" for currency, amount in limits.cost_per_day.items())


def _revoke(path: Path, words: Sequence[str]) -> int:
    entry = _entry_named(path, words, "revoke")
    _edit(path, lambda text: without_entry(text, entry.name))
    folder = folder_of_entry(entry)
    left = "with those of no key" if folder is None else f"in the folder {folder}"
    _tell(f"{entry.name} was revoked; its discussions stay {left}")
    return 0


def _rotate(path: Path, words: Sequence[str]) -> int:
    entry = _entry_named(path, words, "rotate")
    encrypting = [
        user.name for user in _all_users() if user.encrypt_using_api_key and entry.may_ask(user.name)
    ]
    folder = None if entry.folder is not None or encrypting else hash_of_digest(entry.sha256)
    key = new_key()
    _edit(path, lambda text: with_digest(text, entry.name, digest_of(key), folder), key)
    _tell(f"{entry.name} has a new key; the old one is no longer valid")
    for user in encrypting:
        _tell(f"user {user} encrypts with the key itself; move its discussions to the new key with")
        _tell(f"  {_rekey_command(user)}")
    return 0


def _rekey_command(user: str) -> str:
    ask = _memory_command(user, "rekey")
    return _with_environment(ask, HEADRACE_API_KEY="<old key>", HEADRACE_NEW_API_KEY="<new key>")


def _memory_command(user: str, *words: str) -> str:
    """`words` in angle brackets are for the reader to replace."""
    said = [quote_words(*tree_words(launch_facts()), "--User", user, "--memory"), *words]
    return " ".join([program(), *said])


def _with_environment(command: str, **values: str) -> str:
    """A command line that gives these variables to the command."""
    if os.name == "nt":
        return " & ".join([*(f"set {name}={value}" for name, value in values.items()), command])
    return " ".join([*(f"{name}={value}" for name, value in values.items()), command])


ACTIONS: Mapping[str, Callable[[Path, Sequence[str]], int]] = {
    "add": _add,
    "list": _list,
    "revoke": _revoke,
    "rotate": _rotate,
}
"""Name of an action -> what it does with the keys file and the words behind its name."""
