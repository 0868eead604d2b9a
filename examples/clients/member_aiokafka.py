"""Be a member of a group with aiokafka as README.md says, until stdin is closed.

pip install aiokafka
python member_aiokafka.py localhost:9092 orders readers
"""

import asyncio
import json
import sys
from contextlib import suppress

import aiokafka
from aiokafka.errors import KafkaError

CLOSE_TIMEOUT_S = 10.0


class Member(aiokafka.ConsumerRebalanceListener):
    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.topic = topic
        self.consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest"
        )

    def emit(self, event: str, **fields: object) -> None:
        print(json.dumps({"event": event, **fields}), flush=True)

    async def on_partitions_assigned(self, assigned: object) -> None:
        self.emit("assigned", partitions=sorted(each.partition for each in assigned))

    async def on_partitions_revoked(self, revoked: object) -> None:
        self.emit("revoked", partitions=sorted(each.partition for each in revoked))

    async def run(self) -> None:
        self.consumer.subscribe([self.topic], listener=self)
        await self.consumer.start()
        self.emit("ready", client="aiokafka", version=aiokafka.__version__)
        reading = asyncio.create_task(self.read())
        await asyncio.to_thread(sys.stdin.read)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        with suppress(TimeoutError, KafkaError):
            await asyncio.wait_for(self.consumer.stop(), CLOSE_TIMEOUT_S)
        self.emit("end")

    async def read(self) -> None:
        while True:
            try:
                polled = await self.consumer.getmany(timeout_ms=200)
            except KafkaError as error:
                self.emit("error", error=type(error).__name__)
                await asyncio.sleep(0.1)
                continue
            for records in polled.values():
                for record in records:
                    self.emit("read", value=int(record.value), offset=record.offset, partition=record.partition)


if __name__ == "__main__":

    async def be_member() -> None:
        await Member(*sys.argv[1:4]).run()

    asyncio.run(be_member())
