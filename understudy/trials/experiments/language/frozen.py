"""`FrozenPlan`: an experiment with all its ranges drawn from a seed, so that it can be shown and run again."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from understudy.clusters.simulated.randomness import derived
from understudy.clusters.values import CountRange, Span
from understudy.foundation.eventlog.fences import Switch
from understudy.trials.experiments.language.actions import Action
from understudy.trials.experiments.language.document import ClusterPlan, Experiment, Step

D = TypeVar("D", Experiment, ClusterPlan, Step, Action)
R = TypeVar("R", bound=Span | CountRange)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenPlan:
    """An experiment whose ranges have one value each, which a seed has drawn."""

    experiment: Experiment
    seed: int
    fences_off: tuple[Switch, ...] = ()
    """Fences and fixes that are switched off in this run."""

    @property
    def session_ms(self) -> int:
        return int(self.experiment.cluster.session.ms)

    @property
    def run_id(self) -> str:
        """The id of its run, which the event logs of the run have."""
        return f"{self.experiment.name}-{self.seed}"


def freeze(experiment: Experiment, seed: int | None = None, *, fences_off: tuple[Switch, ...] = ()) -> FrozenPlan:
    """Draw every range of an experiment.

    Args:
        seed: by default the seed of the file.
        fences_off: fences and fixes that are switched off; the drawn values do not depend on them.
    """
    chosen = experiment.seed if seed is None else seed
    within = {name: _drawn(span, derived(chosen, "within", name)) for name, span in experiment.expect.within.items()}
    drawn = replace(
        _with_ranges_drawn(experiment, partial(derived, chosen)),
        cluster=_with_ranges_drawn(experiment.cluster, partial(derived, chosen)),
        steps=tuple(drawn_step(number, step, chosen) for number, step in enumerate(experiment.steps, 1)),
        expect=replace(experiment.expect, within=within),
    )
    return FrozenPlan(experiment=drawn, seed=chosen, fences_off=fences_off)


def drawn_step(number: int, step: Step, seed: int) -> Step:
    """Draw every range of a step. Its number and the seed decide the draw."""
    source = partial(derived, seed, "step", number)
    action = None if step.action is None else _with_ranges_drawn(step.action, source, step.action.VALUE)
    return replace(_with_ranges_drawn(step, source), number=number, action=action)


def _with_ranges_drawn(values: D, source: Callable[[str], random.Random], own: str = "") -> D:
    """Draw the ranges among attributes, each from the source of its name; `own` holds the value of an action's key."""
    drawn: dict[str, Any] = {}
    for name in values.__struct_fields__:
        match getattr(values, name):
            case Span() | CountRange() as range_:
                drawn[name] = _drawn(range_, source("value" if name == own else name))
    return replace(values, **drawn)


def _drawn(range_: R, source: random.Random) -> R:
    value = range_.draw(source)
    return type(range_)(value, value)  # type: ignore[arg-type]  # it draws what it consists of
