"""What is known of the prompts that a server was sent: how far a new one is the same (prompt-reuse.md 3.2)."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Middleware.services.held_prompts import (
    BLOCK_CHARS,
    MOST_CHARS,
    MOST_DIGESTS,
    MOST_PROMPTS,
    MOST_SERVERS,
    Comparison,
    HeldPrompts,
    PromptDigest,
    PromptPlace,
    held_prompts,
)

SERVER = ("http://127.0.0.1:8080", "big")
CARD = ("system", "c" * 1000)
FIRST = [CARD, ("user", "Hello")]
SECOND = [*FIRST, ("assistant", "Hi"), ("user", "How are you?")]


@pytest.fixture
def held():
    return HeldPrompts()


def recorded(held, *prompts):
    """What is said of the last of them, sent one after the other."""
    return [held.record(*SERVER, PromptDigest.of(parts)) for parts in prompts][-1]


class TestComparison:
    def test_the_first_prompt_is_compared_with_nothing(self, held):
        """Nothing was sent there before."""
        assert recorded(held, FIRST) == Comparison(compared=False, shared_chars=0, leaves=None)

    def test_a_prompt_that_goes_on_shares_all_of_the_one_before(self, held):
        """A chat that grows leaves the prompt before where that ended."""
        seen = recorded(held, FIRST, SECOND)
        assert (seen.compared, seen.shared_chars) == (True, 1005)
        assert seen.leaves == PromptPlace(3, 0, "assistant")

    def test_the_same_prompt_leaves_nowhere(self, held):
        """A call that is sent again is known whole."""
        seen = recorded(held, FIRST, FIRST)
        assert (seen.shared_chars, seen.leaves) == (1005, None)

    def test_a_prompt_that_is_the_beginning_of_another_leaves_nowhere(self, held):
        """A swipe after a longer prompt."""
        assert recorded(held, SECOND, FIRST)[1:3] == (1005, None)

    def test_a_change_inside_a_message_is_found_to_256_characters(self, held):
        """A clock in the system prompt."""
        seen = recorded(
            held,
            [("system", "a" * 600 + "12:04" + "b" * 600), ("user", "Hello")],
            [("system", "a" * 600 + "12:05" + "b" * 600), ("user", "Hello")],
        )
        assert (seen.shared_chars, seen.leaves) == (512, PromptPlace(1, 512, "system"))

    def test_what_stands_behind_a_change_is_not_shared(self, held):
        """Only beginnings count, however much is the same behind them."""
        assert recorded(held, [("system", "a"), *FIRST], [("system", "b"), *FIRST]).shared_chars == 0

    def test_another_role_is_another_message(self, held):
        """The same words of somebody else."""
        seen = recorded(held, [CARD, ("user", "Yes")], [CARD, ("assistant", "Yes")])
        assert (seen.shared_chars, seen.leaves) == (1000, PromptPlace(2, 0, "assistant"))

    def test_one_message_is_not_two(self, held):
        """Where a message ends belongs to what is compared."""
        whole, cut = "a" * BLOCK_CHARS + "b", [("user", "a" * BLOCK_CHARS), ("user", "b")]
        assert recorded(held, [("user", whole)], cut).leaves == PromptPlace(2, 0, "user")

    def test_the_best_of_the_last_is_taken(self, held):
        """Another node's prompt in between does not hide the one before."""
        assert recorded(held, FIRST, [("system", "other")], SECOND).shared_chars == 1005

    def test_one_that_was_sent_whole_before_leaves_nowhere(self, held):
        """However many longer ones begin with it."""
        seen = recorded(held, SECOND, SECOND, FIRST)
        assert (seen.shared_chars, seen.leaves) == (1005, None)

    def test_one_that_is_no_better_gives_way_to_a_newer_one(self, held):
        """What could have been shared is known of the one that was compared."""
        older = [*FIRST, ("assistant", "a" * 70), ("user", "Go on"), ("assistant", "So")]
        newer = [*FIRST, ("assistant", "b" * 40), ("user", "Go on"), ("assistant", "So")]
        seen = recorded(held, older, newer, [("system", "other")], [*FIRST, ("assistant", "c")])
        assert (seen.shared_chars, seen.expected_chars) == (1005, 1045)

    def test_tools_are_the_first_message(self, held):
        """Templates write them in front: other tools, nothing shared."""
        seen = recorded(held, [("tools", "[1]"), *FIRST], [("tools", "[2]"), *FIRST])
        assert (seen.shared_chars, seen.leaves) == (0, PromptPlace(0, 0, "tools"))

    def test_a_flat_prompt_is_one_message(self, held):
        """Completions backends get one text."""
        seen = recorded(held, [("prompt", "a" * 700)], [("prompt", "a" * 700 + "b")])
        assert (seen.shared_chars, seen.leaves) == (512, PromptPlace(1, 512, "prompt"))

    def test_what_was_expected_is_the_best_one_but_for_its_last_two_messages(self, held):
        """What a next turn should share at least."""
        long = [CARD, ("user", "u" * 300), ("assistant", "a" * 40), ("user", "Go on")]
        assert recorded(held, long, [("system", "other")]).expected_chars == 1300

    @pytest.mark.parametrize("parts", [[], [("user", "")]], ids=["nothing", "an empty message"])
    def test_an_empty_prompt_shares_nothing(self, held, parts):
        """Nor does anything share with it."""
        assert recorded(held, parts, FIRST)[:2] == (True, 0)
        assert recorded(held, parts).shared_chars == 0

    def test_a_very_long_prompt_is_compared_up_to_a_limit(self, held):
        """The rest of it counts as new."""
        long = [("user", "a" * (MOST_CHARS + 5000))]
        digest = PromptDigest.of(long)
        assert (digest.chars, recorded(held, long, long).shared_chars) == (MOST_CHARS + 5000, MOST_CHARS)

    @pytest.mark.parametrize(
        ("before", "shared"),
        [
            (MOST_CHARS - 300, MOST_CHARS - 300 + 512),
            (MOST_CHARS, MOST_CHARS + 256),
            (MOST_CHARS + 1, MOST_CHARS),
        ],
        ids=["the last blocks are whole", "a message that begins at the limit", "one behind it"],
    )
    def test_the_limit_may_be_inside_any_message(self, held, before, shared):
        """What is compared ends with a block."""
        long = [("system", "a" * before), ("user", "b" * 5000), ("assistant", "c")]
        other = [("system", "a" * before), ("user", "b" * 5000), ("assistant", "d")]
        assert recorded(held, other, long).shared_chars == shared

    @given(
        st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.text("ab", max_size=600))), st.data()
    )
    def test_it_is_the_common_beginning(self, parts, data):
        """Of any two prompts: never more than they share, and less by under 256 characters."""
        kept = data.draw(st.integers(0, len(parts)))
        other = parts[:kept] + data.draw(st.lists(st.tuples(st.just("user"), st.text("ab", max_size=600))))
        held = HeldPrompts()
        seen = recorded(held, other, parts)
        common = common_chars(other, parts)
        assert common - BLOCK_CHARS < seen.shared_chars <= common


