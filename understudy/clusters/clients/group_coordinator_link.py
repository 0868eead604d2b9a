"""Finds the coordinator of a group, and sends it requests."""

from __future__ import annotations

from typing import Final, TypeVar

from understudy.clusters.clients.connections import Connections
from understudy.foundation.cluster.errors import Errors, error_name
from understudy.foundation.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from understudy.foundation.wire.schema import Message

FIND_COORDINATOR_VERSION: Final = 4
GROUP: Final = 0
MOVED: Final = frozenset({Errors.COORDINATOR_NOT_AVAILABLE, Errors.NOT_COORDINATOR})
"""Errors of a broker that does not coordinate a group any more."""

R = TypeVar("R", bound=Message)


class GroupError(Exception):
    """A coordinator has answered with an error; another attempt may succeed. The message names the error."""


class CoordinatorLink:
    """The link to the coordinator of one group.

    Attributes:
        coordinator: the broker id of the coordinator; None if it is not known.
        events: what the client records of its requests.
    """

    def __init__(self, connections: Connections, group_id: str) -> None:
        self._connections = connections
        self.events = connections.events
        self.coordinator: int | None = None
        self.group_id = group_id

    def forget(self) -> None:
        """Forget the coordinator: the next request looks it up first."""
        self.coordinator = None

    async def ask(self, request: Message, version: int, response: type[R], *, wait_ms: int = 0) -> R:
        """Send a request to the coordinator.

        Args:
            wait_ms: the time that the coordinator may take to answer, in addition to the usual timeout.

        Raises:
            GroupError: no broker names a coordinator.
            NoLeader: no broker answers.
            ConnectionFailed: the coordinator does not accept a connection; nothing was sent.
            ConnectionLost, RequestTimedOut, MalformedMessage: there is no answer that can be read.
        """
        coordinator = await self.find()
        return await self._connections.ask(coordinator, request, version, response, wait_ms=wait_ms)

    async def find(self) -> int:
        """Return the broker id of the coordinator, which is looked up if it is not known. Raises as `ask` does."""
        if self.coordinator is None:
            self.coordinator = await self._look_up()
        return self.coordinator

    async def _look_up(self) -> int:
        broker = await self._connections.any_broker()
        request = FindCoordinatorRequest(key_type=GROUP, coordinator_keys=(self.group_id,))
        answer = await self._connections.ask(broker, request, FIND_COORDINATOR_VERSION, FindCoordinatorResponse)
        if not answer.coordinators:
            raise GroupError(Errors.COORDINATOR_NOT_AVAILABLE.name)
        found = answer.coordinators[0]
        if found.error_code != Errors.NONE:
            raise GroupError(error_name(found.error_code))
        self._connections.know_address(found.node_id, found.host, found.port)
        return found.node_id
