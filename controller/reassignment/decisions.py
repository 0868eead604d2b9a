"""The decisions of a reassignment: what may be requested, the assignment that follows from it, and when it is complete.

Plain functions over values, as `understudy.controller.leader_election` is. Mirrors `validateReplicas`,
`maybeBuildReassignment` and `isReassignmentComplete` of `KafkaController`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.cluster.scala import scala_buffer, scala_set

K = TypeVar("K")
V = TypeVar("V")


# ------------------------------------------------------------------ validation


def requested_by_client(
    current: ReplicaAssignment, target: Sequence[BrokerId] | None, live: Collection[BrokerId]
) -> ReplicaAssignment | ApiError:
    """Return the assignment that a client's request leads to, or why it is refused (RA-2, RA-3).

    Args:
        target: the new replicas; None cancels the reassignment in progress.
        live: the brokers that may be added: registered and not shutting down. Replicas that exist already may be
            offline.
    """
    if target is None:
        if not current.is_being_reassigned:
            return ApiError(Errors.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
        return current.reassign_to(current.origin_replicas)
    if not target:
        return _invalid("Empty replica list specified in partition reassignment.")
    if len(set(target)) < len(target):
        return _invalid(f"Duplicate replica ids in partition reassignment replica list: {scala_buffer(target)}")
    if min(target) < 0:
        return _invalid(f"Invalid broker id in replica list: {scala_buffer(target)}")
    reassigned = current.reassign_to(target)
    if any(replica not in live for replica in reassigned.adding_replicas):
        return _invalid(
            "Replica assignment has brokers that are not alive. "
            f"Replica list: {scala_buffer(reassigned.adding_replicas)}, live broker list: {scala_set(sorted(live))}"
        )
    return reassigned


def requested_by_znode(current: ReplicaAssignment, target: Sequence[BrokerId]) -> ReplicaAssignment | ApiError:
    """Return the assignment that an entry of `/admin/reassign_partitions` leads to, or why it is refused (RA-6).

    Little is checked here, so a reassignment to a broker that is offline starts and waits (BUG-19). Unlike in Kafka, an
    entry without replicas is refused: it would stop and delete every replica.
    """
    if not target or min(target) < 0:
        return _invalid(f"{list(target)} is no list of replicas")
    return current.reassign_to(target)


def _invalid(why: str) -> ApiError:
    return ApiError(Errors.INVALID_REPLICA_ASSIGNMENT, why)


def only_unwanted_in_sync(current: ReplicaAssignment, wanted: ReplicaAssignment, isr: Collection[BrokerId]) -> bool:
    """Whether the whole ISR would be stopped and deleted at once: it holds only replicas that an earlier reassignment
    added."""
    unneeded = frozenset(current.replicas).difference(wanted.replicas)
    return bool(isr) and unneeded.issuperset(isr)


# ------------------------------------------------------------------ completion


def is_complete(assignment: ReplicaAssignment, isr: Collection[BrokerId] | None) -> bool:
    """Whether every target replica is in the ISR (RA-9). True if nothing is added or removed.

    Args:
        isr: None if the partition has never had a leader.
    """
    if not assignment.is_being_reassigned:
        return True
    return isr is not None and all(replica in isr for replica in assignment.target_replicas)


def leaving_replicas(assignment: ReplicaAssignment, isr: Sequence[BrokerId]) -> tuple[BrokerId, ...]:
    """Return the replicas to stop when a reassignment completes: RR, and members of the ISR that are not assigned.

    There are none of the second kind unless a controller died between writing a cancellation to the topic's znode and
    stopping the replicas.
    """
    unassigned = (replica for replica in isr if replica not in assignment.replicas)
    return (*assignment.removing_replicas, *unassigned)


# ------------------------------------------------------------------ groups


def in_groups(items: Mapping[K, V], groups: int) -> Iterator[dict[K, V]]:
    """Split `items`, in order, into at most `groups` groups of about equal size. At most `groups` items are a group
    each."""
    size = -(-len(items) // groups)
    remaining = iter(items.items())
    while group := dict(islice(remaining, size)):
        yield group
