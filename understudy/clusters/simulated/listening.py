"""Listening sockets of the simulated network."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from understudy.clusters.simulated.loop import Process
from understudy.foundation.wire.network import Connection

if TYPE_CHECKING:
    from understudy.clusters.simulated.network import SimulatedConnection, SimulatedNetwork

_BACKLOG = 50


class ListeningSocket(Protocol):
    """A listening socket of a process."""

    process: Process

    @property
    def is_listening(self) -> bool:
        """Whether a connection that arrives now is opened, and not refused."""

    def connected(self, connection: SimulatedConnection) -> None:
        """Take a new connection."""

    def stop_listening(self) -> None:
        """Close the socket and the connections that it has not accepted."""


@dataclass(slots=True, eq=False)
class SimulatedServer:
    """A listening socket, its connections that wait to be accepted, and its served ones; implements `ServerSocket`."""

    network: SimulatedNetwork
    process: Process
    port: int
    serve: Callable[[Connection], Awaitable[None]]
    started: bool = False
    backlog: deque[SimulatedConnection] = field(default_factory=deque)
    accepted: dict[SimulatedConnection, asyncio.Task[None]] = field(default_factory=dict)

    @property
    def is_listening(self) -> bool:
        """Whether its process lives and its backlog has room."""
        return self.process.alive and len(self.backlog) < _BACKLOG

    def start(self) -> None:
        self.started = True
        self._accept()

    def connected(self, connection: SimulatedConnection) -> None:
        """Let a new connection wait, or accept it."""
        self.backlog.append(connection)
        if self.started:
            self._accept()

    def stop_listening(self) -> None:
        """Close the socket and the connections that it has not accepted."""
        if self.network.servers.get((self.process.name, self.port)) is self:
            del self.network.servers[self.process.name, self.port]
        for waiting in self.backlog:
            waiting.close()
        self.backlog.clear()

    async def close(self) -> None:
        self.stop_listening()
        serving = tuple(self.accepted.items())
        for connection, task in serving:
            connection.close()
            task.cancel()
        await asyncio.gather(*(task for _, task in serving), return_exceptions=True)

    def _accept(self) -> None:
        """Accept and serve the connections that wait."""
        while self.backlog:
            connection = self.backlog.popleft()
            self.accepted[connection] = self.process.spawn(self._serve(connection))

    async def _serve(self, connection: SimulatedConnection) -> None:
        try:
            await self.serve(connection)
        finally:
            connection.close()
            self.accepted.pop(connection, None)
