"""The states of a member of a group, as the member itself has them."""

from __future__ import annotations

import enum
from typing import NamedTuple

from understudy.foundation.cluster.identifiers import TopicPartition


class MemberState(enum.Enum):
    """The states of a member, named as in `AbstractCoordinator.MemberState` of Kafka's consumer."""

    UNJOINED = "unjoined"
    PREPARING_REBALANCE = "joins"
    COMPLETING_REBALANCE = "waits for its assignment"
    STABLE = "stable"


class MemberMoved(NamedTuple):
    """A member's state is now this one; it may have been the same one before.

    Attributes:
        coordinator: the id of the broker that it takes for the coordinator; None if it has to find it.
        partitions: what it owns.
        reason: why it has left the state before, or could not leave this one; empty for none.
    """

    at_ms: float
    state: MemberState
    generation: int
    member_id: str
    coordinator: int | None
    partitions: tuple[TopicPartition, ...]
    reason: str = ""
