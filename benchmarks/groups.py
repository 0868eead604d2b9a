"""Measures consumer groups on three brokers: commits, rebalances, members at rest, a failover, a consumer in a group.

The client is the same beside both clusters: `benchmarks/group_client.py`, and librdkafka for the consumer. The
reference is Apache Kafka 3.9 in the same run if `KAFKA_LIBS` names its jars; otherwise there is none.

UNDERSTUDY_BENCH_GROUPS (1000) groups of three members are at rest, UNDERSTUDY_BENCH_GROUP_MEMBERS (100) rebalance,
UNDERSTUDY_BENCH_GROUP_CLIENTS (60) commit UNDERSTUDY_BENCH_GROUP_COMMITS (10000) times in all, so that both clusters
have the same records to load when a coordinator of UNDERSTUDY_BENCH_GROUP_FAILOVER (10000) groups is killed, and
UNDERSTUDY_BENCH_GROUP_MB (128) are consumed.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, Producer

from benchmarks.arrangement import processor_seconds
from benchmarks.group_client import (
    PATIENCE_S,
    Address,
    Connection,
    Connections,
    ask_one,
    coordinators,
    request_frame,
    response,
)
from benchmarks.kafka_beside import kafka_libs
from benchmarks.rows import Row
from understudy.brokers.coordinator.coordinators import partition_for
from understudy.clusters.processes.apache_kafka import ApacheKafka
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.heartbeat import HeartbeatRequest
from understudy.foundation.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from understudy.foundation.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from understudy.foundation.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from understudy.foundation.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

AT_REST = int(os.environ.get("UNDERSTUDY_BENCH_GROUPS", "1000"))
MEMBERS = int(os.environ.get("UNDERSTUDY_BENCH_GROUP_MEMBERS", "100"))
CLIENTS = int(os.environ.get("UNDERSTUDY_BENCH_GROUP_CLIENTS", "60"))
COMMITS = int(os.environ.get("UNDERSTUDY_BENCH_GROUP_COMMITS", "10000"))
FAILOVER = int(os.environ.get("UNDERSTUDY_BENCH_GROUP_FAILOVER", "10000"))
MEGABYTES = int(os.environ.get("UNDERSTUDY_BENCH_GROUP_MB", "128"))

BROKERS: Final = 3
TOPIC: Final = "orders"
PARTITIONS: Final = 10
MEMBERS_AT_REST: Final = 3
HEARTBEAT_S: Final = 3.0
"""The default of Kafka's consumer."""
AT_REST_S: Final = 15.0
REBALANCES: Final = 20
WARM_UP_COMMITS: Final = 3_000
POLL_S: Final = 0.005
INITIAL_DELAY_MS: Final = 2_000
OFFSETS_PARTITIONS: Final = 50
CONSUMED_TIMES: Final = 5
RECORD: Final = os.urandom(1_000)
START_SCRIPT_HEAP: Final = ("-Xmx1G", "-Xms1G")
PROPERTIES: Final = {
    "group.initial.rebalance.delay.ms": str(INITIAL_DELAY_MS),
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "offsets.topic.replication.factor": str(BROKERS),
}

_LOADING: Final = (Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.NOT_COORDINATOR)

GOAL_COMMITS: Final = 20_000
GOAL_CORE: Final = 0.10


class _Figures(NamedTuple):
    """What was measured of one cluster; times of one commit in µs."""

    commit_us: float
    commit_processor_us: float
    offset_us: float
    rebalance_ms: float
    at_rest_core: float
    consumed_ms: float
    failover_s: float


