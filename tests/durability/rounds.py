"""Rounds of faults under a running producer: kill, pause past the session, terminate; each against each role."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.durability.across_faults import inject
from tests.durability.ledger import Ledger
from understudy.clusters.processes.local_broker import LocalBroker
from understudy.clusters.processes.local_cluster import LocalCluster

FAULTS = ("kill", "pause", "terminate")
ROLES = ("controller", "leader", "follower")
RECORDS_PER_ROUND = 1_000
_ACKNOWLEDGED_AFTER_FAULT = 400
_ROUND_TIMEOUT_S = 90.0


class Round(NamedTuple):
    fault: str
    role: str


def plan(rounds: int, seed: int) -> Iterator[Round]:
    """Yield every fault against every role, in another order each time, until there are `rounds`."""
    source = random.Random(seed)
    every = [Round(fault, role) for fault in FAULTS for role in ROLES]
    left: list[Round] = []
    for _ in range(rounds):
        if not left:
            left = source.sample(every, len(every))
        yield left.pop()


def run(
    cluster: LocalCluster,
    ledger: Ledger,
    topic: str,
    rounds: int,
    seed: int,
    report: Callable[[str], None] = lambda _: None,
) -> Counter[Round]:
    """Run rounds while `ledger` produces; return how often each was run.

    Each has at least 1,000 acknowledged records, some of them after the fault, and ends with every replica in its ISR.
    """
    done: Counter[Round] = Counter()
    for number, each in enumerate(plan(rounds, seed), 1):
        begin = ledger.acknowledged
        ledger.wait_for(begin + RECORDS_PER_ROUND - _ACKNOWLEDGED_AFTER_FAULT, _ROUND_TIMEOUT_S)
        victim = _victim(cluster, topic, each.role)
        inject(each.fault, victim)
        if each.fault == "pause":
            _wait_for_expiry(cluster, victim)
        ledger.wait_for(ledger.acknowledged + _ACKNOWLEDGED_AFTER_FAULT, _ROUND_TIMEOUT_S)
        _recover(each.fault, victim)
        cluster.settle(timeout_s=_ROUND_TIMEOUT_S)
        done[each] += 1
        report(f"round {number}: {each.fault} the {each.role} ({victim.name}), {ledger.acknowledged} acknowledged")
    return done


def _victim(cluster: LocalCluster, topic: str, role: str) -> LocalBroker:
    match role:
        case "controller":
            return cluster.controller()
        case "leader":
            return cluster.leader(topic, 0)
        case _:
            leader = cluster.leader(topic, 0).id
            return next(broker for broker in cluster.brokers if broker.id != leader)


def _wait_for_expiry(cluster: LocalCluster, victim: LocalBroker) -> None:
    cluster.wait_until(
        lambda: victim.id not in cluster.view.brokers(), f"the session of {victim.name} has expired", _ROUND_TIMEOUT_S
    )


def _recover(fault: str, victim: LocalBroker) -> None:
    if fault == "pause":
        victim.resume()
    else:
        victim.start()
