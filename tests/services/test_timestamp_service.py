"""Timestamps of messages: tracked, written in, told in words."""

from __future__ import annotations

import errno
from datetime import datetime, timedelta

import pytest

from Middleware.services import discussion_store
from Middleware.services.discussion_store import DiscussionStore
from Middleware.services.timestamp_service import (
    PLACEHOLDER,
    RequestStamps,
    generation_prompt,
    resolve_placeholder,
    save_placeholder,
    time_context_summary,
    track,
    write_stamps,
)
from Middleware.utilities.datetime_utils import format_stamp, parse_stamp
from Middleware.utilities.hashing_utils import message_hash, text_hash

NOW = datetime(2026, 3, 5, 19, 9, 41)
STAMP = "(Thursday, 2026-03-05 19:09:41)"


def at(seconds: int) -> str:
    return format_stamp(NOW + timedelta(seconds=seconds))


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict:
    return {"role": "assistant", "content": text}


@pytest.fixture
def store(tmp_path):
    return DiscussionStore(tmp_path / "d", "talk", install=tmp_path / "install")


@pytest.fixture
def stamps(store):
    """Read the file, put known stamps into it."""

    class File:
        def read(self):
            return store.read_json("timestamps.json", {})

        def put(self, **known):
            store.update_json("timestamps.json", lambda _: known)

        def of(self, message):
            return self.read().get(message_hash(message))

    return File()


def clock() -> datetime:
    return NOW


@pytest.mark.parametrize(
    ("content", "prompt"),
    [
        ("Roland:", "Roland:"),
        ("  Mary Ann: \n", "Mary Ann:"),
        ("x" * 98 + ":", "x" * 98 + ":"),
        ("x" * 99 + ":", None),
        ("hello", None),
        ("", None),
    ],
    ids=["name", "blanks-around", "99-characters", "100-characters", "no-colon", "empty"],
)
def test_a_generation_prompt_is_short_and_ends_in_a_colon(content, prompt):
    """Whatever its role."""
    assert generation_prompt([user("hi"), assistant(content)]) == prompt


def test_no_messages_have_no_generation_prompt():
    assert generation_prompt([]) is None


class TestTracking:
    """Each message gets its time once."""

    def test_unknown_messages_go_back_by_seconds_from_now(self, store, stamps):
        rules, more = {"role": "System", "content": "rules"}, {"role": "systemmes", "content": "more"}
        talk = [rules, user("one"), more, assistant("two"), user("three")]
        track(store, talk, bind_placeholder=True, clock=clock)
        assert [stamps.of(m) for m in talk] == [None, at(-2), None, at(-1), at(0)]

    def test_a_known_time_stays_and_is_the_anchor_of_older_ones(self, store, stamps):
        one, two, three = user("one"), assistant("two"), user("three")
        stamps.put(**{message_hash(two): at(-500)})
        track(store, [one, two, three], bind_placeholder=True, clock=clock)
        assert [stamps.of(m) for m in (one, two, three)] == [at(-501), at(-500), at(0)]

    def test_an_unreadable_stamp_does_not_move_the_anchor(self, store, stamps):
        one, two = user("one"), user("two")
        stamps.put(**{message_hash(two): "soon"})
        track(store, [one, two], bind_placeholder=True, clock=clock)
        assert stamps.of(one) == at(-1) and stamps.of(two) == "soon"

    def test_the_first_second_of_all_is_no_trouble(self, store, stamps):
        """A damaged file may say so; older messages get a time all the same."""
        one, two = user("one"), user("two")
        store.update_json("timestamps.json", lambda _: {message_hash(two): "(Monday, 0001-01-01 00:00:00)"})
        track(store, [one, two], bind_placeholder=True, clock=clock)
        older = store.read_json("timestamps.json", {})[message_hash(one)]
        assert parse_stamp(older) == datetime(1899, 12, 31, 23, 59, 59)

    def test_roles_that_are_silent_and_a_generation_prompt_get_no_time(self, store, stamps):
        talk = [{"role": "systemMes", "content": "s"}, user("hi"), assistant("Roland:")]
        track(store, talk, bind_placeholder=True, clock=clock)
        assert stamps.read() == {message_hash(talk[1]): at(0)}

    def test_nothing_new_writes_nothing(self, store, monkeypatch):
        track(store, [user("hi")], bind_placeholder=True, clock=clock)
        monkeypatch.setattr(DiscussionStore, "_write", None)
        track(store, [user("hi")], bind_placeholder=True, clock=clock)

    def test_a_damaged_file_form_counts_as_empty(self, store, stamps):
        store.update_json("timestamps.json", lambda _: ["no", "object"])
        track(store, [user("hi")], bind_placeholder=True, clock=clock)
        assert stamps.read() == {message_hash(user("hi")): at(0)}


