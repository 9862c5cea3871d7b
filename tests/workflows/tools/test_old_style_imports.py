"""Names that users' scripts import, as they write them: with and without `Middleware.` (tools.md 8.4)."""

from __future__ import annotations

import importlib
import sys

import pytest

from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.tools.dynamic_module_loader import prepare_search_path, run_dynamic_module
from Middleware.workflows.tools.script_check import allow_old_style_imports

NAMES = [
    ("workflows.tools.dynamic_module_loader", "DynamicModuleError"),
    ("workflows.tools.dynamic_module_loader", "run_dynamic_module"),
    ("utilities.config_utils", "get_config_path"),
    ("utilities.config_utils", "get_user_config"),
    ("utilities.config_utils", "get_default_tool_prompt_path"),
    ("utilities.text_utils", "return_brackets_in_string"),
    ("common.constants", "VALID_NODE_TYPES"),
    ("common.instance_global_variables", "launch_facts"),
]


@pytest.fixture(autouse=True)
def _modules_and_path_as_before(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    before = dict(sys.modules)
    prepare_search_path()
    yield
    for name in set(sys.modules) - set(before):
        if not name.startswith("Middleware"):
            del sys.modules[name]


@pytest.mark.parametrize(("module", "name"), NAMES, ids=[f"{m}.{n}" for m, n in NAMES])
def test_both_spellings_are_one_thing(module, name):
    """The old one is no second copy, which would know nothing of this server."""
    new, old = importlib.import_module(f"Middleware.{module}"), importlib.import_module(module)
    assert getattr(old, name) is getattr(new, name)
    assert new.__name__ == new.__spec__.name == f"Middleware.{module}"


def test_a_script_of_the_old_style(tmp_path):
    """Every form of import; node types are those of this server."""
    script = tmp_path / "old.py"
    script.write_text(
        "import utilities.text_utils\n"
        "from utilities import config_utils\n"
        "from common.constants import VALID_NODE_TYPES\n"
        "from workflows.tools.dynamic_module_loader import DynamicModuleError\n"
        "def Invoke(*args):\n"
        "    if args: raise DynamicModuleError('no luck', 'Dice')\n"
        "    braces = utilities.text_utils.return_brackets_in_string('__WILMER_L_CURLY__')\n"
        "    return [braces, 'Standard' in VALID_NODE_TYPES, len(VALID_NODE_TYPES), config_utils.get_config_path('a', 'b')]\n"
    )
    braces, known, count, path = run_dynamic_module(str(script))
    assert (braces, known, count) == ("{", True, len(NODES))
    assert path.endswith("b.json")
    assert run_dynamic_module(str(script), "x") == "Error processing request in module 'Dice'. no luck"


@pytest.mark.parametrize("name", ["utilities.nothing", "nothing_at_all"])
def test_what_is_not_there_is_not_found(name):
    """By its own name."""
    with pytest.raises(ModuleNotFoundError, match=name):
        importlib.import_module(name)


def test_it_is_set_up_once():
    """Each script asks for it."""
    before = len(sys.meta_path)
    allow_old_style_imports()
    assert len(sys.meta_path) == before
