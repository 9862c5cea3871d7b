"""The texts of a run: their names, how they are cut, and that no secret is in them."""

from __future__ import annotations

import pytest

from Middleware.api.console.recorder import Cut
from Middleware.api.console.run_texts import Secrets, all_texts, find, whole_text
from tests.api.console.traced import call_of, node_of, run_of


def a_run():
    call = call_of(body=b'{"a":1}', raw="raw", cleaned="cleaned", thoughts=["t0", "t1"])
    node = node_of(1, "", call, output={"answer": ["é", 1]}, thoughts=["t"], fields={"prompt": "p"})
    return run_of(node, asked=b'{"m":[]}')


def shown(run, name):
    return whole_text(name, find(run, name), Secrets(run))


class TestNames:
    @pytest.mark.parametrize(
        ("name", "head", "is_json"),
        [
            ("asked", '{"m":[]}', True),
            ("n0.fields", '{\n  "prompt": "p"\n}', True),
            ("n0.output", '{"answer":["é",1]}', True),
            ("n0.thoughts.0", "t", False),
            ("n0.c0.body", '{"a":1}', True),
            ("n0.c0.raw", "raw", False),
            ("n0.c0.cleaned", "cleaned", False),
            ("n0.c0.thoughts.1", "t1", False),
        ],
    )
    def test_each_text_has_one(self, name, head, is_json):
        """An output that is no text is compact JSON."""
        told = shown(a_run(), name)
        assert told == {
            "ref": name, "head": head, "tail": "", "chars": len(head), "left_out": 0, "json": is_json
        }  # fmt: skip

    def test_the_answer(self):
        """While it goes out what has left; then the node's, or what cleaning let through before it broke."""
        sent = run_of(node_of(1, answers=True), text_so_far=lambda: "so far")
        broke = run_of(node_of(1, "", call_of(cleaned="hal"), call_of(), answers=True))
        whole = run_of(
            node_of(1, "", call_of(cleaned="raw"), answers=True, output="done"), node_of(2, output="x")
        )
        assert [shown(run, "answer")["head"] for run in (sent, broke, whole)] == ["so far", "hal", "done"]

    @pytest.mark.parametrize(
        "name",
        ["", "n0", "n1.output", "n0.c1.raw", "n0.c0.thoughts.2", "n0.c0.headers", "n-1.output", "n00.output",
         "n0.calls", "asked.x", "n0.c0.secrets", "n\u0661.output", "n999999.output", "n0.thoughts.-1"],
    )  # fmt: skip
    def test_others_have_none(self, name):
        assert find(a_run(), name) is None

    def test_fields_hide_what_the_file_of_the_node_hides(self):
        """Commands, headers and addresses too."""
        fields = {
            "args": ["--token", "s3cr3t-1"],
            "headers": {"X-Api-Key": "s3cr3t-2"},
            "url": "http://h/?key=s3cr3t-3",
            "nested": {"apiKey": "s3cr3t-4"},
        }
        assert "s3cr3t" not in shown(run_of(node_of(1, fields=fields)), "n0.fields")["head"]

    def test_fields_of_a_node_that_was_not_run(self):
        node = node_of(1, of=2, file_nodes=({}, {"title": "Notes"}))
        assert '"Notes"' in find(run_of(node), "n1.fields")

    def test_all_of_them(self):
        """But those that stand in files."""
        assert list(all_texts(a_run())) == [
            '{"m":[]}', '{"answer":["é",1]}', "t", '{"a":1}', "raw", "cleaned", "t0", "t1"
        ]  # fmt: skip


class TestCut:
    def test_while_it_runs(self):
        """The trace holds the whole of it; a reader gets it as it would be kept (16.2)."""
        told = shown(run_of(node_of(1, output="a" * 200_000), state="running"), "n0.output")
        assert (len(told["head"]), len(told["tail"])) == (49_152, 16_384)
        assert (told["left_out"], told["chars"], told["json"]) == (134_464, 200_000, False)

    def test_a_body(self):
        """Cut by bytes; half a character at the cut is U+FFFD."""
        body = b"a" * 98_303 + b"\xc3" + b"\xa9" + b"b" * 32_767
        told = shown(run_of(node_of(1, "", call_of(body=body, body_left_out=7))), "n0.c0.body")
        assert told["head"].endswith("a\ufffd") and told["tail"].startswith("\ufffdb")
        assert (told["left_out"], told["chars"]) == (7, 131_072 + 7)

    def test_one_that_was_left_out(self):
        told = shown(run_of(node_of(1, output=Cut("", "", 9))), "n0.output")
        assert (told["head"], told["tail"], told["chars"], told["left_out"]) == ("", "", 9, 9)


class TestSecrets:
    def test_a_secret_across_the_cut(self):
        """Neither of its ends is shown, however much of it stands on either side."""
        secret = "abcdefghijkl"
        run = run_of(node_of(1, "", call_of(secrets=(secret,))))
        sides = [Cut("say " + secret[:n], secret[n:] + " end", 5) for n in range(4, 9)]
        assert {Secrets(run).out_of_cut(side) for side in sides} == {Cut("say ***", "*** end", 5)}

    def test_as_json_writes_it(self):
        run = run_of(node_of(1, "", call_of(secrets=('pa"ss\\word',), body=b'{"p":"pa\\"ss\\\\word"}')))
        assert shown(run, "n0.c0.body")["head"] == '{"p":"***"}'

    def test_a_long_one_at_the_end_of_the_start(self):
        """The first 200 characters hold no part of it."""
        secret = "s3" * 150
        run = run_of(node_of(1, "", call_of(secrets=(secret,))))
        assert Secrets(run).start_of("a" * 190 + secret) == "a" * 190 + "***"

    def test_deep_json(self):
        """Too deep to be read: it is shown as text."""
        assert not shown(run_of(node_of(1, output="[" * 60_000)), "n0.output")["json"]
