"""`Keys.json` -> entries (keys.md 1)."""

from __future__ import annotations

import json
from datetime import date, datetime, time, timedelta, timezone

import pytest

from Middleware.common.errors import ConfigError
from Middleware.config.key_file import (
    KeyLimits,
    digest_of,
    is_key_folder,
    limits_json,
    lost_patterns,
    read_keys,
)

SHA = "1ab4571f0fc76f3e7b00c8cf04a7373a4d23c2d4a0e4c69105b50809248b3e82"
ONE = {"name": "one", "sha256": SHA, "users": ["*"]}


def entries(*given):
    return read_keys(json.dumps({"keys": list(given)}).encode())


def test_the_digest_of_a_key():
    """Source: keys.md 8."""
    assert digest_of("hr-test-key-ann") == digest_of(" hr-test-key-ann\n") == SHA


def test_an_entry_with_all_its_fields():
    limits = {
        "concurrent": 2,
        "queued": 0,
        "requestsPerMinute": 30,
        "tokensPerDay": 200000,
        "costPerDay": {"USD": 2.5},
    }
    full = {
        **ONE,
        "folder": "ann",
        "limits": limits,
        "priority": "background",
        "turnsBy": "X-User",
        "metrics": True,
    }
    (entry,) = entries(full)
    assert entry.limits == KeyLimits(2, 0, 30, 200000, {"USD": 2.5})
    assert (entry.folder, entry.priority, entry.turns_by, entry.metrics) == (
        "ann",
        "background",
        "X-User",
        True,
    )


def test_a_limit_with_an_exponent_is_a_whole_number():
    """As it is told to clients, too: JSON knows one kind of number."""
    text = json.dumps({"keys": [{**ONE, "limits": {"concurrent": 2.0, "queued": 0.0}}]})
    text = text.replace('"queued"', '"requestsPerMinute": 1e3, "tokensPerDay": 1e6, "queued"')
    (entry,) = read_keys(text.encode())
    assert repr(limits_json(entry.limits)) == (
        "{'concurrent': 2, 'queued': 0, 'requestsPerMinute': 1000, 'tokensPerDay': 1000000}"
    )


def test_what_holds_without_a_field():
    (entry,) = entries(ONE)
    assert entry.limits == KeyLimits() and entry.limits.queued == 50
    assert (entry.folder, entry.expires, entry.priority, entry.turns_by) == (None, None, "people", "")
    assert not entry.metrics


def test_comments_are_allowed_and_a_digest_in_capitals():
    text = '{ "keys": [ // ours\n {"name": "a", "sha256": "DIGEST", "users": [],}, ] }'.replace(
        "DIGEST", SHA.upper()
    )
    assert read_keys(text.encode())[0].sha256 == SHA


@pytest.mark.parametrize(
    ("users", "opened", "closed"),
    [
        (["shared*"], ["shared", "shared-2"], ["Shared", "ashared"]),
        (["a[bn]n"], ["a[bn]n"], ["abn", "ann"]),
        (["*"], ["ann", "zoe"], []),
        ([], [], ["ann", ""]),
    ],
    ids=["star", "nothing-else-is-special", "all", "none"],
)
def test_which_users_a_key_may_ask(users, opened, closed):
    (entry,) = entries({**ONE, "users": users})
    assert all(map(entry.may_ask, opened)) and not any(map(entry.may_ask, closed))


def test_a_date_is_its_last_day():
    """In the zone of the server."""
    (entry,) = entries({**ONE, "expires": "2027-06-30"})
    end = datetime.combine(date(2027, 7, 1), time()).timestamp()
    assert not entry.has_expired(end - 1) and entry.has_expired(end)


@pytest.mark.parametrize("text", ["9999-12-30", "9999-12-31"])
def test_the_last_days_that_there_are(text):
    """Written by whoever means: never."""
    (entry,) = entries({**ONE, "expires": text})
    assert not entry.has_expired(datetime(9998, 12, 31).timestamp())


@pytest.mark.parametrize("text", ["2027-06-30T18:00:00+02:00", "2027-06-30T16:00Z"])
def test_a_time_has_its_zone(text):
    (entry,) = entries({**ONE, "expires": text})
    end = datetime(2027, 6, 30, 18, tzinfo=timezone(timedelta(hours=2))).timestamp()
    assert entry.expires == end


