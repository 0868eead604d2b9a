"""Invariants of the partition states in ZooKeeper, and of controllers' and brokers' records of them (P1 to P9, R8)."""

from __future__ import annotations

from collections.abc import Callable

from understudy.checks.check import Incarnation, InvariantCheck, broker_of, incarnation_of
from understudy.checks.facts import ClusterFacts, Partition, StateWrite, name_of
from understudy.checks.history import ZnodeTransaction
from understudy.checks.missing import RefutedBy
from understudy.foundation.eventlog.records import (
    Envelope,
    IsrProposed,
    IsrResult,
    LeaderAndIsrApplied,
    Leadership,
    LeadershipWritten,
    MetadataUpdated,
)

NO_LEADER = -1
NO_LEADER_EPOCH = -1
LEADER_DURING_DELETE = -2
RECOVERING = 1


class _StateCheck(InvariantCheck):
    """Checks each partition state that a transaction wrote."""

    reads_transactions = True

    def on_transaction(self, transaction: ZnodeTransaction) -> None:
        for write in self.facts.states_written:
            if write.leader is not None and (contradiction := self.contradiction(write)):
                self.violated(transaction, f"{name_of(write.partition)}: {contradiction}")

    def contradiction(self, write: StateWrite) -> str | None:
        """Return how `write` contradicts the invariant, or None."""
        raise NotImplementedError

    def _wrong_write(
        self, leadership: Leadership, is_wrong: Callable[[StateWrite, StateWrite], bool]
    ) -> StateWrite | None:
        """Return the write that a record describes if it is wrong after the state it replaced; otherwise None.

        A record describes several writes if a deleted topic of the same name had the same state at the same version.
        The record is accepted if one of them is right.
        """
        writes = self.facts.writes_at_version(_partition(leadership), leadership.partition_epoch)
        described = [write for write in writes if _describes(leadership, write)]
        if all(write.replaced is not None and is_wrong(write.replaced, write) for write in described):
            return next(iter(described), None)
        return None


class LeaderIsInIsr(_StateCheck):
    id = "P1"
    sentence = "a partition's leader is in its ISR, or the partition has no leader"
    refuted_by = RefutedBy.NOTHING

    def contradiction(self, write: StateWrite) -> str | None:
        self.times_tested += write.leader != NO_LEADER
        if write.leader == NO_LEADER or write.leader in write.isr:
            return None
        return f"leader {write.leader} is not in ISR {list(write.isr)}"


class IsrHoldsAssignedReplicas(_StateCheck):
    id = "P2"
    sentence = (
        "an ISR is never empty, names no replica twice, and holds only replicas that the topic assigns, or that a "
        "leader older than AlterPartition added before it was informed of their removal"
    )
    refuted_by = RefutedBy.NOTHING

    def contradiction(self, write: StateWrite) -> str | None:
        self.times_tested += 1
        if not write.isr:
            return "the ISR is empty"
        if len(set(write.isr)) != len(write.isr):
            return f"ISR {list(write.isr)} names a replica twice"
        assigned = self.facts.allowed_in_isr(write.partition)
        unassigned = [replica for replica in write.isr if assigned is not None and replica not in assigned]
        if unassigned and not self._were_added_by_leader(write, unassigned):
            return f"ISR {list(write.isr)} holds {unassigned[0]}, which is not assigned"
        return None

    def _were_added_by_leader(self, write: StateWrite, replicas: list[int]) -> bool:
        """Return whether a leader older than AlterPartition added `replicas` to the ISR, now or before."""
        if write.by_leader:
            return True
        were_members = write.replaced is not None and set(replicas).issubset(write.replaced.isr)
        return were_members and any(earlier.by_leader for earlier in self.facts.states[write.partition])


