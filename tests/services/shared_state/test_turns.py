"""Who of a queue comes in next: rows of one model, classes, spare turns (prompt-reuse.md 7.1)."""

from __future__ import annotations

import random
import statistics

import pytest

from Middleware.services.shared_state.store import MemoryStore, Places, Tables
from Middleware.services.shared_state.turns import (
    ROW,
    Ask,
    Queue,
    Row,
    grow_row,
    may_take_spare_turn,
    next_turns,
)
from tests.services.shared_state.machine_simulation import Machine, alone


def queue(waiting="", *, holding="", behind="", row=None, limit=1, one_model=True):
    """Tickets are named by their model: `a1` asks for model `a` of the machine `desk`; `?1` says nothing."""
    tickets = [*waiting.split(), *holding.split(), *behind.split()]
    asks = {ticket: Ask("desk", ticket[0]) for ticket in tickets if ticket[0] != "?"}
    rows = {"desk": Row(*row)} if row else {}
    return Queue(limit, holding.split(), waiting.split(), behind.split(), asks, rows, one_model)


class TestRows:
    @pytest.mark.parametrize(
        ("waiting", "row", "first"),
        [
            ("b1 a1", None, "b1"),
            ("b1 a1", ("a", 1), "a1"),
            ("b1 a1", ("a", ROW - 1), "a1"),
            ("b1 a1", ("a", ROW), "b1"),
            ("a1 a2 b1", ("a", ROW), "b1"),
            ("a1 a2", ("a", 40), "a1"),
            ("c1 b1", ("a", 2), "c1"),
            ("c1 b1 a1", ("a", ROW), "c1"),
        ],
        ids=[
            "nothing-loaded-the-oldest",
            "the-loaded-one-first",
            "up-to-four",
            "then-another-one",
            "even-when-older-ones-wait",
            "alone-a-row-never-ends",
            "nobody-wants-the-loaded-one",
            "the-model-that-waits-longest",
        ],
    )
    def test_the_model_that_goes_next(self, waiting, row, first):
        """Of its tickets the oldest goes."""
        assert next_turns(queue(waiting, row=row)) == [first]

    def test_a_turn_makes_the_row_longer_or_begins_one(self):
        assert grow_row(None, "a") == Row("a", 1)
        assert grow_row(Row("a", 2), "a") == Row("a", 3)
        assert grow_row(Row("a", 2), "b") == Row("b", 1)

    def test_more_turns_at_once_belong_to_the_row(self):
        """A machine without a limit takes four of one model, then waits for them."""
        waiting = "a1 b1 a2 a3 a4 a5 b2"
        assert next_turns(queue(waiting, limit=99)) == ["a1", "a2", "a3", "a4"]

    def test_two_models_are_never_under_way_together(self):
        """The other one waits until the last call of this one has ended."""
        assert next_turns(queue("b1", holding="a1", row=("a", 1), limit=9)) == []
        assert next_turns(queue("b1 a2", holding="a1", row=("a", ROW), limit=9)) == []
        assert next_turns(queue("b1 a2", holding="a1", row=("a", 3), limit=9)) == ["a2"]
        assert next_turns(queue("b1", row=("a", 1), limit=9)) == ["b1"]

    def test_a_gate_of_whole_requests_keeps_no_models_apart(self):
        """Their calls meet at the machine's own gate."""
        assert next_turns(queue("b1", holding="a1", row=("a", 1), limit=2, one_model=False)) == ["b1"]

    def test_what_is_not_known_goes_in_order_of_arrival(self):
        """A machine's row says which of its tickets takes the place of its oldest one."""
        waiting = "?1 b1 ?2 a1"
        assert next_turns(queue(waiting, row=("a", 1), limit=9, one_model=False)) == ["?1", "a1", "b1", "?2"]

    def test_machines_know_nothing_of_each_other(self):
        asks = {"x": Ask("desk", "a"), "y": Ask("attic", "a"), "z": Ask("desk", "b")}
        rows = {"desk": Row("b", 1), "attic": Row("b", 1)}
        assert next_turns(Queue(3, (), ("x", "y", "z"), (), asks, rows)) == ["z", "x", "y"]


