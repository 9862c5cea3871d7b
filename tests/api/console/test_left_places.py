"""Where a prompt left the one before: words and placeholder (prompt-reuse.md 3.2)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Middleware.api.console.left_places import left_json, left_place, placeholder_at
from Middleware.llmapis.call.sent_prompt import digest_payload
from Middleware.services.held_prompts import HeldPrompts
from Middleware.services.kept_bodies import kept_body
from Middleware.workflows.variables.format_text import FilledText, Origin, Piece
from tests.api.console.traced import call_of, node_of, run_of

URL = "http://h:1/v1/chat/completions"
TEMPLATE = "You are {name}, the keeper of a lighthouse. It is now {time} o'clock and the lamp is {lamp}."
FILLER = "The sea is grey. " * 40


def payload(system, *turns, **more):
    messages = [{"role": "system", "content": system}]
    messages += [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(turns)]
    return {"model": "m", "messages": messages, **more}


class House:
    """Runs of one call each, in the order in which they were sent, as a server keeps them."""

    def __init__(self):
        self.runs, self._held, self._sent = [], HeldPrompts(), 0.0

    def send(self, sent, *, fields=None, secrets=(), private=False):
        """`(run, node, call)`."""
        self._sent += 1.0
        prompt = digest_payload(sent)
        seen = self._held.record("h", "big-32b", prompt)
        call = call_of(url=URL, sent=self._sent, secrets=secrets)
        call.note_prompt(prompt.chars, seen)
        if not private:
            call.body, call.body_left_out = kept_body(json.dumps(sent).encode())
        node = node_of(1, "", call, fields=fields or {})
        run = run_of(node, keeps_text=not private)
        self.runs.insert(0, run)
        return run, node, call

    def place(self, *sent, **facts):
        """Of the last of these payloads."""
        for one in sent[:-1]:
            self.send(one, **facts)
        return left_place(self.runs[:], *self._last(sent[-1], facts))

    def _last(self, sent, facts):
        run, node, call = self.send(sent, **facts)
        return run, node, call


@pytest.fixture
def house():
    return House()


def at(clock, before=FILLER, behind=FILLER):
    return payload(f"{before}It is now {clock} and the lamp is lit. {behind}", "Hello")


class TestWords:
    def test_ten_words_and_what_differs(self, house):
        """And what stood there before."""
        place = house.place(at("12:04"), at("12:05"))
        assert left_json(place) == {
            "message": 1,
            "character": len(FILLER) + len("It is now 12:0"),
            "exact": True,
            "before": "is grey. It is now ",
            "differs": "12:05 ",
            "after": "and the lamp is lit. ",
            "was": "12:04 ",
            "placeholder": None,
        }

    def test_where_the_one_before_ended(self, house):
        """Nothing stood there."""
        first = payload("card", "Hello")
        place = house.place(first, payload("card", "Hello", "Hi", "How are you?"))
        assert (place.message, place.character, place.differs, place.was) == (3, 0, "Hi", "")

    def test_a_window_that_moved(self, house):
        """Another message stands there."""
        place = house.place(payload("card", "One two", "three"), payload("card", "three", "four"))
        assert (place.message, place.was, place.differs) == (2, "One two", "three")

    def test_a_long_difference_is_shortened(self, house):
        """No more than ten words of either side."""
        place = house.place(payload("a " * 50), payload("b " * 50))
        assert (place.differs, place.was) == ("b " * 10 + "…", "a " * 10 + "…")

    def test_tools(self, house):
        """They are before the first message."""
        one, other = (payload("card", "Hello", tools=[{"name": name}]) for name in ("look", "listen"))
        place = house.place(one, other)
        assert (place.message, place.differs) == (0, '[{"name":"listen"}]')

    def test_a_flat_prompt(self, house):
        """The place counts in the one text."""
        one, other = ({"prompt": f"{FILLER}now {clock} and"} for clock in ("12:04", "12:05"))
        place = house.place(one, other)
        assert (place.message, place.differs, place.was) == (1, "12:05 ", "12:04 ")

    def test_the_best_of_the_prompts_before(self, house):
        """As it was compared."""
        place = house.place(at("12:04"), payload("something else"), at("12:05"))
        assert place.was == "12:04 "

    def test_of_another_server_nothing_is_known(self, house):
        """The one that it was compared with is not kept: words around the 256 characters, nothing marked."""
        house.send(at("12:04"))
        run, node, call = house.send(at("12:05"))
        place = left_place([run], run, node, call)
        assert (place.is_exact, place.differs, place.was) == (False, "", "")
        assert place.character == call.leaves.character and place.before and place.after

    @pytest.mark.parametrize("tail", [0, 1, 2, 3, 40])
    def test_of_a_body_that_lost_its_middle(self, house, tail):
        """Its beginning still tells, wherever it was cut."""
        long = '\u00e4 \\ " \n \u2028' * 30_000 + "x" * tail
        place = house.place(payload("now 12:04 and then", long), payload("now 12:05 and then", long))
        assert (place.differs, place.was) == ("12:05 ", "12:04 ")

    def test_a_place_that_was_left_out(self, house):
        """Of a body that lost its middle."""
        long = "word " * 60_000
        assert house.place(payload("card", long, "12:04"), payload("card", long, "12:05")) is None

    def test_words_are_left_out_where_a_secret_stands(self, house):
        """Half of one would be shown."""
        place = house.place(
            at("12:04", behind="key hunter2-hunter2"), at("12:05"), secrets=("hunter2-hunter2",)
        )
        assert (place.before, place.differs, place.after, place.was) == ("", "", "", "")

    def test_of_a_private_run(self, house):
        """There are no texts."""
        assert house.place(at("12:04"), at("12:05"), private=True) is None

    def test_of_a_prompt_that_leaves_nowhere(self, house):
        assert house.place(at("12:04"), at("12:04")) is None

    def test_of_a_body_that_is_no_json(self, house):
        """A tool's, or one that is broken."""
        run, node, call = house.send(at("12:04"))
        call.body = b"{"
        assert left_place(house.runs, run, node, call) is None


