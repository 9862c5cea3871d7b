"""The command line (frontend-api.md 2.2, workflows.md 17.4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from Middleware.api.launch_arguments import CONSOLE_KEY, DEFAULT_THREADS, parse
from Middleware.common.constants import VERSION
from Middleware.common.instance_global_variables import INSTALL_DIRECTORY


@pytest.fixture
def launch(configs, tmp_path):
    """`launch(*words)` on the test's tree."""
    return lambda *words: parse(("--PublicDirectory", str(tmp_path), *words))


class TestDirectories:
    def test_defaults_are_pinned_to_the_install(self):
        """Never to the working directory."""
        facts = parse(()).facts
        assert facts.public_directory == INSTALL_DIRECTORY / "Public"
        assert facts.config_directory == INSTALL_DIRECTORY / "Public" / "Configs"
        assert (facts.discussion_directory, facts.sqlite_directory) == (None, None)

    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            (("/a/",), "/a"),
            (("/a", "--ConfigDirectory", "/b\\"), "/b"),
            (("--PublicDirectory", "/p"), "/p/Configs"),
            (("--PublicDirectory", "/p", "--ConfigDirectory", " /b "), "/b"),
            (("--PublicDirectory", "/p", "--ConfigDirectory", " "), "/p/Configs"),
            (("/",), "/"),
            (("~/c",), str(Path("~/c").expanduser())),
        ],
    )
    def test_config_directory(self, words, expected):
        """Flag, positional, public folder; blank counts as absent, slashes at the end are cut."""
        assert parse(words).facts.config_directory == Path(expected)

    def test_runtime_folders(self, launch):
        """Given ones win over the user file later."""
        facts = launch("--DiscussionDirectory", "/d", "--UserLevelSqlLiteDirectory", "/s/").facts
        assert (facts.discussion_directory, facts.sqlite_directory) == (Path("/d"), Path("/s"))


class TestUsers:
    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            ((), ()),
            (("c", " mira "), ("mira",)),
            (("c", "mira", "--User", "jo"), ("jo",)),
            (("--User", "a", "--User", " ", "--User", "b", "--User", "a"), ("a", "b")),
        ],
    )
    def test_users(self, words, expected):
        """Flags over the positional; blank values dropped."""
        assert parse(words).facts.users == expected


class TestPort:
    @pytest.mark.parametrize(
        ("words", "port", "warned"),
        [
            (("--User", "mira"), 5061, False),
            (("--User", "mira", "--port", "7"), 7, False),
            (("--User", "mira", "--User", "jo"), 5050, True),
            (("--User", "nobody"), 5000, True),
            ((), 5061, False),
        ],
        ids=["user-file", "flag", "several", "unreadable", "pointer"],
    )
    def test_port(self, launch, configs, words, port, warned):
        """Flag, user file, defaults."""
        configs("Users/mira.json", {"port": 5061})
        configs("Users/_current-user.json", {"currentUser": "mira"})
        made = launch(*words)
        assert made.port == port and bool(made.warnings) is warned


class TestLogging:
    @pytest.mark.parametrize(
        ("user", "words", "writes"),
        [({}, (), False), ({"useFileLogging": True}, (), True), ({}, ("--file-logging",), True)],
    )
    def test_files(self, launch, configs, tmp_path, user, words, writes):
        """By flag, or by the single user's file."""
        configs("Users/mira.json", user)
        made = launch("--User", "mira", *words)
        assert made.log_folder == made.facts.log_folder == (tmp_path / "logs" if writes else None)

    def test_several_users_write_none_unless_asked(self, launch, configs):
        """Their own settings do not count."""
        configs("Users/mira.json", {"useFileLogging": True})
        configs("Users/jo.json", {"useFileLogging": True})
        assert launch("--User", "mira", "--User", "jo").log_folder is None

    @pytest.mark.parametrize(
        ("users", "expected", "warned"),
        [(("--User", "mira"), "/l/mira", False), (("--User", "mira", "--User", "jo"), "/l", True)],
    )
    def test_the_users_name_in_the_folder(self, launch, users, expected, warned):
        """Replaced by the one user, else removed with a warning."""
        made = launch("--file-logging", "--LoggingDirectory", "/l/<user>", *users)
        assert made.log_folder == Path(expected)
        assert any("<user>" in warning for warning in made.warnings) is warned


