"""Which brokers hold a partition, and which are on their way in or out. Mirrors `kafka.controller.ReplicaAssignment`."""

from __future__ import annotations

from typing import NamedTuple

from foundation.cluster.identifiers import BrokerId


class ReplicaAssignment(NamedTuple):
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


NO_ASSIGNMENT = ReplicaAssignment(())
