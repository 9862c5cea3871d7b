"""Where the names in endpoint files lead."""

from __future__ import annotations

import pytest

from Middleware.workflows.checks.endpoint_check import is_remote

BASE = {"endpoint": "http://127.0.0.1:1", "apiTypeConfigFileName": "Api"}

HOSTS = [
    ("http://127.0.0.1:1", False),
    ("http://192.168.1.4", False),
    ("http://[::1]:5", False),
    ("http://gpu-box:8080", False),
    ("http://gpu.lan", False),
    ("http://gpu.local", False),
    ("http://gpu.internal", False),
    ("http://gpu.home", False),
    ("http://gpu.home.arpa", False),
    ("http://gpu.localhost", False),
    ("http://localhost", False),
    ("https://api.example.com/v1", True),
    ("http://8.8.8.8", True),
    ("http://[broken", False),
    ("", False),
]


@pytest.mark.parametrize(("url", "remote"), HOSTS, ids=[c[0] for c in HOSTS])
def test_remote_hosts(url, remote):
    """Only what is surely public."""
    assert is_remote(url) is remote


class TestOllamaAddresses:
    def lines(self, checked, url):
        checked.put("ApiTypes/Llama.json", {"type": "ollamaApiChat", "presetType": "T"})
        checked.change("Endpoints/lan/small-model.json", apiTypeConfigFileName="Llama", endpoint=url)
        return checked.lines()

    @pytest.mark.parametrize("end", ["", "/", "/api", "/api/chat"])
    def test_every_form_of_its_own_api_is_fine(self, checked, end):
        assert self.lines(checked, f"http://127.0.0.1:11434{end}") == []

    def test_the_address_for_openai_clients_is_pointed_out(self, checked):
        (line,) = self.lines(checked, "http://127.0.0.1:11434/v1")
        assert "warning" in line and "Ollama types need it without `/v1`" in line


class TestPromptCaching:
    def lines(self, checked, api_type, **endpoint):
        checked.put("ApiTypes/Paid.json", {"presetType": "T", **api_type})
        checked.change("Endpoints/lan/small-model.json", apiTypeConfigFileName="Paid", **endpoint)
        return checked.lines()

    @pytest.mark.parametrize(
        "api_type",
        [
            {"type": "claudeMessages"},
            {"type": "claudeMessages", "promptCacheMark": "cache_control"},
            {"type": "openAIChatCompletion", "promptCacheMark": "prompt_cache_breakpoint"},
            {"type": "openAIChatCompletion", "promptCacheMark": "cache_control"},
        ],
        ids=str,
    )
    @pytest.mark.parametrize("caching", ["off", "5m", "1h"])
    def test_marks_that_can_be_set(self, checked, api_type, caching):
        assert self.lines(checked, api_type, promptCaching=caching) == []

    @pytest.mark.parametrize(
        ("api_type", "advice"),
        [
            (
                {"type": "openAIChatCompletion"},
                "set its `promptCacheMark` to cache_control or prompt_cache_breakpoint",
            ),
            (
                {"type": "claudeMessages", "promptCacheMark": "prompt_cache_breakpoint"},
                "set its `promptCacheMark` to cache_control",
            ),
            (
                {"type": "ollamaApiChat", "promptCacheMark": "cache_control"},
                'the backend "ollamaApiChat" has no marks',
            ),
            ({"type": "koboldCppGenerate"}, 'the backend "koboldCppGenerate" has no marks'),
        ],
        ids=str,
    )
    def test_marks_that_cannot(self, checked, api_type, advice):
        """A setting without an effect is reported."""
        (line,) = self.lines(checked, api_type, promptCaching="5m")
        assert "warning: promptCaching: has no effect" in line and line.endswith(advice)

    def test_a_time_that_there_is_not(self, checked):
        """Is an error, with what is allowed."""
        (line,) = self.lines(checked, {"type": "claudeMessages"}, promptCaching="2h")
        assert "error" in line and "5m" in line and "1h" in line

    def test_a_key_that_the_api_type_has_no_name_for(self, checked):
        (line,) = self.lines(checked, {"type": "openAIChatCompletion"}, promptCacheKey=True)
        assert "warning" in line and "names no `promptCacheKeyPropertyName`" in line

    def test_a_key_with_a_name(self, checked):
        named = {"type": "openAIChatCompletion", "promptCacheKeyPropertyName": "prompt_cache_key"}
        assert self.lines(checked, named, promptCacheKey=True) == []


def test_a_wrong_address_is_shown_as_it_is_written(checked):
    """With the slashes at its end that are no part of it otherwise."""
    checked.change("Endpoints/lan/small-model.json", endpoint="http://")
    (line,) = checked.lines()
    assert 'found "http://", allowed: an address such as' in line


