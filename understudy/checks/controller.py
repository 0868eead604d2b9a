"""Invariants of controllers: their election, their writes, their resignation, their events and state transitions (C1 to
C9; C4, C10 and C11 are in `control_requests`).

The valid transitions are written down here a second time, from the lists in Kafka's `PartitionStateMachine` and
`ReplicaStateMachine`. With the controller's own tables a mistake in them would not be found.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from understudy.checks.check import Incarnation, InvariantCheck, incarnation_of
from understudy.checks.facts import (
    CONTROLLER,
    CONTROLLER_EPOCH,
    TOPICS,
    ClusterFacts,
    StateWrite,
    controller_epoch,
    name_of,
)
from understudy.checks.history import OpKind, ZnodeOp, ZnodeTransaction
from understudy.checks.missing import RefutedBy
from understudy.foundation.eventlog.records import (
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


class OneControllerPerEpoch(InvariantCheck):
    id = "C1"
    sentence = (
        "at most one session is elected at a controller epoch, and it is the one whose transaction set that epoch"
    )
    refuted_by = RefutedBy.NOTHING
    reads = (ControllerElected,)

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._elected: dict[int, tuple[Incarnation, int]] = {}

    def on_record(self, record: Envelope) -> None:
        elected = record.data
        assert isinstance(elected, ControllerElected)
        self.times_tested += 1
        controller = (incarnation_of(record), elected.session_id)
        if (first := self._elected.setdefault(elected.epoch, controller)) != controller:
            self.violated(record, f"{first[0][0]} and {record.node} were both elected at epoch {elected.epoch}")
        if self.facts.is_empty:
            return
        recorded = (elected.epoch, elected.epoch_zk_version, elected.session_id)
        if recorded not in {(e.epoch, e.epoch_zk_version, e.session_id) for e in self.facts.elections}:
            self.violated(record, f"no transaction of session {elected.session_id:#x} set epoch {elected.epoch}")


class ElectionIsOneTransaction(InvariantCheck):
    id = "C2"
    sentence = "a broker raises /controller_epoch by exactly one, in the transaction that creates its /controller"
    refuted_by = RefutedBy.NOTHING
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
            self.times_tested += 1
            if self._epoch != before + 1:
                self.violated(transaction, f"the epoch went from {before} to {self._epoch}")
            if not any(other.kind is OpKind.CREATE and other.path == CONTROLLER for other in transaction.ops):
                self.violated(transaction, f"epoch {self._epoch} was written without creating /controller")


class ControllerWritesAreFenced(InvariantCheck):
    id = "C3"
    sentence = (
        "a broker's write of controller state carries a check of the current version of /controller_epoch, except for "
        "the ISR that a leader older than AlterPartition writes itself, and the controller epochs that brokers write "
        "into partition states never decrease"
    )
    refuted_by = RefutedBy.NOTHING
    reads_transactions = True

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._epoch_version = -1
        self._newest = 0

    def on_transaction(self, transaction: ZnodeTransaction) -> None:
        # A check compares with the version before this transaction.
        version, self._epoch_version = self._epoch_version, self.facts.epoch_version
        if transaction.closed_session or transaction.session_id not in self.facts.broker_of_session:
            return
        by_leader = bool(self.facts.states_written) and all(write.by_leader for write in self.facts.states_written)
        if not by_leader and (op := next((op for op in transaction.ops if _needs_fence(op)), None)) is not None:
            self.times_tested += 1
            if not any(_checks_epoch(check, version) for check in transaction.ops):
                what = f"{op.kind.value} {op.path} without a check of /controller_epoch at version {version}"
                self.violated(transaction, what)
        for write in self.facts.states_written:
            self._compare_epochs(transaction, write)

    def _compare_epochs(self, transaction: ZnodeTransaction, write: StateWrite) -> None:
        if write.leader is None or write.by_leader:
            return
        # A newer epoch counts even if an operator wrote it: a controller must not overwrite such a state.
        newest = self._newest if write.replaced is None else max(self._newest, write.replaced.controller_epoch)
        if write.controller_epoch < newest:
            what = f"{name_of(write.partition)} at controller epoch {write.controller_epoch}, after {newest} was seen"
            self.violated(transaction, what)
        self._newest = max(self._newest, write.controller_epoch)


def _checks_epoch(op: ZnodeOp, version: int) -> bool:
    return op.kind is OpKind.CHECK and op.path == CONTROLLER_EPOCH and op.version == version


def _needs_fence(op: ZnodeOp) -> bool:
    """Return whether only a controller may apply `op`, as far as its path shows.

    API handlers write some paths without a fence, as in Kafka; those cannot be distinguished here (EL-13).
    """
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


class NoRequestOrWriteAfterResignation(InvariantCheck):
    id = "C5"
    sentence = (
        "a controller that has resigned from an epoch sends no request of that epoch and starts no write fenced with it"
    )
    refuted_by = RefutedBy.NOTHING
    reads = (ControllerElected, ControllerResigned, RequestSent, ZkWrite)

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._resigned: dict[Incarnation, int] = {}
        self._epoch_versions: dict[Incarnation, dict[int, int]] = {}

    def on_record(self, record: Envelope) -> None:
        incarnation, data = incarnation_of(record), record.data
        resigned = self._resigned.get(incarnation, 0)
        if isinstance(data, ControllerElected):
            self._epoch_versions.setdefault(incarnation, {})[data.epoch] = data.epoch_zk_version
        elif isinstance(data, ControllerResigned):
            self._resigned[incarnation] = max(resigned, data.epoch)
        elif isinstance(data, RequestSent):
            self.times_tested += resigned > 0
            if 0 < data.controller_epoch <= resigned:
                what = f"{data.api} of epoch {data.controller_epoch} sent to {data.to} after resigning from {resigned}"
                self.violated(record, what)
        elif isinstance(data, ZkWrite) and resigned and data.fenced:
            self.times_tested += 1
            # A controller that resigns by itself deletes its `/controller` afterwards (EL-10).
            version = self._epoch_versions.get(incarnation, {}).get(resigned, -1)
            if data.epoch_zk_version <= version and data.paths != (CONTROLLER,):
                self.violated(record, f"{data.purpose} of {data.paths[0]} after resigning from epoch {resigned}")


NO_ELIGIBLE_LEADER = "StateChangeFailed"
"""The error of a partition for which the controller found no leader; every other error is ZooKeeper's."""


