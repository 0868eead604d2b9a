"""Drive aiokafka as README.md says: an admin client, a producer and a consumer, held open until stdin is closed.

pip install aiokafka
python drive_aiokafka.py localhost:9092 orders
"""

import asyncio
import json
import sys
import time
from contextlib import suppress

import aiokafka
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, for_code

SEND_EVERY_S = 0.05
CREATE_EVERY_S = 1.0
CREATE_TIMEOUT_MS = 5_000
READ_TO_THE_END_S = 10.0
FLUSH_TIMEOUT_S = 60.0


class Driver:
    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.partition = aiokafka.TopicPartition(topic, 0)
        self.stopping = asyncio.Event()
        self.last_sent = -1
        self.last_read = -1
        self.deliveries: set[asyncio.Task[None]] = set()
        self.admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, request_timeout_ms=CREATE_TIMEOUT_MS)
        self.producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True)
        self.consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=None, enable_auto_commit=False, auto_offset_reset="earliest"
        )

    def emit(self, event: str, **fields: object) -> None:
        print(json.dumps({"event": event, **fields}), flush=True)

    async def run(self) -> None:
        for client in (self.admin, self.producer, self.consumer):
            await client.start()
        self.consumer.assign([self.partition])
        self.emit("ready", client="aiokafka", version=aiokafka.__version__)
        producing = asyncio.create_task(self.produce())
        creating = asyncio.create_task(self.create_topics())
        reading = asyncio.create_task(self.read())
        await asyncio.to_thread(sys.stdin.read)
        self.stopping.set()
        await self.at_most(FLUSH_TIMEOUT_S, self.flush(producing))
        await self.at_most(READ_TO_THE_END_S, self.read_to_the_end())
        reading.cancel()
        creating.cancel()
        await asyncio.gather(reading, creating, return_exceptions=True)
        for close in (self.producer.stop, self.consumer.stop, self.admin.close):
            await self.at_most(READ_TO_THE_END_S, close())
        self.emit("end")

    async def at_most(self, timeout_s: float, work: object) -> None:
        with suppress(TimeoutError, KafkaError):
            await asyncio.wait_for(work, timeout_s)

    async def pause(self, seconds: float) -> None:
        """Wait so long, or until the driver is to stop."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.stopping.wait(), seconds)

    async def produce(self) -> None:
        value = 0
        while not self.stopping.is_set():
            try:
                delivery = await self.producer.send(self.topic, str(value).encode(), partition=0)
            except KafkaError as error:
                self.emit("failed", value=value, error=type(error).__name__)
            else:
                task = asyncio.create_task(self.delivered(value, delivery))
                self.deliveries.add(task)
                task.add_done_callback(self.deliveries.discard)
            value += 1
            await self.pause(SEND_EVERY_S)

    async def delivered(self, value: int, delivery: "asyncio.Future[object]") -> None:
        try:
            metadata = await delivery
        except KafkaError as error:
            self.emit("failed", value=value, error=type(error).__name__)
        else:
            self.last_sent = max(self.last_sent, metadata.offset)
            self.emit("sent", value=value, offset=metadata.offset)

    async def flush(self, producing: "asyncio.Task[None]") -> None:
        await producing
        await asyncio.gather(*self.deliveries)

    async def read(self) -> None:
        while True:
            try:
                polled = await self.consumer.getmany(timeout_ms=200)
            except KafkaError:
                await asyncio.sleep(0.1)
                continue
            for record in polled.get(self.partition, ()):
                self.last_read = record.offset
                self.emit("read", value=int(record.value), offset=record.offset)

    async def read_to_the_end(self) -> None:
        while self.last_read < self.last_sent:
            await asyncio.sleep(0.05)

    async def create_topics(self) -> None:
        number = 0
        while not self.stopping.is_set():
            await self.pause(CREATE_EVERY_S)
            begun = time.monotonic()
            topic, error = NewTopic(f"{self.topic}-admin-{number}", num_partitions=1, replication_factor=1), None
            try:
                creating = self.admin.create_topics([topic], timeout_ms=CREATE_TIMEOUT_MS)
                answer = await asyncio.wait_for(creating, 2 * CREATE_TIMEOUT_MS / 1000)
                code = answer.topic_errors[0][1]  # the client does not raise what the controller answers
                error = for_code(code).__name__ if code else None
            except Exception as raised:  # noqa: BLE001  # whatever a client raises is its answer
                error = type(raised).__name__
            took_ms = round((time.monotonic() - begun) * 1000)
            self.emit("admin", ok=error is None, error=error, took_ms=took_ms)
            number += 1


if __name__ == "__main__":

    async def drive() -> None:
        await Driver(*sys.argv[1:3]).run()

    asyncio.run(drive())
