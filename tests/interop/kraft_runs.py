"""Makes runs of KRaft clusters of Apache Kafka: their controllers are killed and paused, a leader is killed.

Run as a module, it makes the samples of `tests/understudy/history/kraft_logs` again.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from devtools.judges.kraft import VERSIONS, JudgedCluster
from tests.understudy.history.kraft_logs.kraft_run import SAMPLES, KRaftRun
from understudy.clusters.processes.kafka_jars import kafka_libs_of
from understudy.history.kraft_logs.segments import PARTITION

LAYOUTS: Final[dict[str, tuple[tuple[int, ...], tuple[int, ...]]]] = {
    "combined": ((1, 2, 3), (1, 2, 3)),
    "separate": ((1001, 1002, 1003), (1, 2, 3)),
}
"""The ids of controllers and brokers: three nodes with both roles, or three of each."""

_LINES: Final = (
    r"^\[20.*(\((org.apache.kafka.raft.QuorumState|org.apache.kafka.raft.KafkaRaftClient|kafka.server.BrokerLifecycleManager)\)"
    r"|active controller|Fencing broker|unfence has been granted|Kafka Server started|shut down completed)"
)
_NOISE: Final = r"Vote request|Registered the listener|Setting the next offset|Reading KRaft|request manager|Voter"
_LINE_CHARACTERS: Final = 180


class _Story:
    """The faults of a cluster, and what its own tools say meanwhile."""

    def __init__(self, cluster: JudgedCluster) -> None:
        self.cluster = cluster
        self.facts: dict[str, Any] = {"statuses": [], "killed": [], "paused": [], "partitions": {}}

    def status(self) -> int:
        """Note what `kafka-metadata-quorum` says; return the leader."""
        status = self.cluster.wait_until(
            lambda: found if (found := self.cluster.quorum()).leader >= 0 else None, "the quorum has a leader"
        )
        self.facts["statuses"].append([time.time() * 1000, status.leader, status.epoch])
        return status.leader

    def tell(self) -> None:
        cluster = self.cluster
        cluster.start()
        cluster.wait_for_line("Kafka Server started", count=len(cluster.nodes))
        cluster.create_topic("orders", assignment={0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
        cluster.create_topic("audit", assignment={0: [1], 1: [2], 2: [3]})
        killed = self.status()
        self._without(killed, kill=True)
        self._without(self.status(), kill=False)
        active = self.status()
        leader = next(broker for broker in reversed(cluster.brokers) if broker != active)
        self._kill_broker(leader)
        follower = next(broker for broker in cluster.brokers if broker not in (active, leader))
        unfenced = len(cluster.lines("unfence has been granted"))
        cluster.stop(follower)
        cluster.start(follower)
        cluster.wait_for_line("unfence has been granted", count=unfenced + 1)
        self.status()

    def _without(self, controller: int, *, kill: bool) -> None:
        """Kill or pause the active controller until another one is active and, if it is a broker, it is fenced."""
        cluster = self.cluster
        others = [node for node in cluster.controllers if node != controller]
        elected = len(cluster.lines("Becoming the active controller", *others))
        fenced = len(cluster.lines(f"Fencing broker {controller} ", *others))
        started = len(cluster.lines("Kafka Server started", controller))
        unfenced = len(cluster.lines("unfence has been granted"))
        if kill:
            self.facts["killed"].append([cluster.kill(controller), controller])
        else:
            self.facts["paused"].append([time.time() * 1000, controller])
            cluster.processes[controller].pause()
        cluster.wait_for_line("Becoming the active controller", *others, count=elected + 1)
        is_broker = controller in cluster.brokers
        if is_broker:
            cluster.wait_for_line(f"Fencing broker {controller} ", *others, count=fenced + 1)
        if kill:
            cluster.start(controller)
            cluster.wait_for_line("Kafka Server started", controller, count=started + 1)
        else:
            cluster.processes[controller].resume()
        if is_broker:
            cluster.wait_for_line("unfence has been granted", count=unfenced + 1)

    def _kill_broker(self, broker: int) -> None:
        cluster = self.cluster
        fenced, unfenced = (
            len(cluster.lines(what)) for what in (f"Fencing broker {broker} ", "unfence has been granted")
        )
        self.facts["killed"].append([cluster.kill(broker), broker])
        cluster.wait_for_line(f"Fencing broker {broker} ", count=fenced + 1)
        cluster.start(broker)
        cluster.wait_for_line("unfence has been granted", count=unfenced + 1)


def make_run(version: str, layout: str, folder: Path) -> KRaftRun:
    """Run a cluster, copy its logs while it runs, and write what Kafka's tools say about the copies into `folder`."""
    controllers, brokers = LAYOUTS[layout]
    properties = {"broker.session.timeout.ms": "4000", "broker.heartbeat.interval.ms": "500"}
    run = KRaftRun(folder / "run")
    run.folder.mkdir(parents=True)
    cluster = JudgedCluster(
        kafka_libs_of(version), folder / "cluster", controllers=controllers, brokers=brokers, properties=properties
    )
    with cluster:
        story = _Story(cluster)
        story.tell()
        for node in cluster.nodes:
            _copy(cluster.log_folder(node) / PARTITION, run.folder / f"node-{node}" / PARTITION)
        lines = [
            f"{node}: {line[:_LINE_CHARACTERS]}" for node, line in cluster.lines(_LINES) if not re.search(_NOISE, line)
        ]
    segment = max((path / PARTITION / f"{0:020}.log" for path in run.logs), key=lambda path: path.stat().st_size)
    (run.folder / "dump.txt").write_text(cluster.dump(segment))
    story.facts["partitions"] = _partitions(cluster, segment)
    (run.folder / "lines.txt").write_text("\n".join(lines) + "\n")
    (run.folder / "facts.json").write_text(json.dumps(story.facts))
    return run


