"""HTTP of the nodes that fetch: pinned addresses, redirects, caps, time limits, cancellation."""

from __future__ import annotations

import gzip
import logging
import random
import threading
import zlib
from importlib.util import find_spec

import pytest
import requests

from Middleware.common.errors import RequestCancelled
from Middleware.services.cancellation_service import cancellation_service
from Middleware.utilities.network_security_utils import AddressPolicy, AddressRefused
from Middleware.workflows.tools import web
from Middleware.workflows.tools.web import PageTooLarge, WebError, WebRequest, exchange
from tests.patience import PATIENCE_S
from tests.utilities.test_network_security_utils import REFUSED_ADDRESSES, in_url

PUBLIC, OTHER = "93.184.216.34", "93.184.216.35"
REFUSED = [
    "http://127.0.0.1/",
    "http://10.0.0.1/",
    "http://169.254.169.254/latest/",
    "http://[::1]/",
    "http://[fd00::1]/",
    "http://[::ffff:10.0.0.1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://100.64.0.1/",
    "http://0x7f000001/",
    "http://2130706433/",
    "http://127.1/",
    "http://inner.example/",
    "//127.0.0.1/",
    "http://user:pw@a.example/",
    "file:///etc/passwd",
    "ftp://a.example/",
    "gopher://a.example/",
    "data:text/plain,hi",
]
KEYS = {
    "Authorization": "Bearer one",
    "Cookie": "a=b",
    "X-Api-Key": "two",
    "X-Mine": "three",
    "Accept-Language": "de",
}


def resolver(host, port):
    return {"inner.example": ["10.0.0.7"], "b.example": [OTHER], "nonsense": []}.get(host, [PUBLIC])


GUARD = AddressPolicy(block_private=True, resolver=resolver)


@pytest.fixture(autouse=True)
def _fresh_pools():
    yield
    web._adapter(True).close()
    web._adapter(False).close()


def redirect(location, status=302):
    return status, {"Location": location}, b""


def get(url, **more):
    return exchange(WebRequest(url, **more))


