"""Marks, callbacks and running ids of requests (frontend-api.md 13)."""

from __future__ import annotations

import logging
import threading

import pytest

from Middleware.services.cancellation_service import ASKED_TO, MARK_LIFETIME_S, CancellationService
from Middleware.services.shared_state.member import Member
from Middleware.services.shared_state.store import MemoryStore, Tables
from tests.patience import PATIENCE_S


@pytest.fixture
def clock():
    return [0.0]


@pytest.fixture
def service(clock):
    return CancellationService(clock=lambda: clock[0])


class TestMarks:
    def test_a_request_is_cancelled_from_the_mark_on(self, service):
        """Nothing else makes an id cancelled."""
        assert not service.is_cancelled("a")
        service.request_cancellation("a")
        assert service.is_cancelled("a")
        assert service.get_all_cancelled_requests() == {"a"}

    def test_an_empty_id_is_never_cancelled(self, service):
        """It belongs to no request."""
        service.request_cancellation("")
        assert not service.is_cancelled("")
        assert service.get_all_cancelled_requests() == set()

    def test_the_marked_ids_are_a_copy(self, service):
        """Changing it changes no mark."""
        service.get_all_cancelled_requests().add("x")
        assert not service.is_cancelled("x")

    def test_old_marks_are_pruned_at_the_next_cancellation(self, service, clock):
        """A mark whose request has gone without a word does not stay for ever."""
        service.request_cancellation("old")
        clock[0] = MARK_LIFETIME_S + 1
        service.request_cancellation("new")
        assert service.get_all_cancelled_requests() == {"new"}

    @pytest.mark.parametrize(("age_s", "left"), [(3600.0, {"old", "new"}), (3600.5, {"new"})])
    def test_a_mark_lives_for_an_hour(self, service, clock, age_s, left):
        """Its reason goes with it."""
        service.request_cancellation("old", "why")
        clock[0] = age_s
        service.request_cancellation("new")
        assert service.get_all_cancelled_requests() == left
        assert service.reason("old") == ("why" if "old" in left else "")

    def test_the_mark_of_a_running_request_is_not_pruned(self, service, clock):
        """It ends with the request."""
        service.begin("old")
        service.request_cancellation("old")
        clock[0] = MARK_LIFETIME_S + 1
        service.request_cancellation("new")
        assert service.is_cancelled("old")


class TestCallbacks:
    def test_callbacks_run_once(self, service):
        """Later cancellations of the id do nothing."""
        ran = []
        service.register_abort_callback("a", lambda: ran.append(1))
        service.request_cancellation("a")
        service.request_cancellation("a")
        assert ran == [1]

    def test_nothing_is_kept_for_an_empty_id(self, service):
        """Nobody could ever cancel it, nor would it go again."""
        service.register_abort_callback("", lambda: None)
        assert service._callbacks == {}

    def test_a_callback_for_a_cancelled_id_runs_at_once(self, service):
        """It is not kept."""
        ran = []
        service.request_cancellation("a")
        service.register_abort_callback("a", lambda: ran.append(1))
        assert ran == [1]

    def test_callbacks_run_outside_the_lock(self, service):
        """A callback may use the service."""
        seen = []
        service.register_abort_callback("a", lambda: seen.append(service.get_all_cancelled_requests()))
        service.request_cancellation("a")
        assert seen == [{"a"}]

    def test_a_callback_that_raises_is_logged(self, service, caplog):
        """The others run."""
        ran = []

        def fail():
            raise OSError("no")

        service.register_abort_callback("a", fail)
        service.register_abort_callback("a", lambda: ran.append(1))
        with caplog.at_level(logging.ERROR):
            service.request_cancellation("a")
        assert ran == [1]
        assert "abort callback of request a failed" in caplog.text

    @pytest.mark.parametrize("away", ["one", "all", "acknowledge"])
    def test_callbacks_that_were_taken_back_do_not_run(self, service, away):
        """One by one, all of a request, or with the request's end."""
        ran = []

        def callback():
            ran.append(1)

        service.register_abort_callback("a", callback)
        {
            "one": lambda: service.unregister_abort_callback("a", callback),
            "all": lambda: service.unregister_abort_callbacks("a"),
            "acknowledge": lambda: service.acknowledge_cancellation("a"),
        }[away]()
        service.request_cancellation("a")
        assert ran == []

    def test_taking_back_one_leaves_the_others(self, service):
        """Two calls of one request are two callbacks."""
        ran = []
        service.register_abort_callback("a", lambda: ran.append(1))
        service.unregister_abort_callback("a", lambda: None)
        service.request_cancellation("a")
        assert ran == [1]

    def test_no_callback_is_kept_for_an_empty_id(self, service):
        """Nobody could ever call it."""
        service.register_abort_callback("", lambda: None)
        service.unregister_abort_callback("", lambda: None)


