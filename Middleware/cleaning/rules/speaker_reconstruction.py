"""Order 305: puts back the speaker's name that the prompt of a group chat ended with. Always on."""

from __future__ import annotations

from Middleware.cleaning.stage import Findings, Inputs, Stage, rule

MARGIN = 10
"""A speaker's own name may be this much longer than the one that was asked for."""


class SpeakerReconstruction:
    """Stage.

    Puts the prompt and a space before the text unless a `:` near its start shows that a speaker is named.
    """

    __slots__ = ("_findings", "_head", "_limit", "_prompt", "done")

    def __init__(self, prompt: str, findings: Findings) -> None:
        self._prompt, self._findings = prompt, findings
        self._limit = len(prompt) + MARGIN
        self._head = ""
        self.done = False

    def feed(self, text: str) -> str:
        self._head += text
        colon = self._head.find(":", 0, self._limit)
        self.done = colon >= 0 or len(self._head) >= self._limit
        if not self.done:
            return ""
        return self._head if colon > 0 else f"{self._prompt} {self._head}"

    def finish(self) -> str:
        if self.done or (not self._head and self._findings.may_be_empty):
            return ""
        return f"{self._prompt} {self._head}"


@rule(order=305)
def speaker_reconstruction(inputs: Inputs) -> Stage | None:
    """On when a generation prompt (`Roland:`) was put into the request."""
    prompt = (inputs.generation_prompt or "").strip()
    return SpeakerReconstruction(prompt, inputs.findings) if prompt else None
