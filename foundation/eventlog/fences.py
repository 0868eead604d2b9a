"""The fences of a node: each refuses requests and writes of an earlier epoch.

Each has a name and counts its hits, and writes a record at every hit. An experiment can switch it off, to show what it
protects from. `Switch` and `SWITCHES` join them with the fixes of `understudy.foundation.eventlog.rules`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from enum import Enum
from functools import partial
from typing import Final, TypeAlias

from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.records import FenceHit
from understudy.foundation.eventlog.rules import Fix, Rule, Rules

NO_EPOCH: Final = -1


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


ROUTINE_FENCES: Final = frozenset({Fence.FETCH_LEADER_EPOCH.value})
"""The fences that are part of every change of a leader: a follower asks once in its old leader epoch, then in the new
one. The page shows their hits less prominently than the hits of others."""


Switch: TypeAlias = Fence | Fix

SWITCHES: Final[dict[str, Switch]] = {switch.value: switch for switch in (*Fence, *Fix)}
"""Every switch by its name."""


class Fences:
    """The fences and fixes of one node.

    Args:
        switched_off: fences that refuse nothing, and fixes that are undone; for experiments only.

    Attributes:
        hits: how often each fence and each rule has decided something.
        rules: the rules of the node.
    """

    def __init__(self, events: EventLog, *, switched_off: Collection[Switch] = ()) -> None:
        self._events = events
        self._switched_off = frozenset(switched_off)
        self.hits: Counter[Switch] = Counter()
        self.rules = Rules(self._rule)

    def is_on(self, switch: Switch) -> bool:
        """Whether a fence or fix is on; asked if it must be known before it decides anything."""
        return switch not in self._switched_off

    def record_hit(self, fence: Fence, *, what: str, offered: int, known: int) -> bool:
        """Record that something stale met `fence`, and return whether the fence is on, so that the caller refuses it.

        Args:
            what: the stale thing, for example `LeaderAndIsr from 1` or `orders-3`.
            offered: the epoch or version that it carries.
            known: the epoch or version that it had to match or exceed.
        """
        is_on = self.is_on(fence)
        self.hits[fence] += 1
        self._events.append(
            FenceHit(fence=fence.value, what=what, offered=offered, known=known, switched_off=not is_on)
        )
        return is_on

    def _rule(self, fix: Fix) -> Rule:
        return Rule(holds=self.is_on(fix), decides=partial(self._record_decision, fix))

    def _record_decision(self, fix: Fix, what: object) -> None:
        """Count that a rule has decided something; if it is off, record what it would have decided about."""
        self.hits[fix] += 1
        if not self.is_on(fix):
            self._events.append(
                FenceHit(fence=fix.value, what=str(what), offered=NO_EPOCH, known=NO_EPOCH, switched_off=True)
            )
