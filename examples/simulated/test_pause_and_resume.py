"""A consumer that pauses its partitions while its queue is full never holds more than the queue takes."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from understudy.testing import simulated

IMAGES = 120
ROOM = 10


async def read(consumer, queue):
    """Fill the queue; while it is full, poll without partitions, so that the group sees a member that lives."""
    while True:
        if queue.qsize() >= ROOM // 2:
            consumer.pause(*consumer.assignment())
        else:
            consumer.resume(*consumer.paused())
        for records in (await consumer.getmany(timeout_ms=200, max_records=ROOM // 2)).values():
            for record in records:
                queue.put_nowait(record.value)


async def shrink(bootstrap, shrunk):
    queue = asyncio.Queue(ROOM)
    async with AIOKafkaConsumer(
        "images",
        bootstrap_servers=bootstrap,
        metadata_max_age_ms=5_000,
        group_id="shrinkers",
        auto_offset_reset="earliest",
    ) as consumer:
        reading = asyncio.create_task(read(consumer, queue))
        while True:
            image = asyncio.create_task(queue.get())
            await asyncio.wait([reading, image], return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
            await asyncio.sleep(0.1)  # the work
            shrunk.append(image.result())


@simulated(seeds=200)
async def test_each_image_is_shrunk_and_the_queue_never_overflows(cluster):
    await cluster.create_topic("images", partitions=3, replication_factor=3)
    shrunk, images = [], {b"image %d" % number for number in range(IMAGES)}
    cluster.start(shrink, cluster.bootstrap, shrunk)
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        for number, image in enumerate(sorted(images)):
            await producer.send_and_wait("images", image)
            if number % 40 == 39:
                await asyncio.sleep(10)
    await cluster.calm()
    await cluster.wait_until(lambda: set(shrunk) >= images, "every image is shrunk")
