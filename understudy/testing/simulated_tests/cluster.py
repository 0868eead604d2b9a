"""`SimulatedTestCluster`: the cluster that a test in virtual time gets.

It has the names of `LocalCluster` and `ClusterUnderTest`, and what takes time is awaited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

from understudy.clusters.answers import AnswerHandle, arm_at, armed_answer
from understudy.clusters.clients.cluster_requests import NoBrokerAnswers
from understudy.clusters.cluster import ClusterError, Unsettled, WaitTimedOut
from understudy.clusters.findings import in_words
from understudy.clusters.simulated.broker import SimulatedBroker
from understudy.clusters.virtual.service import Service
from understudy.clusters.virtual.world import VirtualWorld
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.wire.network import ConnectionFailed, ConnectionLost
from understudy.foundation.wire.request_channel import RequestTimedOut
from understudy.testing.simulated_tests.cluster_history import ClusterHistory
from understudy.testing.simulated_tests.fault_injector import FaultInjector

T = TypeVar("T")

WAIT_TIMEOUT_S: Final = 60.0
_STEP_S: Final = 0.1
_PREVENTED: Final = frozenset(
    {
        Errors.INVALID_REPLICATION_FACTOR,
        Errors.NOT_CONTROLLER,
        Errors.REQUEST_TIMED_OUT,
        Errors.STALE_CONTROLLER_EPOCH,
        Errors.UNKNOWN_SERVER_ERROR,
    }
)
"""Answers to CreateTopics while the controller moves, or brokers are down."""


class SimulatedTestBroker:
    """One broker of the simulation. The faults act at once; `start`, `stop` and `restart` are awaited."""

    def __init__(self, cluster: SimulatedTestCluster, broker: SimulatedBroker) -> None:
        self._cluster = cluster
        self._broker = broker
        self.id = int(broker.id)
        self.name = broker.name
        self.address = cluster.address_of(broker.name)

    def __repr__(self) -> str:
        return f"<{self.name} {'running' if self.is_running else 'not running'}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SimulatedTestBroker) and other.id == self.id

    def __hash__(self) -> int:
        return self.id

    @property
    def is_running(self) -> bool:
        return self._broker.is_running

    @property
    def is_paused(self) -> bool:
        return self._broker.is_paused

    def kill(self, for_s: float | None = None) -> None:
        """Kill it (SIGKILL), and start it again after `for_s` seconds; None leaves it to `start`."""
        self._broker.kill()
        self._later(for_s, self._broker.begin_start)

    def pause(self, for_s: float | None = None) -> None:
        """Pause it (SIGSTOP) until `resume`, or for `for_s` seconds."""
        self._broker.pause()
        self._later(for_s, self._broker.resume_if_paused)

    def resume(self) -> None:
        self._broker.resume()

    def isolate(self, for_s: float | None = None) -> None:
        """Hold everything between it and all other nodes, until `heal`, or for `for_s` seconds."""
        self._broker.isolate()
        self._later(for_s, self.heal)

    def heal(self) -> None:
        self._broker.heal()

    def depose(self) -> None:
        self._broker.depose()

    def lose_power(self, for_s: float | None = None) -> None:
        """Turn its machine off, which loses what its disk has not flushed, and on again after `for_s` seconds."""
        self._broker.lose_power()
        self._later(for_s, self._broker.begin_start)

    def expire_session(self) -> None:
        self._broker.expire_session()

    def arm(self, point: str, action: str) -> None:
        self._broker.arm(point, action)

    def answer(self, api: str, error: str = Errors.NONE.name, **options: Any) -> AnswerHandle:
        """Arm an answer at this broker. See `ArmsAnswers.answer`."""
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
        self._broker.begin_stop()
        await self._cluster.wait_until(lambda: not self.is_running, f"{self.name} has stopped")

    async def restart(self) -> None:
        if self.is_running:
            await self.stop()
        await self.start()

    def _later(self, for_s: float | None, action: Callable[[], None]) -> None:
        if for_s is not None:
            self._cluster.world.after(for_s, action)


class SimulatedTestCluster:
    """The brokers, services and faults of one run of a test.

    Attributes:
        seed: the seed of this run.
        world: the processes of the test beside the brokers.
        injector: injects what the seed draws.
        history: what passes between the clients of the test and the brokers.
    """

    history: ClusterHistory

    def __init__(self, world: VirtualWorld) -> None:
        self.world = world
        self.simulated = world.cluster
        self.seed = world.cluster.seed
        self.injector: FaultInjector | None = None
        self._brokers = {int(broker.id): SimulatedTestBroker(self, broker) for broker in world.cluster.brokers}

    # -- addresses and roles

    @property
    def bootstrap(self) -> str:
        """`host:port` of every broker, separated by commas: the `bootstrap.servers` of a client."""
        return ",".join(self.simulated.bootstrap)

    def address_of(self, name: str) -> str:
        return next(address for address in self.simulated.bootstrap if address.startswith(f"{name}:"))

    @property
    def brokers(self) -> tuple[SimulatedTestBroker, ...]:
        """Every broker, in order of id, running or not."""
        return tuple(self._brokers.values())

    @property
    def broker_ids(self) -> tuple[int, ...]:
        return tuple(self._brokers)

    def broker(self, broker_id: int) -> SimulatedTestBroker:
        return self._brokers[int(self.simulated.broker(broker_id).id)]

    def controller(self) -> SimulatedTestBroker:
        """The broker that owns `/controller`. Raises ClusterError if there is none at this moment."""
        return self.broker(self.simulated.controller().id)

    def controller_id(self) -> int | None:
        return self.simulated.controller_id()

    def leader(self, topic: str, partition: int = 0) -> SimulatedTestBroker:
        """The partition's leader. Raises ClusterError if it has none at this moment."""
        return self.broker(self.simulated.leader(topic, partition).id)

    def leader_id(self, topic: str, partition: int = 0) -> int | None:
        return self.simulated.leader_id(topic, partition)

    def isr(self, topic: str, partition: int = 0) -> tuple[int, ...]:
        return tuple(map(int, self.simulated.isr(topic, partition)))

    def follower(self, topic: str, partition: int = 0) -> SimulatedTestBroker:
        """The first broker of the partition's ISR that is not its leader."""
        leader = self.leader_id(topic, partition)
        found = [broker for broker in self.isr(topic, partition) if broker != leader]
        if not found:
            raise ClusterError(f"the ISR of {topic}-{partition} has no follower at this moment")
        return self.broker(found[0])

    # -- topics and services

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int | None = None,
        assignment: Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic, and wait until each partition has a leader.

        It is requested again while a fault prevents it: no controller, no answer, or too few live brokers.

        Raises:
            ApiError: it is refused for another reason.
            WaitTimedOut: a fault has prevented it for a minute.
        """
        replicas = min(3, len(self._brokers)) if replication_factor is None else replication_factor
        until_ms = self.simulated.now_ms + WAIT_TIMEOUT_S * 1000
        existed = name in self.simulated.znodes.topics()
        prevented: Exception | None = None
        while self.simulated.now_ms < until_ms:
            try:
                await self.ask(
                    self.simulated.admin.create_topic(
                        name, partitions=partitions, replication_factor=replicas, assignment=assignment, configs=configs
                    )
                )
                break
            except (NoBrokerAnswers, ConnectionFailed, ConnectionLost, RequestTimedOut) as error:
                prevented = error
            except ApiError as error:
                if error.error is Errors.TOPIC_ALREADY_EXISTS and not existed:
                    break  # by a request that had no answer
                if error.error not in _PREVENTED or replicas > len(self._brokers):
                    raise
                prevented = error
            await asyncio.sleep(_STEP_S)
        else:
            raise WaitTimedOut(f"seed {self.seed}, not within {WAIT_TIMEOUT_S:g} s: topic {name} exists; {prevented}")
        count = len(assignment) if assignment else partitions
        await self.wait_until(
            lambda: all(self.leader_id(name, number) is not None for number in range(count)),
            f"every partition of {name} has a leader",
        )

    async def ask(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a call of the admin client `cluster.admin`, and return its result."""
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        process = self.simulated.simulator.process
        assert process is not None

        def ended(task: asyncio.Task[T]) -> None:
            if result.done():
                return
            if (error := task.exception()) is not None:
                result.set_exception(error)
            else:
                result.set_result(task.result())

        process.spawn(call).add_done_callback(ended)
        return await result

    @property
    def admin(self) -> Any:
        """An admin client, whose calls `ask` runs."""
        return self.simulated.admin

    def start(
        self, main: Callable[..., Any], *args: Any, name: str | None = None, restarts: bool = False, **named: Any
    ) -> Service:
        """Start a program as a process of its own, on a node of its own. See `Service`.

        Args:
            main: a coroutine function, or a function that blocks, with its arguments.
            name: the name of the node, by which others connect to it; by default the name of `main`.
            restarts: whether it is started again when `main` raises.
        """
        return self.world.start(main, args, named, name, restarts)

    # -- time

    async def wait_until(self, condition: Callable[[], T | None], what: str, timeout_s: float = WAIT_TIMEOUT_S) -> T:
        """Wait until a function of the test is true, and return its value.

        Raises:
            WaitTimedOut: it was not true within `timeout_s` virtual seconds.
        """
        until_ms = self.simulated.now_ms + timeout_s * 1000
        while not (value := condition()):
            if self.simulated.now_ms >= until_ms:
                raise WaitTimedOut(f"seed {self.seed}, not within {timeout_s:g} s: {what}")
            await asyncio.sleep(_STEP_S)
        return value

    async def settled(self, timeout_s: float = WAIT_TIMEOUT_S) -> None:
        """Wait until the cluster has settled: each partition has a leader and all its live replicas in sync.

        Raises:
            Unsettled: something is left after `timeout_s`.
        """
        until_ms = self.simulated.now_ms + timeout_s * 1000
        while left := self.simulated.findings().unresolved:
            if self.simulated.now_ms >= until_ms:
                raise Unsettled(f"seed {self.seed}, not settled within {timeout_s:g} s: {in_words(left)}")
            await asyncio.sleep(_STEP_S)

    async def calm(self, timeout_s: float = WAIT_TIMEOUT_S) -> None:
        """End all faults, and inject no more; heal everything, and wait until the cluster has settled."""
        if self.injector is not None:
            self.injector.stop()
        await asyncio.sleep(_STEP_S)
        await self.settled(timeout_s)

    # -- answers

    def answer(self, api: str, error: str = Errors.NONE.name, **options: Any) -> AnswerHandle:
        """Arm an answer at every broker. See `ClusterUnderTest.answer`."""
        return arm_at(self.simulated.brokers, armed_answer(api, error, **options), self.simulated.answers)
