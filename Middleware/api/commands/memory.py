"""`--memory ACTION [ID] [FILE]`: looks after the discussions of one user. Prints, never serves.

What corrects memories is `memory_corrections.py`.

Keys come from the environment only: `HEADRACE_API_KEY` (whose discussions) and
`HEADRACE_NEW_API_KEY` (rekey); WilmerAI's names `WILMER_API_KEY` and `WILMER_NEW_API_KEY` are understood.
Source: spec memory.md 15, operate.md 6.
"""

from __future__ import annotations

import logging
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from Middleware.api.command_registry import COMMANDS, Command, OwnArguments, document_of, nonempty_text
from Middleware.api.commands.memory_corrections import CORRECTIONS, print_remembered
from Middleware.api.commands.memory_desk import FAULTS, Action, Desk, Wishes, desk_of, sentence_of
from Middleware.api.requests.chat_messages import check_messages, internal_messages
from Middleware.common.errors import ClientRequestError
from Middleware.common.instance_global_variables import launch_facts
from Middleware.common.request_context import ClientQuestion, enter_request
from Middleware.common.types import Messages
from Middleware.config.users import UserSettings
from Middleware.llmapis.embedding_service import EmbeddingService
from Middleware.services.backup.tree_use import TreeBusy, enter_data
from Middleware.services.discussion_folders import ArchiveRefused, DiscussionFolders
from Middleware.services.discussion_store import SUMMARY, ChunkList
from Middleware.services.key_folders import KEY, NEW_KEY, key_in
from Middleware.services.rekeying import holds_files_of, move_folder, rekey
from Middleware.utilities.encryption_utils import api_key_hash, derive_key, key_readings
from Middleware.utilities.sensitive_logging_utils import SensitiveFilter
from Middleware.utilities.text_utils import count_of
from Middleware.workflows.checks.memory_rebuild import STOP_AFTER, Rebuild
from Middleware.workflows.managers.workflow_manager import WorkflowManager, prepare_question
from Middleware.workflows.memory.corrections import SUMMARY_NUMBER, Corrections
from Middleware.workflows.memory.file_writer import Told
from Middleware.workflows.memory.reader import MemoryReader
from Middleware.workflows.memory.upkeep import backfill, count_lacking, embeddings_endpoint, vector_count
from Middleware.workflows.memory.writer import NothingComes

_NEWEST = 3


@COMMANDS.register("memory")
class Memory(Command):
    """Looks after discussions."""

    def add_arguments(self, parser: OwnArguments) -> None:
        parser.add_argument(
            "--memory",
            nargs="+",
            metavar="ACTION",
            help=f"Look after the memories of a user's discussions. The actions are {', '.join(ACTIONS)}.",
        )
        parser.add_argument(
            "--preview",
            action="store_true",
            help="Show what --memory or --restore would do without doing it.",
        )
        parser.add_argument(
            "--memory-key",
            type=nonempty_text,
            metavar="NAME",
            help="With --memory: work with the discussions of this key of the keys file.",
        )
        parser.add_argument(
            "--matching", metavar="TEXT", help="With --memory forget: forget every memory that contains TEXT."
        )
        parser.add_argument(
            "--for-good",
            action="store_true",
            help="With --memory forget: also delete backups and everything that an undo needs.",
        )
        parser.add_argument(
            "--keep-going",
            action="store_true",
            help=f"With --memory rebuild: don't stop when {STOP_AFTER} chunks in a row give no memory.",
        )

    def run(self, arguments: Namespace) -> int:
        """Exit status 0; 1 if anything remains undone; 2 for a usage error."""
        action, *words = arguments.memory
        known = ACTIONS.get(action)
        if known is None:
            return _usage(f"found {action!r}, allowed: {', '.join(ACTIONS)}")
        wishes = Wishes.of(arguments)
        matches = "--matching" in wishes.options() and "--matching" in known.options
        least, most = (1, 1) if matches else (known.least, known.most)  # the text takes the numbers' place
        if not least <= len(words) <= most:
            return _usage(f"{action}: give {known.wants}")
        for option in wishes.options():
            if option not in known.options:
                return _usage(f"{action}: {option} is not an option of this action")
        if len(launch_facts().users) > 1:
            return _usage("give --User once: --memory works for one user")
        try:
            if not wishes.preview:
                enter_data(launch_facts())
            desk = desk_of(wishes)
            with enter_request(desk.request):
                return known.work(desk, *words)
        except (*FAULTS, TreeBusy) as error:
            print(f"error: {sentence_of(error)}")
            return 1


