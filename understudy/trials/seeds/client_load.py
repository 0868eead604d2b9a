"""The clients of a seed: producers and a consumer of one topic that is reassigned, and a topic that is deleted.

Two producers send with acks=all and one with acks=1. Half of the seeds also have a topic that is compacted, to which
two producers send records with few keys. `understudy.checks.client_history` judges what they have seen.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
from collections.abc import Collection, Mapping

from understudy.checks.replica_logs import partitions_that_may_have_lost
from understudy.clusters.clients.client_load import ClientLoad
from understudy.clusters.clients.cluster_requests import NoBrokerAnswers
from understudy.clusters.clients.producer import ALL_ACKS, Producer
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.clusters.simulated.randomness import derived
from understudy.foundation.cluster.errors import ApiError
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.trials.seeds.workload import CLIENTS_TOPICS

TOPIC, DELETED_TOPIC, COMPACTED_TOPIC = CLIENTS_TOPICS
_NAMES = re.compile(f'"{TOPIC}"|"{COMPACTED_TOPIC}"'.encode())
PARTITIONS = (TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1))
COMPACTED_PARTITIONS = (TopicPartition(COMPACTED_TOPIC, 0), TopicPartition(COMPACTED_TOPIC, 1))
READ_TOPICS = (TOPIC, COMPACTED_TOPIC)
"""The topics that members of groups may read."""
MIN_INSYNC_REPLICAS = 2
LEADER_ALONE = 1
"""The acks of a producer that may lose records when their leader ends."""
REASSIGNMENTS, DELETION = "reassignments", "deletion"
LOAD = ("producer-1", "producer-2", "producer-3", "consumer-1", REASSIGNMENTS, DELETION)
"""The parts of the load that every seed draws. Without one, the others draw the same random numbers."""
COMPACTION = "compaction"
PARTS = (*LOAD, COMPACTION)
"""All parts of the load."""
CLEANER_SETTINGS = {
    "log.cleaner.backoff.ms": "1000",
    "log.cleaner.min.cleanable.ratio": "0.1",
    "offsets.topic.segment.bytes": "4000",
}
"""Settings of all brokers in a seed with groups or a compacted topic. Logs, also of `__consumer_offsets`, are cleaned
often enough to meet every fault."""
KEYS = tuple(f"key-{number}" for number in range(6))
_COMPACTED_CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "1000",
    "index.interval.bytes": "200",
    "file.delete.delay.ms": "1000",
}
_GAP_S = (0.1, 1.0)
_CHANGED_UNTIL_MS = 20_000
"""Latest time at which topics are reassigned and deleted."""


class SeedClients:
    """Three producers and a consumer of one topic, a producer of one that is deleted, and clients of a compacted one.

    Args:
        source: decides when and how much they send.
        parts: the parts of the load that run, of `PARTS`.
    """

    def __init__(self, cluster: SimulatedCluster, source: random.Random, parts: Collection[str] = LOAD) -> None:
        self._cluster = cluster
        self._parts = frozenset(parts)
        self._source = source
        network, clock = cluster.client_network, cluster.simulator.clock
        open_log = cluster.open_client_log
        self._load = ClientLoad(network, clock, lambda: cluster.bootstrap, PARTITIONS, open_log=open_log)
        self._loads = [self._load]
        self.history = history = self._load.history
        if COMPACTION in self._parts:
            compacted = COMPACTED_PARTITIONS
            self._loads.append(
                ClientLoad(
                    network,
                    clock,
                    lambda: cluster.bootstrap,
                    compacted,
                    keys=KEYS,
                    history=history,
                    open_log=open_log,
                )
            )

    def start(self) -> None:
        """Create the topics, and begin to send and to read."""
        self._create(TOPIC, {})
        for number, acks in ((1, ALL_ACKS), (2, ALL_ACKS), (3, LEADER_ALONE)):
            source = random.Random(self._source.getrandbits(32))
            if (name := f"producer-{number}") in self._parts:
                self._cluster.begin(self._load.produce(name, acks, source, gap_s=_GAP_S))
        if "consumer-1" in self._parts:
            self._cluster.begin(self._load.consume("consumer-1"))
        for _ in range(self._source.randint(0, 3)):
            after_ms = self._source.randint(1_000, _CHANGED_UNTIL_MS)
            if REASSIGNMENTS in self._parts:
                self._cluster.after(after_ms, self._reassign)
        after_s = self._source.uniform(1, _CHANGED_UNTIL_MS / 1000)
        if DELETION in self._parts:
            self._cluster.begin(self._delete_records(after_s))
        for compacted in self._loads[1:]:
            self._create(COMPACTED_TOPIC, _COMPACTED_CONFIGS)
            for number in (1, 2):
                source = derived(self._cluster.seed, COMPACTION, number)
                self._cluster.begin(compacted.produce(f"keys-{number}", ALL_ACKS, source, gap_s=_GAP_S))
            self._cluster.begin(compacted.consume("keys-consumer"))

    def stop(self) -> None:
        """Stop sending, wait until every send has ended, then read everything."""
        for load in self._loads:
            load.is_stopping = True
        self._cluster.wait_until(
            lambda: not any(load.running for load in self._loads), "the producers and consumers have ended"
        )
        for load in self._loads:
            self._cluster.ask(load.read_all())

    def note_losses(self) -> None:
        """Excuse the partitions whose leader may have lacked acknowledged records when it was elected."""
        of_each = zip(self._cluster.log_lines, self._cluster.records(), strict=True)
        lost = partitions_that_may_have_lost(record for line, record in of_each if _NAMES.search(line))
        self.history.may_have_lost |= {key for key in lost if key[0] in READ_TOPICS}

    def _create(self, topic: str, configs: Mapping[str, str]) -> None:
        configs = {"min.insync.replicas": str(MIN_INSYNC_REPLICAS), **configs}
        partitions = sum(each.topic == topic for each in (*PARTITIONS, *COMPACTED_PARTITIONS))
        self._cluster.ask(
            self._cluster.admin.create_topic(topic, partitions=partitions, replication_factor=3, configs=configs)
        )

    async def _delete_records(self, after_s: float) -> None:
        """Produce to `DELETED_TOPIC`, and delete it with its records after `after_s`."""
        admin = self._cluster.admin
        with (
            contextlib.suppress(ApiError, NoBrokerAnswers),
            self._load.client("producer-4", is_recorded=True) as connections,
        ):
            await admin.create_topic(DELETED_TOPIC, partitions=1, replication_factor=2)
            producer = Producer(connections, self._cluster.simulator.clock, delivery_timeout_ms=3_000)
            for _ in range(3):
                await producer.send(TopicPartition(DELETED_TOPIC, 0), [b"to be deleted"])
            connections.close()
            await asyncio.sleep(after_s)
            await admin.delete_topics(DELETED_TOPIC)

    def _reassign(self) -> None:
        """Move a partition to other brokers, or to the same ones in another order."""
        brokers = list(self._cluster.broker_ids)
        partition = self._source.choice(PARTITIONS)
        replicas = self._source.sample(brokers, min(3, len(brokers)))
        self._cluster.begin(self._cluster.admin.alter_partition_reassignments({partition: replicas}))
