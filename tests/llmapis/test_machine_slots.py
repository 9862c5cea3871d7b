"""Calls for the models of one machine: one model at a time, a limit for all its endpoints (prompt-reuse.md
7.1)."""

from __future__ import annotations

import json
import threading

import pytest

from Middleware.common.errors import ConfigError, RequestCancelled, SlotTimeout
from Middleware.common.instance_global_variables import LaunchFacts, launch_facts, set_launch_facts
from Middleware.common.request_context import RequestContext, enter_request
from Middleware.config.endpoints import load_endpoint
from Middleware.config.loader import ConfigTree
from Middleware.config.users import UserSettings
from Middleware.llmapis.addresses import servers_of
from Middleware.llmapis.failover import endpoint_gate, machine_gate, places_of, take_slots, take_spare_slots
from Middleware.services import fair_gate
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.node_trace import NodeTrace
from Middleware.services.run_trace import Observers, RunTrace
from tests.patience import PATIENCE_S, wait_until

FILES = {
    "small": {"modelNameToSendToAPI": "small", "machine": "desk"},
    "small too": {"modelNameToSendToAPI": "small", "machine": " desk "},
    "one at a time": {"modelNameToSendToAPI": "small", "machine": "desk", "maxConcurrentRequests": 1},
    "big": {"modelNameToSendToAPI": "big", "machine": "desk"},
    "unnamed": {"modelNameToSendToAPI": "big", "dontIncludeModel": True, "machine": "desk"},
    "elsewhere": {"modelNameToSendToAPI": "big", "machine": "attic"},
    "beside": {"modelNameToSendToAPI": "vectors"},
}


@pytest.fixture
def desk(tmp_path):
    """`desk(name)`: an endpoint; `desk.machines(...)`: what Machines.json says."""
    before = launch_facts()
    set_launch_facts(LaunchFacts(config_directory=tmp_path, concurrency_timeout_s=PATIENCE_S))
    fair_gate._machine.cache_clear()
    yield Desk(tmp_path)
    set_launch_facts(before)
    fair_gate._machine.cache_clear()


class Desk:
    def __init__(self, root):
        self.root, self.tree = root, ConfigTree(root)
        self.put("ApiTypes/Api.json", {"type": "openAIChatCompletion", "presetType": "T"})
        for name, keys in FILES.items():
            head = {"endpoint": "http://127.0.0.1:1/", "apiTypeConfigFileName": "Api"}
            self.put(f"Endpoints/{name}.json", {**head, **keys})

    def put(self, file, content):
        path = self.root / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content))

    def machines(self, **machines):
        self.put("Machines.json", machines)

    def __call__(self, name):
        return load_endpoint(self.tree.snapshot(), UserSettings("ana"), name)


class TestTheGateOfAnEndpoint:
    """What its page shows."""

    def test_none_without_a_limit(self, desk):
        assert endpoint_gate(desk("beside")) is None

    def test_one_for_each_file_address_and_limit(self, desk):
        gate = endpoint_gate(desk("one at a time"))
        assert gate is not None and gate is endpoint_gate(desk("one at a time"))
        head = {"endpoint": "http://127.0.0.1:1/", "apiTypeConfigFileName": "Api"}
        desk.put("Endpoints/one at a time.json", {**head, "maxConcurrentRequests": 2})
        assert endpoint_gate(desk("one at a time")) is not gate

    @pytest.mark.parametrize("limit", [{}, {"maxConcurrentRequests": 3}])
    def test_of_several_addresses_that_of_the_first(self, desk, limit):
        """With a limit or without."""
        head = {"endpoint": "http://127.0.0.1:1/", "apiTypeConfigFileName": "Api"}
        desk.put("Endpoints/two.json", {**head, "moreEndpoints": ["http://127.0.0.1:2/"], **limit})
        endpoint = desk("two")
        first, second = map(servers_of(endpoint).gate, endpoint.addresses)
        assert endpoint_gate(endpoint) is first and first is not second


class Caller:
    """A call in a thread of its own."""

    def __init__(self, endpoint, request_id="", task=None, trace=None):
        self.came, self._end = threading.Event(), threading.Event()
        self.failure = None
        request = RequestContext(request_id, "ana", "openaichatcompletion", task=task)

        def run():
            with enter_request(request):
                try:
                    with take_slots(endpoint, request_id, trace=trace):
                        self.came.set()
                        self._end.wait(PATIENCE_S)
                except Exception as error:
                    self.failure = error

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()

    def end(self):
        self._end.set()
        self.thread.join(PATIENCE_S)


