"""No secret of any config file in any answer of the routes for files, and none lost by saving. Spec 2.6, 17.2 row 2."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from Middleware.common.secrets import SECRET_KEYS
from Middleware.utilities.config_masks import restore_secrets, shown_text
from tests.api.console.config_house import House
from tests.api.console.config_house import house as house

TEXTS = 1000
TREES = 60
"""By the routes; each costs a third of a second."""
ENDPOINT, WORKFLOW, SERVER = "Endpoints/Big.json", "Workflows/mira/Main.json", "MCPServers/tools.json"
MARK = "hidden"
HEADERS = ["Authorization", "X-Api-Key", "Cookie", "x-auth-token", "My-Secret"]
PLAIN = ["X-Team", "Accept", "User-Agent"]


class Tree:
    """One random tree: its files, as texts. Every secret in it begins with `hidden`."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._count = 0

    def files(self) -> dict[str, str]:
        return {
            ENDPOINT: self._text(self._endpoint()),
            WORKFLOW: self._text(self._workflow()),
            SERVER: self._text(self._server()),
        }

    def _secret(self) -> str:
        self._count += 1
        tail = "".join(self._chance.choices('abcXYZ019_-.!\u00e9\\"\u2028', k=self._chance.randint(0, 12)))
        return f"{MARK}{self._count}{tail}"

    def _url(self) -> str:
        password = f"{MARK}{self._chance.randint(1, 999)}%2F"
        return self._chance.choice(["http", "https"]) + f"://me:{password}@h{self._chance.randint(1, 9)}:1/x"

    def _word(self) -> str:
        """A secret without blanks and quotes, as it stands in a longer text."""
        self._count += 1
        return f"{MARK}{self._count}" + "".join(
            self._chance.choices("abcXYZ019_-.!;,#é", k=self._chance.randint(0, 12))
        )

    def _text_with_secrets(self) -> str:
        """A longer text of one of the forms in which people write them."""
        return self._chance.choice(
            [
                f"Authorization: Bearer {self._word()}",
                f"Accept: a\nX-Api-Key: {self._word()}\nCookie: a={self._word()}; b={self._word()}",
                f'curl --header "X-Api-Key: {self._word()}" -H "Authorization: Basic {self._word()}" {self._url()}',
                f"run --api-key {self._word()} --token={self._word()} -v",
                f"GITHUB_TOKEN={self._word()} run",
                json.dumps({"apiKey": self._word(), "headers": {"Authorization": f"Bearer {self._word()}"}}),
                json.dumps({"password": self._word(), "note": "x"}, indent=1),
                f"GET https://h/v1?a=1&api_key={MARK}{self._chance.randint(1, 999)}&b=2",
                f"/v1/models?token={MARK}7#x",
                f"a=b&client_secret={MARK}8&c=d",
                f"then use sk-{MARK}{self._chance.randint(100000, 999999)}abc there",
            ]
        )

    def _secrets(self, depth: int = 0) -> dict[str, Any]:
        """An object with some secret keys, perhaps deep inside, among others."""
        made: dict[str, Any] = {}
        for _ in range(self._chance.randint(0, 2)):
            key = self._chance.choice(sorted(SECRET_KEYS))
            key = self._chance.choice([key, key.upper(), key.title()])
            made[key] = self._chance.choice([self._secret(), [self._secret()], {"a": self._secret()}])
        made[self._chance.choice(["note", "max", "\u00fc"])] = self._chance.choice(
            [1, None, "text", "***", True]
        )
        if depth < 3 and self._chance.random() < 0.6:
            inner: Any = self._secrets(depth + 1)
            made[f"inner{depth}"] = self._chance.choice([inner, [inner, 5]])
        return made

    def _headers(self) -> dict[str, str]:
        made = {name: self._secret() for name in self._chance.sample(HEADERS, self._chance.randint(0, 3))}
        made |= {name: "shown" for name in self._chance.sample(PLAIN, self._chance.randint(0, 2))}
        return dict(self._chance.sample(sorted(made.items()), len(made)))

    def _endpoint(self) -> dict[str, Any]:
        headers = {**self._headers(), "X-Env": "${ENV:HEADRACE_TEST_TEAM}"}
        return {
            "endpoint": self._url(),
            "apiTypeConfigFileName": "Chat",
            "apiKey": self._secret(),
            "extraHeaders": headers,
            **self._secrets(),
        }

    def _workflow(self) -> list[dict[str, Any]]:
        fetch = {"type": "WebFetch", "url": self._url(), "headers": self._headers(), **self._secrets()}
        curl = {"type": "CurlCommand", "args": ["-H", f"Authorization: Bearer {self._secret()}", self._url()]}
        ask = {"type": "Standard", "endpointName": "Big", "prompt": f"see {self._url()}", **self._secrets()}
        said = {
            "type": "StaticResponse",
            "content": self._text_with_secrets(),
            "title": self._text_with_secrets(),
        }
        unread = {"args": self._text_with_secrets(), "headers": self._text_with_secrets()}
        run = {"type": "StaticResponse", "content": "x", **unread}
        literal = {"type": "StaticResponse", "content": "***"}
        return self._chance.sample([fetch, curl, ask, literal, said, run], 6)

    def _server(self) -> dict[str, Any]:
        env = {"GITHUB_TOKEN": self._secret(), "HOME": "/home/mira"}
        args = ["--port", "5", "--token", self._secret(), f"--api-key={MARK}7"]
        return {"transport": "stdio", "command": "x", "args": args, "env": env, **self._secrets()}

    def _text(self, document: Any) -> str:
        """Written in one of the ways of people."""
        text = json.dumps(
            document, indent=self._chance.choice([None, 1, 4]), ensure_ascii=self._chance.random() < 0.5
        )
        if self._chance.random() < 0.5:
            text += f'\n// "apiKey": "{MARK}-of-old", mine\n'
        if self._chance.random() < 0.3:
            text = text.replace("\n", "\r\n")
        return text


