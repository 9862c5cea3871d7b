"""WebFetch: fields, output formats, failures, secrets."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest

from Middleware.common.errors import ConfigError, RequestCancelled
from Middleware.services.cancellation_service import cancellation_service
from Middleware.utilities.network_security_utils import AddressRefused
from Middleware.workflows.handlers.node_types import node_handler
from Middleware.workflows.tools import web
from Middleware.workflows.tools.web import WebError
from tests.patience import PATIENCE_S

HTML = b"<head><title>T</title></head><p>Hi <b>you</b></p>"


@pytest.fixture(autouse=True)
def _fresh_pools():
    yield
    web._adapter(True).close()
    web._adapter(False).close()


@pytest.fixture
def fetch(bench, site):
    """Runs the node; `{site}` is the server."""
    bench.engine.values["site"] = site.url("")
    return lambda **fields: bench("WebFetch", **{"url": "{site}/", **fields})


class TestFormats:
    """Every output format times every outcome."""

    @pytest.mark.parametrize(
        ("output", "shown"),
        [
            ({}, '{"a": "\u00fc"}'),
            ({"outputFormat": "text"}, '{"a": "\u00fc"}'),
            ({"outputFormat": "json"}, '{"a": "\\u00fc"}'),
            ({"outputFormat": "html-stripped"}, '{"a": "\u00fc"}'),
        ],
    )
    def test_a_good_answer(self, fetch, site, output, shown):
        """JSON text is made anew, with escapes."""
        site.pages["/"] = 200, {}, '{"a": "\u00fc"}'.encode()
        assert fetch(**output) == shown

    def test_all_of_a_good_answer(self, fetch, site):
        """Three keys in their order."""
        site.pages["/"] = 201, {"Content-Type": "text/plain"}, b"ok"
        facts = json.loads(fetch(outputFormat="full"))
        assert list(facts) == ["status_code", "headers", "body"]
        assert (facts["status_code"], facts["headers"]["Content-Type"], facts["body"]) == (
            201,
            "text/plain",
            "ok",
        )

    @pytest.mark.parametrize(("layout", "text"), [({}, "Hi\nyou"), ({"htmlLayout": "blocks"}, "Hi you")])
    def test_a_page(self, fetch, site, layout, text):
        """In lines or blocks."""
        site.pages["/"] = 200, {"Content-Type": "text/html"}, HTML
        assert fetch(outputFormat="html-stripped", **layout) == text

    @pytest.mark.parametrize(
        ("status", "output", "shown"),
        [
            (404, "text", HTML.decode()),
            (404, "json", HTML.decode()),
            (500, "html-stripped", "Hi\nyou"),
            (200, "json", HTML.decode()),
        ],
    )
    def test_a_failure_with_an_answer_gives_its_body(self, fetch, site, status, output, shown):
        """Also a 200 that is no JSON."""
        site.pages["/"] = status, {}, HTML
        assert fetch(outputFormat=output, onError="return") == shown

    def test_an_empty_body_stays_empty(self, fetch, site):
        """It is not the message."""
        site.pages["/"] = 404, {}, b""
        assert fetch(onError="return") == ""

    @pytest.mark.parametrize("output", ["text", "json", "html-stripped"])
    def test_a_failure_without_an_answer_gives_the_message(self, fetch, output):
        """Nobody listens."""
        said = fetch(url="http://127.0.0.1:9/x?q=secret", outputFormat=output, onError="return")
        assert said.startswith("WebFetch: no answer from 127.0.0.1")

    @pytest.mark.parametrize(
        ("output", "shown"),
        [
            ("text", "WebFetch: no answer from 127.0.0.1 in time"),
            ("json", "WebFetch: no answer from 127.0.0.1 in time"),
            ("html-stripped", "WebFetch: no answer from 127.0.0.1 in time"),
            (
                "full",
                '{"error": "WebFetch: no answer from 127.0.0.1 in time", '
                '"status_code": null, "headers": null, "body": null}',
            ),
        ],
    )
    def test_a_server_that_never_answers(self, fetch, site, output, shown):
        """The message, in the form of the format."""
        site.pages["/"] = lambda handler: site.leaving.wait(PATIENCE_S)
        assert fetch(outputFormat=output, onError="return", timeout=0.05) == shown

    def test_a_server_that_never_answers_ends_the_run(self, fetch, site):
        """By default."""
        site.pages["/"] = lambda handler: site.leaving.wait(PATIENCE_S)
        with pytest.raises(WebError, match=r"^WebFetch: no answer from 127\.0\.0\.1 in time$"):
            fetch(timeout=0.05)

    @pytest.mark.parametrize(("output", "shown"), [("text", HTML.decode()), ("html-stripped", "Hi\nyou")])
    def test_only_json_has_to_be_json(self, fetch, site, output, shown):
        """Any text is a good answer of the other formats."""
        site.pages["/"] = 200, {}, HTML
        assert fetch(outputFormat=output) == shown

    def test_all_of_an_answer_that_is_no_json(self, fetch, site):
        """The body is a text in it."""
        site.pages["/"] = 200, {}, HTML
        facts = json.loads(fetch(outputFormat="full"))
        assert (facts["status_code"], facts["body"]) == (200, HTML.decode())

    def test_all_of_a_failure_with_an_answer(self, fetch, site):
        """Four keys in their order; the body is cut at the cap."""
        site.pages["/"] = 503, {}, b"x" * 100
        facts = json.loads(fetch(outputFormat="full", onError="return", maxResponseBytes=7))
        assert list(facts) == ["error", "status_code", "headers", "body"]
        assert (facts["error"], facts["status_code"], facts["body"]) == (
            "WebFetch: 127.0.0.1 answered 503",
            503,
            "x" * 7,
        )

    def test_all_of_a_refused_address(self, fetch):
        """There is no response."""
        facts = json.loads(
            fetch(
                url="http://169.254.169.254/",
                outputFormat="full",
                onError="return",
                blockPrivateAddresses=True,
            )
        )
        assert facts == {
            "error": "WebFetch: address not allowed (link-local)",
            "status_code": None,
            "headers": None,
            "body": None,
        }

    @pytest.mark.parametrize(
        ("status", "output", "message"),
        [(404, "text", "WebFetch: 127.0.0.1 answered 404"), (200, "json", "is no JSON")],
    )
    def test_a_failure_ends_the_run_by_default(self, fetch, site, status, output, message):
        """With one sentence."""
        site.pages["/"] = status, {}, HTML
        with pytest.raises(WebError, match=message):
            fetch(outputFormat=output)

    def test_a_body_over_the_cap_is_a_failure(self, fetch, site):
        """As text, too."""
        site.pages["/"] = 200, {}, b"x" * 11
        assert "larger than 10 bytes" in fetch(maxResponseBytes="10", onError="return")

    def test_a_cap_of_zero_is_none(self, fetch, site):
        """Nor does a negative one cut."""
        site.pages["/"] = 200, {}, b"x" * 11
        assert fetch(maxResponseBytes=0) == "x" * 11


class TestRequest:
    """What is sent."""

    def test_variables_are_filled(self, fetch, bench, site):
        """In the URL, header values and the body; not in header names."""
        bench.engine.values["v"] = "V\u00fc"
        site.pages["/"] = 200, {}, b"ok"
        fetch(url="{site}/?q={v}", method="post", headers={"X-N": 1, "X-A": "{site}"}, body="{v}")
        seen = site.seen[0]
        assert (seen.method, seen.path, seen.body) == ("POST", "/?q=V%C3%BC", "V\u00fc".encode())
        assert (seen.headers["X-N"], seen.headers["X-A"]) == ("1", site.url(""))

    def test_a_body_that_is_no_text_is_made_one(self, fetch, site):
        """No content type is added."""
        site.pages["/"] = 200, {}, b"ok"
        fetch(method="PUT", body=7)
        assert site.seen[0].body == b"7"
        assert "Content-Type" not in site.seen[0].headers

    def test_an_object_is_sent_as_json(self, fetch, bench, site):
        """Its texts are filled at any depth, its keys never; no quote or line end of a value can break it."""
        bench.engine.values["said"] = 'He said "no",\nthen left.'
        site.pages["/"] = 200, {}, b"ok"
        body = {"text": "{said}", "{said}": True, "n": None, "list": [1, {"deep": "so: {said}"}, "\u00fc"]}
        fetch(method="POST", body=body)
        seen = site.seen[0]
        said = bench.engine.values["said"]
        assert json.loads(seen.body) == {
            "text": said,
            "{said}": True,
            "n": None,
            "list": [1, {"deep": f"so: {said}"}, "\u00fc"],
        }
        assert seen.headers["Content-Type"] == "application/json"

    def test_a_list_is_sent_as_json(self, fetch, site):
        site.pages["/"] = 200, {}, b"ok"
        fetch(method="POST", body=["{site}", False])
        assert json.loads(site.seen[0].body) == [site.url(""), False]

    def test_a_content_type_of_the_author_stays(self, fetch, site):
        """However its name is spelt."""
        site.pages["/"] = 200, {}, b"ok"
        fetch(method="POST", body={"a": 1}, headers={"content-TYPE": "application/vnd.a+json"})
        types = [value for name, value in site.seen[0].headers.items() if name.lower() == "content-type"]
        assert types == ["application/vnd.a+json"]

    def test_header_values_are_written_as_json_writes_them(self, fetch, bench, site):
        """A service reads `true` and `null`, not Python's words; an object cannot be broken either."""
        bench.engine.values["said"] = 'a "b"'
        site.pages["/"] = 200, {}, b"ok"
        values = {"X-T": True, "X-N": None, "X-F": 1.5, "X-O": {"a": ["{said}", False]}}
        fetch(headers=values)
        seen = site.seen[0].headers
        assert (seen["X-T"], seen["X-N"], seen["X-F"]) == ("true", "null", "1.5")
        assert json.loads(seen["X-O"]) == {"a": ['a "b"', False]}

    @pytest.mark.parametrize(
        ("body", "jinja2", "warned"),
        [
            ('{"text": "{agent1Output}"}', False, True),
            ('{{"text": "so: {agent1Output}", "n": 1}}', False, True),
            ('[{"a": {"b": "{chat_user_prompt_last_one}"}}]', False, True),
            ('{"text": "{{ agent1Output }}"}', True, True),
            ('{"n": {agent1Output}}', False, False),
            ('{"text": {{ agent1Output | tojson }}}', True, False),
            ('{"text": "fixed"}', False, False),
            ("text={agent1Output}", False, False),
            ('say "{agent1Output}"', False, False),
            ('{"text": "{agent1Output}"', False, False),
            ({"text": "{agent1Output}"}, False, False),
            (None, False, False),
        ],
        ids=str,
    )
    def test_validation_warns_of_a_text_that_a_value_can_break(self, body, jinja2, warned):
        """A variable between the quotes of what otherwise is JSON."""
        found = node_handler("WebFetch").config_warnings({"body": body, "jinja2": jinja2})
        assert [field for field, _ in found] == ["body"] * warned

    @pytest.mark.parametrize("headers", [None, {}, "", 0, False, []])
    def test_empty_headers_are_none(self, fetch, site, headers):
        """Whatever their type."""
        site.pages["/"] = 200, {}, b"ok"
        assert fetch(headers=headers) == "ok"

    @pytest.mark.parametrize("headers", ["X-A: 1", ["X-A"], 7])
    def test_headers_of_another_form_say_what_is_allowed(self, fetch, headers):
        with pytest.raises(ConfigError, match="an object of header names and values"):
            fetch(headers=headers)

    def test_a_secret_of_the_environment_is_filled_in(self, fetch, site, monkeypatch):
        """Braces in it are no variable."""
        monkeypatch.setenv("SHOP_KEY", "s3cret-{site}")
        site.pages["/"] = 200, {}, b"ok"
        fetch(headers={"X-A": "Bearer ${ENV:SHOP_KEY}"})
        assert site.seen[0].headers["X-A"] == "Bearer s3cret-{site}"

    def test_an_inserted_value_names_no_secret(self, fetch, bench, site, monkeypatch):
        """A model must not be able to ask for one."""
        monkeypatch.setenv("SHOP_KEY", "s3cret")
        bench.engine.values["v"] = "${ENV:SHOP_KEY}"
        site.pages["/"] = 200, {}, b"ok"
        fetch(headers={"X-A": "{v}"})
        assert site.seen[0].headers["X-A"] == "${ENV:SHOP_KEY}"

    def test_such_a_header_stays_with_its_origin(self, fetch, site, dialled, monkeypatch):
        """Whatever its name."""
        monkeypatch.setenv("SHOP_KEY", "s3cret")
        site.pages = {"/": (302, {"Location": "http://127.0.0.1:1/two"}, b""), "/two": (200, {}, b"ok")}
        fetch(headers={"X-A": "${ENV:SHOP_KEY}"})
        assert "X-A" not in site.seen[1].headers

    def test_a_missing_secret_is_a_fault_of_the_file(self, fetch):
        """Named, with its place."""
        with pytest.raises(ConfigError, match=r"Main\.json: node 2, headers\.X-A: .*NO_SUCH_KEY"):
            fetch(headers={"X-A": "${ENV:NO_SUCH_KEY}"}, onError="return")

    def test_redirects_can_be_switched_off(self, fetch, site):
        """The 3xx is a good answer."""
        site.pages["/"] = 302, {"Location": "/two"}, b"moved"
        assert fetch(allowRedirects=False) == "moved"