class TestPins:
    """Under `blockPrivateAddresses` the judged address is the one that is dialled."""

    def test_a_name_that_changes_its_address_is_asked_once(self, site, dialled):
        """The second answer would be private; nobody asks for it."""
        answers = iter([[PUBLIC], ["127.0.0.1"]])
        site.pages["/"] = 200, {}, b"ok"
        policy = AddressPolicy(block_private=True, resolver=lambda host, port: next(answers))
        assert get("http://a.example/", policy=policy).body == b"ok"
        assert dialled == [(PUBLIC, 80)]
        assert site.seen[0].headers["Host"] == "a.example"
        assert next(answers) == ["127.0.0.1"]

    def test_every_hop_has_its_own_pin(self, site, dialled):
        """A redirect to another host goes to that host's address."""
        site.pages = {"/": redirect("http://b.example:8080/two"), "/two": (200, {}, b"ok")}
        assert get("http://a.example/", policy=GUARD).body == b"ok"
        assert dialled == [(PUBLIC, 80), (OTHER, 8080)]

    @pytest.mark.parametrize("location", REFUSED)
    def test_a_redirect_to_a_place_that_is_not_public_is_refused(self, site, dialled, location):
        """And nothing is dialled there."""
        site.pages["/"] = redirect(location)
        with pytest.raises(AddressRefused):
            get("http://a.example/", policy=GUARD)
        assert dialled == [(PUBLIC, 80)]

    @pytest.mark.parametrize("address", REFUSED_ADDRESSES)
    def test_so_is_one_to_each_row_of_the_table(self, site, dialled, address):
        """Written in the Location itself."""
        site.pages["/"] = redirect(in_url(address))
        with pytest.raises(AddressRefused):
            get("http://a.example/", policy=GUARD)
        assert dialled == [(PUBLIC, 80)]

    @pytest.mark.parametrize("address", REFUSED_ADDRESSES)
    def test_so_is_one_to_a_name_with_such_an_address(self, site, dialled, address):
        """Beside a public one, in the resolver's answer for the second hop."""
        site.pages["/"] = redirect("http://next.example/")
        answers = {"next.example": [PUBLIC, address]}
        policy = AddressPolicy(block_private=True, resolver=lambda host, port: answers.get(host, [PUBLIC]))
        with pytest.raises(AddressRefused):
            get("http://a.example/", policy=policy)
        assert dialled == [(PUBLIC, 80)]

    @pytest.mark.parametrize("url", REFUSED)
    def test_so_is_the_url_itself(self, site, dialled, url):
        """Before anything is dialled."""
        with pytest.raises(AddressRefused):
            get(url, policy=GUARD)
        assert dialled == []

    def test_a_connection_that_leads_elsewhere_is_closed(self, site, dialled, monkeypatch):
        """The peer is compared with the pin."""
        monkeypatch.setattr(dialled.kind, "getpeername", lambda sock: ("10.0.0.1", 80))
        with pytest.raises(WebError, match=r"no answer from a\.example"):
            get("http://a.example/", policy=GUARD)

    def test_a_pooled_connection_of_an_unguarded_call_is_not_used(self, site, dialled):
        """The pools are apart."""
        site.pages["/"] = 200, {}, b"ok"
        get("http://c.example/", policy=AddressPolicy(allowed_hosts=("c.example",)))
        get("http://c.example/", policy=AddressPolicy())
        assert len(dialled) == 2

    def test_proxies_of_the_environment_are_not_asked(self, site, dialled, monkeypatch):
        """They would resolve the name themselves."""
        monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")
        site.pages["/"] = 200, {}, b"ok"
        get("http://a.example/", policy=GUARD)
        assert dialled == [(PUBLIC, 80)]

    def test_netrc_is_not_read(self, site, dialled, monkeypatch, tmp_path):
        """Its passwords stay here."""
        (tmp_path / "netrc").write_text("machine a.example login me password pw\n")
        monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
        site.pages["/"] = 200, {}, b"ok"
        get("http://a.example/", policy=GUARD)
        assert "Authorization" not in site.seen[0].headers

    def test_an_explicit_proxy_gets_the_name(self, site, dialled):
        """The name was screened; the proxy is dialled."""
        site.pages["http://d.example/"] = 200, {}, b"ok"
        assert get("http://d.example/", policy=GUARD, proxy="http://127.0.0.1:3128").body == b"ok"
        assert dialled == [("127.0.0.1", 3128)]


