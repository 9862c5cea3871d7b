"""Scripts of users: found, loaded afresh, called; what their errors become."""

from __future__ import annotations

import logging
import os
import sys
import threading
from pathlib import Path

import pytest

from Middleware.common.instance_global_variables import (
    INSTALL_DIRECTORY,
    LaunchFacts,
    launch_facts,
    set_launch_facts,
)
from Middleware.workflows.tools import dynamic_module_loader
from Middleware.workflows.tools.dynamic_module_loader import (
    DynamicModuleError,
    call_script,
    locate,
    prepare_search_path,
    run_dynamic_module,
)
from tests.patience import PATIENCE_S

OWN_ERROR = "from Middleware.workflows.tools.dynamic_module_loader import DynamicModuleError as E\n"
UNEXPECTED = "Error: An unexpected error occurred while processing your request. Please check system logs."


@pytest.fixture(autouse=True)
def search_path(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture
def script(tmp_path):
    def write(text, name="tool.py"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def invoke(body: str, head: str = "") -> str:
    return f"{head}def Invoke(*args, **kwargs):\n    {body}\n"


class TestCalling:
    """`Invoke(*args, **kwargs)` and its value."""

    def test_arguments_go_in_and_any_value_comes_out(self, script):
        path = script(invoke("return {'a': args, 'k': kwargs}"))
        assert run_dynamic_module(str(path), "x", "1", module_path="p") == {
            "a": ("x", "1"),
            "k": {"module_path": "p"},
        }

    def test_an_edit_is_seen_and_globals_do_not_survive(self, script):
        path = script("n = 0\n" + invoke("global n; n += 1; return n"))
        assert [run_dynamic_module(str(path)) for _ in range(2)] == [1, 1]
        script("n = 41\n" + invoke("global n; n += 1; return n"))
        assert run_dynamic_module(str(path)) == 42

    def test_an_unchanged_script_is_compiled_once(self, script, monkeypatch):
        path = script(invoke("return 1"))
        run_dynamic_module(str(path))
        monkeypatch.setattr(dynamic_module_loader, "compile", None, raising=False)
        assert run_dynamic_module(str(path)) == 1

    def test_the_module_has_the_known_name_and_is_not_registered(self, script):
        path = script(invoke("return __name__, __file__"))
        assert run_dynamic_module(str(path)) == ("dynamic_module", str(path))
        assert "dynamic_module" not in sys.modules

    def test_a_script_does_not_inherit_our_future_imports(self, script):
        path = script("def f(x: int): ...\n" + invoke("return f.__annotations__['x']"))
        assert run_dynamic_module(str(path)) is int

    def test_two_threads_load_one_script(self, script):
        path, values = script(invoke("return int(args[0])")), []
        threads = [
            threading.Thread(target=lambda n=n: values.append(run_dynamic_module(str(path), n)))
            for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(values) == [0, 1, 2, 3]


class TestFinding:
    """Absolute, home, working directory, install folder."""

    def test_the_working_directory_wins_over_the_install_folder(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert locate("setup.cfg") == (INSTALL_DIRECTORY / "setup.cfg", INSTALL_DIRECTORY)
        (tmp_path / "setup.cfg").touch()
        assert locate("setup.cfg") == (tmp_path / "setup.cfg", tmp_path)

    def test_a_tilde_is_the_home_folder(self, script, tmp_path, monkeypatch):
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("USERPROFILE", str(tmp_path))
        assert locate("~/tool.py" if script("") else "")[0] == tmp_path / "tool.py"

    @pytest.mark.parametrize("name", ["nowhere.py", "", "a\0b"], ids=["missing", "empty", "nul"])
    def test_what_is_not_there_is_an_error(self, name):
        with pytest.raises(FileNotFoundError, match="no file"):
            run_dynamic_module(name)

    @pytest.mark.parametrize("name", ["pipe.py", "/dev/zero", "zero.py", "folder.py", ".", "~", "/"])
    def test_only_a_file_is_read(self, tmp_path, monkeypatch, name):
        """A pipe or a device has no end: it would hold the run, or take all memory."""
        monkeypatch.chdir(tmp_path)
        os.mkfifo("pipe.py")
        Path("zero.py").symlink_to("/dev/zero")
        Path("folder.py").mkdir()
        with pytest.raises(FileNotFoundError, match="is not a file"):
            run_dynamic_module(name)

    @pytest.mark.parametrize("name", ["x" * 5000, "a/" * 5000, "a\ud800.py", "loop.py", "a\0.py"], ids=ascii)
    def test_an_odd_name_is_one_that_is_not_there(self, tmp_path, monkeypatch, name):
        """The message is short, however long the name is."""
        monkeypatch.chdir(tmp_path)
        Path("loop.py").symlink_to("loop.py")
        with pytest.raises(FileNotFoundError, match="no file") as caught:
            run_dynamic_module(name)
        assert len(str(caught.value)) < 400

    def test_both_ways_to_import_our_modules_work(self, script):
        prepare_search_path()
        prepare_search_path()
        assert sys.path.count(str(INSTALL_DIRECTORY / "Middleware")) == 1
        path = script(
            "from Middleware.utilities.hashing_utils import sha256_hex as a\n"
            "from utilities.hashing_utils import sha256_hex as b\n" + invoke("return a('x') == b('x')")
        )
        assert run_dynamic_module(str(path)) is True


class TestErrors:
    """Some become the output, the others leave."""

    @pytest.mark.parametrize(
        ("body", "output"),
        [
            ("raise E('no luck')", "Error processing request in module 'tool.py'. no luck"),
            ("raise E('no', 'Dice')", "Error processing request in module 'Dice'. no"),
            (
                "raise E('no', module_name='Dice', details={'a': 1})",
                "Error processing request in module 'Dice'. no. Details: {'a': 1}",
            ),
            ("raise E('no', details='')", "Error processing request in module 'tool.py'. no"),
            ("None.x", "Error: Module 'tool.py' setup issue. Please check logs."),
            ("return 1 + 'a'", "Error: Module 'tool.py' setup issue. Please check logs."),
            ("raise ValueError(args[0])", UNEXPECTED),
            ("import sys; sys.exit(3)", UNEXPECTED),
        ],
        ids=["message", "name", "details", "empty-details", "attribute", "type", "other", "exit"],
    )
    def test_an_error_in_invoke_becomes_a_text(self, script, body, output, caplog):
        path = script(invoke(body, OWN_ERROR))
        with caplog.at_level(logging.INFO):
            assert run_dynamic_module(str(path), "top-secret") == output
        assert str(path) in caplog.text and "top-secret" not in caplog.text

    def test_the_error_class_imported_the_old_way_counts_too(self, script):
        path = script(invoke("raise E('no')", OWN_ERROR.replace("Middleware.", "")))
        assert run_dynamic_module(str(path)) == "Error processing request in module 'tool.py'. no"

    @pytest.mark.parametrize(
        ("text", "kind"),
        [
            (invoke("return open('/no/such/file')"), FileNotFoundError),
            ("import no_such_module_at_all", ModuleNotFoundError),
            ("1 / 0", ZeroDivisionError),
            ("def (", SyntaxError),
        ],
        ids=["file-in-invoke", "import", "top-level", "syntax"],
    )
    def test_other_errors_leave(self, script, text, kind):
        with pytest.raises(kind):
            run_dynamic_module(str(script(text)))

    @pytest.mark.parametrize(
        ("text", "kind", "told"),
        [
            ("x = 1", AttributeError, "the script tool.py has no function 'Invoke'"),
            ("Invoke = 3", TypeError, "'Invoke' in the script tool.py is not a function"),
        ],
    )
    def test_a_script_without_a_function_to_call(self, script, text, kind, told):
        with pytest.raises(kind, match=f"^{told}$"):
            run_dynamic_module(str(script(text)))

    def test_a_name_of_ours_that_is_not_there(self, script):
        """The error says what to write instead, as `--validate` does."""
        path = script("from utilities.text_utils import count_tokens\n" + invoke("return 1"))
        with pytest.raises(ImportError) as caught:
            run_dynamic_module(str(path))
        assert str(caught.value).startswith(
            "the script tool.py cannot be loaded: line 1: Middleware.utilities."
        )
        assert "script_library has 'estimate_tokens'" in str(caught.value)

    @pytest.mark.parametrize("kind", ["GeneratorExit", "SystemExit", "asyncio.CancelledError", "Own"])
    def test_no_exception_of_a_script_ends_more_than_its_node(self, script, kind):
        """Also those that Python keeps apart from errors."""
        head = "import asyncio\nclass Own(BaseException): pass\n"
        assert run_dynamic_module(str(script(invoke(f"raise {kind}", head)))) == UNEXPECTED

    @pytest.mark.parametrize(
        "kind", ["RequestCancelled", "KeyboardInterrupt", "gevent.Timeout", "gevent.GreenletExit"]
    )
    def test_what_ends_the_run_passes(self, script, caplog, kind):
        """A cancellation in a tool call of the script, and what the server throws into its thread."""
        head = "import gevent\nfrom Middleware.common.errors import RequestCancelled\n"
        with pytest.raises(BaseException) as caught:
            run_dynamic_module(str(script(invoke(f"raise {kind}", head))))
        assert type(caught.value).__name__ == kind.removeprefix("gevent.")
        assert not caplog.records

    def test_a_script_that_ends_itself_while_it_is_loaded(self, script):
        """The server goes on."""
        with pytest.raises(RuntimeError, match=r"tool\.py exited"):
            run_dynamic_module(str(script("import sys\nsys.exit(3)\n")))

    def test_an_error_class_of_the_script_may_leave_our_parts_out(self, script):
        head = f"{OWN_ERROR}class Mine(E):\n    def __init__(self): pass\n"
        said = run_dynamic_module(str(script(invoke("raise Mine", head))))
        assert said == "Error processing request in module 'tool.py'. "

    def test_the_log_names_the_caller_and_the_line(self, script, caplog):
        call_script(script(invoke("raise ValueError('v')")), (), {}, caller="Workflows/a/b.json:3:5: node 2")
        assert "Workflows/a/b.json:3:5: node 2" in caplog.text and "line 2, in Invoke" in caplog.text

    def test_an_error_without_frames_of_the_script_is_logged_all_the_same(self, script, caplog):
        path = script("Invoke = int\n")
        assert call_script(path, ("x",), {}) == UNEXPECTED
        assert "ValueError" in caplog.text

    def test_details_of_an_error_are_kept(self):
        error = DynamicModuleError("m", "n", [1])
        assert (error.message, error.module_name, error.details, str(error)) == ("m", "n", [1], "m")


class TestTimeLimit:
    """A script that takes too long is given up."""

    def test_in_time_the_value_comes_back(self, script):
        path = script(invoke("import threading; return threading.current_thread().name"))
        assert call_script(path, (), {}, timeout_s=PATIENCE_S) == "script tool.py"

    def test_it_is_waited_for(self, script):
        path = script(invoke("import time; time.sleep(0.1); return 'done'"))
        assert call_script(path, (), {}, timeout_s=PATIENCE_S) == "done"

    def test_errors_come_back_too(self, script):
        assert call_script(script(invoke("1 / 0")), (), {}, timeout_s=PATIENCE_S) == UNEXPECTED
        with pytest.raises(FileNotFoundError):
            call_script(script(invoke("open('/no/such/file')")), (), {}, timeout_s=PATIENCE_S)

    def test_too_late_is_an_error(self, script):
        stop = threading.Event()
        path = script(invoke("args[0].wait(30)"))
        with pytest.raises(TimeoutError, match=r"tool\.py took longer than 0\.05 seconds"):
            call_script(path, (stop,), {}, timeout_s=0.05)
        assert any(t.name == "abandoned script tool.py" for t in threading.enumerate())
        stop.set()


@pytest.mark.skipif(os.name == "nt", reason="no links")
def test_a_linked_script_keeps_its_name(script, tmp_path):
    """Error texts name the file as the workflow does."""
    (tmp_path / "link.py").symlink_to(script(invoke("None.x")))
    assert "'link.py'" in run_dynamic_module(str(tmp_path / "link.py"))


class TestForeignTree:
    """A tree that lies elsewhere: its scripts are named from the folder that holds its Public folder."""

    @pytest.fixture(params=["public", "relative-public", "configs", "both"])
    def tree(self, request, tmp_path, monkeypatch):
        home = tmp_path / "old"
        folder = home / "Public" / "scripts"
        folder.mkdir(parents=True)
        (folder / "tool.py").write_text(
            "from Public.scripts.words import count\n" + invoke("return count(args[0])")
        )
        (folder / "words.py").write_text("def count(text):\n    return len(text.split())\n")
        monkeypatch.chdir(tmp_path)
        facts = {
            "public": {"public_directory": home / "Public"},
            "relative-public": {"public_directory": Path("old/Public")},
            "configs": {"config_directory": home / "Public" / "Configs"},
            "both": {
                "public_directory": tmp_path / "data" / "Public",
                "config_directory": Path("old/Public/Configs"),
            },
        }[request.param]
        before = launch_facts()
        set_launch_facts(LaunchFacts(**facts))
        yield home
        set_launch_facts(before)
        for name in [name for name in sys.modules if name.partition(".")[0] == "Public"]:
            del sys.modules[name]

    def test_its_scripts_are_found_and_find_each_other(self, tree):
        """The folder stands last on the module search path."""
        assert run_dynamic_module("Public/scripts/tool.py", "a b c") == 3
        assert str(tree) in sys.path[-2:]

    def test_the_folder_counts_for_the_place_of_the_script(self, tree):
        assert locate("Public/scripts/tool.py") == (tree / "Public/scripts/tool.py", tree)


class TestPublicRootOfAnotherName:
    """`Public` at the beginning of a name means the Public root: an example runs from a copy of any name."""

    @pytest.fixture
    def data(self, tmp_path, monkeypatch):
        folder = tmp_path / "headrace-data"
        (folder / "scripts").mkdir(parents=True)
        (folder / "scripts" / "tool.py").write_text(invoke("return 'mine'"))
        monkeypatch.chdir(tmp_path)
        before = launch_facts()
        set_launch_facts(LaunchFacts(public_directory=folder))
        yield folder
        set_launch_facts(before)

    def test_its_scripts_are_found(self, data):
        assert locate("Public/scripts/tool.py") == (data / "scripts" / "tool.py", data)
        assert locate("Public") == (INSTALL_DIRECTORY / "Public", INSTALL_DIRECTORY)

    def test_other_names_do_not_count_from_it(self, data):
        for name in ("private/scripts/tool.py", "Public/tool.py"):
            with pytest.raises(FileNotFoundError):
                locate(name)

    def test_a_folder_that_is_called_so_comes_first(self, data, tmp_path):
        script = tmp_path / "Public" / "scripts" / "tool.py"
        script.parent.mkdir(parents=True)
        script.write_text(invoke("return 'near'"))
        assert run_dynamic_module("Public/scripts/tool.py") == "near"


class TestTwoInstallations:
    """The Public root of another installation, and a script of the same name in the program's folder."""

    @pytest.fixture
    def root(self, tmp_path, monkeypatch):
        """The named root; the program's folder is `program`."""
        for home, word in (("program", "theirs"), ("other", "mine")):
            script = tmp_path / home / "Public" / "scripts" / "tool.py"
            script.parent.mkdir(parents=True)
            script.write_text(invoke(f"return {word!r}"))
        loader = "Middleware.workflows.tools.dynamic_module_loader.INSTALL_DIRECTORY"
        monkeypatch.setattr(loader, tmp_path / "program")
        before = launch_facts()
        set_launch_facts(LaunchFacts(public_directory=tmp_path / "other" / "Public"))
        yield tmp_path / "other" / "Public"
        set_launch_facts(before)

    @pytest.mark.parametrize("working_directory", [".", "program", "other"])
    def test_the_script_of_the_named_root_runs(self, root, tmp_path, monkeypatch, working_directory):
        """Also when the server is started in the program's folder."""
        monkeypatch.chdir(tmp_path / working_directory)
        assert run_dynamic_module("Public/scripts/tool.py") == "mine"

    def test_one_that_only_the_program_has_is_found(self, root, tmp_path, monkeypatch):
        """Scripts that came with the program need no copy."""
        monkeypatch.chdir(tmp_path)
        (root / "scripts" / "tool.py").unlink()
        assert run_dynamic_module("Public/scripts/tool.py") == "theirs"


class TestWheel:
    """The program came out of a wheel: its folder is that of other packages, too."""

    @pytest.fixture(autouse=True)
    def _wheel(self, monkeypatch, tmp_path):
        facts = "Middleware.common.instance_global_variables"
        monkeypatch.setattr(f"{facts}.SHIPPED_DIRECTORY", tmp_path)
        monkeypatch.setattr(f"{facts}._facts", LaunchFacts())
        monkeypatch.chdir(tmp_path)

    def test_no_script_is_taken_from_the_folder_of_packages(self):
        with pytest.raises(FileNotFoundError):
            locate("setup.cfg")

    def test_that_folder_is_not_put_before_the_standard_library(self, monkeypatch):
        monkeypatch.setattr(sys, "path", ["standard library"])
        prepare_search_path()
        assert sys.path[:2] == [str(INSTALL_DIRECTORY / "Middleware"), "standard library"]
        assert str(INSTALL_DIRECTORY) not in sys.path[:-1]


def test_a_config_root_of_another_name_says_nothing(tmp_path):
    """Only `Public/Configs` tells where the tree begins."""
    facts = LaunchFacts(public_directory=tmp_path / "p", config_directory=tmp_path / "conf" / "x")
    assert facts.beside_public == (tmp_path,)
