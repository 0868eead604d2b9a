"""Leaderships drift back to their preferred replicas. Mirrors `checkAndTriggerAutoLeaderRebalance`.

Every partition belongs to the broker that is first in its assignment. Where more than a given share of a broker's
partitions is led by others, those that it could lead now get a preferred leader election. The clock runs within one
term: its handle is dropped at resignation, and what it had queued before carries the epoch it was meant for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import structlog

from controller.context import ControllerContext
from controller.events import AutoPreferredReplicaLeaderElection, ElectionTrigger, ElectionType
from controller.leader_election import preferred_replica_leader
from controller.replica_leader_election import on_replica_election
from controller.term import Term
from foundation.cluster.identifiers import BrokerId, TopicPartition

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.controller.KafkaController")


class Balance(NamedTuple):
    """Of the partitions that prefer one broker: how many there are, and which of them another broker leads."""

    preferred: int
    elsewhere: Sequence[TopicPartition]

    def exceeds(self, percentage: int) -> bool:
        """Whether more than `percentage` of them are led elsewhere; exactly so many are not too many."""
        return len(self.elsewhere) * 100 > percentage * self.preferred


def schedule(term: Term, *, delay_ms: int) -> None:
    """AR-1: look after `delay_ms` and not before, unless the term has ended or nothing shall be rebalanced."""
    if not term.settings.auto_leader_rebalance_enable:
        return
    cancel(term)
    event = AutoPreferredReplicaLeaderElection(term.context.epoch)
    term.rebalance_timer = asyncio.get_running_loop().call_later(delay_ms / 1000, term.put, event)


def cancel(term: Term) -> None:
    """The term is over, or shall look at another time."""
    if term.rebalance_timer is not None:
        term.rebalance_timer.cancel()
        term.rebalance_timer = None


async def process_auto_preferred_replica_leader_election(term: Term, event: AutoPreferredReplicaLeaderElection) -> None:
    """AR-2, AR-3. One batch of elections per broker, so that one large one does not hold up all others (KAFKA-7299)."""
    if event.controller_epoch != term.context.epoch:
        return
    interval_ms = term.settings.leader_imbalance_check_interval_seconds * 1000
    # Whatever becomes of this run, there will be another.
    schedule(term, delay_ms=interval_ms)
    for broker, partitions in electable(term.context, term.settings.leader_imbalance_per_broker_percentage).items():
        log.info("automatic preferred replica leader election", broker=broker, partitions=len(partitions))
        await on_replica_election(term, partitions, ElectionType.PREFERRED, ElectionTrigger.AUTO)
    # AR-1: the pause is counted from the end.
    schedule(term, delay_ms=interval_ms)


def electable(context: ControllerContext, percentage: int) -> dict[BrokerId, list[TopicPartition]]:
    """AR-3: by broker what it shall lead again; brokers in balance, and those that could not lead anything, are left
    out.

    A partition on the move is no exception (KAFKA-10149).
    """
    online = context.online_brokers()
    found: dict[BrokerId, list[TopicPartition]] = {}
    for broker, balance in sorted(balances(context).items()):
        if not balance.exceeds(percentage):
            continue
        candidates = [
            partition
            for partition in balance.elsewhere
            # KAFKA-9866: an election that cannot succeed is not held.
            if preferred_replica_leader(
                context.partition_assignment(partition).replicas,
                context.leadership[partition].leader_and_isr.isr,
                online.of(partition),
            )
            is not None
        ]
        if candidates:
            found[broker] = candidates
    return found


def balances(context: ControllerContext) -> Mapping[BrokerId, Balance]:
    """AR-2: by preferred broker. One pass over all partitions; those of topics to be deleted do not count, and a
    partition that has never had a leader is nobody else's."""
    leadership, queued = context.leadership, context.topics_to_be_deleted
    preferred: dict[BrokerId, int] = {}
    elsewhere: dict[BrokerId, list[TopicPartition]] = {}
    for partition, assignment in context.assignments.items():
        if not assignment.replicas or (queued and partition.topic in queued):
            continue
        broker = assignment.replicas[0]
        preferred[broker] = preferred.get(broker, 0) + 1
        known = leadership.get(partition)
        if known is not None and known.leader_and_isr.leader != broker:
            elsewhere.setdefault(broker, []).append(partition)
    return {broker: Balance(count, elsewhere.get(broker, ())) for broker, count in preferred.items()}