class TestClasses:
    def test_who_waits_behind_neither_lengthens_a_row_nor_ends_one(self):
        """Tasks of front ends come in when nobody else is there, one at a time."""
        assert next_turns(queue("a1", behind="b1", row=("a", 9), limit=2)) == ["a1"]
        assert next_turns(queue("b1", behind="a1", row=("a", 1), limit=2)) == ["b1"]
        assert next_turns(queue(holding="a1", behind="a2", row=("a", 1), limit=2)) == []
        assert next_turns(queue(behind="b1 a1", row=("a", 1), limit=2)) == ["a1"]

    @pytest.mark.parametrize(
        ("case", "ask", "takes"),
        [
            (queue(row=("a", 4)), "a", True),
            (queue(holding="a1", row=("a", 4), limit=2), "a", True),
            (queue(holding="a1", row=("a", 4)), "a", False),
            (queue(row=("b", 1)), "a", False),
            (queue(), "a", False),
            (queue("b1", row=("a", 4), holding="a1", limit=2), "a", False),
            (queue(behind="a1", row=("a", 4), limit=2), "a", False),
            (queue(), None, True),
            (queue("?1"), None, False),
        ],
        ids=[
            "loaded-and-free",
            "beside-another-call",
            "full",
            "another-model-is-loaded",
            "nobody-knows-what-is-loaded",
            "somebody-waits",
            "a-task-waits",
            "no-machine",
            "no-machine-and-somebody-waits",
        ],
    )
    def test_work_that_can_be_left_out(self, case, ask, takes):
        """It waits for nobody, nobody waits for it, and it loads nothing."""
        assert may_take_spare_turn(case, ask and Ask("desk", ask)) is takes


class TestASimulatedMachine:
    """Seconds and loads as the specification gives them."""

    def test_two_names_and_two_models(self):
        """Eight requests of 5 s at once: two loads in place of eight, and nobody waits 20 s longer."""
        ends, waits = [], []
        for in_rows in (False, True):
            machine = Machine(alone(), in_rows=in_rows)
            for number in range(8):
                machine.ask(0, "ab"[number % 2])
            machine.run()
            ends.append((machine.loads, machine.now))
            waits.append(dict(zip((ticket for ticket, _ in machine.turns), machine.waits, strict=True)))
        assert ends == [(8, 104), (2, 56)]
        assert max(waits[1][ticket] - waits[0][ticket] for ticket in waits[0]) <= 20

    def test_two_names_with_four_loops_each(self):
        """Four hours of answers of 10 s: rows serve half as many people again as the order of arrival."""
        numbers = []
        for in_rows in (False, True):
            machine = Machine(alone(), answer_s=10, in_rows=in_rows)
            for number in range(8):
                machine.loop("ab"[number % 2])
            machine.run(until_s=4 * 3600)
            numbers.append((len(machine.turns), machine.loads, statistics.median(machine.waits)))
        assert numbers == [(801, 801, 134), (1201, 301, 86)]

    @pytest.mark.parametrize("limit", [1, 2, 1000])
    def test_random_arrivals_of_three_models_in_two_processes(self, limit):
        """Never two models at once, never more than four in a row while another waits, nobody is forgotten;
        within one model the oldest goes first.
        """
        for seed in range(150):
            tables, chance = Tables(), random.Random(seed)
            stores = [MemoryStore(name, tables) for name in ("one", "two")]
            for store in stores:
                store.join()
            machine = Machine(stores, limit=limit)
            left = set()
            for _ in range(40):
                at_s = chance.uniform(0, 150)
                ticket = machine.ask(at_s, chance.choice("abc"), chance.randrange(2))
                if chance.random() < 0.2:
                    machine.give_up(at_s + chance.uniform(0, 60), ticket)
                    left.add(ticket)
            machine.run()
            assert machine.faults == []
            served = {ticket for ticket, _ in machine.turns}
            assert served | left == set(machine.asked)


