"""A sweep: the same failover of the controller, run for every combination of some settings.

`grid` lists the cells; each is one run with different settings. `fail_over` is the experiment; it runs on any cluster
that has the methods of `FailoverCluster`. `simulated`, `processes` and `apache_kafka` make the clusters.
"""

from __future__ import annotations

import hashlib
import itertools
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from understudy.foundation.eventlog.records import RunDescribed
from understudy.history.metrics.settings import UNDERSTUDY


class FailingController(Protocol):
    """The broker or node that is controller, and the faults of a sweep."""

    @property
    def id(self) -> int: ...

    @property
    def name(self) -> str: ...

    def kill(self) -> None: ...

    def pause(self) -> None: ...


class FailoverCluster(Protocol):
    """The part of `understudy.clusters.cluster.Cluster` that a failover of the controller needs."""

    def controller_id(self) -> int | None: ...

    def controller(self) -> FailingController: ...

    def create_topic(self, name: str, *, partitions: int, replication_factor: int) -> None: ...

    def wait_until(self, condition: Callable[[], bool], what: str, timeout_s: float) -> bool: ...

    def settle(self, *, timeout_s: float) -> None: ...

    def record_step(self, step: str, note: str = "") -> None: ...


FAULTS: dict[str, Callable[[FailingController], None]] = {
    "kill": lambda broker: broker.kill(),
    "pause": lambda broker: broker.pause(),
}
"""The faults that can be injected into the controller, by the names they have in event logs."""

TOPIC = "sweep"
REPLICATION_FACTOR = 3
"""Replication factor of the topic, limited to the number of brokers."""
QUIET_MS = 500
"""Time for which a run continues after the cluster has settled, so that the last answers are in the event logs."""

SIMULATOR = "simulator"
PROCESSES = "processes"

_SEEDS = 2**31


class Software(NamedTuple):
    """The software of a run's brokers."""

    mode: str
    """`UNDERSTUDY`, `KAFKA_ZK` or `KAFKA_KRAFT` of `understudy.history.metrics.settings`."""
    version: str = ""
    """The version of Apache Kafka; empty for Understudy."""


OURS = Software(UNDERSTUDY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One run of a sweep."""

    world: str
    """`SIMULATOR` or `PROCESSES`."""
    software: Software = OURS
    brokers: int
    partitions: int
    session_timeout_ms: int
    fault: str
    draw: int
    """Distinguishes runs with the same settings."""

    @property
    def name(self) -> str:
        """The name of the run and of its folder. It contains every setting, so that no two cells share one."""
        world = "" if self.world == SIMULATOR else f"{self.world}-"
        kind = world if self.software == OURS else f"{'-'.join(self.software)}-"
        return f"{kind}b{self.brokers}-p{self.partitions}-t{self.session_timeout_ms}-{self.fault}-{self.draw}"

    @property
    def seed(self) -> int:
        """The seed from which every random number of the run is derived.

        It differs from cell to cell, so that the runs of two cells are independent of each other, as the tests of
        `understudy compare` require.
        """
        return int.from_bytes(hashlib.sha256(self.name.encode()).digest()[:8]) % _SEEDS + 1

    def described(self) -> RunDescribed:
        """Return the experiment's part of the record that describes the run."""
        return RunDescribed(partitions=self.partitions, fault=self.fault)


class CellReport(NamedTuple):
    """The result of one cell."""

    cell: Cell
    problem: str = ""
    """Why its run is not complete; empty if it is."""


def grid(
    world: str,
    *,
    software: Sequence[Software] = (OURS,),
    brokers: Sequence[int],
    partitions: Sequence[int],
    session_timeouts_ms: Sequence[int],
    faults: Sequence[str],
    draws: Sequence[int],
) -> tuple[Cell, ...]:
    """Return a cell for each combination. All combinations of one draw come before the next draw.

    So a sweep that is interrupted has about the same number of runs in every group.
    """
    return tuple(
        Cell(world=world, software=each, brokers=b, partitions=p, session_timeout_ms=timeout, fault=fault, draw=draw)
        for draw, each, b, p, timeout, fault in itertools.product(
            draws, software, brokers, partitions, session_timeouts_ms, faults
        )
    )


def unfinished_folder(output: Path) -> Path:
    """Return the folder for runs that have not ended. It is beside `output`, whose runs are all complete."""
    return output.with_name(f"{output.name}.unfinished")


def unfinished(cells: Sequence[Cell], output: Path) -> tuple[Cell, ...]:
    """Return the cells whose run is not in `output`."""
    return tuple(cell for cell in cells if not (output / cell.name).is_dir())


@contextmanager
def run_folder_of(cell: Cell, output: Path) -> Iterator[Path]:
    """Yield an empty folder for the run, which gets its place in `output` when the block ends without an error."""
    folder = unfinished_folder(output) / cell.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    yield folder
    folder.rename(output / cell.name)


def fail_over(cluster: FailoverCluster, cell: Cell, wait: Callable[[float], None], wait_ms: float) -> None:
    """Run the experiment on a cluster that has been started.

    1. A client creates a topic.
    2. After `wait_ms` the fault is injected into the controller. The time is drawn, because a session begins to time
       out with its last ping: a fault at a fixed time would always meet the same moment between two pings.
    3. Another broker becomes controller, and the cluster settles: every partition has a live leader, and every live
       broker's metadata names it.

    Args:
        wait: lets a number of milliseconds pass.

    Raises:
        ClusterError: a step did not happen in time.
    """
    cluster.create_topic(TOPIC, partitions=cell.partitions, replication_factor=min(REPLICATION_FACTOR, cell.brokers))
    cluster.settle(timeout_s=_timeout_s(cell))
    wait(wait_ms)
    failed = cluster.controller()
    cluster.record_step("fault", f"{cell.fault} the controller, {failed.name}")
    FAULTS[cell.fault](failed)
    cluster.wait_until(
        lambda: cluster.controller_id() not in (None, failed.id), "another broker is controller", _timeout_s(cell)
    )
    cluster.settle(timeout_s=_timeout_s(cell))
    wait(QUIET_MS)
    cluster.record_step("end")


def _timeout_s(cell: Cell) -> float:
    """Return how long a failover may take: the session timeout, a generous time for partitions, and a reserve."""
    return 60 + 2 * cell.session_timeout_ms / 1_000 + cell.partitions / 100
