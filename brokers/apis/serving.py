"""Describes an API as this broker serves it: request, versions and handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.foundation.wire.schema import Message

R = TypeVar("R", bound=Message)


class CloseConnection(Exception):
    """The connection of a request has to be closed, because there is no answer to it. The message gives the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serves(Generic[R]):
    """One API as this broker serves it.

    Attributes:
        versions: the lowest and the highest version served.
        handle: answers a request; None if its sender expects no answer.
        recorded: whether `RequestReceived` and `ResponseSent` are written into the event log.
        fails_broker: whether an unexpected exception stops the broker, because the request may be applied in part.
        reading: for an API whose answer has more than the request names, returns the request without its effects. An
            armed answer is then made from the handler's answer to that; None for other APIs.
        gives_armed_answers: whether the handler gives armed answers itself.
    """

    request: type[R]
    versions: tuple[int, int]
    handle: Callable[[BrokerServices, R, RequestContext], Awaitable[Message | None]]
    recorded: bool = False
    fails_broker: bool = False
    reading: Callable[[R], R] | None = None
    gives_armed_answers: bool = False
