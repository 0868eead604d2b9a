"""Odd and damaged batches get the same answer from our brokers as from Apache Kafka's, and are stored alike.

Each batch is sent to both clusters by a Produce that is made by hand, to a partition of its own. The answer and the end
of the partition are compared. Our error messages are left out, because Kafka sends none. Differences on purpose are in
docs/inside/fidelity.md.
"""

from __future__ import annotations

import asyncio
import re
import struct
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import cramjam
import msgspec
import pytest
from crc32c import crc32c

from tests.foundation.records.compressed import (
    BLOCK_CHECKSUM,
    CONTENT_CHECKSUM,
    CONTENT_SIZE,
    INDEPENDENT,
    LINKED,
    gzip_members,
    lz4_frame,
    lz4_linked,
    skippable_frame,
    snappy_stream,
    zstd_frames,
)
from tests.foundation.records.test_message_set import message
from tests.interop.mixed import settle
from tests.interop.tools import Outcome, Tools
from tests.understudy.kafka_tools.our_tools import OurTools
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.clusters.processes.apache_kafka import SMALL_BROKER, ApacheKafka
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.foundation.records.batch import HEADER, encode_batch, place
from understudy.foundation.records.compression import Compression, compress
from understudy.foundation.records.record import Record, encode_records
from understudy.foundation.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from understudy.foundation.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from understudy.foundation.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from understudy.foundation.wire.messages.list_offsets import (
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from understudy.foundation.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from understudy.foundation.wire.request_channel import RequestChannel

pytestmark = [pytest.mark.xdist_group("record batches"), pytest.mark.timeout(600)]

T = TypeVar("T")

TOPIC: Final = "odd"
SEGMENT: Final = "00000000000000000000.log"
AN_HOUR_MS: Final = "3600000"
PROPERTIES: Final = {
    "auto.create.topics.enable": "false",
    "log.initial.task.delay.ms": AN_HOUR_MS,
    "log.retention.check.interval.ms": AN_HOUR_MS,
    **SMALL_BROKER,
}
"""Configuration under which segments whose records are deleted stay on the disk for the time of a test."""
NOW_MS: Final = int(time.time() * 1000)
VALUES: Final = tuple(b"%d" % number * 40_000 for number in range(4))
"""Values of the records: more than the 64 KB of a block of lz4."""
GARBAGE: Final = b"no compressed data at all, and long enough for every header"


def plain(*values: bytes, first: int = 0) -> bytes:
    """The bytes of records, which are not compressed; `first` is the relative offset of the first of them."""
    base = [Record(0, NOW_MS, None, b"")] * first
    found = [Record(first + number, NOW_MS, None, value) for number, value in enumerate(values)]
    before = len(encode_records(base)) if base else HEADER.size
    return encode_records(base + found)[before:]


RECORDS: Final = plain(*VALUES)
HALVES: Final = (plain(*VALUES[:2]), plain(*VALUES[2:], first=2))
PARTS: Final = tuple(RECORDS[at : at + 50_000] for at in range(0, len(RECORDS), 50_000))


def batch(records: bytes, codec: int, count: int = len(VALUES)) -> bytes:
    """A batch that states `count` records and a codec from 0 to 7."""
    whole = bytearray(encode_batch(records, count=count, base_timestamp=NOW_MS, max_timestamp=NOW_MS))
    struct.pack_into(">h", whole, 21, codec)
    struct.pack_into(">I", whole, 17, crc32c(bytes(whole[21:])))
    return bytes(whole)


def wrapped(value: bytes, codec: int, magic: int) -> bytes:
    """A message of an old format that contains others."""
    return message(magic=magic, attributes=codec, offset=1, timestamp=NOW_MS, key=None, value=value)


class Sent(NamedTuple):
    data: bytes | None
    version: int = 9
    acks: int = 1


def lz4(data: bytes) -> Sent:
    return Sent(batch(data, Compression.LZ4))


def gzip(data: bytes) -> Sent:
    return Sent(batch(data, Compression.GZIP))


def snappy(data: bytes) -> Sent:
    return Sent(batch(data, Compression.SNAPPY))


def zstd(data: bytes) -> Sent:
    return Sent(batch(data, Compression.ZSTD))


CODECS = {"gzip": gzip, "snappy": snappy, "lz4": lz4, "zstd": zstd}
OLD: Final = {
    magic: b"".join(message(magic=magic, offset=place, timestamp=NOW_MS, value=bytes(100)) for place in range(2))
    for magic in (0, 1)
}
"""Messages of old formats."""


def of_each_codec() -> Iterator[tuple[str, Sent]]:
    """The same kinds of batches in each codec, by name."""
    for name, sent in CODECS.items():
        codec = Compression[name.upper()]
        whole = compress(RECORDS, codec)
        for what, data in {
            "as we write it": whole,
            "garbage": GARBAGE,
            "zeros": bytes(40),
            "empty": b"",
            "one byte": b"\x04",
            **{f"cut off by {cut}": whole[:-cut] for cut in (1, 4, 8, 40)},
            "a zero behind": whole + b"\0",
            "nine zeros behind": whole + bytes(9),
            "garbage behind": whole + GARBAGE,
            "a skippable frame behind": whole + skippable_frame(),
            "a skippable frame before": skippable_frame() + whole,
            "two streams": b"".join(compress(half, codec) for half in HALVES),
            "all records twice": whole + whole,
            "an empty stream before": compress(b"", codec) + whole,
            **{f"{size} bytes of a second stream": whole + whole[:size] for size in (2, 3, 8, 12, 30)},
        }.items():
            yield f"{name}: {what}", sent(data)
        for count in (3, 5):
            yield f"{name}: {count} records stated", Sent(batch(whole, codec, count=count))


CASES: Final[dict[str, Sent]] = {
    **dict(of_each_codec()),
    **{
        f"codec {codec} in version {version}": Sent(batch(RECORDS, codec), version)
        for codec in (5, 6, 7)
        for version in (3, 6, 7, 9, 11)
    },
    "lz4: linked blocks": lz4(lz4_linked(RECORDS)),
    "lz4: linked blocks, one block": Sent(batch(lz4_linked(plain(b"a")), 3, count=1)),
    "lz4: independent blocks": lz4(lz4_frame(*PARTS)),
    "lz4: stored blocks": lz4(lz4_frame(*PARTS, stored=True)),
    "lz4: block checksums": lz4(lz4_frame(*PARTS, flags=INDEPENDENT | BLOCK_CHECKSUM)),
    "lz4: wrong block checksums": lz4(lz4_frame(*PARTS, flags=INDEPENDENT | BLOCK_CHECKSUM, block_checksum=7)),
    "lz4: content size": lz4(lz4_frame(*PARTS, flags=INDEPENDENT | CONTENT_SIZE)),
    "lz4: wrong content size": lz4(lz4_frame(*PARTS, flags=INDEPENDENT | CONTENT_SIZE, content_size=7)),
    "lz4: content checksum": lz4(lz4_frame(*PARTS, flags=INDEPENDENT | CONTENT_CHECKSUM)),
    "lz4: wrong content checksum": lz4(lz4_frame(*PARTS, flags=INDEPENDENT | CONTENT_CHECKSUM, content_checksum=7)),
    "lz4: content checksum cut off": lz4(lz4_frame(*PARTS, flags=INDEPENDENT | CONTENT_CHECKSUM)[:-2]),
    "lz4: content size, wrong header checksum": lz4(
        lz4_frame(*PARTS, flags=INDEPENDENT | CONTENT_SIZE, header_checksum=7)
    ),
    "lz4: wrong header checksum": lz4(lz4_frame(*PARTS, header_checksum=7)),
    "lz4: all flags": lz4(lz4_frame(*PARTS, flags=INDEPENDENT | CONTENT_SIZE | CONTENT_CHECKSUM | BLOCK_CHECKSUM)),
    "lz4: linked, stored": lz4(lz4_frame(*PARTS, flags=LINKED, stored=True)),
    "lz4: reserved bit 0 (dictionary)": lz4(lz4_frame(*PARTS, flags=INDEPENDENT | 1)),
    "lz4: reserved bit 1": lz4(lz4_frame(*PARTS, flags=INDEPENDENT | 2)),
    **{f"lz4: version {v}": lz4(lz4_frame(*PARTS, version=v << 6)) for v in (0, 2, 3)},
    **{f"lz4: block size {size}": lz4(lz4_frame(*PARTS, block_sizes=size << 4)) for size in (0, 3, 5, 7, 8, 12)},
    "lz4: reserved low bits of the block size": lz4(lz4_frame(*PARTS, block_sizes=0x41)),
    "lz4: block larger than the maximum": lz4(lz4_frame(RECORDS, stored=True)),
    "lz4: block that becomes larger than the maximum": lz4(lz4_frame(RECORDS)),
    "lz4: legacy magic": lz4(lz4_frame(*PARTS, magic=0x184C2102)),
    "lz4: no end mark": lz4(lz4_frame(*PARTS, end=b"")),
    "lz4: end mark of a stored block": lz4(lz4_frame(*PARTS, end=b"\0\0\0\x80")),
    "lz4: half an end mark": lz4(lz4_frame(*PARTS, end=b"\0\0")),
    "lz4: second frame after the records": lz4(lz4_frame(*PARTS) + lz4_frame(b"more")),
    "snappy: one block without frame": snappy(bytes(cramjam.snappy.compress_raw(RECORDS))),
    "snappy: one byte behind": snappy(snappy_stream(*PARTS) + b"\1"),
    "snappy: three bytes behind": snappy(snappy_stream(*PARTS) + b"\1\2\3"),
    "snappy: block cut off": snappy(snappy_stream(*PARTS)[:-5]),
    "snappy: block of no bytes": snappy(snappy_stream(*PARTS) + bytes(4)),
    "snappy: block that is empty": snappy(snappy_stream(*PARTS, b"")),
    "snappy: negative block": snappy(snappy_stream(*PARTS) + b"\xff\xff\xff\xff"),
    "snappy: second stream of version 0": snappy(snappy_stream(*PARTS[:2]) + snappy_stream(*PARTS[2:], version=0)),
    "snappy: first stream of version 0": snappy(snappy_stream(*PARTS, version=0)),
    "snappy: streams of version 2": snappy(snappy_stream(*PARTS[:2], version=2) + snappy_stream(*PARTS[2:], version=2)),
    "snappy: header only": snappy(snappy_stream()),
    "snappy: header cut off": snappy(snappy_stream()[:12]),
    "snappy: second header cut off": snappy(snappy_stream(*PARTS) + snappy_stream()[:12]),
    "snappy: other magic in the second header": snappy(snappy_stream(*PARTS) + b"\x82SNAP__\0" + bytes(20)),
    "gzip: three members": gzip(gzip_members(PARTS)),
    "gzip: members and garbage": gzip(gzip_members(PARTS) + GARBAGE),
    "gzip: a damaged member behind": gzip(gzip_members(PARTS) + gzip_members([b"more"])[:-6]),
    "gzip: wrong checksum": gzip(gzip_members([RECORDS])[:-8] + b"abcd" + gzip_members([RECORDS])[-4:]),
    "gzip: wrong size": gzip(gzip_members([RECORDS])[:-4] + b"abcd"),
    "zstd: three frames": zstd(zstd_frames(PARTS)),
    **{f"format {m} in {c.name.lower()}": Sent(wrapped(compress(OLD[m], c), c, m), 2)
       for m in (0, 1) for c in (Compression.GZIP, Compression.SNAPPY, Compression.LZ4)},
    **{f"format {m}, garbage in codec {c}": Sent(wrapped(GARBAGE, c, m), 2) for m in (0, 1) for c in range(1, 8)},
    **{f"format {m}, lz4 with a wrong header checksum": Sent(wrapped(lz4_frame(OLD[m], header_checksum=7), 3, m), 2)
       for m in (0, 1)},
    **{f"format {m}, lz4 with linked blocks": Sent(wrapped(lz4_linked(OLD[m]), 3, m), 2) for m in (0, 1)},
    **{f"format {m}, two frames of lz4": Sent(wrapped(lz4_frame(OLD[m]) + lz4_frame(OLD[m]), 3, m), 2)
       for m in (0, 1)},
    **{f"format {m}, a damaged message inside": Sent(wrapped(lz4_frame(OLD[m][:-1] + b"x"), 3, m), 2)
       for m in (0, 1)},
    **{f"format {m}, a message cut off inside": Sent(wrapped(lz4_frame(OLD[m][:-1]), 3, m), 2) for m in (0, 1)},
    **{f"acks {acks}": Sent(batch(RECORDS, 0), acks=acks) for acks in (2, -2)},
    "acks 2, garbage": Sent(batch(GARBAGE, 3), acks=2),
    "acks 2, no batch": Sent(b"", acks=2),
    "no records": Sent(b""),
    "wrong checksum": Sent(batch(RECORDS, 0)[:-1] + b"x"),
    "two batches": Sent(batch(RECORDS, 0) + batch(RECORDS, 0)),
    "zstd in version 6": zstd(compress(RECORDS, Compression.ZSTD))._replace(version=6),
    "magic 3": Sent(batch(RECORDS, 0)[:16] + b"\3" + batch(RECORDS, 0)[17:]),
    "impossible size": Sent(batch(RECORDS, 0)[:8] + struct.pack(">i", 5) + batch(RECORDS, 0)[12:]),
}  # fmt: skip


ON_PURPOSE: Final = {
    **{f"zstd: {size} bytes of a second stream": (0, -1) for size in (2, 3, 8, 12, 30)},
    "gzip: a damaged member behind": (87, -1),
}
"""Batches with another error than Kafka's (docs/inside/fidelity.md): the code of Kafka, and ours."""


class Both(NamedTuple):
    kafkas: LocalCluster
    ours: LocalCluster


@pytest.fixture(scope="module")
def both(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """A broker of Kafka's and one of ours, with a partition for each batch."""
    with ExitStack() as clusters:
        started = [
            clusters.enter_context(
                LocalCluster(
                    1,
                    kafka_brokers={1: kafka} if name == "kafka" else None,
                    directory=tmp_path_factory.mktemp(name),
                    properties=PROPERTIES,
                )
            )
            for name in ("kafka", "ours")
        ]
        for cluster in started:
            create(cluster, TOPIC, len(CASES))
        yield Both(*started)


def with_channel(cluster: LocalCluster, use: Callable[[RequestChannel], Awaitable[T]]) -> T:
    async def run() -> T:
        port = cluster.broker(1).process.port
        connection = await SocketNetwork().connect("127.0.0.1", port or 0, timeout_ms=5_000)
        channel = RequestChannel(connection, client_id="odd")
        try:
            return await use(channel)
        finally:
            channel.close()

    return asyncio.run(run())


def create(cluster: LocalCluster, name: str, partitions: int, **configs: str) -> None:
    given = tuple(CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items())
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=given)
    request = CreateTopicsRequest(topics=(topic,), timeout_ms=60_000)
    answer: Any = with_channel(cluster, lambda channel: channel.request(request, 7, timeout_ms=65_000))
    assert [each.error_code for each in answer.topics] == [0], answer


def answers(cluster: LocalCluster) -> dict[str, tuple[Any, Any]]:
    """What the broker answers to each Produce, and then to ListOffsets for the end of the partition."""
    return with_channel(cluster, all_answers)


async def all_answers(channel: RequestChannel) -> dict[str, tuple[Any, Any]]:
    found = {}
    for index, (name, sent) in enumerate(CASES.items()):
        data = (TopicProduceData(name=TOPIC, partition_data=(PartitionProduceData(index=index, records=sent.data),)),)
        request = ProduceRequest(acks=sent.acks, timeout_ms=10_000, topic_data=data)
        produced: Any = msgspec.to_builtins(await channel.request(request, sent.version, timeout_ms=15_000))
        answer = produced["responses"][0]["partition_responses"][0]
        del answer["error_message"]
        found[name] = (answer, await end_of(channel, index))
    return found


async def end_of(channel: RequestChannel, index: int) -> Any:
    asked = ListOffsetsPartition(partition_index=index, timestamp=LATEST_TIMESTAMP)
    request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=TOPIC, partitions=(asked,)),))
    answer: Any = await channel.request(request, 7, timeout_ms=15_000)
    return answer.topics[0].partitions[0].offset


