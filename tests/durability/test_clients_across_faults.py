"""Stock clients produce and consume across faults: every kind of acknowledgement and codec, seeks by offset and time.

A record acknowledged by acks=all is at its offset afterwards, whatever the fault. With acks=1 that holds while the
leader stays: also if it is shut down in order, its followers may lack what it appended last, as with Kafka's. What
can be read was sent, and an idempotent producer's records are there once and in order.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.durability.across_faults import (
    FAULTS,
    close_sockets_without_peer,
    close_without_peer,
    errors_named,
    produce_across,
)
from tests.durability.stock_clients import (
    Journal,
    Sent,
    Variant,
    offset_of_time_with_aiokafka,
    offset_of_time_with_kafka_python,
    read_with_aiokafka,
    read_with_kafka_python,
    read_with_librdkafka,
    times_with_librdkafka,
)
from tests.shares import at_night
from understudy.clusters.processes.local_cluster import LocalCluster

pytestmark = [
    pytest.mark.xdist_group("clients-across-faults"),
]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CODECS_OF_KAFKA_PYTHON = ("none", "gzip")
"""The others need packages that the tests do not have."""
OF_ROUNDS = {"shut the leader down", "pause the leader"}

VARIANTS = (
    *(Variant("librdkafka", -1, is_idempotent=True, compression=codec) for codec in CODECS),
    *(Variant("librdkafka", acks) for acks in (0, 1, -1)),
    Variant("kafka-python", 0),
    Variant("kafka-python", 1),
    Variant("kafka-python", -1),
    Variant("kafka-python", -1, is_idempotent=True, compression="gzip"),
    *(Variant("aiokafka", acks) for acks in (0, 1, -1)),
    Variant("aiokafka", -1, is_idempotent=True, compression="gzip"),
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    directory = tmp_path_factory.mktemp("clients") / "run"
    with LocalCluster(3, directory=directory, session_timeout_ms=3_000) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def sockets() -> Iterator[None]:
    yield
    close_sockets_without_peer()


def test_only_stream_sockets_without_a_peer_are_closed() -> None:
    one, other = socket.socketpair()
    with one, other, socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as alone:
        for each in (one, other, listening, alone):
            close_without_peer(each)
        assert [each.fileno() >= 0 for each in (one, other, listening, alone)] == [True, True, True, False]


def test_the_errors_that_clients_log_have_one_name_each() -> None:
    """Messages of the three clients with Apache Kafka 3.9.1."""
    assert {message: errors_named(message) for message in LOGGED} == LOGGED


LOGGED = {
    "Connection lost: KafkaConnectionError: [Errno 104] Connection reset by peer": {"KafkaConnectionError"},
    "Got error produce response: NodeNotReadyError: Attempt to send a request to node": {"KafkaConnectionError"},
    "Error sending produce request to node 1: [Error 7] RequestTimedOutError: Request timed out after 3000 ms": {
        "RequestTimedOutError"
    },
    "retrying. Error: <class 'aiokafka.errors.NotLeaderForPartitionError'>": {"NotLeaderForPartitionError"},
    "MessageSet with 1 message(s) encountered error: Broker: Not leader for partition (actions Refresh)": {
        "Not leader for partition"
    },
    "encountered error: Local: Broker transport failure (actions Refresh,MsgPossiblyPersisted)": {"_TRANSPORT"},
    "Failed to acquire idempotence PID from broker 127.0.0.1:1/1: Broker: Coordinator load in progress: retrying": {
        "Coordinator load in progress"
    },
    "_TRANSPORT": {"_TRANSPORT"},
    "Task ran for 0.106s (>0.100s threshold). It is blocking the event loop": set(),
}


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, marks=[at_night("rounds of the durability test have it each time")] * (fault in OF_ROUNDS))
        for fault in FAULTS
    ],
)
def test_stock_clients_work_across_a_fault(cluster: LocalCluster, fault: str) -> None:
    journals = produce_across(cluster, fault, VARIANTS)
    with ThreadPoolExecutor(len(journals)) as threads:
        found = threads.map(lambda journal: complaints(cluster, journal, fault), journals)
    wrong = {journal.topic: list(each) for journal, each in zip(journals, found, strict=True) if each}
    print({str(journal.variant): dict(journal.failed) for journal in journals if journal.failed})
    assert wrong == {}
    check_seeks(cluster, journals[0].topic)


def complaints(cluster: LocalCluster, journal: Journal, fault: str) -> list[str]:
    """What a consumer finds that contradicts what the producer was answered."""
    variant = journal.variant
    read = read_with_librdkafka(cluster.bootstrap, journal.topic)
    half = len(read) // 2
    found = []
    is_readable = variant.compression in CODECS_OF_KAFKA_PYTHON
    if (
        is_readable
        and read_with_kafka_python(cluster.bootstrap, journal.topic, offset=read[half].offset) != read[half:]
    ):
        found.append("kafka-python reads other records from the middle on")
    if read_with_aiokafka(cluster.bootstrap, journal.topic, offset=read[half].offset) != read[half:]:
        found.append("aiokafka reads other records from the middle on")
    numbers = [int(record.value) for record in read]
    if not set(numbers) <= set(range(journal.sent)):
        found.append("records that were never sent")
    if variant.is_idempotent:
        repeated = [number for number, count in Counter(numbers).items() if count > 1]
        found += [f"duplicates: {repeated[:5]}"] if repeated else []
        found += ["out of order"] if numbers != sorted(numbers) else []
    if variant.acks < 0 or (variant.acks == 1 and fault == "kill the controller"):
        lost = missing(journal.acknowledged, read)
        found += [f"{len(lost)} acknowledged records lost: {lost[:3]}"] if lost else []
    return found


def missing(acknowledged: list[Sent], read: list[Sent]) -> list[Sent]:
    """The acknowledged records that were not read at their offsets or, if the offset is unknown, at any offset."""
    values, at = {record.value for record in read}, dict(read)
    return [
        sent
        for sent in acknowledged
        if (sent.value not in values if sent.offset < 0 else at.get(sent.offset) != sent.value)
    ]


def check_seeks(cluster: LocalCluster, topic: str) -> None:
    """Every client finds a record by its offset, and by its time the first that is not older."""
    middle = len(read_with_librdkafka(cluster.bootstrap, topic)) // 2
    record, found = times_with_librdkafka(cluster.bootstrap, topic, offset=middle)
    assert record.offset == middle
    assert found <= middle
    for offset_of_time in (offset_of_time_with_kafka_python, offset_of_time_with_aiokafka):
        assert offset_of_time(cluster.bootstrap, topic, record.timestamp_ms) == found
        assert offset_of_time(cluster.bootstrap, topic, record.timestamp_ms + 10**9) == -1
    assert times_with_librdkafka(cluster.bootstrap, topic, offset=found)[0].timestamp_ms == record.timestamp_ms
    if found > 0:
        assert times_with_librdkafka(cluster.bootstrap, topic, offset=found - 1)[0].timestamp_ms < record.timestamp_ms
