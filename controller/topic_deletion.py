"""Topics are deleted: their replicas first, then what ZooKeeper holds of them. Mirrors `TopicDeletionManager`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from controller.events import TopicDeletionStopReplicaResponseReceived
from controller.term import Term
from foundation.cluster.identifiers import BrokerId, TopicPartition


async def initialise(term: Term) -> None:
    """FO-6, FO-7: what was queued when this controller took over, and what of it must wait."""
    queued = await term.zk.topic_deletions(watch=True)
    if term.settings.delete_topic_enable:
        term.context.topics_to_be_deleted = term.context.all_topics.intersection(queued)


async def process_topic_deletion(term: Term) -> None:
    """TD-1: markers have appeared in `/admin/delete_topics`."""


async def process_stop_replica_response(term: Term, event: TopicDeletionStopReplicaResponseReceived) -> None:
    """TD-6: a broker has deleted replicas, or says why not."""


async def resume_deletions(term: Term) -> None:
    """TD-3: go on with every queued topic as far as it can be gone on with."""


async def resume_deletions_for_topics(term: Term, topics: Collection[str]) -> None:
    """TD-9: what these topics waited for has happened."""


async def fail_replica_deletion(term: Term, replicas: Mapping[BrokerId, Sequence[TopicPartition]]) -> None:
    """TD-8: these replicas cannot be deleted for now; their topics wait."""


def mark_topics_ineligible(term: Term, topics: Collection[str], why: str) -> None:
    """Queued topics that must wait."""
