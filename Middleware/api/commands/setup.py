"""`--setup`: a user of one's own in one minute. Finds a model server, asks it once, and writes a user with
endpoint and workflows; prints what chat programs need to know.

Everything is asked before anything is written. Source: spec workbench.md 7, operate.md 2.
"""

from __future__ import annotations

import os
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from Middleware.api.command_registry import COMMANDS, Command, OwnArguments
from Middleware.api.commands.setup_files import (
    ENDPOINT,
    KINDS,
    ChatKind,
    SetupPlace,
    draft_of,
    endpoint_folder_for,
    files_of_user,
    free_user_name,
    place_of_setup,
    seen_tree,
    why_no_user_name,
    write_setup,
)
from Middleware.api.commands.setup_questions import NOTHING, Questions
from Middleware.common.errors import ConfigError, ConfigMissing
from Middleware.common.instance_global_variables import launch_facts
from Middleware.common.types import JsonObject
from Middleware.config.key_ring import load_key_file
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.paths import KEYS_FILE
from Middleware.config.users import DEFAULT_PORT, pointer_user, settings_of
from Middleware.config.validation import ERROR, NOTE
from Middleware.llmapis.egress import place_of
from Middleware.llmapis.endpoint_probe import is_well, line, probe
from Middleware.llmapis.find_servers import (
    DEMO_TYPE,
    HEADRACE,
    OPENAI_TYPE,
    SPACING_S,
    FoundServer,
    addresses_to_ask,
    find_servers,
    own_files_that_use,
    search_addresses,
)
from Middleware.llmapis.found_endpoints import (
    CONTAINER_MARK,
    HOST_OF_CONTAINER,
    endpoint_document,
    is_variable_name,
    key_variable_of,
    likely_model,
)
from Middleware.utilities.config_text import json_bytes
from Middleware.utilities.install_layout import program, quote_words
from Middleware.utilities.text_utils import count_of
from Middleware.workflows.checks.config_check import check_users

USER = "assistant"
SERVICE = "https://api.openai.com"
DEMO = FoundServer("http://127.0.0.1:11434", "the built-in demo model", DEMO_TYPE, models=("demo",))
"""Its address is called by nobody."""
SHOWN_MODELS = 5
LISTED_MODELS = 50
INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class _Wishes:
    """What the questions gave."""

    endpoint: JsonObject
    folder: str
    user: str
    kind: ChatKind
    starts: bool


@COMMANDS.register("setup")
class Setup(Command):
    """Makes a user."""

    def __init__(self) -> None:
        self._user_to_serve: str | None = None

    def add_arguments(self, parser: OwnArguments) -> None:
        parser.add_argument(
            "--setup",
            action="store_true",
            help="Find your model server and create a user for it, step by step.",
        )
        parser.add_argument(
            "--yes",
            action="store_true",
            help="Let --setup ask nothing and take the default of every question.",
        )

    def run(self, arguments: Namespace) -> int:
        """Exit status 0; 1 when nothing could be written, 2 for a usage error, 130 when it was stopped."""
        facts = launch_facts()
        if len(facts.users) > 1:
            print("--setup creates one user: give --User once", file=sys.stderr)
            return 2
        if not arguments.yes and not sys.stdin.isatty():
            print(
                "--setup asks questions: run it in a terminal, or add --yes to take every default",
                file=sys.stderr,
            )
            return 2
        place = place_of_setup(facts)
        questions = Questions(arguments.yes)
        try:
            snapshot = seen_tree(place)
            wishes = _ask_all(questions, snapshot, facts.users[0] if facts.users else "")
            files = files_of_user(wishes.kind, wishes.user, wishes.endpoint, wishes.folder, snapshot)
            if not _is_valid(draft_of(snapshot, files), wishes.user):
                return 1
            written = write_setup(place, files, wishes.user)
        except (KeyboardInterrupt, EOFError):
            print("\nstopped; nothing was written")
            return INTERRUPTED
        except ValueError as error:
            print(f"error: {error}; nothing was written")
            return 1
        except OSError as error:
            print(f"error: {error.filename or place.config}: cannot be written: {error.strerror or error}")
            return 1
        _tell(place, written, wishes, arguments)
        if wishes.starts:
            self._user_to_serve = wishes.user
        return 0

    def words_to_serve(self, words: Sequence[str]) -> Sequence[str] | None:
        """The words of the command but its own, and the new user."""
        if self._user_to_serve is None:
            return None
        kept = [word for word in words if word not in ("--setup", "--yes")]
        return kept if launch_facts().users else [*kept, "--User", self._user_to_serve]