def run() -> list[Row]:
    libs = kafka_libs()
    ours = _measure(None)
    kafkas = None if libs is None else _measure(ApacheKafka.at(libs, jvm_options=START_SCRIPT_HEAP))

    def row(what: str, figure: Callable[[_Figures], float], target: float | None) -> Row:
        return Row(what, figure(ours), None if kafkas is None else figure(kafkas), target)

    goal_us = 1_000_000 / GOAL_COMMITS
    at_rest = f"{AT_REST:,} groups × {MEMBERS_AT_REST} members at rest"
    return [
        row(f"a commit of one offset, {CLIENTS} clients, µs", lambda each: each.commit_us, 1.0),
        Row(f"  the same; reference: the goal, {GOAL_COMMITS:,} a second", ours.commit_us, goal_us, 1.0),
        row("  processor time of the brokers, µs", lambda each: each.commit_processor_us, None),
        row(f"an offset, {PARTITIONS} in a commit, {CLIENTS} clients, µs", lambda each: each.offset_us, 1.0),
        Row(f"  the same; reference: the goal, {GOAL_COMMITS:,} a second", ours.offset_us, goal_us, 1.0),
        row(f"rebalance of {MEMBERS} members, p50, ms", lambda each: each.rebalance_ms, 1.0),
        row(f"{at_rest}, share of a core, 3 brokers", lambda each: each.at_rest_core, None),
        Row("  the same; reference: the goal", ours.at_rest_core, GOAL_CORE, 1.0),
        row("consumer in a group, confluent-kafka, ms a MB", lambda each: each.consumed_ms, 1.0),
        row(f"coordinator killed, {FAILOVER:,} groups, until all answer, s", lambda each: each.failover_s, 0.5),
    ]


def _measure(kafka: ApacheKafka | None) -> _Figures:
    """Measure a new cluster; Kafka's if there is a `kafka`."""
    kafka_brokers = {} if kafka is None else dict.fromkeys(range(1, BROKERS + 1), kafka)
    with LocalCluster(BROKERS, session_timeout_ms=6_000, kafka_brokers=kafka_brokers, properties=PROPERTIES) as cluster:
        cluster.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=BROKERS)
        _commits(cluster, WARM_UP_COMMITS, offsets=1)
        commit_us, processor_us = _commits(cluster, COMMITS, offsets=1)
        offset_us, _ = _commits(cluster, COMMITS, offsets=PARTITIONS)
        return _Figures(
            commit_us,
            processor_us,
            offset_us / PARTITIONS,
            rebalance_ms=_rebalances(cluster),
            at_rest_core=_at_rest(cluster),
            consumed_ms=_consume(cluster),
            failover_s=_failover(cluster),
        )


def _bootstrap(cluster: LocalCluster) -> list[Address]:
    split = [address.rpartition(":") for address in cluster.bootstrap.split(",")]
    return [Address(host, int(port)) for host, _, port in split]


def _processor_seconds(cluster: LocalCluster) -> float:
    """The processor time of all brokers so far."""
    return sum(
        processor_seconds(broker.process.process.pid)
        for broker in cluster.brokers
        if broker.process.process is not None
    )


# ------------------------------------------------------------------ commits


def _commit_frame(group: str, offsets: int) -> bytes:
    partitions = tuple(
        OffsetCommitRequestPartition(partition_index=number, committed_offset=5, committed_metadata="")
        for number in range(offsets)
    )
    topics = (OffsetCommitRequestTopic(name=TOPIC, partitions=partitions),)
    return request_frame(OffsetCommitRequest(group_id=group, topics=topics), 8)


def _is_loading(answer: bytes) -> bool:
    """Whether a commit is to be sent again, because its coordinator has not read the partition yet."""
    decoded = response(answer, OffsetCommitRequest, 8, OffsetCommitResponse)
    return decoded.topics[0].partitions[0].error_code in _LOADING


def _check_commit(answer: bytes) -> None:
    decoded = response(answer, OffsetCommitRequest, 8, OffsetCommitResponse)
    errors = {partition.error_code for topic in decoded.topics for partition in topic.partitions}
    if errors != {0}:
        raise SystemExit(f"a commit was refused: errors {sorted(errors)}")


def _commits(cluster: LocalCluster, commits: int, *, offsets: int) -> tuple[float, float]:
    """Commit with every client, each again as soon as it is answered; µs, and of the brokers' processors, a commit."""
    groups = [f"committing-{number}" for number in range(CLIENTS)]
    found = coordinators(_bootstrap(cluster), groups)
    with Connections(found[group] for group in groups) as connections:
        frames = {each: _commit_frame(group, offsets) for each, group in zip(connections.all, groups, strict=True)}
        first: dict[Connection, bytes] = {}

        def until_loaded(connection: Connection, answer: bytes) -> bytes | None:
            first[connection] = answer
            return frames[connection] if _is_loading(answer) else None

        connections.ask(frames, until_loaded)
        for answer in first.values():
            _check_commit(answer)
        left, began, used = commits - CLIENTS, time.monotonic(), _processor_seconds(cluster)

        def again(connection: Connection, answer: bytes) -> bytes | None:
            nonlocal left
            if answer != first[connection]:
                _check_commit(answer)
            left -= 1
            return frames[connection] if left >= 0 else None

        connections.ask(frames, again)
        took = time.monotonic() - began
        return 1e6 * took / commits, 1e6 * (_processor_seconds(cluster) - used) / commits


