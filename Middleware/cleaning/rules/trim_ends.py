"""Order 400: removes white space at both ends of the answer, not only at its start."""

from __future__ import annotations

from Middleware.cleaning.stage import FLAG, Inputs, Stage, rule


class TrimEnds:
    """Stage. `.strip()` in a stream: a run of white space is held until something follows it."""

    __slots__ = ("_begun", "_space", "done")

    def __init__(self) -> None:
        self._space: list[str] = []
        self._begun = False
        self.done = False

    def feed(self, text: str) -> str:
        if not self._begun:
            text = text.lstrip()
            self._begun = bool(text)
        body = text.rstrip()
        if not body:
            self._space.append(text)
            return ""
        space, self._space = self._space, [text[len(body) :]]
        return "".join(space) + body

    def finish(self) -> str:
        return ""


@rule(
    order=400,
    endpoint={"trimBeginningAndEndLineBreaks": FLAG("Trim white space at both ends of answers.")},
)
def trim_ends(inputs: Inputs) -> Stage | None:
    """On when the endpoint sets `trimBeginningAndEndLineBreaks`."""
    return TrimEnds() if inputs.endpoint.get("trimBeginningAndEndLineBreaks") else None
