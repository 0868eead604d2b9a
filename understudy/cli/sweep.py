"""`understudy sweep`: run the same failover of the controller for every combination of some settings.

With --kafka-zk and --kafka-kraft the same failover also happens to clusters of Apache Kafka, whose logs are imported.
Each run gets its own folder in --dir, which `understudy compare` and `understudy replay` read. A sweep that was
interrupted continues where it was: runs that are in the folder are not run again.
"""

from __future__ import annotations

import argparse
import contextlib
import re
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
from understudy.clusters.processes.kafka_jars import NEWEST_VERSION, VERSION, NotFetched, kafka_libs_of
from understudy.clusters.processes.zookeeper_server import ZooKeeperNotStarted
from understudy.history.metrics.settings import KAFKA_KRAFT, KAFKA_ZK
from understudy.trials.seeds.worker_processes import worker_pool
from understudy.trials.sweep import simulated
from understudy.trials.sweep.apache_kafka import SHORTEST_KRAFT_TIMEOUT_MS, SMALLEST_QUORUM, explained
from understudy.trials.sweep.cells import (
    FAULTS,
    OURS,
    PROCESSES,
    SIMULATOR,
    Cell,
    CellReport,
    Software,
    grid,
    unfinished,
    unfinished_folder,
)
from understudy.trials.sweep.processes import run_cells

SHOWN_FAILURES = 5
_RUNS_PER_PROCESS = 50
OLDEST_KRAFT = (3, 3, 0)
"""The oldest version of Apache Kafka whose logs of KRaft clusters are imported."""


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
    parser.add_argument(
        "--kafka-zk",
        type=versions,
        nargs="?",
        const=(VERSION,),
        default=(),
        metavar="VERSION,…",
        help=f"with --processes: also run Apache Kafka in ZooKeeper mode (default version {VERSION})",
    )
    parser.add_argument(
        "--kafka-kraft",
        type=versions,
        nargs="?",
        const=(VERSION, NEWEST_VERSION),
        default=(),
        metavar="VERSION,…",
        help=f"with --processes: also run KRaft clusters of Apache Kafka (default versions {VERSION} and "
        f"{NEWEST_VERSION})",
    )
    parser.add_argument(
        "--kafka-libs",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="the folder `libs` of a download of Apache Kafka, once for each version (default KAFKA_LIBS, else Maven)",
    )
    add_java_home(parser, "for ZooKeeper and Apache Kafka")


def run(options: argparse.Namespace) -> int:
    cells = _cells(options)
    output = options.dir
    if line := explained(each.software for each in cells):
        print(line, file=sys.stderr, flush=True)
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
    _check_kafka(options)
    return grid(
        PROCESSES if options.processes else SIMULATOR,
        software=(
            OURS,
            *(Software(KAFKA_ZK, version) for version in options.kafka_zk),
            *(Software(KAFKA_KRAFT, version) for version in options.kafka_kraft),
        ),
        brokers=options.brokers,
        partitions=options.partitions,
        session_timeouts_ms=options.session_timeout_ms,
        faults=tuple(dict.fromkeys(options.fault)),
        draws=range(options.seed, options.seed + options.repeat),
    )


def _check_kafka(options: argparse.Namespace) -> None:
    """End with a usage error if Apache Kafka cannot run the cells of this command line."""
    if not options.kafka_zk and not options.kafka_kraft:
        if options.kafka_libs:
            options.usage_error("--kafka-libs goes with --kafka-zk or --kafka-kraft")
        return
    if not options.processes:
        options.usage_error(
            "--kafka-zk and --kafka-kraft go with --processes: a simulated broker computes in no time, so that its "
            "times cannot stand beside Apache Kafka's"
        )
    if without := [version for version in options.kafka_zk if not version.startswith("3.9.")]:
        options.usage_error(f"--kafka-zk {','.join(without)}: Apache Kafka is run in ZooKeeper mode in 3.9 alone")
    if not options.kafka_kraft:
        return
    if old := [version for version in options.kafka_kraft if _numbers(version) < OLDEST_KRAFT]:
        options.usage_error(f"--kafka-kraft {','.join(old)}: the logs of KRaft clusters are imported from 3.3.0 on")
    if min(options.brokers) < SMALLEST_QUORUM:
        options.usage_error(
            f"--brokers {min(options.brokers)}: the nodes of a KRaft cluster are also its quorum, and the others have "
            f"to be a majority when one is lost; give {SMALLEST_QUORUM} or more"
        )
    if min(options.session_timeout_ms) < SHORTEST_KRAFT_TIMEOUT_MS:
        options.usage_error(
            f"--session-timeout-ms {min(options.session_timeout_ms)}: followers of a KRaft quorum fetch for up to "
            f"500 ms; give {SHORTEST_KRAFT_TIMEOUT_MS} or more with --kafka-kraft"
        )


def versions(text: str) -> tuple[str, ...]:
    """Parse versions such as `3.9.1` that are separated by commas, none of them given twice."""
    found = names(text)
    if wrong := [each for each in found if not re.fullmatch(r"\d+\.\d+\.\d+", each)]:
        raise argparse.ArgumentTypeError(f"{wrong[0]!r} is not a version of Apache Kafka, for example {VERSION}")
    if len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"{text!r} has a version twice")
    return found


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _varied(options: argparse.Namespace) -> list[str]:
    """Return the settings of which the sweep has several values."""
    settings = ("brokers", "partitions", "session_timeout_ms", "fault")
    modes = ["mode"] if options.kafka_zk or options.kafka_kraft else []
    several = ["software_version"] if max(len(options.kafka_zk), len(options.kafka_kraft)) > 1 else []
    return [*modes, *several, *(setting for setting in settings if len(getattr(options, setting)) > 1)]


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
    with reported_as(Failed, JavaNotFound, NotFetched, ZooKeeperNotStarted, OSError, *NO_ANSWER):
        java = choose_java(options.java_home)
        kafkas = dict.fromkeys(cell.software for cell in cells if cell.software != OURS)
        libs = {each: kafka_libs_of(each.version, options.kafka_libs) for each in kafkas}
        yield from run_cells(cells, options.dir, java=java, libs=libs)
