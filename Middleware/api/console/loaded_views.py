"""What the model servers have loaded, for the cards of the endpoints. Source: spec operate.md 5."""

from __future__ import annotations

from collections.abc import Iterator

from Middleware.api.console.endpoint_views import Reached, mask_endpoint, reachable_endpoints
from Middleware.api.console.view_contract import ApiRoute, Ask
from Middleware.common.errors import ConfigError
from Middleware.common.types import JsonObject
from Middleware.config.endpoints import EndpointConfig, load_endpoint
from Middleware.llmapis import loaded_now
from Middleware.services.loaded_models import AskedPlace


def loaded(ask: Ask) -> JsonObject:
    """GET `loaded`: `{"loaded": [{"user", "name", "places": [{"url", "server", "models", "slots"}]}]}`, of
    the endpoints whose servers say it. `slots`: `{"busy", "total"}` or null."""
    ask.words()
    found = [(one, endpoint) for one in _reached(ask) for endpoint in _endpoint_of(ask, one)]
    places = [AskedPlace(endpoint, url) for _, endpoint in found for url in endpoint.addresses]
    known = ask.hub.loaded.look(places, loaded_now.ask_server)
    ask.hub.tell_loaded(ask.hub.loaded.models())
    told = []
    for one, endpoint in found:
        here = [
            {
                "url": mask_endpoint(ask, endpoint)(url),
                "server": state.server,
                "models": list(state.models),
                "slots": None if state.slots is None else {"busy": state.slots[0], "total": state.slots[1]},
            }
            for url in endpoint.addresses
            if (state := known.get(AskedPlace(endpoint, url).key)) is not None
        ]
        if here:
            told.append({"user": one.user.name, "name": one.name, "places": here})
    return {"loaded": told}


def _reached(ask: Ask) -> Iterator[Reached]:
    snapshot = ask.hub.snapshot()
    for name in ask.hub.served_users():
        yield from reachable_endpoints(snapshot, name)


def _endpoint_of(ask: Ask, one: Reached) -> Iterator[EndpointConfig]:
    """None of a file that cannot be read: its card says so."""
    try:
        yield load_endpoint(ask.hub.snapshot(), one.user, one.name)
    except ConfigError:
        return


LOADED_ROUTES = (ApiRoute("GET", "loaded", "look", loaded),)