def test_produced_batches_are_refused_or_appended_as_by_kafka(both: Both) -> None:
    kafkas, ours = answers(both.kafkas), answers(both.ours)
    codes = {name: (kafkas[name][0]["error_code"], ours[name][0]["error_code"]) for name in CASES}
    assert {name: codes[name] for name in ON_PURPOSE} == ON_PURPOSE
    different = [
        f"{name}\n  Kafka: {kafkas[name]}\n  ours:  {ours[name]}"
        for name in CASES
        if kafkas[name] != ours[name] and name not in ON_PURPOSE
    ]
    assert not different, "\n".join(different)


BESIDE: Final = {
    "magic 3": Sent(batch(RECORDS, 0)[:16] + b"\3" + batch(RECORDS, 0)[17:]),
    "impossible size": Sent(batch(RECORDS, 0)[:8] + struct.pack(">i", 5) + batch(RECORDS, 0)[12:], 2),
    **{f"codec 5 in version {version}": Sent(batch(RECORDS, 5), version) for version in (3, 6, 7)},
    "garbage": lz4(GARBAGE),
    "linked blocks": lz4(lz4_linked(RECORDS)),
    "no batch": Sent(b""),
}
"""Batches that are sent together with a good one, to another partition."""


def test_a_batch_refuses_the_partitions_beside_it_as_by_kafka(both: Both) -> None:
    for cluster in both:
        create(cluster, "beside", 2 * len(BESIDE))
    kafkas, ours = (with_channel(cluster, all_beside) for cluster in both)
    assert ours == kafkas