# ------------------------------------------------------------------ members


class _Member:
    """A member of a group on a connection of its own."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.member_id = ""
        self.generation = 0
        self._others: tuple[str, ...] = ()

    def join_frame(self, metadata: bytes) -> bytes:
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=120_000,
            rebalance_timeout_ms=120_000,
            member_id=self.member_id,
            protocol_type="benchmark",
            protocols=(JoinGroupRequestProtocol(name="any", metadata=metadata),),
        )
        return request_frame(request, 3)

    def joined(self, answer: bytes) -> None:
        decoded = response(answer, JoinGroupRequest, 3, JoinGroupResponse)
        if decoded.error_code:
            raise SystemExit(f"a member could not join: error {decoded.error_code}")
        self.member_id, self.generation = decoded.member_id, decoded.generation_id
        self._others = tuple(each.member_id for each in decoded.members)

    def sync_frame(self) -> bytes:
        assigned = tuple(SyncGroupRequestAssignment(member_id=each, assignment=b"x" * 50) for each in self._others)
        request = SyncGroupRequest(
            group_id=self.group, generation_id=self.generation, member_id=self.member_id, assignments=assigned
        )
        return request_frame(request, 2)

    def synced(self, answer: bytes) -> None:
        decoded = response(answer, SyncGroupRequest, 2, SyncGroupResponse)
        if decoded.error_code or not decoded.assignment:
            raise SystemExit(f"a member has no assignment: error {decoded.error_code}")

    def heartbeat_frame(self) -> bytes:
        request = HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.member_id)
        return request_frame(request, 2)


def _join_all(connections: Connections, members: Sequence[_Member], metadata: bytes) -> float:
    """Have all members join and sync; return the milliseconds until the last one has its assignment."""
    of = dict(zip(connections.all, members, strict=True))
    frames = {connection: member.join_frame(metadata) for connection, member in of.items()}
    began = time.monotonic()
    connections.ask(frames, lambda connection, answer: of[connection].joined(answer))
    synced = {connection: member.sync_frame() for connection, member in of.items()}
    connections.ask(synced, lambda connection, answer: of[connection].synced(answer))
    return 1000 * (time.monotonic() - began)


def _rebalances(cluster: LocalCluster) -> float:
    """Have every member of a group join again with other metadata; return the median of the milliseconds."""
    address = coordinators(_bootstrap(cluster), ["rebalancing"])["rebalancing"]
    members = [_Member("rebalancing") for _ in range(MEMBERS)]
    with Connections([address] * MEMBERS) as connections:
        _join_all(connections, members, b"first")
        took = [_join_all(connections, members, b"%d" % number) for number in range(2 * REBALANCES)]
    return statistics.median(took[REBALANCES:])


def _at_rest(cluster: LocalCluster) -> float:
    """Return the share of a core that the brokers take, in all, while every member sends its heartbeats."""
    groups = [f"resting-{number}" for number in range(AT_REST)]
    found = coordinators(_bootstrap(cluster), groups)
    members = [_Member(group) for group in groups for _ in range(MEMBERS_AT_REST)]
    with Connections(found[member.group] for member in members) as connections:
        _join_all(connections, members, b"first")
        frames = [(each, member.heartbeat_frame()) for each, member in zip(connections.all, members, strict=True)]
        _heartbeats(connections, frames, HEARTBEAT_S)
        used = _processor_seconds(cluster)
        took = _heartbeats(connections, frames, AT_REST_S)
        return (_processor_seconds(cluster) - used) / took


def _heartbeats(connections: Connections, frames: Sequence[tuple[Connection, bytes]], seconds: float) -> float:
    """Send the members' heartbeats in turn, spread over their interval; return the seconds it took."""
    began, sent, answered = time.monotonic(), 0, 0
    per_s = len(frames) / HEARTBEAT_S
    while (elapsed := time.monotonic() - began) < seconds or answered < sent:
        if elapsed > seconds + PATIENCE_S:
            raise SystemExit(f"{sent - answered} heartbeats were not answered")
        while elapsed < seconds and sent < elapsed * per_s:
            connection, frame = frames[sent % len(frames)]
            connection.send(frame)
            sent += 1
        for _, answer in connections.answered(0.01):
            answered += 1
            if answer[-2:] != b"\0\0":
                raise SystemExit(f"a heartbeat was refused: {answer.hex()}")
    return time.monotonic() - began