class TestGuards:
    """Opt-in, and the user's policy."""

    @pytest.mark.parametrize(
        "fields",
        [
            {"blockPrivateAddresses": True},
            {"allowedHosts": ["a.example"]},
            {"allowedHosts": ["{v}", "a.example"]},
        ],
    )
    def test_loopback_is_refused(self, fetch, site, fields):
        """The server sees nothing."""
        with pytest.raises(WebError, match="address not allowed"):
            fetch(**fields)
        assert site.seen == []

    def test_an_allowed_host_passes(self, fetch, bench, site):
        """Entries take variables, case does not count."""
        bench.engine.values["v"] = " 127.0.0.1 "
        site.pages["/"] = 200, {}, b"ok"
        assert fetch(allowedHosts=["{v}", ""]) == "ok"

    def test_the_users_policy_cannot_be_loosened(self, fetch, bench, site):
        """`outboundPolicy` of the user file."""
        bench.user = dataclasses.replace(bench.user, outbound_policy="block-private")
        with pytest.raises(WebError, match="loopback"):
            fetch(blockPrivateAddresses=False)

    @pytest.mark.parametrize(
        ("fields", "unguarded"),
        [({}, ["url"]), ({"blockPrivateAddresses": True}, []), ({"allowedHosts": ["a"]}, [])],
    )
    def test_validation_is_told_what_nothing_guards(self, fields, unguarded):
        """Either control is a guard."""
        assert node_handler("WebFetch").unguarded_fields(fields) == unguarded


