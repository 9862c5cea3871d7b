"""How secrets are taken out of what the console shows: whole, and as JSON writes them.

Source: spec console.md 2.6.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import partial

from Middleware.api.console.text_masks import without_quoted_secrets
from Middleware.common.errors import ConfigError
from Middleware.config.environment import secrets_in_use
from Middleware.utilities.sensitive_logging_utils import mask_secrets
from Middleware.utilities.text_utils import sentence_of

Mask = Callable[[str], str]
"""A text -> the same without secrets."""


def mask_of(secrets: Iterable[str | None]) -> Mask:
    """Hides these secrets, the longest first, and what looks like one."""
    known = {secret for secret in secrets if secret}
    known |= {json.dumps(secret, ensure_ascii=False)[1:-1] for secret in known}
    return partial(_mask_known, sorted(known, key=len, reverse=True))


def _mask_known(known: list[str], text: str) -> str:
    return mask_secrets(text, *known)


def told_of_file(error: ConfigError, secrets: Iterable[str | None] = ()) -> str:
    """What is wrong with a config file, in one sentence: file, field, what was found and is allowed.

    `secrets`: keys of this server.
    """
    said = without_quoted_secrets(" ".join(str(error).split()))
    return sentence_of(mask_of((*secrets, *secrets_in_use()))(said))