class ContextMatchesZooKeeper(InvariantCheck):
    id = "C6"
    sentence = (
        "an idle controller's context holds the live brokers and partition states that ZooKeeper held when the "
        "controller last read it, except for ISRs that leaders older than AlterPartition have just written themselves"
    )
    refuted_by = RefutedBy.EARLIER_OF_INCARNATION
    reads = (LeadershipNotWritten, FenceHit, ContextAtIdle)

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._digests: dict[int, str] = {}
        self._may_differ: dict[Incarnation, int] = {}
        """The controller epoch in which a controller's context may differ from ZooKeeper."""

    def on_record(self, record: Envelope) -> None:
        incarnation, data = incarnation_of(record), record.data
        if isinstance(data, LeadershipNotWritten):
            # After a write that failed in ZooKeeper the context may differ until the next controller reads everything.
            # An election without an eligible leader wrote nothing, so the context must still match.
            if any(refused.error != NO_ELIGIBLE_LEADER for refused in data.partitions):
                self._may_differ[incarnation] = record.controller_epoch
            return
        if isinstance(data, FenceHit):
            # The controller read the state of a newer controller and left it as it is.
            if data.fence == "controller.state-controller-epoch":
                self._may_differ[incarnation] = record.controller_epoch
            return
        assert isinstance(data, ContextAtIdle)
        if self.facts.is_empty or self._may_differ.get(incarnation) == data.epoch:
            return
        self.times_tested += 1
        if tuple(sorted(data.live_brokers)) != (registered := self.facts.brokers_at(record.zxid)):
            what = f"its live brokers are {data.live_brokers}, registered at zxid {record.zxid} are {registered}"
            self.violated(record, what)
        same = data.leadership_digest == self._digest_at(record.zxid)
        if not same and not any(state.by_leader for state in self.facts.states_at(record.zxid)):
            self.violated(record, f"its partition states differ from the znodes at zxid {record.zxid}")

    def _digest_at(self, zxid: int) -> str:
        position = bisect_right(self.facts.state_zxids, zxid)
        if position not in self._digests:
            states = (
                (*s.partition, s.leader or 0, s.leader_epoch, s.isr, s.version) for s in self.facts.states_at(zxid)
            )
            self._digests[position] = leadership_digest(states)
        return self._digests[position]


class _RunningEvent(NamedTuple):
    event_id: int
    event: str


