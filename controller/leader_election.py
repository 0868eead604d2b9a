"""Leader elections as functions of the assignment, the ISR and the brokers that are online. Mirrors `Election.scala`.

Each strategy has two functions. One returns the leader, or None (Kafka's `PartitionLeaderElectionAlgorithms`). The
other returns the new state under that leader (Kafka's `Election`): the next leader epoch, the new ISR, and the brokers
that must receive it. They use no context, clock or log; the caller reports the result.

`online` are the brokers that are registered, not shutting down, and whose log directory of this partition works. A new
ISR keeps the order of the old one; a leader is searched in the order of the assignment.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
from msgspec.structs import replace

from understudy.foundation.cluster.assignment import ReplicaAssignment, those_in, those_not_in
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.cluster.leadership import LeaderAndIsr, LeaderRecoveryState


class LeaderElection(msgspec.Struct, frozen=True, gc=False):
    """The new state of a partition, and the brokers that must receive it in a LeaderAndIsr."""

    leader_and_isr: LeaderAndIsr
    recipients: tuple[BrokerId, ...]
    unclean: bool = False


# ------------------------------------------------------------------ the leader


def offline_partition_leader(
    replicas: Sequence[BrokerId], isr: Collection[BrokerId], online: Collection[BrokerId], *, unclean_allowed: bool
) -> BrokerId | None:
    """Return the first assigned replica that is online and in sync; if there is none and `unclean_allowed`, the first
    online."""
    for replica in replicas:
        if replica in online and replica in isr:
            return replica
    if unclean_allowed:
        return next((replica for replica in replicas if replica in online), None)
    return None


def reassigned_partition_leader(
    target_replicas: Sequence[BrokerId], isr: Collection[BrokerId], online: Collection[BrokerId]
) -> BrokerId | None:
    """Return the first replica of the target assignment that is online and in sync."""
    return next((replica for replica in target_replicas if replica in online and replica in isr), None)


def preferred_replica_leader(
    replicas: Sequence[BrokerId], isr: Collection[BrokerId], online: Collection[BrokerId]
) -> BrokerId | None:
    """Return the first assigned replica if it is online and in sync, and never another one."""
    preferred = replicas[0] if replicas else None
    return preferred if preferred in online and preferred in isr else None


def controlled_shutdown_leader(
    replicas: Sequence[BrokerId],
    isr: Collection[BrokerId],
    online_or_shutting_down: Collection[BrokerId],
    shutting_down: Collection[BrokerId],
) -> BrokerId | None:
    """Return the first assigned replica that is in sync and not shutting down."""
    return next(
        (
            replica
            for replica in replicas
            if replica in online_or_shutting_down and replica in isr and replica not in shutting_down
        ),
        None,
    )


# ------------------------------------------------------------------ the new state


def elect_for_offline_partition(
    current: LeaderAndIsr,
    assignment: ReplicaAssignment,
    online: frozenset[BrokerId],
    *,
    unclean_allowed: bool,
    leader_recovery_supported: bool = True,
) -> LeaderElection | None:
    """Elect a leader for a partition whose leader is offline (PSM-12).

    A leader out of sync becomes the only member of the ISR, and starts in recovery if the brokers support that
    (PSM-18). It is elected only while no member of the ISR is online, also none that is not assigned any more (PSM-17).
    """
    replicas = assignment.replicas
    lost = online.isdisjoint(current.isr)
    leader = offline_partition_leader(replicas, current.isr, online, unclean_allowed=unclean_allowed and lost)
    if leader is None:
        return None
    recipients = those_in(replicas, online)
    if leader in current.isr:
        return LeaderElection(under_new_leader(current, leader, those_in(current.isr, online)), recipients)
    alone = under_new_leader(current, leader, (leader,))
    if leader_recovery_supported:
        alone = replace(alone, leader_recovery_state=LeaderRecoveryState.RECOVERING)
    return LeaderElection(alone, recipients, unclean=True)


def elect_for_reassigned_partition(
    current: LeaderAndIsr, assignment: ReplicaAssignment, online: Collection[BrokerId]
) -> LeaderElection | None:
    """Elect a leader from the target replicas. The ISR stays; every target replica receives it, online or not
    (PSM-13)."""
    target_replicas = assignment.target_replicas
    leader = reassigned_partition_leader(target_replicas, current.isr, online)
    return None if leader is None else LeaderElection(under_new_leader(current, leader, current.isr), target_replicas)


def elect_preferred_replica(
    current: LeaderAndIsr, assignment: ReplicaAssignment, online: Collection[BrokerId]
) -> LeaderElection | None:
    """Elect the preferred replica. The ISR stays; every assigned replica receives it (PSM-14)."""
    leader = preferred_replica_leader(assignment.replicas, current.isr, online)
    return (
        None if leader is None else LeaderElection(under_new_leader(current, leader, current.isr), assignment.replicas)
    )


def elect_for_controlled_shutdown(
    current: LeaderAndIsr,
    assignment: ReplicaAssignment,
    online_or_shutting_down: frozenset[BrokerId],
    shutting_down: frozenset[BrokerId],
) -> LeaderElection | None:
    """Elect a leader that is not shutting down (PSM-15).

    Brokers that are shutting down leave the ISR, and still receive the new state.
    """
    replicas = assignment.replicas
    leader = controlled_shutdown_leader(replicas, current.isr, online_or_shutting_down, shutting_down)
    if leader is None:
        return None
    isr = those_not_in(current.isr, shutting_down)
    return LeaderElection(under_new_leader(current, leader, isr), those_in(replicas, online_or_shutting_down))


def under_new_leader(current: LeaderAndIsr, leader: BrokerId, isr: tuple[BrokerId, ...]) -> LeaderAndIsr:
    """Return `current` with this leader and ISR and the next leader epoch, also if the leader stays the same
    (PSM-16)."""
    return LeaderAndIsr(leader, current.leader_epoch + 1, isr, current.leader_recovery_state, current.partition_epoch)
