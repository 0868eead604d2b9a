"""Runs Apache Kafka as the reference of a benchmark.

`KAFKA_LIBS` names a folder with the jars of Apache Kafka 3.9 (`libs/` of a download, or what Maven copies for
`org.apache.kafka:kafka_2.13:3.9.1`). Nothing of Kafka is downloaded or distributed here.
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from understudy.clusters.processes.apache_kafka import ApacheKafka, KafkaProcess
from understudy.clusters.processes.cluster_view import ClusterView
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper
from understudy.clusters.processes.processes import RunningProcess


def kafka_libs() -> Path | None:
    """The folder of Kafka's jars; None if `KAFKA_LIBS` is not set."""
    named = os.environ.get("KAFKA_LIBS")
    if not named:
        return None
    if not list(Path(named).glob("kafka_2.13-3.9.*.jar")):
        raise SystemExit(
            f"KAFKA_LIBS={named} holds no kafka_2.13-3.9.*.jar; give the libs folder of Apache Kafka 3.9, or unset it"
        )
    return Path(named).absolute()


class KafkaCluster:
    """Apache Kafka brokers 1 to `brokers` on an embedded ZooKeeper, as a context manager that removes all its files.

    Args:
        properties: further keys of `server.properties`.
    """

    def __init__(
        self, libs: Path, brokers: int, *, session_timeout_ms: int, properties: Mapping[str, str] | None = None
    ) -> None:
        self._properties = dict(properties or {})
        self._session_timeout_ms = session_timeout_ms
        self._folder = tempfile.TemporaryDirectory(prefix="understudy-kafka-")
        self._ids = range(1, brokers + 1)
        self.zookeeper = EmbeddedZooKeeper(Path(self._folder.name) / "zookeeper")
        self._kafka = ApacheKafka.at(libs, java=self.zookeeper.java)
        self.processes: list[RunningProcess] = []
        self.ports: dict[int, int] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    @property
    def view(self) -> ClusterView:
        return self._view

    def __enter__(self) -> KafkaCluster:
        self.zookeeper.start()
        self._view = ClusterView(self.zookeeper.connect_string)
        for broker_id in self._ids:
            self._start(broker_id)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes:
            process.kill()
        self._view.close()
        self.zookeeper.stop()
        self._folder.cleanup()

    def _start(self, broker_id: int) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.ports[broker_id] = probe.getsockname()[1]
        properties = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.ports[broker_id]}",
            "zookeeper.connect": self.zookeeper.connect_string,
            "zookeeper.session.timeout.ms": str(self._session_timeout_ms),
            **self._properties,
        }
        folder = Path(self._folder.name) / f"kafka-{broker_id}"
        broker = KafkaProcess(self._kafka, broker_id, folder, rack=None, properties=properties)
        broker.launch()
        assert broker.process is not None
        self.processes.append(broker.process)
