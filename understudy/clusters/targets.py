"""Resolves the target of a fault: which brokers a role means at this moment. For verbs and for experiments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

from understudy.clusters.cluster import ClusterError
from understudy.clusters.values import Target
from understudy.foundation.cluster.identifiers import TopicPartition

DRAWN: Final = ("random", "follower")
"""Roles that mean one of several brokers."""


class Resolver(NamedTuple):
    """Resolves targets to brokers.

    Attributes:
        rack: returns the rack of a broker.
        running: returns the brokers that `random` may mean.
        controller, leader, isr: read ZooKeeper; they are called only for the roles that need them.
    """

    broker_ids: Collection[int]
    rack: Callable[[int], str | None]
    running: Callable[[], Collection[int]]
    controller: Callable[[], int | None]
    leader: Callable[[TopicPartition], int | None]
    isr: Callable[[TopicPartition], Collection[int]]

    def candidates(self, target: Target) -> tuple[int, ...]:
        """Return every broker that a target may mean now; for `random` and `follower` the target means one of them."""
        match target.role:
            case "broker":
                return (target.broker_id,)
            case "all":
                return tuple(self.broker_ids)
            case "rack":
                return tuple(broker_id for broker_id in self.broker_ids if self.rack(broker_id) == target.name)
            case "random":
                return tuple(self.running())
            case "controller":
                holder = self.controller()
                return () if holder is None else (holder,)
        assert target.partition is not None, f"{target} is no broker"
        leader = self.leader(target.partition)
        if target.role == "follower":
            return tuple(broker_id for broker_id in self.isr(target.partition) if broker_id != leader)
        return () if leader is None else (leader,)

    def resolve(self, target: Target, choose: Callable[[Sequence[int]], int]) -> tuple[tuple[int, ...], str]:
        """Return the brokers that a target means now, and by which role.

        Args:
            choose: draws one of the brokers that `random` and `follower` may mean.

        Raises:
            ClusterError: there is no such rack, or no broker has the role.
        """
        found, role = self.candidates(target), role_of(target)
        if not found and target.role == "rack":
            racks = ", ".join(sorted(filter(None, {*map(self.rack, self.broker_ids)}))) or "none"
            raise ClusterError(f"no broker is in rack {target.name!r}; the racks are: {racks}")
        if not found and role:
            raise ClusterError(f"no broker is {role} at this moment")
        return ((choose(found),) if target.role in DRAWN and found else found), role


def role_of(target: Target) -> str:
    """Return a role as the records of faults name it; empty for brokers that have none."""
    match target.role:
        case "controller":
            return "controller"
        case "rack":
            return f"rack {target.name}"
        case "leader" | "follower":
            return f"{target.role} of {target.partition}"
    return ""
