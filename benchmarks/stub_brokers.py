"""Brokers that only answer: they register, take every control request, and write down when it was complete.

Run as a process of its own: `python -m benchmarks.stub_brokers ZOOKEEPER LOG ID…`. One JSON line per request goes to LOG:
broker, API key, bytes, and the monotonic clock in ms when the last byte was in. The answers are the same bytes every time, so
that what is measured is the controller.
"""

from __future__ import annotations

import asyncio
import json
import struct
import sys
import time
from pathlib import Path

from benchmarks.store import open_store
from foundation.cluster.broker import Broker, EndPoint, SecurityProtocol
from foundation.cluster.identifiers import BrokerId
from foundation.wire.headers import encode_response
from foundation.wire.messages.leader_and_isr import LeaderAndIsrResponse
from foundation.wire.messages.stop_replica import StopReplicaResponse
from foundation.wire.messages.update_metadata import UpdateMetadataResponse
from foundation.wire.registry import api_by_key

_ANSWERS = {4: LeaderAndIsrResponse(), 5: StopReplicaResponse(), 6: UpdateMetadataResponse()}
_READ_LIMIT = 64 * 1024 * 1024


async def serve(zookeeper: str, log: Path, ids: list[int]) -> None:
    """Register `ids` and answer until killed."""
    with log.open("a", buffering=1) as out:
        store, _ = await open_store(zookeeper)
        for broker_id in ids:
            server = await asyncio.start_server(
                lambda reader, writer, stub=broker_id: _answer(stub, reader, writer, out), "127.0.0.1", 0, limit=_READ_LIMIT
            )
            port = server.sockets[0].getsockname()[1]
            endpoint = EndPoint("PLAINTEXT", SecurityProtocol.PLAINTEXT, "127.0.0.1", port)
            broker = Broker(id=BrokerId(broker_id), endpoints=(endpoint,))
            await store.register_broker(broker, timestamp_ms=0, previous_session_id=None)
        print("ready", flush=True)
        await asyncio.Event().wait()


async def _answer(stub: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, out) -> None:  # type: ignore[no-untyped-def]  # a text file
    try:
        while True:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            frame = await reader.readexactly(size)
            now = time.monotonic() * 1000
            key, version, correlation_id = struct.unpack_from(">hhi", frame)
            api = api_by_key(key)
            if api is None or key not in _ANSWERS:
                return
            writer.write(encode_response(api, version, correlation_id, _ANSWERS[key]))
            out.write(json.dumps({"broker": stub, "key": key, "bytes": size, "ms": now}) + "\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return
    finally:
        writer.close()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], Path(sys.argv[2]), [int(text) for text in sys.argv[3:]]))
