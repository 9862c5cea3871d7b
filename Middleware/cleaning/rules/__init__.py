"""One file a rule. Loads them all: what is here is on, and two rules with one order refuse to load."""

from importlib import import_module
from pkgutil import iter_modules

for _module in sorted(info.name for info in iter_modules(__path__)):
    import_module(f"{__name__}.{_module}")
