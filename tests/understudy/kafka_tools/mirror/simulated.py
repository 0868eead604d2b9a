"""A simulated cluster that is mirrored to itself, with copies of other names."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence

from understudy.clusters.clients.connections import Connections
from understudy.clusters.simulated.cluster import PORT, SimulatedCluster
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.records.batch import batches
from understudy.foundation.records.record import Header, Record, encode_records, records
from understudy.foundation.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from understudy.foundation.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from understudy.kafka_tools.mirror.mirror import Mirror, MirrorSettings
from understudy.kafka_tools.mirror.topics import Selection
from understudy.kafka_tools.mirror.transfer import FAILURES

PREFIX = "copy-of-"
T = TopicPartition


class MirroredCluster(SimulatedCluster):
    """Three brokers, and mirrors of its topics that begin with `orders`."""

    def __init__(self, seed: int = 1, *, settings: Mapping[str, str] | None = None) -> None:
        # The records of `record_of` are old.
        super().__init__(seed, brokers=3, settings={"log.retention.ms": "-1", **(settings or {})})
        self.lines: list[str] = []
        self.mirrors: list[Mirror] = []
        self._client = Connections(self.client_network, self.servers, client_id="test")

    @property
    def servers(self) -> list[str]:
        return [f"{broker.node.name}:{PORT}" for broker in self.brokers]

    def mirror(self, *, once: bool = True, groups: str | None = None, include: str = "orders.*") -> Mirror:
        settings = MirrorSettings(
            source=self.servers,
            target=self.servers,
            selection=Selection(re.compile(include), None, PREFIX),
            groups=None if groups is None else re.compile(groups),
            is_once=once,
            refresh_ms=2_000,
            groups_ms=2_000,
        )
        found = Mirror(self.client_network, self.simulator.clock, settings, self.lines.append)
        self.mirrors.append(found)
        return found

    def append(self, partition: TopicPartition, batch: bytes) -> int:
        """Append a batch, and return its base offset."""
        return self.ask(self._append(partition, batch))

    def read(self, partition: TopicPartition) -> list[Record]:
        """Return all records up to the high watermark."""
        return self.ask(self._read(partition))

    async def _append(self, partition: TopicPartition, batch: bytes) -> int:
        data = PartitionProduceData(index=partition.partition, records=batch)
        request = ProduceRequest(
            acks=-1,
            timeout_ms=5_000,
            topic_data=(TopicProduceData(name=partition.topic, partition_data=(data,)),),
        )
        async with asyncio.timeout(60):
            while True:
                # Again until it is acknowledged: while leaders move it may be appended more than once.
                with contextlib.suppress(*FAILURES):
                    self._client.forget_leader(partition)
                    answer = await self._client.ask_leader(partition, request, 9, ProduceResponse, wait_ms=5_000)
                    [result] = answer.responses[0].partition_responses
                    if result.error_code == Errors.NONE:
                        return result.base_offset
                await asyncio.sleep(0.1)

    async def _read(self, partition: TopicPartition, offset: int = 0) -> list[Record]:
        found: list[Record] = []
        while True:
            asked = FetchPartition(partition=partition.partition, fetch_offset=offset, partition_max_bytes=1 << 20)
            request = FetchRequest(max_bytes=1 << 20, topics=(FetchTopic(topic=partition.topic, partitions=(asked,)),))
            try:
                answer = await self._client.ask_leader(partition, request, 12, FetchResponse)
            except FAILURES:
                self._client.forget_leader(partition)
                await asyncio.sleep(0.1)
                continue
            [data] = answer.responses[0].partitions
            if data.error_code == Errors.OFFSET_OUT_OF_RANGE:
                offset = data.log_start_offset if data.log_start_offset > 0 else offset + 1
                continue
            if data.error_code != Errors.NONE:
                self._client.forget_leader(partition)
                await asyncio.sleep(0.1)
                continue
            if not data.records:
                return found
            for batch in batches(data.records):
                found += [record for record in records(batch) if record.offset >= offset]
                offset = batch.header.next_offset


def batch_of(numbers: Iterable[int], **settings: object) -> bytes:
    """Return a batch with a record for each number; each has a key, a header, and a timestamp of its own."""
    return encode_records([record_of(place, number) for place, number in enumerate(numbers)], **settings)  # type: ignore[arg-type]  # named arguments of encode_records


def record_of(offset: int, number: int) -> Record:
    value = None if number % 7 == 3 else b"value %d" % number
    headers = (Header("number", b"%d" % number),) if number % 2 else ()
    return Record(offset, 1_700_000_000_000 + 1000 * number, b"key %d" % number, value, headers)


def contents(found: Sequence[Record]) -> list[tuple[object, ...]]:
    """Return records without their offsets."""
    return [tuple(record[1:]) for record in found]
