"""Runs a user's Python script: `Invoke(*args, **kwargs)` of a file that is loaded afresh at every call.

The script runs in this process with all its rights. Arguments and messages of its errors never reach a log
line. Scripts import `DynamicModuleError` and `run_dynamic_module` from here. Source: spec
tools.md 8 and 11.7.
"""

from __future__ import annotations

import contextvars
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, cast

from Middleware.common.errors import ConfigError, RequestCancelled
from Middleware.common.instance_global_variables import INSTALL_DIRECTORY, is_installed, launch_facts
from Middleware.config.validation import ERROR
from Middleware.workflows.tools.script_check import (
    HOUSE,
    MANUAL,
    allow_old_style_imports,
    packages_of_the_house,
    script_faults,
)

logger = logging.getLogger(__name__)


MOST_OF_A_NAME = 300
_SERVERS = ("greenlet", "gevent")
"""Packages that end a thread by an exception."""


class DynamicModuleError(Exception):
    """Raised by scripts: the node's output says what went wrong, and the run goes on.

    `module_name`: shown instead of the file name. `details`: shown behind the message.
    """

    def __init__(self, message: str, module_name: str | None = None, details: Any = None) -> None:
        super().__init__(message)
        self.message, self.module_name, self.details = message, module_name, details


class _Compiled:
    """Compiled scripts by path, each valid for one modification time and size; loading is serialised per
    path.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: dict[str, threading.RLock] = {}
        self._code: dict[str, tuple[tuple[int, int], CodeType]] = {}

    def load(self, path: Path) -> ModuleType:
        """A fresh module object, its top-level code run; not registered anywhere.

        Raises FileNotFoundError for a folder, a device or a pipe: these could be read for ever.
        """
        name = str(path)
        if not path.is_file():
            raise FileNotFoundError(f"'{name}' is not a file")
        with self._guard:
            lock = self._locks.setdefault(name, threading.RLock())
        with lock:
            module = ModuleType("dynamic_module")
            module.__file__ = name
            try:
                exec(self._compile(path), module.__dict__)
            except SystemExit as error:  # would end more than this run
                raise RuntimeError(f"the script {path.name} exited while it was being loaded") from error
            except ImportError as error:
                if told := _instead_of_import(path, error):
                    raise ImportError(told, name=error.name) from error
                raise
            return module

    def _compile(self, path: Path) -> CodeType:
        facts = path.stat()
        version = (facts.st_mtime_ns, facts.st_size)
        known = self._code.get(str(path))
        if known is None or known[0] != version:
            code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
            known = self._code[str(path)] = (version, code)
        return known[1]


_compiled = _Compiled()
_path_guard = threading.Lock()


def prepare_search_path() -> None:
    """Put the install folder and its `Middleware` folder at the front of the module search path, once.

    The folder of a wheel is on that path already. At the end stands the folder that holds the Public root: a
    tree that lies elsewhere finds its own scripts.
    """
    with _path_guard:
        allow_old_style_imports()
        for folder in map(str, (INSTALL_DIRECTORY / "Middleware", *_project_root())):
            if folder not in sys.path:
                sys.path.insert(0, folder)
        sys.path.extend(str(f) for f in launch_facts().beside_public if str(f) not in sys.path)


def _project_root() -> tuple[Path, ...]:
    """The install folder of a clone. That of a wheel is shared with strangers, whose files nobody means."""
    return () if is_installed() else (INSTALL_DIRECTORY,)


def locate(name: str) -> tuple[Path, Path]:
    """Where a script is, and the folder that its relative name counts from (`from_root`): the working
    directory, the install folder, the one that holds the Public root, or that root itself, which `Public` at
    the beginning of a name means whatever its name is. Source: tools.md 8.2.

    For a name below `Public` the install folder comes last, also when it is the working directory: with a
    Public root elsewhere, a script of the same name in the install is another installation's (memory.md 2.2).
    Raises FileNotFoundError.
    """
    path = Path(os.path.expanduser(name))
    below_public = len(path.parts) > 1 and path.parts[0] == "Public"
    for root in sorted(roots(), key=INSTALL_DIRECTORY.__eq__) if below_public else roots():
        if "\0" not in name and name.strip() and os.path.exists(place := from_root(root, path)):
            return place, root
    raise FileNotFoundError(f"no file '{name[:MOST_OF_A_NAME]}'")


def roots() -> tuple[Path, ...]:
    """The folders that a relative name is looked for in, in this order; a folder may come twice."""
    facts = launch_facts()
    return (Path.cwd(), *_project_root(), *facts.beside_public, facts.public_directory)


def from_root(root: Path, path: Path) -> Path:
    """`path` counted from a root of `locate`."""
    place = root / path
    is_public = root == launch_facts().public_directory and path.parts[:1] == ("Public",)
    return root.joinpath(*path.parts[1:]) if is_public and not place.exists() else place


def run_dynamic_module(module_path: str, /, *args: Any, **kwargs: Any) -> Any:
    """What `Invoke(*args, **kwargs)` of a script returns, or the text that stands for its error.

    Raises FileNotFoundError, whatever loading raises, AttributeError without `Invoke`, TypeError if it is not
    callable.
    """
    return call_script(locate(module_path)[0], args, kwargs)


def call_script(
    path: Path,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    timeout_s: float | None = None,
    caller: str = "",
) -> Any:
    """As `run_dynamic_module` for a path. `caller`: what log lines name beside the script.

    Raises TimeoutError when `Invoke` takes longer than `timeout_s`; it goes on in its thread, unheard.
    """
    invoke = script_function(path)

    def call() -> Any:
        return _outcome(path, caller, lambda: invoke(*args, **kwargs))

    return call() if timeout_s is None else run_in_time(call, timeout_s, path.name)


def script_function(path: Path) -> Callable[..., Any]:
    """`Invoke` of a script, loaded afresh. Raises whatever loading raises, AttributeError without `Invoke`,
    TypeError if it is not callable.
    """
    prepare_search_path()
    invoke = getattr(_compiled.load(path), "Invoke", None)
    if invoke is None:
        raise AttributeError(f"the script {path.name} has no function 'Invoke'")
    if not callable(invoke):
        raise TypeError(f"'Invoke' in the script {path.name} is not a function")
    return cast(Callable[..., Any], invoke)


def find_script(name: str, allowed: Sequence[str] | None) -> Path:
    """The real place of a script that a config names. `allowed`: the user's `pythonModuleRoots`.

    Raises FileNotFoundError, ConfigError.
    """
    path = locate(name)[0]
    ensure_in_roots(path, allowed)
    return path


def script_place_faults(name: str) -> list[tuple[str, str]]:
    """(level, sentence) of a script that a config names: it is not there, or it cannot work."""
    try:
        path = locate(name)[0]
    except FileNotFoundError as error:
        folders = ", ".join(dict.fromkeys(map(str, roots())))
        looked = "" if os.path.isabs(os.path.expanduser(name)) else f"; looked in {folders}"
        return [(ERROR, f"{error}{looked}")]
    if not path.is_file():
        return [(ERROR, f"'{name}' is no file")]
    faults = script_faults(path, launch_facts().beside_public)
    return [(level, f"{path.name}, {why}") for level, why in faults]


def ensure_in_roots(path: Path, allowed: Sequence[str] | None) -> None:
    """Raises ConfigError for a script outside the user's `pythonModuleRoots`. None: the user has none."""
    if allowed is not None and not any(path.resolve().is_relative_to(_folder(folder)) for folder in allowed):
        raise ConfigError(f"the script {path} lies in none of the user's 'pythonModuleRoots'")


