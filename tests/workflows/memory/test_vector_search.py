"""Search by words, by meaning and by both. Source: spec memory.md 8.3 to 8.7, 18.2 (16, 19), 18.5."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from Middleware.common.errors import BackendError
from Middleware.services.discussion_store import DiscussionStore
from Middleware.workflows.memory.vector_search import (
    NOTHING_FOUND,
    MemoryQuery,
    Readers,
    Row,
    VectorSearch,
    bm25_weights,
    entities_of,
    format_memories,
)
from Middleware.workflows.memory.vector_store import ChunkRecord, VectorDatabase

NOW = datetime(2031, 5, 4, tzinfo=UTC)


def fact(summary, title="", entities=(), phrases=()):
    return {"title": title, "summary": summary, "entities": list(entities), "key_phrases": list(phrases)}


class Searched:
    """A database of facts with ids from 1, and what a question finds in it."""

    def __init__(self, store):
        self.database = VectorDatabase(store)
        self.store = store
        self.vector = [1.0, 0.0]
        self.embedded = []

    def put(self, *facts):
        self.database.save(ChunkRecord("h", ("h",)), facts, after=None)

    def dates(self, *days):
        """How old each fact is."""
        with closing(sqlite3.connect(self.database.path)) as connection, connection:
            for each, age in enumerate(days, 1):
                date = (NOW - timedelta(days=age)).isoformat()
                connection.execute("UPDATE memories SET date_added = ? WHERE id = ?", (date, each))

    def embed(self, text):
        self.embedded.append(text)
        if isinstance(self.vector, Exception):
            raise self.vector
        return "m", self.vector

    def ids(self, text, *, endpoint=True, **fields):
        search = VectorSearch(self.store, self.embed if endpoint else None, lambda: NOW)
        return [row.id for row in search.find(MemoryQuery(text, **fields))]


@pytest.fixture
def searched(tmp_path):
    return Searched(DiscussionStore(tmp_path / "discussions", "d", install=tmp_path / "install"))


class TestKeywords:
    """Phrases joined by OR, best rank first."""

    def test_stems_case_and_accents_are_folded(self, searched):
        searched.put(fact("She was RUNNING to the café"))
        assert searched.ids("runs") == searched.ids("Cafe") == [1]

    def test_a_phrase_matches_adjacent_words_in_order_only(self, searched):
        searched.put(fact("he fixes boats"))
        assert (searched.ids("boats fixes"), searched.ids("fixes boats"), searched.ids("boats; fixes")) == (
            [],
            [1],
            [1],
        )

    @pytest.mark.parametrize(
        "text", ['a" OR "b', "NEAR(a b)", "title: a", "a*", "^a", "(a", "a AND", "{a}", "\x00a"]
    )
    def test_operators_are_words(self, searched, text, caplog):
        searched.put(fact("nothing of the kind"))
        assert searched.ids(text) == []
        assert "failed" not in caplog.text

    def test_weights_decide_which_column_counts(self, searched):
        """Order: title, summary, entities, key phrases, text."""
        searched.put(fact("map", title="ferry"), fact("ferry ferry", title="map"), fact("x", title="y"))
        assert searched.ids("ferry", weights=(10.0, 0.1, 1, 1, 0.1)) == [1, 2]
        assert searched.ids("ferry", weights=(0.1, 10.0, 1, 1, 0.1)) == [2, 1]

    def test_the_limit_is_kept(self, searched):
        searched.put(*[fact("ferry")] * 5)
        assert [len(searched.ids("ferry", limit=limit)) for limit in (2, 0, -1)] == [2, 0, 5]

    def test_more_than_60_phrases_are_cut_with_a_warning(self, searched, caplog):
        searched.put(fact("w59"), fact("w60"))
        assert searched.ids(";".join(f"w{i}" for i in range(61))) == [1]
        assert "61 phrases to search for; only the first 60 are used" in caplog.text

    def test_a_database_that_cannot_be_searched_gives_nothing(self, searched, caplog):
        """The answer goes on without memories; the log says why."""
        searched.put(fact("ferry"))
        with closing(sqlite3.connect(searched.database.path)) as connection:
            connection.execute("DROP TABLE memories_fts")
        assert searched.ids("ferry") == []
        assert "the search by keywords failed: no such" in caplog.text

    def test_recency_turns_the_order_around(self, searched):
        """The new one counts 2.5 times."""
        searched.put(fact("ferry ferry ferry"), fact("ferry and some other words here"))
        searched.dates(10_000, 0)
        assert searched.ids("ferry") == [1, 2]
        assert searched.ids("ferry", recency=True) == [2, 1]

    def test_recency_looks_at_every_row_that_could_win(self, searched):
        """The new one ranks last of many."""
        searched.put(*[fact("ferry boat")] * 50, fact("ferry and three words"))
        searched.dates(*[10_000] * 50, 0)
        assert searched.ids("ferry", recency=True, limit=2) == [51, 1]

    def test_no_database_finds_nothing_and_makes_none(self, searched, caplog):
        assert searched.ids("ferry") == []
        assert not searched.store.folder.exists()
        assert caplog.text == ""

    def test_an_empty_database_finds_nothing_without_a_word(self, searched, caplog):
        """Other programs leave one behind after a search."""
        searched.store.make_folder()
        searched.database.path.touch()
        assert searched.ids("ferry", mode="hybrid") == []
        assert caplog.text == ""

    def test_what_is_no_database_of_memories_is_told_once(self, searched, caplog):
        searched.store.make_folder()
        searched.database.path.write_bytes(b"text" * 1000)
        assert searched.ids("ferry", mode="hybrid") == searched.ids("ferry") == []
        assert caplog.text.count("nothing is found in it: file is not a database") == 1

    def test_a_database_of_something_else_is_told_once(self, searched, caplog):
        searched.store.make_folder()
        with closing(sqlite3.connect(searched.database.path)) as connection:
            connection.execute("CREATE TABLE other (x)")
        assert searched.ids("ferry") == searched.ids("ferry") == []
        assert caplog.text.count("it is not a database of memories") == 1
        assert "ERROR" not in caplog.text

    @pytest.mark.parametrize("between", ["\n", "\t", "\r\n", "\x85"], ids=repr)
    def test_words_stay_apart_where_a_line_ends(self, searched, between):
        searched.put(fact("the sea town sleeps"))
        assert searched.ids(f"sea{between}town") == [1]

    def test_a_memory_whose_row_is_gone_is_left_out(self, searched):
        searched.put(fact("ferry"), fact("ferry"))
        with closing(sqlite3.connect(searched.database.path)) as connection, connection:
            connection.execute("DELETE FROM memories WHERE id = 1")
        assert searched.ids("ferry") == searched.ids("ferry", recency=True) == [2]


SCRIPTS = [
    ("han", "伊達在根特養蜜蜂，住在運河旁邊。", "蜜蜂"),
    ("kana", "昨日は東京タワーに行きました。", "タワー"),
    ("hangul-with-a-particle", "서울에서 만났다.", "서울"),
    ("thai", "เราพบกันที่เชียงใหม่เมื่อวาน", "เชียงใหม่"),
    ("lao", "ພວກເຮົາພົບກັນຢູ່ວຽງຈັນ", "ວຽງຈັນ"),
    ("khmer", "យើងជួបគ្នានៅភ្នំពេញ", "ភ្នំពេញ"),
    ("myanmar", "ရန်ကုန်မှာတွေ့ခဲ့တယ်", "ကုန်"),
    ("latin-glued-on-both-sides", "重跑gen後完成。", "gen"),
    ("latin-glued-behind", "使用Python。", "python"),
    ("latin-glued-in-front", "Windows版は無料です", "WINDOWS"),
    ("cyrillic-glued", "他住在Москва的郊区", "москва"),
    ("two-glued-words", "用Visual Studio写", "visual studio"),
    ("scripts-mixed-in-the-question", "教程:Python", "Python教程"),
    ("punctuation-in-the-question", "他在東京工作", "「東京」？"),
    ("signs-of-a-pattern", "進捗は100%_完了", "進捗"),
]


class TestWritingWithoutBlanks:
    """A word is found inside a run of it, and words of other writing that are glued to it."""

    @pytest.mark.parametrize(("text", "question"), [s[1:] for s in SCRIPTS], ids=[s[0] for s in SCRIPTS])
    def test_a_word_inside_a_run_is_found(self, searched, text, question):
        searched.put(fact("他什么也没说"), fact(text), fact("nothing of it"))
        assert searched.ids(question) == [2]

    @pytest.mark.parametrize("column", ["title", "entities", "phrases"])
    def test_it_is_looked_for_in_every_column(self, searched, column):
        value = "重跑完成" if column == "title" else ["重跑完成"]
        searched.put(fact("s", **{column: value}))
        assert searched.ids("完成") == [1]

    @pytest.mark.parametrize("question", ["ge", "engen", "en", "x"], ids=str)
    def test_a_part_of_a_word_with_blanks_is_none(self, searched, question):
        searched.put(fact("重跑gen後完成。"))
        assert searched.ids(question) == []

    def test_what_holds_more_of_the_terms_comes_first(self, searched):
        searched.put(*(fact("無関係な話") for _ in range(4)), fact("東京の話"), fact("東京のPython教室"))
        assert searched.ids("東京;python") == [6, 5]

    def test_weights_decide_which_column_counts(self, searched):
        searched.put(*(fact("無関係") for _ in range(4)), fact("東京の話"), fact("s", title="東京の話"))
        assert searched.ids("東京", weights=(9.0, 1.0, 1.0, 1.0, 1.0)) == [6, 5]
        assert searched.ids("東京", weights=(0.0, 9.0, 1.0, 1.0, 1.0)) == [5, 6]

    def test_recency_turns_the_order_around(self, searched):
        searched.put(*(fact("無関係") for _ in range(4)), fact("東京 東京"), fact("東京"))
        searched.dates(0, 0, 0, 0, 900, 0)
        assert (searched.ids("東京"), searched.ids("東京", recency=True)) == ([5, 6], [6, 5])

    def test_the_limit_is_kept(self, searched):
        searched.put(*(fact(f"東京 {i}") for i in range(9)))
        assert searched.ids("東京", limit=3) == [1, 2, 3]

    def test_a_part_of_any_length_is_no_error(self, searched, caplog):
        """The database's own LIKE takes 50,000 bytes."""
        searched.put(fact("東京"))
        assert searched.ids("東" * 30_000 + ";東京") == [1]
        assert caplog.text == ""

    def test_entities_in_it_are_followed(self, searched):
        searched.put(fact("伊達在根特", entities=["運河"]), fact("她住在運河旁邊"))
        assert searched.ids("根特", expand=True) == [1, 2]


