"""GetCustomFile and SaveCustomFile: the user's own files, and texts that tell of trouble."""

from __future__ import annotations

import os
import stat
import threading

import pytest

from Middleware.config.validation import WARNING
from Middleware.workflows.handlers.impl.custom_file_node_handler import GetCustomFileNode

NO_FILE = "Custom instruction file did not exist"


@pytest.fixture
def file(bench, tmp_path):
    """`{f}` is this file, in a folder of its own."""
    (tmp_path / "notes").mkdir()
    path = tmp_path / "notes" / "a.txt"
    bench.engine.fixed = {"f": str(path), "notesDir": str(tmp_path / "notes")}
    return path


class TestGet:
    """Reading."""

    @pytest.mark.parametrize("fields", [{}, {"filepath": ""}, {"filepath": None}], ids=repr)
    def test_without_a_path(self, bench, fields):
        assert bench("GetCustomFile", **fields) == "No filepath specified"
        assert bench.findings("GetCustomFile", **fields)[1] != []

    @pytest.mark.parametrize("path", ["{f}", "{notesDir}/no/such/folder/x", "{empty}"], ids=repr)
    def test_a_missing_file(self, bench, file, path):
        bench.engine.values["empty"] = " "
        assert bench("GetCustomFile", filepath=path) == NO_FILE

    @pytest.mark.parametrize(
        ("name", "hint"), [("b.txt", " (did you mean 'a.txt'?)"), ("other.md", "")], ids=["slip", "none"]
    )
    def test_a_missing_file_is_reported_before_a_run(self, file, name, hint):
        """As far as its name is known."""
        file.touch()
        path = str(file.with_name(name))
        faults = GetCustomFileNode().outside_faults({"filepath": path}, lambda text: text)
        told = f"no file '{path}'{hint}; the output is '{NO_FILE}' until there is one"
        assert faults == [("filepath", WARNING, told)]

    def test_so_is_one_whose_folder_is_missing(self, tmp_path):
        """Nothing there could be meant."""
        path = str(tmp_path / "none" / "a.txt")
        ((_, _, told),) = GetCustomFileNode().outside_faults({"filepath": path}, lambda text: text)
        assert told == f"no file '{path}'; the output is '{NO_FILE}' until there is one"

    def test_and_a_name_that_no_file_can_have(self):
        ((field, level, told),) = GetCustomFileNode().outside_faults({"filepath": "a\0b"}, lambda text: text)
        assert (field, level) == ("filepath", WARNING) and told.startswith("'a\0b' cannot be read: ")

    @pytest.mark.parametrize(
        "known", [lambda text: None, lambda text: text], ids=["a-run-knows", "it-is-there"]
    )
    def test_nothing_to_report(self, file, known):
        file.touch()
        assert GetCustomFileNode().outside_faults({"filepath": str(file)}, known) == []

    def test_an_empty_file(self, bench, file):
        file.touch()
        assert bench("GetCustomFile", filepath="{f}") == "No additional information added"
        assert bench("GetCustomFile", filepath="{f}", tailCount=1) == "No additional information added"

    def test_the_text_stays_as_it_is(self, bench, file):
        file.write_bytes("ä {agent1Output} {{x}}\r\nb\n".encode())
        bench.engine.values["agent1Output"] = "no"
        assert bench("GetCustomFile", filepath="{f}", delimiter="") == "ä {agent1Output} {{x}}\nb\n"

    def test_another_case_of_the_name_is_found(self, bench, file):
        file.with_name("A.TXT").write_text("x")
        assert bench("GetCustomFile", filepath="{f}") == "x"

    def test_a_tilde_is_the_home_folder(self, bench, file, monkeypatch):
        file.write_text("x")
        monkeypatch.setenv("HOME", str(file.parent))
        monkeypatch.setenv("USERPROFILE", str(file.parent))
        assert bench("GetCustomFile", filepath="~/a.txt") == "x"

    @pytest.mark.parametrize(
        ("fields", "text"),
        [
            ({}, "a\n\nb--c\n"),
            ({"delimiter": "--"}, "a\n\nb--c\n"),
            ({"customReturnDelimiter": "+"}, "a\n\nb--c\n"),
            ({"delimiter": "--", "customReturnDelimiter": "+"}, "a\n\nb+c\n"),
            ({"delimiter": "\n", "customReturnDelimiter": " "}, "a  b--c "),
            ({"delimiter": "", "customReturnDelimiter": "+"}, "a\n\nb--c\n"),
            ({"delimiter": "--", "customReturnDelimiter": ""}, "a\n\nb--c\n"),
            ({"delimiter": None, "customReturnDelimiter": None}, "a\n\nb--c\n"),
            ({"headCount": 1}, "a"),
            ({"headCount": 3}, "a\n\nb--c"),
            ({"headCount": 99}, "a\n\nb--c\n"),
            ({"tailCount": 1}, ""),
            ({"tailCount": 2}, "b--c\n"),
            ({"tailCount": 99}, "a\n\nb--c\n"),
            ({"tailCount": 1, "chunkDelimiter": "--"}, "c\n"),
            ({"headCount": 1, "chunkDelimiter": "\n\n"}, "a"),
            ({"headCount": 2, "chunkDelimiter": ""}, "a\n"),
            ({"headCount": 2, "delimiter": "\n", "customReturnDelimiter": "|"}, "a|"),
            ({"headCount": None, "tailCount": None}, "a\n\nb--c\n"),
        ],
        ids=repr,
    )
    def test_pieces_and_delimiters(self, bench, file, fields, text):
        file.write_text("a\n\nb--c\n")
        assert bench("GetCustomFile", filepath="{f}", **fields) == text

    @pytest.mark.parametrize("name", ["headCount", "tailCount"])
    @pytest.mark.parametrize("count", [0, -1, "3", True, 1.5, []], ids=repr)
    def test_a_wrong_count_is_told_before_the_file_is_looked_for(self, bench, file, name, count):
        output = bench("GetCustomFile", filepath="{f}", **{name: count})
        assert output == f"GetCustomFile: '{name}' must be an integer >= 1"
        assert bench.findings("GetCustomFile", filepath="{f}", **{name: count}) == ([], [f"/{name}"])

    def test_both_counts(self, bench, file):
        output = bench("GetCustomFile", filepath="{f}", headCount=0, tailCount=1)
        assert output == "GetCustomFile: specify only one of 'headCount' or 'tailCount', not both"
        assert bench.findings("GetCustomFile", filepath="{f}", headCount=1, tailCount=1) == ([], [""])

    def test_what_is_no_text_file_is_told(self, bench, file):
        file.write_bytes(b"\xff\xfe")
        assert bench("GetCustomFile", filepath="{f}") == "Error reading file: not a UTF-8 text file"
        assert bench("GetCustomFile", filepath="{notesDir}").startswith("Error reading file: ")
        assert bench("GetCustomFile", filepath="{notesDir}", tailCount=1).startswith("Error reading file: ")
        assert bench("GetCustomFile", filepath="a\0b") == "Error reading file: path holds a NUL character"
        assert bench("GetCustomFile", filepath="{notesDir}/" + "x" * 5000).startswith("Error reading file: ")

    @pytest.mark.skipif(not os.path.exists("/dev/null"), reason="no devices")
    def test_a_device_is_refused(self, bench):
        assert bench("GetCustomFile", filepath="/dev/null") == "Error reading file: not a regular file"


