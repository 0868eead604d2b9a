"""Who leads: the four choices of the controller, as functions of an assignment, an ISR and who is alive.

Each situation has two functions. One chooses a leader or nobody (Kafka's `PartitionLeaderElectionAlgorithms`), the
other says what the partition becomes under that leader (Kafka's `Election`): the next leader epoch, the new ISR, and
which brokers must hear it. Nothing here knows a context, a clock or a log; whoever calls reports what was chosen.

`online` is what the caller takes for alive: brokers that are registered, not shutting down, and whose log directory of
this partition works. A new ISR keeps the order of the old one; a choice follows the order of the assignment.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
from msgspec.structs import replace

from foundation.cluster.assignment import ReplicaAssignment, those_in, those_not_in
from foundation.cluster.identifiers import BrokerId
from foundation.cluster.leadership import LeaderAndIsr, LeaderRecoveryState


class LeaderElection(msgspec.Struct, frozen=True, gc=False):
    """What a partition becomes, and the brokers that must receive it in a LeaderAndIsr."""

    leader_and_isr: LeaderAndIsr
    recipients: tuple[BrokerId, ...]
    unclean: bool = False


# ------------------------------------------------------------------ who


def offline_partition_leader(
    replicas: Sequence[BrokerId], isr: Collection[BrokerId], online: Collection[BrokerId], *, unclean_allowed: bool
) -> BrokerId | None:
    """The first assigned replica that is alive and in sync; where none is and data may be lost, the first alive."""
    for replica in replicas:
        if replica in online and replica in isr:
            return replica
    if unclean_allowed:
        return next((replica for replica in replicas if replica in online), None)
    return None


def reassigned_partition_leader(
    target_replicas: Sequence[BrokerId], isr: Collection[BrokerId], online: Collection[BrokerId]
) -> BrokerId | None:
    """The first replica of the target assignment that is alive and in sync."""
    return next((replica for replica in target_replicas if replica in online and replica in isr), None)


def preferred_replica_leader(
    replicas: Sequence[BrokerId], isr: Collection[BrokerId], online: Collection[BrokerId]
) -> BrokerId | None:
    """The first assigned replica, if it is alive and in sync; never another one."""
    preferred = replicas[0] if replicas else None
    return preferred if preferred in online and preferred in isr else None


def controlled_shutdown_leader(
    replicas: Sequence[BrokerId],
    isr: Collection[BrokerId],
    online_or_shutting_down: Collection[BrokerId],
    shutting_down: Collection[BrokerId],
) -> BrokerId | None:
    """The first assigned replica that is in sync and stays."""
    return next(
        (
            replica
            for replica in replicas
            if replica in online_or_shutting_down and replica in isr and replica not in shutting_down
        ),
        None,
    )


# ------------------------------------------------------------------ what becomes of the partition


def elect_for_offline_partition(
    current: LeaderAndIsr,
    assignment: ReplicaAssignment,
    online: frozenset[BrokerId],
    *,
    unclean_allowed: bool,
    leader_recovery_supported: bool = True,
) -> LeaderElection | None:
    """PSM-12. A leader from outside the ISR is the ISR by itself, and starts in recovery where brokers know of it
    (PSM-18).

    No data is given up while anybody in sync is alive (PSM-17), be it a replica that is assigned no more.
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
    """PSM-13. The ISR stays as it is; every target replica hears of it, dead or alive."""
    target_replicas = assignment.target_replicas
    leader = reassigned_partition_leader(target_replicas, current.isr, online)
    return None if leader is None else LeaderElection(under_new_leader(current, leader, current.isr), target_replicas)


def elect_preferred_replica(
    current: LeaderAndIsr, assignment: ReplicaAssignment, online: Collection[BrokerId]
) -> LeaderElection | None:
    """PSM-14. The ISR stays as it is; every assigned replica hears of it."""
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
    """PSM-15. Whoever is leaving leaves the ISR too, but still hears that it follows now."""
    replicas = assignment.replicas
    leader = controlled_shutdown_leader(replicas, current.isr, online_or_shutting_down, shutting_down)
    if leader is None:
        return None
    isr = those_not_in(current.isr, shutting_down)
    return LeaderElection(under_new_leader(current, leader, isr), those_in(replicas, online_or_shutting_down))


def under_new_leader(current: LeaderAndIsr, leader: BrokerId, isr: tuple[BrokerId, ...]) -> LeaderAndIsr:
    """`current` under `leader` with `isr`, one leader epoch later; also when the leader stays who it was (PSM-16)."""
    return LeaderAndIsr(leader, current.leader_epoch + 1, isr, current.leader_recovery_state, current.partition_epoch)
