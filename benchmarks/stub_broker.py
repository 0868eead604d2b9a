"""A stub broker: it registers, answers every control request, and logs when it had received it completely.

It runs as a process: `python -m benchmarks.stub_broker ZOOKEEPER LOG ID`. It appends to LOG one JSON line per request,
with the API key, the size in bytes, and the monotonic clock in ms when the last byte arrived; one line before it
registers; and, on SIGTERM, one before it closes its session. Its responses are always the same bytes, so that the
controller is measured and not the stub.
"""

from __future__ import annotations

import asyncio
import json
import signal
import struct
import sys
import time
from pathlib import Path
from typing import TextIO

from benchmarks.store import open_store
from understudy.foundation.cluster.broker import Broker, EndPoint, SecurityProtocol
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.wire.headers import encode_response
from understudy.foundation.wire.messages.leader_and_isr import LeaderAndIsrResponse
from understudy.foundation.wire.messages.stop_replica import StopReplicaResponse
from understudy.foundation.wire.messages.update_metadata import UpdateMetadataResponse
from understudy.foundation.wire.registry import api_by_key

_ANSWERS = {4: LeaderAndIsrResponse(), 5: StopReplicaResponse(), 6: UpdateMetadataResponse()}
_READ_LIMIT = 64 * 1024 * 1024


async def serve(zookeeper: str, log: Path, broker_id: BrokerId) -> None:
    """Register, and answer control requests until SIGTERM."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    with log.open("a", buffering=1) as out:
        store, _ = await open_store(zookeeper)
        server = await asyncio.start_server(
            lambda reader, writer: _answer(reader, writer, out), "127.0.0.1", 0, limit=_READ_LIMIT
        )
        endpoint = EndPoint("PLAINTEXT", SecurityProtocol.PLAINTEXT, "127.0.0.1", server.sockets[0].getsockname()[1])
        _note(out, "joining")
        await store.brokers.register(
            Broker(id=broker_id, endpoints=(endpoint,)), timestamp_ms=0, previous_session_id=None
        )
        await ended.wait()
        _note(out, "leaving")
        await store.close()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, out: TextIO) -> None:
    try:
        while True:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            frame = await reader.readexactly(size)
            now = _now_ms()
            key, version, correlation_id = struct.unpack_from(">hhi", frame)
            api = api_by_key(key)
            if api is None or key not in _ANSWERS:
                return
            writer.write(encode_response(api, version, correlation_id, _ANSWERS[key]))
            out.write(json.dumps({"key": key, "bytes": size, "ms": now}) + "\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return
    finally:
        writer.close()


def _note(out: TextIO, what: str) -> None:
    out.write(json.dumps({"what": what, "ms": _now_ms()}) + "\n")


def _now_ms() -> float:
    return time.monotonic() * 1000


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], Path(sys.argv[2]), BrokerId(int(sys.argv[3]))))
