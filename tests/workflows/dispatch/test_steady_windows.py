"""Windows that stand, as a node's prompt is assembled: messages, tokens, the clamp, flat prompts, pictures,
the window of the next turn. Source: spec prompt-reuse.md 1, 6, 9, 10.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.utilities.hashing_utils import message_hash
from Middleware.utilities.prompt_extraction_utils import clamped_cost
from Middleware.utilities.steady_window import SteadyWindow
from Middleware.workflows.dispatch.late_prompt import LatePrompt
from Middleware.workflows.dispatch.prompt_assembly import Parts, assemble_next_turn
from tests.workflows.dispatch.models import assemble_cut, assembled, chat_model, flat_model

TEMPLATE = {"promptTemplateUserPrefix": "<u>", "promptTemplateAssistantPrefix": "<a>"}
THIRTY = SteadyWindow(30)
CALL = {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": {"name": "f"}}]}
RESULT = {"role": "tool", "content": "r", "tool_call_id": "c"}


def said(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "content": content}


def chat(length: int) -> list[dict[str, Any]]:
    """`u0 a0 u1 a1 ...`"""
    return [said(("user", "assistant")[n % 2], f"{'ua'[n % 2]}{n // 2}") for n in range(length)]


def parts(messages: Any, steady: Any = THIRTY, **fields: Any) -> Parts:
    more = {key: fields.pop(key) for key in list(fields) if key in Parts.__dataclass_fields__}
    node = {"lastMessagesToSendInsteadOfPrompt": 10, **fields}
    return Parts(node, "", None, list(messages), steady=steady, **more)


def first(given: Parts, **endpoint: Any) -> str:
    """The first message that a chat backend is sent."""
    return str(assembled(given, chat_model(**endpoint)).conversation[0]["content"])


class TestWindowsOfMessages:
    def test_begin_at_a_landmark(self):
        """The vector of section 9, and the turn after it."""
        assert (first(parts(chat(61))), first(parts(chat(63)))) == ("u22", "u22")

    def test_system_messages_in_front_do_not_count(self):
        """As without a steady window."""
        assert first(parts([said("system", "S"), *chat(61)])) == "u22"

    def test_move_without_the_setting(self):
        """As ever."""
        assert (first(parts(chat(61), None)), first(parts(chat(63), None))) == ("a25", "a26")

    def test_hold_an_open_exchange_whole(self):
        """A question with thirty calls is sent from its beginning, though the window would begin later."""
        messages = [*chat(40), said("user", "Q"), *[CALL, RESULT] * 30]

        assert first(parts(messages)) == "Q"

    def test_begin_behind_the_summary(self):
        """Summary and messages neither overlap nor leave a gap."""
        messages = chat(61)

        assert first(parts(messages, SteadyWindow(summary_end=message_hash(messages[30])))) == "a15"

    @pytest.mark.parametrize("model", [chat_model(), flat_model(TEMPLATE)], ids=["chat", "flat"])
    def test_begin_behind_the_one_that_the_summary_ends_with(self, model):
        """Of several with its text the nearest to its place, which counts system messages, too."""
        system = said("system", "S")
        messages = [system, system, *chat(10), system, *(said("user", "go on"), said("assistant", "A")) * 20]
        for place in (13, 21, 39):
            steady = SteadyWindow(summary_end=f"{place}:{message_hash(messages[place])}")
            sent = assembled(parts(messages, steady), model)
            answers = str(sent.conversation or sent.prompt).count("A")
            assert answers == (len(messages) - place) // 2

    def test_begin_at_a_landmark_where_the_summary_leaves_too_few(self):
        """Fewer than N, a message that is not there: as `true`."""
        messages = chat(61)

        near = first(parts(messages, SteadyWindow(summary_end=message_hash(messages[55]))))
        lost = first(parts(messages, SteadyWindow(summary_end="0" * 64)))
        assert near == lost == first(parts(messages, SteadyWindow())) == "u22"


class TestWindowsOfTokens:
    def ceiling(self, messages, **fields):
        return parts(messages, lastMessagesToSendInsteadOfPromptMaxTokenSize=12, **fields)

    def test_stay_within_the_ceiling(self):
        """Messages first, then tokens."""
        sent = assembled(self.ceiling(chat(61)), chat_model()).conversation

        assert 6 <= sum(max(1, clamped_cost(message)) for message in sent) <= 24
        assert sent[0]["role"] == "user"

    def test_the_clamp_stays_within_its_budget(self):
        """And what is left begins at the same message although messages in front are missing."""
        messages = [said(m["role"], f"{m['content']} {'word ' * 40}") for m in chat(61)]
        given = parts(messages, clampPromptToContextWindow=True)
        later = parts(messages[20:], clampPromptToContextWindow=True)

        call, clamp = assemble_cut(given, chat_model(maxContextTokenSize=1600))
        cost = sum(8 + clamped_cost(message) for message in call.conversation)
        assert clamp.budget / 2 <= cost <= clamp.budget
        assert clamp.dropped > 0
        assert assembled(later, chat_model(maxContextTokenSize=1600)).conversation == call.conversation

    def test_a_late_prompt_is_counted_in_steps(self):
        """Its length, which changes each turn, does not move the window."""
        model = chat_model(maxContextTokenSize=4000)

        budgets = [
            assemble_cut(parts([], clampPromptToContextWindow=True, late=LatePrompt(text)), model)[1].budget
            for text in ("", "a few words", "some more " * 20, "word " * 300)
        ]
        assert [budgets[0] - budget for budget in budgets] == [0, 256, 256, 512]


class TestFlatPrompts:
    def test_stand_at_one_message_more(self):
        """The number of messages is N + 1 there."""
        text = assembled(parts(chat(61)), flat_model(TEMPLATE)).prompt
        as_chat = first(parts(chat(61), lastMessagesToSendInsteadOfPrompt=11))

        assert text.startswith(f"<u>{as_chat}<a>") and text.endswith("u30")

    def test_are_cut_once_with_a_ceiling(self):
        """The number is N then, and what fits is not moved again."""
        given = parts(chat(61), lastMessagesToSendInsteadOfPromptMaxTokenSize=5000)

        assert assembled(given, flat_model(TEMPLATE)).prompt.startswith("<u>u22<a>a22")

    def test_hold_the_late_text_inside_the_template(self):
        """Also where a system message is asked for, which has no place among the turns."""
        suffix = {**TEMPLATE, "promptTemplateUserSuffix": "</u>"}
        for place, end in (("after", "<u>u1\n\nlate</u>"), ("system", "<u>late\n\nu1</u>")):
            given = parts(chat(3), late=LatePrompt("late", place))

            assert assembled(given, flat_model(suffix)).prompt.endswith(end)

    def test_pictures_are_those_of_the_window(self):
        """A picture goes along as long as its message does."""
        messages = chat(61)
        messages[44] = {**messages[44], "images": ["seen"]}

        for steady, images in ((THIRTY, ["seen"]), (None, [])):
            call = assembled(parts(messages, steady, takes_images=True), flat_model(TEMPLATE))
            assert [i for m in call.conversation or () for i in m["images"]] == images


class TestLatePrompt:
    def test_follows_merging_and_a_user_turn_that_was_put_back(self):
        """It is added to the list as it is sent."""
        messages = [said("user", "Q"), said("assistant", "a"), said("assistant", "b")]
        given = parts(
            messages,
            mergeConsecutiveAssistantMessages=True,
            lastMessagesToSendInsteadOfPrompt=2,
            late=LatePrompt("late"),
        )

        call = assembled(given, chat_model())
        assert [m["content"] for m in call.conversation] == ["Q\n\nlate", "a\nb"]
        assert (call.late_text, call.late_place) == ("\n\nlate", "after")

    def test_is_no_system_message_where_those_are_lifted(self):
        """Claude has one place for them."""
        given = parts(chat(3), late=LatePrompt("late", "system"))

        call = assembled(given, chat_model(lifts_system=True))
        assert call.conversation[-1]["content"] == "late\n\nu1"


class TestNextTurn:
    def test_begins_as_the_next_turn_will(self):
        """Whatever the length of the talk: what is read ahead is the beginning of the next prompt."""
        luck = random.Random(8)
        for _ in range(300):
            turns, count = luck.randint(1, 60), luck.randint(0, 20)
            messages = [said(m["role"], str(luck.random())) for m in chat(2 * turns - 1)]
            fields = {"lastMessagesToSendInsteadOfPrompt": count, "late": LatePrompt("late")}
            now = parts(messages, SteadyWindow(), **fields)
            later = parts([*messages, said("assistant", "A"), said("user", "new")], SteadyWindow(), **fields)

            ahead = assemble_next_turn(now, chat_model(), CallArguments, "A")
            sent = assembled(later, chat_model()).conversation
            assert ahead.conversation == sent[:-1]
            assert (ahead.late_text, sent[-1]["content"]) == ("", "new\n\nlate")

    @pytest.mark.parametrize("place", ["after", "before", "system"])
    def test_counts_the_late_prompt_that_it_leaves_out(self, place):
        """Else the clamp would let the window begin at another message than in the next turn."""
        messages = [said(m["role"], f"{m['content']} {'word ' * 12}") for m in chat(61)]
        late, clamp = LatePrompt("word " * 120, place), {"clampPromptToContextWindow": True}
        fields = {"late": late, "lastMessagesToSendInsteadOfPrompt": 60, **clamp}
        later = parts([*messages, said("assistant", "A"), said("user", "")], **fields)

        for size in range(1400, 3000, 100):
            model = chat_model(maxContextTokenSize=size)
            ahead = assemble_next_turn(parts(messages, **fields), model, CallArguments, "A")
            sent = assembled(later, model).conversation
            assert ahead.conversation == sent[: len(ahead.conversation)], size
            assert (ahead.conversation[-1]["content"], ahead.late_text, ahead.late_place) == ("A", "", "")

    @pytest.mark.parametrize("clamp", [False, True])
    def test_has_no_message_that_nobody_wrote(self, clamp):
        """The unknown one is left out again."""
        given = parts(chat(3), clampPromptToContextWindow=clamp)

        ahead = assemble_next_turn(given, chat_model(maxContextTokenSize=4000), CallArguments, "A")
        assert [m["content"] for m in ahead.conversation] == ["u0", "a0", "u1", "A"]