WRONG = [
    {"url": ""},
    {"url": 1},
    {"method": "GET /"},
    {"method": 1},
    {"headers": "X: y"},
    {"timeout": 0},
    {"timeout": True},
    {"timeout": "soon"},
    {"timeout": float("nan")},
    {"timeout": float("inf")},
    {"timeout": 10**400},
    {"totalTimeout": -1},
    {"outputFormat": "xml"},
    {"htmlLayout": "both"},
    {"onError": "ignore"},
    {"proxy": 1},
    {"proxy": "ftp://a.example"},
    {"proxy": "a.example:80"},
    {"proxy": "socks5h://a.example:80", "blockPrivateAddresses": True},
    {"allowRedirects": "true"},
    {"verify": 1},
    {"caBundle": "/no/such/file.pem"},
    {"caBundle": 1},
    {"maxResponseBytes": True},
    {"maxResponseBytes": "many"},
    {"maxResponseBytes": [1]},
    {"blockPrivateAddresses": "true"},
    {"allowedHosts": []},
    {"allowedHosts": ["", " "]},
    {"allowedHosts": "a.example"},
    {"allowedHosts": [1]},
]


@pytest.mark.parametrize("key", ["timeout", "totalTimeout"])
@pytest.mark.parametrize(("seconds", "good"), [(0, False), (-1, False), (0.1, True), (70, True)])
def test_a_limit_is_more_than_no_time(bench, key, seconds, good):
    """The check says so before a run does."""
    wrong, _ = bench.findings("WebFetch", url="http://a.example", **{key: seconds})
    assert wrong == ([] if good else [f"/{key}"])


