"""Tests of automatic preferred leader elections: when they run, and for which partitions."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tests.controller.harness import SETTINGS, ControllerHarness, HarnessBroker, TermHarness
from tests.controller.values import context, led, replicas, state, tp
from understudy.controller.auto_rebalance import (
    Balance,
    balances,
    electable,
    process_auto_preferred_replica_leader_election,
)
from understudy.controller.context import ControllerContext
from understudy.controller.events import AutoPreferredReplicaLeaderElection
from understudy.controller.transitions import PartitionState
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.eventlog.records import LeadershipWritten
from understudy.foundation.zk.client import Delete, SetData

HUNDRED = {f"orders-{number}": replicas(1, 2) for number in range(100)}
REBALANCED = replace(SETTINGS, auto_leader_rebalance_enable=True, leader_imbalance_check_interval_seconds=20)


def drifted(away: int, *, isr: tuple[int, ...] = (2, 1), brokers: tuple[int, ...] = (1, 2, 3)) -> ControllerContext:
    """A term with a hundred partitions whose preferred leader is broker 1; broker 2 leads `away` of them."""
    known = {name: led(2 if number < away else 1, isr) for number, name in enumerate(HUNDRED)}
    return context(brokers, HUNDRED, known)


# ------------------------------------------------------------------ elections


@pytest.mark.spec("AR-2")
def test_balance_counts_partitions_by_preferred_broker() -> None:
    assignments = {
        "a-0": replicas(1, 2),
        "a-1": replicas(1, 2),
        "a-2": replicas(2, 1),
        "b-0": replicas(1),
        "c-0": replicas(1),
    }
    known = {"a-0": led(2, (1, 2)), "a-1": led(1, (1, 2)), "a-2": led(-1, (2,)), "b-0": led(2, (2,))}
    cluster = context((1, 2), assignments, known)
    cluster.topics_to_be_deleted.add("b")
    # c has never had a leader: it counts, but not as led by another broker.
    assert balances(cluster) == {1: Balance(3, [tp("a-0")]), 2: Balance(1, [tp("a-2")])}


@pytest.mark.spec("AR-3")
@pytest.mark.parametrize(
    ("away", "percentage", "moved"), [(10, 10, 0), (11, 10, 11), (1, 0, 1), (0, 0, 0), (100, 100, 0)]
)
def test_imbalance_must_exceed_the_percentage(away: int, percentage: int, moved: int) -> None:
    assert len(electable(drifted(away), percentage).get(BrokerId(1), ())) == moved


@pytest.mark.spec("AR-3")
def test_rebalance_skips_elections_that_cannot_succeed() -> None:
    assert electable(drifted(50, isr=(2, 3)), 10) == {}, "not in sync (KAFKA-9866)"
    assert electable(drifted(50, brokers=(2, 3)), 10) == {}, "not alive"
    shutting_down = drifted(50)
    shutting_down.shutting_down_broker_ids.add(BrokerId(1))
    assert electable(shutting_down, 10) == {}
    without_a_disk = drifted(50)
    without_a_disk.replicas_on_offline_dirs[BrokerId(1)] = {tp("orders-0")}
    assert tp("orders-0") not in electable(without_a_disk, 10)[BrokerId(1)]
    assert len(electable(without_a_disk, 10)[BrokerId(1)]) == 49


@pytest.mark.spec("AR-3")
def test_rebalance_includes_partitions_being_reassigned() -> None:
    moving = replicas(3, 1, 2, adding=(3,), removing=(2,))
    cluster = context((1, 2, 3), {"orders-0": moving}, {"orders-0": led(1, (1, 2, 3))})
    cluster.partitions_being_reassigned.add(tp("orders-0"))
    assert electable(cluster, 10) == {3: [tp("orders-0")]}


@pytest.mark.spec("AR-2")
def test_balance_of_many_partitions_is_fast() -> None:
    cluster = context()
    for number in range(20_000):
        cluster.update_partition_assignment(TopicPartition("t", number), replicas(1 + number % 3, 1 + (number + 1) % 3))
    cluster.put_leadership(dict.fromkeys(cluster.assignments, led(1, (1, 2, 3))))
    spent = []
    for _ in range(3):
        started = time.process_time()
        found = electable(cluster, 10)
        spent.append(time.process_time() - started)
    assert sorted(found) == [2, 3]
    assert min(spent) < 0.2, "many times what it takes"


# ------------------------------------------------------------------ batches


@pytest.mark.spec("AR-3")
def test_rebalance_runs_one_batch_of_elections_per_broker() -> None:
    topics = {"a": {0: [1, 2, 0], 1: [1, 2, 0], 2: [2, 1, 0]}}
    with TermHarness(topics, settings=REBALANCED) as harness:
        term = harness.term
        isr = (0, 1, 2)
        away = {tp("a-0"): state(2, isr), tp("a-1"): state(0, isr), tp("a-2"): state(1, isr)}
        harness.run(term.zk.states.create(away, 1, term.context.epoch_zk_version))
        term.accept(away, "initialise")
        term.context.partition_states.update(dict.fromkeys(away, PartitionState.ONLINE))
        harness.clear_history()
        harness.run(process_auto_preferred_replica_leader_election(term, AutoPreferredReplicaLeaderElection(1)))
        written = harness.controller.records(LeadershipWritten)
        assert [[(p.topic, p.partition, p.leader) for p in record.partitions] for record in written] == [
            [("a", 0, 1), ("a", 1, 1)],
            [("a", 2, 2)],
        ]
        assert {record.why for record in written} == {"preferred"}


# ------------------------------------------------------------------ the timer


def rebalance_checks(broker: HarnessBroker) -> list[list[float]]:
    """For each term of the broker, the seconds after the takeover at which the balance was checked."""
    terms: list[list[float]] = []
    began_ms = 0.0
    for line in broker.envelopes():
        if line["type"] == "ControllerReady":
            terms.append([])
            began_ms = line["mono_ms"]
        elif line["type"] == "EventStarted" and line["data"]["event"] == "AutoPreferredReplicaLeaderElection":
            terms[-1].append(round((line["mono_ms"] - began_ms) / 1000, 1))
    return terms


@pytest.mark.spec("AR-1", "FO-14")
def test_first_rebalance_check_is_five_seconds_after_failover_then_at_each_interval() -> None:
    with ControllerHarness(settings=REBALANCED) as harness:
        harness.start()
        harness.settle(66_000)
        assert rebalance_checks(harness.broker(0)) == [[5.0, 25.0, 45.0, 65.0]]


@pytest.mark.spec("AR-1")
def test_disabled_rebalance_schedules_no_check() -> None:
    with ControllerHarness(settings=replace(REBALANCED, auto_leader_rebalance_enable=False)) as harness:
        harness.start()
        harness.settle(66_000)
        assert rebalance_checks(harness.broker(0)) == [[]]


@pytest.mark.spec("AR-1", "RS-1")
def test_rebalance_timer_ends_with_the_term() -> None:
    with ControllerHarness(settings=REBALANCED) as harness:
        harness.start()
        harness.settle(3_000)
        harness.operator.run(harness.operator.client.write(Delete("/controller")))
        harness.settle(500)
        controller = harness.broker(0)
        assert controller.controller.epoch == 2
        harness.settle(26_000)
        assert rebalance_checks(controller) == [[], [5.0, 25.0]], "and not when the first term would have"


@pytest.mark.spec("AR-1")
def test_rebalance_event_of_an_earlier_term_is_ignored() -> None:
    with ControllerHarness(settings=REBALANCED) as harness:
        harness.start()
        harness.create_topic("orders", {0: [1, 2]})
        harness.broker(1).crash()
        harness.broker(1).start()
        harness.settle()
        in_sync_again = b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":1,"isr":[2,1]}'
        harness.operator.run(
            harness.operator.client.write(SetData("/brokers/topics/orders/partitions/0/state", in_sync_again))
        )
        harness.operator.run(harness.operator.zk.isr_changes.propagate([tp("orders-0")]))
        harness.settle()
        controller = harness.broker(0)
        controller.run(queue(controller, AutoPreferredReplicaLeaderElection(0)))
        harness.settle(100)
        assert harness.state("orders", 0) == led(2, (2, 1), epoch=1, version=2, by=1)
        controller.run(queue(controller, AutoPreferredReplicaLeaderElection(1)))
        harness.settle(100)
        assert harness.state("orders", 0) == led(1, (2, 1), epoch=2, version=3, by=1)


async def queue(broker: HarnessBroker, event: AutoPreferredReplicaLeaderElection) -> None:
    """Queue an event that only the timer queues."""
    broker.controller._event_manager.put(event)