class TestRedirects:
    """Hop by hop."""

    @pytest.mark.parametrize(
        ("status", "method", "then", "body"),
        [
            (301, "POST", "GET", b""),
            (302, "PUT", "GET", b""),
            (303, "POST", "GET", b""),
            (303, "HEAD", "HEAD", b""),
            (307, "POST", "POST", b"hi"),
            (308, "PUT", "PUT", b"hi"),
        ],
    )
    def test_the_method_of_the_next_hop(self, site, status, method, then, body):
        """301 to 303 make a GET without body of everything but GET and HEAD."""
        site.pages = {"/": redirect("/two", status), "/two": (200, {}, b"ok")}
        get(
            site.url(), method=method, body=None if method == "HEAD" else b"hi", headers={"Content-Type": "x"}
        )
        assert (site.seen[1].method, site.seen[1].body) == (then, body)
        assert ("Content-Type" in site.seen[1].headers) is (then != "GET")

    @pytest.mark.parametrize("name", ["content-length", "Content-Type", "TRANSFER-ENCODING"])
    def test_what_is_said_of_a_body_goes_with_it(self, name):
        """However it is spelled."""
        request = WebRequest(
            "http://a.example/", method="POST", body=b"hi", headers={name: "x", "Accept": "y"}
        )
        following = web._next(request, "http://a.example/", "http://a.example/two", 303)
        assert following.headers == {"Accept": "y"}

    @pytest.mark.parametrize("policy", [AddressPolicy(), GUARD], ids=["free", "guarded"])
    def test_credentials_stay_with_their_origin(self, site, dialled, policy):
        """Also headers that look like a key, and those that are said to be private."""
        site.pages = {"/": redirect("http://b.example/two"), "/two": (200, {}, b"ok")}
        policy = policy if policy.guards else AddressPolicy(allowed_hosts=("a.example", "b.example"))
        request = WebRequest("http://a.example/", headers=KEYS, policy=policy, private=frozenset(["x-mine"]))
        exchange(request)
        assert KEYS.items() <= site.seen[0].headers.items()
        assert KEYS.keys() & site.seen[1].headers.keys() == {"Accept-Language"}

    def test_another_port_is_another_origin(self, site, dialled):
        """So is another scheme."""
        site.pages = {"/": redirect("http://a.example:81/two"), "/two": (200, {}, b"ok")}
        get("http://a.example/", headers=KEYS, policy=GUARD)
        assert "Authorization" not in site.seen[1].headers

    @pytest.mark.parametrize(
        ("url", "location"),
        [
            ("http://a.example/", "http://A.example:80/two"),
            ("https://a.example:443/", "https://a.example/two"),
        ],
    )
    def test_a_port_that_is_that_of_the_scheme_anyway(self, url, location):
        """It is the same origin with it and without."""
        assert web._next(WebRequest(url, headers=KEYS), url, location, 302).headers == KEYS

    def test_https_to_http_is_another_origin(self):
        """A key that was sent under TLS does not go on in the open."""
        request = WebRequest("https://a.example/", headers=KEYS)
        following = web._next(request, "https://a.example/", "http://a.example/", 302)
        assert "Authorization" not in following.headers

    def test_the_same_origin_keeps_them(self, site):
        """A relative Location, with a path in UTF-8."""
        site.pages = {"/": redirect("two?q=1"), "/two": (200, {}, b"ok")}
        get(site.url(), headers=KEYS)
        assert site.seen[1].path == "/two?q=1"
        assert "Authorization" in site.seen[1].headers

    @pytest.mark.parametrize(("hops", "works"), [(10, True), (11, False)])
    def test_ten_redirects_are_followed_under_a_guard(self, site, dialled, hops, works):
        """The eleventh is a failure."""
        site.pages = {f"/{n}": redirect(f"/{n + 1}") for n in range(hops)} | {f"/{hops}": (200, {}, b"ok")}
        assert outcome("http://a.example/0", policy=GUARD) == ("ok" if works else "more than 10 redirects")

    def test_without_location_the_answer_is_final(self, site):
        """A bare 302."""
        site.pages["/"] = 302, {}, b"moved"
        assert get(site.url()).body == b"moved"

    def test_with_an_empty_location_the_same_page_is_asked(self, site):
        """Until there were too many."""
        site.pages["/"] = redirect("")
        assert (
            outcome(site.url(), policy=AddressPolicy(allowed_hosts=("127.0.0.1",)))
            == "more than 10 redirects"
        )

    def test_they_can_be_switched_off(self, site):
        """The 3xx is the answer."""
        site.pages["/"] = redirect("/two")
        assert get(site.url(), follow=False).status == 302

    def test_a_location_that_is_no_url_is_a_failure(self, site):
        """In one sentence."""
        site.pages["/"] = redirect("http://[x/")
        assert outcome(site.url()) == "a redirect does not lead to a URL"


def outcome(url, **more):
    try:
        return get(url, **more).body.decode()
    except WebError as error:
        return str(error)


