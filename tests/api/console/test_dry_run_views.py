"""A dry run over its route: what would be sent, of the saved file or of a text."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.api.console.config_house import house as house

MAIN = "Workflows/mira/Main.json"
NODE = {
    "title": "Answer",
    "type": "Standard",
    "endpointName": "Big",
    "prompt": "say {chat_user_prompt_last_one}",
}
KEYS = (
    "workflow",
    "number",
    "type",
    "title",
    "depth",
    "answers",
    "fields",
    "variables",
    "sent",
    "notes",
    "output",
)


def walk(house, rights=("look", "act", "save"), **fields):
    """(status, value) of a dry run of `Main`."""
    return house.ask("POST", "dry-run", body={"path": MAIN, "user": "mira", **fields}, rights=rights)


@pytest.fixture(autouse=True)
def tree(house):
    """Main says what the user says, to an endpoint with keys."""
    house.write("ApiTypes/Chat.json", {"type": "openAIChatCompletion"})
    house.write(
        "Endpoints/Big.json",
        {
            "endpoint": "http://u:pw123456@model.test/x",
            "apiTypeConfigFileName": "Chat",
            "modelNameToSendToAPI": "big",
            "apiKey": "key-1234567890",
            "extraHeaders": {"X-Team": "a", "X-Auth": "hidden-77"},
        },
    )
    house.write(MAIN, [NODE])


class TestWalk:
    def test_each_node_says_what_it_would_send(self, house):
        """The fields of a walked node, with URL, headers and body; keys are masked."""
        status, told = walk(house, rights=("look", "act"))
        (node,) = told["nodes"]
        assert (status, told["error"], tuple(node)) == (200, None, KEYS)
        assert (node["workflow"], node["number"], node["title"], node["answers"]) == (MAIN, 1, "Answer", True)
        assert node["fields"]["prompt"] == "say Hello"
        (sent,) = node["sent"]
        assert sent["url"] == "http://u:***@model.test/x/v1/chat/completions"
        assert (sent["headers"]["X-Team"], sent["headers"]["X-Auth"]) == ("a", "***")
        assert sent["body"]["messages"][-1] == {"role": "user", "content": "say Hello"}
        assert sent["body"]["model"] == "big"

    def test_messages_and_stub_can_be_given(self, house):
        """The conversation, and what each model says."""
        house.write(MAIN, [NODE, {**NODE, "prompt": "[{agent1Output}]"}])
        told = walk(house, messages=[{"role": "user", "content": "Ho"}], stub="S")[1]
        assert [node["fields"]["prompt"] for node in told["nodes"]] == ["say Ho", "[S]"]

    def test_no_secret_is_in_the_answer(self, house):
        """Wherever it stands: a field, a prompt, an output, a note."""
        secret = "key-1234567890"
        nodes = [
            {"type": "StaticResponse", "content": secret, "headers": {"X-Api-Key": "hidden-88"}},
            {"type": "WebFetch", "url": "http://u:pw123456@h/x", "token": "hidden-99"},
            {**NODE, "prompt": f"see {secret}"},
        ]
        house.write(MAIN, nodes)
        text = json.dumps(walk(house, stub=secret)[1])
        assert not [word for word in (secret, "pw123456", "hidden") if word in text]

    def test_keys_of_the_server_are_not_in_it_either(self, house):
        """The console's own, and those of clients."""
        house.hub = replace(house.hub, secrets=("console-key-1",))
        text = json.dumps(walk(house, messages=[{"role": "user", "content": "console-key-1"}])[1])
        assert "console-key-1" not in text and "say ***" in text

    def test_nothing_is_written(self, house, tmp_path):
        """The note says what would be."""
        file = tmp_path / "notes.txt"
        house.write(MAIN, [{"type": "SaveCustomFile", "filepath": str(file), "content": "c"}])
        before = sorted(tmp_path.rglob("*"))
        assert str(file) in walk(house)[1]["nodes"][0]["notes"][0]
        assert sorted(tmp_path.rglob("*")) == before

    def test_a_node_that_fails_ends_the_walk(self, house):
        """What was walked before is told, and the sentence."""
        house.write(MAIN, [NODE, {**NODE, "endpointName": "Nobody"}])
        status, told = walk(house)
        assert (status, [node["number"] for node in told["nodes"]]) == (200, [1])
        assert 'no endpoint "Nobody"' in told["error"]


class TestText:
    def test_a_text_that_is_not_saved_is_walked(self, house):
        """In place of the file's; the file stays, and with it what requests see."""
        text = json.dumps([{**NODE, "prompt": "draft"}])
        old = house.bytes_of(MAIN)
        status, told = walk(house, text=text)
        assert (status, told["nodes"][0]["fields"]["prompt"]) == (200, "draft")
        assert house.bytes_of(MAIN) == old and house.backups() == []
        assert house.hub.snapshot().read(MAIN) == [NODE]

    def test_it_is_walked_as_a_child_too(self, house):
        """Wherever the walk comes to the file."""
        house.write(MAIN, [{"type": "CustomWorkflow", "workflowName": "Child"}])
        house.write("Workflows/mira/Child.json", [NODE])
        body = {
            "path": "Workflows/mira/Child.json",
            "user": "mira",
            "text": json.dumps([{**NODE, "prompt": "draft"}]),
        }
        told = house.ask("POST", "dry-run", body=body)[1]
        assert told["nodes"][-1]["fields"]["prompt"] == "draft"

    def test_it_needs_the_right_to_save(self, house):
        """A text may name any file of this machine."""
        status, told = walk(house, text="[]", rights=("look", "act"))
        assert (status, told["need"]) == (403, "save")

    def test_a_text_with_errors_is_refused(self, house):
        """As saving it would be."""
        status, told = walk(house, text='[{"type": "Standard", "endpointName": 5}]')
        assert (status, [one["pointer"] for one in told["problems"]]) == (422, ["/0/endpointName"])

    def test_its_masks_stand_for_the_old_secrets(self, house):
        """It is the text that the page was shown."""
        house.write(MAIN, [{"type": "StaticResponse", "content": "x", "token": "old"}])
        assert walk(house, text='[{"type": "StaticResponse", "content": "y", "token": "***"}]')[0] == 200
        assert walk(house, text='[{"type": "StaticResponse", "content": "y", "auth": "***"}]')[0] == 422


class TestRefused:
    @pytest.mark.parametrize(
        ("fields", "status", "words"),
        [
            ({"user": "nobody"}, 400, 'user: found "nobody", allowed: mira'),
            ({"path": "Workflows/mira/None.json"}, 404, "no such file"),
            ({"path": "Users/mira.json"}, 404, "no such file"),
            ({"messages": [{"content": "x"}]}, 400, "messages[0] has no 'role'"),
            ({"messages": {}}, 400, "messages: found an object, allowed: a list or null"),
            ({"stub": 5}, 400, "stub: found 5, allowed: a string or null"),
            ({"stream": True}, 400, '"stream" is not a field of this body'),
        ],
    )
    def test_a_body_that_does_not_fit(self, house, fields, status, words):
        """With the field and what is allowed."""
        told = walk(house, **fields)
        assert told[0] == status and words in told[1]["error"]

    def test_it_needs_the_right_to_act(self, house):
        """Looking is not enough: it reads the files that the workflow names."""
        status, told = walk(house, rights=("look",))
        assert (status, told["need"]) == (403, "act")
