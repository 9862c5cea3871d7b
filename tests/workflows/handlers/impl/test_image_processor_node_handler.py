"""ImageProcessor: images described, inserted, remembered."""

from __future__ import annotations

import dataclasses
import errno
from types import SimpleNamespace

import pytest

from Middleware.common.errors import BackendError, ConfigError, RequestCancelled
from Middleware.common.request_context import RequestContext, enter_request
from Middleware.services import discussion_store
from Middleware.utilities.hashing_utils import vision_key
from Middleware.utilities.sensitive_logging_utils import REDACTED
from Middleware.workflows.handlers.impl.image_processor_node_handler import (
    DEFAULT_MESSAGE,
    FAILED_NOTICE,
    ImageProcessorNode,
)

NO_IMAGES = "There were no images attached to the message"
LINE = "\n-------------\n"


CALL = {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": {"name": "f"}}]}
RESULT = {"role": "tool", "content": "r", "tool_call_id": "c"}


def user(text, *images):
    return {"role": "user", "content": text, **({"images": list(images)} if images else {})}


def seen(call):
    """The images of a call, by place."""
    return {i: m["images"] for i, m in enumerate(call.messages) if m.get("images")}


@pytest.fixture
def look(bench):
    """Describes every image by its name, in any order of the calls."""
    bench.user = dataclasses.replace(bench.user, max_parallel_nodes=2)

    def reply(call):
        (image,) = [image for images in seen(call).values() for image in images]
        return f"a {image}"

    bench.engine.reply = reply
    return bench


@pytest.fixture
def private():
    """A request whose words no log may show."""
    with enter_request(RequestContext("r1", "ana", "openaichatcompletion", privacy=True)):
        yield


@pytest.mark.parametrize("cached", [True, False])
def test_without_images(look, cached):
    """A text that workflows test for; no model is called."""
    look.discussion_id = "talk"
    assert look("ImageProcessor", endpointName="e", saveVisionResponsesToDiscussionId=cached) == NO_IMAGES
    assert look.engine.calls == []


class TestCalls:
    """One call per image, in which only that image is left."""

    def test_each_image_is_described_on_its_own(self, look):
        look.messages = [user("x", "cat", "dog"), {"role": "assistant", "content": "y"}, user("z", "owl")]
        assert look("ImageProcessor", endpointName="e") == f"a cat{LINE}a dog{LINE}a owl"
        assert sorted(str(seen(call)) for call in look.engine.calls) == [
            "{0: ['cat']}",
            "{0: ['dog']}",
            "{2: ['owl']}",
        ]
        assert all(
            call.llm_takes_images and call.stream is False and call.prompt is None
            for call in look.engine.calls
        )
        assert [m.get("images") for m in look.messages] == [["cat", "dog"], None, ["owl"]]

    def test_an_authored_prompt_is_filled_from_the_whole_conversation_and_sent_with_the_image(self, look):
        look.messages = [user("x", "cat"), *[user(str(n)) for n in range(9)]]
        assert (
            look("ImageProcessor", endpointName="e", prompt="of {count}", systemPrompt="see {count}")
            == "a cat"
        )
        (call,) = look.engine.calls
        assert (call.system_prompt, call.prompt, call.messages) == ("see 10", "of 10", [user("x", "cat")])

    def test_an_image_before_what_is_sent_goes_with_the_newest_user_message(self, look):
        look.messages = [user("x", "cat"), user("y"), {"role": "assistant", "content": "z"}]
        look("ImageProcessor", endpointName="e", lastMessagesToSendInsteadOfPrompt=2)
        look("ImageProcessor", endpointName="e", lastMessagesToSendInsteadOfPrompt=None)
        assert [seen(call) for call in look.engine.calls] == [{1: ["cat"]}, {0: ["cat"]}]

    def test_without_a_user_message_it_goes_with_the_last_one(self, look):
        look.messages = [
            {"role": "assistant", "content": "x", "images": ["cat"]},
            {"role": "assistant", "content": "z"},
        ]
        look("ImageProcessor", endpointName="e", lastMessagesToSendInsteadOfPrompt=1)
        assert seen(look.engine.calls[0]) == {1: ["cat"]}

    def test_the_image_of_a_question_stays_with_it_while_its_tools_are_called(self, look):
        """What is being answered is sent whole, whatever the window. (backends.md 13.4)"""
        look.messages = [user("x", "cat"), CALL, RESULT, RESULT]
        look("ImageProcessor", endpointName="e", lastMessagesToSendInsteadOfPrompt=1)
        assert seen(look.engine.calls[0]) == {0: ["cat"]}

    @pytest.mark.parametrize("cached", [False, True], ids=["fresh", "remembered"])
    @pytest.mark.parametrize(
        ("messages", "order"),
        [
            pytest.param([user("x", "cat"), CALL, RESULT], "n u a t", id="of-the-question"),
            pytest.param(
                [user("o"), user("x", "cat"), CALL, RESULT, CALL, RESULT], "u n u a t a t", id="later"
            ),
            pytest.param(
                [user("x"), CALL, {**RESULT, "images": ["cat"]}, RESULT], "n u a t t", id="of-a-result"
            ),
        ],
    )
    def test_no_notice_parts_a_tool_exchange(self, look, messages, order, cached):
        """It stands before the question: behind it, the notice would be what is being answered."""
        look.messages, look.discussion_id = list(messages), "talk"
        fields = {"addAsUserMessage": True, "message": "n", "saveVisionResponsesToDiscussionId": cached}
        look("ImageProcessor", endpointName="e", **fields)
        assert [m for m in look.messages if m["content"] != "n"] == messages
        assert " ".join("n" if m["content"] == "n" else m["role"][0] for m in look.messages) == order

    def test_a_failed_image_leaves_a_notice(self, look):
        def reply(call):
            if "dog" in str(call.messages):
                raise BackendError("e", "overloaded", "busy")
            return {"content": "a cat", "tool_calls": [], "finish_reason": "stop"}

        look.engine.reply = reply
        look.messages = [user("x", "cat", "dog")]
        assert look("ImageProcessor", endpointName="e") == f"a cat{LINE}{FAILED_NOTICE}"
        assert "could not be described" in look.engine.warnings[0]

    def test_an_image_that_the_backend_cannot_see_is_not_described(self, look):
        """No call goes out without its picture: the model would make something up."""
        look.facts["llm_handler"] = SimpleNamespace(
            llm=SimpleNamespace(
                endpoint=SimpleNamespace(name="eyes"),
                answering=SimpleNamespace(raw={}),
                can_show=lambda image: image == "cat",
            )
        )
        look.messages = [user("x", "https://h/a.png", "cat")]
        assert look("ImageProcessor", endpointName="e") == f"{FAILED_NOTICE}{LINE}a cat"
        assert [seen(call) for call in look.engine.calls] == [{0: ["cat"]}]
        assert look.engine.warnings == [
            "endpoint 'eyes' cannot take an image from this source: https://h/a.png"
        ]

    @pytest.mark.usefixtures("private")
    def test_a_private_source_is_not_told(self, look):
        """Only which endpoint does not take it."""
        look.facts["llm_handler"] = SimpleNamespace(
            llm=SimpleNamespace(endpoint=SimpleNamespace(name="eyes", raw={}), can_show=lambda image: False)
        )
        look.messages = [user("x", "https://h/SECRET.png")]
        look("ImageProcessor", endpointName="e")
        assert look.engine.warnings == [f"endpoint 'eyes' cannot take an image from this source: {REDACTED}"]

    @pytest.mark.usefixtures("private")
    def test_a_private_failure_quotes_nothing(self, look):
        """Backends repeat what they were asked."""

        def reply(call):
            raise BackendError("e", "bad_request", "bad: SECRET", status=400)

        look.engine.reply = reply
        look.messages = [user("x", "dog")]
        look("ImageProcessor", endpointName="e")
        assert look.engine.warnings == [
            "an image could not be described: endpoint 'e' answered 400 (bad_request)"
        ]

    def test_empty_replies_are_left_out(self, look):
        look.engine.reply = lambda call: "" if "dog" in str(call.messages) else "a cat"
        look.messages = [user("x", "dog", "cat")]
        assert look("ImageProcessor", endpointName="e") == "a cat"

    def test_other_failures_and_cancellation_end_the_node(self, look):
        look.messages = [user("x", "cat", "dog")]

        def reply(call):
            raise ConfigError("no endpoint")

        look.engine.reply = reply
        with pytest.raises(ConfigError):
            look("ImageProcessor", endpointName="e")
        look.engine.cancelled = True
        with pytest.raises(RequestCancelled):
            look("ImageProcessor", endpointName="e")

    def test_thoughts_of_the_model_are_no_description(self, look):
        endpoint = {"removeThinking": True, "startThinkTag": "<think>", "endThinkTag": "</think>"}
        look.facts["llm_handler"] = SimpleNamespace(
            llm=SimpleNamespace(answering=SimpleNamespace(raw=endpoint), can_show=lambda image: True)
        )
        look.engine.reply = lambda call: "<think>hm</think>a cat"
        look.messages = [user("x", "cat")]
        assert look("ImageProcessor", endpointName="e") == "a cat"


class TestInsertion:
    """The description as a user message, where later nodes see it."""

    @pytest.mark.parametrize(("before", "place"), [(0, 1), (2, 2)], ids=["one-message", "before-the-last"])
    def test_where_it_goes(self, look, before, place):
        look.messages = [*[user("w")] * before, user("x", "cat")]
        look("ImageProcessor", endpointName="e", addAsUserMessage=True, message="[{who}: [IMAGE_BLOCK]]")
        assert look.messages[place] == user("[{who}: a cat]")
        assert len(look.messages) == before + 2

    def test_its_built_in_form(self, look):
        look.messages = [user("x", "cat")]
        look("ImageProcessor", endpointName="e", addAsUserMessage=True)
        assert look.messages[1]["content"] == DEFAULT_MESSAGE.replace("[IMAGE_BLOCK]", "a cat")
        assert "<vision_llm_response>\n[IMAGE_BLOCK]\n</vision_llm_response>" in DEFAULT_MESSAGE

    def test_the_marker_is_replaced_after_the_variables(self, look):
        look.engine.values["who"] = "secret"
        look.engine.reply = lambda call: "{who}"
        look.messages = [user("x", "cat")]
        look("ImageProcessor", endpointName="e", addAsUserMessage=True, message="{who} saw [IMAGE_BLOCK]")
        assert look.messages[1]["content"] == "secret saw {who}"

    def test_without_the_marker_the_description_is_not_in_it(self, look):
        look.messages = [user("x", "cat")]
        look("ImageProcessor", endpointName="e", addAsUserMessage=True, message="seen")
        assert look.messages[1]["content"] == "seen"


class TestMemory:
    """Descriptions kept with the discussion."""

    @pytest.fixture
    def remember(self, look):
        look.discussion_id = "talk"
        return lambda **fields: look(
            "ImageProcessor", endpointName="e", saveVisionResponsesToDiscussionId=True, **fields
        )

    def kept(self, bench):
        return bench.context("ImageProcessor").store.read_json("vision_responses.json", {})

    def test_a_known_message_is_not_described_again(self, look, remember):
        look.messages = [user("x", "cat", "dog"), user("y")]
        assert remember() == remember() == f"a cat{LINE}a dog"
        assert len(look.engine.calls) == 2
        assert self.kept(look) == {vision_key(look.messages[0]): f"a cat{LINE}a dog"}

    def test_the_same_message_twice_is_described_once(self, look, remember):
        look.messages = [user("x", "cat"), user("x", "cat")]
        assert remember() == f"a cat{LINE}a cat"
        assert len(look.engine.calls) == 1

    def test_a_good_description_is_kept_beside_a_failed_one(self, look, remember):
        """Only the failed picture is looked at again; then the message is known as a whole."""
        broken = {"dog"}

        def reply(call):
            (image,) = [image for images in seen(call).values() for image in images]
            if image in broken:
                raise BackendError("e", "overloaded", "busy")
            return f"a {image}"

        look.engine.reply = reply
        look.messages = [user("x", "cat", "dog"), user("y")]
        assert remember() == remember() == f"a cat{LINE}{FAILED_NOTICE}"
        assert [seen(call) for call in look.engine.calls].count({0: ["cat"]}) == 1
        assert self.kept(look) == {vision_key(user("x", "cat")): "a cat"}
        broken.clear()
        assert remember() == remember() == f"a cat{LINE}a dog"
        assert [seen(call) for call in look.engine.calls].count({0: ["cat"]}) == 1
        assert self.kept(look) == {vision_key(look.messages[0]): f"a cat{LINE}a dog"}

    def test_a_picture_that_the_endpoint_cannot_see_is_described_by_its_notice(self, look, remember):
        """It does not keep the other one from being known."""
        llm = SimpleNamespace(
            endpoint=SimpleNamespace(name="eyes"),
            answering=SimpleNamespace(raw={}),
            can_show=lambda image: image == "cat",
        )
        look.facts["llm_handler"] = SimpleNamespace(llm=llm)
        look.messages = [user("x", "https://h/a.png", "cat"), user("y")]
        assert remember() == remember() == f"{FAILED_NOTICE}{LINE}a cat"
        assert len(look.engine.calls) == 1

    def test_empty_and_failed_descriptions_are_not_kept(self, look, remember):
        look.messages = [user("x", "cat")]
        look.engine.reply = lambda call: " "
        remember()
        assert self.kept(look) == {}
        assert not look.context("ImageProcessor").store.path("vision_responses.json").exists()

    def test_a_full_disk_costs_no_description(self, look, remember, monkeypatch):
        """They are worth more than their memory; the next turn describes anew."""

        def full_disk(*given, **named):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(discussion_store, "atomic_write", full_disk)
        look.messages = [user("x", "cat")]
        assert remember() == "a cat"
        assert any("No space left on device" in text for text in look.engine.warnings)

    def test_a_memory_that_cannot_be_read_is_none(self, look, remember, monkeypatch):
        """Everything is described anew."""

        def broken_disk(path):
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(discussion_store, "_bytes", broken_disk)
        look.messages = [user("x", "cat")]
        assert remember() == "a cat"
        assert any("Input/output error" in text for text in look.engine.warnings)

    def test_only_the_newest_messages_are_scanned(self, look, remember):
        look.messages = [user("x", "cat"), *[user("y")] * 2]
        assert remember(visionScanMessageLimit=2) == NO_IMAGES
        assert remember(visionScanMessageLimit=0) == NO_IMAGES
        assert remember(visionScanMessageLimit=-1) == NO_IMAGES
        assert remember(visionScanMessageLimit=3) == "a cat"

    def test_the_output_without_insertion_is_of_the_last_ten_messages(self, look, remember):
        look.messages = [user("x", "cat"), *[user("y")] * 9, user("z", "owl")]
        assert remember() == "a owl"
        assert len(self.kept(look)) == 2

    def test_each_image_message_is_followed_by_its_description(self, look, remember):
        look.messages = [user("x", "cat"), *[user("y")] * 11, user("z", "owl")]
        assert remember(addAsUserMessage=True, message="[IMAGE_BLOCK]") == f"a cat{LINE}a owl"
        assert [look.messages[i]["content"] for i in (0, 1, 13, 14)] == ["x", "a cat", "z", "a owl"]
        assert len(look.messages) == 15

    def test_without_a_discussion_nothing_is_kept(self, look, remember):
        look.discussion_id = None
        look.messages = [user("x", "cat")]
        assert remember() == "a cat"

    def test_a_file_of_another_form_counts_as_empty(self, look, remember):
        look.context("ImageProcessor").store.update_json("vision_responses.json", lambda _: ["x"])
        look.messages = [user("x", "cat")]
        assert remember() == "a cat"
        assert self.kept(look) == {vision_key(look.messages[0]): "a cat"}


def test_it_changes_the_conversation_only_alone():
    """With insertion it cannot run beside other nodes."""
    node = ImageProcessorNode()
    assert node.fits_in_parallel_group({}) and not node.fits_in_parallel_group({"addAsUserMessage": True})


def test_the_schema_asks_for_an_endpoint(bench):
    """Without one there is no model to look."""
    assert bench.findings("ImageProcessor")[0] == [""]
    assert bench.findings("ImageProcessor", endpointName="e", visionScanMessageLimit="{n}") == ([], [])
