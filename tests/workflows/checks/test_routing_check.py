"""What is odd about a routing file: categories that nothing can pick, and routing by meaning."""

from __future__ import annotations

from Middleware.config.workflows import ByMeaning, Category, Routing
from Middleware.workflows.checks.routing_check import meaning_remarks


def remarks(*categories, by_meaning=True):
    return list(meaning_remarks(Routing("r", categories, ByMeaning("e") if by_meaning else None)))


A = Category("A", "about a", "W", ("one", "two"))
B = Category("B", "about b", "W", ("three",))


def test_a_good_file():
    assert remarks(A, B) == []


def test_examples_without_the_switch_are_ready_for_it():
    assert remarks(Category("A", "a", "W", (" ", "x")), by_meaning=False) == []


def test_one_category_with_texts():
    """The others have nothing to be compared with."""
    assert [pointer for pointer, _ in remarks(A, Category("B", " ", "W"))] == ["/_byMeaning"]


def test_blank_and_shared_examples():
    found = remarks(A, Category("B", "about b", "W", (" ", "two ", "four")))
    assert [(pointer, why.partition(",")[0]) for pointer, why in found] == [
        ("/B/examples/0", "is blank and is ignored"),
        ("/B/examples/1", "is also an example of 'A'"),
    ]


def test_the_endpoint_is_followed(checked):
    """One that is not there, and one that writes text, are errors at their place."""
    checked.change(
        "Users/ana.json", customWorkflowOverride=False, routingConfig="r", categorizationWorkflow="Main"
    )
    checked.flow(name="_DefaultWorkflow")
    category = {"description": "d", "workflow": "Main"}

    def lines(endpoint):
        own = {"embeddingEndpointName": endpoint}
        checked.put(
            "Routing/r.json", {"A": category, "B": category | {"description": "e"}, "_byMeaning": own}
        )
        return checked.lines()

    place = "Routing/r.json: error: _byMeaning.embeddingEndpointName: "
    assert lines("smal-model")[0].startswith(f'{place}no endpoint "smal-model"')
    assert lines("small-model")[0].startswith(f'{place}endpoint "small-model"')
    checked.put("ApiTypes/Emb.json", {"type": "ollamaEmbeddings"})
    checked.put("Endpoints/lan/emb.json", {"endpoint": "http://h", "apiTypeConfigFileName": "Emb"})
    assert lines("emb") == []


def test_no_category(checked):
    """A file that says only how is told once."""
    checked.put("Routing/r.json", {"_byMeaning": {"embeddingEndpointName": "e"}})
    assert checked.lines() == [
        "Routing/r.json: error: found no category beside '_byMeaning', allowed: at least one"
    ]
