"""What is answered at and below `/console`, before any view is asked (console.md 2.4, 2.5, 5.1)."""

from __future__ import annotations

import gzip
import os

import pytest

from Middleware.api.console.console_door import ConsoleDoor
from Middleware.api.requests.access import AccessRules, ConsoleWish
from Middleware.api.requests.wrong_keys import WrongKeyLines

STATE = "/console/api/state"
ASKS = {"X-Headrace-Console": "1"}
BROWSER = {"Sec-Fetch-Mode": "navigate", "Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)


@pytest.fixture
def console(serve, a_page):
    """`console(mode=..., key=..., **access)` gives a client of a server whose page is a small one."""

    def start(mode=None, key="", **access):
        app = serve(access=AccessRules(**access), console=ConsoleWish(mode, key))
        if app.server.console is not None:
            app.server.console.folder = a_page
        return app.test_client()

    return start


@pytest.fixture
def reader(console):
    return console()


def test_the_head_of_a_stream_has_no_body(reader):
    """Not even the end of one in pieces, which a server would send where the length is not known."""
    answer = reader.head("/console/api/events?after=0", headers=ASKS)
    assert (answer.status_code, answer.headers["Content-Length"], answer.data) == (200, "0", b"")


class TestPage:
    def test_the_page(self, reader):
        """It is never stored: the next version is seen at once."""
        answer = reader.get("/console/")
        assert (answer.status_code, answer.text) == (200, "<!doctype html>the page")
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert answer.headers["Cache-Control"] == "no-store"

    def test_without_its_slash(self, reader):
        """A relative address: it works below a path of a proxy."""
        answer = reader.get("/console")
        assert (answer.status_code, answer.headers["Location"]) == (308, "console/")

    @pytest.mark.parametrize("method", ["GET", "HEAD"])
    def test_a_browser_at_the_root_is_led_there(self, reader, method):
        """A client that asks whether the server lives is not."""
        answer = reader.open("/", method=method, headers=BROWSER)
        assert (answer.status_code, answer.headers["Location"], answer.data) == (303, "console/", b"")

    @pytest.mark.parametrize(
        "headers",
        [{}, {"Accept": "text/html"}, {"Sec-Fetch-Mode": "navigate"}, {**BROWSER, "Sec-Fetch-Mode": "cors"}],
    )
    def test_everybody_else_is_told_that_the_server_lives(self, reader, headers):
        """As before there was a console."""
        assert reader.get("/", headers=headers).data == b"Ollama is running"

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
    @pytest.mark.parametrize("path", ["/console/", "/console", "/console/static/app.js", "/console/x"])
    def test_pages_are_read_only(self, reader, method, path):
        """405 says what is allowed."""
        answer = reader.open(path, method=method)
        assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD")
        assert answer.json == {"error": f"method not allowed: {method}"}

    @pytest.mark.parametrize(
        "path", ["/console/x", "/console/index.html", "/console//", "/console/api", "/console/static"]
    )
    def test_what_is_no_page(self, reader, path):
        """Slashes are not cut here."""
        assert (reader.get(path).status_code, reader.get(path).json) == (404, {"error": "no such page"})

    @pytest.mark.parametrize("path", ["/consoles", "/consol", "/v1/console"])
    def test_a_neighbour_is_not_the_consoles(self, reader, path):
        """An unknown route, as ever."""
        assert "Content-Security-Policy" not in reader.get(path).headers


class TestStatic:
    def test_a_file_has_a_version(self, reader):
        """An update costs one 304."""
        answer = reader.get("/console/static/app.js")
        assert (answer.status_code, answer.text) == (200, "let page;")
        assert answer.headers["Cache-Control"] == "no-cache"
        known = {"If-None-Match": answer.headers["ETag"]}
        again = reader.get("/console/static/app.js", headers=known)
        assert (again.status_code, again.data) == (304, b"")
        assert again.headers["ETag"] == answer.headers["ETag"]

    def test_a_browser_gets_it_packed(self, reader):
        """With a version of its own; what is between must not give one form for the other."""
        plain = reader.get("/console/static/app.js")
        packs = {"Accept-Encoding": "gzip"}
        answer = reader.get("/console/static/app.js", headers=packs)
        assert gzip.decompress(answer.data) == plain.data
        assert (answer.headers["Content-Encoding"], answer.headers["Vary"]) == ("gzip", "Accept-Encoding")
        assert answer.headers["ETag"] != plain.headers["ETag"] and plain.headers["Vary"] == "Accept-Encoding"
        known = {**packs, "If-None-Match": answer.headers["ETag"]}
        again = reader.get("/console/static/app.js", headers=known)
        assert (again.status_code, again.data) == (304, b"") and "Content-Encoding" not in again.headers
        page = reader.get("/console/", headers=packs)
        assert page.headers["Content-Encoding"] == "gzip" and page.headers["Cache-Control"] == "no-store"

    def test_an_update_is_seen_at_once(self, reader, a_page):
        """Its version is another one."""
        known = {"If-None-Match": reader.get("/console/static/app.js").headers["ETag"]}
        (a_page / "app.js").write_text("let other;")
        assert reader.get("/console/static/app.js", headers=known).text == "let other;"

    def test_folders_below(self, reader):
        """What others made stands in one of its own."""
        assert reader.get("/console/static/vendor/plots.css").status_code == 200

    @pytest.mark.parametrize(
        "name",
        [
            "",
            "index.html",
            "vendor/README.md",
            "..%2f..%2fviews.py",
            "../console_door.py",
            "%2e%2e/rights.py",
            "a%00",
        ],
    )
    def test_what_is_not_in_the_list(self, reader, name):
        """No path is ever joined."""
        answer = reader.get(f"/console/static/{name}")
        assert (answer.status_code, answer.json) == (404, {"error": "no such file"})

    def test_head(self, reader):
        """The length of the file, and no byte of it."""
        answer = reader.head("/console/static/app.js")
        assert (answer.headers["Content-Length"], answer.data) == ("9", b"")


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/console/", {}, 200), ("GET", "/console", {}, 308), ("GET", "/console/static/app.js", {}, 200),
        ("GET", "/console/static/none.js", {}, 404), ("GET", STATE, ASKS, 200), ("HEAD", STATE, ASKS, 200), ("GET", STATE, {}, 403),
        ("GET", "/console/", {"Origin": "http://evil.example"}, 403), ("GET", "/console/", {"Host": "evil.example"}, 403),
        ("OPTIONS", STATE, {"Origin": "http://evil.example"}, 405), ("OPTIONS", "/console/", {}, 405), ("DELETE", STATE, ASKS, 405),
        ("GET", "/console/api/none", ASKS, 404), ("POST", "/console/api/try", ASKS, 400), ("GET", "/console/api/try", ASKS, 405),
    ],
)  # fmt: skip
def test_every_answer_has_the_headers(reader, method, path, headers, status):
    """Whoever gives it; none lets another origin read it (2.5)."""
    answer = reader.open(path, method=method, headers=headers)
    assert answer.status_code == status
    assert answer.headers["Content-Security-Policy"] == POLICY
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert answer.headers["Cache-Control"] in ("no-store", "no-cache")
    assert "X-Request-Id" in answer.headers
    assert not [name for name, _ in answer.headers if name.startswith("Access-Control")]
    assert "WWW-Authenticate" not in answer.headers


