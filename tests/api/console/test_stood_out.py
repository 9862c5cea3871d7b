"""What stood out: each rule of console.md 8.4 with its vector, the order, the limit, and 16.7."""

from __future__ import annotations

import pytest

from Middleware.api.console.hour import Call
from Middleware.api.console.recorder import Cut
from Middleware.api.console.stood_out import (
    MOST,
    RULES,
    Around,
    RowWords,
    all_that_stood_out,
    row_words,
    stood_out,
)
from Middleware.services.held_prompts import PromptPlace
from Middleware.services.node_trace import Wait
from tests.api.console.traced import FILE, call_of, node_of, run_of

THINK = {"removeThinking": True, "thinkTagNames": ["think"]}

AGAIN = {
    "compared": True,
    "prompt_chars": 50_400,
    "shared_chars": 2_048,
    "expected_chars": 49_000,
    "leaves": PromptPlace(1, 2_048, "system"),
}
"""A long prompt that its server read again."""


def told(run, now=200.0, **around):
    return [one["text"] for one in stood_out(run, now, Around(**around))]


def answered(*calls, title="Answer", **facts):
    """A node 4 that answers, in a run where nothing else stands out."""
    return node_of(
        4, title, *calls, **{"begun": 0.1, "ended": 6.3, "answers": True, "endpoint": "Big", **facts}
    )


def good(*nodes, **facts):
    """A run whose answer reached its client."""
    return run_of(
        *nodes, **{"first_text": 1.0, "answered": 6.3, "ended": 6.3, "finish_reason": "stop", **facts}
    )


class TestWhatItRanWith:
    SHORT = "an older text of a file"
    EDIT = "Users/ana.json:3:11: port: found 'x', allowed: a whole number; the last good version was used"

    def test_outdated(self):
        """One for each file, before all else."""
        run = good(answered(call_of()), outdated={"Users/ana.json": self.EDIT, "Endpoints/big.json": "B"})
        assert stood_out(run, 200.0) == [
            {"rule": "outdated", "level": "bad", "text": f"{self.EDIT}.", "short": self.SHORT, "i": None},
            {"rule": "outdated", "level": "bad", "text": "B.", "short": self.SHORT, "i": None},
        ]

    def test_a_failure_does_not_say_it_again(self):
        """The client's error begins with it."""
        error = f"{self.EDIT}. endpoint 'Big': no answer"
        run = run_of(state="failed", ended=4.9, error=error, outdated={"Users/ana.json": self.EDIT})
        assert told(run) == [f"{self.EDIT}.", "endpoint 'Big': no answer"]

    def test_what_it_quotes_of_a_secret_is_hidden(self):
        run = good(answered(call_of()), outdated={"E": 'E: found "Bearer sk-abcdefgh12345678", allowed: x'})
        assert "sk-abcdefgh12345678" not in told(run)[0]


class TestName:
    def test_a_name_that_fell_back(self):
        """The client got its answer, from somebody else than it asked (workbench.md 15)."""
        run = good(answered(call_of()), model="mira", fell_back="gpt-4")
        (said,) = stood_out(run, 200.0)
        assert said["text"] == 'Nothing here is called "gpt-4", so the default of mira answered.'
        assert row_words(run, [said]) == RowWords(1, "trouble", 'no model "gpt-4"')


class TestRow:
    """What a row of the list says of it (workbench.md 12)."""

    def words(self, run, **around):
        return row_words(run, all_that_stood_out(run, 200.0, Around(**around)))

    def test_of_a_run_where_nothing_stood_out(self):
        assert self.words(good(answered(call_of()))) == RowWords(0, None, "")

    def test_a_failure_comes_first(self):
        """Before what the run was made with, and with the place where it was."""
        wrong = node_of(2, "Coder", call_of(outcome="connect_error", error="no"), state="failed")
        run = run_of(wrong, state="failed", ended=4.9, error="no", outdated={"U": "u"})
        assert self.words(run)[1:] == ("bad", "node 2 Coder: connect_error")

    def test_trouble_comes_before_slowness(self):
        run = good(answered(call_of(), warnings=["a", "b"]), begun=24.0, first_text=25.0)
        assert self.words(run) == RowWords(3, "trouble", "2 warnings")

    def test_slowness_alone_is_no_trouble(self):
        run = good(answered(call_of(), begun=24.1), begun=24.0, first_text=25.0, answered=26.0, ended=26.0)
        assert self.words(run)[1:] == (None, "waited 24 s")

    @pytest.mark.parametrize(
        ("facts", "short"),
        [
            ({"first_text": None}, "empty"),
            ({"finish_reason": "length"}, "cut at the token limit"),
        ],
    )
    def test_an_answer_with_trouble(self, facts, short):
        assert self.words(good(answered(call_of()), **facts))[1:] == ("trouble", short)


