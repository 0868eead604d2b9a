"""Accepts connections, reads requests and sends responses, in order. Mirrors `kafka.network.SocketServer`.

A connection has one request in progress; the next is not read before the response is sent, which Kafka does by muting
the channel. So responses keep the order of requests, and a client that sends without reading fills its own socket.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from math import inf

import structlog

from understudy.brokers.apis.serving import CloseConnection
from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.network.kafka_apis import HandlerFailed, KafkaApis
from understudy.brokers.network.report_limit import ReportLimit, host_of
from understudy.foundation.cluster.broker import EndPoint
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.records import ConnectionRefused
from understudy.foundation.wire.errors import MalformedMessage, UnsupportedVersion
from understudy.foundation.wire.framing import FrameReader
from understudy.foundation.wire.network import Connection, ConnectionFailed, ConnectionLost, Network, ServerSocket

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.network.SocketServer")


class _Idle(Exception):
    """A connection was idle for too long; the message says what the broker waited for, and how long."""


class _IdleDeadline:
    """Cancels the task of a connection when one step of a request takes longer than `connections.max.idle.ms`.

    A request has three steps, each of which begins a new deadline. The connection has one timer, which is set again
    only when it is due, or when the limit was lowered: a timer for each step would take a fifth of the processor time
    of small requests.

    Args:
        config: returns the configuration as it is now; as in Kafka, a negative limit is none.
    """

    def __init__(self, config: Callable[[], KafkaConfig]) -> None:
        task = asyncio.current_task()
        assert task is not None, "made in the task of the connection"
        self._task = task
        self._loop = asyncio.get_running_loop()
        self._config = config
        self._due = inf
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = inf
        self._missing = ""
        self._for_ms = 0
        self._has_expired = False

    def begin(self, missing: str) -> None:
        """Begin a step, for the end of which the limit counts from now on.

        Args:
            missing: the thing that is missing if the limit is exceeded, for the message.
        """
        limit_ms = self._config().connections_max_idle_ms
        self._missing = missing
        self._for_ms = limit_ms
        self._due = inf if limit_ms < 0 else self._loop.time() + limit_ms / 1000
        if self._due < self._timer_due:
            self._set_timer()

    def check_cancelled(self) -> None:
        """Raise `_Idle` if the deadline, and nothing else, has cancelled the task."""
        if self._has_expired and self._task.uncancel() == 0:
            raise _Idle(f"{self._missing} for {self._for_ms} ms (connections.max.idle.ms)")

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        self.end()
        self._timer_due = self._due
        if self._due < inf:
            self._timer = self._loop.call_at(self._due, self._on_timer)

    def _on_timer(self) -> None:
        if self._due > self._timer_due:
            self._set_timer()
        else:
            self._has_expired = True
            self._task.cancel()


class SocketServer:
    """This broker's listeners. Between `bind` and `start` connections wait in the kernel's backlog (BR-1).

    Args:
        config: returns the configuration as it is now: limits and listeners may change while the broker runs.
    """

    def __init__(self, *, config: Callable[[], KafkaConfig], network: Network, events: EventLog, clock: Clock) -> None:
        self._config = config
        self._network = network
        self._events = events
        self._refusals = ReportLimit(clock)
        self._apis: KafkaApis | None = None
        self._servers: dict[str, ServerSocket] = {}
        self._bound: dict[str, EndPoint] = {}
        self._open: Counter[str] = Counter()

    async def bind_wildcard_ports(self) -> dict[str, int]:
        """Bind the listeners of port 0, whose real ports have to be registered; return the port of every listener.

        The others stay closed until `bind`, as in Kafka: an open port means a broker that is registered.

        Raises:
            ConnectionFailed: an address cannot be bound.
        """
        endpoints = self._config().bound_endpoints()
        for endpoint in endpoints:
            if endpoint.port == 0:
                await self._listen(endpoint)
        return {endpoint.listener: endpoint.port for endpoint in endpoints} | self._ports()

    async def bind(self) -> None:
        """Bind every listener that is not bound yet.

        Raises:
            ConnectionFailed: an address is taken, or this machine does not have it.
        """
        for endpoint in self._config().bound_endpoints():
            if endpoint.listener not in self._bound:
                await self._listen(endpoint)

    async def rebind(self) -> dict[str, int]:
        """Close listeners that were removed or changed, open new ones, and return the port of each by its name (BR-5).

        One that cannot be bound is left out; the next call tries again.
        """
        wanted = {endpoint.listener: endpoint for endpoint in self._config().bound_endpoints()}
        for listener in [listener for listener, endpoint in self._bound.items() if wanted.get(listener) != endpoint]:
            del self._bound[listener]
            await self._servers.pop(listener).close()
            log.info("listener closed", listener=listener)
        for listener in [listener for listener in wanted if listener not in self._bound]:
            try:
                await self._listen(wanted[listener])
            except ConnectionFailed as failure:
                log.error("listener could not be bound", listener=listener, why=str(failure))
        return self._ports()

    def start(self, apis: KafkaApis) -> None:
        """Begin to answer requests."""
        self._apis = apis
        for server in self._servers.values():
            server.start()

    async def close(self) -> None:
        for server in self._servers.values():
            await server.close()

    async def _listen(self, endpoint: EndPoint) -> None:
        serve = partial(self._serve, endpoint.listener)
        server = self._servers[endpoint.listener] = await self._network.bind(endpoint.host, endpoint.port, serve)
        self._bound[endpoint.listener] = endpoint
        if self._apis is not None:
            server.start()

    def _ports(self) -> dict[str, int]:
        return {listener: server.port for listener, server in self._servers.items()}

    async def _serve(self, listener: str, connection: Connection) -> None:
        address = host_of(connection.peer)
        config = self._config()
        if self._open.total() >= config.max_connections or self._open[address] >= config.max_connections_per_ip:
            self._refuse(connection, "too many connections (max.connections, max.connections.per.ip)")
            return
        self._open[address] += 1
        try:
            await self._answer(listener, connection)
        except (MalformedMessage, UnsupportedVersion) as error:
            self._refuse(connection, str(error))
        except _Idle as idle:
            # An ordinary event, of which an operator sees no line, as in Kafka.
            log.debug("closing the idle connection", peer=connection.peer, why=str(idle))
            self._record(connection.peer, str(idle))
        except HandlerFailed as error:
            self._refuse(connection, f"internal error: {error}")
        except CloseConnection as close:
            self._refuse(connection, str(close))
        except ConnectionLost as lost:
            log.debug("connection lost", peer=connection.peer, why=str(lost))
        finally:
            self._open[address] -= 1
            if not self._open[address]:
                del self._open[address]
        connection.close()

    async def _answer(self, listener: str, connection: Connection) -> None:
        """Answer requests until the peer closes.

        One deadline spans a whole request, so that single bytes do not keep a connection alive. Another spans its
        handling: a client may ask to wait for weeks and be gone, which shows only when it is answered.

        Raises:
            _Idle: a deadline has passed.
        """
        deadline = _IdleDeadline(self._config)
        try:
            await self._answer_until(deadline, listener, connection)
        except asyncio.CancelledError:
            deadline.check_cancelled()
            raise
        finally:
            deadline.end()

    async def _answer_until(self, deadline: _IdleDeadline, listener: str, connection: Connection) -> None:
        assert self._apis is not None, "connections are served after start()"
        frames = FrameReader(self._config().socket_request_max_bytes)
        while True:
            deadline.begin("no whole request")
            ready: list[bytes] = []
            while not ready:
                data = await connection.receive()
                if not data:
                    if frames.has_unfinished_frame:
                        log.debug("connection ended inside a request", peer=connection.peer)
                    return
                ready = frames.feed(data)
            for position, frame in enumerate(ready):
                if position:
                    # A client that sends thousands of requests at once must not keep the others waiting.
                    await asyncio.sleep(0)
                deadline.begin("no answer was found")
                answer = await self._apis.handle(frame, listener=listener, peer=connection.peer)
                if answer is not None:
                    deadline.begin("an answer was not read")
                    await connection.send(answer)

    def _refuse(self, connection: Connection, reason: str) -> None:
        """Close the connection, with a line and a record of the reason unless there were many of them."""
        peer = connection.peer
        left_out = self._record(peer, reason)
        if left_out is None:
            log.debug("closing socket because of error", peer=peer, why=reason)
        else:
            log.warning("closing socket because of error", peer=peer, why=reason, left_out=left_out)
        connection.close()

    def _record(self, peer: str, reason: str) -> int | None:
        """Write a record of a closed connection; return how many were left out before it, None if it is left out."""
        left_out = self._refusals.take(peer)
        if left_out is not None:
            self._events.append(ConnectionRefused(peer=peer, reason=reason, left_out=left_out))
        return left_out
