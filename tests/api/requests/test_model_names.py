"""The model field and the model lists (frontend-api.md 5)."""

from __future__ import annotations

import logging

import pytest

from Middleware.api.requests import model_names
from Middleware.api.requests.model_names import (
    ModelChoice,
    advertised_context_length,
    advertised_ids,
    choose,
    choose_by_address,
    context_length_of,
    parse_model_field,
    served_users,
    single_user,
)
from Middleware.common.errors import ClientRequestError, NotFound
from Middleware.config.loader import default_snapshot

SINGLE = [
    ("", None), (None, None), (5, None), ("gpt-4", None), ("bob:latest", None), ("novel", "novel"), ("novel:latest", "novel"), ("x:novel", "novel"),
    ("x:novel:latest", "novel"), ("x:none", None), ("mira", None), ("novel:latest:latest", None), ("..", None), ("x:../novel", None),
]  # fmt: skip
MULTI = [
    ("mira", ("mira", None)), ("mira:latest", ("mira", None)), ("mira:novel", ("mira", "novel")), ("mira:none", ("mira", None)),
    ("Mira", (None, None)), ("jo:novel", ("jo", "novel")), ("bob:novel", (None, None)), ("novel", (None, None)), (None, (None, None)),
]  # fmt: skip


@pytest.fixture
def two(configs, facts):
    configs("Users/jo.json", {"port": 5000})
    facts(users=("mira", "jo"))


@pytest.mark.parametrize(("value", "workflow"), SINGLE, ids=lambda v: str(v))
def test_single_user(configs, value, workflow):
    """Only the workflow can be picked; an unknown name is no error."""
    assert parse_model_field(value) == (None, workflow)
    assert choose(value, default_snapshot()) == ModelChoice("mira", workflow)


@pytest.mark.parametrize(("value", "expected"), MULTI, ids=lambda v: str(v))
def test_several_users(two, value, expected):
    """The user must be named, exactly."""
    assert parse_model_field(value) == expected


@pytest.mark.parametrize(
    ("value", "fell_back"),
    [("gpt-4", True), ("x:none", True), ("", False), (None, False), ("mira", False), ("novel", False), ("x:novel", False)],
    ids=str,
)  # fmt: skip
def test_a_name_that_nobody_has_falls_back_to_the_only_user(configs, value, fell_back):
    """Whoever asks for nothing gets what they asked for (workbench.md 15)."""
    assert choose(value, default_snapshot()).fell_back is fell_back


@pytest.mark.parametrize(
    ("value", "fell_back"),
    [("mira:none", True), ("mira:novel", False), ("mira", False), ("mira:latest", False)],
)
def test_a_workflow_that_is_not_there_falls_back_to_its_user(two, value, fell_back):
    assert choose(value, default_snapshot()).fell_back is fell_back


def test_several_users_and_none_named(two):
    """18.18: the answer names them."""
    with pytest.raises(NotFound) as caught:
        choose("gpt-4", default_snapshot())
    assert str(caught.value) == (
        "model must name a configured user, as 'user' or 'user:workflow'; users: mira, jo"
    )
    assert (caught.value.param, caught.value.code) == ("model", "model_not_found")


@pytest.mark.parametrize("value", [None, "", " ", 7])
def test_several_users_and_no_name_at_all(two, value):
    """A request without a model is a wrong one; there is nothing to be found."""
    with pytest.raises(ClientRequestError) as caught:
        choose(value, default_snapshot())
    assert (caught.value.status_hint, caught.value.param, caught.value.code) == (400, "model", None)


def test_the_pointer_user_is_read_each_time(configs, facts):
    """Without `--User`."""
    facts(users=())
    configs("Users/_current-user.json", {"currentUser": "mira"})
    assert single_user(default_snapshot()) == "mira"
    configs("Users/_current-user.json", {"currentUser": "somebody"})
    assert single_user(default_snapshot()) == "somebody"


def test_a_broken_user_file_has_no_workflows(configs):
    """The name picks nothing; the request fails later, with the file's fault."""
    configs("Users/mira.json", "{")
    assert parse_model_field("x:novel") == (None, None)


