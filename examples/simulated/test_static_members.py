"""A static member that is restarted gets its partitions back, and the other members keep theirs."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener

from understudy.testing import simulated

ROOMS = 60


class NotesAssignments(ConsumerRebalanceListener):
    def __init__(self, assignments):
        self.assignments = assignments

    async def on_partitions_revoked(self, revoked):
        pass

    async def on_partitions_assigned(self, assigned):
        self.assignments.append(sorted(partition.partition for partition in assigned))


async def clean(bootstrap, instance, assignments, cleaned):
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        metadata_max_age_ms=5_000,
        group_id="cleaners",
        group_instance_id=instance,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=500,
    )
    consumer.subscribe(["rooms"], listener=NotesAssignments(assignments))
    await consumer.start()  # and no stop(), with which aiokafka leaves the group even as a static member
    async for record in consumer:
        cleaned.append(record.value)


async def run(cluster, assignments, cleaned):
    await cluster.create_topic("rooms", partitions=4, replication_factor=3)
    cleaners = [
        cluster.start(clean, cluster.bootstrap, f"cleaner-{number}", assignments[number], cleaned, name=f"c-{number}")
        for number in (0, 1)
    ]
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        for number in range(ROOMS):
            await producer.send_and_wait("rooms", b"room %d" % number)
            await asyncio.sleep(0.5)
            if number == ROOMS // 2:
                cleaners[0].restart(after_s=2)
    await cluster.calm()
    await cluster.wait_until(lambda: len(set(cleaned)) == ROOMS, "every room is cleaned")


@simulated(seeds=100, faults="none")
async def test_a_restart_moves_no_partition_of_others(cluster):
    assignments = [], []
    await run(cluster, assignments, [])
    assert assignments[0][-1] == assignments[0][-2], "the restarted member has its partitions again"
    assert len(assignments[1]) <= 2, "the other member has joined once, and once more when both had started"


@simulated(seeds=200)
async def test_every_room_is_cleaned_when_brokers_fail(cluster):
    await run(cluster, ([], []), [])
