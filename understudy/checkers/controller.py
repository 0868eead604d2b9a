"""What must hold of controllers: who may be one, what a deposed one may no longer do, and how an active one behaves.

The ids are those of the invariant catalogue, C1 to C9; C4 and C10 are in `control_requests`. The tables of legal
transitions are written down here a second time, from the lists in Kafka's `PartitionStateMachine` and
`ReplicaStateMachine`: a judge that borrows the tables of the judged proves nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from foundation.eventlog.records import (
    BrokerRegistered,
    ContextAtIdle,
    ControllerElected,
    ControllerResigned,
    Envelope,
    EventEnded,
    EventPreempted,
    EventQueued,
    EventStarted,
    FenceHit,
    InvalidTransition,
    LeadershipNotWritten,
    PartitionsMoved,
    ProcessExiting,
    ReplicasMoved,
    RequestSent,
    SessionOpened,
    TopicsChanged,
    ZkWrite,
    leadership_digest,
)
from understudy.checkers.check import Incarnation, InvariantCheck, incarnation_of
from understudy.checkers.facts import CONTROLLER, CONTROLLER_EPOCH, TOPICS, ClusterFacts, StateWrite, controller_epoch
from understudy.checkers.history import OpKind, ZnodeOp, ZnodeTransaction


class OneWinnerPerEpoch(InvariantCheck):
    id = "C1"
    sentence = (
        "at most one session is elected at a controller epoch, and it is the one whose transaction set that epoch"
    )
    reads = (ControllerElected,)

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._winners: dict[int, tuple[Incarnation, int]] = {}

    def on_record(self, record: Envelope) -> None:
        elected = record.data
        assert isinstance(elected, ControllerElected)
        self.judged += 1
        winner = (incarnation_of(record), elected.session_id)
        if (first := self._winners.setdefault(elected.epoch, winner)) != winner:
            self.violated(record, f"epoch {elected.epoch} was won by {first[0][0]} and by {record.node}")
        if self.facts.is_empty:
            return
        claimed = (elected.epoch, elected.epoch_zk_version, elected.session_id)
        if claimed not in {(vote.epoch, vote.epoch_zk_version, vote.session_id) for vote in self.facts.elections}:
            self.violated(record, f"no transaction of session {elected.session_id:#x} set epoch {elected.epoch}")


class ElectionIsOneTransaction(InvariantCheck):
    id = "C2"
    sentence = "a broker raises /controller_epoch by exactly one, in the transaction that creates its /controller"
    reads_transactions = True

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._epoch = 0

    def on_transaction(self, transaction: ZnodeTransaction) -> None:
        writes = [
            op for op in transaction.ops if op.path == CONTROLLER_EPOCH and op.kind in (OpKind.CREATE, OpKind.SET)
        ]
        for op in writes:
            before, self._epoch = self._epoch, controller_epoch(op) or 0
            if op.kind is OpKind.CREATE or transaction.session_id not in self.facts.broker_of_session:
                continue
            self.judged += 1
            if self._epoch != before + 1:
                self.violated(transaction, f"the epoch went from {before} to {self._epoch}")
            if not any(made.kind is OpKind.CREATE and made.path == CONTROLLER for made in transaction.ops):
                self.violated(transaction, f"epoch {self._epoch} was written without creating /controller")


class ControllerWritesAreFenced(InvariantCheck):
    id = "C3"
    sentence = (
        "a broker's write of controller state carries a check of the current version of "
        "/controller_epoch, but for the ISR a "
        "leader older than AlterPartition writes itself, and the controller epochs it leaves in "
        "partition states never decrease"
    )
    reads_transactions = True

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._epoch_version = -1
        self._newest = 0

    def on_transaction(self, transaction: ZnodeTransaction) -> None:
        # The version a check meets is the one before this transaction.
        version, self._epoch_version = self._epoch_version, self.facts.epoch_version
        if transaction.closed_session or transaction.session_id not in self.facts.broker_of_session:
            return
        by_leader = bool(self.facts.written) and all(write.by_leader for write in self.facts.written)
        if not by_leader and (op := next((op for op in transaction.ops if _needs_fence(op)), None)) is not None:
            self.judged += 1
            if not any(_checks_epoch(check, version) for check in transaction.ops):
                what = f"{op.kind.value} {op.path} without a check of /controller_epoch at version {version}"
                self.violated(transaction, what)
        for write in self.facts.written:
            self._compare_epochs(transaction, write)

    def _compare_epochs(self, transaction: ZnodeTransaction, write: StateWrite) -> None:
        if write.leader is None or write.by_leader:
            return
        # Of a znode also what an operator has put there counts: whoever finds a newer epoch than his own has to leave
        # it.
        newest = self._newest if write.replaced is None else max(self._newest, write.replaced.controller_epoch)
        if write.controller_epoch < newest:
            what = f"{_name(write.partition)} at controller epoch {write.controller_epoch}, after {newest} was seen"
            self.violated(transaction, what)
        self._newest = max(self._newest, write.controller_epoch)


def _checks_epoch(op: ZnodeOp, version: int) -> bool:
    return op.kind is OpKind.CHECK and op.path == CONTROLLER_EPOCH and op.version == version


def _needs_fence(op: ZnodeOp) -> bool:
    """The fenced writes of EL-13 that can be told from an API handler's by their path."""
    if op.kind is OpKind.CHECK:
        return False
    if op.path.startswith(TOPICS):
        return op.kind is OpKind.DELETE or "/partitions" in op.path.removeprefix(TOPICS)
    if op.kind is not OpKind.DELETE:
        return False
    return op.path in (
        CONTROLLER,
        "/admin/reassign_partitions",
        "/admin/preferred_replica_election",
    ) or op.path.startswith(
        ("/admin/delete_topics/", "/config/topics/", "/isr_change_notification/", "/log_dir_event_notification/")
    )


