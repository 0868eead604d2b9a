"""`understudy sweep`: run the same failover of the controller for every combination of some settings.

Each run gets its own folder in --dir, which `understudy compare` and `understudy replay` read. A sweep that was
interrupted continues where it was: runs that are in the folder are not run again.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from understudy.cli.arguments import (
    BadInput,
    Failed,
    accept_old_words,
    add_java_home,
    count,
    counts,
    names,
    reported_as,
)
from understudy.cli.progress import Progress
from understudy.clusters.java import JavaNotFound, choose_java
from understudy.clusters.processes.cluster_view import NO_ANSWER
from understudy.clusters.processes.zookeeper_server import ZooKeeperNotStarted
from understudy.trials.seeds.worker_processes import worker_pool
from understudy.trials.sweep import simulated
from understudy.trials.sweep.cells import (
    FAULTS,
    PROCESSES,
    SIMULATOR,
    Cell,
    CellReport,
    grid,
    unfinished,
    unfinished_folder,
)
from understudy.trials.sweep.processes import run_cells

SHOWN_FAILURES = 5
_RUNS_PER_PROCESS = 50


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--brokers", type=counts, default=(3,), metavar="N,…", help="numbers of brokers, from 2")
    parser.add_argument("--partitions", type=counts, default=(100,), metavar="N,…", help="numbers of partitions")
    parser.add_argument(
        "--session-timeout-ms", type=counts, default=(6000,), metavar="MS,…", help="ZooKeeper session timeouts"
    )
    parser.add_argument("--fault", type=names, default=("kill",), metavar="FAULT,…", help="kill, pause, or both")
    parser.add_argument("--repeat", type=count, default=10, metavar="N", help="runs with the same settings")
    parser.add_argument(
        "--seed", type=count, default=1, metavar="N", help="the seed of the first of --repeat; the next are N+1 …"
    )
    folder = parser.add_argument(
        "--dir", type=Path, required=True, metavar="DIR", help="the folder for the runs; a sweep continues in it"
    )
    accept_old_words(parser, folder, "--output")
    parser.add_argument("--workers", type=count, metavar="N", help="processes to simulate on (default 1)")
    parser.add_argument(
        "--processes", action="store_true", help="run real brokers and a real ZooKeeper, one run after the other"
    )
    add_java_home(parser, "for ZooKeeper")


def run(options: argparse.Namespace) -> int:
    cells = _cells(options)
    output = options.dir
    try:
        output.mkdir(parents=True, exist_ok=True)
        unfinished_folder(output).mkdir(exist_ok=True)
    except OSError as error:
        raise BadInput(f"--dir {output}: {error.strerror}; give a folder that can be written") from None
    left = unfinished(cells, output)
    if len(left) < len(cells):
        print(f"{len(cells) - len(left)} of {len(cells)} runs are in {output} already", file=sys.stderr, flush=True)
    failed = 0
    try:
        with Progress(len(left), "runs") as progress:
            for report in _processes(left, options) if options.processes else _simulated(left, options):
                progress.step(failed=bool(report.problem))
                failed += bool(report.problem)
                if report.problem and failed <= SHOWN_FAILURES:
                    progress.wipe()
                    print(f"{report.cell.name}: {report.problem}", flush=True)
    except KeyboardInterrupt:
        done = len(cells) - len(unfinished(cells, output))
        print(f"{done} of {len(cells)} runs are complete; the same command goes on from there", file=sys.stderr)
        raise
    except OSError as error:
        done = len(cells) - len(unfinished(cells, output))
        raise Failed(
            f"--dir {output}: {error.strerror or error}; {done} of {len(cells)} runs are complete, and the same "
            "command goes on from there"
        ) from None
    with contextlib.suppress(OSError):
        unfinished_folder(output).rmdir()
    print(f"{len(left) - failed} runs in {progress.seconds:.0f} s, {len(cells) - failed} of {len(cells)} in {output}")
    print(f"compare them: understudy compare {output} --by {','.join(_varied(options)) or 'session_timeout_ms'}")
    if failed:
        raise Failed(f"{failed} of {len(left)} runs failed; what they left is in {unfinished_folder(output)}")
    return 0


def _cells(options: argparse.Namespace) -> tuple[Cell, ...]:
    if unknown := [fault for fault in options.fault if fault not in FAULTS]:
        options.usage_error(f"--fault {','.join(unknown)}: the faults of a sweep are {', '.join(FAULTS)}")
    if min(options.brokers) < 2:
        options.usage_error("--brokers 1: without a second broker there is no failover")
    if options.processes and options.workers:
        options.usage_error("--workers goes with the simulator: processes of two runs would disturb each other")
    return grid(
        PROCESSES if options.processes else SIMULATOR,
        brokers=options.brokers,
        partitions=options.partitions,
        session_timeouts_ms=options.session_timeout_ms,
        faults=tuple(dict.fromkeys(options.fault)),
        draws=range(options.seed, options.seed + options.repeat),
    )


def _varied(options: argparse.Namespace) -> list[str]:
    """Return the settings of which the sweep has several values."""
    settings = ("brokers", "partitions", "session_timeout_ms", "fault")
    return [setting for setting in settings if len(getattr(options, setting)) > 1]


def _simulated(cells: Sequence[Cell], options: argparse.Namespace) -> Iterator[CellReport]:
    run = partial(simulated.run_cell, output=options.dir)
    if (options.workers or 1) == 1:
        yield from map(run, cells)
        return
    with worker_pool(options.workers, runs_per_process=_RUNS_PER_PROCESS) as pool:
        yield from pool.imap_unordered(run, cells)


def _processes(cells: Sequence[Cell], options: argparse.Namespace) -> Iterator[CellReport]:
    if not cells:
        return
    with reported_as(Failed, JavaNotFound, ZooKeeperNotStarted, OSError, *NO_ANSWER):
        yield from run_cells(cells, options.dir, java=choose_java(options.java_home))