def filled(**values):
    return TEMPLATE.format(**{"name": "Ada", "time": "12:04", "lamp": "lit", **values})


class TestPlaceholder:
    @pytest.mark.parametrize(
        ("before", "now", "name"),
        [
            ({}, {"time": "12:05"}, "{time}"),
            ({}, {"lamp": "out"}, "{lamp}"),
            ({}, {"name": "Bea"}, "{name}"),
            ({"lamp": "lit and warm"}, {"lamp": "lit"}, "{lamp}"),
            ({}, {"lamp": "lit. It is now night"}, ""),
        ],
        ids=[
            "inside",
            "the last",
            "the first",
            "one that became shorter",
            "one that goes on like the template",
        ],
    )
    def test_the_one_that_gave_the_text(self, house, before, now, name):
        """As far as that is sure."""
        place = house.place(
            payload(filled(**before)), payload(filled(**now)), fields={"systemPrompt": TEMPLATE}
        )
        assert place.placeholder == name

    @pytest.mark.parametrize(
        ("template", "text", "span"),
        [
            ("a {x} b", "a 1 c", (2, 2)),
            ("{x}{y}", "12", (1, 1)),
            ("a {x} b {y} b {z}", "a 1 b 2 b b 3", (8, 8)),
            ("a {x} b", "a 1 b", (0, 0)),
            ("no placeholder", "no placeholder", (3, 3)),
            ("a {{x}} b", "a {x} b", (3, 3)),
        ],
        ids=[
            "another text",
            "two that touch",
            "a literal that may stand in two places",
            "a literal",
            "none",
            "doubled braces",
        ],
    )
    def test_none_where_it_is_not_sure(self, template, text, span):
        assert placeholder_at(template, text, span, whole=True, same=True) == ""

    def test_a_part_of_a_message_has_no_name_at_its_open_end(self):
        """A late prompt stands behind the user's own words."""
        assert placeholder_at("{memories}", "my words\n\nold things", (3, 3), whole=False, same=True) == ""
        told = placeholder_at("Now {time}!", "my words\n\nNow 12:05!", (16, 16), whole=False, same=True)
        assert told == "{time}"

    def test_where_another_template_was_before(self):
        """What follows the placeholder may be what differs."""
        assert placeholder_at("a {x} b", "a 1 b", (3, 3), whole=True, same=False) == ""

    @given(st.lists(st.text("ab ", max_size=6), min_size=2, max_size=4), st.data())
    def test_it_is_never_a_wrong_one(self, values, data):
        """Whatever the values hold, literals of the template included: the one named gave the text."""
        literals = [data.draw(st.text("ab", min_size=1, max_size=3)) for _ in values]
        template = "".join(f"{literal}{{v{at}}}" for at, literal in enumerate(literals))
        text, spans = "", []
        for literal, value in zip(literals, values, strict=True):
            text += literal
            spans.append((len(text), len(text) + len(value)))
            text += value
        place = data.draw(st.integers(0, len(text)))
        told = placeholder_at(template, text, (place, place), whole=True, same=True)
        assert told in {"", *(f"{{v{at}}}" for at, (start, end) in enumerate(spans) if start <= place <= end)}

    @pytest.mark.parametrize(
        ("fields", "sent", "name"),
        [
            ({"prompt": "Say {what} now"}, [payload("card", f"Say {word} now") for word in "ab"], "{what}"),
            (
                {"latePrompt": "It is {time} now."},
                [payload("card", f"Hello\n\nIt is {word} now.") for word in "ab"],
                "{time}",
            ),
            (
                {"systemPrompt": "Be {mood} always"},
                [{"prompt": f"<s>Be {word} always</s>Hello"} for word in "ab"],
                "{mood}",
            ),
            (
                {"systemPrompt": "{chat_system_prompt}"},
                [payload("card"), payload("cart")],
                "{chat_system_prompt}",
            ),
            ({"systemPrompt": "{a}", "jinja2": True}, [payload("card"), payload("cart")], ""),
            ({"systemPrompt": "{a}"}, [payload("card", "b"), payload("card", "c")], ""),
        ],
        ids=["prompt", "late prompt", "flat", "the client's", "a Jinja template", "another message"],
    )
    def test_which_field_it_is_of(self, house, fields, sent, name):
        assert house.place(*sent, fields=fields).placeholder == name

    def test_a_field_that_a_parent_filled(self, house):
        """Its placeholders are gone; what looks like one is text."""
        field = FilledText.of([Piece("Be ", Origin.AUTHORED), Piece("{kind}", Origin.RUN)])
        place = house.place(payload("Be {kind}"), payload("Be {kinx}"), fields={"systemPrompt": field})
        assert place.placeholder == ""

    def test_without_the_prompt_before(self, house):
        """The whole of the 256 characters must be of one placeholder."""
        house.send(payload("a " * 400))
        run, node, call = house.send(payload("a " * 200 + "b " * 300), fields={"systemPrompt": "{card}"})
        assert left_place([run], run, node, call).placeholder == "{card}"
