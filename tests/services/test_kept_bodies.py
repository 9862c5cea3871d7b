"""How much of a client's body is kept, and that a picture in it is only its length. Source: workbench.md 16.16."""

from __future__ import annotations

import json

import pytest

from Middleware.api.requests.repeats import split_address, without_lost_pictures
from Middleware.services.kept_bodies import (
    ASKED_LIMIT,
    BODY_LIMIT,
    HEAD_BYTES,
    PICTURE_LIMIT,
    asked_to_hold,
    asked_to_keep,
    kept_body,
)

LARGE = "iVBORw0KGgo" * 10_000
SMALL = "iVBORw0KGgo" * 10


def body(*images, text="Look"):
    parts = [{"type": "image_url", "image_url": {"url": image}} for image in images]
    content = [{"type": "text", "text": text}, *parts]
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": content}]}).encode()


def test_the_limits_in_bytes():
    """As docs name them: 96 and 32 KB of a call, 1 MB of a client's body, pictures up to 64 KB."""
    assert (HEAD_BYTES, BODY_LIMIT - HEAD_BYTES, ASKED_LIMIT, PICTURE_LIMIT) == (
        96 * 1024,
        32 * 1024,
        1024**2,
        64 * 1024,
    )


@pytest.mark.parametrize("left_out", [0, 1, 5])
def test_of_a_long_body_the_beginning_and_the_end(left_out):
    """One that just fits is whole."""
    head, tail = b"h" * (96 * 1024), b"t" * (32 * 1024)
    assert kept_body(head + b"m" * left_out + tail) == (head + tail, left_out)


class TestHeld:
    @pytest.mark.parametrize("size", [0, BODY_LIMIT + 1, ASKED_LIMIT])
    def test_whole_and_no_copy(self, size):
        asked = b"x" * size
        kept, left_out = asked_to_hold(asked)
        assert kept is asked and left_out == 0

    def test_up_to_the_limit_with_its_pictures(self):
        """To the byte: it can be sent again as it was."""
        asked = body("A" * (ASKED_LIMIT - len(body(""))))
        assert len(asked) == ASKED_LIMIT and asked_to_hold(asked) == (asked, 0)

    def test_beyond_that_without_its_pictures(self):
        asked = body("data:image/png;base64," + "A" * ASKED_LIMIT)
        kept, left_out = asked_to_hold(asked)
        url = f"data:image/png;base64,[left out: {ASKED_LIMIT} characters]"
        assert kept == body(url) and left_out == 0

    @pytest.mark.parametrize("more", [0, 1])
    def test_what_just_fits_without_its_pictures_is_whole(self, more):
        """One byte more, and only its ends are held."""
        bare = body(f"[left out: {ASKED_LIMIT} characters]", text="")
        asked = body("A" * ASKED_LIMIT, text=" " * (ASKED_LIMIT - len(bare) + more))
        kept, left_out = asked_to_hold(asked)
        assert (len(kept), left_out) == ((BODY_LIMIT, len(asked) - BODY_LIMIT) if more else (ASKED_LIMIT, 0))

    def test_beyond_that_its_ends(self):
        kept, left_out = asked_to_hold(b"x y" * ASKED_LIMIT)
        assert (len(kept), left_out) == (BODY_LIMIT, 3 * ASKED_LIMIT - BODY_LIMIT)


class TestKept:
    @pytest.mark.parametrize("left_out", [1, 70_000])
    def test_what_was_cut_before_stays_as_it_is(self, left_out):
        """How much was left out is not forgotten."""
        cut = body(f"data:image/png;base64,{LARGE}")
        assert asked_to_keep(cut, left_out) == (cut, left_out)

    def test_a_large_picture_is_its_length(self):
        asked = body(f"data:image/png;base64,{LARGE}", f"data:image/png;base64,{SMALL}")
        kept, left_out = asked_to_keep(asked, 0)
        told = f"data:image/png;base64,[left out: {len(LARGE)} characters]"
        assert kept == body(told, f"data:image/png;base64,{SMALL}") and left_out == 0

    @pytest.mark.parametrize("form", [{"images": [LARGE]}, {"source": {"type": "base64", "data": LARGE}}])
    def test_pictures_of_other_protocols(self, form):
        """Ollama, KoboldCpp and Anthropic send them without `data:`."""
        kept = json.loads(asked_to_keep(json.dumps(form).encode(), 0)[0])
        assert LARGE not in json.dumps(kept) and "left out" in json.dumps(kept)

    def test_text_stays(self):
        """However long it is."""
        asked = body(text="a long story, " * 10_000)
        assert asked_to_keep(asked, 0) == (asked, 0)

    @pytest.mark.parametrize("extra", [0, 1])
    def test_the_limit(self, extra):
        asked = json.dumps({"images": ["A" * (PICTURE_LIMIT + extra)]}).encode()
        assert (asked_to_keep(asked, 0)[0] == asked) is (extra == 0)


class TestSentAgain:
    @pytest.mark.parametrize(
        ("sent", "left"),
        [
            ([{"type": "image_url", "image_url": {"url": "LOST"}}, {"type": "text"}], [{"type": "text"}]),
            ({"images": ["LOST", "abc"]}, {"images": ["abc"]}),
            ([{"type": "image", "source": {"data": "LOST"}}], []),
        ],
    )
    def test_without_the_pictures_that_were_not_kept(self, sent, left):
        mark = "data:image/png;base64,[left out: 5 characters]"
        asked = json.loads(json.dumps({"messages": [{"content": sent}]}).replace("LOST", mark))
        assert without_lost_pictures(asked) == ({"messages": [{"content": left}]}, 1)

    @pytest.mark.parametrize(
        ("path", "route"),
        [
            ("/v1/messages", ("/v1/messages", "")),
            ("/as/mira:novel/v1/messages", ("/v1/messages", "mira:novel")),
            ("/as/a%2Fb/api/chat", ("/api/chat", "a/b")),
        ],
    )
    def test_an_address_that_names_the_model(self, path, route):
        assert split_address(path) == route