class TestFields:
    """What is wrong in the file is told whatever `onError` says."""

    @pytest.mark.parametrize("fields", WRONG, ids=repr)
    def test_a_wrong_field_is_a_config_error(self, fetch, site, fields):
        """Before anything is sent, naming the field."""
        with pytest.raises(ConfigError, match=f"'{next(iter(fields))}'"):
            fetch(**{"onError": "return", **fields})
        assert site.seen == []

    @pytest.mark.parametrize(
        "fields", [{}, {"timeout": "2.5", "maxResponseBytes": 1e3, "proxy": "", "caBundle": " "}]
    )
    def test_a_right_one_is_none(self, fetch, bench, site, fields):
        """Nor does the schema find anything."""
        site.pages["/"] = 200, {}, b"ok"
        assert fetch(**fields) == "ok"
        assert bench.findings("WebFetch", url="u", **fields) == ([], [])

    @pytest.mark.parametrize(
        ("fields", "pointer"),
        [
            ({"url": ""}, "/url"),
            ({"headers": "X: y"}, "/headers"),
            ({"timeout": 0}, "/timeout"),
            ({"outputFormat": "xml"}, "/outputFormat"),
            ({"verify": 1}, "/verify"),
            ({"allowedHosts": []}, "/allowedHosts"),
        ],
    )
    def test_the_schema_finds_wrong_ones(self, bench, fields, pointer):
        """Before a run."""
        assert bench.findings("WebFetch", **{"url": "u", **fields})[0] == [pointer]

    def test_switched_off_tls_checks_are_warned_of(self, fetch, bench, site):
        """And the bundle is not looked at."""
        site.pages["/"] = 200, {}, b"ok"
        assert fetch(verify=False, caBundle="/no/such/file.pem") == "ok"
        assert "'verify' is false" in bench.engine.warnings[0]

    def test_a_bundle_is_handed_on(self, fetch, site, tmp_path):
        """It only counts under TLS."""
        (tmp_path / "ca.pem").write_text("")
        site.pages["/"] = 200, {}, b"ok"
        assert fetch(caBundle=str(tmp_path / "ca.pem")) == "ok"

    def test_a_proxy_under_the_guard_is_told_of_once(self, fetch, bench, site):
        """It resolves the name again, at each run of the node."""
        bench.facts["snapshot"] = bench.context("").snapshot
        site.pages["http://93.184.216.34/"] = 200, {}, b"ok"
        fields = {"proxy": site.url(), "blockPrivateAddresses": True}
        assert fetch(url="http://93.184.216.34/", **fields) == "ok"
        assert fetch(url="http://93.184.216.34/", **fields) == "ok"
        (warning,) = bench.engine.warnings
        assert "the proxy resolves names" in warning