class TestPlaceholder:
    """The time at which an answer began, until the answer is known."""

    def test_it_goes_to_the_newest_assistant_message(self, store, stamps):
        stamps.put(**{PLACEHOLDER: at(-90)})
        talk = [assistant("old"), user("q"), assistant("answer {x}"), user("next"), user("Roland:")]
        track(store, talk, bind_placeholder=True, clock=clock)
        assert stamps.of(talk[2]) == at(-90)
        assert PLACEHOLDER not in stamps.read()

    def test_a_known_message_keeps_its_time_and_the_placeholder_goes(self, store, stamps):
        known = assistant("known")
        stamps.put(**{PLACEHOLDER: at(-90), message_hash(known): at(-700)})
        track(store, [user("q"), known], bind_placeholder=True, clock=clock)
        assert stamps.of(known) == at(-700) and PLACEHOLDER not in stamps.read()

    def test_without_an_assistant_message_it_just_goes(self, store, stamps):
        stamps.put(**{PLACEHOLDER: at(-90)})
        track(store, [user("q")], bind_placeholder=True, clock=clock)
        assert stamps.read() == {message_hash(user("q")): at(0)}

    def test_it_is_exchanged_for_the_hash_of_the_answer(self, store, stamps):
        save_placeholder(store, clock=clock)
        resolve_placeholder(store, "an {answer}", clock=lambda: NOW + timedelta(hours=1))
        assert stamps.read() == {text_hash("an {answer}"): at(0)}

    def test_an_empty_answer_only_removes_it(self, store, stamps):
        save_placeholder(store, clock=clock)
        resolve_placeholder(store, "", clock=clock)
        assert stamps.read() == {}

    def test_without_one_the_answer_is_from_now(self, store, stamps):
        resolve_placeholder(store, "answer", clock=clock)
        assert stamps.read() == {text_hash("answer"): at(0)}


class TestWriting:
    """What a node with the flag sees."""

    def test_stamps_stand_before_the_content_of_a_copy(self, store):
        talk = [{"role": "system", "content": "rules"}, user("hi"), assistant("Roland:")]
        track(store, talk, bind_placeholder=True, clock=clock)
        seen = write_stamps(store, talk, relative=False, clock=clock)
        assert [m["content"] for m in seen] == ["rules", f"{STAMP} hi", "Roland:"]
        assert talk[1]["content"] == "hi"

    def test_the_relative_form(self, store):
        track(store, [user("hi")], bind_placeholder=True, clock=clock)
        later = NOW + timedelta(days=2, hours=1)
        seen = write_stamps(store, [user("hi")], relative=True, clock=lambda: later)
        assert seen[0]["content"] == "[Sent 2 days, 1 hour ago] hi"

    def test_a_message_that_has_its_stamp_already_is_left(self, store, stamps):
        message = user(f"{STAMP} hi")
        stamps.put(**{message_hash(message): STAMP})
        assert write_stamps(store, [message], relative=False, clock=clock) == [message]

    @pytest.mark.parametrize("relative", [True, False])
    def test_a_message_without_a_time_is_left(self, store, relative):
        assert write_stamps(store, [user("hi")], relative=relative, clock=clock) == [user("hi")]

    @pytest.mark.parametrize("stamp", [7, ["x"], None, ""], ids=str)
    def test_what_is_no_text_is_no_stamp(self, store, stamps, stamp):
        """A file that was edited by hand."""
        stamps.put(**{message_hash(user("hi")): stamp})
        assert write_stamps(store, [user("hi")], relative=False, clock=clock) == [user("hi")]

    def test_a_message_without_content_is_its_stamp(self, store, stamps):
        call = {"role": "assistant", "content": None}
        stamps.put(**{message_hash(call): STAMP})
        (seen,) = write_stamps(store, [call], relative=False, clock=clock)
        assert seen["content"] == f"{STAMP} "

    def test_an_unreadable_stamp_shows_as_nothing_in_words(self, store, stamps):
        stamps.put(**{message_hash(user("hi")): "soon"})
        assert write_stamps(store, [user("hi")], relative=True, clock=clock) == [user("hi")]

    def test_stamps_of_a_caller_are_written_afresh_and_not_tracked_again(self, store, stamps):
        track(store, [user("hi")], bind_placeholder=True, clock=clock)
        before = stamps.read()
        outer = write_stamps(store, [user("hi")], relative=False, clock=clock)
        track(store, outer, bind_placeholder=False, clock=lambda: NOW + timedelta(hours=3))
        assert stamps.read() == before
        inner = write_stamps(store, outer, relative=True, clock=lambda: NOW + timedelta(hours=3))
        assert inner[0]["content"] == "[Sent 3 hours ago] hi"


