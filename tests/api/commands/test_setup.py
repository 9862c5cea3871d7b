"""`--setup`: what is asked, what is written, and what people are told."""

from __future__ import annotations

import io
import json

import pytest

from Middleware.api.commands import setup
from Middleware.api.launch_arguments import parse
from Middleware.common.instance_global_variables import launch_facts, set_launch_facts
from Middleware.config.key_file import digest_of
from Middleware.llmapis.find_servers import FoundServer, ServerSearch
from Middleware.llmapis.found_endpoints import key_variable_of
from tests.api.commands.test_init import contents, ship

OLLAMA = FoundServer("http://127.0.0.1:9", "Ollama", "OllamaApiChat", "0.12.6", ("nomic-embed-text", "tiny"))
SERVICE = FoundServer(setup.SERVICE, "OpenAI-compatible server", "Open-AI-API", wants_key=True)
STRANGER = FoundServer("http://127.0.0.1:5000", "Headrace", "", "1.0.0")
DEFAULT = ""


class Terminal(io.StringIO):
    """Somebody who types these lines; None is Ctrl-C."""

    def __init__(self, lines):
        super().__init__()
        self.waiting = list(lines)

    def isatty(self):
        return True

    def readline(self, *size):
        line = self.waiting.pop(0) if self.waiting else None
        if line is None:
            raise KeyboardInterrupt
        return f"{line}\n"


class House:
    """Runs the command on a Public folder. `found`: servers of this machine; `asked`: hosts that were named.
    `at`: what a typed address is.
    """

    def __init__(self, public, capsys, monkeypatch):
        self.public, self.found, self.at, self.asked = public, [], [], []
        self._capsys, self._monkeypatch = capsys, monkeypatch
        monkeypatch.setattr(setup, "find_servers", self._find)
        monkeypatch.setattr(
            setup, "search_addresses", lambda urls: ServerSearch(tuple(self.at), tuple(urls), 0.0)
        )
        monkeypatch.setattr(setup, "CONTAINER_MARK", public / "no-container")
        monkeypatch.setattr(setup, "SPACING_S", 0.0)

    def _find(self, hosts):
        self.asked += hosts
        return ServerSearch(tuple(self.found), (), 0.0)

    def run(self, *lines, words=()):
        """Exit status, what was printed, and the command."""
        self._monkeypatch.setattr("sys.stdin", Terminal(lines))
        launch = parse(["--PublicDirectory", str(self.public), "--setup", *words])
        set_launch_facts(launch.facts)
        status = launch.command.run(launch.arguments)
        printed = self._capsys.readouterr()
        return status, printed.out + printed.err, launch.command

    def document(self, file):
        return json.loads((self.public / "Configs" / file).read_text("utf-8"))


@pytest.fixture
def house(tmp_path, capsys, monkeypatch):
    """Of a program that came out of a wheel: a clone may have endpoints of the developer's own."""
    before = launch_facts()
    ship(tmp_path / "site-packages", monkeypatch)
    yield House(tmp_path / "Public", capsys, monkeypatch)
    set_launch_facts(before)


class TestDefaults:
    def test_yes_takes_them_all(self, house):
        """No server: the demo model, and a user for plain chat."""
        status, told, command = house.run(words=["--yes"])
        assert status == 0 and "No model server answered." in told
        assert house.document("Endpoints/my-model/Main.json")["apiTypeConfigFileName"] == "BuiltInDemo"
        assert house.document("Users/assistant.json")["customWorkflow"] == "Chat"
        assert command.words_to_serve(["--setup"]) is None

    def test_empty_lines_do_the_same(self, house, tmp_path):
        """Somebody who presses Enter again and again."""
        house.run(words=["--yes"])
        wanted = contents(house.public)
        house.public = tmp_path / "second" / "Public"
        assert house.run(*[DEFAULT] * 5)[0] == 0
        assert contents(house.public) == wanted

    def test_it_can_be_repeated(self, house):
        """Each time one user more; nothing that is there changes."""
        house.run(words=["--yes"])
        before = contents(house.public)
        status, told, _ = house.run(words=["--yes"])
        after = contents(house.public)
        assert status == 0 and {name: after[name] for name in before} == before
        assert set(after) - set(before) == {
            "Configs/Users/assistant-2.json",
            "Configs/Workflows/assistant-2/Chat.json",
        }
        assert f"--PublicDirectory {house.public} --User assistant-2\n" in told

    def test_in_a_container_the_machine_around_it_is_asked(self, house, tmp_path, monkeypatch):
        """By default; elsewhere nobody is."""
        house.run(words=["--yes"])
        assert house.asked == []
        (tmp_path / "mark").touch()
        monkeypatch.setattr(setup, "CONTAINER_MARK", tmp_path / "mark")
        house.run(words=["--yes"])
        assert house.asked == ["host.docker.internal"]

    def test_in_a_container_that_machine_need_not_be_asked(self, house, tmp_path, monkeypatch):
        """`none` is nobody."""
        (tmp_path / "mark").touch()
        monkeypatch.setattr(setup, "CONTAINER_MARK", tmp_path / "mark")
        status, _, _ = house.run("none", *[DEFAULT] * 4)
        assert (status, house.asked) == (0, [])

    def test_without_a_terminal_it_needs_yes(self, house, monkeypatch):
        monkeypatch.setattr(Terminal, "isatty", lambda self: False)
        status, told, _ = house.run()
        assert status == 2 and "add --yes" in told and not house.public.exists()

    def test_several_users(self, house):
        status, told, _ = house.run(words=["--User", "a", "--User", "b"])
        assert status == 2 and "give --User once" in told


