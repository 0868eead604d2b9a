"""Every crash point: the controller is struck wherever it passes one, and everything ends as if nobody had been.

`make crash-points` strikes in five ways at each and prints the table; here every point is struck once, the ways taking
turns.
"""

from __future__ import annotations

from functools import cache
from itertools import cycle

import pytest

from controller.points import POINTS
from controller.term import Term
from foundation.cluster.assignment import ReplicaAssignment
from foundation.cluster.identifiers import BrokerId, TopicPartition
from foundation.eventlog.fences import Fence
from understudy.cli import crash_points as command
from understudy.simulator.crash_points import How, Outcome, Peace, play_in_peace, strike, strikes
from understudy.simulator.procedures import PROCEDURES, Procedure
from understudy.simulator.rest import Rest, differences

BY_NAME = {procedure.name: procedure for procedure in PROCEDURES}
FAST = "topic-creation"


@cache
def peace_of(name: str) -> Peace:
    return play_in_peace(BY_NAME[name])


def failures(procedure: Procedure, *hows: How, fences_off: tuple[Fence, ...] = ()) -> list[Outcome]:
    peace = peace_of(procedure.name)
    outcomes = (strike(procedure, peace, at, how, fences_off=fences_off) for at, how in strikes(peace, hows))
    return [outcome for outcome in outcomes if outcome.problems]


def failures_in_turn(procedure: Procedure) -> list[str]:
    peace, ways = peace_of(procedure.name), cycle(How)
    outcomes = (strike(procedure, peace, at, how) for at, how in zip(peace.passed, ways, strict=False))
    return [str(outcome) for outcome in outcomes if outcome.problems]


def test_in_peace_every_procedure_ends_well_and_passes_its_own_points() -> None:
    peaces = {procedure.name: peace_of(procedure.name) for procedure in PROCEDURES}
    assert {name: peace.problems for name, peace in peaces.items() if peace.problems} == {}
    passed = {passing.point for peace in peaces.values() for passing in peace.passed}
    assert passed <= set(POINTS)
    assert sum(len(peace.passed) for peace in peaces.values()) > 100


@pytest.mark.spec("EL-13", "EL-15")
def test_a_topic_comes_into_being_whatever_happens_to_the_controller() -> None:
    assert failures(BY_NAME[FAST], *How) == []


@pytest.mark.slow
@pytest.mark.spec("EL-13", "EL-15", "BUG-1")
@pytest.mark.parametrize("name", sorted(BY_NAME.keys() - {FAST}))
def test_a_procedure_survives_its_controller(name: str) -> None:
    assert failures_in_turn(BY_NAME[name]) == []


@pytest.mark.spec("BUG-1")
def test_without_the_fence_in_zookeeper_a_deposed_controller_writes_again() -> None:
    """The harness is able to fail: that fence is what the deposed controller meets when it wakes before a write."""
    found = failures(BY_NAME[FAST], How.DEPOSE, fences_off=(Fence.ZK_CONTROLLER_EPOCH,))
    assert any("C3 violated" in problem for outcome in found for problem in outcome.problems)


def test_a_successor_that_leaves_something_behind_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def forget(term: Term) -> None: ...

    procedure = BY_NAME["preferred-election-by-znode"]
    assert peace_of(procedure.name).problems == ()
    monkeypatch.setattr("controller.failover._resume_preferred_elections", forget)
    left = [outcome for outcome in failures(procedure, How.KILL) if "has not been handled" in str(outcome)]
    assert {outcome.passing.point for outcome in left} >= {"partition.before_write", "preferred_election.before_write"}


def test_what_differs_from_peace_is_named() -> None:
    def rest(leader: int, *replicas: int) -> Rest:
        partition, assigned = TopicPartition("orders", 0), tuple(BrokerId(replica) for replica in replicas)
        return Rest(
            assignments={partition: ReplicaAssignment(assigned)},
            leaders={partition: BrokerId(leader)},
            in_sync={partition: assigned},
            configs={},
            leftovers=(),
            strays=(),
        )

    assert differences(rest(1, 1, 2), rest(1, 1, 2)) == []
    assert differences(rest(1, 1, 2), rest(2, 1, 2)) == ["the leader of orders-0 is 2, without the fault it is 1"]
    assert [line.split(" is ")[0] for line in differences(rest(1, 1, 2), rest(1, 1, 3))] == [
        "the assignment of orders-0",
        "the ISR of orders-0",
    ]


def test_the_command_knows_every_way_to_strike() -> None:
    assert tuple(how.value for how in How) == command.HOWS
