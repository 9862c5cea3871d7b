"""`ModelAliases.json` and `exposeEndpoints` against the rest of the tree (operate.md 4)."""

from __future__ import annotations

import pytest

from Middleware.workflows.checks.config_check import check_users

FILE = "ModelAliases.json"


@pytest.fixture(autouse=True)
def tree(checked):
    """Ana's `small-model`, a workflow `novel`, an endpoint for embeddings, and a second user."""
    checked.change("Users/ana.json", exposeEndpoints=True)
    checked.put("Workflows/_shared/novel/_DefaultWorkflow.json", [{"type": "StaticResponse", "content": "x"}])
    checked.put("ApiTypes/Emb.json", {"type": "ollamaEmbeddings"})
    checked.put(
        "Endpoints/lan/vectors.json", {"endpoint": "http://127.0.0.1:1", "apiTypeConfigFileName": "Emb"}
    )
    checked.put("Users/bob.json", {"customWorkflowOverride": True, "customWorkflow": "Main"})
    checked.put("Workflows/bob/Main.json", [{"type": "StaticResponse", "content": "x"}])


def test_names_that_lead_somewhere(checked):
    """Upper and lower case of a user's file do not count: only a start says how the user is spelled."""
    aliases = {"claude-*": "ana", "gpt-*": "ana:novel", "plain": "ana:raw/small-model", "B*": "Bob"}
    checked.put(FILE, aliases)
    assert checked.lines() == []


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("bbo", "there is no user 'bbo' (did you mean 'bob'?)"),
        ("zoe", "there is no user 'zoe'"),
        ("ana:novels", "there is no folder 'novels' in Workflows/_shared (did you mean 'novel'?)"),
        ("ana:raw/small-modle", "user 'ana' does not expose an endpoint 'small-modle' (`exposeEndpoints`) (did you mean 'small-model'?)"),
        ("bob:raw/small-model", "user 'bob' does not expose an endpoint 'small-model' (`exposeEndpoints`)"),
        ("ana:raw/vectors", 'endpoint "vectors" is for embeddings (ollamaEmbeddings) and cannot answer'),
    ],
)  # fmt: skip
def test_a_target_that_nobody_has(checked, target, why):
    checked.put(FILE, {"x": target})
    assert checked.lines() == [f"{FILE}: error: x: {why}"]


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ({"claude-*": "ana", "claude-haiku-*": "ana:novel"}, 'claude-haiku-*: never counts, because "claude-*" above it fits the same names'),
        ({"GPT-4o": "ana", "gpt-4o": "ana"}, 'gpt-4o: never counts, because "GPT-4o" above it fits the same names'),
        ({"Bob": "ana"}, "Bob: is also the name of a user, and users come before aliases"),
        ({"llama:latest": "ana"}, "llama:latest: never counts, because names are compared without ':latest'"),
        ({" ": "ana"}, " : never counts, because an empty name fits no line"),
    ],
)  # fmt: skip
def test_a_line_that_never_counts(checked, lines, why):
    checked.put(FILE, lines)
    assert checked.lines() == [f"{FILE}: warning: {why}"]


@pytest.mark.parametrize(
    "lines",
    [{"claude-*": "ana", "claude-haiku-*": "bob"}, {"claude-haiku-*": "ana", "claude-*": "ana"}],
    ids=["of another user", "the narrow one first"],
)
def test_a_line_that_may_count(checked, lines):
    """A server that does not serve the user of the first line goes on to the second."""
    checked.put(FILE, lines)
    assert checked.lines() == []


def test_a_faulty_file_is_told_once(checked):
    checked.put(FILE, {"x": 5})
    (line,) = checked.lines()
    assert line.startswith(f"{FILE}: error: x: found 5")


def test_of_some_users_only_their_lines(checked):
    """Those of users that are nobody's are errors all the same."""
    checked.put(FILE, {"a": "ana:none", "b": "bob:none", "c": "zoe"})
    found = check_users(checked.tree.snapshot(), ["bob"])
    assert [finding.pointer for finding in found if finding.file == FILE] == ["/b", "/c"]


def test_a_list_of_endpoints_names_such_as_are_there_and_answer(checked):
    checked.change("Users/ana.json", exposeEndpoints=["small-model", "small-modle", "vectors"])
    lines = checked.lines()
    assert [line.split(": ")[2] for line in lines] == ["exposeEndpoints[1]", "exposeEndpoints[2]"]
    assert 'no endpoint "small-modle"' in lines[0] and "cannot answer" in lines[1]


def test_exposed_endpoints_are_checked_at_a_start(checked):
    """Also those that no workflow names."""
    checked.put("Endpoints/lan/other.json", {"endpoint": "no address", "apiTypeConfigFileName": "Api"})
    found = check_users(checked.tree.snapshot(), ["ana"])
    assert [(finding.file, finding.pointer) for finding in found] == [
        ("Endpoints/lan/other.json", "/endpoint")
    ]
