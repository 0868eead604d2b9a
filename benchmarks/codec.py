"""Measures the codec beside kio 0.5.0, with the messages of a takeover of 1,000 topics × 10 partitions × 3 replicas.

Microseconds of CPU time per partition, the best of several rounds; both codecs run by turns, so that a busy machine
slows both. That both write the same bytes is asserted first.
"""

from __future__ import annotations

import gc
import importlib
import io
import random
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from kio.serial import entity_reader, entity_writer

from benchmarks.rows import Row, print_rows
from understudy.foundation.cluster.identifiers import TopicId, random_topic_id
from understudy.foundation.wire.codec import decode, encode
from understudy.foundation.wire.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from understudy.foundation.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from understudy.foundation.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from understudy.foundation.wire.schema import Message

TOPICS, PARTITIONS = 1_000, 10
BROKERS = range(1, 10)
ROUNDS = 7


class Subject(NamedTuple):
    message: Message
    version: int
    kio_module: str
    encode_target: float
    decode_target: float


def subjects() -> list[Subject]:
    source = random.Random(39)
    topics = [(f"topic-{number:04}", random_topic_id(source)) for number in range(TOPICS)]
    replicas = {(name, p): tuple(source.sample(BROKERS, 3)) for name, _ in topics for p in range(PARTITIONS)}
    return [
        Subject(leader_and_isr(topics, replicas), 7, "leader_and_isr.v7.request", 0.10, 0.07),
        Subject(update_metadata(topics, replicas), 8, "update_metadata.v8.request", 0.10, 0.07),
        Subject(metadata(topics, replicas), 12, "metadata.v12.response", 0.10, 0.07),
    ]


def run(rounds: int = ROUNDS) -> list[Row]:
    """Encoding and decoding of each message, in µs per partition, with kio's as the reference."""
    return [row for subject in subjects() for row in measured(subject, rounds)]


def measured(subject: Subject, rounds: int) -> list[Row]:
    message, version = subject.message, subject.version
    kind = type(message)
    kio_read, kio_write = kio_codec(subject.kio_module, kind.__name__)
    data = encode(message, version)
    theirs = kio_read(data)
    assert kio_write(theirs) == data, f"{kind.__name__} v{version}: kio writes other bytes"
    assert decode(kind, version, data) == message
    encoding = best_of(rounds, lambda: encode(message, version), lambda: kio_write(theirs))
    decoding = best_of(rounds, lambda: decode(kind, version, data), lambda: kio_read(data))
    name = f"{kind.__name__} v{version}"
    return [
        row(f"{name} encode, µs per partition", encoding, subject.encode_target),
        row(f"{name} decode, µs per partition", decoding, subject.decode_target),
    ]


def row(what: str, seconds: tuple[float, float], target: float) -> Row:
    ours, reference = (1e6 * value / (TOPICS * PARTITIONS) for value in seconds)
    return Row(what, ours, reference, target)


def best_of(rounds: int, ours: Callable[[], object], reference: Callable[[], object]) -> tuple[float, float]:
    """The least CPU seconds of each. Ours runs more often, because its rounds are much shorter."""
    best_ours = best_reference = float("inf")
    for _ in range(rounds):
        best_ours = min(best_ours, *(cpu_seconds(ours) for _ in range(5)))
        best_reference = min(best_reference, cpu_seconds(reference))
    return best_ours, best_reference


def cpu_seconds(work: Callable[[], object]) -> float:
    gc.collect()  # earlier garbage is not measured; what the work itself produces is collected inside the measurement
    started = time.process_time()
    work()
    return time.process_time() - started


def kio_codec(module: str, name: str) -> tuple[Callable[[bytes], Any], Callable[[Any], bytes]]:
    """kio's decoding and encoding functions of one message and version."""
    kind = getattr(importlib.import_module(f"kio.schema.{module}"), name)
    reader, writer = entity_reader(kind), entity_writer(kind)

    def read(data: bytes) -> Any:
        value, _ = reader(data, 0)
        return value

    def write(value: Any) -> bytes:
        buffer = io.BytesIO()
        writer(buffer, value)
        return buffer.getvalue()

    return read, write


# ------------------------------------------------------------------ requests that are sent

Topics = list[tuple[str, TopicId]]
Replicas = dict[tuple[str, int], tuple[int, ...]]


def leader_and_isr(topics: Topics, replicas: Replicas) -> LeaderAndIsrRequest:
    def state(topic: str, partition: int) -> LeaderAndIsrPartitionState:
        assigned = replicas[topic, partition]
        return LeaderAndIsrPartitionState(
            partition_index=partition,
            controller_epoch=7,
            leader=assigned[0],
            leader_epoch=4,
            isr=assigned[:2],
            partition_epoch=9,
            replicas=assigned,
        )

    return LeaderAndIsrRequest(
        controller_id=1,
        controller_epoch=7,
        broker_epoch=4294967342,
        topic_states=tuple(
            LeaderAndIsrTopicState(
                topic_name=name, topic_id=topic_id, partition_states=tuple(state(name, p) for p in range(PARTITIONS))
            )
            for name, topic_id in topics
        ),
        live_leaders=tuple(LeaderAndIsrLiveLeader(broker_id=b, host_name=f"broker-{b}", port=9092) for b in BROKERS),
    )


def update_metadata(topics: Topics, replicas: Replicas) -> UpdateMetadataRequest:
    def state(topic: str, partition: int) -> UpdateMetadataPartitionState:
        assigned = replicas[topic, partition]
        return UpdateMetadataPartitionState(
            partition_index=partition,
            controller_epoch=7,
            leader=assigned[0],
            leader_epoch=4,
            isr=assigned[:2],
            zk_version=9,
            replicas=assigned,
            offline_replicas=assigned[2:],
        )

    def broker(broker_id: int) -> UpdateMetadataBroker:
        endpoint = UpdateMetadataEndpoint(port=9092, host=f"broker-{broker_id}", listener="PLAINTEXT")
        return UpdateMetadataBroker(id=broker_id, endpoints=(endpoint,))

    return UpdateMetadataRequest(
        controller_id=1,
        controller_epoch=7,
        broker_epoch=4294967342,
        topic_states=tuple(
            UpdateMetadataTopicState(
                topic_name=name, topic_id=topic_id, partition_states=tuple(state(name, p) for p in range(PARTITIONS))
            )
            for name, topic_id in topics
        ),
        live_brokers=tuple(broker(b) for b in BROKERS),
    )


def metadata(topics: Topics, replicas: Replicas) -> MetadataResponse:
    def partition(topic: str, number: int) -> MetadataResponsePartition:
        assigned = replicas[topic, number]
        return MetadataResponsePartition(
            partition_index=number,
            leader_id=assigned[0],
            leader_epoch=4,
            replica_nodes=assigned,
            isr_nodes=assigned[:2],
            offline_replicas=assigned[2:],
        )

    return MetadataResponse(
        brokers=tuple(MetadataResponseBroker(node_id=b, host=f"broker-{b}", port=9092) for b in BROKERS),
        cluster_id="dGhlIHVuZGVyc3R1ZHk",
        controller_id=1,
        topics=tuple(
            MetadataResponseTopic(
                name=name, topic_id=topic_id, partitions=tuple(partition(name, p) for p in range(PARTITIONS))
            )
            for name, topic_id in topics
        ),
    )


def main() -> None:
    print_rows(run())


if __name__ == "__main__":
    main()