_OFTEN: Final = {
    "metadata.log.max.record.bytes.between.snapshots": "1500",
    "metadata.log.segment.min.bytes": "1000",
    "metadata.log.segment.bytes": "2000",
    "metadata.max.retention.bytes": "3000",
}
"""Keys with which a node makes a snapshot every few seconds, and removes the segments before it a minute later."""


def make_trimmed_log(version: str, folder: Path) -> tuple[Path, str]:
    """Run a controller and two brokers until a snapshot has replaced the beginning of the log, then kill a broker.

    Returns:
        A copy of the controller's log directory, and what `kafka-topics --describe` says then.
    """
    cluster = JudgedCluster(
        kafka_libs_of(version), folder / "cluster", controllers=(1,), brokers=(1, 2), properties=_OFTEN
    )
    with cluster:
        cluster.start()
        cluster.wait_for_line("Kafka Server started", count=2)
        cluster.create_topic("orders", assignment={0: [1, 2], 1: [2, 1]})
        log = cluster.log_folder(1) / PARTITION
        cluster.wait_until(lambda: not (log / f"{0:020}.log").exists(), "a snapshot replaces the first segment", 240)
        cluster.create_topic("audit", assignment={0: [2]})
        cluster.kill(2)
        cluster.wait_for_line("Fencing broker 2")
        described = cluster.topics("--describe")
        _copy(log, folder / "copy" / PARTITION)
    return folder / "copy", described


def _partitions(cluster: JudgedCluster, segment: Path) -> dict[str, str]:
    """Return the last states of all partitions by `kafka-metadata-shell`, whose command may come before it has read the
    whole segment."""
    partitions = [(topic, number) for topic in ("orders", "audit") for number in range(3)]
    paths = [f"/image/topics/byName/{topic}/{number}" for topic, number in partitions]

    def states() -> list[str]:
        found = re.findall(r"^PartitionRegistration\(.*\)$", cluster.shell(segment, "cat", *paths), re.MULTILINE)
        return found if len(found) == len(paths) else []

    found = cluster.wait_until(states, "the shell has read all partitions")
    return {f"{topic}-{number}": state for (topic, number), state in zip(partitions, found, strict=True)}


def _copy(source: Path, target: Path) -> None:
    target.mkdir(parents=True)
    for path in source.glob("*"):
        if path.suffix in (".log", ".checkpoint") or path.name == "quorum-state":
            shutil.copy(path, target)


def main() -> None:
    shutil.rmtree(SAMPLES, ignore_errors=True)
    for version, layout in zip(VERSIONS, LAYOUTS, strict=True):
        with tempfile.TemporaryDirectory() as name:
            run = make_run(version, layout, Path(name))
            for path in (path for path in run.folder.rglob("*") if path.is_file()):
                target = SAMPLES / f"{version}-{layout}" / path.relative_to(run.folder)
                target.parent.mkdir(parents=True, exist_ok=True)
                with gzip.GzipFile(f"{target}.gz", "wb", mtime=0) as packed:
                    packed.write(path.read_bytes())
    size = sum(path.stat().st_size for path in SAMPLES.rglob("*.gz"))
    print(f"recorded {size:,} bytes in {SAMPLES}", file=sys.stderr)


if __name__ == "__main__":
    main()
