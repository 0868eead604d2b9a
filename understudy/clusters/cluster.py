"""`Cluster` and `BrokerHandle`: the protocols by which experiments and tests act on a cluster and observe it.

`processes.local_cluster.LocalCluster` runs brokers as processes, `simulated.cluster.SimulatedCluster` runs them in
virtual time. Both implement `Cluster`, and their brokers `BrokerHandle`, so that one experiment runs on either:

    def kill_the_controller(cluster: Cluster) -> None:
        killed = cluster.controller()
        killed.kill()
        cluster.wait_until(lambda: cluster.controller_id() not in (None, killed.id), "another broker is controller")
        killed.restart()
        cluster.settle()

All calls are synchronous. On processes a call that waits sleeps; in the simulator it runs the simulated event loop, so
it cannot be used inside that loop (docs/inside/decisions/0005). Times are seconds of the cluster's own clock.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from understudy.clusters.answers import ArmsAnswers
from understudy.clusters.clients.admin_client import AdminClient
from understudy.clusters.findings import Findings
from understudy.clusters.picture import ClusterPicture
from understudy.clusters.verb_table import POINT_ACTIONS
from understudy.controller.points import POINTS

T = TypeVar("T")


class ClusterError(Exception):
    """The cluster cannot do what was requested. The message names the broker or role, and the reason."""


class WaitTimedOut(ClusterError):
    """A condition did not become true in time."""


class Unsettled(WaitTimedOut):
    """The cluster did not settle in time. The message lists the findings that are left."""


class Unsupported(ClusterError):
    """This kind of cluster cannot inject the fault. The message says why, and what to use instead."""


class BrokerHandle(ArmsAnswers, Protocol):
    """One broker of a cluster.

    Every fault is recorded in the event log before it is injected. All faults but `heal` raise `ClusterError` if the
    broker is not running; such a fault is not recorded.
    """

    @property
    def id(self) -> int: ...

    @property
    def name(self) -> str:
        """`broker-1`, as in the event log."""

    @property
    def is_running(self) -> bool:
        """Whether its process exists, paused or not."""

    @property
    def is_paused(self) -> bool: ...

    def kill(self) -> None:
        """Kill the process (SIGKILL). ZooKeeper ends its session only after the session timeout."""

    def pause(self) -> None:
        """Pause the process (SIGSTOP): its connections stay open and silent, and its session times out."""

    def resume(self) -> None:
        """Resume a paused process (SIGCONT). Harmless if it is not paused."""

    def stop(self) -> None:
        """Stop the broker by a controlled shutdown (SIGTERM), and wait until its process has ended.

        A paused process is resumed first: it could not handle the signal.
        """

    def start(self) -> None:
        """Start the broker on its own data, and wait until it is registered.

        After a kill this waits until ZooKeeper has deleted the old registration.

        Raises:
            ClusterError: the broker is running, or its process ended instead of registering.
        """

    def restart(self) -> None:
        """Stop the broker if it is running, and start it."""

    def depose(self) -> None:
        """Delete `/controller`, as operators do to move the controller. The broker keeps running.

        Raises:
            ClusterError: this broker is not the controller.
        """

    def isolate(self) -> None:
        """Hold all traffic between this broker and the other brokers, clients and ZooKeeper, until `heal`.

        Raises:
            Unsupported: this cluster cannot hold its brokers' traffic.
        """

    def heal(self) -> None:
        """End the isolation: the held traffic arrives late and in order. Harmless if the broker is not isolated.

        Raises:
            Unsupported: as in `isolate`.
        """

    def arm(self, point: str, action: str) -> None:
        """Pause or crash the broker when its controller next reaches a named point.

        Args:
            point: one of `understudy.controller.points.POINTS`.
            action: one of `understudy.clusters.verb_table.POINT_ACTIONS`.

        Raises:
            ClusterError: `point` or `action` does not exist.
        """


class Cluster(Protocol):
    """A cluster of brokers and its ZooKeeper."""

    @property
    def broker_ids(self) -> tuple[int, ...]: ...

    @property
    def brokers(self) -> Sequence[BrokerHandle]:
        """A handle for each broker, in order of id, running or not."""

    @property
    def admin(self) -> AdminClient:
        """A client of this cluster, whose calls `ask` runs."""

    def start(self) -> None:
        """Start all brokers and wait until they serve requests. Harmless if the cluster has been started."""

    def close(self) -> None:
        """End all brokers and ZooKeeper at once, without a controlled shutdown. Harmless if it is closed already."""

    def broker(self, broker_id: int) -> BrokerHandle:
        """Return the broker with this id.

        Raises:
            ClusterError: this cluster has no such broker.
        """

    def controller_id(self) -> int | None:
        """Return the id of the broker that owns `/controller`; None if there is no controller."""

    def controller(self) -> BrokerHandle:
        """Return the broker that owns `/controller`.

        Raises:
            ClusterError: there is no controller at this moment, or it is not a broker of this cluster.
        """

    def leader_id(self, topic: str, partition: int) -> int | None:
        """Return the id of the partition's leader in ZooKeeper; None if it has no leader or does not exist."""

    def leader(self, topic: str, partition: int) -> BrokerHandle:
        """Return the partition's leader in ZooKeeper.

        Raises:
            ClusterError: it has no leader at this moment, or the leader is not a broker of this cluster.
        """

    def isr(self, topic: str, partition: int) -> tuple[int, ...]:
        """Return the partition's ISR in ZooKeeper; empty if the partition does not exist."""

    def picture(self) -> ClusterPicture:
        """Read the state of the cluster in ZooKeeper now."""

    def findings(self) -> Findings:
        """Find the problems of the cluster now."""

    def wait_until(self, condition: Callable[[], T | None], what: str, timeout_s: float = ...) -> T:
        """Evaluate `condition` repeatedly until it is true, and return its value.

        Args:
            what: the condition in words, for the message of `WaitTimedOut`.

        Raises:
            WaitTimedOut: the condition was not true within `timeout_s`.
            ClusterError: meanwhile a broker ended although no fault was injected into it.
        """

    def settle(self, *, timeout_s: float = ...) -> None:
        """Wait until no finding is left that the live brokers must resolve (`Findings.unresolved`).

        Raises:
            Unsettled: such findings were left after `timeout_s`.
        """

    def ask(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a call of a client, such as `admin.elect_leaders()`, and return its result."""

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = ...,
        replication_factor: int = ...,
        assignment: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        """Create a topic over Kafka's protocol. Raises the errors of `AdminClient.create_topic`."""

    def record_step(self, step: str, note: str = "") -> None:
        """Record in the event log which step of an experiment has been reached."""


def check_point(point: str, action: str) -> None:
    """Raise ClusterError if `point` or `action` does not exist."""
    if point not in POINTS:
        raise ClusterError(f"there is no point {point!r}; the points are {', '.join(POINTS)}")
    if action not in POINT_ACTIONS:
        raise ClusterError(f"a point can pause or crash a broker, not {action!r}")


def no_such_broker(broker_id: int, broker_ids: Sequence[int]) -> ClusterError:
    """Return the error for a broker id that the cluster does not have."""
    return ClusterError(f"there is no broker {broker_id}; this cluster has {', '.join(map(str, broker_ids))}")


def no_holder(role: str) -> ClusterError:
    """Return the error for a role, such as controller or leader of a partition, that no broker has at this moment."""
    return ClusterError(f"no broker is {role} at this moment; wait for one with wait_until")
