"""`BrokerUnderTest`: one broker of a `ClusterUnderTest`, and the faults that a test injects into it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from understudy.clusters.cluster import BrokerHandle
from understudy.clusters.processes.local_broker import LocalBroker


@dataclass(frozen=True, slots=True)
class BrokerUnderTest:
    """One broker; implements `understudy.clusters.cluster.BrokerHandle`, where its methods are described.

    Every fault is recorded in the event log before it is injected, and raises `ClusterError` where the broker is not
    in the state for it.

    Attributes:
        local: the broker's process.
        before_fault: called with the broker's id before a fault that may end its leaderships.
    """

    local: LocalBroker
    before_fault: Callable[[int], None]

    @property
    def id(self) -> int:
        return self.local.id

    @property
    def name(self) -> str:
        """`broker-1`, as in the event log."""
        return self.local.name

    @property
    def role(self) -> str:
        """The role by which it was looked up, for example `controller`; empty if it was looked up by id."""
        return self.local.role

    @property
    def address(self) -> str:
        """`host:port` of its listener."""
        return self.local.address

    @property
    def is_running(self) -> bool:
        return self.local.is_running

    @property
    def is_paused(self) -> bool:
        return self.local.is_paused

    def kill(self) -> None:
        self.before_fault(self.id)
        self.local.kill()

    def pause(self) -> None:
        self.before_fault(self.id)
        self.local.pause()

    def resume(self) -> None:
        self.local.resume()

    def stop(self) -> None:
        self.before_fault(self.id)
        self.local.stop()

    def start(self) -> None:
        self.local.start()

    def restart(self) -> None:
        if self.is_running:
            self.stop()
        self.start()

    def depose(self) -> None:
        self.before_fault(self.id)
        self.local.depose()

    def isolate(self) -> None:
        self.before_fault(self.id)
        self.local.isolate()

    def heal(self) -> None:
        self.local.heal()

    def arm(self, point: str, action: str) -> None:
        self.before_fault(self.id)
        self.local.arm(point, action)


def _as_handle(broker: BrokerUnderTest) -> BrokerHandle:
    """Let mypy check that this implements `BrokerHandle`."""
    return broker
