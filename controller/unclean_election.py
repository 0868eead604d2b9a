"""Replicas outside the ISR may lead from now on: by the cluster's default, or by a topic's config."""

from __future__ import annotations

from controller.term import Term


async def process_unclean_leader_election_enable(term: Term) -> None:
    """Every partition without a leader is tried again."""


async def process_topic_unclean_leader_election_enable(term: Term, topic: str) -> None:
    """The same for one topic."""
