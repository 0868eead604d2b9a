"""The kinds of faults that a seed can draw, and the profiles that name them.

A kind is an action of the language of experiments (docs/guides/experiments.md) on a broker; with `-service` at its end,
on a service; a fault of requests hits the requests of a client. Targets are roles, which are resolved when a fault is
injected: `leader` is a leader of any partition, `service` any service, `clients` a process of the user.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from understudy.clusters.values import CLIENTS, SERVICE, Span, Target
from understudy.controller.points import POINTS
from understudy.foundation.cluster.errors import Errors
from understudy.trials.experiments.language.actions import (
    Action,
    Answer,
    ArmPoint,
    DiskFault,
    Links,
    LoseAnswer,
    OnZooKeeper,
    Repeated,
    RequestFault,
    StepClock,
)

Draw = Callable[[random.Random], Action]
"""Draws an action with everything that it needs."""

CONTROLLER: Final = Target("controller")
A_LEADER: Final = Target("leader")
A_BROKER: Final = Target("random")
ALL: Final = Target("all")
A_SERVICE: Final = Target(SERVICE)
A_CLIENT: Final = Target(CLIENTS)
ZOOKEEPER: Final = Target("zookeeper")

_LASTS_MS: Final = (50, 300, 1_500, 4_000, 8_500)
"""Durations, some of them longer than a session (6 s)."""
_DELAYS_MS: Final = (5, 50, 250, 1_000)
_PIECES_BYTES: Final = (1, 7, 100)
_BYTES_PER_S: Final = (2_000, 20_000, 200_000)
_SHIFTS_MS: Final = (-3_600_000.0, -5_000.0, 5_000.0, 3_600_000.0)
_PATHS: Final = ("/controller", "/brokers/topics", "/brokers/ids")
_APIS: Final = (
    None, None, "Produce", "Produce", "Fetch", "Metadata", "ListOffsets", "FindCoordinator", "JoinGroup", "SyncGroup",
    "Heartbeat", "OffsetFetch", "OffsetCommit", "OffsetCommit", "InitProducerId",
)  # fmt: skip
"""Kinds of requests that a fault of one request selects; None for any."""
_ANSWERS: Final = (
    ("Produce", Errors.NOT_LEADER_OR_FOLLOWER),
    ("Produce", Errors.NOT_ENOUGH_REPLICAS),
    ("Produce", Errors.REQUEST_TIMED_OUT),
    ("Fetch", Errors.NOT_LEADER_OR_FOLLOWER),
    ("ListOffsets", Errors.LEADER_NOT_AVAILABLE),
    ("Metadata", Errors.LEADER_NOT_AVAILABLE),
    ("FindCoordinator", Errors.COORDINATOR_NOT_AVAILABLE),
    ("JoinGroup", Errors.COORDINATOR_LOAD_IN_PROGRESS),
    ("SyncGroup", Errors.REBALANCE_IN_PROGRESS),
    ("Heartbeat", Errors.REBALANCE_IN_PROGRESS),
    ("Heartbeat", Errors.NOT_COORDINATOR),
    ("OffsetFetch", Errors.COORDINATOR_LOAD_IN_PROGRESS),
    ("OffsetCommit", Errors.COORDINATOR_LOAD_IN_PROGRESS),
    ("OffsetCommit", Errors.NOT_COORDINATOR),
    ("InitProducerId", Errors.COORDINATOR_LOAD_IN_PROGRESS),
)
"""Errors that Kafka answers while a cluster fails over; a client retries each of them."""


def _broker(source: random.Random) -> tuple[Target]:
    return (source.choice((CONTROLLER, A_LEADER, A_LEADER, A_BROKER)),)


def _lasts(source: random.Random) -> Span:
    ms = float(source.choice(_LASTS_MS))
    return Span(ms, ms)


def _by(source: random.Random) -> Span:
    ms = float(source.choice(_DELAYS_MS))
    return Span(ms, ms)


def _on_broker(name: str, *, target: Target | None = None, lasts: bool = True) -> Draw:
    def draw(source: random.Random) -> Action:
        brokers = _broker(source) if target is None else (target,)
        return Action(name=name, brokers=brokers, lasts=_lasts(source) if lasts else None)

    return draw


def _links(name: str, targets: tuple[Target, ...], peers: tuple[Target, ...]) -> Draw:
    def draw(source: random.Random) -> Action:
        return Links(
            name=name,
            brokers=(source.choice(targets),),
            peers=(source.choice(peers),),
            by=_by(source),
            bytes=source.choice(_PIECES_BYTES if name == "split" else _BYTES_PER_S),
            direction=source.choice(("both", "sent", "received")) if name == "cut" else None,
            lasts=None if name == "reset" else _lasts(source),
        )

    return draw


def _request(name: str) -> Draw:
    def draw(source: random.Random) -> Action:
        lasts = _lasts(source) if name == "hold" else None
        return RequestFault(
            name=name, brokers=(A_CLIENT,), peers=(ALL,), api=source.choice(_APIS), by=_by(source), lasts=lasts
        )

    return draw


def _answer(source: random.Random) -> Action:
    api, error = source.choice(_ANSWERS)
    times = source.choice((1, 1, 3, 10))
    # A broker may have written the records that it could not acknowledge in time.
    then = "apply" if error is Errors.REQUEST_TIMED_OUT and source.random() < 0.5 else None
    return Answer(name="answer", brokers=_broker(source), api=api, error=error.name, times=times, then=then)


def _arm(source: random.Random) -> Action:
    point, action = source.choice(POINTS), source.choice(("crash", "pause"))
    return ArmPoint(name="arm", brokers=(CONTROLLER,), point=point, point_action=action, lasts=_lasts(source))


def _step_clock(target: Target | None) -> Draw:
    def draw(source: random.Random) -> Action:
        brokers = _broker(source) if target is None else (target,)
        return StepClock(name="step-clock", brokers=brokers, by=source.choice(_SHIFTS_MS), lasts=_lasts(source))

    return draw


def _lose_answer(source: random.Random) -> Action:
    is_applied = source.random() < 0.5
    return LoseAnswer(name="lose-answer", brokers=_broker(source), path=source.choice(_PATHS), applied=is_applied)


def _disk(name: str) -> Draw:
    return lambda source: DiskFault(name=name, brokers=_broker(source), by=_by(source), lasts=_lasts(source))


def _repeated(name: str) -> Draw:
    return lambda source: Repeated(name=name, brokers=_broker(source), every=_by(source), lasts=_lasts(source))


def _zookeeper(name: str) -> Draw:
    return lambda source: OnZooKeeper(name=name, server=ZOOKEEPER, by=_by(source), lasts=_lasts(source))


_BROKERS: Final = (CONTROLLER, A_LEADER, A_LEADER, A_BROKER)
_PEERS: Final = (ALL, A_CLIENT, A_CLIENT)
_FROM_BROKERS: Final = (ALL, A_LEADER, CONTROLLER)
_OF_SERVICES: Final = "-service"

KINDS: Final[dict[str, Draw]] = {
    "kill": _on_broker("kill"),
    "pause": _on_broker("pause"),
    "stop": _on_broker("stop"),
    "restart": _on_broker("restart", lasts=False),
    "lose-power": _on_broker("lose-power"),
    "depose": _on_broker("depose", target=CONTROLLER, lasts=False),
    "expire": _on_broker("expire", lasts=False),
    "isolate": _on_broker("isolate"),
    "cut-clients": _on_broker("cut-clients"),
    "cut": _links("cut", _BROKERS, (ALL, A_LEADER, ZOOKEEPER)),
    "reset": _links("reset", _BROKERS, (ALL, ZOOKEEPER)),
    "delay": _links("delay", _BROKERS, _PEERS),
    "throttle": _links("throttle", _BROKERS, _PEERS),
    "split": _links("split", _BROKERS, _PEERS),
    "stutter": _repeated("stutter"),
    "arm": _arm,
    "lose-answer": _lose_answer,
    "hold-watch": _on_broker("hold-watch"),
    "step-clock": _step_clock(None),
    "slow-disk": _disk("slow-disk"),
    "slow-flush": _disk("slow-flush"),
    "stop-zookeeper": _zookeeper("stop-zookeeper"),
    "pause-zookeeper": _zookeeper("pause-zookeeper"),
    "slow-zookeeper": _zookeeper("slow-zookeeper"),
    "answer": _answer,
    "hold": _request("hold"),
    "delay-request": _request("delay-request"),
    "drop-request": _request("drop-request"),
    "drop-answer": _request("drop-answer"),
    "drop-connection": _request("drop-connection"),
    "duplicate": _request("duplicate"),
    f"kill{_OF_SERVICES}": _on_broker("kill", target=A_SERVICE),
    f"pause{_OF_SERVICES}": _on_broker("pause", target=A_SERVICE),
    f"stop{_OF_SERVICES}": _on_broker("stop", target=A_SERVICE),
    f"isolate{_OF_SERVICES}": _on_broker("isolate", target=A_SERVICE),
    f"cut{_OF_SERVICES}": _links("cut", (A_SERVICE,), _FROM_BROKERS),
    f"reset{_OF_SERVICES}": _links("reset", (A_SERVICE,), (ALL,)),
    f"delay{_OF_SERVICES}": _links("delay", (A_SERVICE,), _FROM_BROKERS),
    f"step-clock{_OF_SERVICES}": _step_clock(A_SERVICE),
}
"""What draws a fault, by the name of its kind."""

PROFILES: Final[dict[str, tuple[str, ...]]] = {
    "none": (),
    "failover": ("kill", "pause", "stop", "depose", "expire"),
    "evil": tuple(KINDS),
}
"""The kinds of faults by the name of their profile."""

_GAPS_MS: Final = {"failover": (6_000, 12_000, 24_000), "evil": (500, 1_500, 4_000, 10_000)}
_FEW: Final = frozenset(PROFILES["failover"]) | {f"{kind}{_OF_SERVICES}" for kind in ("kill", "pause", "stop")}
"""Kinds that end or stop a process, or move the roles of brokers."""


def mean_gaps_ms(kinds: frozenset[str]) -> tuple[int, ...]:
    """Return the mean times between two faults, of which a seed draws one.

    The first ones give about five faults a minute, as a test of failovers needs them: each costs a client seconds. The
    others also strike a cluster that has not recovered yet.
    """
    return _GAPS_MS["failover" if kinds <= _FEW else "evil"]
