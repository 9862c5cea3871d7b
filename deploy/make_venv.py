"""Makes `.venv` beside the scripts, or repairs one that was left half made. Called by run and check.

It is made under another name and moved: a Ctrl-C leaves nothing behind, and `.venv` is there only when it is
whole. Removes only what this call has made. Standard library only, and readable by every Python 3, so that an
old one is told what is wanted.
"""

import os
import shutil
import subprocess
import sys
import venv

LEAST = (3, 11)
SCRIPTS = "Scripts" if os.name == "nt" else "bin"


def has_pip(folder):
    """Claims that the environment's Python starts and can install."""
    python = python_of(folder)
    call = [python, "-m", "pip", "--version"]
    return (
        os.path.exists(python)
        and subprocess.call(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0
    )


def python_of(folder):
    return os.path.join(folder, SCRIPTS, "python.exe" if os.name == "nt" else "python")


def repair(folder):
    """Give pip to an environment that lost it. True when it has one now."""
    call = [python_of(folder), "-m", "ensurepip", "--default-pip"]
    return os.path.exists(call[0]) and subprocess.call(call) == 0 and has_pip(folder)


def make(folder):
    """A new environment at `folder`, whole or not at all."""
    making = "{}.making-{}".format(folder, os.getpid())
    try:
        whole = venv.EnvBuilder(with_pip=True, symlinks=os.name != "nt", prompt=os.path.basename(folder))
        whole.create(making)
        tell_new_place(os.path.join(making, SCRIPTS), making, folder)
        try:
            os.rename(making, folder)
        except OSError:
            if not has_pip(folder):  # else another start was faster, and its environment is as good
                raise
    finally:
        if os.path.isdir(making):
            shutil.rmtree(making, ignore_errors=True)


def tell_new_place(scripts, old, new):
    """The text files of an environment's scripts know where they stand."""
    for name in os.listdir(scripts):
        path = os.path.join(scripts, name)
        if os.path.islink(path) or name.endswith(".exe"):
            continue
        with open(path, "rb") as file:
            text = file.read()
        if os.fsencode(old) in text:
            with open(path, "wb") as file:
                file.write(text.replace(os.fsencode(old), os.fsencode(new)))


def main(folder):
    if sys.version_info < LEAST:
        return "Headrace needs Python {}.{} or newer; this is {}.".format(*LEAST, sys.version.split()[0])
    if has_pip(folder):
        return 0
    if not os.path.exists(folder):
        make(folder)
        return 0
    print("{} is incomplete and will be repaired".format(folder), flush=True)
    if repair(folder):
        return 0
    return "{} cannot be used and was not made by this run: remove that folder, then start again.".format(
        folder
    )


if __name__ == "__main__":
    try:
        sys.exit(main(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), ".venv")))
    except KeyboardInterrupt:
        sys.exit(130)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit("the environment cannot be made: {} (Debian and Ubuntu: install python3-venv)".format(error))
