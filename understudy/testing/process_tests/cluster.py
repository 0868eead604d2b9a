"""`ProcessTestCluster`: `ClusterUnderTest` behind the names that a test in virtual time has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, NoReturn, TypeVar, overload

from understudy.clusters.answers import AnswerHandle
from understudy.clusters.cluster import Unsettled, Unsupported, WaitTimedOut
from understudy.clusters.findings import in_words
from understudy.clusters.picture import ClusterPicture
from understudy.clusters.processes.local_broker import LocalBroker
from understudy.clusters.testing.cluster_under_test import ClusterUnderTest
from understudy.clusters.testing.conditions import Before, BrokerCondition, Condition
from understudy.clusters.testing.faults import RecordedFault
from understudy.clusters.virtual.service import name_of
from understudy.foundation.cluster.errors import Errors
from understudy.testing.broker_of_test import BrokerOfTest
from understudy.testing.process_tests.child_service import ChildService

T = TypeVar("T")

WAIT_TIMEOUT_S: Final = 60.0
_STEP_S: Final = 0.1
_VIRTUAL: Final = "only brokers in virtual time (understudy.testing.simulated) have it"


class ProcessTestBroker(BrokerOfTest):
    """One broker process, with the names of `SimulatedTestBroker`."""

    def __init__(self, cluster: ProcessTestCluster, broker: LocalBroker) -> None:
        self._cluster = cluster
        self._broker = broker
        super().__init__(broker.id, broker)
        self.role = broker.role
        self.address = broker.address

    def kill(self, for_s: float | None = None) -> None:
        self._broker.kill()
        if for_s is not None:
            self._cluster.begin(self._start_after(for_s))

    async def _start_after(self, for_s: float) -> None:
        """Start it once its old registration is gone: a broker that finds one ends, as Kafka's does."""
        await asyncio.sleep(for_s)
        await self._cluster.in_thread(lambda: None if self.is_running else self._broker.start())

    def pause(self, for_s: float | None = None) -> None:
        self._broker.pause()
        self._later(for_s, self._resume_if_paused)

    def _resume_if_paused(self) -> None:
        if self.is_paused:
            self.resume()

    def isolate(self, for_s: float | None = None) -> None:
        self._broker.isolate()
        self._later(for_s, self.heal)

    def heal(self) -> None:
        self._broker.heal()

    def depose(self) -> None:
        self._broker.depose()

    def lose_power(self, for_s: float | None = None) -> NoReturn:
        raise Unsupported(f"lose_power(): {_VIRTUAL}")

    def expire_session(self) -> NoReturn:
        raise Unsupported(f"expire_session(): {_VIRTUAL}; pause the broker for longer than its session")

    def arm(self, point: str, action: str) -> None:
        self._broker.arm(point, action)

    def answer(self, api: str, error: str = Errors.NONE.name, **options: Any) -> AnswerHandle:
        return self._broker.answer(api, error, **options)

    async def start(self) -> None:
        await self._cluster.in_thread(self._broker.start)

    async def stop(self) -> None:
        await self._cluster.in_thread(self._broker.stop)

    async def restart(self) -> None:
        await self._cluster.in_thread(self._broker.restart)

    def _later(self, for_s: float | None, action: Callable[[], None]) -> None:
        if for_s is not None:
            asyncio.get_running_loop().call_later(for_s, action)


