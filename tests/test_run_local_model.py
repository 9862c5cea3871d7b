"""The launcher of the real model, as far as it goes without one."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import pytest

import run_local_model


@pytest.fixture
def busy_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_a_second_start_says_one_sentence(busy_port, monkeypatch, capsys):
    """And loads nothing."""
    monkeypatch.setattr(run_local_model, "PORT", busy_port)
    assert run_local_model.main([]) == 1
    printed = capsys.readouterr()
    assert (
        printed.err
        == f"port {busy_port}, which the local model needs, is in use; is the local model already running?\n"
    )
    assert printed.out == ""


def test_a_port_is_free_again_after_its_server(busy_port):
    """Taken while somebody listens."""
    assert not run_local_model.port_is_free(busy_port)
    assert run_local_model.port_is_free(0)


@pytest.mark.parametrize("found", [None, SimpleNamespace(submodule_search_locations=None)])
def test_a_missing_extra_is_told_with_its_command(monkeypatch, found):
    """Instead of an import error."""
    monkeypatch.setattr(run_local_model.importlib.util, "find_spec", lambda name: found)
    with pytest.raises(SystemExit, match=r"pip install -e"):
        run_local_model.model_path()