class TestServers:
    def test_a_found_server_is_taken(self, house):
        """Its first model that is no embeddings model; nobody listens there, and it is used all the same."""
        house.found = [OLLAMA, STRANGER]
        status, told, _ = house.run(words=["--yes"])
        assert status == 0 and "Ollama 0.12.6 at http://127.0.0.1:9: nomic-embed-text, tiny\n" in told
        assert "(another Headrace answers at http://127.0.0.1:5000)" in told
        endpoint = house.document("Endpoints/my-model/Main.json")
        assert (
            endpoint["endpoint"],
            endpoint["apiTypeConfigFileName"],
            endpoint["modelNameToSendToAPI"],
        ) == (
            "http://127.0.0.1:9",
            "OllamaApiChat",
            "tiny",
        )
        assert "cannot connect" in told and endpoint["maxContextTokenSize"] == 8192

    def test_its_models_can_be_picked(self, house):
        """By number or by name; a server that does not answer leads back to the choice."""
        house.found = [OLLAMA]
        status, _, _ = house.run("", "1", "1", "no", "1", "other", "yes", "", "", "")
        assert status == 0
        assert house.document("Endpoints/my-model/Main.json")["modelNameToSendToAPI"] == "other"

    def test_who_uses_it_already(self, house):
        """Examples to copy from do not count."""
        house.found = [OLLAMA]
        house.run(words=["--yes"])
        example = house.public / "Configs/Endpoints/my-model/Main.example.json"
        example.write_bytes((house.public / "Configs/Endpoints/my-model/Main.json").read_bytes())
        assert "tiny (used by Endpoints/my-model/Main.json)\n" in house.run(words=["--yes"])[1]

    def test_named_hosts(self, house):
        """What is no host is asked again."""
        status, told, _ = house.run("a b c d e", "box box:99", "", "", "", "")
        assert status == 0 and house.asked == ["box", "box:99"] and "at most 4 hosts" in told

    def test_a_long_list_of_models(self, house):
        """Its begin is shown; a number counts in all of it."""
        house.found = [
            FoundServer("http://127.0.0.1:9", "vLLM", "vLLM", "", tuple(f"m{i}" for i in range(999)))
        ]
        status, told, _ = house.run("", "1", "999", "yes", "", "", "")
        assert status == 0 and "  50  m49\n  ... and 949 more; you can type any name\n" in told
        assert house.document("Endpoints/my-model/Main.json")["modelNameToSendToAPI"] == "m998"

    def test_servers_are_asked_at_intervals(self, house, monkeypatch):
        """However quickly somebody types; the first time at once."""
        naps, now = [], [100.0]
        monkeypatch.setattr(setup, "SPACING_S", 5.0)
        monkeypatch.setattr(setup.time, "monotonic", lambda: now[0])
        monkeypatch.setattr(setup.time, "sleep", lambda seconds: naps.append(seconds))
        searches = setup._Searches()
        searches.find([])
        now[0] += 2.0
        searches.look_at("http://127.0.0.1:9")
        now[0] += 60.0
        searches.look_at("http://127.0.0.1:9")
        assert naps == [0.0, 3.0, 0.0]

    def test_koboldcpp_gets_a_template(self, house):
        """It takes one text."""
        house.found = [FoundServer("http://127.0.0.1:9", "KoboldCpp", "KoboldCpp")]
        assert house.run(words=["--yes"])[0] == 0
        assert house.document("Endpoints/my-model/Main.json")["promptTemplate"] == "chatml"


