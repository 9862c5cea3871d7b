"""One stream, from bytes to standard dicts: decoder, JSON, the backend's mapping, and every way that a stream
can end.

The finishing dict is given once, with the usage, when the stream is over. Does no I/O. Source: spec
backends.md 10, 11."""

from __future__ import annotations

import logging
import re
from typing import Any, cast

from Middleware.common.constants import MAX_LINE_BYTES
from Middleware.common.errors import BackendError
from Middleware.common.secrets import mask_answer
from Middleware.common.types import Batch, Chunk, JsonObject, TextBatch
from Middleware.llmapis.backend_errors import (
    bad_call,
    error_chunk,
    failed_by_word,
    says_something,
    told_error,
    told_failure,
    unrecognised_answer_error,
)
from Middleware.llmapis.call.call_arguments import HandlerFace, StreamState, ThoughtSplitter
from Middleware.llmapis.call.call_log import content_taken_out, is_visible, one_chunk, set_split
from Middleware.llmapis.call.half_characters import HalfCharacters
from Middleware.llmapis.call.repeated_form import NO_FORM, RepeatedForm, scan_json, string_within
from Middleware.llmapis.dialects.event_mapping import ToolCallDeltas, decode_json, text_of
from Middleware.llmapis.dialects.loop_turns import ThoughtFields
from Middleware.llmapis.llm_text import in_order
from Middleware.llmapis.wire.decoders import END_MARK, Event, LineTooLong, NdjsonDecoder, SseDecoder
from Middleware.services.answers import CUTTING_REASONS
from Middleware.utilities.sensitive_logging_utils import loggable_error, loggable_text

logger = logging.getLogger(__name__)


# --------------------------------------------------------------------------
# A chunk whose text holds thoughts -> chunks in which both stand in the order of the model. Pure.


_MARKS_BEGIN = re.compile(r"(?=[<\[])")
"""No cut changes what a splitter says of a text; cut here, thought and text change at most once a piece."""


def split_in_order(splitter: ThoughtSplitter, chunk: Chunk) -> list[Chunk]:
    """The chunks that come before `chunk`, which keeps the last thought and the text behind it."""
    thought = chunk.pop("thinking", "")
    parts: list[tuple[bool, list[str]]] = [(True, [thought])] if thought else []
    for piece in _MARKS_BEGIN.split(chunk["token"]):
        first = splitter.in_thought
        thinking, text = splitter.feed(piece)
        for is_thought, part in (
            ((True, thinking), (False, text)) if first else ((False, text), (True, thinking))
        ):
            _add(parts, is_thought, part)
    chunk["token"] = "".join(parts.pop()[1]) if parts and not parts[-1][0] else ""
    if parts and parts[-1][0]:
        chunk["thinking"] = "".join(parts.pop()[1])
    return [_chunk(is_thought, "".join(part)) for is_thought, part in parts]


def _add(parts: list[tuple[bool, list[str]]], is_thought: bool, part: str) -> None:
    if part and parts and parts[-1][0] is is_thought:
        parts[-1][1].append(part)
    elif part:
        parts.append((is_thought, [part]))


def _chunk(is_thought: bool, part: str) -> Chunk:
    if is_thought:
        return {"token": "", "thinking": part, "finish_reason": None}
    return {"token": part, "finish_reason": None}


# --------------------------------------------------------------------------

MAX_BAD_EVENTS = 20
SHOWN = 200


