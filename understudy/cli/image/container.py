"""Runs the plan of a container: its processes, its signals, and the file that says that it is healthy.

A ZooKeeper server starts first and stops last. The container ends with the exit code of its broker.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from understudy.brokers.config.config_def import ConfigError
from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.config.listeners import EVERY_INTERFACE
from understudy.brokers.config.properties import format_properties
from understudy.brokers.exits import TRY_AGAIN
from understudy.brokers.machine.operator_log import FORMAT_VARIABLE, LEVEL_VARIABLE
from understudy.cli.arguments import Failed
from understudy.cli.health import HEALTH_FILE_VARIABLE, ask_broker
from understudy.cli.image.create_topics import TopicToCreate
from understudy.cli.image.plan import Plan
from understudy.cli.image.zookeeper_variables import ZooKeeperVariables
from understudy.cli.interruptions import Interruption, interruptible
from understudy.clusters.processes import linux
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper, four_letter_word

FAILED: Final = 1

ZOOKEEPERS_TICK_TIME_MS: Final = 200
"""Default of `tickTime`: sessions end soon after their timeout, as with `understudy up`."""

_POLL_S: Final = 0.1
_HEALTH_INTERVAL_S: Final = 2.0
_ZOOKEEPER_TIMEOUT_S: Final = 120.0
_TOPICS_TIMEOUT_S: Final = 600.0
_START_PAUSE_S: Final = 2.0
_SESSION_END_S: Final = 10.0
"""Time after its timeout in which ZooKeeper ends a session: it rounds up, and may itself have started late."""
_TOPICS_PAUSE_S: Final = 1.0

STARTED_AGAIN: Final = (
    "The broker is started again, for up to {seconds:.0f} s: if its last run was killed, the session of that run still "
    "registers its id."
)
"""Sentence about a failure that KRaft does not have, and after which the container of a ZooKeeper-mode Kafka ends."""
STARTED_AS_KRAFT: Final = "In place of KRaft's lines: Transitioning from RECOVERY to RUNNING, Kafka Server started"
"""Sentence with the words that programs wait for in the log of a KRaft node, Testcontainers among them."""


class Container:
    """The processes of one container.

    Args:
        folder: the folder of the broker's properties and of `zoo.cfg`.
        environment: the container's variables.
    """

    def __init__(self, plan: Plan, folder: Path, environment: Mapping[str, str]) -> None:
        self._plan = plan
        self._folder = folder
        self._environment = environment
        self._healthy = Path(environment.get(HEALTH_FILE_VARIABLE, folder / "healthy"))

    def run(self) -> int:
        """Run everything until a signal, or until a process ends; return the exit code."""
        self._healthy.unlink(missing_ok=True)
        for note in self._plan.notes:
            say(note)
        with interruptible() as interruption:
            if self._plan.zookeeper is None:
                return self._run_broker(interruption)
            with self._zookeeper_server(self._plan.zookeeper) as server:
                say(f"ZooKeeper answers on port {server.port}, data in {self._plan.zookeeper.data_dir}")
                if self._plan.broker is not None:
                    return self._run_broker(interruption)
                self._healthy.touch()
                while not interruption.wait(_HEALTH_INTERVAL_S):
                    server.process.check()
                return 0

    def _zookeeper_server(self, server: ZooKeeperVariables) -> EmbeddedZooKeeper:
        folder = self._folder / "zookeeper"
        folder.mkdir(exist_ok=True)
        settings = dict(server.settings)
        tick_time_ms = int(settings.pop("tickTime", ZOOKEEPERS_TICK_TIME_MS))
        try:
            return EmbeddedZooKeeper(
                folder,
                port=server.port,
                host=EVERY_INTERFACE[0],
                tick_time_ms=tick_time_ms,
                force_sync=True,
                my_id=server.my_id,
                servers=server.servers,
                settings={**settings, "dataDir": server.data_dir},
            )
        except ValueError as error:
            raise ConfigError(str(error)) from None

    def _run_broker(self, interruption: Interruption) -> int:
        config = self._plan.broker
        if config is None:
            self._healthy.touch()
            while not interruption.wait(_HEALTH_INTERVAL_S):
                pass
            return 0
        await_zookeeper(config.zookeeper_connect, interruption)
        deadline = time.monotonic() + config.zookeeper_session_timeout_ms / 1000 + _SESSION_END_S
        has_said = False
        while not interruption.received:
            code = self._run_once(config, interruption)
            if code != TRY_AGAIN or time.monotonic() > deadline:
                return code
            if not has_said:
                say(STARTED_AGAIN.format(seconds=deadline - time.monotonic()))
                has_said = True
            interruption.wait(_START_PAUSE_S)
        return 0

    def _run_once(self, config: KafkaConfig, interruption: Interruption) -> int:
        """Start the broker, and return its exit code when it has ended; a signal ends it."""
        process = self._start(config)
        checked = time.monotonic() - _HEALTH_INTERVAL_S
        while process.poll() is None:
            if interruption.wait(_POLL_S):
                process.terminate()
                process.wait()
            elif time.monotonic() - checked >= (_HEALTH_INTERVAL_S if self._healthy.exists() else _POLL_S):
                self._check(config)
                checked = time.monotonic()
        return process.returncode

    def _start(self, config: KafkaConfig) -> subprocess.Popen[bytes]:
        properties = self._folder / "server.properties"
        properties.write_text(format_properties(config.originals), encoding="utf-8")
        variables = {FORMAT_VARIABLE: "kafka", **self._environment}
        if self._plan.log_level is not None:
            variables[LEVEL_VARIABLE] = self._plan.log_level
        command = [sys.executable, "-P", "-m", "understudy.brokers", str(properties)]
        return subprocess.Popen(linux.launcher(command), stderr=subprocess.STDOUT, env=variables)

    def _check(self, config: KafkaConfig) -> None:
        """Ask the broker for its API versions, and let the health file exist while it answers."""
        host, port = own_address(config)
        try:
            ask_broker(host, port)
        except Failed:
            self._healthy.unlink(missing_ok=True)
            return
        if not self._healthy.exists():
            self._healthy.touch()
            if self._plan.in_place_of_kraft:
                say(STARTED_AS_KRAFT)
            if topics := self._plan.topics:
                self._plan = self._plan._replace(topics=())
                threading.Thread(target=create_topics, args=(topics, f"{host}:{port}"), daemon=True).start()


def say(sentence: str) -> None:
    print(f"understudy: {sentence}", flush=True)


def await_zookeeper(connect: str, interruption: Interruption, timeout_s: float = _ZOOKEEPER_TIMEOUT_S) -> None:
    """Wait until a server of `zookeeper.connect` serves, or a signal comes.

    A server that does not answer `srvr`, which it may be configured to refuse, is left to the broker's own connection.

    Raises:
        Failed: no server served in time.
    """
    servers = [server.strip().rpartition(":") for server in connect.partition("/")[0].split(",")]
    deadline = time.monotonic() + timeout_s
    has_said = False
    while not interruption.received:
        for host, _, port in servers:
            answer = four_letter_word(host.strip("[]"), int(port), "srvr") if port.isdigit() else ""
            if answer and "not currently serving" not in answer:
                return
        if time.monotonic() > deadline:
            raise Failed(f"no ZooKeeper server of {connect} served within {timeout_s:.0f} s")
        if not has_said:
            say(f"Waiting for ZooKeeper at {connect}")
            has_said = True
        interruption.wait(_POLL_S)


def create_topics(topics: Sequence[TopicToCreate], bootstrap: str, timeout_s: float = _TOPICS_TIMEOUT_S) -> None:
    """Create topics, each as soon as enough brokers are there for its replicas."""
    deadline = time.monotonic() + timeout_s
    for topic in topics:
        command = [sys.executable, "-P", "-m", "understudy.cli.main", "topics", *topic.arguments(bootstrap)]
        while True:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0 or time.monotonic() > deadline:
                say(f"KAFKA_CREATE_TOPICS, {topic.name}: {(done.stdout + done.stderr).strip()}")
                break
            time.sleep(_TOPICS_PAUSE_S)


def is_local(host: str) -> bool:
    """Return whether a host is this machine: whether a socket can be bound on its address."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host.strip("[]"), 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.bind(address)
    except OSError:
        return False
    return True


