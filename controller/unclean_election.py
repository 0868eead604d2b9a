"""Tries elections again after unclean leader election was enabled, in the cluster's default or in a topic's config.

Whether a topic allows it is read when the election is run (PSM-17); these events only trigger it. Mirrors
`processUncleanLeaderElectionEnable` and `processTopicUncleanLeaderElectionEnable`.
"""

from __future__ import annotations

import structlog

from understudy.controller.partition_state_machine import trigger_online_state_change
from understudy.controller.term import Term

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.controller.KafkaController")


async def process_unclean_leader_election_enable(term: Term) -> None:
    """Try to elect a leader for every partition without one (PSM-8)."""
    log.info("unclean leader election has been enabled by default")
    await trigger_online_state_change(term)


async def process_topic_unclean_leader_election_enable(term: Term, topic: str) -> None:
    """Try to elect a leader for every partition of `topic` without one (PSM-8)."""
    log.info("unclean leader election has been enabled", topic=topic)
    await trigger_online_state_change(term, topic)