@pytest.fixture
def placed(searched):
    """Three facts: by words 1 and 2, by meaning 3, 2, 1."""
    searched.put(fact("ferry ferry"), fact("ferry and a map"), fact("boat"))
    searched.database.save_vectors("m", {1: [0.0, 1.0], 2: [0.5, 0.5], 3: [1.0, 0.0]})
    return searched


class TestMeaning:
    """Nearest vectors; when that cannot be told, words."""

    def test_the_nearest_come_first(self, placed):
        assert placed.ids("ferry; boat", mode="SEMANTIC ", limit=2) == [3, 2]
        assert placed.embedded == ["ferry  boat"]

    def test_a_query_of_its_own_is_embedded(self, placed):
        placed.ids("ferry", mode="semantic", semantic=" what sails? ")
        assert placed.embedded == ["what sails?"]

    def test_a_blank_query_makes_no_call(self, placed):
        assert placed.ids("ferry", mode="semantic", semantic=" ") == [1, 2]
        assert placed.embedded == []

    @pytest.mark.parametrize(
        "vector", [BackendError("e", "overloaded", "busy"), ValueError("odd"), None, [1.0], []], ids=repr
    )
    @pytest.mark.parametrize("mode", ["semantic", "hybrid"])
    def test_without_an_answer_words_decide(self, placed, vector, mode):
        """An error, a cancelled call, a vector of another length."""
        placed.vector = vector
        assert placed.ids("ferry", mode=mode) == [1, 2]

    @pytest.mark.parametrize("mode", ["semantic", "hybrid"])
    def test_without_an_endpoint_words_decide_with_an_error(self, placed, mode, caplog):
        assert placed.ids("ferry", mode=mode, endpoint=False) == [1, 2]
        assert "needs an embeddingEndpointName" in caplog.text

    def test_an_unknown_mode_is_keyword_with_a_warning(self, placed, caplog):
        assert placed.ids("ferry", mode="magic") == [1, 2]
        assert "found 'magic', allowed: keyword, semantic, hybrid" in caplog.text

    def test_without_the_table_of_vectors_words_decide(self, searched):
        """Older files have none."""
        searched.put(fact("ferry"))
        with closing(sqlite3.connect(searched.database.path)) as connection:
            connection.execute("DROP TABLE memory_embeddings")
        assert searched.ids("ferry", mode="semantic") == [1]


