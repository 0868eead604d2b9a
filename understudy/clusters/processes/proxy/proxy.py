"""`Proxy`: a thread whose event loop forwards the connections between the nodes of a local cluster.

Its methods can be called from any other thread. They return when the fault has been injected, or ended.
"""

from __future__ import annotations

import asyncio
import functools
import socket
from collections.abc import Callable, Collection, Iterable
from typing import Concatenate, Final, ParamSpec, TypeAlias, TypeVar

from understudy.clusters.processes.loop_thread import LoopThread
from understudy.clusters.processes.proxy.connection import Language, ProxiedConnection, ProxiedLink, Route, Side, reset
from understudy.clusters.processes.proxy.frames import ProxiedSession
from understudy.clusters.request_rules import LostWrite, RequestRule

T = TypeVar("T")
P = ParamSpec("P")
Pairs: TypeAlias = Iterable[tuple[str, str]]
"""Ordered pairs of nodes: what the first sends to the second."""

CLIENT: Final = "client"
"""The node of every connection whose source address belongs to no broker."""
ZOOKEEPER: Final = "zookeeper"
HOST: Final = "127.0.0.1"

MAX_CONNECTIONS: Final = 2_000
"""Further connections are reset."""
_CALL_TIMEOUT_S: Final = 10.0
_BACKLOG: Final = 128


def _on_loop(method: Callable[Concatenate[Proxy, P], T]) -> Callable[Concatenate[Proxy, P], T]:
    """Run a method on the event loop of its proxy; the caller waits, and gets the result."""

    @functools.wraps(method)
    def call(proxy: Proxy, /, *arguments: P.args, **named: P.kwargs) -> T:
        async def on_loop() -> T:
            return method(proxy, *arguments, **named)

        return proxy._thread.ask(on_loop(), _CALL_TIMEOUT_S)

    return call