class TestHowItEnded:
    def test_a_run_where_nothing_stood_out(self):
        assert told(good(answered(call_of()))) == []

    def test_failed(self):
        wrong = node_of(2, "Facts", state="failed")
        run = run_of(node_of(1, "Draft"), wrong, state="failed", ended=4.9, error="endpoint 'Big': no answer")
        assert stood_out(run, 200.0) == [
            {
                "rule": "failed",
                "level": "bad",
                "text": "endpoint 'Big': no answer",
                "short": "node 2 Facts",
                "i": 1,
            }
        ]

    @pytest.mark.parametrize(
        ("state", "status", "sentence"),
        [
            ("refused", 503, "The request was refused with status 503."),
            ("failed", None, "The request failed."),
        ],
    )
    def test_failed_without_a_sentence(self, state, status, sentence):
        assert told(run_of(state=state, status=status, ended=0.1)) == [sentence]

    @pytest.mark.parametrize(
        ("by", "sentence"),
        [
            ("the client hung up", "Cancelled after 5.7 s: the client hung up."),
            ("", "Cancelled after 5.7 s."),
        ],
    )
    def test_cancelled(self, by, sentence):
        assert told(run_of(state="cancelled", ended=5.7, cancelled_by=by)) == [sentence]

    @pytest.mark.parametrize(
        ("call", "why"),
        [
            pytest.param(
                call_of(raw=f"<think>{'a' * 1189}</think>", cleaned="", cleaning=(THINK, {}, {}, None)),
                "the model said 1,204 characters, all of them thoughts.",
                id="16.7: one think block",
            ),
            pytest.param(
                call_of(raw="", cleaned="", thoughts=["hm, ", "well"]),
                "the model said 8 characters, all of them thoughts.",
                id="thoughts beside the text",
            ),
            pytest.param(
                call_of(
                    raw="Assistant:\n",
                    cleaned="",
                    cleaning=(
                        {
                            "removeCustomTextFromResponseStartEndpointWide": True,
                            "responseStartTextToRemoveEndpointWide": ["Assistant:"],
                            "trimBeginningAndEndLineBreaks": True,
                        },
                        {},
                        {},
                        None,
                    ),
                ),
                "the model said 11 characters, all of them taken away by endpoint_prefixes.",
                id="a prefix that was all",
            ),
            pytest.param(
                call_of(raw="", cleaned="", finish_reason="stop"),
                "the model said nothing (finish reason stop).",
                id="nothing came",
            ),
            pytest.param(
                call_of(raw="Hello", cleaned="", cleaning=({}, {}, {}, None)),
                "the model said 5 characters, and none of it was left.",
                id="the rules of today do otherwise",
            ),
            pytest.param(
                call_of(
                    raw=Cut("a" * 49_152, "a" * 16_384, 134_464), cleaned="", cleaning=(THINK, {}, {}, None)
                ),
                "the model said 200,000 characters, and none of it was left.",
                id="too long to be kept",
            ),
        ],
    )
    def test_empty(self, call, why):
        run = good(answered(call), first_text=None)
        assert told(run) == [f"The client got an empty answer: {why}"]

    def test_empty_without_a_model(self):
        assert told(good(answered(type="StaticResponse"), first_text=None)) == [
            "The client got an empty answer: node 4 returned no text."
        ]

    def test_empty_without_kept_texts(self):
        """Private, or forgotten: nothing is claimed of what the model said."""
        assert told(good(answered(call_of()), first_text=None)) == ["The client got an empty answer."]

    def test_a_tool_call_is_an_answer(self):
        assert told(good(answered(call_of(raw="")), first_text=None, finish_reason="tool_calls")) == []

    @pytest.mark.parametrize(
        ("limit", "wrote", "sentence"),
        [
            (400, None, "The answer was cut at 400 tokens (maxResponseSizeInTokens of node 4)."),
            ("1200", 1200, "The answer was cut at 1,200 tokens (maxResponseSizeInTokens of node 4)."),
            (None, 400, "The answer was cut at the token limit."),
            ("{most}", 400, "The answer was cut at the token limit."),
            (400, 120, "The answer was cut at the token limit."),
        ],
        ids=["the-node's", "as-text", "not-stated", "a-variable", "long-before-the-node's"],
    )
    def test_cut(self, limit, wrote, sentence):
        usage = None if wrote is None else {"completion_tokens": wrote}
        node = answered(call_of(usage=usage), fields={"maxResponseSizeInTokens": limit})
        assert told(good(node, finish_reason="length")) == [sentence]

    def test_broken(self):
        run = good(node_of(1, "Draft", call_of("Small", truncated=True)), answered(call_of(truncated=True)))
        assert told(run) == [
            "Small ended its stream without an end mark: its output may be incomplete.",
            "Big ended its stream without an end mark: the answer may be incomplete.",
        ]


