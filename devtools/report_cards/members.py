"""Runs two members of a group of each client while the coordinator dies, and judges them.

The members are programs of examples/clients; records come from a producer of this process.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import confluent_kafka
import msgspec

from devtools.report_cards.drivers import Driver, end_all, now_ms
from devtools.report_cards.events import Assigned, End, Line, Read, Ready
from devtools.report_cards.judge import RECOVERY_LIMIT_S, longest_pause_ms
from devtools.report_cards.run import (
    BROKERS,
    PROPERTIES,
    SETTLE_TIMEOUT_S,
    STEADY_TIMEOUT_S,
    new_cluster,
    topic_of,
    wait,
)
from devtools.report_cards.scenes import Mark, Scene, controller_killed, leader_killed
from understudy.clusters.processes.apache_kafka import ApacheKafka
from understudy.clusters.processes.local_cluster import LocalCluster

PARTITIONS: Final = 4
AFTERWARDS_S: Final = 10.0
"""Time for which the members continue after the scene: a group that lost its offsets would begin again by then."""
_OFFSETS_TOPIC = "__consumer_offsets"
_SEND_EVERY_S = 0.05
_STEADY = 20
_FLUSH_S = 30.0


def coordinator_killed(cluster: LocalCluster, topic: str, mark: Mark) -> None:
    """Kill the coordinator of all groups: their offsets are in one partition."""
    leader_killed(cluster, _OFFSETS_TOPIC, mark)


MEMBER_SCENES: Final = (
    Scene("coordinator killed", coordinator_killed),
    Scene("controller killed", controller_killed),
)


class GroupCard(msgspec.Struct, frozen=True):
    """The judgement of one client's group in one scene.

    Attributes:
        rebalances: how many assignments its members were given after the first change of the scene.
        twice: how many records were read more than once.
        lost: how many acknowledged records no member has read.
        read_ms: the longest time without a record, of any member, that ended after the first change; None if none
            was read after the last one.
        reasons: why it failed, in words; empty if it passed.
    """

    client: str
    version: str
    rebalances: int
    twice: int
    lost: int
    read_ms: int | None
    reasons: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.reasons


def judge_group(
    client: str,
    members: Sequence[Sequence[Line]],
    marks_ms: Sequence[int],
    acknowledged: frozenset[tuple[int, int]],
    trouble: Sequence[str] = (),
) -> GroupCard:
    """Judge the members of one group from the lines of each.

    Args:
        acknowledged: partition and offset of each record that the producer was acknowledged.
    """
    lines = sorted(itertools.chain.from_iterable(members), key=lambda line: line.at_ms)
    reads = Counter((line.event.partition, line.event.offset) for line in lines if isinstance(line.event, Read))
    lost = len(acknowledged - reads.keys())
    read_ms = longest_pause_ms([line.at_ms for line in lines if isinstance(line.event, Read)], marks_ms)
    reasons = [*trouble]
    if not all(any(isinstance(line.event, Ready) for line in each) for each in members):
        reasons.append("a member did not become ready")
    if read_ms is None:
        reasons.append(f"no member read again within {RECOVERY_LIMIT_S} s")
    if lost:
        reasons.append(f"{lost} acknowledged records were read by no member")
    if not all(any(isinstance(line.event, End) for line in each) for each in members):
        reasons.append("a member did not end")
    return GroupCard(
        client=client,
        version=next((line.event.version for line in lines if isinstance(line.event, Ready)), ""),
        rebalances=sum(isinstance(line.event, Assigned) and line.at_ms >= marks_ms[0] for line in lines),
        twice=sum(count > 1 for count in reads.values()),
        lost=lost,
        read_ms=read_ms,
        reasons=tuple(reasons),
    )


class Feed:
    """An idempotent producer that sends the numbers 0, 1, 2, … to every partition of some topics.

    Attributes:
        acknowledged: by topic, each number that was acknowledged, by its partition and offset.
        sent: how many numbers have been sent to each topic.
    """

    def __init__(self, bootstrap: str, topics: Sequence[str]) -> None:
        self.acknowledged: dict[str, dict[tuple[int, int], int]] = {topic: {} for topic in topics}
        self.sent = 0
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "log_level": 0}
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Send no more, and wait for what was sent."""
        self._stopping.set()
        self._thread.join()
        self._producer.flush(_FLUSH_S)

    def _run(self) -> None:
        for value in itertools.count():
            for topic in self.acknowledged:
                self._producer.produce(
                    topic, str(value).encode(), partition=value % PARTITIONS, on_delivery=self._delivered
                )
            self.sent = value + 1
            self._producer.poll(0)
            if self._stopping.wait(_SEND_EVERY_S):
                return

    def _delivered(self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        topic, partition, offset, value = message.topic(), message.partition(), message.offset(), message.value()
        if error is not None or topic is None or partition is None or offset is None or value is None:
            return
        if offset >= 0:
            self.acknowledged[topic][partition, offset] = int(value)


def run_members(
    scene: Scene, commands: Mapping[str, list[str]], folder: Path, kafka: ApacheKafka | None = None
) -> dict[str, GroupCard]:
    """Play a scene beside two members of each client, each client with a topic and a group of its own; judge them.

    Args:
        commands: by client, the command of its member.
        folder: an empty one, for the run folder of the cluster and the members' standard error.
        kafka: for brokers of Apache Kafka; None for ours.

    Raises:
        ClusterError: the cluster did not do what the scene asks for.
    """
    marks: list[int] = []
    properties = {**PROPERTIES, "offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "3"}
    with new_cluster(scene, folder, kafka, properties) as cluster, ExitStack() as stack:
        topics = {client: topic_of(client) for client in commands}
        for topic in topics.values():
            cluster.create_topic(topic, partitions=PARTITIONS, replication_factor=len(BROKERS))
        cluster.settle(timeout_s=SETTLE_TIMEOUT_S)
        feed = Feed(cluster.bootstrap, list(topics.values()))
        feed.start()
        stack.callback(feed.stop)
        drivers = [
            stack.enter_context(_member(client, command, cluster.bootstrap, topics[client], folder, number))
            for client, command in commands.items()
            for number in (1, 2)
        ]
        wait(drivers, lambda driver: is_steady_member(driver.lines), STEADY_TIMEOUT_S)
        scene.play(cluster, next(iter(topics.values())), lambda: marks.append(now_ms()))
        wait(drivers, lambda driver: _has_read_since(driver.lines, marks[-1]), RECOVERY_LIMIT_S)
        cluster.settle(timeout_s=SETTLE_TIMEOUT_S)
        feed.stop()
        time.sleep(AFTERWARDS_S)
        end_all(drivers)
        cluster.check()
        return {
            client: judge_group(
                client,
                [driver.lines for driver in drivers if driver.client == client],
                marks,
                frozenset(feed.acknowledged[topics[client]]),
                [each for driver in drivers if driver.client == client for each in driver.trouble],
            )
            for client in commands
        }


def _member(client: str, command: list[str], bootstrap: str, topic: str, folder: Path, number: int) -> Driver:
    return Driver(client, command, bootstrap, topic, folder / f"{topic}-{number}.log", group=f"{topic}-readers")


def is_steady_member(lines: Sequence[Line]) -> bool:
    """Whether a member has read some records since it was assigned its partitions last: a fault may come now."""
    last = max((line.at_ms for line in lines if isinstance(line.event, Assigned)), default=None)
    return last is not None and sum(isinstance(line.event, Read) and line.at_ms >= last for line in lines) >= _STEADY


def _has_read_since(lines: Sequence[Line], mark_ms: int) -> bool:
    return any(isinstance(line.event, Read) and line.at_ms >= mark_ms for line in lines)
