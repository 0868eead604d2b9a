"""A consumer that keeps the ids of processed records turns at least once into once."""

import asyncio
import contextlib

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import CommitFailedError

from understudy.testing import simulated

TRANSFERS = 50


class Account:
    """A table of a database: a transfer and its id are written in one transaction."""

    def __init__(self):
        self.balance = 0
        self.ids = set()

    def add(self, transfer_id, amount):
        if transfer_id not in self.ids:
            self.ids.add(transfer_id)
            self.balance += amount


async def transfer(bootstrap, account):
    async with AIOKafkaConsumer(
        "transfers",
        bootstrap_servers=bootstrap,
        metadata_max_age_ms=5_000,
        group_id="accounts",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        async for record in consumer:
            await asyncio.sleep(0.05)
            account.add(record.key, int(record.value))
            # If it is refused, another member reads this transfer again, and its id is known.
            with contextlib.suppress(CommitFailedError):
                await consumer.commit({TopicPartition("transfers", record.partition): record.offset + 1})


@simulated(seeds=200, faults=["kill", "pause", "stop", "kill-service", "pause-service"])
async def test_each_transfer_is_added_once(cluster):
    await cluster.create_topic("transfers", partitions=2, replication_factor=3)
    account = Account()
    for name in ("account-1", "account-2"):
        cluster.start(transfer, cluster.bootstrap, account, name=name, restarts=True)
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        for number in range(TRANSFERS):
            await producer.send_and_wait("transfers", b"%d" % number, key=b"id-%d" % number)
            await asyncio.sleep(0.5)
    await cluster.calm()
    await cluster.wait_until(lambda: len(account.ids) == TRANSFERS, "every transfer is added")
    assert account.balance == sum(range(TRANSFERS))