class TestLists:
    def test_the_bare_user(self, configs):
        """When shared workflows are not allowed."""
        assert advertised_ids(default_snapshot()) == ["mira"]

    def test_shared_workflows(self, configs):
        """Behind the bare user, sorted, without those that begin with `_`."""
        configs("Users/mira.json", {"allowSharedWorkflows": True})
        configs("Workflows/_shared/atlas/x.json", [])
        configs("Workflows/_shared/_hidden/x.json", [])
        assert advertised_ids(default_snapshot()) == ["mira", "mira:atlas", "mira:novel"]

    @pytest.mark.parametrize("users", [("mira",), ("mira", "jo")], ids=["one user", "several"])
    def test_tools(self, configs, facts, users):
        """A workflow that is a tool is no chat model, unless its file says so; by name it can be picked."""
        facts(users=users)
        configs("Users/mira.json", {"allowSharedWorkflows": True})
        configs("Users/jo.json", {})
        configs("Workflows/_shared/tide/_mcpTool.json", {"description": "Tide."})
        configs("Workflows/_shared/both/_mcpTool.json", {"description": "Both.", "chat": True})
        listed = [name for name in advertised_ids(default_snapshot()) if name.startswith("mira")]
        assert listed == ["mira", "mira:both", "mira:novel"]
        assert parse_model_field("mira:tide")[1] == "tide"

    def test_a_folder_that_no_model_field_can_name(self, configs):
        """It is not listed: a colon cuts a name, and `:latest` is cut away."""
        configs("Users/mira.json", {"allowSharedWorkflows": True})
        configs("Workflows/_shared/a:b/x.json", [])
        configs("Workflows/_shared/latest/x.json", [])
        assert advertised_ids(default_snapshot()) == ["mira", "mira:novel"]

    def test_no_shared_workflow_is_there(self, configs):
        """The user still is."""
        configs(
            "Users/mira.json", {"allowSharedWorkflows": True, "sharedWorkflowsSubDirectoryOverride": "none"}
        )
        assert advertised_ids(default_snapshot()) == ["mira"]

    def test_several_users(self, two, configs, caplog):
        """Each bare name before its workflows; one whose file is broken is listed, with a warning."""
        configs("Users/jo.json", {"allowSharedWorkflows": True})
        configs("Users/mira.json", "{")
        with caplog.at_level(logging.WARNING):
            assert advertised_ids(default_snapshot()) == ["mira", "jo", "jo:novel"]
        assert "user mira cannot be listed" in caplog.text


def test_a_shared_folder_that_differs_in_case(configs):
    """It is used as everywhere else: its workflows are listed and can be picked."""
    configs(
        "Users/mira.json", {"sharedWorkflowsSubDirectoryOverride": "_Tools", "allowSharedWorkflows": True}
    )
    configs("Workflows/_tools/notes/_DefaultWorkflow.json", [])
    snapshot = default_snapshot()
    assert advertised_ids(snapshot) == ["mira", "mira:notes"]
    assert parse_model_field("mira:notes", snapshot) == (None, "notes")


class TestServedUsers:
    def test_the_pointers(self, configs, facts):
        """Without `--User`."""
        facts(users=())
        configs("Users/_current-user.json", {"currentUser": "mira"})
        assert served_users() == ["mira"]

    def test_a_pointer_that_cannot_be_read(self, configs, facts, caplog):
        """Nobody, and an error in the log."""
        facts(users=())
        assert served_users() == [] and "_current-user.json" in caplog.text


RAW = {"exposeEndpoints": True, "allowSharedWorkflows": True}
ENDPOINT = {"endpoint": "http://h", "apiTypeConfigFileName": "Api", "maxContextTokenSize": 4096}


@pytest.fixture
def endpoints(configs):
    """Mira exposes `big` and `main`; `vectors` is for embeddings."""
    configs("Users/mira.json", RAW)
    configs("ApiTypes/Api.json", {"type": "openAIChatCompletion"})
    configs("ApiTypes/Emb.json", {"type": "openAIEmbeddings"})
    configs("Endpoints/main.json", ENDPOINT)
    configs("Endpoints/big.json", {"endpoint": "http://h", "apiTypeConfigFileName": "Api"})
    configs("Endpoints/vectors.json", {**ENDPOINT, "apiTypeConfigFileName": "Emb"})