class TestOnTheWay:
    def test_backup(self):
        """One sentence a hop; one that failed as well did not answer."""
        calls = (
            call_of("Big", ended=1.0, outcome="connect_error"),
            call_of("Other", ended=2.0, outcome="timeout", backup_of="Big"),
            call_of("Small", ended=3.0, outcome="stop", finish_reason="stop", backup_of="Other"),
        )
        assert told(good(answered(*calls))) == [
            "Big failed (connect_error); Other was asked instead.",
            "Other failed (timeout); Small answered instead.",
        ]

    def test_tries(self):
        assert told(good(answered(call_of(tries=3)))) == ["Big was asked 3 times."]

    def test_went_on(self):
        critic = node_of(2, "Critic", state="went_on", error="endpoint 'Big' answered 500: oh")
        assert told(good(critic, answered(call_of()))) == [
            "Critic failed and the run went on: endpoint 'Big' answered 500: oh"
        ]

    @pytest.mark.parametrize(
        ("error", "said"),
        [
            (f"{FILE}:2:2: node 2 \"Critic\" (Standard): endpoint 'Big': no", "endpoint 'Big': no"),
            ("the tool (Standard): no", "the tool (Standard): no"),
        ],
    )
    def test_what_was_said_is_not_said_again(self, error, said):
        """The place of the error is the node's own."""
        critic = node_of(2, "Critic", state="went_on", error=error)
        assert told(good(critic, answered(call_of()))) == [f"Critic failed and the run went on: {said}"]

    def test_limit_reached(self):
        """Said once, though the node warned of it."""
        limit = "maxSteps (8)"
        agent = answered(call_of(), title="Librarian", limit=limit, warnings=[f"{limit}: the model must"])
        assert stood_out(good(agent), 200.0) == [
            {
                "rule": "limit_reached",
                "level": "note",
                "text": "Librarian stopped calling tools: maxSteps (8).",
                "short": "limit of tools reached",
                "i": 0,
            }
        ]

    def test_tool_failed(self):
        """Each tool once, with what was said last; refused calls are the model's matter."""
        calls = [
            call_of(kind="mcp", tool="read_file", outcome=outcome, error=error)
            for outcome, error in (("failed", "no"), ("refused", ""), ("timeout", "late"), ("done", ""))
        ]
        agent = answered(call_of(), *calls, title="Librarian")
        assert told(good(agent)) == ["The tool read_file failed 2 times in Librarian: late"]

    def test_locked(self):
        """The innermost of those that were stopped."""
        nodes = (node_of(1, state="stopped"), node_of(2, "Lock", state="stopped", depth=1))
        assert stood_out(run_of(*nodes, ended=1.0), 200.0) == [
            {
                "rule": "locked",
                "level": "note",
                "text": "Ended by a lock that is held (node 2).",
                "short": "locked",
                "i": 1,
            }
        ]