class TestSummary:
    """When the conversation began and when its newest message came."""

    def test_no_data_no_text(self, store, stamps):
        assert time_context_summary(store, clock=clock) == ""
        stamps.put(**{PLACEHOLDER: at(-90), "x": "unreadable"})
        assert time_context_summary(store, clock=clock) == ""

    def test_one_moment(self, store, stamps):
        stamps.put(a=at(-3600))
        assert (
            time_context_summary(store, clock=clock) == "[Time Context: The conversation started 1 hour ago.]"
        )

    def test_two_moments(self, store, stamps):
        stamps.put(a=at(-60), b=at(-86400), c=at(-300), **{PLACEHOLDER: at(-999999)})
        assert time_context_summary(store, clock=clock) == (
            "[Time Context: This conversation started 1 day ago. The most recent message was sent 1 minute ago.]"
        )


def errors(caplog):
    """What the log has at ERROR."""
    return [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]


class TestOneRequest:
    """Nested runs share one `RequestStamps`."""

    def test_a_placeholder_of_this_request_is_never_bound_to_an_old_message(self, store, stamps):
        request, talk = RequestStamps(store, clock), [assistant("old"), user("q")]
        request.track(talk)
        request.begin_answer()
        request.track([*talk, assistant("invented by a child")])
        assert stamps.read()[PLACEHOLDER] == at(0)

    def test_an_answer_begins_once_and_ends_once(self, store, stamps):
        times = iter([NOW, NOW + timedelta(seconds=5), NOW + timedelta(seconds=9)])
        request = RequestStamps(store, lambda: next(times))
        request.begin_answer()
        request.begin_answer()
        request.finish_answer("inner")
        request.finish_answer("outer")
        assert stamps.read() == {text_hash("inner"): at(0)}

    def test_it_writes_and_tells(self, store):
        request = RequestStamps(store, clock)
        request.track([user("hi")])
        assert request.write([user("hi")], relative=False)[0]["content"] == f"{STAMP} hi"
        assert request.time_context_summary().startswith("[Time Context: The")

    def test_a_disk_that_keeps_nothing_costs_one_line_of_the_log(self, store, monkeypatch, caplog):
        """The answer is worth more than its time."""

        def full_disk(*given, **named):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(discussion_store, "atomic_write", full_disk)
        request = RequestStamps(store, clock)
        request.track([user("hi")])
        request.begin_answer()
        request.finish_answer("hello")
        assert errors(caplog) == ["the times of messages could not be saved: No space left on device"]

    @pytest.mark.parametrize("step", ["begin", "finish"])
    def test_so_does_one_that_does_not_keep_when_an_answer_began(self, store, monkeypatch, caplog, step):
        """Tried once, as any answer begins and ends once."""
        tries = []

        def full_disk(*given, **named):
            tries.append(given)
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(discussion_store, "atomic_write", full_disk)
        request = RequestStamps(store, clock)
        for _ in range(2):
            request.begin_answer() if step == "begin" else request.finish_answer("hello")
        assert errors(caplog) == ["the time of an answer could not be saved: No space left on device"]
        assert len(tries) == 1

    def test_a_disk_that_gives_nothing_does_too(self, store, monkeypatch, caplog):
        """The messages go out without times."""

        def broken_disk(path):
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(discussion_store, "_bytes", broken_disk)
        request = RequestStamps(store, clock)
        assert request.write([user("hi")], relative=False) == [user("hi")]
        assert request.time_context_summary() == ""
        assert errors(caplog) == ["the times of messages cannot be read: Input/output error"]
