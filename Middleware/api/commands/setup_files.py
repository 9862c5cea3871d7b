"""The files of a new user for `--setup`: made of the shipped examples, checked before they are written, and
written whole or not at all. Nothing that is there is changed. Source: spec workbench.md 7.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from Middleware.api.commands.init import PARTS, copy_examples, making_folder
from Middleware.common.instance_global_variables import LaunchFacts, shipped_public
from Middleware.common.types import JsonObject
from Middleware.config.drafts import drafts_snapshot
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.paths import USER_POINTER
from Middleware.utilities.config_text import json_bytes
from Middleware.utilities.file_utils import is_device_name, remove_stale_temporaries
from Middleware.utilities.install_layout import OWN_FOLDER, is_shipped, make_own_endpoints, own_public
from Middleware.workflows.checks.config_check import checked_tree

CONFIGS, SCRIPTS = PARTS
ENDPOINT = "Main"
"""The endpoint that the example workflows name."""
_USER_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
USER_NAME_ALLOWED = "up to 64 small letters, digits, - and _, a letter or digit first"
_PRIVATE = 0o600


@dataclass(frozen=True, slots=True)
class ChatKind:
    """What a user does. `example`: the example user whose files are taken. `needs`: what must be there beside
    a model, for people. `uses_files`: its tools are those of `MCPServers/files.json`.
    """

    name: str
    example: str
    needs: str = ""
    uses_files: bool = False


KINDS = (
    ChatKind("clean chat", "chat"),
    ChatKind(
        "chat with memory",
        "memory-assistant",
        "Memories are found by words. The example user memory-assistant also finds them by meaning; it needs "
        "an embeddings model.",
    ),
    ChatKind("router", "router"),
    ChatKind(
        "agent",
        "agent",
        "The agent's tools are those of MCPServers/files.json, which needs Node.js and the extra `mcp`. "
        "Without them it answers without tools.",
        uses_files=True,
    ),
    ChatKind("draft and critic", "draft-criticise-answer"),
)

EMBEDDING_KEYS = frozenset(
    {"searchMode", "embeddingEndpointName", "semanticQuery", "embeddingBackfillBatchSize"}
)
"""What a memory has only with a model that turns texts into vectors."""


# --------------------------------------------------------------------------
# Where files go.


@dataclass(frozen=True, slots=True)
class SetupPlace:
    """`config`, `public`: the roots that are written. `seen`: the config root that is there now: the same, or
    the shipped one, whose files are written along.
    """

    config: Path
    public: Path
    seen: Path

    @property
    def is_new(self) -> bool:
        return self.seen != self.config


def place_of_setup(facts: LaunchFacts) -> SetupPlace:
    """The named folders; of a program that came out of a wheel, else `Public` in the user's data folder."""
    config, public = (
        Path(os.path.abspath(facts.config_directory)),
        Path(os.path.abspath(facts.public_directory)),
    )
    if is_shipped(config):
        public = own_public()
        config = public / CONFIGS
    return SetupPlace(config, public, config if config.is_dir() else shipped_public() / CONFIGS)


# --------------------------------------------------------------------------
# Names and documents. Pure, but for reads of the config tree.


def why_no_user_name(snapshot: ConfigSnapshot, name: str) -> str | None:
    """Why a new user cannot have this name; None: it can."""
    if not _USER_NAME.fullmatch(name) or is_device_name(name):
        return f"{name!r} cannot be the name of a user; allowed: {USER_NAME_ALLOWED}"
    taken = [
        name in (found.casefold() for found in (*snapshot.files(folder), *snapshot.folders(folder)))
        for folder in ("Users", "Workflows", "Endpoints", "Routing")
    ]
    return f"there are files of the name {name!r} already" if any(taken) else None


def free_user_name(snapshot: ConfigSnapshot, wanted: str) -> str:
    """`wanted`, or the first of `wanted-2`, `wanted-3` ... that nobody has."""
    name, number = wanted, 1
    while why_no_user_name(snapshot, name):
        number += 1
        name = f"{wanted}-{number}"
    return name


def endpoint_folder_for(snapshot: ConfigSnapshot, endpoint: JsonObject, user: str) -> str:
    """The folder below `Endpoints/` for a user's endpoint: the one that the example users share, as long as
    nothing else is written there.
    """
    shared = OWN_FOLDER.partition("/")[2]
    file = f"{OWN_FOLDER}/{ENDPOINT}.json"
    return shared if not snapshot.exists(file) or snapshot.inspect(file)[0] == endpoint else user


def files_of_user(
    kind: ChatKind, user: str, endpoint: JsonObject, folder: str, snapshot: ConfigSnapshot
) -> dict[str, bytes]:
    """Path below the config root -> text, of all files that a new user needs and that `snapshot` lacks; the
    user file is the last. `folder`: that of the endpoint.
    """
    files = {f"Endpoints/{folder}/{ENDPOINT}.json": json_bytes(endpoint)}
    files |= dict(_workflows(kind, user))
    document = _example(f"Users/{kind.example}.json")
    document["description"] = f"Made by --setup: {kind.name}."
    document["endpointConfigsSubDirectory"] = folder
    if routing := document.get("routingConfig"):
        files[f"Routing/{user}.json"] = _example_bytes(f"Routing/{routing}.json")
        document["routingConfig"] = user
    files |= dict(_shared_files(kind, endpoint, document))
    files[f"Users/{user}.json"] = json_bytes(document)
    return {file: text for file, text in files.items() if not snapshot.exists(file)}


