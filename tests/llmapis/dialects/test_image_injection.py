"""Images are shaped for each backend from their source texts; nothing is fetched or read."""

from __future__ import annotations

import base64

import pytest

from Middleware.common.request_context import RequestContext, enter_request
from Middleware.llmapis.dialects.image_injection import (
    UNREADABLE_NOTE,
    bare_base64,
    bare_images,
    base64_format,
    claude_image,
    content_parts,
    image_format,
    openai_image,
    with_images,
)
from Middleware.utilities.sensitive_logging_utils import REDACTED

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(91)).decode()
NOISE = base64.b64encode(bytes(99)).decode()


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"\x89PNG\r\n\x1a\n", "png"),
        (b"\xff\xd8\xff\xe0", "jpeg"),
        (b"GIF87a", "gif"),
        (b"GIF89a", "gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "webp"),
        (b"BM\x00", "bmp"),
        (b"II*\x00", "tiff"),
        (b"MM\x00*", "tiff"),
        (b"\x00\x00\x00\x1cftypavif", "avif"),
        (b"\x00\x00\x00\x1cftypisom", None),
        (b"RIFF\x00\x00\x00\x00WAVE", None),
        (b"hello", None),
        (b"", None),
    ],
)
def test_format_from_magic_bytes(head, name):
    """No imaging library looks at the data."""
    assert image_format(head) == name


class TestOpenAi:
    @pytest.mark.parametrize(
        ("source", "url"),
        [
            pytest.param("data:image/png;base64,AAAA", "data:image/png;base64,AAAA", id="data-uri-as-it-is"),
            pytest.param("https://h/a.png", "https://h/a.png", id="web-url-is-passed"),
            pytest.param(PNG, f"data:image/png;base64,{PNG}", id="bare-base64-gets-its-prefix"),
        ],
    )
    def test_used(self, source, url):
        """As an `image_url` part."""
        assert openai_image(source) == {"type": "image_url", "image_url": {"url": url}}

    def test_what_is_no_base64_has_no_format(self):
        """Also when somebody asks."""
        assert base64_format("!!!!") is None

    @pytest.mark.parametrize(
        "source",
        [
            pytest.param("file:///etc/passwd", id="file"),
            pytest.param("http://", id="no-host"),
            pytest.param("http://[bad", id="no-url"),
            pytest.param(PNG[:96], id="too-short"),
            pytest.param(PNG + "A", id="length-no-multiple-of-four"),
            pytest.param(NOISE, id="no-image"),
            pytest.param("=" * 100, id="no-base64"),
            pytest.param("x y" * 60, id="text"),
        ],
    )
    def test_skipped_with_a_warning(self, source, caplog):
        """At most a hundred characters of it are shown."""
        assert openai_image(source) is None
        assert source[:100] in caplog.text
        assert source[:101] not in caplog.text or len(source) <= 100


class TestClaude:
    @pytest.mark.parametrize(
        ("source", "block"),
        [
            ("data:image/gif;base64,QQ==", {"type": "base64", "media_type": "image/gif", "data": "QQ=="}),
            ("https://h/a", {"type": "url", "url": "https://h/a"}),
            (PNG, {"type": "base64", "media_type": "image/png", "data": PNG}),
            (NOISE, {"type": "base64", "media_type": "image/jpeg", "data": NOISE}),
        ],
    )
    def test_used(self, source, block):
        """As an `image` block with its source."""
        assert claude_image(source) == {"type": "image", "source": block}

    @pytest.mark.parametrize("source", ["data:text/plain;base64,QQ==", "file://a", "abc"])
    def test_skipped(self, source, caplog):
        """Other data URIs are no images."""
        assert claude_image(source) is None
        assert "image was skipped" in caplog.text

    def test_a_private_source_is_not_told(self, caplog):
        """Only that an image was skipped."""
        with enter_request(RequestContext("r1", "ana", "openaichatcompletion", privacy=True)):
            assert claude_image("file:///SECRET.png") is None
        assert REDACTED in caplog.text
        assert "SECRET" not in caplog.text


class TestBare:
    @pytest.mark.parametrize(
        ("source", "data"),
        [
            ("data:image/png;base64,AAAA", "AAAA"),
            ("DATA:image/png;BASE64,AAAA", "AAAA"),
            ("QUJD", "QUJD"),
            ("https://h/a.png", None),
            ("file:///a.png", None),
            ("data:image/svg+xml,<svg>", None),
            ("", None),
        ],
    )
    def test_prefix_is_cut_and_others_are_skipped(self, source, data):
        """Ollama and KoboldCpp take base64 alone."""
        assert bare_base64(source) == data

    def test_list(self):
        """In order."""
        assert bare_images(["QUJD", "http://h/", "QQ=="]) == ["QUJD", "QQ=="]


