"""Which view a request reaches, and what becomes of its answer."""

from __future__ import annotations

import pytest

from Middleware.api.console.view_contract import ApiRoute, Reply, ViewRefused
from Middleware.api.console.views import Views
from Middleware.common.errors import NotFound
from tests.api.console.conftest import a_hub, asking


def echo(ask, **parts):
    return parts


def fail(ask):
    raise KeyError("nothing a reader should see")


def refuse(ask):
    raise ViewRefused(409, "it was changed", {"X-A": "1"}, version="v")


def miss(ask):
    raise NotFound("no such user")


ROUTES = (
    ApiRoute("GET", "runs/<run_id>", "look", echo),
    ApiRoute("POST", "runs/<run_id>/cancel", "act", echo),
    ApiRoute("GET", "workflows/<path:path>", "look", echo),
    ApiRoute("PUT", "workflows/<path:path>", "save", echo),
    ApiRoute("GET", "fail", "look", fail),
    ApiRoute("GET", "refuse", "look", refuse),
    ApiRoute("GET", "miss", "look", miss),
    ApiRoute("GET", "made", "look", lambda ask: Reply({"made": True}, 201)),
)


class TestRouting:
    @pytest.mark.parametrize(
        ("method", "path", "parts"),
        [
            ("GET", "runs/5b1e", {"run_id": "5b1e"}),
            ("HEAD", "runs/5b1e", {"run_id": "5b1e"}),
            ("POST", "runs/5b1e/cancel", {"run_id": "5b1e"}),
            ("GET", "workflows/Workflows/mira/Größe.json", {"path": "Workflows/mira/Größe.json"}),
            ("GET", "workflows//etc/passwd", {"path": "/etc/passwd"}),
            ("GET", "workflows/Workflows/mira/a.json/", {"path": "Workflows/mira/a.json/"}),
        ],
    )
    def test_a_view_gets_the_parts_of_its_path(self, ask, method, path, parts):
        """A path below a folder reaches its view as it is: the view says what is a file."""
        assert ask(method, path, routes=ROUTES) == (200, parts)

    @pytest.mark.parametrize("path", ["", "run", "runs/", "runs/a/b", "state/", "api/state"])
    def test_what_no_route_serves_is_404(self, ask, path):
        """One sentence for all."""
        assert ask("GET", path) == (404, {"error": "no such route"})

    @pytest.mark.parametrize(
        "path", ["workflows/", "workflows/Workflows/a\nb.json", "files/"], ids=["folder", "line", "files"]
    )
    def test_what_may_be_a_file_is_told_as_none(self, ask, path):
        """The same answer as for a file that is not there."""
        assert ask("GET", path, routes=ROUTES) == (404, {"error": "no such file"})

    def test_another_method_is_told_what_is_allowed(self):
        """405 with the methods of the path."""
        reply = Views(a_hub(), ROUTES).answer(asking("DELETE", "runs/a"), ("look",))
        assert (reply.status, reply.headers) == (405, {"Allow": "GET, HEAD"})

    @pytest.mark.parametrize("coded", ["%2F", "%2f", "%5C", "%00"])
    @pytest.mark.parametrize("name", ["REQUEST_URI", "RAW_URI"])
    def test_a_part_hides_no_slash(self, name, coded):
        """The address as it was sent is looked at, where the server tells it."""
        environ = asking("GET", "workflows/Workflows/mira/a.json")
        environ[name] = f"/console/api/workflows/Workflows/mira{coded}a.json?x=%2F"
        reply = Views(a_hub(), ROUTES).answer(environ, ("look",))
        assert (reply.status, reply.value) == (404, {"error": "no such file"})

    def test_a_path_is_utf_8(self):
        """Bytes that are none name nothing."""
        environ = {**asking("GET", ""), "PATH_INFO": "/console/api/workflows/Workflows/\xff.json"}
        reply = Views(a_hub(), ROUTES).answer(environ, ("look",))
        assert (reply.status, reply.value) == (404, {"error": "no such file"})


class TestRights:
    @pytest.mark.parametrize(
        ("rights", "method", "path", "need"),
        [
            ((), "GET", "runs/a", "look"),
            (("look",), "POST", "runs/a/cancel", "act"),
            (("look", "act"), "PUT", "workflows/Workflows/a.json", "save"),
        ],
    )
    def test_without_the_right_no_view_is_asked(self, ask, rights, method, path, need):
        """403 names the right that is needed, and the argument that gives it."""
        status, value = ask(method, path, routes=ROUTES, rights=rights)
        assert (status, value["need"]) == (403, need)
        assert "--console" in value["error"]


class TestAnswers:
    def test_a_view_may_say_the_status(self, ask):
        """A Reply is taken as it is."""
        assert ask("GET", "made", routes=ROUTES) == (201, {"made": True})

    def test_a_refusal_has_its_status_and_fields(self):
        """The sentence stands in `error`, the fields beside it."""
        reply = Views(a_hub(), ROUTES).answer(asking("GET", "refuse"), ("look",))
        assert (reply.status, dict(reply.headers)) == (409, {"X-A": "1"})
        assert reply.value == {"error": "it was changed", "version": "v"}

    def test_an_error_of_ours_has_its_status(self, ask):
        """`status_hint` of the error tree."""
        assert ask("GET", "miss", routes=ROUTES) == (404, {"error": "no such user"})

    def test_a_failure_is_logged_and_told_by_its_kind(self, ask, caplog):
        """A reader sees no text of it."""
        status, value = ask("GET", "fail", routes=ROUTES)
        assert (status, value) == (
            500,
            {"error": "internal error (KeyError); see the server's log for details"},
        )
        assert "the console failed: /console/api/fail" in caplog.text
