"""Compaction in a simulated cluster: what clients see of a compacted topic, and what the checks say of its replicas."""

from __future__ import annotations

import random

import pytest

from understudy.checks.client_history import check_clients
from understudy.checks.replica_logs import partitions_that_may_have_lost
from understudy.clusters.clients.client_load import ClientLoad
from understudy.clusters.clients.producer import ALL_ACKS
from understudy.clusters.simulated.cluster import PORT, SimulatedCluster
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.records import Envelope, LogCleaned
from understudy.history.reading.lines import decode_record
from understudy.trials.seeds.judgement import SeedJudgement, judge

TABLE_0 = TopicPartition("table", 0)
SETTINGS = {"understudy.events.logs": "true", "log.cleaner.backoff.ms": "400"}
CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "1000",
    "index.interval.bytes": "200",
    "min.cleanable.dirty.ratio": "0.1",
    "min.insync.replicas": "2",
    "file.delete.delay.ms": "1000",
}
KEYS = [f"key-{number}" for number in range(6)]


class CompactedTopic:
    """A cluster with one compacted partition, two producers of it and a consumer."""

    def __init__(self, seed: int) -> None:
        self.cluster = cluster = SimulatedCluster(seed, brokers=3, settings=SETTINGS)
        cluster.start()
        cluster.ask(cluster.admin.create_topic("table", partitions=1, replication_factor=3, configs=CONFIGS))
        bootstrap = [f"{broker.node.name}:{PORT}" for broker in cluster.brokers]
        self.load = ClientLoad(cluster.client_network, cluster.simulator.clock, lambda: bootstrap, [TABLE_0], keys=KEYS)
        self._ended = 0
        for number in (1, 2):
            source = random.Random(seed + number)
            cluster.begin(self._counted(f"producer-{number}", source))
        cluster.begin(self.load.consume("consumer-1"))

    async def _counted(self, name: str, source: random.Random) -> None:
        await self.load.produce(name, ALL_ACKS, source, gap_s=(0.05, 0.2))
        self._ended += 1

    def end(self) -> SeedJudgement:
        """Stop the clients, read everything, and judge the run."""
        cluster = self.cluster
        cluster.heal()
        self.load.is_stopping = True
        cluster.wait_until(lambda: self._ended == 2, "the producers have ended")
        cluster.settle()
        cluster.ask(self.load.read_all())
        records = [decode_record(line) for line in cluster.log_lines]
        self.load.history.may_have_lost |= partitions_that_may_have_lost(records)
        cluster.close()
        return judge(cluster)

    def compactions(self) -> list[Envelope]:
        found = (decode_record(line) for line in self.cluster.log_lines)
        return [record for record in found if isinstance(record.data, LogCleaned)]


def run(seed: int, *, fails: bool) -> tuple[CompactedTopic, SeedJudgement]:
    topic = CompactedTopic(seed)
    cluster = topic.cluster
    source = random.Random(seed)
    for _ in range(4):
        cluster.run_for(source.randint(2_000, 6_000))
        if fails:
            broker = cluster.broker(source.choice(cluster.broker_ids))
            source.choice((broker.kill, broker.lose_power))()
            cluster.run_for(source.randint(500, 12_000))
            broker.start()
    cluster.run_for(5_000)
    return topic, topic.end()


@pytest.mark.parametrize("seed", [1, 2])
def test_a_compacted_topic_is_read_without_a_violation(seed: int) -> None:
    topic, judgement = run(seed, fails=False)
    assert judgement.problems == ()
    clients = check_clients(topic.load.history)
    assert clients.violations == []
    assert clients.times_tested["H1"] > 0
    assert {record.node for record in topic.compactions()} == {"broker-1", "broker-2", "broker-3"}
    final = {offset for poll in topic.load.history.polls if poll.is_final for offset, _ in poll.records}
    assert len(final) < len(topic.load.history.sends) / 2, "most records were compacted"
    assert len(final) >= len(KEYS)


def test_a_load_reads_no_partition_of_another_one_at_its_end() -> None:
    """Loads of several topics have one history."""
    topic = CompactedTopic(1)
    cluster, history = topic.cluster, topic.load.history
    cluster.run_for(3_000)
    other = ClientLoad(cluster.client_network, cluster.simulator.clock, lambda: cluster.bootstrap, [], history=history)
    cluster.ask(other.read_all())
    cluster.close()
    assert history.sends
    assert not any(poll.is_final for poll in history.polls)


@pytest.mark.parametrize("seed", range(1, 20))
def test_brokers_fail_while_they_compact(seed: int) -> None:
    topic, judgement = run(seed, fails=True)
    assert judgement.problems == ()
    assert check_clients(topic.load.history).violations == []
    assert topic.compactions()


def test_the_same_seed_compacts_the_same() -> None:
    (first, one), (second, other) = run(5, fails=True), run(5, fails=True)
    assert one.log_digest == other.log_digest
    assert first.compactions() == second.compactions() != []