class TestMoreAddresses:
    def lines(self, checked, *urls, **fields):
        checked.change("Endpoints/lan/small-model.json", moreEndpoints=list(urls), **fields)
        return checked.lines()

    def test_other_local_ones_are_fine(self, checked):
        assert self.lines(checked, "http://192.168.1.21:8080", "http://gpu.lan/") == []

    def test_one_that_is_none(self, checked):
        """At its own place in the list."""
        (line,) = self.lines(checked, "http://192.168.1.21:8080", "gpu.lan:8080")
        assert "error: moreEndpoints" in line and 'found "gpu.lan:8080", allowed: an address such as' in line

    def test_one_that_is_there_twice(self, checked):
        (line,) = self.lines(checked, "http://gpu.lan", "http://gpu.lan/")
        assert "warning" in line and line.endswith('"http://gpu.lan/" is there twice and counts once')

    def test_a_public_one_needs_the_flag(self, checked):
        """Unless the first one is public as well."""
        public = "https://api.example.com"
        (line,) = self.lines(checked, public, endpoint="http://127.0.0.1:1")
        assert "warning" in line and line.endswith("`allowRemoteBackup`, so it is never called")
        assert self.lines(checked, public, allowRemoteBackup=True) == []
        assert (
            self.lines(checked, public, endpoint="https://first.example.com", allowRemoteBackup=False) == []
        )

    def test_a_wrong_kind(self, checked):
        (line,) = checked_lines(checked, moreEndpoints="http://gpu.lan")
        assert "error: moreEndpoints" in line


def checked_lines(checked, **fields):
    checked.change("Endpoints/lan/small-model.json", **fields)
    return checked.lines()


class TestBackups:
    def lines(self, checked, **backup):
        checked.change("Endpoints/lan/small-model.json", backupEndpointName="big")
        checked.put("Endpoints/lan/big.json", BASE | backup)
        return checked.lines()

    def test_a_local_backup_is_fine(self, checked):
        assert self.lines(checked) == []

    def test_a_remote_one_needs_its_flag(self, checked):
        (line,) = self.lines(checked, endpoint="https://api.example.com")
        assert line == (
            'Endpoints/lan/small-model.json: warning: backupEndpointName: "big" is not on a local network '
            "and its file does not set `allowRemoteBackup`, so it will be refused"
        )
        assert self.lines(checked, endpoint="https://api.example.com", allowRemoteBackup=True) == []

    def test_a_circle_is_told_at_each_of_its_members(self, checked):
        lines = self.lines(checked, backupEndpointName="small-model")
        assert [line.rpartition(": ")[2] for line in lines] == [
            "big > small-model > big",
            "small-model > big > small-model",
        ]

    def test_a_broken_backup_is_told_at_its_own_file(self, checked):
        (line,) = self.lines(checked, endpoint=5)
        assert line.startswith("Endpoints/lan/big.json: error: endpoint")


def test_endpoints_that_no_user_has_are_checked_too(checked):
    """In the root and in nested folders."""
    checked.put("Endpoints/top.json", BASE | {"promptTemplate": "none"})
    checked.put("Endpoints/lan/deep/x.json", BASE | {"promptTemplate": "none"})
    assert [line.split(":")[0] for line in checked.lines()] == [
        "Endpoints/lan/deep/x.json",
        "Endpoints/top.json",
    ]


def test_a_broken_api_type_is_told_at_its_own_file(checked):
    checked.put("ApiTypes/Api.json", {"type": 5})
    assert [line.partition(": found")[0] for line in checked.lines()] == ["ApiTypes/Api.json: error: type"]


def test_embeddings_types_are_types(checked):
    checked.put("ApiTypes/Emb.json", {"type": "ollamaEmbeddings"})
    assert checked.lines() == []


class TestMachines:
    def test_an_entry_that_no_endpoint_names_is_reported(self, checked):
        """With the name that was meant, if there is one; endpoints of every folder count."""
        checked.change("Endpoints/lan/small-model.json", machine=" desk ")
        checked.put("Machines.json", {"desk": {"maxConcurrentRequests": 1}})
        assert checked.lines() == []
        checked.put("Machines.json", {"desks": {"maxConcurrentRequests": 1}})
        (line,) = checked.lines()
        assert line.startswith("Machines.json: warning: desks: no endpoint has this machine")
        assert line.endswith("(did you mean 'desk'?)")

    def test_a_faulty_file_is_reported_once(self, checked):
        checked.put("Machines.json", {"desk": {"maxConcurrentRequests": 0}})
        (line,) = checked.lines()
        assert line.startswith("Machines.json: error: desk.maxConcurrentRequests: found 0")

    def test_a_machine_is_one_word(self, checked):
        checked.change("Endpoints/lan/small-model.json", machine="my desk")
        (line,) = checked.lines()
        assert 'machine: found "my desk", allowed: a word without blanks' in line
