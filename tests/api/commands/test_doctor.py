"""`--doctor`: one line for each endpoint that the user's workflows can reach, and the exit status."""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import replace

import pytest

from Middleware.api.commands import doctor
from Middleware.common.instance_global_variables import LaunchFacts, launch_facts, set_launch_facts
from Middleware.config.loader import tree_of
from Middleware.config.users import load_user, user_names
from Middleware.workflows.checks.config_check import short_of_tokens
from Middleware.workflows.checks.user_walk import UserWalk
from tests.api.model_server import TOKEN, ModelHandler, model_server
from tests.shipped import copy_configs

THOUGHT = b'data: {"choices": [{"delta": {"reasoning_content": "They"}}]}\n\ndata: [DONE]\n\n'


class Model(ModelHandler):
    def answer_call(self):
        self.answer(self.server.stream, "text/event-stream")


@pytest.fixture
def model():
    with model_server(Model) as server:
        server.stream = TOKEN
        yield server


@pytest.fixture
def put(tmp_path, model):
    """`put(path, content)` writes a config file. There is a user `ana` with one endpoint, `Main`."""
    root = tmp_path / "Configs"

    def write(file, document):
        path = root / f"{file}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document))

    write.url = f"http://127.0.0.1:{model.server_port}"
    write("Users/_current-user", {"currentUser": "ana"})
    write("Users/ana", {"customWorkflowOverride": True, "customWorkflow": "Main"})
    write("ApiTypes/Api", {"type": "openAIChatCompletion", "streamPropertyName": "stream"})
    write("Workflows/ana/Main", [{"type": "Standard", "endpointName": "Main", "prompt": "x"}])
    write("Endpoints/Main", endpoint(write.url))
    before = launch_facts()
    set_launch_facts(LaunchFacts(public_directory=tmp_path, config_directory=root))
    yield write
    set_launch_facts(before)
    tree_of.cache_clear()


def endpoint(url, **fields):
    return {"endpoint": url, "apiTypeConfigFileName": "Api", "modelNameToSendToAPI": "tiny", **fields}


def run(capsys):
    """Exit status, and the lines of stdout without milliseconds."""
    status = doctor.Doctor().run(Namespace())
    return status, [line.rpartition(", ")[0] or line for line in capsys.readouterr().out.splitlines()]


def test_all_is_well(put, capsys):
    """Status 0."""
    status, lines = run(capsys)
    assert status == 0
    assert lines == [
        f'Endpoints/Main.json: ok: {put.url}: reachable, model "tiny" known, streaming works',
        "user ana: 1 of 1 endpoint can be used; 0 errors in files",
    ]


def test_each_address_has_a_line(put, model, capsys):
    """The list of models is the first one's. An endpoint with one address that answers can be used, but not
    all is well."""
    more = [f"{put.url}/", "http://127.0.0.1:9", f"http://localhost:{put.url.rpartition(':')[2]}"]
    put("Endpoints/Main", endpoint(put.url, moreEndpoints=more))
    status, lines = run(capsys)
    assert status == 1
    assert lines[0] == f'Endpoints/Main.json: ok: {put.url}: reachable, model "tiny" known, streaming works'
    assert lines[1].startswith("Endpoints/Main.json: error: http://127.0.0.1:9: cannot connect")
    assert lines[2] == f'Endpoints/Main.json: ok: {more[2]}: reachable, model "tiny" known, streaming works'
    assert lines[3:] == [
        "user ana: 1 of 1 endpoint can be used (1 of their addresses cannot); 0 errors in files"
    ]
    assert len(model.calls) == 2


def test_a_public_address_is_not_called(put, capsys):
    """What to do is said."""
    put("Endpoints/Main", endpoint(put.url, moreEndpoints=["http://8.8.8.8:1"]))
    status = doctor.Doctor().run(Namespace())
    line = capsys.readouterr().out.splitlines()[1]
    assert status == 1
    assert line.startswith("Endpoints/Main.json: error: http://8.8.8.8:1: ") and "is on a public host" in line
    assert line.endswith("or set `allowRemoteBackup` to true in Endpoints/Main.json if prompts may go there")