class OneEventAtATime(InvariantCheck):
    id = "C7"
    sentence = (
        "a controller handles one event at a time, in the order in which they were queued, and each event ends or is "
        "preempted once"
    )
    refuted_by = RefutedBy.EARLIER_OF_INCARNATION
    reads = (EventQueued, EventStarted, EventEnded, EventPreempted)

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._queued: dict[Incarnation, dict[int, str]] = {}
        self._running: dict[Incarnation, _RunningEvent | None] = {}

    def on_record(self, record: Envelope) -> None:
        incarnation, data = incarnation_of(record), record.data
        queued = self._queued.setdefault(incarnation, {})
        running = self._running.get(incarnation)
        if isinstance(data, EventQueued):
            if data.event_id in queued:
                self.violated(record, f"event {data.event_id} was queued twice")
            queued[data.event_id] = data.event
        elif isinstance(data, EventPreempted):
            self.times_tested += 1
            is_running = running is not None and running.event_id == data.event_id
            if is_running and "ShutdownEventThread" in queued.values():
                # A broker that shuts down waits for the event in progress only for a bounded time.
                self._running[incarnation] = None
            elif queued.pop(data.event_id, None) is None:
                self.violated(record, f"{data.event} {data.event_id} was preempted, though it was not waiting")
        elif isinstance(data, EventStarted):
            self.times_tested += 1
            if running is not None:
                self.violated(record, f"{data.event} started while {running.event} was running")
            first = next(iter(queued), None)
            if first != data.event_id:
                self.violated(record, f"{data.event} {data.event_id} started, though {first} was first in the queue")
            queued.pop(data.event_id, None)
            self._running[incarnation] = _RunningEvent(data.event_id, data.event)
        elif isinstance(data, EventEnded):
            if running is None or running.event_id != data.event_id:
                self.violated(record, f"{data.event} {data.event_id} ended, though it was not running")
            self._running[incarnation] = None


class _ActiveController(NamedTuple):
    epoch: int
    session_id: int


class RoleEndsWithSession(InvariantCheck):
    id = "C8"
    sentence = (
        "the session of an active controller owns /controller or has ended; a controller whose session has ended "
        "resigns before the broker registers or is elected in the next one; and a broker that owns /controller does "
        "not stay resigned"
    )
    refuted_by = RefutedBy.EARLIER_OF_INCARNATION
    reads = (SessionOpened, BrokerRegistered, ControllerElected, ControllerResigned, ContextAtIdle, ProcessExiting)

    GRACE_MS = 2_000.0
    """The time beyond the session timeout that events in progress may take."""

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._sessions: dict[Incarnation, SessionOpened] = {}
        self._active: dict[Incarnation, _ActiveController | None] = {}
        self._last_records: dict[Incarnation, Envelope] = {}
        self._resigned: dict[Incarnation, tuple[_ActiveController, Envelope]] = {}
        """Controllers that have resigned and were not elected again, each with the record of its resignation."""

    def on_record(self, record: Envelope) -> None:
        incarnation, data = incarnation_of(record), record.data
        active = self._active.get(incarnation)
        self._last_records[incarnation] = record
        if isinstance(data, SessionOpened):
            self._sessions[incarnation] = data
        elif isinstance(data, BrokerRegistered):
            self.times_tested += 1
            if active is not None and active.session_id != data.session_id:
                self.violated(record, f"registered in a new session while still controller of epoch {active.epoch}")
        elif isinstance(data, ControllerElected):
            self._on_elected(record, data, active)
        elif isinstance(data, ControllerResigned):
            if active is not None:
                self._resigned[incarnation] = (active, record)
            self._active[incarnation] = None
        elif isinstance(data, ContextAtIdle) and active is not None and not self.facts.is_empty:
            self._check_ownership(record, active)

    def _on_elected(self, record: Envelope, data: ControllerElected, active: _ActiveController | None) -> None:
        if data.epoch_zk_version < 0 and data.session_id == 0:
            return  # the controller of a KRaft quorum has no session
        incarnation = incarnation_of(record)
        if active is not None:
            self.violated(record, f"elected at epoch {data.epoch} while still controller of epoch {active.epoch}")
        if (session := self._sessions.get(incarnation)) and session.session_id != data.session_id:
            self.violated(record, f"elected in session {data.session_id:#x} after opening {session.session_id:#x}")
        self._active[incarnation] = _ActiveController(data.epoch, data.session_id)
        self._resigned.pop(incarnation, None)

    def _check_ownership(self, record: Envelope, active: _ActiveController) -> None:
        self.times_tested += 1
        owner = self.facts.controller_at(record.zxid)
        end_zxid = self.facts.session_ends.get(active.session_id)
        session_ended = end_zxid is not None and end_zxid <= record.zxid
        if not session_ended and (owner is None or owner.session_id != active.session_id):
            whose = "no broker" if owner is None else f"broker {owner.broker_id}"
            self.violated(record, f"idle as controller of epoch {active.epoch} while {whose} owns /controller")

    def at_end(self) -> None:
        owner = self.facts.controller_at(self.facts.last_zxid)
        for incarnation, (former, resigned) in self._resigned.items():
            session = self._sessions.get(incarnation)
            if owner is None or session is None or not owner.session_id == former.session_id == session.session_id:
                continue
            last = self._last_records[incarnation]
            waited_ms = last.mono_ms - resigned.mono_ms
            if not isinstance(last.data, ProcessExiting) and waited_ms > session.timeout_ms + self.GRACE_MS:
                what = (
                    f"{incarnation[0]} owns /controller, but has resigned from epoch {former.epoch} and stays resigned"
                )
                self.violated(last, what, refuted_by=RefutedBy.ALL_OF_INCARNATION)


