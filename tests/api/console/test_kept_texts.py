"""What is kept of a run's texts."""

from __future__ import annotations

import pytest

from Middleware.api.console.recorder import (
    RUN_LIMIT,
    TEXT_LIMIT,
    Cut,
    cut_middle,
    forget_texts,
    keep_within,
)
from tests.api.console.traced import call_of, node_of, run_of


class TestOneText:
    def test_one_that_is_too_long(self):
        """16.2: three quarters of the limit from its begin, a quarter from its end."""
        kept = cut_middle("a" * 100_000 + "b" * 100_000)
        assert kept == Cut("a" * 49_152, "b" * 16_384, 134_464)
        assert (len(kept), kept.kept_bytes) == (200_000, TEXT_LIMIT)

    def test_one_that_just_fits(self):
        assert cut_middle("a" * TEXT_LIMIT) == "a" * TEXT_LIMIT


class TestOneRun:
    def test_long_texts_are_cut_in_place(self):
        call = call_of(body=b"b" * 200_000, raw="r" * 70_000, cleaned="c" * 70_000, thoughts=["t" * 70_000])
        run = run_of(node_of(1, "", call, output="o" * 70_000, thoughts=["n" * 70_000]), asked=b"q" * 200_000)
        kept = keep_within(run)
        node = run.nodes[0]
        texts = [call.raw, call.cleaned, call.thoughts[0], node.output, node.thoughts[0]]
        assert [text.kept_bytes for text in texts] == [TEXT_LIMIT] * 5
        assert (len(call.body), call.body_left_out) == (131_072, 68_928)
        assert (len(run.asked), run.asked_left_out) == (200_000, 0)  # the client's is whole
        assert kept == 5 * TEXT_LIMIT + 131_072 + 200_000

    def test_what_goes_over_is_left_out(self):
        """What is smaller and comes behind it may still fit."""
        calls = [call_of(raw=f"{i:06d}" * 10_000) for i in range(40)]
        run = run_of(node_of(1, "", *calls, output="small"))
        kept = keep_within(run)
        assert RUN_LIMIT - 60_000 < kept <= RUN_LIMIT
        assert calls[-1].raw == Cut("", "", 60_000) and run.nodes[0].output == "small"

    def test_a_body_that_is_left_out(self):
        run = run_of(asked=b"q" * 100)
        assert keep_within(run, most=50) == 0
        assert (run.asked, run.asked_left_out) == (b"", 100)

    def test_one_text_in_several_places(self):
        """It is there once, and counts once."""
        text = "x" * 1000
        run = run_of(node_of(1, "", call_of(raw=text, cleaned=text), output=text))
        assert keep_within(run) == 1000

    @pytest.mark.parametrize(("output", "size"), [({"a": "b" * 5000}, 1024), (True, 1024), (None, 0)])
    def test_outputs_that_are_no_texts(self, output, size):
        run = run_of(node_of(1, output=output))
        assert keep_within(run) == size and run.nodes[0].output == output

    def test_a_text_that_carries_more(self):
        """Nothing hangs on what is kept."""

        class Carrying(str):
            thinking = "more"

        run = run_of(node_of(1, output=Carrying("hi")))
        keep_within(run)
        assert type(run.nodes[0].output) is str and run.nodes[0].output == "hi"


def test_forgotten_texts():
    """Lengths and facts stay."""
    call = call_of(body=b"body", raw="raw", cleaned=None, thoughts=["t"], headers={"a": "b"}, cleaning=({},))
    node = node_of(1, "Answer", call, output="out", thoughts=["n"], warnings=["w"])
    run = run_of(node, asked=b"asked", keeps_text=True)
    forget_texts(run)
    assert (run.keeps_text, run.asked, run.asked_left_out) == (False, b"", 5)
    assert (call.body, call.body_left_out, call.headers, call.cleaning, call.cleaned) == (
        b"",
        4,
        None,
        None,
        None,
    )
    assert (call.raw, call.thoughts, node.output) == (Cut("", "", 3), [Cut("", "", 1)], Cut("", "", 3))
    assert (node.title, node.warnings) == ("Answer", ["w"])
