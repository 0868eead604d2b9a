"""Tests of DescribeLogDirs: the hosted replicas, and a failed disk."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tests.brokers.harness import BrokerHarness
from understudy.brokers.apis import describe_log_dirs
from understudy.brokers.world import Volume
from understudy.clusters.simulated.disk import VOLUME_BYTES
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsTopic,
)


def ask(request: DescribeLogDirsRequest, *, broken: bool = False) -> DescribeLogDirsResponse:
    async def answer() -> DescribeLogDirsResponse:
        harness = BrokerHarness()
        for topic, partition in (("orders", 1), ("orders", 0), ("bills", 7)):
            harness.become_leader(topic, partition)
        if broken:
            harness.services.disk.volume = _broken  # type: ignore[method-assign]  # the disk fails from now on
        return await describe_log_dirs.handle(harness.services, request, harness.context(4))

    return asyncio.run(answer())


def _broken() -> Volume:
    raise OSError(5, "Input/output error")


def hosted(topics: Sequence[DescribeLogDirsTopic]) -> dict[str, list[int]]:
    return {topic.name: [partition.partition_index for partition in topic.partitions] for topic in topics}


@pytest.mark.parametrize(
    ("topics", "found"),
    [
        (None, {"bills": [7], "orders": [0, 1]}),
        ((), {}),
        ((DescribableLogDirTopic(topic="orders", partitions=(1, 2)),), {"orders": [1]}),
        ((DescribableLogDirTopic(topic="nothing", partitions=(0,)),), {}),
    ],
)
def test_answer_has_the_one_directory_with_the_requested_replicas(
    topics: tuple[DescribableLogDirTopic, ...] | None, found: dict[str, list[int]]
) -> None:
    response = ask(DescribeLogDirsRequest(topics=topics))
    [result] = response.results
    assert (response.error_code, result.error_code, result.log_dir) == (Errors.NONE, Errors.NONE, "/data")
    assert (result.total_bytes, result.usable_bytes) == (VOLUME_BYTES, VOLUME_BYTES)
    assert hosted(result.topics) == found
    partitions = [partition for topic in result.topics for partition in topic.partitions]
    assert all((p.partition_size, p.offset_lag, p.is_future_key) == (0, 0, False) for p in partitions)


def test_disk_that_fails_is_a_storage_error() -> None:
    response = ask(DescribeLogDirsRequest(topics=None), broken=True)
    [result] = response.results
    assert (response.error_code, result.error_code, result.topics) == (Errors.NONE, Errors.KAFKA_STORAGE_ERROR, ())
    assert (result.total_bytes, result.usable_bytes) == (-1, -1)
