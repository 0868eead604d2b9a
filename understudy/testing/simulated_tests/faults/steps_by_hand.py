"""Reads faults that are written by hand, as steps of experiments, and writes any fault as such a step."""

from __future__ import annotations

import json
from typing import Final

from msgspec.structs import replace

from understudy.clusters.problems import BadExperiment
from understudy.clusters.values import SERVICE, CountRange, Span, Target, parse_target
from understudy.testing.simulated_tests.faults.faults import EXAMPLE, BadFault, Fault
from understudy.trials.experiments.language.action_table import ACTIONS
from understudy.trials.experiments.language.actions import AT_ONCE, Action
from understudy.trials.experiments.language.document import Step
from understudy.trials.experiments.language.frozen import drawn_step
from understudy.trials.experiments.language.reading import STEP, read_document, targets_of
from understudy.trials.experiments.report.explain import step_document, step_text

_OF_LOADS: Final = ("produce", "join", "settle", "bind")
"""Actions that need the load or the runner of an experiment."""


def read_step(text: str) -> Step:
    """Read a step of an experiment; the braces around it may be left out. Raises BadFault."""
    try:
        step: Step = read_document(text if text.lstrip().startswith("{") else f"{{{text}}}", "a fault", STEP)
    except BadExperiment as bad:
        problems = "; ".join(problem.message for problem in bad.problems)
        raise BadFault(f"faults has the step {text!r}, which cannot be read: {problems}") from None
    if step.action is None or step.action.name in _OF_LOADS or not ACTIONS[step.action.name].is_fault:
        raise BadFault(f"faults has the step {text!r}, which injects no fault; expected for example {EXAMPLE}")
    if step.at is None and step.when is None:
        raise BadFault(f"faults has the step {text!r}, which needs `at` or `when`, as in {EXAMPLE}")
    if step.exclude or step.bind_as or step.mark or any(target.role == "bound" for target in targets_of(step)):
        raise BadFault(f"faults has the step {text!r}; `not`, `as`, `mark` and their names are for experiments only")
    return step


def drawn_fault(number: int, text: str, seed: int, *, pick: int) -> Fault:
    """Return the fault of a step, with its ranges drawn by its number and the seed.

    Args:
        pick: as in `Fault`.
    """
    step = drawn_step(number, read_step(text), seed)
    assert step.action is not None
    at_ms = (0.0 if step.at is None else step.at.ms) + step.wait.ms
    return Fault(at_ms=at_ms, action=step.action, pick=pick, when=step.when, nth=step.nth.low)


def words_of(action: Action) -> str:
    """An action, its target and how long it lasts, in words."""
    return step_text(Step(action=action))


def step_of(fault: Fault) -> str:
    """A fault as one writes it by hand, on the target that it has found."""
    action = fault.action
    if fault.found and action.brokers:
        action = replace(action, brokers=tuple(map(_target, fault.found.split(", "))))
    at = None if fault.when is not None else Span(fault.at_ms, fault.at_ms)
    wait = AT_ONCE if fault.when is None else Span(fault.at_ms, fault.at_ms)
    step = Step(action=action, at=at, when=fault.when, nth=CountRange(fault.nth, fault.nth), wait=wait)
    return json.dumps(step_document(step))


def _target(node: str) -> Target:
    return parse_target(node) if node.startswith("broker-") else Target(SERVICE, name=node)
