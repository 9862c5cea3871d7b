"""The command line: words -> one frozen value. Reads no config but what a default needs (port, log file).

Source: spec frontend-api.md 2.2 and workflows.md 17.4.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

import Middleware.utilities.streaming_utils  # noqa: F401  (user files may hold the keys of cleaning rules)
from Middleware.api import commands
from Middleware.api.command_registry import Command, CommandArguments, nonempty_text
from Middleware.api.requests.access import (
    LOOPBACK_NAMES,
    MOST_BODY_BYTES,
    NEEDS_KEY,
    NEEDS_KEY_BESIDE_FILE,
    AccessRules,
    ConsoleWish,
    ServerRules,
)
from Middleware.common.constants import HISTORY_DAYS, VERSION
from Middleware.common.errors import ConfigError
from Middleware.common.instance_global_variables import LaunchFacts
from Middleware.common.registry import load_all
from Middleware.config.key_ring import has_keys_file
from Middleware.config.keys import MOST_AT_ONCE
from Middleware.config.loader import ConfigSnapshot, tree_of
from Middleware.config.users import DEFAULT_PORT, UserSettings, load_user, pointer_user
from Middleware.utilities.install_layout import data_directory, default_public, layout_notes

logger = logging.getLogger(__name__)

MULTI_USER_PORT = 5050
DEFAULT_THREADS = 400
CONSOLE_KEY = "HEADRACE_CONSOLE_KEY"
"""The environment variable with the console's key, for when the command line gives none."""
LEAST_KEY = 8
MIB = 1024 * 1024
LEVELS = ("request", "endpoint")
"""What `--concurrency` counts: whole requests, or calls to a model."""
_OLD_LEVELS = {"wilmer": "request"}
"""WilmerAI's spelling, which users' service files contain -> ours."""
OPEN = "the console shows every prompt to anyone who can reach this address; --console-key closes it"


@dataclass(frozen=True, slots=True)
class Launch:
    """What the command line said, resolved. `command`: what is to run instead of a server, or None.

    `log_folder` None: no log file. `warnings` are said once logging is set up.
    """

    facts: LaunchFacts
    rules: ServerRules
    host: str
    port: int
    threads: int
    log_level: str
    log_folder: Path | None
    strict: bool
    command: Command | None
    arguments: argparse.Namespace
    warnings: tuple[str, ...]


def parse(words: Sequence[str]) -> Launch:
    """Raises SystemExit (status 2) for a usage error."""
    given, command = _parse_arguments(list(words))
    facts = _facts(given)
    snapshot = tree_of(facts.config_directory).snapshot()
    warnings = layout_notes(facts)
    settings = _settings(snapshot, facts)
    log_folder = _log_folder(given, facts, settings, warnings)
    if given.file_logging or (settings is not None and settings.use_file_logging):
        facts = replace(facts, log_folder=log_folder)
    host = given.listen
    return Launch(
        facts=facts,
        rules=ServerRules(
            AccessRules(
                tuple(given.cors_origin), tuple(given.require_api_key), host in LOOPBACK_NAMES - {"0.0.0.0"}
            ),
            given.max_queue,
            _console(given, facts, warnings),
            given.max_body_mb * MIB,
        ),
        host=host,
        port=_port(given, facts, settings, warnings),
        threads=given.threads,
        log_level=given.log_level,
        log_folder=facts.log_folder,
        strict=given.strict,
        command=command,
        arguments=given,
        warnings=tuple(warnings),
    )


def _facts(given: argparse.Namespace) -> LaunchFacts:
    config = _path(given.ConfigDirectory) or _path(given.config_directory)
    public = _path(given.PublicDirectory) or default_public(config)
    users = [user.strip() for user in given.User if user.strip()]
    if not users and (given.user or "").strip():
        users = [given.user.strip()]
    return LaunchFacts(
        public_directory=public,
        config_directory=config or public / "Configs",
        data_directory=data_directory(public),
        users=tuple(dict.fromkeys(users)),
        discussion_directory=_path(given.DiscussionDirectory),
        sqlite_directory=_path(given.UserLevelSqlLiteDirectory),
        logging_directory=_path(given.LoggingDirectory),
        history_directory=_path(given.history),
        history_days=given.history_days,
        keys_file=_path(given.keys_file),
        concurrency=given.concurrency,
        concurrency_timeout_s=given.concurrency_timeout,
        concurrency_level=given.concurrency_level,
    )


