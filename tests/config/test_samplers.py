"""The samplers that a node asks for by the name of a preset are found (backends.md 4)."""

from __future__ import annotations

import pytest

from Middleware.config.endpoints import load_endpoint
from Middleware.config.samplers import load_samplers
from Middleware.config.users import UserSettings
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
