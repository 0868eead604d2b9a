"""`understudy experiment`: run failure experiments from files, simulated, on real processes, or in containers.

The exit code of `run` is 0 if everything held, 1 if an expectation was violated, 2 if a fault was not injected
or the steady state was not reached, or the cluster did not start, or records are missing so that the run cannot be
judged, and 3 if the file cannot be used.
"""

from __future__ import annotations

import argparse
import json
import shlex
import tempfile
import time
from collections import Counter
from pathlib import Path

from understudy.cli.arguments import BadInput, Failed, reported_as
from understudy.cli.fences import fences_off
from understudy.cli.interruptions import ending_on_signals
from understudy.cli.page_file import try_to_write_page
from understudy.clusters.cluster import ClusterError
from understudy.clusters.java import JavaNotFound
from understudy.clusters.problems import BadExperiment
from understudy.clusters.processes.cluster_view import NO_ANSWER
from understudy.clusters.processes.zookeeper_server import ZooKeeperNotStarted
from understudy.foundation.times import duration, moment
from understudy.trials.experiments.defects import find_defects
from understudy.trials.experiments.engines import ENGINES, capability_lines
from understudy.trials.experiments.engines import capabilities as able
from understudy.trials.experiments.language.document import Experiment
from understudy.trials.experiments.language.frozen import FrozenPlan, freeze
from understudy.trials.experiments.language.library import SUFFIX, find, names
from understudy.trials.experiments.language.reading import json_schema, read_experiment, read_experiment_file
from understudy.trials.experiments.language.template import template
from understudy.trials.experiments.report.explain import explain as explain_plan
from understudy.trials.experiments.report.html_page import BEGINS
from understudy.trials.experiments.report.verdict import Status, Verdict
from understudy.trials.experiments.running import PAGE, CannotRun, run_experiment, run_once
from understudy.trials.experiments.simulated.engine import SimulatedEngine

RUNS = Path("runs")
_MOST_SEEDS = 100_000


class BadFile(Failed):
    """An experiment file cannot be used. The exit code is 3."""

    exit_code = 3


class ExperimentNotStarted(Failed):
    """The cluster of an experiment cannot be started, or does not answer any more: the run shows nothing."""

    exit_code = 2


