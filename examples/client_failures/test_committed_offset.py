"""A committed offset reads as None after the group's coordinator has moved, and records are skipped."""

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from understudy.testing import simulated

ORDERS = TopicPartition("orders", 0)
SETTINGS = {"offsets.topic.num.partitions": 1, "offsets.topic.replication.factor": 3}


async def move_the_coordinator(cluster):
    """Let the coordinator stand still until its session has expired, as in a long pause, and continue."""
    coordinator = cluster.leader("__consumer_offsets")
    coordinator.pause()
    await cluster.wait_until(
        lambda: cluster.leader_id("__consumer_offsets") not in (None, coordinator.id), "another coordinator"
    )
    coordinator.resume()
    await cluster.calm()


async def committed_by_a_new_client(cluster):
    group = {"group_id": "billing", "enable_auto_commit": False}
    async with AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap, **group) as consumer:
        consumer.assign([ORDERS])
        return await consumer.committed(ORDERS)


@simulated(seeds=2, faults="none", settings=SETTINGS)
async def test_a_committed_offset_reads_as_none_after_its_coordinator_has_moved(cluster):
    await cluster.create_topic("orders", partitions=1)
    group = {"group_id": "billing", "enable_auto_commit": False}
    async with AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap, **group) as consumer:
        consumer.assign([ORDERS])
        await consumer.commit({ORDERS: 5})
        assert await consumer.committed(ORDERS) == 5
        await move_the_coordinator(cluster)
        assert await committed_by_a_new_client(cluster) == 5
        assert await consumer.committed(ORDERS) is None
        assert await consumer.committed(ORDERS) is None


@simulated(seeds=2, faults="none", settings=SETTINGS)
async def test_records_are_skipped_if_partitions_are_assigned_after_that(cluster):
    """No exception is raised, and after the next commit no other consumer will read the five records either."""
    # The coordinator does not lead the partition, whose other failures would hide this one.
    await cluster.create_topic("__consumer_offsets", assignment={0: [3, 1, 2]})
    await cluster.create_topic("orders", assignment={0: [1, 2, 3], 1: [2, 3, 1]})
    group = {"group_id": "billing", "enable_auto_commit": False}
    async with (
        AIOKafkaProducer(bootstrap_servers=cluster.bootstrap) as producer,
        AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap, **group) as consumer,
    ):
        for number in range(10):
            await producer.send_and_wait("orders", b"%d" % number, partition=0)
        consumer.assign([ORDERS])
        await consumer.seek_to_beginning(ORDERS)
        read = [int((await consumer.getone()).value) for _ in range(5)]
        await consumer.commit()

        await move_the_coordinator(cluster)
        consumer.assign([ORDERS, TopicPartition("orders", 1)])
        await consumer.getmany(timeout_ms=1_000)
        await producer.send_and_wait("orders", b"10", partition=0)
        read.append(int((await consumer.getone()).value))
        await consumer.commit()
    assert read == [0, 1, 2, 3, 4, 10]
    assert await committed_by_a_new_client(cluster) == 11
