"""Tests of what a client is answered about the election that it has requested."""

from __future__ import annotations

import pytest

from controller.events import ElectionType
from controller.replica_leader_election import _result
from controller.state_writes import Outcome, StateChangeFailed
from foundation.cluster.errors import ApiError, Errors
from foundation.zk.client import Failure
from tests.controller.values import state

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
