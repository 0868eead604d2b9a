"""Stock clients produce and consume across faults: every kind of acknowledgement and codec, seeks by offset and time.

A record acknowledged by acks=all is at its offset afterwards, whatever the fault. With acks=1 that holds while the
leader stays: also where it is shut down in order, its followers may lack what it appended last, as with Kafka's. What
can be read was sent, and an idempotent producer's records are there once and in order.
"""

from __future__ import annotations

import gc
import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # as its documentation does

from tests.durability.stock_clients import (
    Journal,
    Sent,
    Variant,
    offset_of_time_with_kafka_python,
    read_with_kafka_python,
    read_with_librdkafka,
    times_with_librdkafka,
)
from understudy.testbed.local_broker import LocalBroker
from understudy.testbed.local_cluster import LocalCluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("clients-across-faults"),
]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CODECS_OF_KAFKA_PYTHON = ("none", "gzip")
"""The others need packages that the tests do not have."""
VARIANTS = (
    *(Variant("librdkafka", -1, is_idempotent=True, compression=codec) for codec in CODECS),
    *(Variant("librdkafka", acks) for acks in (0, 1, -1)),
    Variant("kafka-python", 0),
    Variant("kafka-python", 1),
    Variant("kafka-python", -1),
    Variant("kafka-python", -1, is_idempotent=True, compression="gzip"),
)
FAULTS = ("kill the controller", "kill the leader", "shut the leader down", "pause the leader")
ACKNOWLEDGED_BEFORE, ACKNOWLEDGED_AFTER = 50, 50
TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    directory = tmp_path_factory.mktemp("clients") / "run"
    with LocalCluster(3, directory=directory, session_timeout_ms=3_000) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def sockets() -> Iterator[None]:
    """Close the sockets that kafka-python leaves open where a connection is refused; they have no peer."""
    yield
    for found in gc.get_objects():
        # Not `isinstance`: it asks a weak proxy for its class, which raises where the object is gone.
        if issubclass(type(found), socket.socket):
            close_without_peer(found)


def close_without_peer(found: socket.socket) -> None:
    """Close a stream socket that neither listens nor is connected."""
    try:
        listens = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        if found.type == socket.SOCK_STREAM and not listens:
            found.getpeername()
    except OSError:
        found.close()


def test_only_stream_sockets_without_a_peer_are_closed() -> None:
    one, other = socket.socketpair()
    with one, other, socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as alone:
        for each in (one, other, listening, alone):
            close_without_peer(each)
        assert [each.fileno() >= 0 for each in (one, other, listening, alone)] == [True, True, True, False]


@pytest.mark.parametrize("fault", FAULTS)
def test_stock_clients_work_across_a_fault(cluster: LocalCluster, fault: str) -> None:
    journals = [Journal(cluster.bootstrap, variant, f"{variant}-{FAULTS.index(fault)}") for variant in VARIANTS]
    create_topics(cluster, [journal.topic for journal in journals])
    for journal in journals:
        journal.start()
    try:
        wait_for(cluster, journals, ACKNOWLEDGED_BEFORE)
        victim = cluster.controller() if fault.endswith("controller") else cluster.leader(journals[0].topic, 0)
        inject(fault, victim)
        if fault.startswith("pause"):
            cluster.wait_until(lambda: victim.id not in cluster.view.brokers(), "the session has expired", TIMEOUT_S)
        wait_for(cluster, journals, ACKNOWLEDGED_AFTER)
        recover(fault, victim)
        cluster.settle(timeout_s=TIMEOUT_S)
    finally:
        for journal in journals:
            journal.stop()
    cluster.check()
    with ThreadPoolExecutor(len(journals)) as threads:
        found = threads.map(lambda journal: complaints(cluster, journal, fault), journals)
    wrong = {journal.topic: list(each) for journal, each in zip(journals, found, strict=True) if each}
    print({str(journal.variant): dict(journal.failed) for journal in journals if journal.failed})
    assert wrong == {}
    check_seeks(cluster, journals[0].topic)


def create_topics(cluster: LocalCluster, names: list[str]) -> None:
    """Create topics that a broker leads which is not the controller, so that the faults differ."""
    others = [broker.id for broker in cluster.brokers if broker.id != cluster.controller().id]
    replicas = [others[0], others[1], cluster.controller().id]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    topics = [NewTopic(name, 1, replica_assignment=[replicas], config={"min.insync.replicas": "2"}) for name in names]
    for created in admin.create_topics(topics).values():
        created.result(30)
    cluster.settle()


def wait_for(cluster: LocalCluster, journals: list[Journal], count: int) -> None:
    """Wait until every producer has `count` more acknowledged records."""
    goals = [len(journal.acknowledged) + count for journal in journals]
    cluster.wait_until(
        lambda: all(len(journal.acknowledged) >= goal for journal, goal in zip(journals, goals, strict=True)),
        f"every producer has {count} more acknowledged records",
        TIMEOUT_S,
    )


def inject(fault: str, victim: LocalBroker) -> None:
    match fault.split()[0]:
        case "kill":
            victim.kill()
        case "pause":
            victim.pause()
        case _:
            victim.stop()


def recover(fault: str, victim: LocalBroker) -> None:
    if fault.startswith("pause"):
        victim.resume()
    else:
        victim.start()


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
    """The acknowledged records that are not at their offsets; where the offset is unknown, nowhere."""
    values, at = {record.value for record in read}, dict(read)
    return [
        sent
        for sent in acknowledged
        if (sent.value not in values if sent.offset < 0 else at.get(sent.offset) != sent.value)
    ]


def check_seeks(cluster: LocalCluster, topic: str) -> None:
    """Both clients find a record by its offset, and by its time the first that is not older."""
    middle = len(read_with_librdkafka(cluster.bootstrap, topic)) // 2
    record, found = times_with_librdkafka(cluster.bootstrap, topic, offset=middle)
    assert record.offset == middle
    assert found <= middle
    assert offset_of_time_with_kafka_python(cluster.bootstrap, topic, record.timestamp_ms) == found
    assert times_with_librdkafka(cluster.bootstrap, topic, offset=found)[0].timestamp_ms == record.timestamp_ms
    if found > 0:
        assert times_with_librdkafka(cluster.bootstrap, topic, offset=found - 1)[0].timestamp_ms < record.timestamp_ms
    assert offset_of_time_with_kafka_python(cluster.bootstrap, topic, record.timestamp_ms + 10**9) == -1