class TestServer:
    def test_defaults(self, launch):
        """Only this machine, one request at a time."""
        made = launch("--User", "mira")
        assert (made.host, made.threads, made.log_level, made.strict) == (
            "127.0.0.1",
            DEFAULT_THREADS,
            "INFO",
            False,
        )
        assert (made.facts.concurrency, made.facts.concurrency_timeout_s) == (1, 900.0)
        assert made.facts.concurrency_level == "request" and made.rules.max_queue == 0
        assert made.rules.access.loopback and made.command is None

    def test_the_history(self, launch, tmp_path):
        """Off, unless a folder is named; 90 days are kept."""
        assert launch("--User", "mira").facts.history_directory is None
        facts = launch("--User", "mira", "--history", f"{tmp_path}/h/").facts
        assert (facts.history_directory, facts.history_days) == (tmp_path / "h", 90)
        assert launch("--User", "mira", "--history-days", "7").facts.history_days == 7

    @pytest.mark.parametrize("words", [("--history", " "), ("--history-days", "0")])
    def test_what_is_no_history(self, launch, words, capsys):
        """An empty variable of a shell is no folder."""
        with pytest.raises(SystemExit) as stop:
            launch("--User", "mira", *words)
        assert stop.value.code == 2

    @pytest.mark.parametrize(("words", "size"), [((), 64), (("--max-body-mb", "8"), 8)])
    def test_how_large_a_body_may_be(self, launch, words, size):
        """In MiB."""
        assert launch("--User", "mira", *words).rules.most_body_bytes == size * 1024 * 1024

    @pytest.mark.parametrize(
        ("word", "level"), [("request", "request"), ("wilmer", "request"), ("endpoint", "endpoint")]
    )
    def test_levels(self, launch, word, level):
        """Ours; WilmerAI's spelling is understood."""
        assert launch("--User", "mira", "--concurrency-level", word).facts.concurrency_level == level

    @pytest.mark.parametrize(
        ("words", "host", "loopback"),
        [(("--listen",), "0.0.0.0", False), (("--listen", "::1"), "::1", True), (("--listen", "10.0.0.2"), "10.0.0.2", False)],
    )  # fmt: skip
    def test_listen(self, launch, words, host, loopback):
        """Bare: every address."""
        made = launch(*words)
        assert (made.host, made.rules.access.loopback) == (host, loopback)

    def test_doors(self, launch):
        """Repeatable arguments are collected."""
        rules = launch(
            "--cors-origin",
            "http://a",
            "--cors-origin",
            "http://b",
            "--require-api-key",
            "k",
            "--max-queue",
            "3",
        ).rules
        assert rules.access.cors_origins == ("http://a", "http://b")
        assert rules.access.api_keys == ("k",) and rules.max_queue == 3

    def test_a_required_key_is_read_as_clients_keys_are(self, launch):
        """Without white space around it: with it no client could ever send it."""
        assert launch("--require-api-key", " k \n").rules.access.api_keys == ("k",)

    @pytest.mark.parametrize(
        "words",
        [
            ("--concurrency", "-1"),
            ("--concurrency", "2147483648"),
            ("--concurrency-timeout", "0"),
            ("--concurrency-timeout", "nan"),
            ("--concurrency-level", "x"),
            ("--threads", "0"),
            ("--port", "x"),
            ("--port", "80808"),
            ("--concurrency-timeout", "inf"),
            ("--log-level", "LOUD"),
            ("--require-api-key", ""),
            ("--require-api-key", "k", "--require-api-key", " "),
            ("--conc", "2"),
        ],
        ids=" ".join,
    )
    def test_usage_errors(self, launch, words, capsys):
        """Exit status 2 and a line that says why."""
        with pytest.raises(SystemExit) as caught:
            launch(*words)
        assert caught.value.code == 2 and "error:" in capsys.readouterr().err


