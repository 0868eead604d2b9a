"""`LoadInBackground` runs producers and consumers in a thread of its own, beside the processes of a cluster."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Sequence

from understudy.brokers.machine.real_world import MachineClock
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.checks.client_history import ClientHistory
from understudy.checks.groups import GroupHistory
from understudy.clusters.clients.client_load import FINAL_READ_TIMEOUT_MS, ClientLoad
from understudy.clusters.clients.group_load import GroupLoad
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.trials.experiments.language.actions import OnPartition
from understudy.trials.experiments.language.document import Experiment
from understudy.trials.experiments.loads import GROUP_SETTLES_S, Members, coroutines, step_producer

STOP_TIMEOUT_S = 30.0
_LOOK_S = 0.1


class LoadInBackground:
    """The load of an experiment, from `start` to `stop`.

    Args:
        bootstrap: returns `host:port` of the brokers.
        now_ms: the clock of the times in `acknowledged_ms`.
    """

    def __init__(
        self,
        bootstrap: Callable[[], Sequence[str]],
        partitions: Sequence[TopicPartition],
        experiment: Experiment,
        seed: int,
        now_ms: Callable[[], float],
    ) -> None:
        self.acknowledged_ms: list[float] = []
        network, clock = SocketNetwork(), MachineClock()
        self._load = ClientLoad(
            network,
            clock,
            bootstrap,
            partitions,
            on_acknowledged=lambda _: self.acknowledged_ms.append(now_ms()),
        )
        self._groups = GroupLoad(network, clock, bootstrap)
        self._members = Members(self._groups, experiment.cluster)
        self._plan = experiment.load
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks = asyncio.TaskGroup()
        self._seed = seed
        self._thread = threading.Thread(target=self._run, name="understudy-load", daemon=True)

    @property
    def history(self) -> ClientHistory:
        return self._load.history

    @property
    def groups(self) -> GroupHistory:
        return self._groups.history

    def start(self) -> None:
        self._thread.start()

    def produce(self, number: int, step: OnPartition) -> None:
        """Send the batch of the step with a number in a thread of its own."""
        work = step_producer(self._load, number, step)
        threading.Thread(target=lambda: asyncio.run(_run(work)), name="understudy-step", daemon=True).start()

    def join(self, count: int) -> None:
        """Let so many more members join the group."""
        loop = self._loop
        assert loop is not None, "the load has started"
        for work in self._members.join(count):
            loop.call_soon_threadsafe(self._tasks.create_task, work)

    def settle_group(self) -> None:
        """Wait up to half a minute until the group has settled, and note what each member has. Before `stop`."""
        if self._loop is not None:
            waiting = asyncio.run_coroutine_threadsafe(self._members.settle(), self._loop)
            with contextlib.suppress(TimeoutError):
                waiting.result(timeout=2 * GROUP_SETTLES_S)

    def stop(self) -> bool:
        """Send no more; return whether every send has ended within half a minute. Harmless if it has not started."""
        self._load.is_stopping = self._groups.is_stopping = True
        if self._thread.ident is not None:
            self._thread.join(STOP_TIMEOUT_S)
        return not self._thread.is_alive()

    def read_all(self) -> None:
        """Read every partition to its end. To be called after `stop`.

        Raises:
            TimeoutError: that took over a minute.
        """
        asyncio.run(asyncio.wait_for(self._load.read_all(), FINAL_READ_TIMEOUT_MS / 1000))

    def _run(self) -> None:
        asyncio.run(self._run_all())

    async def _run_all(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with self._tasks as tasks:
            for work in coroutines(self._load, self._plan, self._seed):
                tasks.create_task(work)
            for work in self._members.join(self._plan.members):
                tasks.create_task(work)
            while not self._load.is_stopping:
                # Steps may let further members join.
                await asyncio.sleep(_LOOK_S)


async def _run(work: Coroutine[object, object, None]) -> None:
    await work
