"""HTML to text: what is left out, what breaks a line, and what bad HTML does."""

from __future__ import annotations

import pytest

from Middleware.utilities.html_text import html_to_text


class TestLines:
    """Every piece between tags is a line."""

    @pytest.mark.parametrize(
        ("page", "text"),
        [
            ("<head><title>T</title></head><p>a&amp;b<script>x()</script>c</p>", "a&b\nc"),
            ("<p>Hi <b>there</b> you</p>", "Hi\nthere\nyou"),
            ("a<!-- b > c -->d", "a\nd"),
            ("a<!-->b<!--->c", "a\nb\nc"),
            ("a<!doctype html>b<?php x ?>c</ x>d", "a\nb\nc\nd"),
            ("<noscript>x<iframe>y</iframe>z</noscript>a", "a"),
            ("<noscript><noscript>x</noscript>y</noscript>a", "a"),
            ("</noscript>a", "a"),
            ("<STYLE type='a'>b{}</STYLE >c", "c"),
            ("<script>if (a<b) '</scripts>'</script>c", "c"),
            ("<head><title>T</title><body>a", "a"),
            ("<header>a</header>", "a"),
            ('<a title="1 > 0">b</a>', "b"),
            ("<a title='1 > 0' x = y>b</a>", "b"),
            ("<a b'c>d", "d"),
            ("1 < 2 <3 &lt;b&gt; &nope;", "1 < 2 <3 <b> &nope;"),
            ("<template>a</template><svg><text>b</text></svg>", "a\nb"),
            ("", ""),
            ("  \n<p> </p>", ""),
        ],
    )
    def test_a_page(self, page, text):
        """Scripts, styles and the head are no text."""
        assert html_to_text(page) == text

    @pytest.mark.parametrize(
        "page", ["a<script>b", "a<head>b", "a<!-- b", "a<p title='b", "a<p b", "a<! b", "a<iframe>b</p>"]
    )
    def test_what_is_unclosed_takes_the_rest(self, page):
        """As in browsers."""
        assert html_to_text(page) == "a"

    @pytest.mark.parametrize(
        "piece", ["<!--", "<a ", "<script>", "<a b='", "<a b=", "<![", "<noscript>", "&"]
    )
    def test_a_hostile_page_costs_linear_time(self, piece):
        """Half a million unclosed pieces are read within the test's time limit."""
        assert html_to_text("x<p>" + piece * 500_000).startswith("x")

    @pytest.mark.parametrize("close", ["</noscript>", "</head>", "<body>", "</iframe>"])
    @pytest.mark.parametrize("opening", ["<noscript>", "<head>", "<head><noscript>"])
    @pytest.mark.parametrize("layout", ["lines", "blocks"])
    def test_so_does_a_deeply_nested_one(self, opening, close, layout):
        """Two hundred thousand levels, closed by their own end, by another's, or by the body."""
        assert html_to_text("x<p>" + opening * 200_000 + close * 200_000, layout).startswith("x")

    @pytest.mark.parametrize(
        ("reference", "text"),
        [
            ("&#" + "9" * 100_000 + ";", "\ufffd"),
            ("&#x" + "f" * 100_000 + ";", "\ufffd"),
            ("&#" + "0" * 100_000 + "65;", "A"),
            ("&#00000065b", "Ab"),
            ("&#99999999;", "\ufffd"),
            ("&#128512;", "\U0001f600"),
            ("&#;&#x;", "&#;&#x;"),
        ],
        ids=["huge", "huge-hex", "zeros", "without-end", "too-large", "picture", "none"],
    )
    def test_a_reference_is_never_an_error(self, reference, text):
        assert html_to_text(reference) == text


class TestBlocks:
    """Only block elements break lines."""

    @pytest.mark.parametrize(
        ("page", "text"),
        [
            ("<p>Hi <b>there</b> you</p>", "Hi there you"),
            ("<ul><li>a<li>b</ul>c", "a\nb\nc"),
            ("<p>a\n  b</p><div>c<br>d</div>", "a b\nc\nd"),
            ("<template>a</template><svg><text>b</text></svg><object>c</object>d", "d"),
            ("a<svg/>b", "a\nb"),
            ("<table><tr><td>a</td><td>b</td></tr></table>", "a\nb"),
        ],
    )
    def test_a_page(self, page, text):
        """Inline elements join with single spaces."""
        assert html_to_text(page, "blocks") == text
