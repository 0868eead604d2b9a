"""What must hold of a partition's state in ZooKeeper, and of those who believe in it (P1 to P9, R8)."""

from __future__ import annotations

from collections.abc import Callable

from foundation.eventlog.records import (
    Envelope,
    IsrProposed,
    IsrResult,
    LeaderAndIsrApplied,
    Leadership,
    LeadershipWritten,
    MetadataUpdated,
)
from understudy.checkers.check import Incarnation, InvariantCheck, broker_of, incarnation_of
from understudy.checkers.facts import ClusterFacts, Partition, StateWrite
from understudy.checkers.history import ZnodeTransaction

NO_LEADER = -1
NO_LEADER_EPOCH = -1
LEADER_DURING_DELETE = -2
RECOVERING = 1


class _StateCheck(InvariantCheck):
    """Looks at each state a transaction wrote."""

    reads_transactions = True

    def on_transaction(self, transaction: ZnodeTransaction) -> None:
        for write in self.facts.written:
            if write.leader is not None and (complaint := self.complaint(write)):
                self.violated(transaction, f"{_name(write.partition)}: {complaint}")

    def complaint(self, write: StateWrite) -> str | None:
        raise NotImplementedError

    def _odd_write(self, leadership: Leadership, is_odd: Callable[[StateWrite, StateWrite], bool]) -> StateWrite | None:
        """The write a record speaks of, if it is odd given what it replaced.

        Several may be meant where a topic of the same name has been at that version in another life; one that is in
        order excuses the record.
        """
        writes = self.facts.state(_partition(leadership), leadership.partition_epoch)
        meant = [write for write in writes if _is(leadership, write)]
        if all(write.replaced is not None and is_odd(write.replaced, write) for write in meant):
            return next(iter(meant), None)
        return None


class LeaderIsInSync(_StateCheck):
    id = "P1"
    sentence = "a partition's leader is in its ISR, or there is none"

    def complaint(self, write: StateWrite) -> str | None:
        self.judged += write.leader != NO_LEADER
        if write.leader == NO_LEADER or write.leader in write.isr:
            return None
        return f"leader {write.leader} is not in ISR {list(write.isr)}"


class IsrIsAssigned(_StateCheck):
    id = "P2"
    sentence = (
        "an ISR is never empty, names nobody twice, and holds only replicas the topic assigns, or "
        "that a leader older than "
        "AlterPartition took in before it heard of their removal"
    )

    def complaint(self, write: StateWrite) -> str | None:
        self.judged += 1
        if not write.isr:
            return "the ISR is empty"
        if len(set(write.isr)) != len(write.isr):
            return f"ISR {list(write.isr)} names a replica twice"
        assigned = self.facts.allowed_in_isr(write.partition)
        strangers = [replica for replica in write.isr if assigned is not None and replica not in assigned]
        if strangers and not self._were_taken_in(write, strangers):
            return f"ISR {list(write.isr)} holds {strangers[0]}, which is not assigned"
        return None

    def _were_taken_in(self, write: StateWrite, strangers: list[int]) -> bool:
        if write.by_leader:
            return True
        inherited = write.replaced is not None and set(strangers).issubset(write.replaced.isr)
        return inherited and any(earlier.by_leader for earlier in self.facts.states[write.partition])


class LeaderEpochsGrow(_StateCheck):
    id = "P3"
    sentence = (
        "a leader epoch starts at 0 and never decreases, another leader gets a higher one, and every "
        "write of the controller "
        "but for an AlterPartition raises it by one"
    )
    reads = (LeadershipWritten,)

    def complaint(self, write: StateWrite) -> str | None:
        before = write.replaced
        self.judged += 1
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
            odd = self._odd_write(leadership, lambda before, write: write.leader_epoch != before.leader_epoch + step)
            if odd is not None and odd.replaced is not None:
                epochs = f"from leader epoch {odd.replaced.leader_epoch} to {odd.leader_epoch}"
                self.violated(record, f"{data.why} took {_name(odd.partition)} {epochs}")


