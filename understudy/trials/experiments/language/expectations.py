"""The words of `steady` and `expect`: invariants, liveness bounds, marks and conditions of the steady state."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from understudy.checks import client_history
from understudy.checks.groups import GROUP_CHECKS
from understudy.checks.invariant_checker import ALL_CHECKS
from understudy.clusters.findings import FindingKind
from understudy.clusters.problems import BadValue, one_of
from understudy.foundation.eventlog.fences import SWITCHES, Switch
from understudy.trials.experiments.language.marks import MARKS

SAFETY: Final[dict[str, str]] = {
    **{check.id: check.sentence for check in ALL_CHECKS},
    **{check.id: check.sentence for check in client_history.CLIENT_CHECKS},
    **{check.id: check.sentence for check in GROUP_CHECKS},
}
"""Every invariant by its id, as a clause that follows "it should hold that"."""
ALL_SAFETY: Final = "all-safety"


class ClusterState(NamedTuple):
    """A state of the cluster that an experiment may require, and the kinds of findings that contradict it."""

    meaning: str
    contradicted_by: tuple[FindingKind, ...] = ()


LIVENESS: Final = {
    "L1": ClusterState("there is exactly one active controller", (FindingKind.CONTROLLER,)),
    "L2": ClusterState("every partition has a live leader", (FindingKind.LEADERLESS,)),
    "L3": ClusterState("every live replica is in sync", (FindingKind.UNDER_REPLICATED,)),
    "L4": ClusterState(
        "the metadata and replicas of all brokers agree with ZooKeeper", (FindingKind.METADATA, FindingKind.REPLICA)
    ),
    "L5": ClusterState("producers are acknowledged at 80 % of the rate before the first fault"),
    "L7": ClusterState("the controller stays, and it writes no partition state any more"),
    "settled": ClusterState("the cluster has settled", tuple(FindingKind)),
}
"""States that must be reached after the last fault has ended, by id."""

STEADY: Final = {
    "one-controller": ClusterState("there is exactly one active controller", (FindingKind.CONTROLLER,)),
    "no-leaderless": ClusterState("every partition has a leader", (FindingKind.LEADERLESS,)),
    "no-under-replicated": ClusterState("every replica is in sync", (FindingKind.UNDER_REPLICATED,)),
    "settled": ClusterState("there is no finding about the cluster at all", tuple(FindingKind)),
    "producers-acknowledged": ClusterState("every producer has been acknowledged"),
}
"""Conditions that may be required before the first step."""

_SERIES = re.compile(r"([A-Z])(\d+)-\1?(\d+)")


def invariants(word: object) -> tuple[str, ...]:
    """Return the ids of `C1`, of `P1-P6`, or of `all-safety`.

    Raises:
        BadValue: there is no such invariant.
    """
    if word == ALL_SAFETY:
        return tuple(SAFETY)
    if match := _SERIES.fullmatch(str(word)):
        letter, first, last = match[1], int(match[2]), int(match[3])
        found = tuple(f"{letter}{number}" for number in range(first, last + 1) if f"{letter}{number}" in SAFETY)
        if not found:
            raise BadValue(f"{word!r} names no invariant (there are: {', '.join(SAFETY)})")
        return found
    if word not in SAFETY:
        raise one_of(word, (ALL_SAFETY, *SAFETY), "invariant")
    return (str(word),)


def switches(word: object) -> tuple[Switch, ...]:
    """Return the fence of `broker.controller-epoch`, the fix of `kip-380`, or several, joined by ` + `.

    Raises:
        BadValue: there is no such fence or fix.
    """
    names = [each.strip() for each in str(word).split("+")]
    for name in names:
        if name not in SWITCHES:
            raise one_of(name, tuple(SWITCHES), "fence or fix")
    return tuple(SWITCHES[name] for name in names)


def breakable(word: object) -> str:
    """Return an expectation that a defect breaks: an invariant, a liveness bound or a mark. Raises BadValue."""
    if word not in SAFETY and word not in LIVENESS and word not in MARKS:
        raise one_of(word, (*SAFETY, *LIVENESS), "expectation")
    return str(word)
