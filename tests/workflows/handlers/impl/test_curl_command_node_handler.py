"""CurlCommand: what curl gets, what comes out, and what is refused. Runs the real curl against loopback."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import threading

import pytest

from Middleware.common.errors import ConfigError, RequestCancelled
from Middleware.services.cancellation_service import cancellation_service
from Middleware.workflows.handlers.node_types import node_handler
from Middleware.workflows.tools import curl_runner

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")


@pytest.fixture
def curl(bench, site):
    bench.engine.values["site"] = site.url("")
    site.pages["/"] = 200, {}, b"ok"
    return lambda *args, **fields: bench("CurlCommand", args=["-sS", *args], **fields)


@pytest.fixture
def fake(monkeypatch, tmp_path):
    """A program that stands in for curl: a shell script."""

    def made(script):
        (tmp_path / "bin").mkdir()
        program = tmp_path / "bin" / "curl"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")

    return made


class TestOutput:
    """Every format times every outcome."""

    @pytest.mark.parametrize(
        ("output", "shown"),
        [
            ("stdout", "out"),
            ("stdout+stderr", "outerr"),
            ("full", '{"stdout": "out", "stderr": "err", "returncode": 0}'),
        ],
    )
    def test_a_good_run(self, curl, fake, output, shown):
        """Exit status 0."""
        fake("printf out; printf err >&2")
        assert curl(outputFormat=output) == shown

    @pytest.mark.parametrize(
        ("output", "shown"),
        [
            ("stdout", "out"),
            ("stdout+stderr", "outerr"),
            ("full", '{"stdout": "out", "stderr": "err", "returncode": 7}'),
        ],
    )
    def test_a_failed_run_that_returns(self, curl, fake, output, shown):
        """The same, with its status."""
        fake("printf out; printf err >&2; exit 7")
        assert curl(outputFormat=output, onError="return") == shown

    def test_a_failed_run_ends_the_node(self, curl, fake):
        """With what curl said."""
        fake("echo ' bad ' >&2; exit 7")
        with pytest.raises(RuntimeError, match=r"^curl failed: bad$"):
            curl()

    @pytest.mark.parametrize("output", ["stdout", "stdout+stderr"])
    def test_a_late_run_gives_the_literal(self, curl, fake, output):
        """As it is written in the file."""
        fake("printf out; exec sleep 60")
        assert curl(outputFormat=output, onError="return", timeout=0.2) == "curl timed out after 0.2 seconds"

    def test_all_of_a_late_run(self, curl, fake):
        """With what came so far."""
        fake("printf out; printf err >&2; exec sleep 60")
        facts = json.loads(curl(outputFormat="full", onError="return", timeout="1"))
        assert facts == {
            "stdout": "out",
            "stderr": "err",
            "returncode": None,
            "error": "curl timed out after 1 seconds",
        }

    def test_a_late_run_ends_the_node(self, curl, fake):
        """Its children die with it."""
        fake("sleep 60 & sleep 60")
        with pytest.raises(TimeoutError, match="timed out after"):
            curl(timeout=0.2)

    @pytest.mark.parametrize(("fields", "seconds"), [({}, 30.0), ({"timeout": "2.5"}, 2.5)])
    def test_how_long_curl_may_run(self, curl, fake, timers, fields, seconds):
        """Half a minute by default; nobody watches a run that is over."""
        fake("printf out")
        assert curl(**fields) == "out"
        (timer,) = timers
        assert (timer.interval, timer.daemon, timer.finished.is_set()) == (seconds, True, True)

    @pytest.mark.parametrize("script", ["printf out", "exit 7"], ids=["good", "failed"])
    def test_a_run_that_is_over_is_no_longer_cancelled(self, curl, fake, script):
        """It leaves nothing behind for its request."""
        fake(script)
        curl(onError="return")
        assert "r1" not in cancellation_service._callbacks

    def test_exactly_the_cap_is_fine(self, curl, fake):
        """One more is not."""
        fake("printf 12345")
        assert curl(maxResponseBytes=5) == "12345"

    @pytest.mark.parametrize("cap", [4, "4"])
    def test_a_passed_cap_is_a_failure(self, curl, fake, cap):
        """Exactly so many bytes are kept."""
        fake("printf 12345; exec sleep 60")
        facts = json.loads(curl(maxResponseBytes=cap, outputFormat="full", onError="return"))
        assert (facts["stdout"], facts["returncode"]) == ("1234", None)
        assert "larger than 4 bytes" in facts["error"]

    def test_a_flood_of_errors_stops_nothing(self, curl, fake):
        """It is drained, and kept up to the cap."""
        fake("head -c 300000 /dev/zero | tr '\\0' x >&2; printf out")
        facts = json.loads(curl(maxResponseBytes=1000, outputFormat="full"))
        assert (facts["stdout"], len(facts["stderr"])) == ("out", 1000)

    def test_bytes_that_are_no_text_are_replaced(self, curl, fake):
        """UTF-8 is read."""
        fake("printf '\\377'")
        assert curl() == "\ufffd"

    def test_a_missing_curl(self, curl, monkeypatch, tmp_path):
        """Whatever `onError` says."""
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(FileNotFoundError, match="curl"):
            curl(onError="return")

    def test_a_curl_that_reads_nothing(self, curl, fake):
        """Its status says why it ended."""
        fake("exec 0<&-; exit 3")
        facts = json.loads(curl("-d", "x" * 50_000, outputFormat="full", onError="return"))
        assert facts["returncode"] == 3

    def test_a_cancelled_request_kills_it(self, curl, fake):
        """And is no failure."""
        fake("exec sleep 60")
        threading.Timer(0.1, cancellation_service.request_cancellation, ("r1",)).start()
        with pytest.raises(RequestCancelled):
            curl(onError="return")
        cancellation_service.acknowledge_cancellation("r1")


class TestCommand:
    """What the program gets."""

    def test_arguments_are_filled_and_sent(self, curl, bench, site):
        """One element is one argument, whatever it holds."""
        bench.engine.values["note"] = "a 'b' \"c\"\nd\\e\u00fc $HOME `id`"
        assert curl("-X", "POST", "-H", "X-A: 1", "--data-raw", "{note}", "{site}/") == "ok"
        seen = site.seen[0]
        assert (seen.method, seen.headers["X-A"], seen.body.decode()) == (
            "POST",
            "1",
            bench.engine.values["note"],
        )

    def test_the_command_line_shows_nothing_of_them(self, curl, fake):
        """Other users of the machine can read it."""
        fake('printf "%s " "$@"; cat')
        shown = curl("-H", "Authorization: Bearer s3cret", "https://a.example/")
        words, _, _ = shown.partition(" \n" if " \n" in shown else " --")
        assert shown.startswith("--config - ")
        assert '--header "Authorization: Bearer s3cret"' in shown
        assert '--max-filesize "10485760"' in shown
        assert "s3cret" not in words

    def test_a_value_that_is_too_long_for_a_line_is_sent_whole(self, curl, site):
        """On the command line, then."""
        curl("-d", "x" * 100_000, "{site}/")
        assert len(site.seen[0].body) == 100_000

    @pytest.mark.parametrize("args", [["--max-filesize", "9"], ["--max-filesize=9"]])
    def test_the_authors_limit_counts(self, curl, fake, args):
        """None of ours is added."""
        fake("cat")
        assert curl(*args).count("max-filesize") == 1

    def test_options_that_nobody_knows_go_in_as_they_are(self, curl, fake):
        """Without a guard."""
        fake('printf "%s " "$@"')
        assert curl("--brand-new", "x", proxy="http://p").endswith("--proxy http://p -sS --brand-new x ")

    @pytest.mark.parametrize("args", [["--max-filesize", "9"], ["--max-filesize=9"], []])
    def test_beside_such_options_the_authors_limit_counts_too(self, curl, fake, args):
        """Ours stands in front where the author names none."""
        fake('cat; printf "%s " "$@"')
        assert curl("--brand-new", *args).count("max-filesize") == 1

    def test_the_rc_file_stays_away_on_wish(self, curl, bench, fake):
        """`-q` must come first."""
        fake('printf "%s " "$@"')
        assert bench("CurlCommand", args=["-q", "http://a.example"]) == "-q --config - "

    @pytest.mark.parametrize(
        ("args", "texts"), [([1, True, None, 1.5], ["1", "true", "null", "1.5"]), ([], [])]
    )
    def test_elements_are_made_text(self, bench, fake, args, texts):
        """As JSON writes them."""
        fake("cat")
        urls = [line for line in bench("CurlCommand", args=args).splitlines() if "url" in line]
        assert urls == [f'--url "{text}"' for text in texts]

    def test_an_object_is_json_whatever_is_filled_in(self, curl, bench, site):
        """No quote or line end of a value breaks it."""
        bench.engine.values["said"] = 'He said "no",\nthen left.'
        site.pages["/"] = 200, {}, b"ok"
        curl("-sS", "--data-raw", {"text": "{said}", "ok": True, "list": [1, "{said}"]}, "{site}/")
        assert json.loads(site.seen[0].body) == {
            "text": 'He said "no",\nthen left.',
            "ok": True,
            "list": [1, 'He said "no",\nthen left.'],
        }

    def test_validation_warns_of_data_that_a_value_can_break(self):
        """It names the argument."""
        args = ["--json", '{"text": "{agent1Output}"}', "http://a.example"]
        (found,) = node_handler("CurlCommand").config_warnings({"args": args})
        assert found[0] == "args/1"


class TestLog:
    """One line a call: node, host, exit status, bytes, milliseconds."""

    @pytest.mark.parametrize(
        ("args", "host"),
        [
            (["{site}/secret?q=secret"], r"127\.0\.0\.1"),
            (["-u", "me:secret", "me:secret@a.example/secret"], r"a\.example"),
            (["--brand-new", "secret"], "no host"),
            ([], "no host"),
        ],
    )
    def test_it_shows_nothing_else(self, curl, fake, caplog, args, host):
        caplog.set_level("INFO")
        fake("printf 12345; exit 7")
        curl(*args, onError="return")
        (line,) = [record.getMessage() for record in caplog.records if "bytes" in record.getMessage()]
        assert re.fullmatch(rf"\S*Main\.json, node 2: curl {host}: status 7, 5 bytes, \d+ ms", line)


class TestGuard:
    """`allowedHosts` and `blockPrivateAddresses`."""

    def test_the_guarded_command(self, curl, fake, monkeypatch):
        """No rc file, no other scheme, no patterns, no proxy, the judged address."""
        answer = [(2, 1, 6, "", ("93.184.216.34", 80))]
        monkeypatch.setattr("socket.getaddrinfo", lambda *args: answer)
        fake('printf "%s " "$@"; cat')
        shown = curl("a.example/x", blockPrivateAddresses=True)
        assert shown.startswith("-q --config - ")
        assert '--resolve "a.example:80:93.184.216.34"\n--url "http://a.example/x"' in shown
        assert '--proto "=http,https"\n--proto-redir "=http,https"' in shown
        assert "--globoff\n--no-netrc\n" in shown
        assert '--noproxy "*"' in shown

    def test_the_real_curl_takes_it(self, curl):
        """And reaches an allowed host."""
        assert curl("{site}/", allowedHosts=["127.0.0.1"]) == "ok"

    @pytest.mark.parametrize(
        ("args", "message"),
        [
            (["{site}/"], "argument 2: address not allowed"),
            (["--connect-to", "::1.1.1.1:80", "http://a.example"], "argument 2: --connect-to"),
            (["--brand-new"], "argument 2: the option is unknown"),
        ],
    )
    def test_a_refusal_is_a_config_error(self, curl, site, args, message):
        """Whatever `onError` says; nothing is asked."""
        with pytest.raises(ConfigError, match=message):
            curl(*args, onError="return", blockPrivateAddresses=True)
        assert site.seen == []

    def test_the_users_policy_counts(self, curl, bench):
        """`outboundPolicy` of the user file."""
        bench.user = dataclasses.replace(bench.user, outbound_policy="block-private")
        with pytest.raises(ConfigError, match="loopback"):
            curl("{site}/")

    @pytest.mark.parametrize("fields", [{"allowedHosts": ["a.example"]}, {"blockPrivateAddresses": True}])
    @pytest.mark.parametrize("url", ["http://127.0.0.1:{port}/", "{host}:{port}", "{whole}"])
    def test_written_and_filled_in_addresses_are_judged_alike(self, curl, bench, site, fields, url):
        """All of it, a part of it, or none of it is filled in."""
        bench.engine.values |= {"host": "127.0.0.1", "port": str(site.port), "whole": site.url()}
        with pytest.raises(ConfigError, match="argument 2: address not allowed"):
            curl(url, **fields)
        assert site.seen == []

    @pytest.mark.parametrize(("fields", "reads"), [({}, True), ({"allowedHosts": ["127.0.0.1"]}, False)])
    def test_the_rc_file_of_the_real_curl(self, curl, site, monkeypatch, tmp_path, fields, reads):
        """It could add any URL: not read beside a guard."""
        (tmp_path / ".curlrc").write_text('header = "X-Rc: 1"\n')
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("CURL_HOME", str(tmp_path))
        curl("{site}/", **fields)
        assert ("X-Rc" in site.seen[0].headers) is reads

    @pytest.mark.parametrize("variable", ["http_proxy", "ALL_PROXY"])
    def test_what_holds_for_the_first_url_holds_behind_next(self, curl, site, monkeypatch, variable):
        """`--next` forgets most options: a proxy of the environment would resolve the second name itself."""
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
        assert curl("{site}/", "--next", "-sS", "{site}/", allowedHosts=["127.0.0.1"]) == "okok"

    def test_so_do_the_nodes_own_limits(self, curl, fake):
        """With and without a guard."""
        fake("cat")
        for fields in ({}, {"allowedHosts": ["a.example"]}):
            shown = curl(
                "a.example", "--next", "a.example", proxy="http://p.example", maxResponseBytes=700, **fields
            )
            assert shown.count('--proxy "http://p.example"') == shown.count('--max-filesize "700"') == 2

    @pytest.mark.parametrize("fields", [{"allowedHosts": ["a"]}, {"blockPrivateAddresses": True}])
    def test_validation_is_told_what_nothing_guards(self, fields):
        """Either control is a guard."""
        assert node_handler("CurlCommand").unguarded_fields({}) == ["args"]
        assert node_handler("CurlCommand").unguarded_fields(fields) == []


class TestRedirects:
    """With `-L` beside a guard they are followed here."""

    def test_each_hop_is_asked(self, curl, site):
        """The bodies of redirects are not shown; the author's own write-out is."""
        site.pages |= {"/1": (302, {"Location": "/2"}, b"no"), "/2": (307, {"Location": "/"}, b"no")}
        shown = curl("-L", "-w", " %{http_code}", "{site}/1", allowedHosts=["127.0.0.1"])
        assert shown == "ok 200"
        assert [seen.path for seen in site.seen] == ["/1", "/2", "/"]

    def test_a_hop_to_a_forbidden_host_is_refused(self, curl, site):
        """Nothing is asked there."""
        site.pages["/1"] = 302, {"Location": site.url("/", "localhost")}, b""
        with pytest.raises(ConfigError, match="not in 'allowedHosts'"):
            curl("-L", "{site}/1", allowedHosts=["127.0.0.1"])
        assert len(site.seen) == 1

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_one_that_says_no_place_is_the_output(self, curl, site, status):
        site.pages["/1"] = status, {}, b"somewhere"
        assert curl("-L", "{site}/1", allowedHosts=["127.0.0.1"]) == "somewhere"
        assert len(site.seen) == 1

    @pytest.mark.parametrize("status", [200, 201, 300, 404])
    def test_a_place_is_followed_only_where_the_status_says_so(self, curl, site, status):
        site.pages["/1"] = status, {"Location": "/"}, b"here"
        assert curl("-L", "{site}/1", allowedHosts=["127.0.0.1"]) == "here"
        assert len(site.seen) == 1

    def test_without_the_option_none_is_followed(self, curl, site):
        """The redirect is the output."""
        site.pages["/1"] = 302, {"Location": "/"}, b"moved"
        assert curl("{site}/1", allowedHosts=["127.0.0.1"]) == "moved"

    def test_there_is_a_limit(self, curl, site):
        """Ten, or fewer if the author says so."""
        site.pages["/1"] = 302, {"Location": "/1"}, b""
        with pytest.raises(RuntimeError, match="more than 2 redirects"):
            curl("-L", "--max-redirs", "2", "{site}/1", allowedHosts=["127.0.0.1"])
        assert len(site.seen) == 3

    def test_the_time_limit_is_one_for_all_hops(self, curl, site):
        """Each hop takes a part of it."""
        site.pages["/1"] = lambda handler: (
            site.leaving.wait(0.3),
            site.write(handler, 302, {"Location": "/1"}, b""),
        )
        said = curl("-L", "{site}/1", allowedHosts=["127.0.0.1"], timeout=1, onError="return")
        assert said == "curl timed out after 1 seconds"
        assert len(site.seen) < 6

    def test_a_failure_on_the_way_is_shown(self, curl):
        """As curl tells it."""
        with pytest.raises(RuntimeError, match="curl failed"):
            curl("-L", "http://127.0.0.1:9/", allowedHosts=["127.0.0.1"])

    def test_the_cap_counts_the_body(self, curl, site):
        """Not what is added at its end."""
        site.pages["/"] = 200, {}, [b"x" * 11]
        assert curl("-L", "{site}/", allowedHosts=["127.0.0.1"], maxResponseBytes=11) == "x" * 11
        said = curl("-L", "{site}/", allowedHosts=["127.0.0.1"], maxResponseBytes=10, onError="return")
        assert "larger than 10 bytes" in said

    @pytest.mark.parametrize(
        ("args", "message"),
        [(["{site}/", "{site}/"], "one URL"), (["-w", "@f", "{site}/"], "write-out from a file")],
    )
    def test_what_cannot_be_followed_is_refused(self, curl, args, message):
        """Before anything is asked."""
        with pytest.raises(ConfigError, match=message):
            curl("-L", *args, allowedHosts=["127.0.0.1"])


