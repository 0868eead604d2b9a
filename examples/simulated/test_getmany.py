"""A loader writes records in batches, and commits each batch after it is written."""

import asyncio
import contextlib

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError

from understudy.testing import simulated

ROWS = 300


async def load(bootstrap, warehouse):
    """Rows have their place as key in the warehouse: writing one again changes nothing."""
    async with AIOKafkaConsumer(
        "rows",
        bootstrap_servers=bootstrap,
        metadata_max_age_ms=5_000,
        group_id="loaders",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while True:
            batches = await consumer.getmany(timeout_ms=1_000, max_records=50)
            await asyncio.sleep(0.2)  # the insert
            warehouse.update(
                ((record.partition, record.offset), record.value) for batch in batches.values() for record in batch
            )
            if batches:
                # If it is refused, the rows are loaded again.
                with contextlib.suppress(KafkaError):
                    await consumer.commit({place: batch[-1].offset + 1 for place, batch in batches.items()})


@simulated(seeds=200, faults=["kill", "pause", "stop", "depose", "kill-service", "pause-service"])
async def test_each_row_is_in_the_warehouse(cluster):
    await cluster.create_topic("rows", partitions=3, replication_factor=3)
    warehouse, rows = {}, {b"row %d" % number for number in range(ROWS)}
    cluster.start(load, cluster.bootstrap, warehouse, restarts=True)
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all", linger_ms=10) as producer:
        for number, row in enumerate(sorted(rows)):
            await producer.send("rows", row)
            if number % 10 == 9:
                await asyncio.sleep(1)
        await producer.flush()
    await cluster.calm()
    await cluster.wait_until(lambda: set(warehouse.values()) == rows, "every row is in the warehouse")
