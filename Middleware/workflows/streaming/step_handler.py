"""The answer of an agent on its way to the client: each step's text is cleaned as an answer of its own.

Between the texts of two steps stands one empty line, whatever white space they end and begin with. Whole and
streamed alike. Source: spec agents.md 5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from Middleware.common.types import Batch, Chunk
from Middleware.utilities.streaming_utils import log_findings
from Middleware.workflows.streaming.response_handler import StreamingResponseHandler, ThoughtRoute

JOINT = "\n\n"
"""Between the texts of two steps, and between their thoughts."""


@dataclass(slots=True)
class StepEnd:
    """A step of an agent is over; what its loop yields of it, as the `step` of a chunk.

    `called`: it called tools, so it is not the answer. `may_go_on`: if it said nothing, another step may
    follow. `said`: filled in while the chunk is handled: whether
    any of its text is left once it is cleaned. `answers`: the next step is the last one, so its text may
    leave as it comes.
    """

    called: bool = False
    may_go_on: bool = False
    said: bool = False
    answers: bool = False


TellStep = Callable[[str, str, list[str]], None]
"""Is told of each step: its text as it came, the same cleaned, and its thoughts."""


class StepThoughts(ThoughtRoute):
    """As `ThoughtRoute`; an empty line parts the thoughts of two steps."""

    def __init__(self, mode: str, endpoint_config: Mapping[str, Any]) -> None:
        super().__init__(mode, endpoint_config)
        self._has_thought = self._needs_joint = False

    def begin_step(self) -> None:
        self._needs_joint = self._has_thought

    def go_on_from(self, before: StepThoughts) -> None:
        """Those that went the way `before` stand in front."""
        self._has_thought, self._needs_joint = before._has_thought, before._needs_joint

    def think(self, thought: str, out: Batch) -> None:
        if not thought:
            return
        if self._needs_joint:
            thought, self._needs_joint = JOINT + thought, False
        self._has_thought = True
        super().think(thought, out)


class StepHandler(StreamingResponseHandler):
    """As `StreamingResponseHandler`, of an answer in several steps.

    `holds_text`: the text of a step waits for its end; with calls it is a thought (`stepText: thinking`).
    `tell_step`: None: nobody wants to know.
    """

    def __init__(
        self,
        endpoint_config: Mapping[str, Any],
        workflow_node_config: Mapping[str, Any],
        generation_prompt: str | None = None,
        request_id: str | None = None,
        *,
        user_config: Mapping[str, Any] | None = None,
        endpoint_now: Callable[[], Mapping[str, Any] | None] | None = None,
        holds_text: bool = False,
        tell_step: TellStep | None = None,
    ) -> None:
        super().__init__(
            endpoint_config,
            workflow_node_config,
            generation_prompt,
            request_id,
            user_config=user_config,
            endpoint_now=endpoint_now,
        )
        self._holds_always, self._holds_text = holds_text, holds_text
        self._tell_step = tell_step
        self._held: list[str] = []
        self._space = ""
        """White space at the end of what was said, or before the first text: it waits for the next text."""
        self._step_said = False
        self._step_from = 0, 0

    # --- a step ends ---

    def _handle_mixed_chunk(self, chunk: Chunk, run: list[str], out: Batch) -> None:
        end = chunk.get("step")
        if isinstance(end, StepEnd):
            self._flush(run, out)
            self._end_step(end, out)
            return
        super()._handle_mixed_chunk(chunk, run, out)

    def _end_step(self, end: StepEnd, out: Batch) -> None:
        rest = self._cleaner.finish(may_be_empty=end.called or end.may_go_on)
        self._route.think(self._cleaner.take_thoughts(), out)
        self._say(rest, out)
        self._settle_held(out, is_thought=end.called)
        self._close_beside()
        self._count_completed()
        if self._cleaner.unclosed_thought:
            self.thoughts.append(self._cleaner.unclosed_thought)
        end.said = self._step_said
        text = "".join(self._texts[self._step_from[0] :])
        log_findings(self._cleaner, self._endpoint, text or "called")
        self._note_step(text)
        self._begin_step(out, answers=end.answers)

    def _settle_held(self, out: Batch, *, is_thought: bool) -> None:
        """What was held of the step's text: a thought, or the answer."""
        text, self._held = "".join(self._held), []
        if not text:
            return
        if is_thought and text.strip():
            self._steps.begin_step()
            self._close_beside()
            self.thoughts.append(text)
            self._route.think(text, out)
        elif is_thought:
            return
        else:
            self._join(text, out)

    def _finish(self, out: Batch) -> None:
        super()._finish(out)
        self._note_step("".join(self._texts[self._step_from[0] :]))

    def _note_step(self, text: str) -> None:
        """Tell of the step that is over, unless nothing came in it."""
        thoughts = self.thoughts[self._step_from[1] :]
        text = text.removeprefix(JOINT) if self._step_from[0] else text
        raw = text if self.raw is None else "".join(self.raw)
        if self._tell_step is not None and (raw or text or thoughts):
            self._tell_step(raw, text, thoughts)
        if self.raw is not None:
            self.raw.clear()

    def _begin_step(self, out: Batch, *, answers: bool) -> None:
        """The next step, with a cleaner of its own. The opening of a group chat belongs to the first text;
        so do thoughts in the text.
        """
        has_text = bool(self._texts)
        self._cleaner = self._new_cleaner(None if has_text else self._made_of[3])
        if has_text and self._route.keeps_order:
            self._close_tag(out)
            self._route = self._steps = StepThoughts("drop", {})
        self._steps.begin_step()
        self._is_fed = self._endpoint_now is None
        self._holds_text = self._holds_always and not answers
        self._counted = 0
        self._step_from = len(self._texts), len(self.thoughts)
        self._step_said = False
        self._space = "" if not has_text else self._space

    def _new_route(self) -> ThoughtRoute:
        self._steps = StepThoughts(self._cleaner.reasoning, self._made_of[0] or {})
        return self._steps

    def _renew(self) -> None:
        """Another endpoint answers this step: its thoughts go where that one's do, behind those before."""
        has_text, before = bool(self._texts), self._steps
        self._cleaner = self._new_cleaner(None if has_text else self._made_of[3])
        if before.is_open:
            return
        self._route = self._new_route()
        if has_text and self._route.keeps_order:
            self._route = self._steps = StepThoughts("drop", {})
        self._steps.go_on_from(before)

    # --- its text ---

    def _say(self, text: str, out: Batch) -> None:
        if text and self._holds_text:
            self._held.append(text)
        elif text:
            self._join(text, out)

    def _join(self, text: str, out: Batch) -> None:
        """The text behind that of the steps before; white space at its end is held."""
        body = text if self._step_said else text.lstrip()
        if not body:
            if not self._texts:  # before any text: it stays in front of the first
                self._space += text
            return
        if not self._step_said:
            lead = JOINT if self._texts else self._space + text[: len(text) - len(body)]
            body, self._space, self._step_said = lead + body, "", True
        kept = body.rstrip()
        if not kept:
            self._space += body
            return
        said, self._space = self._space + kept, body[len(kept) :]
        super()._say(said, out)

    def _drain(self, out: Batch, *, may_be_empty: bool) -> None:
        rest = self._cleaner.finish(may_be_empty=may_be_empty)
        self._route.think(self._cleaner.take_thoughts(), out)
        self._say(rest, out)
        self._settle_held(out, is_thought=False)
        if self._space:
            super()._say(self._space, out)
            self._space = ""
        super()._drain(out, may_be_empty=may_be_empty)
