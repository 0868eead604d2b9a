"""Runs an experiment in the simulator for a test."""

from __future__ import annotations

from pathlib import Path

from understudy.trials.experiments.judging import judge
from understudy.trials.experiments.language.frozen import freeze
from understudy.trials.experiments.language.reading import read_experiment
from understudy.trials.experiments.report.verdict import Verdict
from understudy.trials.experiments.runner import Runner
from understudy.trials.experiments.simulated.engine import SimulatedEngine

HEAD = "schema: understudy/v1\nname: one\n"


def run(rest: str, folder: Path, *, seed: int | None = None) -> Verdict:
    """Run the file that begins with `HEAD`, and return its verdict."""
    return run_text(HEAD + rest, folder, seed=seed)


def run_text(text: str, folder: Path, *, seed: int | None = None) -> Verdict:
    """Run a whole file, and return its verdict."""
    plan = freeze(read_experiment(text, "f.yaml"), seed)
    engine = SimulatedEngine.begin(plan, folder)
    try:
        return judge(Runner(plan, engine).run(), "understudy experiment run f.yaml")
    finally:
        engine.close()
