"""`FrozenPlan`: an experiment with all its ranges drawn from a seed, so that it can be shown and run again."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from understudy.clusters.simulated.randomness import derived
from understudy.clusters.values import CountRange, Span
from understudy.foundation.eventlog.fences import Switch
from understudy.trials.experiments.language.actions import Action
from understudy.trials.experiments.language.document import Experiment, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenStep:
    """A step with its durations in milliseconds and its counts drawn; the ranges of its action have one value each."""

    number: int
    """From 1, in the order of the file."""
    step: Step
    at_ms: float | None
    wait_ms: float
    nth: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenPlan:
    """An experiment, a seed, and the values that the seed draws."""

    experiment: Experiment
    seed: int
    session_ms: int
    lasts_ms: float
    steps: tuple[FrozenStep, ...]
    within_ms: Mapping[str, float]
    fences_off: tuple[Switch, ...] = ()
    """Fences and fixes that are switched off in this run."""

    @property
    def brokers(self) -> int:
        return self.experiment.cluster.brokers


def freeze(experiment: Experiment, seed: int | None = None, *, fences_off: tuple[Switch, ...] = ()) -> FrozenPlan:
    """Draw every range of an experiment.

    Args:
        seed: by default the seed of the file.
        fences_off: fences and fixes that are switched off; the drawn values do not depend on them.
    """
    chosen = experiment.seed if seed is None else seed
    return FrozenPlan(
        experiment=experiment,
        seed=chosen,
        session_ms=int(experiment.cluster.session.draw(derived(chosen, "session"))),
        lasts_ms=experiment.lasts.draw(derived(chosen, "lasts")),
        steps=tuple(_freeze_step(number, step, chosen) for number, step in enumerate(experiment.steps, 1)),
        within_ms={name: span.draw(derived(chosen, "within", name)) for name, span in experiment.expect.within.items()},
        fences_off=fences_off,
    )


def _freeze_step(number: int, step: Step, seed: int) -> FrozenStep:
    def source(name: str) -> random.Random:
        return derived(seed, "step", number, name)

    return FrozenStep(
        number=number,
        step=step if step.action is None else replace(step, action=_freeze_action(step.action, source)),
        at_ms=None if step.at is None else step.at.draw(source("at")),
        wait_ms=step.wait.draw(source("wait")),
        nth=step.nth.draw(source("nth")),
    )


def _freeze_action(action: Action, source: Callable[[str], random.Random]) -> Action:
    own, _ = action.VALUE
    drawn: dict[str, Any] = {}
    for each in fields(action):
        match getattr(action, each.name):
            case Span() | CountRange() as range_:
                value = range_.draw(source("value" if each.name == own else each.name))
                drawn[each.name] = type(range_)(value, value)  # type: ignore[arg-type]  # it draws what it consists of
    return replace(action, **drawn)
