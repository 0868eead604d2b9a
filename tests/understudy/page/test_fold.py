"""Tests of `fold`, which computes the state of a cluster from an event log, on a known run and on any valid log."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.foundation.eventlog.lines import Logs
from tests.foundation.eventlog.stories import RandomRun, killed_controller
from tests.understudy.page.folding.fold import EMPTY, EventLogPicture, Life, fold, fold_all
from tests.understudy.page.folding.fold_document import canonical, document
from tests.understudy.page.folding.fold_state import Acknowledged, LogCut
from understudy.foundation.eventlog.records import (
    ContextLoaded,
    ControllerElected,
    ControllerResigned,
    EventPreempted,
    EventQueued,
    EventStarted,
    FaultInjected,
    Leadership,
    LeadershipWritten,
    LoggedBatch,
    LogOpened,
    LogTruncated,
    MetadataUpdated,
    PartitionsMoved,
    RecordsAcknowledged,
    RecordsAppended,
    ReplicasMoved,
    RequestSent,
    ResponseReceived,
    SessionExpiredRecord,
    SessionOpened,
    StopReplicaApplied,
    TopicsChanged,
    Transition,
    WatchFiredRecord,
)
from understudy.history.reading.reader import read_lines


def picture_at(ms: float) -> EventLogPicture:
    records = read_lines(killed_controller().lines).records
    return fold_all(record for record in records if record.mono_ms <= ms)


def test_state_before_the_controller_is_killed() -> None:
    picture = picture_at(2999)
    assert picture.controller is not None
    assert (picture.controller.broker_id, picture.controller.epoch, picture.controller.is_ready) == (1, 1, True)
    assert not picture.controller.is_gone
    assert picture.zookeeper.controller is not None
    assert picture.zookeeper.controller.epoch == 1
    assert sorted(picture.zookeeper.ids) == ["1", "2", "3"]
    assert picture.partitions["orders"][0].leader == 1
    assert [picture.broker(broker).life for broker in (1, 2, 3)] == [Life.RUNNING] * 3
    assert picture.broker(1).broker_epoch == 11
    assert picture.step == "the last sign"


def test_state_between_kill_and_election() -> None:
    picture = picture_at(6002)
    assert picture.broker(1).life is Life.DEAD
    assert picture.last_fault == "kill broker-1"
    assert picture.controller is not None
    assert picture.controller.is_gone
    assert picture.zookeeper.controller is None
    assert picture.broker(1).silent_since_us == 3_000_000
    event = picture.broker(2).event
    assert event is not None
    assert (event.event, event.since_us) == ("Reelect", 6_002_000)
    assert picture.partitions["orders"][0].leader == 1, "the state in ZooKeeper has not changed"


def test_requests_are_in_flight_until_they_are_answered() -> None:
    assert [request.to for request in picture_at(6061).in_flight.values()] == [3]
    assert picture_at(6090).in_flight == {}


def test_state_at_the_end_of_the_run() -> None:
    picture = picture_at(99_999)
    assert picture.controller is not None
    assert picture.controller.broker_id == 2
    assert picture.partitions["orders"][0].isr == (2, 3, 1)
    assert picture.fences == {"broker.controller-epoch": 1}
    assert picture.broker(1).incarnation == 2
    assert {node.life for node in picture.nodes.values()} == {Life.DEAD}
    assert picture.records == 50


def folded(logs: Logs) -> EventLogPicture:
    return fold_all(read_lines(logs.lines).records)


def test_an_older_partition_state_replaces_no_newer_one() -> None:
    logs = Logs()
    logs.at(1000, "broker-2", LeadershipWritten(why="offline", partitions=(Leadership("orders", 0, 2, 5, (2,), 7, 2),)))
    logs.at(2000, "broker-1", LeadershipWritten(why="offline", partitions=(Leadership("orders", 0, 1, 4, (1,), 6, 1),)))
    assert folded(logs).partitions["orders"][0].leader == 2


def test_each_brokers_view_of_partitions_is_kept_apart() -> None:
    logs = Logs()
    update = MetadataUpdated(
        controller_id=2,
        request_controller_epoch=2,
        request_broker_epoch=1,
        live_brokers=(1, 2),
        partitions=(Leadership("orders", 0, 1, 0, (1,), 0, 1), Leadership("orders", 1, 1, 0, (1,), 0, 1)),
    )
    logs.at(1000, "broker-1", update)
    logs.at(1001, "broker-2", update)
    deleted = (Leadership("orders", 0, -2, 0, (), 0, 2),)
    logs.at(
        1002,
        "broker-2",
        MetadataUpdated(
            controller_id=3, request_controller_epoch=3, request_broker_epoch=1, live_brokers=(2,), partitions=deleted
        ),
    )
    logs.at(
        1003,
        "broker-2",
        StopReplicaApplied(
            controller_id=3, request_controller_epoch=3, request_broker_epoch=1, partitions=(("orders", 1, 1, True),)
        ),
    )
    picture = folded(logs)
    assert sorted(picture.broker(1).metadata["orders"]) == [0, 1]
    assert sorted(picture.broker(2).metadata["orders"]) == [1], "StopReplica is not about metadata"
    assert (picture.broker(1).metadata_controller, picture.broker(2).metadata_controller) == (2, 3)


@pytest.mark.parametrize("fault", ["kill", "power_loss", "crash"])
def test_a_fault_that_ends_a_broker_ends_its_requests(fault: str) -> None:
    logs = Logs()
    logs.at(1001, "broker-1", RequestSent(to=2, api="StopReplica", api_version=3, client_id="1", correlation_id=0))
    logs.at(1005, "testbed", FaultInjected(fault=fault, target="broker-1"))
    assert (folded(logs).broker(1).life, folded(logs).in_flight) == (Life.DEAD, {})


@pytest.mark.parametrize("resume", ["resume", "continue"])
def test_a_paused_broker_a_lost_session_and_a_second_incarnation(resume: str) -> None:
    logs = Logs()
    logs.at(1000, "broker-1", ControllerElected(broker_id=1, epoch=1, epoch_zk_version=1, session_id=1))
    request = RequestSent(to=2, api="StopReplica", api_version=3, client_id="1", correlation_id=0)
    sent = logs.at(1001, "broker-1", request)
    logs.at(1002, "testbed", FaultInjected(fault="pause", target="broker-1"))
    assert folded(logs).broker(1).life is Life.PAUSED
    assert len(folded(logs).in_flight) == 1
    logs.at(1003, "testbed", FaultInjected(fault=resume, target="broker-1"))
    logs.at(1004, "broker-1", SessionExpiredRecord(session_id=1))
    assert (folded(logs).broker(1).life, folded(logs).broker(1).broker_epoch) == (Life.RUNNING, None)
    logs.at(1005, "testbed", FaultInjected(fault="kill", target="broker-1"))
    assert folded(logs).in_flight == {}
    logs.at(1006, "broker-1", request, incarnation=2)
    late = ResponseReceived(sender=2, api="StopReplica", client_id="1", correlation_id=0)
    logs.at(1007, "broker-1", late, cause=sent, incarnation=1)
    picture = folded(logs)
    assert (picture.broker(1).incarnation, picture.broker(1).life) == (2, Life.RUNNING)
    assert len(picture.in_flight) == 1


@pytest.mark.parametrize("seed", range(10))
def test_any_log_can_be_folded_and_earlier_states_do_not_change(seed: int) -> None:
    records = read_lines(RandomRun(seed, records=300).logs.lines).records
    halfway = fold_all(records[:150])
    copy = repr(halfway)
    picture = fold_all(records[150:], halfway)
    assert picture == fold_all(records)
    assert picture.records == 300
    assert repr(halfway) == copy
    assert fold(EMPTY, records[0]).nodes.keys() == {records[0].node}


def test_a_late_watch_does_not_delete_a_newer_znode() -> None:
    logs = Logs()
    logs.node("broker-2").saw_zxid(20)
    logs.at(1000, "broker-2", ControllerElected(broker_id=2, epoch=2, epoch_zk_version=2, session_id=2))
    logs.node("broker-3").saw_zxid(19)
    logs.at(1001, "broker-3", WatchFiredRecord(path="/controller", kind="deleted"))
    picture = folded(logs)
    assert picture.zookeeper.controller is not None, "broker 3 learns of the end of the controller before"
    logs.node("broker-3").saw_zxid(20)
    logs.at(1002, "broker-3", WatchFiredRecord(path="/controller", kind="deleted"))
    assert folded(logs).zookeeper.controller is None


def test_what_a_broker_writes_before_a_kill_takes_effect_does_not_revive_it() -> None:
    logs = Logs()
    request = RequestSent(to=2, api="StopReplica", api_version=3, client_id="1", correlation_id=0)
    logs.at(1000, "broker-1", request)
    logs.at(1001, "testbed", FaultInjected(fault="kill", target="broker-1"))
    logs.at(1003, "broker-1", request)
    assert (folded(logs).broker(1).life, folded(logs).in_flight) == (Life.DEAD, {})
    logs.at(2500, "broker-1", request)
    assert folded(logs).broker(1).life is Life.RUNNING, "the fault had no effect"


def test_events_wait_in_the_queue_until_they_are_processed_or_preempted() -> None:
    logs = Logs()
    for number, event in enumerate(("Startup", "BrokerChange", "TopicChange"), start=1):
        logs.at(1000 + number, "broker-1", EventQueued(event_id=number, event=event))
    logs.at(1010, "broker-1", EventStarted(event_id=1, event="Startup", queued_ms=9))
    logs.at(1011, "broker-1", EventPreempted(event_id=2, event="BrokerChange"))
    node = folded(logs).broker(1)
    assert [(event.id, event.event, event.since_us) for event in node.queue] == [(3, "TopicChange", 1_003_000)]
    assert node.event is not None
    assert node.event.event == "Startup"


def test_a_new_controller_derives_states_and_forgets_them_when_it_resigns() -> None:
    logs = Logs()
    logs.at(1000, "broker-1", ControllerElected(broker_id=1, epoch=3, epoch_zk_version=3, session_id=1))
    led, leaderless = Leadership("orders", 0, 1, 0, (1, 2), 0, 2), Leadership("orders", 1, 2, 0, (2,), 0, 2)
    logs.at(1001, "broker-1", ContextLoaded(epoch=3, live_brokers=((1, 7),), partitions=(led, leaderless), took_ms=1))
    logs.at(1002, "broker-1", ReplicasMoved(target="OfflineReplica", replicas=(Transition("orders", 1, 2, "Online"),)))
    node = folded(logs).broker(1)
    assert node.partition_states == {"orders": {0: "OnlinePartition", 1: "OfflinePartition"}}
    assert node.replica_states == {"orders": {0: {1: "OnlineReplica"}, 1: {2: "OfflineReplica"}}}
    logs.at(1003, "broker-1", PartitionsMoved(target="NonExistentPartition", partitions=()))
    gone = (Transition("orders", 0, -1, "OfflinePartition"),)
    logs.at(1004, "broker-1", PartitionsMoved(target="NonExistentPartition", partitions=gone))
    assert folded(logs).broker(1).partition_states == {"orders": {1: "OfflinePartition"}}
    logs.at(1005, "broker-1", ControllerResigned(epoch=3, why="deposed"))
    node = folded(logs).broker(1)
    assert (node.term, node.partition_states, node.replica_states) == (None, {}, {})


def test_faults_of_links_last_until_they_are_healed() -> None:
    logs = Logs()
    logs.at(1000, "broker-1", SessionOpened(session_id=1, timeout_ms=6000))
    logs.at(1001, "testbed", FaultInjected(fault="cut", target="broker-1 -> broker-2, broker-3"))
    logs.at(1002, "testbed", FaultInjected(fault="isolate", target="broker-1"))
    logs.at(1003, "testbed", FaultInjected(fault="drop", target="broker-1 -> broker-2: LeaderAndIsr"))
    picture = folded(logs)
    assert picture.links == {"broker-1 -> broker-2": "cut", "broker-1 -> broker-3": "cut", "broker-1 -> all": "isolate"}
    assert picture.broker(1).silent_since_us == 1_002_000
    logs.at(1004, "testbed", FaultInjected(fault="heal", target="broker-3 -> broker-1"))
    assert sorted(folded(logs).links) == ["broker-1 -> all", "broker-1 -> broker-2"]
    logs.at(1005, "testbed", FaultInjected(fault="heal", target="broker-1"))
    assert (folded(logs).links, folded(logs).broker(1).silent_since_us) == ({}, None)


def test_a_log_has_offsets_and_leader_epochs() -> None:
    logs = Logs()
    name: dict[str, Any] = {"topic": "orders", "topic_id": "id-1", "partition": 0}
    opened = LogOpened(**name, log_start_offset=2, log_end_offset=9, high_watermark=8, epochs=((0, 2),))
    logs.at(1000, "broker-1", opened)
    batches = (LoggedBatch(9, 11, 0, 1), LoggedBatch(11, 12, 3, 1))
    logs.at(1001, "broker-1", RecordsAppended(**name, role="follower", leader_epoch=3, batches=batches))
    log = folded(logs).broker(1).logs["orders"][0]
    assert (log.role, log.leader_epoch, log.start, log.end, log.high_watermark) == ("follower", 3, 2, 12, 8)
    assert log.epochs == ((0, 2), (3, 11))
    logs.at(
        1002,
        "broker-1",
        LogTruncated(
            **name, leader_epoch=4, to_offset=7, is_full=False, log_end_offset=12, high_watermark=8, epochs=((0, 2),)
        ),
    )
    log = folded(logs).broker(1).logs["orders"][0]
    assert (log.start, log.end, log.high_watermark, log.epochs) == (2, 7, 7, ((0, 2),))
    assert log.cut == LogCut(from_=7, end=12, us=1_002_000)
    other = LogOpened(**name | {"topic_id": "id-2"}, log_start_offset=0, log_end_offset=0, high_watermark=0, epochs=())
    logs.at(1003, "broker-1", other)
    assert folded(logs).broker(1).logs["orders"][0].end == 0


def test_the_largest_acknowledged_offset_is_kept_until_the_topic_is_deleted() -> None:
    logs = Logs()
    name: dict[str, Any] = {"topic": "orders", "partition": 0, "leader_epoch": 0, "acks": -1}
    for ms, last in ((1000, 4), (1001, 3)):
        logs.at(ms, "broker-1", RecordsAcknowledged(**name, topic_id="id-1", base_offset=last, last_offset=last))
    assert folded(logs).acknowledged["orders"][0] == Acknowledged(topic_id="id-1", offset=4)
    logs.at(1002, "broker-1", RecordsAcknowledged(**name, topic_id="id-2", base_offset=0, last_offset=1))
    assert folded(logs).acknowledged["orders"][0] == Acknowledged(topic_id="id-2", offset=1)
    logs.at(1003, "broker-1", TopicsChanged(new=(), deleted=("orders",)))
    assert folded(logs).acknowledged == {}


def test_a_document_is_json_whatever_the_names_and_numbers() -> None:
    logs = Logs()
    logs.at(1000.0005, "broker-1", SessionOpened(session_id=-(2**63), timeout_ms=6000))
    states = (Leadership("__proto__", 0, 1, 2**53, (1,), 2**53 - 1, 1),)
    logs.at(1001, "broker-1", LeadershipWritten(why="offline", partitions=states))
    found = document(folded(logs))
    assert found["nodes"]["broker-1"]["session"]["id"] == "0x8000000000000000"
    assert found["partitions"]["__proto__"]["0"] == ["__proto__", 0, 1, "0x20000000000000", [1], 2**53 - 1, 1, 0]
    assert msgspec.json.decode(canonical(found)) == found