def standing(endpoint, count):
    wait_until(lambda: machine_gate(endpoint).waiting == count)


class TestWhatIsSeen:
    """The node's trace says what its call waits for, from when to when."""

    @pytest.fixture
    def traced(self):
        run = RunTrace("r1", "/v1/chat/completions", Observers())
        return run.node(NodeTrace("Workflows/ana/Main.json", 1, "Standard"))

    @pytest.mark.parametrize(
        ("other", "asked", "what"),
        [
            ("small", "big", "a turn at the machine 'desk'"),
            ("one at a time", "one at a time", "a slot of one at a time"),
        ],
    )
    def test_a_wait(self, desk, traced, other, asked, what):
        """It is over when the call has its turn."""
        held = take_slots(desk(other), None)
        caller = Caller(desk(asked), trace=traced)
        wait_until(lambda: traced.node.waits)
        [wait] = traced.node.waits
        assert (wait.what, wait.ended) == (what, 0.0)
        held.close()
        assert caller.came.wait(PATIENCE_S)
        assert wait.ended >= wait.begun
        caller.end()

    def test_a_turn_at_once_is_no_wait(self, desk, traced):
        with take_slots(desk("one at a time"), None, trace=traced):
            assert traced.node.waits == []

    def test_a_wait_that_is_given_up_is_over(self, desk, traced):
        """Here by a cancellation."""
        with take_slots(desk("small"), None):
            caller = Caller(desk("big"), "r-given-up", trace=traced)
            wait_until(lambda: traced.node.waits)
            cancellation_service.request_cancellation("r-given-up")
            caller.thread.join(PATIENCE_S)
        assert isinstance(caller.failure, RequestCancelled)
        cancellation_service.acknowledge_cancellation("r-given-up")
        assert traced.node.waits[0].ended


class TestOneModelAtATime:
    def test_calls_for_one_model_run_together(self, desk):
        """Whatever endpoint file names it; other machines and models that stay loaded run beside them."""
        names = ["small", "small too", "small", "elsewhere", "beside"]
        held = [take_slots(desk(name), None) for name in names]
        for slots in held:
            slots.close()

    @pytest.mark.parametrize("other", ["big", "unnamed"])
    def test_another_model_waits_until_they_have_ended(self, desk, other):
        """A model is the address and the name that are sent."""
        first, second = take_slots(desk("small"), None), take_slots(desk("small"), None)
        big = Caller(desk(other))
        standing(desk("big"), 1)
        first.close()
        standing(desk("big"), 1)
        assert not big.came.is_set()
        second.close()
        assert big.came.wait(PATIENCE_S)
        big.end()

    def test_a_full_endpoint_does_not_hide_who_wants_the_machine(self, desk):
        """Who waits for the endpoint's own slot holds a turn of the machine: the row goes on."""
        one = take_slots(desk("one at a time"), None)
        two = Caller(desk("one at a time"))
        wait_until(lambda: endpoint_gate(desk("one at a time")).waiting == 1)
        big = Caller(desk("big"))
        standing(desk("big"), 1)
        one.close()
        assert two.came.wait(PATIENCE_S) and not big.came.is_set()
        two.end()
        assert big.came.wait(PATIENCE_S)
        big.end()

    def test_a_cancelled_waiter_leaves_at_once(self, desk):
        """And whoever waited for nothing but it goes on."""
        held = [take_slots(desk("small"), None) for _ in range(4)]
        big = Caller(desk("big"), "leaves")
        standing(desk("big"), 1)
        fifth = Caller(desk("small"))
        standing(desk("big"), 2)
        cancellation_service.request_cancellation("leaves")
        big.thread.join(PATIENCE_S)
        cancellation_service.acknowledge_cancellation("leaves")
        assert isinstance(big.failure, RequestCancelled)
        assert fifth.came.wait(PATIENCE_S)
        fifth.end()
        for slots in held:
            slots.close()

    def test_no_turn_in_time(self, desk):
        """The error names the machine."""
        set_launch_facts(LaunchFacts(config_directory=desk.root, concurrency_timeout_s=0.01))
        with (
            take_slots(desk("small"), None),
            pytest.raises(SlotTimeout, match=r"no turn at the machine 'desk' within 0\.01 s"),
        ):
            take_slots(desk("big"), None)

    def test_tasks_of_front_ends_stand_behind_people(self, desk):
        """A title must not load its model between two turns of a chat."""
        chat = take_slots(desk("small"), None)
        title = Caller(desk("big"), "title", task="title")
        next_chat = Caller(desk("small"))
        assert next_chat.came.wait(PATIENCE_S)
        assert not title.came.is_set()
        chat.close()
        next_chat.end()
        assert title.came.wait(PATIENCE_S)
        title.end()


