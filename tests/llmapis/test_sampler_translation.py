"""Samplers are renamed for each API; what it cannot say is dropped with a warning, never padded."""

from __future__ import annotations

import copy

import pytest

from Middleware.llmapis.sampler_translation import (
    apply_structural_fields,
    deep_merge,
    normalize_gen_input,
    resolve_thinking,
    stop_texts_listed,
    thinking_is_off,
    translate,
)

KOBOLD = {
    "type": "koboldCppGenerate",
    "samplerFieldMap": {"temperature": "temperature", "stop": "stop_sequence"},
}


class TestDeepMerge:
    @pytest.mark.parametrize(
        ("base", "over", "merged"),
        [
            pytest.param({"a": 1}, {"b": 2}, {"a": 1, "b": 2}, id="both-sides-are-kept"),
            pytest.param(
                {"a": {"x": 1, "y": 2}}, {"a": {"y": 3}}, {"a": {"x": 1, "y": 3}}, id="objects-merge"
            ),
            pytest.param({"a": [1, 2]}, {"a": [3]}, {"a": [3]}, id="arrays-are-replaced"),
            pytest.param({"a": {"x": 1}}, {"a": 5}, {"a": 5}, id="a-value-replaces-an-object"),
            pytest.param({"a": 5}, {"a": {"x": 1}}, {"a": {"x": 1}}, id="an-object-replaces-a-value"),
            pytest.param({"a": 5}, {"a": None}, {"a": None}, id="null-replaces"),
        ],
    )
    def test_the_second_goes_on_top(self, base, over, merged):
        """Objects merge, everything else is replaced."""
        assert deep_merge(base, over) == merged

    def test_the_inputs_stay_as_they_are(self):
        """Presets are shared, read-only values."""
        base, over = {"a": {"x": [1]}}, {"a": {"y": {"z": 1}}}
        before = copy.deepcopy((base, over))
        merged = deep_merge(base, over)
        merged["a"]["x"].append(2)
        merged["a"]["y"]["z"] = 2
        assert (base, over) == before


class TestTranslate:
    def test_names_of_the_api_in_the_blocks_order(self):
        """A canonical name gets the name that the API type gives it."""
        assert list(translate({"stop": ["X"], "temperature": 1}, KOBOLD).items()) == [
            ("stop_sequence", ["X"]),
            ("temperature", 1),
        ]

    @pytest.mark.parametrize(
        ("block", "words"),
        [
            pytest.param(
                {"top_k": 3}, "this API type does not support it", id="canonical-without-a-name-here"
            ),
            pytest.param({"tempp": 1}, "probably a typo", id="unknown"),
            pytest.param(
                {"chat_template_kwargs": {"a": 1}}, "chat_template_kwargs", id="raw-template-arguments"
            ),
            pytest.param({"thinkingMode": "off"}, "thinkingMode", id="thinking-without-a-block"),
        ],
    )
    def test_what_cannot_be_said_is_dropped_with_a_warning(self, block, words, caplog):
        """Nothing reaches a backend under a name that it does not know."""
        assert translate(block, KOBOLD) == {}
        assert words in caplog.text

    def test_a_null_name_is_no_name(self, caplog):
        """The sampler is dropped as one that the API does not have."""
        apitype = {"type": "x", "samplerFieldMap": {"temperature": None, "top_p": "p"}}
        assert translate({"temperature": 1, "top_p": 0.5}, apitype) == {"p": 0.5}
        assert "'temperature' was dropped" in caplog.text

    def test_raw_template_arguments_win_over_the_thinking_mode(self):
        """Per leaf: both stay where they do not meet."""
        apitype = {
            "supportsChatTemplateKwargs": True,
            "thinking": {"mode": "bool", "field": "enable_thinking", "location": "chat_template_kwargs"},
        }
        block = {"thinkingMode": "off", "chat_template_kwargs": {"budget": 0}}
        assert translate(block, apitype) == {"chat_template_kwargs": {"enable_thinking": False, "budget": 0}}
        block["chat_template_kwargs"]["enable_thinking"] = True
        assert translate(block, apitype)["chat_template_kwargs"]["enable_thinking"] is True

    def test_a_fragment_of_the_thinking_mode_needs_no_permission(self):
        """`supportsChatTemplateKwargs` gates only the raw object."""
        apitype = {"thinking": {"mode": "bool", "field": "t", "location": "chat_template_kwargs"}}
        assert translate({"thinkingMode": True}, apitype) == {"chat_template_kwargs": {"t": True}}


class TestThinking:
    @pytest.mark.parametrize(
        ("kind", "mode", "fragment"),
        [
            ("bool", "off", {"f": False}),
            ("bool", False, {"f": False}),
            ("bool", " Disabled ", {"f": False}),
            ("bool", "low", {"f": True}),
            ("bool", "whatever", {"f": True}),
            ("effort", "none", {}),
            ("effort", "High", {"f": "high"}),
            ("effort", "on", {"f": "medium"}),
            ("effort", 7, {"f": "medium"}),
            ("boolOrEffort", "no", {"f": False}),
            ("boolOrEffort", "on", {"f": True}),
            ("boolOrEffort", " LOW", {"f": "low"}),
        ],
    )
    def test_the_mode_in_the_apis_words(self, kind, mode, fragment):
        """Compared and sent as trimmed lower-case text."""
        assert resolve_thinking(mode, {"thinking": {"mode": kind, "field": "f"}}) == fragment

    @pytest.mark.parametrize(
        "apitype",
        [
            pytest.param({}, id="no-block"),
            pytest.param({"thinking": {"mode": "unsupported", "field": "f"}}, id="unsupported"),
            pytest.param({"thinking": {"mode": "guess", "field": "f"}}, id="unknown-mode"),
            pytest.param({"thinking": {"mode": "bool"}}, id="no-field"),
            pytest.param({"thinking": "bool"}, id="no-object"),
        ],
    )
    def test_unsupported_sends_nothing_and_warns(self, apitype, caplog):
        """An API type without a usable block."""
        assert resolve_thinking("on", apitype) == {}
        assert "does not support it" in caplog.text