FAULTS = {
    "unknown-field": ({**ONE, "user": ["a"]}, r"unknown field 'user' \(is 'users' meant\?\)"),
    "misspelt-limit": ({**ONE, "limits": {"requestPerMinute": 1}}, "'requestsPerMinute' meant"),
    "null": ({**ONE, "limits": {"concurrent": None}}, r"limits\.concurrent: found null"),
    "flag-for-a-number": ({**ONE, "limits": {"concurrent": True}}, "a whole number"),
    "none-at-once": ({**ONE, "limits": {"concurrent": 0}}, "1 or more"),
    "too-many-at-once": ({**ONE, "limits": {"concurrent": 10**19}}, "allowed: 2147483647 or less"),
    "too-many-waiting": ({**ONE, "limits": {"queued": 2**31}}, "allowed: 2147483647 or less"),
    "too-many-a-minute": ({**ONE, "limits": {"requestsPerMinute": 10**400}}, "allowed: 2147483647 or less"),
    "too-many-a-day": ({**ONE, "limits": {"tokensPerDay": 10**16}}, "allowed: 1000000000000000 or less"),
    "cost-too-large": (
        {**ONE, "limits": {"costPerDay": {"USD": 1e300}}},
        "allowed: 1000000000000000 or less",
    ),
    "text-for-a-number": ({**ONE, "limits": {"tokensPerDay": "5"}}, "a whole number"),
    "cost-of-nothing": ({**ONE, "limits": {"costPerDay": {"USD": 0}}}, "more than 0"),
    "no-currency": ({**ONE, "limits": {"costPerDay": {"US D": 1}}}, "a currency, such as USD"),
    "no-users": ({"name": "one", "sha256": SHA}, "'users' is missing"),
    "users-as-text": ({**ONE, "users": "*"}, "a list"),
    "name-of-a-path": ({**ONE, "name": "../x"}, "1 to 64 letters"),
    "name-with-a-line": ({**ONE, "name": "one\n"}, "allowed: 1 to 64 letters"),
    "name-too-long": ({**ONE, "name": "a" * 65}, "1 to 64 letters"),
    "folder-in-capitals": ({**ONE, "folder": "Ann"}, "up to 64"),
    "priority": ({**ONE, "priority": "high"}, "background"),
    "flag-as-text": ({**ONE, "metrics": "yes"}, "true or false"),
    "no-such-day": ({**ONE, "expires": "2027-02-30"}, "a date like"),
    "no-zone": ({**ONE, "expires": "2027-02-28T10:00"}, "a time with its zone"),
    "no-header": ({**ONE, "turnsBy": "X User"}, "the name of a header"),
}


@pytest.mark.parametrize(("entry", "said"), FAULTS.values(), ids=FAULTS)
def test_a_fault_makes_the_file_faulty(entry, said):
    with pytest.raises(ConfigError, match=said):
        entries(entry)


@pytest.mark.parametrize("header", ["Authorization", "PROXY-Authorization", "x-api-key", "Api-Key", "Cookie"])
def test_no_header_that_holds_a_secret_becomes_a_name(header):
    """However it is spelled: names stand in the log and in metrics."""
    with pytest.raises(ConfigError, match="holds a secret"):
        entries({**ONE, "turnsBy": header})


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        *((name, True) for name in ("ann", "a", "7", "a_b-c", "a" * 64)),
        *((name, False) for name in ("Ann", "-a", "_a", "a.b", "a/b", "a" * 65, "ann\n", "nul", "com1")),
    ],
)
def test_which_folders_may_be_those_of_keys(name, is_one):
    """Others that lie beside them are nobody's."""
    assert is_key_folder(name) is is_one


@pytest.mark.parametrize(
    "name", ["con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))]
)
def test_no_folder_is_a_device_of_windows(name):
    with pytest.raises(ConfigError, match="device of Windows"):
        entries({**ONE, "folder": name})


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ({"name": "ONE", "sha256": "0" * 64}, "same name"),
        ({"name": "two", "sha256": SHA.upper()}, "same sha256"),
    ],
    ids=["name", "digest"],
)
def test_no_two_entries_have_one_name_or_digest(second, said):
    """Upper and lower case do not count."""
    with pytest.raises(ConfigError, match=said):
        entries(ONE, {**second, "users": []})


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"keys": {}}', '{"keys": [', '{"keys": [], "x": 1}', "null"]
)
def test_what_is_no_keys_file_is_faulty(text):
    with pytest.raises(ConfigError, match=r"Keys\.json"):
        read_keys(text.encode())


def test_a_field_that_stands_twice_is_a_fault():
    text = '{"keys": [{"name": "a", "sha256": "DIGEST", "users": [], "users": ["*"]}]}'.replace("DIGEST", SHA)
    with pytest.raises(ConfigError, match="occurs twice"):
        read_keys(text.encode())


def test_a_key_in_place_of_its_digest_is_not_repeated():
    with pytest.raises(ConfigError, match="64 hex digits") as raised:
        entries({**ONE, "sha256": "hr-a-real-key"})
    assert "hr-a-real-key" not in str(raised.value)


def test_a_pattern_that_fits_nobody_is_told():
    given = entries({**ONE, "users": ["ann", "an", "z*"]})
    (lost,) = lost_patterns(given, ["ann", "zoe"])
    assert lost.pointer == "/keys/0/users/1" and "'an'" in lost.message
