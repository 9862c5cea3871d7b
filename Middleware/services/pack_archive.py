"""The form of a pack: one zip file of a user's workflows and all that they reach, and `pack.json`, which
says what is in it and what it needs.

    pack.json                            {"format": 1, "name", "user", "version", "needs", "masked", "files"}
    config/Workflows/ann/Main.json       a file below the config root
    scripts/tools/dice.py                a file below `workflow_python_scripts`

The same contents give the same bytes. Nothing is believed that is read from one: names, sizes, links and
digests are checked, and no more is unpacked than fits. Knows nothing of what the files mean. Source: spec
workbench.md 17.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import stat
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from Middleware.common.types import JsonObject
from Middleware.config.paths import is_flat_name
from Middleware.utilities.file_utils import is_windows_name
from Middleware.utilities.zip_entries import BROKEN_ZIP, plain_entries, read_entry

PACK_ENDING = ".pack.zip"
FACTS = "pack.json"
FORMAT = 1
CONFIG, SCRIPTS = "config/", "scripts/"
FOLDERS = (
    *("Users", "Workflows", "Routing", "Presets", "PromptTemplates"),
    *("StructuredOutputs", "MCPServers"),
)
"""What a pack may hold below `config/`: no endpoints, no keys, no aliases."""
MOST_FILES = 2000
MOST_BYTES = 32 * 1024 * 1024
"""Of all files together, unpacked."""
_BROKEN = (*BROKEN_ZIP, TypeError, AttributeError, RecursionError)
_TIME = (1980, 1, 1, 0, 0, 0)
"""The first that a zip file can say: the same contents give the same bytes."""
_UNIX = 3
_DIGEST = re.compile(r"[0-9a-f]{64}")
_CONFIG_NAME = re.compile(rf"{CONFIG}(?:{'|'.join(FOLDERS)})/.+\.json", re.DOTALL)
_SCRIPT_NAME = re.compile(rf"{SCRIPTS}.+\.py", re.DOTALL)


class PackRefused(ValueError):
    """What was asked for cannot be done; the text says why."""


@dataclass(frozen=True, slots=True)
class PackNeeds:
    """What a pack needs of a machine. `roles`: endpoint name -> what it is asked for (`chat`, `tools`,
    `vision`, `json`, `embeddings`). `models`: role -> the model that its author used. `extras` of this
    program, `programs` that nodes start, MCP servers, and variables of the environment that hold keys.
    """

    roles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    extras: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    mcp_servers: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pack:
    """`name`: what was packed; `user`: the name of its user file. `version`: of the program that packed it.
    `files`: name in the zip file -> bytes. `masked`: config file -> JSON pointers of secrets that are `***`.
    """

    name: str
    user: str
    version: str
    needs: PackNeeds
    files: Mapping[str, bytes] = field(repr=False)
    masked: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def below(self, folder: str) -> dict[str, bytes]:
        """The files below `config/` or `scripts/`, named from there."""
        return {
            name.removeprefix(folder): data for name, data in self.files.items() if name.startswith(folder)
        }


# --------------------------------------------------------------------------
# Writing.


def pack_bytes(pack: Pack) -> bytes:
    """The zip file. Raises PackRefused for a pack that nobody could read."""
    _refuse_facts(pack)
    _refuse_names(pack.files)
    if len(pack.files) > MOST_FILES or sum(map(len, pack.files.values())) > MOST_BYTES:
        raise PackRefused(f"it is too large: {_ALLOWED}")
    needs = asdict(pack.needs)
    facts = {
        "format": FORMAT,
        "name": pack.name,
        "user": pack.user,
        "version": pack.version,
        "needs": {_camel(key): value for key, value in needs.items()},
        "masked": dict(pack.masked),
        "files": {name: _facts_of(pack.files[name]) for name in sorted(pack.files)},
    }
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, FACTS, (json.dumps(facts, indent=2) + "\n").encode("ascii"))
        for name in sorted(pack.files):
            _add(archive, name, pack.files[name])
    return made.getvalue()


_ALLOWED = f"a pack holds at most {MOST_FILES} files of {MOST_BYTES // 1024 // 1024} MB together"


def file_name(name: str) -> str:
    """The name of the file for a pack of this name, such as `ann-Draft.pack.zip`."""
    return f"{name.replace(':', '-').replace('/', '-')}{PACK_ENDING}"


def _camel(key: str) -> str:
    return "mcpServers" if key == "mcp_servers" else key


def _facts_of(data: bytes) -> JsonObject:
    return {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, _TIME)
    info.create_system = _UNIX
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, data)


# --------------------------------------------------------------------------
# Reading.


def read_pack(source: Path | bytes, name: str = "") -> Pack:
    """A pack with all its files, checked. `name`: what it is called in a refusal, if not by its path.

    Raises PackRefused, which says what is wrong.
    """
    called = name or str(source)
    try:
        with zipfile.ZipFile(io.BytesIO(source) if isinstance(source, bytes) else source) as archive:
            return _read(archive)
    except PackRefused as error:
        raise PackRefused(f"{called}: {error}") from error
    except OSError as error:
        raise PackRefused(f"{called} cannot be read: {error.strerror or error}") from error
    except _BROKEN as error:
        raise PackRefused(f"{called} cannot be read as a pack: {error}") from error


def _read(archive: zipfile.ZipFile) -> Pack:
    infos = plain_entries(archive)
    if FACTS not in infos:
        raise PackRefused(f"it is no pack: it has no {FACTS}")
    if len(infos) > MOST_FILES + 1:
        raise PackRefused(f"it is too large: {_ALLOWED}")
    facts = json.loads(_content(archive, infos.pop(FACTS), MOST_BYTES))
    if facts.get("format") != FORMAT:
        raise PackRefused("it has a form that this version does not know")
    stated = facts["files"]
    if set(stated) != set(infos):
        raise PackRefused(f"it does not hold the files that its {FACTS} names")
    _refuse_names(infos)
    files: dict[str, bytes] = {}
    left = MOST_BYTES
    for name, info in infos.items():
        files[name] = _content(archive, info, left)
        left -= len(files[name])
        if not _DIGEST.fullmatch(str(stated[name]["sha256"])) or _facts_of(files[name]) != stated[name]:
            raise PackRefused(f"it is damaged: {name} is not what was packed")
    return _pack_of(facts, files)


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo, most: int) -> bytes:
    data = read_entry(archive, info, most)
    if data is None:
        raise PackRefused(f"it is too large: {_ALLOWED}")
    return data


def _pack_of(facts: Mapping[str, Any], files: Mapping[str, bytes]) -> Pack:
    """Raises TypeError, ValueError, KeyError for facts of another form."""
    needs = facts["needs"]
    pack = Pack(
        name=str(facts["name"]),
        user=str(facts["user"]),
        version=str(facts["version"]),
        needs=PackNeeds(
            roles={str(role): _texts(abilities) for role, abilities in needs["roles"].items()},
            models={str(role): str(model) for role, model in needs["models"].items()},
            extras=_texts(needs["extras"]),
            programs=_texts(needs["programs"]),
            mcp_servers=_texts(needs["mcpServers"]),
            environment=_texts(needs["environment"]),
        ),
        files=files,
        masked={str(file): _texts(places) for file, places in facts["masked"].items()},
    )
    _refuse_facts(pack)
    users = [name for name in files if name.startswith(f"{CONFIG}Users/")]
    if not is_flat_name(pack.user) or users != [f"{CONFIG}Users/{pack.user}.json"]:
        raise PackRefused("it must hold one user file, which is that of its user")
    return pack


def _refuse_facts(pack: Pack) -> None:
    """What a pack says of itself is shown before anybody trusts it: it may not steer the terminal, nor look
    like a line of its own.
    """
    needs = pack.needs
    lists = (needs.extras, needs.programs, needs.mcp_servers, needs.environment, *needs.roles.values())
    texts = (pack.name, pack.user, pack.version, *needs.roles, *needs.models, *needs.models.values())
    for text in chain(texts, *lists):
        if not text.isprintable():
            raise PackRefused(f"its {FACTS} holds a text that cannot be shown: {text!a}")


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError(f"found {type(value).__name__}, allowed: a list")
    return tuple(str(item) for item in value)


def _refuse_names(names: Iterable[str]) -> None:
    """Names that a pack cannot have, or that are one file, or a file and a folder, on some system."""
    seen: dict[str, str] = {}
    for name in names:
        if not (_CONFIG_NAME.fullmatch(name) or _SCRIPT_NAME.fullmatch(name)) or not all(
            map(_is_part, name.split("/"))
        ):
            raise PackRefused(f"{name!r} cannot be the name of a file in a pack")
        if name.casefold() in seen:
            raise PackRefused(f"{name!r} and {seen[name.casefold()]!r} would be one file")
        seen[name.casefold()] = name
    for name in seen:
        parents = name.split("/")[:-1]
        for length in range(1, len(parents) + 1):
            if "/".join(parents[:length]) in seen:
                raise PackRefused(f"{seen[name]!r} would lie in a file")


def _is_part(part: str) -> bool:
    """A plain name that every system can hold and that is not hidden."""
    plain = is_flat_name(part) and part.isprintable() and not part.startswith((".", " "))
    return plain and is_windows_name(part)
