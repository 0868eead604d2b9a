"""ZooKeeper's transactions: why a partition state was written, and which broker an election follows."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.checks.history import OpKind, ZnodeOp, ZnodeTransaction
from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.eventlog.records import (
    BrokerRegistered,
    BrokersChanged,
    ControllerElected,
    Envelope,
    Leadership,
    LeadershipWritten,
    SessionOpened,
    StillRunning,
    WatchFiredRecord,
)
from understudy.history.kafka_logs.cluster_state import ImportedCluster, KnownState
from understudy.history.kafka_logs.transactions import Logged, TransactionImporter, dated, reason
from understudy.history.reading.reader import read
from understudy.history.reading.transaction_log import ClosedByClient, OpenedSession

REGISTERED = {1: 10, 2: 20, 3: 30}


def state(leader: int, leader_epoch: int, isr: tuple[int, ...], partition_epoch: int = 1) -> Leadership:
    return Leadership("orders", 0, leader, leader_epoch, isr, partition_epoch, 5)


def assigned(*replicas: int, adding: tuple[int, ...] = ()) -> ReplicaAssignment:
    return ReplicaAssignment(tuple(map(BrokerId, replicas)), tuple(map(BrokerId, adding)))


BEFORE = KnownState(state(1, 4, (1, 2, 3)), zxid=50)


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (None, state(1, 0, (1, 2, 3), 0), "initialise"),
        (BEFORE, state(1, 4, (1, 2)), "alter-partition"),
        (BEFORE, state(1, 5, (1, 2)), "isr-removal"),
        (BEFORE, state(-1, 5, (2, 3)), "isr-removal"),
        (BEFORE, state(1, 5, (1, 2, 3)), "reassignment"),
        (BEFORE, state(2, 5, (2, 3)), "controlled-shutdown"),
        (BEFORE, state(2, 5, (1, 2, 3)), "reassignment"),
        (KnownState(state(-1, 4, (2, 3)), 50), state(2, 5, (2,)), "offline"),
        (KnownState(state(-1, 4, (1,)), 50), state(2, 5, (2,)), "unclean"),
        (KnownState(state(4, 4, (4, 2)), 50), state(2, 5, (2,)), "offline"),
        (KnownState(state(2, 4, (1, 2, 3)), 50), state(1, 5, (1, 2, 3)), "preferred"),
    ],
)
def test_the_reason_is_known_from_the_states_before_and_after(
    before: KnownState | None, after: Leadership, why: str
) -> None:
    assert reason(before, after, assigned(1, 2, 3), REGISTERED) == why


def test_a_leader_that_has_registered_again_was_offline() -> None:
    assert reason(BEFORE, state(2, 5, (2, 3)), assigned(1, 2, 3), {**REGISTERED, 1: 60}) == "offline"


def test_a_partition_with_replicas_being_added_is_reassigned() -> None:
    before = KnownState(state(2, 4, (1, 2, 3)), 50)
    assert reason(before, state(1, 5, (1, 2, 3)), assigned(1, 2, 3, adding=(3,)), REGISTERED) == "reassignment"


# -- transactions


def create(path: str, data: bytes = b"", owner: int = 0) -> ZnodeOp:
    return ZnodeOp(OpKind.CREATE, path, data, 0, owner)


def registration(zxid: int, broker: int, session: int) -> ZnodeTransaction:
    return ZnodeTransaction(zxid, 1_000.0 * zxid, session, (create(f"/brokers/ids/{broker}", owner=session),))


def election(zxid: int, broker: int, session: int, epoch: int) -> ZnodeTransaction:
    data = b'{"version":2,"brokerid":%d,"timestamp":"1","kraftControllerEpoch":-1}' % broker
    ops = (create("/controller", data, session), ZnodeOp(OpKind.SET, "/controller_epoch", b"%d" % epoch, epoch))
    return ZnodeTransaction(zxid, 1_000.0 * zxid, session, ops)


def end_of_session(zxid: int, session: int, *paths: str) -> ZnodeTransaction:
    ops = tuple(ZnodeOp(OpKind.DELETE, path) for path in paths)
    return ZnodeTransaction(zxid, 1_000.0 * zxid, session, ops, closed_session=True)


def written(zxid: int, session: int, kind: OpKind, leader: int, epoch: int) -> ZnodeTransaction:
    data = b'{"controller_epoch":1,"leader":%d,"version":1,"leader_epoch":%d,"isr":[1,2]}' % (leader, epoch)
    op = ZnodeOp(kind, "/brokers/topics/orders/partitions/0/state", data, epoch)
    return ZnodeTransaction(zxid, 1_000.0 * zxid, session, (op,))


def imported(folder: Path, *transactions: Logged) -> tuple[tuple[Envelope, ...], TransactionImporter]:
    cluster = ImportedCluster(folder, "run")
    importer = TransactionImporter(cluster)
    for transaction in dated(transactions):
        importer.add(transaction)
    cluster.close()
    reading = read([folder])
    assert reading.findings == ()
    return reading.records, importer


def test_the_end_of_a_controllers_session_is_the_watch_of_its_successor(tmp_path: Path) -> None:
    records, _ = imported(
        tmp_path,
        registration(1, 1, 0xA),
        registration(2, 2, 0xB),
        election(3, 1, 0xA, 1),
        end_of_session(9, 0xA, "/brokers/ids/1", "/controller"),
        election(10, 2, 0xB, 2),
    )
    watch = next(record for record in records if isinstance(record.data, WatchFiredRecord))
    first, second = (record for record in records if isinstance(record.data, ControllerElected))
    assert (watch.node, watch.wall_ms, watch.zxid) == ("broker-2", 9_000.0, 9)
    assert first.data == ControllerElected(broker_id=1, epoch=1, epoch_zk_version=1, session_id=0xA)
    assert (second.node, second.wall_ms, second.cause) == ("broker-2", 10_000.0, watch.seq)
    assert [record.data for record in records if isinstance(record.data, BrokerRegistered)] == [
        BrokerRegistered(broker_id=1, broker_epoch=1, session_id=0xA),
        BrokerRegistered(broker_id=2, broker_epoch=2, session_id=0xB),
    ]


def test_a_deletion_of_the_controller_without_an_election_has_no_watch(tmp_path: Path) -> None:
    """Which broker received it is not known."""
    records, _ = imported(
        tmp_path, registration(1, 1, 0xA), election(2, 1, 0xA, 1), end_of_session(9, 0xA, "/controller")
    )
    assert not any(isinstance(record.data, WatchFiredRecord) for record in records)


def test_a_controller_without_its_log_sees_registrations_when_zookeeper_has_them(tmp_path: Path) -> None:
    records, _ = imported(
        tmp_path,
        registration(1, 1, 0xA),
        election(2, 1, 0xA, 1),
        registration(3, 2, 0xB),
        end_of_session(4, 0xB, "/brokers/ids/2"),
    )
    changes = [record.data for record in records if isinstance(record.data, BrokersChanged)]
    assert changes == [
        BrokersChanged(new=(2,), dead=(), bounced=(), live=(1, 2)),
        BrokersChanged(new=(), dead=(2,), bounced=(), live=(1,)),
    ]


def test_a_broker_without_its_log_begins_an_incarnation_with_each_session(tmp_path: Path) -> None:
    records, _ = imported(
        tmp_path, registration(1, 1, 0xA), end_of_session(2, 0xA, "/brokers/ids/1"), registration(3, 1, 0xB)
    )
    assert [record.incarnation for record in records] == [1, 2]


def test_partition_states_belong_to_the_session_that_wrote_them(tmp_path: Path) -> None:
    records, importer = imported(
        tmp_path,
        registration(1, 1, 0xA),
        election(2, 1, 0xA, 1),
        written(3, 0xA, OpKind.CREATE, 1, 0),
        written(4, 0xC, OpKind.SET, 2, 1),
    )
    (record,) = (record for record in records if isinstance(record.data, LeadershipWritten))
    assert isinstance(record.data, LeadershipWritten)
    assert (record.node, record.zxid, record.wall_ms, record.data.why) == ("broker-1", 3, 3_000.0, "initialise")
    assert importer.unknown_writers == 1


def test_a_controller_that_increments_its_epoch_in_a_transaction_of_its_own_is_elected_then(tmp_path: Path) -> None:
    """As controllers of Kafka 1.1 and 2.0 do; the first one creates the znode."""
    data = b'{"version":1,"brokerid":%d,"timestamp":"1"}'
    first, raised = (
        ZnodeOp(OpKind.CREATE, "/controller_epoch", b"1", 0),
        ZnodeOp(OpKind.SET, "/controller_epoch", b"2", 1),
    )
    records, importer = imported(
        tmp_path,
        registration(1, 1, 0xA),
        registration(2, 2, 0xB),
        ZnodeTransaction(3, 3_000.0, 0xA, (create("/controller", data % 1, 0xA),)),
        ZnodeTransaction(4, 4_000.0, 0xA, (first,)),
        end_of_session(5, 0xA, "/brokers/ids/1", "/controller"),
        ZnodeTransaction(6, 6_000.0, 0xB, (create("/controller", data % 2, 0xB),)),
        ZnodeTransaction(7, 7_000.0, 0xB, (raised,)),
    )
    elected = [(r.node, r.wall_ms, r.data) for r in records if isinstance(r.data, ControllerElected)]
    assert elected == [
        ("broker-1", 4_000.0, ControllerElected(broker_id=1, epoch=1, epoch_zk_version=0, session_id=0xA)),
        ("broker-2", 7_000.0, ControllerElected(broker_id=2, epoch=2, epoch_zk_version=1, session_id=0xB)),
    ]
    assert importer.malformed == []


def test_a_znode_of_epochs_that_a_broker_creates_before_an_election_is_none(tmp_path: Path) -> None:
    """Kafka creates it with epoch 0 since 2.1."""
    created = ZnodeTransaction(2, 2_000.0, 0xA, (create("/controller_epoch", b"0"),))
    records, _ = imported(tmp_path, registration(1, 1, 0xA), created, election(3, 1, 0xA, 1))
    assert [r.zxid for r in records if isinstance(r.data, ControllerElected)] == [3]


def test_a_state_whose_predecessor_is_not_in_the_log_has_no_reason(tmp_path: Path) -> None:
    records, _ = imported(tmp_path, registration(1, 1, 0xA), written(3, 0xA, OpKind.SET, 1, 4))
    assert [record.data.why for record in records if isinstance(record.data, LeadershipWritten)] == [""]


def test_data_that_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    bad = ZnodeTransaction(7, 7_000.0, 0xA, (create("/brokers/topics/orders", b"{"),))
    records, importer = imported(tmp_path, bad, registration(8, 1, 0xA))
    (message,) = importer.malformed
    assert message.startswith("zxid 0x7: /brokers/topics/orders holds '{'")
    assert len(records) == 1


def test_a_session_belongs_to_the_broker_that_registers_in_it(tmp_path: Path) -> None:
    """Its incarnation begins with the opening; the session of a client has no record."""
    records, importer = imported(
        tmp_path,
        OpenedSession(1, 1_000.0, 0xA, 18_000),
        OpenedSession(2, 2_000.0, 0xF, 4_000),
        registration(3, 1, 0xA),
        OpenedSession(4, 4_000.0, 0xB, 6_000),
        registration(5, 1, 0xB),
    )
    opened = [(r.incarnation, r.seq, r.wall_ms, r.data) for r in records if isinstance(r.data, SessionOpened)]
    assert opened == [
        (1, 1, 1_000.0, SessionOpened(session_id=0xA, timeout_ms=18_000)),
        (2, 1, 4_000.0, SessionOpened(session_id=0xB, timeout_ms=6_000)),
    ]
    assert [r.incarnation for r in records if isinstance(r.data, BrokerRegistered)] == [1, 2]
    assert importer.transactions == 2


def test_a_broker_that_closes_its_session_was_running(tmp_path: Path) -> None:
    """A session that expires shows nothing of its broker."""
    records, _ = imported(
        tmp_path,
        registration(1, 1, 0xA),
        registration(2, 2, 0xB),
        ClosedByClient(5, 5_000.0, 0xA),
        end_of_session(5, 0xA, "/brokers/ids/1"),
        end_of_session(6, 0xB, "/brokers/ids/2"),
    )
    signs = [(r.node, r.wall_ms) for r in records if isinstance(r.data, StillRunning)]
    assert signs == [("broker-1", 5_000.0)]
