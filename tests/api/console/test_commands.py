"""Commands that do again what a run did: console.md 8.6 and the vector 16.11, held against a real shell."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from Middleware.api.console.call_views import CUT_BODY, as_explain, call_as_curl, request_as_curl
from tests.api.console.traced import call_of, node_of, run_of

URL = "http://10.0.0.7:8080/v1/chat/completions"
HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer sk-123456"}
BODY = b"""{"a":"it's"}"""


def sent(**facts):
    return call_of(**{"url": URL, "headers": HEADERS, "body": BODY, "secrets": ("sk-123456",), **facts})


def in_a_shell(command, **variables):
    """The words that a shell makes of it."""
    show = "import json, sys; print(json.dumps(sys.argv[1:]))"
    script = f"curl() {{ python3 -c '{show}' \"$@\"; }}\n{command}"
    made = subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, check=True, env={**os.environ, **variables}
    )
    return json.loads(made.stdout)


class TestCall:
    def test_for_sh(self):
        assert call_as_curl(sent(), "sh") == (
            """curl http://10.0.0.7:8080/v1/chat/completions -H 'Content-Type: application/json' """
            """-H "Authorization: Bearer $API_KEY" -d '{"a":"it'\\''s"}'"""
        )

    def test_for_powershell(self):
        assert call_as_curl(sent(), "powershell") == (
            """curl.exe http://10.0.0.7:8080/v1/chat/completions -H 'Content-Type: application/json' """
            """-H "Authorization: Bearer $env:API_KEY" -d '{"a":"it''s"}'"""
        )

    def test_a_shell_reads_what_was_sent(self):
        """Whatever stands in body, header and address."""
        body = """{"a":"it's $HOME `id` \\\\ \\" !\n"}"""
        call = sent(
            body=body.encode(),
            headers={"X-Note": 'it\'s $5 "or" `so`', "Authorization": "Bearer sk-123456"},
            url="http://h/a?b=1;id&c={d}",
        )
        assert in_a_shell(call_as_curl(call, "sh"), API_KEY="k") == [
            "-g",
            "http://h/a?b=1;id&c={d}",
            *("-H", 'X-Note: it\'s $5 "or" `so`', "-H", "Authorization: Bearer k", "-d", body),
        ]

    @pytest.mark.parametrize(
        ("name", "value", "words"),
        [
            ("x-api-key", "abc", '"x-api-key: $API_KEY"'),
            ("api-key", "abc", '"api-key: $API_KEY"'),
            ("Authorization", "abc", '"Authorization: $API_KEY"'),
            ("X-Team-Token", "abc", '"X-Team-Token: $X_TEAM_TOKEN"'),
            ("X-Team", "sk-123456", '"X-Team: $X_TEAM"'),
            ("X-Team", "a", "'X-Team: a'"),
        ],
    )
    def test_a_secret_is_named_after_its_header(self, name, value, words):
        assert f"-H {words}" in call_as_curl(sent(headers={name: value}), "sh")

    @pytest.mark.parametrize(
        ("shell", "address"),
        [
            ("sh", '"http://u:$URL_SECRET@h:1/v1?a=\\$b"'),
            ("powershell", '"http://u:$env:URL_SECRET@h:1/v1?a=`$b"'),
        ],
    )
    def test_a_password_in_the_address(self, shell, address):
        command = call_as_curl(sent(url="http://u:pw123456@h:1/v1?a=$b", secrets=("pw123456",)), shell)
        assert command.split(" ")[1] == address

    def test_no_secret_is_in_any_command(self):
        """Wherever it stood."""
        call = sent(
            url="http://h/?key=hunter2hunter2", body=b'{"a":"hunter2hunter2"}', secrets=("hunter2hunter2",)
        )
        for shell in ("sh", "powershell"):
            assert "hunter2" not in call_as_curl(call, shell)

    @pytest.mark.parametrize("extra", [0, 1], ids=["8-KB", "more"])
    def test_a_long_body_is_a_file(self, extra):
        body = b"a" * (8192 + extra)
        assert call_as_curl(sent(body=body), "sh").endswith(" -d @body.json") is bool(extra)

    def test_a_body_with_a_nul_is_a_file(self):
        """No argument of a program can hold one."""
        assert call_as_curl(sent(body=b"\0"), "sh").endswith(" -d @body.json")

    def test_powershell_would_take_a_bare_at_sign_for_its_own(self):
        assert call_as_curl(sent(body=b"a" * 9000), "powershell").endswith(" -d '@body.json'")

    def test_a_body_that_was_cut(self):
        """The command says that it does not do the same."""
        assert call_as_curl(sent(), "sh", is_cut=True).splitlines()[0] == CUT_BODY

    def test_without_a_body(self):
        assert call_as_curl(sent(body=b"", headers={}, url="http://h/news"), "sh") == "curl http://h/news"

    def test_what_curl_makes_itself_is_left_out(self):
        headers = {"Host": "h", "Content-Length": "3", "Accept-Encoding": "gzip", "Accept": "a/b"}
        assert call_as_curl(sent(headers=headers, body=b""), "sh") == f"curl {URL} -H 'Accept: a/b'"


class TestRequest:
    @pytest.mark.parametrize(
        ("needs_key", "key"), [(False, ""), (True, ' -H "Authorization: Bearer $API_KEY"')]
    )
    def test_with_a_key_where_one_is_needed(self, needs_key, key):
        run = run_of(asked=b'{"a":1}')
        assert request_as_curl(run, "http://localhost:5000", "sh", needs_key=needs_key) == (
            "curl http://localhost:5000/v1/chat/completions -H 'Content-Type: application/json'"
            f"{key} -d '{{\"a\":1}}'"
        )

    def test_of_the_console_itself(self):
        """It answers nobody who does not say so."""
        command = request_as_curl(run_of(path="/console/api/try", asked=b"{}"), "http://h", "sh")
        assert "-H 'X-Headrace-Console: 1'" in command


class TestExplain:
    def test_a_node(self):
        assert as_explain(run_of(), node_of(4, "Answer"), "sh") == (
            "python server.py --User mira --explain 'Reviewers#4' --messages messages.json"
        )

    def test_a_name_with_a_quote(self):
        node = node_of(1, workflow="Workflows/mira/Mira's.json")
        assert "--explain 'Mira''s#1'" in as_explain(run_of(), node, "powershell")

    def test_the_start_of_a_shared_folder(self):
        """It is found by the name of its model."""
        node = node_of(2, workflow="Workflows/_shared/novel/_DefaultWorkflow.json")
        assert "--explain 'mira:novel#2'" in as_explain(run_of(model="mira:novel"), node, "sh")