@pytest.mark.parametrize(
    "args", [["-d", "{note}"], ["-d", "x" * 100_000 + "{note}"], ["--brand-new", "{note}"]]
)
def test_half_a_character_is_replaced(curl, bench, fake, args):
    """It cannot be sent; a model or a client may write one."""
    fake('printf "%s " "$@"; cat')
    bench.engine.values["note"] = "a\ud800b"
    assert "a?b" in curl(*args)


class TestFields:
    """What is wrong in the file, and what was inserted."""

    @pytest.mark.parametrize(
        "fields",
        [
            {"args": "x"},
            {"timeout": 0},
            {"outputFormat": "json"},
            {"onError": "x"},
            {"proxy": 1},
            {"maxResponseBytes": True},
            {"blockOptionInjection": 1},
            {"allowSchemeInjection": "false"},
            {"allowedHosts": []},
            {"proxy": "socks5h://a:1", "blockPrivateAddresses": True},
        ],
        ids=repr,
    )
    def test_a_wrong_field_is_a_config_error(self, bench, fields):
        """Naming it."""
        with pytest.raises(ConfigError, match=f"'{next(iter(fields))}'"):
            bench("CurlCommand", **{"args": ["http://a.example"], "onError": "return", **fields})

    @pytest.mark.parametrize(
        ("value", "fields", "message"),
        [
            ("-o/tmp/x", {"blockOptionInjection": True}, "argument 2: a variable was filled with an option"),
            ("file:///etc/passwd", {}, "argument 2: what was filled in is no http address"),
            ("a\0b", {}, "argument 2 holds a NUL"),
        ],
    )
    def test_what_was_inserted_is_looked_at(self, curl, bench, value, fields, message):
        """Whatever `onError` says."""
        bench.engine.values["v"] = value
        with pytest.raises(ConfigError, match=message):
            curl("{v}", onError="return", **fields)

    @pytest.mark.parametrize("fields", [{}, {"blockOptionInjection": True}])
    @pytest.mark.parametrize("args", [["-o/tmp/x"], ["-d", "@note"], ["file:///etc/hostname"]], ids=repr)
    def test_what_the_author_wrote_is_not(self, curl, fake, args, fields):
        """An option, a file and another scheme, both guards on: curl gets them."""
        fake("cat >&2")
        given = json.loads(curl(*args, outputFormat="full", **fields))["stderr"]
        assert args[-1].removeprefix("-o") in given

    def test_a_file_that_was_inserted(self, curl, bench):
        """Only with the guard is it refused."""
        bench.engine.values["v"] = "@/etc/passwd"
        with pytest.raises(
            ConfigError, match="argument 3: a variable was filled with an option or the name of a file"
        ):
            curl("-d", "{v}", blockOptionInjection=True)

    def test_a_file_behind_an_option_is_seen(self, curl, bench):
        """The option is an argument of its own."""
        bench.engine.values["v"] = "/etc/passwd"
        with pytest.raises(
            ConfigError, match="argument 3: a variable was filled with an option or the name of a file"
        ):
            curl("-T", "{v}", "{site}/", blockOptionInjection=True)

    def test_a_second_request_in_a_header(self, curl, bench):
        """The server would take it for one of ours."""
        bench.engine.values["v"] = "a\r\n\r\nGET /admin HTTP/1.1\r\nHost: b"
        with pytest.raises(
            ConfigError, match="argument 3: a variable was filled with a text that contains a line break"
        ):
            curl("-H", "X: {v}", "{site}/", blockOptionInjection=True)

    @pytest.mark.parametrize("guard", ["blockPrivateAddresses", "allowedHosts", "outboundPolicy"])
    @pytest.mark.parametrize(
        "args",
        [["--stderr={v}"], ["--libcurl", "{v}"], ["-T", "{v}"], ["-o", "dir/{v}"], ["-d@{v}"], ["{v}"]],
        ids=str,
    )
    def test_a_guard_of_addresses_is_one_of_options(self, curl, bench, tmp_path, guard, args, user_with):
        """Who sets it believes that what is filled in can do no harm."""
        bench.engine.values["v"] = f"--stderr={tmp_path}/x" if args == ["{v}"] else f"../{tmp_path}/x"
        fields = {"blockPrivateAddresses": True} if guard == "blockPrivateAddresses" else {}
        if guard == "allowedHosts":
            fields = {"allowedHosts": ["127.0.0.1"]}
        if guard == "outboundPolicy":
            bench.user = user_with(outbound_policy="block-private")
        with pytest.raises(
            ConfigError, match=r"a variable was filled with (an option|a path that leads out of the folder)"
        ):
            curl(*args, "http://93.184.216.34/", onError="return", **fields)
        assert not (tmp_path / "x").exists()

    def test_a_file_may_be_named_in_part(self, curl, bench, site, tmp_path):
        """The folder is the author's, the rest is filled in."""
        bench.engine.values["v"] = "note"
        (tmp_path / "note.txt").write_text("from a file")
        curl("--data-binary", f"@{tmp_path}/{{v}}.txt", "{site}/", blockOptionInjection=True)
        assert site.seen[0].body == b"from a file"

    def test_a_folder_of_the_author_may_be_a_variable(self, curl, bench, site, tmp_path):
        """A user-wide or workflow variable is not filled in by a run."""
        bench.engine.fixed["dir"], bench.engine.values["v"] = str(tmp_path), "note"
        curl("-o", "{dir}/{v}.txt", "{site}/", blockOptionInjection=True)
        assert (tmp_path / "note.txt").read_bytes() == b"ok"

    def test_the_value_of_an_option_is_no_option(self, curl, bench, site):
        """What follows it is read by itself."""
        bench.engine.values["v"] = "x"
        curl("-H", "-T", "{v}", "{site}/", blockOptionInjection=True, onError="return")
        assert [seen.path for seen in site.seen] == ["/"]

    @pytest.mark.parametrize(
        ("args", "noted"),
        [
            (["-d", "@{v}"], ["args/1"]),
            (["-d@dir/{v}"], ["args/0"]),
            (["-F", "a=@{v}"], ["args/1"]),
            (["-d", "@note.txt"], []),
            (["--data-raw", "@{v}"], []),
            (["-d", "me@{v}"], []),
            (["-d", 7], []),
        ],
        ids=str,
    )
    def test_validation_notes_a_file_that_a_variable_names(self, args, noted):
        """It is allowed where the author wrote the `@`."""
        found = node_handler("CurlCommand").config_notes({"args": args})
        assert [field for field, _ in found] == noted

    def test_a_scheme_can_be_allowed(self, curl, bench, tmp_path):
        """By the author."""
        (tmp_path / "x").write_text("local")
        bench.engine.values["v"] = f"file://{tmp_path}/x"
        assert curl("{v}", allowSchemeInjection=True) == "local"

    def test_a_proxy_under_the_guard_is_told_of_once(self, curl, bench, site):
        """It resolves the name again, at each run of the node."""
        bench.facts["snapshot"] = bench.context("").snapshot
        site.pages["http://93.184.216.34/"] = 200, {}, b"ok"
        assert curl("http://93.184.216.34/", proxy=site.url(), blockPrivateAddresses=True) == "ok"
        assert curl("http://93.184.216.34/", proxy=site.url(), blockPrivateAddresses=True) == "ok"
        (warning,) = bench.engine.warnings
        assert "the proxy resolves names" in warning

    def test_a_dry_run_tells_no_argument(self, bench):
        """They may hold secrets."""
        assert bench.notes("CurlCommand", args=["a", "b"]) == ["would run curl with 2 arguments"]


def test_windows_kills_the_process_itself(curl, fake, monkeypatch):
    """There are no process groups."""
    monkeypatch.delattr(curl_runner.os, "killpg")
    fake("exec sleep 60")
    assert "timed out" in curl(timeout=0.2, onError="return")
