"""Records of the logs of partitions in the event log, which `understudy.events.logs` switches on."""

from __future__ import annotations

import pytest

from understudy.brokers.replication.replica_fetcher import PartitionFetchState, ReplicaFetcher
from understudy.clusters.clients.connections import Connections
from understudy.clusters.clients.producer import Delivery, DeliveryOutcome, Producer
from understudy.clusters.simulated.cluster import PORT, SimulatedCluster
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.records import (
    HighWatermarkChanged,
    LeaderStarted,
    LogOpened,
    LogTruncated,
    Payload,
    RecordsAcknowledged,
    RecordsAppended,
)
from understudy.foundation.wire.messages.fetch import PartitionData
from understudy.history.reading.lines import decode_record
from understudy.trials.seeds.judgement import judge

ORDERS_0 = TopicPartition("orders", 0)
RECORDS_OF_LOGS = (
    LogOpened,
    LeaderStarted,
    RecordsAppended,
    HighWatermarkChanged,
    LogTruncated,
    RecordsAcknowledged,
)


def orders(*, logs: str) -> SimulatedCluster:
    cluster = SimulatedCluster(5, brokers=3, settings={"understudy.events.logs": logs})
    cluster.start()
    cluster.create_topic("orders", assignment={0: [1, 2, 3]})
    cluster.settle()
    return cluster


def produce(cluster: SimulatedCluster, *values: bytes) -> Delivery:
    async def send() -> Delivery:
        bootstrap = [f"{broker.node.name}:{PORT}" for broker in cluster.brokers]
        connections = Connections(cluster.client_network, bootstrap, client_id="test", timeout_ms=2_000)
        try:
            return await Producer(connections, cluster.simulator.clock).send(ORDERS_0, values)
        finally:
            connections.close()

    delivery = cluster.ask(send())
    cluster.run_for(1_000)
    return delivery


def written(cluster: SimulatedCluster) -> list[tuple[str, Payload]]:
    """What the brokers have written about the logs of `orders`, each with its node."""
    records = map(decode_record, cluster.log_lines)
    return [(record.node, record.data) for record in records if isinstance(record.data, RECORDS_OF_LOGS)]


def test_brokers_write_what_happens_to_their_logs() -> None:
    with orders(logs="true") as cluster:
        assert produce(cluster, b"a", b"b").outcome is DeliveryOutcome.ACKNOWLEDGED
        found = written(cluster)
    opened = [node for node, data in found if isinstance(data, LogOpened)]
    assert sorted(opened) == ["broker-1", "broker-2", "broker-3"]
    (leader,) = (data for _, data in found if isinstance(data, LeaderStarted))
    assert (leader.leader_epoch, leader.log_end_offset, leader.epochs) == (0, 0, ((0, 0),))
    appended = {node: data for node, data in found if isinstance(data, RecordsAppended)}
    assert {node: data.role for node, data in appended.items()} == {
        "broker-1": "leader",
        "broker-2": "follower",
        "broker-3": "follower",
    }
    batches = {data.batches for data in appended.values()}
    assert len(batches) == 1, "every replica has appended the same batches"
    ((batch,),) = batches
    assert (batch.base_offset, batch.next_offset, batch.leader_epoch) == (0, 2, 0)
    assert (batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (0, 0, 1)
    raised = {node: data for node, data in found if isinstance(data, HighWatermarkChanged)}
    assert {node: data.high_watermark for node, data in raised.items()} == dict.fromkeys(appended, 2)
    assert raised["broker-1"].replica_end_offsets == ((2, 2), (3, 2))
    (acknowledged,) = (data for _, data in found if isinstance(data, RecordsAcknowledged))
    assert (acknowledged.base_offset, acknowledged.last_offset, acknowledged.acks) == (0, 1, -1)
    assert acknowledged.isr_at_append == acknowledged.isr == (1, 2, 3)
    checked = judge(cluster)
    assert checked.problems == ()
    assert all(checked.times_tested[check] for check in ("R1", "R2", "R3a", "R3b", "R5", "R7", "R9", "R10"))


def a_former_leader_returns(cluster: SimulatedCluster) -> None:
    """It has appended a record that its followers, which could not be reached, never get."""
    assert produce(cluster, b"a").outcome is DeliveryOutcome.ACKNOWLEDGED
    cluster.cut(1, [2, 3])
    lost = produce(cluster, b"lost")
    assert lost.outcome is DeliveryOutcome.UNKNOWN
    assert "REQUEST_TIMED_OUT" in lost.errors
    cluster.broker(1).kill()
    cluster.run_for(10_000)
    cluster.heal_network()
    assert produce(cluster, b"b", b"c").outcome is DeliveryOutcome.ACKNOWLEDGED
    cluster.broker(1).begin_start()
    cluster.settle()


def test_a_former_leader_writes_what_it_truncates() -> None:
    with orders(logs="true") as cluster:
        a_former_leader_returns(cluster)
        truncated = [(node, data) for node, data in written(cluster) if isinstance(data, LogTruncated)]
    ((node, truncation),) = ((node, data) for node, data in truncated if data.to_offset < data.log_end_offset)
    assert (node, truncation.to_offset, truncation.log_end_offset) == ("broker-1", 1, 2)
    assert not truncation.is_full
    assert judge(cluster).problems == ()


def test_a_follower_that_takes_a_high_watermark_before_it_truncates_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Kafka before KAFKA-14704."""
    apply = ReplicaFetcher._apply

    def take_it_first(
        fetcher: ReplicaFetcher, topic_partition: TopicPartition, state: PartitionFetchState, data: PartitionData
    ) -> None:
        if data.diverging_epoch.epoch >= 0:
            fetcher._around.append(state.partition, b"", data.high_watermark, data.log_start_offset)
        apply(fetcher, topic_partition, state, data)

    monkeypatch.setattr(ReplicaFetcher, "_apply", take_it_first)
    with orders(logs="true") as cluster:
        a_former_leader_returns(cluster)
        found = [problem for problem in judge(cluster).problems if problem.startswith("R9 ")]
    assert "broker 1 took over a high watermark in leader epoch" in found[0]
    assert "with a record of epoch 0 at 1, where the leader has another one" in found[0]


def test_nothing_is_written_about_logs_by_default() -> None:
    with orders(logs="false") as cluster:
        assert produce(cluster, b"a", b"b").outcome is DeliveryOutcome.ACKNOWLEDGED
        assert written(cluster) == []