class LeaderEpochsIncrease(_StateCheck):
    id = "P3"
    sentence = (
        "a leader epoch starts at 0 and never decreases, a change of the leader raises it, and every write of the "
        "controller except for an AlterPartition raises it by one"
    )
    refuted_by = RefutedBy.NOTHING
    reads = (LeadershipWritten,)

    def contradiction(self, write: StateWrite) -> str | None:
        before = write.replaced
        self.times_tested += 1
        if before is None:
            return None if write.leader_epoch == 0 else f"created at leader epoch {write.leader_epoch}"
        if write.leader_epoch < before.leader_epoch:
            return f"leader epoch {write.leader_epoch} after {before.leader_epoch}"
        if write.leader != before.leader and write.leader_epoch == before.leader_epoch:
            return f"leader {before.leader} became {write.leader} at the same leader epoch {write.leader_epoch}"
        return None

    def on_record(self, record: Envelope) -> None:
        data = record.data
        assert isinstance(data, LeadershipWritten)
        if data.why == "initialise":
            return
        step = 0 if data.why == "alter-partition" else 1
        for leadership in data.partitions:
            wrong = self._wrong_write(
                leadership, lambda before, write: write.leader_epoch != before.leader_epoch + step
            )
            if wrong is not None and wrong.replaced is not None:
                epochs = f"from leader epoch {wrong.replaced.leader_epoch} to {wrong.leader_epoch}"
                self.violated(record, f"{data.why} took {name_of(wrong.partition)} {epochs}")


class OneLeaderPerLeaderEpoch(InvariantCheck):
    id = "P4"
    sentence = (
        "a broker that becomes leader of a partition at a leader epoch is the leader that ZooKeeper names at that "
        "epoch, and no other broker becomes leader at it"
    )
    refuted_by = RefutedBy.ZNODES  # they show whether the topic was deleted and created again
    reads = (LeaderAndIsrApplied,)

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._leaders: dict[tuple[Partition, int], set[int]] = {}

    def on_record(self, record: Envelope) -> None:
        data = record.data
        assert isinstance(data, LeaderAndIsrApplied)
        own = broker_of(record)
        for leadership in data.leaders:
            partition, epoch = _partition(leadership), leadership.leader_epoch
            self.times_tested += 1
            if leadership.leader != own:
                what = f"by a LeaderAndIsr that names leader {leadership.leader}"
                what = f"{own} became leader of {name_of(partition)} {what}"
                self.violated(record, what, refuted_by=RefutedBy.NOTHING)
            leaders = self._leaders.setdefault((partition, epoch), set())
            leaders.add(own)
            named = self.facts.leaders.get((partition, epoch), set())
            if not self.facts.is_empty and own not in named:
                self.violated(
                    record, f"{own} leads {name_of(partition)} at leader epoch {epoch}; ZooKeeper names {sorted(named)}"
                )
            elif self.facts.is_empty and len(leaders) > 1:
                self.violated(record, f"{name_of(partition)} is led by {sorted(leaders)} at leader epoch {epoch}")


class UncleanElectionsAreMarked(_StateCheck):
    id = "P5"
    sentence = (
        "a new leader was in the ISR before its election, unless the election is marked as unclean: in the "
        "controller's record and, where its protocol has the leader recovery state, in the znode"
    )
    refuted_by = RefutedBy.NOTHING
    reads = (LeadershipWritten,)

    def contradiction(self, write: StateWrite) -> str | None:
        before = write.replaced
        if before is None or write.leader in (before.leader, NO_LEADER):
            return None
        self.times_tested += 1
        if write.leader in before.isr:
            return None
        marked = write.leader_recovery_state == RECOVERING or not self.facts.marks_unclean_elections
        if marked and write.isr == (write.leader,):
            return None
        return f"{write.leader} became leader from outside ISR {list(before.isr)}, with ISR {list(write.isr)}"

    def on_record(self, record: Envelope) -> None:
        data = record.data
        assert isinstance(data, LeadershipWritten)
        if data.why == "unclean":
            return
        for leadership in data.partitions:
            wrong = self._wrong_write(
                leadership, lambda before, write: write.leader not in (before.leader, NO_LEADER, *before.isr)
            )
            if wrong is not None and wrong.replaced is not None:
                isr = list(wrong.replaced.isr)
                what = f"{wrong.leader} became leader of {name_of(wrong.partition)} from outside ISR {isr}"
                self.violated(record, f"{what}, in an election recorded as {data.why}")


