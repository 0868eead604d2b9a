"""Copies a topic with Quix Streams and counts in a store: quix_copy.py BOOTSTRAP SOURCE SINK."""

import sys
import tempfile

from quixstreams import Application, State

bootstrap, source, sink = sys.argv[1:]


def counted(value: bytes, state: State) -> bytes:
    state.set("count", (state.get("count") or 0) + 1)
    return value


with tempfile.TemporaryDirectory() as folder:
    application = Application(
        broker_address=bootstrap,
        consumer_group="quix-copy",
        auto_offset_reset="earliest",
        commit_interval=1.0,
        state_dir=folder,
    )
    read = application.topic(source, value_deserializer="bytes", key_deserializer="bytes")
    written = application.topic(sink, value_serializer="bytes", key_serializer="str")
    application.dataframe(read).group_by(
        lambda value: str(int(value) % 16),
        name="number",
        value_serializer="bytes",
        value_deserializer="bytes",
        key_serializer="str",
        key_deserializer="str",
    ).apply(counted, stateful=True).to_topic(written)
    application.run()
