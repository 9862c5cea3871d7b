"""Filling a node's texts, as one would use it: modes, braces, unknown names, early fields, paths, overrides."""

from __future__ import annotations

import logging

import pytest

from Middleware.common.errors import ConfigError
from Middleware.workflows.variables import workflow_variable_manager as variables
from Middleware.workflows.variables.workflow_variable_manager import (
    fill,
    fill_early,
    fill_override,
    fill_parts,
)


@pytest.fixture
def source(make_source):
    return make_source(
        outputs={1: "OUT{}"},
        workflow={"persona": "I am {agent1Output}", "a2": "{persona}!", "n": 7},
    )


BRACES = {  # workflows.md 7.3: text -> result
    "a-placeholder": ("{agent1Output}", "OUT{}"),
    "doubled-gives-the-value-in-the-second-pass": ("{{agent1Output}}", "OUT{}"),
    "doubled-unknown": ("{{unknown}}", "{unknown}"),
    "braces-around-a-value": ("{{{agent1Output}}}", "{OUT{}}"),
    "a-format-spec": ("{n:04d}", "0007"),
    "a-workflow-variable-is-resolved": ("{persona}", "I am OUT{}"),
    "two-levels": ("{a2}", "I am OUT{}!"),
    "doubled-json-and-a-name": ('{{"k": 1}} {persona}', '{"k": 1} I am OUT{}'),
    "plain-json-and-a-name": ('{"k": {n}}', '{"k": 7}'),
    "unknown-and-known": ("{unknown} {n}", "{unknown} 7"),
    "a-lone-brace": ("{", "{"),
    "an-empty-placeholder": ("{}", "{}"),
    "an-open-pair": ("{{", "{"),
    "a-closing-pair": ("a}}b", "a}b"),
    "closing-pairs-alone": ("}}}}", "}}"),
    "closing-pairs-beside-a-resolved-variable": ("}}}} {persona}", "} I am OUT{}"),
    "a-lone-closing-brace": ("a}b {n}", "a}b 7"),
    "a-number": ("{0} {n}", "{0} 7"),
    "a-doubled-word-beside-a-lone-brace": ("{{n}} {", "{n} {"),
    "three-braces-beside-a-lone-brace": ("{{{n}}} {", "{{n}} {"),
    "four-braces": ("{{{{n}}}}", "{n}"),
    "no-braces": ("plain", "plain"),
    "nothing": ("", ""),
    "blanks-belong-to-the-name": ("{ n }", "{ n }"),
    "a-conversion": ("{n!r:>3}", "  7"),
    "an-unknown-conversion": ("{n!x} {n}", "{n!x} 7"),
    "a-spec-that-does-not-fit": ("{persona:d} {n}", "{persona:d} 7"),
    "a-spec-with-a-name": ("{n:0{n}d}", "0000007"),
    "a-spec-with-an-unknown-name": ("{n:{w}d}{n}", "{n:{w}d}7"),
    "an-absurd-width": ("{n:99999999999d}", "{n:99999999999d}"),
    "an-attribute": ("{n.real} {n}", "{n.real} 7"),
    "an-attribute-of-a-class": ("{persona.__class__}", "{persona.__class__}"),
    "an-index-of-a-message": ("{messages[1][content]}", "u1 {x}"),
    "an-index-that-is-not-there": ("{messages[9]} {n}", "{messages[9]} 7"),
    "a-key-that-is-not-there": ("{messages[1][nope]}", "{messages[1][nope]}"),
    "a-name-built-by-the-second-pass": ("{{{agent1Output}n}}", "{OUT{}n}"),
}


