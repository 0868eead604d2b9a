"""Leaderships drift back to their preferred replicas. Mirrors `checkAndTriggerAutoLeaderRebalance`."""

from __future__ import annotations

from controller.term import Term


def schedule(term: Term, *, delay_ms: int) -> None:
    """AR-1: look after `delay_ms`, unless the term has ended."""


async def process_auto_preferred_replica_leader_election(term: Term) -> None:
    """AR-2, AR-3."""
