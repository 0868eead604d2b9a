"""Runs an experiment without a fence or a fix, to check that this violates its expectations."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from understudy.trials.experiments.language.document import Experiment
from understudy.trials.experiments.language.expectations import switches
from understudy.trials.experiments.language.frozen import FrozenPlan, freeze
from understudy.trials.experiments.report.verdict import Expected, Status, Verdict


class DefectFound(NamedTuple):
    """The result of the search for one defect.

    Attributes:
        seed: the first seed whose run without the fence or fix violates one of the defect's `breaks`; None without one.
        runs: the number of seeds that were run.
        violation: the expectation that this run violates.
        with_the_fence: why the same seed does not hold with everything on, so that nothing is shown; empty if it holds.
    """

    name: str
    seed: int | None
    runs: int
    violation: Expected | None = None
    with_the_fence: str = ""

    @property
    def is_found(self) -> bool:
        return self.seed is not None and not self.with_the_fence

    def __str__(self) -> str:
        if self.with_the_fence:
            return f"without {self.name}: nothing is shown, because with it seed {self.seed} {self.with_the_fence}"
        if self.violation is None:
            return f"without {self.name}: NOT found within {self.runs} seeds"
        return f"without {self.name}: found by {self.violation.name} at seed {self.seed}: {self.violation.seen}"


def find_defects(experiment: Experiment, run: Callable[[FrozenPlan], Verdict]) -> list[DefectFound]:
    """Run the seeds of every defect of an experiment until it is found.

    Args:
        run: runs a frozen plan.
    """
    found = []
    for name, defect in experiment.defects.items():
        result = DefectFound(name, None, defect.seeds)
        for seed in range(experiment.seed, experiment.seed + defect.seeds):
            verdict = run(freeze(experiment, seed, fences_off=switches(name)))
            broken = [each for each in verdict.violations if each.name in defect.breaks]
            if broken:
                held = run(freeze(experiment, seed))
                why = "" if held.status is Status.HELD else f"is {held.status.value}: {held.why}"
                result = DefectFound(name, seed, seed - experiment.seed + 1, broken[0], why)
                break
        found.append(result)
    return found
