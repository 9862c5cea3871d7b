"""What model servers have loaded is asked when somebody looks, and not too often."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from Middleware.config.endpoints import EndpointConfig
from Middleware.services import loaded_models
from Middleware.services.loaded_models import EACH_S, AskedPlace, Loaded, LoadedModels
from tests.patience import PATIENCE_S


def place(url):
    raw = {"endpoint": url, "modelNameToSendToAPI": "m"}
    return AskedPlace(EndpointConfig("Big", raw, "Api", {"type": "ollamaApiChat"}, "Endpoints/Big.json"), url)


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


PLACE = place("http://127.0.0.1:8080")


class TestHowOften:
    def test_each_ten_seconds(self, clock):
        """In between, everybody who looks is told what is known."""
        asked = []

        def ask(endpoint, url):
            asked.append(clock.now)
            return Loaded("Ollama", (f"model {len(asked)}",))

        loaded = LoadedModels(clock)
        told = []
        for passed in (0.0, 9.9, 10.0):
            clock.now = 100.0 + passed
            told += loaded.look([PLACE], ask)[PLACE.key].models
        assert asked == [100.0, 110.0]
        assert told == ["model 1", "model 1", "model 2"]

    def test_a_slow_server(self, clock):
        """Nobody waits for it longer than for the others; it is not asked twice at once."""
        answers, tries = threading.Event(), []

        def ask(endpoint, url):
            tries.append(url)
            assert answers.wait(PATIENCE_S)
            return Loaded("Ollama", ("m",))

        loaded = LoadedModels(clock)
        assert loaded.look([PLACE], ask, wait_s=0.0) == {}
        clock.now += EACH_S
        assert loaded.look([PLACE], ask, wait_s=0.0) == {}
        answers.set()
        assert loaded.look([PLACE], ask)[PLACE.key].models == ("m",)
        assert tries == [PLACE.url]

    def test_three_seconds_for_all_of_them_together(self, clock, monkeypatch):
        """Unless whoever looks says else; threads of this work hold up no end of the process."""
        made = []

        class Slow(threading.Thread):
            def __init__(self, **facts):
                super().__init__(**facts)
                made.append(self)
                self.waited = []

            def start(self):
                pass

            def join(self, timeout=None):
                self.waited.append(timeout)
                clock.now += 2

        monkeypatch.setattr(loaded_models.threading, "Thread", Slow)
        LoadedModels(clock).look([place(f"http://127.0.0.1:{port}") for port in (1, 2, 3)], None)
        assert [one.waited for one in made] == [[3.0], [1.0], [0.0]]
        assert {(one.name, one.daemon) for one in made} == {("loaded models", True)}

    def test_what_is_loaded_now(self, clock):
        """By endpoint and model, without asking; what nobody looks at any more is gone."""

        def ask(endpoint, url):
            return Loaded("Ollama", (url[-4:],))

        other = place("http://127.0.0.1:9")
        loaded = LoadedModels(clock)
        assert loaded.models() == []
        loaded.look([PLACE, other], ask)
        assert loaded.models() == [("Big", ".1:9"), ("Big", "8080")]
        loaded.look([PLACE], ask)
        assert loaded.models() == [("Big", "8080")]

    def test_an_edited_endpoint_is_asked_as_it_is_now(self, clock):
        """With its new key, under its new name."""
        asked = []
        loaded = LoadedModels(clock)
        edited = AskedPlace(replace(PLACE.endpoint, name="Small"), PLACE.url)
        for one in (PLACE, edited):
            loaded.look([one], lambda endpoint, url: asked.append(endpoint.name))
            clock.now += EACH_S
        assert asked == ["Big", "Small"]
