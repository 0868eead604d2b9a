"""Workers elect a leader by a compacted topic: each claims the lease, and the order of the log decides."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from understudy.testing import simulated

PLACE = TopicPartition("lease", 0)
CLAIM_S = 2.0
LEASE_MS = 8_000


async def work(bootstrap, name, terms):
    """Claim the lease every two seconds.

    The lease belongs to the worker of the first claim, and moves to the first claim by another worker that the log
    has more than eight seconds after the last one of the owner. Every worker reads the same log, with the brokers'
    timestamps, so all agree on each offset from which a worker is the leader.
    """
    async with (
        AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer,
        AIOKafkaConsumer(
            bootstrap_servers=bootstrap, metadata_max_age_ms=5_000, auto_offset_reset="earliest"
        ) as consumer,
    ):
        consumer.assign([PLACE])
        claiming = asyncio.create_task(claim(producer, name))
        owner, last_ms = None, 0
        async for record in consumer:
            claimant = record.value.decode()
            if claimant != owner and (owner is None or record.timestamp > last_ms + LEASE_MS):
                owner = claimant
                terms[record.offset].add((owner, name))
            if claimant == owner:
                last_ms = record.timestamp
            if claiming.done():
                claiming.result()


async def claim(producer, name):
    while True:
        await producer.send_and_wait("lease", name.encode(), key=b"leader")
        await asyncio.sleep(CLAIM_S)


class Terms(dict):
    """By the offset of the first claim of each term: who leads, as each worker has read it."""

    def __missing__(self, offset):
        return self.setdefault(offset, set())


@simulated(seeds=200)
async def test_all_workers_agree_on_every_leader(cluster):
    await cluster.create_topic(
        "lease",
        replication_factor=3,
        configs={"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime", "min.insync.replicas": "2"},
    )
    terms = Terms()
    workers = {
        name: cluster.start(work, cluster.bootstrap, name, terms, name=name, restarts=True)
        for name in ("worker-1", "worker-2", "worker-3")
    }
    await cluster.wait_until(lambda: terms, "a leader is elected")
    first = next(owner for owner, _ in terms[min(terms)])
    await asyncio.sleep(20)
    await cluster.wait_until(lambda: workers[first].is_running, "no fault has ended the leader")
    workers[first].pause()  # it does not see that its lease ends
    await cluster.wait_until(
        lambda: any(owner != first for each in terms.values() for owner, _ in each), "another leader is elected"
    )
    workers[first].resume()
    await cluster.calm()
    assert all(len({owner for owner, _ in each}) == 1 for each in terms.values())