class SilenceAfterResignation(InvariantCheck):
    id = "C5"
    sentence = (
        "after a controller has resigned from an epoch it sends no request of that epoch and starts no write fenced "
        "with it"
    )
    reads = (ControllerElected, ControllerResigned, RequestSent, ZkWrite)

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._resigned: dict[Incarnation, int] = {}
        self._version: dict[Incarnation, dict[int, int]] = {}

    def on_record(self, record: Envelope) -> None:
        life, data = incarnation_of(record), record.data
        resigned = self._resigned.get(life, 0)
        if isinstance(data, ControllerElected):
            self._version.setdefault(life, {})[data.epoch] = data.epoch_zk_version
        elif isinstance(data, ControllerResigned):
            self._resigned[life] = max(resigned, data.epoch)
        elif isinstance(data, RequestSent):
            self.judged += resigned > 0
            if 0 < data.controller_epoch <= resigned:
                what = f"{data.api} of epoch {data.controller_epoch} sent to {data.to} after resigning from {resigned}"
                self.violated(record, what)
        elif isinstance(data, ZkWrite) and resigned and data.fenced:
            self.judged += 1
            # EL-10: the one write that is due after a resignation gives `/controller` back.
            version = self._version.get(life, {}).get(resigned, -1)
            if data.epoch_zk_version <= version and data.paths != (CONTROLLER,):
                self.violated(record, f"{data.purpose} of {data.paths[0]} after resigning from epoch {resigned}")


NOBODY_ELIGIBLE = "StateChangeFailed"
"""How a refusal is recorded that is the controller's own decision; any other names what ZooKeeper answered."""


class ContextIsTrue(InvariantCheck):
    id = "C6"
    sentence = (
        "a controller without events knows the live brokers and the partitions' states as ZooKeeper "
        "held them when it last "
        "read, but for ISRs that leaders older than AlterPartition have just written themselves"
    )
    reads = (LeadershipNotWritten, FenceHit, ContextAtIdle)

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._digests: dict[int, str] = {}
        self._excused: dict[Incarnation, int] = {}

    def on_record(self, record: Envelope) -> None:
        life, data = incarnation_of(record), record.data
        if isinstance(data, LeadershipNotWritten):
            # What could not be written or read is known to be unknown; the next controller reads it afresh. That nobody
            # was eligible excuses nothing.
            if any(refused.error != NOBODY_ELIGIBLE for refused in data.partitions):
                self._excused[life] = record.controller_epoch
            return
        if isinstance(data, FenceHit):
            # It has seen the state of a newer controller, and left it alone.
            if data.fence == "controller.state-controller-epoch":
                self._excused[life] = record.controller_epoch
            return
        assert isinstance(data, ContextAtIdle)
        if self.facts.is_empty or self._excused.get(life) == data.epoch:
            return
        self.judged += 1
        if tuple(sorted(data.live_brokers)) != (registered := self.facts.brokers_at(record.zxid)):
            self.violated(
                record, f"it believes in brokers {data.live_brokers}; registered at zxid {record.zxid}: {registered}"
            )
        known = data.leadership_digest == self._digest_at(record.zxid)
        if not known and not any(state.by_leader for state in self.facts.states_at(record.zxid)):
            self.violated(record, f"its leaderships differ from the znodes at zxid {record.zxid}")

    def _digest_at(self, zxid: int) -> str:
        position = bisect_right(self.facts.state_zxids, zxid)
        if position not in self._digests:
            states = (
                (*s.partition, s.leader or 0, s.leader_epoch, s.isr, s.version) for s in self.facts.states_at(zxid)
            )
            self._digests[position] = leadership_digest(states)
        return self._digests[position]


