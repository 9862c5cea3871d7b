"""No secret of a file or of the environment is written to the log, whatever node runs and whatever comes of it."""

from __future__ import annotations

import base64
import json
import logging
import string
import sys
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from Middleware.api.serving.startup import FILE_NAME, configure_logging
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.tools import mcp_doors


def secrets(start):
    """Two parts that nothing escapes, and a mark between them that JSON, Python or a URL may write differently."""
    part = st.text(string.ascii_letters + string.digits, min_size=8, max_size=12).map(start.__add__)
    return st.tuples(part, st.sampled_from(["", '"', "\\", "'", "+", "/", "="]), part)


MODEL = {"endpointName": "chat", "prompt": "hello", "systemPrompt": "help"}
QUERY = {"promptToSearch": "what"}
WEB = {"headers": {"X-Api-Key": "${ENV:LOG_TEST_KEY}"}}
SCRIPT = "import os\ndef Invoke(*args, **kwargs):\n    raise ValueError(os.environ['LOG_TEST_KEY'])\n"
TOOL = {"workflow": "Child", "name": "child", "description": "A child", "parameters": {"type": "object"}}
NODE_FIELDS = {
    "Agent": {**MODEL, "agentTools": [TOOL]},
    "ArithmeticProcessor": {"expression": "1 + 1"},
    "Candidates": {**MODEL, "candidates": 2},
    "ChatSummaryMemoryGatheringTool": {"maxTurnsToPull": 2},
    "Conditional": {"condition": "1 == 1"},
    "ConditionalCustomWorkflow": {"conditionalKey": "x", "conditionalWorkflows": {"Default": "Child"}},
    "ContextCompactor": {"endpointName": "chat"},
    "ConversationChunkProcessor": {
        "id": "c",
        "workflowName": "Child",
        "chunkSize": 2,
        "lookbackMessages": 0,
        "cursorDirectory": "{folder}/cursors",
    },
    "ConversationMemory": {"endpointName": "chat"},
    "ConversationalKeywordSearchPerformerTool": {"keywords": "hello", "searchTarget": "CurrentConversation"},
    "CurlCommand": {"args": ["-v", "-H", "X-Mine: {plain}", "-u", "me:{plain}", "{url}/echo"]},
    "CustomWorkflow": {"workflowName": "Child"},
    "DelimitedChunker": {"content": "a;b", "delimiter": ";", "mode": "head", "count": 1},
    "FullChatSummary": {"endpointName": "chat"},
    "GetCurrentMemoryFromFile": {},
    "GetCurrentStateDocument": {},
    "GetCurrentSummaryFromFile": {},
    "GetCustomFile": {"filepath": "{folder}/none.txt"},
    "ImageProcessor": MODEL,
    "JsonExtractor": {"jsonToExtractFrom": "{{}}", "fieldToExtract": "a"},
    "MCPToolCall": {"server": "web", "tool": "echo", "arguments": {"text": "x"}},
    "MemoryKeywordSearchPerformerTool": {"keywords": "hello", "searchTarget": "RecentMemories"},
    "OfflineResearcherApiDeepResearch": QUERY,
    "OfflineResearcherApiQuickSearch": QUERY,
    "OfflineWikiApiBestFullArticle": QUERY,
    "OfflineWikiApiFullArticle": QUERY,
    "OfflineWikiApiPartialArticle": QUERY,
    "OfflineWikiApiTopNFullArticles": QUERY,
    "PythonModule": {"module_path": "{folder}/tool.py", "args": ["{plain}"], "kwargs": {}},
    "QualityMemory": {},
    "RecentMemory": {},
    "RecentMemorySummarizerTool": {"maxTurnsToPull": 2, "maxSummaryChunksFromFile": 2},
    "SaveCustomFile": {"filepath": "{folder}/tool.py/x.txt", "content": "x"},
    "SlowButQualityRAG": {**MODEL, "ragTarget": "hello", "ragType": "CurrentConversation"},
    "Standard": MODEL,
    "StaticResponse": {"content": "x"},
    "StringConcatenator": {"strings": ["a", "b"]},
    "TagTextExtractor": {"tagToExtractFrom": "<a>b</a>", "fieldToExtract": "a"},
    "VectorMemorySearch": {"input": "hello"},
    "WebFetch": {**WEB, "url": "{url}/echo?key={plain}", "method": "POST", "body": "{plain}"},
    "WorkflowLock": {"workflowLockId": "l"},
    "WriteCurrentSummaryToFileAndReturnIt": {"input": "x"},
    "chatSummarySummarizer": {**MODEL},
}
CHILD = {"type": "Standard", **MODEL}


@pytest.fixture(autouse=True)
def _undo(monkeypatch):
    root = logging.getLogger()
    level = root.level
    quiet = {name: logging.getLogger(name).level for name in ("urllib3", "waitress", "werkzeug")}
    yield
    for handler in [h for h in root.handlers if getattr(h, "is_headrace", False)]:
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)
    for name, before in quiet.items():
        logging.getLogger(name).setLevel(before)
    mcp_doors.end_sessions()


