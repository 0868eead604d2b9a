"""Tests of topic deletion: requests, znodes, offline replicas, failover."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest
from msgspec.structs import replace

from tests.controller.harness import ControllerHarness, TermHarness, answer_none, answer_stop_replica
from tests.controller.requests import (
    LeaderAndIsrSent,
    ReplicaStopped,
    StateSent,
    StopReplicaSent,
    UpdateMetadataSent,
    partitions_of,
)
from tests.controller.values import context, ids, led, replicas, tp
from tests.operators_log import operators_log
from understudy.checks.history import OpKind
from understudy.controller import replica_state_machine, topic_deletion
from understudy.controller.broker_lifecycle import on_broker_startup, on_replicas_become_offline
from understudy.controller.events import TopicDeletionStopReplicaResponseReceived
from understudy.controller.settings import ControllerSettings
from understudy.controller.topic_changes import (
    on_new_partition_creation,
    process_partition_modifications,
    process_topic_change,
)
from understudy.controller.topic_deletion import NextSteps, next_steps
from understudy.controller.transitions import PartitionState, ReplicaState
from understudy.foundation.cluster.broker import BrokerAndEpoch
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import BrokerId, TopicId, TopicPartition
from understudy.foundation.eventlog.records import InvalidTransition, TopicsChanged
from understudy.foundation.wire.messages.stop_replica import StopReplicaRequest
from understudy.foundation.wire.schema import Message
from understudy.foundation.zk.admin_znodes import ReassignPartitionsZNode
from understudy.foundation.zk.client import Delete, Failure
from understudy.foundation.zk.kafka_zk_client import ControllerMoved, ZooKeeperFailure
from understudy.foundation.zk.transactions import MAX_OPS

ONLINE, OFFLINE = ReplicaState.ONLINE, ReplicaState.OFFLINE
STARTED, SUCCESSFUL = ReplicaState.DELETION_STARTED, ReplicaState.DELETION_SUCCESSFUL
INELIGIBLE = ReplicaState.DELETION_INELIGIBLE


class TopicDeletionHarness(TermHarness):
    """`orders` with two partitions on all three brokers, `payments` on two of them; all replicas online."""

    def __init__(self, settings: ControllerSettings | None = None) -> None:
        topics: Mapping[str, Mapping[int, list[int]]] = {
            "orders": {0: [0, 1, 2], 1: [1, 2, 0]},
            "payments": {0: [1, 2]},
        }
        super().__init__(topics, settings=settings)
        self.away: dict[BrokerId, BrokerAndEpoch] = {}

    def __enter__(self) -> TopicDeletionHarness:
        super().__enter__()
        self.run(on_new_partition_creation(self.term, [tp("orders-0"), tp("orders-1"), tp("payments-0")]))
        for topic in ("orders", "payments"):
            self.write_znode(f"/config/topics/{topic}", b'{"version":1,"config":{}}')
        self.settle()
        self.clear_history()
        self.put.clear()
        return self

    # -- actions

    def mark(self, *topics: str) -> None:
        for topic in topics:
            self.write_znode(f"/admin/delete_topics/{topic}", b"")
        self.process_topic_deletion()

    def process_topic_deletion(self) -> None:
        self.run(topic_deletion.process_topic_deletion(self.term))
        self.settle()

    def process_responses(self) -> None:
        """Process the responses of the brokers, and those that follow."""
        while answers := self.answers():
            self.put.clear()
            for answer in answers:
                self.run(topic_deletion.process_stop_replica_response(self.term, answer))
            self.settle()

    def answers(self) -> list[TopicDeletionStopReplicaResponseReceived]:
        return [event for event in self.put if isinstance(event, TopicDeletionStopReplicaResponseReceived)]

    def fail_broker(self, broker: int) -> None:
        """Remove the broker, as BrokerChange does."""
        context = self.term.context
        registered = self.run(self.term.zk.brokers.all())
        self.away[BrokerId(broker)] = registered[BrokerId(broker)]
        context.remove_live_brokers(ids(broker))
        self.run(on_replicas_become_offline(self.term, context.partitions_by_replica(only=ids(broker))))
        self.settle()

    def restart_broker(self, broker: int) -> None:
        """Add the broker again, as BrokerChange does."""
        self.term.context.add_live_brokers({BrokerId(broker): self.away.pop(BrokerId(broker))})
        self.run(on_broker_startup(self.term, ids(broker)))
        self.settle()

    # -- observations

    def replica_states(self, name: str) -> list[ReplicaState | None]:
        return [self.replica_state(name, broker) for broker in (0, 1, 2)]

    def left_of(self, topic: str) -> list[str]:
        znodes = (f"/brokers/topics/{topic}", f"/config/topics/{topic}", f"/admin/delete_topics/{topic}")
        return [path for path in self.znodes() if path.startswith(znodes)]

    def deletes(self) -> list[str]:
        return [op.path for each in self.zookeeper.transactions for op in each.ops if op.kind is OpKind.DELETE]

    def is_queued(self, topic: str) -> bool:
        return self.term.context.is_topic_queued_for_deletion(topic)


def refusing(message: Message) -> Message:
    return (
        answer_stop_replica(message, Errors.KAFKA_STORAGE_ERROR)
        if isinstance(message, StopReplicaRequest)
        else answer_none(message)
    )


# ------------------------------------------------------------------ all brokers online


@pytest.mark.spec("GT-6", "TD-4", "TD-5", "RSM-8", "CX-4")
def test_deletion_sends_update_metadata_then_stop_then_delete() -> None:
    with TopicDeletionHarness() as harness:
        harness.mark("orders")
        gone = UpdateMetadataSent(
            [
                StateSent(partition="orders-0", leader=-2, isr=(0, 1, 2)),
                StateSent(partition="orders-1", leader=-2, isr=(1, 2, 0)),
            ],
            live_brokers=[0, 1, 2],
        )
        stop, delete = (
            StopReplicaSent(
                [ReplicaStopped(partition="orders-0", epoch=-2), ReplicaStopped(partition="orders-1", epoch=-2)]
            ),
            StopReplicaSent(
                [
                    ReplicaStopped(partition="orders-0", epoch=-2, delete=True),
                    ReplicaStopped(partition="orders-1", epoch=-2, delete=True),
                ]
            ),
        )
        assert [broker.requests() for broker in harness.brokers.values()] == [[gone, stop, delete]] * 3
        assert harness.state("orders", 0) == led(-1, (2,), epoch=3, version=3, by=1)
        assert harness.state("orders", 1) == led(-1, (2,), epoch=3, version=3, by=1)
        assert harness.partition_states("orders-0", "orders-1") == [PartitionState.NON_EXISTENT] * 2
        assert harness.replica_states("orders-0") == [STARTED] * 3
        assert harness.term.context.offline_partition_count == 0


@pytest.mark.spec("TD-6", "TD-7", "TD-10", "RSM-9", "RSM-10")
def test_deletion_removes_znodes_children_first_marker_last() -> None:
    with TopicDeletionHarness() as harness:
        harness.mark("orders")
        first, *others = harness.answers()
        assert first.partition_errors == {tp("orders-0"): Errors.NONE, tp("orders-1"): Errors.NONE}
        harness.run(topic_deletion.process_stop_replica_response(harness.term, first))
        assert harness.replica_states("orders-0")[first.broker_id] == SUCCESSFUL
        assert harness.deletes() == []

        harness.clear_history()
        for answer in others:
            harness.run(topic_deletion.process_stop_replica_response(harness.term, answer))
        harness.settle()
        assert harness.deletes() == [
            "/brokers/topics/orders/partitions/0/state",
            "/brokers/topics/orders/partitions/0",
            "/brokers/topics/orders/partitions/1/state",
            "/brokers/topics/orders/partitions/1",
            "/brokers/topics/orders/partitions",
            "/brokers/topics/orders",
            "/config/topics/orders",
            "/admin/delete_topics/orders",
        ]
        assert [broker.requests() for broker in harness.brokers.values()] == [[]] * 3
        assert harness.left_of("orders") == []
        context = harness.term.context
        assert context.all_topics == {"payments"}
        assert (context.topics_to_be_deleted, context.topics_with_deletion_started) == (set(), set())
        assert list(context.assignments) == list(context.partition_states) == [tp("payments-0")]
        assert harness.controller.records(TopicsChanged) == [TopicsChanged(new=(), deleted=("orders",))]
        assert harness.controller.records(InvalidTransition) == []


@pytest.mark.spec("EL-13", "TD-10")
def test_every_write_of_a_deletion_is_fenced() -> None:
    with TopicDeletionHarness() as harness:
        before = len(harness.zookeeper.transactions)
        harness.mark("orders")
        harness.process_responses()
        written = [each for each in harness.zookeeper.transactions[before + 1 :] if each.ops]
        assert written
        assert all(each.ops[0].kind is OpKind.CHECK and each.ops[0].path == "/controller_epoch" for each in written)

    with TopicDeletionHarness() as harness:
        harness.write_znode("/admin/delete_topics/orders", b"")
        harness.depose()
        with pytest.raises(ControllerMoved):
            harness.process_topic_deletion()
        assert harness.state("orders", 0) == led(0, (0, 1, 2), by=1)


@pytest.mark.spec("TD-10", "TD-3")
def test_topic_that_cannot_be_deleted_does_not_delay_others() -> None:
    """In Kafka the other topic would stay too, and no broker could become controller."""
    with TopicDeletionHarness() as harness:
        delete_topics = harness.term.zk.topics.delete

        async def locked(partitions_by_topic: Mapping[str, Iterable[TopicPartition]], epoch_zk_version: int) -> None:
            if "orders" in partitions_by_topic:
                raise ZooKeeperFailure(Failure.NO_AUTH, "/brokers/topics/orders")
            await delete_topics(partitions_by_topic, epoch_zk_version)

        harness.term.zk.topics.delete = locked  # type: ignore[method-assign]  # replaces the deletion
        harness.mark("orders", "payments")
        harness.process_responses()
        assert harness.left_of("payments") == []
        assert "/admin/delete_topics/orders" in harness.left_of("orders")
        assert harness.is_queued("orders")
        assert harness.controller.records(TopicsChanged) == [TopicsChanged(new=(), deleted=("payments",))]
        harness.term.zk.topics.delete = delete_topics  # type: ignore[method-assign]  # replaces the deletion
        harness.run(topic_deletion.resume_deletions(harness.term))
        assert harness.left_of("orders") == []
        assert not harness.is_queued("orders")


@pytest.mark.spec("TD-10")
def test_deletion_with_unknown_outcome_raises() -> None:
    with TopicDeletionHarness() as harness:

        async def lost(partitions_by_topic: Mapping[str, Iterable[TopicPartition]], epoch_zk_version: int) -> None:
            raise ZooKeeperFailure(Failure.UNKNOWN, "/brokers/topics/orders")

        harness.term.zk.topics.delete = lost  # type: ignore[method-assign]  # replaces the deletion
        harness.mark("orders")
        with pytest.raises(ZooKeeperFailure, match="Unknown"):
            harness.process_responses()


@pytest.mark.spec("TD-10", "TC-11")
def test_topic_of_the_same_name_has_a_new_id() -> None:
    with TopicDeletionHarness() as harness:
        old = harness.term.context.topic_ids["orders"]
        harness.mark("orders")
        harness.process_responses()
        harness.run(process_topic_change(harness.term))
        harness.clear_history()
        new = harness.create_topic("orders", {0: [2, 1]}, topic_id=TopicId("AAAAAAAAAAAAAAAAAAAAAg"))
        harness.run(process_topic_change(harness.term))
        harness.settle()
        assert harness.term.context.topic_ids["orders"] == new != old
        assert harness.broker(2).requests() == [
            LeaderAndIsrSent([StateSent(partition="orders-0", leader=2, isr=(2, 1), is_new=True)], live_leaders=[2]),
            UpdateMetadataSent([StateSent(partition="orders-0", leader=2, isr=(2, 1))], live_brokers=[0, 1, 2]),
        ]


@pytest.mark.spec("TD-2")
def test_repeated_marker_does_not_restart_the_deletion() -> None:
    with TopicDeletionHarness() as harness:
        harness.mark("orders")
        harness.clear_history()
        harness.process_topic_deletion()
        assert [broker.requests() for broker in harness.brokers.values()] == [[]] * 3
        harness.mark("payments")
        assert harness.broker(0).requests() == [
            UpdateMetadataSent([StateSent(partition="payments-0", leader=-2, isr=(1, 2))], live_brokers=[0, 1, 2])
        ]
        harness.process_responses()
        assert harness.left_of("orders") == harness.left_of("payments") == []


# ------------------------------------------------------------------ topics that are not deleted


@pytest.mark.spec("TD-1", "GT-6")
def test_marker_of_an_unknown_topic_is_deleted() -> None:
    with TopicDeletionHarness() as harness:
        harness.mark("nosuch", "orders")
        assert harness.deletes() == ["/admin/delete_topics/nosuch"]
        assert harness.is_queued("orders")
        assert not harness.is_queued("nosuch")


@pytest.mark.spec("TD-1", "FO-7")
@pytest.mark.parametrize("at_takeover", [False, True])
def test_disabled_deletion_deletes_markers_only(at_takeover: bool) -> None:
    with TopicDeletionHarness(ControllerSettings(delete_topic_enable=False)) as harness:
        harness.write_znode("/admin/delete_topics/nosuch", b"")
        harness.write_znode("/admin/delete_topics/orders", b"")
        if at_takeover:
            harness.run(topic_deletion.initialise(harness.term))
            harness.run(topic_deletion.resume_deletions(harness.term))
        else:
            harness.process_topic_deletion()
        assert harness.deletes() == ["/admin/delete_topics/nosuch", "/admin/delete_topics/orders"]
        assert not harness.is_queued("orders")
        assert harness.broker(1).requests() == []
        assert harness.state("orders", 0) == led(0, (0, 1, 2), by=1)


@pytest.mark.spec("TC-12", "TD-11")
def test_topic_being_deleted_gets_no_partitions() -> None:
    with TopicDeletionHarness() as harness:
        harness.broker(2).answer = refusing
        harness.mark("orders")
        before = harness.znodes()["/brokers/topics/orders"]
        harness.add_partitions("orders", {0: [2], 1: [1, 2, 0], 2: [0, 1]})
        harness.clear_history()
        harness.run(process_partition_modifications(harness.term, "orders"))
        harness.settle()
        assert harness.znodes()["/brokers/topics/orders"] == before, (
            "the replicas of partition 0 too are those in memory"
        )
        assert [broker.requests() for broker in harness.brokers.values()] == [[]] * 3
        assert harness.partition_states("orders-2") == [None]

        writes = len(harness.zookeeper.transactions)
        harness.run(process_partition_modifications(harness.term, "orders"))
        assert len(harness.zookeeper.transactions) == writes, "our own restoration is no news"


# ------------------------------------------------------------------ brokers offline


@pytest.mark.spec("GT-6", "TD-5", "TD-7", "TD-9")
def test_deletion_waits_for_an_offline_replica() -> None:
    with TopicDeletionHarness() as harness:
        harness.fail_broker(1)
        harness.clear_history()
        harness.mark("orders")
        assert harness.replica_states("orders-0") == [
            STARTED,
            INELIGIBLE,
            STARTED,
        ]
        assert harness.term.context.topics_ineligible_for_deletion == {"orders"}
        harness.process_responses()
        assert harness.replica_states("orders-0") == [SUCCESSFUL, OFFLINE, SUCCESSFUL]
        assert harness.state("orders", 0) == led(-1, (2,), epoch=3, version=3, by=1)
        assert "/admin/delete_topics/orders" in harness.left_of("orders")

        harness.clear_history()
        harness.restart_broker(1)
        orders = [StateSent(partition=f"orders-{number}", leader=-2, isr=(2,)) for number in (0, 1)]
        assert harness.broker(1).requests() == [
            UpdateMetadataSent(
                [StateSent(partition="payments-0", leader=2, isr=(2,), epoch=1, version=1)], live_brokers=[0, 1, 2]
            ),
            LeaderAndIsrSent(
                [
                    StateSent(partition="orders-0", leader=-1, isr=(2,), epoch=3, version=3),
                    StateSent(partition="orders-1", leader=-1, isr=(2,), epoch=3, version=3),
                    StateSent(partition="payments-0", leader=2, isr=(2,), epoch=1, version=1),
                ],
                live_leaders=[2],
            ),
            UpdateMetadataSent(
                [*orders, StateSent(partition="payments-0", leader=2, isr=(2,), epoch=1, version=1)],
                live_brokers=[0, 1, 2],
            ),
            UpdateMetadataSent(orders, live_brokers=[0, 1, 2]),
            StopReplicaSent(
                [ReplicaStopped(partition="orders-0", epoch=-2), ReplicaStopped(partition="orders-1", epoch=-2)]
            ),
            StopReplicaSent(
                [
                    ReplicaStopped(partition="orders-0", epoch=-2, delete=True),
                    ReplicaStopped(partition="orders-1", epoch=-2, delete=True),
                ]
            ),
        ]
        assert harness.broker(0).requests(StopReplicaSent) == [], "its replicas are deleted already"
        harness.process_responses()
        assert harness.left_of("orders") == []
        assert harness.controller.records(InvalidTransition) == []


@pytest.mark.spec("TD-8", "TD-9", "RSM-6")
def test_failed_broker_whose_replicas_are_deleted_is_not_sent_stop_replica_again() -> None:
    with TopicDeletionHarness() as harness:
        harness.fail_broker(1)
        harness.mark("orders")
        harness.process_responses()
        harness.fail_broker(2)
        assert harness.replica_states("orders-1") == [SUCCESSFUL, OFFLINE, SUCCESSFUL]
        harness.clear_history()
        harness.restart_broker(2)
        requests = harness.broker(2).requests(LeaderAndIsrSent, StopReplicaSent)
        assert {name for request in requests for name in partitions_of(request)} == {"payments-0"}
        harness.restart_broker(1)
        harness.process_responses()
        assert harness.left_of("orders") == []
        assert harness.controller.records(InvalidTransition) == []


@pytest.mark.spec("TD-8")
def test_broker_that_fails_before_responding_deletes_when_it_returns() -> None:
    with TopicDeletionHarness() as harness:
        harness.mark("orders")
        late = next(answer for answer in harness.answers() if answer.broker_id == 1)
        harness.fail_broker(1)
        harness.run(topic_deletion.process_stop_replica_response(harness.term, late))
        assert harness.replica_states("orders-0") == [
            STARTED,
            INELIGIBLE,
            STARTED,
        ]
        harness.put.remove(late)
        harness.process_responses()
        assert harness.replica_states("orders-0")[1] == OFFLINE
        assert harness.is_queued("orders")
        harness.restart_broker(1)
        harness.process_responses()
        assert harness.left_of("orders") == []


# ------------------------------------------------------------------ responses


@pytest.mark.spec("TD-6", "TD-8", "TD-9", "BUG-16")
def test_failed_deletion_on_a_live_broker_is_not_repeated() -> None:
    with TopicDeletionHarness() as harness:
        harness.broker(2).answer = refusing
        harness.mark("orders")
        harness.process_responses()
        assert harness.replica_states("orders-0") == [SUCCESSFUL, SUCCESSFUL, OFFLINE]
        assert harness.term.context.topics_ineligible_for_deletion == {"orders"}
        harness.broker(2).answer = answer_none
        harness.clear_history()
        harness.process_topic_deletion()
        assert harness.broker(2).requests(StopReplicaSent) == []

        harness.run(topic_deletion.resume_deletions_for_topics(harness.term, ["payments", "orders"]))
        harness.settle()
        assert harness.broker(2).requests()[-1] == StopReplicaSent(
            [
                ReplicaStopped(partition="orders-0", epoch=-2, delete=True),
                ReplicaStopped(partition="orders-1", epoch=-2, delete=True),
            ]
        )
        assert harness.broker(1).requests(StopReplicaSent) == []
        harness.process_responses()
        assert harness.left_of("orders") == []


@pytest.mark.spec("TD-6")
def test_stop_replica_response_is_handled_by_partition() -> None:
    with TopicDeletionHarness() as harness:
        harness.mark("orders")
        answer = harness.answers()[0]
        errors = {tp("orders-0"): Errors.NONE, tp("orders-1"): Errors.KAFKA_STORAGE_ERROR}
        harness.run(
            topic_deletion.process_stop_replica_response(harness.term, replace(answer, partition_errors=errors))
        )
        assert harness.replica_state("orders-0", answer.broker_id) is SUCCESSFUL
        assert harness.replica_state("orders-1", answer.broker_id) is INELIGIBLE


@pytest.mark.spec("TD-6")
@pytest.mark.parametrize(
    ("code", "name"), [(Errors.UNKNOWN_SERVER_ERROR, "UNKNOWN_SERVER_ERROR"), (999, "UNKNOWN_ERROR_CODE_999")]
)
def test_request_error_applies_to_each_partition(code: int, name: str) -> None:
    with operators_log() as lines, TopicDeletionHarness() as harness:
        harness.mark("orders")
        answer = replace(harness.answers()[0], request_error=code)
        harness.run(topic_deletion.process_stop_replica_response(harness.term, answer))
        assert [line.fields["error"] for line in lines if line.text == "replicas were not deleted"] == [name]
        assert {harness.replica_state(name, answer.broker_id) for name in ("orders-0", "orders-1")} == {INELIGIBLE}
        assert "orders" in harness.term.context.topics_ineligible_for_deletion


@pytest.mark.spec("TD-6", "SN-5")
@pytest.mark.parametrize("stale", ["controller_epoch", "broker_epoch"])
def test_responses_of_an_earlier_term_or_registration_are_ignored(stale: str) -> None:
    with TopicDeletionHarness() as harness:
        harness.mark("orders")
        for answer in harness.answers():
            earlier = {
                "controller_epoch": replace(answer, controller_epoch=0),
                "broker_epoch": replace(answer, broker_epoch=1),
            }
            void = earlier[stale]
            harness.run(topic_deletion.process_stop_replica_response(harness.term, void))
        assert harness.replica_states("orders-0") == [STARTED] * 3


@pytest.mark.spec("TD-6", "SN-5")
def test_stop_replica_responses_of_a_reassignment_are_ignored() -> None:
    with TopicDeletionHarness() as harness:
        harness.run(replica_state_machine.handle_state_changes(harness.term, {BrokerId(2): [tp("orders-0")]}, OFFLINE))
        harness.run(replica_state_machine.handle_state_changes(harness.term, {BrokerId(2): [tp("orders-0")]}, STARTED))
        harness.settle()
        (answer,) = harness.answers()
        assert answer.partition_errors == {tp("orders-0"): Errors.NONE}, "the first StopReplica deleted nothing"
        harness.run(topic_deletion.process_stop_replica_response(harness.term, answer))
        assert harness.replica_state("orders-0", 2) is STARTED


# ------------------------------------------------------------------ reassignments


@pytest.mark.spec("EL-15", "TD-5")
def test_deposed_controller_deletes_no_replica() -> None:
    with TopicDeletionHarness() as harness:
        harness.term.context.put_leadership({tp("orders-0"): led(0, (0, 1, 2), by=99)})
        harness.mark("orders")
        assert harness.replica_states("orders-0") == [ONLINE] * 3
        assert harness.replica_states("orders-1") == [STARTED] * 3
        assert harness.controller.records(InvalidTransition) == []


@pytest.mark.spec("TD-1")
def test_reassignment_does_not_delay_a_deletion() -> None:
    """Kafka also checks for reassignments before it queues the topic. But in Kafka the reassignment stays in
    progress, and the deletion waits for it when the next topic is marked."""
    with TopicDeletionHarness() as harness:
        harness.broker(2).answer = refusing
        harness.term.context.partitions_being_reassigned = {tp("orders-0")}
        harness.mark("orders")
        assert harness.replica_states("orders-0") == [STARTED] * 3
        assert harness.term.context.topics_ineligible_for_deletion == set()
        harness.process_topic_deletion()
        assert harness.term.context.topics_ineligible_for_deletion == set()


# ------------------------------------------------------------------ failover


@pytest.mark.spec("FO-6", "FO-7", "FO-12")
def test_failover_resumes_deletions_and_marks_ineligible_topics() -> None:
    with TopicDeletionHarness() as harness:
        for topic in ("orders", "payments", "half-gone"):
            harness.write_znode(f"/admin/delete_topics/{topic}", b"")
        harness.write_znode("/config/topics/half-gone", b"{}")
        context = harness.term.context
        context.remove_live_brokers(ids(0))
        context.partitions_being_reassigned = {tp("unrelated-0")}
        harness.run(topic_deletion.initialise(harness.term))
        assert context.topics_to_be_deleted == {"half-gone", "orders", "payments"}
        assert context.topics_ineligible_for_deletion == {"orders"}, "broker 0 has a replica of it"

        harness.run(topic_deletion.resume_deletions(harness.term))
        assert harness.left_of("half-gone") == [], "the znodes left by a predecessor that failed during the deletion"
        assert harness.replica_states("payments-0") == [None, STARTED, STARTED]
        assert harness.replica_states("orders-0") == [ONLINE] * 3


@pytest.mark.spec("FO-6", "FO-7", "TD-12")
def test_failover_ends_reassignments_of_queued_topics() -> None:
    """It could not complete: no leader is elected, and the brokers have received leader −2. Kafka waits for it."""
    with TopicDeletionHarness() as harness:
        harness.write_znode("/admin/delete_topics/orders", b"")
        context = harness.term.context
        context.partitions_being_reassigned = {tp("orders-0"), tp("payments-0")}
        harness.run(topic_deletion.initialise(harness.term))
        assert context.topics_ineligible_for_deletion == set()
        assert context.partitions_being_reassigned == {tp("payments-0")}


@pytest.mark.spec("TD-10", "RA-14")
def test_reassignment_of_a_deleted_topic_does_not_apply_to_a_new_topic_of_its_name() -> None:
    with TopicDeletionHarness() as harness:
        moves = {tp("orders-0"): ids(0, 1), tp("orders-1"): ids(2), tp("payments-0"): ids(1)}
        harness.write_znode(ReassignPartitionsZNode.path, ReassignPartitionsZNode.encode(moves))
        harness.mark("orders")
        harness.process_responses()
        assert harness.left_of("orders") == []
        assert harness.run(harness.term.zk.reassignments.read()) == {tp("payments-0"): ids(1)}


@pytest.mark.spec("TD-10", "FO-12", "D15")
def test_unknown_znodes_below_a_topic_are_deleted() -> None:
    with TopicDeletionHarness() as harness:
        harness.mark("orders")
        harness.operator.run(harness.operator.client.write(Delete("/brokers/topics/orders/partitions/1/state")))
        for path in ("partitions/0/strange", "partitions/0/strange/er", "partitions/9", "partitions/9/state", "notes"):
            harness.write_znode(f"/brokers/topics/orders/{path}", b"")
        harness.process_responses()
        assert harness.left_of("orders") == []


@pytest.mark.spec("D15", "TD-10")
def test_deletes_share_transactions_of_bounded_size() -> None:
    partitions = 700
    with TermHarness({"wide": {number: [1] for number in range(partitions)}}) as harness:
        harness.run(on_new_partition_creation(harness.term, [tp(f"wide-{number}") for number in range(partitions)]))
        harness.term.context.topics_to_be_deleted.add("wide")
        harness.run(topic_deletion.resume_deletions(harness.term))
        before = len(harness.zookeeper.transactions)
        harness.settle()
        for answer in harness.put:
            if isinstance(answer, TopicDeletionStopReplicaResponseReceived):
                harness.run(topic_deletion.process_stop_replica_response(harness.term, answer))
        sizes = [len(each.ops) - 1 for each in harness.zookeeper.transactions[before:]]
        assert sum(sizes) == 2 * partitions + 2
        assert sizes == [MAX_OPS, MAX_OPS, 2 * partitions + 2 - 2 * MAX_OPS]
        assert [path for path in harness.znodes() if "wide" in path] == []


def delete_and_fail_the_controller(kill_at: int, *, after: bool) -> int:
    """Delete a topic; the controller fails before its nth request to ZooKeeper after that, or after its response.

    Returns the number of requests of an uninterrupted controller if `kill_at` is 0.
    """
    with ControllerHarness(electable=(0, 2), brokers=(1, 3)) as harness:
        harness.start()
        harness.create_topic("orders", {0: [1, 2, 3], 1: [2, 1, 3]})
        harness.write_znode("/config/topics/orders", b"{}")
        link, controller = harness.zookeeper.link("broker-0"), harness.broker(0)
        first, session = link.requests, controller.client.session_id

        def kill(_: int) -> None:
            if link.requests - first >= kill_at and controller.node.alive:
                controller.process.kill()
                harness.loop.call_later(
                    0.05, lambda: harness.zookeeper.expire(session), context=harness.zookeeper.context
                )

        if kill_at and after:
            link.after_answer = kill
        elif kill_at:
            link.before_request = kill
        harness.write_znode("/admin/delete_topics/orders", b"")
        harness.settle(3_000)
        left = [path for path in harness.znodes() if "orders" in path]
        assert left == [], f"interrupted at {kill_at}"
        for broker in harness.brokers.values():
            assert broker.records(InvalidTransition) == [], f"interrupted at {kill_at}"
        return link.requests - first


@pytest.mark.spec("FO-7", "FO-12", "TD-10", "P1")
def test_successor_finishes_the_deletion_wherever_the_controller_crashed() -> None:
    requests = delete_and_fail_the_controller(0, after=False)
    assert requests >= 6
    for number in range(1, requests + 1):
        for after in (False, True):
            delete_and_fail_the_controller(number, after=after)


# ------------------------------------------------------------------ the decision


@pytest.mark.spec("TD-3")
@pytest.mark.parametrize(
    ("states", "ineligible", "next_"),
    [
        pytest.param((ONLINE, ONLINE), False, "start", id="never begun"),
        pytest.param((ONLINE, ONLINE), True, "", id="never begun, must wait"),
        pytest.param((STARTED, SUCCESSFUL), False, "", id="under way"),
        pytest.param((STARTED, INELIGIBLE), False, "", id="failed in part, but not all have answered"),
        pytest.param((SUCCESSFUL, SUCCESSFUL), True, "complete", id="all deleted, other topics waiting"),
        pytest.param((SUCCESSFUL, INELIGIBLE), True, "retry", id="failed in part"),
        pytest.param((SUCCESSFUL, INELIGIBLE), False, "retry start", id="failed in part, and may go on"),
        pytest.param((SUCCESSFUL, OFFLINE), True, "", id="waits for a broker"),
        pytest.param((SUCCESSFUL, OFFLINE), False, "start", id="the broker is back"),
    ],
)
def test_next_steps(states: tuple[ReplicaState, ReplicaState], ineligible: bool, next_: str) -> None:
    known = context((1, 2), {"orders-0": replicas(1, 2), "other-0": replicas(1, 2)})
    known.replica_states = {BrokerId(1): {tp("orders-0"): states[0]}, BrokerId(2): {tp("orders-0"): states[1]}}
    known.topics_to_be_deleted = {"orders"}
    known.topics_ineligible_for_deletion = {"orders"} if ineligible else set()
    topics = {name: ("orders",) if name in next_ else () for name in NextSteps._fields}
    assert next_steps(known) == NextSteps(**topics)


@pytest.mark.spec("TD-3")
def test_next_steps_of_a_topic_without_replicas() -> None:
    known = context((1, 2))
    known.topics_to_be_deleted = {"b", "a"}
    assert next_steps(known) == NextSteps(complete=("a", "b"), retry=(), start=())
