"""Numbers follow their nodes (workbench.md 2, 11 row 2)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from Middleware.common.errors import ConfigError
from Middleware.common.request_context import RequestContext
from Middleware.config.users import UserSettings
from Middleware.workflows.checks.renumber import (
    Moves,
    Renumbering,
    moves_of_insert,
    moves_of_move,
    moves_of_remove,
    node_count,
    renumber,
)
from Middleware.workflows.checks.workflow_check import names_filled, output_named
from Middleware.workflows.handlers import impl
from Middleware.workflows.variables.workflow_variable_manager import (
    LiveValues,
    VariableSource,
    fill,
    fill_early,
    fill_override,
)

assert impl


def edited(text: str, made: Renumbering) -> str:
    """The text with its changes, as a page makes them: in UTF-16 units."""
    units = text.encode("utf-16-le", "surrogatepass")
    for start, end, insert in reversed(made.changes):
        units = units[: 2 * start] + insert.encode("utf-16-le") + units[2 * end :]
    return units.decode("utf-16-le", "surrogatepass")


def node(prompt: str, **fields) -> dict:
    return {"type": "Standard", "prompt": prompt, **fields}


NODES = 3  # what the table's workflows have before the node that is looked at


def inserted_before_it(config: dict, **variables) -> tuple[dict, list[str]]:
    """The fourth node of a workflow, and what is told, when a node comes in at its beginning."""
    text = json.dumps({**variables, "nodes": [node("")] * NODES + [config]})
    made = renumber(text, moves_of_insert(NODES + 1, 1))
    return json.loads(edited(text, made))["nodes"][NODES], made.lost


# id, prompt, what it is when a node comes in before all
FORMAT = [
    ("a-name", "{agent2Output}", "{agent3Output}"),
    ("each-kind", "{agent1Thinking}{agent1ToolCalls}{agent1Candidates}",
     "{agent2Thinking}{agent2ToolCalls}{agent2Candidates}"),
    ("with-path-conversion-and-spec", "{agent2Output[a]!r:>9}", "{agent3Output[a]!r:>9}"),
    ("in-a-spec", "{x:{agent2Output}}", "{x:{agent3Output}}"),
    ("doubled-braces", "{{agent2Output}}", "{{agent3Output}}"),
    ("beside-what-is-broken", "} {agent2Output} {", "} {agent3Output} {"),
    ("with-blanks", "{ agent2Output }", "{ agent2Output }"),
    ("with-a-leading-zero", "{agent02Output}", "{agent02Output}"),
    ("without-braces", "agent2Output", "agent2Output"),
    ("an-input", "{agent2Input}", "{agent2Input}"),
    ("of-no-node", "{agent9Output}", "{agent9Output}"),
    ("of-a-later-node", "{agent4Output}", "{agent5Output}"),
    ("letters-of-every-width", "\U0001f600\u00e9 {agent2Output}", "\U0001f600\u00e9 {agent3Output}"),
]  # fmt: skip
JINJA = [
    ("a-name", "{{ agent2Output }}", "{{ agent3Output }}"),
    ("in-a-statement", "{% if agent2Output|length > 1 %}x{% endif %}", "{% if agent3Output|length > 1 %}x{% endif %}"),
    ("behind-a-point", "{{ x.agent2Output }}{{ agent2Output }}", "{{ x.agent2Output }}{{ agent3Output }}"),
    ("in-a-text", "{{ 'agent2Output' }}", "{{ 'agent2Output' }}"),
    ("in-a-comment", "{# agent2Output #}", "{# agent2Output #}"),
    ("raw", "{% raw %}{{ agent2Output }}{% endraw %}", "{% raw %}{{ agent2Output }}{% endraw %}"),
    ("one-that-it-sets-itself", "{% set agent2Output = 1 %}{{ agent2Output }}",
     "{% set agent2Output = 1 %}{{ agent2Output }}"),
    ("an-argument", "{{ dict(agent2Output=agent2Output) }}", "{{ dict(agent2Output=agent3Output) }}"),
    ("stripped-blanks-and-line-ends", "a\r\n {%- if agent2Output -%} \r\n{{ agent2Output }}{% endif %}\r\n",
     "a\r\n {%- if agent3Output -%} \r\n{{ agent3Output }}{% endif %}\r\n"),
    ("format-braces", "{agent2Output}", "{agent2Output}"),
    ("one-that-does-not-parse", "{{ agent2Output", "{{ agent2Output"),
]  # fmt: skip


class TestWhatFollows:
    @pytest.mark.parametrize(("before", "after"), [c[1:] for c in FORMAT], ids=[c[0] for c in FORMAT])
    def test_in_a_text(self, before, after):
        assert inserted_before_it(node(before))[0]["prompt"] == after

    @pytest.mark.parametrize(("before", "after"), [c[1:] for c in JINJA], ids=[c[0] for c in JINJA])
    def test_in_a_template(self, before, after):
        assert inserted_before_it(node(before, jinja2=True))[0]["prompt"] == after

    @pytest.mark.parametrize(
        "fields",
        [{"title": "{agent1Output}"}, {"note": "{agent1Output}"}, {"displayOnlyComment": "{agent1Output}"}],
        ids=["literal", "unknown", "comment"],
    )
    def test_no_text_that_is_not_filled(self, fields):
        config = node("", **fields)
        assert inserted_before_it(config) == (config, [])

    def test_only_the_names_of_the_parent_in_a_text_for_a_child(self):
        config = {
            "type": "CustomWorkflow",
            "workflowName": "Sub",
            "promptOverride": "{agent2Output} {agent5Output}",
        }
        assert inserted_before_it(config)[0]["promptOverride"] == "{agent3Output} {agent5Output}"

    def test_a_name_of_the_child_that_would_be_filled_here_from_now_on_is_told(self):
        config = {"type": "CustomWorkflow", "workflowName": "Sub", "promptOverride": "{agent4Output}"}
        after, lost = inserted_before_it(config)
        assert after == config
        assert lost == [
            "node 4 passes {agent4Output} to its child workflow, but then it would be filled here, "
            "because it names a node before this one"
        ]

    def test_escapes_elsewhere_stay_as_written(self):
        text = r'[{"prompt": ""}, {"prompt": "\u00e9\/\ud83d\ude00 {\u0061gent1Output} \n"}]'
        made = renumber(text, moves_of_insert(2, 1))
        assert edited(text, made) == text.replace("gent1O", "gent2O")

    def test_the_last_of_two_equal_keys_is_the_one_that_counts(self):
        text = '[{}, {"prompt": "{agent1Output}", "prompt": "{agent1Output}!"}]'
        made = renumber(text, moves_of_insert(2, 1))
        assert edited(text, made) == '[{}, {"prompt": "{agent1Output}", "prompt": "{agent2Output}!"}]'


class TestVariables:
    def variable(self, value, prompt: str, **fields):
        text = json.dumps({"x": value, "nodes": [node("")] * 3 + [node(prompt, **fields)]})
        return json.loads(edited(text, renumber(text, moves_of_insert(4, 1))))["x"]

    def test_one_that_a_text_names_follows(self):
        assert self.variable("{agent2Output}", "{x}") == "{agent3Output}"

    def test_what_lies_in_a_list_too(self):
        assert self.variable(["{agent2Output}", "{agent2Output}"], "{x[1]}") == [
            "{agent2Output}",
            "{agent3Output}",
        ]

    @pytest.mark.parametrize(
        ("prompt", "fields"),
        [("y", {}), ("{{ x }}", {"jinja2": True})],
        ids=["named-by-nobody", "named-by-a-template"],
    )
    def test_one_that_is_not_filled_stays(self, prompt, fields):
        """A template takes the text as it is."""
        assert self.variable("{agent2Output}", prompt, **fields) == "{agent2Output}"

    def test_an_item_in_doubled_braces_beside_a_name_that_nobody_knows(self):
        """Such a text is scanned tolerantly, and then the item is looked up."""
        text = json.dumps(
            {"list": ["{agent1Output}"], "nodes": [node("", maxResponseSizeInTokens="{no}{{list[0]}}")]}
        )
        made = renumber(text, moves_of_insert(1, 1))
        assert json.loads(edited(text, made))["list"] == ["{agent2Output}"]

    def test_doubled_braces_in_one_stay_as_no_second_pass_comes_by(self):
        assert self.variable("{{agent2Output}}", "{x}") == "{{agent2Output}}"

    def test_those_of_the_user_are_told_and_not_changed(self):
        text = json.dumps([node(""), node("{mine}")])
        made = renumber(text, moves_of_insert(2, 1), {"mine": "{agent1Output}", "other": "{agent1Output}"})
        assert made == Renumbering(
            lost=[
                "the user's variable 'mine' for all workflows names {agent1Output}; it is not changed",
            ]
        )


class TestWhatIsTold:
    TEXT = json.dumps({"x": "{agent1Output}", "nodes": [node(""), node("{agent1Output}"), node("{agent2Output}{x}")]})  # fmt: skip

    def test_names_that_changed(self):
        assert renumber(self.TEXT, moves_of_insert(3, 2)).changed == [
            {"node": 3, "field": "prompt", "from": "agent2Output", "to": "agent3Output"}
        ]

    def test_a_node_that_goes(self):
        made = renumber(self.TEXT, moves_of_remove(3, 1))
        assert made.lost == [
            "node 2 uses the output of node 1, which you remove",
            "node 3 uses the output of node 1 through the variable 'x', which you remove",
        ]

    def test_a_node_that_would_come_later(self):
        made = renumber(self.TEXT, moves_of_move(3, 1, 3))
        assert made.lost == [
            "node 2 uses the output of node 1, which would no longer run before it",
            "node 3 uses the output of node 1 through the variable 'x', which would no longer run before it",
        ]

    def test_what_led_nowhere_before_is_not_told(self):
        assert renumber(json.dumps([node("{agent2Output}"), node("")]), moves_of_remove(2, 2)).lost == []

    @pytest.mark.parametrize("text", ["{", '{"nodes": 1}', "7"])
    def test_a_text_that_is_no_workflow(self, text):
        with pytest.raises(ConfigError):
            node_count(text)


# --------------------------------------------------------------------------
# The law: what a text is filled with is what it was filled with before.

NAME = r"(?<=\{)agent\d+(?=(?:Output|Thinking|ToolCalls|Candidates)[}\[!:])"
PIECES = [
    "{agent1Output}", "{agent2Output}", "{agent3Thinking}", "{agent2ToolCalls}", "{agent1Output!r:>9}", "{agent3Output[0]}",
    "{{agent1Output}}", "{{{agent2Output}}}", "{{agent2Output!r}}", "{x}", "{y}", "{{x}}", "{list[0]}", "{{list[0]}}", "{x!r}{{list[0]}}", "{x:{agent1Output}}",
    "{", "}", "{{", "}}", " words ", "{ agent1Output }", "{agent01Output}", "agent1Output", "{agent1Input}", "{unknown}",
    "\U0001f600", '"quoted"\n', "\\",
]  # fmt: skip
TEMPLATE_PIECES = [
    "{{ agent1Output }}", "{{ agent2Thinking|upper }}", "{{- agent3Output -}}\r\n ", "{% if agent1Output %}{{ agent2Output }}{% endif %}",
    "{% for agent1Output in [1] %}{{ agent1Output }}{% endfor %}", "{{ 'agent1Output' }}", "{# agent1Output #}",
    "{% raw %}{{ agent1Output }}{% endraw %}", "{{ x }}", "{agent1Output}", "{{ dict(agent1Output=agent2Output) }}", " words \r\n",
    "{{", "\U0001f600",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES), max_size=5).map("".join)
TEMPLATES = st.lists(st.sampled_from(TEMPLATE_PIECES), max_size=5).map("".join)
FIELDS = ("prompt", "systemPrompt", "maxResponseSizeInTokens", "scoped_variables", "promptOverride")


@st.composite
def any_node(draw):
    template = draw(st.booleans())
    texts = TEMPLATES if template else TEXTS
    config = {
        "type": draw(st.sampled_from(["Standard", "CustomWorkflow"])),
        "note": "{agent1Output}",
        "displayOnlyComment": "{agent1Output}",
        **({"jinja2": True} if template else {}),
    }
    for name in draw(st.sets(st.sampled_from(FIELDS))):
        if name == "maxResponseSizeInTokens":
            config[name] = draw(TEXTS)
        else:
            config[name] = [draw(texts)] if name == "scoped_variables" else draw(texts)
    return config


@st.composite
def any_change(draw):
    """(document, its text, kind and numbers of the change)."""
    nodes = draw(st.lists(any_node(), min_size=1, max_size=5))
    for number, config in enumerate(nodes, 1):
        config["title"] = f"n{number}"
    document = {"x": draw(TEXTS), "y": draw(TEXTS), "list": [draw(TEXTS)], "nodes": nodes}
    text = json.dumps(document, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 2])))
    kind = draw(st.sampled_from(["insert", "move", "remove"]))
    at = st.integers(1, len(nodes) + (kind == "insert"))
    return document, text, (kind, draw(at), draw(at) if kind == "move" else 0)


@dataclass
class Walk:
    """The nodes of a workflow, each with what those before it gave: a stub of its own, by its title."""

    document: dict
    snapshot: object = None

    def __post_init__(self):
        self.nodes = self.document["nodes"]
        self.variables = {key: value for key, value in self.document.items() if key != "nodes"}

    def texts(self, index: int) -> dict[str, str]:
        """Field -> what it is filled with, the numbers of names that stay in it left out."""
        config, before = self.nodes[index], list(enumerate(self.nodes[:index], 1))
        kinds = ("Output", "ToolCalls", "Candidates")
        source = VariableSource(
            RequestContext("id", "mira", "openai"),
            UserSettings("mira"),
            node=config,
            workflow_variables=self.variables,
            agent_outputs={f"agent{n}{kind}": f"<{one['title']} {kind}>" for n, one in before for kind in kinds},
            thoughts={f"agent{n}Thinking": f"<{one['title']} thought>" for n, one in before},
        )  # fmt: skip
        return {
            name: re.sub(NAME, "agent", self.fill(name, config[name], source))
            for name in FIELDS
            if name in config
        }

    def fill(self, name: str, value, source: VariableSource) -> str:
        try:
            if name == "maxResponseSizeInTokens":
                return fill_early(value, source, with_outputs=True)
            if name == "promptOverride":
                return str(fill_override(value, source))
            return fill(value[0] if isinstance(value, list) else value, source)
        except ConfigError:
            return "no template"

    def names_known(self, index: int, moves: Moves) -> set[tuple[int, str]]:
        """Outputs that the node's texts surely look up, that it has now and would have no more."""
        written = names_filled(self.nodes[index], LiveValues(self.document))
        known = {
            output
            for one in written
            if (output := output_named(one.name)) and f"agent{output[0]}{output[1]}" == one.name
        }
        number, new = index + 1, moves[index + 1]
        return {(n, what) for n, what in known if n < number and not (n in moves and moves[n] < new)}


