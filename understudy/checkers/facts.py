"""What the znode history means for a Kafka cluster: states, assignments, registrations, elections, the ends of
sessions.

Decodes the few znodes the checks read with a reader of its own, so that a mistake in the product's decoders cannot hide
itself. A znode that is not what Kafka writes is left out here; that it appears at all is for contract tests to notice.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from understudy.checkers.history import OpKind, ZnodeOp, ZnodeTransaction

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
FEATURE = "/feature"
BROKERS = "/brokers/ids/"
TOPICS = "/brokers/topics/"

FIRST_REGISTRATION_OF_ALTER_PARTITION = 5
"""Below this version of its registration a broker's protocol is older than AlterPartition: it changes the ISRs it leads
itself.

So do those of 2.7-IV0 and 2.7-IV1, two steps inside one release, whose registrations look like later ones."""

FIRST_FEATURE_OF_RECOVERY = 2

Partition: TypeAlias = tuple[str, int]


class _State(msgspec.Struct, frozen=True, gc=False):
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    leader_recovery_state: int = 0


class _Topic(msgspec.Struct, frozen=True):
    partitions: dict[str, tuple[int, ...]]
    adding_replicas: dict[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    removing_replicas: dict[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    topic_id: str = ""


class _Broker(msgspec.Struct, frozen=True, gc=False):
    version: int


class _Feature(msgspec.Struct, frozen=True, gc=False):
    version: int


class _Controller(msgspec.Struct, frozen=True, gc=False):
    brokerid: int


_decode_state = msgspec.json.Decoder(_State).decode
_decode_topic = msgspec.json.Decoder(_Topic).decode
_decode_broker = msgspec.json.Decoder(_Broker).decode
_decode_feature = msgspec.json.Decoder(_Feature).decode
_decode_controller = msgspec.json.Decoder(_Controller).decode


class StateWrite(NamedTuple):
    """A partition's state as one transaction left it; `leader` is None where the transaction deleted it."""

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
    """The state before it; None after a creation."""
    by_leader: bool = False
    """A leader of an old protocol has changed the ISR, and nothing else, by itself."""