class TestTimes:
    @pytest.mark.parametrize(
        ("slots", "sentence"),
        [
            (1, "Waited 4.2 s for a free slot: 1 request at a time (--concurrency)."),
            (2, "Waited 4.2 s for a free slot: 2 requests at a time (--concurrency)."),
            (0, "Waited 4.2 s for a free slot."),
        ],
    )
    def test_slot(self, slots, sentence):
        run = good(answered(call_of(), begun=4.3), begun=4.2, first_text=5.0)
        assert told(run, slots=slots) == [sentence]

    def test_a_run_that_still_waits(self):
        """For how long stands in its heading, where it goes on."""
        assert told(run_of(state="waiting", begun=None), now=110.0, slots=3) == [
            "Waits for a free slot: 3 requests at a time (--concurrency)."
        ]

    def test_turn(self):
        """Of each node, where it took half a second; also while it still waits."""
        waits = [Wait("a slot of Big", 1.0, 1.4), Wait("a turn at the machine 'desk'", 2.0, 6.2)]
        assert told(good(answered(call_of(), waits=waits))) == [
            "Answer waited 4.2 s for a turn at the machine 'desk'."
        ]
        waiting = run_of(answered(call_of(), waits=[Wait("a slot of Big", 103.0)]), state="running")
        assert "Answer waited 7.0 s for a slot of Big." in told(waiting, now=110.0)

    def test_before(self):
        """16.7: the run of 16.3."""
        nodes = (
            node_of(1, "Draft", begun=0.2, ended=1.8),
            node_of(2, "Facts", begun=1.8, ended=3.0, group="critics"),
            node_of(3, "Style", begun=1.8, ended=3.3, group="critics"),
            answered(call_of(sent=3.3, first=3.8), begun=3.3, dropped=34, thoughts=["hm"]),
        )
        run = good(*nodes, begun=0.2, first_text=4.4, answered=6.3, ended=7.5)
        assert told(run) == [
            "3.1 s passed before the answering node began: Draft 1.6 s, then the group critics 1.5 s.",
            "Answer left 34 older messages out, to fit the context of Big.",
        ]

    def test_before_the_first_node(self):
        """No node took that time: the first run after a start does more than others, and it is said."""
        run = good(answered(call_of(), begun=0.8), begun=0.0, first_text=1.2, answered=2.0, ended=2.0)
        assert told(run) == [
            "0.8 s passed before the first node began. After a start, the first run loads the engine."
        ]

    def test_before_names_the_three_longest_in_order(self):
        """Of the outermost level: what a nested run did is its parent's time."""
        nodes = (
            node_of(1, "A", begun=0.0, ended=2.0),
            node_of(2, "B", begun=2.0, ended=2.1),
            node_of(3, "C", begun=2.1, ended=5.1),
            node_of(4, "Which", begun=5.1, ended=9.0, answers=True),
            node_of(1, "Inner", begun=5.1, ended=6.1, depth=1),
            node_of(2, "Says", call_of(), begun=6.1, ended=9.0, depth=1, answers=True),
        )
        run = good(*nodes, first_text=7.0, answered=9.0, ended=9.0)
        assert told(run) == [
            "6.1 s passed before the answering node began: A 2.0 s, then C 3.0 s, then Which 1.0 s."
        ]
        assert [one["i"] for one in stood_out(run, 200.0, Around())] == [2]  # where it leads to: C

    @pytest.mark.parametrize(
        ("begun", "first_text"), [(0.49, 0.6), (0.6, 2.1)], ids=["short", "a-small-share"]
    )
    def test_a_little_before_is_nothing(self, begun, first_text):
        nodes = (node_of(1, "Draft", ended=begun), answered(call_of(), begun=begun))
        assert told(good(*nodes, first_text=first_text)) == []

    @pytest.mark.parametrize(
        ("facts", "of"),
        [
            ({"usage": {"prompt_tokens": 18_400}}, " (18,400 tokens of prompt)"),
            ({"body": b"four words of text " * 1000}, " (about 5,970 tokens of prompt)"),
            (
                {"body": b"four words of text " * 1000, "body_left_out": 19_000},
                " (about 11,900 tokens of prompt)",
            ),
            ({}, ""),
        ],
        ids=["counted", "estimated", "estimated-of-its-ends", "unknown"],
    )
    def test_slow_first(self, facts, of):
        call = call_of(sent=0.1, first=12.1, ended=13.0, **facts)
        run = good(answered(call, ended=13.0), first_text=12.1, answered=13.0, ended=13.0)
        assert told(run) == [f"Big took 12 s to its first word{of}."]

    @pytest.mark.parametrize(
        ("facts", "read"),
        [
            ({}, "about 12,100"),
            ({"usage": {"prompt_tokens": 12_400}}, "about 11,900"),
            ({"usage": {"prompt_tokens": 12_400, "cached_tokens": 500}}, "11,900"),
        ],
        ids=["characters", "the backend's prompt", "the backend's numbers"],
    )
    def test_read_again(self, facts, read):
        """Shared is under half of what the best one before had but for its last two messages."""
        run = good(node_of(1, "Draft", call_of(**AGAIN, **facts)), answered(call_of()))
        assert stood_out(run, 200.0) == [
            {
                "rule": "read_again",
                "level": "note",
                "text": f"Big read {read} tokens again: its prompt left the one before in the system prompt.",
                "short": f"read {read} tokens again",
                "i": 0,
            }
        ]

    def test_read_again_names_the_placeholder(self):
        """Of a run that has ended: it is looked up in texts."""
        run = good(answered(call_of(**AGAIN)))
        [sentence] = told(run, place=lambda run, node, call: "{current_time_24h}")
        assert sentence.endswith("left the one before in the system prompt, at {current_time_24h}.")

    @pytest.mark.parametrize(
        "facts",
        [
            {"compared": False, "leaves": None, "shared_chars": 0, "expected_chars": 0},
            {"shared_chars": 24_500},
            {"expected_chars": 4_000},
            {"usage": {"prompt_tokens": 2000}},
            {"usage": {"prompt_tokens": 12_400, "cached_tokens": 11_000}},
            {"kind": "embedding"},
        ],
        ids=[
            "the first",
            "half is shared",
            "little could be shared",
            "a short prompt",
            "the backend held it all the same",
            "no model",
        ],
    )
    def test_not_read_again(self, facts):
        assert told(good(answered(call_of(**{**AGAIN, **facts})))) == []

    def test_thinking(self):
        """Its thoughts stood in the way, whether they came in the text or beside it."""
        node = answered(call_of(sent=0.1, first=0.4, thought=0.4), thoughts=["a" * 4000, "b" * 120])
        assert told(good(node, first_text=6.5, answered=7.0, ended=7.0)) == [
            "Big thought for 6.1 s before it answered (4,120 characters)."
        ]

    def test_thinking_whose_texts_are_not_kept(self):
        node = answered(call_of(sent=0.1, first=0.4, thought=0.4))
        assert told(good(node, first_text=6.5)) == ["Big thought for 6.1 s before it answered."]

    @pytest.mark.parametrize("state", ["running", "cancelled", "failed"])
    def test_of_thinking_without_an_answer_nothing_is_told(self, state):
        """Not yet, or never."""
        node = answered(call_of(sent=0.1, first=0.4, thought=0.4), state=state)
        ended = None if state == "running" else 9.0
        run = run_of(node, state=state, ended=ended, answered=None)
        assert "thinking" not in [one["rule"] for one in stood_out(run, 200.0)]

    def test_of_an_answer_that_is_all_thoughts_only_its_emptiness_is_told(self):
        call = call_of(sent=0.0, first=0.5, thought=0.5, raw="", cleaned="", thoughts=["hm, well"])
        answer = node_of(1, "Answer", call, answers=True)
        run = run_of(answer, answered=6.5, ended=6.5)
        assert [one["rule"] for one in stood_out(run, 200.0)] == ["empty"]

    def test_a_late_first_word_without_thoughts_is_no_thinking(self):
        assert told(good(answered(call_of(sent=0.1, first=0.4)), first_text=6.5)) == []

    LATE = Call(1_759_999_000.0, 0.5, None, True)

    @pytest.mark.parametrize(
        ("facts", "earlier", "before", "is_told"),
        [
            ({}, 5, "small", True),
            ({"first": 1.6}, 5, "small", False),
            ({}, 5, "big-32b", False),
            ({}, 5, "", False),
            ({}, 4, "small", False),
            ({"load_s": 1.2}, 5, "small", False),
            ({"kind": "embedding"}, 5, "small", False),
        ],
        ids=["late", "not-so-late", "same-model", "nobody-knows", "too-few", "the-backend-says", "embedding"],
    )
    def test_loaded(self, facts, earlier, before, is_told):
        """Another model was used there before, and the first word took three times the usual time."""
        call = call_of(
            **{"begun": 0.0, "sent": 0.2, "first": 1.8, "url": "http://desk:1/v1", "ended": 2.0, **facts}
        )
        asked = []

        def model_before(place, unix):
            asked.append((place, unix))
            return before

        told_now = told(
            good(answered(call_of(), ended=6.0), node_of(5, "After", call)),
            calls=lambda user, endpoint: [self.LATE] * earlier,
            model_before=model_before,
        )
        sentence = (
            "Big took 1.6 s to its first word; 0.5 s is usual. small was used there before it, so the model "
            "probably had to be loaded."
        )
        assert told_now == [sentence] * is_told
        assert set(asked) <= {("desk:1", 1_760_000_000.0)}

    def test_slow_tokens(self):
        """Against the earlier calls of the same endpoint of the same user."""
        call = call_of(first=1.0, ended=11.0, usage={"completion_tokens": 90})
        asked = []

        def calls(user, endpoint):
            asked.append((user, endpoint))
            return [Call(1_759_999_000.0 + i, 0.5, 31.0 + i % 3 - 1, True) for i in range(20)]

        run = good(answered(call, ended=11.0), answered=11.0, ended=11.0)
        assert told(run, calls=calls) == ["Big wrote 9 tokens a second; 31 is usual."]
        assert asked == [("mira", "Big")]

    @pytest.mark.parametrize(
        ("earlier", "rate"),
        [(19, 31.0), (20, 18.0), (20, None)],
        ids=["too-few", "not-so-much-slower", "no-rates"],
    )
    def test_slow_tokens_needs_a_usual_rate(self, earlier, rate):
        call = call_of(first=1.0, ended=11.0, usage={"completion_tokens": 90})
        rows = [Call(1_759_999_000.0, 0.5, rate, True)] * earlier
        later = [Call(1_760_000_000.0, 0.5, 31.0, True)]  # this one itself, and those beside it
        run = good(answered(call, ended=11.0), answered=11.0, ended=11.0)
        assert told(run, calls=lambda user, endpoint: rows + later) == []


