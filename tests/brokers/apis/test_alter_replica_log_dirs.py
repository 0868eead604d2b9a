"""Tests of AlterReplicaLogDirs: replicas are in the one directory already, and there is no other."""

from __future__ import annotations

import asyncio

import pytest

from tests.brokers.harness import BrokerHarness
from tests.brokers.parts import ME, OTHER, apply_leader_and_isr, leader_and_isr, state
from understudy.brokers.apis import alter_replica_log_dirs
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)

LONGEST = "x" * 213
"""The longest name of a topic whose replicas of partitions with one digit could move."""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (
            None,
            [
                *("NONE", "REPLICA_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_OR_PARTITION"),
                *("UNKNOWN_TOPIC_OR_PARTITION", "INVALID_TOPIC_EXCEPTION"),
            ],
        ),
        ("/elsewhere", ["LOG_DIR_NOT_FOUND"] * 5 + ["INVALID_TOPIC_EXCEPTION"]),
    ],
)
def test_replicas_stay_in_the_only_directory(path: str | None, expected: list[str]) -> None:
    async def scenario() -> list[tuple[str, int, str]]:
        harness = BrokerHarness()
        apply_leader_and_isr(harness.replicas, leader_and_isr(state(0, leader_epoch=5)))
        harness.update_metadata({"orders": {0: ME, 1: OTHER}})
        directory = AlterReplicaLogDir(
            path=path or harness.services.disk.directory,
            topics=(
                AlterReplicaLogDirTopic(name="orders", partitions=(0, 1, 9)),
                AlterReplicaLogDirTopic(name="nope", partitions=(0,)),
                AlterReplicaLogDirTopic(name=LONGEST, partitions=(0, 10)),
            ),
        )
        request = AlterReplicaLogDirsRequest(dirs=(directory,))
        answer = await alter_replica_log_dirs.handle(harness.services, request, harness.context(2))
        return [
            (topic.topic_name, each.partition_index, Errors(each.error_code).name)
            for topic in answer.results
            for each in topic.partitions
        ]

    partitions = [("orders", 0), ("orders", 1), ("orders", 9), ("nope", 0), (LONGEST, 0), (LONGEST, 10)]
    assert asyncio.run(scenario()) == [
        (topic, index, error) for (topic, index), error in zip(partitions, expected, strict=True)
    ]
