"""Chooses the next fault of a soak, as a function of the cluster's situation and of a random source.

A fault that takes brokers away must leave every partition with more than it takes: never the majority of an ISR, never
its last member, unless that is allowed.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from understudy.clusters.verb_table import VERBS
from understudy.trials.soak.profiles import (
    ANOTHER,
    BROKER,
    CONTROLLER,
    KINDS,
    SAME,
    ZOOKEEPER,
    FaultKind,
    Profile,
    StepForm,
)

TAKING: Final = frozenset(name for name, verb in VERBS.items() if verb.undo)
"""Names of the verbs after which a broker does not serve requests for a while."""
ZOOKEEPER_TARGET: Final = "zookeeper"


class PartitionSeen(NamedTuple):
    """A partition as ZooKeeper has it; `leader` is -1 if it has none."""

    name: str
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int


class Situation(NamedTuple):
    """A cluster at one moment.

    Attributes:
        running: the brokers that run, are not paused, and are registered.
        away: the other brokers.
        is_proxied: whether traffic can be held.
        has_zookeeper: whether ZooKeeper can be a target.
    """

    running: tuple[int, ...]
    away: frozenset[int]
    controller: int | None
    partitions: tuple[PartitionSeen, ...]
    is_proxied: bool
    has_zookeeper: bool


class BoundStep(NamedTuple):
    """A verb with its target: a broker's id as text, or `zookeeper`.

    Attributes:
        role: what the broker was when it was drawn, for example `leader of orders-0`; may be empty.
        lasts_ms: the time after which it is undone; None if it is not undone.
        wait_ms, after_end: as in `StepForm`.
    """

    verb: str
    target: str
    role: str
    lasts_ms: float | None
    wait_ms: float
    after_end: bool


class PlannedFault(NamedTuple):
    """A fault with everything drawn."""

    kind: str
    steps: tuple[BoundStep, ...]
    rest_ms: float
    """Time for which the cluster rests afterwards."""


def too_many(situation: Situation, taken: Collection[int]) -> str:
    """Return why brokers may not be taken away together with those that are already away; empty if they may.

    Members that are away count even if they have left the ISR meanwhile. Otherwise brokers taken one after the other
    could be a majority of the former ISR.
    """
    away = situation.away | set(taken)
    for partition in situation.partitions:
        members = set(partition.isr) | (situation.away & set(partition.replicas))
        lost = members & away
        if not lost & set(taken):
            continue
        if not set(partition.isr) - away:
            return f"{partition.name} would have no in-sync replica left of {list(partition.isr)}"
        if 2 * len(lost) > len(members):
            return f"{partition.name} would lose {sorted(lost)}, the majority of {sorted(members)}"
    return ""


def next_fault(
    profile: Profile,
    situation: Situation,
    source: random.Random,
    *,
    session_ms: int,
    allow_majority: bool = False,
) -> PlannedFault | str:
    """Draw a fault of a profile that may be injected; return why there is none.

    Args:
        session_ms: the ZooKeeper session timeout of the brokers.
        allow_majority: whether a fault may take the majority of an ISR, or all of it.
    """
    refusals = []
    for name in _shuffled(profile, source):
        found = _bind(KINDS[name], situation, source, session_ms, allow_majority)
        if not isinstance(found, str):
            return PlannedFault(name, found, profile.rest.draw(source, session_ms))
        refusals.append(f"{name}: {found}")
    return "; ".join(refusals)


def _shuffled(profile: Profile, source: random.Random) -> list[str]:
    """Return the faults of a profile, in an order in which those with more weight tend to come first."""
    left = dict(profile.weights)
    order = []
    while left:
        name = source.choices(list(left), list(left.values()))[0]
        order.append(name)
        del left[name]
    return order


def _bind(
    kind: FaultKind, situation: Situation, source: random.Random, session_ms: int, allow_majority: bool
) -> tuple[BoundStep, ...] | str:
    """Return the steps of a fault with their brokers, or why there are none."""
    if kind.needs_proxy and not situation.is_proxied:
        return "the cluster has no proxy"
    found = _brokers(kind.steps, situation, source, [], allow_majority)
    if isinstance(found, str):
        return found
    return tuple(_step(form, *bound, source, session_ms) for form, bound in zip(kind.steps, found, strict=True))


def _brokers(
    forms: Sequence[StepForm], situation: Situation, source: random.Random, taken: list[int], allow_majority: bool
) -> list[tuple[str, str]] | str:
    """Return the target and the role of each step, or why there are none.

    If a broker leaves none for a later step, for example a killed controller for a deposition, another one is tried.
    """
    if not forms:
        return []
    form, why = forms[0], ""
    if form.target == ZOOKEEPER:
        if not situation.has_zookeeper:
            return "the cluster has not started its ZooKeeper"
        rest = _brokers(forms[1:], situation, source, taken, allow_majority)
        return rest if isinstance(rest, str) else [(ZOOKEEPER_TARGET, ""), *rest]
    for broker, role in _candidates(form, situation, source, taken):
        more = [broker] if form.verb in TAKING and broker not in taken else []
        why = "" if allow_majority or not more else too_many(situation, [*taken, *more])
        if why:
            continue
        rest = _brokers(forms[1:], situation, source, [*taken, *more], allow_majority)
        if not isinstance(rest, str):
            return [(str(broker), role), *rest]
        why = rest
    return why or f"no broker is {form.target}"


def _candidates(
    form: StepForm, situation: Situation, source: random.Random, taken: Sequence[int]
) -> list[tuple[int, str]]:
    """Return the brokers that a step may act on, each with its role, in the order in which they are tried."""
    controller = situation.controller
    if form.target == SAME:
        return [(broker, "") for broker in taken[-1:]]
    if form.target == CONTROLLER:
        is_up = controller in situation.running and controller not in taken
        return [(controller, "controller")] if controller is not None and is_up else []
    assert form.target in (BROKER, ANOTHER), form.target
    found = [(broker, "") for broker in source.sample(situation.running, len(situation.running))]
    way = source.randrange(3)
    if way == 0 and controller is not None:
        found.insert(0, (controller, "controller"))
    elif way == 1 and situation.partitions:
        partition = source.choice(situation.partitions)
        found.insert(0, (partition.leader, f"leader of {partition.name}"))
    return [(broker, role) for broker, role in found if broker in situation.running and broker not in taken]


def _step(form: StepForm, target: str, role: str, source: random.Random, session_ms: int) -> BoundStep:
    lasts_ms = None if form.lasts is None else max(1.0, form.lasts.draw(source, session_ms))
    return BoundStep(form.verb, target, role, lasts_ms, form.wait.draw(source, session_ms), form.after_end)
