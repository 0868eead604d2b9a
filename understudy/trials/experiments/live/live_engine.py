"""`LiveEngine`: the common part of the engines that run an experiment on real brokers and a real ZooKeeper."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import random
import socket
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from understudy.brokers.exits import TRY_AGAIN
from understudy.brokers.machine.real_world import MachineClock
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.checks.check import broker_of
from understudy.checks.history import ZnodeTransaction
from understudy.clusters.clients.client_load import FINAL_READ_TIMEOUT_MS
from understudy.clusters.clients.cluster_requests import NoBrokerAnswers
from understudy.clusters.cluster import ClusterError
from understudy.clusters.findings import Findings
from understudy.clusters.processes.cluster_view import NO_ANSWER
from understudy.clusters.processes.local_broker import LocalBroker
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.processes.loop_thread import LoopThread
from understudy.clusters.processes.processes import RunningProcess, describe_exit
from understudy.clusters.processes.run_lock import RunLock
from understudy.clusters.processes.testbed_log import client_logs
from understudy.clusters.simulated.randomness import derived
from understudy.foundation.cluster.errors import ApiError
from understudy.foundation.eventlog.records import Envelope, PointReached
from understudy.history.reading.following import RunTail
from understudy.history.reading.lines import decode_record
from understudy.history.reading.reader import read
from understudy.history.reading.transaction_log import MalformedTransactionLog, read_transaction_logs
from understudy.trials.experiments.bad_requests import bad_bytes
from understudy.trials.experiments.each_broker import Broker, Brokers
from understudy.trials.experiments.engine import RunData
from understudy.trials.experiments.injecting import CannotInject, Undo
from understudy.trials.experiments.language.actions import ArmPoint
from understudy.trials.experiments.language.frozen import FrozenPlan
from understudy.trials.experiments.live.machines import PROPERTIES, Machines
from understudy.trials.experiments.load import GROUP_SETTLES_S, ExperimentLoad
from understudy.trials.experiments.performing import Performing

POLL_S: Final = 0.02
_FLOOD_TIMEOUT_S: Final = 2.0
STOP_TIMEOUT_S: Final = 30.0
RESTART_AFTER_MS: Final = 1_000.0
"""Time after which a broker that should run and has ended by itself is started again."""


def properties_of(plan: FrozenPlan) -> dict[str, str]:
    """The keys of `server.properties` that every broker of an experiment has."""
    return {
        "understudy.events.logs": "true",
        "auto.create.topics.enable": "false",
        **PROPERTIES,
        **plan.experiment.cluster.settings,
        "understudy.switches.off": ",".join(each.value for each in plan.fences_off),
    }


class LiveEngine(Performing):
    """One run in real time.

    An engine of this kind adds its name, how it makes the cluster, and the actions that it can do.

    Args:
        folder: the run folder; one run at a time uses it.
    """

    stops_cluster = True
    """Whether `finish` stops the cluster; otherwise it runs until `close`."""

    def __init__(self, plan: FrozenPlan, folder: Path) -> None:
        self._plan = plan
        self._folder = folder
        self.cluster: LocalCluster = self.make_cluster(plan, folder)
        self.machines: Machines = Machines(self.cluster)
        self.may_end = set()
        self._lock = RunLock(folder)
        self._logs = RunTail(folder)
        self._clients = LoopThread("understudy-load")
        self.load = ExperimentLoad(
            SocketNetwork(),
            MachineClock(),
            lambda: self.cluster.bootstrap.split(","),
            plan,
            begin=self._clients.begin,
            now_ms=lambda: self.now_ms,
            open_log=client_logs(self.cluster.directory, self.cluster.run),
        )
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._resume_after_ms: dict[tuple[int, str], float] = {}
        """Time that a broker stays paused at a point, by broker and point."""
        self._ended_by_themselves: dict[int, float] = {}
        self._failed: dict[int, str] = {}
        """Description of the end of each broker process that should have continued, by pid."""

    @classmethod
    def make_cluster(cls, plan: FrozenPlan, folder: Path) -> LocalCluster:
        """Return the cluster of a plan, not started. Raises ClusterError."""
        raise NotImplementedError

    def start(self, plan: FrozenPlan) -> None:
        self._lock.acquire()
        super().start(plan)

    # ------------------------------------------------------------------ time

    def begin_time(self) -> None:
        for _ in self._logs.lines():
            pass
        self._began_s = time.monotonic()

    @property
    def now_ms(self) -> float:
        return (time.monotonic() - self._began_s) * 1000

    def after(self, ms: float, action: Callable[[], None]) -> None:
        """Call `action` once `ms` have passed. A ClusterError is ignored: the broker is not in the state for it."""
        heapq.heappush(self._timers, (self.now_ms + ms, next(self._numbers), action))

    def advance(self, until_ms: float, on_record: Callable[[Envelope], bool]) -> None:
        while True:
            is_wanted = False
            for record in self._new_records():
                self._note_point(record)
                is_wanted |= on_record(record)
            while self._timers and self._timers[0][0] <= self.now_ms:
                with contextlib.suppress(ClusterError):
                    heapq.heappop(self._timers)[2]()
            self._start_again()
            left_ms = until_ms - self.now_ms
            if is_wanted or left_ms <= 0:
                return
            time.sleep(min(POLL_S, left_ms / 1000))

    def _new_records(self) -> Iterator[Envelope]:
        for _, line in self._logs.lines():
            try:
                yield decode_record(line)
            except msgspec.MsgspecError:
                continue  # the judgement reads the files again, and reports damaged lines

    def _note_point(self, record: Envelope) -> None:
        """Schedule the end of the pause of a broker that has paused itself at a point."""
        if isinstance(record.data, PointReached) and record.data.action == "pause":
            broker = broker_of(record)
            lasts_ms = self._resume_after_ms.pop((broker, record.data.point), None)
            if lasts_ms is not None:
                self.after(lasts_ms, self.cluster.broker(broker).resume)

    def _start_again(self) -> None:
        """Start brokers again that should run and have ended, as a supervisor does."""
        for broker in self.cluster.brokers:
            if broker.is_running or not broker.process.should_run:
                self._ended_by_themselves.pop(broker.id, None)
            elif broker.id not in self._ended_by_themselves:
                self._note_end(broker)
                self._ended_by_themselves[broker.id] = self.now_ms
            elif self.now_ms - self._ended_by_themselves[broker.id] >= RESTART_AFTER_MS:
                del self._ended_by_themselves[broker.id]
                broker.begin_start()

    def _note_end(self, broker: LocalBroker) -> None:
        """Note the end of a broker that should run, unless a correct broker may also end in this way."""
        process = broker.process.process
        if process is None or process.exit_code in (None, TRY_AGAIN) or not broker.process.should_run:
            return
        if broker.name in self.may_end:
            return
        self._failed.setdefault(
            process.pid, f"{broker.name} ended by itself with {describe_exit(process.exit_code)}: {broker.process.log}"
        )

    def findings(self) -> Findings | None:
        try:
            return self.cluster.findings()
        except NO_ANSWER:
            return None

    # ------------------------------------------------------------------ steps

    def restart(self, broker: Broker) -> None:
        broker.begin_stop()
        process = self.cluster.broker(broker.id).process
        process.is_restarting = True

        def start_when_ended() -> None:
            if broker.is_running:
                self.after(100.0, start_when_ended)
            else:
                process.is_restarting = False
                broker.begin_start()

        start_when_ended()

    def arm(self, broker: Broker, action: ArmPoint) -> None:
        broker.arm(action.point, action.point_action)
        if action.point_action == "pause" and action.lasts is not None:
            self._resume_after_ms[broker.id, action.point] = action.lasts.ms

    def processes(self, brokers: Brokers) -> list[RunningProcess]:
        children = [self.cluster.broker(broker.id).process.process for broker in brokers]
        for broker, child in zip(brokers, children, strict=True):
            if child is None or not child.is_running:
                raise CannotInject(f"{broker.name} is not running")
        return [child for child in children if child is not None]

    def flood(self, brokers: Brokers, connections: int) -> Undo:
        opened: list[socket.socket] = []

        def end() -> None:
            for each in opened:
                each.close()

        for broker in brokers:
            host, _, port = self.cluster.broker(broker.id).address.rpartition(":")
            for number in range(connections):
                try:
                    opened.append(socket.create_connection((host, int(port)), _FLOOD_TIMEOUT_S))
                    opened[-1].sendall(bad_bytes(number))
                except OSError as refused:
                    end()
                    raise CannotInject(f"{broker.name} refused connection {number + 1}: {refused}") from None
        return end

    def swizzle_source(self) -> random.Random:
        return derived(self._plan.seed, "swizzle")

    def begin_call(self, call: Coroutine[Any, Any, object]) -> None:
        async def ignoring_refusals() -> None:
            with contextlib.suppress(ApiError, NoBrokerAnswers):
                await call

        self._clients.begin(ignoring_refusals())

    def write(self, path: str, data: bytes) -> None:
        if not self.cluster.view.write(path, data):
            raise CannotInject(f"{path} cannot be written: its parent does not exist")

    def delete(self, path: str) -> None:
        if not self.cluster.view.delete(path):
            raise CannotInject(f"{path} cannot be deleted: it does not exist or has children")

    def not_injected(self) -> tuple[str, ...]:
        points = [
            f"arm: {broker.name} did not reach {point}"
            for broker in self.cluster.brokers
            for point in broker.process.armed()
        ]
        answers = [answer.missed for answer in self.cluster.answers if not answer.hits]
        return (*self.cluster.not_injected(), *points, *answers, *self.machines.not_injected())

    def heal(self) -> None:
        self._timers.clear()
        self.cluster.heal_links()
        self.machines.heal()
        if self.cluster.embedded_zookeeper is not None:
            self.cluster.embedded_zookeeper.resume()
        self.cluster.start_zookeeper()
        for broker in self.cluster.brokers:
            broker.process.disarm_answers()
            if broker.is_paused:
                broker.resume()
            if broker.process.is_restarting:
                self._await_end(broker)
            if not broker.is_running:
                self._note_end(broker)
                with contextlib.suppress(ClusterError):
                    broker.start()

    def _await_end(self, broker: LocalBroker) -> None:
        with contextlib.suppress(ClusterError):
            self.cluster.wait_until(lambda: not broker.is_running, f"{broker.name} has stopped")
        broker.process.is_restarting = False

    # ------------------------------------------------------------------ the end

    def finish(self) -> RunData:
        load = self.load
        notes = []
        with contextlib.suppress(TimeoutError):
            self._clients.ask(load.settle(), 2 * GROUP_SETTLES_S)
        load.stop()
        if not self._clients.wait(STOP_TIMEOUT_S):
            notes.append("the load has not ended within half a minute after it was stopped")
        else:
            try:
                self._clients.ask(load.read_all(), FINAL_READ_TIMEOUT_MS / 1000)
            except TimeoutError:
                notes.append("not every partition could be read to its end within a minute")
        for broker in self.cluster.brokers:
            self._note_end(broker)
        if self.stops_cluster:
            self.cluster.stop()
        reading = read([self._folder])
        records: dict[str, list[Envelope]] = {}
        for record in sorted(reading.records, key=lambda each: (each.incarnation, each.seq)):
            records.setdefault(record.node, []).append(record)
        load.note_records(reading.records)
        return RunData(
            records=records,
            transactions=self._transactions(notes),
            load=load,
            failures=tuple(self._failed.values()),
            may_fail=frozenset(self.may_end),
            notes=tuple(notes),
            findings=reading.findings,
            is_running=not self.stops_cluster,
        )

    def _transactions(self, notes: list[str]) -> list[ZnodeTransaction]:
        zookeeper = self.cluster.embedded_zookeeper
        assert zookeeper is not None, "an experiment has a ZooKeeper of its own"
        try:
            return read_transaction_logs(*zookeeper.transaction_log_dirs)
        except (MalformedTransactionLog, OSError) as error:
            notes.append(f"ZooKeeper's transaction log cannot be read: {error}")
            return []

    def close(self) -> None:
        try:
            self._clients.close()
        finally:
            self.cluster.close()
            self._lock.release()