def test_a_dead_backup_is_found(put, model, capsys):
    """Once, though two endpoints name it; in a circle as well."""
    put("Endpoints/Main", endpoint(put.url, backupEndpointName="Spare"))
    put("Endpoints/Other", endpoint(put.url, backupEndpointName="Spare"))
    put("Endpoints/Spare", endpoint("http://127.0.0.1:9", backupEndpointName="Main"))
    nodes = [{"type": "Standard", "endpointName": name, "prompt": "x"} for name in ("Main", "Other", "Main")]
    put("Workflows/ana/Main", nodes)
    status = doctor.Doctor().run(Namespace())
    lines = capsys.readouterr().out.splitlines()
    assert status == 1
    assert [line.split(":")[0] for line in lines] == [
        "Endpoints/Main.json",
        "Endpoints/Spare.json",
        "Endpoints/Other.json",
        "user ana",
    ]
    assert "start the server, or correct `endpoint` in Endpoints/Spare.json" in lines[1]
    assert lines[-1] == "user ana: 2 of 3 endpoints can be used; 0 errors in files"
    assert len(model.calls) == 2


def test_a_name_that_leads_nowhere_is_told(put, capsys):
    """As --validate tells it; what can be called is called."""
    nodes = [{"type": "Standard", "endpointName": name, "prompt": "x"} for name in ("Mian", "Main")]
    put("Workflows/ana/Main", nodes)
    assert doctor.Doctor().run(Namespace()) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(
        'Workflows/ana/Main.json:1:39: error: node 1, endpointName: no endpoint "Mian" in Endpoints (did you mean "Main"?)'
    )
    assert lines[1].startswith("Endpoints/Main.json: ok")


def test_an_endpoint_that_cannot_be_used(put, capsys):
    """Its variable is not set."""
    put("Endpoints/Main", endpoint(put.url, apiKeyEnv="HEADRACE_NO_SUCH_VARIABLE"))
    status, lines = run(capsys)
    assert status == 1
    assert "HEADRACE_NO_SUCH_VARIABLE" in lines[0]


@pytest.mark.parametrize(
    ("api_type", "lines"),
    [
        ("Apy", ['Endpoints/Main.json:1:65: error: apiTypeConfigFileName: no API type "Apy" in ApiTypes (did you mean "Api"?)']),
        ("Odd", ['ApiTypes/Odd.json:1:10: error: type: found "oddChat", allowed: builtInDemo, ']),
    ],
    ids=["no-such-file", "no-such-type"],
)  # fmt: skip
def test_a_fault_of_its_files_is_told_once(put, capsys, api_type, lines):
    """By the check of the files, or where it is called."""
    put("ApiTypes/Odd", {"type": "oddChat"})
    put("Endpoints/Main", {**endpoint(put.url), "apiTypeConfigFileName": api_type})
    assert doctor.Doctor().run(Namespace()) == 1
    printed = capsys.readouterr().out.splitlines()
    assert [line[: len(wanted)] for line, wanted in zip(printed, lines, strict=False)] == lines
    assert printed[len(lines)].startswith("user ana: 0 of 1 endpoint can be used")


def test_embeddings_of_nodes_are_reached(put, capsys):
    """Whatever node names them."""
    put("ApiTypes/Emb", {"type": "openAIEmbeddings"})
    put("Endpoints/Vectors", {**endpoint("http://127.0.0.1:9"), "apiTypeConfigFileName": "Emb"})
    node = {"type": "Standard", "endpointName": "Main", "prompt": "x", "embeddingEndpointName": "Vectors"}
    put("Workflows/ana/Main", [node])
    _, lines = run(capsys)
    assert lines[1].startswith("Endpoints/Vectors.json: error")


def test_a_name_that_only_a_run_knows(put, capsys):
    """All endpoints of the folder may be meant."""
    put("Workflows/ana/Main", [{"type": "Standard", "endpointName": "{agent1Input}", "prompt": "x"}])
    put("Endpoints/Other", endpoint(put.url))
    _, lines = run(capsys)
    assert [line.split(":")[0] for line in lines[:2]] == ["Endpoints/Main.json", "Endpoints/Other.json"]


