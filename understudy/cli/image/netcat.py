"""`nc`: says whether a port accepts connections, or carries the standard input to it and its answer back.

It has the flags of netcat that wait scripts and health checks use: `nc -z HOST PORT`, `echo ruok | nc HOST PORT`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Sequence
from typing import Final

from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.foundation.wire.network import Connection, ConnectionFailed, ConnectionLost

STDIN: Final = 0
PART_BYTES: Final = 64 * 1024
CONNECT_TIMEOUT_S: Final = 75.0
"""Time that a connection may take without `-w`; the system's limit is about as long."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; return 0 if the port accepts a connection, 1 if not or for a wrong command line."""
    parser = argparse.ArgumentParser(prog="nc", description="Connect to a TCP port.")
    parser.add_argument("-z", action="store_true", help="only connect, and send nothing")
    parser.add_argument("-v", action="count", default=0, help="say whether the connection succeeds")
    parser.add_argument("-w", type=float, metavar="SECONDS", help="time for the connection, and without any byte")
    parser.add_argument("-q", type=float, metavar="SECONDS", help="end this long after the standard input has")
    for flag, meaning in (
        ("-N", "accepted; the connection is closed at its other end"),
        ("-n", "accepted; names are resolved all the same"),
        ("-4", "accepted"),
        ("-6", "accepted"),
        ("-t", "accepted"),
    ):
        parser.add_argument(flag, action="store_true", help=meaning)
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    try:
        options = parser.parse_args(sys.argv[1:] if arguments is None else list(arguments))
    except SystemExit as end:
        return 1 if end.code else 0
    try:
        return asyncio.run(_run(options))
    except KeyboardInterrupt:
        return 130


async def _run(options: argparse.Namespace) -> int:
    timeout_s = options.w or CONNECT_TIMEOUT_S
    port = f"{options.host} {options.port} port [tcp/*]"
    try:
        connection = await SocketNetwork().connect(options.host, options.port, timeout_ms=int(1_000 * timeout_s))
    except ConnectionFailed as error:
        if options.v or not options.z:
            print(f"nc: connect to {options.host} port {options.port} (tcp) failed: {error}", file=sys.stderr)
        return 1
    try:
        if options.v:
            print(f"Connection to {port} succeeded!", file=sys.stderr)
        if not options.z:
            await _carry(connection, idle_s=options.w, after_input_s=options.q)
    finally:
        connection.close()
    return 0


async def _carry(connection: Connection, *, idle_s: float | None, after_input_s: float | None) -> None:
    """Send the standard input, and print what comes back until the peer closes the connection.

    Args:
        idle_s: end after so long without a byte from the peer; None to wait for it.
        after_input_s: end this long after the end of the standard input.
    """
    sending = asyncio.create_task(_send_input(connection), name="stdin")
    receiving = asyncio.create_task(_print_answer(connection, idle_s), name="answer")
    tasks = {sending, receiving}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if sending.done() and after_input_s is not None and after_input_s >= 0:
            await asyncio.wait({receiving}, timeout=after_input_s)
        elif sending.done():
            await receiving
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _send_input(connection: Connection) -> None:
    with contextlib.suppress(ConnectionLost):
        while data := await _read_input():
            await connection.send(data)


async def _read_input() -> bytes:
    """Return the next bytes of the standard input; none at its end.

    The thread that reads does not keep the program from ending: a terminal may never send anything.
    """
    loop = asyncio.get_running_loop()
    read: asyncio.Future[bytes] = loop.create_future()

    def finish(data: bytes) -> None:
        if not read.done():
            read.set_result(data)

    def wait() -> None:
        data = os.read(STDIN, PART_BYTES)
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(finish, data)

    threading.Thread(target=wait, name="stdin", daemon=True).start()
    return await read


async def _print_answer(connection: Connection, idle_s: float | None) -> None:
    try:
        while data := await asyncio.wait_for(connection.receive(), idle_s):
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
    except (ConnectionLost, TimeoutError):
        return


if __name__ == "__main__":
    sys.exit(main())
