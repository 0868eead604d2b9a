"""`SimulatedTestBroker`: a broker as a test in virtual time has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from understudy.clusters.answers import AnswerHandle
from understudy.clusters.cluster import ClusterError
from understudy.clusters.simulated.broker import SimulatedBroker
from understudy.clusters.virtual.world import VirtualWorld
from understudy.foundation.cluster.errors import Errors
from understudy.testing.broker_of_test import BrokerOfTest


class ClusterOfBrokers(Protocol):
    """The cluster of a broker: its addresses, and its time."""

    @property
    def world(self) -> VirtualWorld: ...

    def address_of(self, name: str) -> str: ...

    async def wait_until(self, condition: Callable[[], Any], what: str) -> Any: ...


class SimulatedTestBroker(BrokerOfTest):
    """One broker of the simulation. The faults act at once; `start`, `stop` and `restart` are awaited.

    Attributes:
        role: the role by which it was found, for example `leader of orders-0`; empty if it was found by its id.
    """

    def __init__(self, cluster: ClusterOfBrokers, broker: SimulatedBroker, role: str = "") -> None:
        super().__init__(int(broker.id), broker)
        self._cluster = cluster
        self.role = role
        self._broker = broker
        self.address = cluster.address_of(broker.name)

    def kill(self, for_s: float | None = None) -> None:
        """Kill it (SIGKILL), and start it again after `for_s` seconds; None leaves it to `start`."""
        with self._broker.found_as(self.role):
            self._broker.kill()
        self._later(for_s, self._broker.begin_start)

    def pause(self, for_s: float | None = None) -> None:
        """Pause it (SIGSTOP) until `resume`, or for `for_s` seconds."""
        with self._broker.found_as(self.role):
            self._broker.pause()
        self._later(for_s, self._broker.resume_if_paused)

    def isolate(self, for_s: float | None = None) -> None:
        """Hold everything between it and all other nodes, until `heal`, or for `for_s` seconds."""
        with self._broker.found_as(self.role):
            self._broker.isolate()
        self._later(for_s, self.heal)

    def heal(self) -> None:
        self._broker.heal()

    def depose(self) -> None:
        self._broker.depose()

    def lose_power(self, for_s: float | None = None) -> None:
        """Turn its machine off, which loses what its disk has not flushed, and on again after `for_s` seconds."""
        with self._broker.found_as(self.role):
            self._broker.lose_power()
        self._later(for_s, self._broker.begin_start)

    def expire_session(self) -> None:
        self._broker.expire_session()

    def arm(self, point: str, action: str) -> None:
        self._broker.arm(point, action)

    def answer(self, api: str, error: str = Errors.NONE.name, **options: Any) -> AnswerHandle:
        """Arm an answer at this broker. See `ArmsAnswers.answer`; `cluster.given` waits for it."""
        return self._broker.answer(api, error, **options)

    async def start(self) -> None:
        """Start it, and wait until it serves requests."""
        if self.is_running:
            raise ClusterError(f"{self.name} cannot be started: it is running")
        broker = self._broker
        await self._cluster.wait_until(lambda: broker.session_id is None, f"the old session of {self.name} is gone")
        broker.begin_start()
        await self._cluster.wait_until(lambda: broker.is_serving, f"{self.name} serves requests")

    async def stop(self) -> None:
        """Stop it by a controlled shutdown, and wait until its process has ended."""
        if not self.is_running:
            raise ClusterError(f"stop was not injected: {self.name} is not running")
        self._broker.resume_if_paused()
        with self._broker.found_as(self.role):
            self._broker.begin_stop()
        await self._cluster.wait_until(lambda: not self.is_running, f"{self.name} has stopped")

    async def restart(self) -> None:
        if self.is_running:
            await self.stop()
        await self.start()

    def _later(self, for_s: float | None, action: Callable[[], None]) -> None:
        if for_s is not None:
            self._cluster.world.after(for_s, action)
