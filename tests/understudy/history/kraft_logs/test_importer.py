"""The log of a KRaft quorum becomes event logs, from which `replay` measures."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.understudy.history.kafka_logs.recorded import Recorded, recorded
from tests.understudy.history.kraft_logs.metadata_logs import (
    AUDIT,
    ORDERS,
    START_MS,
    MetadataLog,
    change,
    incarnation,
    three_brokers,
    write_snapshot,
)
from understudy.foundation.eventlog.records import (
    Assignment,
    BrokerRegistered,
    BrokersChanged,
    ContextLoaded,
    ControllerElected,
    ControllerReady,
    Envelope,
    LeadershipWritten,
    PartitionsAssigned,
    Payload,
    RunDescribed,
    StillRunning,
    TopicsChanged,
)
from understudy.foundation.wire.messages.cluster_metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    EndTransactionRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from understudy.history.kafka_logs.wrapping import LogError
from understudy.history.kraft_logs.importer import MetadataReport, import_metadata
from understudy.history.kraft_logs.segments import PARTITION
from understudy.history.metrics.metric_tables import RunMetrics
from understudy.history.metrics.metrics import measure


def imported(tmp_path: Path, *logs: MetadataLog | Path) -> tuple[MetadataReport, Recorded]:
    folders = [
        log if isinstance(log, Path) else log.write(tmp_path / f"node-{number}") for number, log in enumerate(logs, 1)
    ]
    output = tmp_path / "events"
    report = import_metadata([("", folder) for folder in folders], output, run="kraft")
    return report, recorded(output)


def of(found: Recorded, kind: type[Payload]) -> list[Envelope]:
    return sorted((r for r in found.records if isinstance(r.data, kind)), key=lambda record: record.mono_ms)


def measured(found: Recorded) -> RunMetrics:
    return measure("kraft", found.records)


def at(record: Envelope) -> float:
    return record.wall_ms - START_MS


def fail_over(log: MetadataLog) -> MetadataLog:
    """Node 1, which leads, dies after 10 s. Node 2 is elected at 13 s for epoch 4, and fences broker 1 at 20 s."""
    for ms in range(500, 10_000, 500):
        log.add(ms)
    log.lead(13_000, leader=2, epoch=4)
    log.add(13_520)
    log.fence(20_000, 1, change(0, leader=2, isr=(2, 3)), change(1, isr=(2, 3)), change(0, AUDIT, leader=-1))
    log.add(20_500)
    return log


def test_a_failover_of_the_controller(tmp_path: Path) -> None:
    report, found = imported(tmp_path, fail_over(three_brokers()))
    assert report.nodes == ("broker-1", "broker-2", "broker-3")
    assert found.elections == {1: (1, START_MS), 4: (2, START_MS + 13_000)}
    numbers = measured(found)
    (failover,) = numbers.failovers
    assert (failover.previous_broker, failover.broker, failover.cause) == (1, 2, "silence")
    assert (failover.lost_at_ms, failover.takeover_ms, failover.outage_ms) == (9_500.0, 520.0, 4_020.0)
    assert (failover.brokers, failover.partitions) == (3, 3)
    assert (failover.detection_ms, failover.election_ms, failover.propagation_ms) == (None, None, None)
    assert numbers.is_complete, "epochs 2 and 3 are elections without a winner"


def test_a_fenced_broker(tmp_path: Path) -> None:
    _, found = imported(tmp_path, fail_over(three_brokers()))
    assert found.brokers_changed[-1] == ((), (1,))
    whys = {(state.topic, state.partition): why for state, (why, ms) in found.states().items() if ms > START_MS + 200}
    assert whys == {("orders", 0): "offline", ("orders", 1): "isr-removal", ("audit", 0): "offline"}
    rows = {(row.topic, row.partition): row for row in measured(found).partitions}
    assert rows["audit", 0].leaderless_ms == 500.0, "from the fencing to the end"
    assert rows["orders", 0].leaderless_ms == 0.0
    assert (rows["orders", 0].leader, rows["orders", 0].isr, rows["orders", 1].isr_shrinks) == (2, (2, 3), 1)


def test_what_has_no_counterpart_is_absent(tmp_path: Path) -> None:
    _, found = imported(tmp_path, fail_over(three_brokers()))
    assert {type(record.data) for record in found.records} == {
        RunDescribed,
        ControllerElected,
        ControllerReady,
        BrokerRegistered,
        BrokersChanged,
        TopicsChanged,
        PartitionsAssigned,
        LeadershipWritten,
        StillRunning,
    }
    assert {record.zxid for record in found.records} == {0}
    elected = ControllerElected(broker_id=1, epoch=1, epoch_zk_version=-1, session_id=0)
    assert of(found, ControllerElected)[0].data == elected
    assert next(iter(found.records)).data == RunDescribed(is_kraft=True)


def test_a_process_that_is_started_again_is_another_incarnation(tmp_path: Path) -> None:
    log = fail_over(three_brokers())
    log.register(30_000, 1, process=2)
    log.unfence(30_100, 1, change(0, AUDIT, leader=1))
    _, found = imported(tmp_path, log)
    registered = [(record.node, record.incarnation, at(record)) for record in of(found, BrokerRegistered)]
    assert registered[-1] == ("broker-1", 2, 30_000.0)
    assert {number for _, number, _ in registered[:-1]} == {1}
    rows = {(row.topic, row.partition): row for row in measured(found).partitions}
    assert rows["audit", 0].leaderless_ms == 10_100.0


def test_a_node_with_both_roles_starts_once(tmp_path: Path) -> None:
    """Its controller and its broker register with ids of their own, in any order, also while it leads the quorum."""
    log = MetadataLog()
    log.lead(0, leader=1, epoch=1)
    log.add(10, RegisterControllerRecord(controller_id=1, incarnation_id=incarnation(1)))
    log.register(20, 1, process=1)
    log.lead(5_000, leader=1, epoch=2)
    log.register(5_100, 1, process=2)
    log.add(5_200, RegisterControllerRecord(controller_id=1, incarnation_id=incarnation(2)))
    _, found = imported(tmp_path, log)
    assert [(record.controller_epoch, record.incarnation) for record in of(found, ControllerElected)] == [
        (1, 1),
        (2, 2),
    ]
    assert [record.incarnation for record in of(found, BrokerRegistered)] == [1, 2]
    assert {record.incarnation for record in found.records} == {1, 2}


def test_a_node_that_is_no_broker_is_a_controller(tmp_path: Path) -> None:
    log = MetadataLog()
    log.lead(0, leader=3001, epoch=1)
    log.add(10)
    log.register(20, 1)
    log.lead(2_000, leader=3002, epoch=2)
    log.add(2_500)
    report, found = imported(tmp_path, log)
    assert report.nodes == ("broker-1", "controller-3001", "controller-3002")
    (failover,) = measured(found).failovers
    assert (failover.previous_broker, failover.broker) == (3001, 3002)
    assert measured(found).is_complete
    assert measured(found).settings.brokers == 1


def test_the_tail_of_a_killed_controller_shows_how_long_it_ran(tmp_path: Path) -> None:
    killed = three_brokers()
    killed.add(500)
    survivor = killed.copy()
    killed.add(1_000)
    survivor.lead(4_000, leader=2, epoch=2)
    survivor.add(4_100)
    report, found = imported(tmp_path, killed, survivor)
    (failover,) = measured(found).failovers
    assert failover.lost_at_ms == 1_000.0
    assert report.notes == [
        f"{tmp_path / 'node-1' / PARTITION}: 1 record of epoch 1, when 1 led: never committed, and left out"
    ]


def test_a_tail_that_was_written_after_the_next_election_says_nothing(tmp_path: Path) -> None:
    deposed = three_brokers()
    deposed.add(500)
    survivor = deposed.copy()
    deposed.add(9_000)
    survivor.lead(4_000, leader=2, epoch=2)
    survivor.add(4_100)
    _, found = imported(tmp_path, deposed, survivor)
    assert measured(found).failovers[0].lost_at_ms == 500.0


def test_a_clock_that_is_behind_is_moved(tmp_path: Path) -> None:
    log = three_brokers()
    log.add(10_000)
    log.lead(4_000, leader=2, epoch=2)
    log.add(4_300)
    report, found = imported(tmp_path, log)
    elected = of(found, ControllerElected)[-1]
    assert (elected.mono_ms - START_MS, at(elected)) == (10_000.0, 4_000.0)
    assert measured(found).failovers[0].takeover_ms == 300.0
    assert report.notes == [
        "the clock of epoch 2's controller is behind the one before it by at least 6,000 milliseconds: the times of "
        "that epoch are moved by as much"
    ]


def test_states_of_one_millisecond_keep_their_order(tmp_path: Path) -> None:
    log = three_brokers()
    leaving = BrokerRegistrationChangeRecord(broker_id=1, in_controlled_shutdown=1)
    log.add(700, change(0, isr=(1, 2)))
    log.add(700, leaving, change(0, leader=2, isr=(2,)), change(0, isr=(2, 3)))
    _, found = imported(tmp_path, log)
    written = [record.data for record in found.records if isinstance(record.data, LeadershipWritten)][-3:]
    assert [(data.why, data.partitions[0].partition_epoch) for data in written] == [
        ("alter-partition", 1),
        ("controlled-shutdown", 2),
        ("alter-partition", 3),
    ]
    assert {(row.topic, row.partition): row.isr for row in measured(found).partitions}["orders", 0] == (2, 3)


def test_a_broker_that_shuts_down_was_running(tmp_path: Path) -> None:
    log = three_brokers()
    log.add(700, BrokerRegistrationChangeRecord(broker_id=3, in_controlled_shutdown=1))
    log.fence(900, 3)
    _, found = imported(tmp_path, log)
    assert [at(record) for record in of(found, StillRunning) if record.node == "broker-3"] == [700.0, 900.0]


def test_a_log_that_begins_with_a_snapshot(tmp_path: Path) -> None:
    """The state in the snapshot is loaded, and its writer is not known before the next election."""
    log = fail_over(three_brokers())
    start = log.batches[20][0]
    folder = log.write(tmp_path / "node-1", first=start)
    partition = PartitionRecord(
        partition_id=0, topic_id=ORDERS, replicas=(1, 2, 3), isr=(1, 2, 3), leader=1, leader_epoch=0, partition_epoch=3
    )
    registered = RegisterBrokerRecord(broker_id=1, broker_epoch=5, incarnation_id=incarnation(11), fenced=False)
    write_snapshot(folder, start, 1, 4_000, registered, TopicRecord(name="orders", topic_id=ORDERS), partition)
    report, found = imported(tmp_path, folder)
    (loaded,) = of(found, ContextLoaded)
    assert isinstance(loaded.data, ContextLoaded)
    assert (loaded.node, at(loaded), loaded.data.live_brokers) == ("quorum", 4_000.0, ((1, 5),))
    assert [(state.topic, state.partition_epoch) for state in loaded.data.partitions] == [("orders", 3)]
    (known,) = of(found, BrokerRegistered)
    assert (known.node, at(known)) == ("broker-1", 4_000.0)
    states = {state.partition_epoch: why for state, (why, _) in found.states().items()}
    assert states == {4: "offline"}, "orders-1 and audit-0 are not in the snapshot"
    assert report.left_out == {"states of LeadershipWritten: the log begins after the creation of the partition": 2}
    assert report.notes == [
        f"the log begins at offset {start}: what was before is known only from the state there",
        "the log begins after the election of the first controller: its records are on node 'quorum'",
    ]


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        (
            '{"leaderId":3001,"leaderEpoch":1,"votedId":-1,"data_version":0}',
            ("broker-1", "broker-2", "controller-3001"),
        ),
        ('{"leaderId":-1,"leaderEpoch":1}', ("broker-1", "broker-2", "quorum")),
        ("torn", ("broker-1", "broker-2", "quorum")),
    ],
)
def test_a_node_has_noted_the_leader_whose_election_is_not_in_the_log(
    text: str, nodes: tuple[str, ...], tmp_path: Path
) -> None:
    log = three_brokers()
    folder = log.write(tmp_path / "node-1", first=4)
    registered = [
        RegisterBrokerRecord(broker_id=each, broker_epoch=each, incarnation_id=incarnation(each), fenced=False)
        for each in (1, 2)
    ]
    write_snapshot(folder, log.offset, 1, 4_000, *registered)
    (folder / PARTITION / "quorum-state").write_text(text)
    report, _ = imported(tmp_path, folder)
    assert report.nodes == nodes
    assert not report.missing


def test_records_that_no_node_has_are_missing(tmp_path: Path) -> None:
    log = fail_over(three_brokers())
    folder = log.write(tmp_path / "node-1", segments=(14, 20))
    (folder / PARTITION / f"{14:020}.log").unlink()
    report, found = imported(tmp_path, folder)
    (missing,) = report.missing
    assert missing.node == "broker-1"
    assert missing.evidence == "no node has the records of __cluster_metadata from offset 14 to 19"
    assert not measured(found).is_complete


def test_metadata_transactions(tmp_path: Path) -> None:
    """Their records take effect at their end, and not at all if they are aborted (KIP-868)."""
    log = three_brokers()
    log.add(1_000, BeginTransactionRecord(name="one"), TopicRecord(name="begun", topic_id=incarnation(7)))
    log.add(2_000, TopicRecord(name="more", topic_id=incarnation(8)), EndTransactionRecord())
    log.add(3_000, BeginTransactionRecord(), RemoveTopicRecord(topic_id=ORDERS))
    log.add(4_000, AbortTransactionRecord(reason="no"))
    log.add(5_000, BeginTransactionRecord(), RemoveTopicRecord(topic_id=AUDIT))
    report, found = imported(tmp_path, log)
    changed = of(found, TopicsChanged)[2:]
    assert [at(record) for record in changed] == [2_000.0]
    assert changed[0].data == TopicsChanged(new=("begun", "more"), deleted=())
    assert report.left_out == {
        "records of a metadata transaction that was aborted": 1,
        "records of a metadata transaction without an end in the log": 1,
    }


def test_unknown_records_are_counted(tmp_path: Path) -> None:
    log = three_brokers()
    log.add(900, b"\1\x63\0\0", b"\1\5\7\0")
    report, _ = imported(tmp_path, log)
    assert report.not_decoded == {
        ("record type 99", "the type is unknown"): 1,
        ("PartitionChangeRecord, version 7", "versions 0 to 2 are known"): 1,
    }


def test_the_log_of_another_topic_is_refused(tmp_path: Path) -> None:
    log = MetadataLog()
    log.add(0, b"an order", b"another")
    folder = log.write(tmp_path)
    with pytest.raises(LogError, match="none of its records is one of __cluster_metadata; is it the log of another"):
        import_metadata([("", folder)], tmp_path / "events")


def test_the_first_batch_of_an_epoch_is_when_its_controller_is_active(tmp_path: Path) -> None:
    _, found = imported(tmp_path, fail_over(three_brokers()))
    assert [(record.node, at(record)) for record in of(found, ControllerReady)] == [
        ("broker-1", 10.0),
        ("broker-2", 13_520.0),
    ]


def test_assignments_are_recorded_when_they_change(tmp_path: Path) -> None:
    log = three_brokers()
    log.add(1_000, change(0, isr=(1, 2)))
    log.add(2_000, change(0, isr=(), leader=-1, eligible_leader_replicas=(1,)))
    log.add(3_000, change(1, replicas=(2, 3, 1, 4), adding_replicas=(4,)))
    _, found = imported(tmp_path, log)
    assert [(at(record), record.data) for record in of(found, PartitionsAssigned)] == [
        (
            80.0,
            PartitionsAssigned(
                partitions=(Assignment("orders", 0, (1, 2, 3), ()), Assignment("orders", 1, (2, 3, 1), ()))
            ),
        ),
        (100.0, PartitionsAssigned(partitions=(Assignment("audit", 0, (1,), ()),))),
        (2_000.0, PartitionsAssigned(partitions=(Assignment("orders", 0, (1, 2, 3), (1,)),))),
        (3_000.0, PartitionsAssigned(partitions=(Assignment("orders", 1, (2, 3, 1, 4), ()),))),
    ]