# --------------------------------------------------------------------------
# The questions, in their order.


def _ask_all(questions: Questions, snapshot: ConfigSnapshot, wanted_user: str) -> _Wishes:
    """`wanted_user`: the name that the command line gives. Raises ValueError, KeyboardInterrupt, EOFError."""
    if wanted_user and (why := why_no_user_name(snapshot, wanted_user)):
        raise ValueError(why)
    endpoint = _ask_endpoint(questions, snapshot, _Searches())
    user = questions.ask(
        "Name of the new user, which is the model name in your chat program",
        wanted_user or free_user_name(snapshot, USER),
        lambda name: why_no_user_name(snapshot, name),
    )
    print("What should it do?")
    kind = KINDS[questions.choose("Kind of user", [kind.name for kind in KINDS])]
    starts = questions.confirm("Start the server when the files are written?", default=False)
    return _Wishes(endpoint, endpoint_folder_for(snapshot, endpoint, user), user, kind, starts)


class _Searches:
    """What is asked of the network, no more often than each `SPACING_S`."""

    def __init__(self) -> None:
        self._next = 0.0

    def find(self, hosts: Sequence[str]) -> list[FoundServer]:
        """On this machine, and on hosts that are named."""
        self._wait()
        return list(find_servers(hosts).servers)

    def look_at(self, url: str) -> FoundServer | None:
        """What answers at an address; None: nothing says what it is."""
        self._wait()
        return next(iter(search_addresses([url]).servers), None)

    def _wait(self) -> None:
        time.sleep(max(0.0, self._next - time.monotonic()))
        self._next = time.monotonic() + SPACING_S


def _ask_endpoint(questions: Questions, snapshot: ConfigSnapshot, searches: _Searches) -> JsonObject:
    """The document of an endpoint that answered, or that is to be used all the same."""
    found = _search(questions, searches)
    while True:
        server = _ask_server(questions, snapshot, found, searches)
        endpoint = _endpoint_of(questions, server)
        if _answers(snapshot, endpoint) or questions.confirm("Use it all the same?", default=True):
            return endpoint


def _search(questions: Questions, searches: _Searches) -> list[FoundServer]:
    """The servers of this machine, and of others that are named."""
    print("Looking for model servers on this machine. Other machines are asked only if you name them.")
    hosts = questions.ask(
        f"Other machines, such as box or box:8080; {NOTHING} for no other",
        HOST_OF_CONTAINER if CONTAINER_MARK.exists() else NOTHING,
        lambda answer: _fault_of(lambda: addresses_to_ask(answer.split())),
    )
    return searches.find([] if hosts.casefold() == NOTHING else hosts.split())


def _fault_of(check: Callable[[], object]) -> str | None:
    try:
        check()
    except ValueError as error:
        return str(error)
    return None


def _ask_server(
    questions: Questions, snapshot: ConfigSnapshot, found: list[FoundServer], searches: _Searches
) -> FoundServer:
    usable = [server for server in found if server.kind != HEADRACE]
    for other in found:
        if other.kind == HEADRACE:
            print(f"  (another Headrace answers at {other.url})")
    if not usable:
        print("No model server answered.")
    another = "another address, such as a service with a key"
    choices = [*(_describe(server, snapshot) for server in usable), DEMO.kind, another]
    picked = questions.choose("Model server", choices)
    if picked < len(usable):
        return usable[picked]
    return DEMO if picked == len(usable) else _ask_address(questions, snapshot, searches)


def _describe(server: FoundServer, snapshot: ConfigSnapshot) -> str:
    """`Ollama 0.6.2 at http://127.0.0.1:11434: gemma3:4b (used by Endpoints/my-model/Main.json)`."""
    text = f"{server.kind} {server.version}".strip() + f" at {server.url}"
    if server.models:
        more = ", ..." if len(server.models) > SHOWN_MODELS else ""
        text += f": {', '.join(server.models[:SHOWN_MODELS])}{more}"
    if server.wants_key:
        text += ", wants a key"
    users = own_files_that_use(snapshot, server.url)
    return f"{text} (used by {', '.join(users[:2])}{', ...' if users[2:] else ''})" if users else text


