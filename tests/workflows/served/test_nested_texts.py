"""Random nested workflows of text nodes: the same text by every route, streamed and whole."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

WORDS = ["", "a", " b ", "{agent1Output}", "{agent2Output}", "{agent1Input}", "{chat_user_prompt_last_one}", "{v}", "{{v}}", "{", "}",
         "{unknown}", '{"k": 1}', "<a>x</a>", "<think>t</think>", "Assistant:", "7", "TRUE", "\n", "ü🦉", "data: [DONE]\n\n"]  # fmt: skip
TEXTS = st.lists(st.sampled_from(WORDS), max_size=4).map("".join)

LEAVES = st.one_of(
    st.fixed_dictionaries({"type": st.just("StaticResponse"), "content": TEXTS}),
    st.fixed_dictionaries({"type": st.just("StringConcatenator"), "strings": st.lists(TEXTS, max_size=3), "delimiter": st.sampled_from(["", "|"])}),
    st.fixed_dictionaries({"type": st.just("ArithmeticProcessor"), "expression": st.sampled_from(["{agent1Output} + 1", "7 / 2", "x"])}),
    st.fixed_dictionaries({"type": st.just("Conditional"), "condition": st.sampled_from(["{agent1Output} == 7", "'{v}' == '{v}'", "("])}),
    st.fixed_dictionaries({"type": st.just("JsonExtractor"), "jsonToExtractFrom": st.sampled_from(['{"k": "ü {v}"}', "{agent1Output}"]), "fieldToExtract": st.just("k")}),
    st.fixed_dictionaries({"type": st.just("TagTextExtractor"), "tagToExtractFrom": TEXTS, "fieldToExtract": st.just("a"), "defaultText": TEXTS}),
    st.fixed_dictionaries({"type": st.just("DelimitedChunker"), "content": TEXTS, "delimiter": st.just(" "), "mode": st.sampled_from(["head", "tail"]), "count": st.just(1)}),
)  # fmt: skip


def flows(nodes: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Workflows of up to three nodes, any of which may be marked as the answer."""
    marked = st.builds(
        lambda node, mark: {**node, **mark}, nodes, st.sampled_from([{}, {}, {"returnToUser": True}])
    )
    return st.lists(marked, min_size=1, max_size=3)


def callers(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Nodes that call a workflow; `child` stands for its name until it is written."""
    call = st.fixed_dictionaries(
        {
            "type": st.just("CustomWorkflow"),
            "child": flows(children),
            "scoped_variables": st.lists(TEXTS, max_size=2),
        }
    )
    branch = st.fixed_dictionaries(
        {"type": st.just("ConditionalCustomWorkflow"), "conditionalKey": st.sampled_from(["TRUE", "{agent1Output}", "no"]),
         "child": flows(children), "UseDefaultContentInsteadOfWorkflow": TEXTS}
    )  # fmt: skip
    return st.one_of(call, branch, children)


FLOWS = flows(st.recursive(LEAVES, callers, max_leaves=6))


@pytest.fixture
def write(house):
    """`write(nodes)` writes workflow Main and, under names of their own, all that it calls."""

    def put(nodes: list[dict[str, Any]], name: str = "Main") -> None:
        ready = []
        for number, node in enumerate(nodes):
            if "child" in node:
                child = f"{name}-{number}"
                put(node["child"], child)
                place = (
                    {"workflowName": child}
                    if node["type"] == "CustomWorkflow"
                    else {"conditionalWorkflows": {"true": child}}
                )
                node = {key: value for key, value in node.items() if key != "child"} | place
            ready.append(node)
        house.workflow(name, *ready, v="of {chat_user_prompt_last_one}")

    return put


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FLOWS, TEXTS.filter(str.strip))
def test_every_way_gives_the_same_text(served, write, nodes, said):
    """Eight ways to ask: four routes of two protocols, streamed or not."""
    served.save_user()
    write(nodes)
    texts = served.every_text(text=said)
    assert len(set(texts.values())) == 1, texts
