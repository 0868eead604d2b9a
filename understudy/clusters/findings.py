"""Finds the problems of a cluster at one moment; used for real processes, simulations and `understudy status`.

`findings` compares the parts of a `ClusterPicture` with each other, with the running processes and, if it can be
read, with the memory of the brokers. Some findings only name missing replicas, as
`kafka-topics --describe --under-replicated-partitions` does. Those with `resolves_itself` must disappear without an
operator, and a cluster has settled when none of them is left (L1 to L4, and L8 if a broker is away). Invariants that
must hold at every moment are checked by `understudy.checks`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from enum import Enum

import msgspec

from understudy.clusters.picture import BrokerMemory, ClusterPicture, PartitionPicture
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, BrokerId, TopicPartition
from understudy.foundation.cluster.leadership import LeaderAndIsr, LeaderRecoveryState
from understudy.foundation.zk.admin_znodes import ReassignPartitionsZNode

_IN_WORDS = 6
"""Maximum number of findings in a message: a broken cluster has one for each partition and broker."""


class FindingKind(Enum):
    """The subject of a finding."""

    PROCESS = "process"
    """A broker that should run does not."""
    CONTROLLER = "controller"
    """There is not exactly one active controller that owns `/controller` (L1)."""
    REGISTRATION = "registration"
    """A running broker is not registered, or a registered one does not run."""
    LEADERLESS = "leaderless"
    """A partition has no leader, or its leader is not live (L2)."""
    UNDER_REPLICATED = "under-replicated"
    """An assigned replica is not in the ISR (L3)."""
    NOT_PREFERRED = "not-preferred"
    """A partition's leader is live, but is not its preferred replica."""
    REASSIGNMENT = "reassignment"
    """A reassignment has not ended although all its target replicas are live."""
    DELETION = "deletion"
    """A topic is still marked for deletion although all its replicas are live."""
    REQUEST = "request"
    """A znode that asks the controller for something has not been handled."""
    CONTEXT = "context"
    """The active controller's assignments differ from those in ZooKeeper."""
    REPLICA = "replica"
    """A broker does not have the replica, the leader or the leader epoch that ZooKeeper holds."""
    METADATA = "metadata"
    """A broker's metadata differs from ZooKeeper (L4)."""
    FETCHER = "fetcher"
    """A broker fetches a partition that it does not follow."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One problem of a cluster."""

    kind: FindingKind
    message: str
    resolves_itself: bool = True
    """Whether the live brokers must correct it without an operator. False if that takes a broker that is down, or an
    election that an operator has to request."""
    partition: TopicPartition | None = None

    def __str__(self) -> str:
        return self.message


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """All findings about one picture."""

    found: tuple[Finding, ...] = ()
    examined: Mapping[FindingKind, int]
    """Number of brokers, partitions, topics or znodes that were compared, by kind. A kind with 0 was not checked."""

    @property
    def is_well(self) -> bool:
        """Whether there is no finding at all: every replica is in sync, every leader is the preferred replica."""
        return not self.found

    @property
    def unresolved(self) -> tuple[Finding, ...]:
        """The findings that the live brokers must still correct without an operator."""
        return tuple(finding for finding in self.found if finding.resolves_itself)

    @property
    def leaderless(self) -> tuple[TopicPartition, ...]:
        """The partitions without a live leader."""
        return self._partitions(FindingKind.LEADERLESS)

    @property
    def under_replicated(self) -> tuple[TopicPartition, ...]:
        """The partitions with an assigned replica outside the ISR."""
        return self._partitions(FindingKind.UNDER_REPLICATED)

    @property
    def not_preferred(self) -> tuple[TopicPartition, ...]:
        """The partitions whose live leader is not the preferred replica."""
        return self._partitions(FindingKind.NOT_PREFERRED)

    def _partitions(self, kind: FindingKind) -> tuple[TopicPartition, ...]:
        """Return the partitions with a finding of `kind`, sorted."""
        return tuple(sorted(found.partition for found in self.found if found.kind is kind and found.partition))


