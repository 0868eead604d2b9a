"""A connection between a node and a server of the simulated ZooKeeper, and its link, with the faults of both."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from understudy.clusters.simulated.loop import Process

if TYPE_CHECKING:
    from understudy.clusters.simulated.zookeeper_server import ZooKeeperServer

Deliver: TypeAlias = Callable[[], None]
"""Function of the client for a packet that reaches it."""


class Link:
    """The link between one node and one server, with the faults injected into it; all processes of the node use it."""

    def __init__(self, node: str, server: ZooKeeperServer, *, latency_ms: float, random: random.Random) -> None:
        self.node = node
        self.server = server
        self.latency_ms = latency_ms
        self.random = random
        self.refusing = False
        """Whether new connections are refused."""
        self.holds_next_event = False
        """Whether the next watch event and all packets after it are held, until the link is healed."""
        self.requests_held = False
        self.answers_held = False
        self.requests = 0
        """Number of requests that the node has sent to any server; `before_request` and `after_answer` are called with
        it. Only the link to the first server counts them."""
        self.before_request: Callable[[int], None] = lambda number: None
        self.after_answer: Callable[[int], None] = lambda number: None
        self.connections: list[ServerConnection] = []

    def open(self, process: Process | None, ended: Deliver) -> ServerConnection | None:
        """Open a connection to the server; None if it is refused."""
        if self.refusing or not self.server.is_serving:
            return None
        return ServerConnection(self, process, ended)

    def delay_s(self) -> float:
        return self.latency_ms * (0.75 + 0.5 * self.random.random()) / 1000


class ServerConnection:
    """One TCP connection between a client and the server; it has the state of both ends."""

    def __init__(self, link: Link, process: Process | None, ended: Deliver) -> None:
        self.link = link
        self.server = link.server
        self.session: Session | None = None
        self.client_open = True
        self.server_open = True
        self._loop = link.server.loop
        self._context = None if process is None else process.context
        self._ended = ended
        self._last_request_at = self._last_answer_at = 0.0
        self._in_flight = 0
        self._still_arriving = 0
        self._is_writing = False
        self._behind_write: deque[Callable[[], None]] = deque()
        self._held_requests: deque[Callable[[], None]] = deque()
        self._held_answers: deque[Deliver] = deque()
        link.connections.append(self)
        if process is not None:
            process.on_kill(self.client_killed)

    # ------------------------------------------------------------------ requests

    def send(self, serve: Callable[[], None]) -> None:
        """Send a request: `serve` is called when it arrives at the server, if it does."""
        if not self.client_open:
            return
        if self.link.requests_held:
            self._held_requests.append(serve)
        else:
            self._transmit_request(serve)

    def _transmit_request(self, serve: Callable[[], None]) -> None:
        self._last_request_at = max(self._last_request_at, self._loop.time() + self.link.delay_s())
        self._in_flight += 1
        self._loop.call_at(self._last_request_at, self._arrive, serve, context=self.server.context)

    def _arrive(self, serve: Callable[[], None]) -> None:
        if self.server.waiting is not None:
            self.server.waiting.append(lambda: self._arrive(serve))
            return
        self._in_flight -= 1
        if self._is_writing:
            self._behind_write.append(serve)
        elif self.server_open:
            serve()
        if not self.client_open:
            self._still_arriving -= 1
            if self._still_arriving <= 0:
                self.close_at_server()

    def begin_write(self) -> None:
        """Let requests that arrive from now on wait until `end_write`: a session's requests take effect in order."""
        self._is_writing = True

    def end_write(self) -> None:
        """Serve the requests that have waited, up to the next write."""
        self._is_writing = False
        while self._behind_write and self.server_open and not self._is_writing:
            self._behind_write.popleft()()

    # ------------------------------------------------------------------ answers and watch notifications

    def answer(self, deliver: Deliver, *, after_ms: float = 0.0) -> None:
        """Send a packet to the client: `deliver` is called when it arrives there, if it does."""
        if not self.client_open:
            return
        if self.link.answers_held:
            self._held_answers.append(deliver)
        else:
            self._transmit_answer(deliver, after_ms)

    def _transmit_answer(self, deliver: Deliver, after_ms: float) -> None:
        after_ms += self.server.slow_ms
        self._last_answer_at = max(self._last_answer_at, self._loop.time() + after_ms / 1000 + self.link.delay_s())
        self._loop.call_at(self._last_answer_at, self._deliver, deliver, context=self._context)

    def _deliver(self, deliver: Deliver) -> None:
        if self.client_open:
            deliver()

    # ------------------------------------------------------------------ closing

    def close_at_server(self) -> None:
        """Close the server's end. The client is notified after everything that was sent before."""
        if self.server_open:
            self.server_open = False
            self.server.forget(self)
            self.answer(self._ended)
            self._forget_if_closed()

    def abandon(self) -> None:
        """Close the client's end: answers are lost, and a drawn number of the requests on their way still arrives."""
        self._close_at_client(None)

    def client_killed(self) -> None:
        """Close the end of a killed process: all requests that it had sent still arrive."""
        self._close_at_client(self._in_flight + len(self._held_requests))

    def reset(self, *, arriving: int | None = None) -> None:
        """Break the connection, and notify the client at once.

        `arriving` of the requests on their way still arrive; None for a drawn number.
        """
        if self.client_open:
            self._close_at_client(arriving)
            self._loop.call_soon(self._ended, context=self._context)

    def _close_at_client(self, arriving: int | None) -> None:
        if not self.client_open:
            return
        self.client_open = False
        if arriving is None:
            arriving = self.link.random.randint(0, self._in_flight + len(self._held_requests))
        self._still_arriving = arriving
        if arriving == 0:
            self.close_at_server()
        self._forget_if_closed()

    def _forget_if_closed(self) -> None:
        """Remove the connection from its link once both ends are closed; until then packets may be held on it."""
        if not self.client_open and not self.server_open and self in self.link.connections:
            self.link.connections.remove(self)

    def flush(self) -> None:
        """Send the held packets; requests are sent even if the client has closed its end meanwhile."""
        held_requests, self._held_requests = self._held_requests, deque()
        for serve in held_requests:
            self._transmit_request(serve)
        held_answers, self._held_answers = self._held_answers, deque()
        for deliver in held_answers:
            self._transmit_answer(deliver, 0.0)


@dataclass(slots=True, eq=False)
class Session:
    """A session, with its newest connection to any server."""

    session_id: int
    timeout_ms: int
    connection: ServerConnection | None = None