class TestKey:
    def test_what_holds_no_data_is_open(self, console):
        """The form that asks for the key has to be shown."""
        reader = console(key="k2345678")
        assert reader.get("/console/").status_code == 200
        assert reader.get("/console/static/app.js").status_code == 200
        assert reader.get(STATE, headers=ASKS).json == {"error": "this console needs its key"}

    def test_wrong_keys_from_the_eleventh_on(self, console, caplog):
        """Are too many, at once and for a minute. The right key is compared first; who sends none is asked
        for it; what is open stays open. The log has one line (workbench.md 16.7).
        """
        reader = console(key="k2345678")
        wrong, right = ({**ASKS, "Authorization": f"Bearer {key}"} for key in ("wrong", "k2345678"))
        assert [reader.get(STATE, headers=wrong).status_code for _ in range(12)] == [401] * 10 + [429] * 2
        answer = reader.get(STATE, headers=wrong)
        assert (answer.status_code, answer.headers["Retry-After"]) == (429, "60")
        assert answer.json == {"error": "too many wrong keys; wait a minute"}
        assert reader.get(STATE, headers=right).status_code == 200
        assert reader.get(STATE, headers=ASKS).status_code == 401
        assert reader.get("/console/").status_code == 200
        told = "401 for 127.0.0.1: GET /console/api/state: this console needs its key"
        assert [record.getMessage() for record in caplog.records] == [told]

    def test_a_long_key_is_not_guessed(self, console, caplog):
        """Wrong ones are not counted against an address that may be everybody's; the log has one line."""
        reader = console(key="k" * 16)
        wrong = {**ASKS, "Authorization": "Bearer wrong"}
        assert {reader.get(STATE, headers=wrong).status_code for _ in range(50)} == {401}
        assert len(caplog.records) == 1

    def test_the_log_says_how_many_there_were(self, serve, a_page, caplog):
        """In the line of the next minute."""
        app = serve(console=ConsoleWish("view", "k2345678"))
        now = [1000.0]
        app.server.console._lines = WrongKeyLines(lambda: now[0])
        wrong = {**ASKS, "Authorization": "Bearer wrong"}
        for _ in range(3):
            app.test_client().get(STATE, headers=wrong)
        now[0] += 60
        app.test_client().get(STATE, headers=wrong)
        assert caplog.records[-1].getMessage().endswith("needs its key (3 wrong keys since the last line)")

    def test_what_comes_before_the_key_is_told_first(self, console):
        """The key is the last thing that is looked at (2.4)."""
        reader = console(key="k2345678")
        wrong = {**ASKS, "Authorization": "Bearer wrong"}
        for _ in range(11):
            reader.get(STATE, headers=wrong)
        assert reader.get(STATE).status_code == 403
        assert reader.get(STATE, headers={**wrong, "Origin": "http://evil.example"}).status_code == 403
        assert reader.get(STATE, headers=wrong).status_code == 429

    def test_a_strange_host_where_a_key_is_set(self, console):
        """The sentence speaks of what opens it, which is not the key."""
        answer = console(key="k2345678").get(STATE, headers={**ASKS, "Host": "evil.example"})
        way = "this server only answers to local host names; allow it with --cors-origin https://evil.example"
        assert (answer.status_code, answer.json) == (
            403,
            {"error": f"host 'evil.example' is not allowed: {way}"},
        )

    def test_a_missing_key_is_not_a_wrong_one(self, console, caplog):
        """The page asks before its reader has typed it."""
        reader = console(key="k2345678")
        assert {reader.get(STATE, headers=ASKS).status_code for _ in range(15)} == {401}
        assert caplog.text == ""

    def test_a_clients_key_is_none(self, console):
        """It would let every client read everybody's prompts."""
        reader = console(key="k2345678", api_keys=("a-client",))
        headers = {**ASKS, "Authorization": "Bearer a-client", "X-API-Key": "k2345678"}
        assert reader.get(STATE, headers=headers).status_code == 401

    def test_the_same_key_may_be_both(self, console):
        """Whoever wants that."""
        reader = console(key="the-same-key", api_keys=("the-same-key",))
        assert reader.get(STATE, headers={**ASKS, "Authorization": "Bearer the-same-key"}).status_code == 200


