"""The samplers that a node asks for by the name of a preset are found (backends.md 4)."""

from __future__ import annotations

import pytest

from Middleware.config.endpoints import load_endpoint
from Middleware.config.samplers import SAMPLER_KEYS, load_samplers
from Middleware.config.users import UserSettings
from Middleware.config.validation import WARNING, check_file
from tests.config.endpoint_files import endpoint

ANA = UserSettings("ana")
LAN = UserSettings("ana", endpoint_configs_sub_directory="lan")


def load(tree, user, name, preset):
    snapshot = tree.snapshot()
    return load_samplers(snapshot, user, load_endpoint(snapshot, user, name), preset)


def test_the_users_folder_comes_first(tree):
    tree.put("Presets/T/ana/cold.json", {"n": 1})
    tree.put("Presets/T/cold.json", {"n": 2})
    tree.put("Presets/T/warm.json", {"n": 3})
    cold = load(tree, ANA, "main", "cold")
    assert (cold.block, cold.canonical, cold.append) == ({"n": 1}, False, None)
    assert load(tree, ANA, "main", "warm").block == {"n": 3}


def test_an_endpoint_of_that_name_lends_its_samplers(tree):
    tree.put("Presets/T/small-model.json", {"n": 1})
    samplers = load(tree, LAN, "small-model", "small-model")
    assert (samplers.block, samplers.canonical) == ({"temperature": 0.5}, True)


def test_an_endpoint_without_samplers_is_none(tree):
    tree.put("Endpoints/cold.json", endpoint(presetSamplers={}))
    tree.put("Presets/T/cold.json", {"n": 1})
    assert load(tree, ANA, "main", "cold").block == {"n": 1}


def test_without_a_name_the_endpoints_own_count(tree):
    own = load(tree, LAN, "small-model", None)
    assert (own.block, own.canonical) == ({"temperature": 0.5}, True)
    assert load(tree, ANA, "main", "").block == {}


def test_a_nested_preset_name_is_no_endpoint(tree):
    tree.put("Presets/T/a/cold.json", {"n": 1})
    tree.put("Endpoints/a/cold.json", endpoint(presetSamplers={"temperature": 0.5}))
    assert load(tree, ANA, "main", "a/cold").block == {"n": 1}


def test_a_preset_in_another_case_is_found(tree):
    tree.put("Presets/T/Cold.json", {"n": 1})
    assert load(tree, ANA, "main", "cold").block == {"n": 1}


def test_the_appended_preset_is_handed_on(tree):
    tree.put("Presets/T/extra.json", {"e": 1})
    tree.put("Endpoints/main.json", endpoint(appendPresetName="extra", presetSamplers={"top_p": 1}))
    samplers = load(tree, ANA, "main", None)
    assert (samplers.block, samplers.append) == ({"top_p": 1}, {"e": 1})


def test_a_missing_preset_names_both_paths(tree):
    tree.put("Presets/T/Warm.json", {})
    with pytest.raises(FileNotFoundError) as caught:
        load(tree, ANA, "main", "Wram")
    assert "Presets/T/ana/Wram.json, Presets/T/Wram.json" in str(caught.value)
    assert 'no preset "Wram"' in str(caught.value) and 'did you mean "Warm"' in str(caught.value)


NUMBERS = [
    "temperature",
    "dynatemp_range",
    "dynatemp_exponent",
    "top_k",
    "top_p",
    "min_p",
    "top_n_sigma",
    "typical_p",
    "repeat_penalty",
    "repeat_last_n",
    "presence_penalty",
    "frequency_penalty",
    "dry_multiplier",
    "dry_base",
    "dry_allowed_length",
    "dry_penalty_last_n",
    "xtc_probability",
    "xtc_threshold",
    "mirostat",
    "mirostat_tau",
    "mirostat_eta",
    "seed",
    "n_probs",
    "min_keep",
]
OTHERS = [
    "dry_sequence_breakers",
    "stop",
    "samplers",
    "logit_bias",
    "ignore_eos",
    "grammar",
    "json_schema",
    "thinkingMode",
    "chat_template_kwargs",
]


def test_the_names_that_are_known():
    """Those of backends.md 4, and the two that say how the model thinks."""
    assert sorted(SAMPLER_KEYS) == sorted([*NUMBERS, *OTHERS])


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_may_be_a_text_and_nothing_else(name):
    """Of an endpoint, where the names are canonical."""

    def levels(value):
        document = {"endpoint": "http://h", "apiTypeConfigFileName": "A", "presetSamplers": {name: value}}
        return [finding.level for finding in check_file("Endpoints/a.json", document)]

    assert [levels(value) for value in (1, 0.5, "0.5")] == [[], [], []]
    assert [levels(value) for value in (True, [1], {})] == [[WARNING]] * 3


@pytest.mark.parametrize(
    ("file", "document"),
    [
        ("Endpoints/a.json", {"presetSamplers": {"adaptive_target": 1}}),
        ("Endpoints/a.json", {"presetSamplers": {"chat_template_kwargs": {"thinking_budget": 9}}}),
        ("Presets/OpenAI/a.json", {"adaptive_target": 1}),
    ],
    ids=["sampler", "of-the-template", "preset-file"],
)
def test_other_names_are_somebody_elses(file, document):
    """A newer backend may know them: nothing is reported."""
    base = {"endpoint": "http://h", "apiTypeConfigFileName": "A"} if file.startswith("Endpoints") else {}
    assert check_file(file, {**base, **document}) == []


def test_a_slip_in_a_name_is_reported():
    document = {"endpoint": "http://h", "apiTypeConfigFileName": "A", "presetSamplers": {"temprature": 1}}
    (found,) = check_file("Endpoints/a.json", document)
    assert (found.level, found.pointer) == (WARNING, "/presetSamplers/temprature")