def changed_list(nodes: list, kind: str, at: int, to: int) -> list:
    nodes = list(nodes)
    if kind == "insert":
        nodes.insert(at - 1, {"title": "new"})
    else:
        moved = nodes.pop(at - 1)
        if kind == "move":
            nodes.insert(to - 1, moved)
    return nodes


def moves_of(count: int, kind: str, at: int, to: int) -> Moves:
    if kind == "insert":
        return moves_of_insert(count, at)
    return moves_of_remove(count, at) if kind == "remove" else moves_of_move(count, at, to)


def is_mended(number: int, moves: Moves) -> bool:
    """Whether an output that came too late for a node might now come before it."""
    return any(other > number and moves[other] < moves[number] for other in moves)


def told_of(lost: list[str], number: int) -> str:
    return "\n".join(said for said in lost if said.startswith(f"node {number} "))


@settings(max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
@given(any_change())
def test_each_text_is_filled_as_before(case):
    document, text, change = case
    moves = moves_of(len(document["nodes"]), *change)
    made = renumber(text, moves)
    after = json.loads(edited(text, made))
    assert re.sub(r"agent\d+", "agent", json.dumps(after)) == re.sub(
        r"agent\d+", "agent", json.dumps(document)
    )
    now, then = Walk({**after, "nodes": changed_list(after["nodes"], *change)}), Walk(document)
    for number, new in moves.items():
        told, words = (
            told_of(made.lost, number),
            {"Output": "output", "Thinking": "thoughts", "ToolCalls": "tool calls"},
        )
        for other, what in then.names_known(number - 1, moves):
            assert f"{words[what]} of node {other}" in told
        if not told and not is_mended(number, moves):
            assert now.texts(new - 1) == then.texts(number - 1)
        old, config = document["nodes"][number - 1], now.nodes[new - 1]
        assert (config["title"], config["note"], config["displayOnlyComment"]) == (
            old["title"], old["note"], old["displayOnlyComment"],
        )  # fmt: skip