class ProcessTestCluster:
    """The brokers and services of one test, as processes of this machine. What takes time is awaited.

    Attributes:
        seed: the seed from which faults are drawn.
    """

    def __init__(self, cluster: ClusterUnderTest, seed: int) -> None:
        self.under_test = cluster
        self.seed = seed
        self.services: dict[str, ChildService] = {}
        self.end_faults: Callable[[], None] = lambda: None
        """Ends the faults that are drawn."""
        self.begun: list[asyncio.Future[Any]] = []
        """What `begin` has started."""
        self._one_at_a_time = asyncio.Lock()

    def begin(self, call: Coroutine[Any, Any, object]) -> None:
        """Start a call that the test does not wait for. It is cancelled when the test ends."""
        self.begun.append(asyncio.ensure_future(call))

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Run a call that blocks, while the clients of the test run."""
        async with self._one_at_a_time:
            return await asyncio.to_thread(call)

    # -- addresses and roles

    @property
    def bootstrap(self) -> str:
        return self.under_test.bootstrap

    def address_of(self, name: str) -> str:
        return next(broker.address for broker in self.brokers if broker.name == name)

    @property
    def brokers(self) -> tuple[ProcessTestBroker, ...]:
        return tuple(ProcessTestBroker(self, broker) for broker in self.under_test.brokers)

    @property
    def broker_ids(self) -> tuple[int, ...]:
        return self.under_test.local.broker_ids

    def broker(self, broker_id: int, *, role: str = "") -> ProcessTestBroker:
        return ProcessTestBroker(self, self.under_test.broker(broker_id, role=role))

    def controller(self) -> ProcessTestBroker:
        return ProcessTestBroker(self, self.under_test.controller)

    def controller_id(self) -> int | None:
        return self.under_test.local.controller_id()

    def leader(self, topic: str, partition: int = 0) -> ProcessTestBroker:
        return ProcessTestBroker(self, self.under_test.leader(topic, partition))

    def leader_id(self, topic: str, partition: int = 0) -> int | None:
        return self.under_test.local.leader_id(topic, partition)

    def isr(self, topic: str, partition: int = 0) -> tuple[int, ...]:
        return self.under_test.local.isr(topic, partition)

    def follower(self, topic: str, partition: int = 0) -> ProcessTestBroker:
        return ProcessTestBroker(self, self.under_test.follower(topic, partition))

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
        """Create a topic. See `ClusterUnderTest.create_topic`."""
        await self.in_thread(
            lambda: self.under_test.create_topic(
                name,
                partitions,
                replication_factor=replication_factor,
                assignment=assignment,
                configs=configs,
            )
        )

    async def ask(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a call of the admin client `cluster.admin`, and return its result."""
        return await self.in_thread(lambda: self.under_test.local.ask(call))

    @property
    def admin(self) -> Any:
        return self.under_test.local.admin

    def start(
        self, main: Callable[..., Any], *args: Any, name: str | None = None, restarts: bool = False, **named: Any
    ) -> ChildService:
        """Start a program as a child process. See `ChildService`."""
        name = name or name_of(main).strip("_<>").replace("_", "-") or "service"
        if name in self.services:
            raise ValueError(f"there is a service {name!r} already; give this one another name=")
        record = self.under_test.local.record_fault
        service = ChildService(name, main, args, named, restarts=restarts, record=record)
        self.services[name] = service
        service.launch()
        return service

    # -- faults

    def crash_at(self, point: str, broker: ProcessTestBroker | None = None) -> ProcessTestBroker:
        return self._arm(point, "crash", broker)

    def pause_at(self, point: str, broker: ProcessTestBroker | None = None) -> ProcessTestBroker:
        return self._arm(point, "pause", broker)

    def _arm(self, point: str, action: str, broker: ProcessTestBroker | None) -> ProcessTestBroker:
        chosen = broker or self.controller()
        chosen.arm(point, action)
        return chosen

    @property
    def before(self) -> Before:
        return self.under_test.before

    def picture(self) -> ClusterPicture:
        return self.under_test.picture()

    def faults(self) -> tuple[RecordedFault, ...]:
        return self.under_test.faults()

    def assert_injected(
        self, fault: str, *, role: str | None = None, broker: int | None = None, point: str | None = None
    ) -> None:
        self.under_test.assert_injected(fault, role=role, broker=broker, point=point)

    def answer(self, api: str, error: str = Errors.NONE.name, **options: Any) -> AnswerHandle:
        return self.under_test.answer(api, error, **options)

    @property
    def history(self) -> NoReturn:
        raise Unsupported(f"cluster.history: {_VIRTUAL}; assert on what the clients return")

    # -- time

    async def wait_until(self, condition: Callable[[], T | None], what: str, timeout_s: float = WAIT_TIMEOUT_S) -> T:
        """Wait until a function of the test is true, and return its value. Raises WaitTimedOut."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        while not (value := condition()):
            if loop.time() >= until:
                raise WaitTimedOut(f"not within {timeout_s:g} s: {what}; {self.under_test.describe()}")
            await asyncio.sleep(_STEP_S)
        return value

    @overload
    async def wait_for(self, condition: BrokerCondition, timeout_s: float = ...) -> ProcessTestBroker: ...

    @overload
    async def wait_for(self, condition: Condition[T], timeout_s: float = ...) -> T: ...

    async def wait_for(
        self, condition: BrokerCondition | Condition[Any], timeout_s: float = WAIT_TIMEOUT_S
    ) -> ProcessTestBroker | Any:
        """Wait until a condition of `understudy.testing` is true, and return its value. Raises WaitTimedOut."""
        if isinstance(condition, BrokerCondition):
            found = await self.wait_until(lambda: condition.find(self), condition.what, timeout_s)
            return self.broker(found[0], role=found[1])
        return await self.wait_until(lambda: condition.evaluate(self), condition.what, timeout_s)

    async def settled(self, timeout_s: float = WAIT_TIMEOUT_S) -> None:
        """Wait until the cluster has settled. Raises Unsettled."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        while left := (await self.in_thread(self.under_test.local.findings)).unresolved:
            if loop.time() >= until:
                raise Unsettled(f"not settled within {timeout_s:g} s: {in_words(left)}; {self.under_test.describe()}")
            await asyncio.sleep(_STEP_S)

    async def calm(self, timeout_s: float = WAIT_TIMEOUT_S) -> None:
        """End all faults, and inject no more; heal everything, and wait until the cluster has settled."""
        self.end_faults()
        for service in self.services.values():
            service.calm()
        await self.in_thread(self.under_test.undo_faults)
        await self.settled(timeout_s)

    async def given(self, answer: AnswerHandle, hits: int | None = None, timeout_s: float = WAIT_TIMEOUT_S) -> int:
        """Wait until an armed answer was given a number of times, by default as often as it is armed for."""
        wanted = answer.answer.times if hits is None else hits
        what = f"{answer.broker} has given {wanted} times the answer {answer.answer}"
        return await self.wait_until(lambda: answer.hits if answer.hits >= wanted else None, what, timeout_s)