def _workflows(kind: ChatKind, user: str) -> Iterator[tuple[str, bytes]]:
    for path in sorted((shipped_public() / CONFIGS / "Workflows" / kind.example).glob("*.json")):
        raw = path.read_bytes()
        if any(f'"{key}"'.encode() in raw for key in EMBEDDING_KEYS):
            raw = json_bytes(_without_embeddings(json.loads(raw)))
        yield f"Workflows/{user}/{path.name}", raw


def _without_embeddings(value: object) -> object:
    if isinstance(value, list):
        return [_without_embeddings(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_embeddings(item) for key, item in value.items() if key not in EMBEDDING_KEYS}
    return value


def _shared_files(kind: ChatKind, endpoint: JsonObject, user: JsonObject) -> Iterator[tuple[str, bytes]]:
    """Shipped files that these name, for a tree that lacks them."""
    api_type = f"ApiTypes/{endpoint['apiTypeConfigFileName']}.json"
    if not (shipped_public() / CONFIGS / api_type).is_file():
        return
    presets = f"Presets/{_example(api_type)['presetType']}"
    names = [api_type]
    names += [f"{presets}/{path.name}" for path in (shipped_public() / CONFIGS / presets).glob("*.json")]
    templates = (user.get("chatPromptTemplateName"), endpoint.get("promptTemplate"))
    names += [f"PromptTemplates/{name}.json" for name in templates if name]
    names += ["MCPServers/files.json"] if kind.uses_files else []
    for name in names:
        yield name, _example_bytes(name)


def _example(file: str) -> JsonObject:
    document: JsonObject = json.loads(_example_bytes(file))
    return document


def _example_bytes(file: str) -> bytes:
    return (shipped_public() / CONFIGS / file).read_bytes()


def draft_of(snapshot: ConfigSnapshot, files: Mapping[str, bytes]) -> ConfigSnapshot:
    """The config tree as it will be once these files are written."""
    return drafts_snapshot(snapshot, files)


def seen_tree(place: SetupPlace) -> ConfigSnapshot:
    return checked_tree(place.seen).snapshot()


# --------------------------------------------------------------------------
# Writing.


def write_setup(place: SetupPlace, files: Mapping[str, bytes], user: str) -> list[Path]:
    """Write the files, in their order; their paths.

    A new tree has the examples, too, and serves `user` when nobody is named. Raises OSError; then, and when
    it is stopped, everything is as it was.
    """
    if place.is_new:
        _write_tree(place, {**files, USER_POINTER: json_bytes({"currentUser": user})})
    else:
        remove_stale_temporaries(place.config)
        write_beside({place.config / file: text for file, text in files.items()})
    return [place.config / file for file in files]


def _write_tree(place: SetupPlace, files: Mapping[str, bytes]) -> None:
    """The examples with these files among them, made beside and moved."""
    place.config.parent.parent.mkdir(parents=True, exist_ok=True)
    with making_folder(place.config.parent.parent) as making:
        made = making / place.public.name
        copy_examples(shipped_public(), made)
        for file, text in files.items():
            target = made / CONFIGS / file
            target.parent.mkdir(parents=True, exist_ok=True)
            _write_new(target, text)
        make_own_endpoints(made / CONFIGS)
        if place.config == place.public / CONFIGS and not os.path.lexists(place.public):
            os.rename(made, place.public)
        else:
            _move_parts(made, place)


def _move_parts(made: Path, place: SetupPlace) -> None:
    """The config root last: it is what makes a tree."""
    moved: list[tuple[Path, Path]] = []
    try:
        for source, target in (
            (made / SCRIPTS, place.public / SCRIPTS),
            (made / CONFIGS, place.config),
        ):
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.name == CONFIGS or not os.path.lexists(target):
                moved.append((source, target))
                os.rename(source, target)
    except BaseException:
        for source, target in moved:
            if not source.exists():
                os.rename(target, source)
        raise


def write_beside(files: Mapping[Path, bytes]) -> None:
    """Write new files into a tree that is there, in their order. Raises OSError; then, and when it is
    stopped, none of them is there. One that is there already is a FileExistsError.
    """
    folders: list[Path] = []
    written: list[Path] = []
    try:
        for path, text in files.items():
            for folder in reversed([path.parent, *path.parent.parents]):
                if not folder.exists():
                    folders.append(folder)
                    folder.mkdir()
            written.append(path)
            _place_new(path, text)
    except BaseException as error:
        if isinstance(error, FileExistsError):
            written.pop()  # it is somebody else's
        for path in written:
            path.unlink(missing_ok=True)
        for folder in reversed(folders):
            with suppress(OSError):
                folder.rmdir()
        raise


def _place_new(path: Path, text: bytes) -> None:
    """A file that is whole as soon as it is there. Raises FileExistsError for one that is there."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        _write_new(temporary, text)
        try:
            os.link(temporary, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            if os.path.lexists(path):
                raise FileExistsError(17, "it already exists", str(path)) from None
            os.rename(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _write_new(path: Path, text: bytes) -> None:
    """Only its owner can read a file with a key."""
    mode = _PRIVATE if b'"apiKey": "' in text and b'"apiKey": ""' not in text else 0o666
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), mode)
    with os.fdopen(handle, "wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