class TestTheLimit:
    def test_it_counts_for_all_endpoints_of_the_machine(self, desk):
        desk.machines(desk={"maxConcurrentRequests": 1})
        first = take_slots(desk("small"), None)
        second = Caller(desk("small too"))
        standing(desk("small"), 1)
        first.close()
        assert second.came.wait(PATIENCE_S)
        second.end()

    def test_an_edit_counts_from_the_next_call_on(self, desk):
        """Without a second gate, in which another model could run."""
        gate = machine_gate(desk("small"))
        desk.machines(desk={"maxConcurrentRequests": 2}, attic={})
        assert machine_gate(desk("small")) is gate and gate.limit == 2
        desk.machines(attic={"maxConcurrentRequests": 3})
        assert machine_gate(desk("small")) is gate and gate.limit == fair_gate.NO_LIMIT

    def test_without_a_machine_the_file_is_not_read(self, desk):
        desk.put("Machines.json", ["no machine"])
        take_slots(desk("beside"), None).close()
        with pytest.raises(ConfigError, match=r"Machines\.json"):
            take_slots(desk("small"), None)


class TestSpareTurns:
    """For work that can be left out: reading ahead (prompt-reuse.md 6)."""

    def test_only_the_loaded_model_gets_one(self, desk):
        assert take_spare_slots(desk("small")) is None
        take_slots(desk("small"), None).close()
        assert take_spare_slots(desk("big")) is None
        spare = take_spare_slots(desk("small"))
        assert spare is not None
        spare.close()

    def test_never_when_somebody_waits(self, desk):
        """Here for the machine; nothing is held afterwards."""
        chat = take_slots(desk("small"), None)
        big = Caller(desk("big"))
        standing(desk("big"), 1)
        assert take_spare_slots(desk("small")) is None
        chat.close()
        assert big.came.wait(PATIENCE_S)
        big.end()
        assert machine_gate(desk("small")).held_slots == 0

    def test_never_when_the_endpoint_is_full(self, desk):
        """Then the machine's turn is given back, too."""
        chat = take_slots(desk("one at a time"), None)
        assert take_spare_slots(desk("one at a time")) is None
        assert machine_gate(desk("small")).held_slots == 1
        chat.close()

    def test_it_is_no_part_of_a_row(self, desk):
        """Four chats in a row stay four, however much was read ahead between them."""
        for _ in range(6):
            take_slots(desk("small"), None).close()
            spare = take_spare_slots(desk("small"))
            assert spare is not None
            spare.close()
        take_slots(desk("big"), None).close()
        take_slots(desk("small"), None).close()
        spare = [take_spare_slots(desk("small")) for _ in range(5)]
        small = take_slots(desk("small"), None)
        big = Caller(desk("big"))
        standing(desk("big"), 1)
        take_slots(desk("small"), None).close()
        for slots in (small, *spare):
            slots.close()
        assert big.came.wait(PATIENCE_S)
        big.end()

    def test_without_a_machine_a_free_slot_is_enough(self, desk):
        spare = take_spare_slots(desk("beside"))
        assert spare is not None
        spare.close()


@pytest.mark.parametrize(
    ("level", "whole_process", "process"),
    [("endpoint", True, ["outgoing calls"]), ("endpoint", False, []), ("request", True, [])],
)
@pytest.mark.parametrize(("name", "machine"), [("small", ["machine desk"]), ("beside", [])])
def test_what_a_call_may_wait_for(desk, level, whole_process, process, name, machine):
    """Its address, its machine, a slot of the process: where there is one, and the call takes it."""
    set_launch_facts(LaunchFacts(config_directory=desk.root, concurrency=2, concurrency_level=level))
    endpoint = desk(name)
    assert places_of(endpoint, whole_process) == [endpoint.url, *machine, *process]
    assert places_of(endpoint, whole_process, lambda: None) == [*machine, *process]