class _Open(NamedTuple):
    event_id: int
    event: str


class OneEventAtATime(InvariantCheck):
    id = "C7"
    sentence = (
        "a controller's events never overlap, start in the order they were queued, and each ends or is preempted once"
    )
    reads = (EventQueued, EventStarted, EventEnded, EventPreempted)

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._queued: dict[Incarnation, dict[int, str]] = {}
        self._running: dict[Incarnation, _Open | None] = {}

    def on_record(self, record: Envelope) -> None:
        life, data = incarnation_of(record), record.data
        queued = self._queued.setdefault(life, {})
        running = self._running.get(life)
        if isinstance(data, EventQueued):
            if data.event_id in queued:
                self.violated(record, f"event {data.event_id} was queued twice")
            queued[data.event_id] = data.event
        elif isinstance(data, EventPreempted):
            self.judged += 1
            is_running = running is not None and running.event_id == data.event_id
            if is_running and "ShutdownEventThread" in queued.values():
                # A broker that stops waits for the event in progress for so long only.
                self._running[life] = None
            elif queued.pop(data.event_id, None) is None:
                self.violated(record, f"{data.event} {data.event_id} was preempted, though it was not waiting")
        elif isinstance(data, EventStarted):
            self.judged += 1
            if running is not None:
                self.violated(record, f"{data.event} started while {running.event} was running")
            first = next(iter(queued), None)
            if first != data.event_id:
                self.violated(record, f"{data.event} {data.event_id} started, though {first} was first in the queue")
            queued.pop(data.event_id, None)
            self._running[life] = _Open(data.event_id, data.event)
        elif isinstance(data, EventEnded):
            if running is None or running.event_id != data.event_id:
                self.violated(record, f"{data.event} {data.event_id} ended, though it was not running")
            self._running[life] = None


class _Reign(NamedTuple):
    epoch: int
    session_id: int
    record: Envelope


class RoleFollowsSession(InvariantCheck):
    id = "C8"
    sentence = (
        "an active controller's own session owns /controller or is dead; a lost session's role ends "
        "before anything of the "
        "next session; and who owns /controller does not stay resigned"
    )
    reads = (SessionOpened, BrokerRegistered, ControllerElected, ControllerResigned, ContextAtIdle, ProcessExiting)

    GRACE_MS = 2_000.0
    """Beyond the session timeout, for what was on its way."""

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._session: dict[Incarnation, SessionOpened] = {}
        self._reign: dict[Incarnation, _Reign | None] = {}
        self._last: dict[Incarnation, Envelope] = {}
        self._resigned: dict[Incarnation, tuple[_Reign, Envelope]] = {}

    def on_record(self, record: Envelope) -> None:
        life, data = incarnation_of(record), record.data
        reign = self._reign.get(life)
        self._last[life] = record
        if isinstance(data, SessionOpened):
            self._session[life] = data
        elif isinstance(data, BrokerRegistered):
            self.judged += 1
            if reign is not None and reign.session_id != data.session_id:
                self.violated(record, f"registered in a new session while still controller of epoch {reign.epoch}")
        elif isinstance(data, ControllerElected):
            self._elected(record, data, reign)
        elif isinstance(data, ControllerResigned):
            if reign is not None:
                self._resigned[life] = (reign, record)
            self._reign[life] = None
        elif isinstance(data, ContextAtIdle) and reign is not None and not self.facts.is_empty:
            self._owns(record, reign)

    def _elected(self, record: Envelope, data: ControllerElected, reign: _Reign | None) -> None:
        life = incarnation_of(record)
        if reign is not None:
            self.violated(record, f"elected at epoch {data.epoch} while still controller of epoch {reign.epoch}")
        if (session := self._session.get(life)) and session.session_id != data.session_id:
            self.violated(record, f"elected in session {data.session_id:#x} after opening {session.session_id:#x}")
        self._reign[life] = _Reign(data.epoch, data.session_id, record)
        self._resigned.pop(life, None)

    def _owns(self, record: Envelope, reign: _Reign) -> None:
        self.judged += 1
        owner = self.facts.controller_at(record.zxid)
        ended = self.facts.session_ends.get(reign.session_id)
        dead = ended is not None and ended <= record.zxid
        if not dead and (owner is None or owner.session_id != reign.session_id):
            whose = "nobody" if owner is None else f"broker {owner.broker_id}"
            self.violated(record, f"idle as controller of epoch {reign.epoch} while {whose} owns /controller")

    def at_end(self) -> None:
        owner = self.facts.controller_at(self.facts.last_zxid)
        for life, (reign, resigned) in self._resigned.items():
            session = self._session.get(life)
            if owner is None or session is None or not owner.session_id == reign.session_id == session.session_id:
                continue
            last = self._last[life]
            waited_ms = last.mono_ms - resigned.mono_ms
            if not isinstance(last.data, ProcessExiting) and waited_ms > session.timeout_ms + self.GRACE_MS:
                self.violated(last, f"{life[0]} owns /controller, resigned from epoch {reign.epoch} and stays so")


