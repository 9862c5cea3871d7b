"""Words, phrases and orders of search results. Source: spec memory.md 8.3, 8.5, 11.1, 18.2 (19), 18.5."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Middleware.utilities import search_utils
from Middleware.utilities.search_utils import (
    Terms,
    best_pieces,
    filtered_keywords,
    fts_query,
    fuse_rankings,
    phrases,
    pieces_sharing_a_word,
    recency,
    row_limit,
    tokens,
    without_roles,
)

NOW = datetime(2031, 5, 4, tzinfo=UTC)


class TestQuery:
    """Every piece becomes a phrase; nothing becomes an operator."""

    def test_example_9(self):
        pieces = phrases('sea-town; Theo\'s "map"; ;ferry')
        assert fts_query(pieces) == '"sea town" OR "Theo\'s ""map""" OR "ferry"'

    def test_a_piece_that_comes_twice_stays_twice(self):
        """It counts twice in the rank."""
        assert fts_query(phrases("a;a")) == '"a" OR "a"'

    @pytest.mark.parametrize("text", ["", " ; ", '-;";!?', "\x00\x01"], ids=repr)
    def test_nothing_to_search_for(self, text):
        assert fts_query(phrases(text)) == ""

    @given(st.text())
    def test_no_text_is_an_error_for_the_database(self, text):
        """Whatever a model or a user writes."""
        query = fts_query(phrases(text)) or '"x"'
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.execute("CREATE VIRTUAL TABLE t USING fts5(a)")
            assert connection.execute("SELECT * FROM t WHERE t MATCH ?", (query,)).fetchall() == []

    @pytest.mark.parametrize(
        ("piece", "phrases", "parts"),
        [
            ("sea town", ("sea town",), ()),
            ("東京タワー", (), ("東京タワー",)),
            ("重跑gen後", ("gen",), ("重跑", "後")),
            ("「東京」、big city", ("」、big city",), ("東京",)),
            ("2024年", ("2024",), ("年",)),
            ("!?", (), ()),
        ],
    )
    def test_a_piece_is_cut_where_the_script_changes(self, piece, phrases, parts):
        assert Terms.of([piece]) == Terms(phrases, parts)

    def test_at_most_60_terms_of_each_kind_count(self):
        terms = Terms.of(["a東"] * 70)
        assert (len(terms.phrases), len(terms.parts)) == (60, 60)

    @pytest.mark.parametrize(("limit", "rows"), [(-1, 1000), (0, 0), (5, 5), (1001, 1000)])
    def test_limits(self, limit, rows):
        assert row_limit(limit) == rows


class TestRecency:
    """2.5 for new, falling to 1."""

    @pytest.mark.parametrize(("days", "factor"), [(0, 2.5), (-5, 2.5), (69.3147, 1.75), (100_000, 1.0)])
    def test_by_age(self, days, factor):
        date = (NOW - timedelta(days=days)).isoformat()
        assert recency(date, NOW) == pytest.approx(factor, abs=1e-4)

    def test_a_date_without_zone_is_utc(self):
        assert recency("2031-05-04T00:00:00", NOW) == 2.5

    @pytest.mark.parametrize("date", ["yesterday", "", None], ids=repr)
    def test_a_date_that_cannot_be_read_counts_once(self, date):
        assert recency(date, NOW) == 1.0


class TestFusion:
    """Two rankings as one."""

    def test_example_10(self):
        assert fuse_rankings([1, 2, 3], [3, 4]) == [3, 1, 2, 4]

    def test_ties_keep_the_first_seen(self):
        assert fuse_rankings([1, 2], [2, 1]) == [1, 2]
        assert fuse_rankings([], [7]) == [7]


