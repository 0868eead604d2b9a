"""Assigns the partitions that a broker follows to the fetch loops of their leaders. Mirrors `ReplicaFetcherManager`."""

from __future__ import annotations

from collections.abc import Iterable

from understudy.brokers.replication.partition import Partition
from understudy.brokers.replication.replica_fetcher import FetcherSurroundings, PartitionFetchState, ReplicaFetcher
from understudy.foundation.cluster.identifiers import TopicPartition


class ReplicaFetcherManager:
    """The fetch loops of all leaders, by the leader's id.

    A loop starts with its first partition. One without partitions ends at the next LeaderAndIsr, as in Kafka: often
    that request gives it partitions again.
    """

    def __init__(self, surroundings: FetcherSurroundings) -> None:
        self._surroundings = surroundings
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self.leader_of: dict[TopicPartition, int] = {}
        """The broker that each partition is fetched from."""

    def follow(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            self._stop_one(partition.topic_partition)
            self._truncate_to_high_watermark(partition)
            fetcher = self._fetchers.get(partition.leader)
            if fetcher is None:
                fetcher = self._fetchers[partition.leader] = ReplicaFetcher(partition.leader, self._surroundings)
            fetcher.add(
                partition.topic_partition,
                PartitionFetchState(
                    partition.topic_id,
                    partition.leader_epoch,
                    partition,
                    is_truncating=not self._surroundings.config.metadata_version.is_truncation_on_fetch_supported,
                ),
            )
            self.leader_of[partition.topic_partition] = partition.leader
        for leader in sorted(self._fetchers):
            self._fetchers[leader].wake()
        self._end_idle()

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        for topic_partition in partitions:
            self._stop_one(topic_partition)

    def note_change(self, topic_partition: TopicPartition) -> None:
        """Name a partition in the next Fetch: its log has changed otherwise than by an answer of the leader."""
        leader = self.leader_of.get(topic_partition)
        if leader is not None:
            self._fetchers[leader].note_change(topic_partition)

    def close(self) -> None:
        for leader in sorted(self._fetchers):
            self._fetchers[leader].end()
        self._fetchers.clear()
        self.leader_of.clear()

    def _stop_one(self, topic_partition: TopicPartition) -> None:
        leader = self.leader_of.pop(topic_partition, None)
        if leader is not None:
            self._fetchers[leader].remove(topic_partition)

    def _truncate_to_high_watermark(self, partition: Partition) -> None:
        """Do what followers did before KIP-101, if an experiment wants it."""
        replica, around = partition.log, self._surroundings
        has_more = replica.log_end_offset > replica.high_watermark
        if has_more and not around.rules.truncation_follows_epochs.holds_for(partition.topic_partition):
            with around.log_events.truncating(partition):
                replica.truncate_to(replica.high_watermark, now_ms=around.clock.wall_ms())

    def _end_idle(self) -> None:
        idle = [leader for leader, fetcher in self._fetchers.items() if not fetcher.partitions]
        for leader in idle:
            self._fetchers.pop(leader).end()
