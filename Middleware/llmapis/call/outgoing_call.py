"""One outgoing call of a handler: payload, abort handle, cancellation, the request itself, a whole body.

Never maps an event. Source: spec backends.md 8.6, 15, 16.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from Middleware.common.constants import MAX_LINE_BYTES
from Middleware.common.errors import BackendError, RequestCancelled
from Middleware.common.request_context import current_request
from Middleware.common.secrets import mask_answer
from Middleware.common.types import Batch, JsonObject, close_batches
from Middleware.llmapis.backend_errors import told_error, told_failure
from Middleware.llmapis.call.call_arguments import CallArguments, HandlerFace
from Middleware.llmapis.call.call_log import CallLog, is_visible
from Middleware.llmapis.call.sent_prompt import digest_payload
from Middleware.llmapis.call.stream_reader import StreamReader
from Middleware.llmapis.dialects.event_mapping import decode_json
from Middleware.llmapis.dialects.loop_turns import refusing_thoughts, without_thoughts
from Middleware.llmapis.llm_text import LlmText, join_batches
from Middleware.llmapis.wire.connections import AbortHandle
from Middleware.llmapis.wire.http import DRAIN_S, TRIES, Answer, Post, default_transport
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.held_prompts import held_prompts
from Middleware.services.node_trace import CallTrace
from Middleware.services.token_ratios import token_ratios
from Middleware.utilities.json_bytes import encode_json
from Middleware.utilities.sensitive_logging_utils import redaction_is_on, shorten_text

logger = logging.getLogger(__name__)

ABORT_TIMEOUT_S = 2.0
BAD_ANSWERS = frozenset(("connection_lost", "protocol_error"))
"""Kinds of failure of which a whole answer is asked for once more."""
MAX_WHOLE_BYTES = 4 * MAX_LINE_BYTES
STREAM_TYPES = ("text/event-stream", "application/x-ndjson")
_STRING = re.compile(r'(?<=")(?:[^"\\]++|\\.)++(?=")')
_DATA = re.compile(r'"((?:data:[^"]{0,60}|[A-Za-z0-9+/]{40})[A-Za-z0-9+/=]{160,}+)"')


_Result = TypeVar("_Result")


class OutgoingCall:
    """Made when a call begins, ended by `end` or `unregister`, whatever happens. `handle` ends it from any
    thread."""

    def __init__(self, handler: HandlerFace, call: CallArguments) -> None:
        settings = handler.settings
        request = current_request()
        self._handler, self._call = handler, call
        self._id = call.request_id or (request.request_id if request is not None else "")
        self.handle = AbortHandle(
            pinned=settings.pinned,
            on_abort=partial(_tell_backend, handler),
            reach=None if request is None else request.reach,
        )
        self.log = CallLog.of(handler, call)
        self._is_compared = not handler.generates
        self._abort = self.handle.abort
        cancellation_service.register_abort_callback(self._id, self._abort)

    def unregister(self) -> None:
        """The call is over; a cancellation of its request no longer concerns it."""
        self.handle.detach()
        cancellation_service.unregister_abort_callback(self._id, self._abort)

    def end(self, outcome: str) -> None:
        self.unregister()
        self._note_tokens()
        self.log.write(outcome)

    def end_stream(self, outcome: str) -> None:
        """As `end`; what the log says of a stream comes before anything that is waked up by its end."""
        self.log.write(outcome)
        self._note_tokens()
        self.unregister()

    def _note_tokens(self) -> None:
        """What the server counted, where the clamp goes by it."""
        tokens = (self.log.usage or {}).get("prompt_tokens")
        if type(tokens) is int and (known := self._call.estimate_for(self._handler.settings.endpoint)):
            token_ratios().note(*known, tokens)

    def fail(self, error: Exception) -> None:
        """It ends by a failure."""
        self.log.note_failure(error)
        self.end(getattr(error, "kind", type(error).__name__))

    @contextmanager
    def ended_by_failures(self) -> Iterator[None]:
        """What is raised inside ends the call, and goes on."""
        try:
            yield
        except RequestCancelled:
            self.end("cancelled")
            raise
        except Exception as error:
            self.fail(error)
            raise
        except BaseException:
            self.end("closed")
            raise

    @property
    def endpoint(self) -> str:
        return self._handler.settings.endpoint.name

    @property
    def asks_again(self) -> bool:
        """Whether an answer that is no good is asked for a second time; where there is a backup, that one is
        asked."""
        return self._call.asks_again and not self._handler.settings.suppress_retries

    def reader(self, answer: Answer) -> StreamReader:
        """What reads the stream that the answer is."""
        return StreamReader(self._handler, answer.content_type, for_agent=self._is_of_agent)

    @property
    def _is_of_agent(self) -> bool:
        return self._call.turns is not None

    def post(self, payload: JsonObject | None = None) -> Answer:
        """Send `payload` (None: build it), wait for the headers. Raises BackendError, RequestCancelled."""
        self.handle.check()
        if payload is None:
            built = self._call.built
            payload = self._handler.whole_payload(self._call) if built is None else built.payload
        request = current_request()
        if request is not None:
            request.setup_done()
        try:
            return self._send(payload)
        except BackendError as error:
            if error.status not in (400, 422):
                raise
            bare = without_thoughts(payload, error.message) if self._is_of_agent else None
            amended = self._handler._amend_payload(payload, error.message) if bare is None else bare
            if amended is None:
                raise
            answer = self._send(amended, amended=True)
            if bare is not None and refusing_thoughts.mark(self._handler.settings.endpoint):
                logger.warning(
                    "endpoint '%s' refuses thoughts in the model's turns, so it gets none from now on",
                    self.endpoint,
                )
            return answer

    def whole_answer(self) -> LlmText | JsonObject:
        """The whole answer; a backend that streams it all the same is listened to. Raises as `body`."""
        result = self._at_most_twice(None, self._read_whole_answer)
        self.log.note_answer(result)
        return result

    def body(self, payload: JsonObject | None = None) -> JsonObject:
        """The whole body. One that is broken or unreadable is asked for a second time (unless there is a
        backup).

        Raises BackendError, RequestCancelled.
        """
        return self._at_most_twice(payload, self._object)

    def _at_most_twice(self, payload: JsonObject | None, read: Callable[[Answer], _Result]) -> _Result:
        again = self.asks_again
        while True:
            answer = self.post(payload)
            try:
                return read(answer)
            except BackendError as error:
                if not again or error.kind not in BAD_ANSWERS:
                    raise
                logger.warning("%s; trying once more", error)
                again = False

    def _read_whole_answer(self, answer: Answer) -> LlmText | JsonObject:
        """A whole body, or a stream that nobody asked for, joined."""
        reader = StreamReader(self._handler, for_agent=self._is_of_agent)
        batches: list[Batch] = []
        streams = answer.content_type in STREAM_TYPES
        data = self._bytes(
            answer, lambda piece: self._feed_and_note(reader, piece, batches) if streams else False
        )
        body = None if reader.readable else _object_of(data)
        if body is not None:
            self.log.load_s = self._handler.load_seconds(body)
            return self._read_body(body)
        if not streams and answer.content_type != "text/html":
            _feed_reader(reader, bytes(data), batches)
        if not reader.readable:
            raise self._no_object(answer, data)
        batches.append(reader.finish())
        self.log.truncated, self.log.load_s = reader.truncated, reader.state.load_s
        return join_batches(self._handler.settings.endpoint.name, batches)

    def _feed_and_note(self, reader: StreamReader, piece: bytes, batches: list[Batch]) -> bool:
        """As `_heard`; what a stream brings is noted as it comes."""
        before = len(batches)
        has_ended = _feed_reader(reader, piece, batches)
        if len(batches) > before and batches[-1]:
            self.log.note_batch(batches[-1])
        return has_ended

    def _read_body(self, body: JsonObject) -> LlmText | JsonObject:
        settings = self._handler.settings
        failure = told_failure(settings.endpoint, body, secrets=settings.secrets)
        if failure is not None:
            raise failure
        return self._handler.read_whole(body, for_agent=self._is_of_agent)

    def _object(self, answer: Answer) -> JsonObject:
        data = self._bytes(answer, lambda _: False)
        body = _object_of(data)
        if body is None:
            raise self._no_object(answer, data)
        return body

    def _bytes(self, answer: Answer, enough: Callable[[bytes], bool]) -> bytearray:
        """The body, or its beginning up to the piece that is `enough`."""
        data = bytearray()
        try:
            for piece in answer.read_pieces():
                data += piece
                if len(data) > MAX_WHOLE_BYTES:
                    message = (
                        f"the answer is longer than {MAX_WHOLE_BYTES} bytes, the limit for a whole answer"
                    )
                    raise BackendError(self.endpoint, "backend_error", message)
                if enough(piece):
                    break
        finally:
            answer.close()
        return data

    def _no_object(self, answer: Answer, data: bytearray) -> BackendError:
        settings = self._handler.settings
        page = "a web page" if answer.content_type == "text/html" else "not a JSON object"
        shown = mask_answer(data.decode("utf-8", "replace").strip(), settings.secrets)[:200]
        return BackendError(settings.endpoint.name, "protocol_error", f"the answer is {page}: {shown}")

    def _send(self, payload: JsonObject, *, amended: bool = False) -> Answer:
        settings = self._handler.settings
        post = Post(
            url=self._handler._get_api_endpoint_url(),
            body=encode_json(payload),
            headers=self._handler.request_headers(),
            endpoint=settings.endpoint.name,
            connect_timeout_s=settings.connect_timeout_s,
            read_timeout_s=settings.read_timeout_s,
            tries=1 if settings.suppress_retries else TRIES,
            secrets=settings.secrets,
        )
        self._log_payload(post)
        self._note_prompt(payload)
        trace, self.handle.tries = self.log.trace, 0
        try:
            if trace is None:
                return default_transport().post(post, self.handle)
            trace.note_body(post.url, post.body, post.headers, amended=amended)
            return _post_and_trace(trace.call, lambda: default_transport().post(post, self.handle))
        finally:
            self.log.tries += self.handle.tries
            if self.log.meter is not None and (self.handle.connected or self.handle.reused):
                self.log.meter.sent = True
            if trace is not None:
                trace.call.tries = self.log.tries

    def _note_prompt(self, payload: JsonObject) -> None:
        """How much of the prompt this server was sent before. A call is one, however often it is sent: a
        further try would be found to share everything with the first."""
        if self._is_compared:
            return
        self._is_compared = True
        settings, built = self._handler.settings, self._call.built
        prompt = digest_payload(payload, self._call.system_prompt) if built is None else built.prompt
        seen = held_prompts().record(settings.url, settings.endpoint.model, prompt)
        if self.log.trace is not None:
            self.log.trace.call.note_prompt(prompt.chars, seen)

    def _log_payload(self, post: Post) -> None:
        if not logger.isEnabledFor(logging.DEBUG):
            return
        if redaction_is_on():
            return
        text = _STRING.sub(lambda m: shorten_text(m[0]), _DATA.sub('"(data)"', post.body.decode("utf-8")))
        logger.debug("POST %s for endpoint '%s': %s", post.url.partition("?")[0], post.endpoint, text)


def _post_and_trace(call: CallTrace, post: Callable[[], Answer]) -> Answer:
    """Post; the trace keeps the status."""
    try:
        answer = post()
    except BackendError as error:
        call.status = error.status
        raise
    call.status = answer.status
    return answer


def _tell_backend(handler: HandlerFace, handle: AbortHandle) -> None:
    """Runs in the aborting thread: a backend that needs a further call to stop gets it, in the background.

    Knows the handler, not the call: a handle that led back to its call would hold the conversation in a
    reference cycle.
    """
    if not (handle.connected or handle.reused):
        return
    further = handler.abort_request()
    if further is not None:
        arguments = (handler, *further)
        threading.Thread(target=_post_abort, args=arguments, name="backend-abort", daemon=True).start()


def _post_abort(handler: HandlerFace, url: str, body: JsonObject) -> None:
    settings = handler.settings
    post = Post(
        url=url,
        body=encode_json(body),
        headers=handler.request_headers(),
        endpoint=settings.endpoint.name,
        connect_timeout_s=ABORT_TIMEOUT_S,
        read_timeout_s=ABORT_TIMEOUT_S,
        tries=1,
        secrets=settings.secrets,
    )
    try:
        answer = default_transport().post(post, AbortHandle(pinned=settings.pinned))
        answer.close()
    except (BackendError, RequestCancelled) as error:
        logger.debug("the backend did not accept the abort call: %s", error)


def _feed_reader(reader: StreamReader, data: bytes, batches: list[Batch]) -> bool:
    """Read a piece of a stream. True when it has ended. Raises BackendError where a stream fails; bytes that
    are no stream at all are no failure yet."""
    try:
        batches.append(reader.feed(data))
    except BackendError as error:
        if error.kind != "protocol_error" or reader.readable:
            raise
    return reader.ended


def _object_of(data: bytearray) -> JsonObject | None:
    """The JSON object that a body is; None for anything else."""
    try:
        body = decode_json(data.decode("utf-8", "replace").removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


# --------------------------------------------------------------------------
# A stream whose backend has answered: pulled batch by batch, closed in whatever way it ends.


CLOSE_DRAIN_S = 0.02


class OpenStream(Iterator[Batch]):
    """Batches of one stream; `[]` is a tick. A cancelled stream just ends; one that is dropped ends at once.

    An answer whose tool call is no good is asked for once more, as long as none of it has been given. No
    generator: one that knew this object would keep it alive."""

    def __init__(self, call: OutgoingCall, answer: Answer) -> None:
        self._call, self._asks_again = call, call.asks_again
        self._given = self._is_pulled = self._over = False
        self._read_from(answer)

    def _read_from(self, answer: Answer) -> None:
        self._answer, self._reader = answer, self._call.reader(answer)
        self._pieces = answer.read_pieces()

    @property
    def is_whole(self) -> bool:
        """Whether the server answered in one piece instead of streaming."""
        return self._reader.whole

    def __next__(self) -> Batch:
        if self._over:
            raise StopIteration
        self._is_pulled = True
        batch: Batch | None = None
        try:
            try:
                batch = self._read_batch()
            except BackendError as error:
                if not self._may_ask_again(error):
                    raise
                logger.warning("%s; trying once more", error)
                batch = self._read_second_answer()
        except RequestCancelled:
            self._end("cancelled", DRAIN_S)
        except BackendError as error:
            batch = self._batch_of_failure(error)
        except BaseException:
            self._end("cancelled", DRAIN_S)
            raise
        finally:
            self._is_pulled = False
        if batch is None:
            self._end(str(self._reader.finish_reason), DRAIN_S)
            raise StopIteration
        if batch and not self._given:
            self._given = any(map(is_visible, batch))
        return batch

    def _may_ask_again(self, error: BackendError) -> bool:
        """Whether the answer failed because its call is no good, and nothing of it was given."""
        is_slip = self._reader.bad_call and error.kind == "protocol_error"
        return is_slip and self._asks_again and not self._given

    def _read_second_answer(self) -> Batch | None:
        """The first batch of another answer. Knows no error: a frame that holds the one that came through it
        would keep the whole conversation.
        """
        self._asks_again = False
        if self._call.log.meter is not None:
            self._call.log.meter.note_lost_answer(self._reader.state.usage)
        self._answer.close()
        self._read_from(self._call.post())
        return self._read_batch()

    def _read_batch(self) -> Batch | None:
        """What one read brings; None: the answer is over. Raises BackendError, also for a call that is no
        good as long as nothing was given, and RequestCancelled."""
        if self._reader.ended:
            return None
        reader, call = self._reader, self._call
        data = next(self._pieces, None)
        if data is not None:
            call.handle.check()
        if data:
            batch = reader.feed(data)
            if reader.ended:
                batch = [*batch, *reader.finish()]
        elif data is None or reader.finishing:
            batch = reader.finish()
            if not batch:
                return None
        else:
            return []
        if batch:
            call.log.note_batch(batch, only_text=reader.only_text)
            if reader.bad_call and not self._given:
                raise told_error(call.endpoint, batch[-1]["error"])
        return batch

    def _batch_of_failure(self, error: BackendError) -> Batch:
        """The last batch of a stream that failed. Raises the error while nothing visible has come out."""
        self._call.log.note_failure(error)
        try:
            if not self._given and self._reader.bad_call:
                raise error
            batch = self._reader.connection_failed(error)
            if self._call.log.meter is not None:
                self._call.log.meter.note_batch(batch)
            return batch
        finally:
            self._end(error.kind, DRAIN_S)

    def close(self) -> None:
        """Stop. Before the finishing dict this is a cancellation: the backend is told to stop as well.

        From another thread than the one that is pulling: that one ends the call, as soon as it wakes up.
        """
        if self._is_pulled:
            self._call.handle.abort()
            return
        self._end("closed", CLOSE_DRAIN_S)

    def __del__(self) -> None:
        self._end("dropped", 0.0)

    def _end(self, outcome: str, drain_s: float) -> None:
        """What is done once, whichever way the stream ends."""
        if self._over:
            return
        self._over = True
        close_batches(self._pieces)
        log, reader = self._call.log, self._reader
        if outcome in ("closed", "dropped") and reader.finish_reason is None:
            self._call.handle.abort()
        self._answer.close(drain_s=drain_s if reader.ended else 0.0)
        log.usage, log.truncated = reader.state.usage or None, reader.truncated
        log.load_s, log.model = reader.state.load_s, reader.state.model
        if reader.failure is not None:
            log.note_failure(reader.failure)
        self._call.end_stream(reader.finish_reason or outcome)
