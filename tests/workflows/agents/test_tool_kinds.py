"""The kinds of tools: each call keeps to its time, ends when it is cancelled, and gives its result without secrets."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from Middleware.common.errors import BackendError, EarlyTermination, RequestCancelled, WorkflowError
from Middleware.common.request_context import current_request, enter_request
from Middleware.config import endpoints
from Middleware.services.cancellation_service import cancellation_service
from Middleware.workflows.agents import mcp_lists
from Middleware.workflows.agents.agent_tool import AgentTool, ToolFailed, ToolTimedOut
from Middleware.workflows.models.node_keys import MAX_SECONDS
from Middleware.workflows.tools import mcp_doors
from tests.e2e.conftest import HOUSE
from tests.patience import PATIENCE_S, wait_until
from tests.workflows.agents.tool_bench import ToolBench

SERVER = HOUSE / "tests" / "fixtures" / "mcp" / "troubled_server.py"
LETTERS = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"default": {"x": 1}}, "c": {}}}


@pytest.fixture
def bench(tool_bench: ToolBench, monkeypatch: pytest.MonkeyPatch) -> Iterator[ToolBench]:
    monkeypatch.setattr(mcp_lists, "LIST_S", PATIENCE_S)
    tool_bench.write("Workflows/ana/Chat.json", '[{"type": "StaticResponse", "content": "x"}]')
    yield tool_bench
    cancellation_service.acknowledge_cancellation("r1")
    mcp_doors.end_sessions()


def make(bench: ToolBench, tool: AgentTool, **arguments: Any) -> str:
    """The result of a call, made as the loop makes it."""
    assert tool.call is not None
    with enter_request(bench.context().request):
        return tool.call(arguments)


def cancel_when(ready: threading.Event) -> None:
    def wait() -> None:
        ready.wait(PATIENCE_S)
        cancellation_service.request_cancellation("r1")

    threading.Thread(target=wait, daemon=True).start()


class TestWorkflows:
    ENTRY: dict[str, Any] = {"workflow": "Chat", "parameters": LETTERS}  # noqa: RUF012

    def test_arguments_become_inputs(self, bench: ToolBench) -> None:
        """Texts as they are, others as JSON, a missing one its default, else empty; in the order of the properties."""
        make(bench, bench.tool(self.ENTRY), a="{agent1Output}", c=[1, "é"])
        (call,) = bench.engine.children
        assert call.inputs == ("{agent1Output}", '{"x":1}', '[1,"é"]')

    def test_inputs_name_another_order(self, bench: ToolBench) -> None:
        make(bench, bench.tool({**self.ENTRY, "inputs": ["c", "a"]}), a="x")
        assert bench.engine.children[0].inputs == ("", "x")

    def test_the_run_is_internal_and_has_no_tools(self, bench: ToolBench) -> None:
        bench.write("Workflows/_common/Chat.json", '[{"type": "StaticResponse", "content": "x"}]')
        make(bench, bench.tool({**self.ENTRY, "workflowUserFolderOverride": "_common"}))
        (call,) = bench.engine.children
        assert (call.internal, call.with_tools, call.folder) == (True, False, "_common")
        assert call.scope.startswith("r1.part")

    @pytest.mark.parametrize(
        ("value", "text"), [("abc", "abc"), (None, ""), ({"a": 1}, '{"a":1}'), (5, "5"), ([], "[]")]
    )
    def test_its_value_is_the_result(self, bench: ToolBench, value: Any, text: str) -> None:
        bench.engine.child = lambda call: value
        assert make(bench, bench.tool(self.ENTRY)) == text

    def test_what_fails_is_told_with_its_cause_first(self, bench: ToolBench) -> None:
        def fail(call: Any) -> Any:
            raise BackendError("small", "timeout", "no answer")

        bench.engine.child = fail
        with pytest.raises(ToolFailed, match="no answer"):
            make(bench, bench.tool(self.ENTRY))

    def test_a_lock_that_is_held_is_a_failure(self, bench: ToolBench) -> None:
        def locked(call: Any) -> Any:
            raise EarlyTermination("busy", locked_message="Wait a little.")

        bench.engine.child = locked
        with pytest.raises(ToolFailed, match=r"Wait a little\."):
            make(bench, bench.tool(self.ENTRY))

    def test_a_time_out_ends_that_run_and_it_alone(self, bench: ToolBench) -> None:
        ended: list[str] = []

        def hang(call: Any) -> Any:
            over = threading.Event()
            cancellation_service.register_abort_callback(call.scope, over.set)
            assert over.wait(PATIENCE_S)
            ended.append(call.scope)
            raise RequestCancelled

        bench.engine.child = hang
        with pytest.raises(ToolTimedOut, match=r"^timed out after 0\.05 seconds$"):
            make(bench, bench.tool({**self.ENTRY, "timeout": 0.05}))
        assert len(ended) == 1
        assert not cancellation_service.is_cancelled("r1")
        assert ended[0] not in cancellation_service.get_all_cancelled_requests()

    def test_a_cancelled_request_ends_it(self, bench: ToolBench) -> None:
        ready = threading.Event()

        def hang(call: Any) -> Any:
            over = threading.Event()
            cancellation_service.register_abort_callback(call.scope, over.set)
            ready.set()
            assert over.wait(PATIENCE_S)
            raise RequestCancelled

        bench.engine.child = hang
        cancel_when(ready)
        with pytest.raises(RequestCancelled):
            make(bench, bench.tool(self.ENTRY))


class TestScripts:
    @staticmethod
    def tool(bench: ToolBench, code: str, **fields: Any) -> AgentTool:
        path = bench.write("dice.py", code)
        return bench.tool({"python": str(path), **fields})

    def test_arguments_are_named(self, bench: ToolBench) -> None:
        tool = self.tool(bench, "def Invoke(a, b=2): return {'a': a, 'b': b}")
        assert json.loads(make(bench, tool, a=[1])) == {"a": [1], "b": 2}
        assert (tool.name, tool.kind) == ("dice", "script")

    @pytest.mark.parametrize(("code", "text"), [("'x'", "x"), ("None", ""), ("5", "5"), ("[1]", "[1]")])
    def test_what_it_returns_is_the_result(self, bench: ToolBench, code: str, text: str) -> None:
        assert make(bench, self.tool(bench, f"def Invoke(): return {code}")) == text

    @pytest.mark.parametrize(
        ("code", "said"),
        [
            ("def Invoke(): raise ValueError('not today')", "not today"),
            ("def Invoke(): raise KeyError", "KeyError"),
            ("def Invoke(): raise SystemExit(3)", "3"),
            ("def Invoke(): open('/no/such/file')", "No such file"),
            ("def Invoke(x): pass", "missing 1 required"),
            ("x = 1", "no function 'Invoke'"),
            ("this is no Python", "invalid syntax"),
        ],
    )
    def test_what_it_raises_is_the_failure(self, bench: ToolBench, code: str, said: str) -> None:
        """With the exception's own text."""
        with pytest.raises(ToolFailed, match=said):
            make(bench, self.tool(bench, code))

    def test_one_that_takes_too_long_is_left_alone(self, bench: ToolBench) -> None:
        tool = self.tool(bench, "import threading\ndef Invoke(): threading.Event().wait(300)", timeout=0.05)
        with pytest.raises(ToolTimedOut):
            make(bench, tool)

    def test_a_cancelled_request_does_not_wait_for_it(self, bench: ToolBench) -> None:
        started = bench.folder / "started"
        code = f"import threading\ndef Invoke():\n    open({str(started)!r}, 'w').close()\n    threading.Event().wait(300)"
        ready = threading.Event()
        threading.Thread(target=lambda: (wait_until(started.exists), ready.set()), daemon=True).start()
        cancel_when(ready)
        with pytest.raises(RequestCancelled):
            make(bench, self.tool(bench, code))

    def test_it_runs_for_its_request(self, bench: ToolBench) -> None:
        """Models that it asks are asked for the request of the call."""
        code = "from Middleware.common.request_context import current_request\ndef Invoke(): return current_request().request_id"
        tool = self.tool(bench, code)
        assert tool.call is not None
        with enter_request(replace(bench.context().request, request_id="r1.part9")):
            assert tool.call({}) == "r1.part9"
            request = current_request()
            assert request is not None and request.request_id == "r1.part9"


