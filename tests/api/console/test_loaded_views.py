"""What the model servers have loaded, for the cards of the endpoints."""

from __future__ import annotations

import pytest

from Middleware.api.console.loaded_views import LOADED_ROUTES
from Middleware.llmapis import loaded_now
from Middleware.services.loaded_models import Loaded
from tests.api.console.conftest import a_hub
from tests.api.console.test_endpoint_views import House

KEY = "sk-abcdefghijklmnop"


@pytest.fixture
def said():
    """Address -> what is loaded there."""
    return {}


@pytest.fixture
def told():
    """What the numbers were told."""
    return []


@pytest.fixture
def get(tmp_path, ask, said, told, monkeypatch):
    """`get()`: the answer to GET `loaded`, and the house that it is about."""
    house = House(tmp_path / "Configs", ask, "http://one:1")
    hub = a_hub(snapshot=house.hub.snapshot, served_users=lambda: house.users, tell_loaded=told.append)
    monkeypatch.setattr(loaded_now, "ask_server", lambda endpoint, url: said.get(url))

    def loaded():
        status, value = ask("GET", "loaded", hub=hub, routes=LOADED_ROUTES)
        assert status == 200
        return value["loaded"]

    loaded.house = house
    return loaded


def test_an_endpoint(get, said, told):
    """Program, models, slots; the numbers are told, too."""
    said["http://one:1"] = Loaded("llama.cpp", ("big",), (1, 2))
    assert get() == [
        {
            "user": "mira",
            "name": "Big",
            "places": [
                {
                    "url": "http://one:1",
                    "server": "llama.cpp",
                    "models": ["big"],
                    "slots": {"busy": 1, "total": 2},
                }
            ],
        }
    ]
    assert told == [[("Big", "big")]]


def test_a_server_that_says_nothing(get, told):
    """Its card has no such line."""
    assert get() == []
    assert told == [[]]


def test_several_addresses(get, said):
    """Each by itself, those that say nothing left out."""
    get.house.endpoint("Big", endpoint="http://one:1", moreEndpoints=["http://two:2", "http://three:3"])
    said["http://one:1"] = said["http://three:3"] = Loaded("Ollama", ("m",))
    [one] = get()
    assert [place["url"] for place in one["places"]] == ["http://one:1", "http://three:3"]


def test_a_secret_in_an_address(get, said):
    """Is not shown."""
    url = f"http://u:{KEY}@one:1"
    get.house.endpoint("Big", endpoint=url)
    said[url] = Loaded("Ollama", ("m",))
    assert KEY not in str(get())


def test_a_file_that_cannot_be_read(get):
    """The others are told all the same."""
    get.house.write("Endpoints/Big", {"endpoint": 5})
    assert get() == []
