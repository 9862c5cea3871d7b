"""curl's grammar of arguments."""

from __future__ import annotations

import pytest

from Middleware.workflows.tools.curl_arguments import (
    UnknownOption,
    config_line,
    is_harmless,
    option_before,
    read_arguments,
    url_may_follow,
)


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        (["http://a"], [("url", "http://a")]),
        (
            ["-sLo", "out", "http://a"],
            [("silent", None), ("location", None), ("output", "out"), ("url", "http://a")],
        ),
        (["-sLoout"], [("silent", None), ("location", None), ("output", "out")]),
        (["-XPOST", "-d@x", "-H", "A: b"], [("request", "POST"), ("data", "@x"), ("header", "A: b")]),
        (["--url", "http://a"], [("url", "http://a")]),
        (["--url=http://a"], [("url", "http://a")]),
        (["--data-raw", "-x"], [("data-raw", "-x")]),
        (["-"], [("url", "-")]),
        (["--", "-x", "b"], [("url", "-x"), ("url", "b")]),
        (["--no-location", "-:"], [("no-location", None), ("next", None)]),
        (["-K", "f"], [("config", "f")]),
    ],
)
def test_the_parts_of_a_command(args, parts):
    """Options with their values, and URLs."""
    assert [(part.name, part.value) for part in read_arguments(args)] == parts


@pytest.mark.parametrize(
    "args", [["--unheard"], ["-Z"], ["-s\u00fc"], ["--url"], ["-o"], ["--silent=1"], ["--loc"]]
)
def test_what_cannot_be_read(args):
    """Unknown, cut short, or without its value."""
    with pytest.raises(UnknownOption):
        read_arguments(args)


@pytest.mark.parametrize(
    ("arg", "harmless"), [("-s", True), ("--no-compressed", True), ("--no-globoff", False), ("-n", False)]
)
def test_a_flag_that_leads_nowhere_else(arg, harmless):
    """Also in its negated form, but for what opens URLs to patterns."""
    assert is_harmless(read_arguments([arg])[0]) is harmless


def test_a_line_of_a_config_file_is_quoted():
    """As curl unquotes it."""
    part = read_arguments(["-d", 'a"b\\c\nd\te\r'])[0]
    assert config_line(part) == '--data "a\\"b\\\\c\\nd\\te\\r"\n'
    assert config_line(read_arguments(["-s"])[0]) == "--silent\n"


@pytest.mark.parametrize(
    ("arg", "option", "url"),
    [
        ("", "", True),
        ("-", "", True),
        ("--", "", True),
        ("http://a", "", True),
        ("a=b", "", True),
        ("-s", "", True),
        ("--silent", "", True),
        ("-o", "output", False),
        ("-so", "output", False),
        ("--output", "output", False),
        ("-oa", "", True),
        ("--data=a", "", True),
        ("--url", "url", True),
        ("--url=http://a", "", True),
        ("--unheard", "", False),
    ],
)
def test_what_stands_behind_an_argument(arg, option, url):
    """The value of this option, if it waits for one; a URL where it does not, or is `--url`."""
    assert (option_before(arg), url_may_follow(arg)) == (option, url)