class Placement(NamedTuple):
    """Where a partition's replicas belong."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_moving(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def targets(self) -> tuple[int, ...]:
        return tuple(replica for replica in self.replicas if replica not in self.removing)


class TopicWrite(NamedTuple):
    """A topic's znode as one transaction left it; `after` is empty where it was deleted, `before` where it was
    created."""

    topic: str
    before: Mapping[int, Placement]
    after: Mapping[int, Placement]
    topic_id_before: str
    topic_id: str


class Election(NamedTuple):
    """A transaction that changed `/controller_epoch`."""

    zxid: int
    epoch: int
    epoch_zk_version: int
    session_id: int


class Registration(NamedTuple):
    """A life of an ephemeral znode: `/controller` or `/brokers/ids/N`."""

    session_id: int
    broker_id: int
    since: int
    """zxid of its creation: the broker epoch."""
    until: int | None
    """zxid of its deletion."""


class ClusterFacts:
    """The history so far. Questions about the past take a zxid and see what was true after that transaction."""

    def __init__(self) -> None:
        self.last_zxid = 0
        self.epoch_version = -1
        self.elections: list[Election] = []
        self.controllers: list[Registration] = []
        self.registrations: dict[int, list[Registration]] = {}
        self.session_ends: dict[int, int] = {}
        self.broker_of_session: dict[int, int] = {}
        self.marks_unclean_elections = True
        """False while the controller's protocol may be older than the mark: the version of `/feature`, which every
        controller writes before it elects anybody, grew one release after it."""
        self._sessions_of_old_protocols: set[int] = set()
        self.states: dict[Partition, list[StateWrite]] = {}
        self.written: list[StateWrite] = []
        """The states the latest transaction wrote or deleted."""
        self.state_zxids: list[int] = []
        """Every transaction that touched a partition's state, in order."""
        self.leaders: dict[tuple[Partition, int], set[int]] = {}
        """Whom ZooKeeper has named as leader of a partition at a leader epoch."""
        self._by_version: dict[tuple[Partition, int], list[StateWrite]] = {}
        self.placed: list[TopicWrite] = []
        """The topics whose znodes the latest transaction wrote or deleted."""
        self._topics: dict[str, tuple[dict[int, Placement], str]] = {}
        self._assignments: dict[Partition, tuple[int, ...]] = {}
        self._leaving: dict[Partition, tuple[int, ...]] = {}
        self._lingering: dict[Partition, tuple[int, ...]] = {}
        """Dropped by reassignments before the latest, and in the ISR ever since."""

    @property
    def is_empty(self) -> bool:
        return self.last_zxid == 0

    def append(self, transaction: ZnodeTransaction) -> None:
        self.written = []
        self.placed = []
        for op in transaction.ops:
            self._take(transaction, op)
        if self.written:
            self.state_zxids.append(transaction.zxid)
        if transaction.closed_session:
            self.session_ends[transaction.session_id] = transaction.zxid
        self.last_zxid = transaction.zxid

    # -- questions

    def allowed_in_isr(self, partition: Partition) -> tuple[int, ...] | None:
        """The assigned replicas, those just dropped by a reassignment, and those that an earlier one dropped and that
        have not left the ISR since; None where the topic is unknown."""
        replicas = self._assignments.get(partition)
        if replicas is None:
            return None
        return replicas + self._leaving.get(partition, ()) + self._lingering.get(partition, ())

    def states_at(self, zxid: int) -> Iterator[StateWrite]:
        """All partition states that existed after `zxid`, in order of topic and partition."""
        for partition in sorted(self.states):
            writes = self.states[partition]
            position = bisect_right(writes, zxid, key=_zxid) - 1
            if position >= 0 and writes[position].leader is not None:
                yield writes[position]

    def brokers_at(self, zxid: int) -> tuple[tuple[int, int], ...]:
        """(broker, broker epoch) registered after `zxid`, sorted."""
        return tuple(
            (broker, life.since)
            for broker in sorted(self.registrations)
            for life in self.registrations[broker]
            if _alive(life, zxid)
        )

    def controller_at(self, zxid: int) -> Registration | None:
        """Who owned `/controller` after `zxid`."""
        return next((life for life in reversed(self.controllers) if _alive(life, zxid)), None)

    def state(self, partition: Partition, version: int) -> list[StateWrite]:
        """Every write that left `partition` at `version`: more than one where the topic was deleted and created
        again."""
        return self._by_version.get((partition, version), [])

    # -- folding

    def _take(self, transaction: ZnodeTransaction, op: ZnodeOp) -> None:
        path = op.path
        if op.kind is OpKind.CHECK:
            return
        if path.startswith(TOPICS):
            topic, _, rest = path.removeprefix(TOPICS).partition("/")
            if not rest:
                self._take_topic(topic, op)
            elif rest.endswith("/state") and (number := rest.split("/")[1]).isdigit():
                self._take_state((topic, int(number)), transaction, op)
        elif path.startswith(BROKERS) and (broker := path.removeprefix(BROKERS)).isdigit():
            self._take_life(self.registrations.setdefault(int(broker), []), transaction, op)
            self._take_protocol(transaction, op)
        elif path == CONTROLLER:
            self._take_life(self.controllers, transaction, op)
        elif path == FEATURE and op.data:
            self._take_feature(op.data)
        elif path == CONTROLLER_EPOCH and op.kind is not OpKind.DELETE:
            self.epoch_version = op.version
            if op.kind is OpKind.SET and (epoch := controller_epoch(op)) is not None:
                self.elections.append(Election(transaction.zxid, epoch, op.version, transaction.session_id))

    def _take_life(self, lives: list[Registration], transaction: ZnodeTransaction, op: ZnodeOp) -> None:
        if op.kind is OpKind.CREATE:
            broker = _broker_of(op)
            lives.append(Registration(op.ephemeral_owner, broker, transaction.zxid, None))
            if op.ephemeral_owner:
                self.broker_of_session.setdefault(op.ephemeral_owner, broker)
        elif op.kind is OpKind.DELETE and lives:
            lives[-1] = lives[-1]._replace(until=transaction.zxid)

    def _take_protocol(self, transaction: ZnodeTransaction, op: ZnodeOp) -> None:
        try:
            version = _decode_broker(op.data or b"").version
        except msgspec.MsgspecError:
            return
        if version < FIRST_REGISTRATION_OF_ALTER_PARTITION:
            self._sessions_of_old_protocols.add(transaction.session_id)

    def _take_feature(self, data: bytes) -> None:
        with contextlib.suppress(msgspec.MsgspecError):
            self.marks_unclean_elections = _decode_feature(data).version >= FIRST_FEATURE_OF_RECOVERY

    def _take_topic(self, topic: str, op: ZnodeOp) -> None:
        placed, id_before = self._topics.pop(topic, ({}, ""))
        if op.kind is OpKind.DELETE:
            self.placed.append(TopicWrite(topic, placed, {}, id_before, ""))
            for partition in [known for known in self._assignments if known[0] == topic]:
                self._assignments.pop(partition)
                self._leaving.pop(partition, None)
                self._lingering.pop(partition, None)
            return
        try:
            decoded = _decode_topic(op.data or b"")
        except msgspec.MsgspecError:
            return
        after = {
            int(name): Placement(
                replicas, decoded.adding_replicas.get(name, ()), decoded.removing_replicas.get(name, ())
            )
            for name, replicas in decoded.partitions.items()
        }
        self._topics[topic] = after, decoded.topic_id
        self.placed.append(TopicWrite(topic, placed, after, id_before, decoded.topic_id))
        for name, replicas in decoded.partitions.items():
            partition = (topic, int(name))
            before, writes = self._assignments.get(partition, ()), self.states.get(partition)
            in_sync = writes[-1].isr if writes else ()
            dropped = (*self._leaving.get(partition, ()), *self._lingering.get(partition, ()))
            self._assignments[partition] = replicas
            self._leaving[partition] = tuple(replica for replica in before if replica not in replicas)
            self._lingering[partition] = tuple(r for r in dropped if r in in_sync and r not in replicas)

    def _take_state(self, partition: Partition, transaction: ZnodeTransaction, op: ZnodeOp) -> None:
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
            if lingering := self._lingering.get(partition):
                self._lingering[partition] = tuple(replica for replica in lingering if replica in state.isr)
            self.leaders.setdefault((partition, state.leader_epoch), set()).add(state.leader)
        writes.append(write)
        self.written.append(write)

    def _is_by_leader(self, write: StateWrite) -> bool:
        before = write.replaced
        return (
            before is not None
            and write.session_id in self._sessions_of_old_protocols
            and self.broker_of_session[write.session_id] == write.leader
            and (before.leader, before.leader_epoch, before.controller_epoch)
            == (write.leader, write.leader_epoch, write.controller_epoch)
        )


def controller_epoch(op: ZnodeOp) -> int | None:
    """What a write of `/controller_epoch` wrote; None where it is no number."""
    data = op.data or b""
    return int(data) if data.isdigit() else None


def _broker_of(op: ZnodeOp) -> int:
    if op.path.startswith(BROKERS):
        return int(op.path.removeprefix(BROKERS))
    try:
        return _decode_controller(op.data or b"").brokerid
    except msgspec.MsgspecError:
        return -1


def _alive(life: Registration, zxid: int) -> bool:
    return life.since <= zxid and (life.until is None or life.until > zxid)


def _zxid(write: StateWrite) -> int:
    return write.zxid
