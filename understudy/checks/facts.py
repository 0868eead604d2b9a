"""`ClusterFacts` decodes the history of the znodes: partition states, assignments, registrations, controller elections
and ends of sessions.

It has its own decoders, so that a mistake in `understudy.foundation.zk.znodes` does not hide itself. A znode that
Kafka could not have written is left out; other tests compare the bytes that brokers write.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from understudy.checks.history import OpKind, ZnodeOp, ZnodeTransaction

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
FEATURE = "/feature"
BROKERS = "/brokers/ids/"
TOPICS = "/brokers/topics/"

FIRST_REGISTRATION_WITH_ALTER_PARTITION = 5
"""Lowest version of the registration of brokers that use AlterPartition; older leaders write their ISRs themselves.
Leaders at 2.7-IV0 and 2.7-IV1 also do so, but their registrations have the version of later brokers."""

FIRST_FEATURE_WITH_RECOVERY_STATE = 2
"""The first version of `/feature` at which controllers certainly write the leader recovery state."""

Partition: TypeAlias = tuple[str, int]


class _PartitionStateZNode(msgspec.Struct, frozen=True, gc=False):
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    leader_recovery_state: int = 0


class _TopicZNode(msgspec.Struct, frozen=True):
    partitions: dict[str, tuple[int, ...]]
    adding_replicas: dict[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    removing_replicas: dict[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    topic_id: str = ""


class _VersionedZNode(msgspec.Struct, frozen=True, gc=False):
    version: int


class _ControllerZNode(msgspec.Struct, frozen=True, gc=False):
    brokerid: int


_decode_state = msgspec.json.Decoder(_PartitionStateZNode).decode
_decode_topic = msgspec.json.Decoder(_TopicZNode).decode
_decode_version = msgspec.json.Decoder(_VersionedZNode).decode
_decode_controller = msgspec.json.Decoder(_ControllerZNode).decode


class StateWrite(NamedTuple):
    """A partition's state after one transaction; `leader` is None if the transaction deleted the state."""

    zxid: int
    partition: Partition
    session_id: int
    version: int
    leader: int | None
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    leader_recovery_state: int
    replaced: StateWrite | None
    """The state before the transaction; None if it did not exist."""
    by_leader: bool = False
    """Whether a leader older than AlterPartition wrote it and changed nothing but the ISR."""


class PartitionAssignment(NamedTuple):
    """A partition's replicas as its topic's znode assigns them."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_being_reassigned(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target_replicas(self) -> tuple[int, ...]:
        return tuple(replica for replica in self.replicas if replica not in self.removing)


class TopicWrite(NamedTuple):
    """A topic's znode before and after one transaction that wrote or deleted it."""

    name: str
    before: Mapping[int, PartitionAssignment]
    """The assignments by partition; empty if the topic did not exist."""
    after: Mapping[int, PartitionAssignment]
    """The assignments by partition; empty if the topic was deleted."""
    id_before: str
    id_after: str


class WonElection(NamedTuple):
    """A transaction that changed `/controller_epoch`, as each controller election does."""

    zxid: int
    epoch: int
    epoch_zk_version: int
    session_id: int


class BrokerRegistration(NamedTuple):
    """An ephemeral znode of a broker, `/brokers/ids/N` or `/controller`, from its creation to its deletion."""

    session_id: int
    broker_id: int
    since: int
    """The zxid of its creation; for `/brokers/ids/N` this is the broker epoch."""
    until: int | None
    """The zxid of its deletion; None while it exists."""