def test_the_log_line_names_the_node(fetch, site, caplog):
    """With host, status, bytes and milliseconds, and nothing else of the call."""
    caplog.set_level("INFO")
    site.pages["/secret"] = 200, {}, b"12345"
    fetch(url="{site}/secret?q=secret", headers={"X-Key": "secret"})
    (line,) = [record.getMessage() for record in caplog.records if "bytes" in record.getMessage()]
    assert re.fullmatch(r"\S*Main\.json, node 2: GET 127\.0\.0\.1: status 200, 5 bytes, \d+ ms", line)


def test_a_cancelled_request_is_not_a_failure(fetch, site):
    """`onError` does not catch it."""
    cancellation_service.request_cancellation("r1")
    with pytest.raises(RequestCancelled):
        fetch(onError="return")
    cancellation_service.acknowledge_cancellation("r1")


def test_a_dry_run_tells_the_host_only(bench):
    """Nothing is sent."""
    assert bench.notes("WebFetch", url="https://a.example/path?q=1", method="post") == [
        "would call POST a.example"
    ]


def test_a_refused_address_is_a_value_error():
    """So that callers of other kinds can catch it."""
    assert issubclass(AddressRefused, ValueError)


@pytest.mark.parametrize(
    ("fields", "seconds", "whole"),
    [
        ({}, 30.0, []),
        ({"timeout": "2.5"}, 2.5, []),
        ({"timeout": 9, "totalTimeout": "70"}, 9.0, [70.0]),
    ],
    ids=["by-default", "for-each-read", "for-all-of-it"],
)
def test_how_long_an_answer_is_waited_for(fetch, site, waits, timers, fields, seconds, whole):
    """Half a minute for each read, as long as it takes for all of it."""
    site.pages["/"] = 200, {}, b"ok"
    assert fetch(**fields) == "ok"
    assert waits == [seconds]
    assert [timer.interval for timer in timers] == whole