def _path(value: str | None) -> Path | None:
    """A folder; blank counts as absent, slashes at the end are cut, `~` is the home folder."""
    text = (value or "").strip()
    cut = text.rstrip("/\\") or text[:1]
    return Path(cut).expanduser() if cut else None


def _settings(snapshot: ConfigSnapshot, facts: LaunchFacts) -> UserSettings | None:
    """The one user's settings; None in multi-user mode, or when they cannot be read."""
    if len(facts.users) > 1:
        return None
    try:
        return load_user(snapshot, facts.users[0] if facts.users else pointer_user(snapshot))
    except ConfigError:
        return None


def _port(
    given: argparse.Namespace, facts: LaunchFacts, settings: UserSettings | None, warnings: list[str]
) -> int:
    if given.port is not None:
        return int(given.port)
    if len(facts.users) > 1:
        warnings.append(
            f"with several users the server listens on port {MULTI_USER_PORT}; "
            "the ports in the user files are ignored"
        )
        return MULTI_USER_PORT
    if settings is None:
        warnings.append(f"the user's file cannot be read, so the server listens on port {DEFAULT_PORT}")
        return DEFAULT_PORT
    return settings.port


def _log_folder(
    given: argparse.Namespace, facts: LaunchFacts, settings: UserSettings | None, warnings: list[str]
) -> Path:
    """`<user>` in the folder's name is the one user, or removed with a warning."""
    folder = facts.logging_directory or facts.data_root / "logs"
    text = str(folder)
    if "<user>" not in text:
        return folder
    if settings is not None:
        return Path(text.replace("<user>", settings.name))
    warnings.append("<user> was removed from the logging directory, because there is no single user")
    return Path(text.replace("<user>", ""))


def _at_least(least: int, most: int | None = None) -> type:
    """A whole number that is not smaller, and not larger than `most`."""

    def whole_number(text: str) -> int:
        number = int(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}")
        if most is not None and number > most:
            raise argparse.ArgumentTypeError(f"must be at most {most}")
        return number

    return whole_number  # type: ignore[return-value]


def _level(text: str) -> str:
    """The level in our words; an unknown one is left for argparse to refuse."""
    return _OLD_LEVELS.get(text, text)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not seconds > 0:
        raise argparse.ArgumentTypeError("must be more than 0")
    if seconds > threading.TIMEOUT_MAX:
        raise argparse.ArgumentTypeError(f"must be at most {threading.TIMEOUT_MAX:.0f}")
    return seconds


def _origin(text: str) -> str:
    """An origin as browsers send it. Raises ArgumentTypeError."""
    origin = text.strip().lower()
    scheme, _, host = origin.partition("://")
    host = host.rstrip("/")
    if origin in ("*", "null"):
        return origin
    if scheme and host and "/" not in host:
        return f"{scheme}://{host}"
    raise argparse.ArgumentTypeError(
        f"{text!r} is not an origin; give the scheme, the host name and, if needed, the port, "
        "for example https://llm.example.com, or * for all"
    )


def _console_key(text: str) -> str:
    """A key that nobody guesses, and that a header can carry. Raises ArgumentTypeError."""
    key = text.strip()
    if len(key) < LEAST_KEY:
        raise argparse.ArgumentTypeError(f"must have at least {LEAST_KEY} characters")
    if any(letter.isspace() or not letter.isprintable() for letter in key):
        raise argparse.ArgumentTypeError("must be one word of printable characters")
    return key