class TestKeys:
    def test_the_name_of_a_variable_is_written(self, house, monkeypatch):
        """That of the service, by default; that it is not set is told."""
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        house.at = [SERVICE]
        status, told, _ = house.run("", "2", "", "", "", "", "", "", "")
        endpoint = house.document("Endpoints/my-model/Main.json")
        assert (status, endpoint["apiKeyEnv"], "apiKey" in endpoint) == (0, "OPENAI_API_KEY", False)
        assert "OPENAI_API_KEY is not set now" in told and "maxContextTokenSize" not in endpoint

    @pytest.mark.parametrize(
        ("lines", "written"),
        [(["sk-abc", "no", "MY_KEY"], {"apiKeyEnv": "MY_KEY"}), (["sk-abc", "yes"], {"apiKey": "sk-abc"})],
        ids=["no", "yes"],
    )
    def test_a_key_itself_only_for_who_insists(self, house, lines, written):
        house.at = [FoundServer("http://127.0.0.1:9", "vLLM", "vLLM", wants_key=True)]
        status, told, _ = house.run("", "2", "http://127.0.0.1:9", "m", *lines, "yes", "", "", "")
        endpoint = house.document("Endpoints/my-model/Main.json")
        assert (
            status == 0
            and {name: endpoint[name] for name in endpoint if name.startswith("apiKey")} == written
        )
        assert "sk-abc" not in told

    @pytest.mark.parametrize(
        ("url", "name"),
        [
            ("https://openrouter.ai/api", "OPENROUTER_API_KEY"),
            ("http://10.0.0.7:8000", "MODEL_API_KEY"),
            ("http://box", "MODEL_API_KEY"),
            ("https://my-llm.example", "MY_LLM_API_KEY"),
        ],
    )
    def test_names_of_variables(self, url, name):
        assert key_variable_of(url) == name


class TestAddresses:
    def test_a_silent_server_is_given_a_type(self, house):
        """One that is there."""
        status, told, _ = house.run(
            "", "2", "box:9", "http://127.0.0.1:9", "Nonsense", "vLLM", "m", *[DEFAULT] * 4
        )
        assert status == 0 and "write the whole address" in told and "there are: BuiltInDemo" in told
        assert house.document("Endpoints/my-model/Main.json")["apiTypeConfigFileName"] == "vLLM"

    def test_another_headrace_is_none(self, house):
        house.at = [STRANGER]
        status, told, _ = house.run("", "2", "http://127.0.0.1:5000")
        assert status == 130 and "another Headrace, not a model server" in told


class TestUsers:
    def test_a_name_that_is_taken(self, house):
        house.run(words=["--yes"])
        status, told, _ = house.run("", "", "assistant", "demo", "mira", "", "")
        assert status == 0 and told.count("already") == 2 and house.document("Users/mira.json")

    def test_the_command_line_may_name_it(self, house):
        assert house.run(words=["--yes", "--User", "mira"])[0] == 0
        assert house.document("Users/_current-user.json") == {"currentUser": "mira"}
        status, told, _ = house.run(words=["--yes", "--User", "mira"])
        assert status == 1 and "already" in told and "nothing was written" in told

    @pytest.mark.parametrize("number", range(1, 6))
    def test_each_kind(self, house, tmp_path, monkeypatch, number):
        """Is written for the first one who asks, from any folder, and named in the user file."""
        monkeypatch.chdir(tmp_path)
        status, told, _ = house.run("", "", "mira", str(number), "")
        assert status == 0 and "error" not in told
        assert house.document("Users/mira.json")["description"].startswith("Made by --setup: ")


class TestStop:
    @pytest.mark.parametrize("lines", range(9))
    @pytest.mark.parametrize("is_new", [True, False], ids=["new", "there"])
    def test_ctrl_c_at_each_question_leaves_no_file(self, house, lines, is_new):
        """The last one is whether the server is to start."""
        if not is_new:
            house.run(words=["--yes"])
        house.at = [FoundServer("http://127.0.0.1:9", "vLLM", "vLLM", wants_key=True)]
        before = contents(house.public)
        answers = ["", "2", "http://127.0.0.1:9", "m", "A_KEY", "yes", "mira", "2", "no"]
        status, told, _ = house.run(*answers[:lines])
        assert status == 130 and told.endswith("stopped; nothing was written\n")
        assert contents(house.public) == before and house.public.exists() is not is_new

    def test_all_these_questions_were_reached(self, house):
        """With the last answer the files are there."""
        house.at = [FoundServer("http://127.0.0.1:9", "vLLM", "vLLM", wants_key=True)]
        answers = ["", "2", "http://127.0.0.1:9", "m", "A_KEY", "yes", "mira", "2", "no"]
        assert house.run(*answers)[0] == 0 and house.document("Users/mira.json")

    def test_a_disk_that_refuses(self, house):
        house.public.parent.joinpath("Public").write_text("a file")
        status, told, _ = house.run(words=["--yes"])
        assert status == 1 and "cannot be written" in told


