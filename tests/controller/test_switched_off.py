"""Historic fixes in the controller: what it does with each of them, and what it did before."""

from __future__ import annotations

import pytest

from tests.controller.harness import ControllerHarness
from tests.controller.requests import UpdateMetadataSent
from tests.controller.test_alter_partition import AlterPartitionHarness, errors, proposal
from understudy.controller.alter_partition import _decide
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.cluster.leadership import LeaderAndIsr
from understudy.foundation.eventlog.fences import Fences
from understudy.foundation.eventlog.records import FenceHit
from understudy.foundation.eventlog.rules import Fix

ORDERS_0 = TopicPartition("orders", 0)


def switch_off(harness: ControllerHarness, fix: Fix, broker: int = 0) -> Fences:
    """Switch a fix off in the term in progress on a broker."""
    member = harness.broker(broker)
    term = member.controller._term
    assert term is not None
    term.fences = Fences(member.world.events, switched_off=[fix])
    return term.fences


@pytest.mark.parametrize("is_on", [True, False])
def test_an_isr_change_that_comes_again_is_accepted(is_on: bool) -> None:
    with AlterPartitionHarness() as harness:
        assert errors(harness.ask(1, proposal(0, (1,)))) == [(0, Errors.NONE)]
        hits = harness.broker(0).world.fences.hits if is_on else switch_off(harness, Fix.KAFKA_14144).hits
        again = harness.ask(1, proposal(0, (1,)))
        assert errors(again) == [(0, Errors.NONE if is_on else Errors.INVALID_UPDATE_VERSION)]
        assert hits[Fix.KAFKA_14144] == 1
        recorded = [hit.fence for hit in harness.broker(0).records(FenceHit)]
        assert recorded == ([] if is_on else ["kafka-14144"])


@pytest.mark.parametrize(
    ("is_on", "version", "epoch", "error"),
    [
        (True, 7, 0, Errors.NOT_CONTROLLER),
        (True, 0, 5, Errors.NOT_CONTROLLER),
        (False, 7, 0, Errors.INVALID_UPDATE_VERSION),
        (False, 0, 5, Errors.FENCED_LEADER_EPOCH),
    ],
)
def test_a_leader_that_is_ahead_learns_that_another_broker_is_controller(
    is_on: bool, version: int, epoch: int, error: Errors
) -> None:
    with AlterPartitionHarness() as harness:
        hits = harness.broker(0).world.fences.hits if is_on else switch_off(harness, Fix.KAFKA_14154).hits
        assert errors(harness.ask(1, proposal(0, (1,), version=version, epoch=epoch))) == [(0, error)]
        assert hits[Fix.KAFKA_14154] == 1


@pytest.mark.parametrize("is_on", [True, False])
def test_a_dead_broker_does_not_join_an_isr(is_on: bool) -> None:
    with AlterPartitionHarness() as harness:
        term = harness.broker(0).controller._term
        assert term is not None
        hits = term.fences.hits if is_on else switch_off(harness, Fix.KAFKA_14140).hits
        current = term.context.leadership[ORDERS_0].leader_and_isr
        with_a_dead_one = LeaderAndIsr(
            current.leader, current.leader_epoch, (*current.isr, BrokerId(9)), partition_epoch=current.partition_epoch
        )
        verdict = _decide(term, ORDERS_0, with_a_dead_one, 3)
        assert (verdict is Errors.INELIGIBLE_REPLICA) is is_on
        assert hits[Fix.KAFKA_14140] == 1


@pytest.mark.parametrize("is_on", [True, False])
def test_all_brokers_learn_that_a_broker_without_partitions_is_dead(is_on: bool) -> None:
    with ControllerHarness() as harness:
        harness.start()
        hits = harness.broker(0).world.fences.hits if is_on else switch_off(harness, Fix.KAFKA_13225).hits
        harness.clear_history()
        harness.broker(2).crash()
        harness.settle(10_000)
        sent = harness.broker(1).requests()
        assert sent == ([UpdateMetadataSent([], live_brokers=[0, 1])] if is_on else [])
        assert hits[Fix.KAFKA_13225] == 1