class StreamReader:
    """`feed` what a read brought, then `finish` once. Both give a batch; both raise BackendError while
    nothing visible has come out, and give a dict with `error` afterwards.

    `ended`: nothing more is needed (end mark, or an error dict was given). `failure`: what is said of it.
    `finishing`: the finish reason is known, only the usage may still come. `whole`: the server did not
    stream, its whole answer was read. `truncated`: the stream ended without its end mark. `bad_call`: the
    failure is a tool call whose arguments are not whole; `for_agent`: that is no failure, and the finishing
    dict has the thoughts in the fields they came in. `only_text`: all that was given so far is pieces of
    text: `{"token": str, "finish_reason": None}`, the first with `model` perhaps."""

    def __init__(self, handler: HandlerFace, content_type: str = "", *, for_agent: bool = False) -> None:
        self.ended = False
        self.output = False
        self.only_text = True
        self.whole = False
        self.truncated = False
        self.state = StreamState(thoughts=ThoughtFields() if for_agent else None)
        self.finish_reason: str | None = None
        self.failure: str | None = None
        self.bad_call = False
        self._handler = handler
        self._endpoint = handler.settings.endpoint.name
        self._decoder = NdjsonDecoder() if handler._iterate_by_lines else SseDecoder()
        self._splitter = handler._reasoning_splitter()
        self._tools = ToolCallDeltas()
        self._halves = HalfCharacters()
        self._pending: Chunk | None = None
        self._form = RepeatedForm()
        self._marked = False
        self._good = self._bad = self._bad_in_a_row = 0
        self._first: JsonObject | None = None
        self._strange: JsonObject | None = None
        self._complaint: JsonObject | None = None
        self._model_told = False
        self._html = content_type == "text/html"
        self._json = content_type == "application/json"
        self._kept: bytearray | None = bytearray() if self._html or self._json else None

    @property
    def readable(self) -> bool:
        """Whether any event could be read so far."""
        return self._good > 0

    @property
    def finishing(self) -> bool:
        return self._pending is not None

    def feed(self, data: bytes) -> Batch:
        """The dicts that these bytes complete; often none."""
        if self._kept is not None and self._keep(data):
            return []
        try:
            lines = self._decoder.whole_lines(data)
            if self._form.head != NO_FORM and (batch := self._take_alike(lines)) is not None:
                return batch
            events = self._decoder.events_in(lines)
        except LineTooLong as error:
            return self._fail_batch([], self._fault(str(error)))
        return self._take(events)

    def finish(self) -> Batch:
        """The body is at its end, or nothing more is waited for: what is left, and the finishing dict."""
        if self.finish_reason is not None:
            return []
        if self._html:
            raise self._page()
        batch: Batch = []
        if self._kept is not None and not self._good and self._read_whole(bytes(self._kept), batch):
            return batch
        if not self._marked:
            batch += self._last_events()
        if self._is_over() or (not batch and self._is_one_piece(batch)):
            return batch
        return self._end(batch)

    def connection_failed(self, error: BackendError) -> Batch:
        """The connection failed. After a finish reason nobody misses anything; before output it is raised."""
        if self.finish_reason is not None:
            return []
        if self._pending is not None or self._marked:
            return self._end([])
        return self._fail_batch([], error)

    def _is_over(self) -> bool:
        return self.finish_reason is not None

    # Bodies that are not a stream

    def _keep(self, data: bytes) -> bool:
        """Keep bytes of a body that says it is no stream; True while they only wait."""
        kept = cast(bytearray, self._kept)
        kept += data
        if self._html:
            if len(kept) > 4 * SHOWN:
                raise self._page()
            return True
        if len(kept) > MAX_LINE_BYTES:
            raise self._fault(f"the body is longer than {MAX_LINE_BYTES} bytes")
        if self._handler._iterate_by_lines:
            return False
        if bytes(kept[:64]).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b""):
            return True
        # Events after all, whatever the header says.
        self._kept = None
        if len(kept) > len(data):
            self._decoder.feed(bytes(kept[: -len(data)]))
        return False

    def _page(self) -> BackendError:
        text = bytes(self._kept or b"").decode("utf-8", "replace").strip()
        return self._fault(f"the server answered with a web page: {self._redacted_excerpt(text)}")

    def _redacted_excerpt(self, text: str) -> str:
        """The beginning of what a backend said, without the keys."""
        return mask_answer(text, self._handler.settings.secrets)[:SHOWN]

    def _read_whole(self, body: bytes, batch: Batch) -> bool:
        """A whole answer, from a server that does not stream. False when the bytes are no JSON object."""
        try:
            answer = decode_json(body.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            if not self._handler._iterate_by_lines:
                batch += self._take(self._decoder.feed(body))
            return False
        if not isinstance(answer, dict):
            return False
        if failure := self._told_failure(answer):
            raise failure
        self._give_whole(self._whole_batch(answer), batch)
        return True

    def _whole_batch(self, body: JsonObject) -> Batch:
        try:
            answer = self._handler.read_whole(body, for_agent=self.state.thoughts is not None)
            return in_order(one_chunk(answer), answer)
        except BackendError as error:
            self.bad_call = error.retryable
            raise

    def _is_one_piece(self, batch: Batch) -> bool:
        """A stream whose only event is a whole answer, though no header says so: it is given."""
        if self.output or self._first is None:
            return False
        try:
            self._handler._parse_non_stream_response(self._first)
        except (LookupError, TypeError, ValueError, AttributeError):
            return False
        whole = self._whole_batch(self._first)
        if not is_visible(whole[-1]):
            return False
        self._give_whole(whole, batch)
        return True

    def _give_whole(self, whole: Batch, batch: Batch) -> None:
        chunk = whole[-1]
        self.finish_reason = chunk["finish_reason"]
        self.output, self.only_text = True, False
        self.state.usage.update(chunk.get("usage") or {})
        self.ended = self.whole = True
        batch += whole

    # Events

    def _take_alike(self, lines: str) -> Batch | None:
        """As `_take`, all at once, for what a read brought of events that differ in nothing but their tokens.
        None: there are others among them."""
        form = self._form
        frame = self._decoder.frame(lines, form.name)
        tokens = None if frame is None else form.tokens_in(lines, *frame)
        if tokens is None:
            return None
        text = "".join(tokens)
        if "\n" in text:  # an event of several lines
            return None
        if '"' in text or "\\" in text:
            strings = [string_within(token) for token in tokens]
            tokens = [string for string in strings if string is not None]
            if len(tokens) < len(strings):
                return None
            text = "".join(tokens)
        form.misses = self._bad_in_a_row = 0
        out: Batch = [{"token": token, "finish_reason": None} for token in tokens if token]
        return self._note_output(TextBatch(out, text) if text else [])

    def _take(self, events: list[Event]) -> Batch:
        out: Batch = []
        form = self._form
        head, tail = form.head, form.tail
        start, end = len(head), len(tail)
        string: str | None
        for name, text in events:
            if text[:start] == head and text[-end:] == tail and name == form.name:
                token = text[start:-end]
                string = token if '"' not in token and "\\" not in token else string_within(token)
                if string is not None and len(text) >= start + end:
                    if string:
                        out.append({"token": string, "finish_reason": None})
                    form.misses = self._bad_in_a_row = 0
                    continue
            if self.ended:
                break
            if self._read_event(name, text, out):
                return out
            head, tail = form.head, form.tail
            start, end = len(head), len(tail)
        return self._note_output(out)

    def _read_event(self, name: str, text: str, out: Batch) -> bool:
        """One event, as JSON. True when the stream ended with an error dict."""
        data: Any
        try:
            data, end = scan_json(text, 0)
        except (StopIteration, ValueError, RecursionError):
            end = -1
        if end != len(text) or type(data) is not dict:
            data = self._second_look(text) if name != "error" else {"error": text}
            if data is None:
                if self._bad_in_a_row > MAX_BAD_EVENTS:
                    self._fail_batch(out, self._fault("the stream is not in the format of this backend"))
                    return True
                return False
        if name == "error" or data.get("error") or data.get("object") == "error" or "base_resp" in data:
            failure = self._told_failure(data, name)
            if failure is not None:
                if self._pending is None:
                    self._fail_batch(out, failure)
                    return True
                return False
        required = self._handler._required_event_name
        if required is None or name == required:
            return self._map_event(name, text, data, out)
        return False

    def _map_event(self, name: str, text: str, data: JsonObject, out: Batch) -> bool:
        """What the event means to this backend. True as for `_read`."""
        self._good += 1
        self._bad_in_a_row = 0
        self._first = data if self._good == 1 else None
        try:
            chunk = self._handler._map_event(name, data, self.state)
        except (LookupError, TypeError, ValueError, AttributeError):
            self._strange = self._strange or data
            self._count_bad(text)
            return False
        if self.state.ended:
            self._end_mark()
        if (chunk is None or (not chunk["token"] and len(chunk) == 2)) and not self._handler._is_answer(data):
            self._strange = self._strange or data
            if says_something(data):
                self._complaint = data
        if chunk is None:
            return False
        if "error" in chunk:
            self._fail_batch(out, told_error(self._endpoint, chunk["error"]))
            return True
        if "\\" in text or self._halves.held:  # a half is always written as an escape
            self._halves.join(chunk)
        plain = len(chunk) == 2 and chunk["finish_reason"] is None
        if not plain or self._splitter is not None or self._pending is not None:
            self._rich(chunk, out)
        elif chunk["token"]:
            out.append(chunk)
            self._form.learn(name, text, chunk["token"])
        if self._halves.held or self.state.held is not None:
            self._form.unlearn()
        return False

    def _note_output(self, out: Batch) -> Batch:
        """Note that something visible goes out; the model's name goes with the first of it."""
        if out:
            self.output = True
            if not self._model_told and self.state.model:
                self._model_told = True
                if model := text_of(self.state.model):
                    out[0]["model"] = model
                    return [*out]  # of text alone no more
        return out

    def _second_look(self, text: str) -> JsonObject | None:
        """What the short way could not read: the end mark, white space around the JSON, a sign of life (JSON
        that is no object), or something bad."""
        text = text.strip()
        if text == END_MARK:
            self._end_mark()
            self._good += 1
            return None
        if not text:
            return None
        try:
            data = decode_json(text)
        except (ValueError, RecursionError):
            self._count_bad(text)
            return None
        return data if isinstance(data, dict) else None

    def _end_mark(self) -> None:
        self._marked = self.ended = True
        self._form.forget()

    def _count_bad(self, text: str) -> None:
        self._bad += 1
        self._bad_in_a_row += 1
        if self._bad > 1:
            return  # one warning a stream
        logger.warning(
            "endpoint '%s': skipped an event that cannot be read: %s",
            self._endpoint,
            loggable_text(self._redacted_excerpt(text)),
        )

    def _rich(self, chunk: Chunk, out: Batch) -> None:
        """A dict that is more than a piece of text, or may hold reasoning."""
        self.only_text = False
        state = self.state
        if usage := chunk.pop("usage", None):
            state.usage.update(usage)
        if model := chunk.pop("model", None):
            state.model = state.model or model
        if "tool_calls" in chunk:
            calls = self._tools.add(chunk.pop("tool_calls"))
            if calls:
                self._halves.join_calls(calls)
                chunk["tool_calls"] = calls
                state.saw_tool_calls = True
        if self._splitter is not None and chunk["token"]:
            for before in split_in_order(self._splitter, chunk):
                self._give(before, out)
        if chunk["finish_reason"] is not None and self._pending is None:
            self._pending = chunk
            self._form.forget()
            return
        chunk["finish_reason"] = None
        chunk.pop("native_finish_reason", None)
        if is_visible(chunk):
            self._give(chunk, out)

    def _give(self, chunk: Chunk, out: Batch) -> None:
        if self._pending is not None and is_visible(self._pending):
            out.append(content_taken_out(self._pending))
        out.append(chunk)

    # Ends

    def _last_events(self) -> Batch:
        try:
            return self._take(self._decoder.finish())
        except LineTooLong as error:
            return self._fail_batch([], self._fault(str(error)))

    def _end(self, batch: Batch) -> Batch:
        """The table "End of stream" of spec 11."""
        self.only_text = False
        batch = self._give_held(batch)
        final = self._pending
        if final is None:
            if self._strange is not None and not self.output and not batch:
                raise self._unrecognised_error(self._strange)
            if self._complaint is not None:
                return self._fail_batch(batch, self._unrecognised_error(self._complaint))
            final = {"token": "", "finish_reason": "tool_calls" if self.state.saw_tool_calls else "stop"}
            if not self._marked:
                self._check_plain_end(final)
        if self.state.saw_tool_calls and (failure := self._finish_calls(final)):
            self.bad_call = True
            return self._fail_batch(batch, failure)
        if self.truncated:
            logger.warning("endpoint '%s': the stream ended without its end mark", self._endpoint)
        if self._splitter is not None:
            thinking, text = self._splitter.finish()
            if thinking and final["token"]:
                batch.append(content_taken_out(final))
            set_split(final, thinking, final["token"] + text)
        if failure := self._failure_word(final, is_empty=not (self.output or batch or is_visible(final))):
            return self._fail_batch(batch, failure)
        if usage := self.state.usage:
            final["usage"] = usage
        if self.state.thoughts is not None and (fields := self.state.thoughts.fields()):
            final["beside"] = fields
        self.finish_reason = final["finish_reason"]
        self.ended = True
        batch.append(final)
        return self._note_output(batch)

    def _give_held(self, out: Batch) -> Batch:
        """What waited for more of the answer, behind what is given."""
        chunk: Chunk = {"token": "", "finish_reason": None}
        if self.state.held is not None:
            text, thinking = self.state.held.rest()
            set_split(chunk, thinking, text)
            self._halves.join(chunk)
        self._halves.release(chunk)
        self._rich(chunk, out)
        return self._note_output(out)

    def _finish_calls(self, final: Chunk) -> BackendError | None:
        """A call without arguments gets `{}`. The error that a call is whose arguments are not whole; in an
        answer that says that it was cut there is none."""
        if final["finish_reason"] in CUTTING_REASONS:
            return None
        blank, cut = self._tools.unfinished_calls()
        if self.truncated and (blank or cut):
            return BackendError(self._endpoint, "connection_lost", "the stream ended inside a tool call")
        if cut and self.state.thoughts is None:
            return bad_call(self._endpoint, cut)
        if blank:
            empty = [{"index": index, "function": {"arguments": "{}"}} for index in blank]
            final["tool_calls"] = [*final.get("tool_calls", ()), *empty]
        return None

    def _failure_word(self, final: Chunk, *, is_empty: bool) -> BackendError | None:
        """The error that the finish reason is: in the standard's words, or of an answer of nothing."""
        word = final.get("native_finish_reason") if is_empty else None
        return failed_by_word(self._endpoint, "error" if final["finish_reason"] == "error" else word)

    def _check_plain_end(self, final: Chunk) -> None:
        """The body ended without an end mark. Raises when nothing useful came."""
        if not self._good:
            what = f"{self._bad} events that cannot be read" if self._bad else "nothing"
            raise self._fault(f"the stream contained {what}")
        if self._handler.eof_is_end:
            return
        if not self.output:
            raise self._fault("the stream ended without any output")
        final["truncated"] = self.truncated = True

    def _fail_batch(self, out: Batch, error: BackendError) -> Batch:
        """Raise the error, or end the batch with it when something visible has come out."""
        if not out and not self.output:
            raise error
        self._note_output(out)
        self.ended, self.only_text = True, False
        self.finish_reason, self.failure = (
            "error",
            loggable_error(error),
        )  # its words: an error holds its frames
        out.append({"token": "", "finish_reason": "error", "error": error_chunk(error)})
        return out

    def _told_failure(self, data: JsonObject, name: str = "") -> BackendError | None:
        settings = self._handler.settings
        return told_failure(settings.endpoint, data, name, secrets=settings.secrets)

    def _unrecognised_error(self, data: JsonObject) -> BackendError:
        settings = self._handler.settings
        return unrecognised_answer_error(settings.endpoint, data, secrets=settings.secrets)

    def _fault(self, message: str) -> BackendError:
        return BackendError(self._endpoint, "protocol_error", message)