class TestPages:
    PAGE = (
        200,
        {"Content-Type": "text/html"},
        b"<body><h1>Title</h1><p>One <b>two</b></p><script>x</script>",
    )

    def test_a_page_is_text(self, bench: ToolBench, site: Any) -> None:
        site.pages["/"] = self.PAGE
        tool = bench.tool({"fetch": {"allowedHosts": ["127.0.0.1"], "maxTokens": 50}})
        assert make(bench, tool, url=site.url()) == "Title\nOne two"
        assert (tool.name, tool.kind, tool.max_tokens) == ("fetch_page", "http", 50)
        assert tool.parameters["required"] == ["url"]

    @pytest.mark.parametrize(
        ("kind", "body", "text"),
        [
            ("text/plain", b"a <b> c", "a <b> c"),
            ("application/json", b'{"a": "<b>"}', '{"a": "<b>"}'),
            ("image/png", b"p" * 2048, "[image/png, 2 KB]"),
            ("application/pdf", b"%PDF", "[application/pdf, 1 KB]"),
            ("application/zip", b"PK", "[application/zip, 1 KB]"),
            ("application/octet-stream", b"\x00", "[application/octet-stream, 1 KB]"),
        ],
    )
    def test_other_kinds(self, bench: ToolBench, site: Any, kind: str, body: bytes, text: str) -> None:
        site.pages["/"] = (200, {"Content-Type": kind}, body)
        tool = bench.tool({"fetch": {"allowedHosts": ["127.0.0.1"]}, "name": "open_page"})
        assert make(bench, tool, url=site.url()) == text

    def test_private_addresses_are_refused(self, bench: ToolBench, site: Any) -> None:
        site.pages["/"] = self.PAGE
        with pytest.raises(ToolFailed, match="address not allowed"):
            make(bench, bench.tool({"fetch": {}}), url=site.url())
        assert not site.seen

    def test_only_hosts_of_the_list(self, bench: ToolBench, site: Any) -> None:
        site.pages["/"] = self.PAGE
        with pytest.raises(ToolFailed, match="allowedHosts"):
            make(bench, bench.tool({"fetch": {"allowedHosts": ["example.org"]}}), url=site.url())
        assert not site.seen

    def test_a_redirect_is_judged_like_an_address(self, bench: ToolBench, site: Any) -> None:
        site.pages["/"] = (302, {"Location": site.url("/x", host="localhost")}, b"")
        with pytest.raises(ToolFailed, match="address not allowed"):
            make(bench, bench.tool({"fetch": {"allowedHosts": ["127.0.0.1"]}}), url=site.url())
        assert [seen.path for seen in site.seen] == ["/"]

    def test_a_user_without_private_addresses_has_none(self, bench: ToolBench, site: Any) -> None:
        """`outboundPolicy` cannot be loosened by a workflow."""
        bench.user = type(bench.user)("ana", outbound_policy="block-private")
        with pytest.raises(ToolFailed, match="address not allowed"):
            make(bench, bench.tool({"fetch": {"allowedHosts": ["127.0.0.1"]}}), url=site.url())

    @pytest.mark.parametrize("url", ["", "x", "file:///etc/passwd", "http://", "ftp://example.org/"])
    def test_what_is_no_address_is_told(self, bench: ToolBench, url: str) -> None:
        with pytest.raises(ToolFailed):
            make(bench, bench.tool({"fetch": {}}), url=url)

    def test_a_status_is_told(self, bench: ToolBench, site: Any) -> None:
        with pytest.raises(ToolFailed, match=r"^127\.0\.0\.1 answered 404$"):
            make(bench, bench.tool({"fetch": {"allowedHosts": ["127.0.0.1"]}}), url=site.url("/none"))

    def test_a_page_that_does_not_come_is_given_up(self, bench: ToolBench, site: Any) -> None:
        site.pages["/"] = lambda handler: site.leaving.wait(PATIENCE_S)
        tool = bench.tool({"fetch": {"allowedHosts": ["127.0.0.1"]}, "timeout": 0.1})
        with pytest.raises(ToolTimedOut):
            make(bench, tool, url=site.url())


