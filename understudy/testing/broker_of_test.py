"""`BrokerOfTest`: what a broker of a test in virtual time and one on processes have in common."""

from __future__ import annotations

from typing import Protocol


class _Broker(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def is_running(self) -> bool: ...

    @property
    def is_paused(self) -> bool: ...

    def resume(self) -> None: ...


class BrokerOfTest:
    """One broker of a test. Handles of one broker are equal, whichever role they were found by.

    Args:
        broker_id: the id of the broker.
        broker: the broker of a cluster.

    Attributes:
        id: as in `broker.id`.
        name: `broker-1`, as in the event log.
    """

    def __init__(self, broker_id: int, broker: _Broker) -> None:
        self.id = broker_id
        self.name = broker.name
        self._handled = broker

    def __repr__(self) -> str:
        return f"<{self.name} {'running' if self.is_running else 'not running'}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and other.id == self.id

    def __hash__(self) -> int:
        return self.id

    @property
    def is_running(self) -> bool:
        """Whether its process exists, paused or not."""
        return self._handled.is_running

    @property
    def is_paused(self) -> bool:
        return self._handled.is_paused

    def resume(self) -> None:
        """End a pause. Harmless if it is not paused."""
        self._handled.resume()
