"""Makes the foreign part of the console's page: `static/vendor/*.js`, `plots.css` and their README.

    python tools/vendor_console.py            makes the files again
    python tools/vendor_console.py --check    makes them elsewhere and compares: exit code 1 where they differ
    python tools/vendor_console.py --list     names the packages, as npm takes them

Takes exact versions from npm and joins them with esbuild. Run by developers only: nothing of npm is needed to
install, start or test Headrace. Source: spec console.md 14.1.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VENDOR = Path(__file__).resolve().parent.parent / "Middleware" / "api" / "console" / "static" / "vendor"
NOTICE = "README.md"

ESBUILD = "0.28.2"
PACKAGES = {
    "preact": "11.2.0",
    "@preact/signals": "2.11.4",
    "@preact/signals-core": "1.14.5",
    "htm": "3.1.1",
    "@codemirror/autocomplete": "6.20.4",
    "@codemirror/commands": "6.11.1",
    "@codemirror/lang-json": "6.0.2",
    "@codemirror/language": "6.13.1",
    "@codemirror/lint": "6.9.8",
    "@codemirror/merge": "6.12.3",
    "@codemirror/search": "6.7.2",
    "@codemirror/state": "6.7.6",
    "@codemirror/view": "6.43.15",
    "@lezer/common": "1.5.5",
    "@lezer/highlight": "1.2.5",
    "@lezer/json": "1.0.3",
    "@lezer/lr": "1.4.12",
    "@marijn/find-cluster-break": "1.0.4",
    "crelt": "1.0.7",
    "style-mod": "4.1.5",
    "w3c-keyname": "2.2.8",
    "uplot": "1.6.32",
    "diff": "9.0.0",
}
"""Each package that stands in a file of ours, those that others bring along too."""

ENTRIES = {
    "preact": """
        import { h } from "preact";
        import htm from "htm";
        export { Fragment, h, render } from "preact";
        export {
          useCallback, useEffect, useId, useLayoutEffect, useMemo, useRef, useState
        } from "preact/hooks";
        export {
          batch, computed, effect, signal, useComputed, useSignal, useSignalEffect
        } from "@preact/signals";
        export const html = htm.bind(h);
    """,
    "editor": """
        export {
          Annotation, Compartment, EditorSelection, EditorState, Prec, RangeSetBuilder,
          StateEffect, StateField, Transaction
        } from "@codemirror/state";
        export {
          Decoration, EditorView, ViewPlugin, WidgetType, crosshairCursor,
          drawSelection, dropCursor, gutter, GutterMarker, highlightActiveLine,
          highlightActiveLineGutter, highlightSpecialChars, hoverTooltip, keymap,
          lineNumbers, rectangularSelection, showPanel, showTooltip
        } from "@codemirror/view";
        export {
          defaultKeymap, history, historyKeymap, indentWithTab, redo, undo
        } from "@codemirror/commands";
        export {
          HighlightStyle, bracketMatching, codeFolding, defaultHighlightStyle, foldAll,
          foldGutter, foldKeymap, indentOnInput, indentUnit, syntaxHighlighting,
          syntaxTree, unfoldAll
        } from "@codemirror/language";
        export { json, jsonLanguage } from "@codemirror/lang-json";
        export {
          forceLinting, lintGutter, lintKeymap, linter, nextDiagnostic, openLintPanel,
          previousDiagnostic, setDiagnostics
        } from "@codemirror/lint";
        export {
          CompletionContext, acceptCompletion, autocompletion, closeBrackets,
          closeBracketsKeymap, closeCompletion, completionKeymap, completionStatus,
          currentCompletions, startCompletion
        } from "@codemirror/autocomplete";
        export {
          highlightSelectionMatches, openSearchPanel, search, searchKeymap
        } from "@codemirror/search";
        export { MergeView, unifiedMergeView } from "@codemirror/merge";
        export { tags } from "@lezer/highlight";
    """,
    "plots": 'export { default } from "uplot";',
    "diff": 'export { diffWordsWithSpace } from "diff/lib/diff/word.js";',
}
"""File without its ending -> what it gives to the page."""

_SIZE = re.compile(r"\d+\.\d KB")


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0: made, or as they should be; 1: the files differ; 2: npm or esbuild failed."""
    parser = argparse.ArgumentParser(
        description="Makes the foreign part of the console's page from npm packages."
    )
    parser.add_argument("--check", action="store_true", help="compare with the files that are there")
    parser.add_argument("--list", action="store_true", help="name the packages, as npm takes them")
    wanted = parser.parse_args(arguments)
    if wanted.list:
        print("\n".join(f"{name}@{version}" for name, version in PACKAGES.items()))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        try:
            made = make(Path(folder))
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"npm and esbuild made nothing: {error}", file=sys.stderr)
            return 2
    if wanted.check:
        return compare(made)
    VENDOR.mkdir(parents=True, exist_ok=True)
    for name, content in made.items():
        (VENDOR / name).write_bytes(content)
        print(f"{name}  {len(content)} bytes")
    return 0