# ------------------------------------------------------------------ a consumer


def _consume(cluster: LocalCluster) -> float:
    """Produce, and consume all of it as a group's only member; milliseconds a MB from the first record to the last."""
    records = MEGABYTES * 1_000_000 // len(RECORD)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5, "acks": "all"})
    for number in range(records):
        while True:
            try:
                producer.produce(TOPIC, RECORD, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    if producer.flush(PATIENCE_S):
        raise SystemExit("not all records were produced")
    took = [_consume_once(cluster, f"consuming-{number}", records) for number in range(1 + CONSUMED_TIMES)]
    return 1000 * statistics.median(took[1:]) / MEGABYTES


def _consume_once(cluster: LocalCluster, group: str, records: int) -> float:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    left, began, deadline = records, 0.0, time.monotonic() + 5 * PATIENCE_S
    while left > 0:
        found: list[Any] = consumer.consume(10_000 if began else 1, timeout=1.0)
        if found and not began:
            began = time.monotonic()
        left -= sum(message.error() is None for message in found)
        if time.monotonic() > deadline:
            raise SystemExit(f"{left} of {records} records were not consumed")
    took = time.monotonic() - began
    consumer.close()
    return took


# ------------------------------------------------------------------ failover


def _failover(cluster: LocalCluster) -> float:
    """Kill the coordinator of most groups; seconds from the loss of its session until all its groups are answered."""
    groups = [f"stored-{number}" for number in range(FAILOVER)]
    before = coordinators(_bootstrap(cluster), groups)
    by_address: dict[Address, list[str]] = {}
    for group, address in before.items():
        by_address.setdefault(address, []).append(group)
    with Connections(address for address in by_address for _ in range(CLIENTS // BROKERS)) as connections:
        _commit_each(connections, by_address)
    victim = max(by_address, key=lambda address: len(by_address[address]))
    one_of = {partition_for(group, OFFSETS_PARTITIONS): group for group in by_address[victim]}
    killed = next(broker for broker in cluster.brokers if broker.address == f"{victim.host}:{victim.port}")
    others = [address for address in _bootstrap(cluster) if address != victim]
    killed.kill()
    while killed.id in cluster.view.brokers():
        time.sleep(0.005)
    began = time.monotonic()
    _await_offsets(others, victim, list(one_of.values()))
    return time.monotonic() - began


def _commit_each(connections: Connections, by_address: dict[Address, list[str]]) -> None:
    """Commit offsets of all groups, over several connections to each coordinator."""
    each = len(connections.all) // len(by_address)
    queues: dict[Connection, list[bytes]] = {}
    for number, connection in enumerate(connections.all):
        groups = list(by_address.values())[number // each][number % each :: each]
        queues[connection] = [_commit_frame(group, PARTITIONS) for group in groups]

    def then(connection: Connection, answer: bytes) -> bytes | None:
        _check_commit(answer)
        return queues[connection].pop() if queues[connection] else None

    connections.ask({connection: queue.pop() for connection, queue in queues.items() if queue}, then)


def _await_offsets(others: Sequence[Address], victim: Address, groups: list[str]) -> None:
    """Ask for an offset of one group after the other until its new coordinator has it.

    The last one is answered when all are; to ask for all of them all the time would take the brokers' processors.
    """
    topics = (OffsetFetchRequestTopic(name=TOPIC, partition_indexes=(0,)),)
    deadline = time.monotonic() + PATIENCE_S
    for group in groups:
        frame = request_frame(OffsetFetchRequest(group_id=group, topics=topics), 5)
        while (address := coordinators(others, [group])[group]) == victim or not _has_offset(address, frame):
            if time.monotonic() > deadline:
                raise SystemExit(f"group {group} has no coordinator")
            time.sleep(POLL_S)


def _has_offset(address: Address, frame: bytes) -> bool:
    decoded = response(ask_one(address, frame), OffsetFetchRequest, 5, OffsetFetchResponse)
    if decoded.error_code:
        return False
    offsets = {partition.committed_offset for topic in decoded.topics for partition in topic.partitions}
    if offsets != {5}:
        raise SystemExit(f"a committed offset is lost: {offsets}")
    return True
