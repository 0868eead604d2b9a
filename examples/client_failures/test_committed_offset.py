"""A committed offset reads as None after the group's coordinator has moved."""

from aiokafka import AIOKafkaConsumer, TopicPartition

from understudy.testing import simulated

ORDERS = TopicPartition("orders", 0)
SETTINGS = {"offsets.topic.num.partitions": 1, "offsets.topic.replication.factor": 3}


@simulated(seeds=2, faults="none", settings=SETTINGS)
async def test_a_committed_offset_reads_as_none_after_its_coordinator_has_moved(cluster):
    await cluster.create_topic("orders", partitions=1)
    group = {"bootstrap_servers": cluster.bootstrap, "group_id": "billing", "enable_auto_commit": False}
    async with AIOKafkaConsumer(**group) as consumer:
        consumer.assign([ORDERS])
        await consumer.commit({ORDERS: 5})
        assert await consumer.committed(ORDERS) == 5

        # The coordinator's process stands still until its session has expired, as in a long pause, and continues.
        coordinator = cluster.leader("__consumer_offsets")
        coordinator.pause()
        await cluster.wait_until(
            lambda: cluster.leader_id("__consumer_offsets") not in (None, coordinator.id), "another coordinator"
        )
        coordinator.resume()
        await cluster.calm()

        async with AIOKafkaConsumer(**group) as new:
            new.assign([ORDERS])
            assert await new.committed(ORDERS) == 5
        assert await consumer.committed(ORDERS) is None
        assert await consumer.committed(ORDERS) is None
