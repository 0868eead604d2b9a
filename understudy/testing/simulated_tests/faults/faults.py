"""Draws the faults of a test from its seed, and reads those that are written by hand.

A fault is a value: it can be printed, left out while a failure is shrunk, and replayed. Its action is one of the
language of experiments, and its target a role, which is resolved when the fault is injected.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from understudy.clusters.nearest_word import did_you_mean
from understudy.clusters.values import OF_USERS, Trigger
from understudy.foundation.times import moment
from understudy.testing.simulated_tests.arguments import BadArguments
from understudy.testing.simulated_tests.faults.fault_kinds import KINDS, PROFILES, mean_gaps_ms
from understudy.trials.experiments.language.actions import Action

__all__ = ["KINDS", "PROFILES", "BadFault", "Fault", "check_faults", "draw_faults"]

_PICKS: Final = 1 << 16
_FIRST_MS: Final = 20.0
"""Earliest time of the first fault that is drawn."""
EXAMPLE: Final = '"{at: 10s, kill: leader(orders/0), for: 3s}"'


class BadFault(BadArguments):
    """A fault is not one that a test can have. The message names it and what was expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault of a test.

    Attributes:
        at_ms: time since the test began, or since its event.
        action: the action, with everything drawn but its target.
        pick: chooses among those that a target may mean, by its remainder.
        when: the event that it waits for; None for none.
        nth: at which of these events.
        keeps_records: whether a loss of power waits for another in-sync replica of each partition, as drawn ones do.
        found: what the target was when the fault was injected; empty before.
        injected_ms: virtual time since the run began, at which it was injected; 0 before.
    """

    at_ms: float
    action: Action
    pick: int = 0
    when: Trigger | None = None
    nth: int = 1
    keeps_records: bool = False
    found: str = field(default="", compare=False)
    injected_ms: float = field(default=0.0, compare=False)

    def __str__(self) -> str:
        when = "" if self.when is None else f" after {self.when}"
        return f"{moment(self.at_ms):>10}{when}  {self.words}"

    @property
    def words(self) -> str:
        """The action, its target and how long it lasts, in words."""
        from understudy.testing.simulated_tests.faults.steps_by_hand import words_of  # noqa: PLC0415  it loads the language of experiments

        return words_of(self.action) + (f": {self.found}" if self.found else "")

    @property
    def is_of_users(self) -> bool:
        """Whether it strikes a process of the user, and no broker."""
        return any(target.role in OF_USERS for target in self.action.brokers)

    @property
    def step(self) -> str:
        """The fault as one writes it by hand, on the target that it has found."""
        from understudy.testing.simulated_tests.faults.steps_by_hand import step_of  # noqa: PLC0415  it loads the language of experiments

        return step_of(self)


def check_faults(given: object) -> tuple[str, ...]:
    """Check the argument `faults`, and return the kinds and the steps that `draw_faults` takes.

    Args:
        given: the name of a profile, or a list of kinds and of steps of experiments, each as text or as a mapping.

    Raises:
        BadFault: there is no such profile or kind, or a step cannot be read.
    """
    profiles = ", ".join(map(repr, PROFILES))
    if isinstance(given, str):
        if given in PROFILES:
            return PROFILES[given]
        near = did_you_mean(given, PROFILES)
        hint = f"; write faults=[{given!r}] for this kind alone" if given in KINDS else near
        raise BadFault(f"faults is one of {profiles}, or a list of kinds and steps, and not {given!r}{hint}")
    if not isinstance(given, Sequence):
        raise BadFault(f"faults is one of {profiles}, or a list of kinds and steps, and not {given!r}")
    return tuple(_checked(each) for each in given)


def _checked(given: object) -> str:
    if isinstance(given, Mapping):
        given = json.dumps(given)
    if not isinstance(given, str):
        raise BadFault(f"faults has {given!r}; expected the name of a kind, or a step such as {EXAMPLE}")
    if given in KINDS:
        return given
    if ":" not in given:
        raise BadFault(
            f"faults has the unknown kind {given!r}{did_you_mean(given, KINDS)}; there are {', '.join(KINDS)}; or "
            f"write a step such as {EXAMPLE}"
        )
    from understudy.testing.simulated_tests.faults.steps_by_hand import read_step  # noqa: PLC0415  it loads the language of experiments

    read_step(given)
    return given


def draw_faults(source: random.Random, kinds: Sequence[str], *, seconds: float, brokers: int) -> tuple[Fault, ...]:
    """Draw the faults of a test for its first `seconds`, and the ranges in those that are written by hand.

    A test has up to four kinds, so that a frequent one does not hide the effects of the others. The first fault comes
    early in about half of the seeds, for tests that take less than a virtual second.

    Args:
        kinds: as `check_faults` returns them.
    """
    by_hand = [each for each in kinds if each not in KINDS]
    names = sorted({each for each in kinds if each in KINDS})
    drawn = _drawn(source, names, seconds) if names else []
    seed = source.getrandbits(32)
    if not by_hand:
        return tuple(drawn)
    from understudy.testing.simulated_tests.faults.steps_by_hand import drawn_fault  # noqa: PLC0415  it loads the language of experiments

    return (*drawn, *(drawn_fault(number, text, seed, pick=seed % _PICKS) for number, text in enumerate(by_hand, 1)))


def _drawn(source: random.Random, names: Sequence[str], seconds: float) -> list[Fault]:
    chosen = sorted(source.sample(names, source.randint(1, min(4, len(names)))))
    gap_ms = source.choice(mean_gaps_ms(frozenset(names)))
    faults = []
    at_ms = _FIRST_MS * (gap_ms / _FIRST_MS) ** source.random()
    while at_ms < seconds * 1000:
        action = KINDS[source.choice(chosen)](source)
        faults.append(Fault(at_ms=round(at_ms), action=action, pick=source.randrange(_PICKS), keeps_records=True))
        at_ms += 1 + source.expovariate(1 / gap_ms)
    return faults
