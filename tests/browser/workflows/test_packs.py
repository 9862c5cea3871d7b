"""Packs on the page of workflows: made, looked at and unpacked (workbench.md 17)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from Middleware.services.pack_archive import Pack, PackNeeds, pack_bytes, read_pack
from tests.browser.conftest import violations
from tests.browser.workflows.workflow_tree import ADDRESS
from tests.e2e.conftest import HOUSE
from tests.patience import PATIENCE_S


@pytest.fixture
def page(server, file, tab):
    opened = tab(server, ADDRESS, bypass_csp=False)
    opened.get_by_role("button", name="Unpack").wait_for()
    return opened


def by_command(server, tmp_path, name) -> bytes:
    """What `--pack` writes."""
    target = tmp_path / "by-command.zip"
    command = [
        sys.executable,
        "server.py",
        "--PublicDirectory",
        str(server.public),
        "--pack",
        name,
        str(target),
    ]
    subprocess.run(command, cwd=HOUSE, check=True, timeout=PATIENCE_S, stdout=subprocess.DEVNULL)
    return target.read_bytes()


def downloaded(page, name, tmp_path) -> Path:
    """The pack of what is chosen in the form."""
    page.get_by_role("button", name="Pack", exact=True).click()
    page.get_by_label("What").select_option(name)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    target = tmp_path / download.value.suggested_filename
    download.value.save_as(target)
    return target


def test_a_pack_is_downloaded(page, server, tmp_path):
    """The bytes of the command, under its name; the page says so."""
    target = downloaded(page, "mira", tmp_path)
    assert target.name == "mira.pack.zip"
    assert target.read_bytes() == by_command(server, tmp_path, "mira")
    page.get_by_role("status").get_by_text("Downloaded mira.pack.zip.").wait_for()
    page.get_by_role("button", name="Close").click()
    page.wait_for_selector(".cm-line")


def test_a_workflow_alone_is_packed(page, server, tmp_path):
    target = downloaded(page, "mira:Reviewers", tmp_path)
    assert (target.name, read_pack(target).name) == ("mira-Reviewers.pack.zip", "mira:Reviewers")


def test_a_pack_is_looked_at_and_unpacked(page, server, tmp_path):
    """What is in the way is named; with a prefix it becomes a user beside, which `--validate` knows."""
    target = downloaded(page, "mira:Reviewers", tmp_path)
    page.get_by_role("button", name="Unpack").click()
    page.get_by_label("Pack", exact=True).set_input_files(target)
    page.get_by_text("Endpoint for ").first.wait_for()
    users = server.public / "Configs" / "Users"
    before = sorted(users.iterdir())
    page.get_by_label("Prefix").fill("new-")
    page.get_by_label("Prefix").press("Tab")
    page.get_by_text("as user new-mira").wait_for()
    assert sorted(users.iterdir()) == before
    page.locator("form").get_by_role("button", name="Unpack").click()
    page.get_by_text("To use it, start the server with").wait_for()
    assert sorted(users.iterdir()) == sorted([*before, users / "new-mira.json"])
    command = [sys.executable, "server.py", "--PublicDirectory", str(server.public), "--validate"]
    told = subprocess.run(
        command, cwd=HOUSE, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    ).stdout
    assert "new-mira" not in "".join(line for line in told.splitlines(keepends=True) if ": error" in line)


def test_what_runs_programs_is_for_the_command(page, looking, tmp_path):
    """The program is named, and the button stays closed."""
    looking.expected.append("422")
    files = {
        "config/Users/eve.json": b'{"customWorkflowOverride": true, "customWorkflow": "M"}',
        "config/Workflows/eve/M.json": b'[{"type": "CurlCommand", "command": "curl x"}]',
    }
    target = tmp_path / "eve.pack.zip"
    target.write_bytes(pack_bytes(Pack("eve", "eve", "1.0.0", PackNeeds(), files)))
    page.get_by_role("button", name="Unpack").click()
    page.get_by_label("Pack", exact=True).set_input_files(target)
    alert = page.get_by_role("alert")
    alert.get_by_text("this pack runs programs").wait_for()
    alert.get_by_text("Workflows/eve/M.json, node 1: curl").wait_for()
    assert page.locator("form").get_by_role("button", name="Unpack").is_disabled()


@pytest.mark.parametrize("name", ["Pack", "Unpack"])
def test_axe_finds_nothing(server, file, tab, name):
    """In both forms."""
    page = tab(server, ADDRESS, bypass_csp=True)
    page.get_by_role("button", name=name, exact=True).click()
    page.locator(f"form[aria-label={name}]").wait_for()
    assert violations(page) == []