class ClusterFacts:
    """The state of a cluster after the transactions appended so far, and its past.

    Methods that take a zxid return what was true right after that transaction.
    """

    def __init__(self) -> None:
        self.last_zxid = 0
        self.epoch_version = -1
        self.elections: list[WonElection] = []
        self.controllers: list[BrokerRegistration] = []
        """The owners of `/controller`, in order."""
        self.registrations: dict[int, list[BrokerRegistration]] = {}
        """The registrations of each broker id, in order."""
        self.session_ends: dict[int, int] = {}
        """The zxid at which each session ended."""
        self.broker_of_session: dict[int, int] = {}
        self.marks_unclean_elections = True
        """Whether controllers certainly write the leader recovery state. Every controller writes `/feature` before its
        first leader election, but with a version that was raised only one release after the recovery state came."""
        self._sessions_without_alter_partition: set[int] = set()
        self.states: dict[Partition, list[StateWrite]] = {}
        """All writes of each partition's state, in order."""
        self.states_written: list[StateWrite] = []
        """The states that the latest transaction wrote or deleted."""
        self.state_zxids: list[int] = []
        """The zxids of all transactions that wrote or deleted a partition state, in order."""
        self.leaders: dict[tuple[Partition, int], set[int]] = {}
        """The brokers that ZooKeeper has named as leader of a partition at a leader epoch."""
        self._by_version: dict[tuple[Partition, int], list[StateWrite]] = {}
        self.topics_written: list[TopicWrite] = []
        """The topics whose znodes the latest transaction wrote or deleted."""
        self._topics: dict[str, tuple[dict[int, PartitionAssignment], str]] = {}
        self._assignments: dict[Partition, tuple[int, ...]] = {}
        self._dropped: dict[Partition, tuple[int, ...]] = {}
        """Replicas that the latest write of the topic's znode removed from the assignment."""
        self._dropped_before: dict[Partition, tuple[int, ...]] = {}
        """Replicas that earlier writes removed from the assignment, and that have been in the ISR ever since."""

    @property
    def is_empty(self) -> bool:
        """Whether no transaction was appended, for example because only the event logs of a run are checked."""
        return self.last_zxid == 0

    def append(self, transaction: ZnodeTransaction) -> None:
        """Append the next transaction, in order of zxid."""
        self.states_written = []
        self.topics_written = []
        for op in transaction.ops:
            self._apply(transaction, op)
        if self.states_written:
            self.state_zxids.append(transaction.zxid)
        if transaction.closed_session:
            self.session_ends[transaction.session_id] = transaction.zxid
        self.last_zxid = transaction.zxid

    # -- queries

    def allowed_in_isr(self, partition: Partition) -> tuple[int, ...] | None:
        """Return the replicas that may be in a partition's ISR, or None if the topic is unknown.

        These are the assigned replicas, those that the latest write of the topic's znode removed from the assignment,
        and those that an earlier write removed and that have not left the ISR since.
        """
        replicas = self._assignments.get(partition)
        if replicas is None:
            return None
        return replicas + self._dropped.get(partition, ()) + self._dropped_before.get(partition, ())

    def states_at(self, zxid: int) -> Iterator[StateWrite]:
        """Yield all partition states that existed after `zxid`, in order of topic and partition."""
        for partition in sorted(self.states):
            writes = self.states[partition]
            position = bisect_right(writes, zxid, key=_zxid) - 1
            if position >= 0 and writes[position].leader is not None:
                yield writes[position]

    def brokers_at(self, zxid: int) -> tuple[tuple[int, int], ...]:
        """Return (broker, broker epoch) of each broker registered after `zxid`, sorted."""
        return tuple(
            (broker, registration.since)
            for broker in sorted(self.registrations)
            for registration in self.registrations[broker]
            if _existed(registration, zxid)
        )

    def controller_at(self, zxid: int) -> BrokerRegistration | None:
        """Return the owner of `/controller` after `zxid`, or None."""
        return next((owner for owner in reversed(self.controllers) if _existed(owner, zxid)), None)

    def writes_at_version(self, partition: Partition, version: int) -> list[StateWrite]:
        """Return every write of `partition` at `version`: several if the topic was deleted and created again."""
        return self._by_version.get((partition, version), [])

    # -- applying operations

    def _apply(self, transaction: ZnodeTransaction, op: ZnodeOp) -> None:
        path = op.path
        if op.kind is OpKind.CHECK:
            return
        if path.startswith(TOPICS):
            topic, _, rest = path.removeprefix(TOPICS).partition("/")
            if not rest:
                self._apply_topic(topic, op)
            elif rest.endswith("/state") and (number := rest.split("/")[1]).isdigit():
                self._apply_state((topic, int(number)), transaction, op)
        elif path.startswith(BROKERS) and (broker := path.removeprefix(BROKERS)).isdigit():
            self._apply_registration(self.registrations.setdefault(int(broker), []), transaction, op)
            self._apply_registration_version(transaction, op)
        elif path == CONTROLLER:
            self._apply_registration(self.controllers, transaction, op)
        elif path == FEATURE and op.data:
            self._apply_feature(op.data)
        elif path == CONTROLLER_EPOCH and op.kind is not OpKind.DELETE:
            self.epoch_version = op.version
            if op.kind is OpKind.SET and (epoch := controller_epoch(op)) is not None:
                self.elections.append(WonElection(transaction.zxid, epoch, op.version, transaction.session_id))

    def _apply_registration(
        self, registrations: list[BrokerRegistration], transaction: ZnodeTransaction, op: ZnodeOp
    ) -> None:
        if op.kind is OpKind.CREATE:
            broker = _broker_of(op)
            registrations.append(BrokerRegistration(op.ephemeral_owner, broker, transaction.zxid, None))
            if op.ephemeral_owner:
                self.broker_of_session.setdefault(op.ephemeral_owner, broker)
        elif op.kind is OpKind.DELETE and registrations:
            registrations[-1] = registrations[-1]._replace(until=transaction.zxid)

    def _apply_registration_version(self, transaction: ZnodeTransaction, op: ZnodeOp) -> None:
        try:
            version = _decode_version(op.data or b"").version
        except msgspec.MsgspecError:
            return
        if version < FIRST_REGISTRATION_WITH_ALTER_PARTITION:
            self._sessions_without_alter_partition.add(transaction.session_id)

    def _apply_feature(self, data: bytes) -> None:
        with contextlib.suppress(msgspec.MsgspecError):
            self.marks_unclean_elections = _decode_version(data).version >= FIRST_FEATURE_WITH_RECOVERY_STATE

    def _apply_topic(self, topic: str, op: ZnodeOp) -> None:
        assignments_before, id_before = self._topics.pop(topic, ({}, ""))
        if op.kind is OpKind.DELETE:
            self.topics_written.append(TopicWrite(topic, assignments_before, {}, id_before, ""))
            for partition in [known for known in self._assignments if known[0] == topic]:
                self._assignments.pop(partition)
                self._dropped.pop(partition, None)
                self._dropped_before.pop(partition, None)
            return
        try:
            decoded = _decode_topic(op.data or b"")
        except msgspec.MsgspecError:
            return
        after = {
            int(name): PartitionAssignment(
                replicas, decoded.adding_replicas.get(name, ()), decoded.removing_replicas.get(name, ())
            )
            for name, replicas in decoded.partitions.items()
        }
        self._topics[topic] = after, decoded.topic_id
        self.topics_written.append(TopicWrite(topic, assignments_before, after, id_before, decoded.topic_id))
        for name, replicas in decoded.partitions.items():
            partition = (topic, int(name))
            before, writes = self._assignments.get(partition, ()), self.states.get(partition)
            in_sync = writes[-1].isr if writes else ()
            dropped_before = (*self._dropped.get(partition, ()), *self._dropped_before.get(partition, ()))
            self._assignments[partition] = replicas
            self._dropped[partition] = tuple(replica for replica in before if replica not in replicas)
            self._dropped_before[partition] = tuple(r for r in dropped_before if r in in_sync and r not in replicas)

    def _apply_state(self, partition: Partition, transaction: ZnodeTransaction, op: ZnodeOp) -> None:
        writes = self.states.setdefault(partition, [])
        before = writes[-1] if writes and writes[-1].leader is not None else None
        zxid, session_id = transaction.zxid, transaction.session_id
        if op.kind is OpKind.DELETE:
            write = StateWrite(zxid, partition, session_id, op.version, None, -1, (), -1, 0, before)
        else:
            try:
                state = _decode_state(op.data or b"")
            except msgspec.MsgspecError:
                return
            write = StateWrite(
                zxid,
                partition,
                session_id,
                op.version,
                state.leader,
                state.leader_epoch,
                state.isr,
                state.controller_epoch,
                state.leader_recovery_state,
                before,
            )
            write = write._replace(by_leader=self._is_by_leader(write))
            self._by_version.setdefault((partition, op.version), []).append(write)
            if dropped := self._dropped_before.get(partition):
                self._dropped_before[partition] = tuple(replica for replica in dropped if replica in state.isr)
            self.leaders.setdefault((partition, state.leader_epoch), set()).add(state.leader)
        writes.append(write)
        self.states_written.append(write)

    def _is_by_leader(self, write: StateWrite) -> bool:
        before = write.replaced
        return (
            before is not None
            and write.session_id in self._sessions_without_alter_partition
            and self.broker_of_session[write.session_id] == write.leader
            and (before.leader, before.leader_epoch, before.controller_epoch)
            == (write.leader, write.leader_epoch, write.controller_epoch)
        )


def name_of(partition: tuple[object, ...]) -> str:
    """Return the name of a partition as Kafka's logs have it: `orders-0`."""
    return f"{partition[0]}-{partition[1]}"


def controller_epoch(op: ZnodeOp) -> int | None:
    """Return the epoch that a write of `/controller_epoch` wrote; None if it is not a number."""
    data = op.data or b""
    return int(data) if data.isdigit() else None


def _broker_of(op: ZnodeOp) -> int:
    if op.path.startswith(BROKERS):
        return int(op.path.removeprefix(BROKERS))
    try:
        return _decode_controller(op.data or b"").brokerid
    except msgspec.MsgspecError:
        return -1


def _existed(registration: BrokerRegistration, zxid: int) -> bool:
    return registration.since <= zxid and (registration.until is None or registration.until > zxid)


def _zxid(write: StateWrite) -> int:
    return write.zxid
