"""`LocalBroker`: one broker process of a local cluster, and the faults injected into it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from understudy.clusters.answers import AnswerHandle, ArmsAnswers
from understudy.clusters.cluster import BrokerHandle, ClusterError, check_point
from understudy.clusters.processes.broker_process import HOST, BrokerProcess
from understudy.clusters.processes.cluster_view import ClusterView
from understudy.clusters.processes.processes import RunningProcess
from understudy.foundation.wire.armed_answers import ArmedAnswer

T = TypeVar("T")

STOP_TIMEOUT_S = 15.0


class BrokerOwner(Protocol):
    """The part of a cluster that the handles of its brokers use."""

    is_proxied: bool
    """Whether a proxy can hold the traffic of its brokers."""
    answers: list[AnswerHandle]
    """The answers that were armed at its brokers."""
    before_fault: Callable[[int], None]
    """Called with a broker's id before a fault that may end its leaderships."""

    @property
    def view(self) -> ClusterView: ...

    def process_of(self, broker_id: int) -> BrokerProcess: ...

    def record_fault(self, fault: str, target: str, role: str = "") -> None: ...

    def record_step(self, step: str, note: str = "") -> None: ...

    def wait_until(self, condition: Callable[[], T | None], what: str, timeout_s: float = ...) -> T: ...

    def write_cluster_file(self) -> None:
        """Write the processes that run now into `cluster.json`."""

    def start_broker(self, broker_id: int) -> None:
        """Start the broker and wait until it serves requests."""

    def isolate_broker(self, broker_id: int, role: str = "") -> None:
        """Record the fault, then hold all traffic of the broker; raise Unsupported if there is no proxy."""

    def heal_broker(self, broker_id: int, role: str = "") -> None:
        """Record the fault, then end the isolation and the cuts of the broker; raise as `isolate_broker`."""


@dataclass(frozen=True, slots=True)
class LocalBroker(ArmsAnswers):
    """One broker of a local cluster; implements `BrokerHandle`.

    Attributes:
        role: the role by which the broker was looked up, for the records of its faults; empty if it was looked up
            by id.
    """

    cluster: BrokerOwner
    id: int
    role: str = ""

    @property
    def name(self) -> str:
        return f"broker-{self.id}"

    @property
    def process(self) -> BrokerProcess:
        return self.cluster.process_of(self.id)

    @property
    def is_running(self) -> bool:
        """Whether its process exists; a paused one does."""
        return self.process.is_running

    @property
    def is_paused(self) -> bool:
        return self.process.is_paused

    @property
    def address(self) -> str:
        """`host:port` of its listener."""
        return f"{HOST}:{self.process.port}"

    @property
    def metrics_address(self) -> str:
        """`host:port` of its metrics server, which answers `GET /metrics`.

        Raises:
            ClusterError: it does not run, or the cluster has no `metrics.port` among its `properties`.
        """
        bound = self.process.metrics_address() if self.is_running else None
        if bound is None:
            raise ClusterError(
                f"{self.name} serves no metrics; start it, in a cluster with properties={{'metrics.port': '0'}}"
            )
        return bound

    def kill(self) -> None:
        self.cluster.before_fault(self.id)
        self._inject("kill", lambda process: process.kill(), ends=True)

    def pause(self) -> None:
        self.cluster.before_fault(self.id)
        self._inject("pause", lambda process: process.pause())

    def resume(self) -> None:
        self._inject("resume", lambda process: process.resume())

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stop the broker by a controlled shutdown; kill it, which is recorded, if that takes over `timeout_s`."""
        self.cluster.before_fault(self.id)
        self.begin_stop()
        child = self.process.process
        if child is not None and not child.wait(timeout_s):
            self._inject("kill", lambda process: process.kill(), ends=True)
        self.cluster.write_cluster_file()

    def start(self) -> None:
        """Start the broker again on its own port and data, and wait until it serves requests.

        After a kill this waits until ZooKeeper has deleted the old registration.
        """
        if self.is_running:
            raise ClusterError(f"{self.name} cannot be started: it is running")
        self.cluster.start_broker(self.id)

    def begin_start(self) -> None:
        """Start the broker, and do not wait. Harmless if it runs; from now on it should.

        It may find its old registration, and end because of it, as Kafka's does.
        """
        if not self.is_running:
            self.cluster.record_fault("start", self.name)
            self.process.launch()
            self.cluster.write_cluster_file()
        self.process.should_run = True

    def begin_stop(self) -> None:
        """Begin a controlled shutdown, and do not wait."""
        self._inject("stop", lambda process: process.ask_to_end(), ends=True)

    def restart(self) -> None:
        if self.is_running:
            self.stop()
        self.start()

    def depose(self) -> None:
        self.cluster.before_fault(self.id)
        if self.cluster.view.controller_id() != self.id:
            raise ClusterError(f"{self.name} cannot be deposed: it is not the controller")
        self.cluster.record_fault("depose", self.name, self.role or "controller")
        self.cluster.view.delete_controller(self.id)

    def isolate(self) -> None:
        if self.cluster.is_proxied and not self.is_running:
            raise ClusterError(f"isolate was not injected: {self.name} is not running")
        self.cluster.before_fault(self.id)
        self.cluster.isolate_broker(self.id, self.role)

    def heal(self) -> None:
        self.cluster.heal_broker(self.id, self.role)

    def arm(self, point: str, action: str) -> None:
        self.cluster.before_fault(self.id)
        check_point(point, action)
        self.cluster.record_step("armed", f"{self.name}: {action} at {point}")
        self.process.arm(point, action)

    def arm_answer(self, answer: ArmedAnswer) -> AnswerHandle:
        process = self.process
        armed = process.named_answer(answer)
        self.cluster.record_step("armed", f"{self.name}: {armed}")
        process.arm_answer(armed)
        handle = AnswerHandle(armed, self.name, lambda: process.answers_given()[armed.name], self.cluster.wait_until)
        self.cluster.answers.append(handle)
        return handle

    def _inject(self, fault: str, action: Callable[[RunningProcess], object], *, ends: bool = False) -> None:
        """Record a fault, then run `action` on the process.

        Args:
            ends: whether the fault ends the process, so that its end is expected.

        Raises:
            ClusterError: the process is not running.
        """
        child = self.process.process
        if child is None or not child.is_running:
            raise ClusterError(f"{fault} was not injected: {self.name} is not running")
        self.cluster.record_fault(fault, self.name, self.role)
        self.process.should_run = self.process.should_run and not ends
        action(child)
        self.cluster.write_cluster_file()


def _as_handle(broker: LocalBroker) -> BrokerHandle:
    """Let mypy check that a broker process's handle implements `BrokerHandle`."""
    return broker