def chosen(name):
    return choose(name, default_snapshot())


class TestAliases:
    """operate.md 4. Mira has a workflow `novel`; jo is there in the tests with several users."""

    @pytest.mark.parametrize(
        ("name", "choice"),
        [
            ("claude-haiku-4-5", ModelChoice("jo", alias="claude-haiku-4-5")),
            ("Claude-Sonnet-4-5", ModelChoice("mira", alias="Claude-Sonnet-4-5")),
            ("gpt-4o", ModelChoice("mira", "novel", alias="gpt-4o")),
            ("gpt-4o:latest", ModelChoice("mira", "novel", alias="gpt-4o:latest")),
            ("mira", ModelChoice("mira")),
            ("mira:novel", ModelChoice("mira", "novel")),
            ("mira:none", ModelChoice("mira")),
            ("x:novel", ModelChoice("jo", alias="x:novel")),
        ],
        ids=lambda v: v if isinstance(v, str) else "",
    )
    def test_the_first_line_that_fits(self, two, configs, name, choice):
        """In file order; never for a name of ours. The name that was asked is kept as it was sent."""
        lines = {"claude-*haiku*": "jo", "claude-*": "mira", "gpt-4o": "mira:novel", "*": "jo", "mira*": "jo"}
        configs("ModelAliases.json", lines)
        assert chosen(name) == choice

    @pytest.mark.parametrize("value", [None, "", "  ", 7])
    def test_no_name_fits_nothing(self, two, configs, value):
        """Not even a star."""
        configs("ModelAliases.json", {"*": "jo"})
        with pytest.raises(ClientRequestError):
            chosen(value)

    @pytest.mark.parametrize(
        "target", ["bob", "Mira", "mira:none", "mira:raw/main", "alias", ":novel", "mira:../novel"]
    )
    def test_a_target_that_nobody_here_has_makes_no_line(self, two, configs, target):
        """The next one that fits counts. An alias is no target."""
        configs("ModelAliases.json", {"alias": "jo", "gpt-*": target, "*4*": "jo"})
        assert chosen("gpt-4") == ModelChoice("jo", alias="gpt-4")
        with pytest.raises(NotFound):
            chosen("gpt-5")

    def test_with_one_user(self, configs):
        """Aliases come before "any name runs that user"; its own name, and what fits none, go on as ever."""
        configs("ModelAliases.json", {"gpt-*": "mira:novel", "mi*": "mira:novel", "other": "jo"})
        assert chosen("gpt-4") == ModelChoice("mira", "novel", alias="gpt-4")
        assert chosen("mira") == chosen("other") == chosen("") == chosen(None) == ModelChoice("mira")
        assert chosen("mistral") == ModelChoice("mira", "novel", alias="mistral")

    def test_the_user_of_the_pointer_file(self, configs, facts):
        """As one user."""
        facts(users=())
        configs("Users/_current-user.json", {"currentUser": "mira"})
        configs("ModelAliases.json", {"*": "mira:novel"})
        assert chosen("x") == ModelChoice("mira", "novel", alias="x") and chosen("mira") == ModelChoice(
            "mira"
        )

    def test_to_an_endpoint(self, two, configs, endpoints):
        configs("ModelAliases.json", {"plain": "mira:raw/main", "vectors": "mira:raw/vectors", "v*": "jo"})
        assert chosen("plain") == ModelChoice("mira", endpoint="main", alias="plain")
        assert chosen("vectors") == ModelChoice("jo", alias="vectors")

    def test_lists(self, two, configs, endpoints):
        """Those without a star, behind the names of their target's user, if a client who sends one gets there."""
        lines = {
            "gpt-*": "jo",
            "gpt-4o": "mira",
            "Fast": "mira:raw/big",
            "fast": "mira",
            "mira": "jo",
            "lost": "bob",
            "x:latest": "jo",
            "novel-model": "mira:novel",
        }
        configs("ModelAliases.json", lines)
        assert advertised_ids(default_snapshot()) == [
            *("mira", "mira:novel", "mira:raw/big", "mira:raw/main", "Fast", "novel-model"),
            *("jo", "gpt-4o"),
        ]

    def test_a_faulty_file_is_as_good_as_none(self, two, configs):
        configs("ModelAliases.json", "{")
        assert advertised_ids(default_snapshot()) == ["mira", "jo"]
        with pytest.raises(NotFound):
            chosen("gpt-4")


