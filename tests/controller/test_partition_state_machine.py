"""Tests of the partition state machine: transitions, elections, writes and requests."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.controller.harness import TermHarness
from tests.controller.requests import LeaderAndIsrSent, StateSent, UpdateMetadataSent
from tests.controller.values import ids, led, state, tp
from understudy.clusters.simulated.zookeeper import LostAnswer
from understudy.controller import partition_state_machine as psm
from understudy.controller.partition_state_machine import Strategy
from understudy.controller.settings import ControllerSettings
from understudy.controller.state_writes import StateChangeFailed
from understudy.controller.transitions import PartitionState
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.cluster.leadership import LeaderRecoveryState
from understudy.foundation.eventlog.records import (
    FenceHit,
    InvalidTransition,
    LeadershipNotWritten,
    LeadershipWritten,
    PartitionsMoved,
    Refused,
    Transition,
    ZkWrite,
)
from understudy.foundation.zk.client import Delete, Failure
from understudy.foundation.zk.kafka_zk_client import ControllerMoved, ZooKeeperFailure
from understudy.foundation.zk.transactions import MAX_LOST_ANSWERS, Transactions

NEW, ONLINE, OFFLINE, NON_EXISTENT = (
    PartitionState.NEW,
    PartitionState.ONLINE,
    PartitionState.OFFLINE,
    PartitionState.NON_EXISTENT,
)
STATE_PATH = "/brokers/topics/orders/partitions/0/state"


class OnePartitionHarness(TermHarness):
    """Partition orders-0 of brokers 1, 2, 0; online with leader 1 unless `online` is False."""

    def __init__(self, *, online: bool = True, settings: ControllerSettings | None = None) -> None:
        super().__init__({"orders": {0: [1, 2, 0]}}, settings=settings)
        self.online = online

    def __enter__(self) -> OnePartitionHarness:
        super().__enter__()
        self.move(NEW)
        if self.online:
            self.move(ONLINE)
            self.settle()
            self.clear_history()
        return self

    def move(self, target: PartitionState, strategy: Strategy = Strategy.OFFLINE) -> psm.ElectionResults:
        return self.run(psm.handle_state_changes(self.term, [tp("orders-0")], target, strategy))

    def fail_broker(self, *brokers: int) -> None:
        """Remove the brokers from the live ones, and move the partition to OfflinePartition."""
        self.term.context.remove_live_brokers(ids(*brokers))
        self.move(OFFLINE)
        self.clear_history()


@pytest.mark.spec("PSM-3", "PSM-4")
def test_transitions_of_state_only_write_and_send_nothing() -> None:
    with OnePartitionHarness() as harness:
        before = harness.zookeeper.zxid
        harness.move(OFFLINE)
        harness.move(NON_EXISTENT)
        harness.settle()
        assert harness.partition_states("orders-0") == [NON_EXISTENT]
        assert harness.zookeeper.zxid == before
        assert [broker.requests() for broker in harness.brokers.values()] == [[], [], []]
        moved = [(record.target, *record.partitions) for record in harness.controller.records(PartitionsMoved)]
        assert moved == [
            ("OfflinePartition", Transition("orders", 0, -1, "OnlinePartition")),
            ("NonExistentPartition", Transition("orders", 0, -1, "OfflinePartition")),
        ]


@pytest.mark.spec("PSM-2", "C9")
def test_invalid_transition_is_recorded_and_skipped() -> None:
    with OnePartitionHarness() as harness:
        both = [tp("orders-0"), tp("orders-7")]
        harness.run(psm.handle_state_changes(harness.term, both, OFFLINE))
        assert harness.partition_states("orders-0", "orders-7") == [OFFLINE, NON_EXISTENT]
        (refused,) = harness.controller.records(InvalidTransition)
        assert (refused.topic, refused.partition, refused.source, refused.target, refused.replica) == (
            "orders",
            7,
            "NonExistentPartition",
            "OfflinePartition",
            -1,
        )


@pytest.mark.spec("PSM-1")
def test_no_partitions_do_nothing() -> None:
    with OnePartitionHarness() as harness:
        assert harness.run(psm.handle_state_changes(harness.term, [], ONLINE)) == {}
        assert harness.controller.all_records() == []


@pytest.mark.spec("PSM-5", "PSM-7", "RB-10")
def test_the_first_leader_is_the_first_live_replica() -> None:
    with OnePartitionHarness(online=False) as harness:
        harness.term.context.remove_live_brokers(ids(1))
        assert harness.move(ONLINE) == {}, "a first leader is no election result"
        harness.settle()
        assert harness.known("orders-0") == led(2, (2, 0), by=1) == harness.state("orders", 0)
        assert harness.partition_states("orders-0") == [ONLINE]
        assert harness.broker(2).requests()[0] == LeaderAndIsrSent(
            [StateSent(partition="orders-0", leader=2, isr=(2, 0), is_new=True)], live_leaders=[2]
        )
        assert harness.broker(1).requests() == [], "not in the ISR, and not alive"
        (written,) = harness.controller.records(LeadershipWritten)
        assert (written.why, len(written.partitions)) == ("initialise", 1)


@pytest.mark.spec("PSM-5")
def test_partition_without_a_live_replica_stays_new() -> None:
    with OnePartitionHarness(online=False) as harness:
        harness.term.context.remove_live_brokers(ids(0, 1, 2))
        harness.clear_history()
        harness.move(ONLINE)
        assert harness.partition_states("orders-0") == [NEW]
        assert harness.state("orders", 0) is Failure.NO_NODE
        (failed,) = harness.controller.records(LeadershipNotWritten)
        assert (failed.why, *failed.partitions) == ("initialise", Refused("orders", 0, "StateChangeFailed"))


@pytest.mark.spec("BUG-10")
def test_new_partition_with_a_state_in_zookeeper_takes_it_over() -> None:
    with OnePartitionHarness() as harness:
        # As if another controller had written the state.
        del harness.term.context.leadership[tp("orders-0")]
        harness.term.context.partition_states[tp("orders-0")] = NEW
        results = harness.move(ONLINE)
        assert results == {tp("orders-0"): state(1, (1, 2, 0), epoch=1, version=1)}
        assert harness.partition_states("orders-0") == [ONLINE]


@pytest.mark.spec("PSM-6", "PSM-9", "PSM-12", "PSM-16")
def test_election_decides_from_memory_and_reads_nothing() -> None:
    with OnePartitionHarness() as harness:
        harness.fail_broker(1)
        requests = harness.zookeeper.link("broker-0").requests
        results = harness.move(ONLINE)
        assert harness.zookeeper.link("broker-0").requests == requests + 1
        harness.settle()
        assert results == {tp("orders-0"): state(2, (2, 0), epoch=1, version=1)}
        assert harness.known("orders-0") == led(2, (2, 0), epoch=1, version=1, by=1) == harness.state("orders", 0)
        assert harness.partition_states("orders-0") == [ONLINE]
        assert harness.broker(0).requests() == [
            LeaderAndIsrSent(
                [StateSent(partition="orders-0", leader=2, isr=(2, 0), epoch=1, version=1)], live_leaders=[2]
            ),
            UpdateMetadataSent(
                [StateSent(partition="orders-0", leader=2, isr=(2, 0), epoch=1, version=1, offline=(1,))],
                live_brokers=[0, 2],
            ),
        ]


@pytest.mark.spec("PSM-10", "P6")
def test_conflicting_state_is_read_and_decided_again() -> None:
    with OnePartitionHarness() as harness:
        harness.rewrite_state("orders", 0)
        harness.fail_broker(1)
        results = harness.move(ONLINE)
        assert results == {tp("orders-0"): state(2, (2, 0), epoch=1, version=2)}
        assert harness.known("orders-0") == harness.state("orders", 0)
        assert [write.purpose for write in harness.controller.records(ZkWrite)].count("leader-and-isr") >= 2


@pytest.mark.spec("PSM-10", "PSM-11", "D14")
def test_partition_that_keeps_conflicting_fails_alone() -> None:
    with OnePartitionHarness(settings=ControllerSettings(conflict_rounds=1)) as harness:
        harness.rewrite_state("orders", 0)
        harness.fail_broker(1)
        results = harness.move(ONLINE)
        failed = results[tp("orders-0")]
        assert isinstance(failed, StateChangeFailed)
        assert failed.failure is Failure.BAD_VERSION
        assert harness.partition_states("orders-0") == [OFFLINE]
        (record,) = harness.controller.records(LeadershipNotWritten)
        assert (record.why, *record.partitions) == ("offline", Refused("orders", 0, "BadVersion"))


@pytest.mark.spec("PSM-9", "PSM-11")
def test_missing_state_gets_no_leader() -> None:
    with OnePartitionHarness() as harness:
        harness.operator.run(harness.operator.client.write(Delete(STATE_PATH)))
        harness.fail_broker(1)
        failed = harness.move(ONLINE)[tp("orders-0")]
        assert isinstance(failed, StateChangeFailed)
        assert failed.failure is Failure.NO_NODE
        assert harness.partition_states("orders-0") == [OFFLINE]


@pytest.mark.spec("PSM-11")
def test_failed_election_keeps_the_state_and_sends_nothing() -> None:
    with OnePartitionHarness() as harness:
        harness.fail_broker(0, 1, 2)
        failed = harness.move(ONLINE)[tp("orders-0")]
        assert isinstance(failed, StateChangeFailed)
        assert failed.label == "StateChangeFailed"
        assert harness.partition_states("orders-0") == [OFFLINE]
        assert harness.state("orders", 0) == led(1, (1, 2, 0), by=1)


@pytest.mark.spec("EL-15")
def test_state_of_a_newer_controller_is_not_written() -> None:
    with OnePartitionHarness() as harness:
        harness.term.context.put_leadership({tp("orders-0"): led(1, (1, 2, 0), by=9)})
        harness.fail_broker(1)
        failed = harness.move(ONLINE)[tp("orders-0")]
        assert isinstance(failed, StateChangeFailed)
        assert "controller epoch 9" in failed.why
        (hit,) = harness.controller.records(FenceHit)
        assert (hit.fence, hit.what, hit.offered, hit.known) == ("controller.state-controller-epoch", "orders-0", 1, 9)
        assert harness.state("orders", 0) == led(1, (1, 2, 0), by=1)


@pytest.mark.spec("EL-14", "PSM-1", "C3")
def test_deposed_controller_cannot_write() -> None:
    with OnePartitionHarness() as harness:
        harness.depose()
        harness.fail_broker(1)
        with pytest.raises(ControllerMoved):
            harness.move(ONLINE)
        assert harness.state("orders", 0) == led(1, (1, 2, 0), by=1)
        assert harness.known("orders-0") == led(1, (1, 2, 0), by=1), "memory has only the accepted states"
        harness.settle()
        assert harness.broker(2).requests() == []


@pytest.mark.spec("PSM-1", "R-5")
def test_election_with_unknown_outcome_raises() -> None:
    with OnePartitionHarness() as harness:
        harness.fail_broker(1)
        harness.zookeeper.lost_answers += [LostAnswer("broker-0", STATE_PATH, applied=True)] * MAX_LOST_ANSWERS
        with pytest.raises(ZooKeeperFailure, match="Unknown"):
            harness.move(ONLINE)
        assert harness.state("orders", 0) == led(2, (2, 0), epoch=1, version=1, by=1)


@pytest.mark.spec("PSM-11")
def test_states_written_before_a_zookeeper_failure_are_online_and_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    accepted = Transactions._send
    sent = 0

    async def refuse_the_second(self: Transactions, *transaction: Any) -> object:
        nonlocal sent
        sent += 1
        if sent > 1:
            raise ZooKeeperFailure(Failure.NO_NODE, "check of /controller_epoch")
        return await accepted(self, *transaction)

    with TermHarness({"orders": {0: [1, 2, 0], 1: [1, 0, 2]}}) as harness:
        both = [tp("orders-0"), tp("orders-1")]
        for target in (NEW, ONLINE):
            harness.run(psm.handle_state_changes(harness.term, both, target))
        harness.term.context.remove_live_brokers(ids(1))
        harness.run(psm.handle_state_changes(harness.term, both, OFFLINE))
        harness.settle()
        harness.clear_history()
        monkeypatch.setattr("understudy.foundation.zk.transactions.MAX_OPS", 1)
        monkeypatch.setattr(Transactions, "_send", refuse_the_second)
        results = harness.run(psm.handle_state_changes(harness.term, both, ONLINE))
        harness.settle()
        assert results[both[0]] == state(2, (2, 0), epoch=1, version=1)
        failed = results[both[1]]
        assert isinstance(failed, StateChangeFailed)
        assert failed.failure is Failure.NO_NODE
        assert harness.partition_states("orders-0", "orders-1") == [ONLINE, OFFLINE]
        assert harness.broker(2).requests() == [
            LeaderAndIsrSent(
                [StateSent(partition="orders-0", leader=2, isr=(2, 0), epoch=1, version=1)], live_leaders=[2]
            ),
            UpdateMetadataSent(
                [StateSent(partition="orders-0", leader=2, isr=(2, 0), epoch=1, version=1, offline=(1,))],
                live_brokers=[0, 2],
            ),
        ]


class OnlyReplicaOne(OnePartitionHarness):
    """Partition orders-0 with the ISR [1], and broker 1 is offline."""

    def __enter__(self) -> OnlyReplicaOne:
        super().__enter__()
        alone = state(1, (1,), version=0)
        self.run(self.term.zk.states.update({tp("orders-0"): alone}, 1, self.term.context.epoch_zk_version))
        self.term.accept({tp("orders-0"): replace(alone, partition_epoch=1)}, "alter-partition")
        self.fail_broker(1)
        return self


@pytest.mark.spec("PSM-17", "P5")
def test_unclean_leader_is_not_elected_unless_allowed() -> None:
    with OnlyReplicaOne() as harness:
        assert isinstance(harness.move(ONLINE)[tp("orders-0")], StateChangeFailed)
        assert harness.partition_states("orders-0") == [OFFLINE]


@pytest.mark.spec("PSM-17", "PSM-18")
@pytest.mark.parametrize("by", ["topic config", "broker config", "administrator"])
def test_unclean_election_may_be_allowed_by_broker_topic_or_request(by: str) -> None:
    with OnlyReplicaOne(
        settings=ControllerSettings(unclean_leader_election_enabled=lambda: by == "broker config")
    ) as harness:
        if by == "topic config":
            config = {"unclean.leader.election.enable": "true"}
            harness.operator.run(harness.operator.zk.configs.write("topics", "orders", config))
        strategy = Strategy.UNCLEAN if by == "administrator" else Strategy.OFFLINE
        elected = harness.move(ONLINE, strategy)[tp("orders-0")]
        assert elected == state(2, (2,), epoch=1, version=2, recovering=True)
        (written,) = harness.controller.records(LeadershipWritten)
        assert written.why == "unclean"
        assert written.partitions[0].leader_recovery_state == LeaderRecoveryState.RECOVERING


@pytest.mark.spec("PSM-17")
def test_topic_config_overrides_the_brokers_unclean_default() -> None:
    with OnlyReplicaOne(settings=ControllerSettings(unclean_leader_election_enabled=lambda: True)) as harness:
        config = {"unclean.leader.election.enable": "false"}
        harness.operator.run(harness.operator.zk.configs.write("topics", "orders", config))
        assert isinstance(harness.move(ONLINE)[tp("orders-0")], StateChangeFailed)


@pytest.mark.spec("PSM-13", "PSM-14", "PSM-15")
def test_reassignment_preferred_and_shutdown_strategies() -> None:
    with OnePartitionHarness() as harness:
        context = harness.term.context
        assert harness.move(ONLINE, Strategy.PREFERRED) == {tp("orders-0"): state(1, (1, 2, 0), epoch=1, version=1)}
        context.shutting_down_broker_ids.add(BrokerId(1))
        assert harness.move(ONLINE, Strategy.CONTROLLED_SHUTDOWN) == {
            tp("orders-0"): state(2, (2, 0), epoch=2, version=2)
        }
        moving = replace(context.partition_assignment(tp("orders-0")), removing_replicas=ids(1, 2))
        context.update_partition_assignment(tp("orders-0"), moving)
        assert harness.move(ONLINE, Strategy.REASSIGNMENT) == {tp("orders-0"): state(0, (2, 0), epoch=3, version=3)}
        whys = [record.why for record in harness.controller.records(LeadershipWritten)]
        assert whys == ["preferred", "controlled-shutdown", "reassignment"]


@pytest.mark.spec("PSM-8")
def test_no_election_for_topics_queued_for_deletion() -> None:
    with OnePartitionHarness() as harness:
        harness.fail_broker(1)
        harness.term.context.topics_to_be_deleted.add("orders")
        assert harness.run(psm.trigger_online_state_change(harness.term)) == {}
        harness.term.context.topics_to_be_deleted.clear()
        assert list(harness.run(psm.trigger_online_state_change(harness.term))) == [tp("orders-0")]


@pytest.mark.spec("FO-10")
def test_startup_derives_states_from_leaders() -> None:
    with TermHarness({"a": {0: [1, 2], 1: [2, 1], 2: [1, 2]}}) as harness:
        context = harness.term.context
        known = {tp("a-0"): state(1, (1, 2)), tp("a-1"): state(2, (2, 1))}
        harness.run(harness.term.zk.states.create(known, 1, context.epoch_zk_version))
        harness.term.accept(known, "initialise")
        context.remove_live_brokers(ids(2))
        harness.run(psm.startup(harness.term))
        assert harness.partition_states("a-0", "a-1", "a-2") == [ONLINE, ONLINE, ONLINE]
        assert harness.known("a-0") == led(1, (1, 2), by=1), "it was online: nothing to do"
        assert harness.known("a-1") == led(1, (1,), epoch=1, version=1, by=1), "its leader was dead"
        assert harness.known("a-2") == led(1, (1,), by=1), "it was new"
