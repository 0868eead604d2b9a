from __future__ import annotations

import pytest

from controller.faults import Cost, Fault, classify
from foundation.cluster.errors import ApiError, Errors
from foundation.zk.client import Failure
from foundation.zk.kafka_zk_client import ControllerMoved, SessionLost, ZooKeeperFailure
from foundation.zk.znodes import MalformedZNode


@pytest.mark.spec("EL-7", "EL-8", "EL-14", "EQ-4", "ZN-4")
@pytest.mark.parametrize(
    ("failure", "in_an_event", "while_electing"),
    [
        (ControllerMoved("x"), Cost.MAYBE_RESIGN, Cost.MAYBE_RESIGN),
        (SessionLost("x"), Cost.WAIT_FOR_EXPIRE, Cost.WAIT_FOR_EXPIRE),
        (ZooKeeperFailure(Failure.NO_AUTH, "/x"), Cost.NOTHING, Cost.MOVE_CONTROLLER),
        (ZooKeeperFailure(Failure.UNKNOWN, "/x"), Cost.MOVE_CONTROLLER, Cost.MOVE_CONTROLLER),
        (MalformedZNode("/x", "bad", b""), Cost.NOTHING, Cost.MOVE_CONTROLLER),
        (ApiError(Errors.STALE_BROKER_EPOCH, "x"), Cost.NOTHING, Cost.NOTHING),
        (KeyError("a bug"), Cost.MOVE_CONTROLLER, Cost.MOVE_CONTROLLER),
        (AssertionError("a bug"), Cost.MOVE_CONTROLLER, Cost.MOVE_CONTROLLER),
    ],
)
def test_what_a_failure_costs(failure: Exception, in_an_event: Cost, while_electing: Cost) -> None:
    assert classify(failure, electing=False).cost is in_an_event
    assert classify(failure, electing=True).cost is while_electing


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
def test_what_the_caller_hears_and_the_record_says(failure: Exception, answer: Errors, outcome: str) -> None:
    fault = classify(failure, electing=False)
    assert fault == Fault(fault.cost, answer, outcome)
