"""The form of a pack: what is written comes back, and nothing is believed that is read."""

from __future__ import annotations

import io
import json
import stat
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from Middleware.services import pack_archive
from Middleware.services.pack_archive import (
    FACTS,
    MOST_BYTES,
    Pack,
    PackNeeds,
    PackRefused,
    pack_bytes,
    read_pack,
)
from tests.odd_zips import ODD, make_odd

USER = "config/Users/ann.json"
FLOW = "config/Workflows/ann/Main.json"
PACK = Pack(
    name="ann",
    user="ann",
    version="1.2.3",
    needs=PackNeeds(
        roles={"Main": ("chat", "tools"), "Vectors": ("embeddings",)},
        models={"Main": "gemma3:4b"},
        extras=("mcp",),
        programs=("npx",),
        mcp_servers=("files",),
        environment=("FILES_KEY",),
    ),
    files={FLOW: b"[]", USER: b"{}", "scripts/tools/dice.py": b"def Invoke(): ..."},
    masked={"Workflows/ann/Main.json": ("/0/x",)},
)


def test_what_was_packed_comes_back(tmp_path: Path) -> None:
    """All of it, bytes and facts."""
    source = tmp_path / "p.zip"
    source.write_bytes(pack_bytes(PACK))
    assert read_pack(source) == PACK
    assert PACK.below("config/") == {"Workflows/ann/Main.json": b"[]", "Users/ann.json": b"{}"}


def test_the_same_contents_give_the_same_bytes() -> None:
    """Whatever the order, the time and the system."""
    turned = replace(PACK, files=dict(reversed(PACK.files.items())))
    assert pack_bytes(turned) == pack_bytes(PACK)


@pytest.mark.parametrize(
    "folder",
    ["Users", "Workflows", "Routing", "Presets", "PromptTemplates", "StructuredOutputs", "MCPServers"],
)
def test_a_pack_may_hold_files_of_each_of_these_folders(tmp_path: Path, folder: str) -> None:
    file = f"config/{folder}/ann.json"
    source = tmp_path / "p.zip"
    source.write_bytes(pack_bytes(replace(PACK, files={**PACK.files, file: b"{}"})))
    assert file in read_pack(source).files


def test_it_is_a_plain_zip_file_that_says_what_is_in_it() -> None:
    """Readable by any program."""
    with zipfile.ZipFile(io.BytesIO(pack_bytes(PACK))) as archive:
        facts = json.loads(archive.read(FACTS))
        assert archive.namelist() == [FACTS, USER, FLOW, "scripts/tools/dice.py"]
    assert facts["format"] == 1 and facts["version"] == "1.2.3" and facts["user"] == "ann"
    assert facts["needs"]["roles"] == {"Main": ["chat", "tools"], "Vectors": ["embeddings"]}
    assert facts["needs"]["mcpServers"] == ["files"]
    assert facts["files"][FLOW]["size"] == 2 and len(facts["files"][FLOW]["sha256"]) == 64


# --------------------------------------------------------------------------
# Packs that nobody of ours made.


class Forged:
    """A pack whose parts can be changed before it is a zip file."""

    def __init__(self) -> None:
        with zipfile.ZipFile(io.BytesIO(pack_bytes(PACK))) as archive:
            self.files = {name: archive.read(name) for name in archive.namelist()}
        self.facts = json.loads(self.files.pop(FACTS))
        self.infos: dict[str, zipfile.ZipInfo] = {}
        self.twice: list[str] = []

    def add(self, name: str, data: bytes = b"{}") -> None:
        """A file that the facts know of."""
        self.files[name] = data
        self.facts["files"][name] = pack_archive._facts_of(data)

    def write(self, target: Path) -> Path:
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(FACTS, json.dumps(self.facts))
            for name, data in self.files.items():
                archive.writestr(self.infos.get(name, name), data)
            with pytest.warns(UserWarning) if self.twice else _nothing():
                for name in self.twice:
                    archive.writestr(name, b"{}")
        return target


class _nothing:
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


def link(forged: Forged) -> None:
    info = zipfile.ZipInfo("scripts/link.py")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    forged.add("scripts/link.py", b"/etc/passwd")
    forged.infos["scripts/link.py"] = info


def facts(**changed: Any) -> Callable[[Forged], None]:
    return lambda forged: forged.facts.update(changed)