class Proxy:
    """The listeners, connections and links between nodes, and the thread that serves them until `stop`.

    Args:
        sources: the node that connects from each loopback address; all other addresses belong to clients.
    """

    def __init__(self, sources: dict[str, str]) -> None:
        self._sources = dict(sources)
        self._links: dict[tuple[str, str], ProxiedLink] = {}
        self._connections: dict[ProxiedConnection, None] = {}
        self._sessions: dict[str, tuple[ProxiedSession, tuple[str, int]]] = {}
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._missed: list[str] = []
        """The removed rules that had changed no request, in words."""
        self._thread = LoopThread("understudy-proxy")
        self._is_running = True

    # ------------------------------------------------------------------ listeners and the end

    def stop(self) -> None:
        """Reset all connections, close the listeners and end the thread. Harmless if it has ended."""
        if self._is_running:
            self._close()
            self._thread.close()

    @_on_loop
    def _close(self) -> None:
        self._is_running = False
        for server in self._servers:
            server.close()
        for connection in tuple(self._connections):
            connection.reset()

    def listen(
        self,
        destination: str,
        address: tuple[str, int],
        *,
        bound: tuple[str, int] = (HOST, 0),
        source: str | None = None,
        language: Language = Language.KAFKA,
        chroot: str = "",
        election_address: Callable[[], str] | None = None,
    ) -> int:
        """Open a listener that leads to a node, and return its port.

        Args:
            destination: the node.
            address: its host and port.
            bound: the host and the port of the listener; port 0 is any free one.
            source: the node that connects to this listener; None if the source address identifies it.
            chroot: the prefix that is removed from ZooKeeper's paths before a `LostWrite` is compared with them.
            election_address: for an election port of ZooKeeper; see `Route`.
        """
        route = Route(destination, *address, language, chroot, election_address)
        listening = socket.create_server(bound, backlog=_BACKLOG)
        port: int = listening.getsockname()[1]

        async def serve() -> None:
            server = await asyncio.get_running_loop().create_server(
                lambda: Side(lambda side: self._accepted(side, route, source)), sock=listening
            )
            self._servers.append(server)

        self._thread.ask(serve(), _CALL_TIMEOUT_S)
        return port

    @property
    def connections(self) -> int:
        """Number of connections that it forwards."""
        return len(self._connections)

    # ------------------------------------------------------------------ faults

    @_on_loop
    def hold(self, pairs: Pairs) -> None:
        """Hold everything that these nodes send, until it is released."""
        for link in self._each(pairs):
            link.is_held = True
            link.changed()

    @_on_loop
    def hold_next_event(self, pair: tuple[str, str]) -> None:
        """Hold the next watch event of ZooKeeper's, and what follows, until it is released."""
        self._link(*pair).holds_next_event = True

    @_on_loop
    def release(self, pairs: Pairs) -> None:
        """Forward what was held, in order, and hold nothing more. Harmless if nothing was held."""
        for link in self._each(pairs):
            if link.holds_next_event:
                self._missed.append(_missed_event(link))
            link.is_held = link.holds_next_event = False
            link.changed()

    @_on_loop
    def delay(self, pairs: Pairs, by_ms: float) -> None:
        """Delay everything that these nodes send by `by_ms` milliseconds; 0 ends the delay."""
        for link in self._each(pairs):
            link.delay_ms = by_ms

    @_on_loop
    def throttle(self, pairs: Pairs, bytes_per_s: float) -> None:
        """Limit each connection to `bytes_per_s` bytes a second; 0 ends the limit."""
        for link in self._each(pairs):
            link.bytes_per_s = bytes_per_s

    @_on_loop
    def split(self, pairs: Pairs, piece_bytes: int) -> None:
        """Forward everything that these nodes send in pieces of `piece_bytes`, one a millisecond; 0 ends it."""
        for link in self._each(pairs):
            link.piece_bytes = piece_bytes

    @_on_loop
    def reset(self, pairs: Pairs) -> int:
        """Reset the connections between these nodes, whichever opened them (RST); return how many there were."""
        wanted = {frozenset(pair) for pair in pairs}
        found = [each for each in self._connections if frozenset(each.nodes) in wanted]
        for connection in found:
            connection.reset()
        return len(found)

    @_on_loop
    def add_rule(self, rule: RequestRule) -> None:
        """Apply a rule to requests that arrive from now on."""
        for link in self._each(_pairs(rule.sources, rule.destinations)):
            link.rules.append(rule)

    @_on_loop
    def remove_rule(self, name: str) -> None:
        """End a rule, and forward the frames that it holds. Harmless if there is none of this name."""
        removed = {id(rule): rule for rule in self._rules() if rule.name == name and not rule.applied}
        self._missed += [rule.missed for rule in removed.values()]
        for link in self._links.values():
            link.rules = [rule for rule in link.rules if rule.name != name]
            for flow in tuple(link.flows):
                flow.release(name)

    @_on_loop
    def session_of(self, node: str) -> tuple[ProxiedSession, tuple[str, int]] | None:
        """A node's newest session, which may have ended, and the address of ZooKeeper; None if it has had none."""
        return self._sessions.get(node)

    @_on_loop
    def lose_write(self, source: str, lost: LostWrite, server: str = ZOOKEEPER) -> None:
        """Break a node's connection to a server at its next write to a path, so that the outcome is unknown."""
        self._link(source, server).lost_writes.append(lost)

    @_on_loop
    def refuse(self, pairs: Pairs, is_refusing: bool) -> None:
        """Reset the connections that these nodes open from now on, or accept them again."""
        for link in self._each(pairs):
            link.is_refusing = is_refusing

    @_on_loop
    def not_injected(self) -> list[str]:
        """The rules and lost writes that have found no request so far, in words."""
        found = {rule.name: rule.missed for rule in self._rules() if not rule.applied}
        lost = [
            f"lose-answer of {link.source} at {write.path}"
            for link in self._links.values()
            for write in link.lost_writes
        ]
        events = [_missed_event(link) for link in self._links.values() if link.holds_next_event]
        return [*self._missed, *found.values(), *lost, *events]

    @_on_loop
    def heal(self) -> None:
        """End every fault; what was held is forwarded."""
        self._missed.clear()
        for link in self._links.values():
            held_by = {rule.name for rule in link.rules}
            link.is_held = link.is_refusing = link.holds_next_event = False
            link.delay_ms = link.bytes_per_s = 0.0
            link.piece_bytes = 0
            link.rules.clear()
            link.lost_writes.clear()
            for flow in tuple(link.flows):
                for name in held_by:
                    flow.release(name)
            link.changed()

    # ------------------------------------------------------------------ on the loop (`Owner`)

    def forget(self, connection: ProxiedConnection) -> None:
        self._connections.pop(connection, None)

    def keep(self, task: asyncio.Task[None]) -> None:
        """Keep a task from being garbage-collected until it is done."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def note_session(self, node: str, session: ProxiedSession, server: tuple[str, int]) -> None:
        self._sessions[node] = session, server

    def _accepted(self, side: Side, route: Route, source: str | None) -> None:
        """Forward a connection that a node has opened."""
        if len(self._connections) >= MAX_CONNECTIONS or not self._is_running:
            side.transport.abort()
            return
        if source is None:
            peer = side.transport.get_extra_info("peername")
            source = self._sources.get(peer[0] if peer else "", CLIENT)
        requests, answers = self._link(source, route.destination), self._link(route.destination, source)
        if requests.is_refusing:
            reset(side.transport)
            return
        self._connections[ProxiedConnection(self, route, side, requests, answers)] = None

    def _link(self, source: str, destination: str) -> ProxiedLink:
        link = self._links.get((source, destination))
        if link is None:
            link = self._links[source, destination] = ProxiedLink(source, destination)
        return link

    def _rules(self) -> list[RequestRule]:
        return [rule for link in self._links.values() for rule in link.rules]

    def _each(self, pairs: Pairs) -> list[ProxiedLink]:
        return [self._link(source, destination) for source, destination in pairs]


def _missed_event(link: ProxiedLink) -> str:
    return f"hold-watch: no watch event was sent to {link.destination}"


def _pairs(sources: Collection[str], destinations: Collection[str]) -> list[tuple[str, str]]:
    return [(source, destination) for source in sources for destination in destinations if source != destination]
