"""Runs cells of a sweep in the simulator."""

from __future__ import annotations

from pathlib import Path

import msgspec

from understudy.clusters.cluster import ClusterError
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.clusters.simulated.loop import BudgetExhausted, Deadlock
from understudy.clusters.simulated.randomness import derived
from understudy.clusters.software import software_commit
from understudy.trials.sweep.cells import Cell, CellReport, fail_over, run_folder_of


def run_cell(cell: Cell, output: Path) -> CellReport:
    """Run one cell; its event logs are in `output` when it has ended. The same cell leaves the same bytes."""
    try:
        with run_folder_of(cell, output) as folder:
            _run(cell).dump(folder)
    except (ClusterError, Deadlock, BudgetExhausted) as error:
        return CellReport(cell, f"{type(error).__name__}: {error}")
    return CellReport(cell)


def _run(cell: Cell) -> SimulatedCluster:
    """Run the experiment of a cell, and return the cluster after its end."""
    with SimulatedCluster(
        cell.seed,
        brokers=cell.brokers,
        settings={"zookeeper.session.timeout.ms": str(cell.session_timeout_ms)},
        run_id=cell.name,
        described=msgspec.structs.replace(cell.described(), software_commit=software_commit()),
    ) as cluster:
        cluster.start()
        fail_over(cluster, cell, cluster.run_for, derived(cell.seed, "sweep").uniform(0, cell.session_timeout_ms))
    if cluster.loop.failures:
        raise ClusterError("a task failed with an unhandled exception: " + "; ".join(cluster.loop.failures))
    return cluster