class TestOff:
    @pytest.mark.parametrize("access", [{}, {"api_keys": ("a",)}, {"loopback": False}])
    @pytest.mark.parametrize(
        "path", ["/console", "/console/", "/console/static/app.js", STATE, "/console/api/try"]
    )
    @pytest.mark.parametrize("method", ["GET", "POST"])
    def test_nothing_is_there(self, console, access, path, method):
        """An unknown route, also for those without a key."""
        answer = console("off", **access).open(path, method=method, headers=ASKS, json={})
        assert answer.status_code == 404 and "no such route" in answer.text

    def test_a_browser_at_the_root(self, console):
        """Is told that the server lives."""
        assert console("off").get("/", headers=BROWSER).data == b"Ollama is running"

    def test_nothing_waits_at_the_gate(self, facts, console):
        """There is nothing to wait for."""
        facts(concurrency=1)
        reader = console("off")
        gate = reader.application.door.app
        gate._semaphore.acquire()
        assert reader.post("/console/api/try", json={}).status_code == 404
        gate._semaphore.release()


class TestState:
    @pytest.mark.parametrize(
        ("launch", "gate"),
        [
            ({"concurrency": 2}, {"level": "request", "limit": 2, "running": 0, "waiting": 0}),
            ({"concurrency": 0}, {"level": "request", "limit": 0, "running": 0, "waiting": 0}),
            ({"concurrency": 3, "concurrency_level": "endpoint"}, {"level": "endpoint", "limit": 3, "running": 0, "waiting": 0}),
        ],
    )  # fmt: skip
    def test_the_server_as_it_is(self, facts, console, launch, gate):
        """Its gate, its users, its process."""
        facts(users=("mira", "jo"), **launch)
        state = console().get(STATE, headers=ASKS).json
        assert state["gate"] == gate and state["users"] == ["mira", "jo"]
        assert (state["pid"], state["processes"], state["started"]) == (os.getpid(), 1, 1759990000)
        assert state["kept"]["limit"] == 16 << 20


def test_a_small_server_keeps_few_pages(serve):
    """Never more than the console allows at most; one more is told how many there are."""
    app = serve()
    app.server.console.most_pages = 20
    assert app.server.console.most_pages == 8
    app.server.console.most_pages = 0
    answer = app.test_client().get("/console/api/events", headers=ASKS)
    assert (answer.status_code, answer.json) == (503, {"error": "the console is open in 0 places already"})


def test_where_it_is(serve):
    """With the key only when nobody else knows it."""
    app = serve(console=ConsoleWish("edit"))
    door: ConsoleDoor = app.server.console
    assert app.server.console_lines("http://127.0.0.1:5000") == [
        f"console: http://127.0.0.1:5000/console/#key={door.rules.key}"
    ]
    given = serve(console=ConsoleWish("edit", "k2345678"))
    assert given.server.console_lines("http://h:1") == ["console: http://h:1/console/"]


@pytest.mark.parametrize(
    ("wish", "keys", "lines"),
    [
        (ConsoleWish("off"), (), []),
        (ConsoleWish(), ("a",), ["the console is off: --require-api-key needs --console-key beside it"]),
    ],
)
def test_why_it_is_off(serve, wish, keys, lines):
    """Nothing, where it was asked to be."""
    assert serve(access=AccessRules(api_keys=keys), console=wish).server.console_lines("http://h:1") == lines
