"""Tests of OffsetForLeaderEpoch: the end of an epoch in the leader's log, and who may ask for it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Collection

import pytest

from tests.brokers.harness import BrokerHarness
from tests.brokers.log.parts import NOW_MS, batch, open_log
from tests.brokers.parts import ME, OTHER, apply_leader_and_isr, leader_and_isr, state
from understudy.brokers.apis import offset_for_leader_epoch
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.eventlog.fences import Fences, Switch
from understudy.foundation.eventlog.rules import Fix
from understudy.foundation.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)


def answer(
    leader_epoch: int, *, current_leader_epoch: int = -1, partition: int = 0, switched_off: Collection[Switch] = ()
) -> EpochEndOffset:
    """The answer of a leader at epoch 5, whose log has epochs 1 (offsets 0 to 2) and 3 (offsets 3 and 4)."""

    async def scenario() -> EpochEndOffset:
        opened = open_log()
        for offset in range(5):
            data = batch(b"v", offset=offset, leader_epoch=1 if offset < 3 else 3)
            opened.append_as_follower(data, now_ms=NOW_MS)
        harness = BrokerHarness(log=opened)
        states = (state(0, leader_epoch=5), state(1, leader=OTHER, leader_epoch=5))
        apply_leader_and_isr(harness.replicas, leader_and_isr(*states))
        harness.update_metadata({"orders": {0: ME, 1: OTHER, 2: OTHER}})
        asked = OffsetForLeaderPartition(
            partition=partition, current_leader_epoch=current_leader_epoch, leader_epoch=leader_epoch
        )
        request = OffsetForLeaderEpochRequest(
            replica_id=OTHER, topics=(OffsetForLeaderTopic(topic="orders", partitions=(asked,)),)
        )
        fences = Fences(harness.recorder.log, switched_off=switched_off)
        services = dataclasses.replace(harness.services, fences=fences)
        response = await offset_for_leader_epoch.handle(services, request, harness.context(4))
        ((found,),) = (topic.partitions for topic in response.topics)
        return found

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("leader_epoch", "epoch", "end_offset"),
    [(1, 1, 3), (2, 1, 3), (3, 3, 5), (4, 3, 5), (5, 5, 5), (0, 0, 0), (6, -1, -1), (-1, -1, -1)],
)
def test_the_end_of_an_epoch_is_where_the_next_one_begins(leader_epoch: int, epoch: int, end_offset: int) -> None:
    """Of an epoch that the log does not have, the one before it is answered (KIP-279)."""
    found = answer(leader_epoch, current_leader_epoch=5)
    assert (found.error_code, found.partition, found.leader_epoch, found.end_offset) == (0, 0, epoch, end_offset)


@pytest.mark.parametrize(
    ("leader_epoch", "epoch", "end_offset"), [(1, 1, 3), (2, 2, 3), (3, 3, 5), (4, 4, 5), (0, 0, 0), (6, -1, -1)]
)
def test_without_kip_279_the_answer_hides_that_the_leader_lacks_the_epoch(
    leader_epoch: int, epoch: int, end_offset: int
) -> None:
    found = answer(leader_epoch, switched_off=[Fix.KIP_279])
    assert (found.leader_epoch, found.end_offset) == (epoch, end_offset)


@pytest.mark.spec("BK-13")
@pytest.mark.parametrize(
    ("current_leader_epoch", "partition", "code"),
    [
        (-1, 0, Errors.NONE),
        (4, 0, Errors.FENCED_LEADER_EPOCH),
        (6, 0, Errors.UNKNOWN_LEADER_EPOCH),
        (-1, 1, Errors.NOT_LEADER_OR_FOLLOWER),
        (-1, 2, Errors.NOT_LEADER_OR_FOLLOWER),
        (-1, 7, Errors.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_only_the_leader_of_the_right_epoch_answers(current_leader_epoch: int, partition: int, code: Errors) -> None:
    found = answer(1, current_leader_epoch=current_leader_epoch, partition=partition)
    assert (Errors(found.error_code), found.partition) == (code, partition)
    if code is not Errors.NONE:
        assert (found.leader_epoch, found.end_offset) == (-1, -1)