class TestCaps:
    """They count decompressed bytes."""

    @pytest.mark.parametrize("body", [b"x" * 1000, [b"x" * 400, b"x" * 600]], ids=["length", "chunks"])
    def test_exactly_the_cap_is_fine(self, site, body):
        """With and without a length."""
        site.pages["/"] = 200, {}, body
        assert len(get(site.url(), max_bytes=1000).body) == 1000

    @pytest.mark.parametrize("body", [b"x" * 1000, [b"x" * 400, b"x" * 600]], ids=["length", "chunks"])
    def test_one_more_is_a_failure(self, site, body):
        """With and without a length."""
        site.pages["/"] = 200, {}, body
        with pytest.raises(PageTooLarge, match="larger than 999 bytes"):
            get(site.url(), max_bytes=999)

    def test_the_body_of_a_failure_is_cut_at_the_cap(self, site):
        """It is no failure of its own."""
        site.pages["/"] = 500, {}, b"x" * 1000
        answer = get(site.url(), max_bytes=10)
        assert (answer.status, answer.body) == (500, b"x" * 10)

    @pytest.mark.parametrize("cap", [1000, None])
    def test_the_body_of_a_failure_that_is_a_bomb_is_cut(self, site, cap):
        """What came before it was known is kept, with and without a cap."""
        bomb = gzip.compress(random.Random(1).randbytes(5000) + b"\0" * 10_000_000, mtime=0)
        site.pages["/"] = 500, {"Content-Encoding": "gzip"}, bomb
        answer = get(site.url(), max_bytes=cap)
        assert answer.status == 500
        assert answer.body[:1000] == random.Random(1).randbytes(5000)[:1000]

    @pytest.mark.parametrize("coding", ["gzip", "x-gzip", "deflate", "bare", "members", "garbage-behind"])
    def test_compressed_bodies_are_unpacked(self, site, coding):
        """Deflate with and without zlib's frame."""
        text = bytes(range(256)) * 40
        bare = zlib.compressobj(wbits=-15)
        packed = {
            "gzip": gzip.compress(text, mtime=0),
            "x-gzip": gzip.compress(text, mtime=0),
            "deflate": zlib.compress(text),
            "bare": bare.compress(text) + bare.flush(),
            "members": b"".join(gzip.compress(bytes([n]), mtime=0) for n in range(256)) * 40,
            "garbage-behind": gzip.compress(text, mtime=0) + b"no gzip",
        }[coding]
        names = {"bare": "deflate", "members": "gzip", "garbage-behind": "gzip"}
        site.pages["/"] = 200, {"Content-Encoding": names.get(coding, coding)}, packed
        assert get(site.url()).body == text

    def test_the_cap_counts_unpacked_bytes(self, site):
        """The packed body is far smaller."""
        site.pages["/"] = 200, {"Content-Encoding": "gzip"}, gzip.compress(b"abcdefgh" * 1000, mtime=0)
        with pytest.raises(PageTooLarge, match="larger than 7999"):
            get(site.url(), max_bytes=7999)

    def test_a_bomb_is_left_alone(self, site):
        """Above 200 bytes for one that came, even without a cap."""
        site.pages["/"] = 200, {"Content-Encoding": "gzip"}, gzip.compress(b"\0" * 10_000_000, mtime=0)
        with pytest.raises(PageTooLarge, match="bomb"):
            get(site.url())

    @pytest.mark.parametrize(
        ("coding", "body", "reason"),
        [
            ("br", b"x", "compressed in a way"),
            ("gzip", b"x" * 50, "broke off"),
            ("gzip", gzip.compress(b"x" * 50, mtime=0)[:-9], "broke off"),
        ],
    )
    def test_what_cannot_be_unpacked_is_a_failure(self, site, coding, body, reason):
        """An unknown coding, no gzip, a cut one."""
        site.pages["/"] = 200, {"Content-Encoding": coding}, body
        assert reason in outcome(site.url())

    def test_an_empty_body_needs_no_coding(self, site):
        """Some servers name one all the same."""
        site.pages["/"] = 200, {"Content-Encoding": "gzip"}, b""
        assert get(site.url()).body == b""