class OneLeaderPerEpoch(InvariantCheck):
    id = "P4"
    sentence = (
        "a broker that starts to lead a partition at a leader epoch is the leader ZooKeeper names at "
        "that epoch, and no "
        "other broker does"
    )
    reads = (LeaderAndIsrApplied,)

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._leader: dict[tuple[Partition, int], set[int]] = {}

    def on_record(self, record: Envelope) -> None:
        data = record.data
        assert isinstance(data, LeaderAndIsrApplied)
        own = broker_of(record)
        for leadership in data.leaders:
            partition, epoch = _partition(leadership), leadership.leader_epoch
            self.judged += 1
            if leadership.leader != own:
                self.violated(record, f"{own} leads {_name(partition)}, which was given to {leadership.leader}")
            leaders = self._leader.setdefault((partition, epoch), set())
            leaders.add(own)
            named = self.facts.leaders.get((partition, epoch), set())
            if not self.facts.is_empty and own not in named:
                self.violated(
                    record, f"{own} leads {_name(partition)} at leader epoch {epoch}; ZooKeeper names {sorted(named)}"
                )
            elif self.facts.is_empty and len(leaders) > 1:
                self.violated(record, f"{_name(partition)} is led by {sorted(leaders)} at leader epoch {epoch}")


class CleanElections(_StateCheck):
    id = "P5"
    sentence = (
        "a new leader was in the ISR it inherits, unless the election is marked as unclean, in the "
        "controller's own record "
        "and, since the protocol knows of recovery, in the znode"
    )
    reads = (LeadershipWritten,)

    def complaint(self, write: StateWrite) -> str | None:
        before = write.replaced
        if before is None or write.leader in (before.leader, NO_LEADER):
            return None
        self.judged += 1
        if write.leader in before.isr:
            return None
        marked = write.leader_recovery_state == RECOVERING or not self.facts.marks_unclean_elections
        if marked and write.isr == (write.leader,):
            return None
        return f"{write.leader} became leader from outside ISR {list(before.isr)}, and leads {list(write.isr)}"

    def on_record(self, record: Envelope) -> None:
        data = record.data
        assert isinstance(data, LeadershipWritten)
        if data.why == "unclean":
            return
        for leadership in data.partitions:
            odd = self._odd_write(
                leadership, lambda before, write: write.leader not in (before.leader, NO_LEADER, *before.isr)
            )
            if odd is not None and odd.replaced is not None:
                what = f"{odd.leader} became leader of {_name(odd.partition)} from outside ISR {list(odd.replaced.isr)}"
                self.violated(record, f"{what}, in an election recorded as {data.why}")


class IsrChangesReplaceWhatTheyNamed(InvariantCheck):
    id = "P6"
    sentence = (
        "an accepted change replaced exactly the version it named, and what was written is what its writer believes"
    )
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
            # The same epoch again: the proposal had been applied before, and its answer was lost (KAFKA-14144).
            if proposed is None or data.error != "NONE" or data.leader_epoch != proposed.leader_epoch:
                return
            self.judged += 1
            if not proposed.partition_epoch <= data.partition_epoch <= proposed.partition_epoch + 1:
                what = f"proposed over version {proposed.partition_epoch} and accepted as {data.partition_epoch}"
                self.violated(record, f"the ISR of {data.topic}-{data.partition} was {what}")
        elif isinstance(data, LeadershipWritten) and not self.facts.is_empty:
            self.judged += len(data.partitions)
            for leadership in data.partitions:
                writes = self.facts.state(_partition(leadership), leadership.partition_epoch)
                if not any(_is(leadership, write) for write in writes):
                    what = f"{_name(_partition(leadership))} is not in ZooKeeper's history as {leadership}"
                    self.violated(record, what)


