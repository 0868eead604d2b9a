"""Tests of what a client is answered about the election that it has requested."""

from __future__ import annotations

import asyncio

import pytest

from tests.controller.harness import TermHarness
from tests.controller.values import state
from understudy.controller import partition_state_machine, replica_leader_election
from understudy.controller.events import ElectionTrigger, ElectionType
from understudy.controller.partition_state_machine import Strategy
from understudy.controller.replica_leader_election import _result, on_replica_election
from understudy.controller.state_writes import Outcome, StateChangeFailed
from understudy.controller.transitions import PartitionState
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.zk.client import Failure

PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN


@pytest.mark.spec("PE-4")
@pytest.mark.parametrize(
    ("outcome", "election_type", "error", "message"),
    [
        (StateChangeFailed("no replica"), PREFERRED, Errors.PREFERRED_LEADER_NOT_AVAILABLE, "no replica"),
        (StateChangeFailed("no replica"), UNCLEAN, Errors.ELIGIBLE_LEADERS_NOT_AVAILABLE, "no replica"),
        (StateChangeFailed("gone", Failure.NO_NODE), UNCLEAN, Errors.ELIGIBLE_LEADERS_NOT_AVAILABLE, "gone"),
        (StateChangeFailed("odd", Failure.BAD_ARGUMENTS), UNCLEAN, Errors.ELIGIBLE_LEADERS_NOT_AVAILABLE, "odd"),
        (StateChangeFailed("again", Failure.BAD_VERSION), UNCLEAN, Errors.UNKNOWN_SERVER_ERROR, "again: BadVersion"),
    ],
)
def test_a_failed_election_is_answered_by_why_it_failed(
    outcome: Outcome, election_type: ElectionType, error: Errors, message: str
) -> None:
    answer = _result(outcome, election_type)
    assert isinstance(answer, ApiError)
    assert (answer.error, answer.message) == (error, message)


def test_an_election_is_answered_with_the_new_leader() -> None:
    assert _result(state(2, (2, 3)), PREFERRED) == 2


@pytest.mark.parametrize(
    ("election_type", "trigger", "expected"),
    [
        (PREFERRED, ElectionTrigger.AUTO, Strategy.PREFERRED),
        (UNCLEAN, ElectionTrigger.AUTO, Strategy.OFFLINE),
        (UNCLEAN, ElectionTrigger.ADMIN_CLIENT, Strategy.UNCLEAN),
    ],
)
def test_only_a_clients_request_elects_out_of_sync(
    election_type: ElectionType, trigger: ElectionTrigger, expected: Strategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[Strategy] = []

    async def elect(
        term: object, partitions: object, target: PartitionState, strategy: Strategy
    ) -> dict[TopicPartition, Outcome]:
        assert target is PartitionState.ONLINE
        chosen.append(strategy)
        return {}

    async def refresh(term: object, partitions: object) -> None: ...

    monkeypatch.setattr(replica_leader_election, "refresh_leadership", refresh)
    monkeypatch.setattr(partition_state_machine, "handle_state_changes", elect)
    with TermHarness({}) as harness:
        asyncio.run(on_replica_election(harness.term, [], election_type, trigger))
    assert chosen == [expected]