class TestFormatMode:
    @pytest.mark.parametrize(("text", "result"), BRACES.values(), ids=BRACES)
    def test_braces(self, text, result, source):
        """What braces mean, by example."""
        assert fill(text, source) == result

    def test_a_name_may_hold_a_hyphen(self, make_source):
        """Any text without `{}[].!:` is a name."""
        assert fill("{my-var} {my var}", make_source(workflow={"my-var": 1, "my var": 2})) == "1 2"

    def test_a_name_of_digits_is_unknown_even_if_it_is_configured(self, make_source):
        """`{0}` belongs to Python's positions."""
        assert fill("{0}", make_source(workflow={"0": "x"})) == "{0}"

    def test_lists_and_objects_can_be_indexed(self, make_source):
        """`{lst[0]}` and `{obj[key][0]}`; texts inside a workflow variable are resolved too."""
        source = make_source(workflow={"lst": ["a{n}", 2], "obj": {"k": [5]}, "n": 7})
        assert fill("{lst[0]} {lst[1]} {obj[k][0]} {lst}", source) == "a7 2 5 ['a{n}', 2]"

    def test_what_was_inserted_is_never_parsed(self, make_source):
        """A user or a model cannot write a placeholder, in whatever way it is inserted."""
        source = make_source(
            inputs={1: "{n}"},
            outputs={1: "{n} {{n}}"},
            workflow={"n": 7, "wrapped": "<{agent1Output}>"},
            messages=[{"role": "user", "content": "{n}"}],
        )
        text = "{agent1Output}|{agent1Input}|{chat_user_prompt_last_one}|{wrapped}|{{n}}"
        assert fill(text, source) == "{n} {{n}}|{n}|{n}|<{n} {{n}}>|7"

    def test_the_second_pass_can_use_a_name_that_was_inserted(self, make_source):
        """The authored braces decide; the peer's second pass gives the same."""
        source = make_source(outputs={1: "n", 2: "n}{n"}, workflow={"n": 7})
        assert fill("{{{agent1Output}}}", source) == "7"
        assert fill("{{{agent2Output}}}", source) == "{n}{n}"

    def test_a_cycle_stays_text(self, make_source):
        """A variable that leads back to itself leaves the inner placeholder."""
        source = make_source(workflow={"a": "<{b}>", "b": "({a})", "me": "{me}!"})
        assert fill("{a} {me}", source) == "<({a})> {me}!"

    def test_the_depth_is_limited(self, make_source):
        """Eight levels are resolved, the ninth stays text."""
        chain = {f"v{n}": f"{{v{n + 1}}}" for n in range(12)}
        assert fill("{v0}", make_source(workflow=chain)) == "{v9}"

    def test_a_format_spec_applies_to_the_resolved_text(self, make_source):
        """The width counts what is shown."""
        source = make_source(workflow={"a": "{n}", "n": 7}, outputs={1: "ab"})
        assert fill("{a:>3}|{agent1Output:>4}", source) == "  7|  ab"

    def test_a_null_output_prints_as_nothing(self, make_source):
        """So a lock or an empty memory leaves no `None` in a prompt."""
        source = make_source(outputs={1: None}, workflow={"gone": None})
        assert fill("[{agent1Output}] [{agent1Output:>2}] {gone}", source) == "[] [  ] None"

    def test_a_dict_output_prints_as_python(self, make_source):
        """Tool-call answers are kept as objects."""
        assert fill("{agent1Output}", make_source(outputs={1: {"a": [1]}})) == "{'a': [1]}"

    def test_a_value_that_cannot_be_formatted_stays_text(self, make_source):
        """Nothing that a placeholder does can fail."""
        assert fill("{agent1Output:>5}", make_source(outputs={1: [1]})) == "{agent1Output:>5}"

    def test_one_warning_names_file_field_and_names(self, source, make_source, caplog):
        """What looks like a name is reported, JSON is not."""
        source = make_source(node={"prompts": [{"a/b": '{who} {what} {"k": 1}'}]})
        with caplog.at_level(logging.WARNING):
            fill('{who} {what} {"k": 1}', source)
        (record,) = caplog.records
        assert record.getMessage() == (
            "Workflows/anna/Chat.json: node 3, prompts[0].a/b: unknown variables stay as text: what, who"
        )

    def test_a_text_of_no_field_is_reported_at_the_node(self, make_source, caplog):
        """A node may fill what it made itself."""
        fill("{who}", make_source(node={"prompt": "other", "limit": 5}))
        assert "Workflows/anna/Chat.json: node 3: unknown" in caplog.text

    def test_strange_characters_are_text(self, source):
        """The signs that the engine uses inside are no danger in a text."""
        assert fill("\ufdd00\ufdd1 {{n}} \ufdd00\ufdd1", source) == "\ufdd00\ufdd1 7 \ufdd00\ufdd1"