async def all_beside(channel: RequestChannel) -> dict[str, list[tuple[int, int]]]:
    found = {}
    for index, (name, sent) in enumerate(BESIDE.items()):
        given = (
            PartitionProduceData(index=2 * index, records=batch(RECORDS, 0)),
            PartitionProduceData(index=2 * index + 1, records=sent.data),
        )
        request = ProduceRequest(
            acks=1, timeout_ms=10_000, topic_data=(TopicProduceData(name="beside", partition_data=given),)
        )
        answer: Any = await channel.request(request, sent.version, timeout_ms=15_000)
        found[name] = sorted((each.index, each.error_code) for each in answer.responses[0].partition_responses)
    return found


# ------------------------------------------------------------------ ListOffsets


def at(*timestamps: int) -> bytes:
    """A batch with a record for each timestamp."""
    return encode_records([Record(number, each, None, b"x" * 100) for number, each in enumerate(timestamps)])


LOGS: Final[dict[str, tuple[list[bytes], int, dict[str, str]]]] = {
    "empty": ([], 0, {}),
    "without timestamps": ([at(-1, -1)], 0, {}),
    "in order": ([at(100), at(200, 300), at(400)], 0, {}),
    "newest first": ([at(400), at(200, 300), at(100)], 0, {}),
    "newest in the middle": ([at(100), at(200, 400, 400, 300), at(400), at(350)], 0, {}),
    "newest deleted": ([at(100), at(400), at(200), at(300)], 2, {}),
    "all deleted": ([at(100), at(400)], 2, {}),
    "small segments": ([at(100), at(300), at(200), at(400)], 0, {"segment_bytes": "200"}),
    "small segments, deleted": ([at(100), at(300), at(200), at(400)], 2, {"segment_bytes": "200"}),
    "small segments, newest deleted": ([at(100), at(400), at(200), at(300)], 2, {"segment_bytes": "200"}),
}
"""Batches, the offset before which records are deleted then, and configs."""
TIMES: Final = (-1, -2, -3, -4, -5, 0, 150, 250, 350, 400, 401)