def common_chars(one, other):
    """Characters at the beginning that two prompts share, message by message."""
    shared = 0
    for (role, text), (other_role, other_text) in zip(one, other, strict=False):
        if role != other_role:
            break
        same = next(
            (at for at, pair in enumerate(zip(text, other_text, strict=False)) if len(set(pair)) > 1), None
        )
        shared += min(len(text), len(other_text)) if same is None else same
        if text != other_text:
            break
    return shared


class TestWhoChooses:
    def test_asking_records_nothing(self, held):
        """A server that was only asked about has not been sent the prompt."""
        prompt = PromptDigest.of(FIRST)
        assert held.shared_chars(*SERVER, prompt) == 0
        assert held.record(*SERVER, prompt).compared is False

    def test_each_address_has_its_own(self, held):
        """Whoever was sent the chat before is the one that holds it."""
        held.record("http://a", "big", PromptDigest.of(FIRST))
        held.record("http://b", "big", PromptDigest.of([CARD, ("user", "Another chat")]))
        prompt = PromptDigest.of(SECOND)
        assert [held.shared_chars(address, "big", prompt) for address in ("http://a", "http://b")] == [
            1005,
            1000,
        ]

    def test_an_address_is_one_with_and_without_its_last_slash(self, held):
        """As people write it."""
        held.record("http://a/", "big", PromptDigest.of(FIRST))
        assert held.shared_chars("http://a", "big", PromptDigest.of(FIRST)) == 1005

    def test_each_model_has_its_own(self, held):
        """Two models of one address share nothing."""
        held.record("http://a", "big", PromptDigest.of(FIRST))
        assert held.shared_chars("http://a", "small", PromptDigest.of(FIRST)) == 0

    @pytest.mark.parametrize(
        ("parts", "head"),
        [
            ([("tools", "[1]"), ("system", "card"), ("user", "Hello"), ("system", "late")], 7),
            ([("user", "Hello")], 0),
            ([("system", "card")], 4),
            ([("developer", "card"), ("system", "more"), ("assistant", "Hello")], 8),
            ([], 0),
        ],
        ids=["tools and system", "no system", "system alone", "developer", "nothing"],
    )
    def test_the_head_is_what_many_chats_may_share(self, parts, head):
        """Tools and the system messages in front."""
        assert PromptDigest.of(parts).head_chars == head


