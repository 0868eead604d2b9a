"""`Serves`: a request, the versions this broker answers, and the handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from brokers.apis.services import BrokerServices, RequestContext
from foundation.wire.schema import Message

R = TypeVar("R", bound=Message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Serves(Generic[R]):
    """One API as this broker serves it.

    Attributes:
        versions: the lowest and the highest version answered.
        recorded: leaves `RequestReceived` and `ResponseSent` in the event log.
        changes_our_view: a fault while handling it leaves what this broker believes in doubt; the broker stops then.
    """

    request: type[R]
    versions: tuple[int, int]
    handle: Callable[[BrokerServices, R, RequestContext], Awaitable[Message]]
    recorded: bool = False
    changes_our_view: bool = False