class TestAfterwards:
    def test_what_to_type_into_chat_programs(self, house):
        """Address, key, model."""
        _, told, _ = house.run(words=["--yes", "--port", "5077"])
        assert (
            "  base URL: http://127.0.0.1:5077/v1\n  key:      leave it empty\n  model:    assistant\n"
            in told
        )
        assert "  URL:      http://127.0.0.1:5077/v1\n" in told
        assert f"Start the server with: headrace --PublicDirectory {house.public} --port 5077\n" in told

    def test_clients_that_send_no_model(self, house):
        """The address names the user."""
        assert (
            "  API URL:  http://127.0.0.1:5077/as/assistant\n"
            in house.run(words=["--yes", "--port", "5077"])[1]
        )

    def test_together_with_the_usual_user(self, house):
        """Whoever is named is served alone; both are served at the port that is told."""
        first = house.run(words=["--yes"])[1]
        told = house.run(words=["--yes"])[1]
        start = f"headrace --PublicDirectory {house.public}"
        assert f"Start the server with: {start} --User assistant-2\n" in told
        assert f"  together with assistant: {start} --User assistant --User assistant-2 --port 5000\n" in told
        assert "  together with" not in first

    def test_a_key_that_is_required(self, house):
        _, told, _ = house.run(words=["--yes", "--require-api-key", "k"])
        assert told.count("key:      one of --require-api-key") == 2

    def test_the_server_can_be_started(self, house):
        """With the words of the command line, for the new user."""
        status, told, command = house.run("", "", "mira", "", "yes", words=["--port", "0"])
        assert status == 0 and "Start the server with" not in told
        assert command.words_to_serve(["--setup", "--port", "0"]) == ["--port", "0", "--User", "mira"]

    def test_chats_from_before(self, house, tmp_path, monkeypatch):
        """Of a wheel that served the examples: where they are, and how to take them over."""
        monkeypatch.setattr(
            "Middleware.api.commands.setup_files.own_public", lambda: tmp_path / "data" / "Public"
        )
        (tmp_path / "data" / "DiscussionIds").mkdir(parents=True)
        house.public = tmp_path / "site-packages" / "Middleware" / "shipped" / "Public"
        _, told, _ = house.run(words=["--yes"])
        data = tmp_path / "data"
        command = f"headrace --PublicDirectory {data / 'Public'} --memory import {data / 'DiscussionIds'}"
        assert f"{command}\n" in told
        assert (tmp_path / "data" / "Public" / "Configs" / "Users" / "assistant.json").is_file()


class TestKeysFile:
    """With one, clients need a key: which one, and how to make one, is said (keys.md 2, 7)."""

    @staticmethod
    def write(file, *entries):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"keys": entries}))

    @staticmethod
    def entry(name, *users, **more):
        return {"name": name, "sha256": digest_of(name), "users": list(users), **more}

    @pytest.fixture
    def keys(self, house):
        """`keys(entries...)`: in the config folder, which is there."""
        assert house.run(words=["--yes", "--User", "first"])[0] == 0
        return lambda *entries: self.write(house.public / "Configs" / "Keys.json", *entries)

    def test_without_one_nothing_is_said_of_keys(self, house):
        told = house.run(words=["--yes"])[1]
        assert "may ask" not in told and "--keys" not in told and "key:      leave it empty" in told

    @staticmethod
    def add_line(house, *more):
        words = " ".join(["headrace", "--PublicDirectory", str(house.public), *more])
        return f"{words} --keys add NAME users=assistant\n"

    def test_who_may_ask_the_new_user(self, house, keys):
        keys(
            self.entry("ann", "assist*"),
            self.entry("bob", "bob"),
            self.entry("old", "*", expires="2020-01-01"),
        )
        told = house.run(words=["--yes"])[1]
        assert told.count("  key:      one of Keys.json\n") == 2
        assert f"These keys may ask assistant: ann. Another one: {self.add_line(house)}" in told

    def test_nobody_may(self, house, keys):
        keys(self.entry("bob", "bob"))
        told = house.run(words=["--yes"])[1]
        assert f"No key may ask assistant yet. Create one: {self.add_line(house)}" in told

    def test_beside_keys_of_the_command_line(self, house, keys):
        keys()
        told = house.run(words=["--yes", "--require-api-key", "secret"])[1]
        assert "  key:      one of --require-api-key or one of Keys.json\n" in told and "secret" not in told

    def test_a_faulty_one(self, house, keys):
        keys({"name": "ann"})
        told = house.run(words=["--yes"])[1]
        assert "The keys file has an error, so the server does not let anybody in: " in told

    def test_one_that_the_command_line_names_is_named_again(self, house, tmp_path):
        """The server that is started as told has it, too."""
        file = tmp_path / "team.json"
        self.write(file)
        told = house.run(words=["--yes", "--keys-file", str(file)])[1]
        assert f"Create one: {self.add_line(house, '--keys-file', str(file))}" in told
        start = f"headrace --PublicDirectory {house.public} --keys-file {file}"
        assert f"Start the server with: {start}\n" in told
