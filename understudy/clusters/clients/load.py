"""`Load`: the base class of loads of clients, with their connections, their number and their end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from understudy.checks import client_history
from understudy.clusters.clients.client_events import NO_EVENTS, EventsOfClient, OpenClientLog
from understudy.clusters.clients.connections import Connections
from understudy.clusters.clients.producer import DeliveryOutcome
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.wire.network import Network

TIMEOUT_MS = 2_000
OUTCOMES = {
    DeliveryOutcome.ACKNOWLEDGED: client_history.SendOutcome.OK,
    DeliveryOutcome.REFUSED: client_history.SendOutcome.FAIL,
    DeliveryOutcome.UNKNOWN: client_history.SendOutcome.INFO,
}
"""Names of the outcomes of a send or a commit in a history."""


class Load:
    """Clients of a cluster, each a coroutine that runs until `is_stopping`.

    They run on any event loop: the loop of a simulation, or of a thread beside real processes.

    Args:
        bootstrap: `host:port` of brokers; a function, because brokers of real processes get their ports late.
        open_log: begins the event log of a client; None if the run has no event logs of clients.
    """

    def __init__(
        self,
        network: Network,
        clock: Clock,
        bootstrap: Callable[[], Sequence[str]],
        open_log: OpenClientLog | None = None,
    ) -> None:
        self.is_stopping = False
        self.running = 0
        """Number of clients that run."""
        self._network = network
        self._clock = clock
        self._bootstrap = bootstrap
        self._open_log = open_log

    @contextlib.contextmanager
    def client(self, client_id: str, *, is_recorded: bool = False) -> Iterator[Connections]:
        """Give a client its connections, and close them when it ends.

        Args:
            is_recorded: whether it has an event log, as the clients of a user have in the picture of a run; clients
                that only observe for a check have none.
        """
        events = NO_EVENTS
        if is_recorded and self._open_log is not None:
            events = EventsOfClient(client_id, self._open_log(client_id), self._clock)
        connections = Connections(
            self._network, self._bootstrap(), client_id=client_id, timeout_ms=TIMEOUT_MS, events=events
        )
        self.running += 1
        try:
            yield connections
        finally:
            self.running -= 1
            connections.close()
            events.close()