class IsrChangesReplaceTheNamedVersion(InvariantCheck):
    id = "P6"
    sentence = (
        "an accepted ISR change replaced exactly the version it named, and a state that a controller recorded as "
        "written is in ZooKeeper's history"
    )
    refuted_by = RefutedBy.EARLIER_OF_INCARNATION
    reads = (IsrProposed, IsrResult, LeadershipWritten)

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._proposed: dict[tuple[Incarnation, Partition], IsrProposed] = {}

    def on_record(self, record: Envelope) -> None:
        data = record.data
        if isinstance(data, IsrProposed):
            self._proposed[(incarnation_of(record), (data.topic, data.partition))] = data
        elif isinstance(data, IsrResult):
            proposed = self._proposed.get((incarnation_of(record), (data.topic, data.partition)))
            # An accepted proposal does not always raise the version: if the response to an equal one was lost, this
            # one finds its ISR already written (KAFKA-14144).
            if proposed is None or data.error != "NONE" or data.leader_epoch != proposed.leader_epoch:
                return
            self.times_tested += 1
            if not proposed.partition_epoch <= data.partition_epoch <= proposed.partition_epoch + 1:
                what = f"proposed over version {proposed.partition_epoch} and accepted as {data.partition_epoch}"
                self.violated(record, f"the ISR of {data.topic}-{data.partition} was {what}")
        elif isinstance(data, LeadershipWritten) and not self.facts.is_empty:
            self.times_tested += len(data.partitions)
            for leadership in data.partitions:
                writes = self.facts.writes_at_version(_partition(leadership), leadership.partition_epoch)
                if not any(_describes(leadership, write) for write in writes):
                    what = f"{name_of(_partition(leadership))} is not in ZooKeeper's history as {leadership}"
                    self.violated(record, what, refuted_by=RefutedBy.NOTHING)


class NewIsrMembersHaveCaughtUp(_StateCheck):
    id = "P7"
    sentence = (
        "a replica joins an ISR only after it has registered and has reached its leader's high watermark and the "
        "start of the leader's epoch"
    )
    refuted_by = RefutedBy.NOTHING
    reads = (IsrProposed,)

    def contradiction(self, write: StateWrite) -> str | None:
        if write.replaced is None:
            return None
        joined = [replica for replica in write.isr if replica not in write.replaced.isr]
        unknown = next((replica for replica in joined if not self.facts.registrations.get(replica)), None)
        return None if unknown is None else f"{unknown} joined the ISR and never registered"

    def on_record(self, record: Envelope) -> None:
        data = record.data
        assert isinstance(data, IsrProposed)
        end_offsets = dict(data.follower_end_offsets)
        needed = max(data.high_watermark, data.epoch_start_offset)
        for replica in data.joining:
            self.times_tested += 1
            reached = end_offsets.get(replica)
            if reached is None or reached < needed:
                what = (
                    f"{replica} joins the ISR of {data.topic}-{data.partition} at offset {reached} instead of {needed}"
                )
                self.violated(record, what)


class NewIsrMembersFetchAtTheLeaderEpoch(InvariantCheck):
    id = "R8"
    sentence = "a replica joins an ISR by a Fetch at the leader epoch of that ISR, or by one without an epoch"
    refuted_by = RefutedBy.NOTHING
    reads = (IsrProposed,)

    def on_record(self, record: Envelope) -> None:
        data = record.data
        assert isinstance(data, IsrProposed)
        for replica, fetched_at in data.follower_leader_epochs:
            self.times_tested += 1
            if fetched_at not in (NO_LEADER_EPOCH, data.leader_epoch):
                what = f"{replica} joins by a Fetch at leader epoch {fetched_at} instead of {data.leader_epoch}"
                self.violated(record, f"{name_of((data.topic, data.partition))}: {what}")


