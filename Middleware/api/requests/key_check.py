"""Whose key a request came with: the keys of the command line and those of the keys file.

Looks up digests and compares no key letter by letter. Never logs a key. Source: spec keys.md 2, 3.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any

from Middleware.api.requests.access import api_key_of, keys_sent, names_key_in_query
from Middleware.api.requests.wrong_keys import WrongKeyLines
from Middleware.api.wsgi.doors import ASKER
from Middleware.common.asker import ANYBODY, Asker, set_asker
from Middleware.common.constants import KEY_CHALLENGE
from Middleware.common.errors import ConfigError, Unauthorized
from Middleware.config.key_file import KeyEntry, digest_of, mixed_pair
from Middleware.config.key_ring import KeyRing, KeysInForce
from Middleware.config.users import UserSettings
from Middleware.utilities.hashing_utils import sha256_hex

logger = logging.getLogger(__name__)

MISSING = "this server requires a valid API key"
WRONG = "this server doesn't know this API key"
EXPIRED = "this key has expired"
BROKEN = "the server's keys file has an error, so no key is valid; see the server's log"
IN_ADDRESS = "a key in the address ends up in logs: send it as Authorization: Bearer"
KEYS = "headrace.keys"
"""Key of the WSGI environment under which a request of the console finds the `KeyCheck` of its server."""

MOST_VALUES = 1000
"""So many values of a `turnsBy` header are told apart in a day."""
_OTHERS = "others"

_NOBODYS = KeyEntry("", "", ())
STRANGER = Asker(entry=_NOBODYS)
"""Who sent no valid key, where one is needed, and asks for what is open to everybody."""


class KeyCheck:
    """`api_keys`: of the command line. `file`: None: there is none, and none can appear.

    `note_wrong_key()` is called for each request that came with a key that is none. `seen`: name of an entry
    -> Unix seconds of its last request.
    """

    def __init__(
        self,
        api_keys: Sequence[str] = (),
        file: KeysInForce | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._digests = frozenset(map(digest_of, api_keys))
        self._file, self._clock = file, clock
        self._lines = WrongKeyLines()
        self._values: dict[str, tuple[date, set[str]]] = {}
        self._lock = threading.Lock()
        self.note_wrong_key: Callable[[], object] = _note_nothing
        self.seen: dict[str, float] = {}

    @property
    def ring(self) -> KeyRing | None:
        """The entries that hold now; None: there is no keys file."""
        return self._file.ring() if self._file is not None else None

    @property
    def is_needed(self) -> bool:
        """Whether clients must have a key."""
        return bool(self._digests) or self.ring is not None

    def identify(self, headers: Mapping[str, Any]) -> Asker | None:
        """Who sends this request; None: no key is needed here. Raises Unauthorized.

        Of several keys the first that is valid counts. `headers`: names as WSGI spells them.
        """
        ring = self.ring
        if ring is None and not self._digests:
            return None
        sent = keys_sent(headers)
        expired, now = False, self._clock()
        for key in sent:
            digest = digest_of(key)
            entry = ring.find(digest) if ring is not None else None
            if entry is not None and entry.has_expired(now):
                expired = True
            elif entry is not None:
                self.seen[entry.name] = now
                return Asker(entry.name, f"key {entry.name}", key, entry, self._turns_value(entry, headers))
            elif digest in self._digests and not (ring is not None and ring.broken):
                return Asker(key=key, owner="" if ring is None else f"hash {digest[:16]}")
        raise self._refusal(headers, ring, came=bool(sent), expired=expired)

    def asker_of(self, key: str | None) -> Asker | None:
        """As `identify`, of a key that no header holds."""
        return self.identify({"HTTP_X_API_KEY": key or ""})

    @staticmethod
    def _refusal(
        headers: Mapping[str, Any], ring: KeyRing | None, *, came: bool, expired: bool
    ) -> Unauthorized:
        if ring is not None and ring.broken:
            return Unauthorized(BROKEN, challenge=KEY_CHALLENGE)
        if came:
            return Unauthorized(
                EXPIRED if expired else WRONG, challenge=f'{KEY_CHALLENGE}, error="invalid_token"'
            )
        in_address = names_key_in_query(headers.get("QUERY_STRING", ""))
        return Unauthorized(IN_ADDRESS if in_address else MISSING, challenge=KEY_CHALLENGE)

    def _turns_value(self, entry: KeyEntry, headers: Mapping[str, Any]) -> str:
        """What stands for the value of the entry's `turnsBy` header: its SHA-256; `""` without one."""
        if not entry.turns_by:
            return ""
        value = str(headers.get(f"HTTP_{entry.turns_by.upper().replace('-', '_')}", "")).strip()
        if not value:
            return ""
        mark, today = sha256_hex(value), date.fromtimestamp(self._clock())
        with self._lock:
            day, known = self._values.get(entry.name, (today, set()))
            if day != today:
                known = set()
            self._values[entry.name] = (today, known)
            if mark not in known and len(known) >= MOST_VALUES:
                return _OTHERS
            known.add(mark)
        return mark

    def check_again(self, environ: dict[str, Any]) -> Asker | None:
        """Who sends a request that has waited, by the keys that hold now. Raises Unauthorized for a key that
        was revoked, or that has expired, meanwhile.
        """
        before: Asker = environ.get(ASKER, ANYBODY)
        if self._still_holds(before.entry):
            return before
        asker = self.identify(environ)
        if asker is not None:
            environ[ASKER] = asker
            set_asker(asker)
        return asker

    def _still_holds(self, entry: KeyEntry | None) -> bool:
        """Whether an entry is one of the version of the file that is in force, and has not expired."""
        ring = self.ring
        if entry is None or ring is None or ring.find(entry.sha256) is not entry:
            return False
        return not entry.has_expired(self._clock())

    def note_refusal(self, error: Unauthorized, address: str) -> bool:
        """Count a request that was refused. True: its own line in the log is wanted; wrong keys have one a
        minute and address.
        """
        if str(error) != WRONG:
            return True
        self.note_wrong_key()
        if count := self._lines.add(address):
            logger.warning("401 for %s: %s with a wrong API key", address, _requests(count))
        return False


def _note_nothing() -> None:
    """Default of `KeyCheck.note_wrong_key`."""


def _requests(count: int) -> str:
    return "1 request" if count == 1 else f"{count} requests"


def owner_of(headers: Mapping[str, Any]) -> str | None:
    """Whose ids, cancels and stored responses a request may use; None: nobody asks that, as there is no keys
    file."""
    asker: Asker = headers.get(ASKER, ANYBODY)
    return asker.owner or None


def key_of_request(headers: Mapping[str, Any]) -> str | None:
    """The key that counts of those that the client sent; where keys are checked, the valid one. `headers`:
    names as WSGI spells them.
    """
    asker: Asker | None = headers.get(ASKER)
    return api_key_of(headers) if asker is None else asker.key


def refuse_two_ciphers(asker: Asker, user: UserSettings) -> None:
    """Raise ConfigError for a key with a folder of its own and a user whose files the key itself encrypts:
    whoever shares the folder, or has the next key, could not read them. Source: keys.md 1.
    """
    if asker.folder is not None and user.encrypt_using_api_key:
        raise ConfigError(mixed_pair(asker.name, user.name))
