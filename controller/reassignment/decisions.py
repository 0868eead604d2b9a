"""What becomes of a partition that shall move: what may be asked for, what it makes of an assignment, when the move is
over.

Plain functions over values, as `controller.leader_election` is. Mirrors `validateReplicas`, `maybeBuildReassignment`
and `isReassignmentComplete` of `KafkaController`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from foundation.cluster.assignment import ReplicaAssignment
from foundation.cluster.errors import ApiError, Errors
from foundation.cluster.identifiers import BrokerId
from foundation.cluster.scala import scala_buffer, scala_set

K = TypeVar("K")
V = TypeVar("V")


# ------------------------------------------------------------------ what is asked for


def requested_by_client(
    current: ReplicaAssignment, target: Sequence[BrokerId] | None, live: Collection[BrokerId]
) -> ReplicaAssignment | ApiError:
    """RA-2, RA-3: the assignment a client's request leads to, or why it is refused. `target` None cancels.

    Args:
        live: who may join: registered and not shutting down. Replicas that are there already may be dead.
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
    """RA-6: hardly anything is checked here, so a move to a dead broker begins and waits (BUG-19).

    Unlike Kafka's, a partition without replicas is refused: it would stop and delete every replica there is.
    """
    if not target or min(target) < 0:
        return _invalid(f"{list(target)} is no list of replicas")
    return current.reassign_to(target)


def _invalid(why: str) -> ApiError:
    return ApiError(Errors.INVALID_REPLICA_ASSIGNMENT, why)


def only_unwanted_in_sync(current: ReplicaAssignment, wanted: ReplicaAssignment, isr: Collection[BrokerId]) -> bool:
    """Whether all that is in sync would be stopped, and deleted, at once: replicas that an earlier move was adding."""
    unneeded = frozenset(current.replicas).difference(wanted.replicas)
    return bool(isr) and unneeded.issuperset(isr)


# ------------------------------------------------------------------ when it is over


def is_complete(assignment: ReplicaAssignment, isr: Collection[BrokerId] | None) -> bool:
    """RA-9: every replica of the target is in sync; where nothing is added or removed there is nothing to wait for.

    Args:
        isr: None where the partition has never had a leader.
    """
    if not assignment.is_being_reassigned:
        return True
    return isr is not None and all(replica in isr for replica in assignment.target_replicas)


def leaving_replicas(assignment: ReplicaAssignment, isr: Sequence[BrokerId]) -> tuple[BrokerId, ...]:
    """Who must stop when the move is over: those being removed, and whoever is in sync without being assigned.

    There is nobody of the second kind unless a controller has died between cancelling a move in the topic's znode and
    telling the replicas.
    """
    strangers = (replica for replica in isr if replica not in assignment.replicas)
    return (*assignment.removing_replicas, *strangers)


# ------------------------------------------------------------------ how many at a time


def in_groups(items: Mapping[K, V], groups: int) -> Iterator[dict[K, V]]:
    """`items` in at most so many groups of about the same size, in order; one by one while they are few."""
    size = -(-len(items) // groups)
    remaining = iter(items.items())
    while group := dict(islice(remaining, size)):
        yield group
