"""What one workflow file shows: its nodes' schemas, roles, groups and variables."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from Middleware.common.request_context import WISH_NAMES
from Middleware.config.validation import explain, known_fields
from Middleware.workflows.checks.workflow_check import (
    WorkflowReach,
    output_named,
    own_errors,
    own_findings,
    schemas_of,
    unguarded_findings,
    variable_findings,
)
from Middleware.workflows.handlers import impl
from Middleware.workflows.handlers.node_types import NODES

assert impl
LLM = {"type": "Standard", "endpointName": "e"}
TEXT = {"type": "StaticResponse", "content": "x"}

# id, nodes, lines
OWN = [
    ("nothing-to-say", [LLM], []),
    ("no-nodes", [], [": error: found no nodes, allowed: a list of nodes, or an object with `nodes`"]),
    ("no-type-is-standard", [{"endpointName": "e"}], []),
    ("null-is-absent", [{"type": None, "endpointName": "e", "preset": None}], []),
    ("unknown-type", [LLM | {"type": "Standrad"}],
     ["/0/type: warning: unknown node type 'Standrad', run as 'Standard' (did you mean 'Standard'?)"]),
    ("old-name-of-the-default-type", [LLM | {"type": "Conversational"}],
     ["/0/type: note: 'Conversational' is an old name for 'Standard'"]),
    ("type-that-is-no-text", [LLM | {"type": ["Standard"]}], ['/0/type: error: found a list, allowed: a string']),
    ("missing-field", [{"type": "Standard"}], ["/0: error: 'endpointName' is missing"]),
    ("wrong-type", [LLM | {"prompt": 5}], ["/0/prompt: error: found 5, allowed: a string"]),
    ("client-parameters", [LLM | {"clientParameters": ["max_tokens", "stop"]}], []),
    ("client-parameter-misspelt", [LLM | {"clientParameters": ["stop", "max_token"]}],
     [f"/0/clientParameters/1: error: found \"max_token\", allowed: {', '.join(map(json.dumps, WISH_NAMES))} "
      "(did you mean 'max_tokens'?)"]),
    ("client-parameters-no-list", [LLM | {"clientParameters": "stop"}],
     ['/0/clientParameters: error: found "stop", allowed: a list']),
    ("client-parameters-key-misspelt", [LLM | {"clientParameter": ["stop"]}],
     ["/0/clientParameter: warning: unknown field 'clientParameter' (did you mean 'clientParameters'?)"]),
    ("client-parameters-without-a-model", [{"type": "CustomWorkflow", "workflowName": "C", "clientParameters": ["stop"]}],
     ["/0/clientParameters: warning: this node calls no model with these; set it on the nodes that do, also in child workflows"]),
    ("no-number", [LLM | {"maxResponseSizeInTokens": "many"}],
     ['/0/maxResponseSizeInTokens: warning: found "many", allowed: a whole number of 1 or more, or a text with a {placeholder}']),
    ("a-limit-of-nothing", [LLM | {"maxResponseSizeInTokens": 0}],
     ['/0/maxResponseSizeInTokens: warning: found 0, allowed: a whole number of 1 or more, or a text with a {placeholder}']),
    ("a-steady-window", [LLM | {"steadyWindow": value} for value in (True, False, 8, 1000, "compactor", "{agent1Input}", None)], []),
    ("no-steady-window", [LLM | {"steadyWindow": "often"}],
     ['/0/steadyWindow: error: found "often", allowed: true, false, a whole number from 8 to 1000, or "compactor", or a text with a {placeholder}']),
    ("a-steady-window-of-too-few", [LLM | {"steadyWindow": 7}],
     ['/0/steadyWindow: error: found 7, allowed: true, false, a whole number from 8 to 1000, or "compactor", or a text with a {placeholder}']),
    ("a-late-prompt", [LLM | {"latePrompt": "x", "latePromptPlace": "system"}, LLM | {"latePrompt": "x", "prompt": ""}], []),
    ("no-late-place", [LLM | {"latePromptPlace": "behind"}],
     ['/0/latePromptPlace: error: found "behind", allowed: after, before, system, or a text with a {placeholder}']),
    ("a-late-prompt-beside-a-prompt", [LLM | {"latePrompt": "x", "prompt": "y"}],
     ['/0/latePrompt: error: latePrompt is for nodes that send the conversation; write it into "prompt"']),
    ("another-programs-word", [LLM | {"maxTokens": 5}], ["/0/maxTokens: warning: unknown field 'maxTokens' (did you mean 'maxResponseSizeInTokens'?)"]),
    ("the-field-is-there-already", [LLM | {"endpoint": "e"}], ["/0/endpoint: note: unknown field 'endpoint' is ignored"]),
    ("what-is-missing-by-another-word", [{"type": "Standard", "endpoint": "e"}],
     ["/0: error: 'endpointName' is missing (is 'endpoint' meant to be it?)",
      "/0/endpoint: warning: unknown field 'endpoint' (did you mean 'endpointName'?)"]),
    ("a-sampler", [LLM | {"temperature": 1}], ["/0/temperature: warning: unknown field 'temperature' is ignored: set it in the file that 'preset' names"]),
    ("the-model", [LLM | {"model": "m"}], ["/0/model: warning: unknown field 'model' is ignored: set 'modelNameToSendToAPI' in the endpoint's file"]),
    ("the-key", [LLM | {"apiKey": "k"}], ["/0/apiKey: warning: unknown field 'apiKey' is ignored: set it in the endpoint's file"]),
    ("the-address", [LLM | {"url": "u"}], ["/0/url: warning: unknown field 'url' is ignored: set 'endpoint' in the endpoint's file"]),
    ("streaming", [LLM | {"stream": True}], ["/0/stream: warning: unknown field 'stream' is ignored: the client says whether it wants a stream"]),
    ("no-number-and-no-default", [LLM | {"lastMessagesToSendInsteadOfPromptMaxTokenSize": "many"}],
     ['/0/lastMessagesToSendInsteadOfPromptMaxTokenSize: error: found "many", allowed: a whole number, '
      "or a text with a {placeholder}"]),
    ("negative-size", [LLM | {"maxContextTokenSize": -1, "maxImagesToSend": "-2"}],
     ["/0/maxContextTokenSize: warning: found -1, allowed: a whole number of 0 or more, or a text with a {placeholder}",
      '/0/maxImagesToSend: warning: found "-2", allowed: a whole number of 0 or more, or a text with a {placeholder}']),
    ("jinja", [LLM | {"jinja2": True, "prompt": "{% if a %}{{ b }}{% endif %}", "endpointName": "{% e", "title": "{{"}], []),
    ("jinja-syntax", [LLM | {"jinja2": True, "prompt": "a\n{% if b %}"}],
     ["/0/prompt: error: the Jinja template has an error in line 2: Unexpected end of template. Jinja was looking for the "
      "following tags: 'elif' or 'else' or 'endif'. The innermost block that needs to be closed is 'if'."]),
    ("jinja-filter", [{"type": "StringConcatenator", "jinja2": True, "strings": ["x", "{{ a | nope }}"]}],
     ["/0/strings/1: error: the Jinja template has an error in line 1: No filter named 'nope'."]),
    ("jinja-for-a-child", [{"type": "CustomWorkflow", "workflowName": "C", "jinja2": True, "promptOverride": "{{"}],
     ["/0/promptOverride: error: the Jinja template has an error in line 1: unexpected 'end of template'"]),
    ("no-jinja", [LLM | {"prompt": "{% if %}"}], []),
    ("condition", [{"type": "Conditional", "condition": "({a} AND '{b}' != \"\") OR {c} {d} 5"}], []),
    ("condition-of-many-variables", [{"type": "Conditional", "condition": "{a} {b} {c} {d} 5"}], []),
    ("condition-from-a-variable", [{"type": "Conditional", "condition": "{a}"}], []),
    ("condition-malformed", [{"type": "Conditional", "condition": "({a} == 1"}],
     ["/0/condition: warning: is not well-formed and counts as FALSE: a '(' without ')'"]),
    ("condition-with-one-sign", [{"type": "Conditional", "condition": "'{a}' = 'x'"}],
     ["/0/condition: warning: is not well-formed and counts as FALSE: operands and comparisons do not fit together near 1 x"]),
    ("condition-without-a-side", [{"type": "Conditional", "condition": "{a} > 1 AND"}],
     ["/0/condition: warning: is not well-formed and counts as FALSE: AND needs a value on both sides"]),
    ("condition-malformed-in-jinja", [{"type": "Conditional", "condition": "(", "jinja2": True}], []),
    ("expression", [{"type": "ArithmeticProcessor", "expression": "{a} + 1"}, {"type": "ArithmeticProcessor", "expression": "{a}"}], []),
    ("expression-that-is-none", [{"type": "ArithmeticProcessor", "expression": "{a} + 1 1"}],
     ["/0/expression: warning: is no `number operator number` with one of + - * /: the output is always -1"]),
    ("text-to-remove-missing", [LLM | {"removeCustomTextFromResponseStart": True, "responseStartTextToRemove": [""]}],
     ["/0/removeCustomTextFromResponseStart: warning: is on but has no effect, because `responseStartTextToRemove` is empty"]),
    ("error-text-without-its-switch", [LLM | {"errorText": "sorry"}, LLM | {"errorText": "sorry", "onNodeError": "continue"}],
     ['/0/errorText: warning: is never used unless the node sets `"onNodeError": "continue"`']),
    ("number-with-a-name", [LLM | {"maxResponseSizeInTokens": "{size}"}], []),
    ("truthy-flag", [LLM | {"is_responder": "yes"}], ['/0/is_responder: warning: found "yes", allowed: true or false']),
    ("unknown-field-near", [LLM | {"isResponder": True}],
     ["/0/isResponder: warning: unknown field 'isResponder' (did you mean 'is_responder'?)"]),
    ("unknown-field-far", [LLM | {"colour": "red"}], ["/0/colour: note: unknown field 'colour' is ignored"]),
    ("advice", [{"type": "StaticResponse"}], ["/0: warning: 'content' is missing"]),
    ("two-responders", [LLM | {"returnToUser": True}, LLM | {"is_responder": True}, LLM | {"returnToUser": True}],
     ["/1/is_responder: warning: node 1 already answers, so this flag has no effect",
      "/2/returnToUser: warning: node 1 already answers, so this flag has no effect"]),
    ("hidden-flag", [LLM | {"is_responder": False, "returnToUser": True}, LLM], []),
    ("tools-of-the-responder", [TEXT, LLM | {"allowTools": True}], []),
    ("tools-of-another", [LLM | {"allowTools": True}, TEXT],
     ["/0/allowTools: warning: this node does not answer, so its tool calls are lost"]),
    ("endpoint-without-a-model", [TEXT | {"endpointName": "e"}],
     ["/0/endpointName: warning: this node type calls no model; the endpoint is only used to clean its text"]),
    ("cleaning-of-a-childs-answer",
     [{"type": "CustomWorkflow", "workflowName": "C", "removeCustomTextFromResponseStart": True, "responseStartTextToRemove": ["x"]}],
     ["/0/removeCustomTextFromResponseStart: warning: has no effect on the answer of a child workflow; "
      "set it on the node that writes the text"]),
    ("cleaning-of-a-childs-output",
     [{"type": "CustomWorkflow", "workflowName": "C", "removeCustomTextFromResponseStart": True, "responseStartTextToRemove": ["x"]}, LLM], []),
    ("condition-without-quotes", [LLM, {"type": "Conditional", "condition": "{agent1Output} == done OR 'x' != {agent1Output}"}],
     ["/1/condition: note: {agent1Output} stands without quotes: an output of several words makes this FALSE"]),
    ("condition-with-quotes",
     [LLM, {"type": "Conditional", "condition": "'{agent1Output}' == 'done' AND \"{agent1Output}\" != ''"}], []),
    ("condition-of-numbers-and-truth",
     [LLM, {"type": "Conditional", "condition": "({agent1Output} > 3 OR 5 == {agent1Output}) AND {agent1Output} != TRUE"}], []),
    ("condition-in-jinja", [LLM, {"type": "Conditional", "condition": "{agent1Output}", "jinja2": True}], []),
    ("condition-that-is-none", [{"type": "Conditional", "condition": 5}], ["/0/condition: error: found 5, allowed: a string"]),
    ("lock-that-the-run-holds", [{"type": "WorkflowLock", "workflowLockId": "l"}, TEXT, {"type": "WorkflowLock", "workflowLockId": "l"}, TEXT],
     ["/2: warning: node 1 already holds this lock, so the run always ends here"]),
    ("two-locks", [{"type": "WorkflowLock", "workflowLockId": "l"}, {"type": "WorkflowLock", "workflowLockId": "m"}, TEXT], []),
    ("no-branch-for-other-keys",
     [{"type": "ConditionalCustomWorkflow", "conditionalKey": "x", "conditionalWorkflows": {"Yes": "A"}}],
     ["/0: warning: a key without a branch of its own fails: there is neither a branch `Default` in conditionalWorkflows "
      "nor `UseDefaultContentInsteadOfWorkflow`"]),
    ("headers-that-are-a-text", [{"type": "WebFetch", "url": "http://h", "headers": "X-A: 1", "blockPrivateAddresses": True}],
     ['/0/headers: error: found "X-A: 1", allowed: an object']),
    ("branches-that-no-key-picks",
     [{"type": "ConditionalCustomWorkflow", "conditionalKey": "x", "conditionalWorkflows": {"YES": "A", "yes": "B", " no ": "C", "Default": "D"}}],
     ["/0/conditionalWorkflows: note: no key can pick the branch 'YES'", "/0/conditionalWorkflows: note: no key can pick the branch ' no '"]),
    ("read-ahead", [LLM, {"type": "Standard", "endpointName": "e", "readAhead": "start"}], []),
    ("read-ahead-of-a-prompt", [LLM | {"readAhead": "end", "prompt": "Say"}],
     ['/0/readAhead: warning: has no effect: the node has a "prompt", so it sends no conversation']),
    ("read-ahead-of-an-output", [LLM, {"endpointName": "e", "readAhead": "end", "systemPrompt": "{agent1Output}"}],
     ['/1/readAhead: warning: has no effect: "systemPrompt" contains {agent1Output}, which is not known before']),
    ("read-ahead-before-nothing", [{"endpointName": "e", "readAhead": "start"}],
     ["/0/readAhead: warning: has no effect: no node runs before this one"]),
    ("read-ahead-off", [LLM | {"readAhead": "off", "prompt": "Say"}], []),
    ("group", [LLM | {"parallelGroup": "g"}, LLM | {"parallelGroup": "g"}, LLM], []),
    ("group-of-one", [LLM | {"parallelGroup": "g"}], []),
    ("group-with-the-responder", [LLM | {"parallelGroup": "g"}, LLM | {"parallelGroup": "g"}],
     ["/1/parallelGroup: warning: this node answers, so the group runs one node after the other"]),
    ("group-that-needs-itself",
     [LLM | {"parallelGroup": "g"}, LLM | {"parallelGroup": "g", "prompt": "{agent1Output}"}, LLM],
     ["/1/parallelGroup: warning: this node uses the output of node 1 of its own group, "
      "so the group runs one node after the other"]),
    ("group-that-needs-itself-in-a-template",
     [LLM | {"parallelGroup": "g"}, LLM | {"parallelGroup": "g", "prompt": "{{ agent1Thinking }}", "jinja2": True}, LLM],
     ["/1/parallelGroup: warning: this node uses the output of node 1 of its own group, "
      "so the group runs one node after the other"]),
    ("group-with-a-lock",
     [LLM | {"parallelGroup": "g"}, {"type": "WorkflowLock", "workflowLockId": "l", "parallelGroup": "g"}, LLM],
     ["/1/parallelGroup: warning: this node is of a type or has a setting that must run alone, "
      "so the group runs one node after the other"]),
]  # fmt: skip


ODD = [-1, 0.5, 10**9, "", "x", True, [], [[]], [1, 1, 1, 1, 1, 1, 1, 1, 1], {}, {"x": 5}]


@pytest.mark.parametrize("node_type", sorted(NODES))
def test_every_breach_has_words_of_our_own(node_type):
    """Whatever stands in a field; those of the library name neither what was found nor what is allowed."""
    for schema in schemas_of(node_type):
        validator = Draft202012Validator(schema)
        for document in [{}, *({name: value} for name in known_fields(schema) for value in ODD)]:
            for error in validator.iter_errors(document):
                assert error.message not in explain(error)


def told(finding):
    return f"{finding.pointer}: {finding.level}: {finding.message}"


@pytest.mark.parametrize(("nodes", "lines"), [c[1:] for c in OWN], ids=[c[0] for c in OWN])
def test_what_a_file_shows(nodes, lines):
    """Told the same in both forms, but for the pointer."""
    assert [told(f) for f in own_findings("W.json", nodes)] == lines
    as_object = own_findings("W.json", {"nodes": nodes, "other": 1})
    assert [told(f) for f in as_object] == [f"/nodes{line}" for line in lines]


@pytest.mark.parametrize("document", ["text", {"nodes": 5}, [5, "x"], {}], ids=str)
def test_a_wrong_shape_is_told_elsewhere(document):
    assert own_findings("W.json", document) == []


def test_only_errors_concern_the_loader():
    nodes = [LLM | {"prompt": 5, "isResponder": True, "is_responder": "yes"}]
    assert [f.pointer for f in own_errors("W.json", nodes)] == ["/0/prompt"]


ALONE = WorkflowReach(frozenset({"mine"}), 1)

# id, fields of node 2, the text of the warning (None: nothing to say)
NAMES = [
    ("output", {"prompt": "{agent1Output}"}, None),
    ("thinking", {"prompt": "{agent1Thinking}"}, None),
    ("own-output", {"prompt": "{agent2Output}"}, "{agent2Output} is not known yet: this is node 2"),
    ("later-output", {"systemPrompt": "{agent3Output}"}, "{agent3Output} is not known yet: this is node 2"),
    ("node-zero", {"prompt": "{agent0Output}"}, "{agent0Output}: nodes are numbered from 1"),
    ("input", {"prompt": "{agent1Input}"}, None),
    ("input-nobody-passes", {"prompt": "{agent2Input}"}, "{agent2Input} is never passed: callers give 1 scoped_variables"),
    ("date", {"prompt": "{todays_date_iso}"}, None),
    ("conversation", {"prompt": "{chat_user_prompt_last_one}{messages[0][content]}"}, None),
    ("workflow-variable", {"prompt": "{tone}"}, None),
    ("user-variable", {"prompt": "{mine}"}, None),
    ("category", {"prompt": "{categoriesSeparatedByOr}"}, "unknown variable {categoriesSeparatedByOr} stays as text"),
    ("near", {"prompt": "{chat_user_promt_last_one}"},
     "unknown variable {chat_user_promt_last_one} stays as text (did you mean {chat_user_prompt_last_one}?)"),
    ("json", {"prompt": '{"k": 1}'}, None),
    ("doubled", {"prompt": "{{unknown}}"}, None),
    ("jinja", {"prompt": "{unknown}", "jinja2": True}, None),
    ("literal-field", {"title": "{unknown}"}, None),
    ("unknown-field", {"remark": "{unknown}"}, None),
    ("for-the-child", {"promptOverride": "{agent7Output}"}, None),
    ("list", {"scoped_variables": ["x", "{unknwon}"]}, "unknown variable {unknwon} stays as text"),
    ("early-variable", {"endpointName": "{tone}"}, None),
    ("early-input", {"endpointName": "{agent1Input}"}, None),
    ("early-output", {"endpointName": "{agent1Output}"},
     "{agent1Output} is not known here: only workflow variables and {agentNInput} are"),
    ("early-date", {"preset": "{todays_date_iso}"}, "unknown variable {todays_date_iso} stays as text"),
    ("number", {"maxResponseSizeInTokens": "{agent1Output}"}, None),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "message"), [c[1:] for c in NAMES], ids=[c[0] for c in NAMES])
def test_variables(fields, message):
    document = {"tone": "dry", "nodes": [LLM, {**LLM, **fields}]}
    found = list(variable_findings("W.json", document, ALONE))
    assert [f.message for f in found] == ([message] if message else [])
    assert all(f.level == "warning" and f.pointer.startswith("/nodes/1/") for f in found)


def test_pointers_lead_into_lists():
    (finding,) = variable_findings("W.json", [LLM | {"scoped_variables": ["x", "{unknwon}"]}], ALONE)
    assert finding.pointer == "/0/scoped_variables/1"


def test_the_categorisation_workflow_knows_the_categories():
    document = [LLM | {"prompt": "{categoriesSeparatedByOr}"}]
    assert not list(variable_findings("W.json", document, WorkflowReach(frozenset(), 0, categorises=True)))


def test_inputs_that_nobody_can_count_are_believed():
    document = [LLM | {"prompt": "{agent9Input}"}]
    assert not list(variable_findings("W.json", document, WorkflowReach(frozenset(), None)))


FETCH = {"type": "WebFetch", "url": "https://a.example/{agent1Output}"}
GUARDED = [{"blockPrivateAddresses": True}, {"allowedHosts": ["a.example"]}]


def unguarded(*nodes, **variables):
    document = {**variables, "nodes": [{"type": "StaticResponse", "content": "x"}, *nodes]}
    return [f"{f.level} {f.pointer}" for f in unguarded_findings("W.json", document, {"base": "a.example"})]


class TestUnguardedFetches:
    """What a user or a model wrote is not fetched without a guard."""

    @pytest.mark.parametrize(
        ("node", "pointer"),
        [
            (FETCH, "/nodes/1/url"),
            (FETCH | {"url": "{agent1Input}"}, "/nodes/1/url"),
            (FETCH | {"url": "{chat_user_prompt_last_one}"}, "/nodes/1/url"),
            (FETCH | {"url": "{Discussion_Id}"}, "/nodes/1/url"),
            (FETCH | {"url": "{page}"}, "/nodes/1/url"),
            (FETCH | {"url": "{{agent1Output}}"}, "/nodes/1/url"),
            (FETCH | {"jinja2": True, "url": "{{ agent1Output | lower }}"}, "/nodes/1/url"),
            (FETCH | {"blockPrivateAddresses": False}, "/nodes/1/url"),
            ({"type": "CurlCommand", "args": ["-s", "{agent1Output}"]}, "/nodes/1/args"),
        ],
    )
    def test_it_is_warned_of(self, node, pointer):
        """Also through a variable of the workflow."""
        assert unguarded(node, page="https://{base}/{agent1Output}") == [f"warning {pointer}"]

    @pytest.mark.parametrize(
        "node",
        [
            FETCH | {"url": "https://a.example/"},
            FETCH | {"url": "https://{base}/{todays_date_iso}"},
            FETCH | {"url": "{unknown}"},
            FETCH | {"url": "{page}"},
            FETCH | {"jinja2": True, "url": "{{ broken"},
            {"type": "Standard", "prompt": "{agent1Output}"},
            *[FETCH | guard for guard in GUARDED],
        ],
    )
    def test_what_the_author_wrote_or_guards_is_not(self, node):
        """Dates and configured names are the author's."""
        assert unguarded(node, page="https://{base}/", base="b.example") == []

    @pytest.mark.parametrize(("policy", "told"), [("off", True), ("block-private", False)])
    def test_the_users_policy_guards_all(self, checked, policy, told):
        """In the check of the whole tree."""
        checked.flow(TEXT, FETCH)
        checked.change("Users/ana.json", outboundPolicy=policy)
        lines = [line for line in checked.lines() if "nothing restricts what is fetched" in line]
        assert bool(lines) is told


def test_a_number_of_thousands_of_digits_names_no_output():
    """Python reads no such number; the name is one that nobody knows."""
    name = "agent" + "9" * 5000 + "Output"
    assert output_named(name) is None
    assert own_findings("Workflows/a/A.json", [LLM | {"parallelGroup": "g", "title": name}] * 2 + [LLM]) == []