class TestBase:
    """A run-time value cannot lead a path out of its folder."""

    @pytest.mark.parametrize("value", ["../secret", "x/../../secret", "../notes2/x"], ids=repr)
    def test_leaving_is_told_for_both(self, bench, file, tmp_path, value):
        (tmp_path / "secret").write_text("s")
        bench.engine.values["who"] = value
        told = f"Error: path leaves {tmp_path}/notes"
        assert bench("GetCustomFile", filepath="{notesDir}/{who}") == told
        assert bench("SaveCustomFile", filepath="{notesDir}/{who}", content="x") == told
        assert (tmp_path / "secret").read_text() == "s"

    def test_a_link_in_another_case_is_looked_at_too(self, bench, file, tmp_path):
        (tmp_path / "secret").write_text("s")
        (tmp_path / "notes" / "LINK").symlink_to(tmp_path / "secret")
        bench.engine.values["who"] = "link"
        assert bench("GetCustomFile", filepath="{notesDir}/{who}") == f"Error: path leaves {tmp_path}/notes"

    def test_inside_it_is_free(self, bench, file, tmp_path):
        bench.engine.values["who"] = "d1/../d2/ana"
        path = f"{tmp_path}/notes/d1/../d2/ana.md"
        assert bench("SaveCustomFile", filepath="{notesDir}/{who}.md", content="x") == (
            f"File successfully saved to {path}"
        )
        assert bench("GetCustomFile", filepath="{notesDir}/{who}.md") == "x"

    def test_authored_paths_may_go_anywhere(self, bench, file, tmp_path):
        (tmp_path / "other.txt").write_text("x")
        assert bench("GetCustomFile", filepath="{notesDir}/../other.txt") == "x"