def _ask_address(questions: Questions, snapshot: ConfigSnapshot, searches: _Searches) -> FoundServer:
    def fault(answer: str) -> str | None:
        if "://" not in answer:
            return f"write the whole address, such as {SERVICE} or http://box:8080"
        return _fault_of(lambda: addresses_to_ask([answer]))

    while True:
        url = questions.ask("Address of the server", SERVICE, fault).rstrip("/")
        print(f"Asking {url} ...", flush=True)
        answered = searches.look_at(url)
        if answered is None:
            break
        print(f"  {_describe(answered, snapshot)}")
        if answered.kind != HEADRACE:
            return answered
        print("  That is another Headrace, not a model server.")
    print(f"  {url} does not say what it is, so choose its type.")
    types = snapshot.files("ApiTypes")
    api_type = questions.ask(
        "API type",
        OPENAI_TYPE,
        lambda name: None if name in types else f"there are: {', '.join(types)}",
    )
    return FoundServer(url, "server", api_type, wants_key=place_of(url).where != "local")


def _endpoint_of(questions: Questions, server: FoundServer) -> JsonObject:
    """The document of its file, in the order of the examples."""
    model = DEMO.models[0] if server is DEMO else _ask_model(questions, server)
    key = _ask_key(questions, server.url) if server.wants_key else None
    return endpoint_document(server.url, server.api_type, model, key)


def _ask_model(questions: Questions, server: FoundServer) -> str:
    """A number of the list, or any name. Servers with one model take any name, and list one or none."""
    models = server.models
    if len(models) > 1:
        for number, name in enumerate(models[:LISTED_MODELS], 1):
            print(f"  {number}  {name}")
        if len(models) > LISTED_MODELS:
            print(f"  ... and {len(models) - LISTED_MODELS} more; you can type any name")
    default = likely_model(models) or ("gpt-4o-mini" if server.url == SERVICE else "")
    answer = questions.ask("Model (number or name)" if len(models) > 1 else "Model", default)
    is_number = answer.isdecimal() and answer not in models and 1 <= int(answer) <= len(models)
    return models[int(answer) - 1] if is_number else answer


def _ask_key(questions: Questions, url: str) -> JsonObject:
    """`apiKeyEnv`; `apiKey` for a key that is to stand in the file all the same."""
    while True:
        answer = questions.ask("Environment variable that has its key", key_variable_of(url))
        if answer in os.environ or is_variable_name(answer):
            if not os.environ.get(answer):
                print(f"  {answer} is not set now; set it before you start the server")
            return {"apiKeyEnv": answer}
        print("  This looks like a key, not like the name of a variable.")
        if questions.confirm("Write the key itself into the file?", default=False):
            return {"apiKey": answer}


def _answers(snapshot: ConfigSnapshot, endpoint: JsonObject) -> bool:
    """Ask the model once, and say how it is."""
    folder = "setup-asks"
    file = f"Endpoints/{folder}/{ENDPOINT}.json"
    asker = settings_of(USER, {"endpointConfigsSubDirectory": folder, "chatPromptTemplateName": "_chatonly"})
    print("Asking the model ...", flush=True)
    try:
        seen = probe(draft_of(snapshot, {file: json_bytes(endpoint)}), asker, ENDPOINT)
    except (ConfigError, ValueError) as error:
        print(f"  {str(error).replace(file, 'the endpoint')}")
        return False
    print(f"  {line(seen).removeprefix(f'{file}: ').replace(file, 'the endpoint file')}")
    return is_well(seen)


# --------------------------------------------------------------------------
# Check, and what people are told.


def _is_valid(snapshot: ConfigSnapshot, user: str) -> bool:
    """Prints what is wrong with the files that are to be written."""
    snapshot.spelling.notes = []
    findings = [finding for finding in check_users(snapshot, [user]) if finding.level != NOTE]
    for finding in findings:
        print(finding)
    is_valid = all(finding.level != ERROR for finding in findings)
    if not is_valid:
        print("error: these files would not work; nothing was written")
    return is_valid


