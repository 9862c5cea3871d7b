"""What a release is made from: `tools/release.py` and the workflow that a tag starts."""

from __future__ import annotations

import configparser
import importlib.util
import re
import subprocess
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

from Middleware.api.commands import update_check

HOUSE = Path(__file__).resolve().parents[1]
WORKFLOW = (HOUSE / ".github/workflows/release.yml").read_text("utf-8")
spec = importlib.util.spec_from_file_location("release", HOUSE / "tools/release.py")
assert spec is not None and spec.loader is not None
release = importlib.util.module_from_spec(spec)
spec.loader.exec_module(release)

CHANGELOG = """# Changelog

## Unreleased

## 2.0.0 - 2027-03-01
### Added
- New.

## 1.9.0 - 2027-01-01
- Old.
"""


class TestNotes:
    def test_they_are_the_section_of_the_tag(self, monkeypatch):
        """And nothing of the sections beside it."""
        monkeypatch.setattr(release, "VERSION", "2.0.0")
        assert release.notes_of("v2.0.0", CHANGELOG) == "### Added\n- New.\n"
        monkeypatch.setattr(release, "VERSION", "1.9.0")
        assert release.notes_of("v1.9.0", CHANGELOG) == "- Old.\n"

    def test_a_tag_of_another_version_does_not_go_out(self, monkeypatch):
        """The program would tell the wrong one for ever."""
        monkeypatch.setattr(release, "VERSION", "2.0.0")
        with pytest.raises(
            SystemExit, match=r"the tag v2.0.1 names another version than the program, which is 2.0.0"
        ):
            release.notes_of("v2.0.1", CHANGELOG)

    @pytest.mark.parametrize(
        "heading", ["## Unreleased", "## 3.0.0", "## 3.0.0 - soon", "### 3.0.0 - 2027-05-01"]
    )
    def test_a_version_without_a_dated_section_does_not_go_out(self, monkeypatch, heading):
        """What changed is written down before it is published."""
        monkeypatch.setattr(release, "VERSION", "3.0.0")
        with pytest.raises(SystemExit, match=r'CHANGELOG.md has no section "## 3.0.0 - <date>"'):
            release.notes_of("v3.0.0", f"{heading}\n- x\n{CHANGELOG}")


class TestAddresses:
    def test_the_repository_of_nobody_does_not_go_out(self):
        """`--update-check` would print it for ever."""
        setup = "project_urls =\n    Changelog = https://example.test/OWNER/headrace/blob/main/CHANGELOG.md\n"
        with pytest.raises(SystemExit, match=r"setup.cfg, project_urls, Changelog: put your repository"):
            release.refuse_example_address(setup)
        assert release.refuse_example_address(setup.replace("OWNER", "somebody")) is None

    def test_a_tag_is_refused_for_it(self, monkeypatch, tmp_path):
        """Before the notes are written."""
        (tmp_path / "setup.cfg").write_text("project_urls =\n    Changelog = https://example.test/OWNER/x\n")
        monkeypatch.setattr(release, "HOUSE", tmp_path)
        with pytest.raises(SystemExit, match="put your repository in place of OWNER"):
            release.main(["--notes", "v1.0.0"])

    def test_the_metadata_names_the_changelog(self):
        """Under the name that `--update-check` looks for."""
        setup = configparser.ConfigParser()
        setup.read(HOUSE / "setup.cfg", "utf-8")
        urls = dict(line.split(" = ", 1) for line in setup["metadata"]["project_urls"].strip().splitlines())
        assert urls[update_check._CHANGES].endswith("/CHANGELOG.md")


class TestPackages:
    @pytest.fixture
    def project(self, tmp_path):
        """A small one, in git."""
        folder = tmp_path / "small"
        folder.mkdir()
        (folder / "pyproject.toml").write_text(
            '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
            '[project]\nname = "small"\nversion = "1.0"\n[tool.setuptools]\npy-modules = ["small"]\n'
        )
        (folder / "small.py").write_text("x = 1\n")
        when = {
            "GIT_AUTHOR_DATE": "2027-01-01T00:00:00Z",
            "GIT_COMMITTER_DATE": "2027-01-01T00:00:00Z",
            "PATH": "/usr/bin:/bin",
        }
        for words in (
            ["init", "-q"],
            ["add", "."],
            ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "x"],
        ):
            subprocess.run(["git", *words], cwd=folder, check=True, env=when)
        (folder / "not-in-git.py").write_text("y = 1\n")
        return folder

    def test_they_are_the_same_each_time(self, project, tmp_path):
        """Built later, they have the same bytes: all their times are that of the commit."""
        first = release.build(tmp_path / "a", project, isolated=False)
        second = release.build(tmp_path / "b", project, isolated=False)
        assert [path.suffix for path in first] == [".whl", ".gz"]
        assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
        stamp = 1798761600
        with tarfile.open(first[1]) as archive:
            assert {member.mtime for member in archive.getmembers()} == {stamp}
            assert not any("not-in-git" in name for name in archive.getnames())
        with zipfile.ZipFile(first[0]) as wheel:
            assert {info.date_time for info in wheel.infolist()} == {time.gmtime(stamp)[:6]}

    def test_a_difference_is_named(self, project, tmp_path, monkeypatch):
        """Then nothing is left in the folder."""
        contents = iter([b"one", b"two"])

        def built(source, target, time, isolated):
            target.mkdir()
            (target / "small.whl").write_bytes(next(contents))
            return [target / "small.whl"]

        monkeypatch.setattr(release, "_build_once", built)
        with pytest.raises(SystemExit, match=r"two builds differ: small.whl"):
            release.build(tmp_path / "a", project)
        assert not (tmp_path / "a").exists()


class TestWorkflow:
    def test_every_action_is_pinned(self):
        """By commit, with its version beside it: a tag can be moved."""
        uses = re.findall(r"uses: (.*)", WORKFLOW)
        assert uses and all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", one) for one in uses)

    def test_a_tag_starts_it_and_everything_is_checked_first(self):
        """Nothing is published before the whole of `.ci/run` has passed."""
        assert 'tags: ["v*"]' in WORKFLOW and "bash .ci/run" in WORKFLOW
        assert re.findall(r"needs: \[(.*)\]", WORKFLOW) == ["check, build", "check, build", "package, image"]

    def test_no_secret_is_kept(self):
        """The index and the signature know the workflow by its identity; GitHub's own token is made for each run."""
        assert set(re.findall(r"secrets\.(\w+)", WORKFLOW)) == {"GITHUB_TOKEN"}
        assert WORKFLOW.count("id-token: write") == 2

    def test_the_image(self):
        """For two kinds of processor, with what is in it, signed."""
        assert (
            "linux/amd64,linux/arm64" in WORKFLOW
            and "sbom: true" in WORKFLOW
            and "cosign sign --yes" in WORKFLOW
        )
        for pattern in ("{{version}}", "{{major}}.{{minor}}", "{{major}}"):
            assert f"pattern={pattern}\n" in WORKFLOW