def offsets(cluster: LocalCluster) -> dict[str, Any]:
    for name, (_, _, configs) in LOGS.items():
        create(cluster, topic_of(name), 1, **configs)
    return with_channel(cluster, all_offsets)


def topic_of(name: str) -> str:
    return name.replace(",", "").replace(" ", "-")


async def all_offsets(channel: RequestChannel) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, (batches, before, _) in LOGS.items():
        topic = topic_of(name)
        for each in batches:
            assert await append(channel, topic=topic, records=each) == 0
        if before:
            deleted = DeleteRecordsTopic(
                name=topic, partitions=(DeleteRecordsPartition(partition_index=0, offset=before),)
            )
            await channel.request(DeleteRecordsRequest(topics=(deleted,), timeout_ms=10_000), 2, timeout_ms=15_000)
        for timestamp in TIMES:
            found[f"{name} at {timestamp}"] = await offset_at(channel, topic, timestamp)
    for version in range(1, 10):
        for isolation in (-1, 0, 1, 2):
            for replica in (-1, -2, 1):
                for timestamp in TIMES:
                    found[f"v{version} isolation {isolation} replica {replica} at {timestamp}"] = await offset_at(
                        channel, topic_of("in order"), timestamp, version=version, isolation=isolation, replica=replica
                    )
    return found


