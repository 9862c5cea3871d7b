"""`--schemas DIR`: writes the JSON Schemas of all config files for editors."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

from Middleware.api.command_registry import COMMANDS, Command, OwnArguments, nonempty_text
from Middleware.workflows.checks.editor_schemas import editor_schemas


@COMMANDS.register("schemas")
class Schemas(Command):
    """Writes JSON Schemas."""

    USES_FOLDERS = False

    def add_arguments(self, parser: OwnArguments) -> None:
        parser.add_argument(
            "--schemas",
            type=nonempty_text,
            metavar="DIR",
            help="Write JSON Schemas of the configuration files, for editors, to this folder.",
        )

    def run(self, arguments: Namespace) -> int:
        """Exit status 0, or 1 when the folder `arguments.schemas` cannot be written."""
        folder = Path(arguments.schemas).expanduser()
        files = editor_schemas()
        try:
            for name, schema in files.items():
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(schema, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        except OSError as error:
            print(f"{folder}: error: cannot be written: {error.strerror}")
            return 1
        print(f"{folder}: wrote {len(files)} schemas")
        return 0
