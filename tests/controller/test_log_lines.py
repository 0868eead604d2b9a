"""Tests of the log lines of the controller: for each behaviour a line with its logger, level and fields.

A few scenarios run once each, at level DEBUG; `TABLE` has the lines that they must log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from tests.controller.harness import ControllerHarness, TermHarness, answer_none, answer_stop_replica
from tests.controller.memory_log import MemoryLog
from tests.controller.test_event_manager import run
from tests.controller.values import tp
from tests.operators_log import Line, operators_log
from understudy.controller import partition_state_machine, replica_state_machine
from understudy.controller.controller_election import NO_CONTROLLER, ControllerElection
from understudy.controller.events import ElectionType
from understudy.controller.settings import ControllerSettings
from understudy.controller.transitions import PartitionState, ReplicaState
from understudy.foundation.cluster.broker import Broker, EndPoint, SecurityProtocol
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.points import UnarmedPoints
from understudy.foundation.operator_lines import LINES
from understudy.foundation.wire.messages.alter_partition import (
    AlterPartitionBrokerState,
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
)
from understudy.foundation.wire.messages.stop_replica import StopReplicaRequest
from understudy.foundation.wire.schema import Message
from understudy.foundation.zk.client import SetData
from understudy.foundation.zk.kafka_zk_client import ControllerMoved
from understudy.foundation.zk.znodes import BrokerIdZNode

CONTROLLER = "kafka.controller.KafkaController"
CHANNELS = "kafka.controller.ControllerChannelManager"
DELETION = "kafka.controller.TopicDeletionManager"
STATES = "state.change.logger"

ELSEWHERE = EndPoint("PLAINTEXT", SecurityProtocol.PLAINTEXT, "elsewhere", 9092)
TERM = {"controller_epoch": 1, "controller_event": ...}


def respond(message: Message) -> Message:
    return answer_stop_replica(message, 0) if isinstance(message, StopReplicaRequest) else answer_none(message)


@cache
def broker_changes_and_controlled_shutdown() -> list[Line]:
    """Two electable brokers and two others: a topic is created, a broker fails and returns, another shuts down."""
    with operators_log(logging.DEBUG) as lines, ControllerHarness(electable=(0, 1), brokers=(2, 3)) as harness:
        harness.start()
        harness.create_topic("orders", {0: [2, 0, 1], 1: [0, 1]})
        harness.add_partitions("orders", {0: [2, 0, 1], 1: [0, 1], 2: [1, 0]})
        controller = harness.broker(0)
        harness.broker(2).crash()
        harness.broker(2).start()
        controller.run(controller.controller.elect_leaders([tp("orders-0")], ElectionType.PREFERRED))
        controller.run(controller.controller.controlled_shutdown(BrokerId(1), harness.broker(1).epoch))
        harness.broker(1).crash()
    return lines


@cache
def refusals_and_failures() -> list[Line]:
    """ISR proposals with old epochs; brokers that move, do not respond or are unreachable; a resignation."""
    with operators_log(logging.DEBUG) as lines, ControllerHarness(electable=(0,), brokers=(1, 2)) as harness:
        harness.start()
        topic_id = harness.create_topic("orders", {0: [0, 1]})
        controller = harness.broker(0)
        data = AlterPartitionRequestPartitionData(
            partition_index=0,
            leader_epoch=0,
            new_isr_with_epochs=(AlterPartitionBrokerState(broker_id=0),),
            partition_epoch=7,
        )
        topic = AlterPartitionRequestTopicData(topic_id=topic_id, partitions=(data,))
        request = AlterPartitionRequest(broker_id=0, broker_epoch=controller.epoch, topics=(topic,))
        controller.run(controller.controller.alter_partition(request, 3))
        harness.rewrite_state("orders", 0)
        timely = replace(data, partition_epoch=0)
        request = replace(request, topics=(replace(topic, partitions=(timely,)),))
        controller.run(controller.controller.alter_partition(request, 3))
        moved = BrokerIdZNode.encode(Broker(id=BrokerId(2), endpoints=(ELSEWHERE,)), timestamp_ms=1)
        harness.operator.run(harness.operator.client.write(SetData(BrokerIdZNode.path(2), moved)))
        harness.settle()
        harness.broker(1).answer = lambda message: None
        harness.broker(2).process.kill()
        harness.create_topic("payments", {0: [0, 1, 2]})
        harness.settle(4_000)
        harness.depose()
        harness.create_topic("refunds", {0: [0]})
    return lines


@cache
def a_malformed_registration() -> list[Line]:
    with operators_log(logging.DEBUG) as lines, ControllerHarness(electable=(0,), brokers=(1,)) as harness:
        harness.start()
        harness.write_znode("/brokers/ids/9", b"{")
    return lines


@cache
def a_duplicate_topic_id() -> list[Line]:
    with operators_log(logging.DEBUG) as lines, ControllerHarness(electable=(0,), brokers=(1,)) as harness:
        harness.start()
        topic_id = harness.create_topic("a", {0: [1]})
        harness.create_topic("b", {0: [1]}, topic_id=topic_id)
    return lines


@cache
def reassignments() -> list[Line]:
    """One reassignment waits for its new replica, another only changes leaders; then the znode requests a third."""
    with operators_log(logging.DEBUG) as lines, ControllerHarness(electable=(0,), brokers=(1, 2)) as harness:
        for broker in harness.brokers.values():
            broker.answer = respond
        harness.start()
        harness.create_topic("orders", {0: [0, 1], 1: [0, 1, 2], 2: [0, 1, 2]})
        controller = harness.broker(0)
        wanted = {
            tp("orders-0"): (BrokerId(1), BrokerId(2)),
            tp("orders-1"): (BrokerId(1), BrokerId(2)),
            tp("orders-2"): (BrokerId(0), BrokerId(2)),
        }
        controller.run(controller.controller.alter_partition_reassignments(wanted))
        harness.settle()
        moves = b'{"version":1,"partitions":[{"topic":"orders","partition":2,"replicas":[2,0]}]}'
        harness.write_znode("/admin/reassign_partitions", moves)
    return lines


@cache
def topic_deletions() -> list[Line]:
    """Two topics are deleted; one has a replica on a broker that is offline."""
    with operators_log(logging.DEBUG) as lines, ControllerHarness(electable=(0,), brokers=(1, 2)) as harness:
        for broker in harness.brokers.values():
            broker.answer = respond
        harness.start()
        harness.create_topic("orders", {0: [0, 1]})
        harness.create_topic("payments", {0: [0, 2]})
        harness.broker(2).crash()
        harness.write_znode("/admin/delete_topics/orders", b"")
        harness.write_znode("/admin/delete_topics/payments", b"")
        harness.settle(3_000)
    return lines


@cache
def illegal_moves() -> list[Line]:
    with operators_log(logging.DEBUG) as lines, TermHarness({"orders": {0: [1, 2]}}) as harness:
        term = harness.term
        harness.run(partition_state_machine.handle_state_changes(term, [tp("orders-0")], PartitionState.ONLINE))
        gone = {BrokerId(1): [tp("orders-0")]}
        harness.run(replica_state_machine.handle_state_changes(term, gone, ReplicaState.DELETION_SUCCESSFUL))
        harness.run(partition_state_machine.startup(term))
        harness.run(partition_state_machine.handle_state_changes(term, [tp("orders-0")], PartitionState.NON_EXISTENT))
        term.context.remove_live_brokers([BrokerId(1), BrokerId(2)])
        harness.run(partition_state_machine.handle_state_changes(term, [tp("orders-0")], PartitionState.ONLINE))
    return lines


class LostElection:
    """A store in which another broker wins the election; afterwards it is the controller or has left again."""

    def __init__(self, winner: BrokerId | None) -> None:
        self.asked = 0
        self.winner = winner

    @property
    def controller(self) -> LostElection:
        return self

    async def id(self, *, watch: bool = False) -> BrokerId | None:
        self.asked += 1
        return None if self.asked == 1 else self.winner

    async def register_and_increment_epoch(self, broker_id: BrokerId, *, timestamp_ms: int) -> None:
        raise ControllerMoved("another broker was elected first")


async def never_elected(_: object) -> None:
    raise AssertionError("this broker lost the election")


@cache
def lost_elections() -> list[Line]:
    async def scenario() -> None:
        log: EventLog = MemoryLog()
        for winner in (BrokerId(2), None):
            election = ControllerElection(
                BrokerId(1),
                take_over=never_elected,
                resign=lambda why: None,
                clock=MemoryLog().clock,
                events=log,
                points=UnarmedPoints(),
            )
            await election.elect(LostElection(winner))  # type: ignore[arg-type]  # a fake of the store
            assert election.active_controller_id == (NO_CONTROLLER if winner is None else winner)

    with operators_log(logging.DEBUG) as lines:
        run(scenario())
    return lines


class Expected(NamedTuple):
    """A line that a scenario must log, and the behaviour that requires it."""

    id: str
    scenario: Callable[[], list[Line]]
    logger: str
    level: str
    text: str
    fields: Mapping[str, object] = {}
    """Fields that the line must have; `...` stands for any value."""


ANY = ...

TABLE = (
    Expected(
        "LG-1",
        broker_changes_and_controlled_shutdown,
        CONTROLLER,
        "info",
        "elected as the controller",
        {"broker": 0, "controller_epoch": 1, "epoch_zk_version": 1},
    ),
    Expected("LG-2", broker_changes_and_controlled_shutdown, CONTROLLER, "info", "registering handlers"),
    Expected(
        "LG-2",
        broker_changes_and_controlled_shutdown,
        CONTROLLER,
        "info",
        "deleting log dir event and isr change notifications",
    ),
    Expected("LG-2", broker_changes_and_controlled_shutdown, CONTROLLER, "info", "initializing controller context"),
    Expected(
        "LG-2",
        broker_changes_and_controlled_shutdown,
        CONTROLLER,
        "info",
        "initialized broker epochs cache",
        {"broker_epochs": ANY},
    ),
    Expected(
        "LG-2",
        broker_changes_and_controlled_shutdown,
        CONTROLLER,
        "info",
        "initialized controller context",
        {"live_brokers": ANY, "shutting_down_brokers": [], "topics": (), "topic_count": 0, "partitions": 0},
    ),
    Expected("LG-2", topic_deletions, DELETION, "info", "initializing deletions", {"queued": ANY, "ineligible": ()}),
    Expected(
        "LG-2",
        broker_changes_and_controlled_shutdown,
        CONTROLLER,
        "info",
        "sending update metadata request",
        {"brokers": ANY},
    ),
    Expected(
        "LG-2",
        broker_changes_and_controlled_shutdown,
        CONTROLLER,
        "info",
        "ready to serve as the new controller",
        {"controller_epoch": 1, "partitions": 0},
    ),
    Expected("LG-2", broker_changes_and_controlled_shutdown, CONTROLLER, "info", "starting the controller scheduler"),
    Expected(
        "LG-3",
        broker_changes_and_controlled_shutdown,
        CONTROLLER,
        "debug",
        "there is a controller already",
        {"controller": 0},
    ),
    Expected("LG-3", lost_elections, CONTROLLER, "debug", "another broker was elected", {"controller": 2, "broker": 1}),
    Expected(
        "LG-3",
        lost_elections,
        CONTROLLER,
        "warning",
        "a controller has been elected but just resigned, this will result in another round of election",
    ),
    Expected(
        "LG-4",
        broker_changes_and_controlled_shutdown,
        CONTROLLER,
        "info",
        "brokers changed",
        {"new_brokers": (), "deleted_brokers": (2,), "bounced_brokers": (), "live_brokers": (0, 1, 3)},
    ),
    Expected(
        "LG-4",
        broker_changes_and_controlled_shutdown,
        CONTROLLER,
        "info",
        "updated broker epochs cache",
        {"broker_epochs": ANY},
    ),
    Expected(
        "LG-5",
        broker_changes_and_controlled_shutdown,
        CONTROLLER,
        "info",
        "new broker startup callback",
        {"brokers": (2,)},
    ),
    Expected(
        "LG-5", broker_changes_and_controlled_shutdown, CONTROLLER, "info", "broker failure callback", {"brokers": (2,)}
    ),
    Expected(
        "LG-5",
        refusals_and_failures,
        CONTROLLER,
        "info",
        "updated broker metadata",
        {"broker": 2, "addresses": "PLAINTEXT://elsewhere:9092"},
    ),
    Expected(
        "LG-5",
        broker_changes_and_controlled_shutdown,
        CONTROLLER,
        "info",
        "removed from the shutting down brokers",
        {"brokers": [1]},
    ),
    Expected(
        "LG-6",
        broker_changes_and_controlled_shutdown,
        CONTROLLER,
        "info",
        "topics changed",
        {"new_topics": ("orders",), "deleted_topics": (), "new_count": 1},
    ),
    Expected(
        "LG-6",
        broker_changes_and_controlled_shutdown,
        CONTROLLER,
        "info",
        "new partitions to be added",
        {"topic": "orders", "new_partitions": [2], "partitions": 1},
    ),
    Expected(
        "LG-6",
        broker_changes_and_controlled_shutdown,
        CONTROLLER,
        "info",
        "new partition creation callback",
        {"partitions": 2, "assignments": {"orders-0": (2, 0, 1), "orders-1": (0, 1)}},
    ),
    Expected(
        "LG-7",
        broker_changes_and_controlled_shutdown,
        CONTROLLER,
        "info",
        "starting replica leader election",
        {
            "election_type": "PREFERRED",
            "trigger": "AdminClientTriggered",
            "some_partitions": ("orders-0",),
            "partitions": 1,
        },
    ),
    Expected(
        "LG-7",
        broker_changes_and_controlled_shutdown,
        CONTROLLER,
        "info",
        "completed replica leader election",
        {"partition": "orders-0", "why": ANY},
    ),
    Expected(
        "LG-8",
        reassignments,
        CONTROLLER,
        "info",
        "reassigning partition",
        {"partition": "orders-0", "replicas": (1, 2, 0), "adding_replicas": (2,), "removing_replicas": (0,)},
    ),
    Expected(
        "LG-8",
        reassignments,
        CONTROLLER,
        "info",
        "updated current assignment",
        {"partition": "orders-0", "replicas": (1, 2, 0)},
    ),
    Expected(
        "LG-8", reassignments, CONTROLLER, "info", "target replicas have all caught up", {"partition": "orders-1"}
    ),
    Expected(
        "LG-8",
        reassignments,
        CONTROLLER,
        "info",
        "leader is not alive or not in the target, electing",
        {"partition": "orders-1", "replicas": (1, 2)},
    ),
    Expected("LG-8", reassignments, CONTROLLER, "info", "leader is in the target and stays", {"partition": "orders-2"}),
    Expected(
        "LG-8",
        reassignments,
        CONTROLLER,
        "info",
        "removing partitions from the reassignment in zookeeper",
        {"removed": 1},
    ),
    Expected("LG-9", broker_changes_and_controlled_shutdown, CONTROLLER, "info", "shutting down broker", {"broker": 1}),
    Expected(
        "LG-9",
        broker_changes_and_controlled_shutdown,
        CONTROLLER,
        "debug",
        "all shutting down brokers",
        {"brokers": [1]},
    ),
    Expected(
        "LG-9", broker_changes_and_controlled_shutdown, CONTROLLER, "debug", "live brokers", {"brokers": (0, 2, 3)}
    ),
    Expected("LG-10", topic_deletions, DELETION, "info", "starting topic deletion", {"topics": ("orders",)}),
    Expected("LG-10", topic_deletions, DELETION, "info", "deletion of topics (re)started", {"topics": ANY}),
    Expected(
        "LG-10", topic_deletions, DELETION, "info", "halted deletion of topics", {"topics": ("payments",), "why": ANY}
    ),
    Expected("LG-10", topic_deletions, DELETION, "info", "deletion of topics successfully completed", {"topics": ANY}),
    Expected(
        "LG-11",
        refusals_and_failures,
        CONTROLLER,
        "info",
        "rejecting AlterPartition",
        {
            "broker": 0,
            "partition": "orders-0",
            "error": Errors.NOT_CONTROLLER.name,
            "leader_epoch": 0,
            "partition_epoch": 7,
            "current_leader_epoch": 0,
            "current_partition_epoch": 0,
        },
    ),
    Expected(
        "LG-11",
        refusals_and_failures,
        CONTROLLER,
        "info",
        "failed to update ISR, bad version",
        {"partition": "orders-0", "isr": (0,)},
    ),
    Expected(
        "LG-12",
        reassignments,
        CONTROLLER,
        "info",
        "updated leader epoch",
        {"partition": "orders-0", "leader_epoch": 1, "partition_epoch": 1},
    ),
    Expected(
        "LG-13",
        refusals_and_failures,
        CHANNELS,
        "warning",
        "fails to send a request, reconnecting",
        {**TERM, "to": 1, "api": ANY, "partitions": 1, "address": "broker-1:9092", "why": ANY},
    ),
    Expected(
        "LG-13",
        refusals_and_failures,
        CHANNELS,
        "warning",
        "connection was unsuccessful",
        {**TERM, "to": 2, "address": "broker-2:9092", "why": ANY},
    ),
    Expected(
        "LG-14",
        broker_changes_and_controlled_shutdown,
        CHANNELS,
        "info",
        "connected for sending state change requests",
        {**TERM, "to": 3, "address": ANY},
    ),
    Expected(
        "LG-15",
        refusals_and_failures,
        CONTROLLER,
        "info",
        "controller moved to another broker when processing an event",
        {**TERM, "controller_event": "TopicChange", "why": ANY},
    ),
    Expected(
        "LG-15",
        a_malformed_registration,
        CONTROLLER,
        "error",
        "error processing event",
        {**TERM, "controller_event": "BrokerChange", "exc_info": ANY},
    ),
    Expected("LG-6", a_duplicate_topic_id, CONTROLLER, "error", "topic left out", {"topic": "b", "why": ANY}),
    Expected(
        "LG-16",
        broker_changes_and_controlled_shutdown,
        STATES,
        "info",
        "changed partition state",
        {
            **TERM,
            "partition": "orders-0",
            "source": "NonExistentPartition",
            "target": "NewPartition",
            "replicas": (2, 0, 1),
        },
    ),
    Expected(
        "LG-16",
        broker_changes_and_controlled_shutdown,
        STATES,
        "info",
        "changed partition state",
        {
            **TERM,
            "partition": "orders-0",
            "source": "NewPartition",
            "target": "OnlinePartition",
            "leader": 2,
            "leader_epoch": 0,
            "isr": (2, 0, 1),
            "leader_recovery_state": "RECOVERED",
            "partition_epoch": 0,
        },
    ),
    Expected(
        "LG-16",
        broker_changes_and_controlled_shutdown,
        STATES,
        "info",
        "changed partition state",
        {
            "partition": "orders-0",
            "source": "OfflinePartition",
            "target": "OnlinePartition",
            "leader": 0,
            "leader_epoch": 1,
        },
    ),
    Expected(
        "LG-17",
        broker_changes_and_controlled_shutdown,
        STATES,
        "info",
        "sending LeaderAndIsr request",
        {**TERM, "to": 0, "become_leader": 1, "become_follower": 1},
    ),
    Expected(
        "LG-17",
        broker_changes_and_controlled_shutdown,
        STATES,
        "info",
        "sending UpdateMetadata request",
        {**TERM, "brokers": (0, 1, 2, 3), "partitions": 2},
    ),
    Expected("LG-17", reassignments, STATES, "info", "sending StopReplica request", {**TERM, "to": 0, "partitions": 1}),
    Expected(
        "LG-18",
        broker_changes_and_controlled_shutdown,
        STATES,
        "debug",
        "sending state",
        {**TERM, "api": "LeaderAndIsr", "to": 2, "partition": "orders-0"},
    ),
    Expected(
        "LG-18",
        reassignments,
        STATES,
        "debug",
        "sending state",
        {"api": "StopReplica", "to": 0, "partition": "orders-1"},
    ),
    Expected(
        "LG-18",
        broker_changes_and_controlled_shutdown,
        STATES,
        "debug",
        "received response",
        {**TERM, "api": "LeaderAndIsr", "sender": 2, "correlation_id": ANY, "error": "NONE", "refused": 0},
    ),
    Expected(
        "LG-18",
        broker_changes_and_controlled_shutdown,
        STATES,
        "debug",
        "changed replica state",
        {**TERM, "partition": "orders-0", "replica": 2, "source": "NewReplica", "target": "OnlineReplica"},
    ),
    Expected(
        "LG-18",
        broker_changes_and_controlled_shutdown,
        STATES,
        "debug",
        "changed partition state",
        {"partition": "orders-0", "source": "OnlinePartition", "target": "OfflinePartition"},
    ),
    Expected(
        "LG-19",
        illegal_moves,
        STATES,
        "error",
        "failed to change the state of a partition",
        {
            "controller_epoch": 1,
            "partition": "orders-0",
            "source": "NonExistentPartition",
            "target": "OnlinePartition",
            "why": ANY,
        },
    ),
    Expected(
        "LG-19",
        illegal_moves,
        STATES,
        "error",
        "failed to change the state of a replica",
        {
            "controller_epoch": 1,
            "partition": "orders-0",
            "replica": 1,
            "source": "NonExistentReplica",
            "target": "ReplicaDeletionSuccessful",
            "why": ANY,
        },
    ),
    Expected(
        "LG-20",
        broker_changes_and_controlled_shutdown,
        STATES,
        "info",
        "removed replica from ISR",
        {**TERM, "partition": "orders-1", "replica": 1, "leader": 0, "leader_epoch": 1, "isr": (0,)},
    ),
)


def is_as(line: Line, expected: Expected) -> bool:
    return (line.logger, line.level, line.text) == (expected.logger, expected.level, expected.text) and all(
        name in line.fields and value in (ANY, line.fields[name]) for name, value in expected.fields.items()
    )


@pytest.mark.spec(*sorted({expected.id for expected in TABLE}))
@pytest.mark.parametrize("expected", TABLE, ids=lambda expected: f"{expected.id} {expected.text}")
def test_log_lines(expected: Expected) -> None:
    lines = expected.scenario()
    alike = [line for line in lines if line.text == expected.text]
    assert any(is_as(line, expected) for line in lines), alike or {line.text for line in lines}


# ------------------------------------------------------------------ many partitions


def lines_of_a_takeover(partitions: int, level: int) -> list[Line]:
    topics = {"orders": {number: [0, 1] for number in range(partitions)}}
    with TermHarness(topics, settings=ControllerSettings()) as harness, operators_log(level) as lines:
        harness.run(replica_state_machine.startup(harness.term))
        harness.run(partition_state_machine.startup(harness.term))
    return lines


@pytest.mark.spec("LG-16", "LG-17")
def test_many_partitions_have_a_summary_line_and_a_bounded_number_of_own_lines() -> None:
    lines = lines_of_a_takeover(3 * LINES, logging.INFO)
    assert sum(line.text == "changed partition state" for line in lines) == LINES
    (summary,) = (line.fields for line in lines if line.text == "changed partition states")
    assert summary["partitions"] == 3 * LINES
    assert len(lines) < LINES + 20


def test_at_debug_every_partition_has_a_line() -> None:
    lines = lines_of_a_takeover(3 * LINES, logging.DEBUG)
    assert sum(line.text == "changed partition state" and line.level == "info" for line in lines) == 3 * LINES


def test_disabled_level_builds_no_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("a line was built")

    monkeypatch.setattr("understudy.controller.state_change_log._fields", never)
    assert lines_of_a_takeover(3, logging.WARNING) == []
