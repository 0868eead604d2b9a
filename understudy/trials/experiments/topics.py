"""Creates the topics of an experiment, on any kind of cluster."""

from __future__ import annotations

from understudy.clusters.cluster import Cluster
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.trials.experiments.language.document import ClusterPlan


def create_topics(cluster: Cluster, plan: ClusterPlan) -> list[TopicPartition]:
    """Create the topics of a plan, and return their partitions. Raises as `AdminClient.create_topic`."""
    partitions = []
    for topic in plan.topics:
        replicas = topic.assignment or None
        cluster.ask(
            cluster.admin.create_topic(
                topic.name,
                partitions=1 if replicas else topic.partitions,
                replication_factor=1 if replicas else min(topic.replicas, plan.brokers),
                assignment=dict.fromkeys(range(topic.partitions), replicas) if replicas else None,
                configs={"min.insync.replicas": str(topic.min_insync)},
            )
        )
        partitions += [TopicPartition(topic.name, number) for number in range(topic.partitions)]
    return partitions
