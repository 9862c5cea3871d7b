"""Parts of a conversation."""

from __future__ import annotations

import pytest

from Middleware.utilities.prompt_extraction_utils import (
    answered_length,
    clamped_cost,
    discussion_id,
    exchange_length,
    leading_system_messages,
    message_cost,
    newest_first,
    newest_within,
    system_text,
    text_between,
    text_in_tag,
    without_discussion_tags,
    without_system,
)


def conversation(text):
    """`s0 u1 a2`: a system, a user and an assistant message; the content is the word."""
    roles = {"s": "system", "u": "user", "a": "assistant"}
    return [{"role": roles[word[0]], "content": word} for word in text.split()]


def words(messages):
    return " ".join(message["content"] for message in messages)


MIXED, ONLY_SYSTEM = "s0 s1 u2 s3 a4", "s0 s1"


@pytest.mark.parametrize(
    ("function", "text", "result"),
    [
        (leading_system_messages, MIXED, "s0 s1"),
        (leading_system_messages, ONLY_SYSTEM, "s0 s1"),
        (leading_system_messages, "u0 s1", ""),
        (without_system, MIXED, "u2 a4"),
        (without_system, ONLY_SYSTEM, ""),
        (lambda messages: newest_first(messages, drop_all_system=False), MIXED, "a4 s3 u2"),
        (lambda messages: newest_first(messages, drop_all_system=False), ONLY_SYSTEM, "s1 s0"),
        (lambda messages: newest_first(messages, drop_all_system=True), MIXED, "a4 u2"),
    ],
)
def test_parts(function, text, result):
    """Which messages are left, in which order."""
    assert words(function(conversation(text))) == result


@pytest.mark.parametrize(
    ("everywhere", "text", "result"), [(False, MIXED, "s0 s1"), (True, MIXED, "s0 s1 s3"), (True, "u0", "")]
)
def test_system_text(everywhere, text, result):
    """Joined by blanks."""
    assert system_text(conversation(text), everywhere=everywhere) == result


class TestNewestWithin:
    @pytest.mark.parametrize(
        ("limits", "result"),
        [
            pytest.param({}, "u0 u1 u2 u3 u4", id="no-limit"),
            pytest.param({"count": 2}, "u3 u4", id="count"),
            pytest.param({"count": 0}, "", id="none"),
            pytest.param({"budget": 30}, "u2 u3 u4", id="exactly"),
            pytest.param({"budget": 29}, "u3 u4", id="not-quite"),
            pytest.param({"budget": -5}, "u4", id="the-newest-always"),
            pytest.param({"budget": 5, "minimum": 3}, "u2 u3 u4", id="minimum"),
            pytest.param({"budget": 40, "minimum": 2}, "u1 u2 u3 u4", id="more-than-the-minimum"),
            pytest.param({"budget": 5, "minimum": 0}, "", id="nothing-is-forced"),
            pytest.param({"budget": 40, "count": 2}, "u3 u4", id="both"),
        ],
    )
    def test_limits(self, limits, result):
        """Each message costs ten."""
        messages = conversation("u0 u1 u2 u3 u4")
        assert words(newest_within(reversed(messages), cost=lambda message: 10, **limits)) == result

    def test_the_walk_stops_at_the_first_that_does_not_fit(self):
        """An older one that would fit is not taken."""
        costs = {"u0": 1, "u1": 50, "u2": 1}
        messages = conversation("u0 u1 u2")
        assert words(newest_within(reversed(messages), budget=10, cost=lambda m: costs[m["content"]])) == "u2"

    def test_the_usual_cost_is_the_estimate(self):
        """Braces as marks."""
        assert message_cost({"role": "user", "content": "{}"}) == 11
        messages = [{"role": "user", "content": "{}"}, {"role": "user", "content": "{}"}]
        assert len(newest_within(reversed(messages), budget=21)) == 1

    def test_the_clamp_counts_writing_without_blanks_as_it_is(self):
        """Other limits keep the measure of what lies on disk."""
        message = {"role": "user", "content": "\u8702" * 70}
        assert (clamped_cost(message), message_cost(message)) == (70, 22)


