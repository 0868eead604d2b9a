"""`SoakClients`: a producer and a consumer for each partition of the soak's topic, in a thread of their own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from understudy.brokers.machine.real_world import MachineClock
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.clusters.clients.connections import Connections
from understudy.clusters.clients.consumer import Consumer
from understudy.clusters.clients.producer import Outcome, Producer
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.trials.soak.client_fold import Broken, PartitionClients
from understudy.trials.soak.tally import Felt

BATCH: Final = 5
BETWEEN_BATCHES_S: Final = 0.25
DELIVERY_TIMEOUT_MS: Final = 120_000
"""As Kafka's `delivery.timeout.ms`: how long a batch is sent again before its outcome counts as unknown."""
AGAIN_AFTER_MS: Final = 60_000.0
"""How long after the first time a record is read for the second time."""
RECENT_MS: Final = 3_000.0
MOST_ON_ITS_WAY: Final = 10 * BATCH
_TIMEOUT_MS: Final = 2_000
_AFTER_ERROR_S: Final = 0.2
_START_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 10.0


class TopicBehind(Exception):
    """A partition ends before the last record that was acknowledged. The message names it and both offsets."""


class TopicNotReadable(Exception):
    """A partition's end could not be read within a minute."""


class SoakClients:
    """The clients of one session of a soak, from `start` to `stop`.

    Args:
        bootstrap: returns `host:port` of the brokers.
        session: how often the soak was started, from 1.
        ends: where the partitions ended at least when the soak was interrupted, by `TOPIC-NUMBER`.
    """

    def __init__(
        self,
        bootstrap: Callable[[], Sequence[str]],
        partitions: Sequence[TopicPartition],
        session: int,
        ends: Mapping[str, int],
    ) -> None:
        self._bootstrap = bootstrap
        self._partitions = tuple(partitions)
        self._session = session
        self._ends = dict(ends)
        self._lock = threading.Lock()
        self._folds: dict[TopicPartition, PartitionClients] = {}
        self._counted: dict[TopicPartition, Felt] = {}
        """What `felt` has returned so far."""
        self._errors: Counter[str] = Counter()
        self._gap_ms = 0.0
        self._last_ms: dict[TopicPartition, float] = {}
        """When each partition had its last acknowledgement."""
        self._trouble: dict[TopicPartition, str] = {}
        """Why a partition cannot be read now."""
        self._failure: BaseException | None = None
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="understudy-soak", daemon=True)

    def start(self) -> None:
        """Find the end of every partition, and begin.

        Raises:
            TopicBehind: a partition ends before what was acknowledged.
            TopicNotReadable: no leader said where a partition ends.
        """
        self._thread.start()
        self._ready.wait(_START_TIMEOUT_S + _STOP_TIMEOUT_S)
        if self._failure is not None:
            raise self._failure
        if not self._folds:
            raise TopicNotReadable("the clients did not begin in time")

    def stop(self) -> None:
        """End everything; what is in flight stays unknown. Harmless if it has not started."""
        loop, main = self._loop, self._main
        if loop is not None and main is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # The loop has ended meanwhile.
                loop.call_soon_threadsafe(main.cancel)
            self._thread.join(_STOP_TIMEOUT_S)

    # ------------------------------------------------------------------ what they have seen

    def felt(self) -> Felt:
        """What was felt since the last call."""
        with self._lock:
            at_ms = now_ms()
            found = Felt(errors=dict(self._errors), gap_ms=self._gap_ms)
            found.gap_ms = max([found.gap_ms, *(at_ms - last_ms for last_ms in self._last_ms.values())])
            for partition, fold in self._folds.items():
                total, before = _counts(fold), self._counted.get(partition, Felt())
                found.add(_minus(total, before))
                self._counted[partition] = total
            self._errors.clear()
            self._gap_ms = 0.0
            return found

    def broken(self) -> Broken | None:
        """The first contradiction that clients have seen."""
        if self._failure is not None:
            return Broken("no-failure", f"they have ended: {self._failure!r}")
        with self._lock:
            return next((fold.broken for fold in self._folds.values() if fold.broken is not None), None)

    def ends(self) -> dict[str, int]:
        """The offset after the last acknowledged record, by `TOPIC-NUMBER`."""
        with self._lock:
            return {**self._ends, **{fold.name: fold.acknowledged_end for fold in self._folds.values()}}

    def waiting(self) -> str:
        """Why clients do not get on now; empty if they do.

        They do where every partition was acknowledged just now, and all that was acknowledged has been read but what is
        on its way.
        """
        with self._lock:
            for partition, fold in self._folds.items():
                if (gap_ms := now_ms() - self._last_ms[partition]) > RECENT_MS:
                    return f"no record of {fold.name} was acknowledged for {gap_ms:,.0f} ms"
                if fold.unread > MOST_ON_ITS_WAY:
                    why = self._trouble.get(partition, "")
                    return f"{fold.unread} acknowledged records of {fold.name} were not read yet{why and ': '}{why}"
        return ""

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        try:
            asyncio.run(self._run_all())
        except Exception as error:  # noqa: BLE001  # it is raised again where the thread is started, or said by `waiting`
            self._failure = error
        finally:
            self._ready.set()

    async def _run_all(self) -> None:
        self._loop, self._main = asyncio.get_running_loop(), asyncio.current_task()
        folds = {partition: await self._begin(partition) for partition in self._partitions}
        with self._lock:
            self._folds = folds
            self._last_ms = dict.fromkeys(folds, now_ms())
        self._ready.set()
        with contextlib.suppress(asyncio.CancelledError):
            async with asyncio.TaskGroup() as group:
                for place, (partition, fold) in enumerate(folds.items()):
                    delay_s = BETWEEN_BATCHES_S * place / len(folds)
                    group.create_task(self._produce(partition, fold, delay_s))
                    group.create_task(self._consume(partition, fold))
                    group.create_task(self._read_again(partition, fold))

    async def _begin(self, partition: TopicPartition) -> PartitionClients:
        """Find the end of a partition, and compare it with what was acknowledged in earlier sessions."""
        consumer = Consumer(self._connections("begin"))
        deadline_ms = now_ms() + _START_TIMEOUT_S * 1000
        while (end := await consumer.end_offset(partition)) is None:
            if now_ms() > deadline_ms:
                raise TopicNotReadable(f"no leader of {partition} has said where it ends within {_START_TIMEOUT_S:g} s")
            await asyncio.sleep(_AFTER_ERROR_S)
        name = str(partition)
        if end < self._ends.get(name, 0):
            raise TopicBehind(
                f"H1: {name} ends at {end}, though records up to {self._ends[name] - 1} were acknowledged before"
            )
        return PartitionClients(name, self._session, end)

    async def _produce(self, partition: TopicPartition, fold: PartitionClients, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        connections = self._connections(f"producer-{partition.partition}")
        producer = Producer(
            connections, MachineClock(), request_timeout_ms=_TIMEOUT_MS, delivery_timeout_ms=DELIVERY_TIMEOUT_MS
        )
        while True:
            if not fold.must_wait:
                with self._lock:
                    values = fold.send(BATCH)
                delivery = await producer.send(partition, values)
                with self._lock:
                    self._errors.update(delivery.errors)
                    if delivery.outcome is Outcome.ACKNOWLEDGED:
                        at_ms = now_ms()
                        self._gap_ms = max(self._gap_ms, at_ms - self._last_ms[partition])
                        self._last_ms[partition] = at_ms
                        fold.acknowledge(delivery.offset)
                    elif delivery.outcome is Outcome.REFUSED:
                        fold.refuse()
                    else:
                        fold.give_up()
            await asyncio.sleep(BETWEEN_BATCHES_S)

    async def _consume(self, partition: TopicPartition, fold: PartitionClients) -> None:
        consumer = Consumer(self._connections(f"consumer-{partition.partition}"))
        while True:
            polled = await consumer.poll(partition, fold.next_offset, max_wait_ms=500)
            with self._lock:
                for offset, value in polled.records:
                    fold.read(offset, value, now_ms())
                self._trouble[partition] = polled.reason
            if polled.reason:
                await asyncio.sleep(_AFTER_ERROR_S)

    async def _read_again(self, partition: TopicPartition, fold: PartitionClients) -> None:
        consumer = Consumer(self._connections(f"second-consumer-{partition.partition}"))
        while True:
            await asyncio.sleep(1.0)
            with self._lock:
                offset = fold.due_again(now_ms() - AGAIN_AFTER_MS)
            if offset is not None:
                polled = await consumer.poll(partition, offset, max_wait_ms=100)
                with self._lock:
                    for at, value in polled.records:
                        fold.read_again(at, value)

    def _connections(self, name: str) -> Connections:
        return Connections(SocketNetwork(), self._bootstrap(), client_id=f"soak-{name}", timeout_ms=_TIMEOUT_MS)


def _counts(fold: PartitionClients) -> Felt:
    return Felt(
        acknowledged=fold.acknowledged,
        refused=fold.refused,
        unknown=fold.unknown,
        read=fold.read_count,
        repeated=fold.repeated,
        lost=fold.lost,
    )


def _minus(total: Felt, before: Felt) -> Felt:
    return Felt(
        acknowledged=total.acknowledged - before.acknowledged,
        refused=total.refused - before.refused,
        unknown=total.unknown - before.unknown,
        read=total.read - before.read,
        repeated=total.repeated - before.repeated,
        lost=total.lost - before.lost,
    )


def now_ms() -> float:
    """The monotonic clock, in milliseconds."""
    return time.monotonic() * 1000
