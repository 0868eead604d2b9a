"""Named switches: the fences that refuse what is of an earlier epoch, and the remembered fixes of historic bugs.

Each has a name and counts how often it decided something. An experiment can switch it off, to show what it protects
from. A fence writes a record at every hit; a fix writes one only if it is switched off and would have mattered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from enum import Enum
from typing import Final, TypeAlias

from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.records import FenceHit

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
one. The page shows their hits less prominently than those of the others."""


class Fix(Enum):
    """The fixes by the JIRA or KIP that made them, each with what Kafka does since then."""

    KAFKA_1382 = "kafka-1382"
    """A write that conflicts after its answer was lost counts as success if ZooKeeper holds what was meant."""
    KAFKA_1387 = "kafka-1387"
    """A broker that finds its registration taken by its own session goes on: the answer to its write was lost."""
    KAFKA_1555 = "kafka-1555"
    """A leader refuses acks=all where its ISR is smaller than `min.insync.replicas`."""
    KAFKA_2729 = "kafka-2729"
    """A leader repeats an ISR change that was refused without a decision, so that its ISR does not freeze."""
    KAFKA_3143 = "kafka-3143"
    """A new controller takes the replicas of dead brokers out of the ISRs."""
    KAFKA_4443 = "kafka-4443"
    """UpdateMetadata is sent before LeaderAndIsr, so that a follower knows the address of its leader."""
    KAFKA_5083 = "kafka-5083"
    """The last member of an ISR stays in it when its broker dies."""
    KAFKA_5310 = "kafka-5310"
    """A controller forgets its memory when it resigns."""
    KAFKA_7128 = "kafka-7128"
    """A follower joins the ISR only when it has the records up to where the leader's epoch began."""
    KAFKA_7165 = "kafka-7165"
    """A broker replaces the registration that its own previous session has left behind."""
    KAFKA_7415 = "kafka-7415"
    """A new leader notes where its epoch begins, even if it never appends."""
    KAFKA_7482 = "kafka-7482"
    """A broker that shuts down is sent the LeaderAndIsr that makes another broker leader."""
    KAFKA_7786 = "kafka-7786"
    """A follower ignores what a Fetch answers about a partition that was assigned anew while it was under way."""
    KAFKA_9212 = "kafka-9212"
    """The controller's memory takes the leader epoch that a reassignment has raised."""
    KAFKA_9769 = "kafka-9769"
    """A follower that cannot fetch yet does not note the leader epoch, so that the next LeaderAndIsr is new to it."""
    KAFKA_9839 = "kafka-9839"
    """A broker accepts a control request with a broker epoch that is newer than the one it knows."""
    KAFKA_10706 = "kafka-10706"
    """A truncation removes leader epochs also if no record goes."""
    KAFKA_13091 = "kafka-13091"
    """A leader looks at its high watermark when the controller has accepted a smaller ISR."""
    KAFKA_13225 = "kafka-13225"
    """The controller sends UpdateMetadata for a dead broker also if no partition has changed."""
    KAFKA_14140 = "kafka-14140"
    """The controller refuses an ISR with a broker that is dead or shutting down."""
    KAFKA_14144 = "kafka-14144"
    """The controller accepts an AlterPartition again whose first answer was lost."""
    KAFKA_14154 = "kafka-14154"
    """A controller answers NOT_CONTROLLER to a leader that has a newer epoch than its own memory."""
    KAFKA_14704 = "kafka-14704"
    """A follower truncates before it takes a high watermark from an answer that names a diverging epoch."""
    KIP_101 = "kip-101"
    """A follower truncates by leader epochs, not to its high watermark."""
    KIP_106 = "kip-106"
    """A replica outside the ISR becomes leader only if `unclean.leader.election.enable` allows it."""
    KIP_279 = "kip-279"
    """A leader without the follower's last epoch answers with the end of the largest one before it."""
    KIP_380 = "kip-380"
    """The controller notices a broker that has registered again between two looks at the list of brokers."""
    KIP_497 = "kip-497"
    """The high watermark waits for the replicas of an ISR that the controller has not decided yet."""
    KIP_570 = "kip-570"
    """A broker refuses a StopReplica with an older leader epoch than its own."""
    KIP_966 = "kip-966"
    """The high watermark stays where it is while the ISR is smaller than `min.insync.replicas`."""


Switch: TypeAlias = Fence | Fix

SWITCHES: Final[dict[str, Switch]] = {switch.value: switch for switch in (*Fence, *Fix)}
"""Every switch by its name."""


class Fences:
    """The fences and fixes of one node.

    Args:
        switched_off: fences that refuse nothing, and fixes that are undone; for experiments only.
    """

    def __init__(self, events: EventLog, *, switched_off: Collection[Switch] = ()) -> None:
        self._events = events
        self._switched_off = frozenset(switched_off)
        self.hits: Counter[Switch] = Counter()

    def is_on(self, switch: Switch) -> bool:
        """Whether a fence or fix is on; asked where it has to be known before it decides anything."""
        return switch not in self._switched_off

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

    def applies(self, fix: Fix, what: object) -> bool:
        """Count that `fix` decides something now, and return whether it is on, so that the caller does as it says.

        To be called only if the fix makes a difference. Where it is off, a record says what it would have decided.

        Args:
            what: what it decides about, for example a partition; read only if the fix is off.
        """
        self.hits[fix] += 1
        is_on = self.is_on(fix)
        if not is_on:
            self._events.append(
                FenceHit(fence=fix.value, what=str(what), offered=NO_EPOCH, known=NO_EPOCH, switched_off=True)
            )
        return is_on
