"""Runs an experiment from its plan to its verdict, and writes its results to a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import msgspec

from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.history.reading.reader import read
from understudy.trials.experiments.engine import ExperimentEngine
from understudy.trials.experiments.judging import judge
from understudy.trials.experiments.language.frozen import FrozenPlan
from understudy.trials.experiments.processes.engine import LeftRunning
from understudy.trials.experiments.report.explain import missing_actions
from understudy.trials.experiments.report.html_page import html_page
from understudy.trials.experiments.report.junit import junit_xml
from understudy.trials.experiments.report.trace import trace_json
from understudy.trials.experiments.report.verdict import Verdict
from understudy.trials.experiments.runner import Runner

REPORT: Final = "report.html"
PAGE: Final = "page.html"
VERDICT: Final = "verdict.json"
JUNIT: Final = "junit.xml"
FROZEN: Final = "experiment.yaml"
TRACE: Final = "trace.json"


class CannotRun(Exception):
    """An engine cannot run an experiment. The message names what it cannot do."""


def run_experiment(
    plan: FrozenPlan,
    engine: type[ExperimentEngine],
    folder: Path,
    *,
    command: str,
    with_trace: bool = False,
    write_page: Callable[[Path, Path], bool] = lambda folder, file: False,
) -> Verdict:
    """Run an experiment once, and write the verdict, the page and the event logs to a folder.

    Args:
        folder: a new or empty folder.
        command: the command line that runs it again, for the page.
        with_trace: whether to also write a trace for the Perfetto viewer.
        write_page: writes the page of the run whose logs are in a folder to a file, and returns whether it did. The
            report links to the moments in it.

    Raises:
        CannotRun: the engine cannot do what a step asks.
        ClusterError: the cluster cannot be started.
        OSError: the folder cannot be written.
    """
    _check_actions(plan, engine)
    folder.mkdir(parents=True, exist_ok=True)
    verdict = run_once(plan, engine, folder, command=command)
    write(verdict, folder, page=PAGE if write_page(folder, folder / PAGE) else "")
    if with_trace:
        write_trace(verdict, folder)
    return verdict


def run_once(plan: FrozenPlan, engine: type[ExperimentEngine], folder: Path, *, command: str) -> Verdict:
    """Run an experiment and judge it; only the engine writes files. Raises ClusterError, OSError."""
    with closing(engine.begin(plan, folder)) as running:
        return judge(Runner(plan, running).run(), command)


@contextmanager
def run_and_keep(plan: FrozenPlan, folder: Path) -> Iterator[tuple[Verdict, LocalCluster]]:
    """Run an experiment on processes and judge it, and leave its cluster to the block; stop it in order afterwards.

    Yields:
        The verdict, and the cluster, on which nothing else acts while the block runs.

    Raises:
        CannotRun, ClusterError, OSError: as `run_experiment`.
    """
    _check_actions(plan, LeftRunning)
    folder.mkdir(parents=True, exist_ok=True)
    with closing(LeftRunning.begin(plan, folder)) as running:
        verdict = judge(Runner(plan, running).run(), "")
        write(verdict, folder)
        yield verdict, running.cluster
        running.cluster.stop()


def _check_actions(plan: FrozenPlan, engine: type[ExperimentEngine]) -> None:
    """Raise CannotRun if the engine cannot have the cluster, or cannot do what a step asks."""
    servers = plan.experiment.cluster.zookeepers
    if servers > engine.most_zookeepers:
        raise CannotRun(
            f"the engine {engine.name} has one ZooKeeper server, and the experiment asks for {servers}; "
            "run it with --engine sim or real"
        )
    missing = missing_actions(plan.experiment, engine.able)
    if missing:
        raise CannotRun(f"the engine {engine.name} cannot do {', '.join(missing)}; try another one with --engine")


def write(verdict: Verdict, folder: Path, *, page: str = "") -> None:
    """Write the report, the JSON, the JUnit XML and the frozen plan. Raises OSError."""
    (folder / REPORT).write_text(html_page(verdict, run_page=page, folder=str(folder)), encoding="utf-8")
    (folder / VERDICT).write_bytes(msgspec.json.format(msgspec.json.encode(verdict), indent=2) + b"\n")
    (folder / JUNIT).write_text(junit_xml([verdict]), encoding="utf-8")
    (folder / FROZEN).write_text(verdict.frozen, encoding="utf-8")


def write_trace(verdict: Verdict, folder: Path) -> None:
    """Write the trace of a run whose event logs are in the folder. Raises OSError."""
    (folder / TRACE).write_bytes(trace_json(verdict.timeline, read([folder]).records))
