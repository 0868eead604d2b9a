"""`ComposeCluster`: the services of docker-compose.yml, with a project name, ports and a run folder of their own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from docker.errors import APIError  # type: ignore[import-untyped]  # docker carries no types
from testcontainers.compose import DockerCompose
from testcontainers.core.docker_client import DockerClient

from understudy.cli import main as cli
from understudy.clusters.processes.free_ports import free_ports

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]
BROKERS = (1, 2, 3)
BUILD_TIMEOUT_S = 900
COMMAND_TIMEOUT_S = 300
WAIT_TIMEOUT_S = 240
_PORT_ATTEMPTS = 5
_POLL_S = 0.2
_TAKEN = ("address already in use", "port is already allocated")


class ComposeFailed(Exception):
    """A command of `docker compose` failed or did not end in time. The message has the command and its last lines."""


class NotInTime(Exception):
    """A test waited too long for a state; the message names it."""


class _Project(DockerCompose):
    """A compose project whose name is a flag, which COMPOSE_PROJECT_NAME in the environment does not override."""

    project_name = ""

    @cached_property
    def compose_command_property(self) -> list[str]:
        return [*super().compose_command_property, "--project-name", self.project_name]


class ComposeCluster:
    """ZooKeeper and three brokers in containers. `remove` removes everything that was made.

    Args:
        folder: an empty folder for the resolved compose file and for `run/compose`, the brokers' event logs.
        project: name of the compose project; its containers, volumes and network carry it.
        image: tag of the image.
    """

    def __init__(self, folder: Path, *, project: str, image: str) -> None:
        self._folder = folder
        self._image = image
        self._compose = _Project(folder, compose_file_name="compose.yaml")
        self._compose.project_name = self.project = project
        self._ports: list[int] = []
        self._resolve()

    # -- what it is

    @property
    def zookeeper(self) -> str:
        return f"localhost:{self._ports[0]}"

    @property
    def addresses(self) -> dict[int, tuple[str, int]]:
        """Host and port at which this machine reaches each broker."""
        return {broker: ("localhost", self._ports[broker]) for broker in BROKERS}

    def bootstrap(self, brokers: Iterable[int] = BROKERS) -> str:
        """The `bootstrap.servers` of a client on this machine."""
        return ",".join("{}:{}".format(*self.addresses[broker]) for broker in sorted(brokers))

    @property
    def run_folder(self) -> Path:
        return self._folder / "run" / "compose"

    def status(self) -> dict[str, Any]:
        """The output of `understudy status --zookeeper … --json`, run on this machine."""
        code, output = _understudy("status", "--zookeeper", self.zookeeper, "--json")
        assert code == 0, output
        found: dict[str, Any] = json.loads(output)
        return found

    def is_whole(self) -> bool:
        """Three brokers are registered, one of them is controller, and every partition has a leader and a full ISR."""
        status = self.status()
        registered = {broker["id"] for broker in status["brokers"] if broker["registered"]}
        lacking = status["leaderless"] or status["under_replicated"]
        return registered == set(BROKERS) and status["controller"] in registered and not lacking

    def violations(self, folder: Path | None = None) -> str:
        """The violations that `understudy check` prints for `run/compose`; empty if every invariant holds."""
        code, output = _understudy("check", str(folder or self.run_folder))
        return "" if code == 0 else output

    # -- commands of compose

    def build(self) -> None:
        """Build the image over the host's network. Raises ComposeFailed."""
        self.compose("build", "--progress", "plain", timeout_s=BUILD_TIMEOUT_S)

    def up(self) -> None:
        """Start the services that are not running, and wait until all are healthy.

        Raises:
            ComposeFailed: a service did not start. The message ends with what the containers printed last.
        """
        try:
            self.compose("up", "--detach", "--wait", "--no-build")
        except ComposeFailed as failed:
            raise ComposeFailed(f"{failed}\n{self.compose('logs', '--tail', '10')}") from None

    def up_on_free_ports(self) -> None:
        """The first `up`. Takes other ports if another program has taken one meanwhile. Raises ComposeFailed."""
        for attempts_left in reversed(range(_PORT_ATTEMPTS)):
            try:
                self.up()
            except ComposeFailed as failed:
                if not attempts_left or not any(words in str(failed) for words in _TAKEN):
                    raise
                self.down(volumes=True)
                self._resolve()
            else:
                return

    def down(self, *, volumes: bool = False) -> None:
        """Stop and remove the containers and the network, and the volumes on request."""
        self.compose("down", "--remove-orphans", *["--volumes"] * volumes)

    def remove(self) -> None:
        """Remove everything that belongs to the project, and give the run folder back to the user of the tests."""
        owner = f"{os.getuid()}:{os.getgid()}"
        try:
            self.compose(
                "run", "--rm", "--no-deps", "--entrypoint", "chown", "run-folder", "-R", owner, "/run/understudy"
            )
        finally:
            self.down(volumes=True)

    def remove_image(self) -> None:
        subprocess.run(["docker", "image", "rm", "--force", self._image], capture_output=True, timeout=60, check=False)

    def compose(self, *arguments: str, timeout_s: float = COMMAND_TIMEOUT_S) -> str:
        """Run one command of `docker compose` on this project and return what it printed. Raises ComposeFailed."""
        return run([*self._compose.compose_command_property, *arguments], self._folder, timeout_s)

    # -- faults

    def kill(self, broker: int) -> None:
        """SIGKILL to every process of the container."""
        self._container(broker).kill()

    def start(self, broker: int) -> None:
        self._container(broker).start()

    def pause(self, broker: int) -> None:
        """Freeze every process of the container; its connections stay open.

        On a busy machine runc may refuse ("unable to freeze") and the processes continue: the request is sent again.
        """
        eventually(partial(_freeze, self._container(broker)), f"broker-{broker} is paused")

    def resume(self, broker: int) -> None:
        self._container(broker).unpause()

    def disconnect(self, broker: int) -> None:
        """Take the container off its network: it reaches neither ZooKeeper nor a broker, and no client reaches it."""
        self._network().disconnect(self._container(broker))

    def reconnect(self, broker: int) -> None:
        self._network().connect(self._container(broker), aliases=[f"broker-{broker}"])

    # -- how

    def _resolve(self) -> None:
        """Write docker-compose.yml with all variables resolved, on free ports."""
        self._ports = free_ports(1 + len(BROKERS))
        variables = {
            "COMPOSE_PROJECT_NAME": self.project,
            "UNDERSTUDY_IMAGE": self._image,
            "UNDERSTUDY_BUILD_NETWORK": "host",  # the bridge of an engine need not reach a package registry
            "UNDERSTUDY_RUN_FOLDER": str(self._folder / "run"),
            "UNDERSTUDY_ZOOKEEPER_PORT": str(self._ports[0]),
            **{f"UNDERSTUDY_BROKER_{broker}_PORT": str(self._ports[broker]) for broker in BROKERS},
        }
        command = ["docker", "compose", "--file", str(ROOT / "docker-compose.yml"), "config"]
        resolved = run(command, ROOT, COMMAND_TIMEOUT_S, {**os.environ, **variables})
        (self._folder / "compose.yaml").write_text(resolved)

    def _container(self, broker: int) -> Any:
        found = self._compose.get_container(f"broker-{broker}", include_all=True)
        return self._engine.containers.get(found.ID)

    def _network(self) -> Any:
        return self._engine.networks.get(f"{self.project}_default")

    @cached_property
    def _engine(self) -> Any:
        return DockerClient().client