async def offset_at(
    channel: RequestChannel, topic: str, timestamp: int, *, version: int = 9, isolation: int = 0, replica: int = -1
) -> Any:
    asked = ListOffsetsTopic(name=topic, partitions=(ListOffsetsPartition(partition_index=0, timestamp=timestamp),))
    request = ListOffsetsRequest(replica_id=replica, isolation_level=isolation if version >= 2 else 0, topics=(asked,))
    answer: Any = msgspec.to_builtins(await channel.request(request, version, timeout_ms=15_000))
    return answer["topics"][0]["partitions"][0]


BEHIND_A_DELETED_SEGMENT: Final = {
    "small segments, deleted": (0, 150, 250),
    "small segments, newest deleted": (0, 150, 250),
}
"""Times of which Kafka finds no record (docs/inside/fidelity.md), because it looks into one segment only."""


def test_offsets_of_times_are_listed_as_by_kafka(both: Both) -> None:
    kafkas, ours = offsets(both.kafkas), offsets(both.ours)
    behind = [f"{name} at {time}" for name, times in BEHIND_A_DELETED_SEGMENT.items() for time in times]
    assert [kafkas[each]["offset"] for each in behind] == [-1] * len(behind)
    assert [ours[each]["offset"] >= 2 for each in behind] == [True] * len(behind)
    different = [
        f"{each}\n  Kafka: {kafkas[each]}\n  ours:  {ours[each]}"
        for each in ours
        if kafkas[each] != ours[each] and each not in behind
    ]
    assert not different, "\n".join(different)