class TestConversation:
    """Search by words in pieces of text."""

    def test_tokens_are_words_in_lower_case(self):
        assert tokens("Don't stop_now, ÉTÉ 42!") == ["don", "t", "stop_now", "été", "42"]

    def test_role_prefixes_go_wherever_they_stand(self):
        assert without_roles("User: a\nASSISTANT: b systemMes: c") == "a\nb c"

    def test_keywords_lose_speakers_labels_and_empty_parentheses(self):
        """Operators stay as ordinary words."""
        text = "(Mara) AND (ferry OR note: map), !"
        assert filtered_keywords(text, ["Mara: hello", "nothing"]) == "AND ( ferry OR map )"

    def test_the_piece_with_most_hits_comes_first(self):
        pieces = ["one ferry", "no such thing", "ferry and ferry", "one ferry"]
        assert best_pieces("ferry", pieces, 10) == ["ferry and ferry", "one ferry", "one ferry"]
        assert best_pieces("ferry", pieces, 1) == ["ferry and ferry"]

    def test_words_near_each_other_count_more(self):
        """At most five words apart."""
        far = "ferry a b c d e map"
        near = "ferry a b c d map"
        assert best_pieces("ferry map", [far, near], 2) == [near, far]

    def test_a_word_of_the_query_that_comes_twice_counts_twice(self):
        assert best_pieces("map map ferry", ["ferry", "map"], 2) == ["map", "ferry"]

    def test_a_word_that_is_only_a_label_brings_no_piece_up(self):
        assert best_pieces("mara", ["Mara: hello", "dear Mara"], 10) == ["dear Mara"]

    def test_pieces_that_share_a_word_in_their_order(self):
        assert pieces_sharing_a_word("Ferry boat", ["a ferry", "b", "boats", "boat"], 2) == [
            "a ferry",
            "boat",
        ]
        assert pieces_sharing_a_word("Ferry", ["ferry 1", "ferry 2"], 1) == ["ferry 1"]

    def test_a_word_begins_where_the_script_changes(self):
        assert tokens("重跑Gen後 서울에서 ที่นี่ map") == ["重跑", "gen", "後", "서울에서", "ที่นี่", "map"]

    @pytest.mark.parametrize(
        ("query", "piece"),
        [
            ("蜜蜂", "伊達在根特養蜜蜂，住在運河旁邊。"),
            ("タワー", "昨日は東京タワーに行った"),
            ("서울", "서울에서 만났다"),
            ("เชียงใหม่", "เราพบกันที่เชียงใหม่เมื่อวาน"),
            ("gen", "重跑gen後完成"),
            ("後完", "重跑gen後完成"),
            ("Python教程", "教程:Python"),
        ],
    )
    def test_writing_without_blanks_is_searched_inside_its_runs(self, query, piece):
        """In the conversation as in memories."""
        assert best_pieces(query, ["別的話", piece, "else"], 10) == [piece]
        assert pieces_sharing_a_word(query, ["別的話", piece, "else"], 10) == [piece]

    @pytest.mark.parametrize("query", ["ge", "完了", "東京"])
    def test_a_part_of_a_word_with_blanks_is_none(self, query):
        assert best_pieces(query, ["重跑gen後完成"], 10) == []
        assert pieces_sharing_a_word(query, ["重跑gen後完成"], 10) == []

    def test_a_character_is_one_place_where_there_are_no_blanks(self):
        """At most five apart."""
        near, far = "東京一二三塔", "東京一二三四五塔"
        assert best_pieces("京 塔", [far, near], 2) == [near, far]

    def test_hits_in_writing_without_blanks_are_counted(self):
        assert best_pieces("東京", ["東京へ", "東京から東京へ"], 2) == ["東京から東京へ", "東京へ"]

    def test_keywords_without_blanks_lose_speakers_and_labels(self):
        assert filtered_keywords("伊達 ที่นี่ 備考: 東京", ["伊達: こんにちは"]) == "ที่นี่ 東京"

    def test_a_word_without_blanks_that_is_only_a_label_brings_no_piece_up(self):
        assert best_pieces("伊達", ["伊達: 你好", "親愛的伊達"], 10) == ["親愛的伊達"]

    def test_a_long_piece_of_one_word_is_scored_in_time_that_grows_with_it(self):
        """Each place looks only at its neighbours."""
        assert search_utils.best_pieces("a b", ["a b " * 20_000], 1) == ["a b " * 20_000]