def in_words(found: Sequence[Finding]) -> str:
    """Return the first findings for a message, and the number of further ones."""
    words = [str(finding) for finding in found[:_IN_WORDS]]
    more = [f"and {len(found) - _IN_WORDS} more"] if len(found) > _IN_WORDS else []
    return "; ".join([*words, *more])


def findings(
    picture: ClusterPicture,
    *,
    running: Collection[BrokerId] | None = None,
    missing: Collection[BrokerId] = (),
    memories: Mapping[BrokerId, BrokerMemory] | None = None,
) -> Findings:
    """Find the problems of the cluster in `picture`.

    Args:
        running: the brokers whose processes run and are not paused; they count as live. None if the processes are
            unknown: then every registered broker counts as live. If no broker runs, only `missing` is reported.
        missing: the brokers that should run and do not.
        memories: the memories of running brokers; None or empty if it cannot be read.
    """
    inspection = _Inspection(picture, running, memories or {})
    inspection.missing_processes(missing)
    if running is None or running:
        inspection.whole_cluster()
    return Findings(found=tuple(inspection.found), examined=inspection.examined)


class _Inspection:
    """Collects the findings about one picture, and counts what it has examined."""

    def __init__(
        self,
        picture: ClusterPicture,
        running: Collection[BrokerId] | None,
        memories: Mapping[BrokerId, BrokerMemory],
    ) -> None:
        self.found: list[Finding] = []
        self.examined = Counter[FindingKind]()
        self._picture = picture
        self._running = running
        self._live = frozenset(picture.brokers if running is None else running)
        self._memories = memories
        self._to_delete = frozenset(picture.topics_to_delete)

    def whole_cluster(self) -> None:
        self._controller()
        self._registrations()
        self._deletions()
        self._context()
        self._requests()
        # A topic that waits for its deletion need not be in the brokers' memory.
        remaining = {tp: seen for tp, seen in self._picture.partitions.items() if tp.topic not in self._to_delete}
        for partition, seen in remaining.items():
            if not self._has_log_of_former_topic(partition, seen):
                self._partition(partition, seen)
        for number, memory in self._memories.items():
            self._metadata(number, memory, remaining)
            self._fetchers(number, memory)

    def _report(
        self, kind: FindingKind, message: str, *, partition: TopicPartition | None = None, resolves_itself: bool = True
    ) -> None:
        self.found.append(Finding(kind=kind, message=message, partition=partition, resolves_itself=resolves_itself))

    # -- processes, registrations, the controller

    def missing_processes(self, missing: Collection[BrokerId]) -> None:
        for number in sorted(missing):
            self._report(FindingKind.PROCESS, f"broker {number} should run and does not")

    def _controller(self) -> None:
        """Require that exactly one broker is the active controller, and that it owns `/controller` (L1)."""
        self.examined[FindingKind.CONTROLLER] += 1
        owner = self._picture.controller
        if owner is None:
            self._report(FindingKind.CONTROLLER, "no broker owns /controller")
        active = [number for number, memory in self._memories.items() if memory.controller_assignments is not None]
        if self._memories and active != [owner]:
            self._report(FindingKind.CONTROLLER, f"active controllers are {active}, owner of /controller is {owner}")

    def _registrations(self) -> None:
        registered = self._picture.brokers
        if self._running is None:
            return
        self.examined[FindingKind.REGISTRATION] += len(registered)
        for number in self._running:
            if number not in registered:
                self._report(FindingKind.REGISTRATION, f"broker {number} runs but is not registered")
        for number in registered:
            if number not in self._running:
                self._report(FindingKind.REGISTRATION, f"broker {number} is registered but does not run")

    # -- requests to the controller

    def _deletions(self) -> None:
        """Require that a topic marked for deletion is deleted once the brokers of all its replicas are live."""
        self.examined[FindingKind.DELETION] += len(self._to_delete)
        for topic in sorted(self._to_delete):
            placed = (seen.assignment for tp, seen in self._picture.partitions.items() if tp.topic == topic)
            if all(replica in self._live for assignment in placed for replica in assignment.replicas):
                self._report(FindingKind.DELETION, f"topic {topic} is still to be deleted")

    def _context(self) -> None:
        """Require that the active controller's context has the assignments that ZooKeeper holds."""
        assigned = {partition: seen.assignment for partition, seen in self._picture.partitions.items()}
        self.examined[FindingKind.CONTEXT] += len(assigned)
        for number, memory in self._memories.items():
            known = memory.controller_assignments
            if known is not None and dict(known) != assigned:
                wrong = next(tp for tp in sorted({*known, *assigned}) if known.get(tp) != assigned.get(tp))
                message = f"controller {number} has {wrong} on {known.get(wrong)}, ZooKeeper on {assigned.get(wrong)}"
                self._report(FindingKind.CONTEXT, message, partition=wrong)

    def _requests(self) -> None:
        """Require that requests in znodes have been handled, except for reassignments that are in progress."""
        self.examined[FindingKind.REQUEST] += 1
        for path in self._picture.controller_requests:
            self._report(FindingKind.REQUEST, f"{path} has not been handled")
        for partition in self._picture.requested_moves:
            seen = self._picture.partitions.get(partition)
            in_progress = seen is not None and seen.assignment.is_being_reassigned
            if partition.topic not in self._to_delete and not in_progress:
                message = f"{ReassignPartitionsZNode.path} still names {partition}, which is not being reassigned"
                self._report(FindingKind.REQUEST, message, partition=partition)

    # -- partitions

    def _has_log_of_former_topic(self, partition: TopicPartition, seen: PartitionPicture) -> bool:
        """Return whether a broker of the partition holds a log of a deleted topic of the same name.

        A reassignment left it behind, so that the deletion did not include it. As in Kafka, that broker answers
        INCONSISTENT_TOPIC_ID to every request about the new topic (BUG-15).
        """
        topic_id = self._picture.topic_ids.get(partition.topic)
        if topic_id is None:
            return False
        for memory in map(self._memories.get, seen.assignment.replicas):
            if memory is not None:
                hosted = memory.hosted.get(partition)
                known = {NO_TOPIC_ID if hosted is None else hosted.topic_id, memory.topic_ids_on_disk.get(partition)}
                if known - {None, NO_TOPIC_ID, topic_id}:
                    return True
        return False

    def _partition(self, partition: TopicPartition, seen: PartitionPicture) -> None:
        state = None if seen.state is None else seen.state.leader_and_isr
        self._leader(partition, seen, state)
        self._in_sync_replicas(partition, seen, state)
        self._reassignment(partition, seen, state)
        self._replica_roles(partition, seen, state)

    def _leader(self, partition: TopicPartition, seen: PartitionPicture, state: LeaderAndIsr | None) -> None:
        """Require that a partition with a live in-sync replica has a live leader, and one with a live replica a state.

        The controller writes the first state, with all live replicas as ISR, once a replica is live (L2).
        """
        self.examined[FindingKind.LEADERLESS] += 1
        self.examined[FindingKind.NOT_PREFERRED] += 1
        replicas = seen.assignment.replicas
        if state is None:
            is_live = any(replica in self._live for replica in replicas)
            message = f"{partition} has no state" if is_live else f"{partition} has no state and no live replica"
            self._report(FindingKind.LEADERLESS, message, partition=partition, resolves_itself=is_live)
        elif state.leader not in self._live:
            in_sync = any(replica in self._live for replica in state.isr)
            what = "live in-sync replicas" if in_sync else "no live in-sync replica"
            message = f"{partition} has {what} of {state.isr} but leader {state.leader}"
            self._report(FindingKind.LEADERLESS, message, partition=partition, resolves_itself=in_sync)
        elif replicas and state.leader != replicas[0]:
            message = f"{partition} is led by {state.leader} instead of {replicas[0]}"
            self._report(FindingKind.NOT_PREFERRED, message, partition=partition, resolves_itself=False)

    def _in_sync_replicas(self, partition: TopicPartition, seen: PartitionPicture, state: LeaderAndIsr | None) -> None:
        """Require that the ISR holds all live replicas (L3)."""
        self.examined[FindingKind.UNDER_REPLICATED] += 1
        isr = () if state is None else state.isr
        lacking = [replica for replica in seen.assignment.replicas if replica not in isr]
        if not lacking:
            return
        live = [replica for replica in lacking if replica in self._live]
        has_leader = state is not None and state.leader in self._live
        what = f"live replicas {live}" if live else f"replicas {lacking}"
        self._report(
            FindingKind.UNDER_REPLICATED,
            f"{partition} has {what} outside its ISR {isr}",
            partition=partition,
            resolves_itself=bool(live) and has_leader,
        )

    def _reassignment(self, partition: TopicPartition, seen: PartitionPicture, state: LeaderAndIsr | None) -> None:
        """Require that a reassignment ends once all its target replicas are live, if the partition has a live leader.

        As in Kafka, the controller checks the ISR when a leader changes it, when a target's broker starts and when it
        takes over, not when it changes the ISR itself by an unclean election.
        """
        if not seen.assignment.is_being_reassigned:
            return
        self.examined[FindingKind.REASSIGNMENT] += 1
        targets = seen.assignment.target_replicas
        if state is not None and state.leader in self._live and all(replica in self._live for replica in targets):
            message = f"{partition} is still being reassigned to {targets}"
            is_looked_at = state.leader_recovery_state is LeaderRecoveryState.RECOVERED
            self._report(FindingKind.REASSIGNMENT, message, partition=partition, resolves_itself=is_looked_at)

    # -- the memory of brokers

    def _replica_roles(self, partition: TopicPartition, seen: PartitionPicture, state: LeaderAndIsr | None) -> None:
        """Require that each live replica has the leader and the leader epoch of the newest election."""
        for replica in seen.assignment.replicas:
            memory = self._memories.get(replica)
            if memory is None:
                continue
            self.examined[FindingKind.REPLICA] += 1
            if state is None or state.leader not in self._live:
                continue
            hosted = memory.hosted.get(partition)
            if hosted is None:
                message = f"broker {replica} has no replica of {partition}"
                self._report(FindingKind.REPLICA, message, partition=partition)
            elif (hosted.leader, hosted.leader_epoch) != (state.leader, state.leader_epoch):
                here = f"leader {hosted.leader} at epoch {hosted.leader_epoch}"
                there = f"leader {state.leader} at epoch {state.leader_epoch}"
                message = f"broker {replica} has {partition} with {here}, ZooKeeper with {there}"
                self._report(FindingKind.REPLICA, message, partition=partition)

    def _metadata(
        self, number: BrokerId, memory: BrokerMemory, partitions: Mapping[TopicPartition, PartitionPicture]
    ) -> None:
        """Require that the metadata a broker sends to clients equals the state in ZooKeeper (L4)."""
        self.examined[FindingKind.METADATA] += len(partitions)
        snapshot = memory.metadata
        if sorted(snapshot.live_brokers) != sorted(self._live):
            message = f"broker {number} has live brokers {sorted(snapshot.live_brokers)} in its metadata"
            self._report(FindingKind.METADATA, message)
        for partition, seen in partitions.items():
            if seen.state is None:
                continue
            cached = snapshot.partition(partition.topic, partition.partition)
            if cached is None:
                message = f"broker {number} has no metadata of {partition}"
                self._report(FindingKind.METADATA, message, partition=partition)
                continue
            state = seen.state.leader_and_isr
            here = (cached.leader, cached.leader_epoch, tuple(cached.isr))
            there = (state.leader, state.leader_epoch, state.isr)
            if here != there:
                message = f"broker {number} has {here} in its metadata of {partition}, ZooKeeper holds {there}"
                self._report(FindingKind.METADATA, message, partition=partition)

    def _fetchers(self, number: BrokerId, memory: BrokerMemory) -> None:
        """Require that a broker fetches only partitions that it follows, and from their leader."""
        self.examined[FindingKind.FETCHER] += len(memory.fetched)
        for partition, leader in sorted(memory.fetched.items()):
            hosted = memory.hosted.get(partition)
            if hosted is None or hosted.is_leader or hosted.leader != leader:
                message = f"broker {number} fetches {partition} from {leader}, and holds {hosted}"
                self._report(FindingKind.FETCHER, message, partition=partition)
