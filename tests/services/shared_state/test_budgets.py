"""Buckets of a minute and sums of a day, the same in every store; a process alone goes on with what it knows
(keys.md 4, 8).
"""

from __future__ import annotations

import pytest

from Middleware.services.shared_state.budgets import BucketLevels, DaySums, refill, seconds_until, take_from
from Middleware.services.shared_state.member import Member
from Middleware.services.shared_state.store import MemoryStore, StoreLost, Tables

DAY, NEXT = "2026-11-28", "2026-11-29"


@pytest.fixture
def one(shared):
    store = shared.store("one")
    store.join()
    return store


@pytest.fixture
def two(shared):
    store = shared.store("two")
    store.join()
    return store


class TestBuckets:
    def test_it_fills_up_within_a_minute(self):
        assert refill(0, 30, 2) == 1
        assert refill(29.5, 30, 60) == 30
        assert refill(1, 30, -5) == 1, "a clock that was set back takes nothing"

    def test_the_vectors_of_the_specification(self):
        """31 at once of 30 a minute: the last one is told 2 s; with one a minute 60 s."""
        level = 30.0
        for _ in range(30):
            took, level = take_from(level)
            assert took
        assert not take_from(level).took
        assert seconds_until(level, 1, 30) == 2
        assert seconds_until(0, 1, 1) == 60

    def test_all_processes_take_from_one(self, one, two):
        """Until it is empty; whoever takes nothing changes nothing."""
        taken = [store.take("ann", 3, 3.0).took for store in (one, two, one, two, one)]
        assert taken == [True, True, True, False, False]
        assert one.take("bob", 3, 3.0).took

    def test_it_may_only_be_looked_into(self, one, two):
        """That takes nothing."""
        one.take("ann", 3, 3.0)
        assert two.take("ann", 3, 3.0, 0).took
        assert 2 <= two.take("ann", 3, 3.0, 0).level < 3

    def test_it_is_full_again_after_a_minute(self, shared, one):
        one.take("ann", 1, 1.0)
        assert not one.take("ann", 1, 1.0).took
        shared.age_buckets()
        assert one.take("ann", 1, 1.0).took

    def test_what_a_process_knows_of_it_counts(self, one):
        """A store that forgot has a full one; there cannot be more in it than the process saw."""
        assert one.take("ann", 30, 1.5) == (True, 0.5)

    def test_a_killed_process_gives_nothing_back(self, shared, one, two):
        one.take("ann", 1, 1.0)
        shared.silence("one")
        two.beat()
        assert not two.take("ann", 1, 1.0).took


class TestDays:
    def test_all_processes_add_to_one_sum(self, one, two):
        assert one.count("ann", DAY, {"prompt": 5, "requests": 1}, {}) == {"prompt": 5, "requests": 1}
        assert two.count("ann", DAY, {"prompt": 2}, {}) == {"prompt": 7, "requests": 1}
        assert two.count("bob", DAY, {}, {}) == {}

    def test_days_are_apart(self, one):
        one.count("ann", DAY, {"prompt": 5}, {})
        assert one.count("ann", NEXT, {"prompt": 1}, {}) == {"prompt": 1}

    def test_what_a_process_knows_is_the_least(self, one, two):
        """A store that forgot learns it, of each process once."""
        assert one.count("ann", DAY, {"prompt": 1}, {"prompt": 10}) == {"prompt": 11}
        assert two.count("ann", DAY, {"prompt": 2}, {"prompt": 10}) == {"prompt": 13}

    def test_a_killed_process_gives_nothing_back(self, shared, one, two):
        one.count("ann", DAY, {"prompt": 5}, {})
        shared.silence("one")
        two.beat()
        assert two.count("ann", DAY, {}, {}) == {"prompt": 5}

    def test_large_sums_stay_exact(self, one):
        """Money is counted in millionths."""
        one.count("ann", DAY, {"cost USD": 2_000_000_000_001}, {})
        assert one.count("ann", DAY, {"cost USD": 1}, {}) == {"cost USD": 2_000_000_000_002}


