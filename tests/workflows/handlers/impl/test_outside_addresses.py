"""The whole table of addresses (tools.md 2), through WebFetch and CurlCommand: written, as an answer of the resolver, and
as the target of a redirect. Nothing is dialled that was not judged.
"""

from __future__ import annotations

import shutil
import socket

import pytest

from Middleware.common.errors import ConfigError
from Middleware.utilities import network_security_utils as security
from Middleware.workflows.tools import web
from Middleware.workflows.tools.web import WebError
from tests.utilities.test_network_security_utils import PUBLIC, PUBLIC_ADDRESSES, REFUSED_ADDRESSES, in_url

ROWS = sorted(set(REFUSED_ADDRESSES) - {"nonsense"})
STREAM = socket.AF_INET, socket.SOCK_STREAM, 6, ""


@pytest.fixture(autouse=True)
def _fresh_pools():
    yield
    web._adapter(True).close()


@pytest.fixture
def names(monkeypatch):
    """(host -> what one look-up after the other answers, the last stays; the hosts that were looked up)."""
    answers, asked = {}, []

    def look_up(host, *rest):
        asked.append(host)
        known = answers.get(host, [[PUBLIC]])
        found = known.pop(0) if len(known) > 1 else known[0]
        return [(*STREAM, (address, 80)) for address in found]

    monkeypatch.setattr("socket.getaddrinfo", look_up)
    return answers, asked


class TestWebFetch:
    @pytest.fixture
    def fetch(self, bench, dialled, names):
        return lambda url: bench("WebFetch", url=url, blockPrivateAddresses=True)

    @pytest.mark.parametrize("address", ROWS)
    def test_written(self, fetch, dialled, address):
        with pytest.raises(WebError, match="address not allowed"):
            fetch(in_url(address))
        assert dialled == []

    @pytest.mark.parametrize("address", ROWS)
    def test_as_an_answer(self, fetch, dialled, names, address):
        """Alone, and beside a public one, in either order."""
        for found in ([address], [PUBLIC, address], [address, PUBLIC]):
            names[0]["name.example"] = [found]
            with pytest.raises(WebError, match="address not allowed"):
                fetch("http://name.example/")
        assert dialled == []

    @pytest.mark.parametrize("address", ROWS)
    def test_as_the_target_of_a_redirect(self, fetch, site, dialled, names, address):
        """Written in it, and as the answer for its name."""
        names[0]["next.example"] = [[address]]
        for target in (in_url(address), "http://next.example/"):
            site.pages["/"] = 302, {"Location": target}, b""
            with pytest.raises(WebError, match="address not allowed"):
                fetch("http://a.example/")
        assert set(dialled) == {(PUBLIC, 80)}

    @pytest.mark.parametrize("address", [a for a in PUBLIC_ADDRESSES if ":" not in a])
    def test_a_public_one_is_dialled(self, fetch, site, dialled, address):
        """The neighbours of the table's rows."""
        site.pages["/"] = 200, {}, b"ok"
        assert fetch(in_url(address)) == "ok"
        assert dialled == [(address, 80)]

    def test_a_name_that_changes_its_address(self, fetch, site, dialled, names):
        """Each hop looks its name up once, and goes where the judged answer says."""
        names[0].update({"a.example": [[PUBLIC], ["127.0.0.1"]], "b.example": [["1.1.1.1"], ["10.0.0.1"]]})
        site.pages = {"/": (302, {"Location": "http://b.example/x"}, b""), "/x": (200, {}, b"ok")}
        assert fetch("http://a.example/") == "ok"
        assert (dialled, names[1]) == ([(PUBLIC, 80), ("1.1.1.1", 80)], ["a.example", "b.example"])


