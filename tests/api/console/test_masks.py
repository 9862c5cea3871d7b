"""Secrets are taken out of what the console shows, however they are written (spec console.md 2.6)."""

from __future__ import annotations

import json

import pytest

from Middleware.common.errors import ConfigError
from Middleware.utilities.config_masks import mask_of, told_of_file


def test_a_secret_goes_and_the_rest_stays():
    assert mask_of(["abcdef123"])("say abcdef123 twice: abcdef123.") == "say *** twice: ***."


def test_of_two_that_begin_alike_no_end_is_left():
    assert mask_of(["abcdef", "abcdef-and-more"])("abcdef-and-more, abcdef") == "***, ***"


@pytest.mark.parametrize("secret", ['quo"ted-key', "back\\slash-key", "tab\tkey-long"])
def test_it_goes_in_the_form_of_json_too(secret):
    written = json.dumps({"key": secret}, ensure_ascii=False)
    assert secret not in json.loads(mask_of([secret])(written))["key"]


def test_what_is_not_known_hides_nothing():
    assert mask_of([None, ""])("nothing to hide") == "nothing to hide"


def test_what_is_wrong_with_a_file_is_one_sentence_without_secrets():
    """With file and field; what the server knows as its keys is hidden."""
    wrong = ConfigError("found 'abcdef123',\n allowed: a number", file="Users/mira.json", pointer="/port")
    assert told_of_file(wrong, ["abcdef123"]) == "Users/mira.json: port: found '***', allowed: a number"