def answers(house: House, files: dict[str, str]) -> Iterator[Any]:
    """What every route says of these files: looked at, checked, walked, refused, in conflict."""
    yield house.ask("GET", f"files/{ENDPOINT}")
    yield house.ask("GET", f"files/{SERVER}")
    told = house.ask("GET", f"workflows/{WORKFLOW}")
    yield told
    text = told[1]["text"]
    yield house.ask("POST", "check", body={"path": WORKFLOW, "text": text})
    yield house.ask("POST", "dry-run", body={"path": WORKFLOW, "user": "mira"})
    yield house.ask("POST", "dry-run", body={"path": WORKFLOW, "user": "mira", "text": text})
    yield house.save(ENDPOINT, "{}", version="")
    yield house.save(WORKFLOW, text, version="")
    yield house.save(ENDPOINT, files[ENDPOINT] + "]")
    yield house.save(WORKFLOW, files[WORKFLOW].replace('"type"', '"parallelGroup": 5, "type"', 1))


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """What a header takes from the environment is a secret."""
    monkeypatch.setenv("HEADRACE_TEST_TEAM", f"{MARK}-of-the-environment")


def test_no_text_shows_a_secret_or_loses_one():
    """Whatever the files hold and however they are written; a change elsewhere changes no secret either."""
    for seed in range(TEXTS):
        text = list(Tree(seed).files().values())[seed % 3]
        shown = shown_text(text)
        assert MARK not in shown, (seed, text)
        assert restore_secrets(shown, text) == (text, [])
        assert restore_secrets(f"// new\n{shown}", text) == (f"// new\n{text}", [])


def test_no_answer_holds_a_secret(house):
    """Of no route, also where it refuses."""
    house.write("ApiTypes/Chat.json", {"type": "openAIChatCompletion"})
    for seed in range(TREES):
        files = Tree(seed).files()
        for file, text in files.items():
            house.write(file, text)
        told = list(answers(house, files))
        held = [(status, value) for status, value in told if MARK in json.dumps(value, ensure_ascii=False)]
        assert not held, (seed, files)
        assert [status for status, _ in told] == [200, 200, 200, 200, 200, 200, 409, 409, 422, 422]


def test_saving_what_was_shown_changes_no_byte(house):
    """Nor does saving it with a change elsewhere change a secret."""
    house.write("ApiTypes/Chat.json", {"type": "openAIChatCompletion"})
    for seed in range(TREES):
        for file, text in Tree(seed).files().items():
            raw = house.write(file, text)
            route = "workflows" if file == WORKFLOW else "files"
            shown = house.ask("GET", f"{route}/{file}")[1]["text"]
            if file == SERVER:
                continue
            assert (house.save(file, shown)[0], house.bytes_of(file)) == (200, raw), seed
            assert house.save(file, f"// new\n{shown}")[0] == 200
            ends = b"\r\n" if raw.count(b"\r\n") * 2 > raw.count(b"\n") else b"\n"
            assert house.bytes_of(file) == b"// new" + ends + raw, seed