class TestMessages:
    def shaped(self, *messages, images_first=False):
        return with_images(list(messages), content_parts(openai_image, images_first=images_first))

    part = openai_image("https://h/a")

    def test_text_comes_first(self):
        """And the key is gone."""
        message = {"role": "user", "content": "Q", "images": ["https://h/a"]}
        assert self.shaped(message) == [
            {"role": "user", "content": [{"type": "text", "text": "Q"}, self.part]}
        ]

    def test_or_images_do(self):
        """Claude wants them before the text."""
        message = {"role": "user", "content": "Q", "images": ["https://h/a"]}
        shaped = self.shaped(message, images_first=True)
        assert shaped[0]["content"] == [self.part, {"type": "text", "text": "Q"}]

    def test_an_empty_text_part_is_left_out(self):
        """Some servers refuse it."""
        assert self.shaped({"role": "user", "content": "", "images": ["https://h/a"]})[0]["content"] == [
            self.part
        ]

    def test_content_that_is_a_list_is_extended(self):
        """Parts stay parts."""
        text = {"type": "text", "text": "Q"}
        message = {"role": "user", "content": [text], "images": ["https://h/a"]}
        assert self.shaped(message)[0]["content"] == [text, self.part]

    @pytest.mark.parametrize("role", ["assistant", "system"])
    def test_other_roles_lose_the_key(self, role, caplog):
        """Only users show images; the log says what is left out."""
        assert self.shaped({"role": role, "content": "x", "images": ["https://h/a"]}) == [
            {"role": role, "content": "x"}
        ]
        assert f"images in messages of the role {role} were left out" in caplog.text

    @pytest.mark.parametrize(
        ("behind", "shown"),
        [
            ([], [{"role": "user", "content": [part]}]),
            (
                [{"role": "assistant", "content": "C"}],
                [{"role": "user", "content": [part]}, {"role": "assistant", "content": "C"}],
            ),
            (
                [{"role": "user", "content": "Q"}],
                [{"role": "user", "content": [{"type": "text", "text": "Q"}, part]}],
            ),
            (
                [{"role": "user", "content": "Q", "images": ["https://h/b"]}],
                [
                    {
                        "role": "user",
                        "content": [{"type": "text", "text": "Q"}, part, openai_image("https://h/b")],
                    }
                ],
            ),
        ],
        ids=["end", "assistant", "user", "user-with-images"],
    )
    def test_a_user_message_behind_the_run_shows_images_of_results(self, behind, shown, caplog):
        """The one that stands there, or one of their own; results stay together."""
        call = {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}, {"id": "2"}]}
        results = [
            {"role": "tool", "content": "r", "tool_call_id": "1", "images": ["https://h/a"]},
            {"role": "tool", "content": "s", "tool_call_id": "2"},
        ]
        plain = [{"role": "tool", "content": "r", "tool_call_id": "1"}, results[1]]
        assert self.shaped(call, *results, *behind) == [call, *plain, *shown]
        assert caplog.text == ""

    def test_images_of_each_run_stand_behind_it(self):
        """However many runs there are."""
        runs = [{"role": "tool", "content": name, "images": [f"https://h/{name}"]} for name in "ab"]
        call = {"role": "assistant", "content": "c"}
        shown = [{"role": "user", "content": [openai_image(f"https://h/{name}")]} for name in "ab"]
        assert [m for m in self.shaped(runs[0], call, runs[1], call) if m["role"] == "user"] == shown

    @pytest.mark.parametrize("images", [["file://x"], [], None, [{"url": "x"}]])
    def test_nothing_usable_keeps_the_text(self, images):
        """Content stays a text."""
        assert self.shaped({"role": "user", "content": "Q", "images": images}) == [
            {"role": "user", "content": "Q"}
        ]

    def test_unreadable_images_turn_all_messages_to_text(self, caplog):
        """With a note in a last user message."""
        good = {"role": "user", "content": "A", "images": ["https://h/a"]}
        bad = {"role": "user", "content": "B", "images": "nonsense"}
        assert self.shaped(good, bad) == [
            {"role": "user", "content": "A"},
            {"role": "user", "content": f"B\n\n{UNREADABLE_NOTE}"},
        ]
        assert "could not be read" in caplog.text

    def test_the_note_gets_its_own_message_when_the_last_is_no_users(self):
        """It is told to the model either way."""
        bad = {"role": "user", "content": "B", "images": 5}
        assert self.shaped(bad, {"role": "assistant", "content": "C"})[-1] == {
            "role": "user",
            "content": UNREADABLE_NOTE,
        }
