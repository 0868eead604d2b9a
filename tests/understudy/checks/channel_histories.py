"""Histories of a controller's channels that check C11 must accept or reject."""

from __future__ import annotations

from tests.understudy.checks.histories import History, accepts, rejects
from understudy.foundation.eventlog.records import ChannelClosed, ChannelOpened, RequestQueued, RequestSent

OPENED = ChannelOpened(to=2, broker_epoch=2)
CLOSED = ChannelClosed(to=2, broker_epoch=2, dropped=1)


def queued(depth: int, *, to: int = 2) -> RequestQueued:
    return RequestQueued(to=to, api="UpdateMetadata", depth=depth)


def sent(queued: int = 0, *, to: int = 2, attempt: int = 1) -> RequestSent:
    return RequestSent(
        to=to, api="UpdateMetadata", api_version=7, client_id="1", correlation_id=0, attempt=attempt, queued=queued
    )


@accepts("C11")
def requests_are_sent_in_the_order_in_which_they_waited() -> History:
    history = History()
    history.log(1, OPENED, queued(1), queued(2), queued(1, to=3), sent(2), sent(4, to=3), sent(3), sent(attempt=2))
    return history


@accepts("C11")
def a_request_that_finds_its_channel_idle_does_not_wait() -> History:
    history = History()
    history.log(1, OPENED, queued(1), sent(2), sent(), queued(1), sent(5))
    return history


@accepts("C11")
def requests_that_waited_are_coalesced() -> History:
    history = History()
    history.log(1, OPENED, queued(1), queued(2), queued(3), queued(2), queued(3), sent(2), sent(5), sent(6))
    return history


@accepts("C11")
def requests_are_dropped_with_their_channel() -> History:
    history = History()
    history.log(1, OPENED, queued(1), CLOSED, OPENED, queued(1), sent(5))
    history.log(1, OPENED, queued(1), sent(8), incarnation=2)
    return history


@rejects("C11", "UpdateMetadata queued as 3 was sent to broker 2, though 2 was first")
def a_request_overtakes_another() -> History:
    history = History()
    history.log(1, OPENED, queued(1), queued(2), sent(3), sent(2))
    return history


@rejects("C11", "UpdateMetadata queued as 2 was sent to broker 2, though none waited")
def a_request_is_sent_after_it_was_dropped() -> History:
    history = History()
    history.log(1, OPENED, queued(1), CLOSED, OPENED, sent(2))
    return history


@rejects("C11", "UpdateMetadata queued as 3 was sent to broker 2, though 5 was first")
def a_request_is_sent_that_was_coalesced() -> History:
    history = History()
    history.log(1, OPENED, queued(1), queued(2), sent(2), queued(1), sent(3))
    return history


@rejects("C11", "though none waited")
def a_request_that_waited_is_sent_twice() -> History:
    history = History()
    history.log(1, OPENED, queued(1), sent(2), sent(2))
    return history
