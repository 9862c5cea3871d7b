"""The tables of plug-ins: checked when something registers, read as a mapping."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from Middleware.common.registry import NamesView, Registry, load_all


class Animal:
    """The contract."""


class TestRegistry:
    def test_names_lead_to_classes(self):
        """In order of registration; one class may have several names."""
        animals: Registry[type[Animal]] = Registry("animal", Animal)

        @animals.register("cat", "kitten")
        class Cat(Animal):
            pass

        @animals.register("ape")
        class Ape(Animal):
            pass

        assert list(animals) == ["cat", "kitten", "ape"] and len(animals) == 3
        assert animals["kitten"] is Cat and animals.get("ape") is Ape
        assert animals.get("dog") is None and "dog" not in animals and "cat" in animals
        assert animals.items() == [("cat", Cat), ("kitten", Cat), ("ape", Ape)]

    def test_a_name_is_taken_once(self):
        """The second one is told at its import."""
        animals: Registry[type[Animal]] = Registry("animal", Animal)
        animals.register("cat")(Animal)
        with pytest.raises(ValueError, match="animal 'cat' is registered twice"):
            animals.register("cat")(Animal)

    @pytest.mark.parametrize("stranger", [int, Animal(), "cat"])
    def test_what_does_not_fit_is_refused(self, stranger):
        """By its contract."""
        animals = Registry("animal", Animal)
        with pytest.raises(TypeError, match="is not a Animal and cannot be a animal"):
            animals.register("cat")(stranger)
        assert "cat" not in animals

    def test_without_a_contract_anything_fits(self):
        """A table of functions, for example."""
        functions = Registry("function")
        functions.register("length")(len)
        assert functions["length"]("abc") == 3

    def test_a_view_shows_the_names(self):
        """Live, and read-only."""
        view = NamesView()
        animals: Registry[type[Animal]] = Registry("animal", Animal, view=view)
        assert list(view) == []
        animals.register("cat")(Animal)
        assert list(view) == ["cat"] and "cat" in view and len(view) == 1
        assert repr(view) == "NamesView(['cat'])"


class TestLoadAll:
    @pytest.fixture
    def package(self, tmp_path, monkeypatch):
        """A package of two modules that write down their names."""
        for name in ("b", "a"):
            (tmp_path / f"{name}.py").write_text("import sys; sys.loaded_here.append(__name__)")
        package = ModuleType("headrace_plug_ins")
        package.__path__ = [str(tmp_path)]
        monkeypatch.setitem(sys.modules, package.__name__, package)
        monkeypatch.setattr(sys, "loaded_here", [], raising=False)
        yield package
        for name in [name for name in sys.modules if name.startswith("headrace_plug_ins.")]:
            del sys.modules[name]

    def test_every_module_is_imported(self, package):
        """In order of name."""
        load_all(package)
        assert sys.loaded_here == ["headrace_plug_ins.a", "headrace_plug_ins.b"]

    def test_a_broken_module_is_not_passed_over(self, package, tmp_path):
        """The start names it."""
        (tmp_path / "c.py").write_text("import no_such_library_at_all")
        with pytest.raises(ImportError, match="no_such_library_at_all"):
            load_all(package)