FILE = "an experiment file, or a name that `understudy experiment list` prints"
"""The help of the argument FILE."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(required=True, metavar="ACTION", title="actions")
    run_parser = actions.add_parser(
        "run",
        help="run an experiment, and judge it",
        description="Run an experiment, and judge it. The exit code is 0 if everything held, 1 if an expectation was "
        "violated, 2 if a fault was not injected, the cluster was not ready, or records are missing so that the run "
        "cannot be judged, 3 if the file cannot be used.",
    )
    run_parser.add_argument("file", metavar="FILE", help=FILE)
    run_parser.add_argument(
        "--engine", choices=tuple(ENGINES), help="where it runs (default the first that the file names)"
    )
    chosen = run_parser.add_mutually_exclusive_group()
    chosen.add_argument("--seed", type=int, metavar="N", help="what chance is drawn from (default the file's)")
    chosen.add_argument("--seeds", type=seeds, metavar="A..B", help="run all of these seeds")
    run_parser.add_argument("--without", metavar="SWITCH", help="switch a fence or a fix off; several are joined by +")
    run_parser.add_argument(
        "--dir", type=Path, metavar="DIR", help="keep the run folder here (default a new one in ./runs)"
    )
    run_parser.add_argument("--trace", action="store_true", help="also write trace.json for ui.perfetto.dev")
    run_parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    run_parser.set_defaults(run=run)
    defects_parser = actions.add_parser(
        "defects",
        help="run an experiment without its fences and fixes, which it must notice",
        description="Run an experiment in the simulator without each fence and fix that it names. It must notice each.",
    )
    defects_parser.add_argument("file", metavar="FILE", help=FILE)
    defects_parser.set_defaults(run=defects)
    explain_parser = actions.add_parser(
        "explain",
        help="say what an experiment does, and run nothing",
        description="Say what an experiment does, step by step, and run nothing.",
    )
    explain_parser.add_argument("file", metavar="FILE", help=FILE)
    explain_parser.add_argument("--seed", type=int, metavar="N", help="explain the run of this seed")
    explain_parser.set_defaults(run=explain)
    new_parser = actions.add_parser(
        "new",
        help="write a commented experiment file",
        description="Write an experiment file with comments, as NAME.yaml in this folder.",
    )
    new_parser.add_argument("name", metavar="NAME", help="of the experiment")
    new_parser.set_defaults(run=new)
    for name, help_text, function in (
        ("list", "list the experiments that come with Understudy", list_all),
        ("schema", "print the JSON Schema of experiment files", schema),
        ("capabilities", "print what each engine can do", capabilities),
    ):
        description = f"{help_text[0].upper()}{help_text[1:]}."
        actions.add_parser(name, help=help_text, description=description).set_defaults(run=function)


def seeds(text: str) -> range:
    """Parse `A..B`, both of them included."""
    low, dots, high = text.partition("..")
    if not dots or not low.isdecimal() or not high.isdecimal() or not 0 <= int(high) - int(low) < _MOST_SEEDS:
        raise argparse.ArgumentTypeError(f"{text!r} is no range of seeds, for example 1..200")
    return range(int(low), int(high) + 1)


def run(options: argparse.Namespace) -> int:
    experiment = _read(options.file)
    engine = options.engine or next((each for each in experiment.engines if each in ENGINES), "sim")
    chosen = options.seeds or [experiment.seed if options.seed is None else options.seed]
    if len(chosen) > 1 and options.json:
        raise BadInput("--json prints one verdict; give --seed")
    worst = 0
    for seed in chosen:
        with ending_on_signals():
            verdict, folder = _run_one(options, experiment, engine, seed)
        if options.json:
            print((folder / "verdict.json").read_text(encoding="utf-8"), end="")
        elif len(chosen) == 1:
            print("\n".join(describe(verdict, folder)), flush=True)
        elif verdict.exit_code or seed == chosen[-1]:
            print(f"seed {seed}: {verdict.status.value}: {verdict.why}; {folder / 'report.html'}", flush=True)
        worst = max(worst, verdict.exit_code)
    return worst


@reported_as(BadInput, CannotRun)
@reported_as(ExperimentNotStarted, ClusterError, JavaNotFound, ZooKeeperNotStarted, OSError, *NO_ANSWER)
def _run_one(options: argparse.Namespace, experiment: Experiment, engine: str, seed: int) -> tuple[Verdict, Path]:
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    folder = options.dir or RUNS / f"{experiment.name}-{engine}-{seed}-{stamp}"
    if options.dir is not None and options.seeds is not None:
        folder = options.dir / f"seed-{seed}"
    if folder.exists() and any(folder.iterdir()):
        raise BadInput(f"{folder} is not empty; give a new folder with --dir")
    command = f"understudy experiment run {shlex.quote(options.file)} --engine {engine} --seed {seed}"
    command += f" --without {shlex.quote(options.without)}" if options.without else ""
    plan = freeze(experiment, seed, fences_off=fences_off(options.without))
    verdict = run_experiment(
        plan,
        ENGINES[engine],
        folder,
        command=command,
        with_trace=options.trace,
        write_page=try_to_write_page if options.seeds is None else _write_no_page,
    )
    return verdict, folder


def _write_no_page(folder: Path, file: Path) -> bool:
    """Write no page, because there are many runs: `understudy page` writes the page of one."""
    return False


def describe(verdict: Verdict, folder: Path) -> list[str]:
    """Return the lines that `run` prints."""
    lines = [f"{verdict.name} on {verdict.engine}, seed {verdict.seed}", ""]
    lines.append(f"  {moment(verdict.timeline.from_ms):>10}  {BEGINS}")
    for step in verdict.steps:
        when = "not done" if step.done_ms is None else moment(step.done_ms)
        brokers = f"  [broker {', '.join(map(str, step.brokers))}]" if step.brokers else ""
        lines.append(f"  {when:>10}  {step.text}{brokers}" + (f": {step.failure}" if step.failure else ""))
    lines.append("")
    shown_always = (Status.VIOLATED, Status.UNJUDGED)
    shown = [each for each in verdict.expected if each.kind != "always" or each.status in shown_always]
    for each in shown:
        where = f" at {each.where}" if each.where else ""
        lines.append(f"  {each.status.value:<9}  {each.kind} {each.name}: {each.seen}{where}")
    always = [each for each in verdict.expected if each.kind == "always"]
    numbers = Counter(each.status for each in always)
    lines.append(
        f"  {numbers[Status.HELD]} of {len(always)} invariants held"
        + (" in the records that are there" if verdict.missing else "")
        + f", {numbers[Status.UNTESTED]} had nothing to test"
        + (f", {numbers[Status.UNJUDGED]} cannot be judged" if numbers[Status.UNJUDGED] else "")
    )
    lines += [f"  missing: {missing}" for missing in verdict.missing]
    for failover in verdict.failovers:
        parts = (
            ("detection", failover.detection_ms),
            ("election", failover.election_ms),
            ("takeover", failover.takeover_ms),
            ("propagation", failover.propagation_ms),
        )
        shares = ", ".join(f"{name} {duration(ms)}" for name, ms in parts if ms is not None)
        lines.append(f"  failover from broker {failover.previous_broker} to {failover.broker}: {shares}")
    clients = verdict.clients
    lost = f", {clients.all_lost:,} acknowledged and lost" if clients.lost else ""
    lines.append(f"  {clients.acknowledged:,} of {clients.sent:,} records acknowledged, {clients.read:,} read{lost}")
    lines += ["", f"{verdict.status.value}: {verdict.why}"]
    page = folder / PAGE
    links = (each.link for each in verdict.violations if each.link)
    if page.exists() and (link := next(links, "")):
        lines.append(f"see it: {page.absolute().as_uri()}{link}")
    return [*lines, f"report: {folder / 'report.html'}"]


def defects(options: argparse.Namespace) -> int:
    experiment = _read(options.file)
    if not experiment.defects:
        raise BadInput(f"{options.file} has no defects; docs/guides/experiments.md says how to add one")

    def run_plan(plan: FrozenPlan) -> Verdict:
        with tempfile.TemporaryDirectory() as folder:
            return run_once(plan, SimulatedEngine, Path(folder), command="")

    found = find_defects(experiment, run_plan)
    print("\n".join(map(str, found)))
    return 0 if all(each.is_found for each in found) else 1


def explain(options: argparse.Namespace) -> int:
    print("\n".join(explain_plan(freeze(_read(options.file), options.seed), able())))
    return 0


def list_all(options: argparse.Namespace) -> int:
    experiments = [_read(name) for name in names()]
    width = max(len(each.name) for each in experiments)
    for each in experiments:
        print(f"{each.name:<{width}}  {', '.join(each.engines):<18}  {each.title}")
    return 0


def new(options: argparse.Namespace) -> int:
    name = options.name.removesuffix(SUFFIX)
    file = Path(f"{name}{SUFFIX}")
    text = template(Path(name).name)
    with reported_as(BadFile, BadExperiment):
        read_experiment(text, str(file))
    with reported_as(Failed, OSError), file.open("x", encoding="utf-8") as opened:
        opened.write(text)
    print(f"{file}: now `understudy experiment explain {shlex.quote(str(file))}`")
    return 0


def schema(options: argparse.Namespace) -> int:
    print(json.dumps(json_schema(), indent=2))
    return 0


def capabilities(options: argparse.Namespace) -> int:
    print("\n".join(capability_lines()))
    return 0


@reported_as(BadFile, BadExperiment)
def _read(word: str) -> Experiment:
    return read_experiment_file(find(word))
