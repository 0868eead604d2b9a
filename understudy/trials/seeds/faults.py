"""Draws a schedule of faults from a seed, and injects them into a simulated cluster.

A schedule consists of values and is drawn before the run, so that it can be printed, shortened and replayed. The target
of a fault is a broker id, or the controller at the moment when the fault is injected. The schedule also says when each
lasting fault ends. After the last one all faults are healed, and the cluster must settle.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from understudy.clusters.simulated.broker import SimulatedBroker
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.clusters.simulated.zookeeper import LostAnswer
from understudy.controller.points import POINTS

SESSION_MS = 6_000


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

    Only two to six kinds per run, so that frequent kinds do not hide the effects of the others.
    """
    kinds = sorted(source.sample(sorted(_INJECTORS), source.randint(2, 6)))
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
    detail = ""
    if kind == "point-pause" or kind == "point-crash":
        detail = source.choice(POINTS)
    elif kind == "lost-answer":
        detail = source.choice(("/controller", "/brokers/topics", "/brokers/ids")) + source.choice(
            (" applied", " lost")
        )
    elif kind in ("cut-zookeeper", "cut-one-way"):
        detail = source.choice(("requests", "answers", "both"))
    elif kind == "step-clock":
        detail = str(source.choice((-3_600_000, -5_000, 5_000, 3_600_000)))
    target = 0 if source.random() < 0.4 else source.randint(1, brokers)
    return Fault(at_ms=now, kind=kind, target=target, lasts_ms=lasts_ms, detail=detail)


def schedule_faults(cluster: SimulatedCluster, schedule: Schedule) -> None:
    """Schedule every fault at its time from now on, and the end of all faults after them. Lets no time pass."""
    cluster.zookeeper.unknown_probability = schedule.unknown_probability
    for fault in schedule.faults:
        cluster.after(fault.at_ms, _injecting(cluster, fault))
    cluster.after(schedule.healed_at_ms, cluster.heal)


def _injecting(cluster: SimulatedCluster, fault: Fault) -> Callable[[], None]:
    def inject() -> None:
        controller = cluster.controller_id() or min(cluster.broker_ids)
        _INJECTORS[fault.kind](cluster, cluster.broker(fault.target or controller), fault)

    return inject


_Injector: TypeAlias = Callable[[SimulatedCluster, SimulatedBroker, Fault], None]


def _crash(cluster: SimulatedCluster, broker: SimulatedBroker, fault: Fault) -> None:
    if broker.is_running:
        broker.bounce(fault.lasts_ms)


def _lose_power(cluster: SimulatedCluster, broker: SimulatedBroker, fault: Fault) -> None:
    if broker.is_running:
        broker.lose_power()
        cluster.after(fault.lasts_ms, broker.begin_start)


def _pause(cluster: SimulatedCluster, broker: SimulatedBroker, fault: Fault) -> None:
    if broker.is_running:
        broker.pause()
    cluster.after(fault.lasts_ms, broker.resume_if_paused)


def _stop(cluster: SimulatedCluster, broker: SimulatedBroker, fault: Fault) -> None:
    broker.begin_stop()
    cluster.after(fault.lasts_ms, broker.begin_start)


def _expire(cluster: SimulatedCluster, broker: SimulatedBroker, fault: Fault) -> None:
    broker.expire_session()


def _depose(cluster: SimulatedCluster, broker: SimulatedBroker, fault: Fault) -> None:
    cluster.depose()


def _reset_zookeeper(cluster: SimulatedCluster, broker: SimulatedBroker, fault: Fault) -> None:
    cluster.reset_zookeeper_connection(broker.id)


def _cut_zookeeper(cluster: SimulatedCluster, broker: SimulatedBroker, fault: Fault) -> None:
    cluster.cut_from_zookeeper(broker.id, requests=fault.detail != "answers", answers=fault.detail != "requests")
    cluster.after(fault.lasts_ms, lambda: cluster.heal_zookeeper(broker.id))


def _lost_answer(cluster: SimulatedCluster, broker: SimulatedBroker, fault: Fault) -> None:
    path, _, how = fault.detail.partition(" ")
    cluster.zookeeper.lost_answers.append(LostAnswer(broker.node.name, path, how == "applied"))


def _stop_zookeeper(cluster: SimulatedCluster, broker: SimulatedBroker, fault: Fault) -> None:
    cluster.stop_zookeeper()
    cluster.after(fault.lasts_ms, cluster.start_zookeeper)


def _step_clock(cluster: SimulatedCluster, broker: SimulatedBroker, fault: Fault) -> None:
    role = "controller" if cluster.controller_id() == broker.id else ""
    cluster.record_fault("step-clock", broker.name, role)
    broker.node.clock.offset_ms += int(fault.detail)


def _isolate(cluster: SimulatedCluster, broker: SimulatedBroker, fault: Fault) -> None:
    cluster.cut([broker.id], [broker_id for broker_id in cluster.broker_ids if broker_id != broker.id])
    cluster.after(fault.lasts_ms, cluster.heal_network)


def _cut_pair(cluster: SimulatedCluster, broker: SimulatedBroker, fault: Fault) -> None:
    cluster.cut([broker.id], [_next_broker_id(cluster, broker)])
    cluster.after(fault.lasts_ms, cluster.heal_network)


def _cut_one_way(cluster: SimulatedCluster, broker: SimulatedBroker, fault: Fault) -> None:
    one, other = [broker.id], [broker_id for broker_id in cluster.broker_ids if broker_id != broker.id]
    if fault.detail == "answers":
        one, other = other, one
    cluster.cut(one, other, one_way=True)
    cluster.after(fault.lasts_ms, cluster.heal_network)


def _reset_network(cluster: SimulatedCluster, broker: SimulatedBroker, fault: Fault) -> None:
    cluster.network.reset(broker.node.name)


def _point_pause(cluster: SimulatedCluster, broker: SimulatedBroker, fault: Fault) -> None:
    broker.arm(fault.detail, "pause", resume_after_ms=fault.lasts_ms)


def _point_crash(cluster: SimulatedCluster, broker: SimulatedBroker, fault: Fault) -> None:
    def crash_and_restart() -> None:
        broker.kill()
        cluster.after(fault.lasts_ms, broker.begin_start)

    broker.node.arm(fault.detail, "crash", crash_and_restart)


def _next_broker_id(cluster: SimulatedCluster, broker: SimulatedBroker) -> int:
    """The id after the broker's, in order of id; after the last one the first."""
    broker_ids = sorted(cluster.broker_ids)
    return broker_ids[(broker_ids.index(broker.id) + 1) % len(broker_ids)]


_INJECTORS: dict[str, _Injector] = {
    "crash": _crash,
    "lose-power": _lose_power,
    "pause": _pause,
    "stop": _stop,
    "expire": _expire,
    "depose": _depose,
    "reset-zookeeper": _reset_zookeeper,
    "cut-zookeeper": _cut_zookeeper,
    "lost-answer": _lost_answer,
    "stop-zookeeper": _stop_zookeeper,
    "step-clock": _step_clock,
    "isolate": _isolate,
    "cut-pair": _cut_pair,
    "cut-one-way": _cut_one_way,
    "reset-network": _reset_network,
    "point-pause": _point_pause,
    "point-crash": _point_crash,
}
"""Every kind of fault by name, with the function that injects it."""
KINDS = frozenset(_INJECTORS)
"""The kinds of fault that can be drawn."""
