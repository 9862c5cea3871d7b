"""Whose key a request came with, asked again when its turn has come (keys.md 1)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from Middleware.api.requests.key_check import EXPIRED, WRONG, KeyCheck
from Middleware.api.wsgi.doors import ASKER
from Middleware.common.asker import current_asker, enter_asker
from Middleware.common.errors import Unauthorized
from Middleware.config.key_file import KeyEntry, digest_of
from Middleware.config.key_ring import KeyRing

NOON = 1_790_000_000.0


def entry(**facts):
    return KeyEntry(**{"name": "ann", "sha256": digest_of("k-ann"), "users": ("*",), **facts})


class Waiting:
    """A request that was let in by a key and waits, while `entries` and `now` change."""

    def __init__(self, *entries):
        self.now, self.entries = NOON, entries
        file = SimpleNamespace(ring=lambda: self.ring)
        self.check = KeyCheck(file=file, clock=lambda: self.now)
        self.environ = {"HTTP_AUTHORIZATION": "Bearer k-ann"}
        self.asker = self.environ[ASKER] = self.check.identify(self.environ)

    @property
    def entries(self):
        return self.ring.entries

    @entries.setter
    def entries(self, entries):
        self.ring = KeyRing.of(entries)

    def ask_again(self):
        with enter_asker(self.asker):
            return self.check.check_again(self.environ), current_asker()


def test_the_same_version_of_the_file_is_asked_for_the_entry_alone():
    """No header is read once more, and no key counted."""
    waiting = Waiting(entry(expires=NOON + 60))
    del waiting.environ["HTTP_AUTHORIZATION"]
    assert waiting.ask_again() == (waiting.asker, waiting.asker)


def test_a_new_version_counts():
    """Also where the key stays: it may ask fewer users now."""
    waiting = Waiting(entry())
    waiting.entries = (entry(users=("ann",)),)
    asker, current = waiting.ask_again()
    assert asker.entry is waiting.entries[0] and asker is current is waiting.environ[ASKER]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"entries": ()}, WRONG),
        ({"entries": (entry(sha256=digest_of("new")),)}, WRONG),
        ({"now": NOON + 60}, EXPIRED),
    ],
    ids=["revoked", "exchanged", "expired"],
)
def test_what_is_no_key_any_more_is_refused(change, said):
    waiting = Waiting(entry(expires=NOON + 60))
    for name, value in change.items():
        setattr(waiting, name, value)
    with pytest.raises(Unauthorized, match=said):
        waiting.ask_again()
