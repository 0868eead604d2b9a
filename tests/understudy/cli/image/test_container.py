"""Tests of a container's processes, as processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from understudy.brokers.config.config_def import ConfigError
from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.config.reading import read_config
from understudy.brokers.exits import TRY_AGAIN
from understudy.cli.arguments import Failed
from understudy.cli.image import container as container_module
from understudy.cli.image.container import (
    STARTED_AS_KRAFT,
    Container,
    await_zookeeper,
    is_local,
    own_address,
    with_commands,
)
from understudy.cli.image.plan import Plan
from understudy.cli.interruptions import Interruption
from understudy.clusters.processes.free_ports import free_ports

START_S = 60.0


class RunningContainer:
    """`python -m understudy.cli.image` with variables and a folder of its own; its output is in `log`."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self.log = folder / "log"
        self._healthy = folder / "healthy"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "understudy.cli.image"],
                env={**os.environ, "UNDERSTUDY_IMAGE_DIR": str(folder), **variables},
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def await_health(self) -> None:
        deadline = time.monotonic() + START_S
        while not self._healthy.exists():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.02)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(START_S)


@pytest.fixture
def kraft_node(tmp_path: Path) -> Iterator[tuple[RunningContainer, int]]:
    port, controllers_port = free_ports(2)
    container = RunningContainer(
        tmp_path,
        {
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_NODE_ID": "5",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": f"5@localhost:{controllers_port}",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://:{controllers_port}",
            "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://localhost:{port}",
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
            "KAFKA_CREATE_TOPICS": "orders:2:1",
            "KAFKA_LOG_DIRS": str(tmp_path / "data"),
            "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
        },
    )
    yield container, port
    container.process.kill()
    container.process.wait()


def test_a_kraft_node_serves_with_its_zookeeper_creates_topics_and_stops(
    kraft_node: tuple[RunningContainer, int], tmp_path: Path
) -> None:
    """The real run of the image's processes: nothing else sees their order, their health file and their exit code."""
    container, _ = kraft_node
    container.await_health()
    deadline = time.monotonic() + START_S
    while "KAFKA_CREATE_TOPICS, orders: Created topic orders." not in container.log.read_text():
        assert time.monotonic() < deadline, container.log.read_text()
        time.sleep(0.02)
    assert container.stop() == 0
    log = container.log.read_text()
    assert STARTED_AS_KRAFT in log
    assert "[KafkaServer id=5] started, broker=5, cluster_id=4L6g3nShT-eMCtK--X86sw" in log
    assert "shut down completed" in log
    assert (tmp_path / "data/zookeeper/version-2").is_dir()


class ScriptedContainer(Container):
    """A container whose broker ends with the next of the given exit codes each time it is started."""

    def __init__(self, codes: list[int], folder: Path, **properties: str) -> None:
        config = read_config({"zookeeper.connect": "localhost:2181", "listeners": "PLAINTEXT://:9092", **properties})
        super().__init__(Plan(broker=config), folder, {})
        self.codes = codes

    def _start(self, config: KafkaConfig) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["sh", "-c", f"exit {self.codes.pop(0)}"])


@pytest.fixture
def without_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_module, "await_zookeeper", lambda *_: None)
    monkeypatch.setattr(container_module, "_START_PAUSE_S", 0.0)


@pytest.mark.usefixtures("without_waits")
def test_a_broker_whose_id_is_still_registered_is_started_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    container = ScriptedContainer([TRY_AGAIN, TRY_AGAIN, 3], tmp_path)
    assert container.run() == 3
    assert container.codes == []
    assert capsys.readouterr().out.count("The broker is started again, for up to 28 s") == 1


@pytest.mark.usefixtures("without_waits")
def test_a_broker_whose_id_another_one_has_is_refused_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session of a killed run would have timed out by then."""
    monkeypatch.setattr(container_module, "_SESSION_END_S", -20.0)
    container = ScriptedContainer([TRY_AGAIN, 0], tmp_path)
    assert container.run() == TRY_AGAIN
    assert container.codes == [0]


def test_a_variable_that_cannot_be_used_ends_the_container(tmp_path: Path) -> None:
    container = RunningContainer(tmp_path, {"KAFKA_NUM_PARTITIONS": "x"})
    assert container.process.wait(START_S) == 1
    assert container.log.read_text().startswith("understudy: KAFKA_NUM_PARTITIONS: Invalid value x")


@pytest.mark.parametrize(
    ("listeners", "address"),
    [
        ("INSIDE://broker-1:9092,OUTSIDE://0.0.0.0:9094", ("broker-1", 9092)),
        ("OUTSIDE://broker-1:9094,INSIDE://0.0.0.0:9092", ("127.0.0.1", 9092)),
        ("INSIDE://:9092", ("127.0.0.1", 9092)),
    ],
)
def test_a_broker_is_asked_at_the_address_of_its_inter_broker_listener(
    listeners: str, address: tuple[str, int]
) -> None:
    properties = {
        "zookeeper.connect": "localhost:2181",
        "listeners": listeners,
        "advertised.listeners": "INSIDE://broker-1:9092",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "understudy.listeners.empty.host": "0.0.0.0",
    }
    assert own_address(read_config(properties)) == address


def test_a_zookeeper_that_does_not_serve_is_named() -> None:
    (port,) = free_ports(1)
    with pytest.raises(Failed, match=f"no ZooKeeper server of localhost:{port}/a served within 0 s"):
        await_zookeeper(f"localhost:{port}/a", Interruption(), timeout_s=0.0)


def test_an_interruption_ends_the_wait_for_zookeeper() -> None:
    interruption = Interruption()
    interruption.received = True
    await_zookeeper("localhost:1", interruption)


def test_a_host_is_local_if_its_address_can_be_bound() -> None:
    assert is_local("localhost")
    assert not is_local("192.0.2.1")  # of an address range for documentation
    assert not is_local("no-such-host.invalid")


def test_commands_of_wurstmeisters_image_give_values() -> None:
    given = with_commands(
        {
            "HOSTNAME_COMMAND": "echo kafka-7",
            "PORT_COMMAND": "echo 9094",
            "BROKER_ID_COMMAND": "echo 7",
            "RACK_COMMAND": "echo a",
            "KAFKA_ADVERTISED_LISTENERS": "OUT://_{HOSTNAME_COMMAND}:_{PORT_COMMAND}",
        }
    )
    assert given["KAFKA_ADVERTISED_LISTENERS"] == "OUT://kafka-7:9094"
    assert (given["KAFKA_BROKER_ID"], given["KAFKA_BROKER_RACK"]) == ("7", "a")
    assert with_commands({"HOSTNAME_COMMAND": "echo kafka-7"})["KAFKA_ADVERTISED_HOST_NAME"] == "kafka-7"
    with pytest.raises(ConfigError, match="BROKER_ID_COMMAND: the command 'exit 3' failed"):
        with_commands({"BROKER_ID_COMMAND": "exit 3"})
