"""Draws the faults of a test from its seed, and injects them into brokers and services.

A fault is a value: it can be printed, left out while a failure is shrunk, and replayed. Its target is a role, which is
resolved when the fault is injected.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.clusters.virtual.world import VirtualWorld
from understudy.trials.seeds.faults import KINDS as BROKER_KINDS
from understudy.trials.seeds.faults import Fault as BrokerFault
from understudy.trials.seeds.faults import drawn_detail, inject

SERVICE_KINDS: Final = ("kill-service", "pause-service", "isolate-service", "slow-service")
KINDS: Final = (*BROKER_KINDS, *SERVICE_KINDS)
PROFILES: Final[dict[str, tuple[str, ...]]] = {
    "none": (),
    "failover": ("kill", "pause", "stop", "depose", "expire"),
    "evil": KINDS,
}
"""The kinds of faults by the name of their profile."""

_GAPS_MS: Final = (300, 1_500, 4_000, 10_000)
_LASTS_MS: Final = (50, 300, 1_500, 4_000, 8_500)
_SLOW_S: Final = 0.25
_PICKS: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault of a test.

    Attributes:
        at_ms: time since the test began.
        kind: one of `KINDS`.
        role: `controller`, `leader`, `broker` or `service`.
        pick: chooses among those that have the role, by its remainder.
        lasts_ms: how long it lasts, or how long a killed process is down.
        detail: a point, a path, a direction or a number, as the kind needs it.
    """

    at_ms: int
    kind: str
    role: str
    pick: int
    lasts_ms: int
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.at_ms / 1000:8.3f} s  {self.words}"

    @property
    def words(self) -> str:
        """What is injected, into what, for how long."""
        what = " ".join(filter(None, (self.kind, self.detail)))
        return f"{what}: the {self.role}, for {self.lasts_ms / 1000:g} s"


def draw_faults(source: random.Random, kinds: Sequence[str], *, seconds: float, brokers: int) -> tuple[Fault, ...]:
    """Draw the faults of a test for its first `seconds`.

    A test has up to four kinds, so that a frequent one does not hide the effects of the others.
    """
    if not kinds:
        return ()
    chosen = sorted(source.sample(sorted(kinds), source.randint(1, min(4, len(kinds)))))
    gap_ms = source.choice(_GAPS_MS)
    faults: list[Fault] = []
    at_ms = source.randint(0, gap_ms)
    while at_ms < seconds * 1000:
        kind = source.choice(chosen)
        role = "service" if kind in SERVICE_KINDS else source.choice(("controller", "leader", "leader", "broker"))
        faults.append(
            Fault(
                at_ms=at_ms,
                kind=kind,
                role=role,
                pick=source.randrange(_PICKS),
                lasts_ms=source.choice(_LASTS_MS),
                detail="" if kind in SERVICE_KINDS else drawn_detail(source, kind),
            )
        )
        at_ms += 1 + int(source.expovariate(1 / gap_ms))
    return tuple(faults)


class FaultInjector:
    """Injects the faults of a test at their times, from now on, until it is stopped."""

    def __init__(self, world: VirtualWorld, faults: Sequence[Fault]) -> None:
        self.injected: list[Fault] = []
        self._world = world
        self._is_stopped = False
        for fault in faults:
            world.after(fault.at_ms / 1000, partial(self._inject, fault))

    def stop(self) -> None:
        """Inject no more, and end every fault: all brokers and services run, and all links are healed."""
        self._is_stopped = True
        world = self._world
        world.cluster.heal()
        world.heal()

    def _inject(self, fault: Fault) -> None:
        if self._is_stopped:
            return
        if fault.kind in SERVICE_KINDS:
            is_injected = self._inject_into_service(fault)
        else:
            is_injected = self._inject_into_broker(fault)
        if is_injected:
            self.injected.append(fault)

    def _inject_into_broker(self, fault: Fault) -> bool:
        cluster = self._world.cluster
        inject(
            cluster,
            BrokerFault(
                at_ms=fault.at_ms,
                kind=fault.kind,
                target=_broker(cluster, fault),
                lasts_ms=fault.lasts_ms,
                detail=fault.detail,
            ),
        )
        return True

    def _inject_into_service(self, fault: Fault) -> bool:
        running = [service for service in self._world.services.values() if service.is_running]
        if not running:
            return False
        service = running[fault.pick % len(running)]
        for_s = fault.lasts_ms / 1000
        match fault.kind:
            case "kill-service":
                service.kill(for_s)
            case "pause-service":
                service.pause(for_s)
            case "isolate-service":
                service.isolate(for_s=for_s)
            case "slow-service":
                service.delay(_SLOW_S, for_s)
        return True


def _broker(cluster: SimulatedCluster, fault: Fault) -> int:
    """Return the id of the broker that has the fault's role now; 0 for the controller, as `inject` takes it."""
    if fault.role == "controller":
        return 0
    if fault.role == "leader":
        topics = cluster.znodes.topics()
        leaders = [
            leader
            for topic, placed in sorted(topics.items())
            if not topic.startswith("__")
            for partition in sorted(placed.partitions)
            if (leader := cluster.leader_id(topic, partition.partition)) is not None
        ]
        if leaders:
            return int(leaders[fault.pick % len(leaders)])
    return int(cluster.broker_ids[fault.pick % len(cluster.broker_ids)])
