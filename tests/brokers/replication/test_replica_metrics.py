"""Tests of the metrics of a broker: counts of partitions, meters of ISR changes, timers of ZooKeeper requests."""

from __future__ import annotations

import asyncio

import pytest

from tests.brokers.harness import BrokerHarness
from understudy.brokers.metrics.metered_zookeeper import MBEANS, MeteredZooKeeper, SessionState
from understudy.brokers.replication import isr
from understudy.brokers.replication.alter_partition_manager import IsrChange
from understudy.brokers.replication.partition import IsrProposal, LocalPartitionState, Role
from understudy.brokers.replication.replica_metrics import replica_readings
from understudy.clusters.simulated.loop import new_loop
from understudy.clusters.simulated.randomness import derived
from understudy.clusters.simulated.zookeeper import SimulatedZooKeeper
from understudy.clusters.simulated.zookeeper_client import NodeZooKeeper
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.metrics.instruments import Meter
from understudy.foundation.wire.messages.alter_partition import AlterPartitionResponsePartitionData
from understudy.foundation.zk.client import Create

MIN_ISR = {"two": 2, "five": 5}


def partition(
    topic: str,
    number: int,
    *,
    role: Role = Role.LEADER,
    isr: tuple[int, ...] = (1, 2, 3),
    replicas: tuple[int, ...] = (1, 2, 3),
    adding_replicas: tuple[int, ...] = (),
    removing_replicas: tuple[int, ...] = (),
) -> LocalPartitionState:
    return LocalPartitionState(
        topic_partition=TopicPartition(topic, number),
        role=role,
        isr=isr,
        replicas=replicas,
        adding_replicas=adding_replicas,
        removing_replicas=removing_replicas,
    )


@pytest.mark.parametrize(
    ("hosted", "expected"),
    [
        ((), {}),
        ((partition("t", 0, role=Role.FOLLOWER, isr=()), partition("t", 1, role=Role.NONE)), {"PartitionCount": 2}),
        ((partition("t", 0),), {"PartitionCount": 1, "LeaderCount": 1}),
        ((partition("t", 0, isr=(1, 2)),), {"PartitionCount": 1, "LeaderCount": 1, "UnderReplicatedPartitions": 1}),
        (
            (partition("t", 0, isr=(1,)),),
            {"PartitionCount": 1, "LeaderCount": 1, "UnderReplicatedPartitions": 1, "AtMinIsrPartitionCount": 1},
        ),
        (
            (partition("two", 0, isr=(1, 2)),),
            {"PartitionCount": 1, "LeaderCount": 1, "UnderReplicatedPartitions": 1, "AtMinIsrPartitionCount": 1},
        ),
        (
            (partition("two", 0, isr=(1,)),),
            {"PartitionCount": 1, "LeaderCount": 1, "UnderReplicatedPartitions": 1, "UnderMinIsrPartitionCount": 1},
        ),
        # min.insync.replicas counts only up to the number of replicas.
        ((partition("five", 0),), {"PartitionCount": 1, "LeaderCount": 1, "AtMinIsrPartitionCount": 1}),
        (
            (partition("five", 0, isr=(2, 1)),),
            {"PartitionCount": 1, "LeaderCount": 1, "UnderReplicatedPartitions": 1, "UnderMinIsrPartitionCount": 1},
        ),
        (
            (partition("t", 0, isr=(1,), replicas=(1,)),),
            {"PartitionCount": 1, "LeaderCount": 1, "AtMinIsrPartitionCount": 1},
        ),
        # A partition that is reassigned from 1,2,3 to 4,2,3 needs three replicas in sync, not four.
        (
            (partition("t", 0, replicas=(4, 2, 3, 1), adding_replicas=(4,), removing_replicas=(1,)),),
            {"PartitionCount": 1, "LeaderCount": 1, "ReassigningPartitions": 1},
        ),
        (
            (partition("t", 0, isr=(1, 2), replicas=(1, 2, 3), removing_replicas=(3,)),),
            {"PartitionCount": 1, "LeaderCount": 1, "ReassigningPartitions": 1, "UnderReplicatedPartitions": 1},
        ),
    ],
    ids=str,
)
def test_partitions_are_counted_as_in_kafka(hosted: tuple[LocalPartitionState, ...], expected: dict[str, int]) -> None:
    found = replica_readings(hosted, lambda topic: MIN_ISR.get(topic, 1))
    assert {reading.mbean.name: reading.value for reading in found if reading.value != 0} == expected


