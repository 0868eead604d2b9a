"""Runs Apache Kafka 3.9 in ZooKeeper mode: its brokers as processes in a local cluster, its tools as commands.

Kafka is neither downloaded nor shipped here: `ApacheKafka` takes the folder with its jars (`libs/` of a download, or
the jars that Maven copies for `org.apache.kafka:kafka_2.13:3.9.1`, with `kafka-tools` for the tools).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from understudy.brokers.config.properties import format_properties
from understudy.clusters.java import JavaRuntime, choose_java
from understudy.clusters.processes.broker_process import BrokerProcess
from understudy.clusters.processes.fixed_address import FixedAddress

SMALL_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""JVM options for tests on small machines: a broker starts sooner and uses less memory than with Kafka's options."""

SMALL_BROKER = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": str(4 * 1024 * 1024),
}
"""Keys of `server.properties` for such a broker: internal topics with one replica, no initial rebalance delay, buffers
that fit the heap."""

_BROKER_JAR = "kafka_2.13-3.9.*.jar"
_MAIN = "kafka.Kafka"
LOG_PATTERN = "[%d] %p %m (%c)%n"
"""Pattern of log lines in Kafka's own configuration."""
CONSOLE_LOGGING = {
    "log4j.rootLogger": "INFO, stdout",
    "log4j.appender.stdout": "org.apache.log4j.ConsoleAppender",
    "log4j.appender.stdout.layout": "org.apache.log4j.PatternLayout",
    "log4j.appender.stdout.layout.ConversionPattern": LOG_PATTERN,
}
"""A configuration of log4j 1 that writes everything from INFO on to the standard output."""
CONSOLE_LOGGING_2 = {
    "rootLogger.level": "INFO",
    "rootLogger.appenderRef.stdout.ref": "stdout",
    "appender.stdout.type": "Console",
    "appender.stdout.name": "stdout",
    "appender.stdout.layout.type": "PatternLayout",
    "appender.stdout.layout.pattern": LOG_PATTERN,
}
"""The same for log4j 2, which Kafka's downloads have from 4.0 on."""
_REQUEST_LOGGING = {
    "log4j.logger.kafka.request.logger": "DEBUG, requests",
    "log4j.additivity.kafka.request.logger": "false",
    "log4j.appender.requests": "org.apache.log4j.FileAppender",
    "log4j.appender.requests.layout": "org.apache.log4j.PatternLayout",
    "log4j.appender.requests.layout.ConversionPattern": "%m%n",
}
_OWN_KEY_PREFIX = "understudy."
"""Prefix of the configuration keys that only brokers of Understudy have."""


class KafkaNotFound(Exception):
    """There is no Apache Kafka 3.9 in the folder. The message names the folder and the jar that it lacks."""


@dataclass(frozen=True, slots=True)
class ApacheKafka:
    """The jars of Apache Kafka 3.9, and the Java to run them with.

    Args:
        libs: the folder with the jars. Brokers write a log only if a binding of slf4j is among them
            (`slf4j-reload4j`).
        jvm_options: the options for brokers and tools.

    Raises:
        KafkaNotFound: there is no broker in `libs`.
    """

    libs: Path
    java: JavaRuntime
    jvm_options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not any(self.libs.glob(_BROKER_JAR)):
            raise KafkaNotFound(f"{self.libs} holds no {_BROKER_JAR}; give the libs folder of Apache Kafka 3.9")

    @classmethod
    def at(cls, libs: Path, *, java: JavaRuntime | None = None, jvm_options: tuple[str, ...] = ()) -> ApacheKafka:
        """Use the Kafka in `libs` with the Java that `choose_java` finds. Raises KafkaNotFound, JavaNotFound."""
        return cls(libs.absolute(), java or choose_java(), jvm_options)

    def command(self, main_class: str, *arguments: str, logging: Path | None = None) -> list[str]:
        """The command line that runs a class of Kafka.

        Args:
            logging: the path of a log4j configuration.
        """
        configured = () if logging is None else (f"-Dlog4j.configuration={logging.as_uri()}",)
        java = [str(self.java.executable), *self.jvm_options, *configured, "-cp", f"{self.libs}/*"]
        return [*java, main_class, *arguments]


class KafkaProcess(BrokerProcess):
    """A broker of Apache Kafka in a local cluster, with the folder, configuration keys and faults of other brokers.

    It writes no event log and has no named points.

    Args:
        logs_requests: write every request that it handles to `request_log`, as JSON, with header and response.
    """

    def __init__(
        self,
        kafka: ApacheKafka,
        broker_id: int,
        directory: Path,
        *,
        rack: str | None,
        properties: Mapping[str, str],
        address: FixedAddress | None = None,
        logs_requests: bool = False,
    ) -> None:
        super().__init__(broker_id, directory, rack=rack, properties=properties, address=address, forked=False)
        self.request_log = directory / "requests.log"
        self._kafka = kafka
        self._logs_requests = logs_requests

    def prepare(self) -> None:
        """Do nothing: a Java process reads its configuration when it starts, so it cannot be started before that."""

    def _command(self) -> list[str]:
        logging = self.directory / "log4j.properties"
        request_logging = (
            {**_REQUEST_LOGGING, "log4j.appender.requests.File": str(self.request_log)} if self._logs_requests else {}
        )
        logging.write_text(format_properties({**CONSOLE_LOGGING, **request_logging}), encoding="utf-8")
        return self._kafka.command(_MAIN, self.config.name, logging=logging)

    def _all_properties(self) -> dict[str, str]:
        return {key: value for key, value in super()._all_properties().items() if not key.startswith(_OWN_KEY_PREFIX)}
