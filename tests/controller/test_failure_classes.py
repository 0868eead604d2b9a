"""Tests of failures of an event: the consequence for the term, the response, the recorded outcome."""

from __future__ import annotations

import pytest

from understudy.controller.failure_classes import Consequence, FailureClass, classify
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.zk.client import Failure
from understudy.foundation.zk.kafka_zk_client import ControllerMoved, SessionLost, ZooKeeperFailure
from understudy.foundation.zk.znodes import MalformedZNode


@pytest.mark.spec("EL-7", "EL-8", "EL-14", "EQ-4", "ZN-4")
@pytest.mark.parametrize(
    ("failure", "in_an_event", "while_electing"),
    [
        (ControllerMoved("x"), Consequence.MAYBE_RESIGN, Consequence.MAYBE_RESIGN),
        (SessionLost("x"), Consequence.WAIT_FOR_EXPIRE, Consequence.WAIT_FOR_EXPIRE),
        (ZooKeeperFailure(Failure.NO_AUTH, "/x"), Consequence.NOTHING, Consequence.MOVE_CONTROLLER),
        (ZooKeeperFailure(Failure.UNKNOWN, "/x"), Consequence.MOVE_CONTROLLER, Consequence.MOVE_CONTROLLER),
        (MalformedZNode("/x", "bad", b""), Consequence.NOTHING, Consequence.MOVE_CONTROLLER),
        (ApiError(Errors.STALE_BROKER_EPOCH, "x"), Consequence.NOTHING, Consequence.NOTHING),
        (KeyError("a bug"), Consequence.MOVE_CONTROLLER, Consequence.MOVE_CONTROLLER),
        (AssertionError("a bug"), Consequence.MOVE_CONTROLLER, Consequence.MOVE_CONTROLLER),
    ],
)
def test_the_consequence_of_a_failure(
    failure: Exception, in_an_event: Consequence, while_electing: Consequence
) -> None:
    assert classify(failure, electing=False).consequence is in_an_event
    assert classify(failure, electing=True).consequence is while_electing


@pytest.mark.parametrize(
    ("failure", "answer", "outcome"),
    [
        (ControllerMoved("x"), Errors.NOT_CONTROLLER, "moved"),
        (SessionLost("x"), Errors.NOT_CONTROLLER, "SessionLost"),
        (ApiError(Errors.STALE_BROKER_EPOCH, "x"), Errors.STALE_BROKER_EPOCH, "ApiError"),
        (ZooKeeperFailure(Failure.NO_AUTH, "/x"), Errors.UNKNOWN_SERVER_ERROR, "ZooKeeperFailure"),
        (ValueError("x"), Errors.UNKNOWN_SERVER_ERROR, "ValueError"),
    ],
)
def test_the_error_in_the_response_and_the_outcome_in_the_record(
    failure: Exception, answer: Errors, outcome: str
) -> None:
    found = classify(failure, electing=False)
    assert found == FailureClass(found.consequence, answer, outcome)