def _folder(name: str) -> Path:
    """A folder of `pythonModuleRoots`, found as scripts are; a missing one holds nothing."""
    try:
        return locate(name)[0].resolve()
    except FileNotFoundError:
        return Path(name).expanduser().resolve()


def _instead_of_import(path: Path, error: ImportError) -> str:
    """What of the house a script cannot import and what to write instead, in the words of `--validate`; ""
    when the import that failed is another one.
    """
    top = (error.name or "").partition(".")[0]
    if top != HOUSE and top not in packages_of_the_house():
        return ""
    told = [fault.message for fault in script_faults(path) if fault.message.endswith(MANUAL)]
    return f"the script {path.name} cannot be loaded: {'; '.join(told)}" if told else ""


def _outcome(path: Path, caller: str, call: Callable[[], Any]) -> Any:
    """The script's value, or the text of the error that it raised. FileNotFoundError passes on, and what the
    house or the server throws into it.
    """
    try:
        return call()
    except (FileNotFoundError, RequestCancelled, KeyboardInterrupt):
        raise
    except (AttributeError, TypeError) as error:
        log_script_error(error, path, caller)
        return f"Error: Module '{path.name}' setup issue. Please check logs."
    except BaseException as error:
        if type(error).__module__.partition(".")[0] in _SERVERS:
            raise
        log_script_error(error, path, caller)
        if _is_dynamic_module_error(error):
            return _error_text(error, path)
        return "Error: An unexpected error occurred while processing your request. Please check system logs."


def _is_dynamic_module_error(error: BaseException) -> bool:
    """By name, because a script that imports it the old way (`workflows.tools...`) gets a second copy of
    the class.
    """
    return any(kind.__name__ == DynamicModuleError.__name__ for kind in type(error).__mro__)


def _error_text(error: Any, path: Path) -> str:
    """A class of a script need not have called our `__init__`."""
    name, details = getattr(error, "module_name", None), getattr(error, "details", None)
    text = f"Error processing request in module '{name or path.name}'. {getattr(error, 'message', error)}"
    return f"{text}. Details: {details}" if details else text


def log_script_error(error: BaseException, path: Path, caller: str) -> None:
    """Its kind and where it was raised; its text may hold what people wrote."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == str(path)] or list(frames)
    logger.error(
        "script %s failed with %s, called by %s\n%s",
        path,
        type(error).__name__,
        caller or "a script",
        "".join(traceback.format_list(own)),
    )


class ScriptAbandoned(TimeoutError):
    """A script was given up; it goes on in its thread, unheard."""


def run_in_time(
    work: Callable[[], Any], timeout_s: float, name: str, over: threading.Event | None = None
) -> Any:
    """The value of `work`, made in a thread of its own that nobody waits for longer than need be. `over`: to
    be set by whoever does not want it any more. Raises ScriptAbandoned, and whatever `work` raises.
    """
    values: list[Any] = []
    errors: list[BaseException] = []
    over = over or threading.Event()

    def run() -> None:
        try:
            values.append(work())
        except BaseException as error:  # a script may raise anything, SystemExit too
            errors.append(error)
        finally:
            over.set()

    context = contextvars.copy_context()
    worker = threading.Thread(target=context.run, args=(run,), name=f"script {name}", daemon=True)
    worker.start()
    over.wait(timeout_s)
    if values:
        return values[0]
    if errors:
        raise errors[0]
    worker.name = f"abandoned script {name}"
    raise ScriptAbandoned(f"the script {name} took longer than {timeout_s} seconds")
