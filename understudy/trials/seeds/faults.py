"""Draws a schedule of faults from a seed, and injects them into a simulated cluster.

A schedule consists of values and is drawn before the run, so that it can be printed, shortened and replayed. The target
of a fault is a broker id, or the controller at the moment when the fault is injected. The schedule also says when each
lasting fault ends. After the last one all faults are healed, and the cluster must settle.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.clusters.simulated.zookeeper import LostAnswer
from understudy.controller.points import POINTS

SESSION_MS = 6_000
KINDS = (
    "kill", "cut-one-way", "cut-pair", "cut-zookeeper", "depose", "expire", "isolate", "lose-power", "lost-answer",
    "pause", "point-crash", "point-pause", "reset-network", "reset-zookeeper", "step-clock", "stop", "stop-zookeeper",
)  # fmt: skip
"""Names of the kinds of faults, in an order that must not change: the faults of a seed are drawn by their places."""
FORMER_KINDS = {"crash": "kill"}
"""Names of kinds by their names in older plans."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault: when it is injected, into which broker, and for how long."""

    at_ms: int
    kind: str
    target: int
    """A broker's id; 0 for the controller at that moment."""
    lasts_ms: int
    detail: str = ""
    """A point's name, a path, the direction of a cut, or by how many ms a clock steps."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", FORMER_KINDS.get(self.kind, self.kind))

    def __str__(self) -> str:
        target = f"broker {self.target}" if self.target else "the controller"
        return f"{self.at_ms:6d} ms  {self.kind} {target} for {self.lasts_ms} ms {self.detail}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """All faults of one run."""

    faults: tuple[Fault, ...]
    healed_at_ms: int
    """When all faults end."""
    unknown_probability: float
    """The probability that a write to ZooKeeper loses its connection before its answer, until all faults end."""

    def __str__(self) -> str:
        lines = [str(fault) for fault in self.faults]
        return "\n".join([*lines, f"{self.healed_at_ms:6d} ms  heal"])


def draw_schedule(source: random.Random, *, brokers: int, duration_ms: int) -> Schedule:
    """Draw faults for the first two thirds of `duration_ms`.

    A run has only two to six kinds, so that frequent kinds do not hide the effects of the others.
    """
    kinds = sorted(source.sample(KINDS, source.randint(2, 6)), key=KINDS.index)
    gap_ms = source.choice((400, 1_000, 2_500))
    until = duration_ms * 2 // 3
    faults: list[Fault] = []
    now = source.randint(0, gap_ms)
    while now < until - 500:
        faults.append(_draw_fault(source, kinds, brokers, now, until))
        now += 1 + int(source.expovariate(1 / gap_ms))
    unknown = source.choice((0.0, 0.0, 0.02, 0.1))
    return Schedule(faults=tuple(faults), healed_at_ms=until, unknown_probability=unknown)


def _draw_fault(source: random.Random, kinds: list[str], brokers: int, now: int, until: int) -> Fault:
    kind = source.choice(kinds)
    lasts_ms = min(source.choice((50, 300, 1_500, SESSION_MS // 2, SESSION_MS + 2_500)), until - now)
    detail = drawn_detail(source, kind)
    target = 0 if source.random() < 0.4 else source.randint(1, brokers)
    return Fault(at_ms=now, kind=kind, target=target, lasts_ms=lasts_ms, detail=detail)


def drawn_detail(source: random.Random, kind: str) -> str:
    """Draw the detail of a fault of this kind; empty if it needs none."""
    if kind == "point-pause" or kind == "point-crash":
        return source.choice(POINTS)
    if kind == "lost-answer":
        path = source.choice(("/controller", "/brokers/topics", "/brokers/ids"))
        return path + source.choice((" applied", " lost"))
    if kind in ("cut-zookeeper", "cut-one-way"):
        return source.choice(("requests", "answers", "both"))
    if kind == "step-clock":
        return str(source.choice((-3_600_000, -5_000, 5_000, 3_600_000)))
    return ""


def schedule_faults(cluster: SimulatedCluster, schedule: Schedule) -> None:
    """Schedule every fault at its time from now on, and the end of all faults after them. Lets no time pass."""
    cluster.zookeeper.unknown_probability = schedule.unknown_probability
    for fault in schedule.faults:
        cluster.after(fault.at_ms, partial(inject, cluster, fault))
    cluster.after(schedule.healed_at_ms, cluster.heal)


def inject(cluster: SimulatedCluster, fault: Fault) -> None:
    """Inject a fault now, and schedule its end. What its target does not allow now is not injected."""
    broker = cluster.broker(fault.target or cluster.controller_id() or min(cluster.broker_ids))
    others = [broker_id for broker_id in cluster.broker_ids if broker_id != broker.id]

    def after(act: Callable[[], None]) -> None:
        cluster.after(fault.lasts_ms, act)

    match fault.kind:
        case "kill" if broker.is_running:
            broker.bounce(fault.lasts_ms)
        case "lose-power" if broker.is_running:
            broker.lose_power()
            after(broker.begin_start)
        case "pause":
            if broker.is_running:
                broker.pause()
            after(broker.resume_if_paused)
        case "stop":
            broker.begin_stop()
            after(broker.begin_start)
        case "expire":
            broker.expire_session()
        case "depose":
            cluster.depose()
        case "reset-zookeeper":
            cluster.reset_zookeeper_connection(broker.id)
        case "cut-zookeeper":
            detail = fault.detail
            cluster.cut_from_zookeeper(broker.id, requests=detail != "answers", answers=detail != "requests")
            after(lambda: cluster.heal_zookeeper(broker.id))
        case "lost-answer":
            path, _, how = fault.detail.partition(" ")
            cluster.zookeeper.lost_answers.append(LostAnswer(broker.name, path, how == "applied"))
        case "stop-zookeeper":
            cluster.stop_zookeeper()
            after(cluster.start_zookeeper)
        case "step-clock":
            role = "controller" if cluster.controller_id() == broker.id else ""
            cluster.record_fault("step-clock", broker.name, role)
            broker.node.clock.offset_ms += int(fault.detail)
        case "isolate":
            cluster.cut(broker.id, others)
            after(cluster.heal_network)
        case "cut-pair":
            # The other broker is the next one by id; after the last comes the first.
            cluster.cut(broker.id, [min([each for each in others if each > broker.id] or others)])
            after(cluster.heal_network)
        case "cut-one-way":
            cluster.cut(broker.id, others, direction="received" if fault.detail == "answers" else "sent")
            after(cluster.heal_network)
        case "reset-network":
            cluster.network.reset(broker.name)
        case "point-pause":
            broker.arm(fault.detail, "pause", resume_after_ms=fault.lasts_ms)
        case "point-crash":
            broker.arm(fault.detail, "crash", start_after_ms=fault.lasts_ms)