class TestSaveChecks:
    """What is wrong with the fields, in order."""

    @pytest.mark.parametrize(
        ("fields", "output"),
        [
            ({"mode": "x"}, "No filepath specified"),
            ({"filepath": ""}, "No filepath specified"),
            (
                {"filepath": "{f}", "mode": "Append"},
                "SaveCustomFile: 'mode' must be one of 'overwrite', 'append', 'replace', 'remove', or 'trim', got 'Append'",
            ),
            (
                {"filepath": "{f}", "mode": ["append"]},
                "SaveCustomFile: 'mode' must be one of 'overwrite', 'append', 'replace', 'remove', or 'trim', got '['append']'",
            ),
            ({"filepath": "{f}"}, "No content specified"),
            ({"filepath": "{f}", "mode": None, "content": None}, "No content specified"),
            ({"filepath": "{f}", "mode": "append"}, "No content specified"),
            ({"filepath": "{f}", "mode": "replace", "find": "x"}, "No content specified"),
            (
                {"filepath": "{f}", "mode": "replace", "content": ""},
                "SaveCustomFile: mode 'replace' requires a 'find' value",
            ),
            (
                {"filepath": "{f}", "mode": "remove", "find": ""},
                "SaveCustomFile: mode 'remove' requires a 'find' value",
            ),
            (
                {"filepath": "{f}", "mode": "remove", "find": "{empty}"},
                "Error saving file: 'find' resolved to an empty text",
            ),
        ],
        ids=lambda v: None if isinstance(v, str) else str(v)[:60],
    )
    def test_output(self, bench, file, fields, output):
        bench.engine.values["empty"] = ""
        assert bench("SaveCustomFile", **fields) == output
        assert os.listdir(file.parent) == []

    @pytest.mark.parametrize(
        ("fields", "advice"),
        [
            ({"content": ""}, []),
            ({}, [""]),
            ({"mode": "append"}, [""]),
            ({"mode": "trim"}, []),
            ({"mode": "remove", "find": "x"}, []),
            ({"mode": "remove"}, [""]),
            ({"mode": "replace", "content": "x"}, [""]),
            ({"mode": "tidy", "content": "x"}, ["/mode"]),
        ],
        ids=repr,
    )
    def test_advice(self, bench, fields, advice):
        assert bench.findings("SaveCustomFile", filepath="f", **fields) == ([], advice)