class TestFailures:
    """One sentence each, without path and query."""

    def test_nobody_listens(self):
        """The port is not told."""
        assert "no answer from 127.0.0.1" in outcome("http://127.0.0.1:9/secret?q=secret")
        assert "secret" not in outcome("http://127.0.0.1:9/secret?q=secret")

    @pytest.mark.parametrize(
        ("url", "more", "reason"),
        [
            ("file:///etc/passwd", {}, "scheme"),
            ("nonsense", {}, "the URL cannot be used"),
            ("http://[x/", {}, "the URL cannot be used"),
            ("http://a.example/", {"headers": {"a b": "c"}}, "the header 'a b'"),
            ("http://a.example/", {"headers": {"X-Key": "secret\r\nHost: b"}}, "the header 'X-Key'"),
            ("http://a.example/", {"headers": {"X-Key": "\xa0secret"}}, "the header 'X-Key'"),
            ("http://a.example/", {"headers": {"X-Key": "\x85secret"}}, "the header 'X-Key'"),
            pytest.param(
                "http://a.example/",
                {"proxy": "socks5://127.0.0.1:9"},
                "pysocks",
                marks=pytest.mark.skipif(find_spec("socks") is not None, reason="pysocks is installed"),
            ),
            ("https://127.0.0.1:9/", {}, "no answer"),
        ],
    )
    def test_what_cannot_be_sent(self, url, more, reason):
        """A header's value is never shown."""
        said = outcome(url, **more)
        assert reason in said
        assert "secret" not in said

    @pytest.mark.parametrize("value", [" a b", "\ta b ", "a b\t "], ids=repr)
    def test_blanks_around_a_header(self, site, value):
        """They mean nothing, and models like to begin with one."""
        get(site.url(), headers={"X-A": value})
        assert site.seen[0].headers["X-A"] == "a b"

    @pytest.mark.parametrize(
        ("error", "said"),
        [
            (requests.exceptions.InvalidSchema("Missing dependencies for SOCKS support."), "pysocks"),
            (requests.exceptions.InvalidSchema("no adapter"), "no answer from h (InvalidSchema)"),
            (requests.ConnectionError("SOCKSHTTPConnection: refused"), "no answer from h (ConnectionError)"),
        ],
        ids=["no-package", "another-scheme", "a-proxy-that-refuses"],
    )
    def test_only_a_missing_package_is_called_one(self, error, said):
        """A proxy that cannot be reached is no reason to install something."""
        assert said in str(web._failure(error, WebRequest("http://h/")))

    def test_a_server_that_never_answers(self, site):
        """`timeout` counts for each read."""
        site.pages["/"] = lambda handler: site.leaving.wait(PATIENCE_S)
        assert "in time" in outcome(site.url(), timeout_s=0.05)

    def test_an_answer_that_stops(self, site):
        """Half a body."""

        def half(handler):
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
            handler.close_connection = True

        site.pages["/"] = half
        assert "broke off" in outcome(site.url())

    def test_an_exchange_that_takes_too_long(self, site):
        """`totalTimeout`, while a body drips."""
        site.pages["/"] = dripping(site)
        assert "totalTimeout" in outcome(site.url(), total_s=0.2)

    def test_a_cancelled_request_ends_the_call(self, site):
        """In the middle of a body."""
        site.pages["/"] = dripping(site, lambda: cancellation_service.request_cancellation("web-1"))
        with pytest.raises(RequestCancelled):
            exchange(WebRequest(site.url()), "web-1")
        cancellation_service.acknowledge_cancellation("web-1")

    def test_a_plain_server_under_https(self, site):
        """No TLS, no answer."""
        site.pages["/"] = 200, {}, b"ok"
        assert "TLS" in outcome(site.url().replace("http:", "https:"), verify=False)


def nothing_is_left(timers, request_id):
    """One timer, of 70 seconds, which is off; no callback of the request."""
    facts = [(timer.interval, timer.daemon, timer.finished.is_set()) for timer in timers]
    return facts == [(70.0, True, True)] and request_id not in cancellation_service._callbacks