def _console(given: argparse.Namespace, facts: LaunchFacts, warnings: list[str]) -> ConsoleWish:
    """What is wanted of the console. Raises SystemExit (status 2) for what cannot be had."""
    key = given.console_key or ""
    try:
        if not key and os.environ.get(CONSOLE_KEY, "").strip():
            key = _console_key(os.environ[CONSOLE_KEY])
    except argparse.ArgumentTypeError as error:
        raise _usage(f"{CONSOLE_KEY} {error}") from None
    if given.console == "view" and not key:
        if given.require_api_key:
            raise _usage(NEEDS_KEY)
        if has_keys_file(facts):
            raise _usage(NEEDS_KEY_BESIDE_FILE)
        warnings.append(OPEN)
    return ConsoleWish(given.console, key, given.console_memory)


def _usage(sentence: str) -> SystemExit:
    print(f"headrace: error: {sentence}", file=sys.stderr)
    return SystemExit(2)


def _api_key(text: str) -> str:
    """A key as `access.api_key_of` reads it from a client. Raises ArgumentTypeError: an empty one would let
    everybody in who sends none.
    """
    key = text.strip()
    if not key:
        raise argparse.ArgumentTypeError("must not be empty")
    return key


class _NotPlain(Exception):
    """A word that is no argument of the server, or does not fit it."""


class _QuietParser(argparse.ArgumentParser):
    """Says nothing and does not exit."""

    def error(self, message: str) -> NoReturn:
        raise _NotPlain


def _plain(words: list[str]) -> argparse.Namespace | None:
    """The values of a command line that holds nothing but right arguments of the server, else None."""
    parser = _QuietParser(add_help=False, allow_abbrev=False)
    _add_server(parser)
    try:
        given, others = parser.parse_known_args(words)
    except _NotPlain:
        return None
    return None if others else given


def _parse_arguments(words: list[str]) -> tuple[argparse.Namespace, Command | None]:
    """The values and the command. Commands are loaded only where something is not the server's own.

    Raises SystemExit (status 2) for a usage error.
    """
    if (given := _plain(words)) is not None:
        return given, None
    parser, own = full_parser()
    return parser.parse_args(words), own.find_command(words)


def full_parser() -> tuple[argparse.ArgumentParser, CommandArguments]:
    """All arguments that `--help` lists, and those of them that are the commands'."""
    parser = argparse.ArgumentParser(
        prog="headrace",
        description="Headrace serves workflows to OpenAI, Ollama and other chat clients.",
        epilog="Started as ./run (run.bat on Windows), it also takes --local-model, "
        "which starts a small real model beside the server.",
        allow_abbrev=False,
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="help", help="Show this help and exit.")
    _add_server(parser)
    load_all(commands)
    return parser, CommandArguments(parser)


def _add_server(parser: argparse.ArgumentParser) -> None:
    _add_folders_and_users(parser)
    _add_turns(parser)
    _add_access(parser)
    _add_console_and_log(parser)


def _add_folders_and_users(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "config_directory", nargs="?", help="Read the configuration from this folder, like --ConfigDirectory."
    )
    add("user", nargs="?", help="Serve this one user, like --User.")
    add(
        "--ConfigDirectory",
        metavar="PATH",
        help="Read the configuration from this folder. The default is Configs in the public folder.",
    )
    add(
        "--PublicDirectory",
        metavar="PATH",
        help="Use this public folder: it holds Configs, DiscussionIds, SqlLiteDBs and logs.",
    )
    add(
        "--LoggingDirectory",
        metavar="PATH",
        help="Write log files to this folder. <user> in the path becomes the name of the only user.",
    )
    add("--UserLevelSqlLiteDirectory", metavar="PATH", help="Keep the lock databases in this folder.")
    add("--DiscussionDirectory", metavar="PATH", help="Keep the discussions in this folder.")
    add(
        "--User",
        action="append",
        default=[],
        metavar="NAME",
        help="Serve this user. Repeat it to serve several. The default is the user in _current-user.json.",
    )
    add("--file-logging", action="store_true", help="Write log files as well.")
    add(
        "--port",
        type=_at_least(0, 65535),
        metavar="N",
        help="Listen on this port; 0 takes a free one. The default is the user file's port, "
        f"or {DEFAULT_PORT}; with several users it is {MULTI_USER_PORT}.",
    )
    add(
        "--listen",
        nargs="?",
        default="127.0.0.1",
        const="0.0.0.0",
        metavar="ADDR",
        help="Listen on this address, or on all addresses if you give none. "
        "The default is 127.0.0.1, which only this machine can reach.",
    )


