"""Fixtures of the tests of the group coordinator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.brokers.coordinator.group.parts import CoordinatorHarness


@pytest.fixture
def harness() -> Iterator[CoordinatorHarness]:
    """The coordinator of the only partition, which has one replica."""
    made = CoordinatorHarness()
    yield made
    made.close()


@pytest.fixture
def replicated() -> Iterator[CoordinatorHarness]:
    """The same with a second replica, which has nothing until `replicate`."""
    made = CoordinatorHarness(replicas=(1, 2))
    yield made
    made.close()