# ------------------------------------------------------------------ Fetch


def test_an_unknown_isolation_level_refuses_a_fetch_as_by_kafka(both: Both) -> None:
    for cluster in both:
        create(cluster, "isolated", 2)
    kafkas, ours = (with_channel(cluster, all_fetches) for cluster in both)
    different = [
        f"{each}\n  Kafka: {kafkas[each]}\n  ours:  {ours[each]}" for each in ours if kafkas[each] != ours[each]
    ]
    assert not different, "\n".join(different)


async def all_fetches(channel: RequestChannel) -> dict[tuple[int, int, int], Any]:
    found = {}
    for version in (4, 6, 11, 12):
        for isolation in (-1, 0, 1, 2):
            for replica in (-1, -2):
                partitions = tuple(FetchPartition(partition=number, fetch_offset=0) for number in (0, 1))
                request = FetchRequest(
                    replica_id=replica,
                    max_wait_ms=0,
                    isolation_level=isolation,
                    topics=(FetchTopic(topic="isolated", partitions=partitions),),
                )
                answer: Any = await channel.request(request, version, timeout_ms=15_000)
                found[version, isolation, replica] = msgspec.to_builtins(answer)
    return found


# ------------------------------------------------------------------ logs with such batches

BEFORE: Final = at(100)
UNREADABLE: Final = {
    "linked-blocks": batch(lz4_linked(plain(b"a")), 3, count=1),
    "no-records": batch(lz4_frame(b""), 3, count=1),
    "codec-5": batch(plain(b"a"), 5, count=1),
}
"""Batches that no broker appends, by topics; a log may have them from a broker that did not check them."""


