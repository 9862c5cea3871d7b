"""The files of the page (console.md 2.5, 5.1)."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest

from Middleware.api.console.page_files import PageFiles, matches_etag, packed_form

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
    assert file.headers == {"Vary": "Accept-Encoding"}


def test_a_packed_file(folder):
    """The same text in fewer bytes, and a version of its own."""
    files = PageFiles(folder)
    plain, packed = files.get("app.js"), files.get("app.js", "gzip, br")
    assert gzip.decompress(packed.body) == plain.body and packed.etag != plain.etag
    assert packed.headers == {"Vary": "Accept-Encoding", "Content-Encoding": "gzip"}
    assert gzip.decompress(files.page("gzip").body) == b"the text of index.html"


def test_a_file_is_packed_once(folder):
    """And anew when an update has changed it."""
    files = PageFiles(folder)
    first = files.get("app.js", "gzip")
    assert files.get("app.js", "gzip") is first
    (folder / "app.js").write_text("another")
    assert gzip.decompress(files.get("app.js", "gzip").body) == b"another"


@pytest.mark.parametrize(
    ("accepted", "allows"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("*", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000, *", False),
        ("br, *;q=0", False),
        ("identity", False),
        ("xgzip", False),
        ("", False),
    ],
)
def test_who_takes_packed_files(folder, accepted, allows):
    """Accept-Encoding (RFC 9110, 12.5.3)."""
    assert PageFiles(folder).get("app.js", accepted).is_packed is allows


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


class TestComments:
    SCRIPT = b'// @ts-check\n/** What it is.\n * @param {string} a */\nlet a = "// text"; // kept\n  // gone\n  b("http:");\n'

    def test_our_scripts_are_sent_without_them(self, tmp_path):
        """Nor their indents; each line stays where it is."""
        sent = gzip.decompress(packed_form(tmp_path / "runs" / "run.js", self.SCRIPT))
        assert sent == b'\n\n\nlet a = "// text"; // kept\n\nb("http:");\n'

    @pytest.mark.parametrize(
        ("written", "sent"),
        [
            (
                b"const f = (/** @type {string} */ a) => g(/** @type {any} */ (a));",
                b"const f = (a) => g((a));",
            ),
            (b"f(/** @param {{a: string,\n *   b: string}} c */ (c) => c);", b"f(\n(c) => c);"),
            (b"let a = 4 ** 2 /* kept */;", b"let a = 4 ** 2 /* kept */;"),
            (b'import { a as b, c } from "./d.js";', b'import{a as b,c}from "./d.js";'),
            (b'import {\n  a,\n  b,\n} from "./d.js";', b'import{\na,\nb,\n}from "./d.js";'),
            (b'let a = "import { b } from";', b'let a = "import { b } from";'),
        ],
    )
    def test_nor_are_the_types_within_a_line(self, tmp_path, written, sent):
        assert gzip.decompress(packed_form(tmp_path / "runs" / "run.js", written)) == sent

    def test_nor_those_of_the_style(self, tmp_path):
        style = b"/* --- one --- */\na { b: c; } /* kept */\n  /* two\n  lines */\n  @media (d) {\n    e { f: g; }\n  }\n"
        sent = gzip.decompress(packed_form(tmp_path / "console.css", style))
        assert sent == b"\na{b:c;}/* kept */\n\n\n@media (d){\ne{f:g;}\n}\n"

    @pytest.mark.parametrize(
        ("written", "sent"),
        [
            (b"a :hover, b > c { d: e f; }", b"a :hover,b>c{d:e f;}"),
            (b'a::before { content: "b, c > d: e"; }', b'a::before{content:"b, c > d: e";}'),
            (b"a { width: calc(100% - 4px); }", b"a{width:calc(100% - 4px);}"),
        ],
    )
    def test_the_style_goes_without_needless_blanks(self, tmp_path, written, sent):
        """Those that mean something stay."""
        assert gzip.decompress(packed_form(tmp_path / "console.css", written)) == sent

    @pytest.mark.parametrize("name", ["vendor/preact.js", "vendor/plot.css", "index.html"])
    def test_all_else_is_sent_as_it_is(self, tmp_path, name):
        assert gzip.decompress(packed_form(tmp_path / name, self.SCRIPT)) == self.SCRIPT
