"""Questions in plain lines, each with a default."""

from __future__ import annotations

import pytest

from Middleware.api.commands.setup_questions import Questions


def typed(*lines):
    """Somebody who types these lines; the prompts that were shown."""
    waiting, shown = list(lines), []

    def read(prompt):
        shown.append(prompt)
        if not waiting:
            raise EOFError
        return waiting.pop(0)

    return Questions(False, read), shown


class TestAsk:
    @pytest.mark.parametrize(("line", "answer"), [("", "a"), ("  ", "a"), (" b ", "b")])
    def test_an_empty_line_is_the_default(self, line, answer):
        questions, shown = typed(line)
        assert questions.ask("Name", "a") == answer
        assert shown == ["Name [a]: "]

    def test_no_default_is_shown_as_none(self):
        questions, shown = typed("")
        assert questions.ask("Name") == "" and shown == ["Name [none]: "]

    def test_a_wrong_answer_is_asked_again(self, capsys):
        """With the reason."""
        questions, shown = typed("x", "y")
        assert questions.ask("Name", "", lambda answer: "not x" if answer == "x" else None) == "y"
        assert len(shown) == 2 and capsys.readouterr().out == "  not x\n"

    def test_the_end_of_the_input_is_passed_on(self):
        questions, _ = typed()
        with pytest.raises(EOFError):
            questions.ask("Name", "a")


class TestChoose:
    @pytest.mark.parametrize(("lines", "index"), [([""], 0), (["2"], 1), (["3", "0", "b", "2"], 1)])
    def test_by_number(self, lines, index, capsys):
        """The first is the default."""
        questions, _ = typed(*lines)
        assert questions.choose("Which", ["a", "b"]) == index
        assert capsys.readouterr().out.startswith("  1  a\n  2  b\n")


class TestConfirm:
    @pytest.mark.parametrize(
        ("lines", "default", "answer"),
        [([""], True, True), ([""], False, False), (["Y"], False, True), (["no"], True, False), (["?", "n"], True, False)],
    )  # fmt: skip
    def test_yes_or_no(self, lines, default, answer):
        questions, _ = typed(*lines)
        assert questions.confirm("Sure?", default) is answer


class TestDefaults:
    def test_nothing_is_read(self, capsys):
        """What would be asked is shown."""

        def read(prompt):
            raise AssertionError(prompt)

        questions = Questions(True, read)
        assert (
            questions.ask("Name", "a"),
            questions.choose("Which", ["x"]),
            questions.confirm("Sure?", True),
        ) == (
            "a",
            0,
            True,
        )
        assert "Name [a]:\n" in capsys.readouterr().out

    def test_a_default_that_cannot_be_taken(self):
        """It would be asked for ever."""
        with pytest.raises(ValueError, match="never"):
            Questions(True).ask("Name", "a", lambda answer: "never")