def sent_back(handler, status):
    """An answer that quotes all that came, as error pages and badly written servers do."""
    told = " ".join([handler.path, *handler.headers.values()])
    message = {"role": "assistant", "content": told}
    body = {"error": {"message": told}} if status >= 400 else {"choices": [{"message": message}]}
    data = json.dumps(body).encode()
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


class EveryPage(dict):
    """`status`: how each page answers."""

    def __init__(self, status):
        super().__init__()
        self.status = status

    def get(self, path, default=None):
        return lambda handler: sent_back(handler, self.status)


CHECK = "import os, sys; print('the key is', os.environ['PLAIN_KEY'], file=sys.stderr); sys.exit(1)"


def endpoint_of(place, plain, port):
    """Where the endpoint's file holds the key."""
    base = f"http://127.0.0.1:{port}"
    team = {"X-Team": "${ENV:LOG_TEST_KEY}"}
    return {
        "apiKey": {"endpoint": base, "apiKey": plain, "extraHeaders": team},
        "apiKeyEnv": {"endpoint": base, "apiKeyEnv": "LOG_TEST_KEY", "extraHeaders": team},
        "extraHeaders": {"endpoint": base, "extraHeaders": {**team, "X-Api-Key": f"Key {plain}"}},
        "url": {"endpoint": f"http://me:{quote(plain, safe='')}@127.0.0.1:{port}"},
    }[place]


def mcp_file(place, plain, url):
    """A server's file with secrets, plain and named: one that runs here, or one behind HTTP."""
    stdio = {
        "transport": "stdio",
        "command": sys.executable,
        "args": ["-c", CHECK],
        "env": {"PLAIN_KEY": plain, "NAMED": "${ENV:LOG_TEST_KEY}"},
    }
    headers = {"Authorization": f"Bearer {plain}", "X-Key": "${ENV:LOG_TEST_KEY}"}
    http = {"url": f"{url}?key={quote(plain, safe='')}&other=${{ENV:LOG_TEST_KEY}}", "headers": headers}
    return {"apiKey": stdio, "url": {"transport": "sse", **http}}.get(
        place, {"transport": "streamable_http", **http}
    )


def node_of(kind, **texts):
    """The node, its texts filled."""
    fields = json.dumps({"type": kind, **NODE_FIELDS[kind], "onNodeError": "continue"})
    for mark, text in texts.items():
        fields = fields.replace("{" + mark + "}", json.dumps(text)[1:-1])
    return json.loads(fields)


@pytest.fixture
def outside(house, site, tmp_path, monkeypatch):
    """A run of that node, every file of the house holding both secrets."""
    (tmp_path / "tool.py").write_text(SCRIPT)
    house.write("ApiTypes/Open", {"type": "openAIChatCompletion", "presetType": "any"})
    house.write("Workflows/ana/Memory", {"endpointName": "chat", "chunkEstimatedTokenSize": 1})
    house.workflow("Child", CHILD)
    pictures = [{"role": "user", "content": "see", "images": ["AA=="]}]
    talk = [{"role": ("user", "assistant")[n % 2], "content": f"hello {n}"} for n in range(8)]

    def run(kind, place, status, plain, named):
        site.pages = EveryPage(status)
        monkeypatch.setenv("LOG_TEST_KEY", named)
        house.endpoint("chat", apiTypeConfigFileName="Open", **endpoint_of(place, plain, site.port))
        house.write("MCPServers/web", mcp_file(place, plain, site.url("/mcp")))
        house.user |= {
            "discussionIdMemoryFileWorkflowSettings": "Memory",
            "useOfflineWikiApi": True,
            "offlineWikiApiUrl": f"http://me:{quote(plain, safe='')}@127.0.0.1:{site.port}",
            "useOfflineResearcherApi": True,
            "offlineResearcherApiPort": site.port,
        }
        node = node_of(kind, plain=plain, url=site.url(""), folder=str(tmp_path))
        house.ask(node, {"type": "StaticResponse", "content": "x"}, say=[*talk, *pictures], discussion_id="d")

    return run


def test_every_type_is_tried():
    """A new one needs its row."""
    assert sorted(NODE_FIELDS) == sorted(NODES)


@pytest.mark.parametrize(
    ("place", "status"), [("apiKey", 401), ("apiKeyEnv", 200), ("extraHeaders", 401), ("url", 401)]
)
@pytest.mark.parametrize("kind", sorted(NODE_FIELDS))
@settings(
    max_examples=3,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(plain=secrets("Zp"), named=secrets("Zn"))
def test_no_file_of_the_log_shows_it(outside, tmp_path, kind, place, status, plain, named):
    """At DEBUG, as a server's handlers write it: no part of a secret (the whole may be escaped), nor its Base64."""
    configure_logging("DEBUG", tmp_path / "logs")
    outside(kind, place, status, "".join(plain), "".join(named))
    logged = (tmp_path / "logs" / FILE_NAME).read_text("utf-8")
    coded = base64.b64encode(f"me:{plain[0]}".encode()).decode()[:12]
    parts = (plain[0], plain[2], named[0], named[2], coded)
    assert [line for line in logged.splitlines() for part in parts if part in line] == []
    assert "DEBUG" in logged
