"""What a start says of discussions. Source: spec memory.md 18.6 (4), 18.8."""

from __future__ import annotations

import logging
from pathlib import Path

from Middleware.api.serving import startup as memory_notes
from Middleware.config.users import UserSettings


def test_an_ordinary_user_hears_nothing(caplog, tmp_path):
    caplog.set_level(logging.INFO)
    memory_notes.tell_of_memories(UserSettings("ana"), tmp_path)
    assert caplog.text == ""


def test_the_database_of_an_encrypting_user_is_plain(caplog, tmp_path):
    caplog.set_level(logging.INFO)
    memory_notes.tell_of_memories(UserSettings("ana", encrypt_using_api_key=True), tmp_path)
    assert "user ana: encryptUsingApiKey does not encrypt vector memories" in caplog.text


def test_a_network_file_system_is_named(caplog, monkeypatch):
    monkeypatch.setattr(memory_notes, "network_file_system", lambda root: "nfs4")
    memory_notes.tell_of_memories(UserSettings("ana"), Path("/srv/talks"))
    assert "/srv/talks is on a network file system (nfs4)" in caplog.text