class TestWhatWasLeftOut:
    def test_dropped_by_a_node_without_a_model(self):
        assert told(good(node_of(1, "Compact", dropped=1), answered(call_of()))) == [
            "Compact left 1 older message out, to fit the context."
        ]

    def test_unfilled(self):
        run = good(answered(call_of()))
        assert told(run, unfilled=lambda user, node: [("agent6Output", "is not known yet")]) == [
            "{agent6Output} in node 4 is not known yet and stayed as text."
        ]

    def test_warned(self):
        """At most three of a run."""
        warnings = [f"warning {i}" for i in range(4)]
        assert told(good(answered(call_of(), warnings=warnings))) == warnings[:3]

    def test_task(self):
        assert told(good(answered(call_of()), task="title")) == [
            "A background request of Open WebUI (title)."
        ]


class TestTogether:
    def test_the_order_is_that_of_the_table(self):
        assert " ".join(RULES) == (
            "outdated fell_back failed cancelled empty cut broken backup tries went_on limit_reached tool_failed locked slot "
            "turn before "
            "slow_first "
            "loaded read_again thinking slow_tokens dropped unfilled warned task"
        )

    def test_at_most_eight(self):
        """What is left is counted."""
        run = good(answered(*[call_of(tries=2) for _ in range(11)]))
        made = stood_out(run, 200.0)
        assert [one["rule"] for one in made[:MOST]] == ["tries"] * MOST
        assert made[MOST:] == [
            {"rule": "more", "level": "note", "text": "and 3 more", "short": "and 3 more", "i": None}
        ]

    def test_eight_are_all(self):
        assert len(stood_out(good(answered(*[call_of(tries=2) for _ in range(MOST)])), 200.0)) == MOST
