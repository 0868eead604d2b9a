"""Tests of broker changes, and of responses that mark replicas as offline."""

from __future__ import annotations

import pytest

from tests.controller.harness import ControllerHarness, TermHarness, answer_none
from tests.controller.requests import LeaderAndIsrSent, StateSent, UpdateMetadataSent
from tests.controller.values import led, tp
from tests.operators_log import operators_log
from understudy.controller import partition_state_machine, replica_state_machine
from understudy.controller.broker_lifecycle import (
    on_broker_failure,
    process_broker_modifications,
    process_leader_and_isr_response,
)
from understudy.controller.events import LeaderAndIsrResponseReceived
from understudy.controller.transitions import ReplicaState
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.eventlog.records import (
    BrokersChanged,
    ChannelClosed,
    ChannelOpened,
    InvalidTransition,
    RequestSent,
)
from understudy.foundation.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
)
from understudy.foundation.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from understudy.foundation.wire.schema import Message

ONE = BrokerId(1)


def online(harness: TermHarness) -> None:
    """Bring the topics online."""
    harness.run(replica_state_machine.startup(harness.term))
    harness.run(partition_state_machine.startup(harness.term))
    harness.settle()
    harness.clear_history()


@pytest.mark.spec("BR-7", "BR-8", "BR-9", "BR-10")
def test_broker_change_updates_channels_then_handles_new_bounced_and_dead_brokers() -> None:
    with ControllerHarness(brokers=(1, 2, 3, 4)) as harness:
        harness.start()
        harness.create_topic("orders", {0: [1, 4]})
        harness.broker(3).crash()
        harness.clear_history()
        harness.zookeeper.hold("broker-0")
        harness.broker(1).crash()
        harness.broker(2).crash()
        harness.broker(2).start()
        harness.broker(3).start()
        harness.zookeeper.heal("broker-0")
        harness.settle()
        records = [
            record
            for record in harness.broker(0).all_records()
            if isinstance(record, BrokersChanged | ChannelOpened | ChannelClosed | RequestSent)
        ]
        (changed,) = harness.broker(0).records(BrokersChanged)
        assert (changed.new, changed.dead, changed.bounced) == ((3,), (1,), (2,))
        assert [(type(record), getattr(record, "to", None)) for record in records[:5]] == [
            (BrokersChanged, None),
            (ChannelOpened, 3),
            (ChannelClosed, 2),
            (ChannelOpened, 2),
            (ChannelClosed, 1),
        ]
        assert {type(record) for record in records[5:]} == {RequestSent}
        # Dead brokers are removed last; until then UpdateMetadata names them as alive.
        assert harness.broker(4).requests()[:5] == [
            UpdateMetadataSent([], live_brokers=[0, 1, 2, 3, 4]),
            UpdateMetadataSent([], live_brokers=[0, 1, 3, 4]),
            UpdateMetadataSent([], live_brokers=[0, 1, 2, 3, 4]),
            LeaderAndIsrSent(
                [StateSent(partition="orders-0", leader=4, isr=(4,), epoch=1, version=1)], live_leaders=[4]
            ),
            UpdateMetadataSent(
                [StateSent(partition="orders-0", leader=4, isr=(4,), epoch=1, version=1, offline=(1,))],
                live_brokers=[0, 2, 3, 4],
            ),
        ]
        assert harness.state("orders", 0) == led(4, (4,), epoch=1, version=1, by=1)


@pytest.mark.spec("BR-13")
def test_failed_broker_is_removed_from_shutting_down_and_offline_dirs_before_its_replicas_go_offline() -> None:
    with TermHarness({"orders": {0: [1, 2]}}) as harness:
        online(harness)
        context = harness.term.context
        context.replicas_on_offline_dirs[ONE] = {tp("orders-0")}
        context.shutting_down_broker_ids.add(ONE)
        seen: list[tuple[set[TopicPartition] | None, set[BrokerId]]] = []

        def look() -> None:
            seen.append((context.replicas_on_offline_dirs.get(ONE), set(context.shutting_down_broker_ids)))

        harness.controller.node.arm("partition.before_write", "look", look)
        harness.broker(1).crash()
        context.remove_live_brokers([ONE])
        harness.run(on_broker_failure(harness.term, [ONE]))
        harness.settle()
        assert seen == [(None, set())]
        assert harness.replica_state("orders-0", 1) is ReplicaState.OFFLINE
        assert harness.known("orders-0") == led(2, (2,), epoch=1, version=1, by=1)
        # The watch on its registration is gone.
        harness.clear_history()
        harness.run(process_broker_modifications(harness.term, ONE))
        harness.settle()
        assert [broker.requests() for broker in harness.brokers.values()] == [[], [], []]


