"""Runs Apache Kafka's own command-line tools, as `bin/kafka-*.sh` does."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from understudy.brokers.config.properties import format_properties
from understudy.clusters.processes.apache_kafka import ApacheKafka
from understudy.clusters.processes.processes import ChildProcess

TIMEOUT_S = 240

PATIENT = "--request-timeout-ms 30000 --message-send-max-retries 1000"
"""Options of `kafka-console-producer`, which by default gives up a record after four requests of 1.5 s each."""

MAIN_CLASSES = {
    "kafka-acls": "kafka.admin.AclCommand",
    "kafka-broker-api-versions": "kafka.admin.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-dump-log": "kafka.tools.DumpLogSegments",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "zookeeper-shell": "org.apache.zookeeper.ZooKeeperMainWithTlsSupportForKafka",
}
"""As in the scripts of Kafka 3.9's `bin`."""

OLD_MAIN_CLASSES = {
    "2.8.2": {
        "kafka-configs": "kafka.admin.ConfigCommand",
        "kafka-preferred-replica-election": "kafka.admin.PreferredReplicaLeaderElectionCommand",
        "kafka-topics": "kafka.admin.TopicCommand",
    },
    "1.1.1": {"kafka-consumer-groups": "kafka.admin.ConsumerGroupCommand"},
}
"""As in the scripts of the last releases with `--zookeeper`, by their versions."""
SCALA = {"2.8.2": "2.13", "1.1.1": "2.12"}
"""The version of Scala for which the jars of a release are taken."""
NAMES = {*MAIN_CLASSES, *(name for classes in OLD_MAIN_CLASSES.values() for name in classes)}
"""The names of all tools."""

# As in Kafka's `config/tools-log4j.properties`.
LOGGING = {
    "log4j.rootLogger": "WARN, stderr",
    "log4j.appender.stderr": "org.apache.log4j.ConsoleAppender",
    "log4j.appender.stderr.layout": "org.apache.log4j.PatternLayout",
    "log4j.appender.stderr.layout.ConversionPattern": "[%d] %p %m (%c)%n",
    "log4j.appender.stderr.Target": "System.err",
}


class Outcome(NamedTuple):
    """A tool's output and exit code."""

    rc: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class Tools:
    """Kafka's tools in a folder of their own."""

    kafka: ApacheKafka
    directory: Path

    def run(self, line: str, stdin: str = "", timeout_s: float = TIMEOUT_S) -> Outcome:
        """Run a command line, such as `kafka-topics --list …`, to its end."""
        done = subprocess.run(
            self._command(shlex.split(line)),
            input=stdin,
            capture_output=True,
            text=True,
            cwd=self.directory,
            timeout=timeout_s,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def succeed(self, line: str, stdin: str = "", timeout_s: float = TIMEOUT_S) -> str:
        """Run a command line that has to exit with 0; its output."""
        outcome = self.run(line, stdin, timeout_s)
        assert outcome.rc == 0, f"{line}\nexited with {outcome.rc}\n{outcome.stdout}\n{outcome.stderr}"
        return outcome.stdout

    def start(self, line: str, log: Path) -> ChildProcess:
        """Start a command line; its output goes to `log`."""
        name, *_ = shlex.split(line)
        return ChildProcess(name, self._command(shlex.split(line)), log=log, directory=self.directory)

    @contextmanager
    def typing(self, line: str, log: Path) -> Iterator[IO[str]]:
        """Start a command line with its standard input, which has to exit with 0 once that is closed. Its output goes
        to `log`."""
        command = self._command(shlex.split(line))
        with (
            log.open("ab") as output,
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, text=True, cwd=self.directory
            ) as process,
        ):
            try:
                assert process.stdin is not None
                yield process.stdin
                process.stdin.close()
                rc = process.wait(TIMEOUT_S)
            except BaseException:
                process.kill()
                raise
        assert rc == 0, f"{line}\nexited with {rc}\n{log.read_text()}"

    def of_release(self, version: str, libs: Path) -> Tools:
        """Tools of an older release in the same folder, whose jars are in `libs`; others stay as they are."""
        return OldTools(self.kafka, self.directory, version, libs)

    def _command(self, words: Sequence[str]) -> list[str]:
        logging = self._logging()
        name, *arguments = words
        server = ("-server",) if name == "zookeeper-shell" else ()
        return self.kafka.command(MAIN_CLASSES[name], *server, *arguments, logging=logging)

    def _logging(self) -> Path:
        """The path of the tools' configuration of log4j."""
        logging = self.directory / "tools-log4j.properties"
        if not logging.exists():
            logging.write_text(format_properties(LOGGING), encoding="utf-8")
        return logging


@dataclass(frozen=True, slots=True)
class OldTools(Tools):
    """The tools of an older release in place of the tools of 3.9.1, as far as `OLD_MAIN_CLASSES` has them."""

    version: str
    libs: Path

    def _command(self, words: Sequence[str]) -> list[str]:
        name, *arguments = words
        main_class = OLD_MAIN_CLASSES[self.version].get(name)
        if main_class is None:
            return Tools._command(self, words)
        java = [str(self.kafka.java.executable), *self.kafka.jvm_options]
        log4j = f"-Dlog4j.configuration={self._logging().as_uri()}"
        return [*java, log4j, "-cp", f"{self.libs}/*", main_class, *arguments]
