"""The files for containers and services start the server as the server wants it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from Middleware.api.launch_arguments import parse
from Middleware.common.constants import VERSION
from Middleware.utilities.install_layout import OWN_FOLDER

HOUSE = Path(__file__).resolve().parents[1]
DOCKERFILE = (HOUSE / "Dockerfile").read_text("utf-8")
COMPOSE = (HOUSE / "compose.yml").read_text("utf-8")
BUILD = (HOUSE / "compose.build.yml").read_text("utf-8")
RELEASE = (HOUSE / ".github" / "workflows" / "release.yml").read_text("utf-8")
BALANCER = (HOUSE / "deploy" / "nginx-cluster.conf").read_text("utf-8")
UNIT = (HOUSE / "deploy" / "headrace.service").read_text("utf-8")
COPIED = sorted({name for line in re.findall(r"^COPY (.*) \S+$", DOCKERFILE, re.M) for name in line.split()})


@pytest.mark.parametrize("name", [".gitignore", ".dockerignore"])
def test_the_endpoints_of_a_user_are_left_out(name: str) -> None:
    """They hold his keys and are not ours to update; the examples of them go along."""
    lines = (HOUSE / name).read_text("utf-8").splitlines()
    folder = f"Public/Configs/{OWN_FOLDER}"
    first, second = (
        lines.index(f"{mark}{folder}/*{ending}.json") for mark, ending in (("", ""), ("!", ".example"))
    )
    assert first < second


class TestContainer:
    def test_the_server_listens_where_the_port_is_published(self) -> None:
        """Inside a container loopback is out of reach; the published port is that of the image."""
        program, script, *words = json.loads(re.findall(r"^ENTRYPOINT (.*)$", DOCKERFILE, re.M)[0])
        launch = parse(words)
        assert (program, script) == ("python", "server.py")
        assert (launch.host, launch.port) == ("0.0.0.0", 5000)
        assert "EXPOSE 5000" in DOCKERFILE

    def test_a_user_may_be_added(self) -> None:
        """Words of `command:` stand behind those of the image."""
        words = json.loads(re.findall(r"^ENTRYPOINT (.*)$", DOCKERFILE, re.M)[0])[2:]
        assert parse([*words, "--User", "demo"]).facts.users == ("demo",)

    @pytest.mark.parametrize("name", COPIED)
    def test_what_is_copied_is_there(self, name: str) -> None:
        """In the folder, and not held back by `.dockerignore`."""
        assert (HOUSE / name).exists()
        assert f"!{name}" in (HOUSE / ".dockerignore").read_text("utf-8").splitlines()

    def test_all_that_the_server_needs_is_copied(self) -> None:
        """Code, metadata and the configuration that ships."""
        assert set(COPIED) >= {"Middleware", "Public", "server.py", "setup.cfg", "pyproject.toml"}

    def test_the_install_step_finds_what_it_needs(self) -> None:
        """setup.cfg names a module of our own for the making of wheels."""
        copied, _ = DOCKERFILE.split("pip install")
        assert "COPY deploy/wheel_contents.py deploy/\n" in copied

    def test_its_label_has_the_version(self) -> None:
        """That of the release which builds it; what anybody else builds says that it is none."""
        assert "ARG HEADRACE_VERSION=unreleased\n" in DOCKERFILE
        assert 'org.opencontainers.image.version="${HEADRACE_VERSION}"' in DOCKERFILE
        assert "build-args: HEADRACE_VERSION=${{ steps.names.outputs.version }}\n" in RELEASE


class TestCompose:
    @pytest.mark.parametrize(
        "service",
        ["headrace", "ollama", "open-webui", "balancer", "headrace-1", "headrace-2", "redis"],
    )
    def test_the_services(self, service: str) -> None:
        """Each has the name that the pages and the others call it by."""
        assert re.search(rf"^  {service}:( [&*]member)?$", COMPOSE, re.M)

    def test_a_release_is_named_by_its_version(self) -> None:
        """Each server of ours, and nothing is built: the newest release of this major version, unless one is
        named. The promise holds from version 1 on."""
        images = re.findall(r"^    image: \"\$\{HEADRACE_IMAGE:-headrace\}:(.*)\"$", COMPOSE, re.M)
        assert images == [f"${{HEADRACE_VERSION:-{max(1, int(VERSION.partition('.')[0]))}}}"] * 2
        assert "build" not in re.sub(r"^#.*$", "", COMPOSE, flags=re.M)

    def test_a_second_file_builds_the_same_servers(self) -> None:
        """Under a name that no release has, with the version in the label."""
        services = re.findall(r"^  (headrace\S*):", BUILD, re.M)
        assert services == re.findall(r"^  (headrace\S*):", COMPOSE, re.M)
        assert "    image: headrace:built\n" in BUILD and BUILD.count("*built\n") == len(services) - 1
        assert 'HEADRACE_VERSION: "${HEADRACE_VERSION:-unreleased}"\n' in BUILD

    def test_open_webui_is_pointed_here(self) -> None:
        """At the OpenAI routes of the service, on its port."""
        assert "OPENAI_API_BASE_URL: http://headrace:5000/v1" in COMPOSE

    def test_the_cluster_is_asked_for(self) -> None:
        """Its services stand in a profile, so that `docker compose up` starts none of them."""
        services = dict(re.findall(r"^  ([\w-]+):(?: &\w+)?\n((?:    .*\n)+)", COMPOSE, re.M))
        inside = {name for name, text in services.items() if "profiles: [cluster]" in text}
        assert inside == {"balancer", "headrace-1", "redis"}
        assert "  headrace-2: *member\n" in COMPOSE
        assert "HEADRACE_REDIS_URL: redis://redis:6379/0" in services["headrace-1"]

    def test_the_balancer_knows_its_servers(self) -> None:
        """By the names of the services, at their port."""
        servers = re.findall(r"^ *server ([\w-]+):(\d+)", BALANCER, re.M)
        assert servers == [("headrace-1", "5000"), ("headrace-2", "5000")]

    def test_no_port_is_open_to_the_network(self) -> None:
        """Every published port is one of loopback."""
        ports = re.findall(r"ports: \[(.*)\]", COMPOSE)
        assert [port for port in ports if not port.startswith('"127.0.0.1:')] == []


def test_the_service_is_told_where_the_data_lies() -> None:
    """The words behind `run` are understood; a stop has the time that the server may take (35 s)."""
    line = re.findall(r"^ExecStart=%h/headrace/run (.*)$", UNIT, re.M)[0]
    assert parse(line.replace("%h", "/home/ana").split()).facts.public_directory == Path(
        "/home/ana/headrace-data/Public"
    )
    assert int(re.findall(r"^TimeoutStopSec=(\d+)$", UNIT, re.M)[0]) > 35


class TestBackupTimer:
    """The timer beside the service writes backups of what the service works with."""

    BACKUP = (HOUSE / "deploy" / "headrace-backup.service").read_text("utf-8")
    TIMER = (HOUSE / "deploy" / "headrace-backup.timer").read_text("utf-8")

    def test_it_is_of_the_same_folder(self) -> None:
        """And its words are understood."""
        line = re.findall(r"^ExecStart=%h/headrace/run (.*)$", self.BACKUP, re.M)[0]
        launch = parse(line.replace("%h", "/home/ana").split())
        assert launch.facts.public_directory == Path("/home/ana/headrace-data/Public")
        assert (launch.arguments.backup_dir, launch.arguments.keep) == ("/home/ana/headrace-backups", 14)

    def test_a_night_that_was_missed_is_made_up_for(self) -> None:
        assert re.findall(r"^OnCalendar=.+$", self.TIMER, re.M)
        assert "Persistent=true" in self.TIMER
