"""Which partitions may have lost acknowledged records, as their event logs show it."""

from __future__ import annotations

import pytest

from tests.understudy.checks.histories import envelope
from understudy.checks.replica_logs import partitions_that_may_have_lost
from understudy.foundation.eventlog.records import ContextLoaded, Leadership, LeadershipWritten, Payload

RECOVERED, RECOVERING = 0, 1


def leadership(topic: str, recovery_state: int) -> Leadership:
    return Leadership(topic, 0, 2, 10, (2,), 10, 8, recovery_state)


def written(why: str, recovery_state: int) -> Payload:
    return LeadershipWritten(why=why, partitions=(leadership("orders", recovery_state),))


def read(recovery_state: int) -> Payload:
    partitions = (leadership("orders", recovery_state), leadership("clicks", RECOVERED))
    return ContextLoaded(epoch=9, live_brokers=(), partitions=partitions, took_ms=1)


@pytest.mark.parametrize(
    ("data", "may_have_lost"),
    [
        pytest.param(written("unclean", RECOVERING), True, id="its controller has recorded an unclean election"),
        pytest.param(written("unclean", RECOVERED), True, id="the same, in a protocol without leader recovery states"),
        pytest.param(written("offline", RECOVERED), False, id="a clean election"),
        pytest.param(read(RECOVERING), True, id="the next controller reads one that was not recorded"),
        pytest.param(read(RECOVERED), False, id="the next controller reads a clean one"),
    ],
)
def test_partitions_with_an_unclean_election_may_have_lost(data: Payload, may_have_lost: bool) -> None:
    assert partitions_that_may_have_lost([envelope(data)]) == ({("orders", 0)} if may_have_lost else set())