class TestPlainModels:
    @pytest.mark.parametrize("users", [("mira",), ("mira", "jo")], ids=["one user", "several"])
    @pytest.mark.parametrize("name", ["mira:raw/nope", "mira:raw/vectors", "mira:raw/", "mira:raw/../main"])
    def test_one_that_is_not_exposed(self, configs, facts, endpoints, users, name):
        """404 as an unknown name, with one user too, whatever aliases say."""
        configs("Users/jo.json", {"port": 5000})
        configs("ModelAliases.json", {"*": "mira"})
        facts(users=users)
        with pytest.raises(NotFound) as caught:
            chosen(name)
        assert str(caught.value).endswith(f"users: {', '.join(users)}")
        assert (caught.value.param, caught.value.code) == ("model", "model_not_found")

    @pytest.mark.parametrize("users", [("mira",), ("mira", "jo")], ids=["one user", "several"])
    def test_one_that_is(self, configs, facts, endpoints, users):
        configs("Users/jo.json", {"port": 5000})
        facts(users=users)
        assert chosen("mira:raw/main") == ModelChoice("mira", endpoint="main")
        assert chosen("mira:raw/main:latest").name == "mira:raw/main"

    def test_a_workflow_may_be_called_raw(self, configs, endpoints):
        """Only a slash makes a plain model."""
        configs("Workflows/_shared/raw/x.json", [])
        assert chosen("mira:raw") == ModelChoice("mira", "raw")

    def test_how_much_one_takes(self, configs, endpoints):
        """The endpoint's own window where it states one, else as of the user."""
        lengths = [
            context_length_of(chosen(f"mira:{one}"), default_snapshot())
            for one in ("raw/main", "raw/big", "x")
        ]
        assert lengths == [4096, 131072, 131072]


class TestAddresses:
    """`/as/<name>/...`"""

    @pytest.mark.parametrize(
        ("name", "ids"),
        [
            ("mira", ["mira"]),
            ("mira:novel", ["mira:novel"]),
            ("novel", ["mira:novel"]),
            ("mira:raw/main", ["mira:raw/main"]),
            ("GPT-4o", ["GPT-4o"]),
            ("gpt-4o:latest", ["gpt-4o"]),
        ],
    )
    def test_lists_show_the_name_alone(self, configs, endpoints, name, ids):
        configs("ModelAliases.json", {"gpt-4o": "mira"})
        assert advertised_ids(default_snapshot(), name) == ids

    @pytest.mark.parametrize("name", ["bob", "mira:raw/none", "x:none"])
    def test_a_name_that_nobody_has(self, configs, endpoints, name):
        """404 with one user too, though any `model` would do."""
        for ask in (choose_by_address, lambda name, snapshot: advertised_ids(snapshot, name)):
            with pytest.raises(NotFound, match="model must name a configured user"):
                ask(name, default_snapshot())

    def test_how_much_is_taken_there(self, two, configs, endpoints):
        configs("Users/jo.json", {"advertisedContextLength": 1000})
        snapshot = default_snapshot()
        lengths = [advertised_context_length(snapshot, name) for name in ("", "jo", "mira:raw/main")]
        assert lengths == [131072, 1000, 4096]


def test_whom_a_request_may_ask_is_said_in_one_place(two, configs, monkeypatch):
    """Everything else goes by it: choices, aliases, lists, facts. The seam for keys that open some users only."""
    configs("ModelAliases.json", {"gpt-*": "mira", "gpt-4": "jo"})
    configs("Users/jo.json", {"advertisedContextLength": 1000})
    monkeypatch.setattr(model_names, "askable_users", lambda snapshot: ("jo",))
    assert advertised_ids(default_snapshot()) == ["jo", "gpt-4"]
    assert chosen("gpt-4") == ModelChoice("jo", alias="gpt-4")
    assert advertised_context_length(default_snapshot()) == 1000
    for name in ("mira", "mira:novel", "gpt-5"):
        with pytest.raises(NotFound, match=r"users: jo$"):
            chosen(name)