class TestJinjaMode:
    @pytest.mark.parametrize(
        ("text", "result"),
        [
            pytest.param("{{ agent1Output }}\n", "OUT{}", id="one-trailing-newline-is-dropped"),
            pytest.param("{{ nope }}|", "|", id="undefined-prints-as-nothing"),
            pytest.param("{n} {{ n }}", "{n} 7", id="single-braces-are-text"),
            pytest.param("{{ persona }}", "I am {agent1Output}", id="one-pass"),
            pytest.param("{% for m in messages %}{{ m.role }}: {{ m.content }};{% endfor %}",
                         "system: S0;user: u1 {x};assistant: a1;system: S1;user: u2;", id="messages"),
            pytest.param("{{ '<b>' }}", "<b>", id="no-escaping"),
            pytest.param("{% if time_context_summary is defined and nope is not defined %}y{% endif %}", "y", id="defined"),
            pytest.param("[{{ agent2Output }}{{ none }}]", "[]", id="a-null-prints-as-nothing"),
        ],
    )  # fmt: skip
    def test_templates(self, text, result, make_source):
        """Default Jinja settings."""
        source = make_source(
            node={"jinja2": True},
            outputs={1: "OUT{}", 2: None},
            workflow={"persona": "I am {agent1Output}", "n": 7},
        )
        assert fill(text, source) == result

    def test_objects_keep_their_structure(self, make_source):
        """An output may be an object."""
        source = make_source(node={"jinja2": True}, outputs={1: {"items": [1, 2]}})
        assert fill("{{ agent1Output['items'] | tojson }}", source) == "[1, 2]"

    @pytest.mark.parametrize(
        "text",
        [
            pytest.param("{{ messages.__class__.__mro__ }}", id="a-private-attribute"),
            pytest.param("{{ messages.append(1) }}", id="a-change"),
            pytest.param("{{ ''.__class__.__base__.__subclasses__() }}", id="subclasses"),
            pytest.param("{% if %}", id="a-wrong-template"),
            pytest.param("{{ nope.deeper }}", id="a-part-of-nothing"),
            pytest.param("{{ 1 / 0 }}", id="an-arithmetic-error"),
        ],
    )
    def test_a_template_that_fails_names_its_field(self, text, make_source):
        """A wrong or unsafe template is an error of the workflow file."""
        source = make_source(node={"jinja2": True, "prompt": text})
        with pytest.raises(
            ConfigError, match=r"Workflows/anna/Chat\.json: node 3, prompt: the Jinja template"
        ):
            fill(text, source)
        assert len(source.messages) == 5

    def test_the_second_use_compiles_nothing(self, make_source):
        """A template is compiled once."""
        from Middleware.workflows.variables import jinja_text

        source = make_source(node={"jinja2": True}, workflow={"n": 1})
        fill("{{ n }} once", source)
        before = jinja_text._compile_text.cache_info().misses
        fill("{{ n }} once", source)
        assert jinja_text._compile_text.cache_info().misses == before


class TestOnlyWhatIsNamedIsComputed:
    @pytest.mark.parametrize("jinja", [False, True], ids=["format", "jinja"])
    def test_the_time_context_is_read_when_it_is_named(self, jinja, make_source):
        """Once for a text that uses it twice, never for a text that does not."""
        calls = []
        source = make_source(node={"jinja2": jinja}, time_context=lambda: calls.append(1) or "ctx")
        fill("{todays_date_iso} {{ todays_date_iso }}", source)
        assert calls == []
        name = "{{ time_context_summary }}" if jinja else "{time_context_summary}"
        assert fill(f"{name} {name}", source) == "ctx ctx"
        assert calls == [1]

    def test_the_clock_is_read_once(self, make_source):
        """Two dates of one text are of one moment."""
        from datetime import datetime

        moments = iter([datetime(2026, 3, 5, 23, 59), datetime(2026, 3, 6)])
        assert (
            fill("{todays_date_iso} {current_time_24h}", make_source(now=lambda: next(moments)))
            == "2026-03-05 23:59"
        )


class TestEarlyMode:
    @pytest.mark.parametrize(
        ("text", "result"),
        [
            pytest.param("{n}-{agent1Output}", "7-{agent1Output}", id="outputs-do-not-exist-yet"),
            pytest.param("{{n}}", "{n}", id="no-second-pass"),
            pytest.param("{agent1Input}", "input", id="inputs-exist"),
            pytest.param("{both}", "from a caller", id="inputs-win"),
            pytest.param("{wide} {todays_date_iso}", "{wide} {todays_date_iso}", id="no-other-names"),
            pytest.param("{ {n}", "{ 7", id="a-lone-brace"),
            pytest.param("small-model", "small-model", id="a-plain-name"),
            pytest.param("odd}}name", "odd}}name", id="only-texts-with-an-opening-brace-are-looked-at"),
        ],
    )
    def test_early_fields(self, text, result, make_source):
        """Workflow variables and agent inputs, nothing else."""
        source = make_source(
            node={"jinja2": True},
            workflow={"n": 7, "both": "of the file"},
            user_wide={"wide": 1},
            inputs={1: "input"},
            outputs={1: "out"},
        )
        source.agent_inputs["both"] = "from a caller"
        assert fill_early(text, source) == result

    def test_numeric_fields_see_outputs(self, make_source):
        """What earlier nodes made counts for numbers."""
        source = make_source(outputs={3: "12"}, workflow={"n": 7})
        assert fill_early("{agent3Output}", source, with_outputs=True) == "12"
        assert fill_early("{n}", source, with_outputs=True) == "7"