class TestBoth:
    """Hybrid."""

    def test_places_are_added_up(self, placed):
        """First and third is more than second twice; the one that has no word comes last."""
        assert placed.ids("ferry", mode="hybrid", limit=3) == [1, 2, 3]

    def test_the_list_is_cut_to_the_limit(self, placed):
        assert placed.ids("ferry", mode="hybrid", limit=1) == [1]

    def test_without_words_that_match_meaning_decides(self, placed):
        assert placed.ids("unheard", mode="hybrid", limit=2) == [3, 2]


class TestExpansion:
    """Memories about the entities of what was found."""

    @pytest.fixture
    def linked(self, searched):
        searched.put(
            fact("ferry one", entities=["Mara", " mara ", "FERRY", ""]),
            fact("ferry two", entities=["Theo"]),
            fact("ferry three"),
            fact("Mara sleeps"),
            fact("Theo sings"),
            fact("Theo walks"),
        )
        return searched

    @pytest.mark.parametrize(("limit", "count"), [(3, 1), (6, 3), (2, 1)])
    def test_a_third_of_the_limit_at_least_one_is_for_novel_rows(self, linked, limit, count):
        """And what the base rows leave free."""
        found = linked.ids("ferry", limit=limit, expand=True)
        assert sum(each > 3 for each in found) == count
        assert len(found) <= limit

    def test_the_base_rows_come_first(self, linked):
        found = linked.ids("ferry", limit=3, expand=True)
        assert found[:2] == linked.ids("ferry", limit=3)[:2]

    def test_a_limit_of_one_has_no_place_for_novel_rows(self, linked):
        assert linked.ids("ferry", limit=1, expand=True) == linked.ids("ferry", limit=1)

    def test_without_entities_or_novel_rows_nothing_changes(self, linked):
        assert linked.ids("sings", expand=True) == [5]
        assert linked.ids("three", expand=True) == [3]

    def test_entities_are_trimmed_and_unlike_the_question_and_each_other(self):
        rows = [
            Row(1, "", "", '{"entities": [" Mara ", "MARA", "ferry", 5, ""]}'),
            Row(2, "", "", '{"entities": "Theo"}'),
            Row(3, "", "", "broken"),
            Row(4, "", "", None),
            Row(5, "", "", "[1]"),
        ]
        assert entities_of(rows, ["Ferry"]) == ["Mara", "5"]

    def test_at_most_60_entities_count(self):
        many = ",".join(f'"e{i}"' for i in range(70))
        assert len(entities_of([Row(1, "", "", f'{{"entities": [{many}]}}')], [])) == 60


