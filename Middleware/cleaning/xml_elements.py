"""Finds XML elements and self-closing tags in a stream of text.

What it removes leaves a GAP between the pieces.

Linear: a character is looked at once while it streams, and an element that never closes once more at the
end. Knows nothing of white space between the pieces and nothing of any configuration.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

GAP = None
Pieces = list[str | None]
"""Texts, none of them empty, and GAPs."""

_NAME = r"[A-Za-z_:][A-Za-z0-9_:.-]*+"
_OPENING = re.compile(rf"<({_NAME})(?=[\s>])")
_OPENING_OR_TAIL = re.compile(rf"<(?:({_NAME})(?:(?=[\s>])|\Z)|\Z)")
_FIRST_OF_NAME = re.compile(r"[A-Za-z_:]")
_REST_OF_NAME = re.compile(r"[A-Za-z0-9_:.-]*")
_CLOSING = re.compile(rf"</({_NAME})>")
_SELF_CLOSING_OR_TAIL = re.compile(rf"<(?:({_NAME})(?:(/>)|(\s)|/?\Z)|\Z)")


class ElementNames:
    """Which element names count: all (`"*"`), or those of a list."""

    def __init__(self, tags: str | Iterable[str]) -> None:
        listed = frozenset([tags] if isinstance(tags, str) else tags)
        self.all = "*" in listed
        self._listed = listed
        self._beginnings = frozenset(name[:n] for name in listed for n in range(len(name) + 1))

    def __contains__(self, name: str) -> bool:
        return self.all or name in self._listed

    def may_become(self, beginning: str) -> bool:
        return self.all or beginning in self._beginnings


class PairedElements:
    """`<name ...>...</name>` becomes a GAP. Holds what may be one until it closes or the text ends.

    While something is held, `_step` says how far it is: in its name, in its attributes, in its body.
    """

    def __init__(self, names: ElementNames) -> None:
        self._names = names
        self._held: list[str] = []  # from the `<` on; empty: nothing is open
        self._step = self._in_name
        self._closing: str  # tag of the element that is open
        self._matched: int  # so many characters of it stand at the end of what is held

    def feed(self, text: str) -> Pieces:
        out: Pieces = []
        position = 0
        while position < len(text):
            position = self._step(text, position, out) if self._held else self._search(text, position, out)
        return out

    def finish(self) -> Pieces:
        """What is still open is text; what stands behind its `<` may hold elements."""
        held, self._held = "".join(self._held), []
        if not held:
            return []
        return self._resolve(held) if self._step == self._in_body else [held]

    def _search(self, text: str, position: int, out: Pieces) -> int:
        """Release the text before the next thing that may be an element, and hold that."""
        at = position
        while found := _OPENING_OR_TAIL.search(text, at):
            at = found.end()
            name = found[1] or ""
            if at == len(text) and self._names.may_become(name):
                self._step = self._in_name
            elif at < len(text) and name in self._names:
                self._open_element(name)
            else:
                continue
            _add(out, text[position : found.start()])
            self._held.append(found.group())
            return at
        _add(out, text[position:])
        return len(text)

    def _open_element(self, name: str) -> None:
        self._step, self._closing, self._matched = self._in_attributes, f"</{name}>", 0

    def _in_name(self, text: str, position: int, out: Pieces) -> int:
        pattern = _FIRST_OF_NAME if self._held == ["<"] else _REST_OF_NAME
        found = pattern.match(text, position)
        end = found.end() if found else position
        self._held.append(text[position:end])
        if found and pattern is _FIRST_OF_NAME and end < len(text):
            return end
        if end == len(text) and self._names.all:
            return end
        name = "".join(self._held)[1:]
        if end == len(text):
            going = self._names.may_become(name)
        else:
            going = bool(name) and (text[end] == ">" or text[end].isspace()) and name in self._names
            if going:
                self._open_element(name)
        if not going:
            out.append("<" + name)
            self._held = []
        return end

    def _in_attributes(self, text: str, position: int, out: Pieces) -> int:
        """Hold the attributes. A tag that ends in `/>` opens nothing: it goes out at once."""
        end = text.find(">", position) + 1
        closes_itself = text[end - 2] == "/" if end > position + 1 else self._held[-1].endswith("/")
        self._held.append(text[position : end or len(text)])
        if end and closes_itself:
            out.append("".join(self._held))
            self._held = []
        elif end:
            self._step = self._in_body
        return end or len(text)

    def _in_body(self, text: str, position: int, out: Pieces) -> int:
        """Look for the closing tag.

        Its `<` is its only one, so a match that fails starts again at the next.
        """
        start = position
        if self._matched:
            wanted = self._closing[self._matched : self._matched + len(text) - start]
            if text.startswith(wanted, start):
                self._matched += len(wanted)
                start += len(wanted)
                if self._matched == len(self._closing):
                    return self._close(start, out)
                self._held.append(text[position:])
                return len(text)
        found = text.find(self._closing, start)
        if found >= 0:
            return self._close(found + len(self._closing), out)
        last = text.rfind("<", start)
        begun = last >= 0 and self._closing.startswith(text[last:])
        self._matched = len(text) - last if begun else 0
        self._held.append(text[position:])
        return len(text)

    def _close(self, position: int, out: Pieces) -> int:
        self._held = []
        out.append(GAP)
        return position

    def _resolve(self, text: str) -> Pieces:
        """The elements of a whole text.

        Positions only move forward, so each tag and each `>` is passed once.
        """
        closings: defaultdict[str, list[re.Match[str]]] = defaultdict(list)
        for closing in _CLOSING.finditer(text):
            closings[closing[1]].append(closing)
        for waiting in closings.values():
            waiting.reverse()
        out: Pieces = []
        position = bracket = 0
        for opening in _OPENING.finditer(text):
            waiting = closings.get(opening[1], [])
            if opening.start() < position or not waiting or opening[1] not in self._names:
                continue
            if bracket < opening.end():
                bracket = text.find(">", opening.end())
            if bracket < 0:
                break
            if text[bracket - 1] == "/":
                continue
            while waiting and waiting[-1].start() < bracket:
                waiting.pop()
            if waiting:
                _add(out, text[position : opening.start()])
                out.append(GAP)
                position = waiting.pop().end()
        _add(out, text[position:])
        return out


class SelfClosingTags:
    """`<name/>` and `<name .../>` become a GAP. A GAP in what comes in counts as white space."""

    def __init__(self, names: ElementNames) -> None:
        self._names = names
        self._tail = ""  # may begin a tag: `<`, `<name` or `<name/`
        self._held: Pieces = []  # a tag whose `>` has not come: `<name` and white space, then anything

    def feed(self, pieces: Pieces) -> Pieces:
        out: Pieces = []
        for piece in pieces:
            if self._held:
                self._in_attributes(piece, out)
            elif piece is not None:
                text, self._tail = self._tail + piece, ""
                self._search(text, out)
            elif self._tail and self._tail[1:] in self._names and not self._tail.endswith(("<", "/")):
                self._held, self._tail = [self._tail, GAP], ""
            else:
                out += self.finish()
                out.append(GAP)
        return out

    def finish(self) -> Pieces:
        """What is held is text."""
        rest: Pieces = [*self._held, self._tail] if self._tail else self._held
        self._held, self._tail = [], ""
        return rest

    def _search(self, text: str, out: Pieces) -> None:
        position = at = 0
        while found := _SELF_CLOSING_OR_TAIL.search(text, at):
            name, closed, space = found.groups()
            at = found.end()
            if space and name in self._names:
                at = text.find(">", at) + 1
                if not at:
                    _add(out, text[position : found.start()])
                    self._held = [text[found.start() :]]
                    return
                closed = text[at - 2] == "/"
            if closed and name in self._names:
                _add(out, text[position : found.start()])
                out.append(GAP)
                position = at
            elif not closed and not space and self._may_go_on(found.group()):
                _add(out, text[position : found.start()])
                self._tail = found.group()
                return
        _add(out, text[position:])

    def _may_go_on(self, tail: str) -> bool:
        return tail[1:-1] in self._names if tail.endswith("/") else self._names.may_become(tail[1:])

    def _in_attributes(self, piece: str | None, out: Pieces) -> None:
        end = piece.find(">") if piece else -1
        if piece is None or end < 0:
            self._held.append(piece)
            return
        before = piece[end - 1] if end else (self._held[-1] or " ")[-1]
        if before == "/":
            out.append(GAP)
        else:
            out += [*self._held, piece[: end + 1]]
        self._held = []
        self._search(piece[end + 1 :], out)


def _add(out: Pieces, text: str) -> None:
    if text:
        out.append(text)