OPERATIONS = ("come", "come", "come", "leave", "leave", "behind", "look", "spare")


def operations(seed):
    """A random day at a gate: (process, places), as two processes tell them."""
    chance = random.Random(seed)
    known = {0: [], 1: []}
    for number in range(60):
        process, kind = chance.randrange(2), chance.choice(OPERATIONS)
        ticket = f"{'pq'[process]}{number}"
        asks = {ticket: Ask(chance.choice(("desk", "attic")), chance.choice("abc"))}
        if chance.random() < 0.2:
            asks = {}
        if kind == "leave" and known[process]:
            yield process, Places(leave=[known[process].pop(chance.randrange(len(known[process])))])
        elif kind in ("come", "behind", "spare"):
            known[process].append(ticket)
            name = "wait" if kind == "come" else kind
            yield process, Places(asks=asks, **{name: [ticket]})
        else:
            yield process, Places()


def day_at(stores, seed, limit, one_model):
    """Who came in at each step."""
    for store in stores:
        store.join()
    gate = f"gate {seed} {limit} {one_model}"
    return [stores[process].turns(gate, limit, places, one_model) for process, places in operations(seed)]


@pytest.mark.parametrize("one_model", [True, False], ids=["machine", "requests"])
@pytest.mark.parametrize("limit", [1, 3, 1_000_000])
def test_every_store_has_the_same_rule(shared, limit, one_model):
    """Redis has it as a script, SQLite in tables."""
    stores = [shared.store("one"), shared.store("two")]
    for seed in range(12):
        tables = Tables()
        models = [MemoryStore(name, tables) for name in ("one", "two")]
        assert day_at(stores, seed, limit, one_model) == day_at(models, seed, limit, one_model)


class TestTheRowOfAMachine:
    def test_it_outlives_those_who_asked(self, shared):
        """The machine keeps its model when nobody waits; who reads ahead knows what is loaded."""
        store = shared.store("one")
        store.join()
        asks = {ticket: Ask("desk", ticket[0]) for ticket in ("a1", "a2", "b1")}
        assert store.turns("desk", 1, Places(spare=["a1"], asks=asks), True) == []
        assert store.turns("desk", 1, Places(wait=["a1"], asks={"a1": asks["a1"]}), True) == ["a1"]
        assert store.turns("desk", 1, Places(leave=["a1"]), True) == []
        assert store.turns("desk", 1, Places(spare=["b1"], asks={"b1": asks["b1"]}), True) == []
        assert store.turns("desk", 1, Places(spare=["a2"], asks={"a2": asks["a2"]}), True) == ["a2"]

    def test_who_is_silent_keeps_no_model_under_way(self, shared):
        """A killed process does not block the machine."""
        one, two = shared.store("one"), shared.store("two")
        one.join()
        two.join()
        assert one.turns("desk", 9, Places(wait=["a1"], asks={"a1": Ask("desk", "a")}), True) == ["a1"]
        assert two.turns("desk", 9, Places(wait=["b1"], asks={"b1": Ask("desk", "b")}), True) == []
        shared.silence("one")
        assert two.turns("desk", 9, Places(), True) == ["b1"]

    def test_a_process_that_tells_again_what_it_holds(self, shared):
        """The store that forgot learns the models, too."""
        one, two = shared.store("one"), shared.store("two")
        one.join()
        two.join()
        one.turns("desk", 9, Places(hold=["a1"], asks={"a1": Ask("desk", "a")}), True)
        assert two.turns("desk", 9, Places(wait=["b1"], asks={"b1": Ask("desk", "b")}), True) == []
        assert one.turns("desk", 9, Places(leave=["a1"]), True) == []
        assert "gate desk" in two.receive(0)
        assert two.turns("desk", 9, Places(), True) == ["b1"]
