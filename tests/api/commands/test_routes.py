"""`--routes`: the scores of a text, as a user reads them."""

from __future__ import annotations

import json

import pytest

from Middleware.api.commands import routes
from Middleware.api.launch_arguments import parse
from Middleware.common.instance_global_variables import launch_facts, set_launch_facts
from tests.api.model_server import ModelHandler, model_server

VECTORS = {
    "about code": [1.0, 0.0],
    "fix this": [0.8, 0.6],
    "about facts": [0.0, 1.0],
    "who was it": [0.6, 0.8],
    "Please mend my program": [1.0, 0.0],
}
ROUTING = {
    "_byMeaning": {"embeddingEndpointName": "vectors"},
    "CODING": {"description": "about code", "workflow": "Code", "examples": ["fix this"]},
    "FACTS": {"description": "about facts", "workflow": "Facts", "examples": ["who was it"]},
}


class Embeddings(ModelHandler):
    def do_POST(self):
        self.body = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer_call()

    def answer_call(self):
        texts = json.loads(self.body)["input"]
        self.server.texts.append(texts)
        vectors = [self.server.vectors.get(text, [1.0, 1.0]) for text in texts]
        data = [{"index": i, "embedding": vector} for i, vector in enumerate(vectors)]
        self.answer(json.dumps({"data": data}).encode(), "application/json")


@pytest.fixture
def house(tmp_path, capsys):
    """`house.run(*words)` gives exit status and what was printed."""
    before = launch_facts()
    with model_server(Embeddings) as server:
        server.texts, server.vectors = [], dict(VECTORS)
        yield House(tmp_path, server, capsys)
    set_launch_facts(before)


class House:
    def __init__(self, folder, server, capsys):
        self.folder, self.server, self._capsys = folder, server, capsys
        self.write("Users/_current-user", {"currentUser": "ana"})
        self.write("Users/ana", {"routingConfig": "home", "categorizationWorkflow": "Pick"})
        self.write("ApiTypes/Vectors", {"type": "openAIEmbeddings"})
        self.write("Routing/home", ROUTING)
        url = f"http://127.0.0.1:{server.server_port}"
        self.write("Endpoints/vectors", {"endpoint": url, "apiTypeConfigFileName": "Vectors"})

    def write(self, name, document):
        path = self.folder / f"Configs/{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document))

    def run(self, *words):
        launch = parse(["--PublicDirectory", str(self.folder), "--routes", *words])
        set_launch_facts(launch.facts)
        status = launch.command.run(launch.arguments)
        printed = self._capsys.readouterr()
        return status, printed.out + printed.err


def test_scores_examples_and_decision(house):
    """Of each category, with the example that was nearest; and the examples that spoil each other."""
    status, said = house.run("home", "Please mend my program")
    assert status == 0
    assert said == (
        "4 examples in 2 categories; mean cosine of examples of different categories (b): 0.54\n"
        "Examples of different categories with a score over 0.5, which spoil each other:\n"
        '  0.91  CODING "fix this" and FACTS "who was it"\n'
        '   1.00  CODING  "about code"\n'
        '   0.13  FACTS   "who was it"\n'
        "by meaning: CODING 1.00, next FACTS 0.13: CODING is taken (threshold 0.25, margin 0.12)\n"
    )


def test_not_clear(house):
    status, said = house.run("home.json", "something between the two")
    assert status == 0
    assert said.endswith("not clear (threshold 0.25, margin 0.12), so the categorisation workflow decides\n")


def test_the_vectors_are_kept(house):
    """The second time, the text alone is embedded."""
    house.run("home", "Please mend my program")
    house.run("home", "Please mend my program")
    assert [len(texts) for texts in house.server.texts] == [4, 1, 1]


def test_a_short_text(house):
    """By itself it isn't compared."""
    status, said = house.run("home", "ok")
    assert status == 0
    assert said.endswith("The text has less than 16 bytes, so it isn't compared by itself.\n")


def test_all_alike(house):
    house.server.vectors = {}
    status, said = house.run("home", "Please mend my program")
    assert status == 0
    assert "can't be told apart" in said


@pytest.mark.parametrize(
    ("routing", "why"),
    [
        ({name: value for name, value in ROUTING.items() if name != "_byMeaning"}, "has no '_byMeaning'"),
        ({name: ROUTING[name] for name in ("_byMeaning", "FACTS")}, "needs two categories"),
        (ROUTING | {"_byMeaning": {"embeddingEndpointName": "vector"}}, 'did you mean "vectors"?'),
        ({"_byMeaning": ROUTING["_byMeaning"]}, "found no category"),
    ],
    ids=["not by meaning", "one category", "no endpoint", "no category"],
)
def test_a_file_that_is_no_good(house, routing, why):
    house.write("Routing/home", routing)
    status, said = house.run("home", "Please mend my program")
    assert status == 1
    assert why in said


def test_no_such_file(house):
    status, said = house.run("hom", "x")
    assert (status, 'did you mean "home"?' in said) == (1, True)


def test_a_backend_that_fails(house):
    house.write("Endpoints/vectors", {"endpoint": "http://127.0.0.1:9", "apiTypeConfigFileName": "Vectors"})
    status, said = house.run("home", "Please mend my program")
    assert status == 1
    assert said.startswith("error: ")


def test_an_answer_that_cannot_be_used(house):
    house.server.vectors = {"fix this": [1.0]}
    status, said = house.run("home", "Please mend my program")
    assert (status, "different lengths" in said) == (1, True)


def test_another_model_by_the_same_name(house):
    """What was kept is deleted, and the next try works."""
    house.run("home", "Please mend my program")
    house.server.vectors = {text: [*vector, 0.5] for text, vector in VECTORS.items()}
    assert house.run("home", "Please mend my program")[0] == 1
    assert house.run("home", "Please mend my program")[0] == 0


def test_one_user(house):
    house.write("Users/bo", {})
    status, said = house.run("home", "x", "--User", "ana", "--User", "bo")
    assert status == 2
    assert "one user" in said


def test_it_is_a_command():
    """Beside the others."""
    assert isinstance(parse(["--routes", "a", "b"]).command, routes.Routes)
