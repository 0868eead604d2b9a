"""What an exception costs, and what the client hears: the one classification. Mirrors KRaft's
`EventHandlerExceptionInfo`.

Used in the event loop and nowhere else; procedures let everything pass.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from foundation.cluster.errors import ApiError, Errors
from foundation.zk.client import Failure
from foundation.zk.kafka_zk_client import ControllerMoved, SessionLost, ZooKeeperFailure
from foundation.zk.znodes import MalformedZNode


class Cost(Enum):
    NOTHING = "nothing"
    """The event failed; the controller goes on (EQ-4)."""
    WAIT_FOR_EXPIRE = "wait for Expire"
    """The session is gone. `Expire` is on its way and resigns; nothing can be asked of ZooKeeper before."""
    MAYBE_RESIGN = "maybe resign"
    """Somebody else is controller, unless `/controller` says otherwise (EL-14)."""
    MOVE_CONTROLLER = "move the controller"
    """Memory can no longer be trusted: resign and give `/controller` back (EL-8, EL-10)."""


class Fault(NamedTuple):
    cost: Cost
    answer: Errors
    outcome: str
    """As in the record `EventEnded`."""


def classify(failure: Exception, *, electing: bool) -> Fault:
    """
    Args:
        electing: the event was one that may make this broker controller.
    """
    match failure:
        case ControllerMoved():
            return Fault(Cost.MAYBE_RESIGN, Errors.NOT_CONTROLLER, "moved")
        case SessionLost():
            return Fault(Cost.WAIT_FOR_EXPIRE, Errors.NOT_CONTROLLER, type(failure).__name__)
        case ApiError():
            return Fault(Cost.NOTHING, failure.error, type(failure).__name__)
        case ZooKeeperFailure(failure=Failure.UNKNOWN):
            # Whether it was written nobody knows, so a state that memory takes for current may not be what ZooKeeper
            # holds.
            return Fault(Cost.MOVE_CONTROLLER, Errors.UNKNOWN_SERVER_ERROR, type(failure).__name__)
        case ZooKeeperFailure() | MalformedZNode() if not electing:
            return Fault(Cost.NOTHING, Errors.UNKNOWN_SERVER_ERROR, type(failure).__name__)
        case _:
            # Kafka logs a bug in an event and goes on with whatever the event left behind; we start again from
            # ZooKeeper.
            return Fault(Cost.MOVE_CONTROLLER, Errors.UNKNOWN_SERVER_ERROR, type(failure).__name__)
