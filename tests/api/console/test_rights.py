"""Who may see the console, and do what there (console.md 2 and 16.1)."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from Middleware.api.console.view_contract import (
    NEEDS_GIVEN_KEY,
    NEEDS_ONE_PROCESS,
    RightsRefusal,
    Rules,
    check,
    is_local,
    settle_rules,
)
from Middleware.api.launch_arguments import parse
from Middleware.api.requests.access import NEEDS_KEY, AccessRules, ConsoleWish

KEY = ("--console-key", "k2345678")
NAMED = ("--console", "edit", *KEY, "--cors-origin", "https://llm.example.com")
BEARER = {"Authorization": "Bearer k2345678"}
NETWORK = {"Host": "192.168.1.5:5000"}
FROM_NAME = {**BEARER, "Origin": "https://llm.example.com", "X-Forwarded-For": "203.0.113.9"}
LINK = {"X-Headrace-Console": None, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}


class Row(NamedTuple):
    """One row of 16.1. `headers`: over `X-Headrace-Console: 1` and `Host: localhost:5000`; None: without it."""

    number: str
    words: tuple[str, ...]
    headers: dict[str, str | None]
    status: int
    rights: list[str] | None = None
    need: str | None = None
    peer: str = "127.0.0.1"
    method: str = "GET"
    path: str = "/console/api/state"


ROWS = [
    Row("1", (), {}, 200, ["look", "act"]),
    Row("2", (), {"X-Forwarded-For": "203.0.113.9"}, 403, need="look"),
    Row("3", (), {"X-Headrace-Console": None}, 403),
    Row("4", (), {"Host": "evil.example"}, 403),
    Row("5", ("--cors-origin", "*"), {"Host": "evil.example"}, 403),
    Row("6", (), {"Origin": "http://localhost:3000"}, 403),
    Row("7", (), {"Origin": "http://localhost:5000"}, 200, ["look", "act"]),
    Row("8a", (), {"Origin": "null"}, 403),
    Row("8b", (), {"Origin": "chrome-extension://abc"}, 403),
    Row("9a", (), {"Sec-Fetch-Site": "cross-site"}, 403),
    Row("9b", (), {"Sec-Fetch-Site": "same-site"}, 403),
    Row("10", ("--listen",), NETWORK, 403, need="look", peer="192.168.1.9"),
    Row("11", ("--listen", "--console", "view"), NETWORK, 200, ["look"], peer="192.168.1.9"),
    Row("12", ("--listen", "--console", "view"), NETWORK, 403, need="act", peer="192.168.1.9", method="POST",
        path="/console/api/runs/5b1e/cancel"),
    Row("13", ("--listen", *KEY), {**NETWORK, **BEARER}, 200, ["look", "act"], peer="192.168.1.9"),
    Row("14", ("--listen", *KEY), {}, 401),
    Row("15", ("--require-api-key", "a"), {}, 404),
    Row("16", ("--require-api-key", "a", *KEY), {"Authorization": "Bearer a"}, 401),
    Row("17", ("--console", "edit"), {}, 401),
    Row("18a", NAMED, {**FROM_NAME, "Host": "llm.example.com"}, 200, ["look", "act", "save"]),
    Row("18b", NAMED, {**FROM_NAME, "Host": "127.0.0.1:5000"}, 200, ["look", "act", "save"]),
    Row("20a", ("--console", "off"), {"X-Headrace-Console": None}, 404, path="/console/"),
    Row("20b", ("--console", "off"), {}, 404),
    Row("21a", (), {**LINK, "Sec-Fetch-Dest": "document"}, 200, path="/console/"),
    Row("21b", (), {**LINK, "Sec-Fetch-Dest": "iframe"}, 403, path="/console/"),
]  # fmt: skip


def headers_of(row):
    given = {"X-Headrace-Console": "1", "Host": "localhost:5000", **row.headers}
    return {name: value for name, value in given.items() if value is not None}


def launched(words, tmp_path):
    return parse(("--PublicDirectory", str(tmp_path), "--User", "mira", *words)).rules


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.number)
class TestTable:
    def test_by_the_rules_alone(self, row, configs, tmp_path):
        """Header values in, rights or a refusal out."""
        made = launched(row.words, tmp_path)
        rules = settle_rules(made.console, made.access, 1)
        if isinstance(rules, str):
            assert row.status == 404
            return
        environ = {"REMOTE_ADDR": row.peer} | {
            "HTTP_" + name.upper().replace("-", "_"): value for name, value in headers_of(row).items()
        }
        checked = check(rules, environ, "page" if row.path == "/console/" else "api")
        if isinstance(checked, RightsRefusal):
            assert checked.status == row.status
        elif row.need is not None:
            assert row.need not in checked
        else:
            assert row.status == 200 and list(checked) == (row.rights or [])

    def test_by_the_application(self, row, serve, a_page, tmp_path):
        """The same through every door."""
        made = launched(row.words, tmp_path)
        app = serve(access=made.access, console=made.console)
        if app.server.console is not None:
            app.server.console.folder = a_page
        client = app.test_client()
        base = {"REMOTE_ADDR": row.peer}
        answer = client.open(row.path, method=row.method, headers=headers_of(row), environ_base=base)
        assert answer.status_code == row.status
        assert "Access-Control-Allow-Origin" not in answer.headers
        if row.rights is not None:
            assert answer.json["rights"] == row.rights
        if row.need is not None:
            assert answer.json["need"] == row.need and "--console" in answer.json["error"]


@pytest.mark.parametrize(
    "words",
    [("--console-key", "short"), ("--require-api-key", "a", "--console", "view"), ("--console", "maybe")],
)
def test_row_19_a_wrong_start(words, configs, tmp_path):
    """Exit status 2."""
    with pytest.raises(SystemExit) as stopped:
        launched(words, tmp_path)
    assert stopped.value.code == 2


class TestSettled:
    @pytest.mark.parametrize(
        ("wish", "keys", "processes", "said"),
        [
            (ConsoleWish("off"), (), 1, ""),
            (ConsoleWish(), ("a",), 1, NEEDS_KEY),
            (ConsoleWish(), (), 2, NEEDS_ONE_PROCESS),
        ],
    )
    def test_why_it_is_off(self, wish, keys, processes, said):
        """A sentence, unless it was asked to be off."""
        assert settle_rules(wish, AccessRules(api_keys=keys), processes) == said

    @pytest.mark.parametrize(
        ("wish", "keys", "processes", "mode", "is_open"),
        [
            (ConsoleWish(), (), 1, "view", False),
            (ConsoleWish("view"), (), 1, "view", True),
            (ConsoleWish("view", "k2345678"), (), 1, "view", False),
            (ConsoleWish("view"), (), 3, "view", True),
            (ConsoleWish("edit", "k2345678"), (), 3, "edit", False),
            (ConsoleWish(None, "k2345678"), ("a",), 1, "view", False),
        ],
    )
    def test_how_it_is_on(self, wish, keys, processes, mode, is_open):
        """Everybody may look only where that was said, and there is no key."""
        rules = settle_rules(wish, AccessRules(api_keys=keys), processes)
        assert (rules.mode, rules.is_open, rules.key, rules.made) == (mode, is_open, wish.key, False)

    @pytest.mark.parametrize("keys", [(), ("a",)])
    def test_a_key_is_made_for_edit(self, keys):
        """22 characters, another one each time."""
        made = {settle_rules(ConsoleWish("edit"), AccessRules(api_keys=keys), 1).key for _ in range(3)}
        assert len(made) == 3 and {len(key) for key in made} == {22}

    def test_several_processes_make_no_keys(self):
        """Each would have its own."""
        with pytest.raises(RuntimeError, match=NEEDS_GIVEN_KEY):
            settle_rules(ConsoleWish("edit"), AccessRules(), 2)

    def test_the_key_is_in_no_repr(self):
        """Nor in a traceback."""
        assert "k2345678" not in repr(Rules("edit", AccessRules(), "k2345678"))


class TestLocal:
    @pytest.mark.parametrize("peer", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
    def test_this_machine(self, peer):
        """Every loopback address."""
        assert is_local({"REMOTE_ADDR": peer})

    @pytest.mark.parametrize("peer", ["192.168.1.9", "::ffff:10.0.0.1", "8.8.8.8", "", "localhost"])
    def test_others(self, peer):
        """Also a socket of Unix, which a proxy uses."""
        assert not is_local({"REMOTE_ADDR": peer})

    @pytest.mark.parametrize("mark", ["FORWARDED", "X_FORWARDED_FOR", "X_FORWARDED_HOST", "X_REAL_IP", "VIA"])
    def test_a_proxy_shows(self, mark):
        """By each header, and also by an empty one."""
        assert not is_local({"REMOTE_ADDR": "127.0.0.1", f"HTTP_{mark}": ""})


class TestOrigin:
    @pytest.mark.parametrize(
        ("origin", "host"),
        [
            ("http://localhost", "localhost"), ("http://localhost", "localhost:80"), ("http://LOCALHOST:5000", "localhost:5000"),
            ("https://box.lan", "box.lan:443"), ("https://box.lan:443", "box.lan"), ("http://[::1]:5000", "[::1]:5000"),
        ],
    )  # fmt: skip
    def test_its_own(self, origin, host):
        """The value of Host, with the usual ports left out or not."""
        environ = {"HTTP_ORIGIN": origin, "HTTP_HOST": host}
        assert check(Rules("view", AccessRules()), environ, "file") == ()

    @pytest.mark.parametrize(
        ("origin", "host"),
        [
            ("http://localhost:443", "localhost"), ("https://localhost:80", "localhost"), ("http://localhost", "localhost:443"),
            ("http://localhost.evil.example", "localhost"), ("http://user@localhost", "localhost"), ("http://localhost/", "localhost"),
            ("file://", "localhost"), ("", "localhost"), ("http://", ""), ("http://[::1", "localhost"), ("http://localhost:x", "localhost"),
        ],
    )  # fmt: skip
    def test_others(self, origin, host):
        """No other port of this machine, no other form."""
        environ = {"HTTP_ORIGIN": origin, "HTTP_HOST": host}
        assert check(Rules("view", AccessRules()), environ, "file").status == 403

    @pytest.mark.parametrize(("key", "status"), [("", 403), ("k2345678", None)])
    def test_a_named_one_needs_a_key(self, key, status):
        """A proxy may rewrite Host."""
        rules = Rules("view", AccessRules(cors_origins=("https://llm.example.com",)), key)
        environ = {"HTTP_ORIGIN": "https://LLM.example.com", "HTTP_HOST": "127.0.0.1:5000"}
        assert getattr(check(rules, environ, "file"), "status", None) == status

    def test_a_star_names_nobody(self):
        """It opens the API of clients, not the console."""
        rules = Rules("view", AccessRules(cors_origins=("*",)), "k2345678")
        environ = {"HTTP_ORIGIN": "https://evil.example", "HTTP_HOST": "localhost"}
        assert check(rules, environ, "file").status == 403


class TestHost:
    def test_on_the_network_too(self):
        """DNS rebinding reaches every address."""
        rules = Rules("view", AccessRules(loopback=False))
        assert check(rules, {"HTTP_HOST": "evil.example"}, "page").status == 403

    def test_with_a_key_the_front_doors_rule_alone(self):
        """A page of another name cannot know the key."""
        environ = {"HTTP_HOST": "llm.example.com"}
        assert check(Rules("view", AccessRules(loopback=False), "k2345678"), environ, "page") == ()
        assert check(Rules("view", AccessRules(), "k2345678"), environ, "page").status == 403


class TestKey:
    @pytest.mark.parametrize(
        ("given", "is_wrong"),
        [(None, False), ("", False), ("Basic x", False), ("Bearer", False), ("Bearer k234567", True), ("Bearer kk\xff\u0100", True)],
    )  # fmt: skip
    def test_a_wrong_one(self, given, is_wrong):
        """One that is not given is not counted."""
        environ = {"HTTP_X_HEADRACE_CONSOLE": "1"} | ({} if given is None else {"HTTP_AUTHORIZATION": given})
        refusal = check(Rules("view", AccessRules(), "k2345678"), environ, "api")
        assert refusal == RightsRefusal(401, "this console needs its key", is_wrong)

    def test_letters_of_any_language(self):
        """As a browser sends them: UTF-8, which WSGI hands on as Latin-1."""
        given = "Schlüssel".encode().decode("latin-1")
        environ = {"HTTP_X_HEADRACE_CONSOLE": "1", "HTTP_AUTHORIZATION": f"bearer {given}"}
        assert check(Rules("view", AccessRules(), "Schlüssel"), environ, "api") == ("look", "act")


TEXTS = st.text(st.characters(max_codepoint=255), max_size=30) | st.sampled_from(
    ["localhost", "localhost:5000", "http://localhost:5000", "https://evil.example", "null", "*", "same-origin", "cross-site", "1", "Bearer k2345678", "127.0.0.1"]
)  # fmt: skip
NAMES = st.sampled_from(
    ["HTTP_HOST", "HTTP_ORIGIN", "HTTP_SEC_FETCH_SITE", "HTTP_SEC_FETCH_MODE", "HTTP_SEC_FETCH_DEST", "HTTP_AUTHORIZATION",
     "HTTP_X_HEADRACE_CONSOLE", "HTTP_X_FORWARDED_FOR", "REMOTE_ADDR"]
)  # fmt: skip


class TestLaws:
    @given(environ=st.dictionaries(NAMES, TEXTS), place=st.sampled_from(["page", "file", "api"]))
    @settings(max_examples=1000)
    def test_no_header_breaks_the_rules(self, environ, place):
        """Whatever stands in it; and without its key a console gives nobody a right."""
        for key in ("", "k2345678"):
            checked = check(Rules("edit" if key else "view", AccessRules(), key), environ, place)
            if isinstance(checked, RightsRefusal):
                assert checked.status in (401, 403) and checked.sentence
            elif key and place == "api":
                assert environ["HTTP_AUTHORIZATION"].endswith(key)
            elif checked:
                assert is_local(environ) and environ["HTTP_X_HEADRACE_CONSOLE"] == "1"

    @given(origin=TEXTS, host=TEXTS)
    @settings(max_examples=1000)
    def test_an_origin_that_may_ask_names_the_host(self, origin, host):
        """Nothing else makes two places one."""
        environ = {"HTTP_ORIGIN": origin, "HTTP_HOST": host}
        if check(Rules("view", AccessRules()), environ, "file") == ():
            bare = host.lower().removesuffix(":80").removesuffix(":443")
            scheme, _, place = origin.lower().partition("://")
            assert scheme in ("http", "https")
            assert place.removesuffix(":80").removesuffix(":443") == bare
