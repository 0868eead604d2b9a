"""Tests of the partitioner: hashes that Kafka's own tests name, and how long a partition stays."""

from __future__ import annotations

import random
from itertools import groupby

import pytest

from understudy.clusters.clients.partitioner import StickyPartition, murmur2, partition_for_key, to_positive


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973_932_308),
        (b"foobar", -790_332_482),
        (b"a-little-bit-long-string", -985_981_536),
        (b"a-little-bit-longer-string", -1_486_304_829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
        (b"abc", 479_470_107),
    ],
)
def test_murmur2_is_what_kafka_computes(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed


def test_sign_bit_is_cut_off() -> None:
    assert to_positive(-1) == 0x7FFF_FFFF
    assert to_positive(-(1 << 31)) == 0
    assert partition_for_key(b"21", 10) == (-973_932_308 + (1 << 31)) % 10
    assert partition_for_key(b"", 7) in range(7)


def test_partition_without_key_changes_after_a_batch() -> None:
    sticky = StickyPartition(range(100), random.Random(4), batch_size=1_000)
    chosen = [sticky.partition_for(300) for _ in range(40)]
    assert [len(list(same)) for _, same in groupby(chosen)] == [4] * 10


def test_record_larger_than_a_batch_is_alone() -> None:
    sticky = StickyPartition(range(1_000), random.Random(4), batch_size=10)
    assert len({sticky.partition_for(11) for _ in range(20)}) > 15
