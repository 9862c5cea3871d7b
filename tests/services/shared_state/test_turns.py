"""Who of a queue comes in next: rows of one model, classes, spare turns (prompt-reuse.md 7.1); names take
turns (keys.md 5, 8).
"""

from __future__ import annotations

import random
import statistics

import pytest

from Middleware.services.shared_state.store import MemoryStore, Places, Tables
from Middleware.services.shared_state.turns import (
    BACKGROUND_WAIT_S,
    ROW,
    Ask,
    Queue,
    Rounds,
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


def named(waiting="", *, holding="", behind="", limit=1, last="", people=0, waited_s=0.0, model=""):
    """Tickets are named by their name: `a1` is of the name `a`; `c` is a background name. `last`: names in the
    order of their last turns.
    """
    tickets = [*waiting.split(), *holding.split(), *behind.split()]
    machine = "desk" if model else ""
    asks = {ticket: Ask(machine, model, ticket[0], ticket[0] == "c") for ticket in tickets}
    rounds = Rounds({name: number for number, name in enumerate(last.split(), 1)}, people)
    waited = {ticket: waited_s for ticket in tickets if ticket[0] == "c"}
    return Queue(
        limit, holding.split(), waiting.split(), behind.split(), asks, rounds=rounds, waited_s=waited
    )


def served_one_by_one(store, waiting, *, holding, limit=1):
    """The order in which these come in, each when the one before has ended. `holding`: who is inside, the one
    that ends first at the end.
    """

    def ask(ticket):
        return {ticket: Ask(name=ticket[0], background=ticket[0] == "c")}

    for ticket in holding.split():
        assert store.turns("g", limit, Places(wait=[ticket], asks=ask(ticket))) == [ticket]
    for ticket in waiting.split():
        assert store.turns("g", limit, Places(wait=[ticket], asks=ask(ticket))) == []
    served, inside = [], holding.split()[-1]
    while inside:
        came = store.turns("g", limit, Places(leave=[inside]))
        served += came
        inside = came[0] if came else ""
    return " ".join(served)


class TestNames:
    @pytest.mark.parametrize(
        ("waiting", "holding", "limit", "served"),
        [
            ("a1 a2 a3 b1", "z0", 1, "a1 b1 a2 a3"),
            ("a1 a2 b1", "a0", 1, "b1 a1 a2"),
            ("c1 a1 a2 a3 b1", "z0", 1, "a1 b1 a2 a3 c1"),
            ("a1 b1 b2", "a0 z0", 2, "b1 b2 a1"),
        ],
        ids=["in-turn", "who-has-had-one-comes-later", "background-behind-people", "fewest-held-first"],
    )
    def test_the_order_of_the_specification(self, shared, waiting, holding, limit, served):
        """In every store."""
        store = shared.store("one")
        store.join()
        assert served_one_by_one(store, waiting, holding=holding, limit=limit) == served

    def test_a_background_request_that_has_waited(self, shared):
        """One turn after four of people; the row then begins anew."""
        store = shared.store("one")
        store.join()
        store.turns("g", 1, Places(wait=["z0"], asks={"z0": Ask(name="z")}))
        for ticket in ["c1", "c2", "a1", "a2", "a3", "b1"]:
            ask = Ask(name=ticket[0], background=ticket[0] == "c")
            store.turns("g", 1, Places(wait=[ticket], asks={ticket: ask}))
        shared.age_places()
        served = ["z0"]
        while turns := store.turns("g", 1, Places(leave=[served[-1]])):
            served += turns
        assert " ".join(served) == "z0 a1 b1 a2 c1 a3 c2"

    @pytest.mark.parametrize(
        ("case", "first"),
        [
            (named("a1 b1", last="a"), "b1"),
            (named("a1 b1", last="b a"), "b1"),
            (named("b1 a1", last="b a"), "b1"),
            (named("a1 b1", holding="a0", limit=2, last="b a"), "b1"),
            (named("a1 b1", holding="a0 b0 b9", limit=4, last="a b"), "a1"),
            (named("b1 a1"), "b1"),
        ],
        ids=[
            "no-turn-yet-before-all",
            "last-turn-longest-ago",
            "whoever-came-first",
            "fewest-held-now",
            "held-before-last",
            "then-the-oldest",
        ],
    )
    def test_of_two_names(self, case, first):
        assert next_turns(case)[0] == first

    @pytest.mark.parametrize(
        ("people", "waited_s", "first"),
        [(ROW, BACKGROUND_WAIT_S, "c1"), (ROW - 1, BACKGROUND_WAIT_S, "a1"), (ROW, 59.0, "a1")],
        ids=["four-and-a-minute", "three", "not-long-enough"],
    )
    def test_background_while_people_wait(self, people, waited_s, first):
        assert next_turns(named("c1 a1", people=people, waited_s=waited_s)) == [first]

    def test_background_leaves_one_turn_free(self):
        """Of two or more; of one it may have that one."""
        assert next_turns(named("c1", holding="c0", limit=2)) == []
        assert next_turns(named("c1 c2 c3", limit=3)) == ["c1", "c2"]
        assert next_turns(named("c1")) == ["c1"]
        late = named("c1 a1", holding="c0", limit=2, people=ROW, waited_s=BACKGROUND_WAIT_S)
        assert next_turns(late) == ["a1"]

    def test_tasks_stand_behind_background_requests(self):
        assert next_turns(named("c1", behind="a1")) == ["c1"]
        assert next_turns(named(holding="c0", behind="a1", limit=2)) == []

    def test_who_says_no_name_goes_in_order_of_arrival(self):
        """A server without a keys file."""
        assert next_turns(Queue(2, waiting=["x", "y", "z"])) == ["x", "y"]

    def test_rows_come_before_names(self):
        """Within a class: the model that is loaded first, and of its calls a turn for each name."""
        asks = {
            "a1": Ask("desk", "big", "a"),
            "b1": Ask("desk", "small", "b"),
            "a2": Ask("desk", "small", "a"),
            "c1": Ask("desk", "big", "c", True),
        }
        waiting, rounds = ("c1", "a1", "a2", "b1"), Rounds({"b": 1, "a": 2})
        queue = Queue(1, (), waiting, (), asks, {"desk": Row("small", 1)}, True, rounds)
        assert next_turns(queue) == ["b1"]
        queue.rows = {"desk": Row("big", 1)}
        assert next_turns(queue) == ["a1"]

    def test_turns_are_forgotten_when_nobody_is_there(self, shared):
        """The next ones begin anew: the one who came first is first, whoever was last."""
        store = shared.store("one")
        store.join()
        assert served_one_by_one(store, "", holding="a0") == ""
        assert served_one_by_one(store, "a1 b1", holding="z0") == "a1 b1"

    def test_also_when_the_last_ones_have_died(self, shared):
        one, two = shared.store("one"), shared.store("two")
        one.join()
        two.join()
        one.turns("g", 1, Places(wait=["a0"], asks={"a0": Ask(name="a")}))
        shared.silence("one")
        assert served_one_by_one(two, "a1 b1", holding="z0") == "a1 b1"

    def test_a_process_that_tells_again_what_it_holds(self, shared):
        """It brings the names."""
        one, two = shared.store("one"), shared.store("two")
        one.join()
        two.join()
        asks = {ticket: Ask(name=ticket[0]) for ticket in ("a0", "a1")}
        one.turns("g", 2, Places(hold=["a0"], wait=["a1"], asks=asks))
        two.turns("g", 2, Places(wait=["b1", "b2"], asks={"b1": Ask(name="b"), "b2": Ask(name="b")}))
        assert one.crowd("g", "a") == two.crowd("g", "a")
        assert two.crowd("g", "b")[1] == 2 - two.crowd("g", "b")[0]


class TestAnyDay:
    """Random names, classes, limits, arrivals and hang-ups at one gate of two processes."""

    @pytest.mark.parametrize("limit", [1, 2, 3])
    def test_nobody_is_passed_over(self, limit):
        """No turn goes to a name while one of its class that waits holds fewer; people go before background,
        but for one turn in five; background leaves one turn free; everybody is served.
        """
        for seed in range(334):
            day = Day(seed, limit)
            day.run()
            assert day.faults == [], (seed, day.faults)
            assert not day.waiting and day.served | day.left == day.came

    def test_names_that_both_wait_get_as_many_turns(self):
        """With one turn: they differ by at most one."""
        for seed in range(300):
            day = Day(seed, 1, names="ab")
            day.run()
            turns = [ticket[0] for ticket in day.order]
            for begin, end in day.both_wait("a", "b"):
                part = turns[begin:end]
                assert abs(part.count("a") - part.count("b")) <= 1, (seed, part)


class Day:
    """Tickets come, wait, are served and leave, in seconds that pass in no time."""

    def __init__(self, seed, limit, names="abcd"):
        self.chance, self.limit, self.names, self.now = random.Random(seed), limit, names, 0.0
        self.tables = Tables()
        self.stores = [MemoryStore(name, self.tables, lambda: self.now) for name in ("one", "two")]
        for store in self.stores:
            store.join()
        self.waiting, self.inside, self.order, self.faults = {}, {}, [], []
        self.came, self.left, self.served = set(), set(), set()
        self.since, self.people, self.wait_spans = {}, 0, []

    def is_background(self, ticket):
        return ticket[0] in "cd"

    def run(self):
        for number in range(60):
            self.now += self.chance.choice((0, 1, 5, 30))
            self.tables.beats.update(dict.fromkeys(self.tables.beats, self.now))
            act = self.chance.choice(("come", "come", "end", "leave"))
            if act == "come":
                self.come(f"{self.chance.choice(self.names)}{number}", self.chance.randrange(2))
            elif act == "end" and self.inside:
                self.end(self.chance.choice(sorted(self.inside)))
            elif act == "leave" and self.waiting and self.chance.random() < 0.3:
                ticket = self.chance.choice(sorted(self.waiting))
                self.left.add(ticket)
                self.tell(self.waiting.pop(ticket), Places(leave=[ticket]))
        while self.inside:
            self.now += 5
            self.tables.beats.update(dict.fromkeys(self.tables.beats, self.now))
            self.end(min(self.inside))

    def come(self, ticket, process):
        self.came.add(ticket)
        self.waiting[ticket], self.since[ticket] = process, self.now
        if not self.inside and len(self.waiting) == 1:
            self.people = 0
        ask = Ask(name=ticket[0], background=self.is_background(ticket))
        self.tell(process, Places(wait=[ticket], asks={ticket: ask}))

    def end(self, ticket):
        self.tell(self.inside.pop(ticket), Places(leave=[ticket]))

    def tell(self, process, places):
        self.note(self.stores[process].turns("g", self.limit, places))
        for _ in range(2):
            for store in self.stores:
                if "gate g" in store.receive(0):
                    self.note(store.turns("g", self.limit, Places()))
        spans = {name: any(one[0] == name for one in self.waiting) for name in self.names}
        self.wait_spans.append((len(self.order), spans))

    def note(self, tickets):
        for ticket in tickets:
            self.check(ticket)
            self.inside[ticket] = self.waiting.pop(ticket)
            self.order.append(ticket)
            self.served.add(ticket)
            self.people = 0 if self.is_background(ticket) else self.people + 1

    def check(self, ticket):
        """Is it this one's turn?"""
        held = {name: sum(one[0] == name for one in self.inside) for name in self.names}
        mine = self.is_background(ticket)
        for one in self.waiting:
            if self.is_background(one) == mine and held[one[0]] < held[ticket[0]]:
                self.faults.append(f"{ticket} before {one}, which holds fewer")
            if one[0] == ticket[0] and self.since[one] < self.since[ticket]:
                self.faults.append(f"{ticket} before the older {one}")
        background_held = sum(map(self.is_background, self.inside))
        may_hold = self.limit == 1 or background_held < self.limit - 1
        if mine and not may_hold:
            self.faults.append(f"{ticket}: background holds all turns")
        people = [one for one in self.waiting if not self.is_background(one)]
        waited = [self.now - self.since[one] for one in self.waiting if self.is_background(one)]
        is_due = bool(waited) and self.people >= ROW and max(waited) >= BACKGROUND_WAIT_S and may_hold
        if people and mine != is_due:
            self.faults.append(f"{ticket}: background {mine}, due {is_due}, {self.people} in a row")
        if len(self.inside) >= self.limit:
            self.faults.append(f"{ticket}: more than {self.limit}")

    def both_wait(self, first, second):
        """Spans of turns, begin and end, while both have somebody who waits."""
        begin = None
        for at, spans in self.wait_spans:
            if not (spans[first] and spans[second]):
                if begin is not None:
                    yield begin, at
                begin = None
            elif begin is None:
                begin = at


OPERATIONS = ("come", "come", "come", "leave", "leave", "behind", "look", "spare")


def operations(seed):
    """A random day at a gate: (process, places), as two processes tell them."""
    chance = random.Random(seed)
    known = {0: [], 1: []}
    for number in range(60):
        process, kind = chance.randrange(2), chance.choice(OPERATIONS)
        ticket = f"{'pq'[process]}{number}"
        name = chance.choice(["", "ann", "bob", "bob x", "cron"])
        of_machine = (chance.choice(("desk", "attic")), chance.choice("abc"))
        asks = {ticket: Ask(*of_machine, name, name == "cron")}
        if chance.random() < 0.3:
            asks = {ticket: Ask(name=name, background=name == "cron")} if chance.random() < 0.5 else {}
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
