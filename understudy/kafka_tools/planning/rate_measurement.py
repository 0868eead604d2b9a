"""Measures how fast one partition of a cluster takes records, and how fast one consumer reads them.

A topic with one partition is created for it, and deleted afterwards.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Final, NamedTuple

from understudy.clusters.clients.admin_client import AdminClient
from understudy.clusters.clients.connections import NO_ANSWER, NOT_SENT, Connections, NoLeader
from understudy.clusters.clients.producer import ALL_ACKS
from understudy.clusters.clients.record_requests import fetch_request, produce_request
from understudy.foundation.cluster.errors import ApiError, Errors, error_name
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.records.batch import batches
from understudy.foundation.records.record import Record, encode_records
from understudy.foundation.wire.messages.fetch import FetchResponse
from understudy.foundation.wire.messages.produce import ProduceResponse
from understudy.foundation.wire.network import Network
from understudy.kafka_tools.planning.plan_answer import BadPlan

PRODUCE_VERSION, FETCH_VERSION = 9, 12
IN_FLIGHT: Final = 5
"""Number of a producer's requests on their way, as Kafka's `max.in.flight.requests.per.connection`."""
FETCH_BYTES: Final = 1 << 20
"""As Kafka's `max.partition.fetch.bytes`."""
WAIT_MS: Final = 10_000
LEADER_TRIES: Final = 100
CLIENT_ID: Final = "understudy-plan"


class MeasuredRate(NamedTuple):
    """The rates of one partition in MB/s, and the size of the cluster.

    Attributes:
        partitions, replicas: the numbers of all topics but the one that was made for the measurement.
    """

    producer_rate: float
    consumer_rate: float
    brokers: int
    partitions: int
    replicas: int


async def measure(
    network: Network,
    clock: Clock,
    bootstrap: Sequence[str],
    *,
    replication_factor: int,
    message_bytes: int,
    batch_bytes: int,
    seconds: float,
) -> MeasuredRate:
    """Measure both rates of a partition, for `seconds` each at most.

    Args:
        message_bytes: the size of each record's value.
        batch_bytes: about the size of a batch, which has at least one record.

    Raises:
        BadPlan: the cluster refuses a request of the measurement, or stops answering.
        NoBrokerAnswers: it does not answer.
    """
    admin = AdminClient(network, bootstrap, client_id=CLIENT_ID)
    metadata = await admin.metadata()
    topic = f"understudy-plan-{random.Random(clock.wall_ms()).getrandbits(48):012x}"
    try:
        await admin.create_topic(topic, partitions=1, replication_factor=replication_factor)
    except ApiError as error:
        raise BadPlan(f"the topic of the measurement cannot be created: {error}") from None
    lines = [Connections(network, bootstrap, client_id=CLIENT_ID, timeout_ms=WAIT_MS) for _ in range(IN_FLIGHT)]
    partition = TopicPartition(topic, 0)
    try:
        await _wait_for_leader(lines[0], partition)
        written, write_ms = await _produce(clock, lines, partition, _batch(clock, message_bytes, batch_bytes), seconds)
        read, read_ms = await _consume(clock, lines[0], partition, seconds)
    except (NoLeader, *NOT_SENT, *NO_ANSWER) as failure:
        raise BadPlan(f"the measurement was not possible: {failure}") from None
    finally:
        for line in lines:
            line.close()
        await admin.delete_topics(topic)
    partitions = [each for found in metadata.topics for each in found.partitions]
    return MeasuredRate(
        _rate(written, write_ms),
        _rate(read, read_ms),
        len(metadata.brokers),
        len(partitions),
        sum(len(each.replica_nodes) for each in partitions),
    )


def _batch(clock: Clock, message_bytes: int, batch_bytes: int) -> bytes:
    value = random.Random(1).randbytes(message_bytes)
    count = max(1, batch_bytes // max(1, message_bytes))
    now_ms = int(clock.wall_ms())
    return encode_records([Record(number, now_ms, None, value) for number in range(count)])


async def _wait_for_leader(connections: Connections, partition: TopicPartition) -> None:
    for _ in range(LEADER_TRIES):
        if await connections.in_sync_replicas(partition):
            return
        await asyncio.sleep(0.1)
    raise NoLeader(f"{partition} has no leader")


async def _produce(
    clock: Clock, lines: Sequence[Connections], partition: TopicPartition, batch: bytes, seconds: float
) -> tuple[int, float]:
    """Return the bytes that were acknowledged by all in-sync replicas, and the milliseconds it took."""
    request = produce_request({partition: batch}, acks=ALL_ACKS, timeout_ms=WAIT_MS)
    began_ms = clock.monotonic_ms()

    async def send(connections: Connections) -> int:
        sent = 0
        while not sent or clock.monotonic_ms() < began_ms + 1000 * seconds:
            answer = await connections.ask_leader(partition, request, PRODUCE_VERSION, ProduceResponse, wait_ms=WAIT_MS)
            [result] = answer.responses[0].partition_responses
            if result.error_code == Errors.NONE:
                sent += len(batch)
            elif result.error_code in (Errors.NOT_LEADER_OR_FOLLOWER, Errors.UNKNOWN_TOPIC_OR_PARTITION):
                connections.forget_leader(partition)
                await asyncio.sleep(0.1)
            else:
                raise BadPlan(f"the cluster refuses records of the measurement: {error_name(result.error_code)}")
        return sent

    sent = sum(await asyncio.gather(*map(send, lines)))
    return sent, clock.monotonic_ms() - began_ms


async def _consume(
    clock: Clock, connections: Connections, partition: TopicPartition, seconds: float
) -> tuple[int, float]:
    """Return the bytes read from the beginning, and the milliseconds it took."""
    began_ms = clock.monotonic_ms()
    offset = read = 0
    while clock.monotonic_ms() < began_ms + 1000 * seconds:
        request = fetch_request({partition: offset}, partition_max_bytes=FETCH_BYTES, max_bytes=50 * FETCH_BYTES)
        answer = await connections.ask_leader(partition, request, FETCH_VERSION, FetchResponse)
        [data] = answer.responses[0].partitions
        found = list(batches(data.records or b""))
        if data.error_code != Errors.NONE:
            raise BadPlan(f"the records of the measurement cannot be read: {error_name(data.error_code)}")
        if not found:
            break
        offset = found[-1].header.next_offset
        read += sum(batch.header.size for batch in found)
    return read, clock.monotonic_ms() - began_ms


def _rate(size: int, milliseconds: float) -> float:
    return size / 1e6 / max(0.001, milliseconds / 1000)
