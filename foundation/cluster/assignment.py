"""Which brokers hold a partition, and which are on their way in or out. Mirrors
`kafka.controller.ReplicaAssignment`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from foundation.cluster.identifiers import BrokerId


class ReplicaAssignment(msgspec.Struct, frozen=True, gc=False):
    """`replicas` is the full set, those being added and removed included; its first is the preferred leader."""

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
        """CX-5: on the move from the origin to `target`; a move under way is superseded.

        The target comes first and in its own order, so the order of the origin is lost: who moves and turns back may
        have another preferred leader (BUG-19).
        """
        origin = self.origin_replicas
        replicas = tuple(dict.fromkeys((*target, *origin)))
        # A client names the target, and may name a hundred thousand: looked for in a tuple, they take minutes.
        before, after = frozenset(origin), frozenset(target)
        return ReplicaAssignment(
            replicas,
            tuple(replica for replica in replicas if replica not in before),
            tuple(replica for replica in replicas if replica not in after),
        )


NO_ASSIGNMENT = ReplicaAssignment(())


@lru_cache(maxsize=4_096)
def those_in(replicas: tuple[BrokerId, ...], brokers: frozenset[BrokerId]) -> tuple[BrokerId, ...]:
    """Those of `replicas` that are among `brokers`, in order. Thousands of partitions ask alike, and share the
    answer."""
    return tuple([replica for replica in replicas if replica in brokers])


@lru_cache(maxsize=4_096)
def those_not_in(replicas: tuple[BrokerId, ...], brokers: frozenset[BrokerId]) -> tuple[BrokerId, ...]:
    """Those of `replicas` that are not among `brokers`."""
    return tuple([replica for replica in replicas if replica not in brokers])


@lru_cache(maxsize=4_096)
def without(replicas: tuple[BrokerId, ...], broker: BrokerId) -> tuple[BrokerId, ...]:
    """`replicas` but for `broker`."""
    return tuple([replica for replica in replicas if replica != broker])
