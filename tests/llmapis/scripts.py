"""What a scripted server does with its connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def saying(*parts: Any, keep: bool = True) -> Callable[[Any], None]:
    """Answers each request with the same bytes; only the first one without `keep`."""

    def script(peer: Any) -> None:
        while peer.request():
            peer.send(*parts)
            if not keep:
                return

    return script
