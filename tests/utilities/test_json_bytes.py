"""Bodies that go out: the same value whoever writes it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Middleware.utilities import json_bytes
from Middleware.utilities.json_bytes import DEEPEST, encode_json

MESSAGES = [{"role": "user", "content": 'Grüße "\u2028" \\ \n {}'}, {"role": "assistant", "content": ""}]


class Subclass(str):
    """A text of a node remembers more than itself."""


@pytest.fixture(params=["json", "orjson"])
def writer(request, monkeypatch):
    """Who writes."""
    made = pytest.importorskip("orjson") if request.param == "orjson" else None
    monkeypatch.setattr(json_bytes, "orjson", made)


def nested(levels):
    value = "deep"
    for _ in range(levels):
        value = [value]
    return value


class TestValues:
    @pytest.mark.parametrize(
        "value",
        [
            pytest.param(
                {"messages": MESSAGES, "stream": True, "temperature": 0.7, "seed": None}, id="a-payload"
            ),
            pytest.param({"content": "null", "stop": None, "x": 0.5}, id="nothing-and-its-name"),
            pytest.param({"n": [0, -1, 2**53 + 1, 2**64, -(2**63) - 1, 10**40]}, id="whole-numbers"),
            pytest.param({"x": [0.1, -0.0, 1e16, 1e-7, 1.7976931348623157e308, 5e-324]}, id="numbers"),
            pytest.param({"text": Subclass("a"), "tuple": ("a", 1)}, id="subclasses"),
            pytest.param(nested(DEEPEST + 20), id="deep"),
            pytest.param(nested(400), id="deeper-than-orjson-writes"),
            pytest.param("", id="a-text"),
        ],
    )
    def test_what_is_written_reads_back(self, writer, value):
        """Every number, text and key as it was."""
        assert json.loads(encode_json(value)) == json.loads(json.dumps(value))

    def test_text_is_utf8(self, writer):
        """Not escaped: a model server counts what it gets."""
        assert "Grüße" in encode_json(MESSAGES).decode("utf-8")

    def test_halves_of_surrogate_pairs(self, writer):
        """UTF-8 has no such character."""
        assert json.loads(encode_json({"content": "a\ud83db", "k\udc00": 1})) == {
            "content": "a\ufffdb",
            "k\ufffd": 1,
        }

    def test_both_halves_of_a_pair(self, writer):
        """Thoughts that came in two pieces go back as they were."""
        assert json.loads(encode_json({"content": "a\ud83d\ude00\ud83d"})) == {"content": "a\U0001f600\ufffd"}

    def test_keys_that_are_no_texts(self, writer):
        """A logit_bias by token number."""
        assert json.loads(encode_json({"logit_bias": {50256: -100}})) == {"logit_bias": {"50256": -100}}

    @pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")], ids=str)
    @pytest.mark.parametrize("place", [lambda n: {"temperature": n}, lambda n: {"a": [({"b": n},)]}])
    def test_no_number(self, writer, number, place):
        """It never becomes null: the backend sees, and refuses, what it always saw."""
        assert encode_json(place(number)) == json.dumps(place(number)).encode()

    @pytest.mark.parametrize(
        "value", [{"a": {1, 2}}, {"a": b"x"}, {"a": object()}], ids=["set", "bytes", "object"]
    )
    def test_what_is_no_json(self, writer, value):
        """An error, not a guess."""
        with pytest.raises(TypeError):
            encode_json(value)

    def test_a_circle(self, writer):
        """An error, too."""
        value = []
        value.append(value)
        with pytest.raises((ValueError, RecursionError)):
            encode_json(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_both_write_the_same_value(value):
    """Whatever it is."""
    pytest.importorskip("orjson")
    assert json.loads(encode_json(value)) == json.loads(json_bytes._written(value))


def test_without_orjson():
    """It is an extra."""
    code = (
        "import sys; sys.modules['orjson'] = None\n"
        "from Middleware.utilities import json_bytes\n"
        "assert json_bytes.orjson is None\n"
        "assert json_bytes.encode_json({'a': 1}) == b'{\"a\": 1}'\n"
    )
    house = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=house, check=False).returncode == 0