def _tell(place: SetupPlace, written: Sequence[Path], wishes: _Wishes, arguments: Namespace) -> None:
    print(
        f"\n{place.config}: wrote {count_of(len(written), 'file')}"
        + (" and the examples" if place.is_new else "")
    )
    for path in written:
        print(f"  {path.relative_to(place.config).as_posix()}")
    if wishes.kind.needs:
        print(wishes.kind.needs)
    if place.is_new and (old := place.public.parent / "DiscussionIds").is_dir():
        words = quote_words(*_place_words(place, arguments), "--memory", "import", str(old))
        print(f"Chats that you had before stay in {old}; to take them over: {program()} {words}")
    keys_file = _keys_file_of(place)
    key = _key_to_type(keys_file, has_keys=bool(arguments.require_api_key))
    print("\n".join(client_lines(wishes.user, arguments.port or DEFAULT_PORT, key)))
    if keys_file is not None:
        print(_who_may_ask(keys_file, wishes.user, _place_words(place, arguments)))
    if not wishes.starts:
        print(f"Start the server with: {_start_line(place, [wishes.user], arguments)}")
        if other := _usual_user(place, wishes.user):
            print(f"  together with {other}: {_start_line(place, [other, wishes.user], arguments)}")


def _usual_user(place: SetupPlace, user: str) -> str:
    """Whom the server serves when nobody is named, if that is somebody else than this user; else empty."""
    if place.is_new:
        return ""
    try:
        usual = pointer_user(seen_tree(place))
    except ConfigError:
        return ""
    return usual if usual.casefold() != user else ""


def _keys_file_of(place: SetupPlace) -> Path | None:
    """The keys file that a server of this place would have; None: it would have none."""
    named = launch_facts().keys_file
    path = place.config / KEYS_FILE if named is None else named
    return path if named is not None or os.path.lexists(path) else None


def _key_to_type(keys_file: Path | None, *, has_keys: bool) -> str:
    """Which key clients need; empty: none. `has_keys`: the command line requires some."""
    ways = ["one of --require-api-key"] if has_keys else []
    if keys_file is not None:
        ways.append(f"one of {keys_file.name}")
    return " or ".join(ways)


def _who_may_ask(keys_file: Path, user: str, place: Sequence[str]) -> str:
    """Which keys of the file open this user, and how to make one. `place`: words that lead to it.

    Source: spec keys.md 2, 7.
    """
    try:
        entries = load_key_file(keys_file)
    except ConfigMissing:
        entries = ()
    except ConfigError as error:
        return f"The keys file has an error, so the server does not let anybody in: {error}"
    now = time.time()
    names = [entry.name for entry in entries if entry.may_ask(user) and not entry.has_expired(now)]
    words = quote_words(*place, "--keys", "add", "NAME", f"users={user}")
    if names:
        return f"These keys may ask {user}: {', '.join(names)}. Another one: {program()} {words}"
    return f"No key may ask {user} yet. Create one: {program()} {words}"


def client_lines(user: str, port: int, key: str) -> list[str]:
    """What to type into chat programs. `key`: which one they need; empty: none."""
    server = f"http://127.0.0.1:{port}"
    base = f"{server}/v1"
    return [
        "SillyTavern: API Connections > Chat Completion > Custom (OpenAI-compatible)",
        f"  base URL: {base}",
        f"  key:      {key or 'leave it empty'}",
        f"  model:    {user}",
        "  or Text Completion > KoboldCpp or llama.cpp, which send no model:",
        f"  API URL:  {server}/as/{user}",
        "Open WebUI: Admin settings > Connections > OpenAI API",
        f"  URL:      {base}",
        "            (if it runs in a container: host.docker.internal instead, and start with --listen)",
        f"  key:      {key or 'any text, such as headrace'}",
        f"  model:    {user}",
    ]


def _start_line(place: SetupPlace, users: Sequence[str], arguments: Namespace) -> str:
    """A new tree of its own serves its user without a word. Several have the port that was told of one."""
    words = _place_words(place, arguments)
    for user in () if place.is_new else users:
        words += ["--User", user]
    port = arguments.port or (DEFAULT_PORT if len(users) > 1 else None)
    words += ["--port", str(port)] if port else []
    return f"{program()} {quote_words(*words)}".strip()


def _place_words(place: SetupPlace, arguments: Namespace) -> list[str]:
    """The words of the command line that lead to the files that were written, and to the keys."""
    words = []
    if (arguments.PublicDirectory or "").strip():
        words += ["--PublicDirectory", str(place.public)]
    if (arguments.ConfigDirectory or arguments.config_directory or "").strip():
        words += ["--ConfigDirectory", str(place.config)]
    if (keys_file := launch_facts().keys_file) is not None:
        words += ["--keys-file", str(keys_file)]
    return words