PARTITION_SOURCES: dict[str, tuple[str, ...]] = {
    "NewPartition": ("NonExistentPartition",),
    "OnlinePartition": ("NewPartition", "OnlinePartition", "OfflinePartition"),
    "OfflinePartition": ("NewPartition", "OnlinePartition", "OfflinePartition"),
    "NonExistentPartition": ("OfflinePartition",),
}

REPLICA_SOURCES: dict[str, tuple[str, ...]] = {
    "NewReplica": ("NonExistentReplica",),
    "OnlineReplica": ("NewReplica", "OnlineReplica", "OfflineReplica", "ReplicaDeletionIneligible"),
    "OfflineReplica": ("NewReplica", "OnlineReplica", "OfflineReplica", "ReplicaDeletionIneligible"),
    "ReplicaDeletionStarted": ("OfflineReplica",),
    "ReplicaDeletionSuccessful": ("ReplicaDeletionStarted",),
    "ReplicaDeletionIneligible": ("OfflineReplica", "ReplicaDeletionStarted"),
    "NonExistentReplica": ("ReplicaDeletionSuccessful",),
}


class LegalTransitions(InvariantCheck):
    id = "C9"
    sentence = (
        "partitions and replicas move only along legal transitions, each from the state the last one left them in"
    )
    reads = (ControllerElected, TopicsChanged, PartitionsMoved, ReplicasMoved, InvalidTransition)

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._states: dict[Incarnation, dict[tuple[str, int, int], str]] = {}

    def on_record(self, record: Envelope) -> None:
        life, data = incarnation_of(record), record.data
        if isinstance(data, ControllerElected):
            self._states.pop(life, None)
        elif isinstance(data, TopicsChanged):
            # Whatever they were in when an operator took their znode away: one of the same name begins anew.
            states = self._states.get(life, {})
            self._states[life] = {key: state for key, state in states.items() if key[0] not in data.deleted}
        elif isinstance(data, InvalidTransition):
            self.violated(record, f"{data.topic}-{data.partition} was asked to go from {data.source} to {data.target}")
        elif isinstance(data, PartitionsMoved | ReplicasMoved):
            moved, sources = (
                (data.partitions, PARTITION_SOURCES)
                if isinstance(data, PartitionsMoved)
                else (data.replicas, REPLICA_SOURCES)
            )
            states, legal = self._states.setdefault(life, {}), sources.get(data.target, ())
            self.judged += len(moved)
            for transition in moved:
                key = (transition.topic, transition.partition, transition.replica)
                if transition.source not in legal:
                    self.violated(record, f"{_name(key[:2])} went from {transition.source} to {data.target}")
                if (known := states.get(key, transition.source)) != transition.source:
                    self.violated(record, f"{_name(key[:2])} left {transition.source}, though it was in {known}")
                states[key] = data.target


def _name(partition: tuple[object, ...]) -> str:
    return f"{partition[0]}-{partition[1]}"


CHECKS: tuple[type[InvariantCheck], ...] = (
    OneWinnerPerEpoch,
    ElectionIsOneTransaction,
    ControllerWritesAreFenced,
    SilenceAfterResignation,
    ContextIsTrue,
    OneEventAtATime,
    RoleFollowsSession,
    LegalTransitions,
)