def with_commands(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with the results of wurstmeister's `HOSTNAME_COMMAND`, `PORT_COMMAND` and others in them.

    Raises:
        ConfigError: a command fails.
    """
    given = dict(environment)
    for name in ("HOSTNAME_COMMAND", "PORT_COMMAND"):
        if command := given.get(name):
            value = _output(name, command)
            given = {key: text.replace(f"_{{{name}}}", value) for key, text in given.items()}
            if name == "HOSTNAME_COMMAND" and not given.keys() & {"KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS"}:
                given.setdefault("KAFKA_ADVERTISED_HOST_NAME", value)
    for name, variable in (("BROKER_ID_COMMAND", "KAFKA_BROKER_ID"), ("RACK_COMMAND", "KAFKA_BROKER_RACK")):
        if (command := given.get(name)) and not given.get(variable):
            given[variable] = _output(name, command)
    return given


def _output(name: str, command: str) -> str:
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    if done.returncode != 0 or not done.stdout.strip():
        reason = done.stderr.strip() or f"it printed nothing and ended with {done.returncode}"
        raise ConfigError(f"{name}: the command {command!r} failed: {reason}")
    return done.stdout.strip()


def own_address(config: KafkaConfig) -> tuple[str, int]:
    """Return host and port of the inter-broker listener, at which the broker can be asked from inside.

    A listener that is bound to one host does not answer on the loopback address.
    """
    name = config.inter_broker_listener
    endpoint = next(endpoint for endpoint in config.bound_endpoints() if endpoint.listener == name)
    return "127.0.0.1" if endpoint.host in ("", *EVERY_INTERFACE) else endpoint.host, endpoint.port
