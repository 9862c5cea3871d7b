"""The files of the page (console.md 2.5, 5.1)."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from Middleware.api.console.page_files import PageFiles, matches_etag

HOUSE = Path(__file__).resolve().parents[3]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "static" / "vendor").mkdir(parents=True)
    for name in ("index.html", "app.js", "console.css", "marks.svg", "vendor/preact.js", "vendor/README.md"):
        (tmp_path / "static" / name).write_text(f"the text of {name}")
    (tmp_path / "secret.js").write_text("outside")
    return tmp_path / "static"


def test_the_list(folder):
    """What a browser uses, folders below too; the page is no file beside itself."""
    assert PageFiles(folder).names == ["app.js", "console.css", "marks.svg", "vendor/preact.js"]


@pytest.mark.parametrize(
    ("name", "content_type"),
    [
        ("app.js", "text/javascript; charset=utf-8"),
        ("console.css", "text/css; charset=utf-8"),
        ("marks.svg", "image/svg+xml"),
    ],
)
def test_a_file(folder, name, content_type):
    """Its type by its ending, its version by its bytes."""
    file = PageFiles(folder).get(name)
    assert (file.content_type, file.body) == (content_type, f"the text of {name}".encode())
    assert file.etag == f'"{hashlib.sha256(file.body).hexdigest()[:16]}"'


@pytest.mark.parametrize(
    "name",
    ["", "index.html", "../secret.js", "vendor/../app.js", "/app.js", "app.js/", "vendor", "vendor/README.md", "APP.JS\0"],
)  # fmt: skip
def test_what_is_not_in_the_list(folder, name):
    """Is not there, whatever the disk holds."""
    assert PageFiles(folder).get(name) is None


def test_a_file_that_an_update_took_away(folder):
    """Is not there any more; the list was made before."""
    files = PageFiles(folder)
    (folder / "app.js").unlink()
    assert files.get("app.js") is None


def test_a_package_without_its_page(tmp_path):
    """Has none."""
    assert PageFiles(tmp_path / "none").page() is None


@pytest.mark.parametrize(
    ("held", "known"),
    [
        ('"a"', True),
        ('W/"a"', True),
        ('"b", "a"', True),
        ("*", True),
        ('"b"', False),
        ("", False),
        ("a", False),
    ],
)
def test_a_version_that_a_browser_has(held, known):
    """If-None-Match."""
    assert matches_etag('"a"', held) is known