class TestLimits:
    def test_in_numbers(self):
        """Blocks of 256 characters, of a prompt four million; eight prompts of 64 servers, a million digests."""
        assert (BLOCK_CHARS, MOST_CHARS) == (256, 4 * 1024 * 1024)
        assert (MOST_PROMPTS, MOST_SERVERS, MOST_DIGESTS) == (8, 64, 1_000_000)

    def test_the_last_eight_prompts_are_known(self, held):
        """The ninth pushes the first out."""
        for at in range(MOST_PROMPTS + 1):
            recorded(held, [("user", f"{at} says hello")])
        known = [held.shared_chars(*SERVER, PromptDigest.of([("user", f"{at} says hello")])) for at in (0, 1)]
        assert known == [0, 12]

    def test_the_server_that_was_not_used_for_longest_goes(self, held):
        """One that is used again stays."""
        prompt = PromptDigest.of(FIRST)
        for at in range(MOST_SERVERS):
            held.record(f"http://{at}", "big", prompt)
        held.record("http://0", "big", prompt)
        held.record("http://new", "big", prompt)
        assert [held.compare(f"http://{at}", "big", prompt).compared for at in (0, 1, 2)] == [
            True,
            False,
            True,
        ]

    def test_all_prompts_together_have_a_limit(self, held):
        """The oldest prompts of the server that was not used for longest go first."""
        large = PromptDigest.of([("user", "")] * (MOST_DIGESTS // MOST_PROMPTS))
        for at in range(MOST_PROMPTS + 2):
            held.record(f"http://{at}", "big", large)
        known = [held.compare(f"http://{at}", "big", large).compared for at in range(3)]
        assert known == [False, False, True]

    def test_a_prompt_of_very_many_messages_is_compared_up_to_a_limit(self):
        """No prompt pushes all others out."""
        assert len(PromptDigest.of([("user", "a")] * 200_000).digests) == MOST_DIGESTS // MOST_PROMPTS

    def test_no_text_is_kept(self):
        """Numbers alone: private users have them too."""
        assert PromptDigest.of(FIRST).digests.typecode == "q"

    @pytest.mark.parametrize("role", ["system", "developer", "user", "assistant", "tool"])
    def test_a_role_of_the_protocols_is_told(self, held, role):
        assert recorded(held, [CARD], [CARD, (role, "Hello")]).leaves == PromptPlace(2, 0, role)

    def test_a_role_that_a_client_made_up_is_not_kept(self, held):
        """It may be a text like any other."""
        seen = recorded(held, [CARD], [CARD, ("my secret", "Hello")])
        assert seen.leaves == PromptPlace(2, 0, "")


class TestForgetting:
    def test_one_that_did_not_get_there(self, held):
        """The others are still known."""
        held.record("http://a", "big", PromptDigest.of(FIRST))
        lost = PromptDigest.of(SECOND)
        held.record("http://a", "big", lost)
        held.forget("http://a", "big", lost)
        seen = held.compare("http://a", "big", lost)
        assert seen.compared and seen.shared_chars < lost.chars

    @pytest.mark.parametrize("one", [True, False], ids=["its-only-prompt", "all"])
    def test_a_server_that_is_gone(self, held, one):
        """It holds nothing; the same model elsewhere does, and there is room again."""
        prompt = PromptDigest.of(FIRST)
        for address in ("http://a", "http://b"):
            held.record(address, "big", prompt)
        for _ in range(2):
            held.forget("http://a", "big", prompt if one else None)
        assert [held.compare(f"http://{at}", "big", prompt).compared for at in "ab"] == [False, True]


def test_threads_may_record_at_once(held):
    """Nothing is lost or broken, whatever the order."""
    prompt, faults = PromptDigest.of(FIRST), []

    def send(at):
        try:
            for turn in range(200):
                held.record(f"http://{(at + turn) % (MOST_SERVERS + 4)}", "big", prompt)
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=send, args=(at,)) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert recorded(held, FIRST, SECOND).shared_chars == 1005


def test_the_process_has_one():
    """All calls are held against each other."""
    assert held_prompts() is held_prompts()
