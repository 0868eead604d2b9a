"""Creates the topics of an experiment, on any kind of cluster."""

from __future__ import annotations

from understudy.clusters.cluster import Cluster
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.trials.experiments.language.document import ClusterPlan


def partitions_of(plan: ClusterPlan) -> list[TopicPartition]:
    """Return the partitions of the topics of a plan."""
    return [TopicPartition(topic.name, number) for topic in plan.topics for number in range(topic.partitions)]


def create_topics(cluster: Cluster, plan: ClusterPlan) -> None:
    """Create the topics of a plan. Raises as `AdminClient.create_topic`."""
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
