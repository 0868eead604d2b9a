"""Tests of `ClusterVerbs` on brokers that only note the calls: undo, order, and the end of the cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from understudy.clusters.cluster import ClusterError, Unsupported
from understudy.clusters.control.bodies import OnTargetFor
from understudy.clusters.control.verbs import ClusterVerbs, VerbOutcome, VerbRequest, checked, left_out
from understudy.clusters.processes.local_broker import LocalBroker
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.values import parse_target

TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class NotedBroker(LocalBroker):
    """A broker whose faults are noted by its cluster, and take effect on the states that the cluster keeps."""

    @property
    def process(self) -> Any:
        return SimpleNamespace(rack=None, should_run=True, process=None)

    @property
    def noted(self) -> NotedCluster:
        assert isinstance(self.cluster, NotedCluster)
        return self.cluster

    @property
    def is_running(self) -> bool:
        return self.noted.states[self.id] != "ended"

    @property
    def is_paused(self) -> bool:
        return self.noted.states[self.id] == "paused"

    def _becomes(self, state: str, verb: str) -> None:
        if self.id in self.noted.failing:
            raise Unsupported(f"{self.name} cannot do that")
        self.noted.states[self.id] = state
        self.noted.done.append(f"{verb} {self.id}")

    def kill(self) -> None:
        self._becomes("ended", "kill")

    def pause(self) -> None:
        self._becomes("paused", "pause")

    def resume(self) -> None:
        self._becomes("running", "resume")

    def start(self) -> None:
        self._becomes("running", "start")

    def isolate(self) -> None:
        self._becomes(self.noted.states[self.id], "isolate")

    def heal(self) -> None:
        self._becomes(self.noted.states[self.id], "heal")


class NotedCluster(LocalCluster):
    """A cluster of three such brokers, which starts no process."""

    def __init__(self) -> None:
        super().__init__(3, zookeeper="127.0.0.1:1", proxied=True)
        self.states = dict.fromkeys((1, 2, 3), "running")
        self.failing: set[int] = set()
        self.done: list[str] = []

    def broker(self, broker_id: int, *, role: str = "") -> LocalBroker:
        return NotedBroker(self, broker_id, role)

    @property
    def brokers(self) -> tuple[LocalBroker, ...]:
        return tuple(map(self.broker, (1, 2, 3)))


@pytest.fixture
def cluster() -> Iterator[NotedCluster]:
    cluster = NotedCluster()
    yield cluster
    cluster.close()
    cluster._remove_temporary()


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def verbs(cluster: NotedCluster, lines: list[str]) -> Iterator[ClusterVerbs]:
    verbs = ClusterVerbs(cluster, lines.append)
    yield verbs
    verbs.close()


def do(verbs: ClusterVerbs, verb: str, target: str, lasts: str | None = None) -> VerbOutcome:
    request = checked(verb, OnTargetFor(target=target, lasts=lasts))
    return verbs.begin(request).result(TIMEOUT_S)


def wait_until_done(cluster: NotedCluster, *expected: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while cluster.done != [*expected]:
        assert time.monotonic() < deadline, cluster.done
        time.sleep(0.005)


@pytest.mark.parametrize(("verb", "undo"), [("pause", "resume"), ("isolate", "heal"), ("kill", "start")])
def test_a_verb_is_undone_once_after_its_duration(
    verbs: ClusterVerbs, cluster: NotedCluster, lines: list[str], verb: str, undo: str
) -> None:
    outcome = do(verbs, verb, "2", "20ms")
    assert outcome.done == ("broker-2",)
    assert str(outcome).endswith(" after 20 ms")
    wait_until_done(cluster, f"{verb} 2", f"{undo} 2")
    verbs.close()
    assert cluster.done == [f"{verb} 2", f"{undo} 2"]
    assert len(lines) == 2


@pytest.mark.parametrize(
    ("begun", "by_hand"),
    [("pause", "resume"), ("pause", "kill"), ("isolate", "heal"), ("kill", "start")],
)
def test_a_verb_that_ends_the_fault_earlier_replaces_its_undo(
    verbs: ClusterVerbs, cluster: NotedCluster, begun: str, by_hand: str
) -> None:
    do(verbs, begun, "2", "300ms")
    do(verbs, by_hand, "2")
    do(verbs, "pause", "3", "400ms")
    wait_until_done(cluster, f"{begun} 2", f"{by_hand} 2", "pause 3", "resume 3")


def test_a_fault_that_is_injected_again_lasts_for_its_own_duration(verbs: ClusterVerbs, cluster: NotedCluster) -> None:
    do(verbs, "isolate", "1", "300ms")
    do(verbs, "isolate", "1", "10m")
    do(verbs, "pause", "3", "400ms")
    wait_until_done(cluster, "isolate 1", "isolate 1", "pause 3", "resume 3")


def test_before_the_cluster_stops_isolations_are_healed_and_paused_brokers_resumed(
    verbs: ClusterVerbs, cluster: NotedCluster
) -> None:
    do(verbs, "isolate", "1", "1h")
    do(verbs, "pause", "2")
    cluster.states[3] = "paused"  # as by an armed point
    verbs.close()
    assert cluster.done == ["isolate 1", "pause 2", "heal 1", "resume 2", "resume 3"]
    with pytest.raises(ClusterError, match="the cluster is being stopped"):
        do(verbs, "kill", "1")


def test_of_several_brokers_those_in_the_state_for_it_are_acted_on(verbs: ClusterVerbs, cluster: NotedCluster) -> None:
    do(verbs, "kill", "2")
    outcome = do(verbs, "pause", "all")
    assert (outcome.done, outcome.skipped) == (("broker-1", "broker-3"), ())
    none = r"no broker can be paused \(broker-1, broker-3: it is paused already; broker-2: it is not running\)"
    with pytest.raises(ClusterError, match=none):
        do(verbs, "pause", "all")


def test_the_brokers_of_a_rack_that_are_not_in_the_state_for_it_are_named() -> None:
    request = VerbRequest("pause", parse_target("rack:a"))
    assert left_out(request, {"broker-1": "it is not running", "broker-3": ""}) == (
        "broker-1 cannot be paused: it is not running",
    )
    with pytest.raises(ClusterError, match="broker-1 cannot be paused: it is not running"):
        left_out(request, {"broker-1": "it is not running"})


def test_what_was_done_before_a_failure_is_undone(verbs: ClusterVerbs, cluster: NotedCluster) -> None:
    cluster.failing.add(2)
    with pytest.raises(Unsupported, match="broker-2 cannot do that"):
        do(verbs, "pause", "all", "20ms")
    wait_until_done(cluster, "pause 1", "resume 1")


def test_the_reason_of_an_undo_that_fails_is_reported(
    verbs: ClusterVerbs, cluster: NotedCluster, lines: list[str]
) -> None:
    do(verbs, "pause", "1", "20ms")
    cluster.failing.add(1)
    deadline = time.monotonic() + TIMEOUT_S
    while len(lines) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    assert lines[1] == "broker-1 cannot do that"
    cluster.failing.clear()
