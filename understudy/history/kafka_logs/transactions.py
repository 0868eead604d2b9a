"""Imports ZooKeeper's transaction log: elections, deletions of `/controller`, registrations, topics, partition states.

The log has every write of every broker with its exact time and data. The reason of a write is derived from the states
before and after, by the rules of Kafka's leader election.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from understudy.checks.history import OpKind, ZnodeOp, ZnodeTransaction
from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.records import (
    BrokerRegistered,
    BrokersChanged,
    ControllerElected,
    Leadership,
    RunDescribed,
    SessionOpened,
    StillRunning,
    TopicsChanged,
    WatchFiredRecord,
)
from understudy.foundation.zk.znodes import (
    ControllerEpochZNode,
    ControllerZNode,
    MalformedZNode,
    TopicPartitionStateZNode,
    TopicZNode,
)
from understudy.history.kafka_logs.broker_node import BrokerNode
from understudy.history.kafka_logs.cluster_state import ImportedCluster, KnownState
from understudy.history.kafka_logs.survey import EntryKind
from understudy.history.reading.run_records import broker_node
from understudy.history.reading.transaction_log import ClosedByClient, OpenedSession, SessionNote

LOOK_AHEAD: Final = 10_000
"""Number of transactions after a deletion of `/controller` that are searched for the next election."""
SESSION_LOOK_AHEAD: Final = 1_000
"""Number of transactions after the opening of a session that are searched for a registration in it."""

_SOURCE = "ZooKeeper's transaction log"
STATE: Final = re.compile(r"/brokers/topics/(?P<topic>[^/]+)/partitions/(?P<partition>\d+)/state")
_TOPIC = re.compile(r"/brokers/topics/(?P<topic>[^/]+)")
REGISTRATION: Final = re.compile(r"/brokers/ids/(?P<broker>\d+)")


Logged: TypeAlias = ZnodeTransaction | SessionNote
L = TypeVar("L", bound=Logged)


class DatedTransaction(NamedTuple, Generic[L]):
    """A transaction in the order of the import.

    Attributes:
        ms: the time of the run, never less than the time of the transaction before.
        broker: if it deletes `/controller`, the broker that creates it next; if it opens a session, the broker that
            registers in the session; None if the log does not have that, and for other transactions.
    """

    ms: float
    transaction: L
    broker: int | None


Written: TypeAlias = DatedTransaction[ZnodeTransaction]
"""A transaction that changes znodes or ends a session."""


def dated(
    transactions: Iterable[Logged], run_ms: Callable[[Logged], float] = lambda transaction: transaction.time_ms
) -> Iterator[DatedTransaction[Logged]]:
    """Yield transactions with their times, and the broker that only a later transaction names.

    Args:
        run_ms: returns the time of the run of a transaction.
    """
    source = iter(transactions)
    waiting: deque[Logged] = deque()
    last = 0.0
    while (current := waiting.popleft() if waiting else next(source, None)) is not None:
        last = max(last, run_ms(current))
        broker = None
        if isinstance(current, OpenedSession):
            broker = _first(partial(_registers, current.session_id), waiting, source, SESSION_LOOK_AHEAD)
        elif isinstance(current, ZnodeTransaction) and _deletes_controller(current):
            broker = _first(_new_controller, waiting, source, LOOK_AHEAD)
        yield DatedTransaction(last, current, broker)


def _first(
    broker_in: Callable[[ZnodeTransaction], int | None],
    waiting: deque[Logged],
    source: Iterator[Logged],
    bound: int,
) -> int | None:
    """Return the broker in the first of the next `bound` transactions that names one; `waiting` keeps them."""
    for transaction in islice(waiting, bound):
        if isinstance(transaction, ZnodeTransaction) and (broker := broker_in(transaction)) is not None:
            return broker
    while len(waiting) < bound and (later := next(source, None)) is not None:
        waiting.append(later)
        if isinstance(later, ZnodeTransaction) and (broker := broker_in(later)) is not None:
            return broker
    return None


def _registers(session_id: int, transaction: ZnodeTransaction) -> int | None:
    """Return the broker that a transaction of this session registers."""
    for op in transaction.ops if transaction.session_id == session_id else ():
        if op.kind is OpKind.CREATE and (match := REGISTRATION.fullmatch(op.path)):
            return int(match["broker"])
    return None


def _deletes_controller(transaction: ZnodeTransaction) -> bool:
    return any(op.kind is OpKind.DELETE and op.path == ControllerZNode.path for op in transaction.ops)


def _new_controller(transaction: ZnodeTransaction) -> int | None:
    """Return the broker that a transaction makes controller; None also if the data cannot be decoded."""
    for op in transaction.ops:
        if op.kind is OpKind.CREATE and op.path == ControllerZNode.path:
            with suppress(MalformedZNode):
                return ControllerZNode.decode(op.data or b"").broker_id
    return None


def epoch_in(op: ZnodeOp) -> int | None:
    """Return the controller epoch that an operation writes; None also if the data cannot be decoded."""
    if op.kind is not OpKind.DELETE and op.path == ControllerEpochZNode.path:
        with suppress(MalformedZNode):
            return ControllerEpochZNode.decode(op.data or b"")
    return None


def reason(
    before: KnownState | None, after: Leadership, assignment: ReplicaAssignment | None, registered: dict[int, int]
) -> str:
    """Return why a partition state was written, from the states before and after.

    Args:
        registered: the broker epoch of each registered broker.
    """
    if before is None:
        return "initialise"
    old = before.state
    if after.leader_epoch == old.leader_epoch:
        return "alter-partition"
    if after.leader < 0:
        return "isr-removal"
    if after.leader == old.leader:
        return "isr-removal" if set(after.isr) < set(old.isr) else "reassignment"
    # A leader that has registered again since is a new process, which the controller treats as failed first.
    leader_is_gone = old.leader not in registered or registered[old.leader] > before.zxid
    if leader_is_gone:
        return "offline" if after.leader in old.isr else "unclean"
    if old.leader not in after.isr:
        return "controlled-shutdown"
    is_reassigned = assignment is not None and (assignment.adding_replicas or assignment.removing_replicas)
    is_preferred = assignment is not None and assignment.replicas[:1] == (after.leader,)
    return "preferred" if is_preferred and not is_reassigned else "reassignment"


class TransactionImporter:
    """Writes the records of one transaction after another.

    Attributes:
        transactions: the number of transactions so far.
        unknown_writers: the number of partition states written in sessions without a registration in the log.
        malformed: the znodes whose data cannot be decoded, with the reason; at most ten.
    """

    def __init__(self, cluster: ImportedCluster) -> None:
        self.transactions = 0
        self.unknown_writers = 0
        self.malformed: list[str] = []
        self._cluster = cluster
        self._broker_of_session: dict[int, int] = {}
        self._registered: dict[int, int] = {}
        """The broker epoch of each registered broker."""
        self._controller: int | None = None
        self._gone: set[int] = set()
        """The brokers that went down while there was no controller, including a killed controller."""

    def add(self, dated: DatedTransaction[Logged]) -> None:
        transaction = dated.transaction
        if isinstance(transaction, OpenedSession):
            if dated.broker is not None:
                self._session_opened(dated.ms, transaction, dated.broker)
            return
        if isinstance(transaction, ClosedByClient):
            self._session_closed(dated.ms, transaction)
            return
        self.transactions += 1
        for op in transaction.ops:
            try:
                self._add_operation(Written(dated.ms, transaction, dated.broker), op)
            except MalformedZNode as error:
                if len(self.malformed) < 10:
                    self.malformed.append(f"zxid {dated.transaction.zxid:#x}: {error}")

    def _add_operation(self, written: Written, op: ZnodeOp) -> None:
        if op.kind is OpKind.CHECK:
            return
        if op.path == ControllerZNode.path:
            self._controller_changed(written, op)
        elif op.path == ControllerEpochZNode.path:
            self._epoch_written(written, op)
        elif match := REGISTRATION.fullmatch(op.path):
            self._registration_changed(written, op, int(match["broker"]))
        elif match := STATE.fullmatch(op.path):
            self._state_written(written, op, TopicPartition(match["topic"], int(match["partition"])))
        elif match := _TOPIC.fullmatch(op.path):
            self._topic_changed(written, op, match["topic"])

    # -- the controller

    def _controller_changed(self, written: Written, op: ZnodeOp) -> None:
        if op.kind is OpKind.DELETE:
            self._controller = None
            if written.broker is not None:
                node = self._cluster.node(written.broker)
                watch = WatchFiredRecord(path=ControllerZNode.path, kind="deleted")
                if node.gone_cause is None:
                    node.gone_cause = node.write(written.ms, watch, zxid=written.transaction.zxid)
        elif op.kind is OpKind.CREATE:
            self._controller = ControllerZNode.decode(op.data or b"").broker_id
            self._broker_of_session[written.transaction.session_id] = self._controller

    def _epoch_written(self, written: Written, op: ZnodeOp) -> None:
        """Record the election of the controller that increments `/controller_epoch`.

        It creates `/controller` in the same transaction, before Kafka 2.1 in one before.
        """
        transaction = written.transaction
        broker = self._broker_of_session.get(transaction.session_id)
        if op.kind is OpKind.DELETE or broker is None or broker != self._controller:
            return
        found = ControllerElected(
            broker_id=broker,
            epoch=ControllerEpochZNode.decode(op.data or b""),
            epoch_zk_version=op.version,
            session_id=transaction.session_id,
        )
        if not self._cluster.write_election(self._cluster.node(broker), written.ms, found, zxid=transaction.zxid):
            return
        gone, self._gone = self._gone - set(self._registered), set()
        if gone:
            self._brokers_changed(written, dead=tuple(sorted(gone)))

    # -- brokers and topics

    def _session_opened(self, ms: float, session: OpenedSession, broker: int) -> None:
        self._begin_incarnation(ms, broker, session.session_id)
        if not self._cluster.has_log(broker, EntryKind.SERVER):
            opened = SessionOpened(session_id=session.session_id, timeout_ms=session.timeout_ms)
            self._cluster.node(broker).write(ms, opened, zxid=session.zxid)

    def _session_closed(self, ms: float, session: ClosedByClient) -> None:
        """Record that a broker without logs was running when it closed its session, unlike one that was killed."""
        broker = self._broker_of_session.get(session.session_id)
        if broker is not None and not self._cluster.has_any_log(broker):
            self._cluster.node(broker).write(ms, StillRunning(source=_SOURCE), zxid=session.zxid)

    def _begin_incarnation(self, ms: float, broker: int, session_id: int) -> None:
        """Begin an incarnation with each session of a broker without logs: its memory ends with process and session.

        If the logs of others are imported, the first record says that the logs of this one are missing.
        """
        if not self._cluster.has_any_log(broker) and self._broker_of_session.get(session_id) != broker:
            self._cluster.node(broker).end_incarnation()
            if self._cluster.has_logs and broker not in self._broker_of_session.values():
                self._cluster.node(broker).write(ms, RunDescribed(lost_logs=(broker_node(broker),)))
        self._broker_of_session[session_id] = broker

    def _registration_changed(self, written: Written, op: ZnodeOp, broker: int) -> None:
        transaction = written.transaction
        if op.kind is OpKind.CREATE:
            self._begin_incarnation(written.ms, broker, transaction.session_id)
            self._registered[broker] = transaction.zxid
            epoch, session_id = transaction.zxid, transaction.session_id
            registered = BrokerRegistered(broker_id=broker, broker_epoch=epoch, session_id=session_id)
            self._cluster.write_registration(self._cluster.node(broker), written.ms, registered, zxid=epoch)
            self._brokers_changed(written, new=(broker,))
        elif op.kind is OpKind.DELETE:
            self._registered.pop(broker, None)
            self._brokers_changed(written, dead=(broker,))

    def _brokers_changed(self, written: Written, *, new: tuple[int, ...] = (), dead: tuple[int, ...] = ()) -> None:
        node = self._controller_without_log()
        if self._controller is None or self._controller in dead:
            self._gone.update(dead)
        elif node is not None:
            live = tuple(sorted(self._registered))
            changed = BrokersChanged(new=new, dead=dead, bounced=(), live=live)
            node.write(written.ms, changed, zxid=written.transaction.zxid)

    def _topic_changed(self, written: Written, op: ZnodeOp, topic: str) -> None:
        node = self._controller_without_log()
        if op.kind is OpKind.DELETE:
            self._cluster.forget_topic(topic)
            if node is not None:
                node.write(written.ms, TopicsChanged(new=(), deleted=(topic,)), zxid=written.transaction.zxid)
            return
        is_new = topic not in self._cluster.topics
        self._cluster.topics[topic] = TopicZNode.decode(topic, op.data or b"").partitions
        if is_new and node is not None:
            node.write(written.ms, TopicsChanged(new=(topic,), deleted=()), zxid=written.transaction.zxid)

    def _controller_without_log(self) -> BrokerNode | None:
        """Return the controller; None if there is none, or if its controller.log is imported, which has the changes."""
        if self._controller is None or self._cluster.has_log(self._controller, EntryKind.CONTROLLER):
            return None
        return self._cluster.node(self._controller)

    # -- partition states

    def _state_written(self, written: Written, op: ZnodeOp, partition: TopicPartition) -> None:
        if op.kind is OpKind.DELETE:
            self._cluster.states.pop(partition, None)
            return
        transaction = written.transaction
        decoded = TopicPartitionStateZNode.decode(partition, op.data or b"", op.version)
        found = decoded.leader_and_isr
        state = Leadership(
            partition.topic,
            partition.partition,
            found.leader,
            found.leader_epoch,
            tuple(found.isr),
            op.version,
            decoded.controller_epoch,
            int(found.leader_recovery_state),
        )
        before = self._cluster.states.get(partition)
        is_created = op.kind is OpKind.CREATE
        writer = self._broker_of_session.get(transaction.session_id)
        if writer is None:
            self.unknown_writers += 1
        if writer is None or not self._cluster.is_newer(state, is_created=is_created):
            self._cluster.states[partition] = KnownState(state, transaction.zxid)
            return
        assignment = self._cluster.topics.get(partition.topic, {}).get(partition)
        if before is None and not is_created:
            why = ""
        else:
            why = reason(None if is_created else before, state, assignment, self._registered)
        self._cluster.write_leadership(self._cluster.node(writer), written.ms, why, state, zxid=transaction.zxid)