def test_batches_that_cannot_be_read_stop_our_tools_as_kafkas(both: Both, tools: Tools, tmp_path: Path) -> None:
    """A batch that can be read comes first in each log; it is shown by both."""
    for cluster in both:
        put_into_logs(cluster)
    dumped = {name: f"kafka-dump-log --deep-iteration --files {{}}/{name}-0/{SEGMENT}" for name in UNREADABLE}
    consumed = "kafka-console-consumer --topic linked-blocks --partition 0 --offset earliest --bootstrap-server "
    for name, line in dumped.items():
        kafkas = tools.run(line.format(data_of(both.kafkas)))
        ours = OurTools(both.ours, tmp_path).run(line.format(data_of(both.ours)))
        assert errors(ours, 1) == errors(kafkas, 1), name
        if name != "codec-5":  # of which Kafka prints a part of the line
            assert ours.stdout.splitlines()[1:] == kafkas.stdout.splitlines()[1:]
    kafkas = tools.run(consumed + both.kafkas.bootstrap)
    ours = OurTools(both.ours, tmp_path).run(consumed + both.ours.bootstrap)
    assert (ours.stdout, errors(ours, 2)) == (kafkas.stdout, errors(kafkas, 2))
    assert ours.stdout == "x" * 100 + "\n"


def errors(outcome: Outcome, depth: int) -> tuple[int, list[str]]:
    """The exit code, and the classes of an exception and its causes."""
    line = r'^(?:Caused by: |Exception in thread "main" )?((?:[a-z]+\.)+[A-Za-z]+Exception)'
    return outcome.rc, re.findall(line, outcome.stderr, re.MULTILINE)[:depth]


def put_into_logs(cluster: LocalCluster) -> None:
    """Write each batch behind another one, while the broker is stopped."""
    for name in UNREADABLE:
        create(cluster, name, 1)
        assert with_channel(cluster, partial(append, topic=name, records=BEFORE)) == 0
    broker = cluster.broker(1)
    broker.stop()
    for name, records in UNREADABLE.items():
        placed = bytearray(records)
        place(placed, 0, base_offset=1, leader_epoch=0)
        with (data_of(cluster) / f"{name}-0" / SEGMENT).open("ab") as file:
            file.write(placed)
    broker.start()
    settle(cluster, [1])


async def append(channel: RequestChannel, *, topic: str, records: bytes) -> int:
    data = (TopicProduceData(name=topic, partition_data=(PartitionProduceData(index=0, records=records),)),)
    request = ProduceRequest(acks=1, timeout_ms=10_000, topic_data=data)
    answer: Any = await channel.request(request, 9, timeout_ms=15_000)
    return int(answer.responses[0].partition_responses[0].error_code)


def data_of(cluster: LocalCluster) -> Path:
    return cluster.directory / "broker-1" / "data"
