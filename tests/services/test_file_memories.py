"""What each file memory covers, beside the memories. Source: spec memory.md 18.2 (18, 26)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from Middleware.services import file_memories
from Middleware.services.discussion_store import ChunkList, DiscussionStore, Entry
from Middleware.services.file_memories import (
    End,
    FileMemories,
    Pin,
    align_entries,
    before_of,
    end_at,
    ends_of,
    join_ends,
    pinned_places,
    pins_of,
    remembered,
)
from Middleware.utilities.encryption_utils import TOKEN_START, api_key_hash, derive_key
from Middleware.utilities.hashing_utils import sha256_hex

A, B, C = (End(name, f"before {name}", (f"{name}1", name)) for name in "abc")


@pytest.fixture
def store(tmp_path):
    return DiscussionStore(tmp_path / "DiscussionIds", "d", install=tmp_path / "install")


@pytest.fixture
def memories(store):
    """Three memories that end with `a`, `b` and `c`."""
    made = FileMemories(store)
    for number, end in enumerate((A, B, C)):
        assert made.append(f"m{number}", end, after=made.load())
    return made


def test_they_exist_once_they_were_opened(store):
    """Looking at them makes no file; until there is one, they are made of the whole conversation."""
    made = FileMemories(store)
    assert (made.exists, made.load(), made.exists) == (False, (), False)
    assert (made.open(), made.exists) == ((), True)


def lines(store):
    return json.loads(store.path("memory_ends.json").read_text())


class TestFormat:
    """One line an entry, in order."""

    def test_a_line_names_the_end_and_the_messages_before_it(self, store):
        hashes = [f"h{i}" for i in range(12)]
        FileMemories(store).append("m", end_at(hashes, 2, 11), after=())
        assert lines(store) == [
            {
                "hash": "h10",
                "before": sha256_hex("\n".join(hashes[3:11])),
                "messages": hashes[2:11],
                "after": "h1",
            }
        ]

    def test_fewer_than_eight_messages_are_all_there_are(self):
        assert before_of(["x", "y"], 1) == sha256_hex("x\ny")

    def test_it_is_encrypted_as_the_memories_are(self, tmp_path):
        key = derive_key("test-key", "alice")
        store = DiscussionStore(tmp_path, "d", key_hash=api_key_hash("test-key"), encryption_key=key)
        made = FileMemories(store)
        made.append("m0", A, after=())
        made.append("m1", B, after=made.load())
        for name in ("memory_ends.json", "memory_ends.json.bak"):
            assert (store.folder / name).read_bytes().startswith(TOKEN_START)
        assert made.ends(made.load()) == (A, B)

    @pytest.mark.parametrize(
        "held", ["{}", '[{"hash": 1, "before": ""}]', '[{"hash": "a", "before": "", "messages": [1]}]']
    )
    def test_a_file_of_another_form_is_put_aside(self, store, memories, held):
        """Then the hashes of the memories are all that is known, or the version before."""
        store.path("memory_ends.json").write_text(held)
        assert memories.ends(memories.load()) == (A, B, End("c"))
        store.path("memory_ends.json").write_text(held)
        store.path("memory_ends.json.bak").unlink()
        assert memories.ends(memories.load()) == (End("a"), End("b"), End("c"))


class TestAlignment:
    """Other programs know nothing of the lines."""

    def test_an_entry_of_another_program_has_no_line(self):
        assert align_entries(["a", "x", "b"], [A, B]) == (A, End("x"), B)

    def test_lines_of_entries_that_another_program_condensed_belong_to_the_one_that_is_left(self):
        assert align_entries(["b", "c"], [A, B, C]) == (join_ends([A, B]), C)
        assert join_ends([A, B]).messages == ("a1", "a", "b1", "b")

    def test_lines_of_entries_that_are_gone_count_for_nothing(self):
        """Somebody deleted the newest memory to have it made again, or all of them."""
        assert align_entries(["a"], [A, B, C]) == (A,)
        assert align_entries([], [A, B, C]) == ()

    def test_equal_hashes_go_in_order(self):
        first, second = End("a", "1", ("x", "a")), End("a", "2", ("y", "a"))
        assert align_entries(["a", "a"], [first, second]) == (first, second)
        assert align_entries(["a"], [first, second]) == (first,)

    def test_a_memory_after_one_of_another_program_keeps_its_line(self, store, memories):
        ChunkList(store, "memories.json").append(Entry("theirs", "x"), after="c")
        end = End("d", "before d", ("d",))
        assert memories.append("ours", end, after=memories.load())
        assert memories.ends(memories.load()) == (A, B, C, End("x"), end)


class TestChanges:
    """Nothing is made from an older state."""

    def test_a_memory_is_added_only_to_the_memories_that_it_was_made_after(self, memories):
        """Also if the newest one ends with the same text."""
        before = memories.load()
        assert memories.append("m3", C, after=before)
        assert not memories.append("again", C, after=before)
        assert [entry.text for entry in memories.load()] == ["m0", "m1", "m2", "m3"]

    def test_an_edited_text_hinders_nothing(self, store, memories):
        """Somebody has corrected a memory by hand while a model was working."""
        before = memories.load()
        ChunkList(store, "memories.json").update(lambda old: [Entry("better", old[0].hash), *old[1:]])
        assert memories.append("m3", End("d", "", ("d",)), after=before)

    @pytest.mark.parametrize(("position", "count"), [(0, 3), (1, 2)])
    def test_memories_that_have_changed_are_not_condensed(self, store, memories, position, count):
        """Somebody has corrected or removed one while a model was working: all stay as they are."""
        batch = memories.load()[position : position + count]
        ChunkList(store, "memories.json").update(lambda old: [*old[:-1], Entry("better", old[-1].hash)])
        assert not memories.condense(position, batch, "all")
        assert [entry.text for entry in memories.load()] == ["m0", "m1", "better"]

    def test_a_condensed_memory_keeps_what_all_of_its_own_cover(self, memories):
        assert memories.condense(0, memories.load()[:2], "both")
        assert memories.ends(memories.load())[0].messages == ("a1", "a", "b1", "b")
        assert memories.condensed_until("b") == 1

    def test_a_condensed_memory_knows_where_a_branch_began(self, memories):
        """What stood before its first message is another one than the last of the memory before."""
        branch = End("e", "x", ("d", "e"), after="a1")
        memories.append("m3", branch, after=memories.load())
        memories.condense(1, memories.load()[1:], "both")
        end = memories.ends(memories.load())[1]
        assert dict(zip(end.messages, end.previous, strict=True)) == {
            "b1": "",
            "b": "b1",
            "c1": "b",
            "c": "c1",
            "d": "a1",
            "e": "d",
        }

    @pytest.mark.parametrize("breaks", [[], {"x": "a"}, {"0": 5}, {"9": "a"}, "0"], ids=str)
    def test_breaks_of_another_form_are_damage(self, breaks):
        """Each is a place among the messages, and a hash."""
        with pytest.raises(ValueError, match="line 1: `breaks` is an object of places and hashes"):
            ends_of([{"hash": "a", "before": "", "messages": ["a"], "breaks": breaks}])

    def test_a_kill_between_the_two_files_doubles_nothing(self, store, memories, monkeypatch):
        """The line is there, the memory is not: it is made again, and has one line."""

        def killed(self, *entries):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(file_memories.ChunkList, "replace", killed)
            memories.append("m3", End("d", "x", ("d",)), after=memories.load())
        assert memories.ends(memories.load()) == (A, B, C)
        memories.append("m3", End("d", "y", ("d",)), after=memories.load())
        assert [line["before"] for line in lines(store)][3:] == ["y"]

    def test_another_discussions_memories_bring_what_they_cover(self, memories, tmp_path):
        other = FileMemories(DiscussionStore(tmp_path / "other", "d", install=tmp_path / "install"))
        other.take_over(memories)
        assert (other.load(), other.ends(other.load())) == (memories.load(), (A, B, C))


class TestCorrecting:
    """An entry is edited, forgotten, pinned. Source: spec operate.md 6."""

    def test_what_is_forgotten_stands_for_its_messages(self, store, memories):
        memories.forget([1])
        assert memories.load()[1] == Entry("", "b")
        assert memories.load()[1].is_forgotten
        assert remembered(memories.load()) == (memories.load()[0], *memories.load()[2:])
        assert lines(store)[1]["forgotten"] == [[0, 2]]
        assert memories.ends(memories.load())[1] == replace(B, forgotten=((0, 2),))

    def test_the_next_memory_goes_behind_it(self, memories):
        """Also one that a model was asked for before."""
        before = memories.load()
        memories.forget([2])
        assert memories.append("m3", End("d", "", ("d",)), after=before)

    def test_joined_places_are_those_of_the_whole(self):
        """Copies cover nothing, so they take no place."""
        ends = [End("x", copied=True), A, replace(B, forgotten=((0, 2),)), replace(C, forgotten=((1, 2),))]
        joined = join_ends(ends)
        assert (joined.messages, joined.forgotten) == (("a1", "a", "b1", "b", "c1", "c"), ((2, 4), (5, 6)))
        assert not joined.copied

    def test_copies_that_are_joined_are_one(self):
        joined = join_ends([End("x", copied=True), End("y", copied=True)])
        assert (joined.hash, joined.copied, joined.covered_hashes) == ("y", True, ())

    @pytest.mark.parametrize("ranges", ["0", {}, [0], [[0]], [["a", "b"]], [[True, 1]]], ids=str)
    def test_ranges_of_another_form_are_damage(self, ranges):
        with pytest.raises(ValueError, match="line 1: `forgotten` is a list of pairs of places"):
            ends_of([{"hash": "a", "before": "", "forgotten": ranges}])

    def test_pins_are_a_file_of_hashes(self, store, memories):
        """Newest last."""
        memories.set_pins([2])
        memories.set_pins([0, 2])
        assert json.loads(store.path("memory_pins.json").read_text()) == [
            {"hash": "c", "before": "before c"},
            {"hash": "a", "before": "before a"},
        ]
        assert memories.pinned() == [0, 2]

    def test_no_pin_makes_no_file(self, store, memories):
        memories.set_pins([])
        assert not store.path("memory_pins.json").exists()

    def test_pins_of_entries_that_end_alike_are_told_apart(self):
        """By the messages before; else in order."""
        ends = [End("go", "1"), End("go", "2"), End("go", "2")]
        assert pinned_places([Pin("go", "2")], ends) == [1]
        assert pinned_places([Pin("go", "2"), Pin("go", "2")], ends) == [1, 2]
        assert pinned_places([Pin("gone", "2")], ends) == []

    @pytest.mark.parametrize("value", [{}, [1], [{"hash": 1, "before": ""}], [{"hash": "a"}]], ids=str)
    def test_pins_of_another_form_are_damage(self, value):
        with pytest.raises((TypeError, ValueError), match=r"allowed|expected"):
            pins_of(value)

    def test_damaged_pins_pin_nothing(self, store, memories):
        store.path("memory_pins.json").write_text("[1]")
        assert memories.pinned() == []

    @pytest.mark.parametrize(
        ("change", "changed"),
        [
            (lambda memories: memories.forget([1]), True),
            (lambda memories: memories.edit(1, "other"), True),
            (lambda memories: memories.edit(0, "other"), False),
            (lambda memories: memories.condense(1, memories.load()[1:], "both"), False),
        ],
        ids=["forgotten", "edited", "another one", "condensed"],
    )
    def test_what_was_changed_meanwhile_is_known(self, memories, change, changed):
        batch = memories.load()[1:]
        change(memories)
        assert memories.has_changed(batch) is changed


def test_a_hash_that_stands_once_needs_no_second_file(memories, monkeypatch):
    """The place is known."""
    monkeypatch.setattr(FileMemories, "ends", lambda *_: pytest.fail("the ends were read"))
    assert [memories.condensed_until(name) for name in ("a", "c", "gone")] == [1, 3, None]


class TestPlacesOfEqualHashes:
    """Three memories that all end with `go on`."""

    @pytest.fixture
    def equal(self, store):
        made = FileMemories(store)
        for number in range(4):
            made.append(f"m{number}", End("go", f"{number}", (f"x{number}", "go")), after=made.load())
        return made

    def test_the_summary_ends_where_it_was_said_to(self, equal):
        summary = Entry("so far", "go")
        equal.mark_summarised(summary, 1, ())
        assert equal.summarised_until(summary) == 2

    def test_the_former_summary_keeps_its_place_until_the_new_one_is_stored(self, equal):
        """A kill between the two leaves the former one."""
        former, newer = Entry("former", "go"), Entry("newer", "go")
        equal.mark_summarised(former, 0, ())
        equal.mark_summarised(newer, 2, (former,))
        assert (equal.summarised_until(former), equal.summarised_until(newer)) == (1, 3)

    def test_memories_that_were_condensed_meanwhile_move_the_place(self, equal):
        equal.condense(0, equal.load()[:2], "both")
        summary = Entry("so far", "go")
        equal.mark_summarised(summary, 2, ())
        assert equal.summarised_until(summary) == 3

    def test_without_a_mark_the_newest_one_counts(self, equal):
        assert equal.summarised_until(Entry("by another program", "go")) == 4
        assert equal.summarised_until(Entry("by another program", "gone")) is None

    def test_condensing_goes_on_behind_the_condensed_one(self, equal):
        """Without a mark at the first one, as other programs do."""
        assert equal.condensed_until("go") == 1
        equal.condense(1, equal.load()[1:3], "both")
        assert equal.condensed_until("go") == 2
        assert equal.mark_condensed() == "go"
        assert equal.condensed_until("go") == 3
        assert equal.condensed_until("gone") is None


def test_without_memories_there_is_nothing_to_mark(tmp_path):
    """Nothing is written then."""
    store = DiscussionStore(tmp_path / "discussions", "d", install=tmp_path / "install")
    memories = FileMemories(store)
    assert memories.mark_condensed() is None
    with store.lock():
        memories.mark_summarised(Entry("all of it", "x"), 0, ())
    assert memories.load() == () and not store.path("memories.json").exists()


class TestOfTwo:
    """Two memories that end with the same text are enough to be taken for each other."""

    @pytest.fixture
    def two(self, store):
        made = FileMemories(store)
        for number in range(2):
            made.append(f"m{number}", End("go", f"{number}", (f"x{number}", "go")), after=made.load())
        return made

    def test_condensing_is_done_up_to_the_marked_one(self, two):
        assert two.condensed_until("go") == 1
        two.mark_condensed()
        assert two.condensed_until("go") == 2

    def test_the_summary_ends_with_the_marked_one(self, two):
        summary = Entry("so far", "go")
        assert two.summarised_until(summary) == 2
        two.mark_summarised(summary, 0, ())
        assert two.summarised_until(summary) == 1

    def test_a_summary_whose_place_has_gone_ends_with_the_first_one(self, two):
        """Something of another end stands there now."""
        summary = Entry("so far", "go")
        two.mark_summarised(summary, -1, ())
        assert two.summarised_until(summary) == 1


def test_who_remembers_so_much_first():
    """Eight messages tell a place, and eight pinned memories come before all others."""
    assert (file_memories.BEFORE, file_memories.MOST_PINS_FIRST) == (8, 8)