@pytest.mark.spec("LD-3", "SN-6")
def test_offline_replica_mark_is_removed_only_by_a_response_without_error() -> None:
    with TermHarness({"orders": {0: [1, 2], 1: [1, 2]}}) as harness:
        online(harness)

        def answered(partition: int, error_code: int) -> set[TopicPartition]:
            """Process a response of broker 1; return the replicas that are marked as offline."""
            error = LeaderAndIsrPartitionError(topic_name="orders", partition_index=partition, error_code=error_code)
            epoch = harness.term.context.broker_epoch(ONE)
            assert epoch is not None
            event = LeaderAndIsrResponseReceived(ONE, 1, epoch, LeaderAndIsrResponse(partition_errors=(error,)))
            harness.run(process_leader_and_isr_response(harness.term, event))
            harness.settle()
            return harness.term.context.replicas_on_offline_dirs.get(ONE, set())

        marked = {tp("orders-0")}
        assert answered(0, error_code=56) == marked
        assert answered(0, error_code=11) == marked, "another error does not concern log directories"
        assert answered(1, error_code=0) == marked, "another partition neither"
        assert answered(0, error_code=0) == set()


@pytest.mark.spec("SN-6", "RSM-10")
def test_response_about_a_removed_replica_marks_nothing() -> None:
    """A reassignment to an offline log directory was cancelled before the response; in Kafka the mark stays until the
    broker starts."""
    with TermHarness({"orders": {0: [2, 0]}}) as harness:
        online(harness)
        broken = LeaderAndIsrPartitionError(topic_name="orders", partition_index=0, error_code=56)
        epoch = harness.term.context.broker_epoch(ONE)
        assert epoch is not None
        event = LeaderAndIsrResponseReceived(ONE, 1, epoch, LeaderAndIsrResponse(partition_errors=(broken,)))
        harness.run(process_leader_and_isr_response(harness.term, event))
        assert not harness.term.context.replicas_on_offline_dirs.get(ONE)
        assert harness.controller.records(InvalidTransition) == []


@pytest.mark.spec("SN-7")
@pytest.mark.parametrize(("code", "name"), [(11, "STALE_CONTROLLER_EPOCH"), (999, "UNKNOWN_ERROR_CODE_999")])
def test_error_in_update_metadata_response_is_only_logged(code: int, name: str) -> None:
    def refuse(message: Message) -> Message:
        return (
            UpdateMetadataResponse(error_code=code)
            if isinstance(message, UpdateMetadataRequest)
            else answer_none(message)
        )

    with operators_log() as lines, ControllerHarness() as harness:
        harness.start()
        harness.clear_history()
        harness.broker(1).answer = refuse
        harness.create_topic("orders", {0: [2, 1]})
        assert harness.state("orders", 0) == led(2, (2, 1), by=1)
        assert harness.broker(1).requests() == harness.broker(2).requests()
        assert len(harness.broker(1).requests()) == 2, "no request is repeated"
        assert harness.broker(0).controller.is_active
    errors = [(line.text, line.fields["broker"], line.fields["error"]) for line in lines if line.level == "error"]
    assert errors == [("error in UpdateMetadata response", 1, name)]


@pytest.mark.spec("SN-6")
@pytest.mark.parametrize(("code", "name"), [(11, "STALE_CONTROLLER_EPOCH"), (999, "UNKNOWN_ERROR_CODE_999")])
def test_error_in_leader_and_isr_response_is_only_logged(code: int, name: str) -> None:
    def refuse(message: Message) -> Message:
        return (
            LeaderAndIsrResponse(error_code=code) if isinstance(message, LeaderAndIsrRequest) else answer_none(message)
        )

    with operators_log() as lines, ControllerHarness() as harness:
        harness.start()
        harness.broker(1).answer = refuse
        harness.create_topic("orders", {0: [2, 1]})
        assert harness.state("orders", 0) == led(2, (2, 1), by=1)
        assert harness.broker(0).controller.is_active
    errors = [(line.text, line.fields["broker"], line.fields["error"]) for line in lines if line.level == "error"]
    assert errors == [("error in LeaderAndIsr response", 1, name)]


@pytest.mark.spec("RB-1", "BUG-9")
def test_interrupted_transition_leaves_no_requests_behind() -> None:
    with TermHarness({"orders": {0: [1, 2]}}) as harness:

        def break_off() -> None:
            raise ArithmeticError("between write and requests")

        harness.controller.node.arm("partition.before_flush", "break off", break_off)
        harness.run(replica_state_machine.startup(harness.term))
        harness.settle()
        harness.clear_history()
        with pytest.raises(ArithmeticError):
            harness.run(partition_state_machine.startup(harness.term))
        harness.run(harness.term.send_update_metadata([ONE]))
        harness.settle()
        assert [broker.requests() for broker in harness.brokers.values()] == [
            [],
            [UpdateMetadataSent([], live_brokers=[0, 1, 2])],
            [],
        ]
