"""What a wheel carries besides the code: the examples of `Public`, as `Middleware/shipped/Public`, and the
pages of `docs` that the console shows, as `Middleware/shipped/docs`.

A step of setuptools, named in setup.cfg. The copy is made in the build folder: git holds the files once. Data
of a server that ran in this clone (discussions, locks, logs) stays here.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools.command.build_py import build_py

PARTS = (
    ("Public", "Configs/**/*.json"),
    ("Public", "workflow_python_scripts/**/*.py"),
    ("docs", "**/*.md"),
)
LEFT_OUT = Path("docs", "spec")
"""For those who work on the code; they have the folder."""
OWN = Path("Public", "Configs", "Endpoints", "my-model")
"""The user's own endpoints, keys and all: of them only the examples are carried."""


class BuildPy(build_py):
    """The usual step, examples and pages. An editable install finds them beside `server.py`."""

    def run(self) -> None:
        if self.editable_mode:
            super().run()
            return
        # What a former build left may be gone from the source; an old plug-in would be loaded again.
        shutil.rmtree(Path(self.build_lib, "Middleware"), ignore_errors=True)
        super().run()
        for target, source in self._shipped():
            self.mkpath(str(Path(target).parent))
            self.copy_file(source, target, preserve_mode=False)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        return [*super().get_outputs(include_bytecode), *dict(self._shipped())]

    def get_output_mapping(self) -> dict[str, str]:
        return {**super().get_output_mapping(), **dict(self._shipped())}

    def get_source_files(self) -> list[str]:
        """What a source archive needs, to make the same wheel."""
        return [*super().get_source_files(), *(source for _, source in self._shipped())]

    def _shipped(self) -> list[tuple[str, str]]:
        """Pairs: place in the build folder, file here."""
        found = {file for top, part in PARTS for file in Path(top).glob(part)}
        files = sorted(
            file
            for file in found
            if LEFT_OUT not in file.parents and (file.parent != OWN or file.name.endswith(".example.json"))
        )
        folder = Path(self.build_lib, "Middleware", "shipped")
        return [(str(folder / file), str(file)) for file in files]