class TestWeights:
    """Five numbers or nothing."""

    def test_five_numbers(self, caplog):
        assert bm25_weights([1, 2.5, 0, 1, 1]) == (1.0, 2.5, 0.0, 1.0, 1.0)
        assert bm25_weights(None) is None
        assert caplog.text == ""

    @pytest.mark.parametrize(
        "value",
        [[1, 2, 3, 4], [1, 2, 3, 4, True], [1, 2, 3, 4, "5"], "12345", [1, 2, 3, 4, float("nan")]],
        ids=str,
    )
    def test_anything_else_is_no_weights_with_a_warning(self, value, caplog):
        assert bm25_weights(value) is None
        assert "allowed: a list of five numbers" in caplog.text


class TestShown:
    """The text of the rows."""

    ROW = Row(1, "a", "2031-05-04T10:20:30+00:00", None)

    def test_with_and_without_dates(self):
        assert format_memories([self.ROW, Row(2, "b", "", None)], dates=True) == "[2031-05-04] a\n\n---\n\nb"
        assert format_memories([self.ROW], dates=False) == "a"

    def test_nothing_found(self):
        assert format_memories([], dates=True) == NOTHING_FOUND


class TestReaders:
    """Connections that are kept."""

    @pytest.fixture
    def paths(self, tmp_path):
        found = []
        for name in "ab":
            store = DiscussionStore(tmp_path / "discussions", name, install=tmp_path / "install")
            VectorDatabase(store).save(ChunkRecord("h", ()), [], after=None)
            found.append(VectorDatabase(store).path)
        return found

    def test_a_connection_is_used_again(self, paths):
        readers = Readers()
        with readers.connection(paths[0]) as first:
            pass
        with readers.connection(paths[0]) as second:
            assert second is first
        readers.close()

    def test_only_so_many_are_kept(self, paths):
        """Of each file, and of files."""
        readers = Readers(idle_each=1, files=1)
        with readers.connection(paths[0]) as first, readers.connection(paths[0]) as second:
            pass
        with readers.connection(paths[1]):
            pass
        with pytest.raises(sqlite3.ProgrammingError):
            first.execute("SELECT 1")
        with pytest.raises(sqlite3.ProgrammingError):
            second.execute("SELECT 1")
        readers.close()

    def test_what_is_idle_is_closed_at_the_end(self, paths):
        """All of it."""
        readers = Readers()
        with readers.connection(paths[0]) as first, readers.connection(paths[1]) as second:
            pass
        readers.close()
        for each in (first, second):
            with pytest.raises(sqlite3.ProgrammingError):
                each.execute("SELECT 1")

    def test_a_connection_that_failed_is_not_kept(self, paths):
        readers = Readers()
        with pytest.raises(sqlite3.Error), readers.connection(paths[0]) as connection:
            connection.execute("SELECT nonsense")
        with pytest.raises(sqlite3.ProgrammingError):
            connection.execute("SELECT 1")
