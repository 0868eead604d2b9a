"""The profiles of a soak, as data: which faults there are, how often each comes, and how long the cluster rests.

docs/guides/soak.md has the same tables; a test compares them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class Range(NamedTuple):
    """A duration that is drawn: milliseconds, or ZooKeeper session timeouts if `in_sessions`."""

    low: float
    high: float
    in_sessions: bool = False

    def draw(self, source: random.Random, session_ms: int) -> float:
        """Draw whole milliseconds."""
        unit_ms = session_ms if self.in_sessions else 1.0
        return float(round(source.uniform(self.low, self.high) * unit_ms))

    def __str__(self) -> str:
        if self.in_sessions:
            return f"{self.low:g} to {self.high:g} sessions"
        return f"{self.low / 1000:g} to {self.high / 1000:g} s"


BROKER: Final = "a broker"
"""Target that is drawn: the controller, the leader of some partition or any broker, each in a third of the draws."""
ANOTHER: Final = "another broker"
"""Target that no earlier step has taken."""
SAME: Final = "the same broker"
CONTROLLER: Final = "the controller"
ZOOKEEPER: Final = "ZooKeeper"


class StepForm(NamedTuple):
    """One verb of a fault.

    Attributes:
        verb: a verb of `understudy.clusters.verb_table`.
        target: the target of the verb, one of the constants of this module.
        lasts: the time after which the cluster undoes it; None if there is nothing to undo.
        wait: the time after which it is done, from the beginning of the fault or from the end of the step before.
        after_end: whether `wait` begins when the step before has ended and its broker serves requests again.
    """

    verb: str
    target: str
    lasts: Range | None = None
    wait: Range = Range(0, 0)
    after_end: bool = False


class FaultKind(NamedTuple):
    """A fault: what it is, in words, and its verbs.

    Attributes:
        needs_proxy: whether the cluster must have been started with `--proxied`.
    """

    meaning: str
    steps: tuple[StepForm, ...]
    needs_proxy: bool = False


_SHORT: Final = Range(0.2, 0.7, in_sessions=True)
_LONG: Final = Range(1.3, 2.5, in_sessions=True)
_DOWN: Final = Range(1_000, 5_000)
_AT_ONCE: Final = Range(0, 1_000)

KINDS: Final[Mapping[str, FaultKind]] = MappingProxyType(
    {
        "depose": FaultKind("delete /controller; its owner keeps running", (StepForm("depose", CONTROLLER),)),
        "restart": FaultKind("stop a broker by a controlled shutdown", (StepForm("stop", BROKER, _DOWN),)),
        "short-pause": FaultKind("pause a broker, shorter than its session", (StepForm("pause", BROKER, _SHORT),)),
        "kill": FaultKind("kill a broker", (StepForm("kill", BROKER, _DOWN),)),
        "long-pause": FaultKind("pause a broker past the end of its session", (StepForm("pause", BROKER, _LONG),)),
        "isolate": FaultKind(
            "hold all traffic of a broker past the end of its session",
            (StepForm("isolate", BROKER, _LONG),),
            needs_proxy=True,
        ),
        "pause-zookeeper": FaultKind("pause ZooKeeper", (StepForm("pause", ZOOKEEPER, _SHORT),)),
        "restart-zookeeper": FaultKind("stop ZooKeeper", (StepForm("stop", ZOOKEEPER, _DOWN),)),
        "kill-restarted": FaultKind(
            "stop a broker, and kill it as soon as it is back and may not be in sync yet",
            (StepForm("stop", BROKER, _AT_ONCE), StepForm("kill", SAME, _DOWN, after_end=True)),
        ),
        "kill-and-depose": FaultKind(
            "kill a broker, and depose the controller at the same time",
            (StepForm("kill", BROKER, _DOWN), StepForm("depose", CONTROLLER, wait=_AT_ONCE)),
        ),
        "kill-and-pause": FaultKind(
            "kill a broker, and pause another one past the end of its session",
            (StepForm("kill", BROKER, _DOWN), StepForm("pause", ANOTHER, _LONG, _AT_ONCE)),
        ),
        "pause-and-pause-zookeeper": FaultKind(
            "pause a broker past the end of its session, and ZooKeeper at the same time",
            (StepForm("pause", BROKER, _LONG), StepForm("pause", ZOOKEEPER, _SHORT, _AT_ONCE)),
        ),
    }
)
"""Every fault by its name."""


class Profile(NamedTuple):
    """The faults of a soak and the rests between them.

    Attributes:
        weights: how often each fault comes, relative to the others.
        rest: the time without a fault once the cluster has settled.
    """

    weights: Mapping[str, int]
    rest: Range


_GENTLE: Final = {"depose": 3, "restart": 3, "short-pause": 4}
_ROUGH: Final = {**_GENTLE, "kill": 6, "long-pause": 4, "isolate": 4}
_EVIL: Final = {
    **_ROUGH,
    "pause-zookeeper": 2,
    "restart-zookeeper": 2,
    "kill-restarted": 4,
    "kill-and-depose": 4,
    "kill-and-pause": 3,
    "pause-and-pause-zookeeper": 2,
}

PROFILES: Final[Mapping[str, Profile]] = MappingProxyType(
    {
        "gentle": Profile(_GENTLE, Range(5_000, 15_000)),
        "rough": Profile(_ROUGH, Range(3_000, 10_000)),
        "evil": Profile(_EVIL, Range(500, 4_000)),
    }
)
"""Every profile by its name."""
