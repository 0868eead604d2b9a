"""The replicas of a partition, those being added and removed included. Mirrors `kafka.controller.ReplicaAssignment`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from understudy.foundation.cluster.identifiers import BrokerId


class ReplicaAssignment(msgspec.Struct, frozen=True, gc=False):
    """The replicas of one partition.

    `replicas` has all of them, those being added and removed included; the first is the preferred leader.
    """

    replicas: tuple[BrokerId, ...]
    adding_replicas: tuple[BrokerId, ...] = ()
    removing_replicas: tuple[BrokerId, ...] = ()

    @property
    def is_being_reassigned(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def origin_replicas(self) -> tuple[BrokerId, ...]:
        return tuple(replica for replica in self.replicas if replica not in self.adding_replicas)

    @property
    def target_replicas(self) -> tuple[BrokerId, ...]:
        return tuple(replica for replica in self.replicas if replica not in self.removing_replicas)

    def reassign_to(self, target: Sequence[BrokerId]) -> ReplicaAssignment:
        """Return the assignment that is being reassigned from its origin replicas to `target`.

        It supersedes a reassignment in progress. The target's replicas come first, in their order, so that the order of
        the origin is lost: a reassignment that is reversed may change the preferred leader (CX-5, BUG-19).
        """
        origin = self.origin_replicas
        replicas = tuple(dict.fromkeys((*target, *origin)))
        # A client may name a hundred thousand replicas: looking each up in a tuple would take minutes.
        before, after = frozenset(origin), frozenset(target)
        return ReplicaAssignment(
            replicas,
            tuple(replica for replica in replicas if replica not in before),
            tuple(replica for replica in replicas if replica not in after),
        )


NO_ASSIGNMENT = ReplicaAssignment(())


@lru_cache(maxsize=4_096)
def those_in(replicas: tuple[BrokerId, ...], brokers: frozenset[BrokerId]) -> tuple[BrokerId, ...]:
    """Return the `replicas` that are in `brokers`, in order. Cached: thousands of partitions have the same."""
    return tuple([replica for replica in replicas if replica in brokers])


@lru_cache(maxsize=4_096)
def those_not_in(replicas: tuple[BrokerId, ...], brokers: frozenset[BrokerId]) -> tuple[BrokerId, ...]:
    """Return the `replicas` that are not in `brokers`, in order."""
    return tuple([replica for replica in replicas if replica not in brokers])


@lru_cache(maxsize=4_096)
def without(replicas: tuple[BrokerId, ...], broker: BrokerId) -> tuple[BrokerId, ...]:
    """Return `replicas` without `broker`."""
    return tuple([replica for replica in replicas if replica != broker])
