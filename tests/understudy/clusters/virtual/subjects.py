"""The subjects of the contract of event loops: a loop of asyncio itself, and the loop of a simulated process.

A case is a coroutine function; it must do the same on both.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar, cast

from understudy.clusters.simulated.loop import new_loop
from understudy.clusters.simulated.network import SimulatedNetwork
from understudy.clusters.virtual import blocking, machine
from understudy.clusters.virtual.process_loop import ProcessLoop, new_process_loop
from understudy.clusters.virtual.process_network import Addresses, ProcessNetwork

T = TypeVar("T")
LIMIT_S = 10_000.0
"""Virtual time in which a case must have ended."""


class Subject(Protocol):
    """Runs cases, and collects what asyncio reports in `errors`."""

    errors: list[dict[str, Any]]

    def run(self, case: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        """Run a case, and return its result or raise its exception."""


class AsyncioSubject:
    """The loop that this Python comes with."""

    def __init__(self) -> None:
        self.errors: list[dict[str, Any]] = []

    def run(self, case: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        async def main() -> T:
            asyncio.get_running_loop().set_exception_handler(lambda _, context: self.errors.append(context))
            result = await case(*args)
            if left := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait(left, timeout=5)  # the handlers of a server close their connections
            return result

        return asyncio.run(main())


class SimulatedSubject:
    """Processes on nodes of their own, on one simulated network."""

    def __init__(self, seed: int = 1) -> None:
        machine.install()
        machine.seed(seed)
        self.errors: list[dict[str, Any]] = []
        self.kernel = new_loop()
        self.network = SimulatedNetwork(self.kernel, seed=seed)
        self._addresses = Addresses()
        self._numbers = itertools.count(1)

    def process(self, name: str, *, has_network: bool = True) -> ProcessLoop:
        """Start a process on a node."""
        self._addresses.add(name)
        process = self.kernel.process(name)
        network = ProcessNetwork(self.network, process, self._addresses) if has_network else None
        return new_process_loop(
            self.kernel,
            process,
            network,
            numbers=self._numbers,
            failed=lambda _, context: self.errors.append(context),
        )

    def run(self, case: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        return self.run_on(self.process("test"), case, *args)

    def run_on(self, loop: ProcessLoop, case: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        """Run a case as a task of a process."""
        task = loop.create_task(case(*args), context=loop.process.context.copy())
        return self._until_done(loop, cast("asyncio.Future[T]", task))

    def run_blocking(self, case: Callable[..., T], *args: Any, name: str = "test") -> T:
        """Run a case that blocks as the main function of a process."""
        loop = self.process(name)
        done: asyncio.Future[T] = loop.create_future()
        blocking.start_main(loop, lambda: case(*args), done)
        return self._until_done(loop, done)

    def start_blocking(self, name: str, main: Callable[..., Any], *args: Any) -> ProcessLoop:
        """Start a process whose main function blocks."""
        loop = self.process(name)
        blocking.start_main(loop, lambda: main(*args), loop.create_future())
        return loop

    def start(self, name: str, main: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> ProcessLoop:
        """Start a process beside the case."""
        loop = self.process(name)
        loop.create_task(main(*args), context=loop.process.context.copy())
        return loop

    def _until_done(self, loop: ProcessLoop, future: asyncio.Future[T]) -> T:
        kernel = self.kernel
        future.add_done_callback(lambda _: kernel.interrupt(), context=loop.process.context.copy())
        # A process of a simulated test collects garbage at the same places in each run; this one does not. Hypothesis,
        # once it has run a test, reads the clock at each collection.
        gc.disable()
        try:
            kernel.run_for(LIMIT_S)
        finally:
            gc.enable()
        assert future.done(), f"the case has not ended within {LIMIT_S:g} virtual seconds"
        return future.result()