class TestServers:
    @staticmethod
    def tool(bench: ToolBench, trouble: str, name: str, **more: Any) -> AgentTool:
        file = {"transport": "stdio", "command": sys.executable, "args": [str(SERVER), trouble], **more}
        bench.write("MCPServers/tests.json", json.dumps(file))
        return bench.tool(f"mcp:tests/{name}")

    def test_a_call(self, bench: ToolBench) -> None:
        assert make(bench, self.tool(bench, "none", "zeta"), a=1) == 'zeta was called with {"a": 1}'

    def test_pictures_and_bytes_stand_as_what_they_are(self, bench: ToolBench) -> None:
        text = make(bench, self.tool(bench, "media", "look"))
        assert text == "Seen: [image/png, 123 KB][audio/wav, 1 KB][application/pdf, 1 KB]"

    def test_a_call_that_hangs_is_given_up(self, bench: ToolBench) -> None:
        tool = self.tool(bench, "call", "zeta")
        short = replace(tool, call=bench.tool("mcp:tests/zeta", toolTimeout=0.1).call)
        with pytest.raises(ToolTimedOut, match=r"^timed out after 0\.1 seconds$"):
            make(bench, short)

    def test_a_flood_is_a_result(self, bench: ToolBench) -> None:
        assert len(make(bench, self.tool(bench, "flood", "zeta"))) == 10_000_000

    def test_secrets_are_masked_in_results_and_failures(
        self, bench: ToolBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Those of the server's file and of the environment."""
        monkeypatch.setenv("TEST_KEY", "key-of-the-environment")
        monkeypatch.setattr(endpoints, "_used", set())
        tool = self.tool(
            bench, "none", "zeta", env={"KEY": "${ENV:TEST_KEY}", "API_TOKEN": "token-of-the-file"}
        )
        said = make(bench, tool, a="key-of-the-environment", b="token-of-the-file")
        assert "of-the-environment" not in said and "of-the-file" not in said
        assert said.startswith("zeta was called")


class TestMemories:
    def test_the_memories_of_the_discussion(self, bench: ToolBench) -> None:
        bench.has_discussion = True
        assert "No relevant memories" in make(bench, bench.tool({"memory": "vector"}), query="dragon")


def test_a_limit_that_no_clock_can_count(tool_bench: ToolBench) -> None:
    """The longest that one can stands for it, of the node and of an entry."""
    script = tool_bench.write("dice.py", "def Invoke(): return 6")
    tool_bench.write("Workflows/ana/Chat.json", '[{"type": "StaticResponse", "content": "x"}]')
    own = tool_bench.tool({"python": str(script), "timeout": 1e12})
    assert (make(tool_bench, own), own.timeout_s) == ("6", MAX_SECONDS)
    chat = tool_bench.tool({"workflow": "Chat"}, toolTimeout=1e12)
    assert (make(tool_bench, chat), chat.timeout_s) == ("value of Chat", MAX_SECONDS)


def test_a_workflow_error_is_a_sentence(tool_bench: ToolBench) -> None:
    """Not a traceback, and with its place at the end."""
    tool_bench.write("Workflows/ana/Chat.json", '[{"type": "StaticResponse", "content": "x"}]')

    def fail(call: Any) -> Any:
        raise WorkflowError(
            "Workflows/ana/Chat.json: no", workflow="Workflows/ana/Chat.json", node=1, said="no; in it"
        )

    tool_bench.engine.child = fail
    with pytest.raises(ToolFailed, match=r"^no; in it$"):
        make(tool_bench, tool_bench.tool({"workflow": "Chat"}))