def make(folder: Path) -> dict[str, bytes]:
    """File name -> bytes, made below `folder`. Raises OSError, subprocess.CalledProcessError."""
    install(folder)
    modules = folder / "node_modules"
    made = {f"{name}.js": bundle(folder, name, entry) for name, entry in ENTRIES.items()}
    made["plots.css"] = (modules / "uplot" / "dist" / "uPlot.min.css").read_bytes()
    made[NOTICE] = notice(made, modules).encode()
    return made


def install(folder: Path) -> None:
    """The packages into `folder`; their own scripts do not run."""
    (folder / "package.json").write_text('{"private": true}', encoding="utf-8")
    wanted = [f"{name}@{version}" for name, version in {**PACKAGES, "esbuild": ESBUILD}.items()]
    npm = shutil.which("npm") or "npm"
    options = ["--silent", "--ignore-scripts", "--no-audit", "--no-fund", "--save-exact"]
    subprocess.run([npm, "install", *options, *wanted], cwd=folder, check=True)


def bundle(folder: Path, name: str, entry: str) -> bytes:
    """One file of the page."""
    source = folder / f"{name}.entry.js"
    source.write_text(entry, encoding="utf-8")
    options = [
        "--bundle",
        "--minify",
        "--format=esm",
        "--target=es2022",
        "--charset=utf8",
        "--legal-comments=none",
    ]
    esbuild = folder / "node_modules" / ".bin" / "esbuild"
    done = subprocess.run(
        [esbuild, source.name, *options, "--log-level=error"], cwd=folder, check=True, stdout=subprocess.PIPE
    )
    return b"// Made by tools/vendor_console.py; licences: README.md beside this file.\n" + done.stdout


def notice(made: dict[str, bytes], modules: Path) -> str:
    """The README: files with size and hash, packages with version, and their licence texts.

    Raises LookupError for a package in a bundle that `PACKAGES` does not name.
    """
    unknown = {name for name in _installed(modules) if name not in PACKAGES and not name.endswith("esbuild")}
    unknown -= {"@codemirror/streamparser"}  # brought along by a package, in none of the files
    unknown = {name for name in unknown if not name.startswith("@esbuild/")}
    if unknown:
        raise LookupError(f"PACKAGES names no version of {', '.join(sorted(unknown))}")
    lines = [
        "# Foreign code of the console's page",
        "",
        f"Made by `tools/vendor_console.py` (esbuild {ESBUILD}) from npm packages; not edited by hand.",
        "",
        "| file | gzipped | SHA-256 |",
        "|---|---|---|",
    ]
    for name, content in made.items():
        size = len(gzip.compress(content, 9, mtime=0)) / 1000
        lines.append(f"| {name} | {size:.1f} KB | `{hashlib.sha256(content).hexdigest()}` |")
    lines += ["", "| package | version | licence |", "|---|---|---|"]
    texts: dict[str, list[str]] = {}
    for name, version in PACKAGES.items():
        about = json.loads((modules / name / "package.json").read_text(encoding="utf-8"))
        lines.append(f"| {name} | {version} | {about['license']} |")
        text = (modules / name / "LICENSE").read_text(encoding="utf-8").strip()
        texts.setdefault("\n".join(line.rstrip() for line in text.splitlines()), []).append(name)
    for text, names in texts.items():
        lines += ["", f"## {', '.join(names)}", "", "```text", text, "```"]
    return "\n".join(lines) + "\n"


def _installed(modules: Path) -> list[str]:
    """Names of all packages below `node_modules`."""
    files = [*modules.glob("[!.@]*/package.json"), *modules.glob("@*/*/package.json")]
    return sorted(file.parent.relative_to(modules).as_posix() for file in files)


def compare(made: dict[str, bytes]) -> int:
    """1 where a file differs from what was made; a gzipped size may differ with the zlib at hand."""
    wrong = []
    for name, content in made.items():
        there = (VENDOR / name).read_bytes() if (VENDOR / name).is_file() else b""
        if name == NOTICE:
            there, content = (
                _SIZE.sub("", text.decode("utf-8", "replace")).encode() for text in (there, content)
            )
        if there != content:
            wrong.append(name)
    print(f"differ: {', '.join(wrong)}" if wrong else f"{len(made)} files are as npm and esbuild make them")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
