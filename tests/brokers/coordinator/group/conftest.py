"""Fixtures of the tests of the group coordinator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.brokers.coordinator.group.parts import CoordinatorInVirtualTime


@pytest.fixture
def it() -> Iterator[CoordinatorInVirtualTime]:
    """The coordinator of the only partition, which has one replica."""
    made = CoordinatorInVirtualTime()
    yield made
    made.close()


@pytest.fixture
def replicated() -> Iterator[CoordinatorInVirtualTime]:
    """The same with a second replica, which has nothing until `replicate`."""
    made = CoordinatorInVirtualTime(replicas=(1, 2))
    yield made
    made.close()