REFUSED: list[tuple[str, Callable[[Forged], None], str]] = [
    ("a-way-out", lambda f: f.add("config/Workflows/../../x.json"), "cannot be the name of a file in a pack"),
    ("an-absolute-name", lambda f: f.add("/etc/x.json"), "cannot be the name"),
    ("a-backslash", lambda f: f.add("config/Workflows/a\\..\\..\\x.json"), "cannot be the name"),
    ("a-drive", lambda f: f.add("config/Workflows/C:x.json"), "cannot be the name"),
    ("a-device", lambda f: f.add("config/Workflows/ann/con.json"), "cannot be the name"),
    ("a-hidden-file", lambda f: f.add("config/Workflows/ann/.x.json"), "cannot be the name"),
    ("a-name-for-some-systems", lambda f: f.add("config/Workflows/ann/a?.json"), "cannot be the name"),
    ("a-space-at-its-end", lambda f: f.add("config/Workflows/ann /x.json"), "cannot be the name"),
    ("a-space-at-its-begin", lambda f: f.add("config/Workflows/ann/ x.json"), "cannot be the name"),
    ("a-line-end-in-a-name", lambda f: f.add("config/Workflows/ann/a\nb.json"), "cannot be the name"),
    ("an-endpoint", lambda f: f.add("config/Endpoints/Main.json"), "cannot be the name"),
    ("aliases", lambda f: f.add("config/ModelAliases.json"), "cannot be the name"),
    ("another-kind-of-file", lambda f: f.add("scripts/run.sh"), "cannot be the name"),
    ("two-names-that-are-one", lambda f: f.add("config/Workflows/ANN/main.json"), "would be one file"),
    ("a-file-in-a-file", lambda f: f.add("config/Workflows/ann/Main.json/x.json"), "would lie in a file"),
    ("two-files-of-one-name", lambda f: f.twice.append(USER), "two files of the name"),
    ("a-link", link, "is not a plain file"),
    ("a-file-too-many", lambda f: f.files.update({"config/Users/x.json": b"{}"}), "does not hold the files"),
    ("a-file-too-few", lambda f: f.files.pop(FLOW), "does not hold the files"),
    ("another-content", lambda f: f.files.update({FLOW: b"{}"}), "damaged: config/Workflows/ann/Main.json"),
    ("two-users", lambda f: f.add("config/Users/bob.json"), "one user file"),
    ("no-user", lambda f: (f.files.pop(USER), f.facts["files"].pop(USER)), "one user file"),
    ("a-user-of-another-name", facts(user="bob"), "one user file"),
    ("a-form-of-the-future", facts(format=2), "a form that this version does not know"),
    ("facts-without-needs", facts(needs=None), "cannot be read as a pack"),
    ("needs-of-another-form", lambda f: f.facts["needs"].update(extras="mcp"), "cannot be read as a pack"),
    ("files-of-another-form", facts(files=[USER, FLOW]), "does not hold the files"),
    ("a-bomb", lambda f: f.add("scripts/bomb.py", bytes(MOST_BYTES)), "it is too large"),
    (
        "too-many-files",
        lambda f: [f.add(f"scripts/s{number}.py") for number in range(pack_archive.MOST_FILES)],
        "it is too large",
    ),
]


