"""Named fences: the checks that refuse requests and writes of an earlier epoch.

Each fence has a name, counts its hits and writes a record at every hit. An experiment can switch it off, to show what
it protects from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from enum import Enum

from foundation.eventlog.log import EventLog
from foundation.eventlog.records import FenceHit


class Fence(Enum):
    """The fences by name, each with the staleness that it refuses."""

    ZK_CONTROLLER_EPOCH = "zk.controller-epoch"
    """A write whose transaction checks `/controller_epoch` at a version that is no longer current (KAFKA-6082)."""
    STATE_CONTROLLER_EPOCH = "controller.state-controller-epoch"
    """A partition state already written by a newer controller (`StateChangeFailedException`)."""
    BROKER_CONTROLLER_EPOCH = "broker.controller-epoch"
    """A control request of an older controller epoch than the newest this broker has received (KAFKA-532)."""
    BROKER_EPOCH = "broker.broker-epoch"
    """A control request meant for an earlier registration of this broker (KIP-380)."""
    BROKER_LEADER_EPOCH = "broker.leader-epoch"
    """A partition in a LeaderAndIsr or StopReplica that is not newer than what the broker has (KAFKA-1188, KIP-570)."""
    REQUEST_BROKER_EPOCH = "controller.broker-epoch"
    """An AlterPartition, ControlledShutdown or AllocateProducerIds from an earlier registration."""
    ALTER_PARTITION_EPOCHS = "controller.partition-epochs"
    """An AlterPartition whose leader or partition epoch is not the controller's (KIP-497, KAFKA-14154)."""
    FETCH_LEADER_EPOCH = "broker.fetch-leader-epoch"
    """A Fetch at another leader epoch than the leader's (KIP-320)."""


class Fences:
    """The fences of one node.

    Args:
        switched_off: fences that refuse nothing; for experiments only.
    """

    def __init__(self, events: EventLog, *, switched_off: Collection[Fence] = ()) -> None:
        self._events = events
        self._switched_off = frozenset(switched_off)
        self.hits: Counter[Fence] = Counter()

    def is_on(self, fence: Fence) -> bool:
        """Whether `fence` refuses anything; asked before a check is sent to ZooKeeper as part of a transaction."""
        return fence not in self._switched_off

    def record_hit(self, fence: Fence, *, what: str, offered: int, known: int) -> bool:
        """Record that something stale met `fence`, and return whether the fence is on, so that the caller refuses it.

        Args:
            what: what is stale, for example `LeaderAndIsr from 1` or `orders-3`.
            offered: the epoch or version that it carries.
            known: the epoch or version that it had to match or exceed.
        """
        is_on = self.is_on(fence)
        self.hits[fence] += 1
        self._events.append(
            FenceHit(fence=fence.value, what=what, offered=offered, known=known, switched_off=not is_on)
        )
        return is_on