def eventually(predicate: Callable[[], T | None], what: str, timeout_s: float = WAIT_TIMEOUT_S) -> T:
    """Evaluate `predicate` until its value is true, and return that. Raises NotInTime."""
    deadline = time.monotonic() + timeout_s
    while not (value := predicate()):
        if time.monotonic() > deadline:
            raise NotInTime(f"not within {timeout_s:g} s: {what}")
        time.sleep(_POLL_S)
    return value


def _freeze(container: Any) -> bool:
    """Whether the engine paused the container. Raises APIError for any other reason than a refusal of runc."""
    try:
        container.pause()
    except APIError as error:
        if "unable to freeze" not in str(error):
            raise
        return False
    return True


def _understudy(*arguments: str) -> tuple[int, str]:
    """The exit code and the output of one `understudy` command."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        code = cli.main(arguments)
    return code, output.getvalue()


def run(
    command: list[str], folder: Path, timeout_s: float, environment: dict[str, str] | None = None, stdin: str = ""
) -> str:
    """Run a command and return what it printed. Raises ComposeFailed."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ComposeFailed(f"not done within {timeout_s:g} s: {' '.join(command)}") from None
    if done.returncode != 0:
        last = "\n".join(done.stderr.strip().splitlines()[-25:])
        raise ComposeFailed(f"exit code {done.returncode}: {' '.join(command)}\n{last}")
    return done.stdout
