"""Clusters whose Kafka brokers write `controller.log`, `state-change.log` and `server.log` as in Kafka's download.

Run as a module, it records the samples of `tests/understudy/history/kafka_logs/samples` again.
"""

from __future__ import annotations

import gzip
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from devtools.judges.maven import kafka_libs
from tests.interop.mixed import is_whole, new_controller, ready_controller
from understudy.brokers.config.properties import format_properties
from understudy.clusters.processes.apache_kafka import SMALL_BROKER, SMALL_JVM, ApacheKafka, KafkaProcess
from understudy.clusters.processes.broker_process import BrokerProcess
from understudy.clusters.processes.local_cluster import LocalCluster

SAMPLES = Path(__file__).parent.parent / "understudy" / "kafka_logs" / "samples"

_PATTERN = "[%d] %p %m (%c)%n"
_FILES = {
    "kafkaAppender": "server.log",
    "stateChangeAppender": "state-change.log",
    "controllerAppender": "controller.log",
}


def log4j_properties(folder: Path) -> dict[str, str]:
    """The appenders, patterns and levels of `config/log4j.properties` of Kafka 3.9; the console has INFO of all."""
    properties = {
        "log4j.rootLogger": "INFO, stdout, kafkaAppender",
        "log4j.appender.stdout": "org.apache.log4j.ConsoleAppender",
        "log4j.appender.stdout.Threshold": "INFO",
        "log4j.appender.stdout.layout": "org.apache.log4j.PatternLayout",
        "log4j.appender.stdout.layout.ConversionPattern": _PATTERN,
        "log4j.logger.kafka.controller": "TRACE, controllerAppender, stdout",
        "log4j.additivity.kafka.controller": "false",
        "log4j.logger.state.change.logger": "INFO, stateChangeAppender, stdout",
        "log4j.additivity.state.change.logger": "false",
    }
    for appender, name in _FILES.items():
        properties |= {
            f"log4j.appender.{appender}": "org.apache.log4j.DailyRollingFileAppender",
            f"log4j.appender.{appender}.DatePattern": "'.'yyyy-MM-dd-HH",
            f"log4j.appender.{appender}.File": str(folder / name),
            f"log4j.appender.{appender}.layout": "org.apache.log4j.PatternLayout",
            f"log4j.appender.{appender}.layout.ConversionPattern": _PATTERN,
        }
    return properties


class LoggingKafka(KafkaProcess):
    """A broker of Apache Kafka with the log files of a download, in its folder `logs`, in UTC."""

    def _command(self) -> list[str]:
        command = super()._command()
        (self.directory / "log4j.properties").write_text(
            format_properties(log4j_properties(self.directory / "logs")), encoding="utf-8"
        )
        return command


class LoggingCluster(LocalCluster):
    """A local cluster whose brokers of Kafka are `LoggingKafka`."""

    def _process(self, broker_id: int, rack: str | None) -> BrokerProcess:
        kafka = self._kafka_brokers.get(broker_id)
        if kafka is None:
            return super()._process(broker_id, rack)
        in_utc = replace(kafka, jvm_options=(*kafka.jvm_options, "-Duser.timezone=UTC"))
        folder = self.directory / f"broker-{broker_id}"
        return LoggingKafka(in_utc, broker_id, folder, rack=rack, properties=self._properties)

    @property
    def zookeeper_log(self) -> Path:
        assert self.embedded_zookeeper is not None
        return self.embedded_zookeeper.transaction_log_dirs[0]

    def logs(self, broker_id: int) -> Path:
        """The folder with the log files of a broker of Kafka."""
        return self.directory / f"broker-{broker_id}" / "logs"


# -- the samples


def record_failover(kafka: ApacheKafka, folder: Path) -> LoggingCluster:
    """Three brokers of Kafka: the controller is killed and comes back, a leader and the controller are stopped."""
    properties = {
        "inter.broker.protocol.version": "3.9",
        "auto.leader.rebalance.enable": "false",
        "auto.create.topics.enable": "false",
        **SMALL_BROKER,
    }
    brokers = dict.fromkeys((1, 2, 3), kafka)
    cluster = LoggingCluster(
        3, kafka_brokers=brokers, directory=folder, session_timeout_ms=6_000, properties=properties
    )
    with cluster:
        cluster.start()
        cluster.create_topic("orders", assignment={0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
        cluster.create_topic("payments", assignment={0: [1, 2], 1: [2, 1], 2: [3, 1]})
        cluster.create_topic("audit", assignment={0: [1], 1: [2], 2: [3]})
        _wait_until_whole(cluster)
        killed = cluster.controller()
        killed.kill()
        new_controller(cluster, cluster.picture().controller_epoch)
        cluster.wait_until(lambda: ready_controller(cluster), "the new controller has completed its failover")
        killed.start()
        _wait_until_whole(cluster)
        follower = next(broker for broker in cluster.brokers if broker.id not in (killed.id, cluster.controller_id()))
        follower.restart()
        _wait_until_whole(cluster)
        cluster.ask(cluster.admin.delete_topics("payments"))
        cluster.wait_until(
            lambda: not any(partition.topic == "payments" for partition in cluster.picture().partitions),
            "payments is deleted",
        )
        cluster.controller().restart()
        _wait_until_whole(cluster)
        cluster.wait_until(lambda: ready_controller(cluster), "the new controller has completed its failover")
        cluster.stop()
    return cluster


def _wait_until_whole(cluster: LocalCluster) -> None:
    cluster.wait_until(lambda: is_whole(cluster.picture()), "all replicas are in sync", 120)


def _shortened(lines: Iterator[str], folder: Path) -> Iterator[str]:
    """Leave out the environment and the listings of configurations, and the paths of this machine."""
    is_listing = False
    for line in lines:
        starts = line.startswith("[20")
        is_listing = (is_listing and not starts) or (
            starts and re.search(r"Config values: $|ConfigValues", line) is not None
        )
        if is_listing and not starts:
            continue
        if "environment:" in line or "(org.apache.kafka.common.config" in line:
            continue
        yield line.replace(str(folder), "/run").replace(str(Path.home()), "/home").replace("/tmp", "/run")


def main() -> None:
    kafka = ApacheKafka.at(kafka_libs(), jvm_options=SMALL_JVM)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cluster = record_failover(kafka, folder)
        shutil.rmtree(SAMPLES, ignore_errors=True)
        for broker in cluster.broker_ids:
            target = SAMPLES / f"broker-{broker}"
            target.mkdir(parents=True)
            for path in sorted(cluster.logs(broker).iterdir()):
                text = path.read_text(encoding="utf-8").splitlines(keepends=True)
                with gzip.GzipFile(target / f"{path.name}.gz", "wb", mtime=0) as packed:
                    packed.write("".join(_shortened(iter(text), folder)).encode())
        faults = sorted((folder / "testbed" / "events").iterdir())
        (SAMPLES / "faults.jsonl").write_bytes(b"".join(path.read_bytes() for path in faults))
        (SAMPLES / "version-2").mkdir()
        for path in sorted(cluster.zookeeper_log.glob("log.*")):
            with gzip.GzipFile(SAMPLES / "version-2" / f"{path.name}.gz", "wb", mtime=0) as packed:
                packed.write(path.read_bytes().rstrip(b"\0"))
    print(
        f"recorded {sum(path.stat().st_size for path in SAMPLES.rglob('*.gz')):,} bytes in {SAMPLES}", file=sys.stderr
    )


if __name__ == "__main__":
    main()