VALID_PREVIOUS_PARTITION_STATES: dict[str, tuple[str, ...]] = {
    "NewPartition": ("NonExistentPartition",),
    "OnlinePartition": ("NewPartition", "OnlinePartition", "OfflinePartition"),
    "OfflinePartition": ("NewPartition", "OnlinePartition", "OfflinePartition"),
    "NonExistentPartition": ("OfflinePartition",),
}

VALID_PREVIOUS_REPLICA_STATES: dict[str, tuple[str, ...]] = {
    "NewReplica": ("NonExistentReplica",),
    "OnlineReplica": ("NewReplica", "OnlineReplica", "OfflineReplica", "ReplicaDeletionIneligible"),
    "OfflineReplica": ("NewReplica", "OnlineReplica", "OfflineReplica", "ReplicaDeletionIneligible"),
    "ReplicaDeletionStarted": ("OfflineReplica",),
    "ReplicaDeletionSuccessful": ("ReplicaDeletionStarted",),
    "ReplicaDeletionIneligible": ("OfflineReplica", "ReplicaDeletionStarted"),
    "NonExistentReplica": ("ReplicaDeletionSuccessful",),
}


class TransitionsAreValid(InvariantCheck):
    id = "C9"
    sentence = (
        "partitions and replicas change their state only by valid transitions, each from the state to which the "
        "previous one led"
    )
    refuted_by = RefutedBy.EARLIER_OF_INCARNATION
    reads = (ControllerElected, TopicsChanged, PartitionsMoved, ReplicasMoved, InvalidTransition)

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._states: dict[Incarnation, dict[tuple[str, int, int], str]] = {}

    def on_record(self, record: Envelope) -> None:
        incarnation, data = incarnation_of(record), record.data
        if isinstance(data, ControllerElected):
            self._states.pop(incarnation, None)
        elif isinstance(data, TopicsChanged):
            # An operator can delete the znode of a topic in any state; a new topic of that name starts without a state.
            states = self._states.get(incarnation, {})
            self._states[incarnation] = {key: state for key, state in states.items() if key[0] not in data.deleted}
        elif isinstance(data, InvalidTransition):
            what = f"{data.topic}-{data.partition} from {data.source} to {data.target}"
            self.violated(
                record, f"the controller requested an invalid transition of {what}", refuted_by=RefutedBy.NOTHING
            )
        elif isinstance(data, PartitionsMoved | ReplicasMoved):
            moved, valid_previous_states = (
                (data.partitions, VALID_PREVIOUS_PARTITION_STATES)
                if isinstance(data, PartitionsMoved)
                else (data.replicas, VALID_PREVIOUS_REPLICA_STATES)
            )
            states, valid = self._states.setdefault(incarnation, {}), valid_previous_states.get(data.target, ())
            self.times_tested += len(moved)
            for transition in moved:
                key = (transition.topic, transition.partition, transition.replica)
                if transition.source not in valid:
                    what = f"{name_of(key[:2])} went from {transition.source} to {data.target}"
                    self.violated(record, what, refuted_by=RefutedBy.NOTHING)
                if (known := states.get(key, transition.source)) != transition.source:
                    self.violated(record, f"{name_of(key[:2])} left {transition.source}, though it was in {known}")
                states[key] = data.target


CHECKS: tuple[type[InvariantCheck], ...] = (
    OneControllerPerEpoch,
    ElectionIsOneTransaction,
    ControllerWritesAreFenced,
    NoRequestOrWriteAfterResignation,
    ContextMatchesZooKeeper,
    OneEventAtATime,
    RoleEndsWithSession,
    TransitionsAreValid,
)