class TestPathsWithALimit:
    @pytest.mark.parametrize(
        ("text", "filled", "base"),
        [
            pytest.param("{notes}/{agent1Output}.md", "/srv/n/../x.md", "/srv/n", id="an-output"),
            pytest.param(
                "{notes}/{todays_date_iso}.md", "/srv/n/2026-03-05.md", None, id="nothing-of-the-run"
            ),
            pytest.param("{sub}/a.md", "/srv/n/disc/a.md", "/srv/n", id="inside-a-workflow-variable"),
            pytest.param("{sub:s}", "/srv/n/disc", "/srv/n", id="inside-a-formatted-workflow-variable"),
            pytest.param("{sub!s:<14}x", "/srv/n/disc   x", "/srv/n", id="inside-a-padded-workflow-variable"),
            pytest.param("{sub!r}", "'/srv/n/disc'", None, id="inside-a-quoted-workflow-variable"),
            pytest.param("log{Discussion_Id}", "logdisc", ".", id="a-name-in-the-working-directory"),
            pytest.param("/x{Discussion_Id}", "/xdisc", "/", id="a-name-in-the-root"),
            pytest.param("C:\\notes\\{Discussion_Id}", "C:\\notes\\disc", "C:\\notes", id="windows"),
            pytest.param("{agent1Output}/x", "../x/x", None, id="begins-with-an-output"),
        ],
    )
    def test_the_base(self, text, filled, base, make_source):
        """The folder before the first run-time value."""
        source = make_source(
            user_wide={"notes": "/srv/n"},
            workflow={"sub": "{notes}/{Discussion_Id}"},
            outputs={1: "../x"},
            discussion_id="disc",
        )
        assert fill_parts(text, source) == (filled, base)

    @pytest.mark.parametrize(
        ("text", "filled", "base"),
        [
            pytest.param("{{ notes }}/{{ agent1Output }}.md", "/srv/n/../x.md", "/srv/n", id="an-output"),
            pytest.param("{{ notes }}/a.md", "/srv/n/a.md", None, id="nothing-of-the-run"),
            pytest.param("{{ notes }}/{{ agent2Output.name | upper }}", "/srv/n/JOE", "/srv/n", id="a-part-of-an-output"),
            pytest.param("{{ notes }}/{{ agent2Output.n + 1 }}", "/srv/n/2", "/srv/n", id="behind-a-variable-an-expression-that-needs-a-number"),
            pytest.param("{{ notes }}/{% if 1 %}{{ agent2Output.n + 1 }}{{ agent1Output }}{% endif %}",
                         "/srv/n/2../x", "/srv/n", id="such-an-expression-in-a-block"),
            pytest.param("{{ agent2Output.n + 1 }}/x", "2/x", None, id="begins-with-such-an-expression"),
            pytest.param("/a/b{{ agent2Output.n + 1 }}", "/a/b2", "/a", id="an-expression-that-needs-a-number"),
            pytest.param("/a/{% for m in messages %}{{ m.role }}{% endfor %}",
                         "/a/systemuserassistantsystemuser", "/a", id="a-loop"),
        ],
    )  # fmt: skip
    def test_the_base_of_a_template(self, text, filled, base, make_source):
        """Whatever a run-time value decides is outside the base."""
        source = make_source(
            node={"jinja2": True},
            user_wide={"notes": "/srv/n"},
            outputs={1: "../x", 2: {"name": "joe", "n": 1}},
        )
        assert fill_parts(text, source) == (filled, base)

    def test_a_path_without_limit_is_reported(self, make_source, caplog):
        """It works as in the peer, with a warning."""
        fill_parts("{agent1Output}", make_source(node={"filepath": "{agent1Output}"}, outputs={1: "/x"}))
        assert "node 3, filepath: a path that begins with a run-time value has no limit" in caplog.text


CHILD = {"inputs": {1: "CHILD"}, "workflow": {"n": 8}, "outputs": {1: "child out"}}