def _usage(what: str) -> int:
    print(f"--memory: {what}", file=sys.stderr)
    return 2


# --- actions ---


def _list(desk: Desk) -> int:
    unreadable = 0
    places = {desk.folders.root: 0}
    for folders, each in desk.discussions():
        place = folders.place_of(each)
        places[place] = places.get(place, 0) + 1
        try:
            print(f"{each}: {_counts(folders, each)}")
        except FAULTS as error:
            unreadable += 1
            print(f"{each}: cannot be read: {sentence_of(error)}")
    counted = ", ".join(f"{count} in {place}" for place, count in places.items())
    print(f"discussions of user {desk.user.name}: {counted}")
    return 1 if unreadable else 0


def _counts(folders: DiscussionFolders, discussion_id: str) -> str:
    store = folders.store(discussion_id)
    newest = max(path.stat().st_mtime for path in folders.files(discussion_id).values())
    return (
        f"memories {len(MemoryReader(store).memories())}, vector memories {vector_count(store)}, "
        f"summary {'yes' if ChunkList(store, SUMMARY).load() else 'no'}, "
        f"last change {datetime.fromtimestamp(newest):%Y-%m-%d %H:%M}"
    )


def _show(desk: Desk, discussion_id: str) -> int:
    folders = desk.folders_of(discussion_id)
    store = folders.existing(discussion_id)
    for name, path in folders.files(discussion_id).items():
        stat = path.stat()
        print(f"{name}: {stat.st_size} bytes, {datetime.fromtimestamp(stat.st_mtime):%Y-%m-%d %H:%M}")
    held = Corrections(store).all()
    memories = [each for each in held if each.number.startswith("f")]
    facts = [each for each in held if each.number.startswith("v")]
    print(f"\nmemories {len(memories)}, vector memories {len(facts)}")
    for each in [*memories[-_NEWEST:], *facts[-_NEWEST:]]:
        print_remembered(each)
    for each in held:
        if each.number == SUMMARY_NUMBER:
            print_remembered(each)
    print(f"\nstate, state document:\n{MemoryReader(store).state_document()}")
    return 0


def _rebuild(desk: Desk, discussion_id: str, file: str) -> int:
    messages = _conversation(file, desk.user)
    folders = desk.folders_of(discussion_id)
    rebuild = Rebuild(WorkflowManager(desk.user, desk.request), folders, discussion_id, messages)
    count = rebuild.count_planned()
    if not count:
        why = "are too few or too short for a memory"
        print(f"{discussion_id}: {count_of(len(messages), 'message')} {why}; nothing was changed")
        return 1
    if desk.preview:
        print(
            f"{discussion_id}: {count_of(len(messages), 'message')} in "
            f"{count_of(count, 'chunk')} would replace its memories"
        )
        if rebuild.makes_document():
            print(f"{discussion_id}: the state document would be brought up to date")
        return 0
    with counted_warnings():
        return _make_memories(desk, rebuild, count)


def _make_memories(desk: Desk, rebuild: Rebuild, count: int) -> int:
    discussion_id = rebuild.discussion_id
    try:
        with progress("memories", lines=True) as told:
            left = rebuild.run(told, stop_after=None if desk.wishes.keep_going else STOP_AFTER)
    except NothingComes as error:
        print(
            f"{discussion_id}: stopped, because {STOP_AFTER} chunks in a row gave no memory ({error}). "
            "The old memories stay. Check the model and its prompts, then run the command again to continue; "
            "with --keep-going it tries all chunks"
        )
        return 1
    if left:
        print(
            f"{discussion_id}: {count_of(left, 'chunk')} gave no memory, so the old memories stay; "
            "run the command again to continue"
        )
        return 1
    print(
        f"{discussion_id}: the new memories cover {count_of(count, 'chunk')}; the old ones are kept as .bak"
    )
    return _make_document(rebuild) if rebuild.makes_document() else 0


