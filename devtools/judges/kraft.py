"""Runs Kafka's tools for KRaft clusters."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from understudy.brokers.config.properties import format_properties
from understudy.clusters.processes.apache_kafka import CONSOLE_LOGGING
from understudy.clusters.processes.kafka_jars import NEWEST_VERSION, VERSION
from understudy.clusters.processes.kraft_cluster import TIMEOUT_S, KRaftCluster

VERSIONS: Final = (VERSION, NEWEST_VERSION)
"""Versions of Kafka: the last with ZooKeeper mode, and the newest."""


class ToolFailed(Exception):
    """One of Kafka's tools has failed. The message has its name and its output."""


@dataclass(frozen=True, slots=True)
class QuorumStatus:
    """What `kafka-metadata-quorum describe --status` says."""

    leader: int
    epoch: int
    high_watermark: int


class JudgedCluster(KRaftCluster):
    """A KRaft cluster, and Kafka's tools for it."""

    def tool(self, main_class: str, *arguments: str, timeout_s: float = TIMEOUT_S) -> str:
        """Run one of Kafka's tools that has to exit with 0, and return its output.

        Raises:
            ToolFailed: it exited with another code.
            subprocess.TimeoutExpired: it has not ended in time.
        """
        logging = self.folder / "tools-log4j.properties"
        logging.write_text(
            format_properties({**CONSOLE_LOGGING, "log4j.rootLogger": "ERROR, stdout"}), encoding="utf-8"
        )
        command = self.command(main_class, *arguments, logging=logging)
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
        if done.returncode != 0:
            raise ToolFailed(f"{main_class} exited with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def quorum(self) -> QuorumStatus:
        """Ask the quorum for its leader and epoch, as `kafka-metadata-quorum describe --status` does."""
        text = self.tool(
            "org.apache.kafka.tools.MetadataQuorumCommand", "--bootstrap-server", self.bootstrap, "describe", "--status"
        )
        found = {
            name: int(value)
            for name, value in re.findall(r"^(LeaderId|LeaderEpoch|HighWatermark):\s*(-?\d+)", text, re.MULTILINE)
        }
        return QuorumStatus(found["LeaderId"], found["LeaderEpoch"], found["HighWatermark"])

    def topics(self, *arguments: str) -> str:
        """Run `kafka-topics` with some arguments."""
        return self.tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", self.bootstrap, *arguments)

    def dump(self, segment: Path) -> str:
        """Return the records of a segment of `__cluster_metadata`, as `kafka-dump-log` prints them."""
        return self.tool("kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", str(segment))

    def shell(self, segment: Path, *command: str) -> str:
        """Run a command of `kafka-metadata-shell` over a segment of `__cluster_metadata`."""
        return self.tool("org.apache.kafka.shell.MetadataShell", "--snapshot", str(segment), *command)
