"""A server with a keys file, and how it is asked: each key is told from its name."""

from __future__ import annotations

import http.client
import json

from Middleware.config.key_file import digest_of
from tests.patience import PATIENCE_S


def secret(name):
    return f"secret key of {name}"


def entry(name, users=("ann",), **more):
    return {"name": name, "sha256": digest_of(secret(name)), "users": list(users), **more}


def write_keys(file, *entries):
    """In place, as an editor does it."""
    file.write_text(json.dumps({"keys": entries}))
    file.chmod(0o600)


class Doors:
    """A server with a keys file."""

    def __init__(self, server, file):
        self.server, self.file = server, file

    def ask(self, method, path, key=None, body=None, headers=None, timeout_s=PATIENCE_S):
        """Status, headers (names in lower case) and body of one request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=timeout_s)
        sent = {"Content-Type": "application/json", **(headers or {})}
        if key is not None:
            sent["Authorization"] = f"Bearer {key}"
        try:
            connection.request(method, path, None if body is None else json.dumps(body), sent)
            answer = connection.getresponse()
            named = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, named, answer.read()
        finally:
            connection.close()

    def status(self, key):
        return self.ask("GET", "/v1/models", key)[0]