class JoinersHaveCaughtUp(_StateCheck):
    id = "P7"
    sentence = (
        "a replica joins an ISR only when it has reached its leader's high watermark and the start "
        "of the leader's epoch, and "
        "has registered"
    )
    reads = (IsrProposed,)

    def complaint(self, write: StateWrite) -> str | None:
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
            self.judged += 1
            reached = end_offsets.get(replica)
            if reached is None or reached < needed:
                what = (
                    f"{replica} at offset {reached} let into the ISR of "
                    f"{data.topic}-{data.partition}, which needs {needed}"
                )
                self.violated(record, what)


class JoinersFetchAtThisEpoch(InvariantCheck):
    id = "R8"
    sentence = "a replica joins an ISR by a Fetch at the leader epoch of that ISR, or by one that names no epoch"
    reads = (IsrProposed,)

    def on_record(self, record: Envelope) -> None:
        data = record.data
        assert isinstance(data, IsrProposed)
        for replica, fetched_at in data.follower_leader_epochs:
            self.judged += 1
            if fetched_at not in (NO_LEADER_EPOCH, data.leader_epoch):
                what = f"{replica} joins by a Fetch at leader epoch {fetched_at}, its leader is at {data.leader_epoch}"
                self.violated(record, f"{_name((data.topic, data.partition))}: {what}")


class LastInSyncStaysListed(_StateCheck):
    id = "P8"
    sentence = "when a partition loses its leader its ISR only shrinks, and its last member stays listed"

    def complaint(self, write: StateWrite) -> str | None:
        before = write.replaced
        if write.leader != NO_LEADER or before is None:
            return None
        self.judged += 1
        kept = [replica for replica in write.isr if replica in before.isr]
        if kept and len(kept) == len(write.isr):
            return None
        return f"without a leader, ISR {list(before.isr)} became {list(write.isr)}"


class MetadataNeverGoesBack(InvariantCheck):
    id = "P9"
    sentence = "the leader epoch and partition epoch of a partition in a broker's metadata never go back"
    reads = (MetadataUpdated,)

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._known: dict[Incarnation, dict[Partition, tuple[int, int]]] = {}

    def on_record(self, record: Envelope) -> None:
        data = record.data
        assert isinstance(data, MetadataUpdated)
        known = self._known.setdefault(incarnation_of(record), {})
        for leadership in data.partitions:
            partition = _partition(leadership)
            if leadership.leader == LEADER_DURING_DELETE:
                known.pop(partition, None)
                continue
            epochs = (leadership.leader_epoch, leadership.partition_epoch)
            self.judged += partition in known
            before = known.get(partition, epochs)
            # A topic deleted and created again starts over, and a broker may never have heard of the deletion.
            if epochs < before and not self._is_of_a_later_life(partition, epochs, before):
                what = f"{_name(partition)} went from leader epoch and version {before} back to {epochs}"
                self.violated(record, what)
            known[partition] = epochs

    def _is_of_a_later_life(self, partition: Partition, epochs: tuple[int, int], before: tuple[int, int]) -> bool:
        """Whether the topic was deleted after it had been at `before`, and was then at `epochs`."""
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


def _is(leadership: Leadership, write: StateWrite) -> bool:
    believed = (leadership.leader, leadership.leader_epoch, tuple(leadership.isr), leadership.controller_epoch)
    return believed == (write.leader, write.leader_epoch, write.isr, write.controller_epoch)


def _name(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"


CHECKS: tuple[type[InvariantCheck], ...] = (
    LeaderIsInSync,
    IsrIsAssigned,
    LeaderEpochsGrow,
    OneLeaderPerEpoch,
    CleanElections,
    IsrChangesReplaceWhatTheyNamed,
    JoinersHaveCaughtUp,
    JoinersFetchAtThisEpoch,
    LastInSyncStaysListed,
    MetadataNeverGoesBack,
)