class IsrKeepsItsLastMember(_StateCheck):
    id = "P8"
    sentence = "when a partition loses its leader, its ISR gains no member and keeps at least one"
    refuted_by = RefutedBy.NOTHING

    def contradiction(self, write: StateWrite) -> str | None:
        before = write.replaced
        if write.leader != NO_LEADER or before is None:
            return None
        self.times_tested += 1
        kept = [replica for replica in write.isr if replica in before.isr]
        if kept and len(kept) == len(write.isr):
            return None
        return f"without a leader, ISR {list(before.isr)} became {list(write.isr)}"


class MetadataEpochsNeverDecrease(InvariantCheck):
    id = "P9"
    sentence = (
        "the leader epoch and partition epoch of a partition in a broker's metadata never decrease, except when a "
        "controller sends an older state than its deposed predecessor, which had read a state of a later controller"
    )
    refuted_by = RefutedBy.EARLIER_OF_INCARNATION | RefutedBy.ZNODES
    reads = (MetadataUpdated,)

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._known: dict[Incarnation, dict[Partition, tuple[int, int]]] = {}
        self._deposed_senders: dict[Incarnation, dict[Partition, int]] = {}
        """The epoch of the controller that sent a partition's state, if a later controller had written it."""

    def on_record(self, record: Envelope) -> None:
        data = record.data
        assert isinstance(data, MetadataUpdated)
        known = self._known.setdefault(incarnation_of(record), {})
        deposed_senders = self._deposed_senders.setdefault(incarnation_of(record), {})
        sender = data.request_controller_epoch
        for leadership in data.partitions:
            partition = _partition(leadership)
            may_decrease = deposed_senders.pop(partition, sender) < sender
            if leadership.leader == LEADER_DURING_DELETE:
                known.pop(partition, None)
                continue
            epochs = (leadership.leader_epoch, leadership.partition_epoch)
            self.times_tested += partition in known
            before = known.get(partition, epochs)
            # A topic that is deleted and created again starts over, and its deletion may not have reached the broker.
            if epochs < before and not may_decrease and not self._was_created_again(partition, epochs, before):
                what = f"{name_of(partition)} went from leader epoch and version {before} back to {epochs}"
                self.violated(record, what)
            known[partition] = epochs
            if leadership.controller_epoch > sender:
                deposed_senders[partition] = sender

    def _was_created_again(self, partition: Partition, epochs: tuple[int, int], before: tuple[int, int]) -> bool:
        """Return whether the topic was deleted after it had been at `before`, and was then at `epochs`."""
        was_at_before = was_deleted_since = False
        for write in self.facts.states.get(partition, ()):
            at = (write.leader_epoch, write.version)
            was_deleted_since = was_deleted_since or (was_at_before and write.leader is None)
            was_at_before = was_at_before or (write.leader is not None and at == before)
            if was_deleted_since and write.leader is not None and at == epochs:
                return True
        return False


def _partition(leadership: Leadership) -> Partition:
    return leadership.topic, leadership.partition


def _describes(leadership: Leadership, write: StateWrite) -> bool:
    recorded = (leadership.leader, leadership.leader_epoch, tuple(leadership.isr), leadership.controller_epoch)
    return recorded == (write.leader, write.leader_epoch, write.isr, write.controller_epoch)


CHECKS: tuple[type[InvariantCheck], ...] = (
    LeaderIsInIsr,
    IsrHoldsAssignedReplicas,
    LeaderEpochsIncrease,
    OneLeaderPerLeaderEpoch,
    UncleanElectionsAreMarked,
    IsrChangesReplaceTheNamedVersion,
    NewIsrMembersHaveCaughtUp,
    NewIsrMembersFetchAtTheLeaderEpoch,
    IsrKeepsItsLastMember,
    MetadataEpochsNeverDecrease,
)
