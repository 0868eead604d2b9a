"""Copies a topic with faust: faust_copy.py BOOTSTRAP SOURCE SINK."""

import sys

import faust

bootstrap, source, sink = sys.argv[1:]
app = faust.App(
    "faust-copy",
    broker=[f"kafka://{each}" for each in bootstrap.split(",")],
    consumer_auto_offset_reset="earliest",
    producer_acks=-1,
    topic_replication_factor=3,
    web_enabled=False,
    value_serializer="raw",
)
numbers = app.topic(source, value_type=bytes, value_serializer="raw")
copied = app.topic(sink, value_type=bytes, value_serializer="raw")


@app.agent(numbers)
async def copy(stream):
    async for event in stream.events():
        await (await copied.send(value=event.value))  # the second one waits for the acknowledgement


sys.argv = ["faust", "worker", "--loglevel=warn", "--without-web"]
app.main()