class TestWhatIsLeft:
    """An exchange that is over leaves no timer, no callback and no open connection, however it ended."""

    @pytest.mark.parametrize(
        ("page", "more", "said"),
        [
            ((200, {}, b"too long"), {"max_bytes": 2}, "larger than 2 bytes"),
            ((302, {"Location": "/"}, b""), {}, "redirects"),
        ],
        ids=["too-large", "redirects-without-end"],
    )
    def test_of_a_failure(self, site, timers, page, more, said):
        """A later cancellation of the request finds nothing to stop."""
        site.pages["/"] = page
        with pytest.raises(WebError, match=said):
            exchange(WebRequest(site.url(), total_s=70.0, **more), "web-2")
        assert nothing_is_left(timers, "web-2")

    def test_of_an_answer(self, site, timers):
        """Nor here."""
        site.pages["/"] = 200, {}, b"ok"
        assert exchange(WebRequest(site.url(), total_s=70.0), "web-2").body == b"ok"
        assert nothing_is_left(timers, "web-2")

    @pytest.mark.parametrize(
        ("page", "more"),
        [
            ((200, {}, b"too long" * web.PIECE), {"max_bytes": 2}),
            ((302, {"Location": "ftp://x/"}, b"body"), {}),
        ],
        ids=["too-large", "redirect"],
    )
    def test_a_body_that_is_not_read_is_closed(self, site, monkeypatch, page, more):
        """The answers are held here, so that no garbage collector closes them."""
        held, send = [], web._PinnedAdapter.send

        def holding(adapter, request, *args, **settings):
            held.append(send(adapter, request, *args, **settings))
            return held[-1]

        monkeypatch.setattr(web._PinnedAdapter, "send", holding)
        site.pages["/"] = page
        with pytest.raises(WebError):
            exchange(WebRequest(site.url(), **more), "web-3")
        assert [response.raw.closed for response in held] == [True]


def dripping(site, after=lambda: None):
    def script(handler):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nsome")
        threading.Thread(target=after).start()
        site.leaving.wait(PATIENCE_S)
        handler.close_connection = True

    return script


class TestLog:
    """One line a call."""

    def test_the_line_names_host_status_and_size_only(self, site, caplog):
        """No path, query, header or body."""
        caplog.set_level(logging.DEBUG, logger="Middleware")
        site.pages["/secret"] = 200, {}, b"secret"
        get(site.url("/secret?q=secret"), headers={"X-A": "secret"})
        lines = [record.getMessage() for record in caplog.records if record.name.startswith("Middleware")]
        assert len(lines) == 1
        assert lines[0].startswith("GET 127.0.0.1: status 200, 6 bytes")

    def test_it_names_the_node(self, site, caplog):
        """A failed call has its line, too."""
        caplog.set_level(logging.INFO, logger="Middleware")
        with pytest.raises(WebError):
            get("http://127.0.0.1:9/secret", caller="Workflows/ana/Main.json, node 2")
        (line,) = [record.getMessage() for record in caplog.records if record.name.startswith("Middleware")]
        assert line.startswith("Workflows/ana/Main.json, node 2: GET 127.0.0.1: status None, 0 bytes, ")

    @pytest.mark.parametrize(
        ("url", "host"),
        [
            ("http://[x/", "no host"),
            ("what a model wrote", "no host"),
            ("https://me:pw@A.example:80/p?q", "a.example"),
            ("http://[::1]:80/", "::1"),
            ("http://bücher.example/", "bücher.example"),
            ("http://what a model wrote/", "an invalid host"),
            ("http://a\x1b.example/", "an invalid host"),
            ("http://" + "a" * 300 + "/", "an invalid host"),
        ],
    )
    def test_only_a_host_is_shown_as_one(self, url, host):
        """Any other text between the slashes may be a prompt, or fake a line."""
        assert web.host_of(url) == host
