"""Classifies the exceptions of an event: what follows for the controller, and which error the client receives.

Used in the event loop and nowhere else: procedures let exceptions pass. Mirrors KRaft's `EventHandlerExceptionInfo`.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.zk.client import Failure
from understudy.foundation.zk.kafka_zk_client import ControllerMoved, SessionLost, ZooKeeperFailure
from understudy.foundation.zk.znodes import MalformedZNode


class Consequence(Enum):
    """What follows for the controller from an exception."""

    NOTHING = "nothing"
    """The event failed; the controller continues (EQ-4)."""
    WAIT_FOR_EXPIRE = "wait for Expire"
    """The session has expired. `Expire` will follow and resign; no request to ZooKeeper can succeed before."""
    MAYBE_RESIGN = "maybe resign"
    """Another broker may be controller: read `/controller`, and resign if it names another broker (EL-14)."""
    MOVE_CONTROLLER = "move the controller"
    """Memory can no longer be trusted: resign and delete `/controller` (EL-8, EL-10)."""


class FailureClass(NamedTuple):
    """The consequence of an exception, the error for the client and the outcome for the record."""

    consequence: Consequence
    answer: Errors
    outcome: str
    """As in the record `EventEnded`."""


def classify(failure: Exception, *, electing: bool) -> FailureClass:
    """Return the consequence, the client's error and the outcome of `failure`.

    Args:
        electing: whether the event was one that may make this broker controller.
    """
    match failure:
        case ControllerMoved():
            return FailureClass(Consequence.MAYBE_RESIGN, Errors.NOT_CONTROLLER, "moved")
        case SessionLost():
            return FailureClass(Consequence.WAIT_FOR_EXPIRE, Errors.NOT_CONTROLLER, type(failure).__name__)
        case ApiError():
            return FailureClass(Consequence.NOTHING, failure.error, type(failure).__name__)
        case ZooKeeperFailure(failure=Failure.UNKNOWN):
            # The write may or may not have happened, so memory may differ from what ZooKeeper holds.
            return FailureClass(Consequence.MOVE_CONTROLLER, Errors.UNKNOWN_SERVER_ERROR, type(failure).__name__)
        case ZooKeeperFailure() | MalformedZNode() if not electing:
            return FailureClass(Consequence.NOTHING, Errors.UNKNOWN_SERVER_ERROR, type(failure).__name__)
        case _:
            # Kafka logs an unexpected exception and continues with the context as the event left it. Here a new
            # controller reads everything again from ZooKeeper.
            return FailureClass(Consequence.MOVE_CONTROLLER, Errors.UNKNOWN_SERVER_ERROR, type(failure).__name__)