def _add_turns(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--concurrency",
        type=_at_least(0, MOST_AT_ONCE),
        default=1,
        metavar="N",
        help="Run at most this many requests at once; 0 means no limit. The default is 1.",
    )
    add(
        "--concurrency-timeout",
        type=_seconds,
        default=900.0,
        metavar="S",
        help="Let a request wait for its turn for at most this many seconds. The default is 900.",
    )
    add(
        "--concurrency-level",
        type=_level,
        choices=LEVELS,
        default=LEVELS[0],
        help="Choose what --concurrency counts: whole requests, or calls to models. The default is request.",
    )
    add(
        "--threads",
        type=_at_least(1),
        default=DEFAULT_THREADS,
        metavar="N",
        help=f"Use this many threads; each streaming or waiting request holds one. "
        f"The default is {DEFAULT_THREADS}.",
    )
    add(
        "--max-queue",
        type=_at_least(0),
        default=0,
        metavar="N",
        help="Let at most this many requests wait, and refuse others with 503. 0, the default, "
        "sets no limit.",
    )


def _add_access(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--max-body-mb",
        type=_at_least(1),
        default=MOST_BODY_BYTES // MIB,
        metavar="MB",
        help=f"Refuse request bodies larger than this many MiB with 413. "
        f"The default is {MOST_BODY_BYTES // MIB}.",
    )
    add(
        "--cors-origin",
        action="append",
        type=_origin,
        default=[],
        metavar="ORIGIN",
        help="Accept requests from web pages of this origin, and requests to its host name; * accepts all. "
        "Repeat it for several origins.",
    )
    add(
        "--require-api-key",
        action="append",
        type=_api_key,
        default=[],
        metavar="KEY",
        help="Answer only clients that send this key. Repeat it to accept several keys.",
    )
    add(
        "--keys-file",
        type=nonempty_text,
        metavar="PATH",
        help="Read from this file who may ask what. The default is Keys.json in the configuration folder, "
        "if it exists.",
    )


def _add_console_and_log(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--console",
        choices=("off", "view", "edit"),
        help="Turn the console off, or let it show runs and workflows, or edit workflows as well.",
    )
    add(
        "--console-key",
        type=_console_key,
        metavar="KEY",
        help="Let anyone who has this key use the console from anywhere. "
        f"It needs at least {LEAST_KEY} characters. You can also set it as {CONSOLE_KEY} in the environment.",
    )
    add(
        "--console-memory",
        type=_at_least(0),
        default=16,
        metavar="MB",
        help="Keep at most this many MiB of prompts and answers for the console; 0 keeps none. "
        "The default is 16.",
    )
    add(
        "--log-level",
        type=str.upper,
        choices=("DEBUG", "INFO", "WARNING", "ERROR"),
        default="INFO",
        help="Log messages of this level and above. DEBUG includes prompts and answers. The default is INFO.",
    )
    add(
        "--history",
        type=nonempty_text,
        metavar="DIR",
        help="Keep the numbers of all requests in this folder: names, times, tokens and costs, no texts. "
        "The default keeps none.",
    )
    add(
        "--history-days",
        type=_at_least(1, 36500),
        default=HISTORY_DAYS,
        metavar="N",
        help=f"Keep them for this many days. The default is {HISTORY_DAYS}.",
    )
    add("--strict", action="store_true", help="Refuse to start if the configuration has errors.")
    add("--version", action="version", version=f"headrace {VERSION}", help="Print the version and exit.")