def _make_document(rebuild: Rebuild) -> int:
    with progress("facts in the state document", lines=True) as told:
        left = rebuild.make_document(told)
    if left:
        print(
            f"{rebuild.discussion_id}: the state document lacks {count_of(left, 'fact')}; "
            "the next turn of the chat adds them"
        )
        return 1
    print(f"{rebuild.discussion_id}: the state document is up to date")
    return 0


def _conversation(file: str, user: UserSettings) -> Messages:
    """The messages of a file, as a chat would bring them to a workflow; the turn to be answered is none."""
    document = document_of(file)
    try:
        if not isinstance(document, list):
            raise ArchiveRefused("found no list, allowed: a JSON list of messages")
        messages = internal_messages(check_messages(document), user)
    except (ClientRequestError, ValueError) as error:
        raise ArchiveRefused(f"{file}: {error}") from error
    return prepare_question(ClientQuestion(messages[: len(document)])).messages


def _backfill(desk: Desk, *discussion_id: str) -> int:
    service = embeddings_endpoint(desk.user, desk.request)
    if discussion_id:
        return _backfill_discussion(desk, service, desk.folders_of(*discussion_id), *discussion_id)
    status = 0
    for folders, each in desk.discussions():
        try:
            status = max(status, _backfill_discussion(desk, service, folders, each))
        except FAULTS as error:
            status = 1
            print(f"{each}: cannot be read: {sentence_of(error)}")
    return status


def _backfill_discussion(
    desk: Desk, service: EmbeddingService, folders: DiscussionFolders, discussion_id: str
) -> int:
    store = folders.existing(discussion_id)
    missing = count_lacking(store, service)
    if missing and not desk.preview:
        with progress(discussion_id) as told:
            missing = backfill(store, service, told)
    print(
        f"{discussion_id}: {count_of(missing, 'memory', 'memories')} "
        f"{'would get a vector' if desk.preview else 'without a vector'}"
    )
    return 1 if missing and not desk.preview else 0


def _rekey(desk: Desk) -> int:
    key, new_key = key_in(KEY), key_in(NEW_KEY)
    if not key:
        raise ArchiveRefused(f"rekey needs the old key in the environment variable {KEY}")
    new = derive_key(new_key, desk.user.name) if new_key else None
    new_name = api_key_hash(new_key) if new_key else None
    found: list[tuple[Path, bytes]] = []
    for reading in key_readings(key):
        old = derive_key(reading, desk.user.name)
        folders = list(_folders_of_key(desk.folders.bases, api_key_hash(reading), new_name, old))
        found += [(folder, old) for folder in folders if folder not in [each for each, _ in found]]
    if not found:
        raise ArchiveRefused(f"this key has no folder in {desk.folders.root}")
    if new and not desk.user.encrypt_using_api_key:
        print(
            f"Users/{desk.user.name}.json: set encryptUsingApiKey; without it the server cannot "
            "read encrypted files"
        )
    return max(_rekey_folder(desk, folder, old, new, new_name) for folder, old in found)


def _folders_of_key(bases: Iterable[Path], name: str, new_name: str | None, key: bytes) -> Iterator[Path]:
    """The key's folder in each base; one that was renamed already while files of it still have the key."""
    for base in bases:
        if (base / name).is_dir():
            yield base / name
        elif new_name is not None and holds_files_of(base / new_name, key):
            yield base / new_name


def _rekey_folder(desk: Desk, folder: Path, old: bytes, new: bytes | None, new_name: str | None) -> int:
    target = folder if new_name is None else folder.with_name(new_name)
    if target != folder and target.exists():
        print(f"{folder}: nothing was changed, because {new_name} already exists; move it away first")
        return 1
    with progress("files") as told:
        result = rekey(folder, old, new, preview=desk.preview, told=told)
    for path, why in result.unreadable.items():
        print(f"{path}: it cannot be read with these keys ({why}) and was left unchanged")
    kind = "decrypted" if new is None else "encrypted with the new key"
    verb = "would be" if desk.preview else "was" if len(result.changed) == 1 else "were"
    print(
        f"{folder}: {count_of(len(result.changed), 'file')} {verb} {kind}, "
        f"{count_of(len(result.kept), 'file')} already {'is' if len(result.kept) == 1 else 'are'}"
    )
    undone = 1 if result.unreadable else 0
    if desk.preview or target == folder:
        return undone
    if undone and not (result.changed or result.kept):
        print(f"{folder}: not renamed to {new_name}, because none of its files has the new key")
        return 1
    if not move_folder(folder, target):
        print(f"{folder}: not renamed to {new_name}, because that folder already exists")
        return 1
    print(f"{folder}: renamed to {new_name}")
    return undone


