"""Gives leaderships back to preferred replicas from time to time. Mirrors `checkAndTriggerAutoLeaderRebalance`.

The preferred leader of a partition is the first broker of its assignment. If more than a given share of the partitions
that prefer a broker have another leader, preferred leader elections are run for those that it could lead now. The timer
belongs to one term: it is cancelled at resignation, and an event that it has queued already carries the epoch of its
term.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import structlog

from understudy.controller.context import ControllerContext
from understudy.controller.events import AutoPreferredReplicaLeaderElection, ElectionTrigger, ElectionType
from understudy.controller.leader_election import preferred_replica_leader
from understudy.controller.replica_leader_election import on_replica_election
from understudy.controller.term import Term
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.controller.KafkaController")


class Balance(NamedTuple):
    """How many partitions prefer one broker, and which of them another broker leads."""

    preferred: int
    elsewhere: Sequence[TopicPartition]

    def exceeds(self, percentage: int) -> bool:
        """Whether more than `percentage` per cent of them are led elsewhere; exactly `percentage` is not too many."""
        return len(self.elsewhere) * 100 > percentage * self.preferred


def schedule(term: Term, *, delay_ms: int) -> None:
    """Queue the next check in `delay_ms` in place of any other, unless rebalancing is disabled (AR-1)."""
    if not term.settings.auto_leader_rebalance_enable:
        return
    cancel(term)
    event = AutoPreferredReplicaLeaderElection(term.context.epoch)
    term.rebalance_timer = asyncio.get_running_loop().call_later(delay_ms / 1000, term.put, event)


def cancel(term: Term) -> None:
    """Cancel the timer, because the term ends or another check is scheduled."""
    if term.rebalance_timer is not None:
        term.rebalance_timer.cancel()
        term.rebalance_timer = None


async def process_auto_preferred_replica_leader_election(term: Term, event: AutoPreferredReplicaLeaderElection) -> None:
    """Run preferred leader elections, one batch per broker, so that a large one does not delay all others (AR-2, AR-3,
    KAFKA-7299)."""
    if event.controller_epoch != term.context.epoch:
        return
    interval_ms = term.settings.leader_imbalance_check_interval_seconds * 1000
    # Before the elections: if one of them fails there is a next check all the same.
    schedule(term, delay_ms=interval_ms)
    for broker, partitions in electable(term.context, term.settings.leader_imbalance_per_broker_percentage).items():
        log.info("automatic preferred replica leader election", broker=broker, partitions=len(partitions))
        await on_replica_election(term, partitions, ElectionType.PREFERRED, ElectionTrigger.AUTO)
    # The interval begins when the elections are over (AR-1).
    schedule(term, delay_ms=interval_ms)


def electable(context: ControllerContext, percentage: int) -> dict[BrokerId, list[TopicPartition]]:
    """Return by broker the partitions that it is to lead again; balanced brokers and elections without a chance are
    left out (AR-3).

    A partition that is being reassigned is treated like any other (KAFKA-10149).
    """
    online = context.online_brokers()
    found: dict[BrokerId, list[TopicPartition]] = {}
    for broker, balance in sorted(balances(context).items()):
        if not balance.exceeds(percentage):
            continue
        candidates = [
            partition
            for partition in balance.elsewhere
            # Only elections that can succeed (KAFKA-9866).
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
    """Return the balance of each preferred broker (AR-2). Topics queued for deletion do not count; a partition without
    a leader counts as balanced."""
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
