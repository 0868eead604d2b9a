"""`stop()` raises CancelledError, and leaves connections open, if a broker that leads is down."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer

from understudy.testing import simulated


@simulated(seeds=3, faults="none")
async def test_stop_raises_cancelled_error_while_a_leader_is_down(cluster):
    await cluster.create_topic("orders", partitions=3, replication_factor=1)
    consumer = AIOKafkaConsumer("orders", bootstrap_servers=cluster.bootstrap)
    await consumer.start()
    await asyncio.sleep(5)
    cluster.leader("orders").kill()
    await asyncio.sleep(3.05)
    with pytest.raises(asyncio.CancelledError):  # and no one has cancelled this task
        await consumer.stop()
    assert asyncio.current_task().cancelling() == 0
    await consumer.stop()  # returns at once, and closes nothing
    await consumer._client.close()