FAKE = """
config=$(cat)
printf '%s\\n' "$config" >> {log}
mark=$(printf '%s' "$config" | sed -n 's/^--write-out "\\(.*\\)%{{http_code}} %{{redirect_url}}"$/\\1/p')
printf body
test -z "$mark" || printf '%b' "${{mark}}{status} {location}"
"""
"""Tells what it was called with, and answers as curl does with our `--write-out`."""


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
class TestCurl:
    @pytest.fixture
    def called(self, tmp_path, monkeypatch):
        """`called(status, location)`: a program in place of curl; `called.log()`: what it got."""
        program, log = tmp_path / "bin" / "curl", tmp_path / "log"
        program.parent.mkdir()
        monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")

        def put(status=200, location=""):
            program.write_text("#!/bin/sh\n" + FAKE.format(log=log, status=status, location=location))
            program.chmod(0o755)

        put.log = lambda: log.read_text() if log.exists() else ""
        put()
        return put

    @pytest.fixture
    def curl(self, bench, called, names):
        return lambda *args: bench("CurlCommand", args=["-sS", *args], blockPrivateAddresses=True)

    @pytest.mark.parametrize("follow", [[], ["-L"]], ids=["once", "following"])
    @pytest.mark.parametrize("address", ROWS)
    def test_written(self, curl, called, address, follow):
        """With and without a scheme."""
        for url in (in_url(address), in_url(address).removeprefix("http://")):
            with pytest.raises(ConfigError, match="address not allowed"):
                curl(*follow, url)
        assert called.log() == ""

    @pytest.mark.parametrize("follow", [[], ["-L"]], ids=["once", "following"])
    @pytest.mark.parametrize("address", ROWS)
    def test_as_an_answer(self, curl, called, names, address, follow):
        """Alone, and beside a public one, in either order."""
        for found in ([address], [PUBLIC, address], [address, PUBLIC]):
            names[0]["name.example"] = [found]
            with pytest.raises(ConfigError, match="address not allowed"):
                curl(*follow, "name.example")
        assert called.log() == ""

    @pytest.mark.parametrize("address", ROWS)
    def test_as_the_target_of_a_redirect(self, curl, called, names, address):
        """Written in it, and as the answer for its name; curl runs once, for the first hop."""
        names[0]["next.example"] = [[address]]
        for target in (in_url(address), "http://next.example/"):
            called(302, target.replace("%", "%%"))
            with pytest.raises(ConfigError, match="address not allowed"):
                curl("-L", "http://a.example/")
        assert called.log().count('--url "http://a.example/"') == called.log().count("--url") == 2

    @pytest.mark.parametrize(
        "target",
        [
            "file:///etc/passwd",
            "ftp://a.example/",
            "gopher://a.example/",
            "//127.0.0.1/",
            "http://me@a.example/",
        ],
    )
    def test_a_redirect_to_what_is_never_fetched(self, curl, called, target):
        called(301, target)
        with pytest.raises(ConfigError, match="address not allowed"):
            curl("-L", "http://a.example/")
        assert called.log().count("--url") == 1

    def test_a_name_that_changes_its_address(self, curl, called, names):
        """It is looked up once; curl is told the judged address."""
        names[0]["a.example"] = [[PUBLIC], ["127.0.0.1"]]
        assert curl("a.example") == "body"
        assert f'--resolve "a.example:80:{PUBLIC}"' in called.log()
        assert names[1] == ["a.example"]

    def test_in_a_redirect_too(self, curl, called, names):
        """Each hop has its own pin."""
        names[0].update({"a.example": [[PUBLIC], ["10.0.0.1"]], "b.example": [["1.1.1.1"], ["10.0.0.1"]]})
        called(302, "http://b.example:81/")
        with pytest.raises(ConfigError, match="private"):
            curl("-L", "http://a.example/")
        assert f'--resolve "a.example:80:{PUBLIC}"' in called.log()
        assert '--resolve "b.example:81:1.1.1.1"' in called.log()


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
@pytest.mark.parametrize("proxied", [False, True], ids=["plain", "with-proxy-variables"])
def test_the_real_curl_dials_the_judged_address(bench, site, names, monkeypatch, proxied):
    """Names that no name server knows are reached at the address that was judged, at each hop."""
    monkeypatch.setattr(security, "_REFUSED", ())  # or the server of this test could not be reached
    if proxied:
        for variable in ("http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(variable, "http://127.0.0.1:9")
    names[0].update({name: [["127.0.0.1"], ["127.0.0.99"]] for name in ("one.invalid", "two.invalid")})
    site.pages = {"/": (302, {"Location": site.url("/two", "two.invalid")}, b""), "/two": (200, {}, b"ok")}
    args = ["-sS", "-L", site.url("/", "one.invalid")]
    assert bench("CurlCommand", args=args, blockPrivateAddresses=True) == "ok"
    assert [seen.headers["Host"].partition(":")[0] for seen in site.seen] == ["one.invalid", "two.invalid"]
    assert names[1] == ["one.invalid", "two.invalid"]
