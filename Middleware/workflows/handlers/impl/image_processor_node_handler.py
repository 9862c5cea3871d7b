"""ImageProcessor: describes images with a vision model, one call per image. Source: spec nodes.md 3.12,
6.6.
"""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

from Middleware.common.errors import BackendError, RequestCancelled
from Middleware.common.types import Message, Messages, NodeConfig
from Middleware.services.discussion_store import DiscussionStore, an_object
from Middleware.utilities.hashing_utils import vision_key
from Middleware.utilities.prompt_extraction_utils import exchange_length
from Middleware.utilities.sensitive_logging_utils import loggable_error, loggable_text
from Middleware.utilities.streaming_utils import remove_thinking_from_text
from Middleware.workflows.handlers.base.base_workflow_node_handler import WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.execution_context import ExecutionContext, LlmCall, result_text
from Middleware.workflows.models.node_keys import COUNT, FLAG, NEEDED_TEXT, TEXT, Keys

logger = logging.getLogger(__name__)

NO_IMAGES = "There were no images attached to the message"
SEPARATOR = "\n-------------\n"
MARKER = "[IMAGE_BLOCK]"
CACHE_FILE = "vision_responses.json"
DEFAULT_MESSAGE = (
    "[System notice: the user added one or more images to this conversation. A vision model looked at them "
    "and described them as follows: <vision_llm_response>\n[IMAGE_BLOCK]\n</vision_llm_response>]"
)
FAILED_NOTICE = "[This image could not be described.]"

_SHOWN_WITHOUT_INSERTION = 10


@dataclass(frozen=True, slots=True)
class Description:
    """What is known of one image or message. `good`: worth remembering."""

    text: str
    good: bool


@NODES.register("ImageProcessor")
class ImageProcessorNode(WorkflowNodeHandler):
    """Has a vision model describe the images of the conversation. It can add the descriptions to the
    conversation and store them.
    """

    PALETTE = "model"

    KEYS: ClassVar[Keys] = {
        "endpointName": NEEDED_TEXT(
            "The file in `Endpoints/` of the vision model. The name can contain workflow "
            "variables and {agent1Input}."
        ),
        "addAsUserMessage": FLAG(
            "Add the description to the conversation, where later nodes see it. Default: {default}."
        ),
        "message": TEXT(
            "The text of that message. `[IMAGE_BLOCK]` is replaced by the description. Takes variables.",
            empty=None,
            form="text",
        ),
        "saveVisionResponsesToDiscussionId": FLAG(
            "Store the descriptions with the discussion. Default: {default}."
        ),
        "visionScanMessageLimit": COUNT(
            "How many of the newest messages are searched for images when descriptions are "
            "stored. Default: {default}.",
            default=20,
        ),
    }
    CALLS_MODEL = True

    def takes_pictures(self, config: NodeConfig) -> bool:
        return True

    def handle(self, context: ExecutionContext) -> str:
        if context.value("saveVisionResponsesToDiscussionId") and context.store is not None:
            return _describe_remembered(context, context.store)
        return _describe_newest(context)

    def changes_conversation(self, config: NodeConfig) -> bool:
        return bool(config.get("addAsUserMessage"))

    def writes(self, config: NodeConfig) -> str:
        stores = bool(config.get("saveVisionResponsesToDiscussionId"))
        return "stores the descriptions of images with the discussion" if stores else ""

    def fits_in_parallel_group(self, config: NodeConfig) -> bool:
        return not config.get("addAsUserMessage")


def _describe_newest(context: ExecutionContext) -> str:
    messages = context.messages
    jobs = [(i, image) for i, message in enumerate(messages) for image in message.get("images") or ()]
    if not jobs:
        return NO_IMAGES
    text = _join_descriptions(d.text for d in _describe_images(context, jobs))
    if context.value("addAsUserMessage"):
        start = _exchange_start(messages)
        place = max(len(messages) - 1, 1) if start == len(messages) else start
        messages.insert(place, _notice(context, text))
    return text


def _describe_remembered(context: ExecutionContext, store: DiscussionStore) -> str:
    messages = context.messages
    limit = context.value("visionScanMessageLimit")
    first = max(0, len(messages) - max(0, limit))
    places = [i for i in range(first, len(messages)) if messages[i].get("images")]
    if not places:
        return NO_IMAGES
    texts = _known_and_new(context, store, places)
    if not context.value("addAsUserMessage"):
        return _join_descriptions(
            t for i, t in texts.items() if i >= len(messages) - _SHOWN_WITHOUT_INSERTION
        )
    start = _exchange_start(messages)
    for place in reversed(places):
        messages.insert(min(place + 1, start), _notice(context, texts[place]))
    return _join_descriptions(texts.values())


def _exchange_start(messages: Messages) -> int:
    """Where an open tool exchange begins; its end if there is none. No notice may part a question from its
    calls, or a call from its results. Source: backends.md 13.4.
    """
    return len(messages) - exchange_length(reversed(messages))


