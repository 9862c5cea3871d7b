"""Is a text the address of an HTTP server? Pure: resolves no name and calls nobody."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from Middleware.config.environment import ENV_REFERENCE

EXAMPLE = "an address such as http://127.0.0.1:11434"
_BLANK = re.compile(r"\s")


def address_fault(url: str) -> str | None:
    """What is wrong with an address, as `found ..., allowed: ...`; None for a right one.

    One with `${ENV:NAME}` is known at run time only.
    """
    if ENV_REFERENCE.search(url):
        return None
    why = why_no_address(url.strip())
    return f'found "{url}", allowed: {EXAMPLE} ({why})' if why else None


def why_no_address(url: str) -> str | None:
    """What is wrong, without the text itself, which may hold a secret; None for an address."""
    if not url:
        return "it is empty"
    if _BLANK.search(url):
        return "it holds a blank"
    if not url.lower().startswith(("http://", "https://")):
        return "it does not begin with http:// or https://"
    try:
        parts = urlsplit(url)
    except ValueError:
        return "the brackets around its host do not fit"
    if not parts.hostname:
        return "it has no host"
    try:
        port = parts.port
    except ValueError:
        port = 0
    return "its port is no number from 1 to 65535" if port == 0 else None
