"""Mirrors of a simulated cluster: what a copy has after leaders and mirrors have ended, and refusals."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest

from tests.understudy.kafka_tools.mirror.simulated import PREFIX, MirroredCluster, batch_of, contents
from understudy.clusters.clients.connections import Connections
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.records.compression import Compression
from understudy.foundation.records.record import Record
from understudy.foundation.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from understudy.kafka_tools.cluster import KafkaCluster
from understudy.kafka_tools.mirror import progress
from understudy.kafka_tools.mirror.errors import MirrorError
from understudy.kafka_tools.mirror.mirror import Mirror

P0 = TopicPartition("orders", 0)
C0 = TopicPartition(PREFIX + "orders", 0)


def _fill(cluster: MirroredCluster, count: int, *, partitions: int = 1, first: int = 0, records: int = 10) -> None:
    for number in range(first, first + count):
        numbers = range(records * number, records * (number + 1))
        partition = TopicPartition("orders", number % partitions)
        cluster.append(partition, batch_of(numbers, compression=Compression(number % 5)))


def _check_equal(cluster: MirroredCluster, *, partitions: int = 1, topic: str = "orders") -> int:
    count = 0
    for number in range(partitions):
        originals = cluster.read(TopicPartition(topic, number))
        assert contents(cluster.read(TopicPartition(PREFIX + topic, number))) == contents(originals)
        count += len(originals)
    return count


def _run(cluster: MirroredCluster, mirror: Mirror) -> bool:
    return cluster.ask(mirror.run())


async def _run_until(mirror: Mirror, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await mirror.run()
    except TimeoutError:
        pass


def _client(cluster: MirroredCluster) -> KafkaCluster:
    return KafkaCluster(
        cluster.client_network, cluster.servers, client_id="test", request_timeout_ms=5_000, api_timeout_ms=20_000
    )


def _delete_records(cluster: MirroredCluster, partition: TopicPartition, offset: int) -> None:
    asked = DeleteRecordsPartition(partition_index=partition.partition, offset=offset)
    request = DeleteRecordsRequest(
        topics=(DeleteRecordsTopic(name=partition.topic, partitions=(asked,)),), timeout_ms=5_000
    )

    async def ask() -> None:
        connections = Connections(cluster.client_network, cluster.servers, client_id="test")
        answer = await connections.ask_leader(partition, request, 2, DeleteRecordsResponse, wait_ms=5_000)
        assert answer.topics[0].partitions[0].error_code == 0
        connections.close()

    cluster.ask(ask())


def test_a_copy_has_every_record_with_key_timestamp_headers_codec_and_partition() -> None:
    with MirroredCluster() as cluster:
        cluster.start()
        cluster.ask(
            cluster.admin.create_topic(
                "orders", partitions=2, replication_factor=2, configs={"retention.ms": "-1", "min.insync.replicas": "2"}
            )
        )
        _fill(cluster, 20, partitions=2)
        assert _run(cluster, cluster.mirror())
        assert _check_equal(cluster, partitions=2) == 200
        configs = cluster.ask(cluster.admin.describe_config(2, PREFIX + "orders"))
        assert configs["retention.ms"].value == "-1"
        assert configs["min.insync.replicas"].value == "1"
        metadata = cluster.ask(cluster.admin.metadata([PREFIX + "orders"]))
        assert [len(each.replica_nodes) for each in metadata.topics[0].partitions] == [2, 2]


@pytest.mark.parametrize("seed", range(4))
def test_leaders_and_mirrors_end_in_the_middle_and_each_record_is_there_once(seed: int) -> None:
    with MirroredCluster(seed) as cluster:
        source = random.Random(seed)
        cluster.start()
        cluster.create_topic("orders", partitions=2, replication_factor=3)
        for part in range(4):
            _fill(cluster, 16, partitions=2, first=16 * part)
            mirror = cluster.mirror(once=False)
            cluster.begin(_run_until(mirror, 8))
            cluster.run_for(source.randint(300, 2_500))
            topic = source.choice(["orders", PREFIX + "orders"])
            leader = cluster.leader_id(topic, source.randint(0, 1))
            if leader is not None:
                cluster.broker(leader).kill()
            cluster.run_for(10_000)
            cluster.heal()
            cluster.settle()
        assert _run(cluster, cluster.mirror())
        assert _check_equal(cluster, partitions=2) >= 640


@pytest.mark.parametrize("seed", range(3))
def test_a_mirror_that_is_killed_again_and_again_copies_each_record_once(seed: int) -> None:
    with MirroredCluster(seed) as cluster:
        source = random.Random(seed)
        cluster.start()
        cluster.create_topic("orders", partitions=1, replication_factor=2)
        for part in range(10):
            _fill(cluster, 12, first=12 * part)
            cluster.ask(_run_until(cluster.mirror(once=False), source.uniform(0.2, 1.2)))
        assert _run(cluster, cluster.mirror())
        assert _check_equal(cluster) >= 1_200


def test_two_mirrors_at_once_append_no_record_twice() -> None:
    with MirroredCluster() as cluster:
        cluster.start()
        cluster.create_topic("orders", partitions=1, replication_factor=2)
        _fill(cluster, 1)
        assert _run(cluster, cluster.mirror())
        _fill(cluster, 60, first=1)
        cluster.begin(_run_until(cluster.mirror(once=False), 5))
        cluster.begin(_run_until(cluster.mirror(once=False), 5))
        cluster.run_for(6_000)
        assert _check_equal(cluster) == 610


def test_a_source_whose_beginning_is_deleted_goes_on_with_what_is_left() -> None:
    with MirroredCluster() as cluster:
        cluster.start()
        cluster.create_topic("orders", partitions=1, replication_factor=2)
        _fill(cluster, 5)
        _delete_records(cluster, P0, 12)
        assert _run(cluster, cluster.mirror())
        assert contents(cluster.read(C0)) == contents(cluster.read(P0))
        assert len(cluster.read(C0)) == 38
        _fill(cluster, 5, first=5)
        _delete_records(cluster, P0, 75)
        assert _run(cluster, cluster.mirror())
        assert any("offsets 50 to 74 were deleted at the source" in line for line in cluster.lines)
        assert contents(cluster.read(C0))[-25:] == contents(cluster.read(P0))
        assert len(cluster.read(C0)) == 38 + 25


def test_a_compacted_source_is_copied_with_its_gaps_closed() -> None:
    with MirroredCluster(settings={"log.cleaner.backoff.ms": "1000"}) as cluster:
        cluster.start()
        configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.bytes": "2000"}
        cluster.ask(cluster.admin.create_topic("orders", partitions=1, replication_factor=1, configs=configs))
        for part in range(40):
            cluster.append(P0, batch_of([part, part % 5, 100 + part % 3, part], compression=Compression(part % 5)))
        cluster.run_for(20_000)
        before = cluster.read(P0)
        offsets = [record.offset for record in before]
        assert offsets != list(range(offsets[0], offsets[0] + len(offsets))), "the cleaner has left no gap"
        for seconds in (0.6, 0.7, 0.8):
            cluster.ask(_run_until(cluster.mirror(once=False), seconds))
        assert _run(cluster, cluster.mirror())
        assert _last_of_each_key(cluster.read(C0)) == _last_of_each_key(before)
        for part in range(40, 50):
            cluster.append(P0, batch_of([part, part % 5]))
        assert _run(cluster, cluster.mirror())
        assert contents(cluster.read(C0))[-20:] == contents(cluster.read(P0))[-20:]


def _last_of_each_key(found: Sequence[Record]) -> dict[object, object]:
    return {record.key: tuple(record[1:]) for record in found}


def test_groups_find_their_place_in_the_copy_and_never_go_back() -> None:
    with MirroredCluster() as cluster:
        cluster.start()
        cluster.create_topic("orders", partitions=1, replication_factor=2)
        _fill(cluster, 5)
        _delete_records(cluster, P0, 7)
        client = _client(cluster)
        cluster.ask(client.commit_offsets("readers", {P0: 23}))
        cluster.ask(client.commit_offsets("others", {P0: 40}))
        assert _run(cluster, cluster.mirror(groups="read.*"))
        assert cluster.ask(client.committed_offsets("readers")) == {P0: 23, C0: 16}
        assert cluster.ask(client.committed_offsets("others")) == {P0: 40}
        assert contents(cluster.read(C0))[16] == contents(cluster.read(P0))[16]
        cluster.ask(client.commit_offsets("readers", {C0: 30}))
        assert _run(cluster, cluster.mirror(groups="read.*"))
        assert cluster.ask(client.committed_offsets("readers"))[C0] == 30
        assert "group readers: 1 of 1 offsets committed" in cluster.lines


def test_partitions_that_are_added_and_topics_that_are_new_are_copied_too() -> None:
    with MirroredCluster() as cluster:
        cluster.start()
        cluster.create_topic("orders", partitions=1, replication_factor=2)
        _fill(cluster, 3)
        cluster.begin(_run_until(cluster.mirror(once=False), 30))
        cluster.run_for(3_000)
        cluster.ask(cluster.admin.create_partitions("orders", 3))
        cluster.create_topic("orders-new", partitions=1, replication_factor=2)
        cluster.run_for(2_000)
        cluster.append(TopicPartition("orders", 2), batch_of(range(5)))
        cluster.append(TopicPartition("orders-new", 0), batch_of(range(8)))
        cluster.run_for(10_000)
        assert _check_equal(cluster, partitions=3) == 35
        assert _check_equal(cluster, topic="orders-new") == 8


def test_a_topic_that_is_deleted_ends_its_copy_alone() -> None:
    with MirroredCluster() as cluster:
        cluster.start()
        cluster.create_topic("orders", partitions=1, replication_factor=2)
        cluster.create_topic("orders-b", partitions=1, replication_factor=2)
        _fill(cluster, 3)
        cluster.begin(_run_until(cluster.mirror(once=False), 40))
        cluster.run_for(3_000)
        cluster.ask(cluster.admin.delete_topics("orders"))
        cluster.run_for(10_000)
        cluster.append(TopicPartition("orders-b", 0), batch_of(range(8)))
        cluster.run_for(5_000)
        assert "orders-0: the topic was deleted at the source; its copy stays as it is" in cluster.lines
        assert len(cluster.read(C0)) == 30
        assert _check_equal(cluster, topic="orders-b") == 8
        cluster.create_topic("orders", partitions=1, replication_factor=2)
        cluster.run_for(30_000)
        assert not _run(cluster, cluster.mirror())
        assert any("was deleted and created again at the source" in line for line in cluster.lines)


def test_a_copy_that_is_deleted_while_a_mirror_runs_is_an_error_and_then_made_anew() -> None:
    with MirroredCluster() as cluster:
        cluster.start()
        cluster.create_topic("orders", partitions=1, replication_factor=2)
        _fill(cluster, 3)
        cluster.begin(_run_until(cluster.mirror(once=False), 40))
        cluster.run_for(3_000)
        cluster.ask(cluster.admin.delete_topics(PREFIX + "orders"))
        cluster.run_for(10_000)
        assert any("the copy was deleted at the target" in line for line in cluster.lines)
        cluster.run_for(40_000)
        assert _run(cluster, cluster.mirror())
        assert _check_equal(cluster) == 30


def test_a_copy_with_records_of_others_is_refused() -> None:
    with MirroredCluster() as cluster:
        cluster.start()
        cluster.create_topic("orders", partitions=1, replication_factor=2)
        cluster.create_topic(PREFIX + "orders", partitions=1, replication_factor=2)
        _fill(cluster, 3)
        cluster.append(C0, batch_of(range(5)))
        assert not _run(cluster, cluster.mirror())
        assert any(f"the copy {C0} has 5 records that this mirror has not written" in line for line in cluster.lines)
        assert len(cluster.read(C0)) == 5


def test_another_writer_is_noticed_while_and_after_it_writes() -> None:
    with MirroredCluster() as cluster:
        cluster.start()
        cluster.create_topic("orders", partitions=1, replication_factor=2)
        _fill(cluster, 3)
        assert _run(cluster, cluster.mirror())
        cluster.append(C0, batch_of(range(5)))
        _fill(cluster, 3, first=3)
        assert not _run(cluster, cluster.mirror())
        assert any("another program has written to the copy" in line for line in cluster.lines)


def test_a_copy_with_more_partitions_is_refused() -> None:
    with MirroredCluster() as cluster:
        cluster.start()
        cluster.create_topic("orders", partitions=1, replication_factor=2)
        cluster.create_topic(PREFIX + "orders", partitions=2, replication_factor=2)
        with pytest.raises(MirrorError, match="has 2 partitions at the target, orders has 1 at the source"):
            cluster.ask(cluster.mirror().run())


def test_a_plan_changes_nothing() -> None:
    with MirroredCluster() as cluster:
        cluster.start()
        cluster.create_topic("orders", partitions=3, replication_factor=2)
        [topic] = cluster.ask(cluster.mirror().plan())
        assert topic.in_words == f"orders as {PREFIX}orders: create 3 partitions × 2 replicas"
        assert {each.name for each in cluster.ask(cluster.admin.metadata()).topics} == {"orders"}


def test_batches_that_are_too_large_for_the_target_are_split() -> None:
    with MirroredCluster() as cluster:
        cluster.start()
        cluster.create_topic("orders", partitions=1, replication_factor=2)
        cluster.ask(
            cluster.admin.create_topic(
                PREFIX + "orders", partitions=1, replication_factor=2, configs={"max.message.bytes": "300"}
            )
        )
        _fill(cluster, 4)
        assert _run(cluster, cluster.mirror())
        assert _check_equal(cluster) == 40
        cluster.append(P0, batch_of(range(40, 41), producer_id=-1))
        cluster.ask(cluster.admin.alter_config(2, PREFIX + "orders", {"max.message.bytes": "70"}))
        assert not _run(cluster, cluster.mirror())
        assert any("the target refuses the record at offset 40" in line for line in cluster.lines)


def test_the_progress_of_another_program_is_not_taken_for_a_mirrors() -> None:
    with MirroredCluster() as cluster:
        cluster.start()
        cluster.create_topic("orders", partitions=1, replication_factor=2)
        cluster.create_topic(progress.TOPIC, partitions=1, replication_factor=2)
        cluster.append(TopicPartition(progress.TOPIC, 0), batch_of([1]))
        with pytest.raises(MirrorError, match="has a record that is no progress of a mirror"):
            cluster.ask(cluster.mirror().run())