def _known_and_new(context: ExecutionContext, store: DiscussionStore, places: list[int]) -> dict[int, str]:
    """Place of a message -> its description, in the order of `places`; what is new and good is stored.

    A message whose pictures are not all described leaves those that are, each under the key that the message
    would have with this picture alone. Source: memory.md 4.4, nodes.md 6.6.
    """
    keys = {i: vision_key(context.messages[i]) for i in places}
    stored = _load_descriptions(context, store)
    texts: dict[str, Any] = dict(stored)
    unknown = {key: i for i, key in reversed(keys.items()) if key not in texts}
    jobs = [(i, image) for i in sorted(unknown.values()) for image in context.messages[i]["images"]]
    known = {
        job: Description(str(stored[key]), True)
        for job in jobs
        if (key := _single_image_key(context, job)) in stored
    }
    missing = [job for job in dict.fromkeys(jobs) if job not in known]
    found = known | dict(zip(missing, _describe_images(context, missing), strict=True))
    new: dict[str, str] = {}
    for key, i in unknown.items():
        of_message = {job: found[job] for job in jobs if job[0] == i}
        texts[key] = _join_descriptions(found[i, image].text for image in context.messages[i]["images"])
        if all(d.good for d in of_message.values()):
            new[key] = texts[key]
        else:
            new |= {_single_image_key(context, job): d.text for job, d in of_message.items() if d.good}
    done = {_single_image_key(context, job) for job in known if keys[job[0]] in new}
    if new != {key: stored.get(key) for key in new}:
        try:
            store.update_json(
                CACHE_FILE,
                lambda old: {key: text for key, text in old.items() if key not in done} | new,
                {},
                an_object,
            )
        except OSError as error:  # the descriptions are worth more than their memory
            context.warn(f"new descriptions are not kept in {CACHE_FILE}: {error}")
    return {i: str(texts[keys[i]]) for i in places}


def _single_image_key(context: ExecutionContext, job: tuple[int, str]) -> str:
    """The key that a message would have with one of its pictures."""
    place, image = job
    return vision_key({**context.messages[place], "images": [image]})


def _load_descriptions(context: ExecutionContext, store: DiscussionStore) -> dict[str, Any]:
    """What is remembered; nothing of a disk that does not give it."""
    try:
        texts: dict[str, Any] = store.read_json(CACHE_FILE, {}, an_object)
    except OSError as error:
        context.warn(f"{CACHE_FILE} cannot be read: {error}")
        return {}
    return texts


def _describe_images(context: ExecutionContext, jobs: list[tuple[int, str]]) -> list[Description]:
    """What is seen in each image of the message at that place; the calls run at the same time."""
    if len(jobs) < 2:
        return [_describe(context, *job) for job in jobs]
    with ThreadPoolExecutor(max(1, context.user.max_parallel_nodes)) as pool:
        waiting = [
            pool.submit(contextvars.copy_context().run, _describe, context, i, image) for i, image in jobs
        ]
        return [future.result() for future in waiting]


def _describe(context: ExecutionContext, place: int, image: str) -> Description:
    if context.is_cancelled():
        raise RequestCancelled
    handler = context.llm_handler
    if handler is not None and not handler.llm.can_show(image):
        context.warn(
            f"endpoint '{handler.llm.endpoint.name}' cannot take an image from this source: "
            f"{loggable_text(image[:100])}"
        )
        return Description(FAILED_NOTICE, good=True)  # it will not see it the next time either
    conversation = [_without_images(message) for message in context.messages]
    authored = context.value("prompt")
    try:
        if authored:
            prompt = context.fill(authored, messages=conversation, steady=True)
            system = context.fill(context.value("systemPrompt"), messages=conversation, steady=True)
            only = [{**conversation[place], "images": [image]}]
            call = LlmCall(
                messages=only,
                system_prompt=system,
                prompt=prompt,
                llm_takes_images=True,
                stream=False,
                must_show=image,
            )
        else:
            _attach(conversation, place, image, context.value("lastMessagesToSendInsteadOfPrompt"))
            call = LlmCall(messages=conversation, llm_takes_images=True, stream=False, must_show=image)
        reply = context.dispatch(call)
    except BackendError as error:
        context.warn(f"an image could not be described: {loggable_error(error)}")
        return Description(FAILED_NOTICE, good=False)
    text = _without_thinking(context, result_text(reply))
    return Description(text, good=bool(text.strip()))


def _without_thinking(context: ExecutionContext, text: str) -> str:
    """The reply as it may stand in a conversation or a file; the loop cleans the node's output, not these."""
    if context.llm_handler is None:
        return text
    return remove_thinking_from_text(text, context.llm_handler.llm.answering.raw)


def _without_images(message: Message) -> Message:
    return {key: value for key, value in message.items() if key != "images"}


def _attach(conversation: Messages, place: int, image: str, window: int) -> None:
    """Put the image on its own message; on the newest user message if only the last `window` ones are
    sent.
    """
    if place < min(len(conversation) - window, _exchange_start(conversation)):
        users = [i for i, message in enumerate(conversation) if message.get("role") == "user"]
        place = users[-1] if users else len(conversation) - 1
    conversation[place]["images"] = [image]


def _join_descriptions(texts: Iterable[str]) -> str:
    return SEPARATOR.join(text for text in texts if text)


def _notice(context: ExecutionContext, text: str) -> Message:
    """The user message that shows a description; the marker is replaced after the variables were filled."""
    form = context.value("message")
    shown = DEFAULT_MESSAGE if form is None else context.fill(form)
    return {"role": "user", "content": shown.replace(MARKER, text)}