@pytest.mark.parametrize(
    ("users", "status", "told"),
    [(("a", "b"), 2, "--doctor checks one user: give --User once"), (("nobody",), 1, "no user 'nobody'")],
    ids=["several", "unknown"],
)
def test_there_must_be_one_user(put, capsys, users, status, told):
    """Given, or named by the pointer file."""
    facts = launch_facts()
    set_launch_facts(LaunchFacts(config_directory=facts.config_directory, users=users))
    assert doctor.Doctor().run(Namespace()) == status
    printed = capsys.readouterr()
    assert told in printed.out + printed.err


def test_a_file_with_two_faults_is_told_once(put, capsys):
    """Both by the check of the files; not again where the endpoint would be called."""
    put("Endpoints/Main", endpoint(put.url, apiKey=5, maxContextTokenSize=0))
    assert doctor.Doctor().run(Namespace()) == 1
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[2] for line in printed[:2]] == ["apiKey", "maxContextTokenSize"]
    assert printed[2:] == ["user ana: 0 of 1 endpoint can be used; 2 errors in files"]


PICK = {"type": "Standard", "title": "Pick", "endpointName": "Main", "prompt": "x"}


class TestThoughts:
    """A model that thinks may use up the tokens of a short answer."""

    def lines(self, put, model, capsys, *nodes, **variables):
        model.stream = THOUGHT
        put("Workflows/ana/Main", {**variables, "nodes": [{**PICK, **node} for node in nodes]})
        status = doctor.Doctor().run(Namespace())
        return status, [line for line in capsys.readouterr().out.splitlines() if "Workflows/" in line]

    def test_a_node_with_too_few_tokens_is_named(self, put, model, capsys):
        """File, place, node, field, and what to write; it is not all well."""
        status, lines = self.lines(put, model, capsys, {"maxResponseSizeInTokens": 20})
        assert status == 1
        assert lines == [
            'Workflows/ana/Main.json:1:116: warning: node 1 "Pick", maxResponseSizeInTokens: 20 tokens may be too few '
            "for endpoint 'Main', whose model thinks: the thoughts can use them up and leave the answer empty. "
            "Set `maxResponseSizeInTokens` to at least 1000"
        ]

    @pytest.mark.parametrize(
        ("node", "short"),
        [
            ({}, True),
            ({"maxResponseSizeInTokens": "{few}"}, True),
            ({"maxResponseSizeInTokens": "{agent1Input}"}, False),
            ({"maxResponseSizeInTokens": 1000}, False),
            ({"endpointName": "{main}", "maxResponseSizeInTokens": 5}, True),
            ({"endpointName": "Other", "maxResponseSizeInTokens": 5}, False),
            ({"preset": "Calm", "maxResponseSizeInTokens": 5}, False),
            ({"preset": "Main", "maxResponseSizeInTokens": 5}, False),
        ],
        ids=["default", "variable", "unknown", "enough", "named", "no-thinker", "off", "off-canonical"],
    )
    def test_which_nodes_are_short(self, put, model, capsys, node, short):
        """The default of 400 counts; a preset that turns thinking off is enough."""
        thinking = {"mode": "bool", "field": "think"}
        put("ApiTypes/Api", {"type": "openAIChatCompletion", "streamPropertyName": "stream",
                             "presetType": "T", "thinking": thinking})  # fmt: skip
        put("Presets/T/Calm", {"think": False})
        quiet = {"presetSamplers": {"thinkingMode": "off"}} if node.get("preset") == "Main" else {}
        put("Endpoints/Main", endpoint(put.url, **quiet))
        put("ApiTypes/Inside", {"type": "builtInDemo"})
        put("Endpoints/Other", {"endpoint": "", "apiTypeConfigFileName": "Inside"})
        status, lines = self.lines(put, model, capsys, node, few="20", main="Main")
        assert (status, len(lines)) == (int(short), int(short))

    @pytest.mark.parametrize(
        ("key", "settings", "fields"),
        [
            ("contextCompactorSettingsFile", {}, [""]),
            ("contextCompactorSettingsFile", {"maxResponseSizeInTokens": 30}, ["maxResponseSizeInTokens"]),
            ("discussionIdMemoryFileWorkflowSettings", {}, [""]),
            ("discussionIdMemoryFileWorkflowSettings", {"fileMemoryWorkflowName": "Main"}, []),
            ("discussionIdMemoryFileWorkflowSettings", {"useVectorForQualityMemory": True}, []),
            (
                "discussionIdMemoryFileWorkflowSettings",
                {"useVectorForQualityMemory": True, "vectorMemoryMaxResponseSizeInTokens": 9},
                ["vectorMemoryMaxResponseSizeInTokens"],
            ),
            (
                "discussionIdMemoryFileWorkflowSettings",
                {"maxResponseSizeInTokens": 3000, "condenseMemories": True, "condenseMemoriesMaxResponseSizeInTokens": 9},
                ["condenseMemoriesMaxResponseSizeInTokens"],
            ),
        ],
    )  # fmt: skip
    def test_settings_files_call_models_too(self, put, model, capsys, key, settings, fields):
        """Each call that they make, with its own default."""
        put("Users/ana", {"customWorkflowOverride": True, "customWorkflow": "Main", key: "Settings"})
        put("Workflows/ana/Settings", {"endpointName": "Main", **settings})
        _, lines = self.lines(put, model, capsys, {"maxResponseSizeInTokens": 2000})
        subjects = [line.split("warning: ")[1].partition(" tokens may be too few")[0] for line in lines]
        assert [subject.rpartition(": ")[0] for subject in subjects] == fields


