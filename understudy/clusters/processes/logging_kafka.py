"""Clusters whose brokers of Apache Kafka write `controller.log`, `state-change.log` and `server.log` as in Kafka's
download."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from understudy.brokers.config.properties import format_properties
from understudy.clusters.processes.apache_kafka import LOG_PATTERN, KafkaProcess
from understudy.clusters.processes.broker_process import BrokerProcess
from understudy.clusters.processes.local_cluster import LocalCluster

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
        "log4j.appender.stdout.layout.ConversionPattern": LOG_PATTERN,
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
            f"log4j.appender.{appender}.layout.ConversionPattern": LOG_PATTERN,
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
        """The folder with the transaction log of the cluster's own ZooKeeper."""
        assert self.embedded_zookeeper is not None
        return self.embedded_zookeeper.transaction_log_dirs[0]

    def logs(self, broker_id: int) -> Path:
        """The folder with the log files of a broker of Kafka."""
        return self.directory / f"broker-{broker_id}" / "logs"