def _export(desk: Desk, discussion_id: str, file: str) -> int:
    exported = desk.folders_of(discussion_id).export(discussion_id, Path(file).expanduser())
    for name in exported.left_out:
        print(f"{discussion_id}: {name} is damaged and has no good backup, so it was left out")
    print(f"{discussion_id}: wrote {count_of(exported.files, 'file')} to {file}, as plain text")
    return 1 if exported.left_out else 0


def _import(desk: Desk, file: str) -> int:
    path = Path(file).expanduser()
    if path.is_dir():
        return _take_over(desk, path)
    if desk.preview:
        discussion_id, names = desk.folders.read_archive(path)
        print(f"{discussion_id}: would be created from {', '.join(sorted(names))}")
    else:
        print(f"{desk.folders.bring_in(path)}: imported")
    return 0


def _take_over(desk: Desk, folder: Path) -> int:
    """Copy the discussions of another folder; one that cannot be copied does not stop the others."""
    source, ids = desk.folders.found_in(folder)
    undone = done = 0
    for each in ids:
        try:
            if desk.preview:
                desk.folders.refuse_existing(each)
                print(f"{each}: would be created from {', '.join(sorted(source.files(each)))}")
                continue
            left_out = desk.folders.take_over(source, each)
        except FAULTS as error:
            undone += 1
            print(f"{each}: not imported: {sentence_of(error)}")
            continue
        done += 1
        for name in left_out:
            undone += 1
            print(f"{each}: {name} is damaged and has no good backup, so it was left out")
        print(f"{each}: imported")
    if not desk.preview:
        print(
            f"imported {done} of {count_of(len(ids), 'discussion')} in {source.root} to {desk.folders.root}"
        )
    return 1 if undone else 0


ACTIONS = {
    "list": Action(_list, "no further words", 0, 0),
    "show": Action(_show, "an ID", 1, 1),
    "rebuild": Action(_rebuild, "an ID and a FILE", 2, 2, ("--keep-going",)),
    "backfill": Action(_backfill, "an ID or no further words", 0, 1),
    "rekey": Action(_rekey, "no further words", 0, 0),
    "export": Action(_export, "an ID and a FILE", 2, 2),
    "import": Action(_import, "a FILE or a FOLDER", 1, 1),
    **CORRECTIONS,
}


_LINES = 20
"""So many lines of progress at the most where there is no terminal."""


@contextmanager
def progress(label: str, *, lines: bool = False) -> Iterator[Told]:
    """A bar on the terminal, if `tqdm` is installed and there is a terminal. `lines`: else lines of text."""
    bars: list[Any] = []
    printed = 0

    def show_progress(done: int, whole: int) -> None:
        nonlocal printed
        bar = bars[0] if bars else _bar(label, whole)
        bars[:] = [bar]
        if bar is not None and not bar.disable:
            bar.n = done
            bar.refresh()
        elif lines and done * _LINES // whole > printed:
            printed = done * _LINES // whole
            print(f"{label}: {done} of {whole}", flush=True)

    try:
        yield show_progress
    finally:
        for bar in bars:
            if bar is not None:
                bar.close()


def _bar(label: str, whole: int) -> Any:
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    return tqdm(total=whole, desc=label, disable=None)


class _WarningCounter(logging.Handler):
    """Keeps each warning and error of the log once, with its number."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.addFilter(SensitiveFilter())
        self.counts: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        self.counts[record.getMessage()] += 1


@contextmanager
def counted_warnings() -> Iterator[None]:
    """What the work warns of is printed at its end, each warning once with how often it came."""
    counter, root = _WarningCounter(), logging.getLogger()
    root.addHandler(counter)
    try:
        yield
    finally:
        root.removeHandler(counter)
        for message, count in counter.counts.items():
            print(f"warning, {count_of(count, 'time')}: {message}")