@pytest.mark.parametrize(("change", "said"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_forged_pack_is_refused(tmp_path: Path, change: Callable[[Forged], Any], said: str) -> None:
    """Before anything of it is used."""
    forged = Forged()
    change(forged)
    with pytest.raises(PackRefused, match=said):
        read_pack(forged.write(tmp_path / "forged.zip"))


@pytest.mark.parametrize("case", [case for case in ODD])
def test_a_zip_file_that_means_ill_is_refused(tmp_path: Path, case: str) -> None:
    """Whatever its facts say."""
    good = tmp_path / "good.zip"
    good.write_bytes(pack_bytes(PACK))
    with pytest.raises(PackRefused):
        read_pack(make_odd(good, tmp_path / "odd.zip", ODD[case]))


def test_bytes_are_read_like_a_file() -> None:
    """The refusal names them as they were called."""
    assert read_pack(pack_bytes(PACK), "ann.zip") == PACK
    with pytest.raises(PackRefused, match=r"ann\.zip cannot be read as a pack"):
        read_pack(b"", "ann.zip")


def test_a_size_that_lies_unpacks_no_more_than_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The size that the zip file states isn't what counts."""
    monkeypatch.setattr(pack_archive, "MOST_BYTES", 1000)
    forged = Forged()
    forged.add("scripts/long.py", bytes(1200))
    with pytest.raises(PackRefused, match="it is too large"):
        read_pack(forged.write(tmp_path / "forged.zip"))


def scripts(count: int, size: int = 1) -> Pack:
    """A pack of a user file and so many scripts, which is of `2 + count * size` bytes."""
    files = {f"scripts/s{number}.py": b"x" * size for number in range(count)}
    return replace(PACK, files={USER: b"{}", **files}, masked={})


@pytest.mark.parametrize(
    ("name", "most", "fitting", "too_large"),
    [("MOST_FILES", 4, scripts(3), scripts(4)), ("MOST_BYTES", 1000, scripts(2, 499), scripts(1, 999))],
    ids=["files", "bytes"],
)
def test_as_much_as_a_pack_may_hold(
    monkeypatch: pytest.MonkeyPatch, name: str, most: int, fitting: Pack, too_large: Pack
) -> None:
    """Is written and read; one file, or one byte, more is not."""
    forged = pack_bytes(too_large)
    monkeypatch.setattr(pack_archive, name, most)
    assert read_pack(pack_bytes(fitting)) == fitting
    for refused in (lambda: pack_bytes(too_large), lambda: read_pack(forged)):
        with pytest.raises(
            PackRefused, match="it is too large: a pack holds at most 2000 files of 32 MB together"
        ):
            refused()


@pytest.mark.parametrize(
    ("name", "file"), [("ann", "ann.pack.zip"), ("ann:Draft", "ann-Draft.pack.zip"), ("a/b", "a-b.pack.zip")]
)
def test_the_file_of_a_pack(name: str, file: str) -> None:
    """A name that every system can hold."""
    assert pack_archive.file_name(name) == file


def test_the_files_in_it_are_plain_ones_without_a_time() -> None:
    """Of a system that has modes: readable for everybody, written by their owner."""
    with zipfile.ZipFile(io.BytesIO(pack_bytes(PACK))) as archive:
        for info in archive.infolist():
            assert info.external_attr >> 16 == stat.S_IFREG | 0o644
            assert (info.create_system, info.date_time) == (3, (1980, 1, 1, 0, 0, 0))
            assert info.compress_type == zipfile.ZIP_DEFLATED


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "cannot be read as a pack"),
        (b"PK\x03\x04 and no more", "cannot be read as a pack"),
        (pack_bytes(PACK)[:-40], "cannot be read as a pack"),
    ],
    ids=["empty", "begun", "cut"],
)
def test_what_is_no_zip_file(tmp_path: Path, data: bytes, said: str) -> None:
    source = tmp_path / "p.zip"
    source.write_bytes(data)
    with pytest.raises(PackRefused, match=said):
        read_pack(source)


def test_a_zip_file_of_something_else(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(PackRefused, match=r"it is no pack: it has no pack\.json"):
        read_pack(tmp_path / "p.zip")


@pytest.mark.parametrize("text", ["[" * 200_000, '{"format": 1}', "[]", "{", '{"format": 1, "files": {}}'])
def test_facts_that_are_none(tmp_path: Path, text: str) -> None:
    """However deep, however short."""
    with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
        archive.writestr(FACTS, text)
    with pytest.raises(PackRefused, match="cannot be read as a pack"):
        read_pack(tmp_path / "p.zip")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PackRefused, match=r"p\.zip cannot be read: No such file"):
        read_pack(tmp_path / "p.zip")


@pytest.mark.parametrize("name", ["config/Endpoints/Main.json", "config/Users/../x.json", "notes.txt"])
def test_what_nobody_could_read_is_not_written(name: str) -> None:
    """The same rule for both sides."""
    with pytest.raises(PackRefused, match="cannot be the name of a file in a pack"):
        pack_bytes(replace(PACK, files={**PACK.files, name: b"{}"}))


@pytest.mark.parametrize(
    "odd",
    [
        {"version": "1.0.0\x1b[8m"},
        {"name": "a\nit runs no programs"},
        {"needs": replace(PACK.needs, models={"Main": "gemma\x1b[2J"})},
        {"needs": replace(PACK.needs, roles={"Main\x9b": ("chat",)})},
        {"needs": replace(PACK.needs, roles={"Main": ("chat\r",)})},
        {"needs": replace(PACK.needs, environment=("\u202e",))},
    ],
    ids=["version", "name", "model", "role", "ability", "environment"],
)
def test_what_a_pack_says_of_itself_steers_no_terminal(odd: dict[str, Any], monkeypatch: Any) -> None:
    """It is shown before anybody trusts the pack; the same rule for both sides."""
    with pytest.raises(PackRefused, match="holds a text that cannot be shown"):
        pack_bytes(replace(PACK, **odd))
    with monkeypatch.context() as patched:
        patched.setattr(pack_archive, "_refuse_facts", lambda pack: None)
        data = pack_bytes(replace(PACK, **odd))
    with pytest.raises(PackRefused, match=r"its pack\.json holds a text that cannot be shown") as caught:
        read_pack(data, "it")
    assert str(caught.value).isprintable()