def test_outcome_of_an_isr_change_is_marked_once() -> None:
    async def scenario() -> list[tuple[int, int, int]]:
        harness = BrokerHarness()
        harness.become_leader("orders", 0)
        manager, meters = harness.services.isr, harness.services.isr.meters
        here = TopicPartition("orders", 0)
        seen = []
        for joining, leaving, members, error, answered_epoch in (
            ((3,), (), (1, 2, 3), Errors.NONE, 5),
            ((), (2,), (1, 3), Errors.NONE, 5),
            ((2,), (), (1, 3, 2), Errors.INELIGIBLE_REPLICA, 5),
            ((2,), (), (1, 3, 2), Errors.NONE, 4),
        ):
            partition = harness.replicas.partitions[here]
            led = partition.state
            change = IsrChange(here, led.topic_id, IsrProposal(members, joining, leaving, 5, led.partition_epoch))
            partition.update_isr(isr.with_proposal(led, change.proposal))
            answer = AlterPartitionResponsePartitionData(
                partition_index=0,
                leader_id=1,
                leader_epoch=answered_epoch,
                isr=members,
                partition_epoch=led.partition_epoch + 1,
            )
            manager._on_answer(change, error, answer)
            seen.append((meters.expands.count, meters.shrinks.count, meters.failed.count))
        # An answer to another proposal than the pending one counts as nothing.
        partition.update_isr(isr.with_proposal(partition.state, change.proposal._replace(partition_epoch=77)))
        manager._on_answer(change, Errors.INELIGIBLE_REPLICA, answer)
        seen.append((meters.expands.count, meters.shrinks.count, meters.failed.count))
        return seen

    assert asyncio.run(scenario()) == [(1, 0, 0), (1, 1, 0), (1, 1, 1), (1, 1, 2), (1, 1, 2)]


@pytest.mark.spec("MT-4")
def test_sessions_and_requests_of_zookeeper_are_measured() -> None:
    loop = new_loop()
    server = SimulatedZooKeeper(loop, random=derived(1, "zookeeper"))
    process = loop.process("broker-1", 1)
    notifications: list[object] = []

    class LoopClock:
        def monotonic_ms(self) -> float:
            return loop.time() * 1000

        wall_ms = monotonic_ms

    metered = MeteredZooKeeper(NodeZooKeeper(server, "broker-1", session_timeout_ms=6_000), LoopClock())

    def marks() -> dict[str, int]:
        found = {reading.mbean.name: reading.value for reading in metered.readings()}
        return {name: meter.count for name, meter in found.items() if isinstance(meter, Meter) and meter.count}

    def state() -> SessionState:
        return metered.state

    async def scenario() -> None:
        assert state() is SessionState.NOT_CONNECTED
        client = await metered.connect(notifications.append)
        assert (state(), marks()) == (SessionState.CONNECTED, {"ZooKeeperSyncConnectsPerSec": 1})
        await client.write(Create("/a"))
        await client.get("/a")
        await client.get_many(["/a", "/b"])
        found = metered.latency.distribution()
        assert found.values == 3
        assert 0 < found.minimum <= found.maximum < 1_000
        server.reset("broker-1")
        await asyncio.sleep(0.01)
        assert state() is SessionState.CONNECTING
        await client.connected()
        assert (state(), marks()) == (
            SessionState.CONNECTED,
            {"ZooKeeperSyncConnectsPerSec": 2, "ZooKeeperDisconnectsPerSec": 1},
        )
        server.expire(client.session_id)
        await asyncio.sleep(1)
        assert (state(), marks()["ZooKeeperExpiresPerSec"]) == (SessionState.CLOSED, 1)
        assert len(notifications) >= 3

    loop.run_until_complete(process.spawn(scenario()))
    loop.close()
    assert loop.failures == []


@pytest.mark.spec("MT-4")
def test_session_meters_have_kafkas_names() -> None:
    assert [mbean.name for mbean in MBEANS] == [
        "SessionState",
        "ZooKeeperDisconnectsPerSec",
        "ZooKeeperSyncConnectsPerSec",
        "ZooKeeperAuthFailuresPerSec",
        "ZooKeeperReadOnlyConnectsPerSec",
        "ZooKeeperSaslAuthenticationsPerSec",
        "ZooKeeperExpiresPerSec",
        "ZooKeeperRequestLatencyMs",
    ]
