"""Replicas outside the ISR may lead from now on: by the cluster's default, or by a topic's config.

What was left without a leader because nobody in sync was alive is tried again. Whether a topic may lose data is read
when the election is held (PSM-17), so the event only says when to look. Mirrors `processUncleanLeaderElectionEnable`
and its kin.
"""

from __future__ import annotations

import structlog

from controller.partition_state_machine import trigger_online_state_change
from controller.term import Term

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.controller.KafkaController")


async def process_unclean_leader_election_enable(term: Term) -> None:
    """PSM-8: every partition without a leader is tried again."""
    log.info("unclean leader election has been enabled by default")
    await trigger_online_state_change(term)


async def process_topic_unclean_leader_election_enable(term: Term, topic: str) -> None:
    """PSM-8: the same for one topic."""
    log.info("unclean leader election has been enabled", topic=topic)
    await trigger_online_state_change(term, topic)