CALL = {"role": "assistant", "content": "", "tool_calls": [{"id": "c"}]}
ENDS = [
    pytest.param("", 0, 0, id="nothing"),
    pytest.param("u", 0, 1, id="a-question"),
    pytest.param("sua", 0, 2, id="the-beginning-of-an-answer"),
    pytest.param("uaa", 0, 1, id="lines-of-a-group"),
    pytest.param("ucr", 3, 3, id="a-call-and-its-result"),
    pytest.param("uauc", 2, 2, id="a-call-without-a-result"),
    pytest.param("ucrcrr", 6, 6, id="several-calls"),
    pytest.param("uucra", 4, 4, id="a-beginning-behind-them"),
    pytest.param("ucrau", 0, 1, id="they-are-answered"),
    pytest.param("ucrsr", 5, 5, id="a-system-message-between"),
    pytest.param("ucru", 0, 1, id="a-question-behind-them"),
    pytest.param("uucrp", 4, 4, id="pictures-of-a-result"),
    pytest.param("auucrpcrp", 7, 7, id="pictures-of-several-results"),
    pytest.param("uap", 0, 1, id="pictures-of-the-user"),
    pytest.param("ucrap", 0, 1, id="pictures-of-the-user-behind-an-answer"),
    pytest.param("ucrapcr", 3, 3, id="pictures-that-are-the-question"),
    pytest.param("pcr", 3, 3, id="pictures-that-are-all-of-it"),
    pytest.param("sscr", 2, 2, id="no-user-message"),
    pytest.param("scrs", 3, 3, id="no-user-message-and-a-system-message-behind"),
    pytest.param("sr", 1, 1, id="a-result-alone"),
]


@pytest.mark.parametrize(("roles", "exchange", "answered"), ENDS)
def test_what_is_being_answered(roles, exchange, answered):
    """An open tool exchange reaches from the last user message to the end."""
    letters = {"u": "user", "a": "assistant", "s": "system", "r": "tool"}
    special = {"c": CALL, "p": {"role": "user", "content": "", "images": ["x"]}}
    messages = [special.get(role) or {"role": letters[role], "content": role} for role in roles]
    assert (exchange_length(reversed(messages)), answered_length(messages)) == (exchange, answered)


class TestDiscussionTags:
    @pytest.mark.parametrize(
        ("contents", "result"),
        [
            pytest.param(["[DiscussionId]abc[/DiscussionId] hi"], "abc", id="one"),
            pytest.param(
                ["x", "y [DiscussionId]a[/DiscussionId][DiscussionId]b[/DiscussionId]"], "a", id="the-first"
            ),
            pytest.param(
                ["[DiscussionId]../a[/DiscussionId]", "[DiscussionId]b[/DiscussionId]"], None, id="not-flat"
            ),
            pytest.param(
                ["[DiscussionId][/DiscussionId]", "[DiscussionId]b[/DiscussionId]"], None, id="empty"
            ),
            pytest.param(["[DiscussionId]a\nb[/DiscussionId]"], None, id="over-two-lines"),
            pytest.param(["[DiscussionId]\n[DiscussionId]a[/DiscussionId]"], "a", id="behind-an-open-one"),
            pytest.param(["nothing"], None, id="none"),
        ],
    )
    def test_the_id(self, contents, result):
        """The first tag decides."""
        assert discussion_id([{"role": "user", "content": content} for content in contents]) == result

    @pytest.mark.parametrize(
        ("text", "result"),
        [
            ("a[DiscussionId]x[/DiscussionId]b[DiscussionId][/DiscussionId]", "ab"),
            ("a[DiscussionId]x", "a[DiscussionId]x"),
            ("[DiscussionId]x\n[DiscussionId]y[/DiscussionId]", "[DiscussionId]x\n"),
            ("[DiscussionId]" * 100_000, "[DiscussionId]" * 100_000),
            ("plain", "plain"),
        ],
    )
    def test_removal(self, text, result):
        """Every whole tag goes."""
        assert without_discussion_tags(text) == result


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("<a></a><a>y</a>", ""),
        ("<a>1<a>2</a>3</a>", "1<a>2"),
        ("x <a> y\n</a>", " y\n"),
        ("<a>open", None),
        ("</a><a>", None),
        ("none", None),
    ],
)
def test_text_in_tag(text, result):
    """The first opening tag and the next closing one."""
    assert text_in_tag(text, "a") == result


def test_text_between():
    """Any two marks."""
    assert text_between("a [[b]] c]]", "[[", "]]") == "b"
