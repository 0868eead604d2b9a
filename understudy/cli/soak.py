"""`understudy soak`: inject faults into a running cluster for hours, and judge it and its clients all the while.

RUN is the folder of a cluster that `understudy up` runs. The same command continues where it was interrupted. The exit
code is 0 if everything held, 1 if an invariant was violated, 2 if nothing could be injected, the cluster did not settle
before the first fault or the run cannot be judged because records are missing, 3 if the command line or the folder
cannot be used, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import secrets
from pathlib import Path

from understudy.cli.arguments import Failed, count, reported_as
from understudy.cli.interruptions import interruptible
from understudy.clusters.cluster import ClusterError
from understudy.clusters.control.client import ControlRefused
from understudy.clusters.control.control_file import NoControlPort
from understudy.clusters.problems import BadValue
from understudy.clusters.processes.run_folder import NotARunFolder, read_cluster_file
from understudy.clusters.values import parse_duration
from understudy.trials.soak.live.clients import TopicBehind, TopicNotReadable
from understudy.trials.soak.live.files import BadState, SoakFiles
from understudy.trials.soak.live.world import LiveWorld
from understudy.trials.soak.loop import MINUTE_MS, ClusterGone, Ending, Soak, SoakStatus
from understudy.trials.soak.minute_file import experiment_file, of_minutes
from understudy.trials.soak.profiles import PROFILES
from understudy.trials.soak.totals import FaultRecord, SoakTotals, total_lines

PROFILE_NAMES = tuple(PROFILES)
DEFAULT_PROFILE = "rough"
DEFAULT_FOR = "8h"
DEFAULT_SETTLE = "2m"
_INTERRUPTED = 130


class BadSoak(Failed):
    """The command line or the run folder cannot be used. The exit code is 3."""

    exit_code = 3


class SoakNotStarted(Failed):
    """Nothing could be injected. The exit code is 2."""

    exit_code = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="RUN", help="the run folder that `understudy up` named")
    parser.add_argument(
        "--profile", choices=PROFILE_NAMES, help=f"the faults (default {DEFAULT_PROFILE}, or the earlier session's)"
    )
    parser.add_argument(
        "--for",
        dest="lasts",
        default=DEFAULT_FOR,
        metavar="DURATION",
        help="how long in all, earlier sessions included",
    )
    parser.add_argument("--seed", type=count, metavar="N", help="what chance is drawn from (default a new seed)")
    parser.add_argument(
        "--settle",
        default=DEFAULT_SETTLE,
        metavar="DURATION",
        help="how long the cluster may take to settle after a fault",
    )
    parser.add_argument(
        "--allow-majority", action="store_true", help="also take the majority of an ISR, or all of it, away"
    )
    parser.add_argument("--quiet", action="store_true", help="print a line for each minute, and none for each fault")
    parser.add_argument(
        "--minute",
        type=count,
        metavar="N",
        help="write the faults of minute N as an experiment file, and inject nothing",
    )


@reported_as(SoakNotStarted, OSError)
@reported_as(BadSoak, BadValue, BadState, ClusterError, NotARunFolder)
def run(options: argparse.Namespace) -> int:
    lasts_ms, settle_ms = parse_duration(options.lasts), parse_duration(options.settle)
    read_cluster_file(options.folder)
    files = SoakFiles(options.folder)
    if options.minute is not None:
        return _offer(options, files)
    files.lock.acquire()
    try:
        return _soak(options, files, lasts_ms, settle_ms)
    finally:
        files.lock.release()


def _soak(options: argparse.Namespace, files: SoakFiles, lasts_ms: float, settle_ms: float) -> int:
    totals = _totals(options, files)
    if totals.violation:
        raise Failed(f"this soak has ended: {totals.violation}; move {files.folder} away to begin anew")
    with interruptible() as interruption:
        with reported_as(SoakNotStarted, NoControlPort, ControlRefused):
            world = LiveWorld(options.folder, files, interruption.wait, totals.checked_ms)
        try:
            totals.sessions += 1
            totals.shape = world.shape
            files.write_totals(totals)
            ending = _begin_and_run(options, world, totals, lasts_ms, settle_ms)
        except TopicBehind as behind:
            ending = Ending(SoakStatus.VIOLATED, str(behind))
            totals.violation = ending.why
        except (TopicNotReadable, ClusterGone) as error:
            ending = Ending(SoakStatus.NOT_INJECTED, str(error))
        finally:
            world.close()
    files.write_totals(totals)
    print("\n".join(total_lines(totals)))
    if ending.status is SoakStatus.VIOLATED:
        path = _write_minutes(files, totals, max(1, totals.minutes - 1), totals.minutes, ending.why)
        print(f"its last minutes as an experiment: {path}")
    return _said(options, ending)


def _begin_and_run(
    options: argparse.Namespace, world: LiveWorld, totals: SoakTotals, lasts_ms: float, settle_ms: float
) -> Ending:
    print(
        f"soak of {options.folder}: profile {totals.profile}, seed {totals.seed}, session {totals.sessions}, "
        f"from minute {totals.minutes + 1}",
        flush=True,
    )
    for note in world.notes:
        print(f"note: {note}", flush=True)
    world.begin(totals)

    def report(line: str, is_minute: bool) -> None:
        if is_minute or not options.quiet:
            print(line, flush=True)

    soak = Soak(
        world,
        totals,
        minutes=lasts_ms / MINUTE_MS,
        settle_ms=settle_ms,
        allow_majority=options.allow_majority,
        report=report,
    )
    return soak.run()


def _totals(options: argparse.Namespace, files: SoakFiles) -> SoakTotals:
    """Return the totals with which the soak continues. Raises BadSoak if the options belong to another soak."""
    found = files.read_totals()
    if found is None:
        seed = options.seed if options.seed is not None else secrets.randbelow(1_000_000) + 1
        return SoakTotals(seed=seed, profile=options.profile or DEFAULT_PROFILE)
    for name, given, before in (("--seed", options.seed, found.seed), ("--profile", options.profile, found.profile)):
        if given not in (None, before):
            raise BadSoak(
                f"{name} {given}: {files.folder} holds a soak with {name} {before}, which would continue; leave the "
                f"option out, or move {files.folder} away to begin anew"
            )
    return found


def _said(options: argparse.Namespace, ending: Ending) -> int:
    match ending.status:
        case SoakStatus.HELD:
            print(f"held: {ending.why}")
            return 0
        case SoakStatus.INTERRUPTED:
            print("interrupted; the same command goes on")
            return _INTERRUPTED
        case SoakStatus.NOT_INJECTED:
            raise SoakNotStarted(ending.why)
        case SoakStatus.VIOLATED | SoakStatus.UNJUDGED:
            pass
    print(
        f"{ending.status.value}: {ending.why}\n"
        f"Nothing more is injected; faults in progress end when they are due. Everything is kept in {options.folder}."
    )
    return 1 if ending.status is SoakStatus.VIOLATED else 2


def _offer(options: argparse.Namespace, files: SoakFiles) -> int:
    """Write the experiment file of a minute."""
    totals = files.read_totals()
    if totals is None:
        raise BadSoak(f"{options.folder} has no soak: {files.folder / 'state.json'} is missing")
    if options.minute > totals.minutes:
        raise BadSoak(f"--minute {options.minute}: the soak of {options.folder} has had {totals.minutes} minutes")
    print(_write_minutes(files, totals, options.minute, options.minute, "Does it happen again?"))
    return 0


def _write_minutes(files: SoakFiles, totals: SoakTotals, first: int, last: int, reason: str) -> Path:
    assert totals.shape is not None, "the soak has begun"
    faults = of_minutes(files.read(FaultRecord), first, last)
    text = experiment_file(totals.shape, faults, first=first, last=last, seed=totals.seed, reason=reason)
    return files.write_experiment(last, text)
