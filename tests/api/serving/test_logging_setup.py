"""Where log lines go (frontend-api.md 2.3)."""

from __future__ import annotations

import logging

import pytest

from Middleware.api.serving.startup import configure_logging
from Middleware.common.request_context import RequestContext, enter_request


@pytest.fixture(autouse=True)
def _undo():
    root = logging.getLogger()
    level = root.level
    yield
    for handler in [h for h in root.handlers if getattr(h, "is_headrace", False)]:
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)


def say(text, user=None):
    logger = logging.getLogger("house")
    if user is None:
        logger.info(text)
    else:
        with enter_request(RequestContext("r", user, "x")):
            logger.info(text)


def test_the_console_always(capsys):
    """With user, level and masked secrets."""
    configure_logging("INFO", None)
    say("token=hush", "mira")
    logging.getLogger("house").debug("silent")
    line = capsys.readouterr().err
    assert "INFO [mira] token=***" in line and "silent" not in line


def test_one_file(tmp_path):
    """In single-user mode; the folder is made."""
    configure_logging("INFO", tmp_path / "logs", ("mira",))
    say("one", "mira")
    say("two")
    assert (tmp_path / "logs" / "wilmerai.log").read_text().count("\n") == 2


def test_a_file_for_each_of_several_users(tmp_path):
    """What belongs to no request, or to nobody known, goes to the common one."""
    configure_logging("INFO", tmp_path, ("mira", "jo"))
    say("hers", "mira")
    say("ours")
    say("whose", "somebody")
    assert "hers" in (tmp_path / "mira" / "wilmerai.log").read_text()
    common = (tmp_path / "wilmerai.log").read_text()
    assert "ours" in common and "whose" in common and "hers" not in common
    assert not (tmp_path / "jo" / "wilmerai.log").exists()


@pytest.mark.parametrize("users", [("mira",), ("mira", "jo")], ids=["one", "several"])
@pytest.mark.parametrize("blocked", ["logs", "logs/wilmerai.log"], ids=["folder", "file"])
def test_files_that_cannot_be_written(tmp_path, capsys, users, blocked):
    """The console tells it once, and goes on; later lines are tried again."""
    place = tmp_path / blocked
    if blocked == "logs":
        place.write_text("in the way")
    else:
        place.mkdir(parents=True)
    configure_logging("INFO", tmp_path / "logs", users)
    for text in ("one", "two"):
        say(text)
    told = capsys.readouterr().err
    assert told.count("cannot be written") == 1 and "wilmerai.log" in told
    assert "one" in told and "two" in told and "Traceback" not in told
    (place.unlink if blocked == "logs" else place.rmdir)()
    say("three")
    assert "three" in (tmp_path / "logs" / "wilmerai.log").read_text()


def test_a_wrong_log_call_is_told_in_full(tmp_path, capsys):
    """It is a bug, not a full disk."""
    configure_logging("INFO", tmp_path)
    ours = next(
        h
        for h in logging.getLogger().handlers
        if getattr(h, "is_headrace", False) and hasattr(h, "baseFilename")
    )
    ours.emit(logging.makeLogRecord({"msg": "%d", "args": ("x",), "user": ""}))
    assert "TypeError" in capsys.readouterr().err


def test_set_up_again_it_replaces_its_own_handlers():
    """Nothing is written twice."""
    configure_logging("INFO", None)
    configure_logging("WARNING", None)
    ours = [h for h in logging.getLogger().handlers if getattr(h, "is_headrace", False)]
    assert len(ours) == 1 and logging.getLogger().level == logging.WARNING
    assert logging.getLogger("urllib3").level == logging.ERROR


def test_the_module_stands_only_in_lines_of_the_debug_level(capsys):
    configure_logging("DEBUG", None)
    say("one")
    assert "INFO [system] house: one" in capsys.readouterr().err


def test_each_line_of_a_record_carries_its_time_level_and_user(capsys):
    configure_logging("INFO", None)
    say("one\ntwo\nthree", "mira")
    first, second, third = capsys.readouterr().err.splitlines()
    stamp = first.removesuffix("one")
    assert stamp.endswith(" INFO [mira] ")
    assert (second, third) == (f"{stamp}| two", f"{stamp}| three")


def test_a_traceback_has_at_most_sixty_lines(capsys):
    """A deep one says the same again and again; its beginning and its end say where and what."""
    configure_logging("INFO", None)
    deep = (
        "def go(n):\n"
        + "".join(f"    if n == {n}:\n        return go({n + 1})\n" for n in range(200))
        + "    raise KeyError('end')\n"
    )
    scope = {}
    exec(deep, scope)
    try:
        scope["go"](0)
    except KeyError:
        logging.getLogger("house").exception("it failed")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 + 60
    assert "Traceback" in lines[1] and lines[-1].endswith("KeyError: 'end'")
    assert sum("lines left out" in line for line in lines) == 1


def test_a_traceback_is_masked_as_it_is_written(capsys):
    """What the filter took out is not put back by the formatter."""
    configure_logging("INFO", None)
    secret = "".join(["abc", "defgh"])
    try:
        raise ValueError(f"Bearer {secret} and Authorization: Basic {secret}")
    except ValueError:
        logging.getLogger("Middleware.x").exception("failed")
    written = capsys.readouterr().err
    assert "Traceback" in written
    assert secret not in written


def test_no_line_steers_the_terminal_that_shows_it(capsys):
    """Names of clients, words of model servers and tracebacks come into logs; a tab and a line end stay."""
    configure_logging("INFO", None)
    try:
        raise ValueError("\x1b[2J")
    except ValueError:
        logging.getLogger("house").exception("it said \x9b8m\r\n\tand\rmore")
    said = capsys.readouterr().err
    assert said.replace("\n", "").replace("\t", "").isprintable()
    assert "it said \\x9b8m\n" in said and "| \tand\\x0dmore\n" in said and "ValueError: \\x1b[2J" in said
