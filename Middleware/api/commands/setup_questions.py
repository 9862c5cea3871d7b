"""The questions of `--setup`: plain lines, each with a default. Knows nothing of what is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

NOTHING = "none"
_YES, _NO = ("y", "yes"), ("n", "no")


class Questions:
    """Asks on the terminal. `takes_defaults`: says what it would ask, and takes the default.

    `read(prompt)` gives one line; it raises EOFError at the end of the input.
    """

    def __init__(self, takes_defaults: bool, read: Callable[[str], str] = input) -> None:
        self._takes_defaults, self._read = takes_defaults, read

    def ask(
        self, question: str, default: str = "", fault: Callable[[str], str | None] = lambda answer: None
    ) -> str:
        """One line without white space around it; an empty one is the default.

        `fault(answer)`: why an answer cannot be taken; then the question is asked again. Raises ValueError
        for a default that cannot be taken and that nobody can correct.
        """
        while True:
            answer = self._line(f"{question} [{default or NOTHING}]: ") or default
            if not (why := fault(answer)):
                return answer
            if self._takes_defaults:
                raise ValueError(why)
            print(f"  {why}")

    def choose(self, question: str, choices: Sequence[str]) -> int:
        """The index of one of the choices, which are shown with numbers; the first is the default."""
        for number, choice in enumerate(choices, 1):
            print(f"  {number}  {choice}")

        def fault(answer: str) -> str | None:
            is_one = answer.isdecimal() and 1 <= int(answer) <= len(choices)
            return None if is_one else f"type a number from 1 to {len(choices)}"

        return int(self.ask(question, "1", fault)) - 1

    def confirm(self, question: str, default: bool) -> bool:
        """Yes or no."""

        def fault(answer: str) -> str | None:
            return None if answer.casefold() in (*_YES, *_NO) else "type yes or no"

        return self.ask(question, "yes" if default else "no", fault).casefold() in _YES

    def _line(self, prompt: str) -> str:
        if self._takes_defaults:
            print(prompt.rstrip())
            return ""
        return self._read(prompt).strip()