class TestRunning:
    def test_a_request_runs_until_it_is_acknowledged(self, service):
        """Then nothing of it is left."""
        service.begin("a")
        service.request_cancellation("a")
        assert service.is_running("a")
        service.acknowledge_cancellation("a")
        assert not service.is_running("a")
        assert not service.is_cancelled("a")

    def test_it_is_its_owners(self, service):
        """None asks for anybody's; nobody has one that does not run."""
        service.begin("a", "ana")
        asked = [service.is_running_of("a", owner) for owner in ("ana", "ben", "", None)]
        assert asked == [True, False, False, True]
        assert service.runs_here("a")
        service.acknowledge_cancellation("a")
        assert not service.is_running_of("a", None) and not service.runs_here("a")


class TestSeveralProcesses:
    """A request that runs in another one is cancelled there, by a message."""

    @pytest.fixture
    def members(self):
        tables = Tables()
        made = [Member(MemoryStore(name, tables)) for name in ("one", "two")]
        yield made
        for each in made:
            each.leave()

    @pytest.fixture
    def services(self, members):
        return [CancellationService(member=lambda member=member: member) for member in members]

    def test_it_is_known_in_all(self, services):
        here, there = services
        there.begin("a", "ana")
        assert here.is_running("a") and not here.runs_here("a")
        assert [here.is_running_of("a", owner) for owner in ("ana", "ben", None)] == [True, False, True]
        there.acknowledge_cancellation("a")
        assert not here.is_running("a") and not here.is_running_of("a", None)

    @pytest.mark.parametrize("why", ["DELETE", "", "the client hung up"])
    def test_it_is_cancelled_where_it_runs(self, services, members, why):
        """With the reason; here no trace of it is left."""
        here, there = services
        heard = threading.Event()
        there.begin("a")
        there.register_abort_callback("a", heard.set)
        here.request_cancellation("a", why)
        assert heard.wait(PATIENCE_S)
        assert there.is_cancelled("a") and there.reason("a") == why
        assert not here.is_cancelled("a")

    def test_what_nobody_runs_is_marked_here(self, services):
        """It may begin yet."""
        here, there = services
        here.request_cancellation("a")
        assert here.is_cancelled("a") and not there.is_cancelled("a")

    def test_a_message_of_one_that_ended_leaves_no_trace(self, service):
        service._cancel_here("a DELETE")
        assert not service.is_cancelled("a")


class TestReason:
    """Who wanted it: for those who look at the run."""

    def test_a_client_asks_as_each_protocol_does(self):
        assert ASKED_TO == "DELETE"

    def test_the_first_one_counts(self):
        """A later wish changes nothing."""
        service = CancellationService()
        service.request_cancellation("a", "DELETE")
        service.request_cancellation("a", "the client hung up")
        assert service.reason("a") == "DELETE"

    def test_nothing_is_kept_of_a_request_that_is_over(self):
        """Nor is there a reason where nobody gave one."""
        service = CancellationService()
        service.request_cancellation("a")
        assert (service.reason("a"), service.reason("b")) == ("", "")
        service.request_cancellation("c", "DELETE")
        service.acknowledge_cancellation("c")
        assert service.reason("c") == ""


class TestScopes:
    """A part of a request's work, which can be cancelled alone."""

    def test_it_is_cancelled_with_its_request(self, service):
        heard = []
        with service.scope("a") as part:
            service.register_abort_callback(part, lambda: heard.append(part))
            service.request_cancellation("a", "hang-up")
            assert service.is_cancelled(part)
            assert service.reason(part) == "hang-up"
        assert heard == [part]

    def test_one_of_a_cancelled_request_is_cancelled_from_the_beginning(self, service):
        service.request_cancellation("a")
        with service.scope("a") as part:
            assert service.is_cancelled(part)

    def test_it_is_called_by_its_request_and_a_number(self, service):
        with service.scope("a") as part, service.scope("a") as other:
            assert (part, other) == ("a.part1", "a.part2")

    def test_alone_it_leaves_the_request_and_its_other_parts(self, service):
        with service.scope("a") as part, service.scope("a") as other:
            service.cancel_scope(part)
            assert service.is_cancelled(part)
            assert not service.is_cancelled("a") and not service.is_cancelled(other)

    def test_a_part_of_a_part_ends_with_both(self, service):
        with service.scope("a") as part, service.scope(part) as inner:
            service.request_cancellation("a")
            assert service.is_cancelled(inner)

    def test_nothing_is_remembered_of_it(self, service):
        with service.scope("a") as part:
            service.cancel_scope(part, "enough")
            assert service.reason(part) == "enough"
        assert service.reason(part) == ""
        assert not service.get_all_cancelled_requests()
        assert not service._callbacks
