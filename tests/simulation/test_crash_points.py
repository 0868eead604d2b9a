"""Crash points: a fault in the controller at each named point leaves the cluster in the same state as no fault.

`make crash-points` injects five faults at each point and prints the table; here one fault is injected at each point,
the five in turn.
"""

from __future__ import annotations

from itertools import cycle, product

import pytest

from tests.shares import SHARES, share_of
from tests.timing import shared
from understudy.cli import crash_points as command
from understudy.controller.points import POINTS
from understudy.controller.term import Term
from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.eventlog.fences import Fence
from understudy.trials.seeds.crash_points import (
    ControllerFault,
    CrashPointOutcome,
    FaultFreeRun,
    run_with_fault,
    run_without_fault,
)
from understudy.trials.seeds.procedures import PROCEDURES, Procedure
from understudy.trials.seeds.settled_state import SettledState, differences

BY_NAME = {procedure.name: procedure for procedure in PROCEDURES}
FAST = "topic-creation"
OF_POINTS = SHARES["crash-points"].whole
"""Number of successive points in a group; the share is the number of points tried in each group."""


@shared
def fault_free_run(name: str) -> FaultFreeRun:
    return run_without_fault(BY_NAME[name])


def failures(
    procedure: Procedure, *faults: ControllerFault, fences_off: tuple[Fence, ...] = ()
) -> list[CrashPointOutcome]:
    """The runs with problems, of one run per point and fault."""
    fault_free = fault_free_run(procedure.name)
    outcomes = (
        run_with_fault(procedure, fault_free, at, fault, fences_off=fences_off)
        for at, fault in product(fault_free.reached, faults)
    )
    return [outcome for outcome in outcomes if outcome.problems]


def failures_with_faults_in_turn(procedure: Procedure) -> list[str]:
    """The runs with problems, of one run per point of the share, with another fault at each next point."""
    fault_free = fault_free_run(procedure.name)
    every = enumerate(zip(fault_free.reached, cycle(ControllerFault), strict=False))
    targets = (target for number, target in every if number % OF_POINTS < share_of("crash-points"))
    outcomes = (run_with_fault(procedure, fault_free, at, fault) for at, fault in targets)
    return [str(outcome) for outcome in outcomes if outcome.problems]


def test_every_procedure_without_a_fault_has_no_problems_and_reaches_its_own_points() -> None:
    runs = {procedure.name: fault_free_run(procedure.name) for procedure in PROCEDURES}
    assert {name: run.problems for name, run in runs.items() if run.problems} == {}
    reached = {occurrence.point for run in runs.values() for occurrence in run.reached}
    assert reached <= set(POINTS)
    assert sum(len(run.reached) for run in runs.values()) > 100


@pytest.mark.spec("EL-13", "EL-15")
@pytest.mark.parametrize("fault", ControllerFault)
def test_a_topic_is_created_whichever_fault_is_injected_into_the_controller(fault: ControllerFault) -> None:
    assert failures(BY_NAME[FAST], fault) == []


@pytest.mark.spec("EL-13", "EL-15", "BUG-1")
@pytest.mark.parametrize("name", sorted(BY_NAME.keys() - {FAST}))
def test_a_procedure_ends_in_the_same_state_with_a_fault_at_any_point(name: str) -> None:
    assert failures_with_faults_in_turn(BY_NAME[name]) == []


@pytest.mark.spec("BUG-1")
def test_without_the_fence_in_zookeeper_a_deposed_controller_writes_again() -> None:
    """The comparison is able to fail: only that fence refuses a write of a deposed controller that is resumed."""
    found = failures(BY_NAME[FAST], ControllerFault.DEPOSE, fences_off=(Fence.ZK_CONTROLLER_EPOCH,))
    assert any("C3 violated" in problem for outcome in found for problem in outcome.problems)


def test_a_request_that_the_next_controller_does_not_handle_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    async def do_nothing(term: Term) -> None: ...

    procedure = BY_NAME["preferred-election-by-znode"]
    assert fault_free_run(procedure.name).problems == ()
    monkeypatch.setattr("understudy.controller.failover._resume_preferred_elections", do_nothing)
    outcomes = failures(procedure, ControllerFault.KILL)
    left = [outcome for outcome in outcomes if "has not been handled" in str(outcome)]
    assert {outcome.at.point for outcome in left} >= {"partition.before_write", "preferred_election.before_write"}


def test_the_differences_between_two_settled_states_are_named() -> None:
    def state(leader: int, *replicas: int) -> SettledState:
        partition, assigned = TopicPartition("orders", 0), tuple(BrokerId(replica) for replica in replicas)
        return SettledState(
            assignments={partition: ReplicaAssignment(assigned)},
            leaders={partition: BrokerId(leader)},
            isrs={partition: assigned},
            configs={},
            leftover_znodes=(),
            unassigned_replicas=(),
        )

    assert differences(state(1, 1, 2), state(1, 1, 2)) == []
    assert differences(state(1, 1, 2), state(2, 1, 2)) == ["the leader of orders-0 is 2, without the fault it is 1"]
    assert [line.split(" is ")[0] for line in differences(state(1, 1, 2), state(1, 1, 3))] == [
        "the assignment of orders-0",
        "the ISR of orders-0",
    ]


def test_the_command_takes_every_fault() -> None:
    assert tuple(fault.value for fault in ControllerFault) == command.FAULTS
