"""A worker that hangs for longer than `max_poll_interval_ms` keeps its partitions if a `getone` was once cancelled."""

import asyncio
import contextlib

from aiokafka import AIOKafkaConsumer

from understudy.testing import simulated


def member(bootstrap):
    settings = {"group_id": "billing", "session_timeout_ms": 6_000, "max_poll_interval_ms": 5_000}
    return AIOKafkaConsumer("orders", bootstrap_servers=bootstrap, **settings)


async def hang(bootstrap, *, times_out):
    """Ask for one order, with a timeout or without, and then for no other."""
    async with member(bootstrap) as consumer:
        with contextlib.suppress(TimeoutError):
            if times_out:
                await asyncio.wait_for(consumer.getone(), 0.5)
            else:
                await consumer.getmany(timeout_ms=500)
        await asyncio.sleep(1_000)


async def partitions_of_the_other_member(cluster, *, times_out):
    """Return how many of two partitions a member has, a minute after the other has begun to hang."""
    await cluster.create_topic("orders", partitions=2)
    async with member(cluster.bootstrap) as consumer:
        worker = cluster.start(hang, cluster.bootstrap, times_out=times_out)
        until = asyncio.get_running_loop().time() + 60
        while asyncio.get_running_loop().time() < until:
            await consumer.getmany(timeout_ms=500)
        count = len(consumer.assignment())
        worker.kill()
        return count


@simulated(seeds=1, faults="none")
async def test_a_worker_that_hangs_loses_its_partition(cluster):
    assert await partitions_of_the_other_member(cluster, times_out=False) == 2


@simulated(seeds=2, faults="none")
async def test_a_worker_that_hangs_after_a_cancelled_getone_keeps_its_partition(cluster):
    assert await partitions_of_the_other_member(cluster, times_out=True) == 1
