"""Invariants of a KRaft cluster, over the records that `understudy import-kafka` makes of its metadata (Q1 to Q7).

The records of one epoch of the quorum stand on one node, its controller, in the order of the log. So the records of all
nodes, sorted by epoch and number, have the order of the log whatever the clocks say. A run without the log of a quorum
tests nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from understudy.checks.check import InvariantCheck
from understudy.checks.facts import ClusterFacts, Partition, name_of
from understudy.checks.missing import RefutedBy
from understudy.foundation.eventlog.records import (
    BrokerRegistered,
    BrokersChanged,
    ContextLoaded,
    ControllerElected,
    ControllerReady,
    Envelope,
    Leadership,
    LeadershipWritten,
    PartitionsAssigned,
    RunDescribed,
    TopicsChanged,
)

NO_LEADER = -1
RECOVERING = 1


class _QuorumCheck(InvariantCheck):
    """Collects the records of a run, and checks them at its end in the order of the quorum's log.

    Nothing is kept of a run that names its world and is not imported from a KRaft cluster: a soak runs for days.
    """

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._is_kraft = False
        self._is_kept = True
        self._records: list[Envelope] = []

    def on_record(self, record: Envelope) -> None:
        if isinstance(record.data, RunDescribed):
            self._is_kraft = self._is_kraft or record.data.is_kraft
            if record.data.world and not record.data.is_kraft:
                self._is_kept = False
                self._records.clear()
        elif self._is_kept:
            self._records.append(record)

    def at_end(self) -> None:
        records, self._records = self._records, []
        if self._is_kraft:
            self.check(sorted(records, key=lambda each: (each.controller_epoch, each.incarnation, each.seq)))

    def check(self, records: list[Envelope]) -> None:
        """Check the records of a KRaft run, in the order of its log."""
        raise NotImplementedError


class EpochsHaveOneController(_QuorumCheck):
    id = "Q1"
    sentence = "an epoch of a quorum has one controller, which alone writes records of that epoch"
    refuted_by = RefutedBy.NOTHING
    reads = (RunDescribed, ControllerElected, ControllerReady, BrokersChanged, TopicsChanged, LeadershipWritten)

    def check(self, records: list[Envelope]) -> None:
        elected: dict[int, Envelope] = {}
        for record in records:
            if isinstance(record.data, ControllerElected):
                self.times_tested += 1
                first = elected.setdefault(record.data.epoch, record)
                if first is not record:
                    self.violated(record, f"{record.node} and {first.node} are elected for epoch {record.data.epoch}")
        for record in records:
            own = elected.get(record.controller_epoch)
            if own is not None and own.node != record.node:
                what = f"{record.node} writes in epoch {record.controller_epoch}, which is {own.node}'s"
                self.violated(record, what)


class DeposedControllersAreSilent(_QuorumCheck):
    id = "Q2"
    sentence = "no controller writes after a later epoch of the quorum has begun"
    refuted_by = RefutedBy.NOTHING
    reads = (RunDescribed, ControllerElected, ControllerReady, BrokersChanged, TopicsChanged, LeadershipWritten)

    def check(self, records: list[Envelope]) -> None:
        last_ms = 0.0
        for record in records:
            self.times_tested += 1
            if record.mono_ms < last_ms:
                self.violated(
                    record, f"{record.node} begins before the end of the epoch before {record.controller_epoch}"
                )
            last_ms = max(last_ms, record.mono_ms)


class BrokerEpochsIncrease(_QuorumCheck):
    id = "Q3"
    sentence = "a broker registers at a higher broker epoch each time"
    refuted_by = RefutedBy.NOTHING
    reads = (RunDescribed, BrokerRegistered)

    def check(self, records: list[Envelope]) -> None:
        newest: dict[int, int] = {}
        for record in sorted(records, key=lambda each: (each.node, each.incarnation, each.seq)):
            assert isinstance(record.data, BrokerRegistered)
            broker, epoch = record.data.broker_id, record.data.broker_epoch
            self.times_tested += 1
            if epoch <= newest.get(broker, -1):
                self.violated(record, f"broker {broker} registers at epoch {epoch} after {newest[broker]}")
            newest[broker] = epoch


class _Step(NamedTuple):
    """A partition state, and the partition and the brokers at that time.

    Attributes:
        before: the state that it replaced; None if the partition was created, or if the state is not on record.
        replicas: the assigned replicas; None if they are not on record.
        eligible: the eligible leader replicas before the change.
        live: the brokers that are not fenced; None if that is not on record.
    """

    record: Envelope
    before: Leadership | None
    after: Leadership
    replicas: tuple[int, ...] | None
    eligible: tuple[int, ...]
    live: tuple[int, ...] | None

    @property
    def name(self) -> str:
        return name_of((self.after.topic, self.after.partition))


class _PartitionCheck(_QuorumCheck):
    """Checks each partition state against the state before it."""

    reads = (RunDescribed, BrokersChanged, TopicsChanged, ContextLoaded, PartitionsAssigned, LeadershipWritten)

    def check(self, records: list[Envelope]) -> None:
        for step in _steps(records):
            if (contradiction := self.contradiction(step)) is not None:
                self.violated(step.record, f"{step.name}: {contradiction}")

    def contradiction(self, step: _Step) -> str | None:
        """Return how a state contradicts the invariant, or None."""
        raise NotImplementedError


class PartitionEpochsIncrease(_PartitionCheck):
    id = "Q4"
    sentence = (
        "every change of a partition raises its partition epoch; its leader epoch never decreases, and a new leader "
        "raises it by one"
    )
    refuted_by = RefutedBy.BROKERS

    def contradiction(self, step: _Step) -> str | None:
        before, after = step.before, step.after
        if before is None:
            return None
        self.times_tested += 1
        if after.partition_epoch <= before.partition_epoch:
            return f"partition epoch {after.partition_epoch} after {before.partition_epoch}"
        raised = after.leader_epoch - before.leader_epoch
        if raised not in (0, 1) or (after.leader != before.leader and raised != 1):
            what = f"leader {before.leader} at epoch {before.leader_epoch}"
            return f"{what} became leader {after.leader} at epoch {after.leader_epoch}"
        return None


class LeadersAreInTheIsr(_PartitionCheck):
    id = "Q5"
    sentence = "a partition's leader is in its ISR, and the ISR holds assigned replicas, each once"
    refuted_by = RefutedBy.BROKERS

    def contradiction(self, step: _Step) -> str | None:
        state = step.after
        self.times_tested += 1
        if state.leader != NO_LEADER and state.leader not in state.isr:
            return f"leader {state.leader} is not in ISR {list(state.isr)}"
        if len(set(state.isr)) < len(state.isr):
            return f"ISR {list(state.isr)} names a replica twice"
        others = [member for member in state.isr if step.replicas is not None and member not in step.replicas]
        return f"ISR {list(state.isr)} holds {others[0]}, which is not assigned" if others else None


class ElectedLeadersWereInSync(_PartitionCheck):
    id = "Q6"
    sentence = (
        "a new leader was in the ISR or an eligible leader replica before its election, or the state says that it "
        "recovers from an unclean election"
    )
    refuted_by = RefutedBy.BROKERS

    def contradiction(self, step: _Step) -> str | None:
        before, after = step.before, step.after
        if before is None or after.leader in (before.leader, NO_LEADER):
            return None
        self.times_tested += 1
        if after.leader in (*before.isr, *step.eligible) or after.leader_recovery_state == RECOVERING:
            return None
        return f"{after.leader} became leader from outside ISR {list(before.isr)}"


class LeadersAreLive(_PartitionCheck):
    id = "Q7"
    sentence = "a broker is not fenced when it becomes leader or joins an ISR"
    refuted_by = RefutedBy.BROKERS

    def contradiction(self, step: _Step) -> str | None:
        before, after = step.before, step.after
        if before is None or step.live is None:
            return None
        self.times_tested += 1
        joins = [member for member in after.isr if member not in before.isr]
        joins += [after.leader] if after.leader not in (before.leader, NO_LEADER) else []
        fenced = [broker for broker in joins if broker not in step.live]
        return f"{fenced[0]} joins the ISR or leads, and is fenced; live are {list(step.live)}" if fenced else None


def _steps(records: list[Envelope]) -> Iterator[_Step]:
    """Yield the partition states that were written, in order."""
    states: dict[Partition, Leadership] = {}
    replicas: dict[Partition, tuple[int, ...]] = {}
    eligible: dict[Partition, tuple[int, ...]] = {}
    newly_eligible: dict[Partition, tuple[int, ...]] = {}
    live: tuple[int, ...] | None = None
    for record in records:
        data = record.data
        if isinstance(data, BrokersChanged):
            live = data.live
        elif isinstance(data, TopicsChanged):
            for partition in [each for each in states if each[0] in data.deleted]:
                del states[partition]
        elif isinstance(data, PartitionsAssigned):
            for each in data.partitions:
                replicas[each.topic, each.partition] = each.replicas
                newly_eligible[each.topic, each.partition] = each.eligible_leaders
        elif isinstance(data, ContextLoaded):
            states = {(state.topic, state.partition): state for state in data.partitions}
            live = tuple(broker for broker, _ in data.live_brokers)
        elif isinstance(data, LeadershipWritten):
            for state in data.partitions:
                name = (state.topic, state.partition)
                is_new = data.why == "initialise"
                before = None if is_new else states.get(name)
                yield _Step(record, before, state, replicas.get(name), eligible.get(name, ()), live)
                states[name] = state
                eligible[name] = newly_eligible.get(name, ())


CHECKS: tuple[type[InvariantCheck], ...] = (
    EpochsHaveOneController,
    DeposedControllersAreSilent,
    BrokerEpochsIncrease,
    PartitionEpochsIncrease,
    LeadersAreInTheIsr,
    ElectedLeadersWereInSync,
    LeadersAreLive,
)
