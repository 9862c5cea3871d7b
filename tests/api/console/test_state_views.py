"""What the console shows of the server itself (spec console.md 6.1)."""

from __future__ import annotations

import os

import pytest

from Middleware.api.console.events import state_of
from Middleware.api.console.recorder import Recorder
from Middleware.common.constants import VERSION
from Middleware.services.run_trace import Observers
from tests.api.console.conftest import a_hub


class TestRoute:
    def test_it_tells_of_the_server_and_of_what_the_reader_may_do(self, ask):
        """The shape of 6.1."""
        status, value = ask("GET", "state")
        assert status == 200
        assert value == {
            "version": VERSION,
            "mode": "view",
            "rights": ["look", "act"],
            "pid": os.getpid(),
            "processes": 1,
            "started": 1759990000,
            "users": ["mira"],
            "gate": {"level": "request", "limit": 1, "running": 0, "waiting": 0},
            "kept": {"runs": 0, "bytes": 0, "limit": 16777216, "odd": 0, "pinned": 0},
            "failing": 0,
            "seq": 0,
        }

    def test_its_keys_stand_in_their_order(self, ask):
        assert list(ask("GET", "state")[1]) == [
            *("version", "mode", "rights", "pid", "processes"),
            *("started", "users", "gate", "kept", "failing", "seq"),
        ]

    def test_it_knows_no_words(self, ask):
        """A query with a name that a route does not know is refused."""
        assert ask("GET", "state", query="colour=red") == (
            400,
            {"error": '"colour" is not part of this query, allowed: none'},
        )

    def test_who_may_not_look_is_told_nothing(self, ask):
        status, value = ask("GET", "state", rights=())
        assert (status, value["need"]) == (403, "look")
        assert list(value) == ["error", "need"]


class TestState:
    @pytest.mark.parametrize("rights", [("look",), ("look", "act", "save")])
    def test_rights_are_those_of_the_reader(self, rights):
        """Whatever the mode of the server."""
        assert state_of(a_hub(mode="edit"), rights)["rights"] == list(rights)

    def test_it_is_as_things_are_now(self):
        """Users, gate and what is kept are asked for at each look."""
        recorder, users = Recorder(memory_mb=1), ["mira"]
        gate = {"level": "request", "limit": 2, "running": 0, "waiting": 0}
        hub = a_hub(recorder=recorder, served_users=lambda: users, gate=lambda: gate)
        before = state_of(hub, ("look",))
        observers = Observers()
        observers.observe(recorder)
        run = observers.begin("r1", "/api/chat")
        run.keeps_text, run.asked = True, b"12345"
        run.end("done")
        users, gate = ["mira", "jo"], {**gate, "running": 1}
        after = state_of(hub, ("look",))
        assert [told["users"] for told in (before, after)] == [["mira"], ["mira", "jo"]]
        assert [told["gate"]["running"] for told in (before, after)] == [0, 1]
        assert [told["kept"] for told in (before, after)] == [
            {"runs": 0, "bytes": 0, "limit": 1 << 20, "odd": 0, "pinned": 0},
            {"runs": 1, "bytes": 5, "limit": 1 << 20, "odd": 0, "pinned": 0},
        ]
        assert [told["seq"] for told in (before, after)] == [0, 2]

    def test_one_process_of_several(self):
        """The page says which one it sees."""
        told = state_of(a_hub(processes=4), ("look",))
        assert (told["pid"], told["processes"]) == (os.getpid(), 4)