def test_the_version(capsys):
    """Printed, and that is all."""
    with pytest.raises(SystemExit) as caught:
        parse(("--version",))
    assert (caught.value.code, capsys.readouterr().out) == (0, f"headrace {VERSION}\n")


@pytest.mark.parametrize(
    ("given", "origin"),
    [
        ("https://LLM.example.com/", "https://llm.example.com"),
        ("app://obsidian.md", "app://obsidian.md"),
        ("http://box:3000", "http://box:3000"),
        ("*", "*"),
        ("null", "null"),
    ],
)
def test_origins_are_kept_as_browsers_send_them(given, origin):
    """A slash at the end and capitals are slips that nobody should have to find."""
    assert parse(["--cors-origin", given]).rules.access.cors_origins == (origin,)


@pytest.mark.parametrize("given", ["llm.example.com", "https://", "https://a/b", ""])
def test_what_is_no_origin(given, capsys):
    """It would never match; said at once, with an example."""
    with pytest.raises(SystemExit):
        parse(["--cors-origin", given])
    assert "for example https://llm.example.com" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--schemas", "--dry-run", "--explain", "--messages", "--init"])
def test_an_empty_value_is_none(flag, capsys):
    """It comes from a shell variable that nobody set, and would be taken for a folder or a name."""
    with pytest.raises(SystemExit):
        parse([flag, " "])
    assert f"argument {flag}: must not be empty" in capsys.readouterr().err


class TestConsole:
    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            ((), (None, "", 16)),
            (("--console", "off"), ("off", "", 16)),
            (("--console", "edit", "--console-memory", "0"), ("edit", "", 0)),
            (("--console", "view", "--console-key", " k2345678 "), ("view", "k2345678", 16)),
            (("--console", "view", "--console-key", "k2345678", "--require-api-key", "a"), ("view", "k2345678", 16)),
        ],
    )  # fmt: skip
    def test_what_was_said(self, launch, words, expected):
        """Mode, key, memory."""
        wish = launch(*words).rules.console
        assert (wish.mode, wish.key, wish.memory_mb) == expected

    @pytest.mark.parametrize(
        ("words", "variable", "key"),
        [((), "from-outside", "from-outside"), (("--console-key", "given-here"), "from-outside", "given-here"), ((), " ", "")],
    )  # fmt: skip
    def test_a_key_of_the_environment(self, launch, monkeypatch, words, variable, key):
        """Where the command line gives none; a blank one is none."""
        monkeypatch.setenv(CONSOLE_KEY, variable)
        assert launch(*words).rules.console.key == key

    @pytest.mark.parametrize(
        ("words", "variable", "said"),
        [
            (("--console-key", "short"), "", "--console-key: must have at least 8 characters"),
            (("--console-key", "two words"), "", "must be one word of printable characters"),
            (("--console-key", "k234567\udc80"), "", "must be one word of printable characters"),
            ((), "short", "HEADRACE_CONSOLE_KEY must have at least 8 characters"),
            (("--console", "view", "--require-api-key", "a"), "", "--require-api-key needs --console-key beside it"),
            (("--console-memory", "-1"), "", "--console-memory: must be at least 0"),
        ],
    )  # fmt: skip
    def test_wrong_usage(self, launch, monkeypatch, capsys, words, variable, said):
        """Exit status 2, one sentence, and no key in it."""
        monkeypatch.setenv(CONSOLE_KEY, variable)
        with pytest.raises(SystemExit) as stopped:
            launch(*words)
        assert stopped.value.code == 2
        told = capsys.readouterr().err
        assert said in told and "short" not in told

    @pytest.mark.parametrize(
        ("words", "warned"),
        [
            ((), False),
            (("--console", "view"), True),
            (("--console", "view", "--console-key", "k2345678"), False),
        ],
    )
    def test_a_console_for_everybody_is_told(self, launch, words, warned):
        """Once, at the start."""
        said = "the console shows every prompt to anyone who can reach this address; --console-key closes it"
        assert (said in launch("--User", "mira", *words).warnings) is warned

    def test_the_key_is_in_no_repr(self, launch):
        """A traceback of the start may show the value, and not the key."""
        assert "k2345678" not in repr(launch("--console-key", "k2345678").rules)
