"""Tests of `broker_changes`: which brokers are new, dead or bounced."""

from __future__ import annotations

import pytest

from understudy.controller.broker_changes import BrokerChanges, broker_changes
from understudy.foundation.cluster.identifiers import BrokerId


def epochs(**brokers: int) -> dict[BrokerId, int]:
    return {BrokerId(int(name[1:])): epoch for name, epoch in brokers.items()}


@pytest.mark.spec("BR-6", "BUG-2")
@pytest.mark.parametrize(
    ("known", "registered", "new", "dead", "bounced"),
    [
        (epochs(), epochs(), (), (), ()),
        (epochs(b1=5), epochs(b1=5), (), (), ()),
        (epochs(), epochs(b3=9, b1=5), (1, 3), (), ()),
        (epochs(b3=9, b1=5), epochs(), (), (1, 3), ()),
        # registered again between two reads: only the epoch differs
        (epochs(b1=5, b2=6), epochs(b1=8, b2=6), (), (), (1,)),
        # an older epoch comes from an outdated read
        (epochs(b1=8), epochs(b1=5), (), (), ()),
        (epochs(b1=5, b2=6, b3=7), epochs(b2=16, b3=7, b4=17), (4,), (1,), (2,)),
    ],
)
def test_broker_changes(
    known: dict[BrokerId, int],
    registered: dict[BrokerId, int],
    new: tuple[BrokerId, ...],
    dead: tuple[BrokerId, ...],
    bounced: tuple[BrokerId, ...],
) -> None:
    changes = broker_changes(known, registered)
    assert changes == BrokerChanges(new, dead, bounced)
    assert changes.is_empty == (not new and not dead and not bounced)
