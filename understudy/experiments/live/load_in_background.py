"""`LoadInBackground` runs producers and consumers in a thread of its own, beside the processes of a cluster."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence

from brokers.machine.real_world import MachineClock
from brokers.machine.socket_network import SocketNetwork
from foundation.cluster.identifiers import TopicPartition
from understudy.checkers.client_history import ClientHistory
from understudy.client_load import FINAL_READ_TIMEOUT_MS, ClientLoad
from understudy.experiments.language.document import LoadPlan
from understudy.experiments.language.frozen import FrozenStep
from understudy.experiments.loads import coroutines, step_producer

STOP_TIMEOUT_S = 30.0


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
        plan: LoadPlan,
        seed: int,
        now_ms: Callable[[], float],
    ) -> None:
        self.acknowledged_ms: list[float] = []
        self._load = ClientLoad(
            SocketNetwork(),
            MachineClock(),
            bootstrap,
            partitions,
            on_acknowledged=lambda _: self.acknowledged_ms.append(now_ms()),
        )
        self._plan = plan
        self._seed = seed
        self._thread = threading.Thread(target=self._run, name="understudy-load", daemon=True)

    @property
    def history(self) -> ClientHistory:
        return self._load.history

    def start(self) -> None:
        self._thread.start()

    def produce(self, step: FrozenStep) -> None:
        """Send the batch of a step in a thread of its own."""
        work = step_producer(self._load, step)
        threading.Thread(target=lambda: asyncio.run(_run(work)), name="understudy-step", daemon=True).start()

    def stop(self) -> bool:
        """Send no more; return whether every send has ended within half a minute. Harmless where it has not started."""
        self._load.is_stopping = True
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
        async with asyncio.TaskGroup() as group:
            for work in coroutines(self._load, self._plan, self._seed):
                group.create_task(work)


async def _run(work: Coroutine[object, object, None]) -> None:
    await work