class TestOverrides:
    """A text that is filled in the parent and, as the child's field, in the child."""

    @pytest.mark.parametrize(
        ("text", "result"),
        [
            pytest.param(
                "Do {agent1Output}", "Do {agent1Input} {n}", id="what-the-parent-inserted-is-literal"
            ),
            pytest.param(
                "{agent1Output} {agent1Input}", "child out CHILD", id="an-unknown-name-hands-all-to-the-child"
            ),
            pytest.param(
                "{{agent1Input}} {agent1Output}",
                "CHILD {agent1Input} {n}",
                id="doubled-braces-are-the-child's",
            ),
            pytest.param("{later}", "CHILD", id="a-workflow-variable-may-speak-to-the-child"),
            pytest.param("{ {n}", "{ 7", id="a-lone-brace"),
            pytest.param("plain", "plain", id="no-placeholder"),
            pytest.param("{agent1Output:>19}", "  {agent1Input} {n}", id="a-formatted-output"),
            pytest.param("{{{agent2Output}}}", "CHILD", id="an-inserted-name-in-authored-braces"),
            pytest.param("{{agent1Input:>{agent3Output}}}", "  CHILD", id="an-inserted-width"),
        ],
    )
    def test_two_fillings(self, text, result, make_source):
        """Only authored braces are placeholders in the child."""
        parent = make_source(
            outputs={1: "{agent1Input} {n}", 2: "agent1Input", 3: "7"},
            workflow={"n": 7, "later": "{agent1Input}"},
        )
        assert fill(fill_override(text, parent), make_source(**CHILD)) == result

    def test_the_override_is_a_text(self, make_source):
        """It can stand in a node object, where its plain value is read by those who fill nothing."""
        override = fill_override("<{agent1Output}>", make_source(outputs={1: "{x}"}))
        assert isinstance(override, str)
        assert override == "<{x}>"

    def test_three_generations(self, make_source):
        """What the first inserted stays literal when the second hands it on."""
        first = fill_override("{agent1Output} {{agent1Input}}", make_source(outputs={1: "{n}"}))
        second = fill_override(first, make_source(workflow={"n": 1}))
        assert fill(second, make_source(**CHILD)) == "{n} CHILD"

    def test_from_a_jinja_parent(self, make_source):
        """Braces that an expression printed are literal, those of the text are not; the author's variables speak on."""
        parent = make_source(
            node={"jinja2": True}, outputs={1: "{agent1Input}", 2: None}, workflow={"later": "{agent1Input}"}
        )
        text = "{agent1Input}|{{ agent1Output }}|{{ later }}|{{ agent2Output }}"
        assert fill(fill_override(text, parent), make_source(**CHILD)) == "CHILD|{agent1Input}|CHILD|"

    def test_to_a_jinja_child(self, make_source):
        """An inserted template is not run; authored braces are halved by both passes of the parent."""
        parent = make_source(outputs={1: "{{ n }} \ufdd07\ufdd1"})
        override = fill_override("{agent1Output} {{{{{{{{ n }}}}}}}}", parent)
        child = make_source(node={"jinja2": True}, workflow={"n": 8})
        assert fill(override, child) == "{{ n }} \ufdd07\ufdd1 8"

    def test_from_jinja_to_jinja(self, make_source):
        """The same the whole way down."""
        parent = make_source(node={"jinja2": True}, outputs={1: "{{ n }}"})
        override = fill_override("{{ agent1Output }} {% raw %}{{ n }}{% endraw %}", parent)
        child = make_source(node={"jinja2": True}, workflow={"n": 8})
        assert fill(fill_override(override, child), make_source()) == "{{ n }} 8"

    def test_a_value_that_imitates_a_token_is_no_token(self, make_source):
        """A Jinja child may print anything."""
        override = fill_override(
            "{agent1Output} {{{{{{{{ agent1Input }}}}}}}}", make_source(outputs={1: "a"})
        )
        child = make_source(node={"jinja2": True}, inputs={1: "\ufdd07\ufdd1"})
        assert fill(override, child) == "a \ufdd07\ufdd1"


def test_the_face_is_complete():
    """What other packages use of this one."""
    assert set(variables.__all__) == {
        "AllNames",
        "EarlyNames",
        "LiveValues",
        "VariableSource",
        "fill",
        "fill_early",
        "fill_override",
        "fill_parts",
        "fill_prefix",
        "is_plain",
    }


@pytest.mark.parametrize(
    ("text", "node", "is_so"),
    [
        ("a text", {}, True),
        ("", {}, True),
        ("a {", {}, False),
        ("a }", {}, False),
        ("a text", {"jinja2": True}, False),
        ("a text", {"jinja2": False}, True),
    ],
)
def test_whether_a_text_stays_as_it_is(text, node, is_so):
    """Then nothing is gathered for it."""
    assert variables.is_plain(text, node) is is_so


def test_a_text_that_a_parent_has_filled_is_looked_at(source):
    """It knows what was inserted."""
    filled = fill_override("{n}", source)
    assert not variables.is_plain(filled, {}) and fill(filled, source) == "7"