def test_the_examples_have_room_for_thoughts(tmp_path):
    """Every node and settings file of every example user, decisions too."""
    snapshot = tree_of(copy_configs(tmp_path / "Configs")).snapshot()
    users = [load_user(snapshot, name) for name in user_names(snapshot)]
    found = [
        finding
        for user in users
        for finding in short_of_tokens(snapshot, user, UserWalk(snapshot, user), {"Main"})
    ]
    assert [str(finding) for finding in found] == []


class TestMachines:
    """Two models that cannot be loaded together (prompt-reuse.md 7.1)."""

    ADVICE = (
        "machine desk: 2 models share it, and --concurrency is 1, so a request for one model holds up all "
        "others: start the server with --concurrency 4"
    )
    LIMIT = ' and put {"desk": {"maxConcurrentRequests": 1}} into Machines.json'

    def advice(self, capsys, **facts):
        set_launch_facts(replace(launch_facts(), **facts))
        doctor.Doctor().run(Namespace())
        return [line for line in capsys.readouterr().out.splitlines() if line.startswith("machine ")]

    def test_requests_that_wait_one_by_one(self, put, capsys):
        """The other model may be another user's."""
        put("Endpoints/Main", {**endpoint(put.url), "machine": "desk"})
        assert self.advice(capsys) == []
        put("Endpoints/bob/Main", {**endpoint(put.url), "machine": "desk", "modelNameToSendToAPI": "big"})
        assert self.advice(capsys) == [self.ADVICE + self.LIMIT]

    def test_what_is_done_is_not_advised(self, put, capsys):
        put("Endpoints/Main", {**endpoint(put.url), "machine": "desk"})
        put("Endpoints/Other", {**endpoint(put.url), "machine": "desk", "modelNameToSendToAPI": "big"})
        put("Machines", {"desk": {"maxConcurrentRequests": 1}})
        assert self.advice(capsys) == [self.ADVICE]
        assert self.advice(capsys, concurrency=4) == self.advice(capsys, concurrency=0) == []
        assert self.advice(capsys, concurrency=1, concurrency_level="endpoint") == []

    def test_machines_of_others_are_theirs(self, put, capsys):
        for name in ("One", "Two"):
            put(
                f"Endpoints/bob/{name}",
                {**endpoint(put.url), "machine": "attic", "modelNameToSendToAPI": name},
            )
        assert self.advice(capsys) == []


def test_the_last_line_tells_of_prompts_that_are_read_again(put, capsys):
    """It is advice, no fault: the status stays 0."""
    node = {"type": "Standard", "endpointName": "Main", "lastMessagesToSendInsteadOfPrompt": 30}
    put("Workflows/ana/Main", [node])
    assert doctor.Doctor().run(Namespace()) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("user ana: each turn has ") and last.endswith("`--reuse ana` shows what to change")