class Breakable(MemoryStore):
    """A store that does not answer while `is_away`."""

    is_away = False

    def take(self, *words):
        self.check()
        return super().take(*words)

    def count(self, *words):
        self.check()
        return super().count(*words)

    def beat(self):
        self.check()
        return super().beat()

    def check(self):
        if self.is_away:
            raise StoreLost("away")


class TestAProcessAlone:
    @pytest.fixture
    def tables(self):
        return Tables()

    @pytest.fixture
    def store(self, tables):
        return Breakable("one", tables)

    @pytest.fixture
    def member(self, store):
        member = Member(store)
        store.join()
        yield member
        member.leave()

    def test_it_goes_on_with_the_bucket_that_it_knows(self, member, store, tables):
        """A store that is away does not fill it; it is told on return."""
        assert [member.take("ann", 2).took for _ in range(2)] == [True, True]
        store.is_away = True
        assert not member.take("ann", 2).took
        store.is_away = False
        tables.buckets.clear()
        member._joins_again()
        assert not member.take("ann", 2).took

    def test_it_goes_on_with_the_day_that_it_knows(self, member, store, tables):
        """And tells what it counted meanwhile, also to a store that forgot."""
        other = MemoryStore("two", tables)
        other.join()
        other.count("ann", DAY, {"prompt": 100}, {})
        assert member.count("ann", DAY, {"prompt": 1}) == {"prompt": 101}
        store.is_away = True
        assert member.count("ann", DAY, {"prompt": 5}) == {"prompt": 106}
        assert member.known_sums("ann", DAY) == {"prompt": 106}
        store.is_away = False
        tables.days.clear()
        member._joins_again()
        assert member.count("ann", DAY, {}) == {"prompt": 106}
        assert other.count("ann", DAY, {}, {}) == {"prompt": 106}

    def test_what_it_has_not_told_is_told_at_its_end(self, member, tables):
        member._sums.add("ann", DAY, {"prompt": 7})
        member.leave()
        assert tables.days["ann", DAY] == {"prompt": 7}

    def test_what_is_counted_soon_is_known_at_once(self):
        """To this process; one that is alone for good tells its own store."""
        member = Member()
        member.count_soon("ann", DAY, {"requests": 1})
        assert member.known_sums("ann", DAY) == member.count("ann", DAY, {}) == {"requests": 1}


class TestWhatAProcessKnows:
    def test_a_new_day_begins_anew(self):
        sums = DaySums()
        sums.add("ann", DAY, {"prompt": 5})
        assert sums.totals("ann", NEXT) == {}
        assert sums.untold() == [("ann", DAY)]

    def test_what_is_told_of_a_day_that_is_over_goes_with_the_next(self):
        """Also of other names; what is not told yet stays."""
        sums = DaySums()
        for name in ("ann", "ben"):
            sums.add(name, DAY, {"prompt": 5})
        sums.tell("ann", DAY, lambda amounts, known: amounts)
        assert sums.totals("ann", DAY) == {"prompt": 5}
        sums.add("kim", NEXT, {"prompt": 1})
        assert (sums.totals("ann", DAY), sums.totals("ben", DAY)) == ({}, {"prompt": 5})

    def test_the_bucket_that_it_knows_fills_up(self):
        """One that it never saw is full."""
        now = [1000.0]
        levels = BucketLevels(lambda: now[0])
        assert levels.most("ann", 30) == 30
        levels.note("ann", 3.0)
        now[0] += 2
        assert levels.most("ann", 30) == 4.0

    def test_a_late_word_about_yesterday(self):
        """A call that ended before midnight changes nothing of today."""
        sums = DaySums()
        sums.add("ann", NEXT, {"prompt": 5})
        sums.add("ann", DAY, {"prompt": 1})
        assert sums.totals("ann", NEXT) == {"prompt": 5}
        assert sums.untold() == [("ann", NEXT), ("ann", DAY)]

    def test_what_could_not_be_told_is_told_again(self):
        sums = DaySums()
        sums.add("ann", DAY, {"prompt": 5})

        def fail(amounts, known):
            raise StoreLost("away")

        with pytest.raises(StoreLost):
            sums.tell("ann", DAY, fail)
        told = []
        sums.tell("ann", DAY, lambda amounts, known: told.append(amounts) or amounts)
        assert told == [{"prompt": 5}] and sums.untold() == []
