"""A member that commits in its rebalance listener hands its partitions over without records being processed again."""

import asyncio
import contextlib

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener
from aiokafka.errors import KafkaError

from understudy.testing import simulated

JOBS = 80


class CommitsBeforeItGivesUp(ConsumerRebalanceListener):
    def __init__(self, consumer, done):
        self.consumer, self.done = consumer, done

    async def on_partitions_revoked(self, revoked):
        done = {partition: offset for partition, offset in self.done.items() if partition in revoked}
        if done:
            # If it is refused, the member was removed from the group: its records are processed again.
            with contextlib.suppress(KafkaError):
                await self.consumer.commit(done)
        self.done.clear()

    async def on_partitions_assigned(self, assigned):
        pass


async def work(bootstrap, worked):
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        metadata_max_age_ms=5_000,
        group_id="workers",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    done = {}
    consumer.subscribe(["jobs"], listener=CommitsBeforeItGivesUp(consumer, done))
    async with consumer:
        while True:
            for partition, records in (await consumer.getmany(timeout_ms=500, max_records=10)).items():
                worked.extend(record.value for record in records)
                done[partition] = records[-1].offset + 1


@simulated(seeds=100, faults="none")
async def test_no_job_is_done_twice_when_members_join(cluster):
    await run(cluster, worked := [])
    assert len(worked) == JOBS


@simulated(seeds=200)
async def test_each_job_is_done_when_brokers_fail(cluster):
    await run(cluster, worked := [])
    assert len(set(worked)) == JOBS


async def run(cluster, worked):
    await cluster.create_topic("jobs", partitions=4, replication_factor=3)
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        for number in range(JOBS):
            await producer.send_and_wait("jobs", b"job %d" % number)
            await asyncio.sleep(0.3)
            if number % 25 == 0:
                cluster.start(work, cluster.bootstrap, worked, restarts=True)
    await cluster.calm()
    await cluster.wait_until(lambda: len(set(worked)) == JOBS, "every job is done")
