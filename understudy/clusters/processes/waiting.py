"""Waits for processes to reach a state, for the clusters of this folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from understudy.clusters.cluster import Unsettled, WaitTimedOut
from understudy.clusters.findings import Finding, in_words

T = TypeVar("T")


class Wait(Protocol):
    """The method `wait_until` of a cluster."""

    def __call__(self, condition: Callable[[], bool], what: str, timeout_s: float) -> bool: ...


def wait_until(
    condition: Callable[[], T | None],
    what: str,
    timeout_s: float,
    *,
    poll_s: float,
    check: Callable[[], None],
    situation: Callable[[], str],
) -> T:
    """Evaluate `condition` repeatedly until it is true, and return its value. See `Cluster.wait_until`.

    Args:
        poll_s: the time between two evaluations.
        check: raises an error if the condition can no longer come true.
        situation: returns the end of the message of `WaitTimedOut`.
    """
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        check()
        if time.monotonic() > deadline:
            raise WaitTimedOut(f"not within {timeout_s:g} s: {what}{situation()}")
        time.sleep(poll_s)
    return value


def settle(wait: Wait, unresolved: Callable[[], Iterable[Finding]], timeout_s: float) -> None:
    """Wait until no finding is left that the live brokers must resolve.

    Raises:
        Unsettled: such findings were left after `timeout_s`.
    """
    left: tuple[Finding, ...] = ()

    def has_settled() -> bool:
        nonlocal left
        left = tuple(unresolved())
        return not left

    try:
        wait(has_settled, "the cluster has settled", timeout_s)
    except WaitTimedOut as timed_out:
        raise Unsettled(f"not settled: {in_words(left)}. {timed_out}") from None
