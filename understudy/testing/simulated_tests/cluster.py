"""`SimulatedTestCluster`: the cluster that a test in virtual time gets.

It has the names of `LocalCluster` and `ClusterUnderTest`, and what takes time is awaited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar, overload

from understudy.clusters.answers import AnswerHandle, arm_at, armed_answer
from understudy.clusters.clients.cluster_requests import NoBrokerAnswers
from understudy.clusters.cluster import ClusterError, Unsettled, WaitTimedOut
from understudy.clusters.findings import in_words
from understudy.clusters.picture import ClusterPicture
from understudy.clusters.simulated.clocks import EPOCH_MS
from understudy.clusters.testing.conditions import Before, BrokerCondition, Condition
from understudy.clusters.testing.faults import RecordedFault, faults_among
from understudy.clusters.virtual.service import Service
from understudy.clusters.virtual.world import VirtualWorld
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.wire.network import ConnectionFailed, ConnectionLost
from understudy.foundation.wire.request_channel import RequestTimedOut
from understudy.testing.simulated_tests.broker import SimulatedTestBroker
from understudy.testing.simulated_tests.faults.fault_injector import FaultInjector
from understudy.testing.simulated_tests.history.cluster_history import ClusterHistory

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


class SimulatedTestCluster:
    """The brokers, services and faults of one run of a test.

    Attributes:
        seed: the seed of this run.
        world: the processes of the test beside the brokers.
        injector: injects what the seed draws.
        history: what passes between the clients of the test and the brokers.
        before: the roles that conditions compare with, as in `ClusterUnderTest`.
    """

    history: ClusterHistory

    def __init__(self, world: VirtualWorld) -> None:
        self.world = world
        self.simulated = world.cluster
        self.seed = world.cluster.seed
        self.injector: FaultInjector | None = None
        self.before = Before()

    def begin_test(self, injector: FaultInjector) -> None:
        """Note the roles of the brokers now, for the conditions of `wait_for`."""
        self.injector = injector
        self.before = Before.of(self.picture())
        self.simulated.before_fault = self._remember_roles

    def _remember_roles(self, target: str) -> None:
        for broker in self.simulated.brokers:
            if broker.name == target:
                self.before.note_roles(broker.id, self.picture())

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
        return tuple(map(self.broker, self.broker_ids))

    @property
    def broker_ids(self) -> tuple[int, ...]:
        return tuple(map(int, self.simulated.broker_ids))

    def broker(self, broker_id: int, *, role: str = "") -> SimulatedTestBroker:
        """Return the broker with this id. Raises ClusterError if there is none.

        Args:
            role: the role by which it was found, for the event log.
        """
        return SimulatedTestBroker(self, self.simulated.broker(broker_id), role)

    def controller(self) -> SimulatedTestBroker:
        """The broker that owns `/controller`. Raises ClusterError if there is none at this moment."""
        return self.broker(self.simulated.controller().id, role="controller")

    def controller_id(self) -> int | None:
        return self.simulated.controller_id()

    def leader(self, topic: str, partition: int = 0) -> SimulatedTestBroker:
        """The partition's leader. Raises ClusterError if it has none at this moment."""
        return self.broker(self.simulated.leader(topic, partition).id, role=f"leader of {topic}-{partition}")

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
        return self.broker(found[0], role=f"follower of {topic}-{partition}")

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
        """Create a topic, and wait until each live broker has a leader of each partition in its metadata.

        It is requested again while a fault prevents it: no controller, no answer, or too few live brokers.

        Raises:
            ApiError: it is refused for another reason.
            WaitTimedOut: a fault has prevented it for a minute.
        """
        replicas = min(3, len(self.broker_ids)) if replication_factor is None else replication_factor
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
                if error.error not in _PREVENTED or replicas > len(self.broker_ids):
                    raise
                prevented = error
            await asyncio.sleep(_STEP_S)
        else:
            raise WaitTimedOut(f"seed {self.seed}, not within {WAIT_TIMEOUT_S:g} s: topic {name} exists; {prevented}")
        count = len(assignment) if assignment else partitions
        await self.wait_until(
            lambda: all(broker.has_topic(name, count) for broker in self.simulated.brokers),
            f"every live broker has a leader of each partition of {name} in its metadata",
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

    @property
    def services(self) -> Mapping[str, Service]:
        """The services by name."""
        return self.world.services

    # -- faults

    def crash_at(self, point: str, broker: SimulatedTestBroker | None = None) -> SimulatedTestBroker:
        """Crash a broker when its controller next reaches a named point; `wait_for(point_reached(point))` waits.

        Args:
            broker: None for the controller.

        Raises:
            ClusterError: there is no such point, or no controller at this moment.
        """
        return self._arm(point, "crash", broker)

    def pause_at(self, point: str, broker: SimulatedTestBroker | None = None) -> SimulatedTestBroker:
        """Pause a broker when its controller next reaches a named point. As `crash_at`; `resume` ends the pause."""
        return self._arm(point, "pause", broker)

    def _arm(self, point: str, action: str, broker: SimulatedTestBroker | None) -> SimulatedTestBroker:
        chosen = broker or self.controller()
        chosen.arm(point, action)
        return chosen

    def picture(self) -> ClusterPicture:
        """Read the state of the cluster in ZooKeeper now."""
        return self.simulated.picture()

    def faults(self) -> tuple[RecordedFault, ...]:
        """The faults that were injected so far, by hand and by the seed, in order of time."""
        return faults_among(self.simulated.records(), EPOCH_MS).faults

    def assert_injected(
        self, fault: str, *, role: str | None = None, broker: int | None = None, point: str | None = None
    ) -> None:
        """Fail if a fault was not injected. The arguments are as in `ClusterUnderTest.assert_injected`.

        Raises:
            AssertionError: there is no such fault. The message lists those that were injected.
        """
        faults_among(self.simulated.records(), EPOCH_MS).assert_injected(fault, role, broker, point)

    def not_injected(self) -> list[str]:
        """What the test has armed by hand at brokers and services and has not happened, in words."""
        answers = [answer.missed for answer in self.simulated.answers if not answer.hits]
        strikes = [
            f"{service.name}: {missed}" for service in self.services.values() for missed in service.strikes.missed()
        ]
        return answers + strikes

    # -- time

    @overload
    async def wait_for(self, condition: BrokerCondition, timeout_s: float = ...) -> SimulatedTestBroker: ...

    @overload
    async def wait_for(self, condition: Condition[T], timeout_s: float = ...) -> T: ...

    async def wait_for(
        self, condition: BrokerCondition | Condition[Any], timeout_s: float = WAIT_TIMEOUT_S
    ) -> SimulatedTestBroker | Any:
        """Wait until a condition of `understudy.testing`, such as `controller_change()`, is true; return its value.

        Raises:
            WaitTimedOut: it was not true within `timeout_s` virtual seconds.
        """
        if isinstance(condition, BrokerCondition):
            found = await self.wait_until(lambda: condition.find(self), condition.what, timeout_s)
            return self.broker(found[0], role=found[1])
        return await self.wait_until(lambda: condition.evaluate(self), condition.what, timeout_s)

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
        injector = self.injector
        if injector is not None:
            left = injector.powerless
            injector.stop(but_leave=left)
            if left:
                await self.wait_until(lambda: not injector.powerless, "no broker without power is in an ISR", timeout_s)
            for broker in left:
                broker.begin_start()
        await asyncio.sleep(_STEP_S)
        await self.settled(timeout_s)

    # -- answers

    def answer(self, api: str, error: str = Errors.NONE.name, **options: Any) -> AnswerHandle:
        """Arm an answer at every broker. See `ClusterUnderTest.answer`."""
        return arm_at(self.simulated.brokers, armed_answer(api, error, **options), self.simulated.answers)

    async def given(self, answer: AnswerHandle, hits: int | None = None, timeout_s: float = WAIT_TIMEOUT_S) -> int:
        """Wait until an armed answer was given a number of times, by default as often as it is armed for.

        Raises:
            WaitTimedOut: it was given less often within `timeout_s` virtual seconds.
        """
        wanted = answer.answer.times if hits is None else hits
        what = f"{answer.broker} has given {wanted} times the answer {answer.answer}"
        return await self.wait_until(lambda: answer.hits if answer.hits >= wanted else None, what, timeout_s)