MODES = [
    ("overwrite", {"content": "n {v}"}, "old", "n V", "File successfully saved to {f}"),
    ("overwrite-new", {"content": "", "mode": "overwrite"}, None, "", "File successfully saved to {f}"),
    (
        "append",
        {"mode": "append", "content": "b\n"},
        "a\r\n",
        "a\r\nb\n",
        "File successfully saved to {f}",
    ),
    ("append-new", {"mode": "append", "content": "b"}, None, "b", "File successfully saved to {f}"),
    (
        "replace",
        {"mode": "replace", "find": "{v}", "content": "w"},
        "V.V\n.*V",
        "w.w\n.*w",
        "File successfully updated: replaced 3 occurrence(s) in {f}",
    ),
    (
        "replace-none",
        {"mode": "replace", "find": ".*", "content": ""},
        "abc",
        "abc",
        "File unchanged: no occurrence of the target text found in {f}",
    ),
    (
        "replace-no-file",
        {"mode": "replace", "find": "x", "content": "y"},
        None,
        None,
        "File unchanged: no occurrence of the target text found in {f}",
    ),
    (
        "remove",
        {"mode": "remove", "find": "b"},
        "a\r\nab\nc b",
        "a\r\n",
        "File successfully updated: removed 2 line(s) from {f}",
    ),
    (
        "remove-none",
        {"mode": "remove", "find": "a\nb"},
        "a\nb\n",
        "a\nb\n",
        "File unchanged: no line matching the target text found in {f}",
    ),
    (
        "remove-no-file",
        {"mode": "remove", "find": "x"},
        None,
        None,
        "File unchanged: no line matching the target text found in {f}",
    ),
    (
        "trim",
        {"mode": "trim"},
        "\na\n \t\n\r\nb\n",
        "a\nb\n",
        "File successfully tidied: removed 3 blank line(s) from {f}",
    ),
    (
        "trim-none",
        {"mode": "trim"},
        "a\nb\n",
        "a\nb\n",
        "File unchanged: no blank lines to remove in {f}",
    ),
    ("trim-no-file", {"mode": "trim"}, None, None, "File unchanged: no blank lines to remove in {f}"),
]


class TestSaving:
    """The five modes."""

    @pytest.mark.parametrize(
        ("fields", "before", "after", "output"), [m[1:] for m in MODES], ids=[m[0] for m in MODES]
    )
    def test_modes(self, bench, file, fields, before, after, output):
        bench.engine.values["v"] = "V"
        if before is not None:
            file.write_bytes(before.encode())
        assert bench("SaveCustomFile", filepath="{f}", **fields) == output.replace("{f}", str(file))
        assert (file.read_bytes().decode() if file.exists() else None) == after
        assert [name for name in os.listdir(file.parent) if name != "a.txt"] == []

    def test_folders_are_made(self, bench, file):
        bench("SaveCustomFile", filepath="{notesDir}/x/y/z.txt", content="1")
        assert (file.parent / "x" / "y" / "z.txt").read_text() == "1"

    def test_the_path_is_taken_exactly(self, bench, file):
        file.with_name("A.TXT").write_text("other")
        bench("SaveCustomFile", filepath="{f}", content="1")
        assert (file.with_name("A.TXT").read_text(), file.read_text()) == ("other", "1")

    @pytest.mark.skipif(os.name == "nt", reason="no mode bits")
    def test_mode_bits_stay(self, bench, file):
        file.write_text("x")
        file.chmod(0o600)
        bench("SaveCustomFile", filepath="{f}", content="1")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600

    def test_failures_are_told(self, bench, file, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        file.write_bytes(b"\xff")
        assert (
            bench("SaveCustomFile", filepath="{f}", mode="trim") == "Error saving file: not a UTF-8 text file"
        )
        assert bench("SaveCustomFile", filepath="{notesDir}", content="x").startswith("Error saving file: ")
        assert bench("SaveCustomFile", filepath="{f}/below/a/file", content="x").startswith(
            "Error saving file: "
        )
        assert bench("SaveCustomFile", filepath="{none}", content="x") != ""
        bench.engine.values["none"] = ""
        assert bench("SaveCustomFile", filepath="{none}", content="x") == "Error saving file: path is empty"

    def test_no_line_of_two_requests_is_lost(self, bench, file):
        def work():
            for _ in range(10):
                bench("SaveCustomFile", filepath="{f}", mode="append", content="line\n")

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert file.read_text() == "line\n" * 30

    def test_a_dry_run_tells_what_it_would_write(self, bench, file):
        assert bench.notes("SaveCustomFile", filepath="{f}", mode="append") == [
            f"would write {file} (append)"
        ]
        assert bench.notes("SaveCustomFile") == []
        assert not file.exists()