STRUCTURE = {
    "streamPropertyName": "stream",
    "truncateLengthPropertyName": "num_ctx",
    "maxNewTokensPropertyName": "max_tokens",
}


class TestStructuralFields:
    def fields(self, gen, apitype=STRUCTURE, context_size=8192):
        return apply_structural_fields(gen, apitype, stream=True, context_size=context_size, max_tokens=50)

    def test_each_under_the_apis_own_name_in_order(self):
        """Stream flag, context size, answer limit."""
        assert list(self.fields({"a": 1}).items()) == [
            ("a", 1),
            ("stream", True),
            ("num_ctx", 8192),
            ("max_tokens", 50),
        ]

    def test_a_null_in_the_preset_switches_size_and_limit_off(self):
        """But never the stream flag."""
        gen = {"stream": None, "num_ctx": None, "max_tokens": None}
        assert self.fields(gen) == {"stream": True, "num_ctx": None, "max_tokens": None}

    def test_other_values_of_the_preset_are_overwritten(self):
        """The endpoint and the node know better."""
        assert self.fields({"num_ctx": 1, "max_tokens": 2}) == {
            "stream": True,
            "num_ctx": 8192,
            "max_tokens": 50,
        }

    def test_without_a_context_size_the_presets_value_stays(self):
        """An endpoint need not name its window."""
        assert self.fields({"num_ctx": 1}, context_size=None)["num_ctx"] == 1

    @pytest.mark.parametrize("off", ["", None])
    def test_a_name_that_is_off_sends_nothing(self, off, caplog):
        """A limit that cannot be sent is told."""
        assert self.fields({}, dict.fromkeys(STRUCTURE, off)) == {}
        assert "maxNewTokensPropertyName" in caplog.text


class TestNormalize:
    @pytest.mark.parametrize(
        ("gen", "sent"),
        [
            pytest.param({"a": None, "b": 1}, {"b": 1}, id="null-is-left-out"),
            pytest.param({"a": "__wilmer_null__"}, {"a": None}, id="the-word-for-null-is-a-null"),
            pytest.param({"a": {"b": None}}, {}, id="an-object-that-becomes-empty-is-left-out"),
            pytest.param({"a": {"b": {"c": "__wilmer_null__"}}}, {"a": {"b": {"c": None}}}, id="inside-too"),
            pytest.param(
                {"json_schema": {"x": None}}, {"json_schema": {"x": None}}, id="schemas-are-untouched"
            ),
            pytest.param({"grammar": {}}, {"grammar": {}}, id="grammars-are-untouched"),
            pytest.param({"grammar": "__wilmer_null__"}, {"grammar": None}, id="but-not-a-text"),
            pytest.param({"a": [None, {"b": None}]}, {"a": [None, {"b": None}]}, id="arrays-are-untouched"),
            pytest.param(
                {"a": 0, "b": False, "c": "", "d": []},
                {"a": 0, "b": False, "c": "", "d": []},
                id="falsy-values-stay",
            ),
        ],
    )
    def test_what_goes_on_the_wire(self, gen, sent):
        """Nulls in presets are switches, not values."""
        assert normalize_gen_input(gen) == sent


@pytest.mark.parametrize(
    ("stop", "takes_blank", "sent"),
    [
        ("END", True, {"stop": ["END"]}),
        (["END", "", "\n"], True, {"stop": ["END", "\n"]}),
        (["END", "\n", " "], False, {"stop": ["END"]}),
        ("\n", False, {}),
        ([""], True, {}),
        ([], True, {}),
        (None, True, {"stop": None}),
        ({"odd": 1}, True, {"stop": {"odd": 1}}),
        ([1], True, {"stop": [1]}),
    ],
)
def test_stop_texts_are_a_list_of_what_the_api_takes(stop, takes_blank, sent):
    """One text is one; an empty one would stop at once, a blank one is refused by Claude; none left: no key."""
    assert stop_texts_listed({"a": 1, "stop": stop}, "stop", takes_blank) == {"a": 1, **sent}


def test_an_api_that_takes_both_gets_what_was_written():
    """No field is named."""
    assert stop_texts_listed({"stop": "END"}, "", True) == {"stop": "END"}


SWITCH = {"mode": "bool", "field": "enable_thinking"}


@pytest.mark.parametrize(
    ("native", "rule", "is_off"),
    [
        ({"enable_thinking": False}, SWITCH, True),
        ({"enable_thinking": True}, SWITCH, False),
        ({}, SWITCH, False),
        ({"chat_template_kwargs": {"enable_thinking": False, "x": 1}}, {**SWITCH, "location": "chat_template_kwargs"}, True),
        ({"enable_thinking": False}, {**SWITCH, "location": "chat_template_kwargs"}, False),
        ({"enable_thinking": False}, {"mode": "bool"}, False),
        ({"enable_thinking": False}, {"mode": "unsupported", "field": "enable_thinking"}, False),
        ({"enable_thinking": False}, None, False),
    ],
    ids=["off", "on", "silent", "in-the-template", "in-another-place", "no-field", "unsupported", "no-rule"],
)  # fmt: skip
def test_whether_thinking_is_off(native, rule, is_off):
    """Only where the API type says how that is told."""
    assert thinking_is_off(native, {"thinking": rule}) is is_off
