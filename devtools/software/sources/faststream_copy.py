"""Copies a topic with FastStream: faststream_copy.py BOOTSTRAP SOURCE SINK."""

import asyncio
import sys

from faststream import AckPolicy, FastStream
from faststream.confluent import KafkaBroker, KafkaMessage

bootstrap, source, sink = sys.argv[1:]
broker = KafkaBroker(bootstrap, acks="all")


@broker.subscriber(source, group_id="faststream-copy", auto_offset_reset="earliest", ack_policy=AckPolicy.NACK_ON_ERROR)
@broker.publisher(sink)
async def copy(message: KafkaMessage) -> bytes:
    return message.body


asyncio.run(FastStream(broker).run())
