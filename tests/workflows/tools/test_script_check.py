"""What of a script cannot work, found before it runs (tools.md 8; issue of scripts of an older tree)."""

from __future__ import annotations

import pytest

from Middleware.workflows.tools.script_check import MANUAL, script_faults

LATER = "def Invoke():\n    pass\n"

# id, the script, its faults as `level: message`
SCRIPTS = [
    ("nothing", LATER, []),
    ("a-name-of-the-specification", "from Middleware.utilities.config_utils import get_user_config\n" + LATER, []),
    ("the-old-spelling", "from utilities.text_utils import return_brackets_in_string\n" + LATER, []),
    ("a-whole-module", "import Middleware.utilities.text_utils\nfrom utilities import text_utils\n" + LATER, []),
    ("a-name-made-by-the-module", "from common.instance_global_variables import API_TYPE\n" + LATER, []),
    ("everything", "from Middleware.utilities.text_utils import *\n" + LATER, []),
    ("caught", "try:\n    from utilities.gone import x\nexcept ImportError:\n    x = None\n" + LATER, []),
    ("caught-among-others", "try:\n    from utilities.gone import x\nexcept (KeyError, ModuleNotFoundError):\n    x = None\n" + LATER, []),
    ("caught-with-all", "try:\n    from utilities.gone import x\nexcept:\n    x = None\n" + LATER, []),
    ("another-error-is-caught", "try:\n    from utilities.gone import x\nexcept (ValueError, errors.Odd):\n    x = None\n" + LATER, [f"error: line 2: there is no module 'Middleware.utilities.gone'; {MANUAL}"]),
    ("suppressed", "with suppress(ImportError):\n    import utilities.gone\n" + LATER, []),
    ("for-types-alone", "if TYPE_CHECKING:\n    from utilities.gone import x\n" + LATER, []),
    ("a-path-of-its-own", "import sys\nsys.path.insert(0, 'x')\nimport of_my_own\n" + LATER, []),
    ("invoke-is-imported", "from json import dumps as Invoke\n", []),
    ("invoke-may-come-from-anywhere", "from json import *\n", []),
    ("invoke-may-be-made-by-exec", "exec('def Invoke(): pass')\n", []),
    ("invoke-may-be-put-there", "globals()['Invoke'] = print\n", []),
    ("another-call-makes-nothing", "print('Invoke')\n", ["error: line 1: the script has no function 'Invoke'"]),
    ("no-python", "def Invoke(:\n", ["error: line 1: not Python: invalid syntax"]),
    ("a-zero-byte", "x = '\0'\n", None),
    ("no-invoke", "def invok():\n    pass\n", ["error: line 1: the script has no function 'Invoke' (is 'invok' meant to be it?)"]),
    ("a-dot", "from . import tools\n" + LATER, ["error: line 1: a script is not part of a package, so an import that begins with a dot cannot work"]),
    ("not-installed", "import no_such_package.x\n" + LATER, ["error: line 1: no module 'no_such_package' is installed here"]),
    ("misspelt", "from Middleware.utilities.text_utils import estimate_token\n" + LATER, [f"error: line 1: Middleware.utilities.text_utils has no name 'estimate_token' (did you mean 'estimate_tokens'?); {MANUAL}"]),
    ("another-name-for-it", "import os\nfrom utilities.text_utils import token_length_of\n" + LATER, [f"error: line 2: Middleware.utilities.text_utils has no name 'token_length_of'; Middleware.utilities.script_library has 'estimate_tokens'; {MANUAL}"]),
    ("a-name-for-nothing", "from utilities.text_utils import zzz\n" + LATER, [f"error: line 1: Middleware.utilities.text_utils has no name 'zzz'; {MANUAL}"]),
    ("no-such-module", "from utilities.turns import recent_turns\n" + LATER, [f"error: line 1: there is no module 'Middleware.utilities.turns'; Middleware.utilities.script_library has 'last_messages'; {MANUAL}"]),
    ("in-a-function", "def Invoke():\n    from utilities.gone import x\n", [f"warning: line 2: there is no module 'Middleware.utilities.gone'; {MANUAL}"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "faults"), [s[1:] for s in SCRIPTS], ids=[s[0] for s in SCRIPTS])
def test_a_script(tmp_path, text, faults):
    """Names what is wrong with its line, and what to write instead."""
    script = tmp_path / "tool.py"
    script.write_bytes(text.encode())
    told = [f"{level}: {message}" for level, message in script_faults(script)]
    if faults is None:
        assert told[0].startswith("error: line ") and "null bytes" in told[0]
    else:
        assert told == faults


def test_a_module_beside_the_public_folder(tmp_path):
    """A folder that is searched when a script runs is searched here too."""
    (tmp_path / "of_my_own.py").write_text("")
    script = tmp_path / "tool.py"
    script.write_text("import of_my_own\n" + LATER)
    assert script_faults(script) and not script_faults(script, [tmp_path])


def test_a_script_is_not_run(tmp_path):
    script = tmp_path / "tool.py"
    script.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n{LATER}")
    script_faults(script)
    assert not (tmp_path / "ran").exists()


def test_an_edit_is_seen(tmp_path):
    script = tmp_path / "tool.py"
    script.write_text(LATER)
    assert not script_faults(script)
    script.write_text("import no_such_package\n" + LATER)
    assert script_faults(script)


@pytest.mark.parametrize("name", ["gone.py", "folder"])
def test_what_is_no_file_has_no_faults(tmp_path, name):
    """That it is not there is said elsewhere."""
    (tmp_path / "folder").mkdir()
    assert script_faults(tmp_path / name) == []
